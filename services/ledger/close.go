package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

const hourMillis = int64(time.Hour / time.Millisecond)

// maxMilli bounds any capacity, request or use, in thousandths (or MiB): 100,000 cores, 95 TiB. A use beyond it is taken as not
// known. It keeps every product and sum here inside an int64.
const maxMilli = 100_000_000

// Close costs an hour.
func Close(h Hour) Statement {
	span := fleet.Interval{From: h.From, To: h.To}
	byName := map[string][]*holding{}
	holdings := make([]*holding, 0, len(h.Nodes))
	for _, n := range h.Nodes {
		life := overlap(n.Life, span)
		if millis(life) == 0 {
			continue
		}
		held := &holding{node: n, life: life, owners: map[Owner]*[3]units{}}
		holdings = append(holdings, held)
		byName[n.Name] = append(byName[n.Name], held)
	}
	slices.SortFunc(holdings, func(a, b *holding) int { return cmp.Compare(a.node.UID, b.node.UID) })

	var s Statement
	placements, conflicts := place(h, span, byName)
	s.Conflicts = conflicts
	hold(placements, h.Usage, millis(span))
	for _, held := range holdings {
		s.add(held)
	}
	return s
}

// units of one resource in thousandths (MiB for memory) times milliseconds.
type units struct{ held, used, measured int64 }

// holding is a node with what every owner held of it.
type holding struct {
	node   Node
	life   fleet.Interval
	owners map[Owner]*[3]units
}

// placement is a pod's time on one node.
type placement struct {
	pod *Pod
	on  *holding
	ms  int64
}

// place finds the node of every pod by name and time; time outside any node's life is a conflict.
func place(h Hour, span fleet.Interval, byName map[string][]*holding) (all []placement, conflicts []Conflict) {
	for i := range h.Pods {
		p := &h.Pods[i]
		held := overlap(p.Held, span)
		missing := millis(held)
		for _, on := range byName[p.Node] {
			if ms := millis(overlap(held, on.life)); ms > 0 {
				all = append(all, placement{p, on, ms})
				missing -= ms
			}
		}
		// Clocks of the two objects differ by seconds: less than a minute is no contradiction.
		if missing > time.Minute.Milliseconds() && p.Node != "" {
			conflicts = append(conflicts, Conflict{Code: "no_such_node", Object: p.UID, Quantity: float64(missing) / float64(hourMillis)})
		}
	}
	slices.SortFunc(conflicts, func(a, b Conflict) int { return cmp.Compare(a.Object, b.Object) })
	return all, conflicts
}

// hold charges every placement max(request, usage) of each resource. A workload's usage is spread over its pods by time.
func hold(all []placement, usage map[fleet.WorkloadID]Usage, spanMillis int64) {
	podMillis := map[fleet.WorkloadID]int64{}
	for _, p := range all {
		podMillis[p.pod.Owner.Workload] += p.ms
	}
	for _, p := range all {
		var u Usage
		if id := p.pod.Owner.Workload; id != "" {
			u = usage[id]
		}
		spread := float64(spanMillis) / float64(podMillis[p.pod.Owner.Workload])
		rates := [3]struct {
			request int64
			use     float64
			known   bool
		}{
			rate(p.pod.CPUMilli, u.CPUCores, 1000*spread),
			rate(p.pod.MemMiB, u.MemMiB, spread),
			rate(p.pod.GPUMilli, u.GPUSM, float64(p.pod.GPUMilli)),
		}
		owner := p.on.owners[p.pod.Owner]
		if owner == nil {
			owner = &[3]units{}
			p.on.owners[p.pod.Owner] = owner
		}
		for r, v := range rates {
			held := v.request * p.ms
			if v.known {
				used := int64(math.Round(v.use * float64(p.ms)))
				held = max(held, used)
				owner[r].used += used
				owner[r].measured += held
			}
			owner[r].held += held
		}
	}
}

func rate(request int64, use *float64, scale float64) (r struct {
	request int64
	use     float64
	known   bool
}) {
	r.request = bounded(request)
	if use != nil {
		v := *use * scale
		r.use, r.known = v, v >= 0 && v <= maxMilli // false for NaN
	}
	return r
}

func bounded(n int64) int64 { return min(max(n, 0), maxMilli) }

