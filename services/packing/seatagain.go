package packing

import (
	"sort"
	"strconv"
)

// wish is a pod that is packed anew: on one offering only, in one zone only, or anywhere (-1).
type wish struct{ pod, off, zone int }

// again takes machines apart and packs their pods and those of the wishes anew, under all rules. It takes what leaves fewer of the wishes
// out, or costs less, and returns the wishes without a place; nil and false if all stays as it was.
func (s *seating) again(which []int, extra []wish) ([]wish, bool) {
	sub := s.sub(which, extra)
	a := sub.solve()
	homeless := map[int]bool{}
	for _, u := range a.Unplaced {
		homeless[sub.of[u.Pod]] = true
	}
	var left []wish
	gangs := map[string]bool{}
	for _, w := range extra {
		if r := s.x.pods[w.pod].Rules; homeless[w.pod] && r != nil && r.Gang != "" {
			gangs[r.Gang] = true
		}
	}
	for _, w := range extra {
		r := s.x.pods[w.pod].Rules
		if homeless[w.pod] || (r != nil && gangs[r.Gang]) {
			homeless[w.pod] = true
			left = append(left, w)
		}
	}
	if len(homeless) > len(left) || (len(left) == len(extra) && len(extra) > 0) || (len(extra) == 0 && a.Weighed >= s.weigh(which)) {
		return nil, false
	}
	for n := range a.Nodes { // wishes of a gang that is left out go with it
		kept := a.Nodes[n].Pods[:0]
		for _, i := range a.Nodes[n].Pods {
			if !homeless[sub.of[i]] {
				kept = append(kept, sub.of[i])
			}
		}
		a.Nodes[n].Pods = kept
	}
	if !s.domains(which, extra, a) {
		return nil, false
	}
	s.replace(which, a)
	return left, true
}

// replace puts machines in the place of others.
func (s *seating) replace(which []int, a *Answer) {
	for _, n := range which {
		for len(s.seats[n].pods) > 0 {
			s.up(s.seats[n].pods[len(s.seats[n].pods)-1])
		}
		s.seats[n].gone = true
	}
	for n := range a.Nodes {
		if len(a.Nodes[n].Pods) == 0 {
			continue
		}
		s.seats = append(s.seats, seat{off: a.Nodes[n].Offering})
		for _, i := range a.Nodes[n].Pods {
			s.sit(i, len(s.seats)-1)
		}
	}
}

// domains tells whether the gangs on new machines would still fit into one interconnect domain each.
func (s *seating) domains(which []int, extra []wish, a *Answer) bool {
	old := map[int]bool{}
	for _, n := range which {
		old[n] = true
	}
	now := map[string]map[int]bool{}
	for n := range a.Nodes {
		for _, i := range a.Nodes[n].Pods {
			if r := s.x.pods[i].Rules; r != nil && r.Gang != "" && s.x.given[a.Nodes[n].Offering].DomainNodes > 0 {
				if now[r.Gang] == nil {
					now[r.Gang] = map[int]bool{}
					for _, k := range s.gangs[r.Gang].pods {
						if at := s.at[k]; at >= 0 && !old[at] {
							now[r.Gang][at] = true
						}
					}
				}
				now[r.Gang][-1-n] = true
			}
		}
	}
	for name, on := range now {
		if int64(len(on)) > s.x.given[s.gangs[name].off].DomainNodes {
			return false
		}
	}
	return true
}

// sub is a packing problem of some pods: of is their place among all pods.
type sub struct {
	of    []int
	pods  []Pod
	pin   []int32
	pins  [][]bool
	given []Offering
	opts  Options
	bond  *seating
}

func (q *sub) solve() *Answer {
	s := newSolver(newPinned(q.pods, q.given, q.opts, q.pin, q.pins))
	s.solve()
	return s.answer()
}

