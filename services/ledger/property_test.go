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
			if rapid.Bool().Draw(t, "cut") {
				n.GPUs = rapid.SliceOfN(anyGroup(), 1, 3).Draw(t, "groups")
			}
			n.MinBill = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "least")
			if rapid.IntRange(0, 20).Draw(t, "absurd") == 0 {
				n.CPUMilli = rapid.Int64().Draw(t, "absurd cpu")
			}
			h.Nodes = append(h.Nodes, n)
		}
		for i := range rapid.IntRange(0, 25).Draw(t, "pods") {
			p := ledger.Pod{UID: fmt.Sprintf("p%d", i), Node: fmt.Sprintf("node-%d", rapid.IntRange(0, 4).Draw(t, "on")),
				Owner:    ledger.Owner{Workload: fleet.WorkloadID(rapid.SampledFrom([]string{"", "w1", "w2", "w3"}).Draw(t, "workload")), Namespace: "ns"},
				CPUMilli: rapid.Int64Range(0, 200_000).Draw(t, "cpu"), MemMiB: rapid.Int64Range(0, 1_000_000).Draw(t, "mem"), GPUMilli: rapid.Int64Range(0, 4000).Draw(t, "gpu"), Held: life.Draw(t, "held")}
			if rapid.Bool().Draw(t, "shares") {
				p.GPUs = rapid.SliceOfN(anyShare(), 1, 3).Draw(t, "shares of GPUs")
			}
			for range rapid.IntRange(0, 2).Draw(t, "troubles") {
				p.Broken = append(p.Broken, ledger.Trouble{Interval: life.Draw(t, "trouble"), Reason: rapid.SampledFrom([]string{"ImagePullBackOff", "CrashLoopBackOff"}).Draw(t, "reason")})
			}
			if rapid.IntRange(0, 10).Draw(t, "twice") == 0 {
				p.UID = "p0"
			}
			h.Pods = append(h.Pods, p)
		}
		for _, w := range []fleet.WorkloadID{"w1", "w2"} {
			use := rapid.SampledFrom([]float64{0, 0.3, 1, 7.25, 64, 1e5, 1e30, -1, math.NaN(), math.Inf(1)})
			cpu, mem, sm := use.Draw(t, "cpu use"), use.Draw(t, "mem use"), use.Draw(t, "sm use")
			gpu := use.Draw(t, "gpu mem")
			h.Usage[w] = ledger.Usage{CPUCores: &cpu, MemMiB: &mem, GPUSM: &sm, GPUMiB: &gpu}
		}
		return h
	})
}

var profiles = []string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.10gb+me", "9g.9gb", ""}

func anyGroup() *rapid.Generator[ledger.GPUGroup] {
	return rapid.Custom(func(t *rapid.T) ledger.GPUGroup {
		g := ledger.GPUGroup{Mode: rapid.SampledFrom([]ledger.GPUMode{ledger.GPUWhole, ledger.GPUSliced, ledger.GPUTimeSliced, ledger.GPUMPS, "odd"}).Draw(t, "mode"),
			Count: rapid.IntRange(-1, 16).Draw(t, "count"), Replicas: rapid.IntRange(-1, 100).Draw(t, "replicas"), Device: rapid.SampledFrom([]string{"", "GPU-1", "GPU-2"}).Draw(t, "device")}
		if g.Mode == ledger.GPUSliced {
			for range rapid.IntRange(0, 3).Draw(t, "instances") {
				g.Instances = append(g.Instances, ledger.GPUInstance{Profile: rapid.SampledFrom(profiles).Draw(t, "profile"), Count: rapid.IntRange(-1, 20).Draw(t, "n")})
			}
		}
		return g
	})
}

func anyShare() *rapid.Generator[ledger.GPUShare] {
	return rapid.Custom(func(t *rapid.T) ledger.GPUShare {
		return ledger.GPUShare{Device: rapid.SampledFrom([]string{"", "GPU-1", "GPU-3"}).Draw(t, "device"), Profile: rapid.SampledFrom(profiles).Draw(t, "profile"),
			Count: rapid.IntRange(-1, 9).Draw(t, "count"), CoreMilli: rapid.Int64Range(-1, 1500).Draw(t, "core"), MemMilli: rapid.Int64Range(-1, 1500).Draw(t, "mem")}
	})
}

// What causes say was paid is part of what was paid, for each owner, node and resource.
func TestCausesArePartsOfTheirLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := ledger.Close(anyHour().Draw(t, "hour"))
		type key struct {
			node     string
			kind     ledger.Kind
			resource ledger.Resource
			owner    ledger.Owner
		}
		lines := map[key]ledger.Row{}
		for _, l := range s.Lines {
			k := key{l.Node, l.Kind, l.Resource, l.Owner}
			if _, twice := lines[k]; twice {
				t.Fatalf("two lines of %+v: their transfers would have one id", k)
			}
			lines[k] = l.Row
		}
		parts := map[key]ledger.Row{}
		for _, c := range s.Causes {
			if c.Name == ledger.CauseMIGUnusable {
				if c.Amount != 0 || c.Quantity <= 0 {
					t.Fatalf("unusable part %+v", c)
				}
				continue
			}
			k := key{c.Node, c.Kind, c.Resource, c.Owner}
			r := parts[k]
			r.Amount, r.Quantity = r.Amount.Add(c.Amount), r.Quantity+c.Quantity
			parts[k] = r
		}
		for k, p := range parts {
			l := lines[k]
			// Each cause is rounded for itself: a nano-unit per cause and pool.
			if p.Amount < 0 || p.Amount > l.Amount+16 || p.Quantity > l.Quantity*(1+1e-9) {
				t.Fatalf("of %+v causes say %s and %v, the line %s and %v", k, p.Amount, p.Quantity, l.Amount, l.Quantity)
			}
		}
	})
}

