package jobs

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// shed is a database with one cluster and its workers running.
type shed struct {
	t       *testing.T
	db      *store.DB
	owner   *pgx.Conn
	queue   *Enqueuer
	tenant  fleet.TenantID
	cluster fleet.ClusterID
	heard   chan store.Event
}

func openShed(t *testing.T) *shed {
	t.Helper()
	ctx := context.Background()
	d := devdb.ForTest(t, store.MigrateUp)
	s := &shed{t: t, heard: make(chan store.Event, 256)}
	var err error
	if s.db, err = store.Open(ctx, d.ServiceURL, store.Options{MaxConns: 16}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)
	if s.owner, err = pgx.Connect(ctx, d.OwnerURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.owner.Close(ctx) })
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if s.queue, err = NewEnqueuer(s.db, log); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := s.db.CreateTenant(ctx, store.NewTenant{Name: "Shed", Owner: store.NewUser{Email: "owner@" + uuid.NewString() + ".test", DisplayName: "Owner", PasswordHash: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	s.tenant = tenant.ID
	err = s.db.Tenant(ctx, s.tenant, func(tx *store.Tx) (err error) {
		s.cluster, err = store.CreateCluster(ctx, tx, "one", fleet.ModeObserve)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// work runs the workers until the test ends.
func (s *shed) work() {
	s.t.Helper()
	client, err := New(Config{}, Deps{DB: s.db, Prices: market.Catalogue, Log: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
		Registry: prometheus.NewRegistry()})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 2)
	listening := make(chan struct{})
	go func() { done <- client.Run(ctx) }()
	go func() {
		done <- s.db.Listen(ctx, func() { close(listening) }, func(e store.Event) { s.heard <- e }, func(error) {})
	}()
	<-listening
	s.t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-done; err != nil {
				s.t.Error(err)
			}
		}
	})
}

func (s *shed) number(sql string, args ...any) (n int) {
	s.t.Helper()
	if err := s.owner.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// until looks again after every event of the database, and every now and then.
func (s *shed) until(what string, ok func() bool) {
	s.t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-s.heard:
		case <-tick.C:
		case <-deadline.C:
			s.t.Fatalf("after half a minute still not: %s", what)
		}
	}
}

func (s *shed) frames(n int, from time.Time) {
	s.t.Helper()
	src, err := s.db.OpenSource(context.Background(), s.tenant, s.cluster, &agentv1.Hello{Stream: "controller", Epoch: 1, SimulatedClock: true, ClockSpeed: 60})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range n {
		at := from.Add(time.Duration(i) * time.Minute).UnixMilli()
		payload, err := frame.Encode(frame.Frame{Ticks: []int64{at, at + 30_000}, Series: []uint32{1}, Values: [][]float64{{1, 3}}}, frame.Limits{})
		if err != nil {
			s.t.Fatal(err)
		}
		out, err := src.Ingest(context.Background(), from, []*agentv1.Report{{Seq: src.LastSeq + 1, AtMs: at + 60_000, Body: &agentv1.Report_Frame{Frame: &agentv1.Frame{
			FromMs: at, ToMs: at + 60_000, Payload: payload,
			Series: []*agentv1.SeriesDef{{Id: 1, Kind: "workload", Entity: "a/Deployment/b", Field: "replicas"}}}}}}, s.queue)
		if err != nil || out[0].Result != "accepted" {
			s.t.Fatal(out, err)
		}
	}
}

var morning = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)

func TestReportsAreRolledUpByThemselves(t *testing.T) {
	t.Parallel()
	s := openShed(t)
	s.work()
	s.frames(130, morning)
	s.until("the first block is kept, the second shows its minutes", func() bool {
		return s.number("SELECT count(*) FROM telemetry_chunk") == 1 && s.number("SELECT count(*) FROM rollup_1m") == 130
	})
	if n := s.number("SELECT count(*) FROM rollup_dirty"); n != 1 {
		t.Errorf("%d blocks are dirty, want the running one", n)
	}
}

// A process that is killed leaves its jobs running on paper. Another one takes them over at once, since nobody holds its name.
func TestJobsOfADeadProcessRunAgain(t *testing.T) {
	t.Parallel()
	s := openShed(t)
	s.frames(125, morning) // asks for a compaction
	ctx := context.Background()
	if n := s.number("SELECT count(*) FROM river_job WHERE kind = 'compact' AND state = 'available'"); n != 1 {
		t.Fatalf("%d compactions wait, want 1: one is asked for at a time", n)
	}
	holder := &orphans{config: s.db.Pool().Config().ConnConfig, name: uuid.NewString(), log: slog.New(slog.DiscardHandler)}
	conn, err := holder.hold(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.owner.Exec(ctx, `UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = ARRAY[$1] WHERE kind = 'compact'`, holder.name); err != nil {
		t.Fatal(err)
	}
	other := &orphans{config: holder.config, name: uuid.NewString(), log: holder.log}
	mine, err := other.hold(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close(ctx)
	if n, err := other.adopt(ctx, mine); n != 0 || err != nil {
		t.Errorf("%d jobs of a living process were taken (%v)", n, err)
	}
	_ = conn.Close(ctx) // as the kernel does when the process is killed; from now on its jobs are orphans
	s.work()
	s.until("the orphan ran", func() bool { return s.number("SELECT count(*) FROM telemetry_chunk") == 1 })
	s.until("no job is left running", func() bool {
		return s.number("SELECT count(*) FROM river_job WHERE kind = 'compact' AND state = 'running'") == 0
	})
}