// sub is the problem of packing the pods of machines and wishes anew beside all others: pods that zones bind stay in their zones, gangs
// on their offerings, and no pool gets more of a workload than it may.
func (s *seating) sub(which []int, extra []wish) *sub {
	q := &sub{pins: [][]bool{nil}, given: s.x.given, opts: s.x.opts}
	q.opts.quick = true
	if s.scant {
		q.given, q.opts.Limits = s.x.lessOf(s.others(which), q.opts.Limits)
	}
	loads := map[int]int{} // pods of a load in the problem
	each := func(f func(pod, off, zone, from int)) {
		for _, n := range which {
			t := &s.seats[n]
			for _, i := range t.pods {
				off, zone := -1, -1
				if r := s.x.pods[i].Rules; r != nil && r.Gang != "" {
					off = t.off
				} else if s.zoned[s.shapeOf(i)] {
					zone = s.zone[t.off]
				}
				f(i, off, zone, s.pool[t.off])
			}
		}
		for _, w := range extra {
			f(w.pod, w.off, w.zone, -1)
		}
	}
	from := map[[2]int]int{} // of a load on a pool, in the machines that are taken apart
	each(func(pod, _, _, pool int) {
		if w := s.loadOf(pod); w >= 0 {
			loads[w]++
			from[[2]int{w, pool}]++
		}
	})
	units := s.units(extra)
	at := map[string]int32{}
	each(func(pod, off, zone, pool int) {
		w := s.loadOf(pod)
		key := strconv.Itoa(off) + " " + strconv.Itoa(zone)
		var pools func(k int) bool
		if w >= 0 {
			mine := units[pod]
			if key += " " + strconv.Itoa(w) + " " + strconv.Itoa(pool); mine != nil {
				key += " " + strconv.Itoa(pod)
			}
			pools = func(k int) bool {
				left := s.most[w] - s.held[[2]int{w, k}] + from[[2]int{w, k}] // beside the pods that are not in the problem
				return k == pool || mine[k] || left >= loads[w]
			}
		}
		id, ok := at[key]
		if !ok {
			set := make([]bool, len(s.x.given))
			for j := range set {
				set[j] = (off < 0 || j == off) && (zone < 0 || s.zone[j] == zone) && (pools == nil || pools(s.pool[j]))
			}
			id = int32(len(q.pins)) //nolint:gosec // bounded by maxPods
			q.pins, at[key] = append(q.pins, set), id
		}
		q.of = append(q.of, pod)
		q.pods = append(q.pods, s.x.pods[pod])
		q.pin = append(q.pin, id)
	})
	return q
}

// units shares what workloads may still have on each pool among their pods without a place: which pools each may use, whatever the others do.
func (s *seating) units(extra []wish) map[int]map[int]bool {
	byLoad := map[int][]wish{}
	for _, w := range extra {
		if l := s.loadOf(w.pod); l >= 0 {
			byLoad[l] = append(byLoad[l], w)
		}
	}
	if len(byLoad) == 0 {
		return nil
	}
	zone := map[int]int{} // of each pool
	for j := range s.x.given {
		zone[s.pool[j]] = s.zone[j]
	}
	out := map[int]map[int]bool{}
	for l, wishes := range byLoad {
		for _, w := range wishes {
			out[w.pod] = map[int]bool{}
		}
		for k := range len(zone) {
			for range s.most[l] - s.held[[2]int{l, k}] {
				least := -1
				for t, w := range wishes {
					if (w.zone >= 0 && w.zone != zone[k]) || out[w.pod][k] || !s.fits(s.kind[w.pod])[k] {
						continue
					}
					if least < 0 || len(out[w.pod]) < len(out[wishes[least].pod]) {
						least = t
					}
				}
				if least < 0 {
					break
				}
				out[wishes[least].pod][k] = true
			}
		}
	}
	return out
}

// others are all machines but some.
func (s *seating) others(which []int) []Node {
	out := map[int]bool{}
	for _, n := range which {
		out[n] = true
	}
	var nodes []Node
	for n := range s.seats {
		if t := &s.seats[n]; !t.gone && len(t.pods) > 0 && !out[n] {
			nodes = append(nodes, Node{Offering: t.off})
		}
	}
	return nodes
}

