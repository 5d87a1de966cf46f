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
	if k := slices.Index(in.Open, g.name); k >= 0 {
		np.Consolidate = 1
		if k < len(in.Shares) {
			np.Consolidate = in.Shares[k]
		}
	}
	return np
}

// rest are the pools for pods that the plan does not know yet or has no machine for: everything that can be bought, last by weight, so
// that a pod never waits for the next plan. Machines with GPUs are apart where they are tainted.
func (in *Input) rest(s Settings) []NodePool {
	var out []NodePool
	for _, gpu := range []bool{false, true} {
		types, zones, ways, archs := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
		for j := range in.Offerings {
			o := &in.Offerings[j]
			if in.usable(j) && o.Purchase != fleet.PurchaseReserved && (o.GPUCount > 0 == gpu || !s.TaintGPUs && !gpu) {
				types[o.InstanceType], zones[o.Zone], ways[capacityType(o.Purchase)], archs[o.Arch] = true, true, true, true
			}
		}
		if len(types) == 0 || gpu && !s.TaintGPUs {
			continue
		}
		name := Prefix + "rest"
		if gpu {
			name += "-gpu"
		}
		np := NodePool{Name: name, Weight: lastWeight, Class: s.Class, TaintGPUs: gpu && s.TaintGPUs, EmptyAfterSec: s.EmptyAfterSec, Why: "rest"}
		if s.MaxNodes > 0 {
			n := s.MaxNodes
			np.Nodes = &n
		}
		np.Requirements = []Requirement{
			{Key: LabelCapacityType, Values: sorted(ways)}, {Key: LabelArch, Values: sorted(archs)},
			{Key: LabelInstanceType, Values: bounded(sorted(types))}, {Key: LabelZone, Values: sorted(zones)},
		}
		out = append(out, np)
	}
	return out
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
