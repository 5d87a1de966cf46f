package jobs

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// look runs the watch at a data time and returns the open alerts of a kind, by subject without ids.
func (e *estate) look(kind string, at time.Time) (open []store.Alert) {
	e.t.Helper()
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3 WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, at)
	w := &Watch{DB: e.db, Log: e.log}
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		if err = w.Look(ctx, tx); err != nil {
			return err
		}
		open, err = store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Kind: kind, Limit: 100})
		return err
	})
	return open
}

// rounds looks again and again and fails unless as many alerts of the kind are open as wanted each time; never may there have been more than all.
func (e *estate) rounds(kind string, all int64, rounds []round) {
	e.t.Helper()
	for _, r := range rounds {
		if r.first != nil {
			r.first()
		}
		if open := e.look(kind, r.at); len(open) != r.open {
			e.t.Errorf("%s: %d open, want %d: %+v", r.what, len(open), r.open, open)
		}
	}
	if _, ever := e.alerts(kind); ever != all {
		e.t.Errorf("%s was told %d times, want %d", kind, ever, all)
	}
	if n := e.number(`SELECT count(*) FROM alert_event v JOIN alert a ON a.tenant_id = v.tenant_id AND a.id = v.alert_id WHERE a.tenant_id = $1 AND a.kind = $2 AND v.event = 'alert.opened'`,
		e.tenant, kind); n != all {
		e.t.Errorf("%d openings to be told of %s, want %d", n, kind, all)
	}
}

type round struct {
	what  string
	at    time.Time
	first func()
	open  int
}

// remember puts a workload's memory.
func (e *estate) remember(id fleet.WorkloadID, m optimizer.Memory) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.SaveMemory(ctx, tx, map[fleet.WorkloadID]optimizer.Memory{id: m})
	})
}

func bound(by optimizer.ReasonCode, news, at time.Time) optimizer.Memory {
	return optimizer.Memory{LastBinding: by, LastNews: &news, LastAt: &at, LastOutcome: optimizer.OutcomeHold}
}

func TestABudgetThatHoldsIsToldOnceUntilItHasLetGoForHalfAnHour(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeEnforce)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	is := func(by optimizer.ReasonCode, minutes int) func() {
		return func() { e.remember(id, bound(by, at(minutes), at(minutes))) }
	}
	e.rounds(AlertBudgetHeld, 2, []round{
		{"held", at(1), is(optimizer.ReasonBudget, 1), 1},
		{"held still", at(2), is(optimizer.ReasonBudget, 2), 1},
		{"free for a moment", at(3), is(optimizer.ReasonSteady, 3), 1},
		{"held again: the same trouble", at(20), is(optimizer.ReasonBudgetOver, 20), 1},
		{"free", at(21), is(optimizer.ReasonSteady, 21), 1},
		{"free for 29 minutes", at(50), is(optimizer.ReasonSteady, 50), 1},
		{"free for half an hour", at(51), is(optimizer.ReasonSteady, 51), 0},
		{"held anew: another trouble", at(60), is(optimizer.ReasonBudgetUnknown, 60), 1},
	})
}

func TestAWorkloadWithoutFreshSignalsIsToldAfterTenMinutes(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeEnforce)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	e.rounds(AlertSilent, 1, []round{
		{"just now", at(1), func() { e.remember(id, bound(optimizer.ReasonNoSignal, at(0), at(1))) }, 0},
		{"for ten minutes", at(11), func() { e.remember(id, bound(optimizer.ReasonNoSignal, at(0), at(11))) }, 1},
		{"nothing is decided any more: that it is over is not believed at once", at(40), nil, 1},
		{"signals are back", at(46), func() { e.remember(id, bound(optimizer.ReasonSteady, at(41), at(46))) }, 0},
	})
}

