package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// karpenterWorld is the API server's part that matters: objects, who holds which field of a spec, and server-side apply.
type karpenterWorld struct {
	mu        sync.Mutex
	objects   map[string]*unstructured.Unstructured // "nodepools/name"
	holders   map[string]map[string]string          // field: manager
	machines  map[string]int                        // by pool
	forbidden bool
	writes    int
	fail      int // writes that fail from now on
	busy      int // PUTs of a pool that was given back that come too late
}

func newKarpenterWorld(t *testing.T, own ...string) (*Karpenter, *karpenterWorld) {
	t.Helper()
	w := &karpenterWorld{objects: map[string]*unstructured.Unstructured{}, holders: map[string]map[string]string{}, machines: map[string]int{}}
	srv := httptest.NewServer(w)
	t.Cleanup(srv.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: srv.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return NewKarpenter(client, own), w
}

func answer(rw http.ResponseWriter, code int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_ = json.NewEncoder(rw).Encode(v)
}

func refuse(rw http.ResponseWriter, code int, reason metav1.StatusReason, causes ...metav1.StatusCause) {
	answer(rw, code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Code: int32(code),
		Message: string(reason), Details: &metav1.StatusDetails{Causes: causes}})
}

func (w *karpenterWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/karpenter.sh/v1alpha1/"), "/apis/karpenter.sh/v1/")
	resource, name, one := strings.Cut(key, "/")
	if r.Method != http.MethodGet {
		w.writes++
		switch {
		case w.forbidden:
			refuse(rw, http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		case w.fail > 0:
			w.fail--
			refuse(rw, http.StatusInternalServerError, metav1.StatusReasonInternalError)
			return
		}
	}
	switch {
	case !one:
		w.list(rw, resource, r.URL.Query().Get("labelSelector"))
	case r.Method == http.MethodPatch:
		in := &unstructured.Unstructured{}
		if json.NewDecoder(r.Body).Decode(&in.Object) != nil {
			refuse(rw, http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		w.patch(rw, key, name, in, r.URL.Query().Get("fieldManager"), r.URL.Query().Get("force") == "true")
	case w.objects[key] == nil:
		refuse(rw, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodDelete:
		delete(w.objects, key)
		delete(w.holders, key)
		answer(rw, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
	case r.Method == http.MethodPut:
		in := &unstructured.Unstructured{}
		_ = json.NewDecoder(r.Body).Decode(&in.Object)
		if w.busy > 0 && in.GetLabels()[managedLabel] == "" && w.objects[key].GetLabels()[managedLabel] == "" {
			w.busy--
			refuse(rw, http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		w.objects[key] = in
		answer(rw, http.StatusOK, in.Object)
	default:
		answer(rw, http.StatusOK, w.objects[key].Object)
	}
}

func (w *karpenterWorld) list(rw http.ResponseWriter, resource, selector string) {
	items := []any{}
	if pool, ok := strings.CutPrefix(selector, "karpenter.sh/nodepool="); ok && resource == "nodeclaims" {
		for i := range w.machines[pool] {
			items = append(items, map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": map[string]any{"name": fmt.Sprint(pool, i)}})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		if u := w.objects[key]; strings.HasPrefix(key, resource+"/") && u.GetLabels()[managedLabel] == "true" {
			items = append(items, u.Object)
		}
	}
	answer(rw, http.StatusOK, map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "List", "metadata": map[string]any{}, "items": items})
}

// patch is server-side apply of what our objects have: a spec of leaves, lists whole.
func (w *karpenterWorld) patch(rw http.ResponseWriter, key, name string, in *unstructured.Unstructured, manager string, force bool) {
	now := w.objects[key]
	if now == nil {
		now = &unstructured.Unstructured{Object: map[string]any{"apiVersion": in.GetAPIVersion(), "kind": in.GetKind(), "metadata": map[string]any{"name": name, "uid": "u-" + name}, "spec": map[string]any{}}}
		w.holders[key] = map[string]string{}
	}
	next := now.DeepCopy()
	fields := leaves("spec", in.Object["spec"])
	var causes []metav1.StatusCause
	for _, f := range slices.Sorted(maps.Keys(fields)) {
		old, there, _ := unstructured.NestedFieldCopy(now.Object, strings.Split(f, ".")...)
		if who := w.holders[key][f]; there && who != "" && who != manager && !reflect.DeepEqual(fmt.Sprint(old), fmt.Sprint(fields[f])) && !force {
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: fmt.Sprintf("conflict with %q using karpenter.sh/v1", who), Field: "." + f})
		}
	}
	if causes != nil {
		refuse(rw, http.StatusConflict, metav1.StatusReasonConflict, causes...)
		return
	}
	for f, who := range maps.Clone(w.holders[key]) { // what we no longer name goes
		if _, named := fields[f]; !named && who == manager {
			unstructured.RemoveNestedField(next.Object, strings.Split(f, ".")...)
			delete(w.holders[key], f)
		}
	}
	for f, v := range fields {
		_ = unstructured.SetNestedField(next.Object, v, strings.Split(f, ".")...)
		w.holders[key][f] = manager
	}
	labels, notes := next.GetLabels(), next.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if notes == nil {
		notes = map[string]string{}
	}
	maps.Copy(labels, in.GetLabels())
	maps.Copy(notes, in.GetAnnotations())
	next.SetLabels(labels)
	next.SetAnnotations(notes)
	w.put(key, next, !reflect.DeepEqual(now.Object["spec"], next.Object["spec"]))
	answer(rw, http.StatusOK, next.Object)
}

func (w *karpenterWorld) put(key string, u *unstructured.Unstructured, spec bool) {
	if spec {
		u.SetGeneration(u.GetGeneration() + 1)
	}
	u.SetResourceVersion(fmt.Sprint(w.writes))
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	w.objects[key] = u
}

func leaves(path string, v any) map[string]any {
	m, ok := v.(map[string]any)
	if !ok {
		return map[string]any{path: v}
	}
	out := map[string]any{}
	for k, x := range m {
		maps.Copy(out, leaves(path+"."+k, x))
	}
	return out
}

// edit is what another writer does.
func (w *karpenterWorld) edit(pool, manager string, field string, v any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := "nodepools/" + pool
	u := w.objects[key]
	if u == nil {
		u = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": kindPool, "metadata": map[string]any{"name": pool, "uid": "u-" + pool},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": "theirs"}}}}}}
		w.holders[key] = map[string]string{}
	}
	u = u.DeepCopy()
	_ = unstructured.SetNestedField(u.Object, v, strings.Split(field, ".")...)
	w.holders[key][field] = manager
	now := metav1.Now()
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Time: &now, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}})
	w.put(key, u, true)
}

