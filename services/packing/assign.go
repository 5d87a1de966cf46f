package packing

import (
	"sort"
	"strconv"

	"plimsoll.dev/services/fleet"
)

// gangChoice is a gang and the offerings that would hold it whole, cheapest first.
type gangChoice struct {
	name    string
	shapes  []int
	pods    []int
	options []gangOption
	now     int // index into options; -1: left out
	fixed   bool
}

type gangOption struct {
	off    int
	zone   int
	nodes  []Node
	weight fleet.Money
}

// gangOptions is how many offerings of a gang are packed for real, in the order of the least they could cost.
const gangOptions = 8

// assign looks for choices of gangs, zones and pools that keep all rules, starting from what a packing without rules across machines would have.
func (x *across) assign(a *Answer) {
	x.z = newZoner(x)
	x.most = x.p.poolMost()
	x.heavy = map[string][]string{}
	x.pools = map[[2]int]map[string]bool{}
	x.findGangs()
	wish := x.wishOf(a)
	x.chooseGangs()
	start := x.z.build(wish, x.gangZones(), nil)
	few := len(x.pods) <= 200
	l, cost := start, x.value(x.evaluate(start, !few))
	if x.stop() {
		return
	}
	if x.base == nil {
		l, _ = x.search(l, cost, wish, few)
	}
	if !few {
		x.evaluate(l, false)
	}
}

func (x *across) wishOf(a *Answer) map[int][]int {
	wish := map[int][]int{}
	for n := range a.Nodes {
		zone := x.z.zoneAt[zoneOf(&x.given[a.Nodes[n].Offering])]
		for _, i := range a.Nodes[n].Pods {
			if s := x.p.kept[x.p.of[i]]; s >= 0 && x.p.shapes[s].rules != nil {
				at(wish, s, len(x.zones))[zone]++
			}
		}
	}
	return wish
}

// value orders evaluations: pods left out, then cost.
func (x *across) value(a *Answer) [2]int64 {
	return [2]int64{int64(len(a.Unplaced)), int64(a.Weighed)}
}

func less(a, b [2]int64) bool { return a[0] < b[0] || (a[0] == b[0] && a[1] < b[1]) }

// search tries other choices: all of them where they are few, else one change after the other.
func (x *across) search(l *layout, cost [2]int64, wish map[int][]int, few bool) (*layout, [2]int64) {
	if few {
		if all := x.every(400); all != nil {
			for _, c := range all {
				if x.stop() || x.done() {
					break
				}
				x.setGangs(c)
				x.evaluate(c, false)
			}
			return l, cost
		}
	}
	left := min(40, 3000/max(1, len(x.pods)))
	for _, move := range x.moves() {
		if left--; left < 0 || x.stop() || x.done() {
			break
		}
		c := move(l, wish)
		if c == nil {
			left++
			continue
		}
		if v := x.value(x.evaluate(c, !few)); less(v, cost) {
			l, cost = c, v
		} else {
			x.setGangs(l)
		}
	}
	x.setGangs(l)
	return l, cost
}

// done tells that nothing can be better than the best.
func (x *across) done() bool {
	return x.best != nil && len(x.best.Unplaced) == len(x.p.unfit) && x.best.Weighed <= x.bound
}

// moves are single changes of a layout: another offering for a gang, another zone for pods that belong together, one pod to another zone.
func (x *across) moves() []func(*layout, map[int][]int) *layout {
	var out []func(*layout, map[int][]int) *layout
	for _, g := range x.gangs {
		for k := range g.options {
			out = append(out, func(l *layout, wish map[int][]int) *layout {
				if l.gang[g.name] == k {
					return nil
				}
				g.now = k
				c := x.z.build(wish, x.gangZones(), nil)
				c.gang = x.gangNow()
				return c
			})
		}
	}
	for _, group := range x.z.together() {
		for zone := range x.zones {
			out = append(out, func(l *layout, wish map[int][]int) *layout {
				force := map[int]int{}
				for _, i := range group {
					if !x.z.elig[i][zone] || l.count[i][zone] == int(x.p.shapes[i].count) {
						return nil
					}
					force[i] = zone
				}
				c := x.z.build(wish, x.gangZones(), force)
				c.gang = x.gangNow()
				return c
			})
		}
	}
	for _, i := range x.z.bound {
		for from := range x.zones {
			for to := range x.zones {
				out = append(out, func(l *layout, _ map[int][]int) *layout {
					if from == to || l.count[i][from] == 0 || !x.z.elig[i][to] || x.p.shapes[i].rules.Gang != "" {
						return nil
					}
					c := l.clone()
					c.count[i][from]--
					c.count[i][to]++
					if !x.z.holds(c) {
						return nil
					}
					return c
				})
			}
		}
	}
	return out
}

