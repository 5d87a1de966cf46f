package packing

// relaxation is the linear relaxation of one machine's knapsack: bounded variables, a row per dimension, capacities scaled to one. It is
// solved by the primal simplex from the empty machine.
type relaxation struct {
	picks []pick
	rows  int
	row   [dims]int // dimension of each row
	scale [dims]float64
	inv   [dims][dims]float64
	x, y  [dims]float64
	basis [dims]int // a pick; -1-r: the slack of row r
	upper []bool    // picks that are out of the basis at their limit
	basic []bool
}

// relax returns the relaxation's multipliers per unit of each dimension. Any multipliers that are not negative give a valid bound, so
// cutting the search short costs tightness only.
func relax(picks []pick, room *vec) [dims]float64 {
	t := relaxation{picks: picks, upper: make([]bool, len(picks)), basic: make([]bool, len(picks))}
	for d := range room {
		if room[d] > 0 && (d != dimPods || room[d] <= 64) && t.used(d) { // many pods per machine never bind
			t.row[t.rows], t.scale[t.rows] = d, 1/float64(room[d])
			t.rows++
		}
	}
	for r := range t.rows {
		t.inv[r][r], t.x[r], t.basis[r] = 1, 1, -1-r
	}
	for range 80 {
		t.duals()
		enter, slack, dir := t.enter()
		if (enter < 0 && slack < 0) || !t.pivot(enter, slack, dir) {
			break
		}
	}
	var lam [dims]float64
	for r := range t.rows {
		lam[t.row[r]] = max(0, t.y[r]) * t.scale[r]
	}
	return lam
}

func (t *relaxation) used(d int) bool {
	for i := range t.picks {
		if t.picks[i].need[d] > 0 {
			return true
		}
	}
	return false
}

func (t *relaxation) weight(i, r int) float64 {
	return float64(t.picks[i].need[t.row[r]]) * t.scale[r]
}

func (t *relaxation) duals() {
	for c := range t.rows {
		t.y[c] = 0
		for r := range t.rows {
			if b := t.basis[r]; b >= 0 {
				t.y[c] += t.picks[b].value * t.inv[r][c]
			}
		}
	}
}

// enter chooses the pick that gains most by coming off its limit, up (1) or down (-1), else the row whose slack gains; -1 is none.
func (t *relaxation) enter() (pick, slack int, dir float64) {
	pick, slack, dir = -1, -1, 1
	gain := 1e-9
	for i := range t.picks {
		if t.basic[i] {
			continue
		}
		d := t.picks[i].value
		for r := range t.rows {
			d -= t.y[r] * t.weight(i, r)
		}
		if !t.upper[i] && d > gain {
			pick, dir, gain = i, 1, d
		} else if t.upper[i] && -d > gain {
			pick, dir, gain = i, -1, -d
		}
	}
	if pick < 0 {
		for r := range t.rows {
			if t.y[r] < -1e-12 {
				slack = r
			}
		}
	}
	return pick, slack, dir
}

// pivot moves the pick or slack as far as the others allow; false means that nothing stops a slack, which only rounding can bring about.
func (t *relaxation) pivot(enter, slack int, dir float64) bool {
	var alpha [dims]float64
	limit := 1e300
	for r := range t.rows {
		if slack >= 0 {
			alpha[r] = t.inv[r][slack]
			continue
		}
		for c := range t.rows {
			alpha[r] += t.inv[r][c] * t.weight(enter, c)
		}
	}
	if slack < 0 {
		limit = float64(t.picks[enter].most)
	}
	leave, toUpper := -1, false
	for r := range t.rows {
		a := alpha[r] * dir
		switch {
		case a > 1e-12 && t.x[r]/a < limit:
			limit, leave, toUpper = max(t.x[r], 0)/a, r, false
		case a < -1e-12 && t.basis[r] >= 0 && (t.most(r)-t.x[r])/-a < limit:
			limit, leave, toUpper = max(t.most(r)-t.x[r], 0)/-a, r, true
		}
	}
	if leave < 0 && slack >= 0 {
		return false
	}
	for r := range t.rows {
		t.x[r] -= limit * dir * alpha[r]
	}
	if leave < 0 {
		t.upper[enter] = dir > 0
		return true
	}
	if b := t.basis[leave]; b >= 0 {
		t.basic[b], t.upper[b] = false, toUpper
	}
	if slack >= 0 {
		t.basis[leave], t.x[leave] = -1-slack, limit
	} else {
		start := 0.0
		if dir < 0 {
			start = float64(t.picks[enter].most)
		}
		t.basis[leave], t.basic[enter], t.x[leave] = enter, true, start+dir*limit
	}
	t.swap(leave, &alpha)
	return true
}

// most is the limit of the pick that is basic in a row.
func (t *relaxation) most(r int) float64 { return float64(t.picks[t.basis[r]].most) }

func (t *relaxation) swap(leave int, alpha *[dims]float64) {
	for c := range t.rows {
		t.inv[leave][c] /= alpha[leave]
	}
	for r := range t.rows {
		if r != leave && alpha[r] != 0 {
			for c := range t.rows {
				t.inv[r][c] -= alpha[r] * t.inv[leave][c]
			}
		}
	}
}
