package packing

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// cap64 is a limit inside a problem: stock of one offering, or a cap or quota of the options.
type cap64 struct {
	max   int64
	scale float64 // of its row in the linear program
}

// use is what one machine of an offering takes from a limit.
type use struct {
	limit int
	n     int64
}

const noLimit = int64(1) << 40

// caps sets up the limits: those of the options, then a stock per offering that has one.
func (p *problem) caps() {
	for q := range p.opts.Limits {
		most := int64(1)
		for i := range p.given {
			most = max(most, p.opts.Limits[q].of(&p.given[i]))
		}
		p.limits = append(p.limits, cap64{p.opts.Limits[q].Max, float64(most)})
	}
	p.shared = len(p.limits)
	p.takes = make([][]use, len(p.given))
	for i := range p.given {
		p.takes[i] = p.uses(i)
	}
}

// uses are the limits a given offering takes from; its stock becomes a limit of its own.
func (p *problem) uses(i int) []use {
	var out []use
	o := &p.given[i]
	for q := range p.opts.Limits {
		if n := p.opts.Limits[q].of(o); n > 0 {
			out = append(out, use{q, n})
		}
	}
	if o.Stock != nil {
		out = append(out, use{len(p.limits), 1})
		p.limits = append(p.limits, cap64{*o.Stock, 1})
	}
	return out
}

// within tells whether one machine stays within all limits.
func (p *problem) within(uses []use) bool {
	for _, u := range uses {
		if u.n > p.limits[u.limit].max {
			return false
		}
	}
	return true
}

// withinShared tells whether one machine stays within the limits of the options.
func (p *problem) withinShared(uses []use) bool {
	for _, u := range uses {
		if u.limit < p.shared && u.n > p.limits[u.limit].max {
			return false
		}
	}
	return true
}

// fewer tells whether a takes from no limit more than b does.
func fewer(a, b []use) bool {
next:
	for _, x := range a {
		for _, y := range b {
			if x.limit == y.limit && x.n <= y.n {
				continue next
			}
		}
		return false
	}
	return true
}

// avail is how many machines of an offering what is left of the limits allows.
func (p *problem) avail(left []int64, j int) int64 {
	n := noLimit
	for _, u := range p.offs[j].uses {
		n = min(n, left[u.limit]/u.n)
	}
	return max(n, 0)
}

// spend takes n machines of an offering from the limits.
func (p *problem) spend(left []int64, j int, n int64) {
	for _, u := range p.offs[j].uses {
		left[u.limit] -= u.n * n
	}
}

// toll is what the linear program charges a machine of an offering for the limits it takes from.
func (s *solver) toll(lp *master, r *rows, j int) float64 {
	t := 0.0
	for _, u := range s.p.offs[j].uses {
		if q := r.limit[u.limit]; q >= 0 {
			t -= min(0, lp.y[q]) * float64(u.n) / s.p.limits[u.limit].scale
		}
	}
	return t
}

// tolls are the program's duals of the limits of the options, in whole nano-units per scale of the limit.
func (s *solver) tolls(lp *master, r *rows) []int64 {
	out := make([]int64, len(s.p.limits))
	for q := range s.p.shared {
		if row := r.limit[q]; row >= 0 && !math.IsNaN(lp.y[row]) {
			out[q] = int64(min(1e15, max(0, -lp.y[row]*fleet.NanosPerUnit)))
		}
	}
	return out
}

func shareOf(o *Offering, opts *Options) int {
	switch {
	case o.GPUCount == 0:
		return 0
	case o.MIG && geometries[o.GPUModel] != nil:
		return 2
	case opts.ShareGPUs || o.SharesGPUs:
		return 1
	}
	return 0
}

// net takes what daemons need off the offerings' sizes.
func net(offerings []Offering, opts *Options) []Offering {
	if len(opts.Daemons) == 0 {
		return offerings
	}
	p := &problem{opts: *opts}
	p.opts.NoCPUOnGPU = false
	out := make([]Offering, len(offerings))
	copy(out, offerings)
	for i := range out {
		for d := range opts.Daemons {
			q := &opts.Daemons[d]
			if p.accepted(q, &offerings[i]) {
				out[i].CPUMilli = max(0, out[i].CPUMilli-q.CPUMilli)
				out[i].MemMiB = max(0, out[i].MemMiB-q.MemMiB)
				out[i].MaxPods = max(0, out[i].MaxPods-1)
			}
		}
	}
	return out
}

const maxLimits = 1_000

func (o *Options) validate(pods []Pod) error {
	if len(o.Limits) > maxLimits || len(o.Daemons) > maxLimits || len(o.Equivalent) > maxLimits {
		return fleet.Errorf(fleet.CodeTooLarge, "more than %d limits, daemons or equivalences", maxLimits)
	}
	for i := range o.Limits {
		if err := o.Limits[i].validate(); err != nil {
			return err
		}
	}
	for i := range o.Daemons {
		d := &o.Daemons[i]
		if d.CPUMilli < 0 || d.MemMiB < 0 || d.CPUMilli > maxSize || d.MemMiB > maxSize || d.GPUCount != 0 {
			return fleet.Errorf(fleet.CodeInvalid, "daemon %q asks for a size that is negative or beyond any machine, or for GPUs", d.Name)
		}
	}
	if o.SoftMilli < 0 || (o.Budget != nil && *o.Budget < 0) {
		return fleet.Errorf(fleet.CodeInvalid, "the budget and what a soft spread may cost are zero or more")
	}
	checked := map[*Rules]bool{}
	for i := range pods {
		r := pods[i].Rules
		if r == nil {
			continue
		}
		if !checked[r] {
			if err := r.validate(); err != nil {
				return fleet.Errorf(fleet.CodeInvalid, "pod %q: %v", pods[i].Name, err)
			}
			checked[r] = true
		}
		if r.MIG != "" && pods[i].GPUCount < 1 {
			return fleet.Errorf(fleet.CodeInvalid, "pod %q wants MIG instances of %s, but none of them", pods[i].Name, r.MIG)
		}
	}
	return nil
}
