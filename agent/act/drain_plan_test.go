package act

import (
	"context"
	"os"
	"strings"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func drainAction(uid string) *agentv1.CapacityAction {
	return &agentv1.CapacityAction{ActionId: "drain/n1", NodeDrain: &agentv1.NodeDrain{Node: "n1", Uid: uid, Seconds: 60}}
}

func TestAnOrderToLetAMachineGoIsAnsweredWhenItBegins(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil))
	b := newBench(t, map[string]int32{}, Config{Mode: "enforce", Limits: Limits{MaxActionsPerMinute: 2}})
	b.actor.UseDrainer(w.drainer)
	apply := func(id string, generation uint64, x *agentv1.CapacityAction) *agentv1.ActionResult {
		t.Helper()
		return b.actor.Apply(context.Background(), &agentv1.Plan{PlanId: id, Generation: generation, ExpiresMs: b.now + 60_000, Capacity: []*agentv1.CapacityAction{x}})[0]
	}
	r := apply("p1", 1, drainAction("node-1"))
	if r.GetOutcome() != "applied" || !strings.Contains(r.GetAfterSpec(), `"drain":"dr-`) {
		t.Fatalf("begun: %v", r)
	}
	if e := w.event("drain"); e.GetReason() != "done" {
		t.Errorf("ended %v", e)
	}
	if late := <-w.results; late.GetPlanId() != "p1" || late.GetActionId() != "drain/n1" || late.GetGeneration() != 1 || late.GetOutcome() != "applied" {
		t.Errorf("the second result is %v", late)
	}
	if r := apply("p1", 1, drainAction("node-1")); r.GetOutcome() != "already" {
		t.Errorf("the same plan again: %v", r)
	}
	if r := apply("p2", 2, drainAction("node-2")); r.GetErrorCode() != "not_found" {
		t.Errorf("another machine of the same name: %v", r)
	}
	if r := apply("p3", 3, drainAction("node-1")); r.GetErrorCode() != "limit" {
		t.Errorf("over the agent's own rate: %v", r)
	}
	without := newBench(t, map[string]int32{}, Config{Mode: "enforce"})
	if r := without.actor.Apply(context.Background(), &agentv1.Plan{PlanId: "p", Generation: 1, ExpiresMs: without.now + 60_000, Capacity: []*agentv1.CapacityAction{drainAction("node-1")}})[0]; r.GetErrorCode() != "mode" {
		t.Errorf("an agent that lets nothing go answers %v", r)
	}
}

func TestTheDrainLogSurvivesATornLine(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t)
	w.begin(Leave{Node: "n1", Cause: CauseRebalance})
	w.event("drain")
	w.stop()
	f, err := os.OpenFile(w.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`00000000 {"drain":{"id":"lie"}}` + "\n" + `deadbeef {"dr`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	l, err := OpenDrainLog(w.path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, ok := l.Of("node-1", CauseRebalance)
	if !ok || d.Ended != "done" || len(l.Open()) != 0 {
		t.Errorf("after a torn line: %+v %v", d, ok)
	}
	for i := range 2 * keepDrains { // what is kept is bounded
		d.ID = "x" + strings.Repeat("i", i)
		if err := l.Put(d); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.order) > keepDrains {
		t.Errorf("%d drains are kept", len(l.order))
	}
}
