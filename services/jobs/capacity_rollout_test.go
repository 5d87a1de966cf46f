package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

var errCrash = errors.New("the process died")

// rolling is an estate that enforces, with machines and pods, and the worker of rollouts.
type rolling struct {
	*estate
	w *CapacityRollout
}

func newRolling(t *testing.T) *rolling {
	t.Helper()
	e := &rolling{estate: newEstate(t)}
	e.w = &CapacityRollout{DB: e.db, Prices: market.Catalogue, Log: e.log}
	e.exec(`UPDATE cluster SET mode = 'enforce', last_seen_at = now(), data_at = now() WHERE tenant_id = $1`, e.tenant)
	e.stock(e.cluster)
	return e
}

// stock puts eight machines into a cluster, each with a pod.
func (e *rolling) stock(cluster fleet.ClusterID) {
	now := time.Now().UTC()
	e.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, pool, cloud, region, zone, instance_type, purchase, phase, cpu_milli, mem_mib, started_at, ready_at)
SELECT $1, $2, 'n' || i, 'n' || i, 'web', 'aws', 'us-east-1', 'us-east-1a', 'm5.4xlarge', 'on_demand', 'ready', 16000, 64000, $3, $3 FROM generate_series(1, 8) i`, e.tenant, cluster, now.Add(-24*time.Hour))
	e.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, cpu_milli, mem_mib, created_at, ready_at)
SELECT $1, $2, 'api-' || i, 'api-' || i, 'web', 'web/Deployment/api', 'n' || i, 'ready', 1000, 2000, $3, $3 FROM generate_series(1, 8) i`, e.tenant, cluster, now.Add(-24*time.Hour))
}

func (e *rolling) begin(policy capacity.Policy, clusters ...fleet.ClusterID) string {
	e.t.Helper()
	var id string
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		r := store.CapacityRollout{Document: policy, Hourly: 4, CreatedBy: "test"}
		r.Shares, r.ShadowSec, r.StageSec, r.CostOver = []int64{250, 1000}, 600, 600, 200
		id, err = store.CreateCapacityRollout(ctx, tx, r, clusters, nil)
		return err
	})
	return id
}

func (e *rolling) get(id string) (r store.CapacityRollout) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		r, err = store.CapacityRolloutOf(ctx, tx, id, false)
		return err
	})
	return r
}

// load reads what a plan is made of, and save keeps the plan of it, both as the job does.
func (e *rolling) load(cluster fleet.ClusterID) (in *capacity.Input) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		in, err = store.LoadCapacityInput(ctx, tx, market.Catalogue(), cluster)
		return err
	})
	return in
}

func (e *rolling) save(in *capacity.Input) (kept bool) {
	e.t.Helper()
	plan, err := capacity.Decide(*in, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if bad := capacity.Check(*in, plan); len(bad) > 0 {
		e.t.Fatal(bad)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		stands, err := store.CapacityTurnStands(ctx, tx, in)
		if err != nil || !stands {
			return err
		}
		kept = true
		_, err = store.SaveCapacityPlan(ctx, tx, *in, plan, time.Millisecond)
		return err
	})
	return kept
}

