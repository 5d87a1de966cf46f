package httpapi_test

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
)

func TestATuningIsShownAndDismissed(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	id := y.workload("chat", "llm", "red")
	path := "/api/v1/workloads/" + string(id) + "/tunings"
	list := func() (out httpapi.TuningList) {
		y.with(y.viewer, "GET", path, nil).want(t, 200).into(t, &out)
		return out
	}
	if l := list(); l.Tuning != "none" || len(l.Items) != 0 {
		t.Errorf("%+v", l)
	}
	y.policy(id, sloDocument)
	cost := fleet.Money(12_000_000_000)
	var first string
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		found := store.Tuning{Workload: id, At: y.now, PolicyVersion: 1, State: store.TuningProposed, Reason: "cheaper_on_time", Document: "max: 9\n", Took: 1500 * time.Millisecond,
			Result: store.TuneResult{Days: 11, Need: 9, Objective: 0.01, Limit: 0.005, Current: 0.6, Proposed: 0.75, Chosen: &store.TuneSpan{From: y.now.Add(-9 * 24 * time.Hour), To: y.now.Add(-48 * time.Hour)},
				Tried: []store.TuneTried{{Aim: 0.6, Paid: 30, Cost: &cost, Late: 0.003, OnTime: true}, {Aim: 0.75, Paid: 28, Late: 0.004, OnTime: true}}}}
		if _, err := store.SaveTuning(ctx, tx, found); err != nil {
			return err
		}
		id, err := store.SaveTuning(ctx, tx, found)
		first = id
		return err
	})
	l := list()
	if l.Tuning != "propose" || len(l.Items) != 2 || l.Items[0].ID != first || l.Items[1].State != "dismissed" {
		t.Fatalf("%+v", l)
	}
	got := l.Items[0]
	if got.Proposed == nil || *got.Proposed != 0.75 || got.Tried[0].Cost == nil || got.Tried[1].Cost != nil || got.ChosenOn == nil || got.HeldOut != nil || got.TookSeconds != 1.5 || got.Document == "" {
		t.Errorf("%+v", got)
	}
	y.with(y.viewer, "POST", path+"/"+first+"/dismiss", nil).want(t, 403)
	y.with(y.stranger, "GET", path, nil).want(t, 404) // of another tenant
	y.with(y.operator, "POST", path+"/0190b0e0-0000-7000-8000-00000000dead/dismiss", nil).want(t, 404)
	y.with(y.operator, "POST", path+"/"+first+"/dismiss", nil).want(t, 204)
	y.with(y.operator, "POST", path+"/"+first+"/dismiss", nil).want(t, 409)
	if got := list().Items[0]; got.State != "dismissed" || got.DismissedBy != "test operator" {
		t.Errorf("%+v", got)
	}
}
