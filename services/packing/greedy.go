package packing

import "container/heap"

// candidate is the best pattern known for an offering: its worth per price can only fall as pods are placed.
type candidate struct {
	off   int
	items []item
	ratio float64
	fresh int // placements when it was computed
}

type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(a, b int) bool {
	if c[a].ratio != c[b].ratio {
		return c[a].ratio > c[b].ratio
	}
	return c[a].off < c[b].off
}
func (c candidates) Swap(a, b int) { c[a], c[b] = c[b], c[a] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) } //nolint:forcetypeassert // only candidates are pushed
func (c *candidates) Pop() any {
	old := *c
	x := old[len(old)-1]
	*c = old[:len(old)-1]
	return x
}

// greedy places a demand by always taking the pattern with the most value per price, as often as it goes. It returns what it
// could not place for want of stock.
func (s *solver) greedy(value []float64, demand []int32, steps int) ([]bin, int64) {
	p := s.p
	left := append([]int32(nil), demand...)
	stock := s.stocks(nil)
	return s.greedyOn(value, left, stock, steps, nil, len(p.offs))
}

// stocks is what is left of each limit beside some machines.
func (s *solver) stocks(bins []bin) []int64 {
	left := make([]int64, len(s.p.limits))
	for q := range left {
		left[q] = s.p.limits[q].max
	}
	for i := range bins {
		s.p.spend(left, bins[i].off, 1)
	}
	return left
}

func (s *solver) greedyOn(value []float64, left []int32, stock []int64, steps int, bins []bin, offs int) ([]bin, int64) {
	p, k := s.p, s.pr
	copy(k.value, value)
	for i := range k.value { // nothing is worthless, or it would never be placed
		k.value[i] = max(k.value[i], 1e-9)
	}
	copy(k.limit, left)
	copy(k.tolls, s.tollNow)
	copy(k.room, s.headRoom(bins))
	k.filter()
	total := int64(0)
	for _, n := range left {
		total += int64(n)
	}
	version := 0
	classAt := make([]int, len(k.class))
	compute := func(c *candidate) bool {
		if cl := p.offs[c.off].class; classAt[cl] != version {
			copy(k.limit, left)
			share := p.offs[c.off].share
			k.class[cl] = k.filterClass(k.class[cl][:0], p.classes[cl], share, k.largest(cl))
			classAt[cl] = version
		}
		v, items, _ := k.best(c.off, 0, steps)
		c.items, c.ratio, c.fresh = items, v/p.offs[c.off].cost, version
		return items != nil
	}
	var q candidates
	for j := range offs {
		c := candidate{off: j}
		if p.avail(stock, j) > 0 && compute(&c) {
			q = append(q, c)
		}
	}
	heap.Init(&q)
	for len(q) > 0 && total > 0 {
		c := &q[0]
		there := p.avail(stock, c.off)
		n := int32(min(there, 1<<30)) //nolint:gosec // bounded here
		for _, it := range c.items {
			n = min(n, left[it.shape]/it.n)
		}
		n = p.mayHold(k.room, c.off, c.items, n)
		if n <= 0 {
			if there > 0 && c.fresh != version && compute(c) {
				heap.Fix(&q, 0)
			} else {
				heap.Pop(&q)
			}
			continue
		}
		for range n {
			bins = append(bins, bin{off: c.off, items: append([]item(nil), c.items...)})
		}
		for _, it := range c.items {
			left[it.shape] -= it.n * n
			total -= int64(it.n) * int64(n)
		}
		p.spend(stock, c.off, int64(n))
		p.seat(k.room, c.off, c.items, int64(n))
		version++
	}
	return bins, total
}
