package packing

// slots packs fractions onto the GPUs of one machine.
type slots struct {
	free  [maxGPUs]int32
	steps int
}

// answers of pack
const (
	gpusFit = iota
	gpusDoNot
	gpusUnknown // the search was cut; counts as no for packings and as yes for bounds
)

// fit tells whether the GPUs that items ask for can be given on a machine with gpus GPUs: every pod's GPUs are different ones, and
// no GPU is promised beyond 1000 thousandths.
func (s *slots) fit(p *problem, items []item, gpus int32) int {
	type ask struct{ gpus, milli, n int32 }
	var asks [64]ask
	k := 0
	for _, it := range items {
		sh := &p.shapes[it.shape]
		if sh.gpus == 0 || it.n == 0 {
			continue
		}
		if sh.milli == 1000 {
			gpus -= sh.gpus * it.n
			continue
		}
		if k == len(asks) {
			return gpusUnknown
		}
		asks[k] = ask{sh.gpus, sh.milli, it.n}
		k++
	}
	if gpus < 0 {
		return gpusDoNot
	}
	for i := 1; i < k; i++ { // largest first
		for j := i; j > 0 && (asks[j].milli > asks[j-1].milli || (asks[j].milli == asks[j-1].milli && asks[j].gpus > asks[j-1].gpus)); j-- {
			asks[j], asks[j-1] = asks[j-1], asks[j]
		}
	}
	if k == 0 {
		return gpusFit
	}
	single := true
	for _, a := range asks[:k] {
		single = single && a.gpus == 1
	}
	for g := range gpus {
		s.free[g] = 1000
	}
	fits := true
first: // first fit, largest first, settles nearly all
	for _, a := range asks[:k] {
		for range a.n {
			got := int32(0)
			for g := int32(0); g < gpus && got < a.gpus; g++ {
				if s.free[g] >= a.milli {
					s.free[g] -= a.milli
					got++
				}
			}
			if got < a.gpus {
				fits = false
				break first
			}
		}
	}
	if fits {
		return gpusFit
	}
	if single { // what cannot share a GPU needs one each, and what is left over must take the rest
		for c := range asks[:k] {
			alone, half, small, room := int32(0), int32(0), int32(0), int32(0)
			for _, a := range asks[:c+1] {
				switch {
				case a.milli > 500 && a.milli > 1000-asks[c].milli:
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
			if need > gpus {
				return gpusDoNot
			}
		}
	}
	for g := range gpus {
		s.free[g] = 1000
	}
	s.steps = 120
	var place func(i int, left int32) int
	place = func(i int, left int32) int {
		for i < k && left == 0 {
			i++
			if i < k {
				left = asks[i].n
			}
		}
		if i >= k {
			return gpusFit
		}
		if s.steps--; s.steps < 0 {
			return gpusUnknown
		}
		a := asks[i]
		if a.gpus > 1 {
			return s.several(a.gpus, a.milli, gpus, func() int { return place(i, left-1) })
		}
		verdict, seen := gpusDoNot, int32(-1)
		for { // tightest first, each level of room once
			at := int32(-1)
			for g := range gpus {
				if f := s.free[g]; f >= a.milli && f > seen && (at < 0 || f < s.free[at]) {
					at = g
				}
			}
			if at < 0 {
				return verdict
			}
			seen = s.free[at]
			s.free[at] -= a.milli
			v := place(i, left-1)
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
	return place(0, asks[0].n)
}

// several takes n different GPUs, tightest first, and goes on; it does not try other choices, so its no is not a proof.
func (s *slots) several(n, milli, gpus int32, next func() int) int {
	taken := make([]int32, 0, n)
	used := map[int32]bool{}
	for range n {
		at := int32(-1)
		for g := range gpus {
			if s.free[g] >= milli && !used[g] && (at < 0 || s.free[g] < s.free[at]) {
				at = g
			}
		}
		if at < 0 {
			break
		}
		used[at] = true
		taken = append(taken, at)
	}
	if int32(len(taken)) < n { //nolint:gosec // at most n
		return gpusUnknown
	}
	for _, g := range taken {
		s.free[g] -= milli
	}
	v := next()
	for _, g := range taken {
		s.free[g] += milli
	}
	if v == gpusDoNot {
		v = gpusUnknown
	}
	return v
}
