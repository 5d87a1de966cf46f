package capacity

import (
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/procure"
	"plimsoll.dev/services/packing"
)

// room is what a machine has left. GPUs are told apart, since fractions of two are not one.
type room struct {
	cpu, mem, pods int64
	gpus           []int64 // free thousandths of each
}

// kind is what decides who may use a machine, of a node or a candidate.
type kind struct {
	offering       fleet.Offering
	model          fleet.GPUModel
	gpus, gpuMem   int64
	arch, pool     string
	shares, mig    bool
	price, weighed fleet.Money
	known          bool // price
	labels         map[string]string
	taints         []string
	facts          Facts
}

func (n *Node) kind() kind {
	k := kind{offering: n.Offering, model: n.GPUModel, gpus: n.GPUCount, gpuMem: n.GPUMemMiB, arch: n.Arch, pool: n.Pool, shares: n.SharesGPUs, labels: n.Labels, taints: n.Taints, facts: n.Facts}
	if n.Price != nil {
		k.known, k.price, k.weighed = true, *n.Price, weigh(*n.Price, n.HazardMilli)
	}
	return k
}

func (c *Candidate) kind() kind {
	k := kind{offering: c.Offering, model: c.GPUModel, gpus: c.GPUCount, gpuMem: c.GPUMemMiB, arch: c.Arch, shares: c.SharesGPUs, mig: c.MIG, labels: c.Labels, taints: c.Taints, facts: c.Facts}
	if c.Price != nil && *c.Price > 0 {
		k.known, k.price, k.weighed = true, *c.Price, weigh(*c.Price, c.HazardMilli)
	}
	return k
}

// weigh is the price by which offerings are compared: that of room procure, which is scored in recorded markets.
func weigh(p fleet.Money, hazardMilli int64) fleet.Money {
	return procure.Weighed(p, hazardMilli, maxHazard)
}

const maxHazard = 100_000 // packing's bound

// host is a machine while a plan is made.
type host struct {
	kind
	node  int // index into the input's nodes; -1: new
	cand  int // index into the candidates, of a new one
	room  room
	pods  []int // indices into the input's pods, daemons left out
	open  bool  // takes pods
	fixed string
	by    string // what fixed is about
	gone  bool
	why   Why
	bid   bool  // room procure chose where it is bought
	heir  *host // the new machine that replaces it; nil: none
	saves fleet.Money
	churn fleet.Money
	moved []int // pods that left it
}

func (h *host) isNew() bool { return h.node < 0 }

// refuses is the reason why a pod may not run on a kind of machine; empty: it may.
func (d *planner) refuses(p *Pod, k *kind) string {
	if k.offering.Purchase == fleet.PurchaseSpot && !p.SpotOK {
		return "spot"
	}
	if p.GPUCount == 0 && k.gpus > 0 && !d.in.Policy.CPUOnGPU {
		return "cpu_on_gpu"
	}
	if p.GPUCount > 0 || p.MIG != "" {
		if k.gpus == 0 || len(p.Models) > 0 && !d.modelOK(p.Models, k.model) {
			return "gpu_model"
		}
		if p.MIG != "" {
			return "mig" // instances are not counted on machines that run
		}
	}
	arch := k.arch
	if arch == "" {
		arch = "amd64"
	}
	if len(p.Archs) == 0 && arch != "amd64" || len(p.Archs) > 0 && !slices.Contains(p.Archs, arch) && !slices.Contains(p.Archs, "*") {
		return "arch"
	}
	for _, w := range p.Where {
		if !holds(w, k) {
			return "where"
		}
	}
	return d.ruled(p, k)
}

func (d *planner) modelOK(models []fleet.GPUModel, m fleet.GPUModel) bool {
	if slices.Contains(models, m) {
		return true
	}
	for _, e := range d.in.Policy.Equivalent {
		if e.Use == m && slices.Contains(models, e.For) {
			return true
		}
	}
	return false
}

// holds tells whether a selector as packing writes it (key=a,b or key!=a,b) holds.
func holds(selector string, k *kind) bool {
	key, values, ok := strings.Cut(selector, "=")
	not := strings.HasSuffix(key, "!")
	key = strings.TrimSuffix(key, "!")
	var v string
	switch key {
	case "cloud":
		v = string(k.offering.Cloud)
	case "region":
		v = k.offering.Region
	case "zone":
		v = k.offering.Zone
	case "instance_type":
		v = k.offering.InstanceType
	case "capacity_type":
		v = string(k.offering.Purchase)
	case "gpu_model":
		v = string(k.model)
	case "arch":
		v = k.arch
	case "pool":
		v = k.pool
	default:
		ok = false
	}
	return (ok && slices.Contains(strings.Split(values, ","), v)) != not
}

// fits tells whether there is room for a pod.
func (r *room) fits(p *Pod, shares bool) bool {
	if p.CPUMilli > r.cpu || p.MemMiB > r.mem || r.pods < 1 {
		return false
	}
	need, free := gpuNeed(p, shares), int64(0)
	for _, g := range r.gpus {
		if g >= need {
			free++
		}
	}
	return free >= p.GPUCount
}

func gpuNeed(p *Pod, shares bool) int64 {
	if shares && p.GPUMilli > 0 {
		return p.GPUMilli
	}
	return 1000
}

