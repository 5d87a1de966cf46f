package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// spotNode adds a ready Spot machine of a pool; a nil end means that it runs.
func (e *estate) spotNode(cluster fleet.ClusterID, name, pool, instanceType, zone string, from time.Time, to *time.Time) {
	e.t.Helper()
	e.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, pool, cloud, region, zone, instance_type, purchase, phase, started_at, ended_at)
VALUES ($1, $2, 'uid-' || $3::text, $3, $4, 'aws', left($6::text, length($6::text) - 1), $6, $5, 'spot', CASE WHEN $8::timestamptz IS NULL THEN 'ready' ELSE 'terminated' END, $7, $8)`,
		e.tenant, cluster, name, pool, instanceType, zone, from, to)
}

func (e *estate) event(cluster fleet.ClusterID, at time.Time, kind, object, reason, message string) {
	e.t.Helper()
	e.exec(`INSERT INTO cluster_event (tenant_id, cluster_id, at, stream, epoch, seq, position, kind, object, reason, message)
VALUES ($1, $2, $3, 's', 1, (SELECT count(*) FROM cluster_event), 0, $4, $5, $6, $7)`, e.tenant, cluster, at, kind, object, reason, message)
}

func (e *estate) learn() {
	e.t.Helper()
	w := &LearnAvailability{DB: e.db, Log: e.log}
	if err := w.Work(context.Background(), &river.Job[LearnAvailabilityArgs]{Args: LearnAvailabilityArgs{Tenant: e.tenant}}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *estate) model() (m *availability.Model) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		m, err = store.LoadAvailability(ctx, tx)
		return err
	})
	return m
}

func spotIn(zone, instanceType string) fleet.Offering {
	return fleet.Offering{Cloud: fleet.CloudAWS, Region: zone[:len(zone)-1], Zone: zone, InstanceType: instanceType, Purchase: fleet.PurchaseSpot}
}

func TestWhatClustersReportIsLearnedOnce(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	ended := at(120)
	e.spotNode(e.cluster, "a", "gpu", "g5.xlarge", "us-east-1a", at(0), nil)
	e.spotNode(e.cluster, "b", "gpu", "g5.xlarge", "us-east-1a", at(1), &ended) // reclaimed, with a notice
	e.spotNode(e.cluster, "c", "cpu", "m5.large", "us-east-1b", at(2), &ended)  // given back
	e.spotNode(e.cluster, "d", "cpu", "m5.large", "us-east-1b", at(3), &ended)  // taken without a notice
	e.event(e.cluster, at(118), "interruption_notice", "Node/b", "SpotInterruption", "will be reclaimed")
	e.event(e.cluster, at(120), "node_lost", "Node/b", "SpotInterruption", "was reclaimed")
	e.event(e.cluster, at(120), "node_lost", "Node/c", "Gone", "the node left the cluster")
	e.event(e.cluster, at(120), "node_lost", "Node/d", "Preempted", "the cloud took it")
	e.event(e.cluster, at(121), "capacity_failure", "NodePool/gpu", "InsufficientInstanceCapacity", "no g5.xlarge spot in us-east-1c")
	e.event(e.cluster, at(122), "capacity_failure", "NodePool/nobody-knows", "InsufficientInstanceCapacity", "none left")
	e.event(e.cluster, at(123), "oom", "Pod/x/y", "OOMKilled", "no supply")
	e.dataAt(at(125))
	e.learn()

	m := e.model()
	g5, m5, dry := m.Score(spotIn("us-east-1a", "g5.xlarge"), at(125)), m.Score(spotIn("us-east-1b", "m5.large"), at(125)), m.Score(spotIn("us-east-1c", "g5.xlarge"), at(125))
	near := func(got, want float64) bool { return got > want-0.05 && got <= want+0.001 }
	if !near(g5.Interruptions, 0.5) || !near(g5.Attempts, 2) || g5.StockOuts != 0 {
		t.Errorf("g5.xlarge: interruptions %v of half a pool, attempts %v", g5.Interruptions, g5.Attempts)
	}
	if !near(m5.Interruptions, 0.5) {
		t.Errorf("m5.large: interruptions %v, want the half that the cloud took", m5.Interruptions)
	}
	if !near(dry.StockOuts, 1) || !dry.BackoffUntil.IsZero() || dry.Failures != 1 || dry.AvailableNow > 0.2 {
		t.Errorf("us-east-1c: stock-outs %v, available %v", dry.StockOuts, dry.AvailableNow)
	}
	if got := len(m.Offerings()); got != 3 {
		t.Errorf("%d offerings, want 3: %v", got, m.Offerings())
	}
	before := m.State()
	e.learn()
	e.learn()
	if diff := cmp.Diff(before, e.model().State()); diff != "" {
		t.Errorf("learning again changed the model: %s", diff)
	}
}

func TestALateReportIsLearnedToo(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.spotNode(e.cluster, "a", "gpu", "g5.xlarge", "us-east-1a", start, nil)
	e.dataAt(start.Add(2 * time.Hour))
	e.learn()
	e.event(e.cluster, start.Add(time.Hour), "interruption_notice", "Node/a", "SpotInterruption", "late")
	e.dataAt(start.Add(3 * time.Hour))
	e.learn()
	if got := e.model().Score(spotIn("us-east-1a", "g5.xlarge"), start.Add(3*time.Hour)).Interruptions; got < 0.9 {
		t.Errorf("interruptions %v", got)
	}
}

func TestClustersOfATenantShareWhatTheyLearn(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	second := fleet.ClusterID(uuid.NewString())
	e.exec(`INSERT INTO cluster (tenant_id, id, name, mode, created_at, data_at) VALUES ($1, $2, 'second', 'observe', now(), $3)`, e.tenant, second, start.Add(time.Hour))
	e.dataAt(start.Add(time.Hour))
	e.spotNode(e.cluster, "a", "gpu", "g5.xlarge", "us-east-1a", start, nil)
	e.spotNode(second, "a", "gpu", "g5.xlarge", "us-east-1b", start, nil)
	e.event(second, start.Add(time.Hour), "capacity_failure", "NodePool/gpu", "InsufficientInstanceCapacity", "no g5.xlarge spot in us-east-1a")
	e.event(second, start.Add(time.Hour), "capacity_failure", "NodePool/gpu", "InsufficientInstanceCapacity", "no g5.xlarge spot in us-east-1a")
	e.exec(`UPDATE node SET zone = 'us-east-1a' WHERE tenant_id = $1 AND cluster_id = $2`, e.tenant, second)
	e.learn()
	s := e.model().Score(spotIn("us-east-1a", "g5.xlarge"), start.Add(time.Hour))
	if s.StockOuts < 1.9 || s.Attempts < 3.9 {
		t.Errorf("stock-outs %v, attempts %v, want those of both clusters", s.StockOuts, s.Attempts)
	}
}

func TestAFloodIsLearnedInRounds(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.spotNode(e.cluster, "a", "gpu", "g5.xlarge", "us-east-1a", start, nil)
	e.exec(`INSERT INTO cluster_event (tenant_id, cluster_id, at, stream, epoch, seq, position, kind, object, reason, message)
