package packing

import "sort"

// fill is what one GPU holds, or one pod that takes whole ones. A machine that shares GPUs by fractions is packed from fills: its bound then
// knows that fractions add up on every single GPU, which thousandths summed over the machine do not tell.
type fill struct {
	of    []int32 // how many of each pick with GPUs
	pick  pick
	whole bool // a pod of whole GPUs
}

// maxFills is how many fills are searched at most; with more, the search goes by pods.
const maxFills = 3000

// filler of GPUs: the picks of an offering apart, and the best that a GPU can hold by the multipliers.
type gpuFills struct {
	gpu, bare []pick
	milli     []int32
	unit      int32
	most      []int32   // of each pick with GPUs on the machine
	gain      []float64 // of each pick with GPUs, beyond what its CPU, memory and place are worth
	room      []float64 // the most gain in so many units of a GPU
	by        []int     // the pick that reaches it, -1: none
	list      []fill
	count     []int32
}

// byFills searches an offering whose GPUs are shared, fill by fill. ok is false where that is not the way: top is then a bound all the same, if
// it is above zero.
func (k *pricer) byFills(j int, floor float64, steps int) (v float64, items []item, top float64, ok bool) {
	o := &k.p.offs[j]
	if o.share != 1 || k.p.bonds != nil || floor <= 0 {
		return 0, nil, 0, false
	}
	k.list(o, j)
	g := &k.shared
	if !k.frac || !g.split(k) {
		return 0, nil, 0, false
	}
	lam := g.multipliers(o)
	best := g.gains(&lam)
	top = g.bound(o, &lam, best)
	if top <= floor {
		k.steps, k.found, k.trail = 0, 0, k.trail[:0]
		return 0, nil, top, true
	}
	if top > 2*floor || !g.enumerate(best, best-(top-floor), o.gpus) {
		return 0, nil, top, false
	}
	k.picks = k.picks[:0]
	for i := range g.list {
		k.picks = append(k.picks, g.list[i].pick)
	}
	k.picks = append(k.picks, g.bare...)
	k.frac, k.fixed, k.fills = false, -1, g
	k.cut, k.found, k.cutShort, k.trail = floor, 0, false, k.trail[:0]
	most := max(floor, min(top, k.search(o.cap, 0, steps)))
	k.fills = nil
	k.steps = 0
	if k.cutShort {
		k.steps = -1
	}
	v, items, most = k.result(most)
	return v, items, most, true
}

// split parts the picks by whether they want GPUs; false if a pod wants fractions of several, or the fractions have no common unit.
func (g *gpuFills) split(k *pricer) bool {
	g.gpu, g.bare, g.milli, g.most = g.gpu[:0], g.bare[:0], g.milli[:0], g.most[:0]
	g.unit = 1000
	for _, q := range k.picks {
		s := &k.p.shapes[q.shape]
		if s.gpus == 0 {
			g.bare = append(g.bare, q)
			continue
		}
		if s.milli < 1000 && s.gpus > 1 {
			return false
		}
		q.need = s.need[0]
		q.need[dimGPU], q.need[dimHeavy] = s.gpus*1000, 0
		g.gpu, g.milli, g.most = append(g.gpu, q), append(g.milli, s.milli), append(g.most, q.most)
		for a, b := g.unit, s.milli; ; a, b = b, a%b {
			if b == 0 {
				g.unit = a
				break
			}
		}
	}
	return true
}

// single makes a fill of n pods of one pick.
func (g *gpuFills) single(i int, n, gpus int32) fill {
	f := fill{of: make([]int32, len(g.gpu)), whole: g.milli[i] == 1000}
	f.of[i] = n
	f.pick = g.sum(f.of)
	f.pick.need[dimGPU] = g.gpu[i].need[dimGPU]
	f.pick.most = min(gpus*1000/f.pick.need[dimGPU], g.most[i]/n)
	return f
}

// sum is the sizes and the value of the pods of a fill, on one GPU.
func (g *gpuFills) sum(of []int32) pick {
	var q pick
	for i, n := range of {
		if n > 0 {
			q.need.add(&g.gpu[i].need, n)
			q.value += float64(n) * g.gpu[i].value
		}
	}
	q.need[dimGPU], q.need[dimHeavy] = 1000, 0
	return q
}

// multipliers are those of the linear relaxation over fills, which are added as long as one is worth more than a GPU.
func (g *gpuFills) multipliers(o *offer) [dims]float64 {
	var picks []pick
	for i := range g.gpu {
		n := min(g.most[i], 1000/g.milli[i])
		if f := g.single(i, n, o.gpus); f.pick.most > 0 && f.pick.need.fits(&o.cap) {
			picks = append(picks, f.pick)
		} else {
			picks = append(picks, g.single(i, 1, o.gpus).pick)
		}
	}
	at := len(picks)
	picks = append(picks, g.bare...)
	var lam [dims]float64
	for range 16 {
		lam = relax(picks, &o.cap)
		best := g.gains(&lam)
		if best <= lam[dimGPU]*1000*(1+1e-6)+1e-9 {
			break
		}
		of := make([]int32, len(g.gpu))
		for room := 1000 / g.unit; room > 0 && g.by[room] >= 0; {
			i := g.by[room]
			of[i]++
			room -= g.milli[i] / g.unit
		}
		q := g.sum(of)
		q.most = o.gpus
		if q.value <= 0 { // what is best is a pod of whole GPUs, and it is there already
			break
		}
		picks = append(picks, q)
		picks[at], picks[len(picks)-1] = picks[len(picks)-1], picks[at]
		at++
	}
	return lam
}

