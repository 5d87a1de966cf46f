package ledger

import (
	"cmp"
	"slices"

	"plimsoll.dev/services/fleet"
)

// add writes the lines of one node.
func (c *closing) add(s *Statement, h *holding) {
	n, ms := h.node, millis(h.life)
	seconds := max(ms/1000, 1) // an hour with a machine that has no price is never one without
	s.NodeSeconds += seconds
	if n.Price == nil {
		s.UnpricedNodeSeconds += seconds
	}
	prices := c.prices(s, h, ms)
	boot := ms
	if !n.ReadyAt.IsZero() {
		boot = millis(overlap(h.life, fleet.Interval{From: h.life.From, To: maxTime(n.ReadyAt, h.life.From)}))
	}
	slices.SortFunc(h.shares, func(a, b share) int { return compareOwner(a.owner, b.owner) })
	out := nodeLines{node: n}
	for i := range h.pools {
		c.divide(&out, h, i, prices[i], ms, boot)
	}
	s.Causes = append(s.Causes, out.causes...)
	slices.SortFunc(out.over, func(a, b Conflict) int { return cmp.Compare(a.Resource, b.Resource) })
	s.Conflicts = append(s.Conflicts, out.over...)
	slices.SortFunc(out.lines, func(a, b CostLine) int { return compareRow(a.Row, b.Row) })
	c.view(h, out.lines, ms, boot)
	s.Lines = append(s.Lines, out.lines...)
}

// prices splits the node's price for its time over its pools: over the resources by their weights, over groups of GPUs by their number.
func (c *closing) prices(s *Statement, h *holding, ms int64) []fleet.Money {
	prices := make([]fleet.Money, len(h.pools))
	n := h.node
	if n.Price == nil {
		return prices
	}
	cost := n.Price.MulDiv(ms, hourMillis)
	s.NodeCost = s.NodeCost.Add(cost)
	var gpu fleet.Money
	gpus := int64(0)
	for _, g := range h.groups {
		gpus += g.gpus()
	}
	prices[poolCPU], prices[poolMemory], gpu = n.Weights.Split(cost, bounded(n.CPUMilli), bounded(n.MemMiB), n.GPUModel, int(gpus))
	weights := make([]int64, len(h.groups))
	for i, g := range h.groups {
		weights[i] = g.gpus()
	}
	parts, rest := c.split.split(gpu, weights)
	copy(prices[poolGPU:], parts)
	prices[poolGPU] = prices[poolGPU].Add(rest)
	return prices
}

// nodeLines gathers what is written of one node.
type nodeLines struct {
	node   *Node
	lines  []CostLine
	causes []Cause
	over   []Conflict
	gpu    int // where the lines of GPUs begin
	first  int // where the lines of the resource under way begin, that this pool may add to
}

// quantity turns units of a pool into hours of what was bought.
func (p pool) quantity(u int64) float64 {
	q := float64(u) / float64(p.perUnit) / float64(hourMillis)
	if p.supply != p.bought {
		q *= float64(p.bought) / float64(p.supply)
	}
	return q
}

func (o *nodeLines) row(p pool, kind Kind, owner Owner, amount fleet.Money, u units) Row {
	r := Row{Kind: kind, Resource: p.resource, Purchase: o.node.Purchase, Owner: owner, Amount: amount, Quantity: p.quantity(u.held), Measured: p.quantity(u.measured), Used: p.quantity(u.used)}
	if o.node.Price == nil {
		r.Unpriced = r.Quantity
	}
	return r
}

// line writes a line; a second pool of the same resource adds to what the first wrote.
func (o *nodeLines) line(r Row) {
	if r.Quantity == 0 && r.Amount == 0 {
		return
	}
	for i := o.first; i < len(o.lines); i++ {
		if l := &o.lines[i]; l.Kind == r.Kind && l.Owner == r.Owner && l.Resource == r.Resource {
			l.Row.add(r)
			return
		}
	}
	o.lines = append(o.lines, CostLine{Node: o.node.UID, Row: r})
}