// together are the groups of shapes that affinity by zone ties.
func (z *zoner) together() [][]int {
	group := map[int]int{}
	for _, i := range z.bound {
		group[i] = i
	}
	var find func(i int) int
	find = func(i int) int {
		if group[i] != i {
			group[i] = find(group[i])
		}
		return group[i]
	}
	tied := map[int]bool{}
	for _, i := range z.bound {
		for _, t := range z.x.p.shapes[i].rules.Affinity {
			for _, k := range z.bound {
				if t.Topology == TopologyZone && z.x.p.shapes[k].rules.has(t.Label) {
					group[find(i)] = find(k)
					tied[i], tied[k] = true, true
				}
			}
		}
	}
	at := map[int]int{}
	var out [][]int
	for _, i := range z.bound {
		if !tied[i] {
			continue
		}
		r := find(i)
		if _, ok := at[r]; !ok {
			at[r] = len(out)
			out = append(out, nil)
		}
		out[at[r]] = append(out[at[r]], i)
	}
	return out
}

// every lists all layouts that keep the rules by zone, or nil if there are too many to try.
func (x *across) every(most int) []*layout {
	w := len(x.zones)
	choices := 1
	for _, i := range x.z.bound {
		if x.p.shapes[i].rules.Gang != "" {
			continue
		}
		n := 1
		for k := 1; k < w; k++ { // multisets
			n = n * (int(x.p.shapes[i].count) + k) / k
			if n > 4096 {
				return nil
			}
		}
		if choices *= n; choices > 4096 {
			return nil
		}
	}
	for _, g := range x.gangs {
		if choices *= len(g.options) + 1; choices > 4096 {
			return nil
		}
	}
	var out []*layout
	l := &layout{count: map[int][]int{}, gang: map[string]int{}}
	for _, i := range x.z.bound {
		l.count[i] = make([]int, w)
	}
	var shape func(at int) bool
	var spread func(at, zone, left int) bool
	var gang func(at int) bool
	shape = func(at int) bool {
		if at == len(x.z.bound) {
			if x.z.holds(l) {
				out = append(out, l.clone())
			}
			return len(out) <= most
		}
		i := x.z.bound[at]
		if x.p.shapes[i].rules.Gang != "" {
			return shape(at + 1)
		}
		return spread(at, 0, int(x.p.shapes[i].count))
	}
	spread = func(at, zone, left int) bool {
		i := x.z.bound[at]
		if zone == w-1 {
			if left > 0 && !x.z.elig[i][zone] {
				return true
			}
			l.count[i][zone] = left
			ok := shape(at + 1)
			l.count[i][zone] = 0
			return ok
		}
		for n := 0; n <= left; n++ {
			if n > 0 && !x.z.elig[i][zone] {
				break
			}
			l.count[i][zone] = n
			if !spread(at, zone+1, left-n) {
				return false
			}
		}
		l.count[i][zone] = 0
		return true
	}
	gang = func(at int) bool {
		if at == len(x.gangs) {
			return shape(0)
		}
		g := x.gangs[at]
		for k := range g.options {
			l.gang[g.name] = k
			for _, i := range g.shapes {
				if n := l.count[i]; n != nil {
					clear(n)
					n[g.options[k].zone] = int(x.p.shapes[i].count)
				}
			}
			if !gang(at + 1) {
				return false
			}
		}
		if len(g.options) == 0 {
			l.gang[g.name] = -1
			return gang(at + 1)
		}
		return true
	}
	if !gang(0) {
		return nil
	}
	return out
}

func (x *across) gangNow() map[string]int {
	out := map[string]int{}
	for _, g := range x.gangs {
		out[g.name] = g.now
	}
	return out
}

func (x *across) setGangs(l *layout) {
	for _, g := range x.gangs {
		if k, ok := l.gang[g.name]; ok {
			g.now = k
		}
		g.fixed = false
	}
}

