package packing

import "sort"

// fuse looks, in packings of few machines, for a cheaper machine that holds what one, two or three of them hold together.
func (s *solver) fuse() {
	if len(s.best) == 0 || len(s.best) > 40 {
		return
	}
	for range 40 {
		if s.stop() || !s.fuseOnce() {
			return
		}
	}
}

func (s *solver) fuseOnce() bool {
	n := len(s.best)
	for a := range n {
		if s.together(a) {
			return true
		}
		for b := a + 1; b < n; b++ {
			if s.together(a, b) {
				return true
			}
			for c := b + 1; c < n && n <= 12; c++ {
				if s.together(a, b, c) {
					return true
				}
			}
		}
	}
	return false
}

// together replaces machines by the cheapest one that holds all their pods, if that is cheaper.
func (s *solver) together(which ...int) bool {
	p := s.p
	var items []item
	before := 0.0
	gone := map[int]bool{}
	for _, i := range which {
		items = append(items, s.best[i].items...)
		before += p.offs[s.best[i].off].cost
		gone[i] = true
	}
	items = merge(items)
	var kept []bin
	for i := range s.best {
		if !gone[i] {
			kept = append(kept, s.best[i])
		}
	}
	left := s.stocks(kept)
	for j := range p.offs { // cheapest first
		if p.offs[j].cost >= before-1e-9 {
			return false
		}
		if p.avail(left, j) > 0 && s.holds(j, items) {
			kept = append(kept, bin{j, items})
			s.best = kept
			s.cost = s.costOf(s.best)
			return true
		}
	}
	return false
}

// holds tells whether a machine of an offering can hold items and nothing else.
func (s *solver) holds(j int, items []item) bool {
	p := s.p
	o := &p.offs[j]
	room, cut := o.cap, false
	for _, it := range items {
		sh := &p.shapes[it.shape]
		if !p.accepts[sh.want][j] || (sh.bond != nil && it.n > sh.bond.most) || sh.need[o.share].copies(&room, it.n) < it.n {
			return false
		}
		room.add(&sh.need[o.share], -it.n)
		cut = cut || sh.cut(o.share)
	}
	return (!cut || p.gpusHold(&s.pr.slots, items, o) == gpusFit) && (p.bonds == nil || p.bonds.allow(p, items, true))
}

// merge adds up items of one shape.
func merge(items []item) []item {
	sort.Slice(items, func(a, b int) bool { return items[a].shape < items[b].shape })
	out := items[:0]
	for _, it := range items {
		if n := len(out); n > 0 && out[n-1].shape == it.shape {
			out[n-1].n += it.n
			continue
		}
		out = append(out, it)
	}
	return out
}
