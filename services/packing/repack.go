package packing

import (
	"sort"

	"plimsoll.dev/services/fleet"
)

// Plan is a packing that starts from machines that run.
type Plan struct {
	Answer
	From   []int       // for each of Nodes: which running machine it is, -1: a new one
	Moved  []int       // pods that leave their machine for another, ascending
	Before fleet.Money // what the running machines cost per hour
}

// Repack places pods on machines that run and, as far as needed, on new ones. Pods that are on a machine stay there unless they may not
// or moving them saves more per hour than moving costs per pod; pods on no machine take spare room first. Machines without pods end.
// With the proof of an earlier answer on the same offerings the plan has a bound; without, its Bound is zero. A running machine
// needs a price; stock counts machines, those that run included.
func Repack(pods []Pod, offerings []Offering, running []Node, moving fleet.Money, earlier *Proof, opts Options) (*Plan, error) {
	if err := validate(pods, offerings, &opts); err != nil {
		return nil, err
	}
	offerings = net(offerings, &opts)
	if moving < 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "moving a pod costs %s: want zero or more", moving)
	}
	seen := make([]bool, len(pods))
	for n := range running {
		if j := running[n].Offering; j < 0 || j >= len(offerings) || !priced(&offerings[j]) {
			return nil, fleet.Errorf(fleet.CodeInvalid, "running machine %d is of an offering that is unknown or has no price", n)
		}
		for _, i := range running[n].Pods {
			if i < 0 || i >= len(pods) || seen[i] {
				return nil, fleet.Errorf(fleet.CodeInvalid, "running machine %d has a pod that does not exist or is on two machines", n)
			}
			seen[i] = true
		}
	}
	r := &repacker{p: newProblem(pods, offerings, opts), moving: moving, home: make([]int, len(pods))}
	r.all = &problem{shapes: r.p.every, given: offerings}
	r.guard = newGuard(r)
	r.settle(running, seen)
	r.spare()
	r.consolidate()
	if r.guard != nil {
		return r.planRuled(running, earlier), nil
	}
	fresh := r.rest()
	return r.plan(running, fresh, nil, earlier), nil
}

// host is a running machine while a plan is made.
type host struct {
	off   int // in the caller's list
	room  vec
	share int
	pods  []int
	gone  bool
}

type repacker struct {
	p       *problem
	all     *problem // all shapes, for the check of fractions
	moving  fleet.Money
	hosts   []host
	home    []int // where each pod runs; -1: nowhere
	pending []int
	slots   slots
	items   []item
	guard   *guard // nil: no rules
}

func (r *repacker) capacity(o *Offering) (vec, int) {
	gpus := int32(o.GPUCount) //nolint:gosec // bounded by validate
	share := shareOf(o, &r.p.opts)
	return vec{int32(o.CPUMilli), int32(o.MemMiB), gpus * 1000, int32(o.MaxPods), gpus * 1000}, share //nolint:gosec // bounded by validate
}

// settle leaves pods where they run as long as they may and fit.
func (r *repacker) settle(running []Node, placed []bool) {
	for i := range r.home {
		r.home[i] = -1
		if !placed[i] {
			r.pending = append(r.pending, i)
		}
	}
	r.hosts = make([]host, len(running))
	for n := range running {
		h := &r.hosts[n]
		h.off = running[n].Offering
		h.room, h.share = r.capacity(&r.p.given[h.off])
		for _, i := range running[n].Pods {
			r.home[i] = n
			if r.p.accepted(&r.p.pods[i], &r.p.given[h.off]) && r.hasRoom(h, i) {
				r.put(h, i)
			} else {
				r.pending = append(r.pending, i)
			}
		}
	}
	sort.Ints(r.pending)
}

// fits tells whether a pod fits on a machine and may join what is there.
func (r *repacker) fits(h *host, pod int) bool {
	return r.hasRoom(h, pod) && (r.guard == nil || r.guard.may(h, pod))
}

