package packing

// improve takes a few machines apart, those that cost more than their pods are worth before others, and packs their pods anew by a
// dive of its own; what is cheaper, or as cheap but different, stays.
func (s *solver) improve() {
	enough := 1 + 0.05/float64(s.effort())
	bound := s.proofValue()
	for turn := 0; turn < 40*s.effort() && !s.stop(); turn++ {
		if s.cost <= bound*enough || len(s.best) < 2 {
			return
		}
		s.rebuild(3 + s.next(10))
		s.stats.Moves++
	}
}

func (s *solver) rebuild(k int) {
	chosen := s.pick(k)
	left := make([]int32, len(s.p.shapes))
	var kept, old []bin
	before := 0.0
	for i := range s.best {
		b := &s.best[i]
		if !chosen[i] {
			kept = append(kept, *b)
			continue
		}
		old = append(old, *b)
		before += s.p.offs[b.off].cost
		for _, it := range b.items {
			left[it.shape] += it.n
		}
	}
	var best []bin
	s.complete(left, s.stocks(kept), nil, old, func(bins []bin, short int64) bool {
		if c := s.costOf(bins); short == 0 && c <= before+1e-9 {
			best, before = bins, c
			return true
		}
		return false
	})
	if best != nil {
		kept = append(kept, best...)
		s.best = kept
		s.cost = s.costOf(s.best)
	}
}

// pick chooses machines, half of them by what they cost beyond the worth of their pods, half by lot.
func (s *solver) pick(k int) []bool {
	chosen := make([]bool, len(s.best))
	for n := 0; n < min(k, len(s.best)); {
		at := s.next(len(s.best))
		if n%2 == 0 { // the worst of five
			for range 4 {
				if o := s.next(len(s.best)); !chosen[o] && s.loss(o) > s.loss(at) {
					at = o
				}
			}
		}
		if !chosen[at] {
			chosen[at] = true
			n++
		}
	}
	return chosen
}

func (s *solver) loss(i int) float64 {
	b := &s.best[i]
	l := s.p.offs[b.off].cost
	for _, it := range b.items {
		l -= s.duals[it.shape] * float64(it.n)
	}
	return l
}
