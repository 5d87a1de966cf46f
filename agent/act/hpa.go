package act

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
)

const (
	// boundsLabel finds the HPAs whose bounds were set here; boundsKey says what they were and what they were set to.
	boundsLabel = "plimsoll.dev/hpa-bounds"
	boundsKey   = "plimsoll.dev/hpa-bounds-before"

	hpaPage     = 500
	maxHPAPages = 40
)

// HPA moves the bounds of the HorizontalPodAutoscaler that owns a workload, and leaves the count between them to it. A count of 5 with
// a headroom of 50 % becomes 5 to 8: the HPA goes there at once, and may still add replicas when load comes faster than plans. The
// bounds that its owner gave it are never passed: what is outside them is ErrForbidden. They are kept on the object for HandBack.
type HPA struct {
	hpas     autoscalingclient.AutoscalingV2Interface
	scales   Actuator // reads the count, and sets it where an HPA does not: at and from zero
	headroom int64    // per cent
}

// NewHPA makes the actuator. scales is the one that writes replicas; headroom is in per cent of the count, 0 to 1000.
func NewHPA(hpas autoscalingclient.AutoscalingV2Interface, scales Actuator, headroom int) *HPA {
	return &HPA{hpas: hpas, scales: scales, headroom: int64(min(max(headroom, 0), 1000))}
}

// bounds of an HPA: what its owner gave it, and what was set here.
type bounds struct {
	Min    int32 `json:"min"`
	Max    int32 `json:"max"`
	SetMin int32 `json:"setMin"`
	SetMax int32 `json:"setMax"`
}

// Read implements Actuator. A workload without an HPA is not found.
func (h *HPA) Read(ctx context.Context, workload string) (Scale, error) {
	s, err := h.scales.Read(ctx, workload)
	if err != nil {
		return Scale{}, err
	}
	owner, err := h.find(ctx, workload)
	if err != nil {
		return Scale{}, err
	}
	if owner == nil {
		return Scale{}, fmt.Errorf("%s has no HorizontalPodAutoscaler: %w", workload, ErrNotFound)
	}
	return Scale{Replicas: s.Replicas, Version: s.Version + "@" + owner.ResourceVersion}, nil
}

// Set implements Actuator. What it returns is the count that the HPA goes to at once; from there it moves between the new bounds.
func (h *HPA) Set(ctx context.Context, workload string, from Scale, to int32) (Scale, error) {
	owner, now, err := h.unchanged(ctx, workload, from)
	if err != nil {
		return Scale{}, err
	}
	b := boundsOf(owner)
	if to < b.Min || to > b.Max {
		return Scale{}, fmt.Errorf("%s: %d replicas are outside the %d to %d of its HorizontalPodAutoscaler: %w", workload, to, b.Min, b.Max, ErrForbidden)
	}
	if to == 0 { // an HPA rests while the count is zero
		return h.scales.Set(ctx, workload, now, 0)
	}
	b.SetMin, b.SetMax = to, int32(min(int64(b.Max), (int64(to)*(100+h.headroom)+99)/100)) //nolint:gosec // at most b.Max
	version := owner.ResourceVersion
	if !b.on(owner) {
		if version, err = h.write(ctx, workload, owner, b); err != nil {
			return Scale{}, err
		}
	}
	if now.Replicas == 0 { // it rests, and begins again only when the count is not zero
		if now, err = h.scales.Set(ctx, workload, now, to); err != nil {
			return Scale{}, err
		}
	}
	return Scale{Replicas: min(max(now.Replicas, b.SetMin), b.SetMax), Version: now.Version + "@" + version}, nil
}

// unchanged reads workload and HPA again, and compares them with what the decision saw.
func (h *HPA) unchanged(ctx context.Context, workload string, from Scale) (*autoscalingv2.HorizontalPodAutoscaler, Scale, error) {
	now, err := h.scales.Read(ctx, workload)
	if err != nil {
		return nil, now, err
	}
	owner, err := h.find(ctx, workload)
	if err != nil {
		return nil, now, err
	}
	if owner == nil || now.Version+"@"+owner.ResourceVersion != from.Version {
		return nil, now, fmt.Errorf("%s: %w", workload, ErrConflict)
	}
	return owner, now, nil
}