// tick is a report of every cluster after a while of their time, and plans of it.
func (e *rolling) tick(after time.Duration, clusters ...fleet.ClusterID) {
	e.t.Helper()
	for _, c := range clusters {
		e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = data_at + $3 WHERE tenant_id = $1 AND id = $2`, e.tenant, c, after)
		e.save(e.load(c))
	}
}

func (e *rolling) look(id string) {
	e.t.Helper()
	if err := e.w.Look(context.Background(), e.tenant, id); err != nil {
		e.t.Fatal(err)
	}
}

func (e *rolling) words(id string) (out []string) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		steps, err := store.CapacitySteps(ctx, tx, id)
		for _, s := range steps {
			out = append(out, fmt.Sprintf("%s %d", s.What, s.Step))
		}
		return err
	})
	return out
}

func (e *rolling) policy(cluster fleet.ClusterID) (p store.CapacityPolicy) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = store.CapacityPolicyOf(ctx, tx, cluster)
		return err
	})
	return p
}

// until ticks and looks until the rollout is so, at most 40 times.
func (e *rolling) until(id string, so func(store.CapacityRollout) bool, clusters ...fleet.ClusterID) store.CapacityRollout {
	e.t.Helper()
	for range 40 {
		r := e.get(id)
		if so(r) || !r.Open() {
			return r
		}
		e.tick(2*time.Minute, clusters...)
		e.look(id)
	}
	e.t.Fatalf("never: %+v", e.get(id))
	return store.CapacityRollout{}
}

func inCanary(r store.CapacityRollout) bool { return r.State == capacity.RolloutCanary }

func held(in *capacity.Input) (n int) {
	for i := range in.Nodes {
		if in.Nodes[i].Fixed == capacity.HeldByRollout {
			n++
		}
	}
	return n
}

func TestACapacityPolicyIsRolledOutStepByStep(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	e.tick(0, e.cluster)
	id := e.begin(capacity.Policy{MaxNodes: 50}, e.cluster)
	if in := e.load(e.cluster); in.Policy.MaxNodes != 0 || held(in) != 0 || in.Turn.Rollout != "" {
		t.Fatalf("the shadow is in force: %+v", in.Turn)
	}
	r := e.until(id, inCanary, e.cluster)
	if r.State != capacity.RolloutCanary || r.Step != 0 || r.Parts[0].Shadow == nil || r.Parts[0].Before == nil {
		t.Fatalf("%+v", r)
	}
	in := e.load(e.cluster)
	if n := held(in); in.Policy.MaxNodes != 50 || !in.Turn.Proposed || n == 0 || n == len(in.Nodes) || in.Policy.MaxActions != 4 {
		t.Errorf("canary of a quarter: %d of %d machines held, %+v", n, len(in.Nodes), in.Turn)
	}
	if p := e.policy(e.cluster); p.Version != 0 {
		t.Errorf("saved before it is done: version %d", p.Version)
	}
	if r = e.until(id, func(r store.CapacityRollout) bool { return r.Step == 1 }, e.cluster); r.State != capacity.RolloutCanary {
		t.Fatalf("%s: %s", r.State, r.Outcome)
	}
	if in := e.load(e.cluster); held(in) != 0 {
		t.Errorf("all machines, but %d are held", held(in))
	}
	r = e.until(id, func(store.CapacityRollout) bool { return false }, e.cluster)
	if r.State != capacity.RolloutDone || r.FinishedAt == nil {
		t.Fatalf("%s: %s", r.State, r.Outcome)
	}
	if p := e.policy(e.cluster); p.Version != 1 || p.Policy.MaxNodes != 50 || p.UpdatedBy != store.CapacityRolloutActor {
		t.Errorf("policy %+v", p)
	}
	if got := e.words(id); !slices.Equal(got, []string{"shadow 0", "canary 0", "canary 1", "done 1"}) {
		t.Errorf("steps %v", got)
	}
	if n := e.number(`SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action LIKE 'capacity_rollout.%'`, e.tenant); n != 3 {
		t.Errorf("%d entries in the audit log", n)
	}
}

func TestACapacityRolloutThatLeavesPodsWaitingIsTakenBackOnce(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	e.tick(0, e.cluster)
	id := e.begin(capacity.Policy{InstanceTypes: []string{"m5.large"}}, e.cluster)
	e.until(id, inCanary, e.cluster)
	e.tick(time.Minute, e.cluster)
	for i := range 2 {
		e.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, phase, reason, cpu_milli, mem_mib, created_at)
SELECT $1, $2, 'big-' || $3, 'big-' || $3, 'web', 'web/Deployment/big', 'pending', 'Unschedulable', 30000, 60000, data_at - interval '1 hour' FROM cluster WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, fmt.Sprint(i))
	}
	r := e.until(id, func(store.CapacityRollout) bool { return false }, e.cluster)
	if r.State != capacity.RolloutBack || r.Outcome != capacity.GuardUnplaced || r.Where != e.cluster {
		t.Fatalf("%s: %q on %s", r.State, r.Outcome, r.Where)
	}
	if in := e.load(e.cluster); in.Turn != (capacity.Turn{}) || len(in.Policy.InstanceTypes) != 0 || held(in) != 0 {
		t.Errorf("the policy before is not in force: %+v", in.Turn)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		head, _, err := store.CapacityPlan(ctx, tx, e.cluster, "")
		if err == nil && tx.Now.Sub(head.CheckedAt) < groupPlanAge {
			t.Error("a plan of the canary may still be carried out")
		}
		return err
	})
	for range 3 {
		e.look(id)
	}
	if open, all := e.alerts(store.CapacityRolloutAlert); open != 1 || all != 1 {
		t.Errorf("%d open alerts of %d", open, all)
	}
	if got := e.words(id); !slices.Equal(got, []string{"shadow 0", "canary 0", "rolled_back 0"}) {
		t.Errorf("steps %v", got)
	}
	e.begin(capacity.Policy{MaxNodes: 60}, e.cluster) // the next try clears the alert
	if open, _ := e.alerts(store.CapacityRolloutAlert); open != 0 {
		t.Errorf("%d open alerts after a new rollout", open)
	}
}

func TestARestartInAnyStepOfACapacityRolloutDoesNothingTwice(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	e.tick(0, e.cluster)
	id := e.begin(capacity.Policy{MaxNodes: 50}, e.cluster)
	for range 40 {
		if !stillOpen(e.get(id)) {
			break
		}
		e.tick(2*time.Minute, e.cluster)
		shadows, err := e.w.shadows(context.Background(), e.tenant, new(e.get(id)))
		if err != nil {
			t.Fatal(err)
		}
		err = e.db.Tenant(context.Background(), e.tenant, func(tx *store.Tx) error { // dies after the step, before it is committed
			if err := e.w.step(context.Background(), tx, id, shadows); err != nil {
				return err
			}
			return errCrash
		})
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 3 { // and several come back at once
			all.Go(func() {
				worker := &CapacityRollout{DB: e.db, Prices: market.Catalogue, Log: e.log}
				if err := worker.Look(context.Background(), e.tenant, id); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	r := e.get(id)
	if got := e.words(id); r.State != capacity.RolloutDone || !slices.Equal(got, []string{"shadow 0", "canary 0", "canary 1", "done 1"}) {
		t.Errorf("%s: %s, steps %v", r.State, r.Outcome, got)
	}
	if p := e.policy(e.cluster); p.Version != 1 {
		t.Errorf("the policy was saved %d times", p.Version)
	}
}

func stillOpen(r store.CapacityRollout) bool { return r.Open() }

func TestSeveralClustersAreReachedInTheirOrder(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	clusters := []fleet.ClusterID{e.cluster}
	for i := range 3 {
		id := fleet.ClusterID(uuid.NewString())
		e.exec(`INSERT INTO cluster (tenant_id, id, name, mode, created_at, last_seen_at, data_at) VALUES ($1, $2, $3, 'enforce', now(), now(), now())`, e.tenant, id, fmt.Sprint("c", i))
		e.stock(id)
		clusters = append(clusters, id)
	}
	e.tick(0, clusters...)
	id := e.begin(capacity.Policy{MaxNodes: 50}, clusters...)
	e.until(id, inCanary, clusters...)
	for i, c := range clusters {
		if in := e.load(c); in.Turn.Proposed != (i == 0) {
			t.Errorf("first step: cluster %d has %+v", i, in.Turn)
		}
	}
	e.until(id, func(r store.CapacityRollout) bool { return r.Step == 1 }, clusters...)
	for i, c := range clusters {
		if in := e.load(c); !in.Turn.Proposed {
			t.Errorf("last step: cluster %d has %+v", i, in.Turn)
		}
	}
	e.exec(`UPDATE cluster SET frozen = true WHERE tenant_id = $1 AND id = $2`, e.tenant, clusters[2]) // the kill switch of one
	for range 15 {
		e.tick(2*time.Minute, clusters...)
		e.look(id)
	}
	if r := e.get(id); r.State != capacity.RolloutCanary || r.Step != 1 {
		t.Fatalf("with a frozen cluster it went to %s: %s", r.State, r.Outcome)
	}
	e.exec(`UPDATE cluster SET frozen = false WHERE tenant_id = $1`, e.tenant)
	if r := e.until(id, func(store.CapacityRollout) bool { return false }, clusters...); r.State != capacity.RolloutDone {
		t.Fatalf("%s: %s", r.State, r.Outcome)
	}
	for i, c := range clusters {
		if p := e.policy(c); p.Version != 1 {
			t.Errorf("cluster %d has version %d", i, p.Version)
		}
	}
}

func TestACapacityRolloutOfWhichNothingIsToldEndsAndNeverMovesOn(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	e.tick(0, e.cluster)
	id := e.begin(capacity.Policy{MaxNodes: 50}, e.cluster)
	e.until(id, inCanary, e.cluster)
	e.exec(`UPDATE cluster SET last_seen_at = now() - interval '1 hour' WHERE tenant_id = $1`, e.tenant)
	e.save(e.load(e.cluster)) // held: the inventory is old
	for range 20 {
		e.exec(`UPDATE capacity_rollout_part SET looked_at = looked_at - interval '2 minutes' WHERE tenant_id = $1`, e.tenant)
		e.look(id)
		if r := e.get(id); !r.Open() {
			if r.State != capacity.RolloutBack || r.Outcome != capacity.RolloutUntold || r.Step != 0 {
				t.Errorf("%s: %s at step %d", r.State, r.Outcome, r.Step)
			}
			return
		}
	}
	t.Fatalf("goes on for ever: %+v", e.get(id))
}

func TestTheHourlyMachinesOfARolloutBoundWhatItChanges(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	e.tick(0, e.cluster)
	id := e.begin(capacity.Policy{MaxNodes: 50}, e.cluster)
	e.until(id, inCanary, e.cluster)
	if in := e.load(e.cluster); !in.Turn.Proposed || in.Policy.MaxActions != 4 {
		t.Fatalf("%+v, %d actions", in.Turn, in.Policy.MaxActions)
	}
	e.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, zone, instance_type, purchase, phase, cpu_milli, mem_mib, started_at)
SELECT $1, $2, 'new' || i, 'new' || i, 'aws', 'us-east-1', 'us-east-1a', 'm5.large', 'on_demand', 'booting', 2000, 8000, data_at - interval '5 minutes' FROM generate_series(1, 3) i, cluster WHERE id = $2`, e.tenant, e.cluster)
	if in := e.load(e.cluster); !in.Turn.Proposed || in.Policy.MaxActions != 1 {
		t.Errorf("after three machines: %+v, %d actions", in.Turn, in.Policy.MaxActions)
	}
	e.exec(`UPDATE node SET ended_at = now() + interval '1 year' WHERE tenant_id = $1 AND uid = 'n1'`, e.tenant)
	in := e.load(e.cluster)
	if in.Turn.Proposed || in.Policy.MaxNodes != 0 || in.Turn.Rollout != id || held(in) != len(in.Nodes) {
		t.Errorf("after four: %+v, %d of %d machines held", in.Turn, held(in), len(in.Nodes))
	}
	if !e.save(in) {
		t.Error("the plan of the policy before is not kept")
	}
}

