package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"plimsoll.dev/services/store"
)

// Costs that are committed while a check of budgets is under way, after it has counted them, are seen by another check that is asked for
// meanwhile: no page shows a budget that lags behind the ledger until the next tick.
func TestACheckOfBudgetsMissesNoCosts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", "on_demand", start)
	e.dataAt(start.Add(40 * time.Minute))
	e.catchUp()
	var budgets []store.Budget
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, name := range []string{"first", "second"} {
			if _, err := store.SaveBudget(ctx, tx, store.Budget{Name: name, Amount: usd(t, "10"), Thresholds: []int{100}}); err != nil {
				return err
			}
		}
		var err error
		budgets, err = store.Budgets(ctx, tx)
		return err
	})
	workers := river.NewWorkers()
	river.AddWorker(workers, e.checker)
	river.AddWorker(workers, e.closer)
	client, err := river.NewClient(riverpgxv5.New(e.db.Pool()), &river.Config{Workers: workers, Logger: e.log,
		Queues: map[string]river.QueueConfig{queueBulk: {MaxWorkers: 4, FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	ended, unsubscribe := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	defer unsubscribe()
	if err := client.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.StopAndCancel(context.Background()); err != nil {
			t.Error(err)
		}
	})
	// The check counts the first budget and waits for the second.
	holder, err := pgx.Connect(ctx, e.owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close(context.Background()) }()
	if _, err := holder.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended('budget hours ' || $1::text, 0))`, string(budgets[1].ID)); err != nil {
		t.Fatal(err)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := client.InsertTx(ctx, tx.PGX(), CheckBudgetsArgs{Tenant: e.tenant}, oneCheck())
		return err
	})
	waits := func(what, query string) {
		t.Helper()
		for n := 0; n == 0; {
			if err := holder.QueryRow(ctx, query).Scan(&n); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	waits("the check counts", `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND locktype = 'advisory' AND NOT granted`)
	e.dataAt(start.Add(80 * time.Minute))
	e.insert(client, CloseHourArgs{Tenant: e.tenant, Cluster: e.cluster})
	waits("the hours are costed and another check is asked for", `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event <> 'advisory'`)
	if _, err := holder.Exec(ctx, `SELECT pg_advisory_unlock_all()`); err != nil {
		t.Fatal(err)
	}
	for checks := 0; checks < 2; {
		select {
		case event := <-ended:
			if event.Kind != river.EventKindJobCompleted {
				t.Fatalf("%s: %v", event.Job.Kind, event.Job.Errors)
			}
			if event.Job.Kind == (CheckBudgetsArgs{}).Kind() {
				checks++
			}
		case <-ctx.Done():
			t.Fatalf("%d checks ended, want 2", checks)
		}
	}
	for _, b := range budgets {
		spent := e.number(`SELECT spent_nano FROM budget_standing WHERE tenant_id = $1 AND budget_id = $2`, e.tenant, b.ID)
		ledger := e.number(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1`, e.tenant)
		if spent != ledger || spent == 0 {
			t.Errorf("budget %s counted %d of %d", b.Name, spent, ledger)
		}
	}
}
