package jobs

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// What nobody uses of a commitment is spent all the same: a budget of the whole tenant is the ledger, to the nano-unit, and one of the team that
// bought the commitment counts it too.
func TestABudgetCountsWhatIsUnusedOfCommitments(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.buy()
	e.node("a", "m5.large", fleet.PurchaseOnDemand, start)
	var all, web store.Budget
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		if all, err = store.SaveBudget(ctx, tx, store.Budget{Name: "all", Amount: usd(t, "10"), Thresholds: []int{100}}); err != nil {
			return err
		}
		web, err = store.SaveBudget(ctx, tx, store.Budget{Name: "web", Team: "web", Amount: usd(t, "10"), Thresholds: []int{100}})
		return err
	})
	e.dataAt(start.Add(2*time.Hour + 30*time.Minute))
	e.catchUp()
	e.check()
	var told fleet.Money // by the digest
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		told, _, _, err = store.SpentBetween(ctx, tx, start, start.Add(3*time.Hour))
		return err
	})
	if ledger := e.number(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1`, e.tenant); int64(told) != ledger {
		t.Errorf("the digest tells of %d of %d", int64(told), ledger)
	}
	for _, b := range []store.Budget{all, web} {
		spent := e.number(`SELECT spent_nano FROM budget_standing WHERE tenant_id = $1 AND budget_id = $2`, e.tenant, b.ID)
		ledger := e.number(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND ($2 = '' OR team = $2)`, e.tenant, b.Team)
		unused := e.number(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND kind = 'commitment_unused'`, e.tenant)
		if spent != ledger || unused == 0 {
			t.Errorf("%s: spent %d of %d, of which %d are unused commitments", b.Name, spent, ledger, unused)
		}
	}
}
