package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

const replayedPolicy = "mode: enforce\nmin: 1\nmax: 30\nslo: {class: standard, requests_per_replica: 10}\n"

// pastOf writes hours of a wave of load as roll-ups of minutes, with an hour in which nobody said anything.
func (e *estate) pastOf(id fleet.WorkloadID, from time.Time, hours int) {
	e.t.Helper()
	ats, running, rate := []time.Time{}, []float32{}, []float32{}
	for i := range hours * 60 {
		if i/60 == hours/2 {
			continue
		}
		v := 50 + 30*math.Sin(float64(i)/120)
		ats, running, rate = append(ats, from.Add(time.Duration(i)*time.Minute)), append(running, float32(v)), append(rate, float32(v/10))
	}
	e.exec(`INSERT INTO rollup_1m (tenant_id, cluster_id, workload_id, at, samples, running_requests, request_rate, queue_length)
		SELECT $1, $2, $3, a, 4, r, q, 0 FROM unnest($4::timestamptz[], $5::real[], $6::real[]) AS u(a, r, q)`, e.tenant, e.cluster, id, ats, running, rate)
}

func TestAReplayScoresThePolicyInForceTheProposedOneAndBaselines(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeEnforce)
	to := time.Now().UTC().Truncate(time.Hour)
	from := to.Add(-24 * time.Hour)
	e.pastOf(id, from, 24)
	create := func() (out string) {
		e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			out, err = store.CreateReplay(ctx, tx, store.Replay{Workload: id, Document: replayedPolicy, CurrentVersion: 1, From: from, To: to, CreatedBy: "test",
				Options: store.ReplayOptions{Baselines: []string{"hpa-70", "static-peak"}}})
			return err
		})
		return out
	}
	replay := create()
	w := &ReplayWorker{DB: e.db, Prices: market.Catalogue, Log: slog.New(slog.DiscardHandler)}
	args := ReplayArgs{Tenant: e.tenant, Replay: replay}
	report, usable, err := w.play(context.Background(), args)
	if err != nil || !usable {
		t.Fatalf("usable %v, %v", usable, err)
	}
	if len(report.Rows) != 4 || report.Rows[0].Kind != lab.ContenderCurrent || report.Rows[1].Kind != lab.ContenderProposed || report.Bound <= 0 {
		t.Fatalf("rows %+v, bound %v", report.Rows, report.Bound)
	}
	if math.Abs(report.Covered-23.0/24) > 0.001 || report.LongestGap != 3600 {
		t.Errorf("covered %.4f, longest gap %d s; want 23 of 24 hours, an hour", report.Covered, report.LongestGap)
	}
	for _, r := range report.Rows[1:] {
		if r.Problem != "" || r.Ratio < 1 || r.Paid < report.Bound {
			t.Errorf("%s: %+v, bound %v", r.Policy, r, report.Bound)
		}
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if got, err := store.Replayed(ctx, tx, id, replayedPolicy); err != nil || got != "" {
			t.Errorf("it counts before it is done: %q, %v", got, err)
		}
		if err := store.FinishReplay(ctx, tx, replay, report, usable, ""); err != nil {
			return err
		}
		if got, err := store.Replayed(ctx, tx, id, replayedPolicy); err != nil || got != replay {
			t.Errorf("the replay of this very document is %q, %v; want %s", got, err, replay)
		}
		if got, err := store.Replayed(ctx, tx, id, replayedPolicy+"# other\n"); err != nil || got != "" {
			t.Errorf("another document counts as replayed: %q, %v", got, err)
		}
		row, err := store.ReplayOf(ctx, tx, replay)
		if err != nil {
			return err
		}
		var back lab.HistoryReport
		if err := json.Unmarshal(row.Result, &back); err != nil || len(back.Points) == 0 || row.State != store.ReplayDone {
			t.Errorf("stored as %s with %d points, %v", row.State, len(back.Points), err)
		}
		return nil
	})
	again := create()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if ended, err := store.CancelReplay(ctx, tx, again); err != nil || !ended {
			t.Errorf("cancel: %v, %v", ended, err)
		}
		return nil
	})
	if _, _, err := w.play(context.Background(), ReplayArgs{Tenant: e.tenant, Replay: again}); !errors.Is(err, errUnwanted) {
		t.Errorf("a cancelled replay is played: %v", err)
	}
}

func TestAReplayOfAHistoryThatNobodyToldSaysSo(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeEnforce)
	to := time.Now().UTC().Truncate(time.Hour)
	var replay string
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		replay, err = store.CreateReplay(ctx, tx, store.Replay{Workload: id, Document: replayedPolicy, From: to.Add(-5 * time.Hour), To: to, CreatedBy: "test"})
		if err != nil {
			return err
		}
		if _, err = store.CreateReplay(ctx, tx, store.Replay{Workload: id, Document: replayedPolicy, From: to.Add(-5 * time.Hour), To: to, CreatedBy: "test"}); err != nil {
			return err
		}
		_, third := store.CreateReplay(ctx, tx, store.Replay{Workload: id, Document: replayedPolicy, From: to.Add(-5 * time.Hour), To: to, CreatedBy: "test"})
		var told *fleet.Error
		if !errors.As(third, &told) || told.Code != fleet.CodeRateLimited {
			t.Errorf("a third open replay: %v; want it refused", third)
		}
		return nil
	})
	w := &ReplayWorker{DB: e.db, Log: slog.New(slog.DiscardHandler), Prices: market.Catalogue}
	_, _, err := w.play(context.Background(), ReplayArgs{Tenant: e.tenant, Replay: replay})
	var told *fleet.Error
	if !errors.As(err, &told) || told.Code != fleet.CodeInvalid {
		t.Errorf("got %v; want to be told that nothing is known", err)
	}
}