// add writes the lines of one node.
func (s *Statement) add(h *holding) {
	n, ms := h.node, millis(h.life)
	s.NodeSeconds += ms / 1000
	if n.Price == nil {
		s.UnpricedNodeSeconds += ms / 1000
	}
	var parts [3]fleet.Money
	if n.Price != nil {
		cost := n.Price.MulDiv(ms, hourMillis)
		s.NodeCost = s.NodeCost.Add(cost)
		parts[0], parts[1], parts[2] = n.Weights.Split(cost, bounded(n.CPUMilli), bounded(n.MemMiB), n.GPUModel, int(bounded(int64(n.GPUCount)*1000)/1000))
	}
	boot := ms
	if !n.ReadyAt.IsZero() {
		boot = millis(overlap(h.life, fleet.Interval{From: h.life.From, To: maxTime(n.ReadyAt, h.life.From)}))
	}
	owners := make([]Owner, 0, len(h.owners))
	for o := range h.owners {
		owners = append(owners, o)
	}
	slices.SortFunc(owners, compareOwner)
	capacity := [3]int64{bounded(n.CPUMilli), bounded(n.MemMiB), bounded(int64(n.GPUCount) * 1000)}
	var lines []CostLine
	for r, resource := range [3]Resource{ResourceCPU, ResourceMemory, ResourceGPU} {
		held := make([]units, len(owners))
		for i, o := range owners {
			held[i] = h.owners[o][r]
		}
		split := splitResource(parts[r], capacity[r], ms, boot, held)
		line := func(kind Kind, owner Owner, amount fleet.Money, u units) {
			if u.held == 0 && amount == 0 {
				return
			}
			l := CostLine{Node: n.UID, Row: Row{Kind: kind, Resource: resource, Purchase: n.Purchase, Owner: owner, Amount: amount,
				Quantity: quantity(resource, u.held), Measured: quantity(resource, u.measured), Used: quantity(resource, u.used)}}
			if n.Price == nil {
				l.Unpriced = l.Quantity
			}
			lines = append(lines, l)
		}
		for i, o := range owners {
			line(KindWorkload, o, split.owners[i], held[i])
		}
		line(KindIdle, Owner{}, split.idle, units{held: split.idleUnits})
		line(KindOverhead, Owner{}, split.overhead, units{held: split.overheadUnits})
		line(KindResidual, Owner{}, split.residual, units{held: split.residualUnits})
		if split.residualUnits < 0 {
			s.Conflicts = append(s.Conflicts, Conflict{Code: "over_allocated", Object: n.UID, Resource: resource, Quantity: -quantity(resource, split.residualUnits)})
		}
	}
	slices.SortFunc(lines, func(a, b CostLine) int { return compareRow(a.Row, b.Row) })
	s.Lines = append(s.Lines, lines...)
}

type resourceSplit struct {
	owners                                  []fleet.Money
	idle, overhead, residual                fleet.Money
	idleUnits, overheadUnits, residualUnits int64
}

// splitResource divides the price of one resource of a node. Within the supply the parts come from one largest-remainder split.
// When more was held than there is, everybody pays for what it held and the surplus stands as a negative residual.
func splitResource(price fleet.Money, capacity, ms, boot int64, held []units) resourceSplit {
	var s resourceSplit
	supply, sum := capacity*ms, int64(0)
	weights := make([]int64, len(held), len(held)+2)
	for i, u := range held {
		weights[i] = u.held
		sum += u.held
	}
	if free := supply - sum; free >= 0 {
		s.overheadUnits = min(free, capacity*boot)
		s.idleUnits = free - s.overheadUnits
		parts, rest := price.Split(append(weights, s.idleUnits, s.overheadUnits))
		s.owners, s.idle, s.overhead = parts[:len(held)], parts[len(held)], parts[len(held)+1]
		s.residual = rest // a resource with a price and no supply at all
		return s
	}
	s.owners = make([]fleet.Money, len(held))
	s.residual, s.residualUnits = price, supply-sum
	for i, u := range held {
		if supply > 0 {
			s.owners[i] = price.MulDiv(u.held, supply)
		}
		s.residual = s.residual.Add(-s.owners[i])
	}
	return s
}

func quantity(r Resource, u int64) float64 {
	if r == ResourceMemory {
		return float64(u) / 1024 / float64(hourMillis)
	}
	return float64(u) / 1000 / float64(hourMillis)
}

// overlap cuts i to j; a zero To of i means that it has not ended.
func overlap(i, j fleet.Interval) fleet.Interval {
	if i.To.IsZero() || i.To.After(j.To) {
		i.To = j.To
	}
	i.From = maxTime(i.From, j.From)
	if i.To.Before(i.From) {
		i.To = i.From
	}
	return i
}

func millis(i fleet.Interval) int64 { return i.To.Sub(i.From).Milliseconds() }

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
