package httpapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
)

func TestPeopleTellOfLoadThatComes(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	llm, plain := y.workload("chat", "llm", "red"), y.workload("chat", "api", "red")
	path := func(id fleet.WorkloadID) string { return "/api/v1/workloads/" + string(id) + "/hints" }
	list := func(id fleet.WorkloadID, query string) (out httpapi.HintList) {
		y.with(y.viewer, "GET", path(id)+query, nil).want(t, 200).into(t, &out)
		return out
	}
	if l := list(llm, ""); len(l.Items) != 0 || l.Reads != "none" || l.Most != store.MaxHints {
		t.Errorf("%+v", l)
	}
	y.policy(llm, sloDocument)
	y.policy(plain, yardPolicy)
	if a, b := list(llm, "").Reads, list(plain, "").Reads; a != "all" || b != "replicas" {
		t.Errorf("they read %s and %s", a, b)
	}
	now := time.Now().UTC()
	body := func(kind string, amount float64, from, to time.Duration) map[string]any {
		return map[string]any{"kind": kind, "amount": amount, "from": now.Add(from), "to": now.Add(to), "note": "  launch  "}
	}
	var h httpapi.Hint
	y.with(y.operator, "POST", path(llm), body("factor", 3, time.Hour, 2*time.Hour)).want(t, 201).into(t, &h)
	if h.State != "ahead" || h.Note != "launch" || h.CreatedBy == "" || h.Amount != 3 {
		t.Errorf("%+v", h)
	}
	y.with(y.operator, "POST", path(llm), body("replicas", 7, -time.Hour, 90*time.Minute)).want(t, 201) // they may overlap
	if l := list(llm, ""); len(l.Items) != 2 || l.Items[0].State != "now" || l.Items[1].ID != h.ID {
		t.Errorf("%+v", l.Items)
	}
	if l := list(plain, ""); len(l.Items) != 0 {
		t.Errorf("another workload has %+v", l.Items)
	}
	for name, c := range map[string]struct {
		body  map[string]any
		field string
	}{
		"over":     {body("factor", 2, -2*time.Hour, -time.Hour), "body.to"},
		"backward": {body("factor", 2, time.Hour, time.Hour), "body.to"},
		"long":     {body("factor", 2, 0, 32*24*time.Hour), "body.to"},
		"far":      {body("factor", 2, 400*24*time.Hour, 401*24*time.Hour), "body.from"},
		"nothing":  {body("rate", 0, 0, time.Hour), "body.amount"},
		"less":     {body("replicas", -1, 0, time.Hour), "body.amount"},
		"half":     {body("replicas", 1.5, 0, time.Hour), "body.amount"},
		"huge":     {body("factor", 101, 0, time.Hour), "body.amount"},
		"kind":     {body("joy", 1, 0, time.Hour), "body.kind"},
		"no time":  {map[string]any{"kind": "factor", "amount": 2}, ""},
	} {
		if got := y.with(y.operator, "POST", path(llm), c.body).want(t, 422).body; !strings.Contains(string(got), c.field) {
			t.Errorf("%s: %s", name, got)
		}
	}
	y.with(y.stranger, "GET", path(llm), nil).want(t, 404) // of another tenant
	y.with(y.stranger, "DELETE", path(llm)+"/"+h.ID, nil).want(t, 404)
	y.with(y.viewer, "POST", path(llm), body("factor", 2, 0, time.Hour)).want(t, 403)
	y.with(y.operator, "POST", path("0190b0e0-0000-7000-8000-00000000dead"), body("factor", 2, 0, time.Hour)).want(t, 404)
	y.with(y.operator, "DELETE", path(plain)+"/"+h.ID, nil).want(t, 404)
	y.with(y.operator, "DELETE", path(llm)+"/"+h.ID, nil).want(t, 204)
	y.with(y.operator, "DELETE", path(llm)+"/"+h.ID, nil).want(t, 404)

	y.tx(func(ctx context.Context, tx *store.Tx) error {
		for i := range store.MaxHints - 1 {
			hint := store.Hint{Workload: llm, CreatedBy: "test", Note: fmt.Sprint(i)}
			hint.Kind, hint.Amount, hint.From, hint.To = "rate", 5, now, now.Add(time.Hour)
			if _, err := store.AddHint(ctx, tx, hint); err != nil {
				return err
			}
		}
		return nil
	})
	y.with(y.operator, "POST", path(llm), body("factor", 2, 0, time.Hour)).want(t, 409)
}
