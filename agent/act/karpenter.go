package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	kindPool    = "NodePool"
	kindOverlay = "NodeOverlay"

	ownPrefix      = "plimsoll-" // of objects that were made here
	managedLabel   = "plimsoll.dev/managed"
	generationNote = "plimsoll.dev/generation"
	planNote       = "plimsoll.dev/plan"   // plan and action that wrote it last
	beforeNote     = "plimsoll.dev/before" // of a pool that was told to be ours: what it said before
	forcedNote     = "plimsoll.dev/forced" // when fields were taken back from another writer, unix milliseconds

	maxForced     = 2 // times in forcedWindow that fields are taken back; after that we stop
	forcedWindow  = 10 * 60_000
	readyTime     = 10 * time.Second // that new pools get to be taken by Karpenter
	readyLook     = 100 * time.Millisecond
	settleTime    = 3 * time.Second // that changed pools get to be looked at by Karpenter before those that take what they leave
	karpenterPage = 500
	karpenterMax  = 20_000 // objects of one list
)

var (
	poolsResource    = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	claimsResource   = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	overlaysResource = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1alpha1", Resource: "nodeoverlays"}
)

// Karpenter steers Karpenter by server-side apply under our field manager. It writes NodePools and NodeOverlays that were made here, and
// NodePools that it was told to own; a field that somebody else holds is left to them, both writers are told, and only where we were told
// to own the object is it taken back, twice in ten minutes at most. Pools with machines are never deleted.
type Karpenter struct {
	objects dynamic.Interface
	settle  time.Duration // settleTime but in tests
	own     []string      // NodePools of others that are ours to write; anyPool: those that a plan names

	// mu guards wanted.
	mu     sync.Mutex
	wanted map[string]*agentv1.CapacityAction // by key: what was put last, to see who else writes it
}

// anyPool in the list of pools to own leaves it to the plan which.
const anyPool = "*"

// NewKarpenter makes the provisioner. own names NodePools that somebody else made and that Plimsoll may write once a plan does; "*" is all of them.
func NewKarpenter(objects dynamic.Interface, own []string) *Karpenter {
	return &Karpenter{objects: objects, settle: settleTime, own: own, wanted: map[string]*agentv1.CapacityAction{}}
}

func (k *Karpenter) resource(key string) (dynamic.ResourceInterface, string, error) {
	kind, name, _ := strings.Cut(key, "/")
	switch {
	case kind == kindPool && name != "":
		return k.objects.Resource(poolsResource), name, nil
	case kind == kindOverlay && name != "":
		return k.objects.Resource(overlaysResource), name, nil
	}
	return nil, "", fmt.Errorf("%q is neither a NodePool nor a NodeOverlay: %w", key, ErrNotFound)
}

// get returns nil for what does not exist.
func (k *Karpenter) get(ctx context.Context, key string) (*unstructured.Unstructured, error) {
	r, name, err := k.resource(key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	u, err := r.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, kubeError(key, err)
	}
	return u, nil
}

// Prepare implements Provisioner: pools that do not exist are made with a limit of no nodes, side by side. One that cannot be made is told by its own
// action; the others are made and waited for.
func (k *Karpenter) Prepare(ctx context.Context, all []*agentv1.CapacityAction, by Mark) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	var ours []*agentv1.CapacityAction
	for _, x := range all {
		if x.GetNodePool() != nil && !x.GetAbsent() && strings.HasPrefix(x.GetNodePool().GetName(), ownPrefix) {
			ours = append(ours, x)
		}
	}
	failed := make([]error, len(ours))
	sideBySide(len(ours), changesAtOnce, func(i int) {
		made, err := k.prepare(ctx, ours[i], by)
		if made && err == nil {
			err = k.ready(ctx, capacityKey(ours[i]))
		}
		failed[i] = err
	})
	return errors.Join(failed...)
}

