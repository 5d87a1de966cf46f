package jobs

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// machine is a node of the test's cluster, ready since yesterday.
func (e *estate) machine(name, instanceType, zone string, cpu, mem int64, now time.Time) {
	e.t.Helper()
	e.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, pool, cloud, region, zone, instance_type, purchase, phase, cpu_milli, mem_mib, started_at, ready_at)
VALUES ($1, $2, $3, $3, 'web', 'aws', 'us-east-1', $4, $5, 'on_demand', 'ready', $6, $7, $8, $8)`, e.tenant, e.cluster, name, zone, instanceType, cpu, mem, now.Add(-24*time.Hour))
}

func (e *estate) replica(name, node, phase string, cpu, mem, gpuMilli int64, now time.Time) {
	e.t.Helper()
	ready := any(now.Add(-2 * time.Hour))
	reason := ""
	if node == "" {
		ready, reason = nil, "Unschedulable"
	}
	e.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, reason, cpu_milli, mem_mib, gpu_milli, created_at, ready_at)
VALUES ($1, $2, $3, $3, 'web', 'web/Deployment/' || split_part($3, '-', 1), $4, $5, $6, $7, $8, $9, $10, $11)`, e.tenant, e.cluster, name, node, phase, reason, cpu, mem, gpuMilli, now.Add(-2*time.Hour), ready)
}

func (e *estate) planCapacity(w *CapacityPlan) (store.CapacityPlanHead, *capacity.Plan) {
	e.t.Helper()
	w.DB, w.Prices, w.Log = e.db, market.Catalogue, e.log
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(riverpgxv5.New(e.db.Pool()), &river.Config{Workers: workers, Logger: e.log,
		Queues: map[string]river.QueueConfig{queueBulk: {MaxWorkers: 1, FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond}}})
	if err != nil {
		e.t.Fatal(err)
	}
	events, cancel := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled)
	defer cancel()
	if err := client.Start(context.Background()); err != nil {
		e.t.Fatal(err)
	}
	defer func() {
		if err := client.StopAndCancel(context.Background()); err != nil {
			e.t.Error(err)
		}
	}()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := client.InsertTx(ctx, tx.PGX(), CapacityPlanArgs{Tenant: e.tenant, Cluster: e.cluster}, nil)
		return err
	})
	select {
	case ev := <-events:
		if ev.Kind != river.EventKindJobCompleted {
			e.t.Fatalf("the job ended as %s: %+v", ev.Kind, ev.Job.Errors)
		}
	case <-time.After(time.Minute):
		e.t.Fatal("no job ended")
	}
	var head store.CapacityPlanHead
	var plan *capacity.Plan
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		head, plan, err = store.CapacityPlan(ctx, tx, e.cluster, "")
		return err
	})
	return head, plan
}

func (e *estate) alerts(kind string) (open, all int64) {
	return e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = $2 AND resolved_at IS NULL`, e.tenant, kind), e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = $2`, e.tenant, kind)
}

