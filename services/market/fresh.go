package market

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// ListPrice is what a cloud listed for a machine on demand from a moment on, as it was read from the cloud itself.
type ListPrice struct {
	Cloud        fleet.Cloud
	Region       string
	InstanceType string
	From         time.Time
	Hour         fleet.Money
	Source       string    // who said so
	SeenAt       time.Time // when it was last said
}

type freshKey struct {
	cloud        fleet.Cloud
	region, name string
}

// With returns a book that knows more than this one: machines that it lacks, and prices that were read from the clouds since. Of a
// price's history the newest counts, or, after At, the one in force then. What is not in prices stays as it is here: a price that nobody
// could read again is old, not unknown. Machines that the book knows keep its
// size; of their traits, what a cloud told counts. prices may be in any order.
func (b *PriceBook) With(types []Machine, prices []ListPrice) *PriceBook {
	out := *b
	out.index, out.types = make(map[typeKey]int, len(b.types)+len(types)), slices.Clone(b.types)
	for _, t := range types {
		if i, known := b.index[typeKey{t.Cloud, t.Name}]; known {
			out.types[i].traits = t.or(out.types[i].traits)
		} else {
			out.types = append(out.types, listed{InstanceType: t.InstanceType, traits: t.Traits})
		}
	}
	slices.SortStableFunc(out.types, func(x, y listed) int { return cmp.Or(cmp.Compare(x.Cloud, y.Cloud), cmp.Compare(x.Name, y.Name)) })
	out.types = slices.CompactFunc(out.types, func(x, y listed) bool { return x.Cloud == y.Cloud && x.Name == y.Name })
	for i := range out.types {
		out.index[typeKey{out.types[i].Cloud, out.types[i].Name}] = i
	}
	out.fresh = maps.Clone(b.fresh)
	if out.fresh == nil {
		out.fresh = map[freshKey][]ListPrice{}
	}
	for _, p := range prices {
		if _, known := out.index[typeKey{p.Cloud, p.InstanceType}]; known && p.Hour > 0 && p.Hour <= maxHourlyNano {
			k := freshKey{p.Cloud, p.Region, p.InstanceType}
			out.fresh[k] = append(slices.Clip(out.fresh[k]), p)
		}
	}
	for k, history := range out.fresh {
		slices.SortStableFunc(history, func(x, y ListPrice) int { return x.From.Compare(y.From) })
		out.types[out.index[typeKey{k.cloud, k.name}]].list(k.region, history[len(history)-1].Hour)
	}
	return &out
}

// list sets the price of a region on a copy of the type's prices, which other books share.
func (t *listed) list(region string, hour fleet.Money) {
	t.prices = slices.Clone(t.prices)
	i, found := slices.BinarySearchFunc(t.prices, region, func(r regionPrice, name string) int { return cmp.Compare(r.region, name) })
	if !found {
		t.prices = slices.Insert(t.prices, i, regionPrice{region: region})
	}
	t.prices[i].onDemand = &hour
}

// At returns the book as it speaks of a moment in the past: of prices with a history, the one in force then counts, the oldest one
// before all of them. Search always speaks of the present.
func (b *PriceBook) At(t time.Time) *PriceBook {
	if len(b.fresh) == 0 {
		return b
	}
	out := *b
	out.at = t
	return &out
}

// freshest finds what was read from the cloud itself about an offering's machine.
func (b *PriceBook) freshest(o fleet.Offering) (ListPrice, bool) {
	history := b.fresh[freshKey{o.Cloud, o.Region, o.InstanceType}]
	if len(history) == 0 {
		return ListPrice{}, false
	}
	if b.at.IsZero() {
		return history[len(history)-1], true
	}
	for i := len(history) - 1; i > 0; i-- {
		if !history[i].From.After(b.at) {
			return history[i], true
		}
	}
	return history[0], true
}

// Changes lists the moments at which prices of the book change, sorted: between two of them At speaks of the same prices.
func (b *PriceBook) Changes() []time.Time {
	var out []time.Time
	for _, history := range b.fresh {
		for _, p := range history[1:] {
			out = append(out, p.From)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}

// Fresh says how many machines' prices were read from a cloud itself, and the oldest moment at which one of them was last heard.
func (b *PriceBook) Fresh(cloud fleet.Cloud) (count int, oldest time.Time) {
	for k, history := range b.fresh {
		seen := history[len(history)-1].SeenAt
		if k.cloud != cloud {
			continue
		}
		if count++; count == 1 || seen.Before(oldest) {
			oldest = seen
		}
	}
	return count, oldest
}