// prepare makes a pool that does not exist, closed.
func (k *Karpenter) prepare(ctx context.Context, x *agentv1.CapacityAction, by Mark) (made bool, err error) {
	key := capacityKey(x)
	now, err := k.get(ctx, key)
	if err != nil || now != nil {
		return false, err
	}
	want, err := k.desired(x)
	if err != nil {
		return false, err
	}
	want["spec"].(map[string]any)["limits"] = map[string]any{"nodes": "0"}
	want["metadata"] = map[string]any{"name": x.GetNodePool().GetName(), "labels": map[string]any{managedLabel: "true"},
		"annotations": map[string]any{generationNote: strconv.FormatUint(by.Generation, 10), planNote: by.Plan + "/" + by.Action}}
	_, err = k.apply(ctx, k.objects.Resource(poolsResource), key, &unstructured.Unstructured{Object: want}, false)
	return err == nil, err
}

// Settle implements Provisioner. Karpenter buys nothing from a pool between a change of it and the look of the last of its controllers at the change, and
// goes on to the next pool by weight.
func (k *Karpenter) Settle(ctx context.Context, put []*agentv1.CapacityAction) error {
	ctx, cancel := context.WithTimeout(ctx, k.settle)
	defer cancel()
	wait := map[string]bool{}
	for _, x := range put {
		if p := x.GetNodePool(); p != nil {
			wait[p.GetName()] = true
		}
	}
	t := time.NewTicker(readyLook)
	defer t.Stop()
	for {
		left := 0
		if err := k.each(ctx, poolsResource, managedLabel+"=true", func(u *unstructured.Unstructured) error {
			if wait[u.GetName()] && !condition(u, "Ready") {
				left++
			}
			return nil
		}); err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("Karpenter has not taken %d of %d pools in time", left, len(wait))
		case <-t.C:
		}
	}
}

// ready waits until Karpenter has taken a pool as it is now.
func (k *Karpenter) ready(ctx context.Context, key string) error {
	t := time.NewTicker(readyLook)
	defer t.Stop()
	for {
		u, err := k.get(ctx, key)
		if err != nil {
			return err
		}
		if u == nil || condition(u, "Ready") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: Karpenter has not taken it in time", key)
		case <-t.C:
		}
	}
}

func condition(u *unstructured.Unstructured, kind string) bool {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(c any) bool {
		m, ok := c.(map[string]any)
		if !ok || m["type"] != kind || m["status"] != "True" {
			return false
		}
		seen, told := m["observedGeneration"].(int64)
		return !told || seen >= u.GetGeneration()
	})
}

// Read implements Provisioner.
func (k *Karpenter) Read(ctx context.Context, x *agentv1.CapacityAction) (Object, error) {
	key := capacityKey(x)
	u, err := k.get(ctx, key)
	if err != nil {
		return Object{}, err
	}
	o := Object{Same: u == nil && x.GetAbsent()}
	if u == nil {
		return o, nil
	}
	if x.GetAbsent() && k.adopted(key) && u.GetLabels()[managedLabel] == "" { // it was given back
		return Object{Exists: true, Version: u.GetResourceVersion(), Same: true}, nil
	}
	want, err := k.desired(x)
	if err != nil {
		return Object{}, err
	}
	o.Exists, o.Version, o.Generation, o.spec = true, u.GetResourceVersion(), generationOf(u), u.GetGeneration()
	o.Spec = text(part(want["spec"], u.Object["spec"]))
	o.Same = !x.GetAbsent() && u.GetLabels()[managedLabel] != "" && within(want["spec"], u.Object["spec"]) && (k.adopted(key) || sameLimits(want, u.Object))
	return o, nil
}

