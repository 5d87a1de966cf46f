package act

import (
	"context"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAMachineThatIsNotEndedAfterAllTakesPodsAgain(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil))
	b := newBench(t, map[string]int32{}, Config{Mode: "enforce"})
	b.actor.UseDrainer(w.drainer)
	n := uint64(0)
	apply := func(x *agentv1.CapacityAction) *agentv1.ActionResult {
		t.Helper()
		n++
		return b.actor.Apply(context.Background(), &agentv1.Plan{PlanId: string(rune('a' + n)), Generation: n, ExpiresMs: b.now + 60_000, Capacity: []*agentv1.CapacityAction{x}})[0]
	}
	back := func(uid string) *agentv1.CapacityAction {
		x := drainAction(uid)
		x.Absent = true
		return x
	}
	cordoned := func() bool {
		t.Helper()
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node.Spec.Unschedulable
	}
	want(t, apply(back("node-1")), "already", "") // nobody drained it
	want(t, apply(drainAction("node-1")), "applied", "")
	w.event("drain")
	if !cordoned() {
		t.Fatal("it was not cordoned")
	}
	want(t, apply(back("another")), "already", "")
	if !cordoned() {
		t.Fatal("the end of another machine's drain uncordoned it")
	}
	want(t, apply(back("node-1")), "applied", "")
	if cordoned() {
		t.Error("it takes no pods")
	}
	want(t, apply(back("node-1")), "already", "")
}
