package jobs

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// A page that looks at a budget, somebody who changes it and the check after costing may count its hours at the same moment.
func TestABudgetIsCountedByManyAtOnce(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", "on_demand", start)
	e.workload("llm", "red")
	e.pod("p1", "n1", "llm", 1000, start)
	e.dataAt(start.Add(40 * time.Minute))
	e.catchUp()
	var b store.Budget
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = store.SaveBudget(ctx, tx, store.Budget{Name: "red", Team: "red", Amount: usd(t, "10"), Thresholds: []int{100}})
		return err
	})
	const many = 6
	gate := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	spent := map[string]int{}
	for range many {
		wg.Go(func() {
			<-gate
			err := e.db.Tenant(context.Background(), e.tenant, func(tx *store.Tx) error {
				s, err := store.StandBudget(context.Background(), tx, b, ledger.Calendar{}, start.Add(40*time.Minute))
				mu.Lock()
				defer mu.Unlock()
				spent[s.Spent.String()]++
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		})
	}
	close(gate)
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Error(err)
	}
	if len(spent) != 1 || spent["0"] != 0 {
		t.Errorf("counted differently: %v", spent)
	}
}
