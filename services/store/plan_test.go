package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const queuePolicy = "mode: %MODE%\nmin: 1\nmax: 8\nqueue: {target_per_replica: 10}\nup: {cooldown_seconds: -1}\ndown: {cooldown_seconds: -1, stabilisation_seconds: -1}\nfilter: {window_seconds: -1}\n"

// bench is a tenant with one cluster and one workload under a policy.
type planBench struct {
	t        *testing.T
	db       *store.DB
	tenant   fleet.TenantID
	cluster  fleet.ClusterID
	workload fleet.WorkloadID
	at       time.Time
	seq      int64
}

func newPlanBench(t *testing.T, mode fleet.Mode) *planBench {
	t.Helper()
	db, _ := open(t)
	b := &planBench{t: t, db: db, at: time.Now().UTC().Truncate(time.Second)}
	ctx := context.Background()
	tenant, _, err := db.CreateTenant(ctx, store.NewTenant{Name: "T", Owner: store.NewUser{Email: "o@example.test", DisplayName: "O"}})
	if err != nil {
		t.Fatal(err)
	}
	b.tenant = tenant.ID
	b.tx(func(tx *store.Tx) error {
		var err error
		if b.cluster, err = store.CreateCluster(ctx, tx, "c", fleet.ModeEnforce); err != nil {
			return err
		}
		b.workload = store.WorkloadIDOf(b.cluster, "ns/Deployment/w")
		if _, err = tx.PGX().Exec(ctx, `INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, replicas, first_seen)
			VALUES ($1, $2, $3, 'ns/Deployment/w', 'ns', 'Deployment', 'w', 2, $4)`, tx.Tenant, b.workload, b.cluster, tx.Now); err != nil {
			return err
		}
		_, err = store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: b.workload, Document: replaceMode(queuePolicy, mode), Mode: mode, CreatedBy: "test"}, 0)
		return err
	})
	return b
}

func replaceMode(doc string, mode fleet.Mode) string {
	return strings.ReplaceAll(doc, "%MODE%", string(mode))
}

func (b *planBench) tx(fn func(*store.Tx) error) {
	b.t.Helper()
	if err := b.db.Tenant(context.Background(), b.tenant, fn); err != nil {
		b.t.Fatal(err)
	}
}

