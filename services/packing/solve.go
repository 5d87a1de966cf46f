package packing

import (
	"math"
	"sort"

	"plimsoll.dev/services/fleet"
)

// bin is a machine with shapes on it, ordered by shape.
type bin struct {
	off   int
	items []item
}

// solver looks for a packing of shapes; best is always feasible.
type solver struct {
	p         *problem
	pr        *pricer
	stop      func() bool
	pool      []column // patterns found, as columns over shapes (not rows)
	seen      map[uint64]bool
	best      []bin
	short     int64       // pods that best leaves out
	proven    fleet.Money // no packing of all pods has a lower weighed cost; zero: see proof
	cost      float64     // of best
	duals     []float64
	proof     proof
	stats     Stats
	random    uint64
	hot       []int     // offerings worth pricing while diving
	program   *program  // the one of all shapes
	start     *program  // to begin with
	flow      []column  // the solution of the program, over shapes; cost is how often
	tollNow   []float64 // of the heads, that go with the values of the moment
	tollDuals []float64 // of the heads, that go with duals
}

const (
	maxSteps  = 60_000
	certSteps = 1_000_000
	maxPool   = 20_000
)

func newSolver(p *problem) *solver {
	s := &solver{p: p, pr: newPricer(p), seen: map[uint64]bool{}, random: 0x9e3779b97f4a7c15, short: math.MaxInt64, proof: newProof(p), tollNow: make([]float64, len(p.heads)), tollDuals: make([]float64, len(p.heads))}
	s.stop = func() bool {
		if !s.stats.Stopped && p.opts.Stop != nil && p.opts.Stop() {
			s.stats.Stopped = true
		}
		return s.stats.Stopped
	}
	return s
}

func (s *solver) effort() int {
	if s.p.opts.Effort > 0 {
		return s.p.opts.Effort
	}
	return 10
}

func (s *solver) solve() {
	if len(s.p.shapes) == 0 {
		s.best, s.short = nil, 0
		return
	}
	demand := s.demand()
	lp, rows := s.master(demand)
	s.program = &program{s, lp, rows}
	lp.stop = s.stop
	if s.start != nil && s.adopt(s.start, lp, rows) {
		for h, row := range rows.head {
			if row >= 0 {
				s.tollNow[h] = max(0, -lp.y[row])
			}
		}
	}
	s.start = nil
	s.duals = append([]float64(nil), lp.y[:lp.cover]...)
	bins, short := s.greedy(s.duals, demand, 30)
	s.offer(bins, short)
	s.addPool(lp, rows)
	s.addBins(lp, rows, bins)
	s.generate(lp, rows)
	s.flows(lp, rows)
	if s.p.opts.program {
		return
	}
	if s.p.opts.once {
		s.dives(lp, rows)
		return
	}
	for range 2 { // a good packing first, then the proof, whose last patterns may better it
		s.choose(lp, rows)
		if !s.stop() {
			s.dive(lp, rows)
		}
		if s.p.opts.quick {
			s.sparing()
			s.mend()
			s.fuse()
			s.finish()
			return
		}
		if s.proofValue() == 0 {
			s.prove(lp, rows, s.duals)
		}
	}
	s.sparing()
	s.mend()
	if !s.p.opts.rough {
		s.polish()
	}
	s.finish()
}

// cutWork and diveWork are how much work in the inverse more cuts, and more than one dive, may follow; about a second per thousand million.
const (
	cutWork  = 5_000_000_000
	diveWork = 3_000_000_000
)

// dives rounds the program a few times, each time with the patterns that the times before have found, until it comes near.
func (s *solver) dives(lp *master, r *rows) {
	for turn := 0; turn < 4 && (turn == 0 || (s.cost > lp.value()*1.006 && lp.work < diveWork)) && !s.stop(); turn++ {
		s.choose(lp, r)
		s.dive(lp, r)
		s.addPool(lp, r)
		lp.solve(3000)
		for i := range s.duals {
			s.duals[i] = max(0, lp.y[r.of[i]])
		}
		s.headTolls(lp, r, s.tollDuals)
	}
}

// polish improves a packing that is there.
func (s *solver) polish() {
	if !s.stop() {
		s.improve()
	}
	s.fuse()
}