// evaluate packs with the zones of a layout and the gangs' offerings as they are now; the answer keeps all rules, if need be with fewer pods.
func (x *across) evaluate(l *layout, quick bool) *Answer {
	if l.gang == nil {
		l.gang = x.gangNow()
	}
	var a *Answer
	for range 2 {
		a = x.trim(x.packed(l, quick))
		if !x.fix(a) {
			break
		}
	}
	for _, g := range x.gangs {
		g.fixed = false
	}
	x.offer(a)
	return a
}

// fix gives machines of their own to the gangs that got none among the others, and tells whether there are such.
func (x *across) fix(a *Answer) bool {
	out := map[int]bool{}
	for _, u := range a.Unplaced {
		out[u.Pod] = true
	}
	any := false
	for _, g := range x.gangs {
		if g.now >= 0 && !g.fixed && out[g.pods[0]] {
			g.fixed, any = true, true
		}
	}
	return any
}

func (x *across) packed(l *layout, quick bool) *Answer {
	pin := x.bare()
	if pin == nil {
		pin = make([]int32, len(x.pods))
	}
	opts := x.opts
	opts.quick = quick
	var lost []Unplaced
	for _, i := range x.z.bound {
		s := &x.p.shapes[i]
		if s.rules.Gang != "" {
			continue
		}
		next := 0
		for k, n := range l.count[i] {
			for range n {
				pin[s.pods[next]] = x.zonePin(x.zones[k])
				next++
			}
		}
		for _, pod := range s.pods[next:] {
			pin[pod] = -1
			lost = append(lost, Unplaced{Pod: pod, Reasons: append(x.p.reasons(&x.pods[pod]), x.z.why(i)...)})
		}
	}
	var own []Node
	left := x.whole()
	for _, g := range x.gangs {
		switch {
		case g.now < 0 || (g.fixed && !x.take(left, g)):
			for _, pod := range g.pods {
				pin[pod] = -1
				lost = append(lost, Unplaced{Pod: pod, Reasons: append(x.p.reasons(&x.pods[pod]), Reason{Constraint: ConstraintGang, Detail: g.name})})
			}
		case g.fixed:
			own = append(own, g.options[g.now].nodes...)
			for _, pod := range g.pods {
				pin[pod] = -1
			}
		default:
			off := g.options[g.now].off
			id := x.pin(joined("gang", strconv.Itoa(off)), func(i int) bool { return i == off })
			for _, pod := range g.pods {
				pin[pod] = id
			}
		}
	}
	a := x.underPools(pin, own, opts)
	for k := range a.Unplaced { // what keeps it from the zones where there is room
		if i := x.p.kept[x.p.of[a.Unplaced[k].Pod]]; i >= 0 {
			a.Unplaced[k].Reasons = append(a.Unplaced[k].Reasons, x.z.why(i)...)
		}
	}
	a.Unplaced = append(a.Unplaced, lost...)
	a.Nodes = append(a.Nodes, own...)
	x.recount(a)
	return a
}

// underPools packs, and keeps workloads that lie too heavily on a pool off it but for as many replicas as may be there, until none does.
func (x *across) underPools(pin []int32, own []Node, opts Options) *Answer {
	y := *x
	if len(own) > 0 {
		y.given, opts.Limits = x.lessOf(own, opts.Limits)
	}
	for turn := 0; ; turn++ {
		with := x.withPools(pin)
		rough := opts
		rough.quick = opts.quick || (turn == 0 && len(x.most) > 0 && len(x.heavy) == 0)
		a := y.run(with, x.pins, rough).answer()
		more := x.tooHeavy(a)
		if (!more || turn >= 60) && rough.quick == opts.quick {
			return a
		}
		if x.stop() {
			return a
		}
	}
}

func (x *across) tooHeavy(a *Answer) bool {
	if len(x.most) == 0 {
		return false
	}
	any := false
	count := map[[2]string]int{}
	nodes := append(append([]Node(nil), x.base...), a.Nodes...)
	for n := range nodes {
		pool := poolOf(&x.given[nodes[n].Offering])
		for _, i := range nodes[n].Pods {
			if r := x.pods[i].Rules; r != nil && r.MaxPoolMilli > 0 {
				k := [2]string{r.Workload, pool}
				if count[k]++; count[k] == x.most[r.Workload]+1 {
					known := false
					for _, h := range x.heavy[r.Workload] {
						known = known || h == pool
					}
					if !known {
						x.heavy[r.Workload] = append(x.heavy[r.Workload], pool)
						any = true
					}
				}
			}
		}
	}
	return any
}