// Put implements Provisioner.
func (k *Karpenter) Put(ctx context.Context, x *agentv1.CapacityAction, from Object, by Mark) (Object, error) {
	key := capacityKey(x)
	r, name, err := k.resource(key)
	if err != nil {
		return Object{}, err
	}
	now, err := k.get(ctx, key)
	switch {
	case err != nil:
		return Object{}, err
	case (now != nil) != from.Exists || now != nil && now.GetGeneration() != from.spec:
		return Object{}, fmt.Errorf("%s: %w", key, ErrConflict)
	case now == nil && k.adopted(key):
		return Object{}, fmt.Errorf("%s: there is no pool of this name to own: %w", key, ErrNotFound)
	case !k.ours(key, now):
		return Object{}, fmt.Errorf("%s was not made by Plimsoll, and it was not told to own it: %w", key, ErrForbidden)
	case x.GetAbsent():
		return Object{}, k.remove(ctx, r, key, name, now)
	}
	want, err := k.desired(x)
	if err != nil {
		return Object{}, err
	}
	notes := map[string]any{generationNote: strconv.FormatUint(by.Generation, 10), planNote: by.Plan + "/" + by.Action}
	if before := beforeOf(now, k.adopted(key)); before != "" {
		notes[beforeNote] = before
	}
	if now != nil && now.GetAnnotations()[forcedNote] != "" {
		notes[forcedNote] = now.GetAnnotations()[forcedNote]
	}
	want["metadata"] = map[string]any{"name": name, "labels": map[string]any{managedLabel: "true"}, "annotations": notes}
	u, err := k.apply(ctx, r, key, &unstructured.Unstructured{Object: want}, false)
	if writers := writersOf(key, err); writers != nil {
		if u, err = k.takeBack(ctx, r, key, want, now, by, writers); err != nil {
			return Object{}, err
		}
	}
	if err != nil {
		return Object{}, err
	}
	k.mu.Lock()
	k.wanted[key] = x
	k.mu.Unlock()
	return Object{Exists: true, Spec: text(part(want["spec"], u.Object["spec"])), Version: u.GetResourceVersion(), Generation: by.Generation, Same: true}, nil
}

// takeBack forces our fields where we were told to own the object, unless that was done too often already.
func (k *Karpenter) takeBack(ctx context.Context, r dynamic.ResourceInterface, key string, want map[string]any, now *unstructured.Unstructured, by Mark, w *WritersError) (*unstructured.Unstructured, error) {
	if !k.told(key) {
		return nil, w
	}
	var lately []string
	if now != nil {
		for s := range strings.SplitSeq(now.GetAnnotations()[forcedNote], ",") {
			if at, err := strconv.ParseInt(s, 10, 64); err == nil && at > by.AtMS-forcedWindow {
				lately = append(lately, s)
			}
		}
	}
	first := now == nil || now.GetLabels()[managedLabel] == ""
	if len(lately) >= maxForced {
		w.Stopped = true
		return nil, w
	}
	if !first { // the first time is taking it over, and no fight
		lately = append(lately, strconv.FormatInt(by.AtMS, 10))
		want["metadata"].(map[string]any)["annotations"].(map[string]any)[forcedNote] = strings.Join(lately, ",")
	}
	return k.apply(ctx, r, key, &unstructured.Unstructured{Object: want}, true)
}

func (k *Karpenter) apply(ctx context.Context, r dynamic.ResourceInterface, key string, u *unstructured.Unstructured, force bool) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	got, err := r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: force})
	if err != nil {
		if w := writersOf(key, err); w != nil {
			return nil, w
		}
		return nil, kubeError(key, err)
	}
	return got, nil
}

// remove deletes an object of ours. A pool goes only when no machine is left in it: its machines would go with it.
func (k *Karpenter) remove(ctx context.Context, r dynamic.ResourceInterface, key, name string, now *unstructured.Unstructured) error {
	if now == nil {
		return nil
	}
	if k.adopted(key) { // it was there before Plimsoll: it says again what it said then, and keeps its machines
		if now.GetLabels()[managedLabel] == "" {
			return nil
		}
		if now.GetAnnotations()[beforeNote] == "" {
			return fmt.Errorf("%s was there before Plimsoll and is not deleted: %w", key, ErrForbidden)
		}
		if err := k.releasePool(ctx, now); err != nil {
			return err
		}
		k.forget(key)
		return nil
	}
	if strings.HasPrefix(key, kindPool+"/") {
		n, err := k.machines(ctx, name)
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%s: %w: %d", key, ErrBusy, n)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	version, uid := now.GetResourceVersion(), now.GetUID()
	err := r.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version, UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return kubeError(key, err)
	}
	k.forget(key)
	return nil
}

// forget ends the watch over who else writes an object.
func (k *Karpenter) forget(key string) {
	k.mu.Lock()
	delete(k.wanted, key)
	k.mu.Unlock()
}

// machines counts the NodeClaims of a pool.
func (k *Karpenter) machines(ctx context.Context, pool string) (int, error) {
	n := 0
	err := k.each(ctx, claimsResource, "karpenter.sh/nodepool="+pool, func(*unstructured.Unstructured) error { n++; return nil })
	return n, err
}

