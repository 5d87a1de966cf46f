package packing

import "sort"

// dive rounds the linear program: it takes machines that the program is sure of, makes the program anew for what is left, with
// patterns that fit the rest, and so on. At every stage the rest is also placed greedily, so a stop loses little.
func (s *solver) dive(lp *master, r *rows) {
	left, stock := s.demand(), s.stocks(nil)
	bins, lost := s.take(lp, r, left, stock, nil)
	s.complete(left, stock, bins, nil, func(bins []bin, short int64) bool { return s.offer(bins, short+lost) })
}

// complete places what is left in stages and offers what every stage gives. more are patterns to start from beside those of the pool.
func (s *solver) complete(left []int32, stock []int64, bins, more []bin, offer func([]bin, int64) bool) {
	values := append([]float64(nil), s.duals...)
	copy(s.tollNow, s.tollDuals)
	lost := int64(0) // pods that were given up on the way
	for stage := 0; ; stage++ {
		if stage > 0 || more == nil {
			rest, short := s.greedyOn(values, append([]int32(nil), left...), append([]int64(nil), stock...), 100, append([]bin(nil), bins...), len(s.p.offs))
			offer(rest, short+lost)
			more = rest[len(bins):]
		}
		done := true
		for _, n := range left {
			done = done && n == 0
		}
		if done || s.stop() {
			return
		}
		lp, r := s.master(left)
		for q, row := range r.limit {
			if row >= 0 {
				lp.rhs[row] = float64(stock[q]) / s.p.limits[q].scale
			}
		}
		for h, room := range s.headRoom(bins) {
			if row := r.head[h]; row >= 0 {
				lp.rhs[row] = float64(max(0, room))
			}
		}
		lp.refresh()
		s.fill(lp, r, left)
		for i := range more {
			if c, ok := s.column(more[i].off, more[i].items, r); ok {
				lp.add(c)
			}
		}
		s.refine(lp, r, left, values)
		var gone int64
		bins, gone = s.take(lp, r, left, stock, bins)
		lost += gone
	}
}

// take places what the program is sure of: the whole part of every pattern, then the patterns it likes most, a tenth of them at least. If
// nothing fits it places the rest greedily and tells how many pods found no place.
func (s *solver) take(lp *master, r *rows, left []int32, stock []int64, bins []bin) ([]bin, int64) {
	type part struct {
		col  *column
		frac float64
	}
	var parts []part
	room := s.headRoom(bins)
	place := func(c *column, most int32) int32 {
		most = int32(min(int64(most), s.p.avail(stock, c.off))) //nolint:gosec // bounded by most
		for k, row := range c.rows {
			if int(row) < lp.cover {
				most = min(most, left[r.shape[row]]/int32(c.vals[k]))
			}
		}
		if len(room) > 0 {
			most = s.p.mayHold(room, c.off, itemsOf(c, lp, r), most)
			s.p.seat(room, c.off, itemsOf(c, lp, r), int64(most))
		}
		for range most {
			b := bin{off: c.off}
			for k, row := range c.rows {
				if int(row) < lp.cover {
					i, n := r.shape[row], int32(c.vals[k])
					b.items = append(b.items, item{i, n})
					left[i] -= n
				}
			}
			bins = append(bins, b)
			s.p.spend(stock, c.off, 1)
		}
		return most
	}
	taken := int32(0)
	for i, b := range lp.basis {
		if b < 0 || lp.cols[b].off < 0 || lp.x[i] < 1e-9 {
			continue
		}
		n := int32(lp.x[i] + 1e-6)
		if n > 0 {
			taken += place(&lp.cols[b], n)
		}
		if f := lp.x[i] - float64(n); f > 1e-6 {
			parts = append(parts, part{&lp.cols[b], f})
		}
	}
	sort.SliceStable(parts, func(a, b int) bool { return parts[a].frac > parts[b].frac })
	share := 10
	if s.coarse() {
		share = 5
	}
	want := int32(len(parts)/share + 1) //nolint:gosec // bounded by rows
	if taken > want {
		want = 0
	}
	for _, q := range parts {
		if want <= 0 || (q.frac < 0.5 && taken > 0) {
			break
		}
		n := place(q.col, 1)
		want -= n
		taken += n
	}
	if taken == 0 { // nothing fits as it is: let greed finish
		for i := range parts {
			if place(parts[i].col, 1) > 0 {
				return bins, 0
			}
		}
		var lost int64
		bins, lost = s.greedyOn(s.duals, left, stock, 100, bins, len(s.p.offs))
		clear(left)
		return bins, lost
	}
	return bins, 0
}

// coarse tells that the packing is only one of places, of which seating changes more than a finer dive gains, and that the program is large.
func (s *solver) coarse() bool { return s.p.opts.once && len(s.p.heads) > 200 }

// itemsOf is the pattern of a column.
func itemsOf(c *column, lp *master, r *rows) []item {
	var out []item
	for k, row := range c.rows {
		if int(row) < lp.cover {
			out = append(out, item{r.shape[row], int32(c.vals[k])})
		}
	}
	return out
}

// fill adds the patterns of the pool that fit what is left.
func (s *solver) fill(lp *master, r *rows, left []int32) {
	var items []item
next:
	for i := range s.pool {
		c := &s.pool[i]
		items = items[:0]
		for k, sh := range c.rows {
			if n := int32(c.vals[k]); left[sh] < n {
				continue next
			}
			items = append(items, item{int(sh), int32(c.vals[k])})
		}
		if col, ok := s.column(c.off, items, r); ok {
			lp.add(col)
		}
	}
}

// refine solves the program of a stage with some rounds of new patterns, and leaves its duals in values.
func (s *solver) refine(lp *master, r *rows, left []int32, values []float64) {
	rounds := 8
	if s.coarse() {
		rounds = 4
	}
	for round := 0; round < rounds; round++ {
		lp.solve(2000)
		for i := range values {
			if values[i] = 0; r.of[i] >= 0 {
				values[i] = max(0, lp.y[r.of[i]])
			}
		}
		s.headTolls(lp, r, s.tollNow)
		if s.stop() {
			return
		}
		copy(s.pr.value, values)
		copy(s.pr.limit, left)
		copy(s.pr.tolls, s.tollNow)
		for h := range s.pr.room {
			if s.pr.room[h] = s.p.heads[h].max; r.head[h] >= 0 {
				s.pr.room[h] = int64(lp.rhs[r.head[h]])
			}
		}
		s.pr.filter()
		added := 0
		for _, j := range s.hot {
			target := s.p.offs[j].cost + s.toll(lp, r, j)
			if _, items, _ := s.pr.best(j, target*(1+1e-4), 300); items != nil {
				if c, ok := s.column(j, items, r); ok {
					s.keep(j, items)
					lp.add(c)
					added++
				}
			}
		}
		if added == 0 {
			return
		}
	}
	lp.solve(2000)
}
