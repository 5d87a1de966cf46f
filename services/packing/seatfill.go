package packing

import "sort"

// filler gives the places of a packing by kinds to pods.
type filler struct {
	*seating
	byKind  [][]int        // seats that have or had places of a kind, ascending
	open    map[[2]int]int // free places of a kind in a zone
	onPool  map[[2]int]int // free places of a kind on a pool
	holders [][]int        // seats that had places of a kind at first, ascending
}

func (f *filler) take(pod, n int) {
	k := f.kind[pod]
	f.seats[n].free[k]--
	f.open[[2]int{k, f.zone[f.seats[n].off]}]--
	f.onPool[[2]int{k, f.pool[f.seats[n].off]}]--
	f.sit(pod, n)
}

func (f *filler) giveBack(pod int) {
	n, k := f.at[pod], f.kind[pod]
	f.seats[n].free[k]++
	f.open[[2]int{k, f.zone[f.seats[n].off]}]++
	f.onPool[[2]int{k, f.pool[f.seats[n].off]}]++
	f.up(pod)
}

// shape seats the pods of a shape one by one, evenly over the zones, and returns those without a place.
func (f *filler) shape(i int) []int {
	t := &f.x.p.shapes[i]
	for at, pod := range t.pods {
		n := f.best(i, pod)
		if n < 0 {
			return append([]int(nil), t.pods[at:]...)
		}
		f.take(pod, n)
	}
	return nil
}

// best is the seat for a pod: in the zone that its rules like best, the one with the most places of the kind; -1: none.
func (f *filler) best(i, pod int) int {
	k := f.kind[pod]
	if !f.zoned[i] {
		return f.inZones(pod, func(int) bool { return true })
	}
	tried := make([]bool, len(f.x.zones))
	for range tried {
		zone := -1
		for z := range tried {
			if tried[z] || !f.z.elig[i][z] || f.open[[2]int{k, z}] == 0 {
				continue
			}
			if _, ok := f.z.may(i, z); ok && (zone < 0 || f.rather(i, k, z, zone)) {
				zone = z
			}
		}
		if zone < 0 {
			return -1
		}
		if n := f.inZones(pod, func(z int) bool { return z == zone }); n >= 0 {
			return n
		}
		tried[zone] = true
	}
	return -1
}

// rather tells whether zone a is a better choice than b.
func (f *filler) rather(i, k, a, b int) bool {
	if x, y := f.z.company(i, a), f.z.company(i, b); x != y {
		return x > y
	}
	if x, y := f.open[[2]int{k, a}], f.open[[2]int{k, b}]; x != y {
		return x > y
	}
	return f.z.unit[i][a] < f.z.unit[i][b]
}

func (f *filler) inZones(pod int, ok func(zone int) bool) int {
	k, best := f.kind[pod], -1
	list := f.byKind[k]
	tight := f.loadOf(pod) >= 0
	better := func(a, b int) bool { // the pool with the most places for those who may not have too many on one, then the machine
		if tight {
			if x, y := f.onPool[[2]int{k, f.pool[f.seats[a].off]}], f.onPool[[2]int{k, f.pool[f.seats[b].off]}]; x != y {
				return x > y
			}
		}
		return f.seats[a].free[k] > f.seats[b].free[k]
	}
	kept := list[:0]
	for _, n := range list {
		t := &f.seats[n]
		if t.free[k] == 0 {
			continue
		}
		kept = append(kept, n)
		if (best < 0 || better(n, best)) && ok(f.zone[t.off]) && f.may(pod, n) {
			best = n
		}
	}
	f.byKind[k] = kept
	return best
}

// crews seats the gangs, large ones first, each on an offering with enough places; it returns the pods of those for which there is none.
func (f *filler) crews() []int {
	var missing []int
	for _, g := range f.listCrews() {
		if g.broken || !f.crew(g) {
			missing = append(missing, g.pods...)
		}
	}
	return missing
}

func (s *seating) listCrews() []*crew {
	var out []*crew
	for i := range s.x.pods {
		r := s.x.pods[i].Rules
		if r == nil || r.Gang == "" {
			continue
		}
		g := s.gangs[r.Gang]
		if g == nil {
			g = &crew{name: r.Gang, off: s.x.stands(r.Gang)}
			s.gangs[r.Gang] = g
			out = append(out, g)
		}
		switch {
		case s.x.out != nil && s.x.out[i]:
			g.broken = g.broken || s.x.base == nil
		case s.shapeOf(i) < 0:
			g.broken = true // a pod that fits nothing keeps all from running
		default:
			g.pods = append(g.pods, i)
		}
	}
	sort.SliceStable(out, func(a, b int) bool { return len(out[a].pods) > len(out[b].pods) })
	return out
}

// crew seats a gang on the offering that has the most places for it.
func (f *filler) crew(g *crew) bool {
	need := map[int]int{}
	for _, i := range g.pods {
		need[f.kind[i]]++
	}
	free := map[int]map[int]int{} // places by offering and kind
	for k := range need {
		for _, n := range f.byKind[k] {
			t := &f.seats[n]
			if free[t.off] == nil {
				free[t.off] = map[int]int{}
			}
			free[t.off][k] += t.free[k]
		}
	}
	stands := f.x.stands(g.name)
	type choice struct{ off, spare int }
	var choices []choice
next:
	for off, have := range free {
		spare := 0
		for k, n := range need {
			if have[k] < n {
				continue next
			}
			spare += have[k] - n
		}
		if stands < 0 || stands == off {
			choices = append(choices, choice{off, spare})
		}
	}
	sort.Slice(choices, func(a, b int) bool {
		if choices[a].spare != choices[b].spare {
			return choices[a].spare > choices[b].spare
		}
		return choices[a].off < choices[b].off
	})
	for _, c := range choices[:min(len(choices), 4)] {
		if f.crewOn(g, c.off) {
			g.off = c.off
			return true
		}
	}
	return false
}

// crewOn seats a gang on machines of an offering, if there is a place for every pod.
func (f *filler) crewOn(g *crew, off int) bool {
	done := 0
	on := map[int]bool{}
	for _, pod := range g.pods {
		best, k, i := -1, f.kind[pod], f.shapeOf(pod)
		if f.zoned[i] {
			if _, ok := f.z.may(i, f.zone[off]); !ok {
				break
			}
		}
		for _, n := range f.byKind[k] {
			t := &f.seats[n]
			if t.off != off || t.free[k] == 0 || !f.may(pod, n) {
				continue
			}
			if best < 0 || on[n] && !on[best] || on[n] == on[best] && t.free[k] > f.seats[best].free[k] {
				best = n
			}
		}
		if best < 0 {
			break
		}
		f.take(pod, best)
		on[best] = true
		done++
	}
	if most := f.x.given[off].DomainNodes; done == len(g.pods) && (most == 0 || int64(len(on)) <= most) {
		return true
	}
	for _, pod := range g.pods[:done] {
		f.giveBack(pod)
	}
	return false
}