// take takes a pod's room, of the fullest GPUs that hold it. Without enough it takes what there is: pods that run do run.
func (r *room) take(p *Pod, shares bool) {
	r.cpu, r.mem, r.pods = r.cpu-p.CPUMilli, r.mem-p.MemMiB, r.pods-1
	need := gpuNeed(p, shares)
	used := make([]bool, len(r.gpus))
	for range p.GPUCount {
		best := -1
		for i, g := range r.gpus {
			if !used[i] && g > 0 && (best < 0 || (g >= need) && (r.gpus[best] < need || g < r.gpus[best])) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		used[best] = true
		r.gpus[best] = max(r.gpus[best]-need, 0)
	}
}

func (d *planner) roomOf(cpu, mem, pods, gpus int64) room {
	r := room{cpu: cpu, mem: mem, pods: pods, gpus: make([]int64, gpus)}
	for i := range r.gpus {
		r.gpus[i] = 1000
	}
	for i := range d.in.Daemons {
		r.cpu, r.mem, r.pods = r.cpu-d.in.Daemons[i].CPUMilli, r.mem-d.in.Daemons[i].MemMiB, r.pods-1
	}
	return r
}

func (d *planner) put(h *host, pod int) {
	h.room.take(&d.in.Pods[pod], h.shares)
	h.pods = append(h.pods, pod)
	d.at[pod] = h
}

// fill computes a host's room anew from what is on it.
func (d *planner) fill(h *host) {
	h.room = d.whole(h)
	pods := slices.Clone(h.pods)
	d.largest(pods)
	for _, i := range pods {
		h.room.take(&d.in.Pods[i], h.shares)
	}
}

func (d *planner) whole(h *host) room {
	if h.isNew() {
		c := &d.in.Candidates[h.cand]
		return d.roomOf(c.CPUMilli, c.MemMiB, c.MaxPods, c.GPUCount)
	}
	n := &d.in.Nodes[h.node]
	return d.roomOf(n.CPUMilli, n.MemMiB, n.MaxPods, n.GPUCount)
}

// largest sorts pods: those that are hard to place first, ties by their order in the input.
func (d *planner) largest(pods []int) {
	size := func(i int) int64 {
		p := &d.in.Pods[i]
		return p.GPUCount*gpuNeed(p, true)*100 + p.CPUMilli + p.MemMiB/4
	}
	slices.SortStableFunc(pods, func(a, b int) int {
		if x, y := size(a), size(b); x != y {
			if x > y {
				return -1
			}
			return 1
		}
		return a - b
	})
}

// holdsAll tells whether a candidate would hold pods together, and if not, why not.
func (d *planner) holdsAll(c int, pods []int) string {
	k := d.kinds[c]
	for _, i := range pods {
		if why := d.refuses(&d.in.Pods[i], &k); why != "" {
			return why
		}
	}
	cand := &d.in.Candidates[c]
	r := d.roomOf(cand.CPUMilli, cand.MemMiB, cand.MaxPods, cand.GPUCount)
	order := slices.Clone(pods)
	d.largest(order)
	for _, i := range order {
		if !r.fits(&d.in.Pods[i], k.shares) {
			return "size"
		}
		r.take(&d.in.Pods[i], k.shares)
	}
	if d.bound && !d.together(pods) {
		return "rules"
	}
	return ""
}

// buyable is the reason why a candidate may not be bought at all now; empty: it may.
func (d *planner) buyable(c int) string {
	cand := &d.in.Candidates[c]
	switch {
	case !d.kinds[c].known:
		return "unknown_price"
	case cand.BackoffUntil.After(d.in.Now):
		return "back_off"
	case cand.Ask != nil && *cand.Ask-d.bought[c] < 1:
		return "asked"
	case cand.Belief == nil && cand.StockOutMilli > d.in.Policy.MaxStockOut:
		return "stock_out"
	case cand.Stock != nil && *cand.Stock-d.bought[c] < 1:
		return "stock_out"
	case d.in.Policy.NoSpot && cand.Offering.Purchase == fleet.PurchaseSpot:
		return "spot"
	}
	return ""
}

// packed is a pod as packing takes it.
func (p *Pod) packed(equal []Equivalence) (packing.Pod, error) {
	out := packing.Pod{Name: p.Name, CPUMilli: p.CPUMilli, MemMiB: p.MemMiB, GPUCount: p.GPUCount, GPUMilli: p.GPUMilli, GPUModels: p.Models, Archs: p.Archs, SpotOK: p.SpotOK}
	if out.GPUCount > 0 && out.GPUMilli == 0 {
		out.GPUMilli = 1000
	}
	for _, e := range equal {
		if slices.Contains(p.Models, e.For) && !slices.Contains(out.GPUModels, e.Use) {
			out.GPUModels = append(slices.Clone(out.GPUModels), e.Use)
		}
	}
	if len(p.Where) > 0 || p.MIG != "" || p.Class != "" || p.Rule > 0 || p.Untold || len(p.Needs) > 0 || len(p.Tolerates)+len(p.Groups)+len(p.Affinity)+len(p.Anti)+len(p.Spread) > 0 {
		text := packing.RuleText{Where: p.Where, MIG: p.MIG, Class: string(p.Class)}
		rules, err := text.Rules()
		if err != nil {
			return out, err
		}
		if rules == nil {
			rules = &packing.Rules{}
		}
		if err := p.addRules(rules); err != nil {
			return out, err
		}
		out.Rules = rules
	}
	return out, nil
}

func (c *Candidate) packed(in *Input) packing.Offering {
	k := c.kind()
	return packing.Offering{Offering: c.Offering, Price: c.Price, CPUMilli: max(c.CPUMilli, 0), MemMiB: max(c.MemMiB, 0), GPUModel: c.GPUModel, GPUCount: c.GPUCount,
		SharesGPUs: c.SharesGPUs, Arch: c.Arch, MaxPods: c.MaxPods, Stock: c.Stock, ReservationID: c.Reservation, VCPU: c.VCPU, GPUMemMiB: c.GPUMemMiB, MIG: c.MIG, HazardMilli: min(c.HazardMilli, maxHazard), Taints: c.Taints, Labels: in.ruleLabels(&k)}
}
