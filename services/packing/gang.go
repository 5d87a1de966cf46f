package packing

import (
	"sort"

	"plimsoll.dev/services/fleet"
)

// findGangs lists the gangs and packs each by itself on the offerings that could be cheapest for it.
func (x *across) findGangs() {
	byName := map[string]*gangChoice{}
	broken := map[string]bool{}
	for i := range x.p.every {
		s := &x.p.every[i]
		if s.rules == nil || s.rules.Gang == "" {
			continue
		}
		g := byName[s.rules.Gang]
		if g == nil {
			g = &gangChoice{name: s.rules.Gang, now: -1}
			byName[g.name] = g
			x.gangs = append(x.gangs, g)
		}
		if k := x.p.kept[i]; k >= 0 {
			g.shapes = append(g.shapes, k)
		} else {
			broken[g.name] = true // a pod that fits nothing keeps all from running
		}
		g.pods = append(g.pods, s.pods...)
	}
	for i := range x.pods { // a gang with a pod left out does not run
		if r := x.pods[i].Rules; r != nil && r.Gang != "" && x.out != nil && x.out[i] && x.base == nil {
			broken[r.Gang] = true
		}
	}
	kept := x.gangs[:0]
	for _, g := range x.gangs {
		sort.Ints(g.pods)
		if !broken[g.name] {
			x.optionsOf(g)
		}
		kept = append(kept, g)
	}
	x.gangs = kept
	sort.SliceStable(x.gangs, func(a, b int) bool { return len(x.gangs[a].pods) > len(x.gangs[b].pods) })
}

// optionsOf packs a gang alone on offerings, in the order of the least it could cost there.
func (x *across) optionsOf(g *gangChoice) {
	type guess struct {
		off  int
		cost fleet.Money
	}
	var guesses []guess
	stands := x.stands(g.name)
	for j := range x.given {
		if stands >= 0 && j != stands {
			continue
		}
		if n := x.leastMachines(g, j); n > 0 {
			guesses = append(guesses, guess{j, x.given[j].weighed().MulDiv(n, 1)})
		}
	}
	sort.SliceStable(guesses, func(a, b int) bool { return guesses[a].cost < guesses[b].cost })
	pin := make([]int32, len(x.pods))
	for i := range pin {
		pin[i] = -1
	}
	for _, i := range g.pods {
		pin[i] = 1
	}
	opts := x.opts
	opts.quick = true
	for at, q := range guesses {
		if len(g.options) >= gangOptions || (at >= 4*gangOptions && len(g.options) > 0) || (x.stop() && len(g.options) > 0) {
			break
		}
		only := make([]bool, len(x.given))
		only[q.off] = true
		a := x.run(pin, [][]bool{nil, only}, opts).answer()
		o := &x.given[q.off]
		if len(a.Unplaced) > 0 || len(a.Nodes) == 0 || (o.DomainNodes > 0 && int64(len(a.Nodes)) > o.DomainNodes) {
			continue
		}
		g.options = append(g.options, gangOption{q.off, x.z.zoneAt[zoneOf(o)], a.Nodes, a.Weighed})
	}
	sort.SliceStable(g.options, func(a, b int) bool { return g.options[a].weight < g.options[b].weight })
}

// stands is the offering on which pods of a gang run already; -1: none runs.
func (x *across) stands(name string) int {
	for n := range x.base {
		for _, i := range x.base[n].Pods {
			if r := x.pods[i].Rules; r != nil && r.Gang == name {
				return x.base[n].Offering
			}
		}
	}
	return -1
}

// leastMachines is how many machines of an offering a gang needs at least; zero if it cannot run there.
func (x *across) leastMachines(g *gangChoice, j int) int64 {
	o := &x.given[j]
	var sum [dims]int64
	share := shareOf(o, &x.opts)
	for _, i := range g.shapes {
		s := &x.p.shapes[i]
		for _, f := range x.p.fails(&x.pods[s.pods[0]], j) {
			if f {
				return 0
			}
		}
		for d, v := range s.need[share] {
			sum[d] += int64(v) * s.count
		}
	}
	n := int64(1)
	for d, c := range [dims]int64{o.CPUMilli, o.MemMiB, o.GPUCount * 1000, o.MaxPods, o.GPUCount * 1000} {
		if sum[d] > 0 {
			n = max(n, (sum[d]+max(1, c)-1)/max(1, c))
		}
	}
	if (o.Stock != nil && n > *o.Stock) || (o.DomainNodes > 0 && n > o.DomainNodes) {
		return 0
	}
	return n
}

// chooseGangs gives every gang its cheapest offering of which there is enough left, large gangs first.
func (x *across) chooseGangs() {
	left := x.whole()
	for _, g := range x.gangs {
		g.now = -1
		for g.now = range g.options {
			if x.take(left, g) {
				break
			}
			g.now = -1
		}
	}
}

// whole is all that the limits allow.
func (x *across) whole() []int64 {
	left := make([]int64, len(x.p.limits))
	for q := range left {
		left[q] = x.p.limits[q].max
	}
	return left
}

// take takes a gang's machines off what is left, if there are enough.
func (x *across) take(left []int64, g *gangChoice) bool {
	uses, n := x.p.takes[g.options[g.now].off], int64(len(g.options[g.now].nodes))
	for _, u := range uses {
		if left[u.limit] < u.n*n {
			return false
		}
	}
	for _, u := range uses {
		left[u.limit] -= u.n * n
	}
	return true
}

func (x *across) gangZones() map[string]int {
	out := map[string]int{}
	for _, g := range x.gangs {
		if out[g.name] = -1; g.now >= 0 {
			out[g.name] = g.options[g.now].zone
		}
	}
	return out
}
