package packing

import (
	"sort"
)

// fewPods is up to how many pods all choices under rules across machines are evaluated whole; beyond, pods are seated.
const fewPods = 200

// seating packs many pods under rules across machines. First the pods are packed by what each asks for by itself, which knows a few
// hundred kinds however many workloads there are; then the places of a kind are given to the workloads' pods so that the rules hold;
// pods for which no place is right, and machines that cost more than their pods are worth, are packed anew a few machines at a time.
type seating struct {
	x      *across
	z      *zoner
	plain  []Pod // without the rules that bind pods to each other
	kinds  *problem
	first  *solver // of the packing by kinds
	proved *solver // of the bound
	heads  []head
	kind   []int     // of each pod, in kinds.every; -1: left out
	worth  []float64 // of each pod, by the first packing
	zoned  []bool    // shapes that are decided by zone

	seats []seat
	at    []int // where each pod is; -1: nowhere
	pool  []int // of each offering
	load  map[string]int
	most  []int          // of each load on one pool
	held  map[[2]int]int // pods of a load on a pool
	gangs map[string]*crew
	fit   map[int][]bool // see fits
	zone  []int          // of each offering
	turn  uint64
	scant bool // stock or limits count

	beyond []Unplaced // pods of workloads that are more than all pools may hold
}

// seat is a machine: what is on it, and by kind how many places are free.
type seat struct {
	off   int
	pods  []int
	items []item
	free  map[int]int
	gone  bool
}

// crew is a gang: its pods and where all of them are.
type crew struct {
	name   string
	pods   []int
	off    int
	broken bool // not all of it is here
}

func (x *across) seated() *Answer {
	s := &seating{x: x, load: map[string]int{}, held: map[[2]int]int{}, gangs: map[string]*crew{}, fit: map[int][]bool{}}
	a := s.pack()
	s.open(a)
	missing := s.fill()
	missing = s.settle(s.mend(missing))
	s.polish()
	out := x.trim(s.answer(missing))
	x.best, x.proof = out, s.proof()
	if len(out.Unplaced) > len(x.p.unfit)+len(s.beyond) {
		s.boundOf(out)
	}
	out.Bound, out.Proof = min(x.bound, out.Weighed), x.proof
	out.Stats = a.Stats
	out.Stats.Shapes, out.Stats.Stopped = len(x.p.shapes), x.stop()
	out.Stats.Moves = int(s.turn) //nolint:gosec // a small count
	return out
}

// pack packs by kinds, under what the skew of zones itself fixes and what kinds imply of the rules by node.
func (s *seating) pack() *Answer {
	x := s.x
	s.plain = plainPods(x.pods)
	s.kinds = newPinned(s.plain, x.given, x.opts, x.bare(), nil)
	s.kind = s.kinds.of
	s.index()
	if s.hopeless(); len(s.beyond) > 0 {
		s.kinds = newPinned(s.plain, x.given, x.opts, x.bare(), nil)
		s.kind = s.kinds.of
		s.index()
	}
	c := &crowd{kind: s.kind}
	opts := x.opts
	opts.program = true
	last := 0.0
	for turn := 0; turn < 6; turn++ {
		before := s.first
		s.solveKinds(opts, c)
		if before != nil && x.stop() { // what was finished before is better than what was begun
			s.first, c.heads = before, c.heads[:len(before.p.heads)]
			break
		}
		more := s.cuts()
		if len(more) == 0 || x.stop() || turn == 5 || (s.first.program != nil && s.first.program.lp.work > cutWork) {
			break
		}
		if s.first.program != nil {
			v := s.first.program.lp.value()
			if turn > 1 && v < last*(1+2e-4) { // more of them tell nothing new
				break
			}
			last = v
		}
		c.heads = append(c.heads, more...)
	}
	if !x.opts.quick && s.first.program != nil {
		s.first.prove(s.first.program.lp, s.first.program.r, s.first.duals)
	}
	s.proved, s.heads = s.first, c.heads
	n := make([]int64, len(s.first.p.shapes))
	for i := range n {
		n[i] = s.first.p.shapes[i].count
	}
	x.bound = s.first.proof.bound(n)
	opts.program, opts.once = false, true
	s.solveKinds(opts, c)
	p := s.first.p
	s.worth = make([]float64, len(x.pods))
	for i, at := range p.of {
		if at >= 0 && p.kept[at] >= 0 && len(s.first.duals) > 0 {
			s.worth[i] = s.first.duals[p.kept[at]]
		}
	}
	return s.first.answer()
}

// solveKinds solves the problem of the kinds anew, with the patterns that are known.
func (s *seating) solveKinds(opts Options, c *crowd) {
	p := newCrowded(s.plain, s.x.given, opts, s.x.bare(), nil, c)
	s.perMachine(p)
	old := s.first
	s.first = newSolver(p)
	if old != nil {
		s.first.warm(old)
		s.first.start = old.program
	}
	s.first.solve()
}