func (s *solver) demand() []int32 {
	d := make([]int32, len(s.p.shapes))
	for i := range d {
		d[i] = int32(s.p.shapes[i].count) //nolint:gosec // bounded by maxPods
	}
	return d
}

// offer takes a packing if it leaves fewer pods out, or as many for less.
func (s *solver) offer(bins []bin, short int64) bool {
	cost := s.costOf(bins)
	if short > s.short || (short == s.short && cost >= s.cost-1e-9) {
		return false
	}
	s.best, s.short, s.cost = bins, short, cost
	return true
}

func (s *solver) costOf(bins []bin) float64 {
	c := 0.0
	for i := range bins {
		c += s.p.offs[bins[i].off].cost
	}
	return c
}

// rows of a linear program over the shapes that have demand, then the limits.
type rows struct {
	of    []int32 // row of a shape, -1: none
	shape []int
	limit []int32 // row of a limit, -1: none
	head  []int32 // row of a head, -1: none
}

// master makes the linear program for a demand: one single-shape column per row to start from, then the fitting part of the pool.
func (s *solver) master(demand []int32) (*master, *rows) {
	p := s.p
	r := &rows{of: make([]int32, len(p.shapes)), limit: make([]int32, len(p.limits)), head: make([]int32, len(p.heads))}
	var rhs []float64
	var start []column
	dear := 0.0
	for j := range p.offs {
		dear = max(dear, p.offs[j].cost)
	}
	for i, d := range demand {
		r.of[i] = -1
		if d <= 0 {
			continue
		}
		r.of[i] = int32(len(rhs)) //nolint:gosec // bounded by maxPods
		r.shape = append(r.shape, i)
		rhs = append(rhs, float64(d))
		c := column{off: -1, cost: 20 * dear, rows: []int32{r.of[i]}, vals: []float64{1}}
		for j := range p.offs {
			o := &p.offs[j]
			if len(o.uses) > 0 || !p.fitsAlone(&p.shapes[i], j) || p.counted(&p.shapes[i], j) {
				continue
			}
			n := s.alone(i, j, d)
			if n == 0 {
				continue
			}
			if v := float64(n); o.cost/v < c.cost/c.vals[0] {
				c = column{off: j, cost: o.cost, rows: c.rows, vals: []float64{v}}
			}
		}
		start = append(start, c)
	}
	cover := len(rhs)
	for q := range r.limit {
		r.limit[q] = -1
	}
	for j := range p.offs {
		for _, u := range p.offs[j].uses {
			if l := &p.limits[u.limit]; r.limit[u.limit] < 0 {
				r.limit[u.limit] = int32(len(rhs)) //nolint:gosec // bounded by maxOfferings
				rhs = append(rhs, float64(l.max)/l.scale)
			}
		}
	}
	for h := range r.head {
		r.head[h] = -1
	}
	for _, i := range r.shape {
		for _, h := range p.shapes[i].heads {
			if r.head[h] < 0 {
				r.head[h] = int32(len(rhs))                                                       //nolint:gosec // bounded by maxPods
				rhs = append(rhs, float64(p.heads[h].max)+0.01*float64(mix(uint64(h))%1000)/1000) //nolint:gosec // a hash; a little off, or hundreds of them are met at once and the simplex stalls
			}
		}
	}
	lp := newMaster(rhs, cover, start)
	if len(p.heads) > 0 {
		lp.owner = s.owners(r, len(rhs))
	}
	return lp, r
}

// owners are the shapes' rows that heads count, of heads that count one shape.
func (s *solver) owners(r *rows, m int) []int32 {
	out := make([]int32, m)
	for q := range out {
		out[q] = -1
	}
	count := make([]int, len(s.p.heads))
	for i := range s.p.shapes {
		for _, h := range s.p.shapes[i].heads {
			count[h]++
		}
	}
	for _, i := range r.shape {
		for _, h := range s.p.shapes[i].heads {
			if row := r.head[h]; row >= 0 && count[h] == 1 {
				out[row] = r.of[i]
			}
		}
	}
	return out
}

