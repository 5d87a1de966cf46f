package ledger

import (
	"math/bits"
	"slices"

	"plimsoll.dev/services/fleet"
)

// splitter divides amounts by largest remainder as fleet.Money.Split does, with the same result, in 128-bit integers and without
// allocating once it is warm. It is for one goroutine.
type splitter struct {
	rems  []remainder
	parts []fleet.Money
}

type remainder struct {
	i int
	r uint64
}

// split divides m over weights; the slice is good until the next call. rest is m when all weights are zero.
func (s *splitter) split(m fleet.Money, weights []int64) (parts []fleet.Money, rest fleet.Money) {
	var total, carry uint64
	for _, w := range weights {
		if w < 0 {
			return m.Split(weights) // says what is wrong
		}
		var c uint64
		total, c = bits.Add64(total, uint64(w), 0)
		carry |= c
	}
	if m < 0 || carry != 0 {
		return m.Split(weights)
	}
	s.parts = slices.Grow(s.parts[:0], len(weights))[:len(weights)]
	if total == 0 || m == 0 {
		clear(s.parts)
		if total == 0 {
			rest = m
		}
		return s.parts, rest
	}
	s.rems = s.rems[:0]
	left := uint64(m)
	for i, w := range weights {
		hi, lo := bits.Mul64(uint64(m), uint64(w)) //nolint:gosec // neither is negative
		q, r := bits.Div64(hi, lo, total)          // a weight is at most the total, so the quotient is at most m
		s.parts[i] = fleet.Money(q)                //nolint:gosec // at most m
		left -= q
		if r > 0 {
			s.rems = append(s.rems, remainder{i, r})
		}
	}
	if left == 0 {
		return s.parts, 0
	}
	slices.SortFunc(s.rems, func(a, b remainder) int {
		switch {
		case a.r > b.r:
			return -1
		case a.r < b.r:
			return 1
		}
		return a.i - b.i
	})
	for k := range left {
		s.parts[s.rems[k].i]++
	}
	return s.parts, 0
}
