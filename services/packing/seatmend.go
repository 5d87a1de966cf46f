package packing

import "sort"

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

// settle takes the pods off that stand wrongly after all, since those they rely on found no place where they were meant to, and finds places
// for them anew.
func (s *seating) settle(missing []int) []int {
	for range 3 {
		var off []int
		for _, u := range s.x.trim(s.answer(missing)).Unplaced {
			if s.at[u.Pod] >= 0 {
				off = append(off, u.Pod)
			}
		}
		if len(off) == 0 || s.x.stop() {
			break
		}
		for _, i := range off {
			s.up(i)
		}
		missing = append(missing, off...)
		sort.Ints(missing)
		missing = s.mend(missing)
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
