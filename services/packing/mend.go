package packing

// mend places pods that the packing leaves out for want of company: on a machine that can be exchanged for one that holds them too, or on a new
// one together with an anchor that another machine can spare.
func (s *solver) mend() {
	if s.p.bonds == nil || s.short == 0 || s.short > 500 {
		return
	}
	left := s.demand()
	for i := range s.best {
		for _, it := range s.best[i].items {
			left[it.shape] -= it.n
		}
	}
	for i := range left {
		for left[i] > 0 && !s.stop() && (s.join(i) || s.pair(i)) {
			left[i]--
			s.short--
		}
	}
	s.cost = s.costOf(s.best)
}

// cheapest is the cheapest offering that holds items, beside what the limits allow without machine except; -1: none.
func (s *solver) cheapest(items []item, except int) int {
	var kept []bin
	for i := range s.best {
		if i != except {
			kept = append(kept, s.best[i])
		}
	}
	left := s.stocks(kept)
	for j := range s.p.offs {
		if s.p.avail(left, j) > 0 && s.holds(j, items) {
			return j
		}
	}
	return -1
}

// join adds a pod of a shape to the machine that gets the least dearer.
func (s *solver) join(i int) bool {
	at, to, least := -1, -1, 0.0
	for k := range s.best {
		items := merge(append(append([]item(nil), s.best[k].items...), item{i, 1}))
		j := s.cheapest(items, k)
		if j < 0 {
			continue
		}
		if more := s.p.offs[j].cost - s.p.offs[s.best[k].off].cost; at < 0 || more < least {
			at, to, least = k, j, more
		}
	}
	if at < 0 {
		return false
	}
	s.best[at] = bin{to, merge(append(append([]item(nil), s.best[at].items...), item{i, 1}))}
	return true
}

// pair puts a pod on a new machine with an anchor of another.
func (s *solver) pair(i int) bool {
	b := s.p.shapes[i].bond
	if b == nil {
		return false
	}
	for _, g := range b.needs {
		for _, anchor := range g.anchors {
			for k := range s.best {
				rest, ok := lessOne(s.best[k].items, anchor)
				if !ok || len(rest) == 0 || !s.p.bonds.allow(s.p, rest, true) {
					continue
				}
				items := merge([]item{{anchor, 1}, {i, 1}})
				if j := s.cheapest(items, -1); j >= 0 {
					s.best[k].items = rest
					s.best = append(s.best, bin{j, items})
					return true
				}
			}
		}
	}
	return false
}

// lessOne is items less one pod of a shape.
func lessOne(items []item, shape int) ([]item, bool) {
	var out []item
	found := false
	for _, it := range items {
		if it.shape == shape {
			found = true
			if it.n--; it.n == 0 {
				continue
			}
		}
		out = append(out, it)
	}
	return out, found
}
