package httpapi_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const yardPolicy = "mode: approve\nmin: 1\nmax: 8\nqueue: {target_per_replica: 10}\nup: {cooldown_seconds: -1}\ndown: {cooldown_seconds: -1, stabilisation_seconds: -1}\nfilter: {window_seconds: -1}\n"

// planQueue counts what the door asks for.
type planQueue struct {
	noQueue
	plans atomic.Int32
}

func (q *planQueue) PlanSoon(context.Context, *store.Tx, fleet.ClusterID) error {
	q.plans.Add(1)
	return nil
}

// yard is a door with a cluster in approve mode and workloads in it; what it sees is at the full hour that now is.
type yard struct {
	*door
	queue                      *planQueue
	viewer, operator, stranger string // API keys; the stranger is of another tenant
	cluster                    fleet.ClusterID
	now                        time.Time
	seq                        int
}

func openYard(t *testing.T) *yard {
	t.Helper()
	q := &planQueue{}
	y := &yard{door: openDoor(t, doorOptions{queue: q}), queue: q, now: time.Date(2027, 5, 20, 10, 0, 0, 0, time.UTC)}
	y.viewer, y.operator = y.key(y.tenant.ID, auth.RoleViewer), y.key(y.tenant.ID, auth.RoleOperator)
	other, _ := y.newTenant("Quay", "owner@quay.test")
	y.stranger = y.key(other.ID, auth.RoleAdmin)
	y.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		y.cluster, err = store.CreateCluster(ctx, tx, "north", fleet.ModeApprove)
		return err
	})
	return y
}

func (y *yard) tx(fn func(context.Context, *store.Tx) error) {
	y.t.Helper()
	ctx := context.Background()
	if err := y.db.Tenant(ctx, y.tenant.ID, func(tx *store.Tx) error { return fn(ctx, tx) }); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) workload(namespace, name, team string) fleet.WorkloadID {
	y.t.Helper()
	key := namespace + "/Deployment/" + name
	id := store.WorkloadIDOf(y.cluster, key)
	y.exec(`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, team, gpu_milli, cpu_milli, mem_mib, replicas, first_seen)
		VALUES ($1, $2, $3, $4, $5, 'Deployment', $6, $7, 1000, 1000, 4096, 2, $8)`, string(y.tenant.ID), string(id), string(y.cluster), key, namespace, name, team, y.now.Add(-240*time.Hour))
	return id
}

func (y *yard) policy(id fleet.WorkloadID, document string) {
	y.t.Helper()
	policy, findings := optimizer.ParsePolicy([]byte(document))
	if optimizer.HasErrors(findings) {
		y.t.Fatal(findings)
	}
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: id, Document: document, Mode: policy.Mode, CreatedBy: "test"}, 0)
		return err
	})
}