func (w *karpenterWorld) get(pool string) *unstructured.Unstructured {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects["nodepools/"+pool]
}

func (w *karpenterWorld) weight(pool string) int64 {
	n, _, _ := unstructured.NestedInt64(w.get(pool).Object, "spec", "weight")
	if f, ok, _ := unstructured.NestedFloat64(w.get(pool).Object, "spec", "weight"); ok {
		n = int64(f)
	}
	return n
}

func pool(name string, weight int32) *agentv1.CapacityAction {
	return &agentv1.CapacityAction{ActionId: "pool/" + name, NodePool: &agentv1.NodePoolSpec{Name: name, Weight: weight, Limits: map[string]string{"nodes": "3"}, ConsolidationPolicy: "WhenEmpty",
		ConsolidateAfterSeconds: 30, ClassGroup: "karpenter.example.test", ClassKind: "Class", ClassName: "default", Budgets: []*agentv1.DisruptionBudget{{Nodes: "0", Reasons: []string{"Drifted"}}},
		Requirements: []*agentv1.NodeRequirement{{Key: "node.kubernetes.io/instance-type", Operator: "In", Values: []string{"g5.xlarge"}}}}}
}

func overlay(name string, nano int64) *agentv1.CapacityAction {
	return &agentv1.CapacityAction{ActionId: "overlay/" + name, NodeOverlay: &agentv1.NodeOverlaySpec{Name: name, Weight: 100, HourNano: nano,
		Requirements: []*agentv1.NodeRequirement{{Key: "node.kubernetes.io/instance-type", Operator: "In", Values: []string{"g5.xlarge"}}}}}
}

func absent(x *agentv1.CapacityAction) *agentv1.CapacityAction {
	x.Absent = true
	return x
}

// karpenterActor applies plans of capacity alone.
type karpenterActor struct {
	*Actor
	journal *Journal
	now     int64
	gen     uint64
}

