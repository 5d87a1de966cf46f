package billing_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
)

var firstDay = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func amount(s string) billing.Amount {
	a, err := billing.ParseSum(s)
	if err != nil {
		panic(err)
	}
	return a
}

func estimate(day int, node, cost string, hours float64) billing.Estimate {
	m, err := fleet.ParseMoney(cost)
	if err != nil {
		panic(err)
	}
	return billing.Estimate{Day: firstDay.AddDate(0, 0, day), Cluster: "c", Node: node, Name: node + ".internal", Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "m5.large", Purchase: fleet.PurchaseOnDemand,
		Millis: int64(hours * 3_600_000), Cost: m}
}

func charge(day int, kind billing.Kind, resource, cost, hours string) billing.Row {
	from := firstDay.AddDate(0, 0, day)
	r := billing.Row{Dimensions: billing.Dimensions{Provider: "AWS", Cloud: fleet.CloudAWS, Category: billing.CategoryUsage, Kind: kind, Service: "AmazonEC2", Region: "us-east-1", Resource: resource, From: from,
		To: from.AddDate(0, 0, 1)}, Lines: 1, Effective: amount(cost), Billed: amount(cost)}
	if hours == "" {
		r.NoHours = 1
	} else {
		r.Hours = amount(hours)
	}
	return r
}

// Each way in which a bill differs has its cause, and the causes add up.
func TestCausesOfGaps(t *testing.T) {
	t.Parallel()
	typed := func(r billing.Row) billing.Row {
		r.InstanceType, r.Purchase = "m5.large", fleet.PurchaseOnDemand
		return r
	}
	reserved := func(r billing.Row) billing.Row { r.Commitment = "ri"; return r }
	own := estimate(0, "n9", "5", 24)
	own.Cloud = ""
	unpriced := estimate(0, "n8", "0", 0)
	unpriced.Unpriced = true
	monthly := charge(0, billing.KindTax, "", "7", "")
	monthly.To = firstDay.AddDate(0, 1, 0)
	for _, c := range []struct {
		name      string
		rows      []billing.Row
		estimates []billing.Estimate
		unused    []billing.UnusedEstimate
		want      map[billing.Cause]string
		pairs     int
	}{
		{"the same", []billing.Row{charge(0, billing.KindMachine, "n1", "10", "24")}, []billing.Estimate{estimate(0, "n1", "10", 24)}, nil, nil, 1},
		{"another price", []billing.Row{charge(0, billing.KindMachine, "arn:aws:ec2:x:instance/n1", "9", "24")}, []billing.Estimate{estimate(0, "n1", "10", 24)}, nil, map[billing.Cause]string{"price": "-1.00"}, 1},
		{"more hours at another price", []billing.Row{charge(0, billing.KindMachine, "N1.internal", "15", "24")}, []billing.Estimate{estimate(0, "n1", "10", 20)}, nil, map[billing.Cause]string{"hours": "2.00", "price": "3.00"}, 1},
		{"hours on the next day", []billing.Row{charge(0, billing.KindMachine, "n1", "8", "20"), charge(1, billing.KindMachine, "n1", "12", "30")},
			[]billing.Estimate{estimate(0, "n1", "10", 25), estimate(1, "n1", "10", 25)}, nil, nil, 2},
		{"a machine under a reservation", []billing.Row{reserved(charge(0, billing.KindMachine, "n1", "6", "24"))}, []billing.Estimate{estimate(0, "n1", "10", 24)}, nil, map[billing.Cause]string{"commitment": "-4.00"}, 1},
		{"a machine without a price", []billing.Row{charge(0, billing.KindMachine, "n8", "6", "24")}, []billing.Estimate{unpriced}, nil, map[billing.Cause]string{"unknown_price": "6.00"}, 1},
		{"a machine that nobody saw", []billing.Row{charge(0, billing.KindMachine, "i-7", "6", "24")}, nil, nil, map[billing.Cause]string{"unseen_resource": "6.00"}, 0},
		{"machines known by type only", []billing.Row{typed(charge(0, billing.KindMachine, "i-7", "9", "24")), typed(charge(0, billing.KindMachine, "i-8", "9", "24"))},
			[]billing.Estimate{estimate(0, "n1", "10", 24), estimate(0, "n2", "10", 24)}, nil, map[billing.Cause]string{"price": "-2.00"}, 1},
		{"a machine on no bill, and a day that none reaches", []billing.Row{charge(0, billing.KindMachine, "n1", "10", "24")},
			[]billing.Estimate{estimate(0, "n1", "10", 24), estimate(0, "n2", "3", 24), estimate(1, "n1", "4", 24), own}, nil, map[billing.Cause]string{"unbilled": "-3.00", "not_billed_yet": "-4.00", "own_machine": "-5.00"}, 1},
		{"what is not ours", []billing.Row{monthly, charge(0, billing.KindSupport, "", "1", ""), charge(0, billing.KindNetwork, "n1", "2", ""), charge(0, billing.KindStorage, "v", "3", ""), charge(0, billing.KindCredit, "", "-4", ""),
			charge(0, billing.KindOther, "q", "5", "")}, nil, nil, map[billing.Cause]string{"tax": "7.00", "support": "1.00", "network": "2.00", "storage": "3.00", "credit": "-4.00", "other_service": "5.00"}, 0},
		{"an unused part, amortised otherwise", []billing.Row{charge(0, billing.KindUnused, "ri", "2.5", "")}, nil, []billing.UnusedEstimate{{Day: firstDay, Cloud: fleet.CloudAWS, Cost: 2 * fleet.NanosPerUnit}},
			map[billing.Cause]string{"commitment": "0.50"}, 1},
		{"a name that two machines have", []billing.Row{charge(0, billing.KindMachine, "n1", "10", "24")}, []billing.Estimate{estimate(0, "n1", "10", 24), {Day: firstDay, Cluster: "d", Node: "n1", Cloud: fleet.CloudAWS, Cost: 1}}, nil,
			map[billing.Cause]string{"unseen_resource": "10.00", "unbilled": "-10.000000001"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := billing.Reconcile(c.rows, c.estimates, c.unused)
			got := map[billing.Cause]string{}
			for _, p := range r.Causes {
				got[p.Cause] = p.Amount.String()
			}
			if len(got) != len(c.want) || len(r.Pairs) != c.pairs {
				t.Errorf("%v in %d pairs, want %v in %d", got, len(r.Pairs), c.want, c.pairs)
			}
			for cause, want := range c.want {
				if got[cause] != want {
					t.Errorf("%s %s, want %s", cause, got[cause], want)
				}
			}
			if c.name == "hours on the next day" && (len(r.Pairs[0].Parts) != 1 || r.Pairs[0].Parts[0].Cause != billing.CauseTimeShift || r.Pairs[0].Parts[0].Amount.String() != "-2.00") {
				t.Errorf("%+v", r.Pairs)
			}
		})
	}
}

