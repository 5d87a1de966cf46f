package packing

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
)

// Rules are what a pod asks beyond sizes. Pods of one workload share one value; nil asks for nothing.
type Rules struct {
	Workload     string     // whose replica it is; MaxPoolMilli counts by it
	Class        Class      // how early it is left out for want of budget; empty: standard
	Labels       []string   // the label groups it belongs to, which the terms of others name
	Tolerates    []string   // taints it may stand on; "*": all
	Where        []Selector // all must hold for the offering
	GPUMemMiB    int64      // least memory of each GPU; a GPU of unknown memory does not satisfy it
	MIG          string     // MIG profile, such as 1g.10gb: GPUCount counts instances of it
	Affinity     []Term     // a pod of the label must be in the same place
	AntiAffinity []Term     // no other pod of the label may be in the same place; holds both ways
	Spread       []Spread
	Gang         string // pods of a gang run all or none, on machines of one offering in one interconnect domain
	MaxPoolMilli int64  // at most this share of the workload, in thousandths, on one offering (rounded down, but one at least); 0: no limit
}

// Class is a place in the order in which pods are left out when the budget is too small.
type Class string

// The classes, first left out first. Gold is never left out for money.
const (
	ClassBatch    Class = "batch"
	ClassEconomy  Class = "economy"
	ClassStandard Class = "standard"
	ClassGold     Class = "gold"
)

// Topology is the kind of place that terms speak of.
type Topology string

// The topologies.
const (
	TopologyNode Topology = "node"
	TopologyZone Topology = "zone"
)

// Term names pods by a label group and a place. An affinity term of a pod that is itself of the group is met where all of the group are.
type Term struct {
	Label string
	Topology
}

// Spread bounds how unevenly pods of a label group lie. By zone, a zone that has the pod may have at most MaxSkew more of the group than the
// emptiest zone in which the pod could run. By node, a machine that has the pod holds at most MaxSkew of the group, since an
// empty machine can always be added.
type Spread struct {
	Label string
	Topology
	MaxSkew int64
	Soft    bool // schedule anyway where it costs more than Options.SoftMilli allows
}

// Selector holds for an offering if its value for Key is one of Values (with Not: none of them). Keys: cloud, region, zone, instance_type,
// family, capacity_type, gpu_model, arch, pool, reservation_id; any other is a label of the offering.
type Selector struct {
	Key    string
	Values []string
	Not    bool
}

// Limit is a cap or quota over the offerings that Where selects.
type Limit struct {
	Name     string
	Where    []Selector
	Resource Resource
	Max      int64 // machines, vCPUs, GPUs; of cost nano-units per hour
}

// Resource is what a limit counts.
type Resource string

// The resources.
const (
	ResourceNodes Resource = "nodes"
	ResourceVCPU  Resource = "vcpu" // an offering of unknown vCPUs counts its allocatable CPU, rounded up
	ResourceGPU   Resource = "gpu"
	ResourceCost  Resource = "cost"
)

// Equivalence says that a pod which accepts model For also runs on model Use within its SLO.
type Equivalence struct{ For, Use fleet.GPUModel }

func (o *Offering) value(key string) (string, bool) {
	switch key {
	case "cloud":
		return string(o.Cloud), true
	case "region":
		return o.Region, true
	case "zone":
		return o.Zone, true
	case "instance_type":
		return o.InstanceType, true
	case "family":
		return o.Family, true
	case "capacity_type":
		return string(o.Purchase), true
	case "gpu_model":
		return string(o.GPUModel), true
	case "arch":
		return o.Arch, true
	case "pool":
		return o.Pool, true
	case "reservation_id":
		return o.ReservationID, true
	}
	for _, l := range o.Labels {
		if k, v, _ := strings.Cut(l, "="); k == key {
			return v, true
		}
	}
	return "", false
}

func (s *Selector) holds(o *Offering) bool {
	v, ok := o.value(s.Key)
	return (ok && slices.Contains(s.Values, v)) != s.Not
}

func selected(where []Selector, o *Offering) bool {
	for i := range where {
		if !where[i].holds(o) {
			return false
		}
	}
	return true
}

func tolerated(r *Rules, o *Offering) bool {
	for _, t := range o.Taints {
		if r == nil || (!slices.Contains(r.Tolerates, t) && !slices.Contains(r.Tolerates, "*")) {
			return false
		}
	}
	return true
}

// weighed is the price by which an offering is chosen: an interruption is paid twice over (p (1 + 2 h), optimizer.md section 5).
func (o *Offering) weighed() fleet.Money {
	return o.Price.MulDiv(1000+2*o.HazardMilli, 1000)
}