// alone is how many pods of one shape fit on an offering by themselves.
func (s *solver) alone(i, j int, most int32) int32 {
	o := &s.p.offs[j]
	sh := &s.p.shapes[i]
	n := sh.need[o.share].copies(&o.cap, most)
	if sh.bond != nil {
		n = min(n, sh.bond.most)
	}
	if sh.cut(o.share) {
		for n > 0 && s.p.gpusHold(&s.pr.slots, []item{{i, n}}, o) != gpusFit {
			n--
		}
	}
	if s.p.bonds != nil {
		for n > 0 && !s.p.bonds.allow(s.p, []item{{i, n}}, true) {
			n--
		}
	}
	return n
}

// column makes a column of a pattern.
func (s *solver) column(j int, items []item, r *rows) (column, bool) {
	c := column{off: j, cost: s.p.offs[j].cost}
	for _, it := range items {
		row := r.of[it.shape]
		if row < 0 {
			return c, false
		}
		c.rows = append(c.rows, row)
		c.vals = append(c.vals, float64(it.n))
	}
	for _, u := range s.p.offs[j].uses {
		c.rows = append(c.rows, r.limit[u.limit])
		c.vals = append(c.vals, float64(u.n)/s.p.limits[u.limit].scale)
	}
	s.headRows(&c, items, r)
	return c, true
}

// generate adds patterns to the linear program until hardly any helps, and leaves its duals.
func (s *solver) generate(lp *master, r *rows) {
	p := s.p
	price := make([]float64, len(p.shapes)) // smoothed duals by which patterns are sought
	full := make([]float64, len(p.shapes))
	tolls := make([]float64, len(p.heads))
	smooth := 0.5
	spread := func() {
		for i := range full {
			full[i] = 0
			if r.of[i] >= 0 {
				full[i] = max(0, lp.y[r.of[i]])
			}
		}
		s.headTolls(lp, r, s.tollNow)
	}
	done := lp.solve(20000)
	spread()
	copy(price, full)
	copy(tolls, s.tollNow)
	demand := s.demand()
	idle := make([]int, len(p.offs)) // rounds without a pattern
	steps := make([]int, len(p.offs))
	for j := range steps {
		steps[j] = 400
	}
	mark, flat := math.Inf(1), 0 // the value when it last fell by a thousandth, and rounds since
	slow, last, enough := 0, math.Inf(1), false
	for round := 0; round < 100*s.effort() && !enough; round++ {
		if s.stop() {
			break
		}
		for i := range price {
			price[i] = smooth*price[i] + (1-smooth)*full[i]
		}
		for h := range tolls {
			tolls[h] = smooth*tolls[h] + (1-smooth)*s.tollNow[h]
			s.pr.room[h] = p.heads[h].max
		}
		copy(s.pr.tolls, tolls)
		copy(s.pr.value, price)
		copy(s.pr.limit, demand)
		s.pr.filter()
		added, cut := 0, false
		for _, dearly := range []bool{false, true} { // offerings that take long to search only when the others give nothing
			if dearly && (added > 0 || smooth > 0) {
				break
			}
			if dearly {
				if slow++; slow%4 == 0 {
					if lp.value() > last*(1-2e-4) {
						enough = true
						break
					}
					last = lp.value()
				}
			}
			for j := range p.offs {
				if (dearly && s.stop()) || (steps[j] > 3000) != dearly || (idle[j] > 2 && (round+j)%4 != 0 && smooth > 0) {
					continue
				}
				target := p.offs[j].cost + s.toll(lp, r, j)
				least := 5e-5
				if dearly {
					least = 1e-3
				}
				_, items, _ := s.pr.best(j, target*(1+least), steps[j])
				idle[j]++
				if items == nil {
					if s.pr.steps < 0 && steps[j] < s.most(maxSteps, j) && smooth == 0 {
						cut = true
						steps[j] *= 6
					}
					continue
				}
				for _, items := range append(s.pr.trail, items) {
					sort.Slice(items, func(a, b int) bool { return items[a].shape < items[b].shape })
					if c, ok := s.column(j, items, r); ok && lp.reduced(&c) < -1e-6*c.cost {
						lp.add(c)
						s.keep(j, items)
						added++
						idle[j] = 0
					}
				}
			}
		}
		if s.stats.Rounds++; s.stats.Rounds%25 == 0 && s.p.opts.Stop != nil { // a deadline may come: a better packing by what is known now
			bins, short := s.greedy(full, demand, 60)
			s.offer(bins, short)
			s.addBins(lp, r, bins)
		}
		if added == 0 {
			if !done && !s.stop() {
				done = lp.solve(20000)
				spread()
				continue
			}
			if smooth > 0 {
				smooth = 0
			} else if !cut {
				break
			}
			continue
		}
		done = lp.solve(300)
		spread()
		if s.p.opts.hasty {
			if v := lp.value(); v < mark*(1-1e-3) {
				mark, flat = v, 0
			} else if flat++; flat >= 5 {
				break
			}
		}
		lp.prune(4000)
	}
	s.duals = full
	copy(s.tollDuals, s.tollNow)
}