// withPools narrows pins: of a workload as many replicas as may be on a heavy pool may use it but no other heavy one; the rest none.
func (x *across) withPools(pin []int32) []int32 {
	if len(x.heavy) == 0 {
		return pin
	}
	out := append([]int32(nil), pin...)
	byLoad := map[string][]int{}
	for i := range x.pods {
		if r := x.pods[i].Rules; r != nil && r.MaxPoolMilli > 0 && r.Gang == "" && pin[i] >= 0 && len(x.heavy[r.Workload]) > 0 {
			byLoad[r.Workload] = append(byLoad[r.Workload], i)
		}
	}
	loads := make([]string, 0, len(byLoad))
	for w := range byLoad {
		loads = append(loads, w)
	}
	sort.Strings(loads)
	for _, w := range loads {
		free := byLoad[w]
		heavy := map[string]bool{}
		for _, h := range x.heavy[w] {
			heavy[h] = true
		}
		for _, h := range x.heavy[w] {
			sort.SliceStable(free, func(a, b int) bool {
				p, q := x.near(pin[free[a]], free[a], h), x.near(pin[free[b]], free[b], h)
				return p > q
			})
			n := min(len(free), max(0, x.most[w]-x.stood(w, h)))
			for n > 0 && x.near(pin[free[n-1]], free[n-1], h) < -1e6 {
				n--
			}
			for _, i := range free[:n] {
				out[i] = x.poolPin(pin[i], w, h, heavy)
			}
			free = free[n:]
		}
		for _, i := range free {
			out[i] = x.poolPin(pin[i], w, "", heavy)
		}
	}
	return out
}

// stood is how many replicas of a workload run on a pool already.
func (x *across) stood(load, pool string) int {
	count := 0
	for n := range x.base {
		if poolOf(&x.given[x.base[n].Offering]) != pool {
			continue
		}
		for _, i := range x.base[n].Pods {
			if r := x.pods[i].Rules; r != nil && r.MaxPoolMilli > 0 && r.Workload == load {
				count++
			}
		}
	}
	return count
}

// near tells how much a pod with a pin should be among those that may use a pool: the fewer other pools it has the more; far below zero if
// it cannot use the pool.
func (x *across) near(pin int32, pod int, pool string) int {
	key := [2]int{int(pin), x.p.of[pod]}
	pools, ok := x.pools[key]
	if !ok {
		pools = map[string]bool{}
		for i := range x.given {
			fine := pin == 0 || x.pins[pin] == nil || x.pins[pin][i]
			if fine {
				for _, f := range x.p.fails(&x.pods[pod], i) {
					fine = fine && !f
				}
			}
			if fine {
				pools[poolOf(&x.given[i])] = true
			}
		}
		x.pools[key] = pools
	}
	if !pools[pool] {
		return -1 << 30
	}
	return -len(pools)
}

func (x *across) poolPin(base int32, load, may string, heavy map[string]bool) int32 {
	key := joined("pool", strconv.Itoa(int(base)), load, may)
	for _, h := range x.heavy[load] {
		key = joined(key, h)
	}
	return x.pin(key, func(i int) bool {
		pool := poolOf(&x.given[i])
		return (base == 0 || x.pins[base] == nil || x.pins[base][i]) && (pool == may || !heavy[pool])
	})
}

// lessOf takes machines off stock and limits.
func (x *across) lessOf(own []Node, limits []Limit) ([]Offering, []Limit) {
	given := append([]Offering(nil), x.given...)
	limits = append([]Limit(nil), limits...)
	for n := range own {
		o := &given[own[n].Offering]
		if o.Stock != nil {
			left := max(0, *o.Stock-1)
			o.Stock = &left
		}
		for q := range limits {
			limits[q].Max = max(0, limits[q].Max-limits[q].of(o))
		}
	}
	return given, limits
}

// why tells which rules by zone kept pods of a shape from the zones.
func (z *zoner) why(i int) []Reason {
	var out []Reason
	for r := range z.blocked[i] {
		out = append(out, r)
	}
	sort.Slice(out, func(a, b int) bool {
		if out[a].Constraint != out[b].Constraint {
			return out[a].Constraint < out[b].Constraint
		}
		return out[a].Detail < out[b].Detail
	})
	return out
}