// observe reports work waiting for the workloads by key, two replicas each, and moves the time.
func (y *yard) observe(after time.Duration, queues map[string]float64) {
	y.t.Helper()
	y.seq++
	y.now = y.now.Add(after)
	o := &agentv1.Observation{AtMs: y.now.UnixMilli()}
	for key, queue := range queues {
		o.Workloads = append(o.Workloads, &agentv1.WorkloadObservation{Workload: key, Replicas: 2, Ready: 2, Signals: []*agentv1.Signal{
			{Name: "queue_length", Value: queue, AtMs: y.now.UnixMilli(), PodsReported: 2},
			{Name: "latency_p99_seconds", Value: 0.5, AtMs: y.now.Add(-10 * time.Minute).UnixMilli(), PodsReported: 2},
		}})
	}
	body, err := proto.Marshal(o)
	if err != nil {
		y.t.Fatal(err)
	}
	y.exec(`INSERT INTO observation (tenant_id, cluster_id, at, stream, epoch, seq, body) VALUES ($1, $2, $3, 'controller', 1, $4, $5)`,
		string(y.tenant.ID), string(y.cluster), y.now, y.seq, body)
	y.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3 WHERE tenant_id = $1 AND id = $2`, string(y.tenant.ID), string(y.cluster), y.now)
}

// decide makes and saves a plan, as the planning job does.
func (y *yard) decide() {
	y.t.Helper()
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		in, err := store.LoadPlanInput(ctx, tx, y.cluster)
		if err != nil {
			return err
		}
		plan, err := optimizer.Decide(in.Input)
		if err != nil {
			return err
		}
		if err := store.SaveMemory(ctx, tx, plan.Memory); err != nil {
			return err
		}
		_, err = store.SavePlan(ctx, tx, plan, plan.Decisions, in.Input, store.SaveOptions{})
		return err
	})
}

type shownDecision struct {
	ID, Key, Outcome, State, Binding string
	Target                           int
	At                               time.Time
	DecidedBy                        *string `json:"decided_by"`
	Detail                           struct {
		Reasons []struct{ Code string }
		Inputs  []struct{ Name string }
	}
	Plan struct {
		Generation int64
		InputHash  string `json:"input_hash"`
	}
}

type list[T any] struct {
	Items []T
	Next  string `json:"next_cursor"`
}

// pages reads a whole list in pages of one.
func pages[T any](y *yard, path string) (all []T) {
	y.t.Helper()
	for cursor := ""; ; {
		var page list[T]
		y.with(y.viewer, "GET", path+"&limit=1&cursor="+cursor, nil).want(y.t, 200).into(y.t, &page)
		if len(page.Items) > 1 || len(all) > 50 {
			y.t.Fatalf("%d items on a page of one, %d in all", len(page.Items), len(all))
		}
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

func TestWorkloadsAreListedByKeyAndFilteredAndOnlyOnesOwn(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	for _, w := range [][3]string{{"chat", "llm", "red"}, {"batch", "train", "blue"}, {"chat", "embed", "red"}} {
		y.workload(w[0], w[1], w[2])
	}
	gone := y.workload("old", "gone", "red")
	y.exec(`UPDATE workload SET gone_at = now() WHERE id = $1`, string(gone))
	type row struct{ ID, Key string }
	for _, c := range []struct{ query, want string }{
		{"", "batch/Deployment/train chat/Deployment/embed chat/Deployment/llm"},
		{"namespace=chat", "chat/Deployment/embed chat/Deployment/llm"},
		{"team=blue", "batch/Deployment/train"},
		{"q=LLM", "chat/Deployment/llm"},
		{"q=%25", ""}, // a per cent sign is a character
		{"gone=true&namespace=old", "old/Deployment/gone"},
		{"cluster=" + string(y.cluster) + "&team=red", "chat/Deployment/embed chat/Deployment/llm"},
		{"cluster=11111111-1111-4111-8111-111111111111", ""},
	} {
		var keys []string
		for _, w := range pages[row](y, "/api/v1/workloads?"+c.query) {
			keys = append(keys, w.Key)
		}
		if got := strings.Join(keys, " "); got != c.want {
			t.Errorf("%q lists %q, want %q", c.query, got, c.want)
		}
	}
	var theirs list[row]
	y.with(y.stranger, "GET", "/api/v1/workloads", nil).want(t, 200).into(t, &theirs)
	if len(theirs.Items) != 0 {
		t.Errorf("another tenant sees %v", theirs.Items)
	}
	y.call("GET", "/api/v1/workloads", nil).want(t, 401)
	for _, path := range []string{"", "/timeline", "/policy", "/policy/versions"} {
		y.with(y.stranger, "GET", "/api/v1/workloads/"+string(gone)+path, nil).want(t, 404)
		y.with(y.viewer, "GET", "/api/v1/workloads/"+string(gone)+path, nil).want(t, 200)
	}
	y.with(y.viewer, "GET", "/api/v1/workloads/nonsense", nil).want(t, 422)
}

func TestCursorsThatNobodyGaveAreRefused(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	for _, path := range []string{"workloads", "decisions", "alerts", "clusters", "audit"} {
		for _, text := range []string{"%%%", base64.RawURLEncoding.EncodeToString([]byte(`{"k":"a","i":"x","t":"2027-01-01T00:00:00Z","a":"2027-01-01T00:00:00Z"}`))} {
			got := y.with(y.key(y.tenant.ID, auth.RoleAdmin), "GET", "/api/v1/"+path+"?cursor="+strings.ReplaceAll(text, "%", "%25"), nil)
			if got.status != 422 {
				t.Errorf("%s with cursor %q: %d %s", path, text, got.status, got.body)
			}
		}
	}
}

func TestAWorkloadShowsWhatItsDecisionsAreMadeFrom(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	id := y.workload("chat", "llm", "red")
	type shown struct {
		Replicas, Ready int
		Mode            *string
		PolicyVersion   int `json:"policy_version"`
		Min, Max        *int
		Signals         map[string]struct {
			Value float64
			Age   float64 `json:"age_seconds"`
			Truth string
		}
		LastDecision *struct {
			Outcome, State string
			Target         int
		} `json:"last_decision"`
		CostHour *struct{ Amount string } `json:"cost_hour"`
		Writers  []struct{ Manager string }
	}
	load := func() (s shown) {
		y.with(y.viewer, "GET", "/api/v1/workloads/"+string(id), nil).want(t, 200).into(t, &s)
		return s
	}
	if s := load(); s.Mode != nil || s.Min != nil || s.PolicyVersion != 0 || s.LastDecision != nil || len(s.Signals) != 0 || s.CostHour != nil || s.Writers == nil {
		t.Errorf("before anything is known: %+v", s)
	}
	y.policy(id, strings.Replace(yardPolicy, "approve", "enforce", 1))
	y.observe(0, map[string]float64{"chat/Deployment/llm": 60})
	y.decide()
	y.exec(`INSERT INTO workload_writer (tenant_id, cluster_id, workload_key, manager, field, at) VALUES ($1, $2, 'chat/Deployment/llm', 'hpa', 'spec.replicas', $3)`, string(y.tenant.ID), string(y.cluster), y.now)
	s := load()
	if s.Mode == nil || *s.Mode != "approve" { // the cluster's is the stricter one
		t.Errorf("mode %v", s.Mode)
	}
	if *s.Min != 1 || *s.Max != 8 || s.PolicyVersion != 1 || s.Ready != 2 || len(s.Writers) != 1 {
		t.Errorf("%+v", s)
	}
	if q, l := s.Signals["queue_length"], s.Signals["latency_p99_seconds"]; q.Truth != "fresh" || q.Value != 60 || l.Truth != "stale" || l.Age != 600 {
		t.Errorf("signals %+v", s.Signals)
	}
	if d := s.LastDecision; d == nil || d.Outcome != "scale_up" || d.State != "proposed" || d.Target != 6 {
		t.Errorf("last decision %+v", d)
	}
}

func TestTwoPeopleWhoEditAPolicyDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	id := y.workload("chat", "llm", "red")
	path := "/api/v1/workloads/" + string(id) + "/policy"
	put := func(match, document string) answer {
		headers := []string{"Authorization", "Bearer " + y.operator}
		if match != "" {
			headers = append(headers, "If-Match", match)
		}
		return y.call("PUT", path, map[string]string{"document": document}, headers...)
	}
	none := y.with(y.viewer, "GET", path, nil).want(t, 200)
	if none.header.Get("ETag") != `"0"` {
		t.Errorf("ETag without a policy: %s", none.header.Get("ETag"))
	}
	first := put(`"0"`, yardPolicy).want(t, 200)
	if first.header.Get("ETag") != `"1"` || y.queue.plans.Load() != 1 {
		t.Errorf("ETag %s, %d plans asked for", first.header.Get("ETag"), y.queue.plans.Load())
	}
	put(`W/"1"`, strings.Replace(yardPolicy, "max: 8", "max: 9", 1)).want(t, 200)
	put(`"1"`, strings.Replace(yardPolicy, "max: 8", "max: 7", 1)).want(t, 409)
	put(`"0"`, yardPolicy).want(t, 409)
	put(`yesterday's`, yardPolicy).want(t, 422)
	put("", yardPolicy).want(t, 200) // says that it means the newest
	y.with(y.viewer, "PUT", path, map[string]string{"document": yardPolicy}).want(t, 403)
	y.with(y.stranger, "PUT", path, map[string]string{"document": yardPolicy}).want(t, 404)
	bad := put(`"3"`, "mode: enforce\nmin: 5\nmax: 2\n").want(t, 422)
	if !strings.Contains(string(bad.body), "body.document") {
		t.Errorf("the refusal names no field: %s", bad.body)
	}
	put(`"3"`, strings.Repeat("#", 70_000)).want(t, 422)
	var versions list[struct {
		Version   int
		Document  string
		CreatedAt time.Time `json:"created_at"`
	}]
	y.with(y.viewer, "GET", path+"/versions", nil).want(t, 200).into(t, &versions)
	if len(versions.Items) != 3 || versions.Items[0].Version != 3 || !strings.Contains(versions.Items[1].Document, "max: 9") {
		t.Errorf("versions %+v", versions.Items)
	}
	var audit list[struct{ Action string }]
	y.with(y.key(y.tenant.ID, auth.RoleAdmin), "GET", "/api/v1/audit", nil).want(t, 200).into(t, &audit)
	if n := len(slices.DeleteFunc(audit.Items, func(e struct{ Action string }) bool { return e.Action != "policy.save" })); n != 3 {
		t.Errorf("%d saved policies in the audit log, want 3", n)
	}
	if n := y.queue.plans.Load(); n != 3 {
		t.Errorf("%d plans were asked for", n)
	}
}

