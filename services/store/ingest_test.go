package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// site is a tenant with a cluster of its own.
type site struct {
	db      *store.DB
	d       devdb.Database
	tenant  fleet.TenantID
	cluster fleet.ClusterID
}

func newSite(t testing.TB) site {
	t.Helper()
	d := devdb.ForTest(t, store.MigrateUp)
	db, err := store.Open(context.Background(), d.ServiceURL, store.Options{MaxConns: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s := site{db: db, d: d, tenant: fleet.TenantID(uuid.NewString())}
	s.cluster = s.addCluster(t, s.tenant, "one")
	return s
}

func (s site) addCluster(t testing.TB, tenant fleet.TenantID, name string) (id fleet.ClusterID) {
	t.Helper()
	s.tx(t, tenant, func(ctx context.Context, tx *store.Tx) (err error) {
		id, err = store.CreateCluster(ctx, tx, name, fleet.ModeRecommend)
		return err
	})
	return id
}

func (s site) tx(t testing.TB, tenant fleet.TenantID, fn func(context.Context, *store.Tx) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.db.Tenant(ctx, tenant, func(tx *store.Tx) error { return fn(ctx, tx) }); err != nil {
		t.Fatal(err)
	}
}

func (s site) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error { return tx.PGX().QueryRow(ctx, query, args...).Scan(&n) })
	return n
}

func (s site) compact(t testing.TB, block time.Time) (c store.Compacted) {
	t.Helper()
	s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) (err error) {
		c, err = store.CompactBlock(ctx, tx, s.cluster, block)
		return err
	})
	return c
}

// day is a data time; replayed clusters may live at any.
var day = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func hello(epoch uint64) *agentv1.Hello {
	return &agentv1.Hello{Stream: "controller", Epoch: epoch, AgentVersion: "1.0.0", SimulatedClock: true, ClockSpeed: 1, NowMs: day.UnixMilli()}
}

func (s site) open(t testing.TB, h *agentv1.Hello) *store.Source {
	t.Helper()
	src, err := s.db.OpenSource(context.Background(), s.tenant, s.cluster, h)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func ingest(t testing.TB, src *store.Source, reports ...*agentv1.Report) []store.Outcome {
	t.Helper()
	out, err := src.Ingest(context.Background(), day, reports, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != len(reports) {
		t.Fatalf("%d answers to %d reports", len(out), len(reports))
	}
	return out
}

// observation is a report that stores one row.
func observation(seq uint64, at time.Time) *agentv1.Report {
	return &agentv1.Report{Seq: seq, AtMs: at.UnixMilli(), Body: &agentv1.Report_Observation{Observation: &agentv1.Observation{
		AtMs: at.UnixMilli(),
		Workloads: []*agentv1.WorkloadObservation{{Workload: "serving/Deployment/chat", Replicas: 3, Ready: 2, Signals: []*agentv1.Signal{
			{Name: "request_rate", Value: 4, AtMs: at.UnixMilli(), PodsReported: 2}}}},
	}}}
}

// frameReport packs columns of one workload: values[field][tick], 15 s apart.
func frameReport(t testing.TB, seq uint64, from time.Time, announce bool, key string, fields []string, values [][]float64) *agentv1.Report {
	t.Helper()
	f := frame.Frame{Values: values}
	body := &agentv1.Frame{FromMs: from.UnixMilli(), ToMs: from.UnixMilli() + int64(len(values[0]))*15_000}
	for i := range values[0] {
		f.Ticks = append(f.Ticks, from.UnixMilli()+int64(i)*15_000)
	}
	for i, field := range fields {
		id := uint32(i + 1)
		f.Series = append(f.Series, id)
		if announce {
			body.Series = append(body.Series, &agentv1.SeriesDef{Id: id, Kind: "workload", Entity: key, Field: field})
		}
	}
	var err error
	if body.Payload, err = frame.Encode(f, frame.Limits{}); err != nil {
		t.Fatal(err)
	}
	return &agentv1.Report{Seq: seq, AtMs: body.GetToMs(), Body: &agentv1.Report_Frame{Frame: body}}
}

func results(out []store.Outcome) string {
	var s []string
	for _, o := range out {
		s = append(s, o.Result)
	}
	return fmt.Sprint(s)
}

func code(err error) fleet.Code {
	var coded *fleet.Error
	if errors.As(err, &coded) {
		return coded.Code
	}
	return ""
}

func TestReportsAreStoredOnceAndInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(5))
	if got := results(ingest(t, src, observation(1, day), observation(2, day.Add(time.Second)))); got != "[accepted accepted]" {
		t.Fatal(got)
	}
	out := ingest(t, src, observation(2, day.Add(time.Second)), observation(3, day.Add(2*time.Second)), observation(5, day))
	if got := results(out); got != "[duplicate accepted gap]" || out[2].Expected != 4 {
		t.Fatal(got, out[2])
	}
	if n := s.count(t, "SELECT count(*) FROM observation"); n != 3 {
		t.Errorf("%d observations stored, want 3", n)
	}
	newer := s.open(t, hello(6))
	if newer.LastSeq != 0 {
		t.Errorf("a new epoch begins at %d", newer.LastSeq)
	}
	if out := ingest(t, src, observation(4, day)); out[0].Code != agentv1.RejectCode_REJECT_CODE_FENCED {
		t.Errorf("the old epoch was answered %v", out[0])
	}
	if _, err := s.db.OpenSource(context.Background(), s.tenant, s.cluster, hello(5)); code(err) != fleet.CodeConflict {
		t.Errorf("the old epoch may come back: %v", err)
	}
	ingest(t, newer, observation(1, day))
	if again := s.open(t, hello(6)); again.LastSeq != 1 {
		t.Errorf("the same epoch goes on at %d, want 1", again.LastSeq)
	}
	if _, err := s.db.OpenSource(context.Background(), "11111111-1111-4111-8111-111111111111", s.cluster, hello(7)); code(err) != fleet.CodeNotFound {
		t.Errorf("another tenant may write into the cluster: %v", err)
	}
}

