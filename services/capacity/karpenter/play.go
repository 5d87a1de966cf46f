package karpenter

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// room is what is left of a machine.
type room struct {
	off            int
	cpu, mem, gpus int64
	pods           int64 // how many more
	n              int   // pods put here, those that ran included
}

// outcome of a play.
type outcome struct {
	order  []int   // of the pools, first by weight first
	bought []int64 // machines by pool
	cost   fleet.Money
	rest   int
}

// stage is what all plays share.
type stage struct {
	in      *Input
	s       Settings
	pools   []*group
	pending []int         // pods as Karpenter takes them up
	shape   []int         // of each of pending
	shapes  []packing.Pod // distinct
	fits    [][]bool      // by shape and offering, sizes aside
	alone   []int         // by shape: the cheapest machine that it could have alone, -1: none
	rooms   []room        // of machines that run
}

func newStage(in *Input, s Settings, pools []*group) *stage {
	st := &stage{in: in, s: s, pools: pools}
	on := make([]bool, len(in.Pods))
	for _, m := range in.Running {
		if m.Ends {
			continue
		}
		r := empty(&in.Offerings[m.Offering], m.Offering)
		for _, i := range m.Pods {
			on[i] = true
			r.take(&in.Pods[i])
		}
		st.rooms = append(st.rooms, r)
	}
	for i := range in.Pods {
		if !on[i] {
			st.pending = append(st.pending, i)
		}
	}
	slices.SortStableFunc(st.pending, func(a, b int) int {
		x, y := &in.Pods[a], &in.Pods[b]
		return cmp.Or(cmp.Compare(y.CPUMilli, x.CPUMilli), cmp.Compare(y.MemMiB, x.MemMiB))
	})
	known, texts := map[shapeKey]int{}, map[*packing.Rules]string{}
	for _, i := range st.pending {
		key := keyOf(&in.Pods[i], texts)
		k, ok := known[key]
		if !ok {
			k = len(st.shapes)
			known[key] = k
			st.shapes = append(st.shapes, in.Pods[i])
		}
		st.shape = append(st.shape, k)
	}
	st.alone = make([]int, len(st.shapes))
	for k := range st.shapes {
		q := &st.shapes[k]
		st.alone[k] = -1
		st.fits = append(st.fits, make([]bool, len(in.Offerings)))
		for j := range in.Offerings {
			if !st.allows(q, &in.Offerings[j]) {
				continue
			}
			st.fits[k][j] = true
			if e := empty(&in.Offerings[j], j); e.has(q) && in.usable(j) && in.Offerings[j].Purchase != fleet.PurchaseReserved && (st.alone[k] < 0 || in.price(j) < in.price(st.alone[k])) {
				st.alone[k] = j
			}
		}
	}
	return st
}

// shapeKey is what the play looks at of a pod. Of rules that is where it may run and which taints it stands.
type shapeKey struct {
	cpu, mem, gpus       int64
	spot                 bool
	models, archs, rules string
}

func keyOf(q *packing.Pod, texts map[*packing.Rules]string) shapeKey {
	k := shapeKey{cpu: q.CPUMilli, mem: q.MemMiB, gpus: q.GPUCount, spot: q.SpotOK, models: fmt.Sprintf("%q", q.GPUModels), archs: fmt.Sprintf("%q", q.Archs)}
	if q.Rules != nil {
		text, ok := texts[q.Rules]
		if !ok {
			text = fmt.Sprintf("%q", q.Rules.Tolerates)
			for _, w := range q.Rules.Where {
				text += fmt.Sprintf(" %q %q %t", w.Key, w.Values, w.Not)
			}
			texts[q.Rules] = text
		}
		k.rules = text
	}
	return k
}

// allows says whether the pod may run on the offering, sizes aside.
func (st *stage) allows(q *packing.Pod, o *packing.Offering) bool {
	switch {
	case o.Purchase == fleet.PurchaseSpot && !q.SpotOK,
		q.GPUCount == 0 && o.GPUCount > 0 && st.s.TaintGPUs,
		q.GPUCount > 0 && len(q.GPUModels) > 0 && !slices.Contains(q.GPUModels, o.GPUModel):
		return false
	}
	if q.Rules != nil && slices.ContainsFunc(q.Rules.Where, func(w packing.Selector) bool { return !holds(&w, o) }) {
		return false
	}
	for _, t := range o.Taints {
		if q.Rules == nil || !slices.Contains(q.Rules.Tolerates, t) && !slices.Contains(q.Rules.Tolerates, "*") {
			return false
		}
	}
	if len(q.Archs) == 0 {
		return o.Arch == "amd64"
	}
	return slices.Contains(q.Archs, "*") || slices.Contains(q.Archs, o.Arch)
}

func empty(o *packing.Offering, j int) room {
	r := room{off: j, cpu: o.CPUMilli, mem: o.MemMiB, gpus: o.GPUCount, pods: o.MaxPods}
	if r.pods <= 0 {
		r.pods = 110
	}
	return r
}

// has says whether the pod fits. GPUs are whole: Karpenter knows no fractions.
func (r *room) has(q *packing.Pod) bool {
	return r.cpu >= q.CPUMilli && r.mem >= q.MemMiB && r.gpus >= q.GPUCount && r.pods > 0
}

func (r *room) take(q *packing.Pod) {
	r.cpu, r.mem, r.gpus, r.pods, r.n = r.cpu-q.CPUMilli, r.mem-q.MemMiB, r.gpus-q.GPUCount, r.pods-1, r.n+1
}

