package jobs

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

func TestTheNextSettingIsOneNotchAway(t *testing.T) {
	t.Parallel()
	grid := func(paid []float64, late []float64) (out []store.TuneTried) {
		for i, aim := range tuneGrid {
			out = append(out, store.TuneTried{Aim: aim, Paid: paid[i], Late: late[i], OnTime: late[i] <= 0.005})
		}
		return out
	}
	falling := []float64{100, 95, 90, 86, 83}
	for _, c := range []struct {
		name    string
		paid    []float64
		late    []float64
		current float64
		next    float64
		reason  string
	}{
		{"the cheapest on time is in force", falling, []float64{0.001, 0.002, 0.004, 0.008, 0.01}, 0.6, 0.6, tuneKept},
		{"thriftier by one notch, not by two", falling, []float64{0.001, 0.002, 0.003, 0.004, 0.005}, 0.45, 0.6, tuneCheaper},
		{"too late: more careful by one notch", falling, []float64{0.001, 0.002, 0.004, 0.008, 0.01}, 0.9, 0.75, tuneCareful},
		{"none is on time", falling, []float64{0.01, 0.02, 0.03, 0.04, 0.05}, 0.6, 0.45, tuneCareful},
		{"none is on time, and none is more careful", falling, []float64{0.01, 0.02, 0.03, 0.04, 0.05}, 0.3, 0.3, tuneMostCareful},
		{"the careful one is cheaper, too", []float64{80, 95, 90, 86, 83}, []float64{0.001, 0.001, 0.001, 0.001, 0.001}, 0.6, 0.45, tuneCheaper},
		{"all cost the same", []float64{80, 80, 80, 80, 80}, []float64{0, 0, 0, 0, 0}, 0.9, 0.9, tuneKept},
	} {
		if next, reason := nextAim(grid(c.paid, c.late), c.current); next != c.next || reason != c.reason {
			t.Errorf("%s: %v, %s; want %v, %s", c.name, next, reason, c.next, c.reason)
		}
	}
	now, thrifty, late := store.TuneTried{Paid: 10, Late: 0.005, OnTime: true}, store.TuneTried{Paid: 9, Late: 0.009, OnTime: true}, store.TuneTried{Paid: 9, Late: 0.02}
	if !confirmed(now, thrifty, tuneCheaper) || confirmed(now, late, tuneCheaper) || confirmed(thrifty, now, tuneCheaper) || !confirmed(late, now, tuneCareful) || confirmed(now, late, tuneCareful) {
		t.Error("held-out days confirm what they should not, or not what they should")
	}
}

func TestATuningThatTakesTooLongSaysSo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	policy, _ := optimizer.ParsePolicy([]byte(replayedPolicy))
	in := &tuneInput{policy: policy, to: now, row: store.WorkloadRow{ID: "w", PolicyDoc: replayedPolicy, PolicyVersion: 1}}
	for i := range 10 * 1440 {
		v := 20.0
		in.minutes = append(in.minutes, store.PastMinute{At: now.Add(time.Duration(i-10*1440) * time.Minute), Running: &v, RequestRate: &v})
	}
	if found, report := in.tune(func() bool { return true }); found.State != store.TuningRefused || found.Reason != tuneSlow || report != nil {
		t.Errorf("%+v", found)
	}
}

// tuned runs the tuning of a workload as the job does, without River.
func (e *estate) tuned(id fleet.WorkloadID) store.Tuning {
	e.t.Helper()
	w := &Tune{DB: e.db, Prices: market.Catalogue, Log: slog.New(slog.DiscardHandler)}
	in, err := w.load(context.Background(), TuneArgs{Tenant: e.tenant, Workload: id})
	if err != nil || in == nil {
		e.t.Fatalf("%+v, %v", in, err)
	}
	found, report := in.tune(func() bool { return false })
	e.tx(func(ctx context.Context, tx *store.Tx) error { return w.keep(ctx, tx, in, &found, report) })
	var list []store.Tuning
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = store.Tunings(ctx, tx, id, 10)
		return err
	})
	if len(list) == 0 {
		e.t.Fatal("nothing was kept")
	}
	return list[0]
}

func (e *estate) sloWorkload(name, document string, now time.Time) fleet.WorkloadID {
	e.t.Helper()
	id := e.planned(name, fleet.ModeEnforce)
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3 WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, now)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: id, Document: document, Mode: fleet.ModeEnforce, CreatedBy: "test"}, 1)
		return err
	})
	return id
}

