package market

import (
	"cmp"
	"slices"

	"plimsoll.dev/services/fleet"
)

// Link is how the GPUs of one machine reach each other.
type Link string

// Links. An empty one is unknown.
const (
	LinkNone           Link = "none" // one GPU
	LinkPCIe           Link = "pcie"
	LinkNVLink         Link = "nvlink"          // some pairs only
	LinkNVSwitch       Link = "nvswitch"        // each with each
	LinkInfinityFabric Link = "infinity_fabric" // AMD's
)

// Fabric is how the GPUs of several machines reach each other without the processor.
type Fabric string

// Fabrics. An empty one is unknown.
const (
	FabricNone       Fabric = "none" // the network only
	FabricEFA        Fabric = "efa"
	FabricInfiniBand Fabric = "infiniband"
	FabricGPUDirect  Fabric = "gpudirect"
)

// Traits of a machine beyond its size. What is nil or empty is unknown, which is never the same as none.
type Traits struct {
	NetworkMbps  *int64 // AWS: what it always has; Azure and Google: the most it is sold with
	LocalDiskGiB *int64 // NVMe in the machine; 0: none
	Link         Link
	LinkGBps     *int64 // gigabytes a second of one GPU, both directions together
	Fabric       Fabric
	FabricGbps   *int64 // gigabits a second of the machine
	AddressPods  *int64 // pods that the network interfaces have addresses for; AWS only
}

// or fills what is unknown from other.
func (t Traits) or(other Traits) Traits {
	return Traits{
		NetworkMbps: cmp.Or(t.NetworkMbps, other.NetworkMbps), LocalDiskGiB: cmp.Or(t.LocalDiskGiB, other.LocalDiskGiB),
		Link: cmp.Or(t.Link, other.Link), LinkGBps: cmp.Or(t.LinkGBps, other.LinkGBps),
		Fabric: cmp.Or(t.Fabric, other.Fabric), FabricGbps: cmp.Or(t.FabricGbps, other.FabricGbps), AddressPods: cmp.Or(t.AddressPods, other.AddressPods),
	}
}

// Machine is a type with its traits.
type Machine struct {
	fleet.InstanceType
	Traits
}

// Machine finds a type and its traits by cloud and name.
func (b *PriceBook) Machine(cloud fleet.Cloud, name string) (Machine, bool) {
	i, ok := b.index[typeKey{cloud, name}]
	if !ok {
		return Machine{}, false
	}
	return Machine{b.types[i].InstanceType, b.types[i].traits}, true
}

// MIGProfile is a way to cut a part out of a GPU.
type MIGProfile struct {
	Name string // such as 1g.10gb: compute slices of seven (RTX PRO 6000 and A30: of four), and memory
	Most int    // of it at once on one GPU
}

// MIG lists the profiles of a GPU model, largest number first. known is false for a model that the book has no word on; a known model
// without profiles cannot be split. Source: NVIDIA MIG user guide, supported MIG profiles.
func (b *PriceBook) MIG(model fleet.GPUModel) (profiles []MIGProfile, known bool) {
	profiles, known = b.mig[model]
	return slices.Clone(profiles), known
}

// Doubt is a price of the catalogue that its guard did not believe: it is not used, and unknown to everything that reads prices.
type Doubt struct {
	Region   string
	Purchase fleet.Purchase // on demand or Spot
	Hour     fleet.Money    // as listed
	Expected fleet.Money    // about what it was held against
	Reason   string         // above_on_demand, off_on_demand or off_peers
}

// Doubts lists the prices of a type in quarantine, by region.
func (b *PriceBook) Doubts(cloud fleet.Cloud, name string) []Doubt {
	i, ok := b.index[typeKey{cloud, name}]
	if !ok {
		return nil
	}
	return slices.Clone(b.types[i].doubts)
}

// DoubtCount is how many prices are in quarantine.
func (b *PriceBook) DoubtCount() (n int) {
	for i := range b.types {
		n += len(b.types[i].doubts)
	}
	return n
}

// Coverage says in which regions a cloud's machines have a price.
type Coverage struct {
	Cloud    fleet.Cloud
	Priced   []string // at least one type has an on-demand price; sorted
	Unpriced []string // machines are known to be sold, at a price that is not known; sorted
}

// Coverage of all clouds, sorted.
func (b *PriceBook) Coverage() []Coverage {
	priced := map[regionKey]bool{}
	for i := range b.types {
		for _, r := range b.types[i].prices {
			k := regionKey{b.types[i].Cloud, r.region}
			priced[k] = priced[k] || r.onDemand != nil
		}
	}
	byCloud := map[fleet.Cloud]*Coverage{}
	for k, has := range priced {
		c := byCloud[k.cloud]
		if c == nil {
			c = &Coverage{Cloud: k.cloud}
			byCloud[k.cloud] = c
		}
		if has {
			c.Priced = append(c.Priced, k.region)
		} else {
			c.Unpriced = append(c.Unpriced, k.region)
		}
	}
	out := make([]Coverage, 0, len(byCloud))
	for _, c := range byCloud {
		slices.Sort(c.Priced)
		slices.Sort(c.Unpriced)
		out = append(out, *c)
	}
	slices.SortFunc(out, func(x, y Coverage) int { return cmp.Compare(x.Cloud, y.Cloud) })
	return out
}

// RegionCount says in how many regions a type is known to be sold, and in how many of them its on-demand price is known.
func (b *PriceBook) RegionCount(cloud fleet.Cloud, name string) (sold, priced int) {
	i, ok := b.index[typeKey{cloud, name}]
	if !ok {
		return 0, 0
	}
	for _, r := range b.types[i].prices {
		sold++
		if r.onDemand != nil {
			priced++
		}
	}
	return sold, priced
}

// Peers is the median of a type's on-demand prices in other regions than the one given; false when none is known. Regions differ by less
// than twice, so one is enough to tell a price that is many times off.
func (b *PriceBook) Peers(cloud fleet.Cloud, name, region string) (fleet.Money, bool) {
	i, ok := b.index[typeKey{cloud, name}]
	if !ok {
		return 0, false
	}
	var all []fleet.Money
	for _, r := range b.types[i].prices {
		if r.region != region && r.onDemand != nil {
			all = append(all, *r.onDemand)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[len(all)/2], true
}
