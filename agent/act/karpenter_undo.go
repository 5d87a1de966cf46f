package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// writersOf reads who holds the fields that an apply was refused for; nil: that was not the reason.
func writersOf(key string, err error) *WritersError {
	var w *WritersError
	if errors.As(err, &w) {
		return w
	}
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	w = &WritersError{Object: key}
	for _, c := range status.Status().Details.Causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		who := c.Message // conflict with "kubectl-edit" using karpenter.sh/v1
		if _, rest, ok := strings.Cut(who, `"`); ok {
			who, _, _ = strings.Cut(rest, `"`)
		}
		w.Writers, w.Fields = append(w.Writers, who), append(w.Fields, strings.TrimPrefix(c.Field, "."))
	}
	if len(w.Writers) == 0 {
		return nil
	}
	slices.Sort(w.Writers)
	w.Writers = append(slices.Compact(w.Writers), FieldManager)
	slices.Sort(w.Fields)
	w.Fields = slices.Compact(w.Fields)
	return w
}

// Conflicts looks at everything that was put here and returns what somebody else has changed since, with the writers.
func (k *Karpenter) Conflicts(ctx context.Context) ([]*WritersError, error) {
	k.mu.Lock()
	keys := make([]string, 0, len(k.wanted))
	for key := range k.wanted {
		keys = append(keys, key)
	}
	k.mu.Unlock()
	slices.Sort(keys)
	var out []*WritersError
	for _, key := range keys {
		k.mu.Lock()
		x := k.wanted[key]
		k.mu.Unlock()
		u, err := k.get(ctx, key)
		if err != nil {
			return out, err
		}
		if x == nil || u == nil {
			continue
		}
		want, err := k.desired(x)
		if err != nil {
			return out, err
		}
		if within(want["spec"], u.Object["spec"]) {
			continue
		}
		w := &WritersError{Object: key, Writers: lastWriters(u), Fields: differing("spec", want["spec"], u.Object["spec"])}
		out = append(out, w)
	}
	return out, nil
}

// lastWriters are those who wrote the spec last, besides us, and us.
func lastWriters(u *unstructured.Unstructured) []string {
	var who string
	var last metav1.Time
	for _, m := range u.GetManagedFields() {
		if m.Manager == FieldManager || m.Subresource != "" || m.Time == nil || m.FieldsV1 == nil || !strings.Contains(m.FieldsV1.GetRawString(), `"f:spec"`) {
			continue
		}
		if who == "" || last.Before(m.Time) {
			who, last = m.Manager, *m.Time
		}
	}
	if who == "" {
		who = "unknown"
	}
	return []string{who, FieldManager}
}

// differing names the fields of want that have says otherwise.
func differing(path string, want, have any) []string {
	w, ok := want.(map[string]any)
	h, ok2 := have.(map[string]any)
	if !ok || !ok2 {
		if within(want, have) {
			return nil
		}
		return []string{path}
	}
	var out []string
	for key, v := range w {
		out = append(out, differing(path+"."+key, v, h[key])...)
	}
	slices.Sort(out)
	return out
}

// HandBack undoes what was done here, without touching a machine: NodeOverlays of ours are deleted, pools that were told to be ours say
// again what they said before, pools of our making go if they are empty, and stay, closed for new machines and no longer ours, if they are
// not. It goes on after a failure and returns how many objects it dealt with and the first failure.
func (k *Karpenter) HandBack(ctx context.Context) (done int, err error) {
	step := func(f func(context.Context, *unstructured.Unstructured) error) func(*unstructured.Unstructured) error {
		return func(u *unstructured.Unstructured) error {
			if herr := f(ctx, u); herr == nil {
				done++
			} else if err == nil {
				err = herr
			}
			return nil
		}
	}
	for _, part := range []struct {
		what schema.GroupVersionResource
		f    func(context.Context, *unstructured.Unstructured) error
	}{{poolsResource, k.releasePool}, {overlaysResource, k.releaseOverlay}} {
		var all []*unstructured.Unstructured
		failed := k.each(ctx, part.what, managedLabel+"=true", func(u *unstructured.Unstructured) error { all = append(all, u); return nil })
		if failed != nil && !errors.Is(failed, ErrNotFound) && err == nil { // not found: this cluster has no Karpenter
			err = failed
		}
		for _, u := range all {
			_ = step(part.f)(u)
		}
	}
	return done, err
}

