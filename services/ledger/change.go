package ledger

import (
	"cmp"
	"math"
	"slices"

	"plimsoll.dev/services/fleet"
)

// Cell is what a group paid for one thing in one span: one resource, bought in one way, by one payer.
type Cell struct {
	Group    string
	Resource Resource
	Variant  string // what it is made of: the purchase and, where told apart, the workload
	Amount   fleet.Money
	Quantity float64 // resource-hours with a price
}

// Change is why a group's cost differs between two spans. Quantity + Mix + Price = After - Before, exactly.
type Change struct {
	Group         string
	Before, After fleet.Money
	// Quantity is what the change of the resource-hours held makes, at the mean price of before.
	Quantity fleet.Money
	// Mix is what holding other variants makes (more Spot, another workload's dearer machines), each at its price of before.
	Mix fleet.Money
	// Price is what a different price of the same variant makes, at the hours of now.
	Price fleet.Money
}

// Compare says per group why its cost changed. The order of the effects is fixed: hours first, at the mean price of before; then what the
// hours are made of, each variant at its price of before; then prices, which is the rest. A variant that was not there before has no price of
// before: it is held at the mean of its resource in the group, so that what it costs beyond that counts as mix. A resource that the group
// did not have before, or has no more, is a change of quantity, and so is one whose price of before explains nothing (see maxHeld). Amounts
// without hours (a residual, a commitment) count as quantity too.
// Largest change first.
func Compare(before, after []Cell) []Change {
	groups := map[string]*resourceSpans{}
	var order []string
	gather := func(cells []Cell, side int) {
		for _, c := range cells {
			g := groups[c.Group]
			if g == nil {
				g = &resourceSpans{at: map[Resource]*resourceSpan{}}
				groups[c.Group] = g
				order = append(order, c.Group)
			}
			g.add(c, side)
		}
	}
	gather(before, 0)
	gather(after, 1)
	changes := make([]Change, 0, len(order))
	for _, name := range order {
		changes = append(changes, groups[name].change(name))
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(magnitude(b.After-b.Before), magnitude(a.After-a.Before)), cmp.Compare(a.Group, b.Group))
	})
	return changes
}

func magnitude(m fleet.Money) fleet.Money { return max(m, -m) }

// resourceSpans is a group's cells by resource.
type resourceSpans struct {
	at    map[Resource]*resourceSpan
	order []Resource
}

type resourceSpan struct {
	sum      [2]measure // before, after
	variants map[string]*[2]measure
	order    []string
}

// measure is an amount with its quantity in millionths of a resource-hour: prices are quotients of whole numbers here.
type measure struct {
	amount fleet.Money
	micro  int64
}

func (g *resourceSpans) add(c Cell, side int) {
	r := g.at[c.Resource]
	if r == nil {
		r = &resourceSpan{variants: map[string]*[2]measure{}}
		g.at[c.Resource] = r
		g.order = append(g.order, c.Resource)
	}
	v := r.variants[c.Variant]
	if v == nil {
		v = &[2]measure{}
		r.variants[c.Variant] = v
		r.order = append(r.order, c.Variant)
	}
	q := micro(c.Quantity)
	for _, m := range []*measure{&r.sum[side], &v[side]} {
		m.amount = m.amount.Add(c.Amount)
		m.micro += q
	}
}

// micro is a quantity in millionths; what no fleet can hold (2^62 of them) and what is not a number count as none.
func micro(q float64) int64 {
	v := math.Round(q * 1e6)
	if math.IsNaN(v) || v < 0 || v > 1<<56 {
		return 0
	}
	return int64(v)
}

func (g *resourceSpans) change(name string) Change {
	out := Change{Group: name}
	for _, r := range g.order {
		s := g.at[r]
		was, is := s.sum[0], s.sum[1]
		out.Before, out.After = out.Before.Add(was.amount), out.After.Add(is.amount)
		delta := is.amount - was.amount
		if was.micro <= 0 || is.micro <= 0 {
			out.Quantity = out.Quantity.Add(delta)
			continue
		}
		quantity, price, ok := s.effects()
		if !ok {
			out.Quantity = out.Quantity.Add(delta)
			continue
		}
		out.Quantity, out.Price = out.Quantity.Add(quantity), out.Price.Add(price)
		out.Mix = out.Mix.Add(delta - quantity - price)
	}
	return out
}

// effects are what other hours and what other prices make of a resource; not ok where a price of before, held for the hours of now, makes an
// amount that no bill has: a minute's residual says nothing about a month.
func (s *resourceSpan) effects() (quantity, price fleet.Money, ok bool) {
	was, is := s.sum[0], s.sum[1]
	at, ok := was.heldFor(is.micro)
	if !ok {
		return 0, 0, false
	}
	for _, v := range s.order {
		old, now := s.variants[v][0], s.variants[v][1]
		if old.micro <= 0 || now.micro <= 0 {
			continue
		}
		held, ok := old.heldFor(now.micro)
		if !ok {
			return 0, 0, false
		}
		price = price.Add(now.amount - held)
	}
	return at - was.amount, price, true
}

// maxHeld bounds an amount that is only thought of, in nano-units (144 million): 30 of them still add up.
const maxHeld = 1 << 57

// heldFor is what the measure's price makes of other hours.
func (m measure) heldFor(hours int64) (fleet.Money, bool) {
	if math.Abs(float64(m.amount)*float64(hours)/float64(m.micro)) > maxHeld {
		return 0, false
	}
	return m.amount.MulDiv(hours, m.micro), true
}
