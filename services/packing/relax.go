package packing

// relax solves the linear relaxation of one machine's knapsack (bounded variables, a row per dimension) by the primal simplex and
// returns its multipliers per unit of each dimension. Any multipliers that are not negative give a valid bound, so cutting the
// search short costs tightness only.
func relax(picks []pick, room *vec) [dims]float64 {
	var lam [dims]float64
	var scale [dims]float64
	rows := 0
	var row [dims]int
	for d := range scale {
		if room[d] <= 0 {
			continue
		}
		scale[d] = 1 / float64(room[d])
		if d == dimPods { // rarely binds: leave it out unless small
			if room[d] > 64 {
				continue
			}
		}
		used := false
		for i := range picks {
			if picks[i].need[d] > 0 {
				used = true
				break
			}
		}
		if used {
			row[rows] = d
			rows++
		}
	}
	weight := func(i, r int) float64 { return float64(picks[i].need[row[r]]) * scale[row[r]] }
	var inv [dims][dims]float64
	var x, y [dims]float64
	var basis [dims]int
	upper := make([]bool, len(picks))
	basic := make([]bool, len(picks))
	for r := range rows {
		inv[r][r], x[r], basis[r] = 1, 1, -1-r
	}
	for range 80 {
		for c := range rows { // duals
			y[c] = 0
			for r := range rows {
				if b := basis[r]; b >= 0 {
					y[c] += picks[b].value * inv[r][c]
				}
			}
		}
		enter, dir, gain := len(picks), 1.0, 1e-9
		for i := range picks {
			if basic[i] {
				continue
			}
			d := picks[i].value
			for r := range rows {
				d -= y[r] * weight(i, r)
			}
			if !upper[i] && d > gain {
				enter, dir, gain = i, 1, d
			} else if upper[i] && -d > gain {
				enter, dir, gain = i, -1, -d
			}
		}
		slack := -1
		if enter == len(picks) {
			for r := range rows {
				if y[r] < -1e-12 {
					slack = r
				}
			}
			if slack < 0 {
				break
			}
		}
		var alpha [dims]float64
		for r := range rows {
			if slack >= 0 {
				alpha[r] = inv[r][slack]
				continue
			}
			for c := range rows {
				alpha[r] += inv[r][c] * weight(enter, c)
			}
		}
		limit, leave, toUpper := 1e300, -1, false
		if slack < 0 {
			limit = float64(picks[enter].most)
		}
		for r := range rows {
			a := alpha[r] * dir
			switch {
			case a > 1e-12 && x[r]/a < limit:
				limit, leave, toUpper = max(x[r], 0)/a, r, false
			case a < -1e-12 && basis[r] >= 0 && (float64(picks[basis[r]].most)-x[r])/-a < limit:
				limit, leave, toUpper = max(float64(picks[basis[r]].most)-x[r], 0)/-a, r, true
			}
		}
		for r := range rows {
			x[r] -= limit * dir * alpha[r]
		}
		if leave < 0 {
			if slack >= 0 {
				break
			}
			upper[enter] = dir > 0
			continue
		}
		if b := basis[leave]; b >= 0 {
			basic[b], upper[b] = false, toUpper
		}
		if slack >= 0 {
			basis[leave], x[leave] = -1-slack, limit
		} else {
			start := 0.0
			if dir < 0 {
				start = float64(picks[enter].most)
			}
			basis[leave], basic[enter], x[leave] = enter, true, start+dir*limit
		}
		p := alpha[leave]
		for c := range rows {
			inv[leave][c] /= p
		}
		for r := range rows {
			if r != leave && alpha[r] != 0 {
				for c := range rows {
					inv[r][c] -= alpha[r] * inv[leave][c]
				}
			}
		}
	}
	for r := range rows {
		lam[row[r]] = max(0, y[r]) * scale[row[r]]
	}
	return lam
}
