package market

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"plimsoll.dev/services/fleet"
)

// SpotPool is where machines of one type are sold under one Spot price.
type SpotPool struct {
	Cloud        fleet.Cloud
	Region       string
	Zone         string // empty: the price holds for the whole region
	InstanceType string
	Product      string // the operating system, or what else is priced
}

// Products that prices are of. A price of the accelerator alone is never one of a machine.
const (
	ProductLinux       = "Linux/UNIX"
	ProductAccelerator = "accelerator"
)

// Compare orders pools by cloud, region, type, zone and product.
func (p SpotPool) Compare(o SpotPool) int {
	return cmp.Or(cmp.Compare(p.Cloud, o.Cloud), cmp.Compare(p.Region, o.Region), cmp.Compare(p.InstanceType, o.InstanceType),
		cmp.Compare(p.Zone, o.Zone), cmp.Compare(p.Product, o.Product))
}

// Listed is a price per machine-hour in nano-units, as a source lists it. The zero value means that the source lists none, which
// is not a price of zero: sources have no such prices, and the guard keeps rows that claim one out of the history.
type Listed int64

// Money is the price, nil when none is listed.
func (l Listed) Money() *fleet.Money {
	if l <= 0 {
		return nil
	}
	m := fleet.Money(l)
	return &m
}

// ListedOf turns a price that may be unknown into what a history keeps.
func ListedOf(m *fleet.Money) Listed {
	if m == nil || *m <= 0 {
		return 0
	}
	return Listed(*m)
}

// SpotChange is the state of a pool from a moment until its next change. Neither price listed: the pool is gone from the list;
// only the on-demand price listed: no Spot there.
type SpotChange struct {
	At       int64 // Unix seconds
	Spot     Listed
	OnDemand Listed
}

// Time of the change, UTC.
func (c SpotChange) Time() time.Time { return time.Unix(c.At, 0).UTC() }

// same says whether two changes lead to the same state.
func (c SpotChange) same(o SpotChange) bool { return c.Spot == o.Spot && c.OnDemand == o.OnDemand }

// SpotAt is the change in force at a moment; false before the first one. changes are sorted by time.
func SpotAt(changes []SpotChange, at int64) (SpotChange, bool) {
	n := sort.Search(len(changes), func(i int) bool { return changes[i].At > at })
	if n == 0 {
		return SpotChange{}, false
	}
	return changes[n-1], true
}

// SpotState is the state of a pool at a moment, and how fresh the knowledge of it is.
type SpotState struct {
	Pool   SpotPool
	Change SpotChange // in force; its time says since when
	SeenAt time.Time  // when a source was last heard about the pool
	Source string
}

// SpotFreshFor is how long after a source was heard its price counts as of now. AWS repeats an unchanged price within 24 hours.
const SpotFreshFor = 26 * time.Hour

// Stale says whether nobody was heard about the pool for too long before now.
func (s SpotState) Stale(now time.Time) bool { return now.Sub(s.SeenAt) > SpotFreshFor }

// SpotQuote is the best knowledge of an offering's Spot price at a moment.
type SpotQuote struct {
	Price  *fleet.Money // per machine-hour; nil: unknown, or no Spot there
	Zone   string       // where it holds; empty: the whole region
	At     time.Time    // since when the price holds, or the date of the catalogue
	Source string
	Stale  bool // older than SpotFreshFor; it may be wrong by now
}

// QuoteSpot answers for an offering from the states of its pools at a moment, and from the catalogue where that is nearer in time. An
// offering without a zone gets the cheapest zone, one with a zone its own or the region's price. A fresh "no Spot there" is an
// answer too: the catalogue does not overrule it.
func (b *PriceBook) QuoteSpot(o fleet.Offering, states []SpotState, now time.Time) SpotQuote {
	o.Purchase = fleet.PurchaseSpot
	listed := b.Price(o)
	quote := SpotQuote{Price: listed.Effective, At: listed.Valid.From, Source: listed.Source, Stale: now.Sub(listed.Valid.From) > SpotFreshFor}
	if listed.Effective == nil {
		quote = SpotQuote{Stale: true}
	}
	catalogue, found := quote, false
	for _, s := range states {
		if !s.speaksOf(o) || s.Change.At > now.Unix() || catalogue.Price != nil && now.Sub(s.SeenAt) >= now.Sub(catalogue.At).Abs() {
			continue // the catalogue is nearer
		}
		q := SpotQuote{Price: s.Change.Spot.Money(), Zone: s.Pool.Zone, At: s.Change.Time(), Source: s.Source, Stale: s.Stale(now)}
		if !found || q.better(quote) {
			quote, found = q, true
		}
	}
	return quote
}

func (s SpotState) speaksOf(o fleet.Offering) bool {
	p := s.Pool
	return p.Cloud == o.Cloud && p.Region == o.Region && p.InstanceType == o.InstanceType && p.Product == ProductLinux &&
		(o.Zone == "" || p.Zone == "" || p.Zone == o.Zone)
}

// better prefers fresh over stale, a price over none, and the lower price.
func (q SpotQuote) better(o SpotQuote) bool {
	switch {
	case q.Stale != o.Stale:
		return o.Stale
	case (q.Price == nil) != (o.Price == nil):
		return q.Price != nil
	case q.Price == nil:
		return false
	}
	return *q.Price < *o.Price
}

// sortChanges orders by time and keeps the order of equal times.
func sortChanges(changes []SpotChange) {
	slices.SortStableFunc(changes, func(a, b SpotChange) int { return cmp.Compare(a.At, b.At) })
}
