package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/spread"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// pair is a service in two clusters: one where machines are dear, and one where they are cheap.
type pair struct {
	t           *testing.T
	dear, cheap *estate
	ids         map[*estate]fleet.WorkloadID
	service     string
	seq         int64
	client      *river.Client[pgx.Tx]
	events      <-chan *river.Event
}

func newPair(t *testing.T) *pair {
	t.Helper()
	e := newEstate(t)
	p := &pair{t: t, dear: e, cheap: e.second(), ids: map[*estate]fleet.WorkloadID{}}
	e.exec(`UPDATE cluster SET name = 'a-dear' WHERE tenant_id = $1 AND id = $2`, e.tenant, p.dear.cluster)
	e.exec(`UPDATE cluster SET name = 'b-cheap' WHERE tenant_id = $1 AND id = $2`, e.tenant, p.cheap.cluster)
	for c, region := range map[*estate]string{p.dear: "sa-east-1", p.cheap: "us-east-1"} {
		p.ids[c] = c.planned("web", fleet.ModeEnforce)
		e.exec(`UPDATE workload SET cpu_milli = 3500, mem_mib = 8000, labels = '{"plimsoll.dev/service": "web"}' WHERE tenant_id = $1 AND id = $2`, e.tenant, p.ids[c])
		for i := range 3 {
			e.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, pool, cloud, region, zone, instance_type, purchase, phase, cpu_milli, mem_mib, started_at, ready_at)
VALUES ($1, $2, $3, $3, 'web', 'aws', $4, $4 || 'a', 'm5.2xlarge', 'on_demand', 'ready', 8000, 32768, now() - interval '1 day', now() - interval '1 day')`, e.tenant, c.cluster, fmt.Sprintf("n%d", i), region)
		}
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.SetTenantPrice(ctx, tx, store.TenantPrice{Cloud: "aws", Region: "sa-east-1", InstanceType: "m5.2xlarge", Purchase: fleet.PurchaseOnDemand, Hour: usd(t, "0.80"), ValidFrom: start})
	})
	workers := river.NewWorkers()
	river.AddWorker(workers, &PlanWorker{DB: e.db, Prices: market.Catalogue, Log: e.log})
	river.AddWorker(workers, &CapacityPlan{DB: e.db, Prices: market.Catalogue, Log: e.log})
	river.AddWorker(workers, &ServicePlan{DB: e.db, Log: e.log})
	river.AddWorker(workers, &ServiceSweep{DB: e.db})
	fast := river.QueueConfig{MaxWorkers: 2, FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond}
	client, err := river.NewClient(riverpgxv5.New(e.db.Pool()), &river.Config{Workers: workers, Logger: e.log, RetryPolicy: soon{},
		Queues: map[string]river.QueueConfig{queueBulk: fast, queuePlan: fast, river.QueueDefault: fast}})
	if err != nil {
		t.Fatal(err)
	}
	var cancel func()
	p.events, cancel = client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled)
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.client = client
	t.Cleanup(func() {
		stop, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := client.StopAndCancel(stop); err != nil {
			t.Error(err)
		}
		cancel()
	})
	return p
}

// run runs a job to its end.
func (p *pair) run(args river.JobArgs) {
	p.t.Helper()
	p.dear.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := p.client.InsertTx(ctx, tx.PGX(), args, nil)
		return err
	})
	select {
	case ev := <-p.events:
		if ev.Kind != river.EventKindJobCompleted || ev.Job.Kind != args.Kind() {
			p.t.Fatalf("%s ended as %s: %+v", ev.Job.Kind, ev.Kind, ev.Job.Errors)
		}
	case <-time.After(time.Minute):
		p.t.Fatal("no job ended")
	}
}

// tell is a report of a cluster: so many replicas, so many of them ready, and work for so many; its pods are where its machines have room.
func (p *pair) tell(c *estate, replicas, ready, need int) {
	p.t.Helper()
	p.seq++
	at := time.Now().UTC()
	o := &agentv1.Observation{AtMs: at.UnixMilli(), Workloads: []*agentv1.WorkloadObservation{{Workload: "chat/Deployment/web", Replicas: int32(replicas), Ready: int32(ready),
		Signals: []*agentv1.Signal{{Name: "queue_length", Value: float64(10 * need), AtMs: at.UnixMilli(), PodsReported: int32(ready)}}}}}
	body, err := proto.Marshal(o)
	if err != nil {
		p.t.Fatal(err)
	}
	c.exec(`INSERT INTO observation (tenant_id, cluster_id, at, stream, epoch, seq, body) VALUES ($1, $2, $3, 'controller', 1, $4, $5)`, c.tenant, c.cluster, at, p.seq, body)
	c.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3 WHERE tenant_id = $1 AND id = $2`, c.tenant, c.cluster, at)
	c.exec(`DELETE FROM pod WHERE tenant_id = $1 AND cluster_id = $2`, c.tenant, c.cluster)
	for i := range replicas {
		node, phase, readyAt := fmt.Sprintf("n%d", i/2), "ready", any(at.Add(-time.Hour))
		if i >= ready || i >= 6 {
			node, phase, readyAt = "", "pending", nil
		}
		c.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, cpu_milli, mem_mib, created_at, ready_at) VALUES ($1, $2, $3, $3, 'chat', 'chat/Deployment/web', $4, $5, 3500, 8000, $6, $7)`,
			c.tenant, c.cluster, fmt.Sprintf("p%d", i), node, phase, at.Add(-time.Hour), readyAt)
	}
}

// decide plans the replicas of a cluster, and returns the workload's newest decision.
func (p *pair) decide(c *estate) optimizer.Decision {
	p.t.Helper()
	p.run(PlanArgs{Tenant: c.tenant, Cluster: c.cluster})
	var d optimizer.Decision
	c.tx(func(ctx context.Context, tx *store.Tx) error {
		var doc []byte
		if err := tx.PGX().QueryRow(ctx, `SELECT detail FROM decision WHERE tenant_id = $1 AND workload_id = $2 ORDER BY id DESC LIMIT 1`, tx.Tenant, p.ids[c]).Scan(&doc); err != nil {
			return err
		}
		return json.Unmarshal(doc, &d)
	})
	return d
}

// split plans the service.
func (p *pair) split() (plan *spread.Plan) {
	p.t.Helper()
	p.run(ServicePlanArgs{Tenant: p.dear.tenant, Service: p.service})
	p.dear.tx(func(ctx context.Context, tx *store.Tx) error {
		_, in, found, err := store.ServicePlan(ctx, tx, p.service, "")
		if err != nil {
			return err
		}
		plan = found
		again, err := spread.Decide(in) // it computes again from what was kept
		if err != nil {
			return err
		}
		a, _ := json.Marshal(found)
		b, _ := json.Marshal(again)
		if string(a) != string(b) {
			p.t.Errorf("stored %s\ncomputed again %s", a, b)
		}
		return nil
	})
	return plan
}

func (p *pair) save(mode fleet.Mode, rules spread.Rules, version int) {
	p.t.Helper()
	p.dear.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p.service, err = store.SaveService(ctx, tx, store.Service{ID: p.service, Name: "web", Mode: mode, Rules: rules, Version: version}, "test")
		return err
	})
}

func (p *pair) bounds() int64 {
	return p.dear.number(`SELECT count(*) FROM service_bound WHERE tenant_id = $1`, p.dear.tenant)
}

func TestAServiceIsSplitOverTwoClusters(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.tell(p.dear, 4, 4, 4)
	p.tell(p.cheap, 2, 2, 2)
	for _, c := range []*estate{p.dear, p.cheap} {
		p.decide(c)
		p.run(CapacityPlanArgs{Tenant: c.tenant, Cluster: c.cluster})
	}
	p.save(fleet.ModeRecommend, spread.Rules{Traffic: spread.TrafficBalanced}, 0)
	plan := p.split()
	if len(plan.Parts) != 2 || plan.Outcome != spread.OutcomeMove || plan.Demand != 6 || plan.Parts[0].Target != 1 || plan.Parts[1].Target != 5 || plan.After >= plan.Before {
		text, _ := json.MarshalIndent(plan, "", " ")
		t.Fatalf("%s", text)
	}
	if p.bounds() != 0 {
		t.Error("advice bounds a policy")
	}
	if d := p.decide(p.cheap); d.Target != 2 {
		t.Errorf("advice is carried out: %+v", d)
	}
	// In enforce the cheap cluster grows first; the dear one keeps all until that is ready.
	p.save(fleet.ModeEnforce, spread.Rules{Traffic: spread.TrafficBalanced}, 1)
	plan = p.split()
	if *plan.Parts[1].Floor != 5 || *plan.Parts[0].Cap != 4 || plan.Parts[0].Wait != spread.WaitReady || p.bounds() != 2 {
		t.Fatalf("%+v", plan.Parts)
	}
	if d := p.decide(p.cheap); d.Target != 5 || d.Binding != optimizer.ReasonServiceMin || d.Min != 1 {
		t.Fatalf("%+v", d)
	}
	p.cheap.tx(func(ctx context.Context, tx *store.Tx) error { // and its agent is told
		told, err := store.PendingPlan(ctx, tx, p.cheap.cluster)
		if err != nil || told == nil || len(told.GetActions()) != 1 || told.GetActions()[0].GetTo() != 5 {
			t.Errorf("%v %v", told, err)
		}
		return nil
	})
	if d := p.decide(p.dear); d.Target != 4 {
		t.Fatalf("%+v", d)
	}
	p.tell(p.cheap, 5, 4, 2) // two more are ready, one is not
	p.tell(p.dear, 4, 4, 4)
	p.split()
	if d := p.decide(p.dear); d.Target != 3 || d.Binding != optimizer.ReasonServiceMax { // one of four at once
		t.Fatalf("%+v", d)
	}
	// It falls silent: nothing is taken from the dear one any more, and nothing is known of it.
	p.tell(p.dear, 3, 3, 3)
	p.cheap.exec(`UPDATE cluster SET last_seen_at = now() - interval '10 minutes' WHERE tenant_id = $1 AND id = $2`, p.cheap.tenant, p.cheap.cluster)
	p.decide(p.dear)
	plan = p.split()
	if plan.Parts[1].Held != spread.HeldSilent || plan.Parts[1].Target != 5 || plan.Parts[0].Target < 3 || p.bounds() != 1 {
		t.Fatalf("%+v", plan.Parts)
	}
	if d := p.decide(p.dear); d.Target < 3 {
		t.Fatalf("%+v", d)
	}
	p.tell(p.dear, 3, 3, 7) // a surge is not held back by the bound, though no plan saw it
	if d := p.decide(p.dear); d.Target != 7 {
		t.Fatalf("%+v", d)
	}
	// Off: everybody goes by their own policies again.
	p.save(store.ModeOff, spread.Rules{}, 2)
	if p.bounds() != 0 {
		t.Error("a service that is off bounds a policy")
	}
	p.run(ServicePlanArgs{Tenant: p.dear.tenant, Service: p.service})
}

func TestServicesAreSweptAndOldBoundsEnd(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.tell(p.dear, 4, 4, 4)
	p.tell(p.cheap, 2, 2, 2)
	for _, c := range []*estate{p.dear, p.cheap} {
		p.decide(c)
		p.run(CapacityPlanArgs{Tenant: c.tenant, Cluster: c.cluster})
	}
	p.save(fleet.ModeEnforce, spread.Rules{Traffic: spread.TrafficBalanced}, 0)
	p.run(ServiceSweepArgs{})
	if ev := <-p.events; ev.Kind != river.EventKindJobCompleted || ev.Job.Kind != "service_plan" {
		t.Fatalf("%s %s %+v", ev.Job.Kind, ev.Kind, ev.Job.Errors)
	}
	p.run(ServiceSweepArgs{}) // a moment later nothing is due
	if n := p.dear.number(`SELECT count(*) FROM service_plan WHERE tenant_id = $1`, p.dear.tenant); n != 1 || p.bounds() != 2 {
		t.Fatalf("%d plans, %d bounds", n, p.bounds())
	}
	p.dear.exec(`UPDATE service_bound SET at = now() - interval '1 hour' WHERE tenant_id = $1`, p.dear.tenant)
	if d := p.decide(p.cheap); d.Target != 2 {
		t.Errorf("a bound of an hour ago holds: %+v", d)
	}
	// A plan without prices moves nothing.
	p.dear.exec(`UPDATE capacity_plan SET checked_at = now() - interval '1 hour' WHERE tenant_id = $1`, p.dear.tenant)
	if plan := p.split(); plan.Outcome != spread.OutcomeHeld || plan.Parts[0].Held != spread.HeldPrice || p.bounds() != 0 {
		t.Errorf("%+v", plan)
	}
}

func TestAnUnsoundServicePlanIsNotKept(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.tell(p.dear, 4, 4, 4)
	p.save(fleet.ModeEnforce, spread.Rules{}, 0)
	w := &ServicePlan{DB: p.dear.db, Log: p.dear.log, decide: func(in spread.Input) (*spread.Plan, error) {
		plan, err := spread.Decide(in)
		if err == nil {
			plan.Target += 2
		}
		return plan, err
	}}
	err := w.Work(context.Background(), &river.Job[ServicePlanArgs]{Args: ServicePlanArgs{Tenant: p.dear.tenant, Service: p.service}})
	if err == nil || !strings.Contains(err.Error(), "fails its check") {
		t.Errorf("%v", err)
	}
	if n := p.dear.number(`SELECT count(*) FROM service_plan WHERE tenant_id = $1`, p.dear.tenant); n != 0 {
		t.Error("it is kept")
	}
}
