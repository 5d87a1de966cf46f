package packing

import "sort"

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
