package jobs

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

const rolledOut = "mode: enforce\nmin: 1\nmax: 8\nqueue: {target_per_replica: 20}\n"

// round moves the workload's rollout by one plan at the given time.
func (e *estate) round(id fleet.WorkloadID, now time.Time, replicas int) (r store.Rollout, min int) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		versions, err := store.Policies(ctx, tx, id, 1)
		if err != nil {
			return err
		}
		policy, _ := optimizer.ParsePolicy([]byte(versions[0].Document))
		state := fleet.WorkloadState{Workload: fleet.Workload{ID: id, Key: "chat/Deployment/llm", Kind: "Deployment"}, Replicas: replicas, Ready: replicas,
			Signals: []fleet.Signal{{Name: fleet.SignalQueueLength, Samples: []fleet.Sample{{At: now, Value: 60, PodsReported: replicas}}}}}
		in := optimizer.Input{Snapshot: fleet.Snapshot{Cluster: e.cluster, Now: now, Mode: fleet.ModeEnforce, Workloads: []fleet.WorkloadState{state}},
			Policies: map[fleet.WorkloadID]optimizer.Binding{id: {Version: versions[0].Version, Policy: policy}}, Memory: map[fleet.WorkloadID]optimizer.Memory{}}
		out, err := (&PlanWorker{DB: e.db, Log: e.log}).rollouts(ctx, tx, in)
		if err != nil {
			return err
		}
		min = out.Policies[id].Policy.Min
		all, err := store.Rollouts(ctx, tx, id, 1)
		r = all[0]
		return err
	})
	return r, min
}

// told writes minutes with ratios of late and failed requests.
func (e *estate) told(id fleet.WorkloadID, from time.Time, minutes int, late, failed float32) {
	e.exec(`INSERT INTO rollup_1m (tenant_id, cluster_id, workload_id, at, samples, request_rate, late_ratio, error_ratio)
		SELECT $1, $2, $3, $4::timestamptz + n * interval '1 minute', 4, 10, $6, $7 FROM generate_series(0, $5::int - 1) AS n`, e.tenant, e.cluster, id, from, minutes, late, failed)
}

func (e *estate) rollout(id fleet.WorkloadID, at time.Time) {
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.CreateRollout(ctx, tx, store.Rollout{Workload: id, Cluster: e.cluster, Document: rolledOut, BaseVersion: 1, ShadowSeconds: 600, CanarySeconds: 600, CanaryShare: 0.25,
			Reason: "test", CreatedBy: "test", StageAt: at})
		return err
	})
}

func (e *estate) version(id fleet.WorkloadID) (v store.PolicyVersion) {
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		all, err := store.Policies(ctx, tx, id, 1)
		v = all[0]
		return err
	})
	return v
}

func TestARolloutGoesFromShadowOverCanaryToEnforceWhileAllIsWell(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeEnforce)
	at := time.Now().UTC().Truncate(time.Minute)
	e.rollout(id, at)
	e.told(id, at.Add(-time.Hour), 180, 0.01, 0)
	r, _ := e.round(id, at.Add(time.Minute), 4)
	if r.State != store.RolloutShadow || r.Shadow.Decisions != 1 || e.version(id).Version != 1 {
		t.Fatalf("in the shadow: %+v", r)
	}
	if r, _ = e.round(id, at.Add(10*time.Minute), 4); r.State != store.RolloutCanary || r.Shadow.Decisions != 2 || r.CanaryFloor == nil || *r.CanaryFloor != 3 || e.version(id).Document != rolledOut {
		t.Fatalf("after the shadow: %+v", r)
	}
	if r, min := e.round(id, at.Add(15*time.Minute), 4); r.State != store.RolloutCanary || min != 3 {
		t.Errorf("in the canary: %s, at least %d replicas; want 3 of 4", r.State, min)
	}
	if r, min := e.round(id, at.Add(20*time.Minute), 4); r.State != store.RolloutEnforce || min != 3 {
		t.Errorf("after the canary: %s, %d", r.State, min)
	}
	if r, min := e.round(id, at.Add(30*time.Minute), 4); r.State != store.RolloutDone || min != 1 || r.FinishedAt == nil || e.version(id).Version != 2 {
		t.Errorf("at the end: %+v, at least %d", r, min)
	}
}

func TestARolloutThatMakesRequestsLateIsTakenBackByItself(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		late, failed float32
		want         string
	}{{"late", 0.2, 0, outcomeLate}, {"failing", 0.01, 0.1, outcomeError}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t)
			id := e.planned("llm", fleet.ModeEnforce)
			before := e.version(id).Document
			at := time.Now().UTC().Truncate(time.Minute)
			e.rollout(id, at)
			e.told(id, at.Add(-time.Hour), 70, 0.01, 0)
			e.told(id, at.Add(10*time.Minute), 20, c.late, c.failed)
			e.round(id, at.Add(10*time.Minute), 4)
			if r, _ := e.round(id, at.Add(13*time.Minute), 4); r.State != store.RolloutCanary {
				t.Fatalf("three minutes are no ground: %+v", r)
			}
			r, _ := e.round(id, at.Add(16*time.Minute), 4)
			if v := e.version(id); r.State != store.RolledBack || r.Outcome != c.want || v.Version != 3 || v.Document != before {
				t.Errorf("it is %s (%s), version %d in force; want it taken back for %s", r.State, r.Outcome, v.Version, c.want)
			}
			if n := e.number(`SELECT count(*) FROM audit_log WHERE action IN ('rollout.canary', 'rollout.rolled_back')`); n != 2 {
				t.Errorf("%d stages in the audit log; want 2", n)
			}
		})
	}
}

func TestARolloutOfWhichNobodyTellsStaysAndIsTakenBackInTheEnd(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeEnforce)
	at := time.Now().UTC().Truncate(time.Minute)
	e.rollout(id, at)
	e.round(id, at.Add(10*time.Minute), 4)
	if r, _ := e.round(id, at.Add(25*time.Minute), 4); r.State != store.RolloutCanary || r.AfterLate != nil {
		t.Errorf("without a word it moved on: %+v", r)
	}
	if r, _ := e.round(id, at.Add(41*time.Minute), 4); r.State != store.RolledBack || r.Outcome != outcomeNoSignal {
		t.Errorf("without a word for three stages: %+v", r)
	}
}

func TestARolloutGivesWayToAPolicyThatSomebodySaved(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeEnforce)
	at := time.Now().UTC().Truncate(time.Minute)
	e.rollout(id, at)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: id, Document: "mode: recommend\nmax: 3\nqueue: {target_per_replica: 5}\n", Mode: fleet.ModeRecommend, CreatedBy: "somebody"}, 1)
		return err
	})
	if r, _ := e.round(id, at.Add(time.Minute), 4); r.State != store.RolloutSuperseded || e.version(id).Version != 2 {
		t.Errorf("it goes on beside another policy: %+v", r)
	}
}
