package karpenter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// emit writes the pools of the best play, those that only keep what runs, and those for the rest.
func (in *Input) emit(p *Plan, s Settings, pools []*group, best outcome) {
	named := map[string]bool{}
	weight := int32(firstWeight)
	for _, g := range best.order {
		pool := pools[g]
		buys := best.bought[g]
		if s.Capped {
			buys = int64(pool.count)
		}
		left := int64(0) // of a reservation: what is paid for is used before anything is bought, also by pods that no plan knows yet
		if !s.Capped && in.Offerings[pool.offs[0]].Purchase == fleet.PurchaseReserved {
			left = max(in.stock(pool)-buys, 0)
		}
		limit := pool.runs + buys + left
		if limit == 0 {
			continue
		}
		np := in.pool(pool, s, limit)
		np.Weight, np.Why = weight, "plan"
		switch {
		case buys == 0 && left > 0:
			np.Weight, np.Why = spareWeight, "reserved"
		case buys == 0:
			np.Weight, np.Why = spareWeight, "running"
		case weight > spareWeight+1:
			weight--
		}
		named[np.Name] = true
		p.Pools = append(p.Pools, np)
	}
	for _, np := range in.rest(s) {
		named[np.Name] = true
		p.Pools = append(p.Pools, np)
	}
	for _, np := range in.owned(s) {
		named[np.Name] = true
		p.Pools = append(p.Pools, np)
	}
	for _, name := range slices.Sorted(slices.Values(in.Pools)) {
		if named[name] {
			continue
		}
		if np := in.kept(name, s); np != nil && strings.HasPrefix(name, Prefix) { // a pool of others is given back, whatever runs in it
			p.Pools = append(p.Pools, *np)
		} else {
			p.Retire = append(p.Retire, name)
		}
	}
	for i := range p.Pools {
		if strings.HasPrefix(p.Pools[i].Name, Prefix) { // of pools that others made the template stays as it is
			p.Pools[i].Template = s.Template
		}
	}
}

// owned are the pools that others made and that we were told to own: what they may bring, their node class, labels and taints stay as they are, but they come
// after all of ours, nothing in them is replaced for money unless the plan says so, and under a cap they keep what they have.
func (in *Input) owned(s Settings) (out []NodePool) {
	names := slices.Compact(slices.Sorted(slices.Values(in.Owned)))
	for _, name := range names {
		np := NodePool{Name: name, Weight: ownedWeight, EmptyAfterSec: s.EmptyAfterSec, Why: "owned", Consolidate: in.open(name)}
		if s.Capped {
			n := in.inPool(name)
			np.Nodes = &n
		}
		out = append(out, np)
	}
	return out
}

// kept is a pool of ours that the plan has no use for, as wide as what runs in it and closed for more; nil: nothing runs in it.
func (in *Input) kept(name string, s Settings) *NodePool {
	types, zones, ways, archs := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	np := &NodePool{Name: name, Weight: spareWeight, Class: s.Class, EmptyAfterSec: s.EmptyAfterSec, Why: "running", Consolidate: in.open(name)}
	nodes := int64(0)
	for _, m := range in.Running {
		if m.Pool != name {
			continue
		}
		o := &in.Offerings[m.Offering]
		if labels, taints := in.custom(m.Offering); nodes == 0 {
			np.Labels, np.Taints = labels, taints
		} else { // what its machines share
			maps.DeleteFunc(np.Labels, func(k, v string) bool { return labels[k] != v })
			np.Taints = slices.DeleteFunc(np.Taints, func(t string) bool { return !slices.Contains(taints, t) })
		}
		types[o.InstanceType], zones[o.Zone], ways[capacityType(o.Purchase)], archs[o.Arch] = true, true, true, true
		np.TaintGPUs = np.TaintGPUs || s.TaintGPUs && o.GPUCount > 0
		nodes++
	}
	if nodes == 0 {
		return nil
	}
	np.Nodes = &nodes
	np.Requirements = []Requirement{
		{Key: LabelCapacityType, Values: sorted(ways)}, {Key: LabelArch, Values: sorted(archs)},
		{Key: LabelInstanceType, Values: sorted(types)}, {Key: LabelZone, Values: sorted(zones)},
	}
	return np
}

func (in *Input) pool(g *group, s Settings, nodes int64) NodePool {
	o := &in.Offerings[g.offs[0]]
	types, zones := map[string]bool{}, map[string]bool{}
	for _, j := range g.offs {
		types[in.Offerings[j].InstanceType], zones[in.Offerings[j].Zone] = true, true
	}
	for _, m := range in.Running { // never narrower than what runs in it
		if m.Pool == g.name {
			types[in.Offerings[m.Offering].InstanceType], zones[in.Offerings[m.Offering].Zone] = true, true
		}
	}
	np := NodePool{Name: g.name, Nodes: &nodes, Class: s.Class, TaintGPUs: s.TaintGPUs && o.GPUCount > 0, EmptyAfterSec: s.EmptyAfterSec}
	if o.VCPU > 0 {
		np.CPUMilli = nodes*o.VCPU*1000 + o.VCPU*500
	} else {
		np.CPUMilli = nodes*o.CPUMilli + o.CPUMilli/2
	}
	np.CPUMilli = max(np.CPUMilli, in.cpu(g.name)) // dearer types of the pool may have a little more
	np.Requirements = []Requirement{
		{Key: LabelCapacityType, Values: []string{capacityType(o.Purchase)}},
		{Key: LabelArch, Values: []string{o.Arch}},
		{Key: LabelInstanceType, Values: sorted(types)},
		{Key: LabelZone, Values: sorted(zones)},
	}
	if o.Purchase == fleet.PurchaseReserved && s.ReservationKey != "" {
		np.Requirements = append(np.Requirements, Requirement{Key: s.ReservationKey, Values: strings.Split(o.ReservationID, ",")})
	}
	np.Labels, np.Taints = in.custom(g.offs[0]) // as the plan counted on, whatever type the claim becomes
	np.Consolidate = in.open(g.name)
	return np
}

