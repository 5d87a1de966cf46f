package packing

import "math"

// column is a pattern as the linear program sees it: how many pods of each row one machine covers.
type column struct {
	off  int // -1: pods left out, at a price no machine reaches
	cost float64
	rows []int32
	vals []float64
}

// master is the linear program over patterns: cover every row at least cost, within the stock. It is solved by the revised
// simplex method with an explicit inverse of the basis, which is small: one row per shape and one per limited offering.
type master struct {
	m     int // rows
	cover int // of these, the first that cover shapes; the others limit stock
	rhs   []float64
	cols  []column
	basis []int     // column of each row; -1-r: the slack of row r
	in    []bool    // column is in the basis
	inv   []float64 // inverse of the basis, column by column
	x     []float64 // values of the basic columns
	y     []float64 // duals: of cover rows not negative, of stock rows not positive
	alpha []float64
	since int // pivots since the inverse was made anew
	slack []bool
	work  int64       // multiplications in the inverse so far
	stop  func() bool // asked now and then; nil: never
}

// newMaster starts from one column per cover row, which must cover that row only and be given in the order of rows.
func newMaster(rhs []float64, cover int, start []column) *master {
	m := len(rhs)
	s := &master{m: m, cover: cover, rhs: rhs, cols: append([]column(nil), start...), basis: make([]int, m), in: make([]bool, cover),
		inv: make([]float64, m*m), x: make([]float64, m), y: make([]float64, m), alpha: make([]float64, m), slack: make([]bool, m)}
	for r := range m {
		if r < cover {
			s.basis[r], s.in[r] = r, true
			s.inv[r*m+r] = 1 / start[r].vals[0]
			s.x[r] = rhs[r] / start[r].vals[0]
			s.y[r] = start[r].cost / start[r].vals[0]
			continue
		}
		s.basis[r], s.slack[r] = -1-r, true
		s.inv[r*m+r] = 1
		s.x[r] = rhs[r]
	}
	return s
}

func (s *master) add(c column) {
	s.cols = append(s.cols, c)
	s.in = append(s.in, false)
}

// reduced is what a column would save (negative) per unit.
func (s *master) reduced(c *column) float64 {
	v := c.cost
	for k, r := range c.rows {
		v -= s.y[r] * c.vals[k]
	}
	return v
}

const tiny = 1e-9

// solve runs the primal simplex to the end or for at most steps pivots.
func (s *master) solve(steps int) {
	for step := range steps {
		if step%64 == 63 && s.stop != nil && s.stop() {
			return
		}
		enter, slackRow, best := -1, -1, -1e-7
		for j := range s.cols {
			if s.in[j] {
				continue
			}
			if d := s.reduced(&s.cols[j]); d < best*max(1e-3, s.cols[j].cost) {
				if v := d / max(1e-3, s.cols[j].cost); v < best {
					enter, best = j, v
				}
			}
		}
		if enter < 0 {
			for r := range s.m {
				if s.slack[r] {
					continue
				}
				d := s.y[r] // surplus of a cover row: 0 + y
				if r >= s.cover {
					d = -d
				}
				if d < -1e-9 && (slackRow < 0 || d < best) {
					slackRow, best = r, d
				}
			}
			if slackRow < 0 {
				return
			}
		}
		if !s.pivot(enter, slackRow) {
			return
		}
		if s.since >= 400 {
			if s.since = 0; s.residual() > 1e-7 {
				s.refactor()
			}
		}
	}
}

// pivot brings a column or the slack of a row into the basis.
func (s *master) pivot(enter, slackRow int) bool {
	m, alpha := s.m, s.alpha
	clear(alpha)
	var d float64
	addCol := func(r int, f float64) {
		col := s.inv[r*m : r*m+m]
		for i, v := range col {
			if v != 0 {
				alpha[i] += f * v
			}
		}
	}
	if enter >= 0 {
		c := &s.cols[enter]
		for k, r := range c.rows {
			addCol(int(r), c.vals[k])
		}
		d = s.reduced(c)
	} else {
		f := -1.0
		if slackRow >= s.cover {
			f = 1
		}
		addCol(slackRow, f)
		d = -f * s.y[slackRow]
	}
	leave, ratio := -1, math.Inf(1)
	for i, a := range alpha {
		if a <= tiny {
			continue
		}
		t := max(s.x[i], 0) / a
		if t < ratio-1e-12 || (t <= ratio+1e-12 && a > alpha[leave]) {
			leave, ratio = i, t
		}
	}
	if leave < 0 {
		return false
	}
	old := s.basis[leave]
	if old >= 0 {
		s.in[old] = false
	} else {
		s.slack[-1-old] = false
	}
	if enter >= 0 {
		s.basis[leave], s.in[enter] = enter, true
	} else {
		s.basis[leave], s.slack[slackRow] = -1-slackRow, true
	}
	s.swap(leave, ratio, d)
	return true
}

