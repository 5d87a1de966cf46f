package store

import (
	"context"
	"slices"
	"time"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// SpotPrices is the Spot history of some machines within a window, with the price book where it knows nothing nearer in time.
type SpotPrices struct {
	book  *market.PriceBook
	zones map[string]string // ids by the tenant's names
	lines map[spotPlace][]market.SpotLine
	known map[spotAsked]commitment.Known
}

type spotPlace struct {
	cloud        fleet.Cloud
	region, name string
}

type spotRegion struct {
	cloud  fleet.Cloud
	region string
}

type spotAsked struct {
	offering fleet.Offering
	from, to time.Time
}

func placeOf(o fleet.Offering) spotPlace { return spotPlace{o.Cloud, o.Region, o.InstanceType} }

// SpotPricesOver reads the history of those offerings that are Spot; a window without length is a moment.
func SpotPricesOver(ctx context.Context, tx *Tx, book *market.PriceBook, window fleet.Interval, offerings []fleet.Offering) (*SpotPrices, error) {
	p := &SpotPrices{book: book, lines: map[spotPlace][]market.SpotLine{}, known: map[spotAsked]commitment.Known{}}
	asked := map[spotRegion][]string{}
	for _, o := range offerings {
		if o.Purchase == fleet.PurchaseSpot {
			at := spotRegion{o.Cloud, o.Region}
			asked[at] = append(asked[at], o.InstanceType)
		}
	}
	if len(asked) == 0 {
		return p, nil
	}
	var err error
	if p.zones, err = ZoneIDs(ctx, tx); err != nil {
		return nil, err
	}
	for at, types := range asked {
		slices.Sort(types)
		f := SpotFilter{Cloud: at.cloud, Region: at.region, InstanceTypes: slices.Compact(types), Product: market.ProductLinux}
		var lines []market.SpotLine
		if window.To.After(window.From) {
			if lines, err = SpotHistory(ctx, tx, f, window.From, window.To); err != nil {
				return nil, err
			}
		} else {
			states, err := SpotStates(ctx, tx, f, window.From)
			if err != nil {
				return nil, err
			}
			for _, s := range states {
				lines = append(lines, market.SpotLine{State: s, Changes: []market.SpotChange{s.Change}})
			}
		}
		for _, l := range lines {
			place := spotPlace{l.State.Pool.Cloud, l.State.Pool.Region, l.State.Pool.InstanceType}
			p.lines[place] = append(p.lines[place], l)
		}
	}
	return p, nil
}

// Over is the price of an offering's machine as Spot over a stretch of the window. A price that changed within the stretch counts for as long as
// it was in force.
func (p *SpotPrices) Over(o fleet.Offering, span fleet.Interval) commitment.Known {
	o.Purchase = fleet.PurchaseSpot
	lines := p.lines[placeOf(o)]
	// A zone goes by the account's name for it; prices that were read from AWS are kept under its id.
	if id, ok := p.zones[o.Zone]; ok && slices.ContainsFunc(lines, func(l market.SpotLine) bool { return l.State.Pool.Zone == id }) {
		o.Zone = id
	}
	key := spotAsked{o, span.From, span.To}
	known, ok := p.known[key]
	if !ok {
		q := p.book.SpotOver(o, lines, span)
		known = commitment.Known{Hour: q.Price, Source: q.Source, AsOf: q.At, Stale: q.Stale}
		p.known[key] = known
	}
	return known
}

// Candidate is what is known of an offering's prices over a stretch of the window: prices, then for Spot the history.
func (p *SpotPrices) Candidate(prices *commitment.Prices, o fleet.Offering, seen fleet.InstanceType, span fleet.Interval) commitment.Candidate {
	c := prices.Of(o, seen, span.From)
	if o.Purchase == fleet.PurchaseSpot {
		c.Spot = p.Over(o, span)
	}
	return c
}