func TestLintTellsErrorsFromAdviceAndPresetsAreSound(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	type linted struct {
		Findings []struct{ Field, Severity, Message string }
		Policy   struct{ Max int }
	}
	lint := func(document string) (l linted) {
		y.with(y.viewer, "POST", "/api/v1/policies/lint", map[string]string{"document": document}).want(t, 200).into(t, &l)
		return l
	}
	if l := lint(yardPolicy); l.Policy.Max != 8 || slices.ContainsFunc(l.Findings, func(f struct{ Field, Severity, Message string }) bool { return f.Severity == "error" }) {
		t.Errorf("a sound policy: %+v", l)
	}
	for _, document := range []string{"", "max: 2\nmin: 5\n", "max: many", "nonsense: 1\nmax: 3\n", "\t:"} {
		if l := lint(document); !slices.ContainsFunc(l.Findings, func(f struct{ Field, Severity, Message string }) bool {
			return f.Severity == "error" && f.Message != ""
		}) {
			t.Errorf("%q has no error: %+v", document, l.Findings)
		}
	}
	var presets list[struct{ Name, About, Document string }]
	y.with(y.viewer, "GET", "/api/v1/policies/presets", nil).want(t, 200).into(t, &presets)
	if len(presets.Items) < 3 {
		t.Fatalf("%d presets", len(presets.Items))
	}
	for _, p := range presets.Items {
		for _, f := range lint(p.Document).Findings {
			if f.Severity == "error" || p.About == "" {
				t.Errorf("preset %s: %+v", p.Name, f)
			}
		}
	}
}

