package ledger_test

import (
	"cmp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
)

// Whatever view of costs is asked for, its lines add up to that price of every machine, to the nano-unit, and what each machine's idle
// comes to is carried once.
func TestViewsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := anyHour().Draw(t, "hour")
		price := func(label string) *fleet.Money {
			if !rapid.Bool().Draw(t, label+" known") {
				return nil
			}
			p := fleet.Money(rapid.Int64Range(0, 500*fleet.NanosPerUnit).Draw(t, label))
			return &p
		}
		for i := range h.Nodes {
			h.Nodes[i].List, h.Nodes[i].Contracted = price("list"), price("contracted")
		}
		s := ledger.Close(h)
		plain := h
		plain.Nodes = append([]ledger.Node{}, h.Nodes...)
		for i := range plain.Nodes {
			plain.Nodes[i].List, plain.Nodes[i].Contracted = nil, nil
		}
		if was, is := ledger.Close(plain).Rows(), s.Rows(); len(was) != len(is) {
			t.Fatalf("views changed the rows: %d, not %d", len(is), len(was))
		} else {
			for i := range was {
				if was[i].Amount != is[i].Amount {
					t.Fatalf("views changed an amount: %v, not %v", is[i], was[i])
				}
			}
		}
		got := map[string]ledger.Views{}
		for _, l := range s.Lines {
			v := got[l.Node]
			got[l.Node] = ledger.Views{List: v.List + l.List, Contracted: v.Contracted + l.Contracted, Carried: v.Carried + l.Carried}
			if idle := l.Kind == ledger.KindIdle || l.Kind == ledger.KindOverhead; l.Carried < 0 && (!idle || l.Carried != -l.Amount) {
				t.Errorf("%+v gives away %s", l.Row, l.Carried)
			}
		}
		for _, n := range h.Nodes {
			v, lived := got[n.UID]
			if !lived {
				continue
			}
			cost := func(prices ...*fleet.Money) fleet.Money {
				p := cmp.Or(prices...)
				if p == nil {
					return 0
				}
				return p.MulDiv(livedMillis(n, h), time.Hour.Milliseconds())
			}
			if want := (ledger.Views{List: cost(n.List, n.Contracted, n.Price), Contracted: cost(n.Contracted, n.Price)}); v != want {
				t.Errorf("node %s: views %+v, want %+v", n.UID, v, want)
			}
		}
		var lines, rows ledger.Views
		for _, l := range s.Lines {
			lines = ledger.Views{List: lines.List + l.List, Contracted: lines.Contracted + l.Contracted, Carried: lines.Carried + l.Carried}
		}
		for _, r := range s.Viewed() {
			rows = ledger.Views{List: rows.List + r.List, Contracted: rows.Contracted + r.Contracted, Carried: rows.Carried + r.Carried}
		}
		if lines != rows {
			t.Errorf("rows add up to %+v, lines to %+v", rows, lines)
		}
	})
}

// livedMillis is how long a machine was billed within the hour.
func livedMillis(n ledger.Node, h ledger.Hour) int64 {
	billed := n.Billed()
	if billed.To.IsZero() || billed.To.After(h.To) {
		billed.To = h.To
	}
	if billed.From.Before(h.From) {
		billed.From = h.From
	}
	return max(billed.To.Sub(billed.From).Milliseconds(), 0)
}

// A machine at 3.00 under a commitment, 4.00 by contract and 5.00 on the list: its half-used hour in every view.
func TestAnHourInEveryView(t *testing.T) {
	t.Parallel()
	usd := func(n int64) *fleet.Money { m := fleet.Money(n * fleet.NanosPerUnit); return &m }
	h := ledger.Hour{From: hour, To: hour.Add(time.Hour),
		Nodes: []ledger.Node{{UID: "n", Name: "n", CPUMilli: 4000, MemMiB: 16384, Life: fleet.Interval{From: hour}, ReadyAt: hour, Price: usd(3), Contracted: usd(4), List: usd(5),
			Weights: market.Catalogue().Weights(fleet.CloudAWS)}},
		Pods: []ledger.Pod{{UID: "p", Node: "n", Owner: ledger.Owner{Workload: "w"}, CPUMilli: 2000, MemMiB: 8192, Held: fleet.Interval{From: hour}}}}
	var amount, list, contracted, carried fleet.Money
	for _, l := range ledger.Close(h).Lines {
		if l.Kind == ledger.KindWorkload {
			amount, list, contracted, carried = amount+l.Amount, list+l.List, contracted+l.Contracted, carried+l.Carried
		}
	}
	if amount.String() != "1.500000001" || list.String() != "2.500000001" || contracted.String() != "2.000000001" || carried.String() != "1.499999999" {
		t.Errorf("effective %s, list %s, contracted %s, idle of its machine %s", amount, list, contracted, carried)
	}
}