func TestAShortHistoryIsNotTunedOnAndSaysSo(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	now := time.Now().UTC().Truncate(time.Hour)
	id := e.sloWorkload("llm", "mode: enforce\nmax: 30\nslo: {requests_per_replica: 10}\n", now)
	off := e.sloWorkload("off", "mode: enforce\nmax: 30\nslo: {requests_per_replica: 10, tuning: \"off\"}\n", now)
	e.planned("queue", fleet.ModeEnforce)
	if found := e.tuned(id); found.State != store.TuningRefused || found.Reason != tuneShort || found.Result.Need != 9 || found.Result.Days != 0 {
		t.Errorf("without a history: %+v", found)
	}
	e.pastOf(id, now.Add(-5*24*time.Hour), 5*24)
	if found := e.tuned(id); found.State != store.TuningRefused || found.Reason != tuneShort || found.Result.Days != 5 || found.ReplayID != nil {
		t.Errorf("after five days: %+v", found)
	}
	w := &Tune{DB: e.db, Prices: market.Catalogue, Log: slog.New(slog.DiscardHandler)}
	if in, err := w.load(context.Background(), TuneArgs{Tenant: e.tenant, Workload: off}); in != nil || err != nil {
		t.Errorf("a policy that wants none is tuned: %v, %v", in, err)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		due, err := store.TuneDue(ctx, tx, time.Hour, 10) // only those with the rule, and not twice a day
		if len(due) != 0 {
			t.Errorf("due: %v", due)
		}
		if err == nil {
			due, err = store.TuneDue(ctx, tx, -time.Hour, 10)
		}
		if len(due) != 1 || due[0] != id {
			t.Errorf("due a day later: %v", due)
		}
		return err
	})
}

// A load that comes in bursts every hour, whose day has weight enough that the settings differ.
func (e *estate) burstsOf(id fleet.WorkloadID, from time.Time, days int) {
	e.t.Helper()
	ats, running, rate := []time.Time{}, []float32{}, []float32{}
	x := uint32(1)
	for i := range days * 1440 {
		x = x*1664525 + 1013904223
		v := 60 + 40*math.Sin(2*math.Pi*float64(i)/1440) + 30*float64(x>>8)/float64(1<<24)
		if i%97 < 4 {
			v *= 1.6
		}
		ats, running, rate = append(ats, from.Add(time.Duration(i)*time.Minute)), append(running, float32(v)), append(rate, float32(v/10))
	}
	e.exec(`INSERT INTO rollup_1m (tenant_id, cluster_id, workload_id, at, samples, running_requests, request_rate, queue_length)
		SELECT $1, $2, $3, a, 4, r, q, 0 FROM unnest($4::timestamptz[], $5::real[], $6::real[]) AS u(a, r, q)`, e.tenant, e.cluster, id, ats, running, rate)
}

func TestATuningIsProposedCheckedOnHeldOutDaysAndRolledOutWhereThePolicySaysSo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("replays a hundred days of load")
	}
	e := newEstate(t)
	now := time.Now().UTC().Truncate(time.Hour)
	document := "mode: enforce\nmin: 1\nmax: 40\nslo:\n  requests_per_replica: 10\n  class: economy # they can wait\n  aim_share: 0.3\n  tuning: apply\n"
	id := e.sloWorkload("llm", document, now)
	e.burstsOf(id, now.Add(-10*24*time.Hour), 10)
	found := e.tuned(id)
	t.Logf("%s, %s in %v: chosen on %v %+v, held out %v %+v", found.State, found.Reason, found.Took, found.Result.Chosen, found.Result.Tried, found.Result.Held, found.Result.Out)
	r := found.Result
	if len(r.Tried) != len(tuneGrid) || r.Chosen == nil || !r.Chosen.To.Equal(now.Add(-tuneHeldOut)) || r.Objective != 0.1 || r.Current != 0.3 {
		t.Fatalf("%+v", r)
	}
	if found.State != store.TuningProposed {
		t.Fatalf("a load that can wait is served as if it could not: %s, %s", found.State, found.Reason)
	}
	if found.Reason != tuneCheaper || r.Proposed != 0.45 || len(r.Out) != 2 || r.Out[1].Paid >= r.Out[0].Paid || r.Out[1].Late > r.Objective || !r.Held.From.Equal(now.Add(-tuneHeldOut)) {
		t.Errorf("%+v", r)
	}
	if found.Document != strings.Replace(document, "aim_share: 0.3", "aim_share: 0.45", 1) {
		t.Errorf("proposed\n%s", found.Document)
	}
	if found.ReplayID == nil || found.RolloutID == nil {
		t.Fatalf("no replay or no rollout: %+v", found)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if replay, err := store.Replayed(ctx, tx, id, found.Document); err != nil || replay != *found.ReplayID {
			t.Errorf("the proposal is not replayed: %q, %v", replay, err)
		}
		if err := store.DismissTuning(ctx, tx, id, found.ID, "test"); err != nil {
			return err
		}
		return nil
	})
	if again := e.tuned(id); again.RolloutID != nil { // one is under way
		t.Errorf("a second rollout: %+v", again)
	}
}