func (k *Karpenter) releaseOverlay(ctx context.Context, u *unstructured.Unstructured) error {
	return k.delete(ctx, overlaysResource, u)
}

func (k *Karpenter) delete(ctx context.Context, what schema.GroupVersionResource, u *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	uid := u.GetUID()
	err := k.objects.Resource(what).Delete(ctx, u.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return kubeError(u.GetKind()+"/"+u.GetName(), err)
	}
	return nil
}

func (k *Karpenter) releasePool(ctx context.Context, u *unstructured.Unstructured) error {
	next := u.DeepCopy()
	if before := u.GetAnnotations()[beforeNote]; before != "" {
		var kept map[string]any
		if err := json.Unmarshal([]byte(before), &kept); err != nil {
			return fmt.Errorf("NodePool/%s: what it said before cannot be read: %w", u.GetName(), err)
		}
		for _, path := range steered {
			v, ok := kept[strings.Join(path, ".")]
			if !ok {
				unstructured.RemoveNestedField(next.Object, path...)
				continue
			}
			if err := unstructured.SetNestedField(next.Object, whole(v), path...); err != nil {
				return fmt.Errorf("NodePool/%s: %w", u.GetName(), err)
			}
		}
	} else {
		n, err := k.machines(ctx, u.GetName())
		if err != nil {
			return err
		}
		if n == 0 {
			return k.delete(ctx, poolsResource, u)
		}
		if err := closed(next, n); err != nil {
			return fmt.Errorf("NodePool/%s: %w", u.GetName(), err)
		}
	}
	labels, notes := next.GetLabels(), next.GetAnnotations()
	delete(labels, managedLabel)
	for _, note := range []string{generationNote, planNote, beforeNote, forcedNote} {
		delete(notes, note)
	}
	next.SetLabels(labels)
	next.SetAnnotations(notes)
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	if _, err := k.objects.Resource(poolsResource).Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
		return kubeError("NodePool/"+u.GetName(), err)
	}
	return k.disown(ctx, u.GetName())
}

// disownAttempts is how often it is tried to take our name from a pool while Karpenter writes its status.
const disownAttempts = 5

// disown takes our name from the fields of a pool that was given back: whoever applies it next would be told of a conflict with us. Where nobody else has a field it
// stays, since a list of none means all.
func (k *Karpenter) disown(ctx context.Context, name string) error {
	for try := 1; ; try++ {
		u, err := k.objects.Resource(poolsResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return kubeError("NodePool/"+name, err)
		}
		all := u.GetManagedFields()
		left := slices.DeleteFunc(slices.Clone(all), func(m metav1.ManagedFieldsEntry) bool { return m.Manager == FieldManager })
		if len(left) == 0 || len(left) == len(all) {
			return nil
		}
		u.SetManagedFields(left)
		_, err = k.objects.Resource(poolsResource).Update(ctx, u, metav1.UpdateOptions{FieldManager: FieldManager})
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err) || try == disownAttempts:
			return kubeError("NodePool/"+name, err)
		}
	}
}

// closed lets a pool buy nothing and replace nothing any more; machines without pods still go.
func closed(u *unstructured.Unstructured, machines int) error {
	if err := unstructured.SetNestedField(u.Object, fmt.Sprint(machines), "spec", "limits", "nodes"); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(u.Object, "WhenEmpty", "spec", "disruption", "consolidationPolicy"); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(u.Object, []any{map[string]any{"nodes": "100%", "reasons": []any{"Empty"}},
		map[string]any{"nodes": "0", "reasons": []any{"Drifted", "Underutilized"}}}, "spec", "disruption", "budgets")
}

// whole turns the numbers that JSON read into those that the API's objects use.
func whole(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for key := range x {
			x[key] = whole(x[key])
		}
	case []any:
		for i := range x {
			x[i] = whole(x[i])
		}
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	}
	return v
}
