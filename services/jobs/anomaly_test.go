package jobs

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// spent writes a day's GPU cost of a workload.
func (e *estate) spent(day time.Time, workload fleet.WorkloadID, team, amount string, hours float64) {
	e.t.Helper()
	e.exec(`INSERT INTO cost_day (tenant_id, cluster_id, day, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used)
VALUES ($1, $2, $3::timestamptz::date, 'workload', 'gpu', 'on_demand', $4, 'chat', $5, $6, $7, 0, 0, 0)`, e.tenant, e.cluster, day, workload, team, usd(e.t, amount), hours)
	e.exec(`INSERT INTO cost_hour_line (tenant_id, cluster_id, hour, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used)
VALUES ($1, $2, $3, 'workload', 'gpu', 'on_demand', $4, 'chat', $5, $6, $7, 0, 0, 0)`, e.tenant, e.cluster, day, workload, team, usd(e.t, amount), hours)
}

func TestADayThatCostsTooMuchOrTooLittleIsFoundAndExplained(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	llm, batch := e.workload("llm", "red"), e.workload("batch", "blue")
	for i := range 30 {
		day := start.AddDate(0, 0, i)
		amount, hours := "100", 100.0
		if i == 28 { // three times the hours at the same price
			amount, hours = "300", 300
		}
		e.spent(day, llm, "red", amount, hours)
		if i < 29 { // on the last day it did not run
			e.spent(day, batch, "blue", "40", 40)
		}
	}
	decision := uuid.NewString()
	e.exec(`INSERT INTO plan (tenant_id, id, cluster_id, generation, at, created_at, expires_at, mode, input_hash, input) VALUES ($1, $2, $3, 1, $4, $4, $4, 'enforce', '', '')`, e.tenant, decision, e.cluster, start.AddDate(0, 0, 28))
	e.exec(`INSERT INTO decision (tenant_id, id, plan_id, cluster_id, workload_id, at, outcome, from_replicas, needed, target, binding, detail, state, expires_at)
VALUES ($1, $2, $2, $3, $4, $5, 'scale_up', 4, 12, 12, 'queue', '{}', 'applied', $5)`, e.tenant, decision, e.cluster, llm, start.AddDate(0, 0, 28).Add(time.Hour))
	finder := &FindAnomalies{DB: e.db, Currency: "USD", Log: e.log}
	find := func(at time.Time) {
		t.Helper()
		e.dataAt(at)
		e.tx(func(ctx context.Context, tx *store.Tx) error { return finder.Find(ctx, tx) })
	}
	list := func() map[string]store.Anomaly {
		out := map[string]store.Anomaly{}
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			all, err := store.Anomalies(ctx, tx, store.AnomalyFilter{Limit: 100})
			for _, a := range all {
				out[a.Scope+" "+a.Name+" "+a.Day.Format(time.DateOnly)+" "+string(a.Direction)] = a
			}
			return err
		})
		return out
	}
	open := func() int64 {
		return e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = $2 AND resolved_at IS NULL`, e.tenant, AlertAnomaly)
	}
	find(start.AddDate(0, 0, 29).Add(time.Hour)) // a quarter of an hour too early
	if found := list(); len(found) != 0 {
		t.Fatalf("a day is judged before it is settled: %v", found)
	}
	find(start.AddDate(0, 0, 29).Add(2 * time.Hour))
	found := list()
	day := start.AddDate(0, 0, 28).Format(time.DateOnly)
	red, ok := found["team red "+day+" up"]
	if !ok || red.Actual != usd(t, "300") || red.Expected != usd(t, "100") {
		t.Fatalf("found %v", found)
	}
	for _, want := range []string{"tenant  " + day + " up", "cluster c " + day + " up", "namespace chat " + day + " up", "workload chat/Deployment/llm " + day + " up"} {
		if _, ok := found[want]; !ok {
			t.Errorf("%q is not found", want)
		}
	}
	if len(found) != 5 || open() != 5 {
		t.Errorf("%d anomalies and %d alerts, want 5", len(found), open())
	}
	var parts []store.AnomalyPart
	var decisions []store.AnomalyDecision
	if err := json.Unmarshal(red.Contributors, &parts); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(red.Decisions, &decisions); err != nil {
		t.Fatal(err)
	}
	if len(parts) != 1 || parts[0].Workload != llm || parts[0].Delta != "200.00" || parts[0].Quantity != "200.00" || parts[0].Price != "0.00" || parts[0].Mix != "0.00" {
		t.Errorf("contributors: %+v", parts)
	}
	if len(decisions) != 1 || string(decisions[0].ID) != decision || decisions[0].From != 4 || decisions[0].Target != 12 {
		t.Errorf("decisions: %+v", decisions)
	}

	// The next day the one is as usual again, and the other has fallen away.
	find(start.AddDate(0, 0, 30).Add(2 * time.Hour))
	next := start.AddDate(0, 0, 29).Format(time.DateOnly)
	found = list()
	if _, ok := found["team blue "+next+" down"]; !ok {
		t.Errorf("what fell away is not found: %v", found)
	}
	if _, ok := found["team red "+next+" up"]; ok {
		t.Error("a usual day is an anomaly")
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		alerts, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Kind: AlertAnomaly, Limit: 100})
		for _, a := range alerts {
			if strings.Contains(a.Subject, "red") {
				t.Errorf("%s is open still", a.Subject)
			}
		}
		return err
	})
	before := len(found)
	find(start.AddDate(0, 0, 30).Add(3 * time.Hour))
	if len(list()) != before {
		t.Error("a day was judged twice")
	}
}

func TestADigestIsSentOncePerPeriodAtItsHourOfTheTenantsZone(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.exec(`UPDATE tenant SET time_zone = 'Asia/Shanghai' WHERE tenant_id = $1`, e.tenant)
	hook := e.channel(newSealer(t), store.ChannelEmail, "mailto:a@example.com", "")
	e.spent(start.Add(2*time.Hour), e.workload("llm", "red"), "red", "12.5", 10) // 10:00 of the 10th in Shanghai
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.SaveDigest(ctx, tx, store.Digest{Channel: hook, Every: "day", Hour: 9})
	})
	digests := &Digests{DB: e.db, Currency: "USD", Log: e.log}
	send := func(at time.Time) (n int) {
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			ids, err := digests.Send(ctx, tx, at)
			n = len(ids)
			return err
		})
		return n
	}
	nine := time.Date(2026, 3, 11, 1, 0, 0, 0, time.UTC) // 09:00 of the 11th in Shanghai
	for _, c := range []struct {
		at   time.Time
		want int
	}{{nine.Add(-time.Minute), 0}, {nine, 1}, {nine.Add(time.Minute), 0}, {nine.Add(12 * time.Hour), 0}, {nine.Add(24 * time.Hour), 1}} {
		if n := send(c.at); n != c.want {
			t.Errorf("at %s %d digests, want %d", c.at, n, c.want)
		}
	}
	var log []store.Delivery
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		log, err = store.Deliveries(ctx, tx, hook, store.Position{}, 10)
		return err
	})
	if first := log[len(log)-1].Payload; !strings.Contains(first, "2026-03-10") || !strings.Contains(first, "12.50 USD") || !strings.Contains(first, "Team red") {
		t.Errorf("digest: %s", first)
	}
}

func TestWorkloadsThatAreFoughtOverOrStuckAreTold(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	now := start.Add(10 * time.Hour)
	e.dataAt(now)
	watch := &Watch{DB: e.db, Log: e.log}
	memory := func(id fleet.WorkloadID, binding string, news time.Duration) {
		doc, _ := json.Marshal(map[string]any{"last_binding": binding, "last_at": now, "last_news": now.Add(-news), "last_target": 8})
		e.exec(`INSERT INTO planner_memory (tenant_id, workload_id, memory, updated_at) VALUES ($1, $2, $3, now())
ON CONFLICT (tenant_id, workload_id) DO UPDATE SET memory = excluded.memory`, e.tenant, id, string(doc))
	}
	look := func() map[string]int64 {
		e.tx(func(ctx context.Context, tx *store.Tx) error { return watch.Look(ctx, tx) })
		out := map[string]int64{}
		for _, k := range []string{AlertConflict, AlertStuck, AlertScaleFailed} {
			out[k] = e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = $2 AND resolved_at IS NULL`, e.tenant, k)
		}
		return out
	}
	a, b, c := e.workload("a", "red"), e.workload("b", "red"), e.workload("c", "red")
	memory(a, "conflict", time.Minute)
	memory(b, "max_replicas", 20*time.Minute)
	memory(c, "max_replicas", time.Minute) // not for long yet
	if got := look(); got[AlertConflict] != 1 || got[AlertStuck] != 1 {
		t.Errorf("open: %v", got)
	}
	memory(a, "steady", time.Minute)
	memory(b, "steady", time.Minute)
	if got := look(); got[AlertConflict] != 0 || got[AlertStuck] != 0 {
		t.Errorf("open after it is over: %v", got)
	}
}