func TestAProposalIsSettledOnceAndComputesAgainToTheSame(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	for _, n := range []string{"llm", "embed"} {
		y.policy(y.workload("chat", n, "red"), yardPolicy)
	}
	y.observe(0, map[string]float64{"chat/Deployment/llm": 60, "chat/Deployment/embed": 45})
	y.decide()
	open := pages[shownDecision](y, "/api/v1/decisions?state=proposed")
	if len(open) != 2 {
		t.Fatalf("%d proposals", len(open))
	}
	yes, no := "/api/v1/decisions/"+open[0].ID, "/api/v1/decisions/"+open[1].ID
	for _, action := range []string{"/approve", "/reject", "/recompute"} {
		y.with(y.stranger, "POST", yes+action, map[string]string{}).want(t, 404)
	}
	y.with(y.stranger, "GET", yes, nil).want(t, 404)
	y.with(y.viewer, "POST", yes+"/approve", nil).want(t, 403)
	var d shownDecision
	y.with(y.operator, "POST", yes+"/approve", nil).want(t, 200).into(t, &d)
	if d.State != "approved" || d.DecidedBy == nil || *d.DecidedBy != "test operator" {
		t.Errorf("approved: %+v", d)
	}
	y.with(y.operator, "POST", yes+"/approve", nil).want(t, 409)
	y.with(y.operator, "POST", yes+"/reject", map[string]string{"reason": "changed my mind"}).want(t, 409)
	y.with(y.operator, "POST", no+"/reject", map[string]string{"reason": "not before the release"}).want(t, 200).into(t, &d)
	if d.State != "rejected" {
		t.Errorf("rejected: %+v", d)
	}
	y.with(y.operator, "POST", no+"/approve", nil).want(t, 409)
	y.with(y.viewer, "GET", yes, nil).want(t, 200).into(t, &d)
	if len(d.Detail.Reasons) == 0 || len(d.Detail.Inputs) == 0 || len(d.Plan.InputHash) != 64 || d.Plan.Generation != 1 {
		t.Errorf("explained: %+v", d)
	}
	for _, path := range []string{yes, no} {
		var again struct{ Equal bool }
		y.with(y.viewer, "POST", path+"/recompute", nil).want(t, 200).into(t, &again)
		if !again.Equal {
			t.Errorf("%s computes to something else", path)
		}
	}
	// A stored decision that its input does not give is told from one that it gives.
	y.exec(`UPDATE decision SET detail = jsonb_set(detail, '{target}', '7') WHERE id = $1`, open[0].ID)
	var again struct{ Equal bool }
	y.with(y.viewer, "POST", yes+"/recompute", nil).want(t, 200).into(t, &again)
	if again.Equal {
		t.Error("a changed decision counts as equal")
	}
	y.with(y.viewer, "GET", "/api/v1/decisions/11111111-1111-4111-8111-111111111111", nil).want(t, 404)
	var pending *agentv1.Plan
	y.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		pending, err = store.PendingPlan(ctx, tx, y.cluster)
		return err
	})
	if len(pending.GetActions()) != 1 || pending.GetActions()[0].GetActionId() != open[0].ID || pending.GetGeneration() != 2 {
		t.Errorf("the agent gets %v", pending)
	}
}

