package ledger_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/ledger"
)

// owned is a fleet with what its tenant has bought beforehand.
type owned struct {
	hours       []ledger.Hour
	offerings   map[string]fleet.Offering
	commitments []commitment.Commitment
}

// anyOwned draws hours of fleets (see anyHour) whose machines live across them, with reservations, plans and committed use of which terms begin
// and end within the hours.
func anyOwned() *rapid.Generator[owned] {
	return rapid.Custom(func(t *rapid.T) owned {
		o := owned{offerings: map[string]fleet.Offering{}}
		first := anyHour().Draw(t, "fleet")
		first.To = first.From.Add(time.Hour)
		for i := range rapid.IntRange(1, 3).Draw(t, "hours") {
			h := first
			h.From, h.To = hour.Add(time.Duration(i)*time.Hour), hour.Add(time.Duration(i+1)*time.Hour)
			o.hours = append(o.hours, h)
		}
		for i := range first.Nodes {
			n := &first.Nodes[i]
			of := rapid.SampledFrom([]fleet.Offering{{Cloud: fleet.CloudAWS, Region: "r1", Zone: "a", InstanceType: "g5.xlarge"}, {Cloud: fleet.CloudAWS, Region: "r1", Zone: "b", InstanceType: "m5.large"},
				{Cloud: fleet.CloudGCP, Region: "r1", InstanceType: "n2-standard-8"}, {Cloud: fleet.CloudOnPrem}}).Draw(t, "offering")
			of.Purchase = n.Purchase
			o.offerings[n.UID] = of
			n.MinBill = ledger.LeastBilled(of.Cloud)
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "commitments") {
			c := rapid.SampledFrom([]commitment.Commitment{{Kind: commitment.KindZonalRI, Region: "r1", Zone: "a", InstanceType: "g5.xlarge", Quantity: 1000}, {Kind: commitment.KindRegionalRI, Region: "r1", InstanceType: "m5.large", Quantity: 2000},
				{Kind: commitment.KindInstanceSP, Region: "r1", Family: "g5", DiscountPPM: 300_000}, {Kind: commitment.KindComputeSP, DiscountPPM: 200_000},
				{Kind: commitment.KindGCPResource, Region: "r1", Family: "n2", Resource: commitment.ResourceCPU, Quantity: 9000}, {Kind: commitment.KindGCPFlexible, DiscountPPM: 280_000}}).Draw(t, "commitment")
			if pay := fleet.Money(rapid.Int64Range(1, 60*fleet.NanosPerUnit).Draw(t, "pay")); c.Kind.Spend() {
				c.Spend = pay
			} else {
				c.Recurring, c.Upfront = pay, 1000*pay
			}
			c.ID, c.Ref = fmt.Sprintf("c%d", i), fmt.Sprintf("c%d", i)
			c.Term.From = hour.Add(time.Duration(rapid.IntRange(-600, 120).Draw(t, "starts")) * time.Minute)
			c.Term.To = c.Term.From.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "term")) * time.Minute)
			o.commitments = append(o.commitments, c)
		}
		return o
	})
}

// priced lets commitments pay for what they cover of an hour: as when hours close, a covered machine's price is what over its time gives its
// amount.
func (o owned) priced(h ledger.Hour) (ledger.Hour, commitment.Statement) {
	in := commitment.Input{Interval: fleet.Interval{From: h.From, To: h.To}, Commitments: o.commitments}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		in.Usage = append(in.Usage, commitment.Usage{Cluster: "c", Node: n.UID, Offering: o.offerings[n.UID], Machine: fleet.InstanceType{CPUMilli: min(max(n.CPUMilli, 0), 400_000), MemMiB: n.MemMiB}, Running: n.Billed(), List: n.Price, Price: n.Price, Weights: n.Weights})
	}
	s := commitment.Allocate(in)
	amount, unknown := map[string]fleet.Money{}, map[string]bool{}
	for _, r := range append(append([]commitment.Row{}, s.Covered...), s.Remainder...) {
		if r.Amount == nil {
			unknown[r.Node] = true
			continue
		}
		amount[r.Node] += *r.Amount
	}
	h.Nodes = append([]ledger.Node{}, h.Nodes...)
	for i := range h.Nodes {
		n := &h.Nodes[i]
		cost, ok := amount[n.UID]
		switch {
		case unknown[n.UID]:
			n.Price = nil
		case ok:
			rate := cost.MulDiv(3_600_000, ran(*n, h))
			n.Price = &rate
		}
	}
	return h, s
}

// ran is for how many milliseconds of the hour a machine is billed.
func ran(n ledger.Node, h ledger.Hour) int64 {
	life := n.Billed()
	if life.To.IsZero() || life.To.After(h.To) {
		life.To = h.To
	}
	if life.From.Before(h.From) {
		life.From = h.From
	}
	return max(life.To.Sub(life.From).Milliseconds(), 0)
}