// key tells rules apart.
func (r *Rules) key() string {
	if r == nil {
		return ""
	}
	var b strings.Builder
	list := func(v ...string) { b.WriteString(quoted(v)) }
	b.WriteString(r.own())
	list(r.Workload)
	list(string(r.class()))
	list(r.Labels...)
	list(r.Gang, strconv.FormatInt(r.MaxPoolMilli, 10))
	for _, terms := range [][]Term{r.Affinity, r.AntiAffinity} {
		for _, t := range terms {
			list(t.Label + "@" + string(t.Topology))
		}
		b.WriteByte('|')
	}
	for _, s := range r.Spread {
		b.WriteString(strconv.Quote(s.Label) + string(s.Topology) + strconv.FormatInt(s.MaxSkew, 10) + strconv.FormatBool(s.Soft))
	}
	return b.String()
}

// own tells apart what rules ask of one machine, whatever else is on it or beside it.
func (r *Rules) own() string {
	if len(r.Tolerates) == 0 && len(r.Where) == 0 && r.GPUMemMiB == 0 && r.MIG == "" {
		return ""
	}
	out := quoted(r.Tolerates)
	for _, s := range r.Where {
		out += quoted([]string{s.Key, strconv.FormatBool(s.Not)}) + quoted(s.Values)
	}
	return out + quoted([]string{r.MIG, strconv.FormatInt(r.GPUMemMiB, 10)})
}

// quoted is a set of words, the same in any order.
func quoted(v []string) string {
	v = slices.Clone(v)
	sort.Strings(v)
	var b strings.Builder
	for _, s := range v {
		b.WriteString(strconv.Quote(s))
	}
	b.WriteByte(';')
	return b.String()
}

func (r *Rules) class() Class {
	if r == nil || r.Class == "" {
		return ClassStandard
	}
	return r.Class
}

func (r *Rules) has(label string) bool { return r != nil && slices.Contains(r.Labels, label) }

// across tells whether the rules bind pods on different machines.
func (r *Rules) across() bool {
	if r == nil {
		return false
	}
	zone := func(t Term) bool { return t.Topology == TopologyZone }
	return r.Gang != "" || r.MaxPoolMilli > 0 || slices.ContainsFunc(r.Affinity, zone) || slices.ContainsFunc(r.AntiAffinity, zone) ||
		slices.ContainsFunc(r.Spread, func(s Spread) bool { return s.Topology == TopologyZone })
}

func (r *Rules) validate() error {
	if r == nil {
		return nil
	}
	switch r.class() {
	case ClassBatch, ClassEconomy, ClassStandard, ClassGold:
	default:
		return fleet.Errorf(fleet.CodeInvalid, "class %q: want batch, economy, standard or gold", r.Class)
	}
	if r.GPUMemMiB < 0 || r.MaxPoolMilli < 0 || r.MaxPoolMilli > 1000 {
		return fleet.Errorf(fleet.CodeInvalid, "GPU memory is %d MiB, share per pool %d thousandths: want zero or more, and at most 1000", r.GPUMemMiB, r.MaxPoolMilli)
	}
	if r.MIG != "" && !knownProfile(r.MIG) {
		return fleet.Errorf(fleet.CodeInvalid, "no GPU model has the MIG profile %q", r.MIG)
	}
	topology := func(label string, t Topology) error {
		if label == "" || (t != TopologyNode && t != TopologyZone) {
			return fleet.Errorf(fleet.CodeInvalid, "term %q by %q: want a label and node or zone", label, t)
		}
		return nil
	}
	for _, t := range append(slices.Clone(r.Affinity), r.AntiAffinity...) {
		if err := topology(t.Label, t.Topology); err != nil {
			return err
		}
	}
	for _, s := range r.Spread {
		if err := topology(s.Label, s.Topology); err != nil {
			return err
		}
		if s.MaxSkew < 1 || s.MaxSkew > maxPods {
			return fleet.Errorf(fleet.CodeInvalid, "spread of %q has a max skew of %d: want one or more", s.Label, s.MaxSkew)
		}
	}
	return nil
}

func (l *Limit) validate() error {
	switch l.Resource {
	case ResourceNodes, ResourceVCPU, ResourceGPU, ResourceCost:
	default:
		return fleet.Errorf(fleet.CodeInvalid, "limit %q counts %q: want nodes, vcpu, gpu or cost", l.Name, l.Resource)
	}
	if l.Max < 0 {
		return fleet.Errorf(fleet.CodeInvalid, "limit %q is below zero", l.Name)
	}
	return nil
}

// of is what one machine of an offering takes from the limit; zero if it does not count.
func (l *Limit) of(o *Offering) int64 {
	if !priced(o) || !selected(l.Where, o) {
		return 0
	}
	switch l.Resource {
	case ResourceNodes:
		return 1
	case ResourceVCPU:
		if o.VCPU > 0 {
			return o.VCPU
		}
		return (o.CPUMilli + 999) / 1000
	case ResourceGPU:
		return o.GPUCount
	case ResourceCost:
		return int64(*o.Price)
	}
	return 0
}
