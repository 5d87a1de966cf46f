package packing

import (
	"math"
	"sort"
)

// item is n pods of a shape on one machine.
type item struct {
	shape int
	n     int32
}

// pricer finds the most valuable pattern of an offering at given values per shape, and an upper bound on any pattern's value.
// A depth-first search over the shapes in order of worth per resource; the linear relaxation's duals (lambda) bound what the
// rest can bring. Cut at a number of steps it still returns a valid upper bound.
type pricer struct {
	p     *problem
	value []float64 // per shape
	limit []int32   // pods of each shape that are there
	class [][]int   // per class: shapes worth trying, see filter
	slots slots

	// the search in progress
	share    int
	at       *offer
	picks    []pick
	cut      float64 // patterns not worth more are of no interest
	steps    int
	top      float64 // upper bound on whatever was not looked at
	found    float64
	kept     []item // the best pattern
	now      []int32
	whole    []pick
	fixed    int // a shape that is on the machine beforehand, one pod of it; -1: none
	cutShort bool
	trail    [][]item // patterns worth more than the floor, met on the way
	total    int
	check    []item
	lam      [2][dims]float64
	cpuAt    int // picks from here on need no GPU
	frac     bool
	tolls    []float64 // of the heads
	room     []int64   // of the heads
	shared   gpuFills
	loose    []int     // offerings that the last proof found worth more than they cost
	fills    *gpuFills // picks stand for fills; nil: for shapes
}

type pick struct {
	shape int
	need  vec
	most  int32
	value float64
	loss  float64 // what taking one costs against the relaxation, not negative unless in its solution at the limit
	rest  float64 // the most that this and later picks can gain over the relaxation
	rank  float64
	bond  bool // rules by node
}

func newPricer(p *problem) *pricer {
	k := &pricer{p: p, tolls: make([]float64, len(p.heads)), room: make([]int64, len(p.heads)), value: make([]float64, len(p.shapes)), limit: make([]int32, len(p.shapes)), class: make([][]int, len(p.classes))}
	for h := range k.room {
		k.room[h] = p.heads[h].max
	}
	return k
}

// filter leaves out shapes that others can always replace: as valuable, not bigger, and plenty of them. Call it when value or limit changed.
func (k *pricer) filter() {
	for c, in := range k.p.classes {
		share := 0
		for j := range k.p.offs {
			if k.p.offs[j].class == c {
				share = k.p.offs[j].share
				break
			}
		}
		k.class[c] = k.filterClass(k.class[c][:0], in, share, k.largest(c))
	}
}

func (k *pricer) largest(c int) vec {
	var v vec
	for j := range k.p.offs {
		if k.p.offs[j].class == c {
			for d := range v {
				v[d] = max(v[d], k.p.offs[j].cap[d])
			}
		}
	}
	return v
}

func (k *pricer) filterClass(out, in []int, share int, largest vec) []int {
	for _, i := range in {
		if (k.value[i] > 0 || k.p.shapes[i].isWanted()) && k.limit[i] > 0 && k.p.shapes[i].need[share].fits(&largest) {
			out = append(out, i)
		}
	}
	sort.Slice(out, func(a, b int) bool {
		if k.value[out[a]] != k.value[out[b]] {
			return k.value[out[a]] > k.value[out[b]]
		}
		return out[a] < out[b]
	})
	all := append([]int(nil), out...)
	out = out[:0]
	for at, i := range all {
		need := &k.p.shapes[i].need[share]
		least, plenty, beaten := *need, int32(0), false
		for _, q := range all[:at] { // dearer or equal
			other := &k.p.shapes[q].need[share]
			if !other.fits(need) || (share > 0 && !sameOrSmallerGPU(&k.p.shapes[q], &k.p.shapes[i], share)) || !mayReplace(&k.p.shapes[q], &k.p.shapes[i]) {
				continue
			}
			for d := range least {
				least[d] = min(least[d], other[d])
			}
			if plenty += k.limit[q]; plenty >= least.copies(&largest, math.MaxInt32) {
				beaten = true
				break
			}
		}
		if !beaten {
			out = append(out, i)
		}
	}
	return out
}

// sameOrSmallerGPU: a fits on the GPUs that b had, pod by pod.
func sameOrSmallerGPU(a, b *shape, share int) bool {
	if share == 2 && a.gpus > 0 && a.profile() != b.profile() {
		return false
	}
	return a.gpus == 0 || (a.gpus <= b.gpus && a.milli <= b.milli)
}

// best searches an offering. It returns the pattern's value if one is worth more than floor (else 0), the pattern, and an upper
// bound on the value of every pattern. A search that runs long is begun again in parts: without big pods, then with each of them,
// since the relaxation likes nothing more than most of a big pod.
func (k *pricer) best(j int, floor float64, steps int) (float64, []item, float64) {
	o := &k.p.offs[j]
	k.share, k.at = o.share, o
	v, items, most, ok := k.byFills(j, floor, steps)
	if ok {
		return v, items, most
	}
	v, items, top := k.byPods(j, floor, steps)
	if most > 0 && top > max(v, most) {
		top = max(v, most)
	}
	return v, items, top
}