// play does what Karpenter would with the pools in this order and with these limits of new machines.
func (st *stage) play(order []int, limits []int64) outcome {
	out := outcome{order: slices.Clone(order), bought: make([]int64, len(st.pools))}
	running := slices.Clone(st.rooms)
	var claims []room
	for n, i := range st.pending {
		q, shape := &st.in.Pods[i], st.shape[n]
		if k := slices.IndexFunc(running, func(r room) bool { return r.has(q) && st.fits[shape][r.off] }); k >= 0 {
			running[k].take(q)
			continue
		}
		best := -1
		for k := range claims {
			if c := &claims[k]; (best < 0 || c.n < claims[best].n) && c.has(q) && st.fits[shape][c.off] {
				best = k
			}
		}
		if best >= 0 {
			claims[best].take(q)
			continue
		}
		if !st.open(&claims, &out, order, limits, q, shape) {
			out.rest++
			if j := st.alone[shape]; j >= 0 {
				r := empty(&st.in.Offerings[j], j)
				r.take(q)
				claims = append(claims, r)
				out.cost = out.cost.Add(st.in.price(j))
			}
		}
	}
	return out
}

func (st *stage) open(claims *[]room, out *outcome, order []int, limits []int64, q *packing.Pod, shape int) bool {
	for _, g := range order {
		if out.bought[g] >= limits[g] {
			continue
		}
		j := st.first(g, shape)
		if j < 0 {
			continue
		}
		r := empty(&st.in.Offerings[j], j)
		if !r.has(q) {
			continue
		}
		r.take(q)
		*claims = append(*claims, r)
		out.bought[g]++
		out.cost = out.cost.Add(st.in.price(j))
		return true
	}
	return false
}

// first is the cheapest offering of a pool on which a shape may run, sizes aside; -1: none.
func (st *stage) first(g, shape int) int {
	for _, j := range st.pools[g].offs {
		if st.fits[shape][j] {
			return j
		}
	}
	return -1
}

// search looks for the order and the limits of the pools under which the play costs the least: hill climbing by moving a pool, by one
// machine more or less, from a fixed seed.
func search(in *Input, s Settings, pools []*group) (best, plain outcome, rounds int) {
	st := newStage(in, s, pools)
	order, limits := make([]int, len(pools)), make([]int64, len(pools))
	for g := range pools {
		order[g], limits[g] = g, min(int64(pools[g].count), in.stock(pools[g]))
	}
	plain = st.play(order, limits)
	best = plain
	if len(pools) == 0 || len(st.pending) == 0 {
		return best, plain, 0
	}
	step := len(st.pending) * (len(in.New) + len(st.rooms) + len(pools) + 1)
	rounds = min(s.Rounds, max(maxSteps/step, 1))
	rnd := rand.New(rand.NewPCG(1, uint64(len(st.pending))))
	now := best.cost
	for r := range rounds {
		o, l := slices.Clone(order), slices.Clone(limits)
		for range 1 + rnd.IntN(3) {
			st.nudge(rnd, o, l)
		}
		next := st.play(o, l)
		slack := now.MulDiv(int64(rounds-r), int64(rounds)*coolness) // what a step may cost, less and less
		if next.cost <= now.Add(slack.MulDiv(rnd.Int64N(1000), 1000)) {
			now, order, limits = next.cost, o, l
		}
		if next.cost < best.cost || next.cost == best.cost && next.rest < best.rest {
			best = next
		}
	}
	return best, plain, rounds
}

// stock is how many machines more there are of a pool.
func (in *Input) stock(g *group) int64 {
	var sum int64
	for _, j := range g.offs {
		n := in.Offerings[j].Stock
		if n == nil {
			return math.MaxInt32
		}
		sum += max(*n-in.runs(j), 0)
	}
	return sum
}

func (st *stage) nudge(rnd *rand.Rand, order []int, limits []int64) {
	switch g := rnd.IntN(len(order)); rnd.IntN(6) {
	case 0:
		limits[g] = min(limits[g]+1, st.in.stock(st.pools[g]))
	case 1:
		limits[g] = max(limits[g]-1, 0)
	case 2:
		limits[g] = min(max(limits[g]+int64(rnd.IntN(9))-4, 0), st.in.stock(st.pools[g]))
	default:
		from, to := g, rnd.IntN(len(order))
		x := order[from]
		rest := slices.Delete(order, from, from+1)
		copy(order, slices.Insert(slices.Clone(rest), to, x))
	}
}

// holds is packing's rule for a selector.
func holds(w *packing.Selector, o *packing.Offering) bool {
	v, ok := "", true
	switch w.Key {
	case "cloud":
		v = string(o.Cloud)
	case "region":
		v = o.Region
	case "zone":
		v = o.Zone
	case "instance_type":
		v = o.InstanceType
	case "family":
		v = o.Family
	case "capacity_type":
		v = capacityType(o.Purchase)
	case "gpu_model":
		v = string(o.GPUModel)
	case "arch":
		v = o.Arch
	case "pool":
		v = o.Pool
	case "reservation_id":
		v = o.ReservationID
	default:
		ok = false
		for _, l := range o.Labels {
			if key, value, _ := strings.Cut(l, "="); key == w.Key {
				v, ok = value, true
				break
			}
		}
	}
	return (ok && slices.Contains(w.Values, v)) != w.Not
}
