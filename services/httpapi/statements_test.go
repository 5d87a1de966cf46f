package httpapi_test

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
)

// ledgerBooks are books with closed hours in the ledger.
type ledgerBooks struct {
	*books
	web string // workload of team blue
}

func openLedger(t *testing.T) *ledgerBooks {
	t.Helper()
	a := &ledgerBooks{books: &books{queue: &costQueue{}, cluster: uuid.NewString(), chat: uuid.NewString()}, web: uuid.NewString()}
	a.door = openDoor(t, doorOptions{queue: a.queue})
	a.finance, a.viewer = a.key(a.tenant.ID, auth.RoleFinance), a.key(a.tenant.ID, auth.RoleViewer)
	a.exec(`INSERT INTO cluster (tenant_id, id, name, mode, created_at, data_at) VALUES ($1, $2, 'north', 'observe', now(), '2026-03-02T12:00:00Z')`, a.tenant.ID, a.cluster)
	for _, w := range [][4]string{{a.chat, "chat", "llm", "red"}, {a.web, "web", "shop", "blue"}} {
		a.exec(`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, team, first_seen) VALUES ($1, $2, $3, $4::text || '/Deployment/' || $5::text, $4, 'Deployment', $5, $6, now())`,
			a.tenant.ID, w[0], a.cluster, w[1], w[2], w[3])
	}
	return a
}

// entry of an hour: kind, resource, purchase, workload, namespace, team, amount in nano-units, quantity.
type entry struct {
	kind, resource, purchase, workload, namespace, team string
	nano                                                int64
	quantity                                            float64
}

// hour closes an hour with these entries; version 2 and later restate it.
func (a *ledgerBooks) hour(at string, version int, entries ...entry) {
	a.t.Helper()
	a.exec(`DELETE FROM cost_hour_line WHERE tenant_id = $1 AND hour = $2::timestamptz`, a.tenant.ID, at)
	for i, e := range entries {
		workload := e.workload
		if workload == "" {
			workload = uuid.Nil.String()
		}
		a.exec(`INSERT INTO cost_hour_line (tenant_id, cluster_id, hour, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used)
VALUES ($1, $2, $3::timestamptz, $4, $5, $6, $7, $8, $9, $10, $11::float8, 0, $11::float8, $11::float8 / 4)`, a.tenant.ID, a.cluster, at, e.kind, e.resource, e.purchase, workload, e.namespace, e.team, e.nano, e.quantity)
		a.exec(`INSERT INTO cost_transfer (tenant_id, id, cluster_id, hour, version, debit, credit, kind, resource, workload_id, namespace, team, amount_nano, quantity, purchase, as_of)
VALUES ($1, $2, $3, $4::timestamptz, $5, 'x', 'nodes/n', $6, $7, nullif($8, '')::uuid, $9, $10, $11, $12, $13, now())`, a.tenant.ID, uuid.NewSHA1(uuid.Nil, []byte(fmt.Sprint(a.tenant.ID, at, version, i))), a.cluster, at, version,
			e.kind, e.resource, e.workload, e.namespace, e.team, e.nano, e.quantity, e.purchase)
	}
	a.exec(`INSERT INTO cost_hour (tenant_id, cluster_id, hour, state, version, content_hash, closed_at, node_nano, unpriced_node_seconds, node_seconds)
VALUES ($1, $2, $3::timestamptz, 'closed', $4, '', now(), 0, 0, 3600) ON CONFLICT (tenant_id, cluster_id, hour) DO UPDATE SET version = excluded.version, closed_at = now()`, a.tenant.ID, a.cluster, at, version)
	a.exec(`DELETE FROM cost_day WHERE tenant_id = $1 AND day = ($2::timestamptz AT TIME ZONE 'UTC')::date`, a.tenant.ID, at)
	a.exec(`INSERT INTO cost_day (tenant_id, cluster_id, day, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used)
SELECT tenant_id, cluster_id, (hour AT TIME ZONE 'UTC')::date, kind, resource, purchase, workload_id, namespace, team, sum(amount_nano), sum(quantity), 0, sum(measured), sum(used) FROM cost_hour_line
WHERE tenant_id = $1 AND (hour AT TIME ZONE 'UTC')::date = ($2::timestamptz AT TIME ZONE 'UTC')::date GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9`, a.tenant.ID, at)
}

