package karpenter

import (
	"fmt"
	"slices"

	"plimsoll.dev/services/fleet"
)

// emit writes the pools of the best play, those that only keep what runs, and the one for the rest.
func (in *Input) emit(p *Plan, s Settings, pools []*group, best outcome) {
	named := map[string]bool{}
	weight := int32(firstWeight)
	for _, g := range best.order {
		pool := pools[g]
		limit := pool.runs + best.bought[g]
		if limit == 0 {
			continue
		}
		np := in.pool(pool, s, limit)
		np.Weight, np.Why = weight, "plan"
		if best.bought[g] == 0 {
			np.Weight, np.Why = spareWeight, "running"
		} else if weight > spareWeight+1 {
			weight--
		}
		named[np.Name] = true
		p.Pools = append(p.Pools, np)
	}
	for _, np := range in.rest(s) {
		named[np.Name] = true
		p.Pools = append(p.Pools, np)
	}
	busy := map[string]bool{}
	for _, m := range in.Running {
		busy[m.Pool] = true
	}
	for _, name := range slices.Sorted(slices.Values(in.Pools)) {
		if !named[name] && !busy[name] {
			p.Retire = append(p.Retire, name)
		}
	}
}

func (in *Input) pool(g *group, s Settings, nodes int64) NodePool {
	o := &in.Offerings[g.offs[0]]
	var zones []string
	for _, j := range g.offs {
		zones = append(zones, in.Offerings[j].Zone)
	}
	for _, m := range in.Running { // never narrower than what runs in it
		if m.Pool == g.name {
			zones = append(zones, in.Offerings[m.Offering].Zone)
		}
	}
	slices.Sort(zones)
	np := NodePool{Name: g.name, Nodes: &nodes, Class: s.Class, TaintGPUs: s.TaintGPUs && o.GPUCount > 0, EmptyAfterSec: s.EmptyAfterSec}
	if o.VCPU > 0 {
		np.CPUMilli = nodes*o.VCPU*1000 + o.VCPU*500
	} else {
		np.CPUMilli = nodes*o.CPUMilli + o.CPUMilli/2
	}
	np.Requirements = []Requirement{
		{Key: LabelCapacityType, Values: []string{capacityType(o.Purchase)}},
		{Key: LabelArch, Values: []string{o.Arch}},
		{Key: LabelInstanceType, Values: []string{o.InstanceType}},
		{Key: LabelZone, Values: slices.Compact(zones)},
	}
	if o.Purchase == fleet.PurchaseReserved && s.ReservationKey != "" {
		np.Requirements = append(np.Requirements, Requirement{Key: s.ReservationKey, Values: []string{o.ReservationID}})
	}
	np.Consolidate = in.open(g.name)
	return np
}

// rest are the pools for pods that the plan does not know yet or has no machine for: everything that can be bought, last by weight, so
// that a pod never waits for the next plan. Machines with GPUs are apart where they are tainted, and those with one GPU come first:
// Karpenter would put pods with one GPU each on a machine with eight.
func (in *Input) rest(s Settings) []NodePool {
	if !s.TaintGPUs {
		return in.restPool(nil, s, "rest", lastWeight, func(int64) bool { return true })
	}
	out := in.restPool(nil, s, "rest", lastWeight, func(gpus int64) bool { return gpus == 0 })
	out = in.restPool(out, s, "rest-one-gpu", smallWeight, func(gpus int64) bool { return gpus == 1 })
	return in.restPool(out, s, "rest-gpu", lastWeight, func(gpus int64) bool { return gpus > 0 })
}

func (in *Input) restPool(out []NodePool, s Settings, name string, weight int32, of func(gpus int64) bool) []NodePool {
	types, zones, ways, archs := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	gpu := false
	for j := range in.Offerings {
		o := &in.Offerings[j]
		if of(o.GPUCount) && o.Purchase != fleet.PurchaseReserved && in.usable(j) {
			types[o.InstanceType], zones[o.Zone], ways[capacityType(o.Purchase)], archs[o.Arch] = true, true, true, true
			gpu = gpu || o.GPUCount > 0
		}
	}
	if len(types) == 0 {
		return out
	}
	np := NodePool{Name: Prefix + name, Weight: weight, Class: s.Class, TaintGPUs: gpu && s.TaintGPUs, EmptyAfterSec: s.EmptyAfterSec, Why: "rest"}
	if s.MaxNodes > 0 {
		n := s.MaxNodes
		np.Nodes = &n
	}
	np.Requirements = []Requirement{
		{Key: LabelCapacityType, Values: sorted(ways)}, {Key: LabelArch, Values: sorted(archs)},
		{Key: LabelInstanceType, Values: bounded(sorted(types))}, {Key: LabelZone, Values: sorted(zones)},
	}
	np.Consolidate = in.open(np.Name)
	return append(out, np)
}

// open is how many machines of a pool Karpenter may replace or end for money at a time.
func (in *Input) open(pool string) int64 {
	k := slices.Index(in.Open, pool)
	switch {
	case k < 0:
		return 0
	case k < len(in.Shares):
		return in.Shares[k]
	}
	return 1
}

// overlays tell Karpenter the effective price of whatever it would price otherwise, one for each price, way and zone.
func (in *Input) overlays() []NodeOverlay {
	type key struct {
		price     fleet.Money
		way, zone string
	}
	by := map[key][]string{}
	for j := range in.Offerings {
		o := &in.Offerings[j]
		if !in.usable(j) || in.Listed != nil && in.Listed[j] != nil && *in.Listed[j] == *o.Price {
			continue
		}
		k := key{*o.Price, capacityType(o.Purchase), o.Zone}
		by[k] = append(by[k], o.InstanceType)
	}
	out := make([]NodeOverlay, 0, len(by))
	for k, types := range by {
		slices.Sort(types)
		types = slices.Compact(types)
		out = append(out, NodeOverlay{Name: fmt.Sprintf("%s%s-%s-%s", Prefix, k.way, slug(k.zone), hash(fmt.Sprint(types))), Weight: 100, Price: k.price,
			Requirements: []Requirement{{Key: LabelInstanceType, Values: types}, {Key: LabelCapacityType, Values: []string{k.way}}, {Key: LabelZone, Values: []string{k.zone}}}})
	}
	slices.SortFunc(out, func(a, b NodeOverlay) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	if len(out) > maxOverlays {
		out = out[:maxOverlays]
	}
	return out
}

func capacityType(p fleet.Purchase) string {
	switch p {
	case fleet.PurchaseSpot:
		return "spot"
	case fleet.PurchaseReserved:
		return "reserved"
	default:
		return "on-demand"
	}
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for s := range set {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

func bounded(s []string) []string { return s[:min(len(s), maxValues)] }
