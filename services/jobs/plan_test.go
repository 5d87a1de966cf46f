package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const testPolicy = "mode: MODE\nmin: 1\nmax: 8\nqueue: {target_per_replica: 10}\nup: {cooldown_seconds: -1}\ndown: {cooldown_seconds: -1, stabilisation_seconds: -1}\nfilter: {window_seconds: -1}\n"

// planned puts a workload under a policy; the cluster is in the same mode.
func (e *estate) planned(name string, mode fleet.Mode) fleet.WorkloadID {
	e.t.Helper()
	id := e.workload(name, "red")
	e.exec(`UPDATE cluster SET mode = $3 WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, mode)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: id, Document: strings.ReplaceAll(testPolicy, "MODE", string(mode)), Mode: mode, CreatedBy: "test"}, 0)
		return err
	})
	return id
}

// observe stores what the agent sees of the workloads, now: two replicas each, with so much work waiting.
func (e *estate) observe(seq int64, queue float64, names ...string) {
	e.t.Helper()
	at := time.Now().UTC().Truncate(time.Second).Add(time.Duration(seq-100) * time.Second)
	o := &agentv1.Observation{AtMs: at.UnixMilli()}
	for _, n := range names {
		o.Workloads = append(o.Workloads, &agentv1.WorkloadObservation{Workload: "chat/Deployment/" + n, Replicas: 2, Ready: 2,
			Signals: []*agentv1.Signal{{Name: "queue_length", Value: queue, AtMs: at.UnixMilli(), PodsReported: 2}}})
	}
	body, err := proto.Marshal(o)
	if err != nil {
		e.t.Fatal(err)
	}
	e.exec(`INSERT INTO observation (tenant_id, cluster_id, at, stream, epoch, seq, body) VALUES ($1, $2, $3, 'controller', 1, $4, $5)`, e.tenant, e.cluster, at, seq, body)
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3 WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, at)
}

// planners is a running River client with a planning worker.
type planners struct {
	e      *estate
	client *river.Client[pgx.Tx]
	events <-chan *river.Event
}

func (e *estate) planners(w *PlanWorker) *planners {
	e.t.Helper()
	w.DB, w.Prices, w.Log = e.db, market.Catalogue, e.log
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(riverpgxv5.New(e.db.Pool()), &river.Config{Workers: workers, Logger: e.log,
		Queues:      map[string]river.QueueConfig{queuePlan: {MaxWorkers: 4, FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond}},
		RetryPolicy: soon{}})
	if err != nil {
		e.t.Fatal(err)
	}
	p := &planners{e: e, client: client}
	var cancel func()
	p.events, cancel = client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled)
	if err := client.Start(context.Background()); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		stop, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := client.StopAndCancel(stop); err != nil {
			e.t.Error(err)
		}
		cancel()
	})
	return p
}

// soon tries a failed job again at once.
type soon struct{}

func (soon) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

func (p *planners) ask(cluster fleet.ClusterID) {
	p.e.t.Helper()
	p.e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := p.client.InsertTx(ctx, tx.PGX(), PlanArgs{Tenant: tx.Tenant, Cluster: cluster}, nil)
		return err
	})
}

// next waits for a run to end.
func (p *planners) next() *river.Event {
	p.e.t.Helper()
	select {
	case e := <-p.events:
		return e
	case <-time.After(30 * time.Second):
		p.e.t.Fatal("no job ended")
		return nil
	}
}

func (p *planners) done() {
	p.e.t.Helper()
	if e := p.next(); e.Kind != river.EventKindJobCompleted {
		p.e.t.Fatalf("the job ended as %s: %+v", e.Kind, e.Job.Errors)
	}
}

func (e *estate) plans() int64 {
	e.t.Helper()
	return e.number(`SELECT count(*) FROM plan WHERE tenant_id = $1`, e.tenant)
}

func (e *estate) decisions() (rows []store.DecisionRow) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		rows, err = store.Decisions(ctx, tx, store.DecisionFilter{Limit: 100})
		return err
	})
	return rows
}

func TestManyRequestsAfterOneObservationMakeOnePlan(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.planned("llm", fleet.ModeEnforce)
	e.observe(1, 60, "llm")
	listening, stop := context.WithCancel(context.Background())
	heard, ready, ended := make(chan store.Event, 100), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- e.db.Listen(listening, func() { close(ready) }, func(ev store.Event) { heard <- ev }, func(error) {})
	}()
	defer func() { stop(); <-ended }()
	<-ready
	p := e.planners(&PlanWorker{})
	const asked = 6
	for range asked {
		p.ask(e.cluster)
	}
	for range asked {
		p.done()
	}
	rows := e.decisions()
	if e.plans() != 1 || len(rows) != 1 || rows[0].State != "dispatched" || rows[0].Target != 6 {
		t.Fatalf("%d plans, decisions %+v", e.plans(), rows)
	}
	select {
	case ev := <-heard:
		if ev.Kind != store.EventPlan || ev.ID != string(rows[0].PlanID) || ev.Cluster != e.cluster {
			t.Errorf("the doors were told %+v", ev)
		}
	case <-time.After(30 * time.Second):
		t.Error("the doors were not told")
	}
	if n := e.number(`SELECT count(*) FROM river_job WHERE state <> 'completed'`); n != 0 {
		t.Errorf("%d jobs are not completed", n)
	}
}

// Plan and completion share a transaction: nobody sees one without the other, and a job that is taken away takes its plan along.
func TestAPlanAndItsJobCommitTogether(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.planned("llm", fleet.ModeEnforce)
	e.observe(1, 60, "llm")
	decided := make(chan int, 2)
	runs := 0
	p := e.planners(&PlanWorker{decide: func(in optimizer.Input) (optimizer.Plan, error) {
		if running, memories := e.number(`SELECT count(*) FROM river_job WHERE state = 'running'`), e.number(`SELECT count(*) FROM planner_memory WHERE tenant_id = $1`, e.tenant); running != 1 || memories != 0 || e.plans() != 0 {
			t.Errorf("while deciding: %d running jobs, %d plans, %d memories", running, e.plans(), memories)
		}
		if runs++; runs == 1 {
			e.exec(`DELETE FROM river_job`)
		}
		decided <- runs
		return optimizer.Decide(in)
	}})
	p.ask(e.cluster)
	<-decided
	p.ask(e.cluster) // waits for the cluster's lock, and then finds nothing of the first
	p.done()
	if e.plans() != 1 || e.number(`SELECT count(*) FROM river_job WHERE state = 'completed'`) != 1 {
		t.Errorf("%d plans", e.plans())
	}
}

func TestADatabaseConnectionKilledWhilePlanningLeavesNothingAndThePlanIsMade(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.planned("llm", fleet.ModeEnforce)
	e.observe(1, 60, "llm")
	kills := 0
	p := e.planners(&PlanWorker{decide: func(in optimizer.Input) (optimizer.Plan, error) {
		if kills++; kills == 1 {
			// The planner's own transaction is the only one that waits inside of a transaction for us.
			if n := e.number(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND state = 'idle in transaction' AND pid <> pg_backend_pid()`); n != 1 {
				t.Errorf("%d connections were killed", n)
			}
		} else if e.plans() != 0 || len(e.decisions()) != 0 {
			t.Error("the killed transaction left something")
		}
		return optimizer.Decide(in)
	}})
	p.ask(e.cluster)
	if ev := p.next(); ev.Kind != river.EventKindJobFailed {
		t.Fatalf("the job whose connection was killed ended as %s", ev.Kind)
	}
	p.done()
	if rows := e.decisions(); e.plans() != 1 || len(rows) != 1 || kills != 2 {
		t.Errorf("%d plans, %d decisions, decided %d times", e.plans(), len(rows), kills)
	}
}

func TestModesOfAClusterSettleWhatIsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		mode      fleet.Mode
		frozen    bool
		decisions int
		outcome   string
		state     string
	}{
		{"observe writes nothing", fleet.ModeObserve, false, 0, "", ""},
		{"recommend notes", fleet.ModeRecommend, false, 1, "scale_up", "noted"},
		{"approve proposes", fleet.ModeApprove, false, 1, "scale_up", "proposed"},
		{"enforce sends", fleet.ModeEnforce, false, 1, "scale_up", "dispatched"},
		{"frozen holds", fleet.ModeEnforce, true, 1, "hold", "noted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t)
			e.planned("llm", c.mode)
			e.exec(`UPDATE cluster SET frozen = $3 WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, c.frozen)
			e.observe(1, 60, "llm")
			p := e.planners(&PlanWorker{})
			p.ask(e.cluster)
			p.done()
			rows := e.decisions()
			if len(rows) != c.decisions || e.plans() != int64(c.decisions) {
				t.Fatalf("%d decisions in %d plans, want %d", len(rows), e.plans(), c.decisions)
			}
			if c.decisions == 0 {
				return
			}
			if rows[0].Outcome != c.outcome || rows[0].State != c.state || (c.frozen && rows[0].Binding != string(optimizer.ReasonFrozen)) {
				t.Errorf("%+v", rows[0])
			}
			var pending *agentv1.Plan
			e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
				pending, err = store.PendingPlan(ctx, tx, e.cluster)
				return err
			})
			if (pending != nil) != (c.state == "dispatched") {
				t.Errorf("the agent gets %v", pending)
			}
		})
	}
}

func TestAClusterThatIsGoneIsAskedForOnce(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	p := e.planners(&PlanWorker{})
	p.ask(fleet.ClusterID(uuid.NewString()))
	if ev := p.next(); ev.Kind != river.EventKindJobCancelled || ev.Job.Attempt != 1 {
		t.Errorf("ended as %s at attempt %d", ev.Kind, ev.Job.Attempt)
	}
	p.ask(e.cluster) // exists, never reported: nothing to do
	p.done()
	if e.plans() != 0 {
		t.Errorf("%d plans", e.plans())
	}
}

// One broken decision keeps no other workload waiting; a plan that is wrong as a whole is not saved.
func TestOnlySoundDecisionsAreSaved(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	bad, good := e.planned("bad", fleet.ModeEnforce), e.planned("good", fleet.ModeEnforce)
	e.observe(1, 60, "bad", "good")
	whole := false
	count := prometheus.NewCounter(prometheus.CounterOpts{Name: "unsound"})
	p := e.planners(&PlanWorker{Unsound: count, decide: func(in optimizer.Input) (optimizer.Plan, error) {
		plan, err := optimizer.Decide(in)
		if whole {
			plan.Generation++
			return plan, err
		}
		for i := range plan.Decisions {
			if d := &plan.Decisions[i]; d.Workload == bad {
				d.Target = 99 // above the policy's max
			}
		}
		return plan, err
	}})
	p.ask(e.cluster)
	p.done()
	rows := e.decisions()
	if len(rows) != 1 || rows[0].Workload != good || testutil.ToFloat64(count) != 1 {
		t.Errorf("saved %+v, counted %v", rows, testutil.ToFloat64(count))
	}
	if n := e.number(`SELECT count(*) FROM planner_memory WHERE tenant_id = $1 AND workload_id = $2`, e.tenant, bad); n != 0 {
		t.Error("a decision that was thrown out is remembered")
	}
	e.observe(2, 10, "bad", "good")
	plans := e.plans()
	whole = true
	p.ask(e.cluster)
	for range 3 {
		if ev := p.next(); ev.Kind != river.EventKindJobFailed {
			t.Fatalf("a plan of the wrong generation ended as %s", ev.Kind)
		}
	}
	if e.plans() != plans {
		t.Error("a plan that is wrong as a whole was saved")
	}
}

func TestASweepFindsWhatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeApprove)
	e.observe(1, 60, "llm")
	e.exec(`INSERT INTO rollup_dirty (tenant_id, cluster_id, block_at, marked_at) VALUES ($1, $2, $3, now())`, e.tenant, e.cluster, start)
	queue, err := NewEnqueuer(e.db, e.log)
	if err != nil {
		t.Fatal(err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &Sweep{DB: e.db, Log: e.log})
	river.AddWorker(workers, &Compact{DB: e.db}) // known, but no queue of theirs is worked on here
	river.AddWorker(workers, &CloseHour{DB: e.db, Prices: market.Catalogue, Log: e.log})
	client, err := river.NewClient(riverpgxv5.New(e.db.Pool()), &river.Config{Workers: workers, Logger: e.log, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	events, cancel := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	defer cancel()
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := client.StopAndCancel(stop); err != nil {
			t.Error(err)
		}
	}()
	sweep := func() {
		t.Helper()
		e.tx(func(ctx context.Context, tx *store.Tx) error { return queue.insert(ctx, tx, SweepArgs{}) })
		select {
		case ev := <-events:
			if ev.Kind != river.EventKindJobCompleted {
				t.Fatalf("the sweep ended as %s: %+v", ev.Kind, ev.Job.Errors)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the sweep did not end")
		}
	}
	waiting := func(kind string) int64 {
		return e.number(`SELECT count(*) FROM river_job WHERE kind = $1 AND state = 'available'`, kind)
	}
	alerts := func(where string) int64 {
		return e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = 'agent_offline' AND `+where, e.tenant)
	}
	sweep()
	sweep()
	if c, h := waiting("compact"), waiting("close_hour"); c != 1 || h != 1 {
		t.Errorf("%d compactions and %d costings wait, want one each", c, h)
	}
	if n := alerts("true"); n != 0 {
		t.Errorf("%d alerts about an agent that reports", n)
	}
	planner := e.planners(&PlanWorker{})
	planner.ask(e.cluster)
	planner.done()
	if rows := e.decisions(); len(rows) != 1 || rows[0].State != "proposed" || rows[0].Workload != id {
		t.Fatalf("decisions %+v", rows)
	}
	e.exec(`UPDATE cluster SET last_seen_at = last_seen_at - interval '1 hour' WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster)
	sweep()
	sweep()
	if open, all := alerts("resolved_at IS NULL"), alerts("true"); open != 1 || all != 1 {
		t.Errorf("after an hour of silence: %d open alerts of %d", open, all)
	}
	if rows := e.decisions(); rows[0].State != "expired" {
		t.Errorf("after an hour of silence the proposal is %s", rows[0].State)
	}
	e.observe(2, 60, "llm")
	sweep()
	sweep()
	if open, all := alerts("resolved_at IS NULL"), alerts("true"); open != 0 || all != 1 {
		t.Errorf("after the agent came back: %d open alerts of %d", open, all)
	}
}

func TestAWorkerKilledWhilePlanningLeavesItsJobToAnother(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.planned("llm", fleet.ModeEnforce)
	e.observe(1, 60, "llm")
	errStopped := errors.New("stopped")
	entered := make(chan struct{}, 1)
	release := make(chan struct{})
	first := e.planners(&PlanWorker{decide: func(optimizer.Input) (optimizer.Plan, error) {
		entered <- struct{}{}
		<-release
		return optimizer.Plan{}, errStopped
	}})
	first.ask(e.cluster)
	<-entered
	stop, done := context.WithTimeout(context.Background(), time.Millisecond)
	defer done()
	go func() { <-stop.Done(); close(release) }()
	_ = first.client.StopAndCancel(stop)
	if ev := first.next(); ev.Kind != river.EventKindJobFailed {
		t.Fatalf("ended as %s", ev.Kind)
	}
	if e.plans() != 0 {
		t.Error("the stopped planner left a plan")
	}
	second := e.planners(&PlanWorker{})
	second.done()
	if rows := e.decisions(); e.plans() != 1 || len(rows) != 1 {
		t.Errorf("%d plans", e.plans())
	}
}
