package packing

import (
	"slices"
	"sort"
)

// layout says for shapes with rules across machines where their pods go.
type layout struct {
	count map[int][]int  // shape: pods per zone
	gang  map[string]int // gang: its offering, or -1: left out
}

func (l *layout) clone() *layout {
	c := &layout{count: make(map[int][]int, len(l.count)), gang: make(map[string]int, len(l.gang))}
	for s, n := range l.count {
		c.count[s] = append([]int(nil), n...)
	}
	for g, j := range l.gang {
		c.gang[g] = j
	}
	return c
}

// zoner decides zones: shapes that terms by zone bind, pod after pod, each where the rules allow it.
type zoner struct {
	x       *across
	zoneAt  map[string]int
	bound   []int // shapes that need a zone, in the order in which they choose
	elig    map[int][]bool
	unit    map[int][]float64
	spreads []zoneSpread
	touch   map[int][]int // spreads that a shape takes part in
	blocked map[int]map[Reason]int
	needers map[string][]int // shapes with an affinity by zone to the label

	// the state of a layout in the making
	n     map[int][]int
	label map[string][]int
	total map[string]int
	anti  map[string][]int // holders of an anti-affinity to the label, per zone
	ask   map[Term][]int   // pods of a term's label that ask for the term
}

type zoneSpread struct {
	Spread
	shape int
	elig  []bool
}

func newZoner(x *across) *zoner {
	z := &zoner{x: x, zoneAt: map[string]int{}, elig: map[int][]bool{}, unit: map[int][]float64{}}
	for i, name := range x.zones {
		z.zoneAt[name] = i
	}
	named := map[string]bool{} // labels in terms by zone
	for i := range x.p.shapes {
		if r := x.p.shapes[i].rules; r != nil {
			for _, t := range append(append([]Term(nil), r.Affinity...), r.AntiAffinity...) {
				named[t.Label] = named[t.Label] || t.Topology == TopologyZone
			}
			for _, t := range r.Spread {
				named[t.Label] = named[t.Label] || (t.Topology == TopologyZone && (!t.Soft || !x.opts.relaxed))
			}
		}
	}
	for i := range x.p.shapes {
		r := x.p.shapes[i].rules
		if r == nil {
			continue
		}
		in := z.hasTerms(r)
		for _, l := range r.Labels {
			in = in || named[l]
		}
		if !in {
			continue
		}
		z.bound = append(z.bound, i)
		z.measure(i)
		for _, t := range r.Spread {
			if t.Topology == TopologyZone && (!t.Soft || !x.opts.relaxed) {
				z.spreads = append(z.spreads, zoneSpread{t, i, z.elig[i]})
			}
		}
	}
	z.order()
	z.touching()
	return z
}

// touching finds the spreads that each shape is judged by: its own and those of its labels.
func (z *zoner) touching() {
	z.touch, z.needers = map[int][]int{}, map[string][]int{}
	for _, i := range z.bound {
		for _, t := range z.x.p.shapes[i].rules.Affinity {
			if t.Topology == TopologyZone {
				z.needers[t.Label] = append(z.needers[t.Label], i)
			}
		}
	}
	byLabel := map[string][]int{}
	for q := range z.spreads {
		byLabel[z.spreads[q].Label] = append(byLabel[z.spreads[q].Label], q)
	}
	for _, i := range z.bound {
		list := []int{}
		for _, l := range z.x.p.shapes[i].rules.Labels {
			list = append(list, byLabel[l]...)
		}
		for q := range z.spreads {
			if z.spreads[q].shape == i {
				list = append(list, q)
			}
		}
		sort.Ints(list)
		z.touch[i] = slices.Compact(list)
	}
}

func (z *zoner) hasTerms(r *Rules) bool {
	for _, terms := range [][]Term{r.Affinity, r.AntiAffinity} {
		for _, t := range terms {
			if t.Topology == TopologyZone {
				return true
			}
		}
	}
	for _, t := range r.Spread {
		if t.Topology == TopologyZone && (!t.Soft || !z.x.opts.relaxed) {
			return true
		}
	}
	return false
}

// measure finds where a shape can run and what a pod of it costs there at least.
func (z *zoner) measure(i int) {
	p := z.x.p
	elig, unit := make([]bool, len(z.x.zones)), make([]float64, len(z.x.zones))
	for _, name := range p.zonesFor(p.shapes[i].pods[0]) {
		elig[z.zoneAt[name]] = true
	}
	for k := range unit {
		unit[k] = 1e18
	}
	for j := range z.x.given {
		o := &z.x.given[j]
		if k := z.zoneAt[zoneOf(o)]; elig[k] && priced(o) && p.accepted(&p.pods[p.shapes[i].pods[0]], o) {
			unit[k] = min(unit[k], shareOfMachine(&p.shapes[i], o)*o.weighed().Float())
		}
	}
	z.elig[i], z.unit[i] = elig, unit
}