// gains finds what each pod gains on a GPU and the most that one GPU can.
func (g *gpuFills) gains(lam *[dims]float64) float64 {
	l := *lam
	l[dimGPU], l[dimHeavy] = 0, 0
	g.gain = g.gain[:0]
	best := 0.0
	for i := range g.gpu {
		v := g.gpu[i].value - dot(&l, &g.gpu[i].need)
		g.gain = append(g.gain, v)
		best = max(best, v/float64(g.gpu[i].need[dimGPU]/1000))
	}
	full := int(1000 / g.unit)
	g.room, g.by = g.room[:0], g.by[:0]
	for c := range full + 1 {
		most, by := 0.0, -1
		for i, v := range g.gain {
			if w := int(g.milli[i] / g.unit); w <= c && g.gpu[i].need[dimGPU] == 1000 && v > 0 && v+g.room[c-w] > most {
				most, by = v+g.room[c-w], i
			}
		}
		g.room, g.by = append(g.room, most), append(g.by, by)
	}
	return max(best, g.room[full])
}

// bound is the most that a machine can be worth by the multipliers, if a GPU gains at most best.
func (g *gpuFills) bound(o *offer, lam *[dims]float64, best float64) float64 {
	l := *lam
	l[dimGPU], l[dimHeavy] = 0, 0
	sum := dot(&l, &o.cap) + float64(o.gpus)*best
	for i := range g.bare {
		sum += max(0, g.bare[i].value-dot(&l, &g.bare[i].need)) * float64(g.bare[i].most)
	}
	return sum
}

// enumerate lists the fills that gain at least so much per GPU less what may be lost in all; false if there are too many.
func (g *gpuFills) enumerate(best, least float64, gpus int32) bool {
	g.list = g.list[:0]
	loss := best - least
	for i := range g.gpu {
		if n := g.gpu[i].need[dimGPU] / 1000; g.milli[i] == 1000 && float64(n)*best-g.gain[i] <= loss {
			if f := g.single(i, 1, gpus); f.pick.most > 0 {
				g.list = append(g.list, f)
			}
		}
	}
	of := make([]int32, len(g.gpu))
	if !g.extend(of, 0, 1000/g.unit, 0, least, gpus) {
		return false
	}
	for i := range g.list {
		g.list[i].pick.shape = -1 - i
	}
	return true
}

// extend adds pods to a fill in the order of the picks, as long as enough can be gained.
func (g *gpuFills) extend(of []int32, from int, room int32, gain, least float64, gpus int32) bool {
	for i := from; i < len(g.gpu); i++ {
		w := g.milli[i] / g.unit
		if g.milli[i] == 1000 || w > room || of[i] >= g.most[i] || gain+g.gain[i]+g.room[room-w] < least {
			continue
		}
		of[i]++
		if gain+g.gain[i] >= least {
			if len(g.list) >= maxFills {
				return false
			}
			f := fill{of: append([]int32(nil), of...), pick: g.sum(of)}
			f.pick.most = gpus
			for p, n := range of {
				if n > 0 {
					f.pick.most = min(f.pick.most, g.most[p]/n)
				}
			}
			g.list = append(g.list, f)
		}
		if !g.extend(of, i, room-w, gain+g.gain[i], least, gpus) {
			return false
		}
		of[i]--
	}
	return true
}

// held counts the pods of the fills that are chosen up to a pick; false if there are more of a shape than there may be.
func (k *pricer) held(last int) bool {
	g := k.fills
	g.count = grow(g.count, len(g.gpu))
	for i := 0; i <= last && i < len(k.picks); i++ {
		if k.now[i] == 0 || k.picks[i].shape >= 0 {
			continue
		}
		for p, n := range g.list[-1-k.picks[i].shape].of {
			if g.count[p] += n * k.now[i]; g.count[p] > g.most[p] {
				return false
			}
		}
	}
	return true
}

// unfold is the pods of what is chosen.
func (k *pricer) unfold(out []item) []item {
	g := k.fills
	for p, n := range g.count {
		if n > 0 {
			out = append(out, item{g.gpu[p].shape, n})
		}
	}
	for i, c := range k.now {
		if c > 0 && k.picks[i].shape >= 0 {
			out = append(out, item{k.picks[i].shape, c})
		}
	}
	sort.Slice(out, func(a, b int) bool { return out[a].shape < out[b].shape })
	return out
}
