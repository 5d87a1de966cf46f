package fleet

import (
	"math"
	"testing"
	"time"
)

func TestASignalIsBelievedOnlyWhenFreshAndUndisputed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	at := func(age time.Duration, v float64) Signal {
		return Signal{Samples: []Sample{{At: now.Add(-age), Value: v}}}
	}
	disputed := at(0, 1)
	disputed.Conflicting = true
	staleAndDisputed := at(time.Hour, 1)
	staleAndDisputed.Conflicting = true
	for _, c := range []struct {
		name string
		s    Signal
		want Truth
	}{
		{"nothing was ever said", Signal{}, TruthMissing},
		{"just now", at(0, 1), TruthFresh},
		{"zero is a value", at(0, 0), TruthFresh},
		{"as old as allowed", at(45*time.Second, 1), TruthFresh},
		{"older", at(45*time.Second+time.Nanosecond, 1), TruthStale},
		{"from a clock that is a little ahead", at(-45*time.Second, 1), TruthFresh},
		{"from the future", at(-46*time.Second, 1), TruthStale},
		{"not a number", at(0, math.NaN()), TruthMissing},
		{"without end", at(0, math.Inf(1)), TruthMissing},
		{"two sources disagree", disputed, TruthConflicting},
		{"long ago two sources disagreed", staleAndDisputed, TruthConflicting},
	} {
		if got := c.s.Truth(now, 45*time.Second); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestTheStricterModeCounts(t *testing.T) {
	t.Parallel()
	order := []Mode{"nonsense", ModeObserve, ModeRecommend, ModeApprove, ModeEnforce} // an unknown mode allows least
	for i, a := range order {
		for j, b := range order {
			if got := Stricter(a, b); got != order[min(i, j)] {
				t.Errorf("of %s and %s counts %s", a, b, got)
			}
		}
	}
}
