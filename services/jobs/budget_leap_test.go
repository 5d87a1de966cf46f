package jobs

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

func TestABudgetCountsWhatArrivedAllAtOnce(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	llm := e.workload("llm", "red")
	day := start.UTC().Truncate(24 * time.Hour)
	stand := func(now time.Time) (s store.BudgetStanding) {
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			budgets, err := store.Budgets(ctx, tx)
			if err != nil {
				return err
			}
			s, err = store.StandBudget(ctx, tx, budgets[0], ledger.Calendar{}, now)
			return err
		})
		return s
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SaveBudget(ctx, tx, store.Budget{Name: "all", Amount: usd(t, "5000"), Thresholds: []int{100}})
		return err
	})
	e.spent(day, llm, "red", "100", 1)
	stand(day.Add(2 * time.Hour))
	// Ten days come together, within a minute of the last check.
	for i := 1; i <= 10; i++ {
		e.spent(day.AddDate(0, 0, i), llm, "red", "100", 1)
	}
	stand(day.AddDate(0, 0, 10).Add(2 * time.Hour))
	if got := e.number(`SELECT sum(amount_nano)::bigint FROM budget_hour WHERE tenant_id = $1`, e.tenant); fleet.Money(got) != usd(t, "1100") {
		t.Errorf("counted %v of 1,100", fleet.Money(got))
	}
}