func (o *nodeLines) cause(name CauseName, reason string, r Row) {
	if r.Quantity > 0 {
		r.Measured, r.Used = 0, 0
		o.causes = append(o.causes, Cause{Name: name, Reason: reason, Node: o.node.UID, Row: r})
	}
}

// divide splits the price of one pool over who held it, what was idle and what was overhead. Within the supply the parts come from one
// largest-remainder split. When more was held than there is, everybody pays for what it held and the surplus stands as a negative residual.
func (c *closing) divide(out *nodeLines, h *holding, at int, price fleet.Money, ms, boot int64) {
	p := h.pools[at]
	if at == poolGPU {
		out.gpu = len(out.lines)
	}
	if out.first = len(out.lines); at > poolGPU {
		out.first = out.gpu
	}
	supply, held := p.supply*ms, int64(0)
	weights := make([]int64, len(h.shares), len(h.shares)+2)
	for i := range h.shares {
		weights[i] = h.shares[i].pools[at].held
		held = sum(held, weights[i])
	}
	if free := supply - held; free >= 0 {
		overhead := min(free, p.supply*boot)
		idle := free - overhead
		parts, rest := c.split.split(price, append(weights, idle, overhead))
		for i := range h.shares {
			c.workload(out, h, at, i, parts[i])
		}
		idleRow := out.row(p, KindIdle, Owner{}, parts[len(weights)], units{held: idle})
		out.line(idleRow)
		out.line(out.row(p, KindOverhead, Owner{}, parts[len(weights)+1], units{held: overhead}))
		out.line(out.row(p, KindResidual, Owner{}, rest, units{})) // a resource with a price and no supply at all
		c.fragments(out, p, idleRow, idle, ms-boot)
		return
	}
	residual := price
	for i := range h.shares {
		var amount fleet.Money
		if supply > 0 {
			amount = price.MulDiv(min(h.shares[i].pools[at].held, supply*maxOver), supply)
		}
		residual = residual.Add(-amount)
		c.workload(out, h, at, i, amount)
	}
	r := out.row(p, KindResidual, Owner{}, residual, units{held: supply - held})
	out.line(r)
	out.over = append(out.over, Conflict{Code: "over_allocated", Object: h.node.UID, Resource: p.resource, Quantity: -r.Quantity})
}

// workload writes what one owner bears of a pool, and which parts of that it held in vain.
func (c *closing) workload(out *nodeLines, h *holding, at, i int, amount fleet.Money) {
	p, o := h.pools[at], &h.shares[i]
	u := o.pools[at]
	out.line(out.row(p, KindWorkload, o.owner, amount, u))
	if u.held <= 0 {
		return
	}
	part := func(n int64) Row {
		return out.row(p, KindWorkload, o.owner, amount.MulDiv(n, u.held), units{held: n})
	}
	left := u.held
	for _, b := range o.broken {
		n := min(b.pools[at], left)
		left -= n
		out.cause(CauseBroken, b.reason, part(n))
	}
	if c.ready[o.owner.Workload] {
		out.cause(CauseWarmPool, "", part(left))
		return
	}
	if p.resource == ResourceGPU && c.warm[o.owner.Workload] {
		out.cause(CauseWarmIdle, "", part(min(max(u.measured-u.used, 0), left)))
	}
}

// fragments names the idle that a layout of MIG instances makes.
func (c *closing) fragments(out *nodeLines, p pool, idle Row, idleUnits, ms int64) {
	if p.fragment > 0 && idleUnits > 0 {
		n := min(p.fragment*ms, idleUnits)
		out.cause(CauseMIGFragment, "", out.row(p, KindIdle, Owner{}, idle.Amount.MulDiv(n, idleUnits), units{held: n}))
	}
	for resource, gpus := range map[Resource]float64{ResourceGPUCompute: p.computeIn, ResourceGPUMemory: p.memoryIn} {
		r := Row{Kind: KindIdle, Resource: resource, Purchase: out.node.Purchase, Quantity: gpus * float64(ms) / float64(hourMillis)}
		out.cause(CauseMIGUnusable, "", r)
	}
}
