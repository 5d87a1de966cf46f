package packing

// slots packs fractions onto the GPUs of one machine.
type slots struct {
	free  [maxGPUs]int32
	asks  [64]ask // largest first
	k     int
	gpus  int32
	steps int
	deep  int // steps of the search beyond the few that packing can afford

	take, most [64]int32 // of each ask, what a GPU in the making holds, and the fullest so far
	fill       int32     // of the fullest
}

// ask is n pods that each want so many thousandths of so many GPUs.
type ask struct{ gpus, milli, n int32 }

// answers of fit
const (
	gpusFit = iota
	gpusDoNot
	gpusUnknown // the search was cut; counts as no for packings and as yes for bounds
)

// fit tells whether the GPUs that items ask for can be given on a machine with gpus GPUs: every pod's GPUs are different ones, and
// no GPU is promised beyond 1000 thousandths.
func (s *slots) fit(p *problem, items []item, gpus int32) int {
	s.k, s.gpus = 0, gpus
	single := true
	for _, it := range items {
		sh := &p.shapes[it.shape]
		if sh.gpus == 0 || it.n == 0 {
			continue
		}
		if sh.milli == 1000 {
			s.gpus -= sh.gpus * it.n
			continue
		}
		if !s.ask(ask{sh.gpus, sh.milli, it.n}) {
			return gpusUnknown
		}
		single = single && sh.gpus == 1
	}
	switch {
	case s.gpus < 0:
		return gpusDoNot
	case s.k == 0:
		return gpusFit
	}
	s.order()
	if s.firstFit() {
		return gpusFit
	}
	if single && s.tooMany() {
		return gpusDoNot
	}
	if single && s.fullest() {
		return gpusFit
	}
	s.clear()
	s.steps = 120 + s.deep
	return s.place(0, s.asks[0].n)
}

// ask adds what pods ask for to those that ask the same; false if there are too many different ones.
func (s *slots) ask(a ask) bool {
	for i := range s.asks[:s.k] {
		if o := &s.asks[i]; o.gpus == a.gpus && o.milli == a.milli {
			o.n += a.n
			return true
		}
	}
	if s.k == len(s.asks) {
		return false
	}
	s.asks[s.k] = a
	s.k++
	return true
}

func (s *slots) order() {
	for i := 1; i < s.k; i++ {
		for j := i; j > 0 && (s.asks[j].milli > s.asks[j-1].milli || (s.asks[j].milli == s.asks[j-1].milli && s.asks[j].gpus > s.asks[j-1].gpus)); j-- {
			s.asks[j], s.asks[j-1] = s.asks[j-1], s.asks[j]
		}
	}
}

func (s *slots) clear() {
	for g := range s.gpus {
		s.free[g] = 1000
	}
}

// firstFit settles nearly all.
func (s *slots) firstFit() bool {
	s.clear()
	for _, a := range s.asks[:s.k] {
		for range a.n {
			got := int32(0)
			for g := int32(0); g < s.gpus && got < a.gpus; g++ {
				if s.free[g] >= a.milli {
					s.free[g] -= a.milli
					got++
				}
			}
			if got < a.gpus {
				return false
			}
		}
	}
	return true
}

// fullest packs GPU by GPU: the largest that is left, and beside it what fills the GPU best.
func (s *slots) fullest() bool {
	var left [64]int32
	for i, a := range s.asks[:s.k] {
		left[i] = a.n
	}
	for g := int32(0); ; g++ {
		i := 0
		for i < s.k && left[i] == 0 {
			i++
		}
		switch {
		case i == s.k:
			return true
		case g == s.gpus:
			return false
		}
		clear(s.take[:s.k])
		clear(s.most[:s.k])
		s.take[i], s.most[i] = 1, 1
		left[i]--
		s.fill, s.steps = s.asks[i].milli, 300
		s.beside(&left, i, s.fill)
		left[i]++
		for k := range s.most[:s.k] {
			left[k] -= s.most[k]
		}
	}
}

// beside tries what of the asks from i on can join a GPU that is used up to now.
func (s *slots) beside(left *[64]int32, i int, now int32) {
	if now > s.fill {
		s.fill, s.most = now, s.take
	}
	if s.steps--; s.steps < 0 || s.fill == 1000 {
		return
	}
	for k := i; k < s.k; k++ {
		if left[k] == 0 || now+s.asks[k].milli > 1000 {
			continue
		}
		left[k]--
		s.take[k]++
		s.beside(left, k, now+s.asks[k].milli)
		left[k]++
		s.take[k]--
	}
}

// tooMany tells that the asks need more GPUs than there are: those that the smallest asked for cannot join need one each, and what does
// not fit beside the other large ones needs more (the bound of Martello and Toth). It holds for pods of one GPU each.
func (s *slots) tooMany() bool {
	for c := range s.asks[:s.k] {
		alone, half, small, room := int32(0), int32(0), int32(0), int32(0)
		for _, a := range s.asks[:c+1] {
			switch {
			case a.milli > 500 && a.milli > 1000-s.asks[c].milli:
				alone += a.n
			case a.milli > 500:
				half += a.n
				room += a.n * (1000 - a.milli)
			default:
				small += a.n * a.milli
			}
		}
		need := alone + half
		if small > room {
			need += (small - room + 999) / 1000
		}
		if need > s.gpus {
			return true
		}
	}
	return false
}

// place gives GPUs to what is left of ask i and to those after it: the tightest first, each level of room once.
func (s *slots) place(i int, left int32) int {
	for i < s.k && left == 0 {
		i++
		if i < s.k {
			left = s.asks[i].n
		}
	}
	if i >= s.k {
		return gpusFit
	}
	if s.steps--; s.steps < 0 {
		return gpusUnknown
	}
	a := s.asks[i]
	if a.gpus > 1 {
		return s.several(i, left)
	}
	verdict, seen := gpusDoNot, int32(-1)
	for {
		at := int32(-1)
		for g := range s.gpus {
			if f := s.free[g]; f >= a.milli && f > seen && (at < 0 || f < s.free[at]) {
				at = g
			}
		}
		if at < 0 {
			return verdict
		}
		seen = s.free[at]
		s.free[at] -= a.milli
		v := s.place(i, left-1)
		s.free[at] += a.milli
		if v == gpusFit {
			return v
		}
		if v == gpusUnknown {
			verdict = v
		}
		if s.steps < 0 {
			return gpusUnknown
		}
	}
}

// several gives one pod different GPUs, the tightest first, and goes on; it does not try other choices, so its no is not a proof.
func (s *slots) several(i int, left int32) int {
	a := s.asks[i]
	var taken []int32
	used := map[int32]bool{}
	for range a.gpus {
		at := int32(-1)
		for g := range s.gpus {
			if s.free[g] >= a.milli && !used[g] && (at < 0 || s.free[g] < s.free[at]) {
				at = g
			}
		}
		if at < 0 {
			return gpusUnknown
		}
		used[at] = true
		taken = append(taken, at)
	}
	for _, g := range taken {
		s.free[g] -= a.milli
	}
	v := s.place(i, left-1)
	for _, g := range taken {
		s.free[g] += a.milli
	}
	if v == gpusDoNot {
		v = gpusUnknown
	}
	return v
}