// Whatever people and processes do, in whatever order: the plan that may be carried out on a cluster is of the one policy that is in force there,
// and a cluster is in one open rollout at most.
func TestTwoCapacityPoliciesAreNeverInForceOnOneCluster(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	e.tick(0, e.cluster)
	random := rand.New(rand.NewSource(7))
	var open string
	var loaded []*capacity.Input
	quiet := func(fn func(ctx context.Context, tx *store.Tx) error) {
		err := e.db.Tenant(context.Background(), e.tenant, func(tx *store.Tx) error { return fn(context.Background(), tx) })
		var coded *fleet.Error
		if err != nil && (!errors.As(err, &coded) || coded.Code != fleet.CodeConflict) {
			t.Fatal(err)
		}
	}
	seen := map[capacity.RolloutState]int{}
	for n := range 160 {
		switch op := random.Intn(10); {
		case op < 3:
			e.tick(3*time.Minute, e.cluster)
		case op < 6 && open != "":
			e.look(open)
		case op == 6:
			quiet(func(ctx context.Context, tx *store.Tx) error {
				r := store.CapacityRollout{Document: capacity.Policy{MaxNodes: int64(100 + n)}, Hourly: 1 + random.Intn(5), CreatedBy: "test"}
				r.Shares, r.ShadowSec, r.StageSec = []int64{500, 1000}, 60, 300
				id, err := store.CreateCapacityRollout(ctx, tx, r, []fleet.ClusterID{e.cluster}, nil)
				if err == nil {
					open = id
				}
				return err
			})
		case op == 7:
			loaded = append(loaded, e.load(e.cluster))
		case op == 8 && len(loaded) > 0:
			e.save(loaded[0]) // a plan that took its time
			loaded = loaded[1:]
		case n%5 == 0:
			p := e.policy(e.cluster)
			quiet(func(ctx context.Context, tx *store.Tx) error {
				return store.SetCapacityPolicy(ctx, tx, e.cluster, capacity.Policy{MaxNodes: int64(10 + n)}, p.Version, "test")
			})
		case open != "":
			quiet(func(ctx context.Context, tx *store.Tx) error {
				r, err := store.CapacityRolloutOf(ctx, tx, open, true)
				if err != nil || !r.Open() || !r.End("by test") {
					return err
				}
				return store.SaveCapacityRollout(ctx, tx, &r, true, "", "test")
			})
		}
		if open != "" {
			seen[e.get(open).State]++
		}
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			turn, err := store.CapacityTurnOf(ctx, tx, e.cluster, false)
			if err != nil {
				return err
			}
			head, _, err := store.CapacityPlan(ctx, tx, e.cluster, "")
			if err != nil || tx.Now.Sub(head.CheckedAt) > groupPlanAge {
				return err // nobody carries it out any more
			}
			in, err := store.CapacityPlanInput(ctx, tx, e.cluster, head.ID)
			if err != nil {
				return err
			}
			if !in.Turn.Same(turn.Turn) {
				t.Errorf("after %d: a plan of %+v may be carried out while %+v is in force", n, in.Turn, turn.Turn)
			}
			want := turn.Policy
			if in.Turn.Proposed == turn.Proposed {
				want.MaxActions, in.Policy.MaxActions = 0, 0
				a, _ := json.Marshal(want)
				b, _ := json.Marshal(in.Policy)
				if string(a) != string(b) {
					t.Errorf("after %d: planned under %s while %s is in force", n, b, a)
				}
			}
			return nil
		})
		if k := e.number(`SELECT count(*) FROM capacity_rollout_part WHERE tenant_id = $1 AND open`, e.tenant); k > 1 {
			t.Fatalf("%d rollouts to one cluster", k)
		}
	}
	if seen[capacity.RolloutShadow] == 0 || seen[capacity.RolloutCanary] == 0 {
		t.Errorf("the story never came to a canary: %v", seen)
	}
}