func (k *Karpenter) each(ctx context.Context, what schema.GroupVersionResource, selector string, f func(*unstructured.Unstructured) error) error {
	opts := metav1.ListOptions{LabelSelector: selector, Limit: karpenterPage}
	for range karpenterMax / karpenterPage {
		call, cancel := context.WithTimeout(ctx, kubeTimeout)
		list, err := k.objects.Resource(what).List(call, opts)
		cancel()
		if err != nil {
			return kubeError(what.Resource, err)
		}
		for i := range list.Items {
			if err := f(&list.Items[i]); err != nil {
				return err
			}
		}
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
	return fmt.Errorf("more than %d %s", karpenterMax, what.Resource)
}

// Carries implements Provisioner.
func (k *Karpenter) Carries(ctx context.Context, key string, by Mark) (bool, error) {
	u, err := k.get(ctx, key)
	return u != nil && u.GetAnnotations()[planNote] == by.Plan+"/"+by.Action, err
}

// told says whether we were told to own a pool by name, or may own any that others made.
func (k *Karpenter) told(key string) bool {
	name, pool := strings.CutPrefix(key, kindPool+"/")
	return pool && (slices.Contains(k.own, name) || slices.Contains(k.own, anyPool) && !strings.HasPrefix(name, ownPrefix))
}

// adopted says the same of a pool that is not of our making.
func (k *Karpenter) adopted(key string) bool {
	return k.told(key) && !strings.HasPrefix(key, kindPool+"/"+ownPrefix)
}

// ours says whether the object may be written: it was made here, it is new and bears our name, or we were told to own it.
func (k *Karpenter) ours(key string, now *unstructured.Unstructured) bool {
	_, name, _ := strings.Cut(key, "/")
	if now == nil || now.GetLabels()[managedLabel] != "" {
		return strings.HasPrefix(name, ownPrefix) || k.adopted(key) && now != nil
	}
	return k.adopted(key)
}

// taintObjects are never nil: a list that got empty is emptied.
func taintObjects(list []*agentv1.NodeTaint) []any {
	out := make([]any, 0, len(list))
	for _, t := range list {
		taint := map[string]any{"key": t.GetKey(), "effect": t.GetEffect()}
		if t.GetValue() != "" {
			taint["value"] = t.GetValue()
		}
		out = append(out, taint)
	}
	return out
}

// desired is the object of an action without its metadata. Of a pool that is not of our making, node class, taints and labels are left alone, and so are
// requirements, weight and limits that the action does not name.
func (k *Karpenter) desired(x *agentv1.CapacityAction) (map[string]any, error) {
	if o := x.GetNodeOverlay(); o != nil {
		if !x.GetAbsent() && (o.GetHourNano() <= 0 || o.GetWeight() < 1) {
			return nil, fmt.Errorf("%s: neither price nor weight may be zero", capacityKey(x))
		}
		return map[string]any{"apiVersion": "karpenter.sh/v1alpha1", "kind": kindOverlay, "spec": map[string]any{
			"weight": int64(o.GetWeight()), "price": decimal(o.GetHourNano()), "requirements": requirements(o.GetRequirements())}}, nil
	}
	p := x.GetNodePool()
	adopted := k.adopted(capacityKey(x))
	template := map[string]any{}
	if !adopted || len(p.GetRequirements()) > 0 {
		template["requirements"] = requirements(p.GetRequirements())
	}
	spec := map[string]any{}
	if len(p.GetLabels()) > 0 && !adopted {
		labels := map[string]any{}
		for key, v := range p.GetLabels() {
			labels[key] = v
		}
		spec["template"] = map[string]any{"metadata": map[string]any{"labels": labels}}
	}
	if !adopted {
		template["nodeClassRef"] = map[string]any{"group": p.GetClassGroup(), "kind": p.GetClassKind(), "name": p.GetClassName()}
		template["expireAfter"] = "Never" // ends are planned, not by age, unless the policy says so
		if n := p.GetExpireAfterSeconds(); n > 0 {
			template["expireAfter"] = fmt.Sprintf("%ds", n)
		}
		if n := p.GetTerminationGraceSeconds(); n > 0 {
			template["terminationGracePeriod"] = fmt.Sprintf("%ds", n)
		}
		template["taints"], template["startupTaints"] = taintObjects(p.GetTaints()), taintObjects(p.GetStartupTaints())
	}
	var budgets []any
	for _, b := range p.GetBudgets() {
		budget := map[string]any{"nodes": b.GetNodes()}
		if len(b.GetReasons()) > 0 {
			budget["reasons"] = anys(b.GetReasons())
		}
		budgets = append(budgets, budget)
	}
	if len(template) > 0 {
		if spec["template"] == nil {
			spec["template"] = map[string]any{}
		}
		spec["template"].(map[string]any)["spec"] = template
	}
	spec["disruption"] = map[string]any{
		"consolidationPolicy": p.GetConsolidationPolicy(), "consolidateAfter": fmt.Sprintf("%ds", p.GetConsolidateAfterSeconds()), "budgets": budgets}
	if p.GetWeight() > 0 {
		spec["weight"] = int64(p.GetWeight())
	}
	if len(p.GetLimits()) > 0 {
		limits := map[string]any{}
		for name, q := range p.GetLimits() {
			if _, err := resource.ParseQuantity(q); err != nil {
				return nil, fmt.Errorf("%s: limit %s: %w", capacityKey(x), name, err)
			}
			limits[name] = q
		}
		spec["limits"] = limits
	}
	return map[string]any{"apiVersion": "karpenter.sh/v1", "kind": kindPool, "spec": spec}, nil
}

func requirements(in []*agentv1.NodeRequirement) []any {
	out := make([]any, 0, len(in))
	for _, r := range in {
		req := map[string]any{"key": r.GetKey(), "operator": r.GetOperator()}
		if len(r.GetValues()) > 0 {
			req["values"] = anys(r.GetValues())
		}
		out = append(out, req)
	}
	return out
}

func anys(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// decimal writes nano-dollars as Karpenter reads prices.
func decimal(nano int64) string {
	s := fmt.Sprintf("%d.%09d", nano/1_000_000_000, nano%1_000_000_000)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

func generationOf(u *unstructured.Unstructured) uint64 {
	n, err := strconv.ParseUint(u.GetAnnotations()[generationNote], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// beforeOf is what a pool of somebody else said before we wrote it first: the fields that we write.
func beforeOf(now *unstructured.Unstructured, adopted bool) string {
	if now == nil || !adopted {
		return ""
	}
	if kept := now.GetAnnotations()[beforeNote]; kept != "" {
		return kept
	}
	before := map[string]any{}
	for _, path := range steered {
		if v, ok, _ := unstructured.NestedFieldCopy(now.Object, path...); ok {
			before[strings.Join(path, ".")] = v
		}
	}
	return text(before)
}

// steered are the fields of a NodePool that a plan may write.
var steered = [][]string{{"spec", "weight"}, {"spec", "limits"}, {"spec", "disruption"}, {"spec", "template", "spec", "requirements"}}

// part is that of have which want names.
func part(want, have any) any {
	w, ok := want.(map[string]any)
	h, ok2 := have.(map[string]any)
	if !ok || !ok2 {
		return have
	}
	out := map[string]any{}
	for key, v := range w {
		if x, there := h[key]; there {
			out[key] = part(v, x)
		}
	}
	return out
}

// within says whether have says all that want says. Lists are whole; quantities may be written differently.
func within(want, have any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return len(w) == 0 && have == nil
		}
		for key, v := range w {
			if !within(v, h[key]) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return len(w) == 0 && have == nil
		}
		for i := range w {
			if !within(w[i], h[i]) {
				return false
			}
		}
		return true
	case string:
		if want == have {
			return true
		}
		a, err := resource.ParseQuantity(w)
		b, err2 := resource.ParseQuantity(fmt.Sprint(have))
		return err == nil && err2 == nil && a.Cmp(b) == 0
	case int64:
		return fmt.Sprint(w) == fmt.Sprint(have)
	}
	return reflect.DeepEqual(want, have)
}

// sameLimits: a limit that the plan does not name is one to take away.
func sameLimits(want, have map[string]any) bool {
	w, _, _ := unstructured.NestedMap(want, "spec", "limits")
	h, _, _ := unstructured.NestedMap(have, "spec", "limits")
	return len(w) == len(h)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
