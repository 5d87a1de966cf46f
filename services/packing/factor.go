package packing

import "math"

// factors is the basis of a linear program as a product: lower triangular, then one rank-one change per exchange of a column since the
// factors were made, then upper triangular. Rows and columns are eliminated in the order that fills in least (Markowitz), so the factors of
// some hundred rows have a few thousand entries where an inverse has hundreds of thousands. Exchanging a column in the middle of the product
// (L T U, with T = I + v w') leaves both triangles as they are.
type factors struct {
	m     int
	row   []int32   // of each pivot, in the order of elimination
	col   []int32   // its column: a place in the basis
	piv   []float64 // its value
	order []int32   // of each column, the pivot that eliminated it
	lower entries   // of each pivot, the rows that it was subtracted from and how often
	upper entries   // of each pivot, what else is in its row: columns that are eliminated later
	above entries   // of each pivot, what else is in its column: rows that are eliminated earlier
	swaps []float64 // of each exchange, the pivot: x becomes x - v (w x) / pivot
	v, w  entries
}

// entries are sparse vectors, one after the other.
type entries struct {
	at  []int32 // where each begins, and the end
	idx []int32
	val []float64
}

func (e *entries) reset() { e.at, e.idx, e.val = append(e.at[:0], 0), e.idx[:0], e.val[:0] }

func (e *entries) add(i int32, v float64) { e.idx, e.val = append(e.idx, i), append(e.val, v) }

func (e *entries) end() { e.at = append(e.at, int32(len(e.idx))) } //nolint:gosec // bounded by the entries of a basis

func (e *entries) of(k int) ([]int32, []float64) {
	a, b := e.at[k], e.at[k+1]
	return e.idx[a:b], e.val[a:b]
}

// addAll adds a vector.
func (e *entries) addAll(x []float64) {
	for i, v := range x {
		if v > 1e-14 || v < -1e-14 {
			e.add(int32(i), v)
		}
	}
	e.end()
}

// change takes the k-th of some others off x, as often as the k-th of these says, over the pivot.
func (e *entries) change(k int, others *entries, pivot float64, x []float64) {
	idx, val := e.of(k)
	t := 0.0
	for q, i := range idx {
		t += val[q] * x[i]
	}
	if t == 0 {
		return
	}
	t /= pivot
	idx, val = others.of(k)
	for q, i := range idx {
		x[i] -= val[q] * t
	}
}

// lowerSolve takes a right side, by rows, through the lower triangle and the exchanges.
func (f *factors) lowerSolve(x []float64) {
	for k, r := range f.row {
		if t := x[r]; t != 0 {
			idx, val := f.lower.of(k)
			for q, i := range idx {
				x[i] -= val[q] * t
			}
		}
	}
	for k, pivot := range f.swaps {
		f.w.change(k, &f.v, pivot, x)
	}
}

// upperSolve goes on with the upper triangle; it uses up x and leaves the solution, by places in the basis, in out.
func (f *factors) upperSolve(x, out []float64) {
	for k := f.m - 1; k >= 0; k-- {
		t := x[f.row[k]]
		if t == 0 {
			out[f.col[k]] = 0
			continue
		}
		t /= f.piv[k]
		out[f.col[k]] = t
		idx, val := f.above.of(k)
		for q, i := range idx {
			x[i] -= val[q] * t
		}
	}
}

// upperLeft solves the transposed upper triangle from pivot first on: y, by places in the basis, is used up, and out is by rows.
func (f *factors) upperLeft(y, out []float64, first int) {
	for k := range first {
		out[f.row[k]] = 0
	}
	for k := first; k < f.m; k++ {
		t := y[f.col[k]]
		if t == 0 {
			out[f.row[k]] = 0
			continue
		}
		t /= f.piv[k]
		out[f.row[k]] = t
		idx, val := f.upper.of(k)
		for q, i := range idx {
			y[i] -= val[q] * t
		}
	}
}

// lowerLeft goes on with the exchanges and the lower triangle, transposed.
func (f *factors) lowerLeft(y []float64) {
	for k := len(f.swaps) - 1; k >= 0; k-- {
		f.v.change(k, &f.w, f.swaps[k], y)
	}
	for k := f.m - 1; k >= 0; k-- {
		idx, val := f.lower.of(k)
		if len(idx) == 0 {
			continue
		}
		t := y[f.row[k]]
		for q, i := range idx {
			t -= val[q] * y[i]
		}
		y[f.row[k]] = t
	}
}

