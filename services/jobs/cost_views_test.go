package jobs

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Two machines of m5.large (0.096 on the list) and one of m5.xlarge by contract at 0.15, under a reserved m5.large at 0.06 and a plan of 0.10
// an hour, for two hours: the same machines at every price, and idle that is carried on the machine that was idle.
func TestTheLedgerInEveryView(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.buy()
	e.setPrice("m5.xlarge", "0.15")
	e.node("a", "m5.large", fleet.PurchaseOnDemand, start)
	e.node("b", "m5.large", fleet.PurchaseOnDemand, start)
	e.node("c", "m5.xlarge", fleet.PurchaseOnDemand, start)
	e.workload("api", "web")
	e.pod("p1", "c", "api", 0, start)
	e.dataAt(start.Add(2*time.Hour + 30*time.Minute))
	e.catchUp()
	span := store.CostQuery{From: start, To: start.Add(2 * time.Hour), Hourly: true, Aggregate: "kind"}
	sums := func(view store.CostView, q store.CostQuery) (all, workload fleet.Money) {
		q.View = view
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			rows, err := store.Costs(ctx, tx, q)
			for _, r := range rows {
				all = all.Add(r.Amount)
				if r.Kind == "workload" {
					workload = workload.Add(r.Amount)
				}
				if r.Unviewed != 0 {
					t.Errorf("%s: %s of %s are not known", view, r.Unviewed, r.Kind)
				}
			}
			return err
		})
		return all, workload
	}
	effective, held := sums(store.ViewEffective, span)
	for _, test := range []struct {
		view store.CostView
		want string // with what is unused of commitments
	}{
		{store.ViewList, "0.768"},       // 2 h x (2 x 0.096 + 0.192)
		{store.ViewContracted, "0.684"}, // 2 h x (2 x 0.096 + 0.15)
	} {
		got, _ := sums(test.view, span)
		unused := fleet.Money(e.number(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND kind = 'commitment_unused' AND hour < $2`, e.tenant, span.To))
		if want := usd(t, test.want).Add(unused); got != want {
			t.Errorf("%s: %s, want %s", test.view, got, want)
		}
	}
	carried, borne := sums(store.ViewCarried, span)
	machine := fleet.Money(e.number(`SELECT sum(p.effective_nano)::bigint FROM node_price p WHERE tenant_id = $1 AND node_uid = 'c' AND hour < $2`, e.tenant, span.To))
	if carried != effective || held >= machine || borne != machine {
		t.Errorf("by machine %s of %s in all, the workload bears %s of the %s that its machine costs, holding %s", carried, effective, borne, machine, held)
	}
	// The daily table says what its hours say.
	day := store.CostQuery{From: start, To: start.AddDate(0, 0, 1), Aggregate: "kind", Buckets: true}
	hours := day
	hours.Hourly = true
	for _, view := range []store.CostView{store.ViewEffective, store.ViewList, store.ViewContracted, store.ViewCarried} {
		a, _ := sums(view, day)
		if b, _ := sums(view, hours); a != b || a == 0 {
			t.Errorf("%s: the day has %s, its hours %s", view, a, b)
		}
	}
}