// mend finds places for the pods that have none: on machines that still have places of their kinds, taken apart with them, and on new ones.
// It returns those for whom nothing was found.
func (s *seating) mend(missing []int) []int {
	forbidden := map[[2]int]bool{}
	for turn := 0; turn < 6 && len(missing) > 0; turn++ {
		var batches [][]wish
		batches, missing = s.wishes(missing, forbidden, turn)
		for _, extra := range batches {
			if s.x.stop() && turn > 0 {
				missing = append(missing, s.drop(extra)...)
				continue
			}
			which := s.near(extra, turn)
			for _, w := range extra {
				s.uncount(w)
			}
			left, ok := s.again(which, extra)
			if !ok {
				left = extra
			}
			for _, w := range left {
				missing = append(missing, w.pod)
				if w.off >= 0 {
					forbidden[[2]int{w.pod, w.off}] = true
				} else {
					forbidden[[2]int{w.pod, -1 - w.zone}] = true
				}
			}
		}
		sort.Ints(missing)
	}
	return missing
}

func (s *seating) drop(extra []wish) []int {
	var out []int
	for _, w := range extra {
		s.uncount(w)
		out = append(out, w.pod)
	}
	return out
}

func (s *seating) uncount(w wish) {
	if w.zone >= 0 {
		s.inZone(w.pod, w.zone, -1)
	}
}

// wishes chooses zones and offerings for pods without a place, and puts the pods into batches. Their zones are counted at once, so that each
// knows of those before it.
func (s *seating) wishes(missing []int, forbidden map[[2]int]bool, turn int) (batches [][]wish, without []int) {
	size := 60
	if turn >= 3 { // alone: others may be what stands in the way
		size = 1
	}
	in := map[int]bool{}
	for _, i := range missing {
		in[i] = true
	}
	var now []wish
	flush := func() {
		if len(now) > 0 {
			batches, now = append(batches, now), nil
		}
	}
	done := map[string]bool{}
	for _, i := range missing {
		r := s.x.pods[i].Rules
		if r == nil || r.Gang == "" || done[r.Gang] {
			continue
		}
		done[r.Gang] = true
		g := s.gangs[r.Gang]
		off := -1
		if !g.broken {
			off = s.offeringOf(g, forbidden)
		}
		if off < 0 {
			without = append(without, g.pods...)
			continue
		}
		g.off = off
		for _, pod := range g.pods {
			s.inZone(pod, s.zone[off], 1)
			now = append(now, wish{pod, off, s.zone[off]})
		}
		if len(now) >= size {
			flush()
		}
	}
	for _, k := range s.order() {
		for _, i := range s.x.p.shapes[k].pods {
			if !in[i] {
				continue
			}
			w := wish{i, -1, -1}
			if s.zoned[k] {
				if w.zone = s.zoneFor(k, i, forbidden); w.zone < 0 {
					without = append(without, i)
					continue
				}
				s.inZone(i, w.zone, 1)
			} else if forbidden[[2]int{i, 0}] && turn > 3 {
				without = append(without, i)
				continue
			}
			if now = append(now, w); len(now) >= size {
				flush()
			}
		}
	}
	flush()
	return batches, without
}

// zoneFor is the zone for a pod without a place; -1: none.
func (s *seating) zoneFor(k, pod int, forbidden map[[2]int]bool) int {
	best := -1
	for z, ok := range s.z.elig[k] {
		if !ok || forbidden[[2]int{pod, -1 - z}] {
			continue
		}
		if _, may := s.z.may(k, z); !may {
			continue
		}
		if best < 0 || s.nearer(k, z, best) {
			best = z
		}
	}
	return best
}

func (s *seating) nearer(k, a, b int) bool {
	if x, y := s.z.company(k, a), s.z.company(k, b); x != y {
		return x > y
	}
	if x, y := s.z.unit[k][a], s.z.unit[k][b]; x != y {
		return x < y
	}
	return s.z.n[k][a] < s.z.n[k][b]
}

// offeringOf is the offering on which a gang would cost least; -1: none.
func (s *seating) offeringOf(g *crew, forbidden map[[2]int]bool) int {
	c := &gangChoice{name: g.name, pods: g.pods}
	seen := map[int]bool{}
	for _, i := range g.pods {
		if k := s.shapeOf(i); !seen[k] {
			seen[k] = true
			c.shapes = append(c.shapes, k)
		}
	}
	sort.Ints(c.shapes)
	stands := s.x.stands(g.name)
	best, least := -1, 0.0
	for j := range s.x.given {
		if (stands >= 0 && j != stands) || forbidden[[2]int{g.pods[0], j}] || s.x.leastMachines(c, j) == 0 || !s.crewMay(g, j) {
			continue
		}
		cost := 0.0
		for _, k := range c.shapes {
			t := &s.x.p.shapes[k]
			cost += shareOfMachine(t, &s.x.given[j]) * float64(t.count) * s.x.given[j].weighed().Float()
		}
		if best < 0 || cost < least {
			best, least = j, cost
		}
	}
	return best
}

