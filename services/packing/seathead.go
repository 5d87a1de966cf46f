package packing

import (
	"maps"
	"slices"
	"sort"
)

// skew is what the rules of a shape by zone fix for any packing that places all its pods: every zone in which it can run holds at least
// least and at most most of them.
type skew struct {
	zones       []string
	least, most int64
}

// skewOf is nil where nothing is fixed. members counts the shapes of a label: only a shape that has its label to itself is judged. Of d pods
// over n zones with skew k the emptiest zone holds at least (d - k (n-1)) / n, the fullest at most (d + k (n-1)) / n.
func (x *across) skewOf(s *shape, members map[string]int) *skew {
	if s.rules == nil || s.rules.Gang != "" {
		return nil
	}
	for _, t := range s.rules.AntiAffinity {
		if t.Topology == TopologyZone && s.rules.has(t.Label) && members[t.Label] == 1 {
			return &skew{x.p.zonesFor(s.pods[0]), 0, 1}
		}
	}
	for _, t := range s.rules.Spread {
		if t.Topology != TopologyZone || (t.Soft && x.opts.relaxed) || !s.rules.has(t.Label) || members[t.Label] != 1 {
			continue
		}
		zones := x.p.zonesFor(s.pods[0])
		n := int64(len(zones))
		if n < 2 {
			return nil
		}
		return &skew{zones, max(0, (s.count-t.MaxSkew*(n-1)+n-1)/n), (s.count + t.MaxSkew*(n-1)) / n}
	}
	return nil
}

// members counts the shapes of each label.
func (x *across) members() map[string]int {
	out := map[string]int{}
	for i := range x.p.every {
		if r := x.p.every[i].rules; r != nil {
			for _, l := range r.Labels {
				out[l]++
			}
		}
	}
	return out
}

// hopeless leaves out the pods of a workload that are more than all its pools together may hold: in the program they would outweigh all else.
// Only workloads of equal pods are judged, so that it does not matter which of them go.
func (s *seating) hopeless() {
	x := s.x
	if x.base != nil || len(s.most) == 0 {
		return
	}
	pods := make([][]int, len(s.most))
	for i := range x.pods {
		if k := s.shapeOf(i); k >= 0 && s.loadOf(i) >= 0 && x.pods[i].Rules.Gang == "" {
			pods[s.loadOf(i)] = append(pods[s.loadOf(i)], i)
		}
	}
	var gone []int
	for w, list := range pods {
		if len(list) == 0 || slices.ContainsFunc(list, func(i int) bool { return s.shapeOf(i) != s.shapeOf(list[0]) }) {
			continue
		}
		pools := 0
		for _, ok := range s.fits(s.kind[list[0]]) {
			if ok {
				pools++
			}
		}
		if most := pools * s.most[w]; len(list) > most {
			gone = append(gone, list[most:]...)
		}
	}
	if len(gone) == 0 {
		return
	}
	sort.Ints(gone)
	x.out = append([]bool(nil), x.out...)
	if len(x.out) == 0 {
		x.out = make([]bool, len(x.pods))
	}
	for _, i := range gone {
		s.beyond = append(s.beyond, Unplaced{Pod: i, Reasons: s.why(i)})
	}
	for _, i := range gone {
		x.out[i] = true
	}
	x.p = newPinned(x.pods, x.given, x.opts, x.bare(), nil)
	s.fit = map[int][]bool{}
}

// allowance is how many pods of a shape may lie in some places.
type allowance struct {
	shape int
	most  func(in map[int]bool) int64
}