func newKarpenterActor(t *testing.T, k *Karpenter, dir string) *karpenterActor {
	t.Helper()
	j, err := OpenJournal(filepath.Join(dir, "act.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	a := &karpenterActor{journal: j, now: 1_000_000}
	a.Actor = New(Config{Mode: "enforce"}, j, NewSim("http://127.0.0.1:1"), Env{NowMS: func() int64 { return a.now }, Observed: func() map[string]int32 { return nil }}, slog.New(slog.DiscardHandler))
	a.UseProvisioner(k)
	return a
}

func (a *karpenterActor) apply(t *testing.T, all ...*agentv1.CapacityAction) []*agentv1.ActionResult {
	t.Helper()
	a.gen++
	return a.Apply(t.Context(), &agentv1.Plan{PlanId: fmt.Sprint("plan-", a.gen), Generation: a.gen, ExpiresMs: a.now + 1000, Capacity: all})
}

func want(t *testing.T, r *agentv1.ActionResult, outcome, code string) {
	t.Helper()
	if r.GetOutcome() != outcome || r.GetErrorCode() != code {
		t.Errorf("%s: %s %q %s, want %s %q", r.GetActionId(), r.GetOutcome(), r.GetErrorCode(), r.GetError(), outcome, code)
	}
}

func TestKarpenterMakesWhatIsWantedOnceWithBeforeAndAfter(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t)
	a := newKarpenterActor(t, k, t.TempDir())
	for _, r := range a.apply(t, overlay("plimsoll-o", 1_500_000_000), pool("plimsoll-a", 10)) {
		want(t, r, "applied", "")
		if r.GetAfterSpec() == "" {
			t.Errorf("%s: no after", r.GetActionId())
		}
	}
	if price, _, _ := unstructured.NestedString(w.objects["nodeoverlays/plimsoll-o"].Object, "spec", "price"); price != "1.5" {
		t.Errorf("price %q", price)
	}
	writes := w.writes
	for _, r := range a.apply(t, overlay("plimsoll-o", 1_500_000_000), pool("plimsoll-a", 10)) {
		want(t, r, "already", "")
	}
	if w.writes != writes {
		t.Errorf("%d writes for nothing", w.writes-writes)
	}
	r := a.apply(t, pool("plimsoll-a", 20))[0]
	want(t, r, "applied", "")
	if !strings.Contains(r.GetBeforeSpec(), `"weight":10`) || !strings.Contains(r.GetAfterSpec(), `"weight":20`) {
		t.Errorf("before %s after %s", r.GetBeforeSpec(), r.GetAfterSpec())
	}
}

func TestKarpenterRefusesOldPlansAlsoWithoutItsJournal(t *testing.T) {
	t.Parallel()
	k, _ := newKarpenterWorld(t)
	a := newKarpenterActor(t, k, t.TempDir())
	a.gen = 6
	want(t, a.apply(t, pool("plimsoll-a", 10))[0], "applied", "")
	a.gen = 3
	want(t, a.apply(t, pool("plimsoll-a", 11))[0], "refused", "stale_generation")
	lost := newKarpenterActor(t, k, t.TempDir())
	lost.gen = 4
	want(t, lost.apply(t, pool("plimsoll-a", 11))[0], "refused", "stale_generation")
}

func TestKarpenterTouchesNothingThatIsNotOurs(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t)
	w.edit("gpu", "kubectl", "spec.weight", int64(7))
	w.edit("plimsoll-theirs", "kubectl", "spec.weight", int64(7))
	a := newKarpenterActor(t, k, t.TempDir())
	for _, r := range a.apply(t, pool("gpu", 10), pool("plimsoll-theirs", 10), pool("new", 10), absent(pool("plimsoll-gone", 0))) {
		if r.GetActionId() == "pool/plimsoll-gone" {
			want(t, r, "already", "")
			continue
		}
		want(t, r, "failed", "forbidden")
	}
	if w.weight("gpu") != 7 || w.weight("plimsoll-theirs") != 7 || w.get("new") != nil {
		t.Error("written")
	}
}

func TestKarpenterKeepsPoolsWithMachines(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t)
	a := newKarpenterActor(t, k, t.TempDir())
	a.apply(t, pool("plimsoll-a", 10))
	w.machines["plimsoll-a"] = 2
	want(t, a.apply(t, absent(pool("plimsoll-a", 0)))[0], "refused", "precondition")
	w.machines["plimsoll-a"] = 0
	want(t, a.apply(t, absent(pool("plimsoll-a", 0)))[0], "applied", "")
	if w.get("plimsoll-a") != nil {
		t.Error("still there")
	}
}