// prove makes the proof, adding the patterns that stand against it and trying again while that helps. It looks between the
// program's duals, which swing, and the best proof so far.
func (s *solver) prove(lp *master, r *rows, full []float64) {
	s.certifyAt(full, s.tollDuals, lp, r)
	mixed := make([]float64, len(full))
	tolls := make([]float64, len(s.tollNow))
	spent := s.pr.total
	for turn := 0; turn < 4*s.effort() && s.pr.total-spent < s.effort()*1_500_000; turn++ {
		if s.stop() || s.proofValue() > 0.9985*lp.value() {
			break
		}
		before := len(lp.cols)
		s.tighten(lp, r, full, spent)
		lp.solve(3000)
		for i := range full {
			full[i] = max(0, lp.y[r.of[i]])
			mixed[i] = full[i]
			if turn%2 == 0 {
				mixed[i] = (full[i] + float64(s.proof.value[i])/fleet.NanosPerUnit) / 2
			}
		}
		s.headTolls(lp, r, tolls)
		if turn%2 == 0 {
			for h := range tolls {
				tolls[h] = (tolls[h] + float64(s.proof.tolls[h])/fleet.NanosPerUnit) / 2
			}
		}
		s.certifyAt(mixed, tolls, lp, r)
		if len(lp.cols) == before && turn%2 == 1 {
			break
		}
	}
	lp.solve(3000)
	for i := range full {
		full[i] = max(0, lp.y[r.of[i]])
	}
	s.headTolls(lp, r, s.tollDuals)
}

// tighten seeks patterns for the offerings that stand most against the proof, at duals that swing less and less, as long as there are some. One
// of them takes as long to search as all others together, so they are asked alone.
func (s *solver) tighten(lp *master, r *rows, price []float64, spent int) {
	p, k := s.p, s.pr
	loose := append([]int(nil), k.loose...)
	if len(loose) == 0 || len(loose) > 12 {
		return
	}
	tolls := append([]float64(nil), s.tollDuals...)
	now := make([]float64, len(tolls))
	price = append([]float64(nil), price...)
	for smooth := 0.5; k.total-spent < s.effort()*1_200_000 && !s.stop(); {
		lp.solve(3000)
		s.headTolls(lp, r, now)
		for i := range price {
			price[i] = smooth*price[i] + (1-smooth)*max(0, lp.y[r.of[i]])
		}
		for h := range tolls {
			tolls[h] = smooth*tolls[h] + (1-smooth)*now[h]
			k.room[h] = p.heads[h].max
		}
		copy(k.value, price)
		copy(k.tolls, tolls)
		copy(k.limit, s.demand())
		k.filter()
		added := 0
		for _, j := range loose {
			_, items, _ := k.best(j, (p.offs[j].cost+s.toll(lp, r, j))*(1+1e-3), s.most(certSteps/30, j))
			if items == nil {
				continue
			}
			for _, items := range append(k.trail, items) {
				sort.Slice(items, func(a, b int) bool { return items[a].shape < items[b].shape })
				if c, ok := s.column(j, items, r); ok && lp.reduced(&c) < -1e-6*c.cost {
					lp.add(c)
					s.keep(j, items)
					added++
				}
			}
		}
		switch {
		case added > 0:
		case smooth > 0:
			smooth = 0
		default:
			return
		}
	}
}

