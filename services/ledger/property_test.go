package ledger_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
)

// anyHour draws fleets with fractions of GPUs, churn, partial hours, unknown prices, contradictions and absurd sizes.
func anyHour() *rapid.Generator[ledger.Hour] {
	return rapid.Custom(func(t *rapid.T) ledger.Hour {
		h := ledger.Hour{From: hour, To: hour.Add(time.Duration(rapid.Int64Range(1, 3600_000).Draw(t, "span")) * time.Millisecond), Usage: map[fleet.WorkloadID]ledger.Usage{}}
		at := rapid.Custom(func(t *rapid.T) time.Time {
			return hour.Add(time.Duration(rapid.Int64Range(-3_600_000, 5_400_000).Draw(t, "at")) * time.Millisecond)
		})
		life := rapid.Custom(func(t *rapid.T) fleet.Interval {
			i := fleet.Interval{From: at.Draw(t, "from")}
			if rapid.Bool().Draw(t, "ended") {
				i.To = at.Draw(t, "to") // may lie before From
			}
			return i
		})
		for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
			n := ledger.Node{UID: fmt.Sprintf("n%d", i), Name: fmt.Sprintf("node-%d", i%4), Purchase: rapid.SampledFrom([]fleet.Purchase{fleet.PurchaseSpot, fleet.PurchaseOnDemand}).Draw(t, "purchase"),
				CPUMilli: rapid.Int64Range(0, 400_000).Draw(t, "cpu"), MemMiB: rapid.Int64Range(0, 4_000_000).Draw(t, "mem"),
				GPUModel: rapid.SampledFrom([]fleet.GPUModel{"", "H100", "NEW"}).Draw(t, "model"), GPUCount: rapid.IntRange(0, 16).Draw(t, "gpus"),
				Life: life.Draw(t, "life"), ReadyAt: at.Draw(t, "ready"), Weights: market.Catalogue().Weights(fleet.CloudAWS)}
			if rapid.IntRange(0, 4).Draw(t, "priced") > 0 {
				p := fleet.Money(rapid.Int64Range(1, 500*fleet.NanosPerUnit).Draw(t, "price"))
				n.Price = &p
			}
			if rapid.IntRange(0, 20).Draw(t, "absurd") == 0 {
				n.CPUMilli = rapid.Int64().Draw(t, "absurd cpu")
			}
			h.Nodes = append(h.Nodes, n)
		}
		for i := range rapid.IntRange(0, 25).Draw(t, "pods") {
			h.Pods = append(h.Pods, ledger.Pod{UID: fmt.Sprintf("p%d", i), Node: fmt.Sprintf("node-%d", rapid.IntRange(0, 4).Draw(t, "on")),
				Owner:    ledger.Owner{Workload: fleet.WorkloadID(rapid.SampledFrom([]string{"", "w1", "w2", "w3"}).Draw(t, "workload")), Namespace: "ns"},
				CPUMilli: rapid.Int64Range(0, 200_000).Draw(t, "cpu"), MemMiB: rapid.Int64Range(0, 1_000_000).Draw(t, "mem"), GPUMilli: rapid.Int64Range(0, 4000).Draw(t, "gpu"), Held: life.Draw(t, "held")})
		}
		for _, w := range []fleet.WorkloadID{"w1", "w2"} {
			use := rapid.SampledFrom([]float64{0, 0.3, 1, 7.25, 64, 1e5, 1e30, -1, math.NaN(), math.Inf(1)})
			cpu, mem, sm := use.Draw(t, "cpu use"), use.Draw(t, "mem use"), use.Draw(t, "sm use")
			h.Usage[w] = ledger.Usage{CPUCores: &cpu, MemMiB: &mem, GPUSM: &sm}
		}
		return h
	})
}

// Nothing is lost and nothing is made: per node the lines add up to its price for the time it lived, to the nano-unit.
func TestCostIsConserved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := anyHour().Draw(t, "hour")
		s := ledger.Close(h)
		perNode := map[string]fleet.Money{}
		for _, l := range s.Lines {
			perNode[l.Node] = perNode[l.Node].Add(l.Amount)
			if l.Amount < 0 && l.Kind != ledger.KindResidual {
				t.Fatalf("%s of %s is negative: %s", l.Kind, l.Node, l.Amount)
			}
			if math.IsNaN(l.Quantity+l.Used+l.Measured+l.Unpriced) || math.IsInf(l.Quantity, 0) {
				t.Fatalf("quantity is not finite: %+v", l)
			}
		}
		var total fleet.Money
		for _, n := range h.Nodes {
			var want fleet.Money
			if n.Price != nil {
				from, to := n.Life.From, n.Life.To
				if from.Before(h.From) {
					from = h.From
				}
				if to.IsZero() || to.After(h.To) {
					to = h.To
				}
				if to.After(from) {
					want = n.Price.MulDiv(to.Sub(from).Milliseconds(), 3_600_000)
				}
			}
			if perNode[n.UID] != want {
				t.Fatalf("node %s costs %s, its lines add up to %s", n.UID, want, perNode[n.UID])
			}
			total += want
		}
		if s.NodeCost != total {
			t.Fatalf("statement says %s, nodes cost %s", s.NodeCost, total)
		}
		var rows, shared, moved fleet.Money
		for _, r := range s.Rows() {
			rows += r.Amount
		}
		for _, r := range ledger.ShareIdle(s.Rows()) {
			shared += r.Amount
		}
		for _, x := range ledger.Transfers("c", h.From, 1, s) {
			if x.Amount <= 0 {
				t.Fatalf("transfer of %s", x.Amount)
			}
			if x.Credit == "residual" {
				moved -= x.Amount
			} else {
				moved += x.Amount
			}
		}
		if rows != total || shared != total || moved != total {
			t.Fatalf("total %s, rows %s, with idle shared %s, transfers %s", total, rows, shared, moved)
		}
	})
}

// The order of nodes and pods does not matter.
func TestCloseIsDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := anyHour().Draw(t, "hour")
		other := h
		other.Nodes = rapid.Permutation(h.Nodes).Draw(t, "nodes")
		other.Pods = rapid.Permutation(h.Pods).Draw(t, "pods")
		a, b := ledger.Close(h), ledger.Close(other)
		// Everything but the last bits of floating sums must be the same.
		if d := cmp.Diff(a, b, cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Max(1, math.Abs(x)) })); d != "" {
			t.Fatalf("another order, another statement:\n%s", d)
		}
	})
}

func BenchmarkCloseHourOf30Nodes(b *testing.B) {
	h := ledger.Hour{From: hour, To: hour.Add(time.Hour)}
	for i := range 30 {
		n := node(fmt.Sprintf("n%d", i))
		n.GPUCount = 8
		h.Nodes = append(h.Nodes, n)
		for j := range 8 {
			h.Pods = append(h.Pods, pod(fmt.Sprintf("p%d-%d", i, j), n.Name, 1000))
		}
	}
	for b.Loop() {
		ledger.Close(h)
	}
}
