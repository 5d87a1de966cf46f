package quantile

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestLatenessToSpareIsSpentAndOverspendingEndsIt(t *testing.T) {
	t.Parallel()
	p := Params{}.WithDefaults()
	tests := []struct {
		name     string
		hours    int
		late     float64 // share of every hour's requests
		from, to float64 // times the target that the choice may go by
	}{
		{"nothing was served yet", 0, 0, 1, 1},
		{"a day without a late request spends nothing in advance", 24, 0, 1, 1},
		{"three weeks without a late request may be spent, up to a bound", 504, 0, 2, math.Exp(budgetMost)},
		{"on target it goes by the target", 504, p.target(), 0.999, 1.001},
		{"a fifth over the target it goes by less", 504, 1.2 * p.target(), 0.6, 0.95},
		{"far over the target it goes by half, no less: a burst is over", 504, 0.5, math.Exp(budgetLeast), math.Exp(budgetLeast)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := budget{}
			for range tc.hours {
				b.endHour(tc.late*1000, 1000)
			}
			if got := b.spend(&p, float64(tc.hours)); got < tc.from-1e-9 || got > tc.to+1e-9 {
				t.Errorf("%.3f times the target; want %.3f to %.3f", got, tc.from, tc.to)
			}
		})
	}
}

func TestWhatMayBeSpentFallsWithWhatWasLate(t *testing.T) {
	t.Parallel()
	p := Params{}.WithDefaults()
	rapid.Check(t, func(t *rapid.T) {
		less, more := budget{}, budget{}
		hours := rapid.IntRange(1, 400).Draw(t, "hours")
		for range hours {
			requests := rapid.Float64Range(0, 1e6).Draw(t, "requests")
			share := rapid.Float64Range(0, 1).Draw(t, "late")
			less.endHour(share*requests, requests)
			more.endHour(min(1, share+rapid.Float64Range(0, 1).Draw(t, "more"))*requests, requests)
		}
		a, b := less.spend(&p, float64(hours)), more.spend(&p, float64(hours))
		if !(b <= a+1e-12) || b < math.Exp(budgetLeast)-1e-12 || a > math.Exp(budgetMost)+1e-12 {
			t.Fatalf("%v times the target, and %v after more was late", a, b)
		}
	})
}

// A load whose bursts make everything late is told from a calm one within a day, by all shadows together.
func TestALateLoadIsToldFromACalmOne(t *testing.T) {
	t.Parallel()
	after := func(jump float64) *Policy {
		c := New(Params{})
		level := 10.0
		for i := range daySlots {
			if i%120 == 0 {
				level = 10
				if (i/120)%3 == 1 {
					level += jump
				}
			}
			c.Step(Gauges{Busy: level, Rate: 3 * level})
		}
		return c
	}
	calm, late := after(0.5), after(15)
	if calm.scale >= scaleFirst || late.scale <= 2*calm.scale {
		t.Errorf("a calm load is %.1f times as late as elsewhere, one that jumps %.1f times; a new one is taken to be %d times", calm.scale, late.scale, scaleFirst)
	}
}

// The line that the demand is rarely over must be one: learned on one day, it holds on the next.
func TestTheUpperLineIsRarelyExceeded(t *testing.T) {
	t.Parallel()
	c := New(Params{})
	f := &c.casts[CastUpper]
	state, over, n := uint64(7), 0, 0
	level := 10.0
	for i := range 3 * daySlots {
		state = state*6364136223846793005 + 1442695040888963407
		u := float64(state>>11) / (1 << 53)
		if i%80 == 0 {
			level = 6 + 8*u
		}
		if i > daySlots+f.lead {
			n++
			if c.past.mean(c.past.n-judged, c.past.n) > f.means[f.n%f.lead] {
				over++
			}
		}
		c.Step(Gauges{Busy: level + u, Rate: level})
	}
	if share := float64(over) / float64(n); share < 0.01 || share > 0.12 {
		t.Errorf("the demand was over the line in %.3f of the slots; want about %.2f", share, 1-upperShare)
	}
}