// plainPods are pods with only those of their rules that one machine decides by itself; equal rules stay equal.
func plainPods(pods []Pod) []Pod {
	out := append([]Pod(nil), pods...)
	of := map[*Rules]*Rules{nil: nil}
	same := map[string]*Rules{"": nil}
	for i := range out {
		r := out[i].Rules
		plain, ok := of[r]
		if !ok {
			key := r.own()
			if plain, ok = same[key]; !ok {
				plain = &Rules{Tolerates: r.Tolerates, Where: r.Where, GPUMemMiB: r.GPUMemMiB, MIG: r.MIG}
				same[key] = plain
			}
			of[r] = plain
		}
		out[i].Rules = plain
	}
	return out
}

// perMachine bounds how many pods of a kind one machine holds by what their rules by node allow each workload.
func (s *seating) perMachine(p *problem) {
	if s.x.p.bonds == nil {
		return
	}
	most := make([]int64, len(p.shapes))
	count := map[[2]int]int64{} // pods of a ruled shape in a plain one
	for i, at := range p.of {
		if at < 0 || p.kept[at] < 0 {
			continue
		}
		k := s.x.p.kept[s.x.p.of[i]]
		limit := noLimit
		if k >= 0 && s.x.p.shapes[k].bond != nil {
			limit = int64(s.x.p.shapes[k].bond.most)
		}
		key := [2]int{p.kept[at], k}
		if count[key]++; count[key] <= limit {
			most[p.kept[at]]++
		}
	}
	for i := range p.shapes {
		if most[i] < p.shapes[i].count {
			p.shapes[i].bond = &bond{most: int32(most[i])} //nolint:gosec // bounded by maxPods
		}
	}
}

// open makes seats of the machines that run and those of an answer; the latter's pods stand for places of their kinds.
func (s *seating) open(a *Answer) {
	x := s.x
	s.at = make([]int, len(x.pods))
	for i := range s.at {
		s.at[i] = -1
	}
	for n := range x.base {
		b := &x.base[n]
		for _, i := range b.Pods {
			if w := s.loadOf(i); w >= 0 {
				s.held[[2]int{w, s.pool[b.Offering]}]++
			}
		}
	}
	for n := range a.Nodes {
		t := seat{off: a.Nodes[n].Offering, free: map[int]int{}}
		for _, i := range a.Nodes[n].Pods {
			t.free[s.kind[i]]++
		}
		s.seats = append(s.seats, t)
	}
}

// index numbers the pools and the workloads that have a largest share of one.
func (s *seating) index() {
	x := s.x
	x.z = newZoner(x)
	s.z = x.z
	s.z.reset()
	s.pool, s.zone, s.most = s.pool[:0], s.zone[:0], s.most[:0]
	s.zoned = make([]bool, len(x.p.shapes))
	for _, i := range s.z.bound {
		s.zoned[i] = true
	}
	pools := map[string]int{}
	for j := range x.given {
		k, ok := pools[poolOf(&x.given[j])]
		if !ok {
			k = len(pools)
			pools[poolOf(&x.given[j])] = k
		}
		s.pool = append(s.pool, k)
		s.zone = append(s.zone, s.z.zoneAt[zoneOf(&x.given[j])])
		s.scant = s.scant || x.given[j].Stock != nil
	}
	s.scant = s.scant || len(x.opts.Limits) > 0
	most := x.p.poolMost()
	names := make([]string, 0, len(most))
	for w := range most {
		names = append(names, w)
	}
	sort.Strings(names)
	for _, w := range names {
		s.load[w] = len(s.most)
		s.most = append(s.most, most[w])
	}
}

// fits tells for each pool whether it has an offering that holds pods of a kind.
func (s *seating) fits(kind int) []bool {
	if s.fit[kind] == nil {
		q := &s.x.pods[s.kinds.every[kind].pods[0]]
		pools := make([]bool, len(s.x.given))
		for j := range s.x.given {
			if !pools[s.pool[j]] && s.kinds.fails(q, j) == [unary]bool{} {
				pools[s.pool[j]] = true
			}
		}
		s.fit[kind] = pools
	}
	return s.fit[kind]
}

// loadOf is the workload of a pod if it has a largest share per pool; else -1.
func (s *seating) loadOf(i int) int {
	if r := s.x.pods[i].Rules; r != nil && r.MaxPoolMilli > 0 {
		return s.load[r.Workload]
	}
	return -1
}

// shapeOf is the shape of a pod under all its rules; -1: it fits nothing.
func (s *seating) shapeOf(i int) int {
	if at := s.x.p.of[i]; at >= 0 {
		return s.x.p.kept[at]
	}
	return -1
}

