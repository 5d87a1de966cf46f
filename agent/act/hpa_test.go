package act

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"
)

func TestHPAActuator(t *testing.T) {
	testActuator(t, func(t *testing.T) (Actuator, world) {
		w := newHPAWorld(t, 0, 20)
		return NewHPA(w.client.AutoscalingV2(), w.kube, 50), w
	})
}

func TestRouteActuator(t *testing.T) {
	for name, owner := range map[string]string{"no HPA": "none", "a cluster that knows no HPA": "none", "an HPA whose bounds are moved": "", "KEDA": "ScaledObject"} {
		t.Run(name, func(t *testing.T) {
			testActuator(t, func(t *testing.T) (Actuator, world) {
				w := newHPAWorld(t, 0, 20)
				switch owner {
				case "none":
					w.hpa = nil
				case "ScaledObject":
					w.hpa.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "chat"}}
				}
				if name == "a cluster that knows no HPA" {
					return NewRoute(w.kube, nil, true, &keda{w: w}), w
				}
				return NewRoute(w.kube, NewHPA(w.client.AutoscalingV2(), w.kube, 0), true, &keda{w: w, asked: true}), w
			})
		})
	}
}

// hpaWorld is a cluster with one HPA, which brings the count between its bounds as soon as they are set.
type hpaWorld struct {
	*counts
	t      testing.TB
	kube   Actuator
	client *fake.Clientset
	hpa    *autoscalingv2.HorizontalPodAutoscaler
	rv     int
}

func newHPAWorld(t *testing.T, lowest, highest int32) *hpaWorld {
	kube, w := newKubeWorld(t)
	h := &hpaWorld{t: t, counts: w.(*counts), kube: kube, client: fake.NewSimpleClientset()}
	h.hpa = &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "chat", ResourceVersion: "1"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: &lowest, MaxReplicas: highest,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat"}},
	}
	resource := schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}
	h.client.PrependReactor("list", "horizontalpodautoscalers", func(kubetesting.Action) (bool, runtime.Object, error) {
		out := &autoscalingv2.HorizontalPodAutoscalerList{}
		if h.hpa != nil {
			out.Items = append(out.Items, *h.hpa.DeepCopy())
		}
		return true, out, nil
	})
	h.client.PrependReactor("update", "horizontalpodautoscalers", func(a kubetesting.Action) (bool, runtime.Object, error) {
		next := a.(kubetesting.UpdateAction).GetObject().(*autoscalingv2.HorizontalPodAutoscaler)
		h.mu.Lock()
		defer h.mu.Unlock()
		switch {
		case h.forbidden:
			return true, nil, apierrors.NewForbidden(resource, next.Name, errors.New("rbac"))
		case next.ResourceVersion != h.hpa.ResourceVersion:
			return true, nil, apierrors.NewConflict(resource, next.Name, errors.New("old version"))
		}
		h.n++
		h.edit(func(o *autoscalingv2.HorizontalPodAutoscaler) { *o = *next.DeepCopy() })
		if now := h.replicas[chat]; now > 0 && min(max(now, *next.Spec.MinReplicas), next.Spec.MaxReplicas) != now {
			h.replicas[chat] = min(max(now, *next.Spec.MinReplicas), next.Spec.MaxReplicas)
			h.version++
		}
		return true, h.hpa.DeepCopy(), nil
	})
	return h
}

func (h *hpaWorld) edit(f func(*autoscalingv2.HorizontalPodAutoscaler)) {
	h.rv++
	f(h.hpa)
	h.hpa.ResourceVersion = strconv.Itoa(h.rv + 1)
}

func (h *hpaWorld) bounds(t *testing.T, lowest, highest int32) {
	t.Helper()
	if *h.hpa.Spec.MinReplicas != lowest || h.hpa.Spec.MaxReplicas != highest {
		t.Errorf("bounds %d to %d, want %d to %d", *h.hpa.Spec.MinReplicas, h.hpa.Spec.MaxReplicas, lowest, highest)
	}
}

// keda fetches a count as soon as it is put there, as far as the cluster lets it.
type keda struct {
	w     *hpaWorld
	asked bool
	n     int
}

func (k *keda) Asked(string) bool { return k.asked }
func (k *keda) Publish(workload string, n int32) error {
	if k.w.forbidden {
		return ErrForbidden
	}
	k.n++
	if k.w.get(workload) != n {
		k.w.put(workload, n)
	}
	return nil
}

func set(t *testing.T, a Actuator, n int32) (Scale, error) {
	t.Helper()
	from, err := a.Read(context.Background(), chat)
	if err != nil {
		t.Fatal(err)
	}
	return a.Set(context.Background(), chat, from, n)
}

func TestAnHPAKeepsRoomAboveTheCount(t *testing.T) {
	w := newHPAWorld(t, 2, 20)
	w.put(chat, 9)
	a := NewHPA(w.client.AutoscalingV2(), w.kube, 50)
	if got, err := set(t, a, 5); err != nil || got.Replicas != 8 {
		t.Fatal(got, err)
	}
	w.bounds(t, 5, 8) // it may keep up to 8 while its own metric asks for them
	if got, err := set(t, a, 12); err != nil || got.Replicas != 12 {
		t.Fatal(got, err)
	}
	w.bounds(t, 12, 18)
	if got, err := set(t, a, 19); err != nil || got.Replicas != 19 {
		t.Fatal(got, err)
	}
	w.bounds(t, 19, 20)
	writes := w.writes()
	if got, err := set(t, a, 19); err != nil || got.Replicas != 19 || w.writes() != writes {
		t.Fatal("the same bounds were written again:", got, err)
	}
}