func TestKarpenterYieldsToAnotherWriterAndNamesBoth(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t)
	a := newKarpenterActor(t, k, t.TempDir())
	a.apply(t, pool("plimsoll-a", 10))
	w.edit("plimsoll-a", "kubectl-edit", "spec.weight", int64(55))
	r := a.apply(t, pool("plimsoll-a", 10))[0]
	want(t, r, "failed", "conflict")
	if !slices.Equal(r.GetWriters(), []string{"kubectl-edit", FieldManager}) || w.weight("plimsoll-a") != 55 {
		t.Errorf("writers %v, weight %d", r.GetWriters(), w.weight("plimsoll-a"))
	}
	found, err := k.Conflicts(t.Context())
	if err != nil || len(found) != 1 || !slices.Equal(found[0].Fields, []string{"spec.weight"}) || found[0].Writers[0] != "kubectl-edit" {
		t.Errorf("%+v %v", found, err)
	}
}

func TestKarpenterToldToOwnTakesBackTwiceAndThenStops(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t, "gpu")
	w.edit("gpu", "argocd", "spec.weight", int64(7))
	a := newKarpenterActor(t, k, t.TempDir())
	want(t, a.apply(t, pool("gpu", 10))[0], "applied", "") // taking it over is no fight
	for range maxForced {
		w.edit("gpu", "argocd", "spec.weight", int64(7))
		want(t, a.apply(t, pool("gpu", 10))[0], "applied", "")
	}
	w.edit("gpu", "argocd", "spec.weight", int64(7))
	r := a.apply(t, pool("gpu", 10))[0]
	want(t, r, "failed", "conflict")
	if !strings.Contains(r.GetError(), "we stop") || w.weight("gpu") != 7 {
		t.Errorf("%s, weight %d", r.GetError(), w.weight("gpu"))
	}
	a.now += forcedWindow + 1
	want(t, a.apply(t, pool("gpu", 10))[0], "applied", "")
	if name, _, _ := unstructured.NestedString(w.get("gpu").Object, "spec", "template", "spec", "nodeClassRef", "name"); name != "theirs" {
		t.Errorf("the node class of a pool that is not of our making is %q now", name)
	}
}

func TestKarpenterFailuresInTheMiddleAreToldAndMadeUpForByTheNextPlan(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t)
	a := newKarpenterActor(t, k, t.TempDir())
	a.apply(t, pool("plimsoll-a", 10), pool("plimsoll-b", 9))
	w.fail = 1
	out := a.apply(t, pool("plimsoll-a", 20), pool("plimsoll-b", 19))
	if out[0].GetOutcome() == "applied" { // which of the two comes first is nobody's to say; the other is carried out all the same
		want(t, out[1], "failed", "internal")
	} else {
		want(t, out[0], "failed", "internal")
		want(t, out[1], "applied", "")
	}
	w.forbidden = true
	want(t, a.apply(t, pool("plimsoll-a", 21))[0], "failed", "forbidden")
	w.forbidden = false
	for _, r := range a.apply(t, pool("plimsoll-a", 20), pool("plimsoll-b", 19)) {
		if r.GetOutcome() != "applied" && r.GetOutcome() != "already" {
			t.Errorf("%s: %s %s", r.GetActionId(), r.GetOutcome(), r.GetError())
		}
	}
	if w.weight("plimsoll-a") != 20 || w.weight("plimsoll-b") != 19 {
		t.Errorf("weights %d and %d", w.weight("plimsoll-a"), w.weight("plimsoll-b"))
	}
}