SELECT $1, $2, $3::timestamptz + make_interval(secs => i), 's', 1, i, 0, 'capacity_failure', 'NodePool/gpu', 'InsufficientInstanceCapacity', 'no g5.xlarge spot in us-east-1a'
FROM generate_series(1, 12000) i`, e.tenant, e.cluster, start)
	e.dataAt(start.Add(4 * time.Hour))
	e.learn()
	if got := e.number(`SELECT count(*) FROM availability_event WHERE tenant_id = $1 AND kind = 'exhausted'`, e.tenant); got != 12000 {
		t.Errorf("%d of 12000 events were read", got)
	}
	e.learn()
	if got := e.number(`SELECT count(*) FROM availability_event WHERE tenant_id = $1`, e.tenant); got != 12001 {
		t.Errorf("%d events after reading again", got)
	}
}

func TestWhatIsOldIsForgotten(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.spotNode(e.cluster, "a", "gpu", "g5.xlarge", "us-east-1a", start, nil)
	e.dataAt(start.Add(time.Hour))
	e.learn()
	e.dataAt(start.Add(store.AvailabilityKept + 2*time.Hour))
	e.learn()
	if got := e.number(`SELECT count(*) FROM availability_event WHERE tenant_id = $1`, e.tenant); got != 0 {
		t.Errorf("%d old events are left", got)
	}
}

func TestATenantLearnsFromItsOwnOnly(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.spotNode(e.cluster, "a", "gpu", "g5.xlarge", "us-east-1a", start, nil)
	e.dataAt(start.Add(time.Hour))
	other := fleet.TenantID(uuid.NewString())
	ctx := context.Background()
	err := e.db.Tenant(ctx, other, func(tx *store.Tx) error {
		_, err := tx.PGX().Exec(ctx, `INSERT INTO tenant (tenant_id, name, created_at) VALUES ($1, 'Other', now())`, other)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	e.learn()
	w := &LearnAvailability{DB: e.db, Log: e.log}
	if err := w.Work(ctx, &river.Job[LearnAvailabilityArgs]{Args: LearnAvailabilityArgs{Tenant: other}}); err != nil {
		t.Fatal(err)
	}
	err = e.db.Tenant(ctx, other, func(tx *store.Tx) error {
		m, err := store.LoadAvailability(ctx, tx)
		if err == nil && len(m.Offerings()) != 0 {
			err = fmt.Errorf("the other tenant knows %v", m.Offerings())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPricesReachTheModel(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.spotNode(e.cluster, "a", "gpu", "g5.xlarge", "us-east-1a", start, nil)
	e.dataAt(start.Add(time.Hour))
	e.exec(`INSERT INTO spot_pool (cloud, region, zone, instance_type, product, at, spot_nano, on_demand_nano, seen_at, source)
VALUES ('aws', 'us-east-1', 'us-east-1a', 'g5.xlarge', 'Linux/UNIX', $1, 950000000, 1000000000, $1, 'test')`, start)
	e.learn()
	if got := e.model().Score(spotIn("us-east-1a", "g5.xlarge"), start.Add(time.Hour)).PriceRatio; got != 0.95 {
		t.Errorf("price ratio %v", got)
	}
}