func TestAClusterWhoseClockIsOffIsTold(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	skew := func(ms int, simulated bool) func() {
		return func() {
			e.exec(`UPDATE cluster SET skew_ms = $3, simulated_clock = $4 WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, ms, simulated)
		}
	}
	e.rounds(AlertSkew, 1, []round{
		{"a little", at(0), skew(29_000, false), 0},
		{"a simulated clock", at(1), skew(-3_600_000, true), 0},
		{"behind", at(2), skew(-30_000, false), 1},
		{"ahead", at(3), skew(90_000, false), 1},
		{"set right", at(4), skew(10, false), 1},
		{"for five minutes", at(9), nil, 0},
	})
}

func TestThrashCountsCyclesOfTheLastHour(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.planned("llm", fleet.ModeEnforce)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	swings := func(n int) func() { // a change every four minutes from minute 0: up, down, up...
		return func() {
			m := optimizer.Memory{}
			for i := range n {
				c := optimizer.Change{At: at(4 * i), From: 2, To: 4}
				if i%2 == 1 {
					c.From, c.To = 4, 2
				}
				m.Changes = append(m.Changes, c)
			}
			e.remember(id, m)
		}
	}
	e.rounds(AlertThrash, 1, []round{
		{"two cycles are damped", at(20), swings(5), 0},
		{"three cycles", at(28), swings(7), 1},
		{"four cycles", at(36), swings(9), 1},
		{"they grow old", at(80), nil, 1},
		{"and stay away", at(111), nil, 0},
	})
}

func TestAnObjectiveThatBurnsIsToldByHowFast(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	id := e.workload("llm", "red")
	const document = "mode: enforce\nmin: 1\nmax: 8\nslo: {requests_per_replica: 8, late_share: 0.01}\n"
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: id, Document: document, Mode: fleet.ModeEnforce, CreatedBy: "test"}, 0)
		return err
	})
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	late := func(from, minutes int, share float32) func() {
		return func() { e.told(id, at(from), minutes, share, 0) }
	}
	e.rounds(AlertBurn, 1, []round{
		{"an hour of health", at(59), late(0, 60, 0), 0},
		{"half of the requests are late for a quarter of an hour: 12.5 % of an hour", at(74), late(60, 15, 0.5), 0},
		{"for five minutes more: over 14.4 %", at(79), late(75, 5, 0.5), 1},
		{"health again: the short window is clear, the alert waits", at(85), late(80, 6, 0), 1},
		{"relapse: the same trouble", at(91), late(86, 6, 0.6), 1},
		{"health", at(97), late(92, 6, 0), 1},
		{"for a quarter of an hour", at(112), late(98, 15, 0), 0},
	})
	if _, all := e.alerts(AlertSlowBurn); all != 0 {
		t.Errorf("an hour of data speaks of days: %d alerts", all)
	}
}

func TestTheDetailOfABurningObjectiveIsExact(t *testing.T) {
	t.Parallel()
	p := &store.Promised{ID: "w", Key: "chat/Deployment/llm", Team: "red"}
	fill := func(v float64) {
		for i, d := range store.BurnWindows {
			p.Late[i], p.Minutes[i] = v, d.Minutes()
		}
	}
	for _, c := range []struct {
		name       string
		late       float64
		objective  float64
		fast, slow time.Duration // long window of the pair that speaks; zero: none
	}{
		{"within the allowance", 0.009, 0.01, 0, 0},
		{"the even pace is told slowly", 0.01, 0.01, 0, 72 * time.Hour},
		{"three times", 0.03, 0.01, 0, 24 * time.Hour},
		{"six times", 0.06, 0.01, 6 * time.Hour, 24 * time.Hour},
		{"over 14.4 times", 0.1441, 0.01, time.Hour, 24 * time.Hour},
		{"an allowance of ten per cent: four of five late are enough", 0.8, 0.1, time.Hour, 24 * time.Hour},
		{"no objective", 1, 0, 0, 0},
	} {
		fill(c.late)
		for _, of := range []struct {
			paces []pace
			want  time.Duration
		}{{fastPaces, c.fast}, {slowPaces, c.slow}} {
			var got time.Duration
			if b := burn(p, c.objective, of.paces); b != nil {
				got = b.long
			}
			if got != of.want {
				t.Errorf("%s: the pair of %s speaks, want %s", c.name, got, of.want)
			}
		}
	}
	fill(0.1441)
	s := burnSign(p, burn(p, 0.01, fastPaces), 0.01, store.SeverityCritical)
	want := map[string]any{"workload_id": fleet.WorkloadID("w"), "workload": "chat/Deployment/llm", "team": "red", "cluster_id": fleet.ClusterID(""), "objective_percent": 1.0, "late_percent": 14.4,
		"late_now_percent": 14.4, "burn_rate": 14.4, "window_minutes": 60, "short_window_minutes": 5, "budget_days": 2.1}
	if d := cmp.Diff(want, s.detail); d != "" {
		t.Errorf("detail (-want +got):\n%s", d)
	}
	p.Late[0] = 0 // it is over for five minutes
	if b := burn(p, 0.01, fastPaces); b == nil || b.long != 6*time.Hour {
		t.Errorf("the pair of an hour speaks although its short window is clear: %+v", b)
	}
	p.Minutes = [len(store.BurnWindows)]float64{4, 4, 4, 4, 4, 4, 4}
	if burn(p, 0.01, fastPaces) != nil {
		t.Error("four minutes of data are enough")
	}
}

func TestACommitmentThatEndsIsToldAMonthAndAWeekBefore(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	end := start.AddDate(0, 0, 40)
	e.exec(`INSERT INTO commitment (tenant_id, id, ref, kind, region, zone, instance_type, family, resource, gpu_model, quantity, upfront_nano, recurring_nano, spend_nano, discount_ppm, rates, ratios,
  starts_at, ends_at, owner, source, created_by, created_at, changed_at) VALUES ($1, $2, 'ri-1', 'aws_zonal_ri', 'us-east-1', 'us-east-1a', 'g5.xlarge', '', '', '', 2000, 0, 0, 0, 0, '[]', '[]',
  $3::timestamptz - interval '1 year', $3, 'red', 'csv', 'test', now(), now())`, e.tenant, uuid.NewString(), end)
	before := func(days int) time.Time { return end.AddDate(0, 0, -days) }
	e.rounds(AlertExpiring, 2, []round{
		{"31 days before", before(31), nil, 0},
		{"30 days before", before(30), nil, 1},
		{"the next day", before(29), nil, 1},
		{"a week before", before(7), nil, 2},
		{"it ended", end, nil, 0},
	})
}

func TestARegionThatTakesSpotMachinesBackIsToldAndAgainWhenItTakesHalf(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, n := range names {
		e.spotNode(e.cluster, n, "gpu", "g5.xlarge", "us-east-1a", start, nil)
	}
	lose := func(minute int, which ...string) func() {
		return func() {
			for _, n := range which {
				e.exec(`INSERT INTO availability_event (tenant_id, source, cluster_id, at, cloud, region, zone, instance_type, purchase, kind, machines, of_machines)
VALUES ($1, 'loss/' || $3::text, $2, $4, 'aws', 'us-east-1', 'us-east-1a', 'g5.xlarge', 'spot', 'notice', 1, 10)`, e.tenant, e.cluster, n, at(minute))
			}
		}
	}
	e.rounds(AlertSpotLosses, 2, []round{
		{"two of ten are too few to tell", at(10), lose(9, "a", "b"), 0},
		{"three", at(12), lose(11, "c"), 1},
		{"half of them", at(14), lose(13, "d", "e"), 2},
		{"they are an hour ago", at(74), nil, 2},
		{"and half an hour of calm", at(104), nil, 0},
	})
}

func TestScaleOutsThatFailAreToldWithWhatTheCloudAnswers(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	attempt := func(kind, source, machine string, minute int) {
		e.exec(`INSERT INTO availability_event (tenant_id, source, cluster_id, at, cloud, region, zone, instance_type, purchase, kind, machines, of_machines)
VALUES ($1, $3, $2, $4, 'aws', 'us-east-1', 'us-east-1a', $5, 'on_demand', $6, 1, 1)`, e.tenant, e.cluster, source, at(minute), machine, kind)
	}
	fail := func(source, machine, reason string, minute int) {
		attempt("exhausted", source, machine, minute)
		e.event(e.cluster, at(minute), "capacity_failure", "NodeClaim/"+source, reason, "no "+machine+" in us-east-1a")
	}
	e.rounds(AlertScaleOut, 1, []round{
		{"two failures", at(2), func() {
			fail("1", "p5.48xlarge", "InsufficientCapacity", 1)
			fail("2", "p5.48xlarge", "InsufficientCapacity", 2)
		}, 0},
		{"three", at(3), func() { fail("3", "g5.xlarge", "QuotaExceeded", 3) }, 1},
		{"more got than failed", at(5), func() {
			for _, s := range []string{"a", "b", "c", "d"} {
				attempt("had", s, "g5.xlarge", 4)
			}
		}, 1},
		{"for half an hour", at(36), nil, 0},
	})
	var detail struct {
		Failed, Tried int
		Offerings     []store.DryOffering
		Reasons       []store.CapacityReason
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		all, err := store.Alerts(ctx, tx, store.AlertFilter{Kind: AlertScaleOut, Limit: 10})
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v %v", all, err)
		}
		if all[0].Severity != store.SeverityCritical {
			t.Errorf("severity %s of a cluster that gets nothing at all", all[0].Severity)
		}
		return json.Unmarshal(all[0].Detail, &detail)
	})
	if detail.Failed != 3 || detail.Tried != 3 || len(detail.Offerings) != 2 || detail.Offerings[0] != (store.DryOffering{InstanceType: "p5.48xlarge", Zone: "us-east-1a", Purchase: "on_demand", Failed: 2}) {
		t.Errorf("detail: %+v", detail)
	}
	if !slices.EqualFunc(detail.Reasons, []string{"InsufficientCapacity", "QuotaExceeded"}, func(r store.CapacityReason, want string) bool { return r.Reason == want && r.Message != "" }) {
		t.Errorf("reasons: %+v", detail.Reasons)
	}
}
