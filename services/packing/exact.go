package packing

import (
	"encoding/binary"
	"math"
	"sort"

	"plimsoll.dev/services/fleet"
)

// Sizes up to which a packing is finished by trying everything that the proof leaves open.
const (
	exactPods   = 40
	exactSteps  = 100_000 // shapes looked at in machines and rests
	quickPods   = 12
	quickSteps  = 5_000
	exactShapes = 24
)

// exact looks for a better packing of few pods by branch and bound: a machine with some pod that is left, then the rest. What the rest costs at
// least is bounded by the proof's values. If the search ends within its nodes, no packing of all pods is cheaper than the best.
type exact struct {
	s     *solver
	steps int
	left  []int64
	stock []int64
	lost  int64
	cost  fleet.Money
	bins  []bin
	best  []bin
	short int64
	least fleet.Money
	found bool
	whole bool // everything that the bounds leave open was looked at
	seen  map[string]reached
	slots slots
}

// reached is with how many pods left out and at what cost a rest was met before.
type reached struct {
	lost int64
	cost fleet.Money
}

// branch is a machine that can come next.
type branch struct {
	bin
	worth fleet.Money // price less what the proof says its pods are worth
}

// finish tries everything where that is little, and remembers whether the best packing is the cheapest there is.
func (s *solver) finish() {
	pods := int64(0)
	for i := range s.p.shapes {
		pods += s.p.shapes[i].count
	}
	most, steps := int64(exactPods), exactSteps
	if s.p.opts.quick {
		most, steps = quickPods, quickSteps
	}
	if pods > most || len(s.p.shapes) > exactShapes || len(s.p.heads) > 0 || s.short == math.MaxInt64 || s.stop() {
		return
	}
	e := &exact{s: s, steps: steps, whole: true, seen: map[string]reached{}, short: s.short, stock: s.stocks(nil)}
	for i := range s.best {
		e.least = e.least.Add(s.p.offs[s.best[i].off].price)
	}
	for _, n := range s.demand() {
		e.left = append(e.left, int64(n))
	}
	e.next()
	if e.found {
		s.best, s.short, s.cost = e.best, e.short, s.costOf(e.best)
	}
	if e.whole && s.short == 0 {
		s.proven = e.least
	}
}

// next looks at one rest.
func (e *exact) next() {
	p := e.s.p
	first := -1
	for i, n := range e.left {
		if n > 0 && (first < 0 || e.s.proof.value[i] > e.s.proof.value[first]) {
			first = i
		}
	}
	if first < 0 {
		if e.lost < e.short || e.cost < e.least {
			e.found, e.short, e.least = true, e.lost, e.cost
			e.best = append([]bin(nil), e.bins...)
		}
		return
	}
	if e.lost == e.short && e.cost.Add(e.s.proof.bound(e.left)) >= e.least {
		return
	}
	if e.steps--; e.steps < 0 || e.s.stop() {
		e.whole = false
		return
	}
	if e.metBefore() {
		return
	}
	for _, b := range e.branches(first) {
		price := p.offs[b.off].price
		if e.lost == e.short && e.cost.Add(price) >= e.least {
			continue
		}
		e.step(&b.bin, -1)
		e.next()
		e.step(&b.bin, 1)
	}
	if e.lost < e.short { // or a pod of the shape is left out
		e.left[first]--
		e.lost++
		e.next()
		e.lost--
		e.left[first]++
	}
}

// step puts a machine down (-1) or takes it up again (1).
func (e *exact) step(b *bin, sign int64) {
	p := e.s.p
	for _, it := range b.items {
		e.left[it.shape] += sign * int64(it.n)
	}
	p.spend(e.stock, b.off, -sign)
	if sign < 0 {
		e.cost, e.bins = e.cost.Add(p.offs[b.off].price), append(e.bins, *b)
		return
	}
	e.cost, e.bins = e.cost-p.offs[b.off].price, e.bins[:len(e.bins)-1]
}

// metBefore tells whether the same rest was reached with no more lost and at no higher cost.
func (e *exact) metBefore() bool {
	var key []byte
	for _, n := range e.left {
		key = binary.AppendUvarint(key, uint64(n)) //nolint:gosec // counts
	}
	for _, n := range e.stock {
		key = binary.AppendVarint(key, n)
	}
	r, ok := e.seen[string(key)]
	if ok && r.lost <= e.lost && r.cost <= e.cost {
		return true
	}
	if !ok || (e.lost <= r.lost && e.cost <= r.cost) {
		e.seen[string(key)] = reached{e.lost, e.cost}
	}
	return false
}

