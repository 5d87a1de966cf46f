package packing

import "math"

// column is a pattern as the linear program sees it: how many pods of each row one machine covers.
type column struct {
	off  int // -1: pods left out, at a price no machine reaches
	cost float64
	rows []int32
	vals []float64
}

// master is the linear program over patterns: cover every row at least cost, within the stock. It is solved by the revised primal simplex
// method on factors of the basis. What enters is chosen by Devex: by how much a step gains for its length, as seen from the basis in which the
// solution began.
type master struct {
	m     int // rows
	cover int // of these, the first that cover shapes; the others limit stock
	rhs   []float64
	cols  []column
	basis []int     // column of each place; -1-r: the slack of row r
	in    []bool    // column is in the basis
	x     []float64 // values of the basic columns
	y     []float64 // duals: of cover rows not negative, of stock rows not positive
	slack []bool
	work  int64       // multiplications so far
	stop  func() bool // asked now and then; nil: never

	f     *factors
	since int64   // multiplications since the factors were made
	made  int64   // what making them took
	each  float64 // least multiplications per exchange since then
	flat  entries // the columns, for speed
	known int     // columns in flat

	gain, weight         []float64 // of the columns
	slackGain, slackWide []float64 // of the slacks
	alpha, half, w, rho  []float64
	unit                 []float64
}