func (s *solver) certifyAt(full, heads []float64, lp *master, r *rows) {
	pr := s.pr.certify(full, heads, s.tolls(lp, r), func(j int) int { return s.most(certSteps, j) }, func(j int, items []item) {
		if c, ok := s.column(j, items, r); ok {
			lp.add(c)
			s.keep(j, items)
		}
	})
	old := s.proof
	was := s.proofValue()
	s.proof = pr
	if s.proofValue() < was {
		s.proof = old
	}
}

// most is the limit of steps for an offering: steps that also place fractions on GPUs take ten times as long.
// After a stop the search is short: a looser bound, but soon.
func (s *solver) most(steps, j int) int {
	if s.stop() {
		return 200
	}
	if s.p.offs[j].share > 0 {
		return steps / 10
	}
	return steps
}

func (s *solver) proofValue() float64 {
	n := make([]int64, len(s.p.shapes))
	for i := range n {
		n[i] = s.p.shapes[i].count
	}
	return s.proof.bound(n).Float()
}

// addBins hands the patterns of a packing to the linear program and the pool.
func (s *solver) addBins(lp *master, r *rows, bins []bin) {
	for i := range bins {
		if s.keep(bins[i].off, bins[i].items) {
			if c, ok := s.column(bins[i].off, bins[i].items, r); ok {
				lp.add(c)
			}
		}
	}
}

// flows remembers the solution of the program.
func (s *solver) flows(lp *master, r *rows) {
	for i, b := range lp.basis {
		if b < 0 || lp.cols[b].off < 0 || lp.x[i] < 1e-9 {
			continue
		}
		c := column{off: lp.cols[b].off, cost: lp.x[i]}
		for k, row := range lp.cols[b].rows {
			if int(row) < lp.cover {
				c.rows = append(c.rows, int32(r.shape[row])) //nolint:gosec // bounded by maxPods
				c.vals = append(c.vals, lp.cols[b].vals[k])
			}
		}
		s.flow = append(s.flow, c)
	}
}

// addPool hands the patterns that are known from before to the linear program.
func (s *solver) addPool(lp *master, r *rows) {
	var items []item
	for i := range s.pool {
		items = items[:0]
		for k, sh := range s.pool[i].rows {
			items = append(items, item{int(sh), int32(s.pool[i].vals[k])})
		}
		if c, ok := s.column(s.pool[i].off, items, r); ok {
			lp.add(c)
		}
	}
}

// keep remembers a pattern for the rounding.
func (s *solver) keep(j int, items []item) bool {
	c := column{off: j, cost: s.p.offs[j].cost}
	h := uint64(j)*0x9e3779b97f4a7c15 + 1 //nolint:gosec // a hash
	for _, it := range items {
		c.rows = append(c.rows, int32(it.shape)) //nolint:gosec // bounded by maxPods
		c.vals = append(c.vals, float64(it.n))
		h = mix(h ^ uint64(it.shape)<<20 ^ uint64(it.n)) //nolint:gosec // a hash
	}
	if s.seen[h] {
		return false
	}
	s.seen[h] = true
	if len(s.pool) < maxPool {
		s.pool = append(s.pool, c)
	}
	s.stats.Columns++
	return true
}

func mix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// choose keeps the patterns and offerings that are near use at the final duals.
func (s *solver) choose(lp *master, r *rows) {
	hot := map[int]bool{}
	kept := s.pool[:0]
	for _, c := range s.pool {
		d := c.cost + s.toll(lp, r, c.off)
		for k, i := range c.rows {
			d -= s.duals[i] * c.vals[k]
		}
		if d < 0.03*c.cost {
			kept = append(kept, c)
			hot[c.off] = true
		}
	}
	s.pool = kept
	s.hot = s.hot[:0]
	for j := range hot {
		s.hot = append(s.hot, j)
	}
	sort.Ints(s.hot)
}

// next is a random number below n.
func (s *solver) next(n int) int {
	s.random += 0x9e3779b97f4a7c15
	return int(mix(s.random) % uint64(n)) //nolint:gosec // n is positive
}