// branches are the machines that can hold a pod of a shape, with all sets of what is left that fit beside it and cannot be added to; those that
// cost least beyond the worth of their pods come first.
func (e *exact) branches(first int) []branch {
	p := e.s.p
	var out []branch
	dearer := map[string]bool{} // sets that an unlimited offering holds for no more
	for j := range p.offs {
		if p.avail(e.stock, j) <= 0 || !p.fitsAlone(&p.shapes[first], j) {
			continue
		}
		g := &gather{e: e, j: j, first: first}
		g.add(first, p.offs[j].cap)
		for _, items := range g.sets {
			key := keyOf(items)
			if dearer[key] {
				continue
			}
			if len(p.offs[j].uses) == 0 {
				dearer[key] = true
			}
			b := branch{bin: bin{j, items}, worth: p.offs[j].price}
			for _, it := range items {
				b.worth -= fleet.Money(e.s.proof.value[it.shape] * int64(it.n))
			}
			out = append(out, b)
		}
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].worth < out[b].worth })
	return out
}

func keyOf(items []item) string {
	var key []byte
	for _, it := range items {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(it.shape)), uint64(it.n)) //nolint:gosec // counts
	}
	return string(key)
}

// gather lists the sets of pods that a machine can hold.
type gather struct {
	e     *exact
	j     int
	first int // a shape that all of them have
	items []item
	sets  [][]item
}

// add goes through the shapes, the first one before all others, and how many of each.
func (g *gather) add(i int, room vec) {
	e, p := g.e, g.e.s.p
	if e.steps--; e.steps < 0 {
		e.whole = false
		return
	}
	if i == len(p.shapes) {
		g.keep(&room)
		return
	}
	following := i + 1
	if i == g.first {
		following = 0
	}
	if following == g.first {
		following++
	}
	sh := &p.shapes[i]
	most := int32(0)
	if e.left[i] > 0 && p.fitsAlone(sh, g.j) {
		most = sh.need[p.offs[g.j].share].copies(&room, int32(e.left[i])) //nolint:gosec // few pods
		if sh.bond != nil {
			most = min(most, sh.bond.most)
		}
	}
	least := int32(0)
	if i == g.first {
		least = 1
	}
	for n := most; n >= least; n-- {
		rest := room
		if n > 0 {
			rest.add(&sh.need[p.offs[g.j].share], -n)
			g.items = append(g.items, item{i, n})
			if !g.holds(false) {
				g.items = g.items[:len(g.items)-1]
				continue
			}
		}
		g.add(following, rest)
		if n > 0 {
			g.items = g.items[:len(g.items)-1]
		}
	}
}

// holds tells whether the GPUs and the rules by node allow what is chosen.
func (g *gather) holds(whole bool) bool {
	e, p := g.e, g.e.s.p
	o := &p.offs[g.j]
	cut := false
	for _, it := range g.items {
		cut = cut || p.shapes[it.shape].cut(o.share)
	}
	if cut {
		switch p.gpusHold(&e.slots, g.items, o) {
		case gpusFit:
		case gpusUnknown:
			e.whole = false
			return false
		default:
			return false
		}
	}
	return p.bonds == nil || p.bonds.allow(p, g.items, whole)
}

// keep takes a set unless one more pod would fit, which is then in another set at the same price. Rules by node may want pods left off.
func (g *gather) keep(room *vec) {
	e, p := g.e, g.e.s.p
	if p.bonds != nil {
		if !g.holds(true) {
			return
		}
	} else {
		share := p.offs[g.j].share
		had := len(g.items)
		for i := range p.shapes {
			sh := &p.shapes[i]
			if !sh.need[share].fits(room) || !p.fitsAlone(sh, g.j) {
				continue
			}
			now := int64(0)
			for _, it := range g.items {
				if it.shape == i {
					now = int64(it.n)
				}
			}
			if now >= e.left[i] {
				continue
			}
			if !sh.cut(share) {
				return
			}
			g.items = append(g.items, item{i, 1})
			more := g.holds(false)
			g.items = g.items[:had]
			if more {
				return
			}
		}
	}
	set := append([]item(nil), g.items...)
	sort.Slice(set, func(a, b int) bool { return set[a].shape < set[b].shape })
	g.sets = append(g.sets, set)
}