func TestKarpenterActionsUnderWayAtAKillAreLookedUp(t *testing.T) {
	t.Parallel()
	k, _ := newKarpenterWorld(t)
	dir := t.TempDir()
	a := newKarpenterActor(t, k, dir)
	plan := &agentv1.Plan{PlanId: "p", Generation: 1, ExpiresMs: a.now + 1000, Capacity: []*agentv1.CapacityAction{pool("plimsoll-a", 10), pool("plimsoll-b", 9), pool("plimsoll-c", 8)}}
	if err := a.journal.Begin(plan, a.now); err != nil {
		t.Fatal(err)
	}
	for _, x := range plan.GetCapacity()[:2] { // a was written and the agent died before it said so; of b it only said that it would
		if err := a.journal.Changing("p", x.GetActionId(), true, a.now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Put(t.Context(), plan.GetCapacity()[0], Object{}, Mark{Plan: "p", Action: "pool/plimsoll-a", Generation: 1}); err != nil {
		t.Fatal(err)
	}
	_ = a.journal.Close()
	b := newKarpenterActor(t, k, dir)
	settled := b.Recover(t.Context())
	if len(settled) != 1 || len(settled[0]) != 3 {
		t.Fatalf("%v", settled)
	}
	want(t, settled[0][0], "applied", "")
	want(t, settled[0][1], "failed", "internal")
	want(t, settled[0][2], "failed", "internal")
	for _, r := range b.Apply(t.Context(), plan) {
		if r.GetOutcome() == "applied" {
			t.Errorf("%s was done again", r.GetActionId())
		}
	}
}

func TestKarpenterHandBackRestoresWhatWasAndEndsNoMachine(t *testing.T) {
	t.Parallel()
	k, w := newKarpenterWorld(t, "gpu")
	w.edit("gpu", "argocd", "spec.weight", int64(7))
	a := newKarpenterActor(t, k, t.TempDir())
	for _, r := range a.apply(t, overlay("plimsoll-o", 1), pool("gpu", 10), pool("plimsoll-a", 20), pool("plimsoll-b", 19)) {
		want(t, r, "applied", "")
	}
	w.machines["plimsoll-a"] = 2
	w.edit("plimsoll-a", FieldManager, "spec.disruption.consolidationPolicy", "WhenEmptyOrUnderutilized")
	n, err := k.HandBack(t.Context())
	if n != 4 || err != nil {
		t.Fatal(n, err)
	}
	if w.weight("gpu") != 7 || w.objects["nodeoverlays/plimsoll-o"] != nil || w.get("plimsoll-b") != nil {
		t.Errorf("weight %d, %v", w.weight("gpu"), slices.Sorted(maps.Keys(w.objects)))
	}
	limit, _, _ := unstructured.NestedString(w.get("plimsoll-a").Object, "spec", "limits", "nodes")
	for _, name := range []string{"gpu", "plimsoll-a"} {
		if u := w.get(name); u.GetLabels()[managedLabel] != "" || u.GetAnnotations()[planNote] != "" {
			t.Errorf("%s is still marked: %v %v", name, u.GetLabels(), u.GetAnnotations())
		}
	}
	if policy, _, _ := unstructured.NestedString(w.get("plimsoll-a").Object, "spec", "disruption", "consolidationPolicy"); policy != "WhenEmpty" {
		t.Errorf("it may still replace machines: %s", policy)
	}
	if limit != "2" {
		t.Errorf("a pool that keeps its machines may have %s", limit)
	}
	if n, err := k.HandBack(t.Context()); n != 0 || err != nil {
		t.Error("again:", n, err)
	}
}

func TestKarpenterBadInputChangesNothing(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]*agentv1.CapacityAction{
		"no name":       {ActionId: "x", NodePool: &agentv1.NodePoolSpec{}},
		"two objects":   {ActionId: "x", NodePool: pool("plimsoll-a", 1).GetNodePool(), NodeOverlay: overlay("plimsoll-a", 1).GetNodeOverlay()},
		"nothing":       {ActionId: "x"},
		"no id":         {NodePool: pool("plimsoll-a", 1).GetNodePool()},
		"a price of 0":  overlay("plimsoll-o", 0),
		"a price below": overlay("plimsoll-o", -1),
		"a bad limit":   {ActionId: "x", NodePool: &agentv1.NodePoolSpec{Name: "plimsoll-a", Limits: map[string]string{"nodes": "many"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, w := newKarpenterWorld(t)
			a := newKarpenterActor(t, k, t.TempDir())
			for _, r := range a.apply(t, x) {
				if r.GetOutcome() == "applied" {
					t.Errorf("%+v", r)
				}
			}
			if len(w.objects) != 0 {
				t.Errorf("made %v", slices.Sorted(maps.Keys(w.objects)))
			}
		})
	}
	k, _ := newKarpenterWorld(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Read(ended, pool("plimsoll-a", 1)); err == nil || errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