// Whatever a GPU is cut into, its parts make one GPU: equal turns of any number, and any layout of instances that fills it.
func TestPartsOfAGPUMakeOneGPU(t *testing.T) {
	t.Parallel()
	layouts := map[fleet.GPUModel][][]string{
		"H100":      {{"1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb"}, {"3g.40gb", "3g.40gb"}, {"4g.40gb", "3g.40gb"}, {"7g.80gb"}, {"1g.20gb", "1g.20gb", "1g.20gb", "1g.20gb"}, {"3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"}},
		"A30":       {{"4g.24gb"}, {"2g.12gb", "1g.6gb", "1g.6gb"}},
		"A100-40GB": {{"3g.20gb", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb"}},
	}
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 16).Draw(t, "gpus")
		var n ledger.Node
		var pods []ledger.Pod
		if rapid.Bool().Draw(t, "mig") {
			model := rapid.SampledFrom([]fleet.GPUModel{"A100-40GB", "A30", "H100"}).Draw(t, "model")
			layout := rapid.SampledFrom(layouts[model]).Draw(t, "layout")
			g := ledger.GPUGroup{Mode: ledger.GPUSliced, Count: gpus}
			for i, profile := range layout {
				g.Instances = append(g.Instances, ledger.GPUInstance{Profile: profile, Count: gpus})
				for j := range gpus {
					pods = append(pods, sharing(fmt.Sprintf("p%d-%d", i, j), ledger.GPUShare{Profile: profile}))
				}
			}
			n = gpuNode("a", model, g)
		} else {
			replicas := rapid.IntRange(1, 64).Draw(t, "replicas")
			n = gpuNode("a", "L4", ledger.GPUGroup{Mode: rapid.SampledFrom([]ledger.GPUMode{ledger.GPUTimeSliced, ledger.GPUMPS}).Draw(t, "mode"), Count: gpus, Replicas: replicas})
			pods = many(gpus*replicas, ledger.GPUShare{})
		}
		p := fleet.Money(rapid.Int64Range(1, 900*fleet.NanosPerUnit).Draw(t, "price"))
		n.Price = &p
		s := closed([]ledger.Node{n}, pods...)
		var held fleet.Money
		quantity := 0.0
		for _, l := range s.Lines {
			if l.Kind != ledger.KindWorkload {
				t.Fatalf("a full node has %+v", l)
			}
			held, quantity = held.Add(l.Amount), quantity+l.Quantity
		}
		if held != p || math.Abs(quantity-float64(gpus)) > 1e-6 || len(s.Conflicts) != 0 {
			t.Fatalf("%d GPUs of %s: parts cost %s and are %v GPU-hours; conflicts %v", gpus, p, held, quantity, s.Conflicts)
		}
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
				if least := from.Add(n.MinBill); !to.IsZero() && !to.Before(from) && to.Before(least) {
					to = least // billed, though it did not live
				}
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
		for _, how := range []ledger.Spread{ledger.SpreadEven, ledger.SpreadWeighted} {
			var even, moved fleet.Money
			for _, r := range ledger.ShareIdleBy(s.Rows(), how) {
				even += r.Amount
			}
			for _, r := range ledger.ShareWorkloads(s.Rows(), func(r ledger.Row) bool { return r.Owner.Workload == "w1" }, how, nil) {
				moved += r.Amount
			}
			if even != total || moved != total {
				t.Fatalf("total %s, with idle shared %s, with w1 shared %s (%s)", total, even, moved, how)
			}
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

// One million pod-hours per CPU-minute is 60 microseconds each; ./scripts/bench cost holds the whole pipeline to it.
func BenchmarkClose10kPods(b *testing.B) {
	h := ledger.Hour{From: hour, To: hour.Add(time.Hour), Usage: map[fleet.WorkloadID]ledger.Usage{}}
	use := 0.4
	for i := range 1250 {
		n := node(fmt.Sprintf("n%d", i))
		n.CPUMilli, n.MemMiB, n.GPUCount = 192_000, 2_000_000, 8
		h.Nodes = append(h.Nodes, n)
		for j := range 8 {
			p := pod(fmt.Sprintf("p%d-%d", i, j), n.Name, 1000)
			p.Owner.Workload, p.CPUMilli, p.MemMiB = fleet.WorkloadID(fmt.Sprintf("w%d", (i*8+j)%500)), 8000, 64_000
			h.Usage[p.Owner.Workload] = ledger.Usage{CPUCores: &use, GPUSM: &use}
			h.Pods = append(h.Pods, p)
		}
	}
	for b.Loop() {
		ledger.Close(h).Rows()
	}
	b.ReportMetric(float64(b.N)*float64(len(h.Pods))/b.Elapsed().Minutes()/1e6, "Mpod-hours/min")
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
