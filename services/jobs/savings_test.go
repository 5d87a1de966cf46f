package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Three hours of a node with 2 replicas, then 1: what scaling saved is told in the prices of each hour, and what was paid is the ledger's.
func TestTheSavingsLedgerAddsUpToTheLedgerAndFollowsRestatements(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start)
	id := e.workload("llm", "red")
	e.pod("a", "n1", "llm", 1000, start)
	e.exec(`INSERT INTO policy (tenant_id, workload_id, version, document, mode, created_by, created_at) VALUES ($1, $2, 1, $3, 'enforce', 'test', now())`, e.tenant, id,
		"max: 4\ntarget_ratio:\n  - signal: cpu_ratio\n    target: 0.7\n")
	plan := uuid.NewString()
	e.exec(`INSERT INTO plan (tenant_id, id, cluster_id, generation, at, created_at, expires_at, mode, input_hash, input) VALUES ($1, $2, $3, 1, now(), now(), now(), 'enforce', '', '')`, e.tenant, plan, e.cluster)
	decide := func(at time.Duration, outcome, binding, state string, from, needed, target int, delta any) {
		e.exec(`INSERT INTO decision (tenant_id, id, plan_id, cluster_id, workload_id, at, outcome, from_replicas, needed, target, binding, detail, cost_delta_nano, state, expires_at, finished_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, '{}', $12, $13, now(), CASE WHEN $13 = 'applied' THEN $6::timestamptz END)`, e.tenant, uuid.NewString(), plan, e.cluster, id, start.Add(at), outcome, from, needed, target, binding, delta, state)
	}
	decide(30*time.Minute, "hold", "cooldown_down", "noted", 2, 1, 2, nil)
	decide(time.Hour, "scale_down", "target_ratio", "applied", 2, 1, 1, int64(-500_000_000))
	for m := range 180 {
		replicas := 2
		if m >= 60 {
			replicas = 1
		}
		e.exec(`INSERT INTO rollup_1m (tenant_id, cluster_id, workload_id, at, samples, replicas, ready, starting, cpu_ratio) VALUES ($1, $2, $3, $4, 4, $5, $5, 0, 1.05)`, e.tenant, e.cluster, id, start.Add(time.Duration(m)*time.Minute), replicas)
	}
	e.dataAt(start.Add(3*time.Hour + 30*time.Minute))
	e.catchUp()
	w := &MeasureSavings{DB: e.db, Log: e.log}
	sums := func() (all, second store.SavingSum) {
		t.Helper()
		if err := w.Cluster(context.Background(), e.tenant, e.cluster); err != nil {
			t.Fatal(err)
		}
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			for _, q := range []struct {
				to       *store.SavingSum
				from, at time.Duration
			}{{&all, 0, 3 * time.Hour}, {&second, time.Hour, 2 * time.Hour}} {
				rows, err := store.Savings(ctx, tx, store.CostQuery{From: start.Add(q.from), To: start.Add(q.at)}, false)
				if err != nil {
					return err
				}
				if len(rows) != 1 {
					t.Fatalf("%d rows", len(rows))
				}
				*q.to = rows[0]
			}
			return nil
		})
		return all, second
	}
	all, second := sums()
	paid := fleet.Money(e.number(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND workload_id = $2 AND hour < $3`, e.tenant, id, start.Add(3*time.Hour)))
	if all.Amount != paid || paid == 0 || all.Hours != 3 {
		t.Errorf("savings say %s was paid in %d hours, the ledger %s", all.Amount, all.Hours, paid)
	}
	// In the second hour one replica costs the whole amount: two before the decision, four at max; the autoscaler asks for 1 x 1.05 / 0.7, which is
	// 2, and still holds 3 for the first four minutes.
	if second.Stayed != 2*second.Amount || second.Static != 4*second.Amount || second.Shadow != second.Amount.MulDiv(2067, 1000) || second.Promised != 500_000_000 || second.Downs != 1 || second.Cooldown != 0 {
		t.Errorf("second hour %+v", second)
	}
	if first := all.Cooldown; first == 0 || first != firstHour(e, id).MulDiv(500, 2000) {
		t.Errorf("half an hour of one replica of two was held by a cooldown: %s", first)
	}
	// Late data makes the hour dearer: the same job follows, and says it once.
	e.pod("late", "n1", "llm", 0, start)
	e.catchUp()
	again, _ := sums()
	paid = fleet.Money(e.number(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND workload_id = $2 AND hour < $3`, e.tenant, id, start.Add(3*time.Hour)))
	if again.Amount != paid || again.Amount <= all.Amount || again.Hours != 3 {
		t.Errorf("after a restatement savings say %s, the ledger %s, before it was %s", again.Amount, paid, all.Amount)
	}
}

func firstHour(e *estate, id fleet.WorkloadID) fleet.Money {
	return fleet.Money(e.number(`SELECT amount_nano FROM saving_hour WHERE tenant_id = $1 AND workload_id = $2 AND hour = $3`, e.tenant, id, start))
}
