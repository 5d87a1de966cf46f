package store_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// part stores one report of a tick: workloads with their queues.
func (b *planBench) part(at time.Time, queues map[string]float64) {
	b.t.Helper()
	b.seq++
	o := &agentv1.Observation{AtMs: at.UnixMilli()}
	for key, queue := range queues {
		o.Workloads = append(o.Workloads, &agentv1.WorkloadObservation{Workload: key, Replicas: 2, Ready: 2, Signals: []*agentv1.Signal{{Name: "queue_length", Value: queue, AtMs: at.UnixMilli(), PodsReported: 2}}})
	}
	body, err := proto.Marshal(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.tx(func(tx *store.Tx) error {
		_, err := tx.PGX().Exec(context.Background(), `INSERT INTO observation (tenant_id, cluster_id, at, stream, epoch, seq, body) VALUES ($1, $2, $3, 'controller', 1, $4, $5)`, tx.Tenant, b.cluster, at, b.seq, body)
		return err
	})
}

// latest is what the list of workloads is told of each workload's queue.
func (b *planBench) latest() map[string]float64 {
	b.t.Helper()
	out := map[string]float64{}
	b.tx(func(tx *store.Tx) error {
		all, err := store.LatestObservations(context.Background(), tx, []fleet.ClusterID{b.cluster})
		for key, w := range all[b.cluster] {
			out[key] = w.GetSignals()[0].GetValue()
		}
		return err
	})
	return out
}

// An agent tells a large cluster in parts: reports of the same time with different workloads.
func TestLatestObservationsReadEveryPartOfALargeCluster(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeApprove)
	const one, two, three = "ns/Deployment/a", "ns/Deployment/b", "ns/Deployment/c"
	tick := func(n int) time.Time { return b.at.Add(time.Duration(n) * 15 * time.Second) }
	want := func(when string, expected map[string]float64) {
		t.Helper()
		if got := b.latest(); !maps.Equal(got, expected) {
			t.Errorf("%s: %v, want %v", when, got, expected)
		}
	}
	want("before the first report", map[string]float64{})
	b.part(tick(0), map[string]float64{one: 10})
	b.part(tick(0), map[string]float64{two: 20})
	b.part(tick(0), map[string]float64{three: 30})
	want("all parts of the first tick", map[string]float64{one: 10, two: 20, three: 30})
	b.part(tick(1), map[string]float64{one: 11})
	want("the tick before fills in what is still to come", map[string]float64{one: 11, two: 20, three: 30})
	b.part(tick(1), map[string]float64{two: 21})
	b.part(tick(1), map[string]float64{three: 31})
	want("all parts of the second tick", map[string]float64{one: 11, two: 21, three: 31})
	b.part(tick(2), map[string]float64{one: 12})
	b.part(tick(3), map[string]float64{one: 13})
	want("what two ticks have not told is gone", map[string]float64{one: 13})
	b.part(tick(-1), map[string]float64{two: 19})
	want("a late report changes nothing", map[string]float64{one: 13})
}