// sit puts a pod on a machine; up takes it off again.
func (s *seating) sit(pod, n int) {
	t := &s.seats[n]
	t.pods = append(t.pods, pod)
	t.items = plusItem(t.items, s.shapeOf(pod), 1)
	s.at[pod] = n
	s.count(pod, t.off, 1)
}

func (s *seating) up(pod int) {
	t := &s.seats[s.at[pod]]
	for k, i := range t.pods {
		if i == pod {
			t.pods = append(t.pods[:k], t.pods[k+1:]...)
			break
		}
	}
	t.items = plusItem(t.items, s.shapeOf(pod), -1)
	s.count(pod, t.off, -1)
	s.at[pod] = -1
}

func (s *seating) count(pod, off, n int) {
	s.inZone(pod, s.zone[off], n)
	if w := s.loadOf(pod); w >= 0 {
		s.held[[2]int{w, s.pool[off]}] += n
	}
}

func (s *seating) inZone(pod, zone, n int) {
	if k := s.shapeOf(pod); s.zoned[k] {
		s.z.put(k, zone, n)
	} else {
		s.z.count(s.x.pods[pod].Rules, zone, n)
	}
}

// plusItem adds n pods of a shape to items.
func plusItem(items []item, shape int, n int32) []item {
	for k := range items {
		if items[k].shape == shape {
			if items[k].n += n; items[k].n == 0 {
				return append(items[:k], items[k+1:]...)
			}
			return items
		}
	}
	return append(items, item{shape, n})
}

// may tells whether the rules allow a pod on a machine, its size and zone aside.
func (s *seating) may(pod, n int) bool {
	t := &s.seats[n]
	if w := s.loadOf(pod); w >= 0 && s.held[[2]int{w, s.pool[t.off]}] >= s.most[w] {
		return false
	}
	b := s.x.p.bonds
	if b == nil {
		return true
	}
	k := s.shapeOf(pod)
	if s.x.p.shapes[k].bond == nil {
		return true // those that keep off it count it among their clashes, and so has it them
	}
	return b.allow(s.x.p, plusItem(append(make([]item, 0, len(t.items)+1), t.items...), k, 1), true)
}

// fill gives the places to pods: gangs first, then what zones bind, then what other rules bind, then the rest. It returns the pods that
// found none.
func (s *seating) fill() []int {
	byKind := make([][]int, len(s.kinds.every)) // seats with places of a kind
	open := map[[2]int]int{}                    // free places of a kind in a zone
	onPool := map[[2]int]int{}
	for n := range s.seats {
		for k, c := range s.seats[n].free {
			byKind[k] = append(byKind[k], n)
			open[[2]int{k, s.zone[s.seats[n].off]}] += c
			onPool[[2]int{k, s.pool[s.seats[n].off]}] += c
		}
	}
	for k := range byKind {
		sort.Ints(byKind[k])
	}
	holders := make([][]int, len(byKind))
	for k := range byKind {
		holders[k] = append([]int(nil), byKind[k]...)
	}
	f := &filler{s, byKind, open, onPool, holders}
	missing := f.crews()
	for _, i := range s.order() {
		missing = append(missing, f.shape(i)...)
	}
	return f.swaps(missing)
}

// order is the shapes that are no gangs, those that rules bind most first.
func (s *seating) order() []int {
	shapes := s.x.p.shapes
	rank := make([]int, len(shapes))
	var out []int
	for at, i := range s.z.bound {
		rank[i] = -1_000_000 + at
	}
	for i := range shapes {
		r, b := shapes[i].rules, shapes[i].bond
		if r != nil && r.Gang != "" {
			continue
		}
		out = append(out, i)
		if b != nil && len(b.needs) > 0 {
			rank[i] += 2_000_000
		}
		if rank[i] == 0 {
			switch {
			case r != nil && r.MaxPoolMilli > 0:
				rank[i] = 1
			case b != nil:
				rank[i] = 2
			default:
				rank[i] = 3
			}
		}
	}
	sort.SliceStable(out, func(a, b int) bool {
		x, y := out[a], out[b]
		if rank[x] != rank[y] {
			return rank[x] < rank[y]
		}
		return shapes[x].count > shapes[y].count
	})
	return out
}

// answer is what is seated now. Pods without a seat have the reasons.
func (s *seating) answer(missing []int) *Answer {
	x := s.x
	a := &Answer{}
	for n := range s.seats {
		if t := &s.seats[n]; !t.gone && len(t.pods) > 0 {
			pods := append([]int(nil), t.pods...)
			sort.Ints(pods)
			a.Nodes = append(a.Nodes, Node{Offering: t.off, Pods: pods})
		}
	}
	a.Unplaced = append(append(a.Unplaced, x.p.unfit...), s.beyond...)
	for _, i := range missing {
		a.Unplaced = append(a.Unplaced, Unplaced{Pod: i, Reasons: s.why(i)})
	}
	x.recount(a)
	return a
}