// newMaster starts from one column per cover row, which must cover that row only and be given in the order of rows.
func newMaster(rhs []float64, cover int, start []column) *master {
	m := len(rhs)
	s := &master{m: m, cover: cover, rhs: rhs, cols: append([]column(nil), start...), basis: make([]int, m), in: make([]bool, cover), slack: make([]bool, m)}
	all := make([]float64, 9*m)
	for _, v := range []*[]float64{&s.x, &s.y, &s.alpha, &s.half, &s.w, &s.rho, &s.unit, &s.slackGain, &s.slackWide} {
		*v, all = all[:m:m], all[m:]
	}
	for r := range m {
		if r < cover {
			s.basis[r], s.in[r] = r, true
			continue
		}
		s.basis[r], s.slack[r] = -1-r, true
	}
	s.refactor()
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

// sign is the slack's entry in its row: what is covered beyond need, what is left of a limit.
func (s *master) sign(r int) float64 {
	if r < s.cover {
		return -1
	}
	return 1
}

const tiny = 1e-9

// flatten lists the columns one after the other.
func (s *master) flatten() {
	if s.known == 0 || s.known > len(s.cols) {
		s.flat.reset()
		s.known = 0
	}
	for _, c := range s.cols[s.known:] {
		s.flat.idx, s.flat.val = append(s.flat.idx, c.rows...), append(s.flat.val, c.vals...)
		s.flat.end()
	}
	s.known = len(s.cols)
}

// price computes what every column and slack gains, and begins Devex anew.
func (s *master) price(anew bool) {
	n := len(s.cols)
	for len(s.gain) < n {
		s.gain, s.weight = append(s.gain, 0), append(s.weight, 0)
	}
	sum := 0.0
	for j := range n {
		d := s.cols[j].cost
		idx, val := s.flat.of(j)
		for q, r := range idx {
			d -= s.y[r] * val[q]
		}
		s.gain[j] = d
		if anew {
			s.weight[j] = s.own(j)
		}
	}
	for r := range s.m {
		s.slackGain[r] = -s.sign(r) * s.y[r]
		sum += math.Abs(s.y[r])
	}
	sum /= float64(max(1, s.cover))
	for r := range s.m {
		if anew {
			s.slackWide[r] = max(1e-6, sum*sum)
		}
	}
	s.work += int64(len(s.flat.idx))
}

// own is the weight of a column by itself: its price, since a machine is as long a step as it costs.
func (s *master) own(j int) float64 {
	c := max(1e-3, s.cols[j].cost)
	return c * c
}

// solve runs the primal simplex to the end or for at most steps exchanges.
func (s *master) solve(steps int) {
	s.flatten()
	s.price(true)
	fresh := true
	for step := range steps {
		if step%64 == 63 && s.stop != nil && s.stop() {
			return
		}
		enter, slackRow := s.choose()
		if enter < 0 && slackRow < 0 {
			if fresh {
				return
			}
			s.duals()
			s.price(false)
			fresh = true
			continue
		}
		fresh = false
		if !s.pivot(enter, slackRow) {
			return
		}
	}
}

// choose is the column, or else the slack, that gains most for its length.
func (s *master) choose() (enter, slackRow int) {
	enter, slackRow = -1, -1
	best := 0.0
	for j, d := range s.gain[:len(s.cols)] {
		if d >= -1e-10 || s.in[j] {
			continue
		}
		if v := d * d; v > best*s.weight[j] && d < -1e-7*max(1e-3, s.cols[j].cost) {
			enter, best = j, v/s.weight[j]
		}
	}
	for r, d := range s.slackGain {
		if d >= -1e-9 || s.slack[r] {
			continue
		}
		if v := d * d; v > best*s.slackWide[r] {
			enter, slackRow, best = -1, r, v/s.slackWide[r]
		}
	}
	return enter, slackRow
}

// pivot brings a column or the slack of a row into the basis.
func (s *master) pivot(enter, slackRow int) bool {
	x := s.unit
	clear(x)
	var d float64
	if enter >= 0 {
		c := &s.cols[enter]
		for k, r := range c.rows {
			x[r] = c.vals[k]
		}
		d = s.reduced(c)
	} else {
		x[slackRow] = s.sign(slackRow)
		d = -x[slackRow] * s.y[slackRow]
	}
	s.f.lowerSolve(x)
	copy(s.half, x)
	s.f.upperSolve(x, s.alpha)
	leave, ratio := -1, math.Inf(1)
	for i, a := range s.alpha {
		if a <= tiny {
			continue
		}
		t := max(s.x[i], 0) / a
		if t < ratio-1e-12 || (t <= ratio+1e-12 && a > s.alpha[leave]) {
			leave, ratio = i, t
		}
	}
	if leave < 0 {
		return false
	}
	s.swap(enter, slackRow, leave, ratio, d)
	return true
}

// swap updates the factors, the values, the duals and the gains for an exchange at place leave.
func (s *master) swap(enter, slackRow, leave int, ratio, d float64) {
	p := s.alpha[leave]
	for i, a := range s.alpha {
		s.x[i] -= ratio * a
	}
	s.x[leave] = ratio
	clear(s.unit)
	s.unit[leave] = 1
	s.f.upperLeft(s.unit, s.w, int(s.f.order[leave]))
	copy(s.rho, s.w)
	s.f.lowerLeft(s.rho)
	step := d / p
	for r, v := range s.rho {
		s.y[r] += step * v
	}
	s.update(enter, slackRow, leave, step, p)
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
	s.f.exchange(leave, s.half, s.w, p)
	cost := int64(2*(s.f.entriesOf()+s.f.size) + s.m)
	s.since += cost
	s.work += cost + int64(len(s.flat.idx))
	if n := len(s.f.swaps); n >= 20 {
		if mean := float64(s.made+s.since) / float64(n); n >= 200 || (s.each > 0 && mean > s.each) {
			s.refactor()
		} else {
			s.each = mean
		}
	}
}

// update takes the gains and the weights along with an exchange.
func (s *master) update(enter, slackRow, leave int, step, p float64) {
	wide := 0.0
	if enter >= 0 {
		wide = s.weight[enter]
	} else {
		wide = s.slackWide[slackRow]
	}
	wide /= p * p
	rho := s.rho
	for j := range s.cols {
		if s.in[j] {
			continue
		}
		idx, val := s.flat.of(j)
		a := 0.0
		for q, r := range idx {
			a += rho[r] * val[q]
		}
		if a == 0 {
			continue
		}
		s.gain[j] -= step * a
		if v := a * a * wide; v > s.weight[j] {
			s.weight[j] = v
		}
	}
	for r, v := range rho {
		if s.slack[r] || v == 0 {
			continue
		}
		s.slackGain[r] -= step * v * s.sign(r)
		if v := v * v * wide; v > s.slackWide[r] {
			s.slackWide[r] = v
		}
	}
	if old := s.basis[leave]; old >= 0 {
		s.gain[old], s.weight[old] = -step, max(wide, s.own(old))
	} else {
		s.slackGain[-1-old], s.slackWide[-1-old] = -step, max(wide, 1e-6)
	}
}

// refactor makes the factors anew from the basis; a basis that turns out singular keeps the old ones.
func (s *master) refactor() {
	f := factorize(s.m, func(add func(row, col int32, v float64)) {
		for c, b := range s.basis {
			if b < 0 {
				add(int32(-1-b), int32(c), s.sign(-1-b)) //nolint:gosec // a row
				continue
			}
			for k, r := range s.cols[b].rows {
				add(r, int32(c), s.cols[b].vals[k]) //nolint:gosec // a row
			}
		}
	})
	s.since, s.each = 0, 0
	if f == nil {
		return
	}
	s.f = f
	s.made = int64(60 * f.entriesOf())
	s.work += s.made
	s.refresh()
}

// refresh computes values and duals from the factors.
func (s *master) refresh() {
	x := s.unit
	copy(x, s.rhs)
	s.f.lowerSolve(x)
	s.f.upperSolve(x, s.x)
	s.duals()
}

// duals computes the duals from the factors.
func (s *master) duals() {
	clear(s.unit)
	for i, b := range s.basis {
		if b >= 0 {
			s.unit[i] = s.cols[b].cost
		}
	}
	s.f.upperLeft(s.unit, s.y, 0)
	s.f.lowerLeft(s.y)
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
	s.known = 0
}