func TestDecisionsAreListedNewestFirstAndFiltered(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	llm, embed := y.workload("chat", "llm", "red"), y.workload("chat", "embed", "red")
	y.policy(llm, yardPolicy)
	y.policy(embed, yardPolicy)
	y.observe(0, map[string]float64{"chat/Deployment/llm": 60, "chat/Deployment/embed": 20})
	y.decide()
	first := y.now
	y.observe(time.Minute, map[string]float64{"chat/Deployment/llm": 20, "chat/Deployment/embed": 5})
	y.decide()
	for _, c := range []struct{ query, want string }{
		{"", "embed scale_down proposed, llm hold noted, embed hold noted, llm scale_up superseded"},
		{"workload=" + string(llm), "llm hold noted, llm scale_up superseded"},
		{"outcome=hold", "llm hold noted, embed hold noted"},
		{"state=proposed,superseded", "embed scale_down proposed, llm scale_up superseded"},
		{"from=" + first.Add(time.Second).Format(time.RFC3339), "embed scale_down proposed, llm hold noted"},
		{"to=" + first.Add(time.Second).Format(time.RFC3339), "embed hold noted, llm scale_up superseded"},
		{"cluster=11111111-1111-4111-8111-111111111111", ""},
	} {
		var got []string
		all := pages[shownDecision](y, "/api/v1/decisions?"+c.query)
		for _, d := range all {
			got = append(got, strings.TrimPrefix(d.Key, "chat/Deployment/")+" "+d.Outcome+" "+d.State)
		}
		want := strings.Split(c.want, ", ")
		if c.want == "" {
			want = nil
		}
		if !slices.IsSortedFunc(all, func(a, b shownDecision) int { return b.At.Compare(a.At) }) {
			t.Errorf("%q is not sorted by time", c.query)
		}
		slices.Sort(got) // of one moment, ids settle the order
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q lists %q, want %q", c.query, got, want)
		}
	}
	y.with(y.viewer, "GET", "/api/v1/decisions?state=nonsense", nil).want(t, 422)
	y.with(y.viewer, "GET", "/api/v1/decisions?limit=1000", nil).want(t, 422)
}