// swap updates the inverse, the values and the duals for a pivot in row leave.
func (s *master) swap(leave int, ratio, d float64) {
	m, alpha := s.m, s.alpha
	p := alpha[leave]
	var at [64]int
	touched := at[:0]
	for i, a := range alpha {
		if i != leave && a != 0 {
			s.x[i] -= ratio * a
			touched = append(touched, i)
		}
	}
	s.x[leave] = ratio
	for c := range m {
		col := s.inv[c*m : c*m+m]
		v := col[leave]
		if v == 0 {
			continue
		}
		v /= p
		col[leave] = v
		s.work += int64(len(touched))
		for _, i := range touched {
			col[i] -= alpha[i] * v
		}
		s.y[c] += d * v
	}
	s.since++
}

// refactor makes the inverse anew from the basis, by Gauss and Jordan with row exchange; a basis that turns out singular keeps the old.
func (s *master) refactor() {
	s.since = 0
	m := s.m
	a := make([]float64, m*m) // a[r*m+c]: row r of basic column c
	for c, b := range s.basis {
		switch {
		case b >= 0:
			for k, r := range s.cols[b].rows {
				a[int(r)*m+c] = s.cols[b].vals[k]
			}
		case -1-b < s.cover:
			a[(-1-b)*m+c] = -1
		default:
			a[(-1-b)*m+c] = 1
		}
	}
	inv := make([]float64, m*m) // row by row here
	for i := range m {
		inv[i*m+i] = 1
	}
	for c := range m {
		at := c
		for r := c + 1; r < m; r++ {
			if math.Abs(a[r*m+c]) > math.Abs(a[at*m+c]) {
				at = r
			}
		}
		if math.Abs(a[at*m+c]) < 1e-11 {
			return
		}
		if at != c {
			for k := range m {
				a[at*m+k], a[c*m+k] = a[c*m+k], a[at*m+k]
				inv[at*m+k], inv[c*m+k] = inv[c*m+k], inv[at*m+k]
			}
		}
		p := a[c*m+c]
		rowA, rowI := a[c*m:c*m+m], inv[c*m:c*m+m]
		for k := range m {
			rowA[k] /= p
			rowI[k] /= p
		}
		for r := range m {
			f := a[r*m+c]
			if r == c || f == 0 {
				continue
			}
			ra, ri := a[r*m:r*m+m], inv[r*m:r*m+m]
			for k := c; k < m; k++ {
				ra[k] -= f * rowA[k]
			}
			for k, v := range rowI {
				if v != 0 {
					ri[k] -= f * v
				}
			}
		}
	}
	for r := range m {
		for c := range m {
			s.inv[c*m+r] = inv[r*m+c]
		}
	}
	s.refresh()
}

// refresh computes values and duals from the inverse.
func (s *master) refresh() {
	clear(s.x)
	for c := range s.m {
		col := s.inv[c*s.m : c*s.m+s.m]
		y := 0.0
		for i, v := range col {
			if v == 0 {
				continue
			}
			s.x[i] += v * s.rhs[c]
			if b := s.basis[i]; b >= 0 {
				y += v * s.cols[b].cost
			}
		}
		s.y[c] = y
	}
}

// value is the cost of the present solution.
func (s *master) value() float64 {
	v := 0.0
	for i, b := range s.basis {
		if b >= 0 {
			v += s.cols[b].cost * s.x[i]
		}
	}
	return v
}

// prune drops the columns that are farthest from being of use, when there are more than most.
func (s *master) prune(most int) {
	if len(s.cols) <= most {
		return
	}
	limit := 0.05
	for len(s.cols) > most*3/4 && limit > 1e-4 {
		kept, at := s.cols[:0], make([]int, len(s.cols))
		in := s.in[:0]
		for j := range s.cols {
			at[j] = -1
			if s.in[j] || s.reduced(&s.cols[j]) < limit*s.cols[j].cost {
				at[j] = len(kept)
				kept = append(kept, s.cols[j])
				in = append(in, s.in[j])
			}
		}
		s.cols, s.in = kept, in
		for r, b := range s.basis {
			if b >= 0 {
				s.basis[r] = at[b]
			}
		}
		limit /= 2
	}
}