func (a *ledgerBooks) standard(at string, version int, scale int64) {
	a.hour(at, version, entry{"workload", "gpu", "on_demand", a.chat, "chat", "red", 4_000_000_001 * scale, 1}, entry{"workload", "cpu", "on_demand", a.chat, "chat", "red", 500_000_007 * scale, 4},
		entry{"workload", "cpu", "spot", a.web, "web", "blue", 1_000_000_003 * scale, 8}, entry{"workload", "cpu", "on_demand", "", "monitoring", "ops", 300_000_000 * scale, 2},
		entry{"idle", "gpu", "on_demand", "", "", "", 2_000_000_000 * scale, 1}, entry{"idle", "cpu", "on_demand", "", "", "", 100_000_001 * scale, 1})
}

func nano(t *testing.T, m httpapi.Money) fleet.Money {
	t.Helper()
	v, err := fleet.ParseMoney(m.Amount)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (a *ledgerBooks) total(query string) fleet.Money {
	a.t.Helper()
	var all httpapi.Allocations
	a.get("/api/v1/cost/allocations?"+query).want(a.t, 200).into(a.t, &all)
	return nano(a.t, all.Total)
}

func (a *ledgerBooks) statement(path string) httpapi.Statement {
	a.t.Helper()
	var s httpapi.Statement
	a.get(path).want(a.t, 200).into(a.t, &s)
	var sum fleet.Money
	for _, l := range s.Document.Lines {
		sum += nano(a.t, l.Amount)
	}
	if total := nano(a.t, s.Document.Total); sum != total {
		a.t.Errorf("lines of %s add up to %s, its total is %s", path, sum, total)
	}
	return s
}

func TestStatementsAddUpToTheLedgerAndStayAsTheyWereIssued(t *testing.T) {
	t.Parallel()
	a := openLedger(t)
	a.standard("2026-02-10T10:00:00Z", 1, 1)
	a.standard("2026-02-10T11:00:00Z", 1, 2)
	const february = "aggregate=team&from=2026-02-01T00:00:00Z&to=2026-03-01T00:00:00Z"
	ledger := a.total(february)

	var month httpapi.StatementMonth
	a.get("/api/v1/statements?month=2026-02").want(t, 200).into(t, &month)
	if nano(t, month.Total) != ledger || len(month.Teams) != 3 || month.Teams[0].Team != "red" {
		t.Fatalf("month %+v, ledger %s", month, ledger)
	}
	admin := a.key(a.tenant.ID, auth.RoleAdmin)
	a.with(a.finance, "POST", "/api/v1/shared-cost-rules", map[string]any{"name": "Monitoring", "pick": "namespace", "value": "monitoring", "spread": "even"}).want(t, 201)
	a.with(a.finance, "POST", "/api/v1/shared-cost-rules", map[string]any{"name": "Other", "pick": "namespace", "value": "monitoring", "spread": "even"}).want(t, 409)
	a.with(a.finance, "POST", "/api/v1/shared-cost-rules", map[string]any{"name": "Nobody", "pick": "team", "value": "x", "spread": "fixed"}).want(t, 422)
	for _, idle := range []string{"separate", "cluster", "node"} {
		a.with(admin, "PUT", "/api/v1/calendar", map[string]any{"time_zone": "UTC", "fiscal_month": 4, "week_start": 1, "idle_scope": idle, "idle_spread": "weighted"}).want(t, 200)
		whole := a.statement("/api/v1/statements/draft?month=2026-02&scope=tenant")
		if got := nano(t, whole.Document.Total); got != ledger {
			t.Errorf("idle %s: the tenant's statement is %s, the ledger %s", idle, got, ledger)
		}
		var teams fleet.Money
		a.get("/api/v1/statements?month=2026-02").want(t, 200).into(t, &month)
		for _, c := range month.Teams {
			s := a.statement("/api/v1/statements/draft?month=2026-02&team=" + c.Team)
			if s.Document.Total != c.Total {
				t.Errorf("idle %s: statement of %s is %s, the list says %s", idle, c.Team, s.Document.Total.Amount, c.Total.Amount)
			}
			teams += nano(t, c.Total)
		}
		for _, l := range month.Rest {
			teams += nano(t, l.Amount)
		}
		if teams != ledger || len(month.Teams) != 2 {
			t.Errorf("idle %s: teams and rest %s, ledger %s, %d teams", idle, teams, ledger, len(month.Teams))
		}
	}

	a.with(a.viewer, "POST", "/api/v1/statements", map[string]any{"month": "2026-02", "scope": "team", "team": "red", "kind": "chargeback"}).want(t, 403)
	a.with(a.finance, "POST", "/api/v1/statements", map[string]any{"month": "2026-03", "scope": "tenant", "kind": "chargeback"}).want(t, 409)
	var issued httpapi.Statement
	a.with(a.finance, "POST", "/api/v1/statements", map[string]any{"month": "2026-02", "scope": "team", "team": "red", "kind": "chargeback"}).want(t, 201).into(t, &issued)
	if again := a.statement("/api/v1/statements/" + issued.ID); nano(t, *again.Restated) != 0 || again.Document.Total != issued.Document.Total {
		t.Errorf("just issued: %+v", again)
	}
	a.standard("2026-02-10T11:00:00Z", 2, 3) // late data: the hour costs half as much again
	later := a.statement("/api/v1/statements/" + issued.ID)
	if later.Document.Total != issued.Document.Total || !later.Document.AsOf.Equal(issued.Document.AsOf) {
		t.Errorf("an issued statement changed: %+v", later)
	}
	draft := a.statement("/api/v1/statements/draft?month=2026-02&team=red")
	if want := nano(t, draft.Document.Total) - nano(t, issued.Document.Total); nano(t, *later.Restated) != want || want <= 0 || draft.Document.RestatedHours != 1 {
		t.Errorf("restated %s, want %s of %d hours", later.Restated.Amount, want, draft.Document.RestatedHours)
	}
	var second httpapi.Statement
	a.with(a.finance, "POST", "/api/v1/statements", map[string]any{"month": "2026-02", "scope": "team", "team": "red", "kind": "chargeback"}).want(t, 201).into(t, &second)
	if second.Version != 2 || second.Document.Total != draft.Document.Total {
		t.Errorf("second version %+v", second)
	}

	for format, has := range map[string]string{"html": "<!doctype html>", "csv": "month,scope,team", "pdf": "%PDF-1.4"} {
		for _, language := range []string{"en", "zh"} {
			f := a.get("/api/v1/statements/"+issued.ID+"/file?format="+format+"&language="+language).want(t, 200)
			if !bytes.HasPrefix(f.body, []byte(has)) || !bytes.Contains(f.body, []byte(issued.Document.Total.Amount)) && format != "csv" {
				t.Errorf("%s in %s: %.200s", format, language, f.body)
			}
			if format == "html" && (bytes.Contains(f.body, []byte("src=")) || bytes.Contains(f.body, []byte("http"))) {
				t.Error("the page loads something")
			}
		}
	}
	a.get("/api/v1/statements/"+uuid.NewString()).want(t, 404)
	a.get("/api/v1/statements/draft?month=2026-02&team=nobody").want(t, 404)
	a.get("/api/v1/statements/draft?month=2026-13").want(t, 422)
}

func TestAMonthIsThatOfTheTenantsZone(t *testing.T) {
	t.Parallel()
	a := openLedger(t)
	a.standard("2026-01-31T22:00:00Z", 1, 1) // January everywhere west of Moscow
	a.standard("2026-01-31T23:00:00Z", 1, 10)
	admin := a.key(a.tenant.ID, auth.RoleAdmin)
	total := func(zone string) fleet.Money {
		a.with(admin, "PUT", "/api/v1/calendar", map[string]any{"time_zone": zone, "fiscal_month": 1, "week_start": 1, "idle_scope": "separate", "idle_spread": "even"}).want(t, 200)
		return nano(t, a.statement("/api/v1/statements/draft?month=2026-02&scope=tenant").Document.Total)
	}
	one := a.total("aggregate=team&from=2026-01-31T00:00:00Z&to=2026-02-01T00:00:00Z")
	if utc, berlin := total("UTC"), total("Europe/Berlin"); utc != 0 || berlin == 0 || one == 0 {
		t.Errorf("February is %s in UTC and %s in Berlin", utc, berlin)
	}
	for _, zone := range []string{"Mars/Olympus", "", "Local"} {
		a.with(admin, "PUT", "/api/v1/calendar", map[string]any{"time_zone": zone, "fiscal_month": 1, "week_start": 1, "idle_scope": "separate", "idle_spread": "even"}).want(t, 422)
	}
	a.with(a.finance, "PUT", "/api/v1/calendar", map[string]any{"time_zone": "UTC", "fiscal_month": 1, "week_start": 1, "idle_scope": "separate", "idle_spread": "even"}).want(t, 403)
	var c httpapi.CalendarAnswer
	a.with(admin, "PUT", "/api/v1/calendar", map[string]any{"time_zone": "Asia/Kolkata", "fiscal_month": 4, "week_start": 0, "idle_scope": "node", "idle_spread": "even"}).want(t, 200).into(t, &c)
	for _, w := range c.Windows {
		if w.Name == "year" && (!w.From.Equal(time.Date(2025, 3, 31, 19, 0, 0, 0, time.UTC)) || c.FiscalYear != 2026) {
			t.Errorf("%+v of %d", w, c.FiscalYear)
		}
	}
}

func TestComparingTwoWindowsNamesWhatChanged(t *testing.T) {
	t.Parallel()
	a := openLedger(t)
	a.standard("2026-02-10T10:00:00Z", 1, 1)
	a.standard("2026-02-11T10:00:00Z", 1, 3)
	for _, by := range []string{"team", "namespace", "workload", "cluster"} {
		var c httpapi.CostComparison
		a.get("/api/v1/cost/compare?aggregate="+by+"&from=2026-02-11T00:00:00Z&to=2026-02-12T00:00:00Z").want(t, 200).into(t, &c)
		var sum fleet.Money
		for _, i := range append(c.Items, c.Total) {
			delta := nano(t, i.Delta)
			if nano(t, i.Quantity)+nano(t, i.Mix)+nano(t, i.Price) != delta || nano(t, i.After)-nano(t, i.Before) != delta {
				t.Errorf("%s does not add up: %+v", by, i)
			}
			sum += delta
		}
		want := a.total("aggregate=team&from=2026-02-11T00:00:00Z&to=2026-02-12T00:00:00Z") - a.total("aggregate=team&from=2026-02-10T00:00:00Z&to=2026-02-11T00:00:00Z")
		if sum -= nano(t, c.Total.Delta); sum != want || nano(t, c.Total.Price) != want {
			t.Errorf("%s: items changed by %s, the ledger by %s, prices by %s", by, sum, want, c.Total.Price.Amount)
		}
	}
	for _, q := range []string{"from=2026-02-11T00:30:00Z&to=2026-02-12T00:00:00Z", "from=2026-02-12T00:00:00Z&to=2026-02-11T00:00:00Z", "from=2026-02-11T00:00:00Z&to=2026-02-12T00:00:00Z&before_from=2026-02-01T00:00:00Z"} {
		a.get("/api/v1/cost/compare?"+q).want(t, 422)
	}
}

func TestALineIsWalkedBackToTheDecision(t *testing.T) {
	t.Parallel()
	a := openLedger(t)
	a.standard("2026-02-10T10:00:00Z", 1, 1)
	plan := uuid.NewString()
	a.exec(`INSERT INTO plan (tenant_id, id, cluster_id, generation, at, created_at, expires_at, mode, input_hash, input) VALUES ($1, $2, $3, 1, now(), now(), now(), 'enforce', '', '')`, a.tenant.ID, plan, a.cluster)
	for _, at := range []string{"2026-02-10T08:00:00Z", "2026-02-10T09:30:00Z", "2026-02-10T10:20:00Z", "2026-02-10T11:00:00Z"} {
		a.exec(`INSERT INTO decision (tenant_id, id, plan_id, cluster_id, workload_id, at, outcome, from_replicas, needed, target, binding, detail, cost_delta_nano, state, expires_at, finished_at)
VALUES ($1, $2, $3, $4, $5, $6::timestamptz, 'scale_up', 1, 2, 2, 'target_ratio', '{}', 4000000000, 'applied', $6::timestamptz, $6::timestamptz)`, a.tenant.ID, uuid.NewString(), plan, a.cluster, a.chat, at)
	}
	a.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, created_at, started_at) VALUES ($1, $2, 'p1', 'llm-1', 'chat', 'chat/Deployment/llm', 'n1', 'ready', '2026-02-10T09:00Z', '2026-02-10T10:30Z')`, a.tenant.ID, a.cluster)
	var hours httpapi.CostHours
	a.get("/api/v1/cost/hours?workload="+a.chat+"&from=2026-02-10T00:00:00Z&to=2026-02-11T00:00:00Z").want(t, 200).into(t, &hours)
	if want := a.total("aggregate=workload&workload=" + a.chat + "&from=2026-02-10T00:00:00Z&to=2026-02-11T00:00:00Z"); len(hours.Items) != 1 || nano(t, hours.Total) != want || hours.Items[0].Ups != 1 {
		t.Errorf("hours %+v, ledger %s", hours, want)
	}
	var trace httpapi.CostTrace
	a.get("/api/v1/cost/trace?workload="+a.chat+"&hour="+url.QueryEscape("2026-02-10T10:00:00Z")).want(t, 200).into(t, &trace)
	if trace.Total != hours.Total || len(trace.Pods) != 1 || trace.Pods[0].Hours != 0.5 {
		t.Errorf("trace %+v", trace)
	}
	var at []string
	for _, d := range trace.Decisions {
		at = append(at, d.At.Format("15:04"))
	}
	if strings.Join(at, " ") != "09:30 10:20" {
		t.Errorf("decisions of %v", at)
	}
	a.get("/api/v1/cost/trace?workload="+uuid.NewString()+"&hour=2026-02-10T10:00:00Z").want(t, 404)
}
