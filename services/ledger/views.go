package ledger

import (
	"cmp"
	"slices"

	"plimsoll.dev/services/fleet"
)

// Views is what else a line can be said to cost. They never change who bears what: a statement's amounts are its Rows.
type Views struct {
	List       fleet.Money // at the list price on demand; where none is known, Contracted
	Contracted fleet.Money // at the tenant's own or the Spot price, before commitments; where it is not known, the amount
	// Carried is what a workload bears besides when the idle and overhead of each machine are shared over its workloads, per resource and in
	// proportion to what they pay there; negative for the idle that is shared. It adds up to nothing on every machine.
	Carried fleet.Money
}

func (v *Views) add(o Views) {
	v.List, v.Contracted, v.Carried = v.List.Add(o.List), v.Contracted.Add(o.Contracted), v.Carried.Add(o.Carried)
}

// ViewedRow is a Row with its views.
type ViewedRow struct {
	Row
	Views
}

// Viewed is Rows with the sums of their views.
func (s Statement) Viewed() []ViewedRow {
	type key struct {
		kind     Kind
		resource Resource
		purchase fleet.Purchase
		owner    Owner
	}
	at := map[key]int{}
	var rows []ViewedRow
	for i := range s.Lines {
		l := &s.Lines[i]
		k := key{l.Kind, l.Resource, l.Purchase, l.Owner}
		n, ok := at[k]
		if !ok {
			at[k] = len(rows)
			rows = append(rows, ViewedRow{l.Row, l.Views})
			continue
		}
		rows[n].Row.add(l.Row)
		rows[n].Views.add(l.Views)
	}
	slices.SortFunc(rows, func(a, b ViewedRow) int { return compareRow(a.Row, b.Row) })
	return rows
}

// view fills the views of a machine's lines, which are sorted.
func (c *closing) view(h *holding, lines []CostLine, ms, boot int64) {
	n := h.node
	contracted, list := cmp.Or(n.Contracted, n.Price), cmp.Or(n.List, n.Contracted, n.Price)
	c.viewAt(h, lines, contracted, ms, boot, func(v *Views) *fleet.Money { return &v.Contracted })
	if same(list, contracted) {
		for i := range lines {
			lines[i].List = lines[i].Contracted
		}
	} else {
		c.viewAt(h, lines, list, ms, boot, func(v *Views) *fleet.Money { return &v.List })
	}
	c.carry(lines)
}

func same(a, b *fleet.Money) bool { return a == b || a != nil && b != nil && *a == *b }

// viewAt splits another price of the machine as its own was split. What would stand in a line that there is not, such as of a resource
// without any supply, is added to the first: the sum is that of the price.
func (c *closing) viewAt(h *holding, lines []CostLine, price *fleet.Money, ms, boot int64, view func(*Views) *fleet.Money) {
	if price == nil || len(lines) == 0 {
		return
	}
	if same(price, h.node.Price) {
		for i := range lines {
			*view(&lines[i].Views) = lines[i].Amount
		}
		return
	}
	node, other := *h.node, *h
	node.Price, other.node = price, &node
	out := nodeLines{node: &node, lines: make([]CostLine, 0, len(lines)+1)}
	prices := c.prices(&Statement{}, &other, ms)
	for i := range other.pools {
		c.divide(&out, &other, i, prices[i], ms, boot)
	}
	slices.SortFunc(out.lines, func(a, b CostLine) int { return compareRow(a.Row, b.Row) })
	i := 0
	for _, l := range out.lines {
		for i < len(lines) && compareRow(lines[i].Row, l.Row) < 0 {
			i++
		}
		to := 0
		if i < len(lines) && compareRow(lines[i].Row, l.Row) == 0 {
			to = i
		}
		v := view(&lines[to].Views)
		*v = v.Add(l.Amount)
	}
}

// carry shares the idle and overhead of a machine over its workloads.
func (c *closing) carry(lines []CostLine) {
	weights := make([]int64, len(lines))
	for _, resource := range [...]Resource{ResourceCPU, ResourceMemory, ResourceGPU} {
		var free fleet.Money
		clear(weights)
		carriers := 0
		for i := range lines {
			switch l := &lines[i]; {
			case l.Resource != resource:
			case l.Kind == KindIdle || l.Kind == KindOverhead:
				free = free.Add(l.Amount)
			case l.Kind == KindWorkload && l.Amount > 0:
				weights[i] = int64(l.Amount)
				carriers++
			}
		}
		if free <= 0 || carriers == 0 {
			continue
		}
		parts, _ := c.split.split(free, weights)
		for i := range lines {
			switch l := &lines[i]; {
			case l.Resource != resource:
			case l.Kind == KindIdle || l.Kind == KindOverhead:
				l.Carried = -l.Amount
			default:
				l.Carried = parts[i]
			}
		}
	}
}