// shareOfMachine is the largest share of a machine's sizes that a pod takes; large if it does not fit.
func shareOfMachine(s *shape, o *Offering) float64 {
	share := 1 / float64(max(1, o.MaxPods))
	for _, q := range [...][2]int64{{int64(s.need[0][dimCPU]), o.CPUMilli}, {int64(s.need[0][dimMem]), o.MemMiB}, {int64(s.gpus), o.GPUCount}} {
		if q[0] > 0 {
			share = max(share, float64(q[0])/max(0.001, float64(q[1])))
		}
	}
	if share > 1 {
		return 1e9
	}
	return share
}

// order lets gangs choose first, then shapes that need nobody, then those that need others, large groups before small ones.
func (z *zoner) order() {
	rank := map[int]int{}
	for _, i := range z.bound {
		r := z.x.p.shapes[i].rules
		rank[i] = 1
		if r.Gang != "" {
			rank[i] = 0
		}
		for _, t := range r.Affinity {
			if t.Topology == TopologyZone {
				if rank[i] = 3; r.has(t.Label) {
					rank[i] = 2
				}
			}
		}
	}
	sort.SliceStable(z.bound, func(a, b int) bool {
		x, y := z.bound[a], z.bound[b]
		if rank[x] != rank[y] {
			return rank[x] < rank[y]
		}
		return z.x.p.shapes[x].count > z.x.p.shapes[y].count
	})
}

func (z *zoner) reset() {
	z.n, z.label, z.total, z.anti, z.ask = map[int][]int{}, map[string][]int{}, map[string]int{}, map[string][]int{}, map[Term][]int{}
	z.blocked = map[int]map[Reason]int{}
	for _, i := range z.bound {
		z.n[i] = make([]int, len(z.x.zones))
	}
	for n := range z.x.base {
		zone := z.zoneAt[zoneOf(&z.x.given[z.x.base[n].Offering])]
		for _, i := range z.x.base[n].Pods {
			z.count(z.x.pods[i].Rules, zone, 1)
		}
	}
}

func at[K comparable](m map[K][]int, k K, n int) []int {
	if m[k] == nil {
		m[k] = make([]int, n)
	}
	return m[k]
}

// put adds pods of a shape to a zone, or takes them away (n below zero).
func (z *zoner) put(i, zone, n int) {
	z.n[i][zone] += n
	z.count(z.x.p.shapes[i].rules, zone, n)
}

// count adds pods with rules to the counts of a zone.
func (z *zoner) count(r *Rules, zone, n int) {
	if r == nil {
		return
	}
	w := len(z.x.zones)
	for _, l := range r.Labels {
		at(z.label, l, w)[zone] += n
		z.total[l] += n
	}
	for _, t := range r.AntiAffinity {
		if t.Topology == TopologyZone {
			at(z.anti, t.Label, w)[zone] += n
		}
	}
	for _, t := range r.Affinity {
		if t.Topology == TopologyZone && r.has(t.Label) {
			at(z.ask, t, w)[zone] += n
		}
	}
}

// may tells whether one more pod of a shape is allowed in a zone, and if not for which constraint and label.
func (z *zoner) may(i, zone int) (Reason, bool) {
	r, w := z.x.p.shapes[i].rules, len(z.x.zones)
	for _, t := range r.Affinity {
		if t.Topology != TopologyZone {
			continue
		}
		here := at(z.label, t.Label, w)[zone]
		if here > at(z.ask, t, w)[zone] {
			continue
		}
		if !r.has(t.Label) || here != z.total[t.Label] {
			return Reason{Constraint: ConstraintAffinity, Detail: t.Label}, false
		}
	}
	for _, t := range r.AntiAffinity {
		if t.Topology == TopologyZone && at(z.label, t.Label, w)[zone] > 0 {
			return Reason{Constraint: ConstraintAnti, Detail: t.Label}, false
		}
	}
	for _, l := range r.Labels {
		if at(z.anti, l, w)[zone] > 0 {
			return Reason{Constraint: ConstraintAnti, Detail: l}, false
		}
	}
	for _, q := range z.touch[i] {
		s := &z.spreads[q]
		member := r.has(s.Label)
		if s.shape != i && (!member || z.n[s.shape][zone] == 0) {
			continue
		}
		count := at(z.label, s.Label, w)
		now := count[zone]
		if member {
			now++
		}
		least := -1
		for k, ok := range s.elig {
			if c := count[k]; ok && k != zone && (least < 0 || c < least) {
				least = c
			}
		}
		if s.elig[zone] && (least < 0 || now < least) {
			least = now
		}
		if now-max(least, 0) > int(s.MaxSkew) {
			return Reason{Constraint: ConstraintSpread, Detail: s.Label}, false
		}
	}
	return Reason{}, true
}

