package packing

import (
	"math"
	"slices"
)

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
	flat  entries // the columns as sums of parts
	known int     // columns in flat
	owner []int32 // of each row, the cover row of the only shape whose pods it counts; -1: none. nil: none has one
	parts parts

	near                 []int32   // columns that gain or nearly do: only these are looked at until none of them gains
	isNear               []bool    // of the columns
	gain, weight         []float64 // of the columns
	least                []float64 // of each column, what is not worth an exchange
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

// near is how far, as a share of its price, a column may be from gaining and still be looked at with those that do.
const near = 0.03

// parts are what columns are made of: a cover row together with the rows that count the same pods. A column holds a dozen of them where it has
// fifty rows, and what a part is worth is added up once for all columns.
type parts struct {
	rows  entries // without values
	of    map[uint64]int32
	worth []float64
	list  [][]int32 // of the column in hand, the rows of each part
}

// find is the number of a part.
func (p *parts) find(rows []int32) int32 {
	h := uint64(len(rows))
	for _, r := range rows {
		h = mix(h*0x9e3779b97f4a7c15 ^ uint64(r)) //nolint:gosec // a hash
	}
	if id, ok := p.of[h]; ok {
		if known, _ := p.rows.of(int(id)); slices.Equal(known, rows) {
			return id
		}
	}
	id := int32(len(p.worth)) //nolint:gosec // bounded by the columns
	for _, r := range rows {
		p.rows.add(r, 0)
	}
	p.rows.end()
	p.worth, p.of[h] = append(p.worth, 0), id
	return id
}

// weigh adds up what the parts are worth by row.
func (p *parts) weigh(y []float64) {
	for k := range p.worth {
		v := 0.0
		for _, r := range p.rows.idx[p.rows.at[k]:p.rows.at[k+1]] {
			v += y[r]
		}
		p.worth[k] = v
	}
}

// flatten lists the columns one after the other.
func (s *master) flatten() {
	if s.parts.of == nil {
		s.parts.of = map[uint64]int32{}
		s.parts.rows.reset()
	}
	if s.known == 0 || s.known > len(s.cols) {
		s.flat.reset()
		s.known = 0
	}
	for c := range s.cols[s.known:] {
		s.split(&s.cols[s.known+c])
		s.flat.end()
	}
	s.known = len(s.cols)
}

// split adds the parts of a column.
func (s *master) split(c *column) {
	list, n := s.parts.list, 0
	for k, r := range c.rows {
		if s.owner != nil && s.owner[r] >= 0 {
			at := 0
			for at < n && (list[at][0] != s.owner[r] || s.flat.val[len(s.flat.val)-n+at] != c.vals[k]) {
				at++
			}
			if at < n {
				list[at] = append(list[at], r)
				continue
			}
		}
		if n == len(list) {
			list = append(list, nil)
		}
		list[n] = append(list[n][:0], r)
		s.flat.add(0, c.vals[k])
		n++
	}
	for at := range n {
		s.flat.idx[len(s.flat.idx)-n+at] = s.parts.find(list[at])
	}
	s.parts.list = list
}