// Whatever bill and ledger say: sums of the result are those of its input, causes and lines add up to the gap to the last place, and the order
// of the input does not matter.
func TestReconciliationLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var rows []billing.Row
		var estimates []billing.Estimate
		var unused []billing.UnusedEstimate
		var bill, ledger billing.Amount
		for i := range rapid.IntRange(0, 25).Draw(t, "rows") {
			kind := rapid.SampledFrom([]billing.Kind{billing.KindMachine, billing.KindMachine, billing.KindMachine, billing.KindUnused, billing.KindPurchase, billing.KindNetwork, billing.KindTax, billing.KindOther}).Draw(t, "kind")
			cost, _, err := billing.ParseAmount(fmt.Sprintf("%de-18", rapid.Int64Range(-1_000_000_000, 9_000_000_000_000_000_000).Draw(t, "cost")))
			if err != nil {
				t.Fatal(err)
			}
			r := charge(rapid.IntRange(0, 3).Draw(t, "day"), kind, fmt.Sprintf("n%d", rapid.IntRange(0, 6).Draw(t, "resource")), cost.String(), rapid.SampledFrom([]string{"", "0", "3.7", "24"}).Draw(t, "hours"))
			r.InstanceType, r.Purchase = rapid.SampledFrom([]string{"", "m5.large"}).Draw(t, "type"), rapid.SampledFrom([]fleet.Purchase{"", fleet.PurchaseOnDemand, fleet.PurchaseSpot, fleet.PurchaseReserved}).Draw(t, "purchase")
			r.FirstLine = i
			if rapid.Bool().Draw(t, "no effective cost") {
				r.NoEffective = 1
			}
			rows, bill = append(rows, r), bill.Add(cost)
		}
		seen := map[string]bool{}
		for range rapid.IntRange(0, 15).Draw(t, "estimates") {
			e := estimate(rapid.IntRange(0, 3).Draw(t, "on day"), fmt.Sprintf("n%d", rapid.IntRange(0, 5).Draw(t, "node")), "0", rapid.Float64Range(0, 24).Draw(t, "ran"))
			if key := e.Day.String() + e.Node; seen[key] {
				continue
			} else {
				seen[key] = true
			}
			if e.Unpriced = rapid.Bool().Draw(t, "unpriced"); !e.Unpriced {
				e.Cost = fleet.Money(rapid.Int64Range(0, 3000*fleet.NanosPerUnit).Draw(t, "estimate"))
			}
			e.Committed = rapid.Bool().Draw(t, "committed")
			e.Cloud = rapid.SampledFrom([]fleet.Cloud{fleet.CloudAWS, fleet.CloudAWS, fleet.CloudGCP, ""}).Draw(t, "cloud")
			estimates, ledger = append(estimates, e), ledger.Add(billing.AmountOf(e.Cost))
		}
		for d := range rapid.IntRange(0, 2).Draw(t, "unused") {
			u := billing.UnusedEstimate{Day: firstDay.AddDate(0, 0, d), Cloud: fleet.CloudAWS, Cost: fleet.Money(rapid.Int64Range(1, fleet.NanosPerUnit).Draw(t, "left"))}
			unused, ledger = append(unused, u), ledger.Add(billing.AmountOf(u.Cost))
		}
		r := billing.Reconcile(rows, estimates, unused)
		if r.Bill != bill || r.Estimate != ledger {
			t.Fatalf("bill %s, ledger %s; input %s, %s", r.Bill, r.Estimate, bill, ledger)
		}
		var causes, lines, parts, pairs billing.Amount
		for _, c := range r.Causes {
			causes = causes.Add(c.Amount)
		}
		for _, l := range r.Lines {
			lines = lines.Add(l.Bill.Sub(l.Estimate))
		}
		for _, p := range r.Pairs {
			pairs = pairs.Add(p.Gap())
			for _, c := range p.Parts {
				parts = parts.Add(c.Amount)
			}
		}
		if causes != r.Gap() || lines != r.Gap() || parts != pairs {
			t.Fatalf("gap %s, causes %s, lines %s; pairs %s, their parts %s", r.Gap(), causes, lines, pairs, parts)
		}
		for i, j := 0, len(estimates)-1; i < j; i, j = i+1, j-1 {
			estimates[i], estimates[j] = estimates[j], estimates[i]
		}
		again := billing.Reconcile(rows, estimates, unused)
		if !reflect.DeepEqual(again.Causes, r.Causes) || !reflect.DeepEqual(again.Lines, r.Lines) {
			t.Fatalf("another order of estimates gives other causes: %v, %v", again.Causes, r.Causes)
		}
	})
}