func TestATimelineHasAResolutionForEveryRange(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	id := y.workload("chat", "llm", "red")
	y.policy(id, yardPolicy)
	y.observe(0, map[string]float64{"chat/Deployment/llm": 60})
	y.decide()
	y.observe(time.Minute, map[string]float64{"chat/Deployment/llm": 60})
	for i := range 3 {
		y.exec(`INSERT INTO rollup_1m (tenant_id, cluster_id, workload_id, at, samples, replicas, request_rate) VALUES ($1, $2, $3, $4, 4, $5, 10)`,
			string(y.tenant.ID), string(y.cluster), string(id), y.now.Add(time.Duration(-i)*time.Minute).Truncate(time.Minute), i+1)
	}
	type timeline struct {
		From, To  time.Time
		Step      int `json:"step_seconds"`
		Points    []struct{ Replicas *float64 }
		Decisions []struct {
			Outcome, Binding string
			Needed           int
		}
	}
	load := func(from, to time.Time) (l timeline) {
		query := "?"
		for name, at := range map[string]time.Time{"from": from, "to": to} {
			if !at.IsZero() {
				query += "&" + name + "=" + at.Format(time.RFC3339)
			}
		}
		y.with(y.viewer, "GET", "/api/v1/workloads/"+string(id)+"/timeline"+query, nil).want(t, 200).into(t, &l)
		return l
	}
	if l := load(time.Time{}, time.Time{}); l.To.Sub(l.From) != 24*time.Hour || l.To.Before(y.now) || l.To.Sub(y.now) > time.Minute || l.Step != 300 {
		t.Errorf("without a range: %s to %s by %d", l.From, l.To, l.Step)
	}
	for span, step := range map[time.Duration]int{time.Hour: 60, 24 * time.Hour: 300, 7 * 24 * time.Hour: 3600, 90 * 24 * time.Hour: 86400} {
		if l := load(y.now.Add(-span), y.now.Add(time.Minute-time.Second)); l.Step != step {
			t.Errorf("%s is drawn by %d s, want %d", span, l.Step, step)
		}
	}
	l := load(y.now.Add(-time.Hour), y.now.Add(time.Minute))
	if len(l.Points) != 3 || *l.Points[2].Replicas != 1 || len(l.Decisions) != 1 || l.Decisions[0].Outcome != "scale_up" {
		t.Errorf("an hour: %+v", l)
	}
	// Eight replicas are the most; more are needed: that is a mark too, other holds are none.
	y.exec(`UPDATE decision SET outcome = 'hold', state = 'noted', binding = 'max_replicas', target = from_replicas`)
	if l := load(y.now.Add(-time.Hour), y.now.Add(time.Minute)); len(l.Decisions) != 1 || l.Decisions[0].Binding != "max_replicas" {
		t.Errorf("a capped hold: %+v", l.Decisions)
	}
	y.exec(`UPDATE decision SET binding = 'steady'`)
	if l := load(y.now.Add(-time.Hour), y.now.Add(time.Minute)); len(l.Decisions) != 0 {
		t.Errorf("a quiet hold: %+v", l.Decisions)
	}
	for _, query := range []string{"from=2027-05-20T10:00:00Z&to=2027-05-20T10:00:00Z", "from=2027-05-20T10:00:00Z&to=2027-05-19T10:00:00Z", "from=2020-01-01T00:00:00Z&to=2027-05-20T10:00:00Z", "from=yesterday"} {
		y.with(y.viewer, "GET", "/api/v1/workloads/"+string(id)+"/timeline?"+query, nil).want(t, 422)
	}
}