// price computes what every column and slack gains, and begins Devex anew.
func (s *master) price(anew bool) {
	n := len(s.cols)
	for len(s.gain) < n {
		s.gain, s.weight, s.isNear, s.least = append(s.gain, 0), append(s.weight, 0), append(s.isNear, false), append(s.least, 0)
	}
	sum := 0.0
	s.near = s.near[:0]
	s.parts.weigh(s.y)
	for j := range n {
		d, cost := s.cols[j].cost, s.cols[j].cost
		idx, val := s.flat.of(j)
		for q, k := range idx {
			d -= s.parts.worth[k] * val[q]
		}
		s.gain[j], s.least[j] = d, -1e-7*max(1e-3, cost)
		if anew {
			s.weight[j] = s.own(j)
		}
		if s.isNear[j] = d < near*cost && !s.in[j]; s.isNear[j] {
			s.near = append(s.near, int32(j))
		}
	}
	for r := range s.m {
		s.slackGain[r] = -s.sign(r) * s.y[r]
		sum += math.Abs(s.y[r])
	}
	if sum /= float64(max(1, s.cover)); anew {
		for r := range s.m {
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

// solve runs the primal simplex to the end or for at most steps exchanges; it tells whether that was the end.
func (s *master) solve(steps int) bool {
	s.flatten()
	s.price(true)
	fresh, next := true, s.choose()
	for step := range steps {
		if step%64 == 63 && s.stop != nil && s.stop() {
			return false
		}
		if next.col < 0 && next.slack < 0 {
			if fresh {
				return true
			}
			s.duals()
			s.price(false)
			fresh, next = true, s.choose()
			continue
		}
		fresh = false
		var ok bool
		if next, ok = s.pivot(next.col, next.slack); !ok {
			return true // nothing more to be had of these columns
		}
	}
	return false
}

// choice is the column, or else the slack, that gains most for its length; -1: none.
type choice struct {
	col, slack int
	best       float64
}

// column lets a column compete.
func (c *choice) column(s *master, j int) {
	if d := s.gain[j]; d < s.least[j] && d*d > c.best*s.weight[j] {
		*c = choice{j, -1, d * d / s.weight[j]}
	}
}

// ofSlack lets the slack of a row compete.
func (c *choice) ofSlack(s *master, r int) {
	if d := s.slackGain[r]; d < -1e-9 && d*d > c.best*s.slackWide[r] {
		*c = choice{-1, r, d * d / s.slackWide[r]}
	}
}

// choose looks at all columns that may gain and all slacks.
func (s *master) choose() choice {
	c := choice{-1, -1, 0}
	for _, j := range s.near {
		if !s.in[j] {
			c.column(s, int(j))
		}
	}
	for r := range s.slackGain {
		if !s.slack[r] {
			c.ofSlack(s, r)
		}
	}
	return c
}

// pivot brings a column or the slack of a row into the basis, and tells what may come next.
func (s *master) pivot(enter, slackRow int) (choice, bool) {
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
		return choice{-1, -1, 0}, false
	}
	return s.swap(enter, slackRow, leave, ratio, d), true
}

// swap updates the factors, the values, the duals and the gains for an exchange at place leave.
func (s *master) swap(enter, slackRow, leave int, ratio, d float64) choice {
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
	if enter >= 0 {
		s.in[enter] = true
	} else {
		s.slack[slackRow] = true
	}
	next := s.update(enter, slackRow, leave, step, p)
	if old := s.basis[leave]; old >= 0 {
		s.in[old] = false
	} else {
		s.slack[-1-old] = false
	}
	if s.basis[leave] = enter; enter < 0 {
		s.basis[leave] = -1 - slackRow
	}
	s.f.exchange(leave, s.half, s.w, p)
	cost := int64(2*s.f.size() + s.m)
	s.since += cost
	s.work += cost + int64(len(s.flat.idx))
	if n := len(s.f.swaps); n >= 20 {
		if mean := float64(s.made+s.since) / float64(n); n >= 200 || (s.each > 0 && mean > s.each) {
			s.refactor()
		} else {
			s.each = mean
		}
	}
	return next
}

// update takes the gains and the weights along with an exchange, and chooses what comes next.
func (s *master) update(enter, slackRow, leave int, step, p float64) choice {
	var wide float64
	if enter >= 0 {
		wide = s.weight[enter]
	} else {
		wide = s.slackWide[slackRow]
	}
	wide /= p * p
	rho, next := s.rho, choice{-1, -1, 0}
	s.parts.weigh(rho)
	worth := s.parts.worth
	for _, j := range s.near {
		if s.in[j] {
			continue
		}
		idx, val := s.flat.of(int(j))
		a := 0.0
		for q, k := range idx {
			a += worth[k] * val[q]
		}
		s.gain[j] -= step * a
		if v := a * a * wide; v > s.weight[j] {
			s.weight[j] = v
		}
		next.column(s, int(j))
	}
	for r, v := range rho {
		if s.slack[r] {
			continue
		}
		s.slackGain[r] -= step * v * s.sign(r)
		if v := v * v * wide; v > s.slackWide[r] {
			s.slackWide[r] = v
		}
		next.ofSlack(s, r)
	}
	if old := s.basis[leave]; old >= 0 {
		s.gain[old], s.weight[old] = -step, max(wide, s.own(old))
		if !s.isNear[old] {
			s.isNear[old] = true
			s.near = append(s.near, int32(old)) //nolint:gosec // a column
		}
	} else {
		s.slackGain[-1-old], s.slackWide[-1-old] = -step, max(wide, 1e-6)
	}
	return next
}

// refactor makes the factors anew from the basis; a basis that turns out singular keeps the old ones.
func (s *master) refactor() {
	f := factorize(s.m, s.f, func(add func(row, col int32, v float64)) {
		for c, b := range s.basis {
			if b < 0 {
				add(int32(-1-b), int32(c), s.sign(-1-b)) //nolint:gosec // a row
				continue
			}
			for k, r := range s.cols[b].rows {
				add(r, int32(c), s.cols[b].vals[k])
			}
		}
	})
	s.since, s.each = 0, 0
	if f == nil {
		return
	}
	s.f = f
	s.made = int64(60 * f.size())
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