func (r *repacker) hasRoom(h *host, pod int) bool {
	s := &r.p.every[r.p.of[pod]]
	if !s.need[h.share].fits(&h.room) {
		return false
	}
	if h.share == 0 || s.gpus == 0 {
		return true
	}
	r.items = r.items[:0]
	for _, i := range h.pods {
		r.items = append(r.items, item{r.p.of[i], 1})
	}
	r.items = merge(append(r.items, item{r.p.of[pod], 1}))
	return r.all.gpusHold(&r.slots, r.items, r.p.asOffer(h.off)) == gpusFit
}

func (r *repacker) put(h *host, pod int) {
	h.room.add(&r.p.every[r.p.of[pod]].need[h.share], -1)
	h.pods = append(h.pods, pod)
	if r.guard != nil {
		r.guard.count(h, pod, 1)
	}
}

// spare puts pending pods, large ones first, into the room of machines that run and keep a pod, the fullest first.
func (r *repacker) spare() {
	byShape := map[int][]int{}
	var shapes []int
	for _, i := range r.pending {
		s := r.p.of[i]
		if byShape[s] == nil {
			shapes = append(shapes, s)
		}
		byShape[s] = append(byShape[s], i)
	}
	size := func(s int) int64 {
		n := &r.p.every[s].need[0]
		return int64(n[dimGPU])*100 + int64(n[dimCPU]) + int64(n[dimMem])/4
	}
	sort.SliceStable(shapes, func(a, b int) bool { return size(shapes[a]) > size(shapes[b]) })
	r.pending = r.pending[:0]
	for _, s := range shapes {
		left := r.into(s, byShape[s], -1)
		r.pending = append(r.pending, left...)
	}
	sort.Ints(r.pending)
}

// into puts pods of a shape into spare room, not of machine except, and returns those without a place.
func (r *repacker) into(s int, pods []int, except int) []int {
	type place struct {
		host int
		left int64
	}
	var places []place
	shape := &r.p.every[s]
	for n := range r.hosts {
		h := &r.hosts[n]
		if n == except || h.gone || len(h.pods) == 0 || !shape.need[h.share].fits(&h.room) || !r.p.accepted(&r.p.pods[pods[0]], &r.p.given[h.off]) {
			continue
		}
		places = append(places, place{n, int64(h.room[dimGPU])*100 + int64(h.room[dimCPU]) + int64(h.room[dimMem])/4})
	}
	sort.SliceStable(places, func(a, b int) bool { return places[a].left < places[b].left })
	for _, at := range places {
		for len(pods) > 0 && r.fits(&r.hosts[at.host], pods[0]) {
			r.put(&r.hosts[at.host], pods[0])
			pods = pods[1:]
		}
		if len(pods) == 0 {
			break
		}
	}
	return pods
}

// consolidate ends machines that few pods use: their pods go where there is room, or to a cheaper machine, if that saves more than moving costs.
func (r *repacker) consolidate() {
	type waste struct {
		host  int
		money fleet.Money
	}
	var worst []waste
	for n := range r.hosts {
		h := &r.hosts[n]
		price := *r.p.given[h.off].Price
		if len(h.pods) == 0 || price <= r.moving.MulDiv(int64(len(h.pods)), 1) {
			continue
		}
		whole, _ := r.capacity(&r.p.given[h.off])
		free := int64(1000)
		for d := range whole {
			if d != dimPods && d != dimHeavy && whole[d] > 0 {
				free = min(free, int64(h.room[d])*1000/int64(whole[d]))
			}
		}
		if free >= 250 {
			worst = append(worst, waste{n, price.MulDiv(free, 1000)})
		}
	}
	if r.guard != nil {
		r.guard.before = r.guard.breaches()
	}
	sort.SliceStable(worst, func(a, b int) bool { return worst[a].money > worst[b].money })
	for _, w := range worst[:min(len(worst), 48)] {
		if r.p.opts.Stop != nil && r.p.opts.Stop() {
			return
		}
		r.end(w.host)
	}
}