func (h *HPA) write(ctx context.Context, workload string, owner *autoscalingv2.HorizontalPodAutoscaler, b bounds) (version string, err error) {
	note, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	next := owner.DeepCopy()
	next.Spec.MinReplicas, next.Spec.MaxReplicas = &b.SetMin, b.SetMax
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Labels[boundsLabel], next.Annotations[boundsKey] = "held", string(note)
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	got, err := h.hpas.HorizontalPodAutoscalers(owner.Namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager})
	if err != nil {
		return "", kubeError(workload, err)
	}
	return got.ResourceVersion, nil
}

// boundsOf is what the owner of an HPA wants: what stood there before, or what somebody wrote there since.
func boundsOf(o *autoscalingv2.HorizontalPodAutoscaler) bounds {
	here := bounds{Min: minOf(o), Max: o.Spec.MaxReplicas}
	var b bounds
	if json.Unmarshal([]byte(o.Annotations[boundsKey]), &b) != nil || b.Max < 1 || b.Min < 0 || b.Min > b.Max {
		return here
	}
	if here.Min != b.SetMin {
		b.Min = here.Min
	}
	if here.Max != b.SetMax {
		b.Max = here.Max
	}
	return b
}

// on says whether the bounds stand there as they were set here.
func (b bounds) on(o *autoscalingv2.HorizontalPodAutoscaler) bool {
	return minOf(o) == b.SetMin && o.Spec.MaxReplicas == b.SetMax && o.Annotations[boundsKey] != ""
}

func minOf(o *autoscalingv2.HorizontalPodAutoscaler) int32 {
	if o.Spec.MinReplicas == nil {
		return 1 // the API's default
	}
	return *o.Spec.MinReplicas
}

// find returns the HPA whose target is the workload; nil: there is none. Two of them fight already: neither is touched.
func (h *HPA) find(ctx context.Context, workload string) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	parts := strings.Split(workload, "/")
	if len(parts) != 3 || parts[0] == "" {
		return nil, fmt.Errorf("%q is not namespace/Kind/name: %w", workload, ErrNotFound)
	}
	var found *autoscalingv2.HorizontalPodAutoscaler
	err := h.each(ctx, parts[0], "", func(o *autoscalingv2.HorizontalPodAutoscaler) error {
		ref := o.Spec.ScaleTargetRef
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil || ref.Kind != parts[1] || ref.Name != parts[2] || gv.Group != scalable[parts[1]].Group {
			return nil //nolint:nilerr // it is about something else
		}
		if found != nil {
			return fmt.Errorf("%s: the HorizontalPodAutoscalers %s and %s both write it: %w", workload, found.Name, o.Name, ErrForbidden)
		}
		found = o
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (h *HPA) each(ctx context.Context, namespace, selector string, f func(*autoscalingv2.HorizontalPodAutoscaler) error) error {
	opts := metav1.ListOptions{Limit: hpaPage, LabelSelector: selector}
	for range maxHPAPages {
		call, cancel := context.WithTimeout(ctx, kubeTimeout)
		list, err := h.hpas.HorizontalPodAutoscalers(namespace).List(call, opts)
		cancel()
		if err != nil {
			return kubeError("HorizontalPodAutoscalers of "+namespace, err)
		}
		for i := range list.Items {
			if err := f(&list.Items[i]); err != nil {
				return err
			}
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return nil
		}
	}
	return fmt.Errorf("HorizontalPodAutoscalers of %s: more than %d", namespace, hpaPage*maxHPAPages)
}

// HandBack gives every HPA the bounds back that its owner gave it, and forgets them. Bounds that somebody changed since stay as they
// are. It goes on after a failure and returns how many were handed back and the first failure. No namespaces: all.
func (h *HPA) HandBack(ctx context.Context, namespaces []string) (done int, err error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, ns := range namespaces {
		failed := h.each(ctx, ns, boundsLabel+"=held", func(o *autoscalingv2.HorizontalPodAutoscaler) error {
			if herr := h.release(ctx, o); herr == nil {
				done++
			} else if err == nil {
				err = herr
			}
			return nil
		})
		if err == nil {
			err = failed
		}
	}
	return done, err
}

func (h *HPA) release(ctx context.Context, o *autoscalingv2.HorizontalPodAutoscaler) error {
	b := boundsOf(o)
	next := o.DeepCopy()
	next.Spec.MinReplicas, next.Spec.MaxReplicas = &b.Min, b.Max
	delete(next.Labels, boundsLabel)
	delete(next.Annotations, boundsKey)
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	_, err := h.hpas.HorizontalPodAutoscalers(o.Namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager})
	if err != nil {
		return kubeError(o.Namespace+"/HorizontalPodAutoscaler/"+o.Name, err)
	}
	return nil
}