// byPods searches pod by pod.
func (k *pricer) byPods(j int, floor float64, steps int) (float64, []item, float64) {
	o := &k.p.offs[j]
	if k.p.bonds != nil {
		steps *= 4
	}
	k.fixed = -1
	k.list(o, j)
	k.cut, k.found, k.cutShort, k.trail = floor, 0, false, k.trail[:0]
	first := steps
	if steps > splitAfter {
		first = splitAfter
	}
	top := k.search(o.cap, 0, first)
	if !k.cutShort || first == steps {
		k.steps = steps
		if k.cutShort {
			k.steps = -1
		}
		return k.result(top)
	}
	k.cutShort = false
	k.list(o, j)
	k.whole = append(k.whole[:0], k.picks...)
	all := k.whole
	at := 0
	for i := range all {
		if 2*all[i].need[0] > o.cap[0] || 2*all[i].need[1] > o.cap[1] || (all[i].need[2] > 0 && 2*all[i].need[2] > o.cap[2]) {
			all[at], all[i] = all[i], all[at]
			at++
		}
	}
	big := all[:at]
	sort.Slice(big, func(a, b int) bool { return big[a].shape < big[b].shape })
	k.picks = append(k.picks[:0], all[at:]...)
	top = k.search(o.cap, 0, steps)
	for b := range big {
		room := o.cap
		room.add(&big[b].need, -1)
		k.picks = k.picks[:0]
		for _, q := range all[b+1:] {
			if q.most = q.need.copies(&room, q.most); q.most > 0 {
				k.picks = append(k.picks, q)
			}
		}
		k.fixed = big[b].shape
		top = max(top, k.search(room, big[b].value, steps))
	}
	k.steps = 0
	if k.cutShort {
		k.steps = -1
	}
	return k.result(top)
}

const splitAfter = 3000

func (k *pricer) result(top float64) (float64, []item, float64) {
	if k.found == 0 {
		return 0, nil, top
	}
	items := append([]item(nil), k.kept...)
	sort.Slice(items, func(a, b int) bool { return items[a].shape < items[b].shape })
	return k.found, items, max(k.found, top)
}

// search looks for the best of the picks in a room, on top of the value of what is there; it returns an upper bound.
func (k *pricer) search(room vec, base float64, steps int) float64 {
	k.prepare(&room)
	n := len(k.picks)
	k.steps, k.top = steps, 0
	k.now = grow(k.now, n)
	if n == 0 {
		k.keep(base)
		return base
	}
	pot := base + dot(&k.lam[0], &room)
	if pot+k.picks[0].rest <= k.cut {
		return pot + k.picks[0].rest
	}
	k.dive(0, room, base, pot)
	k.total += steps - k.steps
	if k.steps < 0 {
		k.cutShort = true
	}
	return k.top
}

// keep takes what is chosen now if it is worth more than all before.
func (k *pricer) keep(val float64) {
	if val <= k.cut {
		k.top = max(k.top, val)
		return
	}
	if k.p.bonds != nil && !k.p.bonds.allow(k.p, k.chosen(len(k.picks)-1), true) {
		return
	}
	if k.fills != nil && !k.held(len(k.picks)-1) {
		return
	}
	k.top = max(k.top, val)
	if k.found > 0 && len(k.trail) < 12 {
		k.trail = append(k.trail, append([]item(nil), k.kept...))
	}
	k.found = val
	k.cut = val * (1 + 1e-6)
	k.kept = k.kept[:0]
	if k.fixed >= 0 {
		k.kept = append(k.kept, item{k.fixed, 1})
	}
	if k.fills != nil {
		k.kept = k.unfold(k.kept)
		return
	}
	for i, c := range k.now {
		if c > 0 {
			k.kept = append(k.kept, item{k.picks[i].shape, c})
		}
	}
}

func grow(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	s = s[:n]
	clear(s)
	return s
}

func dot(l *[dims]float64, v *vec) float64 {
	return l[0]*float64(v[0]) + l[1]*float64(v[1]) + l[2]*float64(v[2]) + l[3]*float64(v[3]) + l[4]*float64(v[4])
}

// list collects what may go on an offering.
func (k *pricer) list(o *offer, j int) {
	k.picks = k.picks[:0]
	k.frac = false
	for _, i := range k.class[o.class] {
		s := &k.p.shapes[i]
		need := &s.need[o.share]
		most := need.copies(&o.cap, k.limit[i])
		if s.bond != nil {
			most = min(most, s.bond.most)
		}
		value := k.value[i]
		if len(s.heads) > 0 {
			if value, most = k.underHeads(s, j, value, most); value <= 0 && !s.isWanted() {
				continue
			}
		}
		if most > 0 {
			k.picks = append(k.picks, pick{shape: i, need: *need, most: most, value: value, bond: s.bond != nil})
			k.frac = k.frac || s.cut(o.share)
		}
	}
}