func TestAnHPAsOwnBoundsAreNeverPassed(t *testing.T) {
	w := newHPAWorld(t, 2, 10)
	w.put(chat, 4)
	a := NewHPA(w.client.AutoscalingV2(), w.kube, 50)
	if _, err := set(t, a, 6); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int32{11, 1, 0} {
		if _, err := set(t, a, n); !errors.Is(err, ErrForbidden) {
			t.Errorf("%d: %v", n, err)
		}
	}
	w.bounds(t, 6, 9)
	// its owner raises the maximum while it is held
	w.edit(func(o *autoscalingv2.HorizontalPodAutoscaler) { o.Spec.MaxReplicas = 30 })
	if _, err := set(t, a, 11); err != nil {
		t.Fatal(err)
	}
	w.bounds(t, 11, 17)
}

func TestFromZeroTheHPAIsWokenWithItsBounds(t *testing.T) {
	w := newHPAWorld(t, 0, 10)
	w.put(chat, 0)
	a := NewHPA(w.client.AutoscalingV2(), w.kube, 0)
	if got, err := set(t, a, 3); err != nil || got.Replicas != 3 || w.get(chat) != 3 {
		t.Fatal(got, err, w.get(chat))
	}
	w.bounds(t, 3, 3)
}

func TestHandBackRestoresWhatTheOwnerGave(t *testing.T) {
	ctx := context.Background()
	w := newHPAWorld(t, 2, 10)
	w.put(chat, 4)
	a := NewHPA(w.client.AutoscalingV2(), w.kube, 50)
	for _, n := range []int32{6, 3, 7} {
		if _, err := set(t, a, n); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := a.HandBack(ctx, nil); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.bounds(t, 2, 10)
	if len(w.hpa.Labels)+len(w.hpa.Annotations) != 0 {
		t.Error("traces are left:", w.hpa.Labels, w.hpa.Annotations)
	}
	if _, err := set(t, a, 6); err != nil {
		t.Fatal(err)
	}
	lowest := int32(4)
	w.edit(func(o *autoscalingv2.HorizontalPodAutoscaler) { o.Spec.MinReplicas = &lowest }) // by its owner
	w.forbid(true)
	if n, err := a.HandBack(ctx, []string{"llm"}); n != 0 || !errors.Is(err, ErrForbidden) {
		t.Fatal(n, err)
	}
	w.forbid(false)
	if n, err := a.HandBack(ctx, []string{"llm"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.bounds(t, 4, 10)
}

func TestTwoHPAsOfAWorkloadAreLeftAlone(t *testing.T) {
	w := newHPAWorld(t, 2, 10)
	w.put(chat, 4)
	w.client.PrependReactor("list", "horizontalpodautoscalers", func(kubetesting.Action) (bool, runtime.Object, error) {
		other := w.hpa.DeepCopy()
		other.Name = "other"
		return true, &autoscalingv2.HorizontalPodAutoscalerList{Items: []autoscalingv2.HorizontalPodAutoscaler{*w.hpa, *other}}, nil
	})
	_, err := NewHPA(w.client.AutoscalingV2(), w.kube, 0).Read(context.Background(), chat)
	if !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "other") {
		t.Fatal(err)
	}
}

func TestWhatKEDAOwnsIsNeverWrittenDirectly(t *testing.T) {
	w := newHPAWorld(t, 2, 10)
	w.put(chat, 4)
	w.hpa.OwnerReferences = []metav1.OwnerReference{{Kind: "ScaledObject", Name: "chat"}}
	for name, board := range map[string]Board{"KEDA is not served": nil, "KEDA did not ask": &keda{w: w}} {
		_, err := NewRoute(w.kube, NewHPA(w.client.AutoscalingV2(), w.kube, 0), true, board).Read(context.Background(), chat)
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	k := &keda{w: w, asked: true}
	if _, err := set(t, NewRoute(w.kube, NewHPA(w.client.AutoscalingV2(), w.kube, 0), true, k), 6); err != nil || k.n != 1 || w.writes() != 0 {
		t.Error(err, k.n, w.writes())
	}
}

// Whatever is asked in whatever order: an HPA stays within its owner's bounds, and handing it back restores them.
func TestPropertyAnHPAStaysWithinItsOwnersBounds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		lowest := rapid.Int32Range(0, 5).Draw(r, "min")
		highest := rapid.Int32Range(max(lowest, 1), 30).Draw(r, "max")
		w := newHPAWorld(t, lowest, highest)
		w.put(chat, rapid.Int32Range(0, 40).Draw(r, "replicas"))
		a := NewHPA(w.client.AutoscalingV2(), w.kube, rapid.IntRange(0, 300).Draw(r, "headroom"))
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			_, _ = set(t, a, rapid.Int32Range(0, 40).Draw(r, "to"))
			if m, x := *w.hpa.Spec.MinReplicas, w.hpa.Spec.MaxReplicas; m < lowest || x > highest || m > x {
				r.Fatalf("bounds %d to %d; the owner's are %d to %d", m, x, lowest, highest)
			}
		}
		if _, err := a.HandBack(context.Background(), nil); err != nil {
			r.Fatal(err)
		}
		if *w.hpa.Spec.MinReplicas != lowest || w.hpa.Spec.MaxReplicas != highest {
			r.Fatalf("handed back as %d to %d", *w.hpa.Spec.MinReplicas, w.hpa.Spec.MaxReplicas)
		}
	})
}