// What a bill has is divided over hours so that price times time gives each part back, and the parts the whole.
func TestRestatingConserves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var hours []billing.HourCost
		for i := range rapid.IntRange(1, 30).Draw(t, "hours") {
			hours = append(hours, billing.HourCost{Cluster: "c", Node: fmt.Sprintf("n%d", i%3), Hour: firstDay.Add(time.Duration(i) * time.Hour), Millis: rapid.Int64Range(1, 3_600_000).Draw(t, "ran"),
				Cost: fleet.Money(rapid.Int64Range(-5, 100*fleet.NanosPerUnit).Draw(t, "cost"))})
		}
		bill := billing.AmountOf(fleet.Money(rapid.Int64Range(0, 2000*fleet.NanosPerUnit).Draw(t, "bill")))
		prices, ok := billing.Restate(bill, hours)
		if !ok {
			t.Fatal("refused")
		}
		var sum fleet.Money
		for i, p := range prices {
			if back := p.Price.MulDiv(hours[i].Millis, 3_600_000); back != p.Cost || p.Hour != hours[i].Hour {
				t.Fatalf("%s an hour for %d ms is %s, want %s", p.Price, hours[i].Millis, back, p.Cost)
			}
			sum += p.Cost
		}
		if want, _ := bill.Money(); sum != want {
			t.Fatalf("the hours add up to %s, the bill to %s", sum, want)
		}
	})
	for name, c := range map[string]struct {
		bill  string
		hours []billing.HourCost
	}{
		"a negative amount": {"-1", []billing.HourCost{{Millis: 1}}},
		"no hours":          {"1", nil},
		"no time":           {"1", []billing.HourCost{{}}},
		"beyond any price":  {"3000", []billing.HourCost{{Millis: 3_600_000}}},
	} {
		if _, ok := billing.Restate(amount(c.bill), c.hours); ok {
			t.Errorf("%s restates", name)
		}
	}
}

// Amounts are exact: what is written reads back, sums do not depend on order, and digits past the eighteenth place are counted.
func TestAmountsAreExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"1e-18": "0.000000000000000001", "-1E-18": "-0.000000000000000001", "1.5e3": "1500.00", "+7": "7.00", "0.0000000000000000005": "0.000000000000000001",
		"-0.0000000000000000004": "0.00", "000123.4500": "123.45", "999999999999": "999999999999.00", ".5": "0.50", "-0": "0.00"} {
		if a, _, err := billing.ParseAmount(text); err != nil || a.String() != want {
			t.Errorf("%s reads as %s: %v", text, a, err)
		}
	}
	for _, bad := range []string{"", "-", ".", "1,5", "1e99", "NaN", "0x1", "1 000", "1e", "1e13", "--1", "1.2.3"} {
		if a, _, err := billing.ParseAmount(bad); err == nil {
			t.Errorf("%q reads as %s", bad, a)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		one := func(name string) billing.Amount {
			a, _, err := billing.ParseAmount(fmt.Sprintf("%d.%018d", rapid.Int64Range(-999_999_999, 999_999_999).Draw(t, name), rapid.Int64Range(0, 999_999_999_999_999_999).Draw(t, name+" places")))
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		a, b := one("a"), one("b")
		if back, err := billing.ParseSum(a.String()); err != nil || back != a {
			t.Fatalf("%s reads back as %s: %v", a, back, err)
		}
		if a.Add(b) != b.Add(a) || a.Add(b).Sub(b) != a || a.Neg().Neg() != a || a.Sub(a).Sign() != 0 || a.Cmp(b) != -b.Cmp(a) {
			t.Fatalf("%s and %s do not add up", a, b)
		}
	})
}