// cuts are bounds that the program of the kinds passes: of a kind's pods on the pools, and in the zones, that have the most of them, no
// more than what the rules allow each workload there.
func (s *seating) cuts() []head {
	pools, zones := map[int][]allowance{}, map[int][]allowance{}
	tightPool, tightZone := map[int]bool{}, map[int]bool{}
	most, members := s.x.p.poolMost(), s.x.members()
	for i := range s.x.p.shapes {
		t := &s.x.p.shapes[i]
		k := s.kind[t.pods[0]]
		byPool := func(map[int]bool) int64 { return t.count }
		if t.rules != nil && t.rules.MaxPoolMilli > 0 && t.rules.Gang == "" {
			n := int64(most[t.rules.Workload])
			byPool = func(in map[int]bool) int64 { return min(t.count, n*int64(len(in))) }
			tightPool[k] = true
		}
		byZone := func(map[int]bool) int64 { return t.count }
		if w := s.x.skewOf(t, members); w != nil && s.x.base == nil {
			tightZone[k] = true
			byZone = func(in map[int]bool) int64 {
				m := int64(0)
				for _, name := range w.zones {
					if in[s.z.zoneAt[name]] {
						m++
					}
				}
				return max(0, min(t.count, m*w.most, t.count-(int64(len(w.zones))-m)*w.least))
			}
		}
		pools[k], zones[k] = append(pools[k], allowance{i, byPool}), append(zones[k], allowance{i, byZone})
	}
	out := s.passed(tightPool, pools, s.pool)
	return append(out, s.passed(tightZone, zones, s.zone)...)
}

// passed looks for sets of places, those with the most pods of a kind, that hold more of them than is allowed. place is of each offering.
func (s *seating) passed(tight map[int]bool, allowed map[int][]allowance, place []int) []head {
	p := s.first.p
	used := map[int]map[int]float64{} // by kind and place
	for _, f := range s.first.flow {
		for q, sh := range f.rows {
			k, at := s.kind[p.shapes[sh].pods[0]], place[p.offs[f.off].index]
			if !tight[k] {
				continue
			}
			if used[k] == nil {
				used[k] = map[int]float64{}
			}
			used[k][at] += f.vals[q] * f.cost
		}
	}
	var out []head
	for k := range s.kinds.every {
		var places []int
		for at := range used[k] {
			places = append(places, at)
		}
		sort.Slice(places, func(a, b int) bool {
			if x, y := used[k][places[a]], used[k][places[b]]; x != y {
				return x > y
			}
			return places[a] < places[b]
		})
		in, sum := map[int]bool{}, 0.0
		for _, at := range places {
			in[at] = true
			sum += used[k][at]
			these := maps.Clone(in)
			total := func(loose map[int]bool) int64 {
				n := int64(0)
				for _, allow := range allowed[k] {
					if loose[allow.shape] {
						n += s.x.p.shapes[allow.shape].count
						continue
					}
					n += allow.most(these)
				}
				return n
			}
			limit := total(nil)
			if sum <= float64(limit)+0.01 {
				continue
			}
			on := make([]bool, len(s.x.given))
			for j := range on {
				on[j] = in[place[j]]
			}
			out = append(out, head{kind: k, on: on, max: limit, sum: total})
		}
	}
	return out
}

// warm hands the patterns of an earlier solver of the same shapes to another.
func (s *solver) warm(old *solver) {
	at := s.byIndex()
	shapes := make([]int, len(old.p.shapes)) // of the new problem; -1: none
	for i := range shapes {
		shapes[i] = -1
		for _, pod := range old.p.shapes[i].pods {
			if at := s.p.of[pod]; at >= 0 {
				shapes[i] = s.p.kept[at]
				break
			}
		}
	}
	for i := range old.pool {
		c := &old.pool[i]
		j, ok := at[old.p.offs[c.off].index]
		if !ok {
			continue
		}
		var items []item
		for k, sh := range c.rows {
			items = append(items, item{shapes[sh], int32(c.vals[k])})
		}
		if slices.ContainsFunc(items, func(it item) bool {
			return it.shape < 0 || !s.p.fitsAlone(&s.p.shapes[it.shape], j)
		}) {
			continue
		}
		sort.Slice(items, func(a, b int) bool { return items[a].shape < items[b].shape })
		s.keep(j, items)
	}
}
