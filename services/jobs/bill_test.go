package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// A bill's amounts stand in the ledger to the nano-unit once somebody says so, split to owners as before; the estimate stays readable, late data
// keeps the bill's price, and undone the ledger is what it was.
func TestABillRestatesTheLedgerAndIsUndone(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start)
	e.node("n2", "g5.xlarge", fleet.PurchaseOnDemand, start.Add(30*time.Minute+7*time.Millisecond))
	e.node("n3", "g5.xlarge", fleet.PurchaseOnDemand, start.Add(2*time.Hour))
	e.exec(`UPDATE node SET ended_at = started_at + interval '13 seconds 1 millisecond' WHERE tenant_id = $1 AND uid = 'n3'`, e.tenant) // billed for a minute
	e.workload("llm", "red")
	e.pod("p1", "n1", "llm", 1000, start)
	day := start.Truncate(24 * time.Hour)
	e.dataAt(day.AddDate(0, 0, 2).Add(3 * time.Hour))
	e.catchUp()
	type sums struct{ Ledger, Red int64 }
	read := func() (s sums) {
		s.Ledger = e.number(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND hour < $2`, e.tenant, day.AddDate(0, 0, 2))
		s.Red = e.number(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND team = 'red' AND hour < $2`, e.tenant, day.AddDate(0, 0, 2))
		return s
	}
	before := read()
	asOf := e.now()

	var b strings.Builder
	b.WriteString("BillingCurrency,BilledCost,EffectiveCost,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ServiceName,ServiceCategory,ProviderName,ResourceId,PricingUnit,PricingQuantity,PricingCategory\n")
	billed := map[string][2]string{"n1": {"20.123456789", "24.000000001"}, "n2": {"17.9", "0.000000007"}, "n3": {"0.333333333", ""}}
	var want fleet.Money
	for _, uid := range []string{"n1", "n2", "n3"} {
		for d, cost := range billed[uid] {
			if cost == "" {
				continue
			}
			from := day.AddDate(0, 0, d)
			fmt.Fprintf(&b, "USD,%s,%s,%s,%s,Usage,Amazon Elastic Compute Cloud,Compute,AWS,%s,Hours,24,Standard\n", cost, cost, from.Format(time.RFC3339), from.AddDate(0, 0, 1).Format(time.RFC3339), uid)
			want += usd(t, cost)
		}
	}
	f, err := billing.Read(strings.NewReader(b.String()), billing.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var r store.Restatement
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, _, _, err := store.SaveBill(ctx, tx, "bill", f, store.BillNew, "test"); err != nil {
			return err
		}
		var err error
		r, err = store.Restate(ctx, tx, day, day.AddDate(0, 0, 2), "test")
		return err
	})
	if int64(r.Before) != before.Ledger || r.After != want || r.Machines != 3 {
		t.Fatalf("restates %s as %s, want %s as %s: %+v", r.Before, r.After, fleet.Money(before.Ledger), want, r)
	}
	e.catchUp()
	after := read()
	if fleet.Money(after.Ledger) != want || after.Red == before.Red || after.Red == 0 {
		t.Errorf("the ledger has %s, the bill %s; red %d of %d", fleet.Money(after.Ledger), want, after.Red, before.Red)
	}
	gap := func() billing.Reconciliation {
		var out billing.Reconciliation
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			rows, err := store.BillRows(ctx, tx, day, day.AddDate(0, 0, 2))
			if err != nil {
				return err
			}
			estimates, err := store.LoadBillEstimates(ctx, tx, day, day.AddDate(0, 0, 2), false)
			out = billing.Reconcile(rows, estimates.Machines, estimates.Unused)
			return err
		})
		return out
	}
	if g := gap().Gap(); g.Sign() != 0 {
		t.Errorf("after restating the gap is %s", g)
	}
	// Late data recosts an hour at the bill's price.
	e.pod("late", "n2", "llm", 500, start.Add(3*time.Hour))
	e.catchUp()
	if got := read(); fleet.Money(got.Ledger) != want || got.Red <= after.Red {
		t.Errorf("after late data the ledger has %s, the bill %s", fleet.Money(got.Ledger), want)
	}
	e.exec(`UPDATE pod SET ended_at = started_at, touched_from = '-infinity' WHERE tenant_id = $1 AND uid = 'late'`, e.tenant)
	e.catchUp()
	// What was there before is still readable.
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		rows, err := store.Costs(ctx, tx, store.CostQuery{From: day, To: day.AddDate(0, 0, 2), Aggregate: "team", AsOf: asOf})
		var all fleet.Money
		for _, row := range rows {
			all += row.Amount
		}
		if int64(all) != before.Ledger {
			t.Errorf("as of before the bill the ledger had %s, reads %s", fleet.Money(before.Ledger), all)
		}
		return err
	})
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.UndoRestatement(ctx, tx, r.ID, "test")
		return err
	})
	e.catchUp()
	if d := cmp.Diff(before, read()); d != "" {
		t.Errorf("undone, the ledger is not what it was (-want +got):\n%s", d)
	}
	if n := e.number(`SELECT count(*) FROM bill_price WHERE tenant_id = $1`, e.tenant); n != 0 {
		t.Errorf("%d prices of the bill stay", n)
	}
}