func TestCapacityIsPlannedFromTheInventory(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	now := time.Now().UTC().Truncate(time.Second)
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3, mode = 'recommend' WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, now)
	e.machine("n1", "m5.4xlarge", "us-east-1a", 16_000, 64_000, now)
	e.machine("n2", "m5.4xlarge", "us-east-1b", 16_000, 64_000, now)
	e.replica("api-1", "n1", "ready", 1000, 2000, 0, now)
	e.replica("api-2", "n2", "ready", 1000, 2000, 0, now)
	e.replica("big-1", "", "pending", 40_000, 64_000, 0, now)
	e.replica("huge-1", "", "pending", 4000, 8000, 64_000, now)
	first, plan := e.planCapacity(&CapacityPlan{})
	if plan.Outcome != capacity.OutcomeChange || first.Adds < 1 || first.Drains < 1 || plan.After <= 0 || plan.Unpriced != 0 {
		t.Fatalf("%+v", plan)
	}
	causes := map[string]capacity.Cause{}
	for _, w := range plan.Waiting {
		causes[w.Pod] = w.Cause
	}
	if diff := cmp.Diff(map[string]capacity.Cause{"web/big-1": capacity.CauseNew, "web/huge-1": capacity.CauseNothing}, causes); diff != "" {
		t.Error(diff)
	}
	if open, _ := e.alerts("pods_unschedulable"); open != 1 {
		t.Errorf("%d alerts", open)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error { // it computes again from what was kept
		in, err := store.CapacityPlanInput(ctx, tx, e.cluster, first.ID)
		if err != nil {
			return err
		}
		again, err := capacity.Decide(in, nil)
		if err != nil {
			return err
		}
		a, err := json.Marshal(plan)
		if err != nil {
			return err
		}
		b, err := json.Marshal(again)
		if err != nil {
			return err
		}
		if string(a) != string(b) {
			t.Errorf("stored %s\ncomputed again %s", a, b)
		}
		return nil
	})
	same, _ := e.planCapacity(&CapacityPlan{})
	if same.ID != first.ID || !same.FirstAt.Equal(first.FirstAt) || e.number(`SELECT count(*) FROM capacity_plan WHERE tenant_id = $1`, e.tenant) != 1 {
		t.Errorf("a plan that says the same is kept twice: %+v", same)
	}
	e.exec(`UPDATE pod SET ended_at = $2, phase = 'ended' WHERE tenant_id = $1 AND node = ''`, e.tenant, now)
	next, _ := e.planCapacity(&CapacityPlan{})
	if open, all := e.alerts("pods_unschedulable"); open != 0 || all != 1 || next.ID == first.ID {
		t.Errorf("%d open alerts of %d; plan %s after %s", open, all, next.ID, first.ID)
	}
	e.exec(`UPDATE cluster SET last_seen_at = now() - interval '1 hour' WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster)
	held, plan := e.planCapacity(&CapacityPlan{})
	if held.Outcome != capacity.OutcomeHeld || plan.Changes() || plan.Held[0] != capacity.HoldStale {
		t.Errorf("an hour without a report: %+v", plan)
	}
}

func TestAnUnsoundCapacityPlanIsNotKept(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	now := time.Now().UTC().Truncate(time.Second)
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3 WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, now)
	e.machine("n1", "m5.4xlarge", "us-east-1a", 16_000, 64_000, now)
	w := &CapacityPlan{DB: e.db, Prices: market.Catalogue, Log: e.log, decide: func(capacity.Input, func() bool) (*capacity.Plan, error) {
		return &capacity.Plan{Outcome: capacity.OutcomeChange, Drain: []capacity.Drain{{Name: "other"}}}, nil
	}}
	err := w.Work(context.Background(), &river.Job[CapacityPlanArgs]{Args: CapacityPlanArgs{Tenant: e.tenant, Cluster: e.cluster}})
	if err == nil || !strings.Contains(err.Error(), "fails its check") {
		t.Fatalf("error %v", err)
	}
	if n := e.number(`SELECT count(*) FROM capacity_plan WHERE tenant_id = $1`, e.tenant); n != 0 {
		t.Errorf("%d plans", n)
	}
}

func TestCapacityIsDueWhenThereIsNews(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	due := func() (n int) {
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			ids, err := store.CapacityDue(ctx, tx, 20*time.Second, 10)
			n = len(ids)
			return err
		})
		return n
	}
	if n := due(); n != 0 {
		t.Errorf("%d clusters that never reported", n)
	}
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = now() - interval '7 days' WHERE tenant_id = $1`, e.tenant)
	if n := due(); n != 0 {
		t.Errorf("%d new clusters whose history is still being told", n)
	}
	e.exec(`UPDATE cluster SET created_at = now() - interval '1 hour' WHERE tenant_id = $1`, e.tenant)
	if n := due(); n != 1 {
		t.Errorf("%d whose clock is wrong", n)
	}
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = now(), created_at = now() WHERE tenant_id = $1`, e.tenant)
	if n := due(); n != 1 {
		t.Errorf("%d with news", n)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		in, err := store.LoadCapacityInput(ctx, tx, market.Catalogue(), e.cluster)
		if err != nil {
			return err
		}
		plan, err := capacity.Decide(*in, nil)
		if err != nil {
			return err
		}
		_, err = store.SaveCapacityPlan(ctx, tx, *in, plan, 3*time.Second)
		return err
	})
	for _, c := range []struct {
		name               string
		checked, seen, out string
		want               int
	}{
		{"just planned", "1 second", "0 seconds", "", 0},
		{"twenty seconds ago, but it took three", "30 seconds", "0 seconds", "", 0},
		{"a minute later", "61 seconds", "0 seconds", "", 1},
		{"no news since, soon stale", "90 seconds", "2 minutes", "", 1},
		{"silent for long", "1 hour", "2 hours", "", 0},
	} {
		e.exec(`UPDATE capacity_plan SET checked_at = now() - $2::interval WHERE tenant_id = $1`, e.tenant, c.checked)
		e.exec(`UPDATE cluster SET last_seen_at = now() - $2::interval WHERE tenant_id = $1`, e.tenant, c.seen)
		if n := due(); n != c.want {
			t.Errorf("%s: %d", c.name, n)
		}
	}
	var none fleet.ClusterID = "00000000-0000-4000-8000-000000000000"
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, _, err := store.CapacityPlan(ctx, tx, none, ""); !store.IsNotFound(err) {
			t.Errorf("a plan of no cluster: %v", err)
		}
		return nil
	})
}