func TestFramesBecomeChunksAndRollUps(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	key, fields := "serving/Deployment/chat", []string{"request_rate", "replicas"}
	seq := uint64(0)
	for m := range 2 * 60 { // a frame a minute, four ticks each
		values := [][]float64{{float64(m), float64(m) + 2, math.NaN(), float64(m) + 4}, {3, 3, 3, 3}}
		seq++
		if out := ingest(t, src, frameReport(t, seq, day.Add(time.Duration(m)*time.Minute), m == 0, key, fields, values)); out[0].Result != "accepted" {
			t.Fatal(out)
		}
		if m == 10 { // the running block already shows minutes
			s.compact(t, day)
			if n := s.count(t, "SELECT count(*) FROM rollup_1m"); n != 11 {
				t.Errorf("%d minutes of the running block, want 11", n)
			}
			if n := s.count(t, "SELECT samples FROM rollup_1h"); n != 44 {
				t.Errorf("the running hour has %d samples, want 44", n)
			}
		}
	}
	s.compact(t, day)
	if c := s.compact(t, day); !c.Skipped {
		t.Errorf("a running block without news was rolled up again: %+v", c)
	}
	if n := s.count(t, "SELECT count(*) FROM telemetry_chunk"); n != 0 {
		t.Errorf("%d chunks before the block is over", n)
	}
	ingest(t, src, observation(seq+1, day.Add(2*time.Hour+5*time.Minute)))
	for range 2 { // the second time half of the frames are gone, and nothing changes
		if c := s.compact(t, day); !c.Closed || c.Chunks != 1 {
			t.Fatalf("%+v", c)
		}
		var replicas, rate, top float64
		s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
			return tx.PGX().QueryRow(ctx, "SELECT replicas, request_rate, request_rate_max FROM rollup_1h WHERE at = $1", day.Add(time.Hour)).Scan(&replicas, &rate, &top)
		})
		if replicas != 3 || rate != 60+29.5+2 || top != 119+4 {
			t.Errorf("second hour: %v replicas, rate %v, at most %v", replicas, rate, top)
		}
		if n := s.count(t, "SELECT sum(samples)::int FROM rollup_1d"); n != 480 {
			t.Errorf("the day has %d samples, want 480", n)
		}
		if n := s.count(t, "SELECT samples FROM telemetry_chunk"); n != 480+360 {
			t.Errorf("the chunk has %d samples", n)
		}
		if n := s.count(t, "SELECT count(*) FROM rollup_dirty WHERE block_at = $1", day); n != 0 {
			t.Errorf("the block is still dirty")
		}
		s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error { // as if a late frame had come after the others were pruned
			_, err := tx.PGX().Exec(ctx, "DELETE FROM telemetry_frame WHERE from_at >= $1", day.Add(time.Hour))
			if err == nil {
				_, err = tx.PGX().Exec(ctx, "INSERT INTO rollup_dirty (tenant_id, cluster_id, block_at, marked_at) VALUES ($1, $2, $3, $3)", string(s.tenant), string(s.cluster), day)
			}
			return err
		})
	}
	s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
		ticks, columns, ok, err := store.Chunk(ctx, tx, s.cluster, "workload", key, day)
		if err != nil || !ok || len(ticks) != 480 || columns[1].Field != "request_rate" || columns[1].Values[4*7+1] != 9 || !math.IsNaN(columns[1].Values[4*7+2]) {
			t.Errorf("chunk reads back as %d ticks, %v, %v", len(ticks), ok, err)
		}
		return nil
	})
}

// A backlog arrives as one run: a later frame may use what an earlier one of the same run announced.
func TestFramesOfARunMayUseWhatTheRunAnnounced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	value := [][]float64{{1, 2}}
	out := ingest(t, src,
		frameReport(t, 1, day, true, "a/Deployment/b", []string{"replicas"}, value),
		frameReport(t, 2, day.Add(time.Minute), false, "", []string{"replicas"}, value),
		frameReport(t, 3, day.Add(2*time.Minute), true, "a/Deployment/other", []string{"replicas"}, value))
	if got := results(out); got != "[accepted accepted malformed]" {
		t.Errorf("%s: %s", got, out[2].Detail)
	}
}
