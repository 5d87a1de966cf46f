package market

import (
	"sort"
	"strings"

	"plimsoll.dev/services/fleet"
)

// Filter of a search; a zero field does not filter.
type Filter struct {
	Text            string // part of the type's name or of its GPU model, any case
	Cloud           fleet.Cloud
	Region          string
	GPUModel        fleet.GPUModel
	MinGPUs         int
	MinGPUMemoryMiB int64 // of one GPU
	MinCPUMilli     int64
	MinMemMiB       int64
	MIG             bool           // GPUs that can be split
	MinNetworkMbps  int64          // what is not known does not fit
	MinLocalDiskGiB int64          // likewise
	Fabric          Fabric         // any: "any" of them
	Purchase        fleet.Purchase // default on demand; what Price is for
	Limit           int            // default 50, at most 1,000
}

// Hit is a type that a search found, in the region where it is cheapest among those asked for. Price.Effective is nil when no
// region has a known price for it.
type Hit struct {
	Type   Machine
	Region string
	Price  fleet.Price
}

// Search returns the types that fit, cheapest first, unknown prices last, then by cloud and name. total is how many there are
// before the limit.
func (b *PriceBook) Search(f Filter) (hits []Hit, total int) {
	if f.Purchase == "" {
		f.Purchase = fleet.PurchaseOnDemand
	}
	if f.Limit <= 0 || f.Limit > 1000 {
		f.Limit = 50
	}
	for i := range b.types {
		if t := &b.types[i]; f.fits(t.InstanceType) && b.suits(t, f) {
			if hit, ok := b.cheapest(t, f); ok {
				hits = append(hits, hit)
			}
		}
	}
	sort.SliceStable(hits, func(i, j int) bool {
		a, c := hits[i].Price.Effective, hits[j].Price.Effective
		if a == nil || c == nil {
			return a != nil && c == nil
		}
		return *a < *c
	})
	total = len(hits)
	return hits[:min(f.Limit, total)], total
}

func (f Filter) fits(t fleet.InstanceType) bool {
	text := strings.ToLower(f.Text)
	return (f.Cloud == "" || f.Cloud == t.Cloud) &&
		(f.GPUModel == "" || f.GPUModel == t.GPUModel) &&
		t.GPUCount >= f.MinGPUs && t.GPUMemoryMiB >= f.MinGPUMemoryMiB &&
		t.CPUMilli >= f.MinCPUMilli && t.MemMiB >= f.MinMemMiB &&
		(text == "" || strings.Contains(strings.ToLower(t.Name), text) || strings.Contains(strings.ToLower(string(t.GPUModel)), text))
}

// FabricAny stands for every fabric in a filter.
const FabricAny Fabric = "any"

// suits says whether a type has the traits that are asked for.
func (b *PriceBook) suits(t *listed, f Filter) bool {
	if f.MIG && (t.GPUCount == 0 || len(b.mig[t.GPUModel]) == 0) {
		return false
	}
	enough := func(have *int64, least int64) bool { return least <= 0 || have != nil && *have >= least }
	fabric := f.Fabric == "" || t.traits.Fabric == f.Fabric || f.Fabric == FabricAny && t.traits.Fabric != "" && t.traits.Fabric != FabricNone
	return fabric && enough(t.traits.NetworkMbps, f.MinNetworkMbps) && enough(t.traits.LocalDiskGiB, f.MinLocalDiskGiB)
}

// cheapest picks the region; a region that the book does not list for the type is no hit.
func (b *PriceBook) cheapest(t *listed, f Filter) (Hit, bool) {
	var best *regionPrice
	price := func(r *regionPrice) *fleet.Money {
		if f.Purchase == fleet.PurchaseSpot {
			return r.spot
		}
		return r.onDemand
	}
	for i := range t.prices {
		r := &t.prices[i]
		if f.Region != "" && f.Region != r.region {
			continue
		}
		if p := price(r); best == nil || p != nil && (price(best) == nil || *p < *price(best)) {
			best = r
		}
	}
	if best == nil {
		return Hit{}, false
	}
	p := b.Price(fleet.Offering{Cloud: t.Cloud, Region: best.region, InstanceType: t.Name, Purchase: f.Purchase})
	return Hit{Type: Machine{t.InstanceType, t.traits}, Region: best.region, Price: p}, true
}
