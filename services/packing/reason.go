package packing

import (
	"plimsoll.dev/services/fleet"
)

// Unplaced is a pod that no machine of the answer holds.
type Unplaced struct {
	Pod     int
	Reasons []Reason
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
	ConstraintStock    Constraint = "stock" // none left
)

var constraints = []Constraint{ConstraintPrice, ConstraintArch, ConstraintSpot, ConstraintModel, ConstraintGPUs, ConstraintCPUOnGPU,
	ConstraintCPU, ConstraintMemory, ConstraintMaxPods, ConstraintStock}

// Reason tells how many offerings a constraint keeps a pod from. Lifting a constraint with Alone above zero would place the pod.
type Reason struct {
	Constraint Constraint
	Offerings  int // that fail it
	Alone      int // of those, that fail nothing else
}

// fails tells each constraint of constraints whether the offering fails it for the pod.
func (p *problem) fails(q *Pod, o *Offering) [10]bool {
	whole := q.GPUCount
	return [10]bool{
		!priced(o),
		!archOK(q, o),
		!q.SpotOK && o.Purchase == fleet.PurchaseSpot,
		!modelOK(q, o),
		whole > o.GPUCount,
		p.opts.NoCPUOnGPU && q.GPUCount == 0 && o.GPUCount > 0,
		q.CPUMilli > o.CPUMilli,
		q.MemMiB > o.MemMiB,
		o.MaxPods < 1,
		o.Stock != nil && *o.Stock == 0,
	}
}

func (p *problem) reasons(q *Pod) []Reason {
	var total, alone [10]int
	for i := range p.given {
		n, last := 0, 0
		for c, f := range p.fails(q, &p.given[i]) {
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

// outOfStock is the reason of pods for which there were machines, but too few.
func (p *problem) outOfStock(shape int) []Reason {
	out := p.reasons(&p.pods[p.shapes[shape].pods[0]])
	n := 0
	for j := range p.offs {
		if p.fitsAlone(&p.shapes[shape], j) {
			n++
		}
	}
	for i := range out {
		if out[i].Constraint == ConstraintStock {
			out[i].Offerings += n
			out[i].Alone += n
			return out
		}
	}
	return append(out, Reason{Constraint: ConstraintStock, Offerings: n, Alone: n})
}
