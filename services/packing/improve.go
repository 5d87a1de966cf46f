package packing

// dive and improve: see below.
func (s *solver) dive() {
	s.offer(s.greedy(s.duals, s.demand(), 200))
}

func (s *solver) improve() {}
