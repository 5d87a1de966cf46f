package market

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// CheapestFilter selects Spot offers; a zero field does not filter.
type CheapestFilter struct {
	Cloud           fleet.Cloud
	Region          string
	InstanceTypes   []string
	GPUModel        fleet.GPUModel
	MinGPUs         int
	MinGPUMemoryMiB int64 // of one GPU
	MinCPUMilli     int64
	MinMemMiB       int64
	Limit           int // default 50, at most 1,000
}

// SpotOffer is a machine on Spot at the price of a moment.
type SpotOffer struct {
	Pool     SpotPool // without a zone where only the region's price is known
	Type     fleet.InstanceType
	Quote    SpotQuote
	OnDemand *fleet.Money
	PerGPU   *fleet.Money // nil: no GPU
	Discount *float64     // 1 - Spot / on demand
}

// SpotTypes lists the names of a cloud's types that fit, sorted.
func (b *PriceBook) SpotTypes(f CheapestFilter) []string {
	var names []string
	for i := range b.types {
		if f.fits(b.types[i].InstanceType) {
			names = append(names, b.types[i].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CheapestSpot ranks what can be had on Spot, cheapest per GPU first (per machine among those without one): the pools of states,
// and of the catalogue the regions that no state speaks of. Machines that the catalogue does not know, and pools without a Spot
// price, are left out.
func (b *PriceBook) CheapestSpot(states []SpotState, f CheapestFilter, now time.Time) []SpotOffer {
	if f.Limit <= 0 || f.Limit > 1000 {
		f.Limit = 50
	}
	var offers []SpotOffer
	type place struct {
		cloud           fleet.Cloud
		region, machine string
	}
	covered := map[place]bool{}
	for _, s := range states {
		it, ok := b.InstanceType(s.Pool.Cloud, s.Pool.InstanceType)
		if !ok || !f.fits(it) || s.Pool.Product != ProductLinux || f.Region != "" && f.Region != s.Pool.Region {
			continue
		}
		covered[place{s.Pool.Cloud, s.Pool.Region, s.Pool.InstanceType}] = true
		o := fleet.Offering{Cloud: s.Pool.Cloud, Region: s.Pool.Region, Zone: s.Pool.Zone, InstanceType: s.Pool.InstanceType}
		q := b.QuoteSpot(o, []SpotState{s}, now)
		if q.Price == nil {
			continue
		}
		list := s.Change.OnDemand.Money()
		if list == nil {
			list = b.Price(o).List
		}
		offers = append(offers, offerOf(s.Pool, it, q, list))
	}
	for i := range b.types {
		t := &b.types[i]
		if !f.fits(t.InstanceType) {
			continue
		}
		for _, r := range t.prices {
			if r.spot == nil || f.Region != "" && f.Region != r.region || covered[place{t.Cloud, r.region, t.Name}] {
				continue
			}
			o := fleet.Offering{Cloud: t.Cloud, Region: r.region, InstanceType: t.Name}
			offers = append(offers, offerOf(SpotPool{t.Cloud, r.region, "", t.Name, ProductLinux}, t.InstanceType, b.QuoteSpot(o, nil, now), clone(r.onDemand)))
		}
	}
	slices.SortFunc(offers, func(a, c SpotOffer) int {
		return cmp.Or(cmp.Compare(a.unit(), c.unit()), a.Pool.Compare(c.Pool))
	})
	return offers[:min(f.Limit, len(offers))]
}

func (f CheapestFilter) fits(t fleet.InstanceType) bool {
	return (f.Cloud == "" || f.Cloud == t.Cloud) && (len(f.InstanceTypes) == 0 || slices.Contains(f.InstanceTypes, t.Name)) &&
		(f.GPUModel == "" || f.GPUModel == t.GPUModel) && t.GPUCount >= f.MinGPUs && t.GPUMemoryMiB >= f.MinGPUMemoryMiB &&
		t.CPUMilli >= f.MinCPUMilli && t.MemMiB >= f.MinMemMiB
}

func offerOf(p SpotPool, it fleet.InstanceType, q SpotQuote, list *fleet.Money) SpotOffer {
	o := SpotOffer{Pool: p, Type: it, Quote: q, OnDemand: list}
	if it.GPUCount > 0 {
		per := q.Price.MulDiv(1, int64(it.GPUCount))
		o.PerGPU = &per
	}
	if list != nil && *list > 0 {
		d := 1 - float64(*q.Price)/float64(*list)
		o.Discount = &d
	}
	return o
}

// unit is what offers are ranked by.
func (o SpotOffer) unit() fleet.Money {
	if o.PerGPU != nil {
		return *o.PerGPU
	}
	return *o.Quote.Price
}
