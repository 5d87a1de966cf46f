package market

import (
	"math/big"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// SpotLine is a pool with its changes over a window, sorted by time; the first is the one in force when the window begins, where one was.
type SpotLine struct {
	State   SpotState // the newest, whatever the window
	Changes []SpotChange
}

// SpotOver is the price of an offering over a stretch of time: the mean of what QuoteSpot says from one change to the next, each price
// weighted by how long it was in force, to the nearest nano-unit. While a part of the stretch has no known price, neither has the whole.
// Zone, At and Source are those of the last part.
func (b *PriceBook) SpotOver(o fleet.Offering, lines []SpotLine, span fleet.Interval) SpotQuote {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l SpotLine) bool { return !l.State.speaksOf(o) })
	cuts := []time.Time{span.From}
	for _, l := range lines {
		for _, c := range l.Changes {
			if at := c.Time(); at.After(span.From) && at.Before(span.To) {
				cuts = append(cuts, at)
			}
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	cuts = slices.CompactFunc(cuts, time.Time.Equal)
	var last SpotQuote
	sum, total, known, stale := new(big.Int), int64(0), true, false
	first, same := fleet.Money(0), true
	for i, at := range cuts {
		last = b.QuoteSpot(o, statesAt(lines, at), at)
		stale = stale || last.Stale
		if last.Price == nil {
			known = false
			break
		}
		if i == 0 {
			first = *last.Price
		}
		to := span.To
		if i+1 < len(cuts) {
			to = cuts[i+1]
		}
		length := max(to.Sub(at).Milliseconds(), 0)
		same = same && *last.Price == first
		total += length
		sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(*last.Price)), big.NewInt(length)))
	}
	last.Stale = stale
	switch {
	case !known:
		last.Price = nil
	case !same && total > 0:
		sum.Add(sum, big.NewInt(total/2))
		mean := fleet.Money(sum.Div(sum, big.NewInt(total)).Int64()) // between prices, so it is one
		last.Price = &mean
	}
	return last
}

func statesAt(lines []SpotLine, at time.Time) []SpotState {
	states := make([]SpotState, 0, len(lines))
	for _, l := range lines {
		if c, ok := SpotAt(l.Changes, at.Unix()); ok {
			s := l.State
			s.Change = c
			states = append(states, s)
		}
	}
	return states
}