func TestACapacityPlanThatARolloutOvertookIsNotKept(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	e.tick(0, e.cluster)
	id := e.begin(capacity.Policy{MaxNodes: 50}, e.cluster)
	e.until(id, inCanary, e.cluster)
	before := e.number(`SELECT count(*) FROM capacity_plan WHERE tenant_id = $1`, e.tenant)
	w := &CapacityPlan{DB: e.db, Prices: market.Catalogue, Log: e.log}
	w.decide = func(in capacity.Input, stop func() bool) (*capacity.Plan, error) {
		e.tx(func(ctx context.Context, tx *store.Tx) error { // while it searches, somebody takes the rollout back
			r, err := store.CapacityRolloutOf(ctx, tx, id, true)
			if err != nil {
				return err
			}
			r.End("by test")
			return store.SaveCapacityRollout(ctx, tx, &r, true, "", "test")
		})
		return capacity.Decide(in, stop)
	}
	if err := w.Work(context.Background(), &river.Job[CapacityPlanArgs]{Args: CapacityPlanArgs{Tenant: e.tenant, Cluster: e.cluster}}); err != nil {
		t.Fatal(err)
	}
	if after := e.number(`SELECT count(*) FROM capacity_plan WHERE tenant_id = $1`, e.tenant); after != before {
		t.Errorf("%d plans, before %d", after, before)
	}
	if n := e.number(`SELECT count(*) FROM capacity_plan WHERE tenant_id = $1 AND checked_at > now() - interval '10 minutes'`, e.tenant); n != 0 {
		t.Errorf("%d plans of the canary may be carried out", n)
	}
}