// exchange puts another column in place p: half is the new column through the lower triangle and the exchanges, w the unit vector of p
// through the transposed upper triangle.
func (f *factors) exchange(p int, half, w []float64, pivot float64) {
	k := int(f.order[p])
	half[f.row[k]] -= f.piv[k]
	idx, val := f.above.of(k)
	for q, i := range idx {
		half[i] -= val[q]
	}
	f.v.addAll(half)
	f.w.addAll(w)
	f.swaps = append(f.swaps, pivot)
}

// size is how many entries all parts have.
func (f *factors) size() int {
	return f.m + len(f.lower.idx) + len(f.upper.idx) + len(f.v.idx) + len(f.w.idx)
}

// elimination makes factors: what is left of the basis row by row, with the rows of every column.
type elimination struct {
	m     int
	idx   [][]int32
	val   [][]float64
	rows  [][]int32 // of each column, rows that have it
	byRow counts    // rows by how many entries they have
	byCol counts
	at    []float64 // of each column, the pivot row's entry
	in    []bool    // column is in the pivot row and not met yet
	out   *factors
}

// counts are lists of what has so many entries.
type counts struct {
	head       []int32 // by count
	next, prev []int32
	count      []int32 // -1: eliminated
}

func (c *counts) init(m int) {
	c.head = make([]int32, m+1)
	for i := range c.head {
		c.head[i] = -1
	}
	c.next, c.prev, c.count = make([]int32, m), make([]int32, m), make([]int32, m)
}

func (c *counts) put(i, n int32) {
	c.count[i] = n
	c.prev[i], c.next[i] = -1, c.head[n]
	if h := c.head[n]; h >= 0 {
		c.prev[h] = i
	}
	c.head[n] = i
}

func (c *counts) take(i int32) {
	if p := c.prev[i]; p >= 0 {
		c.next[p] = c.next[i]
	} else {
		c.head[c.count[i]] = c.next[i]
	}
	if n := c.next[i]; n >= 0 {
		c.prev[n] = c.prev[i]
	}
}

func (c *counts) change(i, n int32) {
	if c.count[i] != n {
		c.take(i)
		c.put(i, n)
	}
}

// factorize makes factors of a basis, column by column as put gives it; nil if it is singular. The old ones, nil if there are none, hand over
// the room for exchanges.
func factorize(m int, old *factors, put func(add func(row, col int32, v float64))) *factors {
	e := &elimination{m: m, idx: make([][]int32, m), val: make([][]float64, m), rows: make([][]int32, m), at: make([]float64, m), in: make([]bool, m)}
	f := &factors{m: m, row: make([]int32, 0, m), col: make([]int32, 0, m), piv: make([]float64, 0, m), order: make([]int32, m)}
	e.out = f
	nr, nc := make([]int32, m), make([]int32, m)
	total := 0
	put(func(r, c int32, _ float64) {
		nr[r]++
		nc[c]++
		total++
	})
	is, vs, rs := make([]int32, total), make([]float64, total), make([]int32, total)
	e.byRow.init(m)
	e.byCol.init(m)
	ri, ci := int32(0), int32(0)
	for i := range m {
		e.idx[i], e.val[i] = is[ri:ri:ri+nr[i]], vs[ri:ri:ri+nr[i]]
		e.rows[i] = rs[ci : ci : ci+nc[i]]
		ri, ci = ri+nr[i], ci+nc[i]
	}
	for i := m - 1; i >= 0; i-- {
		e.byRow.put(int32(i), nr[i]) //nolint:gosec // a row
		e.byCol.put(int32(i), nc[i]) //nolint:gosec // a column
	}
	put(func(r, c int32, v float64) {
		e.idx[r], e.val[r] = append(e.idx[r], c), append(e.val[r], v)
		e.rows[c] = append(e.rows[c], r)
	})
	f.lower.reset()
	f.upper.reset()
	for range m {
		r, c := e.choose()
		if r < 0 || !e.pivot(r, c) {
			return nil
		}
	}
	f.columns()
	if old != nil {
		f.v, f.w, f.swaps = old.v, old.w, old.swaps[:0]
	}
	f.v.reset()
	f.w.reset()
	return f
}

