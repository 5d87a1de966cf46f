package ledger

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

func TestTheFastSplitIsTheExactOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := fleet.Money(rapid.OneOf(rapid.Int64Range(-1000, 1000), rapid.Int64Range(0, math.MaxInt64/2)).Draw(t, "amount"))
		weights := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 9), rapid.Int64Range(0, maxUnits)), 0, 40).Draw(t, "weights")
		want, wantRest := m.Split(weights)
		var s splitter
		s.split(7, []int64{3, 4}) // what an earlier split left behind does not matter
		got, rest := s.split(m, weights)
		if !slices.Equal(want, got) || rest != wantRest {
			t.Fatalf("%d over %v: %v and %d, want %v and %d", m, weights, got, rest, want, wantRest)
		}
	})
}