// end tries to do without a machine.
func (r *repacker) end(n int) {
	h := &r.hosts[n]
	cost := r.moving.MulDiv(int64(len(h.pods)), 1)
	if *r.p.given[h.off].Price <= cost {
		return
	}
	type move struct {
		pod, to int
	}
	var moves []move
	done := true
	pods := append([]int(nil), h.pods...)
	sort.SliceStable(pods, func(a, b int) bool {
		x, y := &r.p.every[r.p.of[pods[a]]].need[0], &r.p.every[r.p.of[pods[b]]].need[0]
		return int64(x[dimGPU])*100+int64(x[dimCPU]) > int64(y[dimGPU])*100+int64(y[dimCPU])
	})
	for _, i := range pods {
		to := -1
		if r.guard != nil {
			r.guard.count(h, i, -1)
		}
		for k := range r.hosts {
			o := &r.hosts[k]
			if k != n && !o.gone && len(o.pods) > 0 && r.p.every[r.p.of[i]].need[o.share].fits(&o.room) && r.p.accepted(&r.p.pods[i], &r.p.given[o.off]) && r.fits(o, i) {
				to = k
				break
			}
		}
		if to < 0 {
			done = false
			if r.guard != nil {
				r.guard.count(h, i, 1)
			}
			break
		}
		r.put(&r.hosts[to], i)
		moves = append(moves, move{i, to})
	}
	if done {
		here := h.pods
		h.gone, h.pods = true, nil
		if r.guard == nil || r.guard.breaches() <= r.guard.before {
			return
		}
		h.gone, h.pods = false, here
	}
	for k := len(moves) - 1; k >= 0; k-- { // take back
		o := &r.hosts[moves[k].to]
		o.pods = o.pods[:len(o.pods)-1]
		o.room.add(&r.p.every[r.p.of[moves[k].pod]].need[o.share], 1)
		if r.guard != nil {
			r.guard.count(o, moves[k].pod, -1)
			r.guard.count(h, moves[k].pod, 1)
		}
	}
	if r.guard == nil {
		r.shrink(n, cost)
	}
}

// shrink lets go of a machine whose pods all fit on one that is cheaper by more than moving costs; rest places them.
func (r *repacker) shrink(n int, moving fleet.Money) {
	h := &r.hosts[n]
	var load [2]vec
	for _, i := range h.pods {
		for share := range load {
			load[share].add(&r.p.every[r.p.of[i]].need[share], 1)
		}
	}
	limit := *r.p.given[h.off].Price - moving
	for j := range r.p.offs {
		o := &r.p.offs[j]
		if o.price >= limit {
			return
		}
		if len(o.uses) > 0 || !load[o.share].fits(&o.cap) {
			continue
		}
		fits := true
		r.items = r.items[:0]
		for _, i := range h.pods {
			k := r.p.kept[r.p.of[i]]
			fits = fits && k >= 0 && r.p.accepts[r.p.every[r.p.of[i]].want][j]
			r.items = append(r.items, item{r.p.of[i], 1})
		}
		if fits && (o.share == 0 || r.all.gpusHold(&r.slots, merge(r.items), o) == gpusFit) {
			r.pending = append(r.pending, h.pods...)
			sort.Ints(r.pending)
			h.gone, h.pods = true, nil
			return
		}
	}
}

// rest packs what is still pending on new machines.
func (r *repacker) rest() *solver {
	p := r.p
	s := newSolver(p)
	left := make([]int32, len(p.shapes))
	any := false
	for _, i := range r.pending {
		if k := p.kept[p.of[i]]; k >= 0 {
			left[k]++
			any = true
		}
	}
	s.short = 0
	if !any {
		return s
	}
	stock := s.stocks(nil)
	for n := range r.hosts {
		if !r.hosts[n].gone && len(r.hosts[n].pods) > 0 {
			for _, u := range p.takes[r.hosts[n].off] {
				stock[u.limit] = max(0, stock[u.limit]-u.n)
			}
		}
	}
	s.fresh(left, stock)
	return s
}