// crewMay tells whether the zone of an offering is open to all pods of a gang.
func (s *seating) crewMay(g *crew, j int) bool {
	for _, i := range g.pods {
		if k := s.shapeOf(i); s.zoned[k] {
			if _, ok := s.z.may(k, s.zone[j]); !ok {
				return false
			}
		}
	}
	return true
}

// near are the machines to take apart for wishes: those with free places of their kinds where they may go, and those that hold what they need
// beside them.
func (s *seating) near(extra []wish, turn int) []int {
	in := map[int]bool{}
	var out []int
	add := func(n int) {
		if !in[n] && !s.seats[n].gone && len(out) < 80 {
			in[n] = true
			out = append(out, n)
		}
	}
	want := map[int]int{}
	for _, w := range extra {
		want[s.kind[w.pod]]++
	}
	for _, w := range extra {
		found := 0
		b := s.x.p.shapes[s.shapeOf(w.pod)].bond
		for n := range s.seats {
			t := &s.seats[n]
			if t.gone || found > 1+turn {
				continue
			}
			fine := (w.off < 0 || t.off == w.off) && (w.zone < 0 || s.zone[t.off] == w.zone)
			beside := false
			if b != nil && fine {
				for _, g := range b.needs {
					for _, it := range t.items {
						beside = beside || s.x.p.shapes[it.shape].rules.has(g.label)
					}
				}
			}
			if fine && !in[n] && (beside || (t.free != nil && t.free[s.kind[w.pod]] > 0)) {
				add(n)
				found++
			}
		}
	}
	if turn >= 3 && len(s.seats) <= 200 { // whatever is left
		for n := range s.seats {
			add(n)
		}
	}
	sort.Ints(out)
	return out
}

// polish packs a few machines anew, those that cost more than their pods are worth before others, until the packing is near its bound or
// the count of tries is used up.
func (s *seating) polish() {
	if s.x.opts.quick || s.x.base != nil || len(s.seats) < 2 {
		return
	}
	bound := s.x.bound.Float()
	var alive []int
	cost := 0.0
	for n := range s.seats {
		if t := &s.seats[n]; !t.gone && len(t.pods) > 0 {
			alive = append(alive, n)
			cost += s.x.given[t.off].weighed().Float()
		}
	}
	enough := bound * (1 + 0.1/float64(s.first.effort()))
	for try := 0; try < 20*s.first.effort() && cost > enough && !s.x.stop(); try++ {
		which := s.choose(alive, 4+s.next(8))
		before, had := s.weigh(which), len(s.seats)
		s.turn++
		if _, ok := s.again(which, nil); !ok {
			continue
		}
		kept := alive[:0]
		for _, n := range alive {
			if !s.seats[n].gone {
				kept = append(kept, n)
			}
		}
		alive = kept
		var fresh []int
		for n := had; n < len(s.seats); n++ {
			fresh = append(fresh, n)
		}
		alive = append(alive, fresh...)
		cost -= before.Float() - s.weigh(fresh).Float()
	}
}

// choose picks machines, half of them by what they cost beyond the worth of their pods, half by lot.
func (s *seating) choose(alive []int, k int) []int {
	in := map[int]bool{}
	var out []int
	for len(out) < min(k, len(alive)) {
		n := alive[s.next(len(alive))]
		if len(out)%2 == 0 {
			for range 6 {
				if o := alive[s.next(len(alive))]; !in[o] && s.loss(o) > s.loss(n) {
					n = o
				}
			}
		}
		if !in[n] {
			in[n] = true
			out = append(out, n)
		}
	}
	sort.Ints(out)
	return out
}

func (s *seating) loss(n int) float64 {
	l := s.x.given[s.seats[n].off].weighed().Float()
	for _, i := range s.seats[n].pods {
		l -= s.worth[i]
	}
	return l
}

func (s *seating) next(n int) int { return s.first.next(n) }