// observe stores a report of the workload's queue.
func (b *planBench) observe(replicas int, queue float64) {
	b.t.Helper()
	b.seq++
	b.at = b.at.Add(15 * time.Second)
	n := int32(replicas)
	body, err := proto.Marshal(&agentv1.Observation{AtMs: b.at.UnixMilli(), Workloads: []*agentv1.WorkloadObservation{{Workload: "ns/Deployment/w", Replicas: n, Ready: n,
		Signals: []*agentv1.Signal{{Name: "queue_length", Value: queue, AtMs: b.at.UnixMilli(), PodsReported: n}}}}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.tx(func(tx *store.Tx) error {
		ctx := context.Background()
		if _, err := tx.PGX().Exec(ctx, `INSERT INTO observation (tenant_id, cluster_id, at, stream, epoch, seq, body) VALUES ($1, $2, $3, 'controller', 1, $4, $5)`,
			tx.Tenant, b.cluster, b.at, b.seq, body); err != nil {
			return err
		}
		_, err := tx.PGX().Exec(ctx, `UPDATE cluster SET last_seen_at = $3, data_at = $4 WHERE tenant_id = $1 AND id = $2`, tx.Tenant, b.cluster, tx.Now, b.at)
		return err
	})
}

// plan does what the planning job does.
func (b *planBench) plan() optimizer.Plan {
	b.t.Helper()
	var plan optimizer.Plan
	b.tx(func(tx *store.Tx) error {
		ctx := context.Background()
		in, err := store.LoadPlanInput(ctx, tx, b.cluster)
		if err != nil {
			return err
		}
		if _, err := store.ExpireDecisions(ctx, tx, b.cluster, in.Input.Snapshot.Now); err != nil {
			return err
		}
		if plan, err = optimizer.Decide(in.Input); err != nil {
			return err
		}
		if err := store.SaveMemory(ctx, tx, plan.Memory); err != nil {
			return err
		}
		var news []optimizer.Decision
		for _, d := range plan.Decisions {
			if optimizer.News(in.Input.Memory[d.Workload], d) {
				news = append(news, d)
			}
		}
		if len(news) == 0 {
			return nil
		}
		_, err = store.SavePlan(ctx, tx, plan, news, in.Input, store.SaveOptions{})
		return err
	})
	return plan
}

func (b *planBench) pending() (p *agentv1.Plan) {
	b.t.Helper()
	b.tx(func(tx *store.Tx) (err error) {
		p, err = store.PendingPlan(context.Background(), tx, b.cluster)
		return err
	})
	return p
}

func (b *planBench) decisions(states ...string) (rows []store.DecisionRow) {
	b.t.Helper()
	b.tx(func(tx *store.Tx) (err error) {
		rows, err = store.Decisions(context.Background(), tx, store.DecisionFilter{States: states, Limit: 100})
		return err
	})
	return rows
}

func TestAnEnforcedDecisionReachesTheAgentOnceAndEndsWithItsResult(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	b.observe(2, 60)
	b.plan()
	p := b.pending()
	if p == nil || len(p.GetActions()) != 1 || p.GetActions()[0].GetTo() <= 2 || p.GetActions()[0].GetMax() != 8 || p.GetGeneration() != 1 {
		t.Fatalf("pending plan %v", p)
	}
	b.observe(2, 60)
	b.plan() // the same decision again is no news: the same generation stays
	if again := b.pending(); again.GetGeneration() != 1 {
		t.Fatalf("repeating a decision made generation %d", again.GetGeneration())
	}
	result := store.ActionResult{Decision: fleet.DecisionID(p.GetActions()[0].GetActionId()), Outcome: "applied", Before: 2, After: int(p.GetActions()[0].GetTo()), Generation: 1, At: b.at}
	apply := func() (changed []fleet.DecisionID) {
		b.tx(func(tx *store.Tx) (err error) {
			changed, err = store.ApplyResults(context.Background(), tx, b.cluster, []store.ActionResult{result})
			return err
		})
		return changed
	}
	if got := apply(); len(got) != 1 {
		t.Fatalf("first result changed %v", got)
	}
	if got := apply(); len(got) != 0 {
		t.Fatalf("the same result again changed %v", got)
	}
	if p := b.pending(); p != nil {
		t.Fatalf("an applied plan is still pending: %v", p)
	}
	if rows := b.decisions("applied"); len(rows) != 1 || *rows[0].Before != 2 {
		t.Fatalf("decisions %+v", rows)
	}
}

func TestAProposalWaitsForAPersonAndApprovalMakesTheNextGeneration(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeApprove)
	b.observe(2, 60)
	b.plan()
	if p := b.pending(); p != nil {
		t.Fatalf("a proposal went out without approval: %v", p)
	}
	open := b.decisions("proposed")
	if len(open) != 1 {
		t.Fatalf("proposals %+v", open)
	}
	resolve := func(approve bool) error {
		return b.db.Tenant(context.Background(), b.tenant, func(tx *store.Tx) error {
			_, err := store.Resolve(context.Background(), tx, open[0].ID, approve, "a person", "")
			return err
		})
	}
	if err := resolve(true); err != nil {
		t.Fatal(err)
	}
	p := b.pending()
	if p == nil || p.GetGeneration() != 2 || p.GetActions()[0].GetActionId() != string(open[0].ID) {
		t.Fatalf("approved plan %v", p)
	}
	var coded *fleet.Error
	if err := resolve(false); !errors.As(err, &coded) || coded.Code != fleet.CodeConflict {
		t.Fatalf("rejecting an approved proposal: %v", err)
	}
}

func TestAProposalExpiresInDataTime(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeApprove)
	b.observe(2, 60)
	b.plan()
	first := b.decisions("proposed")
	b.at = b.at.Add(16 * time.Minute) // over the 15 minutes of the default
	b.observe(2, 60)
	b.plan()
	if rows := b.decisions("expired"); len(rows) != 1 || rows[0].ID != first[0].ID {
		t.Fatalf("expired %+v", rows)
	}
	if rows := b.decisions("proposed"); len(rows) != 1 || rows[0].ID == first[0].ID {
		t.Fatalf("the need is still there but not proposed anew: %+v", rows)
	}
}

func TestAStoredDecisionComputesAgainToTheSameBytes(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	b.observe(2, 20)
	b.plan()
	b.observe(2, 75)
	b.plan()
	for _, d := range b.decisions() {
		b.tx(func(tx *store.Tx) error {
			in, err := store.PlanInputOf(context.Background(), tx, d.PlanID)
			if err != nil {
				return err
			}
			again, err := optimizer.Decide(in)
			if err != nil {
				return err
			}
			if len(again.Decisions) != 1 || again.Decisions[0].Target != d.Target || string(again.Decisions[0].Binding) != d.Binding {
				t.Errorf("decided %+v, stored target %d binding %s", again.Decisions, d.Target, d.Binding)
			}
			return nil
		})
	}
}

func TestAGenerationIsTakenOnce(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	b.observe(2, 60)
	plan := b.plan()
	err := b.db.Tenant(context.Background(), b.tenant, func(tx *store.Tx) error {
		_, err := store.SavePlan(context.Background(), tx, plan, plan.Decisions, optimizer.Input{}, store.SaveOptions{})
		return err
	})
	var coded *fleet.Error
	if !errors.As(err, &coded) || coded.Code != fleet.CodeConflict {
		t.Fatalf("saving generation %d twice: %v", plan.Generation, err)
	}
}

func TestSavingAPolicyOverSomebodyElsesIsAConflict(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	save := func(expect int) error {
		return b.db.Tenant(context.Background(), b.tenant, func(tx *store.Tx) error {
			_, err := store.SavePolicy(context.Background(), tx, store.PolicyVersion{Workload: b.workload, Document: replaceMode(queuePolicy, fleet.ModeObserve), Mode: fleet.ModeObserve, CreatedBy: "x"}, expect)
			return err
		})
	}
	if err := save(1); err != nil {
		t.Fatal(err)
	}
	var coded *fleet.Error
	if err := save(1); !errors.As(err, &coded) || coded.Code != fleet.CodeConflict {
		t.Fatalf("the second writer of version 2: %v", err)
	}
}