// fresh packs a small demand without a proof.
func (s *solver) fresh(left []int32, stock []int64) {
	lp, r := s.master(left)
	s.duals = make([]float64, len(s.p.shapes))
	for i := range s.duals {
		if r.of[i] >= 0 {
			s.duals[i] = max(0, lp.y[r.of[i]])
		}
	}
	s.short = 1 << 60
	bins, short := s.greedyOn(s.duals, append([]int32(nil), left...), append([]int64(nil), stock...), 60, nil, len(s.p.offs))
	s.offer(bins, short)
	hot := map[int]bool{}
	for i := range bins {
		hot[bins[i].off] = true
	}
	for j := range s.p.offs { // and the cheapest for each shape
		if len(hot) >= 40 {
			break
		}
		for i, n := range left {
			if n > 0 && s.p.fitsAlone(&s.p.shapes[i], j) && s.p.avail(stock, j) > 0 {
				hot[j] = true
				break
			}
		}
	}
	for j := range hot {
		s.hot = append(s.hot, j)
	}
	sort.Ints(s.hot)
	s.complete(append([]int32(nil), left...), append([]int64(nil), stock...), nil, bins, s.offer)
}

// planRuled plans under rules: what is pending goes on new machines under all of them.
func (r *repacker) planRuled(running []Node, earlier *Proof) *Plan {
	out := r.plan(running, newSolver(r.p), r.guard.rest(), earlier)
	out.Standing = r.stays()
	r.guard.settle(out)
	sort.SliceStable(out.Unplaced, func(a, b int) bool { return out.Unplaced[a].Pod < out.Unplaced[b].Pod })
	out.Bound = min(out.Bound, out.Weighed)
	return out
}

// plan writes down what has become of everything; fresh, if given, is what the pending pods got, instead of what the solver found.
func (r *repacker) plan(running []Node, s *solver, fresh *Answer, earlier *Proof) *Plan {
	p := r.p
	out := &Plan{}
	placed := make([]int64, len(p.shapes))
	add := func(off, from int, pods []int) {
		sort.Ints(pods)
		out.Nodes = append(out.Nodes, Node{Offering: off, Pods: pods})
		out.From = append(out.From, from)
		out.Cost = out.Cost.Add(*p.given[off].Price)
		out.Weighed = out.Weighed.Add(p.given[off].weighed())
		for _, i := range pods {
			if k := p.kept[p.of[i]]; k >= 0 {
				placed[k]++
			}
			if r.home[i] >= 0 && r.home[i] != from {
				out.Moved = append(out.Moved, i)
			}
		}
	}
	for n := range running {
		out.Before = out.Before.Add(*p.given[running[n].Offering].Price)
		if h := &r.hosts[n]; len(h.pods) > 0 {
			add(h.off, n, h.pods)
		}
	}
	if fresh != nil {
		for _, n := range fresh.Nodes {
			add(n.Offering, -1, append([]int(nil), n.Pods...))
		}
		out.Unplaced = fresh.Unplaced
		r.pending = nil
	}
	waiting := make([][]int, len(p.shapes))
	for _, i := range r.pending {
		k := p.kept[p.of[i]]
		if k < 0 {
			out.Unplaced = append(out.Unplaced, Unplaced{Pod: i, Reasons: p.reasons(&p.pods[i]), Blocked: p.contradiction(&p.pods[i])})
			continue
		}
		waiting[k] = append(waiting[k], i)
	}
	for _, b := range s.best {
		var pods []int
		for _, it := range b.items {
			pods = append(pods, waiting[it.shape][:it.n]...)
			waiting[it.shape] = waiting[it.shape][it.n:]
		}
		add(p.offs[b.off].index, -1, pods)
	}
	for k, pods := range waiting {
		for _, i := range pods {
			out.Unplaced = append(out.Unplaced, Unplaced{Pod: i, Reasons: p.leftOver(k)})
		}
	}
	sort.Slice(out.Unplaced, func(a, b int) bool { return out.Unplaced[a].Pod < out.Unplaced[b].Pod })
	sort.Ints(out.Moved)
	out.Bound = earlier.bound(p, placed)
	out.Proof = earlier
	out.Stats = s.stats
	out.Stats.Shapes, out.Stats.Offerings = len(p.shapes), len(p.offs)
	return out
}
