package optimizer

import (
	"math"
	"math/bits"
	"sort"

	"plimsoll.dev/services/fleet"
)

// alternatives lists the counts beside the target: one less, one more, what the signals ask for, and what is there. Those
// that would be late come last; among equals the cheaper first.
func (g *deciding) alternatives() {
	d := &g.d
	out := make([]Alternative, 0, 4)
	for _, n := range [4]int{d.Target - 1, d.Target + 1, d.Needed, d.From} {
		if n < 0 || n == d.Target || listed(out, n) {
			continue
		}
		a := Alternative{Replicas: n, CostHour: times(g.state.ReplicaHour, n), Load: g.loadAt(n)}
		late := g.late(n)
		switch {
		case n > g.policy.Max:
			a.Rejected = ReasonMax
		case n < g.policy.Min:
			a.Rejected = ReasonMin
		case n < d.Target && late:
			a.Rejected = ReasonCheaper
		case n > d.Target && n > d.Needed:
			a.Rejected = ReasonDearer
		default:
			a.Rejected = d.Binding
		}
		out = append(out, a)
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		if la, lb := g.late(a.Replicas), g.late(b.Replicas); la != lb {
			return lb
		}
		return a.Replicas < b.Replicas
	})
	d.Alternatives = out
}

// loadAt is the expected use of n replicas by the rule with the largest need; nil when it cannot be told.
func (g *deciding) loadAt(n int) *float64 {
	v := g.load / float64(n)
	if g.load <= 0 || n <= 0 || !finite(v) {
		return nil
	}
	v = math.Round(v*1e4) / 1e4
	return &v
}

// late says that n replicas are fewer than the load fills.
func (g *deciding) late(n int) bool { return g.load > float64(n) }

func listed(list []Alternative, n int) bool {
	for i := range list {
		if list[i].Replicas == n {
			return true
		}
	}
	return false
}

// times multiplies a price by a count; nil when the price is unknown or the product is no money.
func times(price *fleet.Money, n int) *fleet.Money {
	if price == nil {
		return nil
	}
	abs := func(v int64) uint64 {
		if v < 0 {
			return -uint64(v) //nolint:gosec // right for the smallest number too, which wraps around
		}
		return uint64(v)
	}
	hi, lo := bits.Mul64(abs(int64(*price)), abs(int64(n)))
	if hi != 0 || lo > math.MaxInt64 {
		return nil
	}
	m := *price * fleet.Money(n)
	return &m
}