type shownOverview struct {
	DataNow time.Time `json:"data_now"`
	Cost    struct {
		Today         struct{ Amount string }
		MonthToDate   struct{ Amount string }  `json:"month_to_date"`
		Previous      struct{ Amount string }  `json:"previous_same_span"`
		ForecastMonth *struct{ Amount string } `json:"forecast_month"`
		IdleShare     float64                  `json:"idle_share"`
		UnpricedShare float64                  `json:"unpriced_share"`
	}
	SLO struct {
		Late  *float64 `json:"late_ratio_24h"`
		Worst []struct {
			Key  string
			Late float64 `json:"late_ratio"`
		}
	}
	Savings struct {
		MonthToDate *struct{ Amount string } `json:"month_to_date"`
	}
	Replicas     struct{ Ready, Desired int }
	GPUs         struct{ Total int }
	Clusters     struct{ Online, Offline int }
	Decisions24h struct {
		ScaleUp  int `json:"scale_up"`
		Hold     int
		Proposed int
	} `json:"decisions_24h"`
	AlertsOpen int              `json:"alerts_open"`
	CostByDay  []map[string]any `json:"cost_by_day"`
}

func TestTheOverviewOfANewTenantClaimsNothing(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	var o shownOverview
	y.with(y.viewer, "GET", "/api/v1/overview", nil).want(t, 200).into(t, &o)
	if o.Cost.ForecastMonth != nil || o.SLO.Late != nil || o.Savings.MonthToDate != nil || o.SLO.Worst == nil || o.CostByDay == nil || o.Cost.Today.Amount != "0.00" {
		t.Errorf("%+v", o)
	}
	if since := time.Since(o.DataNow); since > time.Minute {
		t.Errorf("data_now %s", o.DataNow)
	}
}