// prepare orders the picks, those with GPUs first, each part by worth per resource, and computes the bounds' multipliers.
func (k *pricer) prepare(room *vec) {
	if len(k.picks) == 0 {
		return
	}
	var bare []pick
	k.cpuAt = 0
	for i := range k.picks {
		if k.picks[i].need[dimGPU] > 0 {
			k.picks[k.cpuAt], k.picks[i] = k.picks[i], k.picks[k.cpuAt]
			k.cpuAt++
		}
	}
	bare = k.picks[k.cpuAt:]
	k.lam[0] = relax(k.picks, room)
	k.lam[1] = k.lam[0]
	if k.cpuAt > 0 && len(bare) > 0 {
		k.lam[1] = relax(bare, room)
	}
	order(k.picks[:k.cpuAt], &k.lam[0])
	order(bare, &k.lam[1])
	rest := 0.0
	for i := len(k.picks) - 1; i >= 0; i-- {
		q := &k.picks[i]
		if i < k.cpuAt {
			q.rest = 0
		}
		rest += max(0, -q.loss) * float64(q.most)
		q.rest = rest
		if i == k.cpuAt && i > 0 { // the GPU part bounds the bare part by its own multipliers
			rest = 0
			for b := range bare {
				rest += max(0, bare[b].value-dot(&k.lam[0], &bare[b].need)) * float64(bare[b].most)
			}
		}
	}
}

func order(picks []pick, lam *[dims]float64) {
	for i := range picks {
		q := &picks[i]
		w := dot(lam, &q.need)
		q.loss = w - q.value
		q.rank = q.value / max(w, 1e-300)
	}
	sort.Slice(picks, func(a, b int) bool {
		if picks[a].rank != picks[b].rank {
			return picks[a].rank > picks[b].rank
		}
		return picks[a].shape < picks[b].shape
	})
}

// dive tries the picks from i on in the room that is left; val is what is taken so far, pot the value bounded by the relaxation.
func (k *pricer) dive(i int, room vec, val, pot float64) {
	n := len(k.picks)
	for {
		if i == k.cpuAt && i > 0 && i < n {
			pot = val + dot(&k.lam[1], &room)
		}
		if i == n {
			k.keep(val)
			return
		}
		if b := pot + k.picks[i].rest; b <= k.cut {
			k.top = max(k.top, b)
			return
		}
		if k.picks[i].need.fits(&room) {
			break
		}
		i++
	}
	if k.steps--; k.steps < 0 {
		k.top = max(k.top, pot+k.picks[i].rest)
		return
	}
	q := &k.picks[i]
	c := q.need.copies(&room, q.most)
	frac := k.frac && q.need[dimGPU] > 0
	rest := 0.0
	if i+1 < n {
		rest = k.picks[i+1].rest
	}
	if i+1 == k.cpuAt { // crossing over: the bare part's rest by the first multipliers
		rest = q.rest - max(0, -q.loss)*float64(q.most)
	}
	left := room
	left.add(&q.need, -c)
	for ; c >= 0; c, left = c-1, plus(left, &q.need) {
		p := pot - float64(c)*q.loss
		if b := p + rest; b <= k.cut {
			k.top = max(k.top, b)
			if q.loss <= 0 {
				break
			}
			continue
		}
		k.now[i] = c
		if k.p.bonds != nil && c > 0 && q.bond && !k.p.bonds.allow(k.p, k.chosen(i), false) {
			continue
		}
		if k.fills != nil && c > 0 && q.shape < 0 && !k.held(i) {
			continue
		}
		if frac && c > 0 {
			if v := k.gpusFit(i); v != gpusFit {
				if v == gpusUnknown {
					k.top = max(k.top, p+rest)
				}
				continue
			}
		}
		k.dive(i+1, left, val+float64(c)*q.value, p)
	}
	k.now[i] = 0
}

func plus(a vec, b *vec) vec {
	a.add(b, 1)
	return a
}

// chosen is what is on the machine up to a pick.
func (k *pricer) chosen(last int) []item {
	k.check = k.check[:0]
	if k.fixed >= 0 {
		k.check = append(k.check, item{k.fixed, 1})
	}
	for i := 0; i <= last; i++ {
		if k.now[i] > 0 {
			k.check = append(k.check, item{k.picks[i].shape, k.now[i]})
		}
	}
	return k.check
}

func (k *pricer) gpusFit(last int) int {
	k.chosen(min(last, k.cpuAt-1))
	return k.p.gpusHold(&k.slots, k.check, k.at)
}