// choose is the entry whose elimination can fill in least among some of the shortest rows and columns, and not small beside others of its row.
func (e *elimination) choose() (row, col int32) {
	row, col = -1, -1
	best, seen := int64(math.MaxInt64), 0
	for n := int32(1); n <= int32(e.m); n++ { //nolint:gosec // rows
		if best <= int64(n-1)*int64(n-1) {
			return row, col
		}
		for c := e.byCol.head[n]; c >= 0; c = e.byCol.next[c] {
			for _, r := range e.rows[c] {
				cost := int64(n-1) * int64(len(e.idx[r])-1)
				if cost >= best {
					continue
				}
				v, most := 0.0, 0.0
				for q, i := range e.idx[r] {
					a := math.Abs(e.val[r][q])
					most = max(most, a)
					if i == c {
						v = a
					}
				}
				if v >= 0.1*most && v > 1e-11 {
					best, row, col = cost, r, c
				}
			}
			if seen++; (seen >= 4 && row >= 0) || best <= int64(n-1)*int64(n-1) {
				return row, col
			}
		}
		for r := e.byRow.head[n]; r >= 0; r = e.byRow.next[r] {
			most := 0.0
			for _, v := range e.val[r] {
				most = max(most, math.Abs(v))
			}
			for q, c := range e.idx[r] {
				cost := int64(n-1) * int64(e.byCol.count[c]-1)
				if a := math.Abs(e.val[r][q]); cost < best && a >= 0.1*most && a > 1e-11 {
					best, row, col = cost, r, c
				}
			}
			if seen++; (seen >= 4 && row >= 0) || best <= int64(n-1)*int64(n-1) {
				return row, col
			}
		}
	}
	return row, col
}

// pivot eliminates a column from all rows but one.
func (e *elimination) pivot(r, c int32) bool {
	f := e.out
	p := 0.0
	e.byRow.take(r)
	e.byCol.take(c)
	e.byRow.count[r], e.byCol.count[c] = -1, -1
	for q, i := range e.idx[r] {
		v := e.val[r][q]
		if i == c {
			p = v
			continue
		}
		f.upper.add(i, v)
		e.at[i] = v
		e.drop(i, r)
	}
	f.upper.end()
	f.order[c] = int32(len(f.row)) //nolint:gosec // a row
	f.row, f.col, f.piv = append(f.row, r), append(f.col, c), append(f.piv, p)
	pi := e.idx[r]
	for _, i := range e.rows[c] {
		if i == r {
			continue
		}
		e.subtract(i, c, p, pi)
	}
	f.lower.end()
	for _, i := range pi {
		if i != c {
			e.byCol.change(i, int32(len(e.rows[i]))) //nolint:gosec // rows
		}
	}
	return p != 0
}

// drop takes a row off a column's list.
func (e *elimination) drop(c, r int32) {
	list := e.rows[c]
	for q, i := range list {
		if i == r {
			list[q] = list[len(list)-1]
			e.rows[c] = list[:len(list)-1]
			return
		}
	}
}

// subtract takes the pivot row off row i as often as makes its entry in column c vanish.
func (e *elimination) subtract(i, c int32, p float64, pivot []int32) {
	idx, val := e.idx[i], e.val[i]
	t := 0.0
	for q, k := range idx {
		if k == c {
			t = val[q] / p
			last := len(idx) - 1
			idx[q], val[q] = idx[last], val[last]
			idx, val = idx[:last], val[:last]
			break
		}
	}
	e.out.lower.add(i, t)
	if len(pivot) > 1 {
		for _, k := range pivot {
			e.in[k] = k != c
		}
		for q := 0; q < len(idx); q++ {
			k := idx[q]
			if !e.in[k] {
				continue
			}
			e.in[k] = false
			was := val[q]
			if val[q] -= t * e.at[k]; math.Abs(val[q]) < 1e-13*math.Abs(was) { // it cancels out
				last := len(idx) - 1
				idx[q], val[q] = idx[last], val[last]
				idx, val = idx[:last], val[:last]
				e.drop(k, i)
				q--
			}
		}
		for _, k := range pivot {
			if e.in[k] {
				e.in[k] = false
				idx, val = append(idx, k), append(val, -t*e.at[k])
				e.rows[k] = append(e.rows[k], i)
			}
		}
	}
	e.idx[i], e.val[i] = idx, val
	e.byRow.change(i, int32(len(idx))) //nolint:gosec // columns
}

// columns lists the upper triangle by columns too.
func (f *factors) columns() {
	n := make([]int32, f.m+1)
	for _, c := range f.upper.idx {
		n[f.order[c]+1]++
	}
	for k := range f.m {
		n[k+1] += n[k]
	}
	f.above.at = append([]int32(nil), n...)
	f.above.idx, f.above.val = make([]int32, len(f.upper.idx)), make([]float64, len(f.upper.idx))
	for k := range f.m {
		idx, val := f.upper.of(k)
		for q, c := range idx {
			at := n[f.order[c]]
			f.above.idx[at], f.above.val[at] = f.row[k], val[q]
			n[f.order[c]]++
		}
	}
}