// notOurs are the parts of label keys and taints that the cloud, Kubernetes or Karpenter write themselves: a NodePool may not, or need not.
var notOurs = []string{"kubernetes.io", "k8s.io", "karpenter.sh", "k8s.aws", "amazonaws.com", "google.com", "azure.com", "nvidia.com", "cilium.io"}

// byOthers tells whether a label or taint of a machine is written by whoever makes it.
func byOthers(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && slices.ContainsFunc(notOurs, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

// custom are the labels and taints of an offering that its pool must put on new machines: copies.
func (in *Input) custom(j int) (labels map[string]string, taints []string) {
	if j < len(in.Labels) {
		for k, v := range in.Labels[j] {
			if byOthers(k) {
				continue
			}
			if labels == nil {
				labels = map[string]string{}
			}
			labels[k] = v
		}
	}
	for _, t := range in.Offerings[j].Taints {
		if key, _, _ := strings.Cut(t, "="); !byOthers(key) {
			taints = append(taints, t)
		}
	}
	slices.Sort(taints)
	return labels, slices.Compact(taints)
}

// inPool counts the machines that run in a pool.
func (in *Input) inPool(pool string) int64 {
	n := int64(0)
	for _, m := range in.Running {
		if m.Pool == pool {
			n++
		}
	}
	return n
}

// cpu of the machines that run in a pool, in thousandths.
func (in *Input) cpu(pool string) int64 {
	n := int64(0)
	for _, m := range in.Running {
		if m.Pool == pool {
			o := &in.Offerings[m.Offering]
			n += max(o.VCPU*1000, o.CPUMilli)
		}
	}
	return n
}

// rest are the pools for pods that the plan does not know yet or has no machine for: everything that can be bought, last by weight, so
// that a pod never waits for the next plan. A claim takes pods for as long as any of its types has room for them, so each number of GPUs
// is a pool of its own, the fewest first: in one pool for all, two pods with one GPU would share a machine with eight, and pods that could
// have a cheap machine each would join the claim of one that needs a large one. Spot comes before on demand for the same reason: a pod
// that must not be on Spot would make the claim one on demand for all in it.
func (in *Input) rest(s Settings) []NodePool {
	counts := map[int64]bool{}
	for j := range in.Offerings {
		if in.forRest(j) {
			counts[in.Offerings[j].GPUCount] = true
		}
	}
	tiers := slices.Sorted(maps.Keys(counts))
	var out []NodePool
	for k, from := range tiers {
		if k >= maxTiers {
			break
		}
		to := from
		if k == maxTiers-1 { // what is left is one pool
			to = tiers[len(tiers)-1]
		}
		name := "rest"
		if from > 0 {
			name = fmt.Sprintf("rest-gpu%d", from)
		}
		out = in.restPool(out, s, name+"-spot", func(o *packing.Offering) bool {
			return o.Purchase == fleet.PurchaseSpot && o.GPUCount >= from && o.GPUCount <= to
		})
		out = in.restPool(out, s, name, func(o *packing.Offering) bool {
			return o.Purchase != fleet.PurchaseSpot && o.GPUCount >= from && o.GPUCount <= to
		})
	}
	least := 1
	if len(in.Owned) > 0 {
		least = ownedWeight + 1
	}
	for k := range out {
		out[k].Weight = int32(len(out) - 1 - k + least) //nolint:gosec // two for each tier
	}
	return out
}

func (in *Input) forRest(j int) bool {
	return in.Offerings[j].Purchase != fleet.PurchaseReserved && in.usable(j)
}

func (in *Input) restPool(out []NodePool, s Settings, name string, of func(*packing.Offering) bool) []NodePool {
	zones, ways, archs := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var offs []int
	gpu := false
	for j := range in.Offerings {
		if o := &in.Offerings[j]; in.forRest(j) && of(o) {
			offs = append(offs, j)
			zones[o.Zone], ways[capacityType(o.Purchase)], archs[o.Arch] = true, true, true
			gpu = gpu || o.GPUCount > 0
		}
	}
	if len(offs) == 0 {
		return out
	}
	np := NodePool{Name: Prefix + name, Class: s.Class, TaintGPUs: gpu && s.TaintGPUs, EmptyAfterSec: s.EmptyAfterSec, Why: "rest"}
	np.Labels, np.Taints = maps.Clone(s.Template.Labels), slices.Sorted(slices.Values(s.Template.Taints))
	switch n := in.inPool(np.Name); {
	case s.Capped:
		np.Nodes = &n
	case s.MaxNodes > 0:
		n = max(s.MaxNodes, n)
		np.Nodes = &n
	}
	np.Requirements = []Requirement{
		{Key: LabelCapacityType, Values: sorted(ways)}, {Key: LabelArch, Values: sorted(archs)},
		{Key: LabelInstanceType, Values: in.cheapest(offs, maxValues)}, {Key: LabelZone, Values: sorted(zones)},
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