// mayLeave tells whether the rules of all pods still hold where a pod of a shape has left a zone: of those who need it there, and of those
// who are to be spread with it.
func (z *zoner) mayLeave(i, zone int) bool {
	r, w := z.x.p.shapes[i].rules, len(z.x.zones)
	for _, l := range r.Labels {
		for _, k := range z.needers[l] {
			o := z.x.p.shapes[k].rules
			for _, t := range o.Affinity {
				here := at(z.label, l, w)[zone]
				if t.Topology == TopologyZone && t.Label == l && z.n[k][zone] > 0 && here <= at(z.ask, t, w)[zone] && (!o.has(l) || here != z.total[l]) {
					return false
				}
			}
		}
	}
	for _, q := range z.touch[i] {
		s := &z.spreads[q]
		if !r.has(s.Label) {
			continue
		}
		count, least := at(z.label, s.Label, w), -1
		for k, ok := range s.elig {
			if ok && (least < 0 || count[k] < least) {
				least = count[k]
			}
		}
		for k, n := range z.n[s.shape] {
			if n > 0 && count[k]-max(0, least) > int(s.MaxSkew) {
				return false
			}
		}
	}
	return true
}

// build chooses zones for a wish: pods per zone as the solver would have them. gangZone fixes gangs (-1: left out), force single shapes.
func (z *zoner) build(wish map[int][]int, gangZone map[string]int, force map[int]int) *layout {
	z.reset()
	for _, i := range z.bound {
		s := &z.x.p.shapes[i]
		for range s.count {
			best := -1
			for k := range z.x.zones {
				if !z.elig[i][k] {
					continue
				}
				if g, ok := gangZone[s.rules.Gang]; ok && s.rules.Gang != "" && g != k {
					continue
				}
				if f, ok := force[i]; ok && f != k {
					continue
				}
				why, ok := z.may(i, k)
				if !ok {
					z.block(i, why)
					continue
				}
				if best < 0 || z.rather(i, k, best, wish) {
					best = k
				}
			}
			if best < 0 {
				break // no zone now: none for the next equal pod either
			}
			z.put(i, best, 1)
		}
	}
	return &layout{count: z.n}
}

func (z *zoner) block(i int, why Reason) {
	if z.blocked[i] == nil {
		z.blocked[i] = map[Reason]int{}
	}
	z.blocked[i][why]++
}

// rather tells whether zone a is a better choice than b for a shape: one that those who need it can use, then what the wish has room
// for, then the cheaper.
func (z *zoner) rather(i, a, b int, wish map[int][]int) bool {
	if x, y := z.company(i, a), z.company(i, b); x != y {
		return x > y
	}
	if w := wish[i]; w != nil {
		if x, y := z.n[i][a] < w[a], z.n[i][b] < w[b]; x != y {
			return x
		}
	}
	if x, y := z.unit[i][a], z.unit[i][b]; x != y {
		return x < y
	}
	return z.n[i][a] < z.n[i][b]
}

// company is how many pods that must be where this shape is can be in a zone.
func (z *zoner) company(i, zone int) int64 {
	n := int64(0)
	r := z.x.p.shapes[i].rules
	for _, k := range z.bound {
		o := z.x.p.shapes[k].rules
		for _, t := range o.Affinity {
			if t.Topology == TopologyZone && r.has(t.Label) && z.elig[k][zone] {
				n += z.x.p.shapes[k].count
			}
		}
	}
	return n
}

// holds tells whether a whole layout keeps all rules by zone.
func (z *zoner) holds(l *layout) bool {
	z.reset()
	w := len(z.x.zones)
	for _, i := range z.bound {
		for k, n := range l.count[i] {
			if n > 0 {
				z.put(i, k, n)
			}
		}
	}
	for _, i := range z.bound {
		r := z.x.p.shapes[i].rules
		for k, n := range l.count[i] {
			if n == 0 {
				continue
			}
			for _, t := range r.Affinity {
				if here := at(z.label, t.Label, w)[k]; t.Topology == TopologyZone && here <= at(z.ask, t, w)[k] && (!r.has(t.Label) || here != z.total[t.Label]) {
					return false
				}
			}
			for _, t := range r.AntiAffinity {
				own := 0
				if r.has(t.Label) {
					own = 1
				}
				if t.Topology == TopologyZone && at(z.label, t.Label, w)[k] > own {
					return false
				}
			}
		}
	}
	for q := range z.spreads {
		s := &z.spreads[q]
		count, least := at(z.label, s.Label, w), -1
		for k, ok := range s.elig {
			if ok && (least < 0 || count[k] < least) {
				least = count[k]
			}
		}
		for k, n := range z.n[s.shape] {
			if n > 0 && count[k]-max(0, least) > int(s.MaxSkew) {
				return false
			}
		}
	}
	return true
}
