package packing

// program is a linear program that was solved, with what its rows mean.
type program struct {
	s  *solver
	lp *master
	r  *rows
}

// adopt starts a program from the solution of an earlier one over the same shapes that had fewer heads: its basis, and for every head that it
// passes a column that pays dearly for what is too much. It tells whether that is a solution; if not, lp is as it was.
func (s *solver) adopt(old *program, lp *master, r *rows) bool {
	o := old.s.p
	if len(o.shapes) != len(s.p.shapes) || old.lp.cover != lp.cover || len(o.heads) > len(s.p.heads) || len(o.limits) != len(s.p.limits) {
		return false
	}
	at := s.byIndex()
	rowOf := make([]int32, old.lp.m) // rows of the old program in the new one
	for q := range old.lp.cover {
		if old.r.shape[q] != r.shape[q] || o.shapes[r.shape[q]].key != s.p.shapes[r.shape[q]].key {
			return false
		}
		rowOf[q] = int32(q)
	}
	for l, q := range old.r.limit {
		if q >= 0 {
			rowOf[q] = r.limit[l]
		}
	}
	for h, q := range old.r.head {
		if q >= 0 {
			rowOf[q] = r.head[h]
		}
	}
	for _, q := range rowOf {
		if q < 0 {
			return false
		}
	}
	next := newMaster(lp.rhs, lp.cover, lp.cols[:lp.cover])
	next.stop, next.work, next.owner = lp.stop, old.lp.work, lp.owner
	next.cols, next.known = append(next.cols[:0:0], lp.cols...), 0
	next.in = make([]bool, len(lp.cols))
	clear(next.slack)
	taken := make([]bool, next.m)
	for q, b := range old.lp.basis {
		row := rowOf[q]
		taken[row] = true
		if b < 0 {
			next.basis[row] = -1 - int(rowOf[-1-b])
			next.slack[rowOf[-1-b]] = true
			continue
		}
		c, ok := s.moved(&old.lp.cols[b], old, at, r, rowOf)
		if !ok {
			return false
		}
		next.basis[row] = len(next.cols)
		next.cols, next.in = append(next.cols, c), append(next.in, true)
	}
	for q := range taken {
		if !taken[q] {
			next.basis[q], next.slack[q] = -1-q, true
		}
	}
	next.refactor()
	dear := lp.dearest()
	again := false
	for q, x := range next.x {
		if x >= -1e-7 {
			continue
		}
		if taken[q] || next.basis[q] != -1-q {
			return false
		}
		again = true
		next.basis[q], next.slack[q] = len(next.cols), false
		next.cols = append(next.cols, column{off: -1, cost: dear, rows: []int32{int32(q)}, vals: []float64{-1}})
		next.in = append(next.in, true)
	}
	if again {
		next.refactor()
	}
	for _, x := range next.x {
		if x < -1e-6 {
			return false
		}
	}
	if next.residual() > 1e-6 {
		return false
	}
	next.known = 0
	*lp = *next
	return true
}

// moved is a column of an old program in the new one.
func (s *solver) moved(c *column, old *program, at map[int]int, r *rows, rowOf []int32) (column, bool) {
	if c.off < 0 {
		out := column{off: -1, cost: c.cost, vals: c.vals}
		for _, q := range c.rows {
			out.rows = append(out.rows, rowOf[q])
		}
		return out, true
	}
	j, ok := at[old.s.p.offs[c.off].index]
	if !ok {
		return column{}, false
	}
	return s.column(j, itemsOf(c, old.lp, old.r), r)
}

// byIndex finds offerings by their place in the list given.
func (s *solver) byIndex() map[int]int {
	at := make(map[int]int, len(s.p.offs))
	for j := range s.p.offs {
		at[s.p.offs[j].index] = j
	}
	return at
}

func (s *master) dearest() float64 {
	d := 0.0
	for j := range s.cols {
		d = max(d, s.cols[j].cost)
	}
	return d
}

// residual is how far the basic solution is from meeting the rows, and the duals are from the costs of the basis.
func (s *master) residual() float64 {
	left := append([]float64(nil), s.rhs...)
	for q, b := range s.basis {
		switch {
		case b >= 0:
			for k, row := range s.cols[b].rows {
				left[row] -= s.cols[b].vals[k] * s.x[q]
			}
		case -1-b < s.cover:
			left[-1-b] += s.x[q]
		default:
			left[-1-b] -= s.x[q]
		}
	}
	worst := 0.0
	for _, v := range left {
		worst = max(worst, v, -v)
	}
	for _, b := range s.basis { // and the duals from theirs
		if b >= 0 {
			d := s.reduced(&s.cols[b]) / max(1e-3, s.cols[b].cost)
			worst = max(worst, d, -d)
		}
	}
	return worst
}