// Over random fleets with MIG, turns, MPS, fractions, churn and commitments at once: a machine's GPU-hours and money are divided without rest,
// used and unused are what was bought, what owners bear and what nobody used is what was paid, and sharing, charging, posting and exporting
// make the same of it. Pods that are told one after the other, in any order, make the same hour in the end.
func TestTheLawsOverRandomFleets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := anyOwned().Draw(t, "owned")
		for _, plain := range o.hours {
			h, paid := o.priced(plain)
			s := ledger.Close(h)
			var unused, bought, uncovered fleet.Money
			for _, b := range paid.Balances {
				if b.Used+b.Unused != b.Bought || b.Unused < 0 {
					t.Fatalf("%+v", b)
				}
				unused, bought = unused+b.Unused, bought+b.Bought
			}
			known := map[string]bool{}
			gpus := map[string]float64{}
			for _, n := range h.Nodes {
				if n.Price != nil && !commitment.Eligible(o.offerings[n.UID]) {
					uncovered += n.Price.MulDiv(ran(n, h), 3_600_000)
				}
				known[n.UID] = n.Price != nil
				groups := n.GPUs
				if len(groups) == 0 {
					groups = []ledger.GPUGroup{{Count: n.GPUCount}}
				}
				for _, g := range groups {
					gpus[n.UID] += float64(min(max(g.Count, 0), 128)) * float64(ran(n, h)) / 3_600_000
				}
			}
			for _, r := range paid.Remainder {
				if r.Amount != nil && known[r.Node] {
					uncovered += *r.Amount
				}
			}
			for _, r := range paid.Covered {
				if !known[r.Node] { // a part of it that nothing covers has no price, so the hour has none
					unused += *r.Amount
				}
			}
			if s.NodeCost+unused != bought+uncovered {
				t.Fatalf("owners bear %s and %s is unused; paid was %s beforehand and %s besides", s.NodeCost, unused, bought, uncovered)
			}
			for _, l := range s.Lines {
				if l.Resource == ledger.ResourceGPU {
					gpus[l.Node] -= l.Quantity
				}
			}
			for node, rest := range gpus {
				if math.Abs(rest) > 1e-6 {
					t.Fatalf("%s has %v GPU-hours that no line has", node, rest)
				}
			}
			everyView(t, s)
			toldLate(t, h, s)
		}
	})
}

// everyView adds a statement up in all the ways that people see it.
func everyView(t *rapid.T, s ledger.Statement) {
	same := func(what string, got fleet.Money) {
		if got != s.NodeCost {
			t.Fatalf("%s makes %s of %s", what, got, s.NodeCost)
		}
	}
	byNode := map[string][]ledger.Row{}
	lines := map[string][]focus.Line{}
	for _, l := range s.Lines {
		byNode[l.Node] = append(byNode[l.Node], l.Row)
		lines[l.Node] = append(lines[l.Node], focus.Line{Kind: l.Kind, Resource: l.Resource, Owner: l.Owner, Amount: l.Amount, Quantity: l.Quantity})
	}
	for _, how := range []ledger.Spread{ledger.SpreadEven, ledger.SpreadWeighted} {
		var nodes fleet.Money
		for _, rows := range byNode {
			for _, r := range ledger.ShareIdleBy(rows, how) {
				nodes += r.Amount
			}
		}
		same("idle by node", nodes)
		var charged fleet.Money
		c := ledger.ChargeTeams([][]ledger.Row{s.Rows()}, &how, []ledger.SharedRule{{ID: "r", Pick: "namespace", Value: "ns", Spread: how}})
		for _, team := range c.Teams {
			charged += team.Total
		}
		for _, rest := range c.Rest {
			charged += rest
		}
		same("charging teams", charged+c.Unshared[0])
	}
	var exported fleet.Money
	for node, all := range lines {
		n := focus.NodeHour{Account: focus.Account{ID: "a", Currency: "USD"}, Machine: focus.Machine{UID: node, Name: node, Offering: fleet.Offering{Cloud: fleet.CloudAWS, Purchase: fleet.PurchaseOnDemand}}, Hour: hour, Millis: 3_600_000, Version: 1, AsOf: hour, Lines: all}
		for _, r := range n.Rows() {
			m, err := fleet.ParseMoney(r[focus.EffectiveCost])
			if err != nil {
				t.Fatal(err)
			}
			exported += m
		}
	}
	same("FOCUS", exported)
}

// toldLate closes the hour with some of its pods, then with others, in another order, and at last with all: what comes out is what came out
// at once.
func toldLate(t *rapid.T, h ledger.Hour, want ledger.Statement) {
	late := h
	late.Pods = rapid.Permutation(h.Pods).Draw(t, "pods")
	for n := range rapid.IntRange(0, min(len(late.Pods), 3)).Draw(t, "told so far") {
		part := late
		part.Pods = late.Pods[:n]
		if s := ledger.Close(part); s.NodeCost != want.NodeCost {
			t.Fatalf("with %d pods the machines cost %s, with all %s", n, s.NodeCost, want.NodeCost)
		}
	}
	if d := cmp.Diff(want, ledger.Close(late), cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Max(1, math.Abs(x)) })); d != "" {
		t.Fatalf("told late, another hour:\n%s", d)
	}
}