func TestTheOverviewAddsUp(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	id := y.workload("chat", "llm", "red")
	y.policy(id, yardPolicy)
	y.observe(0, map[string]float64{"chat/Deployment/llm": 60}) // 20 May 2027, 10:00
	y.decide()
	tenant, cluster := string(y.tenant.ID), string(y.cluster)
	day := func(d string, kind string, workload fleet.WorkloadID, units int64) {
		t.Helper()
		y.exec(`INSERT INTO cost_day (tenant_id, cluster_id, day, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used)
			VALUES ($1, $2, $3, $4, 'gpu', 'on_demand', $5, 'chat', 'red', $6, 1, 0, 0, 0)`, tenant, cluster, d, kind, string(workload), units*1_000_000_000)
	}
	const none = "00000000-0000-0000-0000-000000000000"
	for d := 1; d <= 20; d++ {
		day(fmt.Sprintf("2027-05-%02d", d), "workload", id, 30)
		day(fmt.Sprintf("2027-05-%02d", d), "idle", none, 10)
	}
	day("2027-04-30", "workload", id, 7) // the time before: 11 April, 14:00, to the end of April
	day("2027-04-11", "workload", id, 100)
	for at, units := range map[string]int64{"13:00": 90, "14:00": 2, "23:00": 1} {
		y.exec(`INSERT INTO cost_hour_line (tenant_id, cluster_id, hour, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used)
			VALUES ($1, $2, $3, 'workload', 'gpu', 'on_demand', $4, 'chat', 'red', $5, 1, 0, 0, 0)`, tenant, cluster, "2027-04-11T"+at+"Z", string(id), units*1_000_000_000)
	}
	y.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, instance_type, purchase, phase, cpu_milli, mem_mib, gpu_model, gpu_count, gpu_memory_mib, started_at)
		VALUES ($1, $2, 'n', 'n', 'aws', 'us-east-1', 'g5.xlarge', 'on_demand', 'ready', 4000, 16384, 'A10G', 1, 24576, $3)`, tenant, cluster, y.now.Add(-time.Hour))
	y.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, cpu_milli, mem_mib, gpu_milli, created_at)
		VALUES ($1, $2, 'p', 'p', 'chat', 'chat/Deployment/llm', 'n', 'ready', 1000, 4096, 1000, $3)`, tenant, cluster, y.now.Add(-time.Hour))
	for i, late := range []float64{0.1, 0.4} {
		y.exec(`INSERT INTO rollup_1h (tenant_id, cluster_id, workload_id, at, samples, request_rate, late_ratio) VALUES ($1, $2, $3, $4, 60, $5, $6)`,
			tenant, cluster, string(id), y.now.Add(time.Duration(-2-i)*time.Hour), 30-20*i, late)
	}
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		_, _, err := store.OpenAlert(ctx, tx, "agent_offline", "cluster/x", store.SeverityWarning, y.now, nil)
		return err
	})
	var o shownOverview
	y.with(y.viewer, "GET", "/api/v1/overview", nil).want(t, 200).into(t, &o)
	if !o.DataNow.Equal(y.now) || o.Cost.Today.Amount != "40.00" || o.Cost.MonthToDate.Amount != "800.00" || o.Cost.Previous.Amount != "10.00" || o.Cost.IdleShare != 0.25 {
		t.Errorf("cost %+v at %s", o.Cost, o.DataNow)
	}
	if o.Cost.ForecastMonth == nil {
		t.Error("no forecast")
	}
	if o.SLO.Late == nil || *o.SLO.Late < 0.174 || *o.SLO.Late > 0.176 || len(o.SLO.Worst) != 1 { // (30 x 0.1 + 10 x 0.4) / 40
		t.Errorf("slo %+v", o.SLO)
	}
	if o.Replicas.Desired != 2 || o.Replicas.Ready != 1 || o.GPUs.Total != 1 || o.Clusters.Online != 1 || o.AlertsOpen != 1 || o.Decisions24h.Proposed != 1 || len(o.CostByDay) != 21 {
		t.Errorf("%+v", o)
	}
	// The workload is there since 10 May, 10:00: 240 hours at its max of 8 replicas, each the whole of a g5.xlarge's GPU and a quarter
	// of its CPU and memory, less the 600 that it cost this month.
	if o.Savings.MonthToDate == nil {
		t.Fatal("no savings")
	}
	var perHour string
	y.with(y.viewer, "GET", "/api/v1/workloads/"+string(id), nil).want(t, 200).into(t, &struct {
		CostHour *struct{ Amount *string } `json:"cost_hour"`
	}{&struct{ Amount *string }{&perHour}})
	two, err := fleet.ParseMoney(perHour)
	if err != nil {
		t.Fatal(err)
	}
	got, err := fleet.ParseMoney(o.Savings.MonthToDate.Amount)
	if err != nil {
		t.Fatal(err)
	}
	if want := two.MulDiv(8*240, 2).Add(-600 * 1_000_000_000); got < want-1000 || got > want+1000 {
		t.Errorf("savings %s, want about %s", got, want)
	}
	var theirs shownOverview
	y.with(y.stranger, "GET", "/api/v1/overview", nil).want(t, 200).into(t, &theirs)
	if theirs.Cost.MonthToDate.Amount != "0.00" || theirs.Replicas.Desired != 0 || theirs.AlertsOpen != 0 || len(theirs.CostByDay) != 0 {
		t.Errorf("another tenant sees %+v", theirs)
	}
}
