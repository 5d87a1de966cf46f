package act

import (
	"encoding/json"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPoolsHaveWhatThePolicyPutsOnTheirMachinesAndLoseItAgain(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t, "gpu")
	a := newKarpenterActor(t, k, t.TempDir())
	ruled := func(name string) *agentv1.CapacityAction {
		x := pool(name, 10)
		p := x.GetNodePool()
		p.Labels = map[string]string{"tier": "gold"}
		p.Taints = []*agentv1.NodeTaint{{Key: "team", Value: "ml", Effect: "NoSchedule"}}
		p.StartupTaints = []*agentv1.NodeTaint{{Key: "agent-not-ready", Effect: "NoExecute"}}
		p.ExpireAfterSeconds, p.TerminationGraceSeconds = 2_592_000, 1800
		return x
	}
	spec := func(name string) string {
		t.Helper()
		got, _, err := unstructured.NestedMap(w.get(name).Object, "spec", "template", "spec")
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]any{}
		for _, key := range []string{"taints", "startupTaints", "expireAfter", "terminationGracePeriod"} {
			if list, ok := got[key].([]any); got[key] != nil && (!ok || len(list) > 0) {
				out[key] = got[key]
			}
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want(t, a.apply(t, ruled("plimsoll-a"))[0], "applied", "")
	if got, all := spec("plimsoll-a"), `{"expireAfter":"2592000s","startupTaints":[{"effect":"NoExecute","key":"agent-not-ready"}],"taints":[{"effect":"NoSchedule","key":"team","value":"ml"}],"terminationGracePeriod":"1800s"}`; got != all {
		t.Errorf("got  %s\nwant %s", got, all)
	}
	if tier, _, _ := unstructured.NestedString(w.get("plimsoll-a").Object, "spec", "template", "metadata", "labels", "tier"); tier != "gold" {
		t.Errorf("label %q", tier)
	}
	want(t, a.apply(t, ruled("plimsoll-a"))[0], "already", "")
	want(t, a.apply(t, pool("plimsoll-a", 10))[0], "applied", "") // the policy says nothing of pools any more
	if got := spec("plimsoll-a"); got != `{"expireAfter":"Never"}` {
		t.Errorf("left behind: %s", got)
	}
	want(t, a.apply(t, pool("plimsoll-a", 10))[0], "already", "")

	w.edit("gpu", "argocd", "spec.weight", int64(7))
	before := spec("gpu")
	a.apply(t, ruled("gpu"))
	if got := spec("gpu"); got != before {
		t.Errorf("a pool that others made: %s, before %s", got, before)
	}
}
