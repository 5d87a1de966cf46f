package act

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// crowd is a karpenterWorld that counts how many writes come at the same time, and lets none go on before so many are there.
type crowd struct {
	world   *karpenterWorld
	arrive  chan struct{} // closed when enough writes wait
	want    int64
	waiting atomic.Int64
	most    atomic.Int64
}

func (c *crowd) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		n := c.waiting.Add(1)
		for {
			most := c.most.Load()
			if n <= most || c.most.CompareAndSwap(most, n) {
				break
			}
		}
		if n == c.want {
			close(c.arrive)
		}
		<-c.arrive
		c.waiting.Add(-1)
	}
	c.world.ServeHTTP(rw, r)
}

func TestKarpenterPoolsOpenSideBySideWithinABoundAndAnswersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	w := &karpenterWorld{objects: map[string]*unstructured.Unstructured{}, holders: map[string]map[string]string{}, machines: map[string]int{}}
	c := &crowd{world: w, want: changesAtOnce, arrive: make(chan struct{})}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: srv.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	a := newKarpenterActor(t, NewKarpenter(client, nil), t.TempDir())
	var all []*agentv1.CapacityAction
	for i := range 3 * changesAtOnce {
		all = append(all, pool(fmt.Sprintf("plimsoll-%02d", i), int32(1+i)))
	}
	for i, r := range a.apply(t, all...) { // that it ends at all shows that as many as may be are under way at once
		want(t, r, "applied", "")
		if r.GetActionId() != all[i].GetActionId() {
			t.Errorf("answer %d is about %s", i, r.GetActionId())
		}
	}
	if n := c.most.Load(); n != changesAtOnce {
		t.Errorf("%d writes at a time", n)
	}
}

func TestKarpenterLimitPerMinuteHoldsForPoolsThatOpenSideBySide(t *testing.T) {
	t.Parallel()
	k, _ := newKarpenterWorld(t)
	a := newKarpenterActor(t, k, t.TempDir())
	a.cfg.Limits.MaxActionsPerMinute = 5
	var all []*agentv1.CapacityAction
	for i := range 40 {
		all = append(all, pool(fmt.Sprintf("plimsoll-%02d", i), int32(1+i)))
	}
	applied := 0
	for _, r := range a.apply(t, all...) {
		switch r.GetOutcome() {
		case "applied":
			applied++
		default:
			want(t, r, "refused", "limit")
		}
	}
	if applied != 5 {
		t.Errorf("%d changes within a minute", applied)
	}
}

func TestKarpenterOwnsAnotherPoolOnlyWithinWhatIsAskedAndGivesItBack(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]string{"by name": "gpu", "any that a plan names": anyPool} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, w := newKarpenterWorld(t, own)
			w.edit("gpu", "argocd", "spec.weight", int64(7))
			w.edit("gpu", "argocd", "spec.limits.cpu", "1000")
			a := newKarpenterActor(t, k, t.TempDir())
			bare := func() *agentv1.CapacityAction {
				x := pool("gpu", 1)
				x.NodePool.Requirements, x.NodePool.Limits, x.NodePool.Labels = nil, nil, map[string]string{"team": "ours"}
				return x
			}
			want(t, a.apply(t, bare())[0], "applied", "")
			want(t, a.apply(t, bare())[0], "already", "")
			if w.weight("gpu") != 1 {
				t.Errorf("weight %d", w.weight("gpu"))
			}
			if limit, _, _ := unstructured.NestedString(w.get("gpu").Object, "spec", "limits", "cpu"); limit != "1000" {
				t.Errorf("its owner's limit is %q now", limit)
			}
			if _, told, _ := unstructured.NestedMap(w.get("gpu").Object, "spec", "template", "metadata"); told {
				t.Error("labels of a pool that others made are written")
			}
			want(t, a.apply(t, pool("gone", 1))[0], "failed", map[string]string{"gpu": "forbidden", anyPool: "not_found"}[own])
			w.machines["gpu"] = 3
			want(t, a.apply(t, absent(pool("gpu", 0)))[0], "applied", "") // it keeps its machines
			want(t, a.apply(t, absent(pool("gpu", 0)))[0], "already", "")
			if u := w.get("gpu"); u == nil || w.weight("gpu") != 7 || u.GetLabels()[managedLabel] != "" || u.GetAnnotations()[beforeNote] != "" {
				t.Errorf("not as it was: %v", u)
			}
			found, err := k.Conflicts(t.Context())
			if err != nil || len(found) != 0 {
				t.Errorf("what was given back is still watched: %v %v", found, err)
			}
		})
	}
}

func TestKarpenterWithAnyPoolToOwnDoesNotForceItsOwnPools(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t, anyPool)
	a := newKarpenterActor(t, k, t.TempDir())
	a.apply(t, pool("plimsoll-a", 10))
	w.edit("plimsoll-a", "kubectl-edit", "spec.weight", int64(55))
	want(t, a.apply(t, pool("plimsoll-a", 10))[0], "failed", "conflict")
}

func TestKarpenterMachinesHaveTheLabelsThatPodsAskFor(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t)
	a := newKarpenterActor(t, k, t.TempDir())
	x := pool("plimsoll-a", 10)
	x.NodePool.Labels = map[string]string{"team": "search"}
	x.NodePool.Taints = []*agentv1.NodeTaint{{Key: "dedicated", Value: "search", Effect: "NoSchedule"}}
	want(t, a.apply(t, x)[0], "applied", "")
	want(t, a.apply(t, x)[0], "already", "")
	u := w.get("plimsoll-a")
	if team, _, _ := unstructured.NestedString(u.Object, "spec", "template", "metadata", "labels", "team"); team != "search" {
		t.Errorf("label %q", team)
	}
	taints, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "taints")
	if len(taints) != 1 || !slices.ContainsFunc(taints, func(v any) bool { return strings.Contains(fmt.Sprint(v), "dedicated") }) {
		t.Errorf("taints %v", taints)
	}
}

func TestKarpenterLeavesNoNameOnFieldsThatItGaveBack(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t, "gpu")
	w.edit("gpu", "argocd", "spec.weight", int64(7))
	a := newKarpenterActor(t, k, t.TempDir())
	want(t, a.apply(t, pool("gpu", 10))[0], "applied", "")
	u := w.get("gpu").DeepCopy()
	u.SetManagedFields(append(u.GetManagedFields(), metav1.ManagedFieldsEntry{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:weight":{}}}`)}))
	w.mu.Lock()
	w.objects["nodepools/gpu"] = u
	w.mu.Unlock()
	w.busy = 2 // Karpenter writes the pool's status meanwhile
	want(t, a.apply(t, absent(pool("gpu", 0)))[0], "applied", "")
	if w.busy != 0 {
		t.Fatal("nothing was in the way")
	}
	left := w.get("gpu").GetManagedFields()
	if len(left) != 1 || left[0].Manager != "argocd" || w.weight("gpu") != 7 {
		t.Errorf("fields of %v, weight %d", left, w.weight("gpu"))
	}
}
