package packing

import (
	"strings"

	"plimsoll.dev/services/fleet"
)

// Unplaced is a pod that no machine of the answer holds.
type Unplaced struct {
	Pod     int
	Reasons []Reason
	Blocked []Constraint // the fewest constraints (at most three) that no offering meets together; nil: some offering would hold the pod
}

// Constraint names what stood in the way.
type Constraint string

// The constraints, in the order in which reasons are told.
const (
	ConstraintPrice    Constraint = "price"      // the price is unknown or zero
	ConstraintArch     Constraint = "arch"       // built for another architecture
	ConstraintSpot     Constraint = "spot"       // Spot, and the pod may not
	ConstraintModel    Constraint = "gpu_model"  // no GPU of an acceptable model
	ConstraintGPUs     Constraint = "gpu_count"  // too few GPUs
	ConstraintCPUOnGPU Constraint = "cpu_on_gpu" // a machine with GPUs, kept from pods without
	ConstraintCPU      Constraint = "cpu"
	ConstraintMemory   Constraint = "memory"
	ConstraintMaxPods  Constraint = "max_pods"
	ConstraintStock    Constraint = "stock"  // none left
	ConstraintTaint    Constraint = "taint"  // a taint the pod does not tolerate
	ConstraintWhere    Constraint = "where"  // not where the pod asks to be
	ConstraintDriver   Constraint = "driver" // the GPU's driver is older than the pod asks, or not known
	ConstraintCUDA     Constraint = "cuda"   // the driver runs no CUDA so new, or it is not known
	ConstraintCompute  Constraint = "compute_capability"
	ConstraintGPUMem   Constraint = "gpu_memory" // too little memory per GPU, or not known
	ConstraintMIG      Constraint = "mig"        // no such MIG instances
	ConstraintLimit    Constraint = "limit"      // a cap or quota is used up or smaller than one machine
	ConstraintAffinity Constraint = "affinity"   // what must be beside it is not
	ConstraintAnti     Constraint = "anti_affinity"
	ConstraintSpread   Constraint = "spread"
	ConstraintGang     Constraint = "gang"
	ConstraintPoolMost Constraint = "pool_share"
	ConstraintBudget   Constraint = "budget"
)

var constraints = []Constraint{ConstraintPrice, ConstraintArch, ConstraintSpot, ConstraintModel, ConstraintGPUs, ConstraintCPUOnGPU,
	ConstraintCPU, ConstraintMemory, ConstraintMaxPods, ConstraintStock, ConstraintTaint, ConstraintWhere, ConstraintGPUMem, ConstraintMIG, ConstraintLimit, ConstraintDriver, ConstraintCUDA, ConstraintCompute}

// FitPrefix begins the key of a Selector that is about drivers: what follows, up to a slash, is the constraint that is told.
const FitPrefix = "fit/"

// fitFails tells which constraints about drivers an offering fails, and whether it fails a selector of any other kind.
func fitFails(r *Rules, o *Offering) (driver, cuda, compute, other bool) {
	if r == nil {
		return
	}
	for i := range r.Where {
		if selected(r.Where[i:i+1], o) {
			continue
		}
		what, fit := strings.CutPrefix(r.Where[i].Key, FitPrefix)
		what, _, _ = strings.Cut(what, "/")
		switch {
		case fit && what == string(ConstraintDriver):
			driver = true
		case fit && what == string(ConstraintCUDA):
			cuda = true
		case fit && what == string(ConstraintCompute):
			compute = true
		default:
			other = true
		}
	}
	return
}

// Reason tells how many offerings a constraint keeps a pod from. Lifting a constraint with Alone above zero would place the pod.
type Reason struct {
	Constraint Constraint
	Offerings  int    // that fail it
	Alone      int    // of those, that fail nothing else
	Detail     string // the limit, label, gang or class it is about; empty where the constraint says all
}

const unary = 18

// fails tells each constraint of constraints whether the offering fails it for the pod.
func (p *problem) fails(q *Pod, i int) [unary]bool {
	o := &p.given[i]
	whole := q.GPUCount
	if q.Rules != nil && q.Rules.MIG != "" {
		whole = 1
	}
	driver, cuda, compute, where := fitFails(q.Rules, o)
	return [unary]bool{
		!priced(o),
		!archOK(q, o),
		!q.SpotOK && o.Purchase == fleet.PurchaseSpot,
		!p.modelOK(q, o),
		whole > o.GPUCount,
		p.opts.NoCPUOnGPU && q.GPUCount == 0 && o.GPUCount > 0,
		q.CPUMilli > o.CPUMilli,
		q.MemMiB > o.MemMiB,
		o.MaxPods < 1,
		o.Stock != nil && *o.Stock == 0,
		!tolerated(q.Rules, o),
		where,
		!memoryOK(q, o),
		!migOK(q, o) || !p.instancesFit(q, o),
		!p.withinShared(p.takes[i]),
		driver, cuda, compute,
	}
}

func (p *problem) reasons(q *Pod) []Reason {
	var total, alone [unary]int
	for i := range p.given {
		n, last := 0, 0
		for c, f := range p.fails(q, i) {
			if f {
				total[c]++
				n, last = n+1, c
			}
		}
		if n == 1 {
			alone[last]++
		}
	}
	var out []Reason
	for c, n := range total {
		if n > 0 {
			out = append(out, Reason{Constraint: constraints[c], Offerings: n, Alone: alone[c]})
		}
	}
	return out
}

// leftOver are the reasons of pods for which there were machines, but too few of them or none with the right company.
func (p *problem) leftOver(shape int) []Reason {
	s := &p.shapes[shape]
	out := p.reasons(&p.pods[s.pods[0]])
	if s.bond != nil && len(s.bond.needs) > 0 {
		for i := range s.bond.needs {
			out = append(out, Reason{Constraint: ConstraintAffinity, Detail: s.bond.needs[i].label})
		}
	}
	stock, limits := 0, map[int]int{}
	for j := range p.offs {
		if !p.fitsAlone(s, j) {
			continue
		}
		for _, u := range p.offs[j].uses {
			if u.limit < p.shared {
				limits[u.limit]++
			} else {
				stock++
			}
		}
	}
	out = count(out, ConstraintStock, "", stock)
	for q := range p.shared {
		out = count(out, ConstraintLimit, p.opts.Limits[q].Name, limits[q])
	}
	return out
}

// count adds offerings that fail a constraint and nothing else.
func count(out []Reason, c Constraint, detail string, n int) []Reason {
	if n == 0 {
		return out
	}
	for i := range out {
		if out[i].Constraint == c && out[i].Detail == detail {
			out[i].Offerings += n
			out[i].Alone += n
			return out
		}
	}
	return append(out, Reason{Constraint: c, Offerings: n, Alone: n, Detail: detail})
}

// instancesFit tells whether an offering's GPUs can hold the MIG instances of one pod.
func (p *problem) instancesFit(q *Pod, o *Offering) bool {
	if q.Rules == nil || q.Rules.MIG == "" || !migOK(q, o) {
		return true
	}
	profile := geometries[o.GPUModel].profile(q.Rules.MIG)
	_, v := geometries[o.GPUModel].onGPUs([]migAsk{{profile, int32(q.GPUCount)}}, int32(o.GPUCount), 2000) //nolint:gosec // bounded by validate
	return v == gpusFit
}
