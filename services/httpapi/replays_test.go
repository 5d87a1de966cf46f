package httpapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/lab"
	"plimsoll.dev/services/store"
)

// ReplaySoon is the job queue's part for replays; nothing runs.
func (*planQueue) ReplaySoon(context.Context, *store.Tx, string) error { return nil }

func TestAPolicyThatEnforcesNeedsAReplayOfThatVeryDocumentOrAReason(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	id := y.workload("chat", "llm", "red")
	path := "/api/v1/workloads/" + string(id) + "/policy"
	put := func(document, reason string) answer {
		body := map[string]string{"document": document}
		if reason != "" {
			body["replay_override"] = reason
		}
		return y.with(y.operator, "PUT", path, body)
	}
	refused := put(sloDocument, "").want(t, 409)
	if !strings.Contains(string(refused.body), "replay_override") {
		t.Errorf("the refusal does not say what to do: %s", refused.body)
	}
	put(strings.Replace(sloDocument, "enforce", "recommend", 1), "").want(t, 200) // what does not act needs none

	var asked httpapi.Replay
	y.with(y.operator, "POST", "/api/v1/replays", map[string]any{"workload_id": id, "document": sloDocument}).want(t, 201).into(t, &asked)
	if asked.State != "queued" || len(asked.Baselines) != 4 || asked.To.Sub(asked.From) != 7*24*time.Hour || asked.CurrentVersion != 1 {
		t.Errorf("asked for %+v", asked)
	}
	put(sloDocument, "").want(t, 409) // not done yet
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.FinishReplay(ctx, tx, asked.ID, lab.HistoryReport{Basis: "requests", Bound: 10, Covered: 0.9, Rows: []lab.HistoryRow{
			{Policy: "proposed", Kind: "proposed", Paid: 12, Ratio: 1.2, Late: 0.01}, {Policy: "version 1", Kind: "current", Problem: "it looks at the moon"}}}, true, "")
	})
	var got httpapi.Replay
	y.with(y.viewer, "GET", "/api/v1/replays/"+asked.ID, nil).want(t, 200).into(t, &got)
	if got.State != "done" || got.Result == nil || *got.Result.Rows[0].Ratio != 1.2 || got.Result.Rows[1].Paid != nil || got.Result.Bound == nil {
		t.Errorf("done: %+v", got)
	}
	put(sloDocument+"# but for a word\n", "").want(t, 409)
	put(sloDocument, "").want(t, 200)
	put(sloDocument, "").want(t, 200) // in force already
	put(sloDocument+"max_signal_age_seconds: 60\n", "the night shift needs it now").want(t, 200)
	var audit list[struct {
		Action string
		Detail map[string]string
	}]
	y.with(y.key(y.tenant.ID, auth.RoleAdmin), "GET", "/api/v1/audit", nil).want(t, 200).into(t, &audit)
	found := map[string]bool{}
	for _, e := range audit.Items {
		found["replay"] = found["replay"] || e.Action == "policy.save" && e.Detail["replay"] == asked.ID
		found["reason"] = found["reason"] || e.Action == "policy.save" && e.Detail["replay_override"] == "the night shift needs it now"
	}
	if !found["replay"] || !found["reason"] {
		t.Errorf("the audit log does not have the replay and the reason: %+v", audit.Items)
	}
}

func TestReplaysAreListedCancelledBoundedAndOnesOwn(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	id := y.workload("chat", "llm", "red")
	ask := func(body map[string]any) answer {
		body["workload_id"] = id
		return y.with(y.operator, "POST", "/api/v1/replays", body)
	}
	ask(map[string]any{}).want(t, 422)                                                // no policy and no document
	ask(map[string]any{"preset": "no-such"}).want(t, 422)                             // unknown preset
	ask(map[string]any{"preset": "slo", "baselines": []string{"moon"}}).want(t, 422)  // unknown baseline
	ask(map[string]any{"document": "max: 1\nmin: 5\n"}).want(t, 422)                  // unsound policy
	ask(map[string]any{"preset": "slo", "from": "2020-01-01T00:00:00Z"}).want(t, 422) // too long
	y.with(y.viewer, "POST", "/api/v1/replays", map[string]any{"workload_id": id, "preset": "slo"}).want(t, 403)
	y.with(y.stranger, "POST", "/api/v1/replays", map[string]any{"workload_id": id, "preset": "slo"}).want(t, 404)
	var first, second httpapi.Replay
	ask(map[string]any{"preset": "slo"}).want(t, 201).into(t, &first)
	ask(map[string]any{"preset": "llm-queue"}).want(t, 201).into(t, &second)
	ask(map[string]any{"preset": "slo"}).want(t, 429)
	y.with(y.operator, "POST", "/api/v1/replays/"+first.ID+"/cancel", nil).want(t, 200)
	y.with(y.operator, "POST", "/api/v1/replays/"+first.ID+"/cancel", nil).want(t, 409)
	y.with(y.stranger, "GET", "/api/v1/replays/"+first.ID, nil).want(t, 404)
	var page struct {
		Items []httpapi.Replay
		Next  string `json:"next_cursor"`
	}
	y.with(y.viewer, "GET", "/api/v1/replays?limit=1", nil).want(t, 200).into(t, &page)
	if len(page.Items) != 1 || page.Items[0].ID != second.ID || page.Next == "" {
		t.Fatalf("first page %+v", page)
	}
	y.with(y.viewer, "GET", "/api/v1/replays?limit=1&cursor="+page.Next, nil).want(t, 200).into(t, &page)
	if len(page.Items) != 1 || page.Items[0].ID != first.ID || page.Items[0].State != "cancelled" {
		t.Errorf("second page %+v", page)
	}
}

func TestARolloutBeginsInTheShadowAndIsTakenBackByHand(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	id := y.workload("chat", "llm", "red")
	path := "/api/v1/workloads/" + string(id) + "/rollouts"
	ask := func(document, reason string) answer {
		return y.with(y.operator, "POST", path, map[string]any{"document": document, "replay_override": reason})
	}
	ask(sloDocument, "now").want(t, 409) // nothing to go back to
	y.policy(id, yardPolicy)
	ask(sloDocument, "").want(t, 409)   // never replayed, no reason
	ask(yardPolicy, "now").want(t, 422) // does not enforce
	y.with(y.viewer, "POST", path, map[string]any{"document": sloDocument, "replay_override": "now"}).want(t, 403)
	var r httpapi.Rollout
	ask(sloDocument, "now").want(t, 201).into(t, &r)
	if r.State != "shadow" || r.BaseVersion != 1 || r.Reason != "now" || r.ShadowSeconds != 3600 || r.CanaryShare != 0.25 {
		t.Errorf("begun as %+v", r)
	}
	ask(sloDocument, "now").want(t, 409) // one at a time
	y.with(y.stranger, "POST", "/api/v1/rollouts/"+r.ID+"/rollback", nil).want(t, 404)
	y.with(y.operator, "POST", "/api/v1/rollouts/"+r.ID+"/rollback", nil).want(t, 200).into(t, &r)
	if r.State != "cancelled" || r.FinishedAt == nil {
		t.Errorf("ended as %+v", r)
	}
	y.with(y.operator, "POST", "/api/v1/rollouts/"+r.ID+"/rollback", nil).want(t, 409)
	var all list[httpapi.Rollout]
	y.with(y.viewer, "GET", path, nil).want(t, 200).into(t, &all)
	if len(all.Items) != 1 || all.Items[0].State != "cancelled" {
		t.Errorf("listed %+v", all.Items)
	}
}
