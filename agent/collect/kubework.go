package collect

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workloads lists what has replicas, sorted by key. What another workload controls is part of that one; what cannot be scaled
// here is listed for its cost.
func (v *view) workloads() []*agentv1.Workload {
	var out []*agentv1.Workload
	services := map[string]*agentv1.Workload{}
	for _, d := range v.deployments {
		service := inferenceService(d)
		if service == "" {
			out = append(out, workloadOf(d, "Deployment", replicasOf(d.Spec.Replicas), &d.Spec.Template, true))
			continue
		}
		// A service may have a transformer and an explainer: it is described by what predicts, and counted in all its pods.
		w := workloadOf(d, "InferenceService", replicasOf(d.Spec.Replicas), &d.Spec.Template, false)
		w.Name, w.Key = service, deploymentKey(d)
		if other := services[w.GetKey()]; other != nil {
			w.Replicas += other.GetReplicas()
			if !strings.HasSuffix(d.Name, "-predictor") {
				other.Replicas = w.GetReplicas()
				continue
			}
		}
		services[w.GetKey()] = w
	}
	for _, key := range sortedKeys(services) {
		out = append(out, services[key])
	}
	for _, l := range v.groups {
		out = append(out, l.workload())
	}
	for _, s := range v.statefulSets {
		if metav1.GetControllerOf(s) == nil {
			out = append(out, workloadOf(s, "StatefulSet", replicasOf(s.Spec.Replicas), &s.Spec.Template, true))
		}
	}
	for _, d := range v.daemonSets {
		out = append(out, workloadOf(d, "DaemonSet", d.Status.DesiredNumberScheduled, &d.Spec.Template, false))
	}
	for _, j := range v.jobs {
		if j.Status.CompletionTime == nil {
			out = append(out, workloadOf(j, "Job", replicasOf(j.Spec.Parallelism), &j.Spec.Template, false))
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].GetKey() < out[j].GetKey() })
	return out
}

func replicasOf(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func workloadOf(o metav1.Object, kind string, replicas int32, t *corev1.PodTemplateSpec, scalable bool) *agentv1.Workload {
	w := &agentv1.Workload{
		Key: workloadKey(o.GetNamespace(), kind, o.GetName()), Namespace: o.GetNamespace(), Kind: kind, Name: o.GetName(),
		Replicas: replicas, Labels: boundLabels(o.GetLabels()), Scalable: scalable, HasReadinessProbe: len(t.Spec.Containers) > 0, HasRequests: len(t.Spec.Containers) > 0,
	}
	w.CpuMilli, w.MemMib, w.GpuMilli = podRequests(&t.Spec)
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		w.HasRequests = w.HasRequests && (!c.Resources.Requests.Cpu().IsZero() || !c.Resources.Requests.Memory().IsZero())
	}
	w.HasReadinessProbe = slices.ContainsFunc(t.Spec.Containers, func(c corev1.Container) bool { return c.ReadinessProbe != nil })
	class := o.GetLabels()["plimsoll.dev/class"]
	if class == "" {
		class = o.GetAnnotations()["plimsoll.dev/class"]
	}
	if class == "gold" || class == "standard" || class == "economy" {
		w.Class = class
	}
	return w
}

// gitOps are field managers that put replicas back to what a repository says.
var gitOps = []string{"argocd", "kustomize-controller", "helm-controller", "flux"}

// writers are the other controllers of a workload's replicas: an autoscaler that targets it, anything that wrote through the
// scale subresource, anything that applies replicas from a repository. A person with kubectl, and whoever created the object
// with a replica count, is not a controller.
func (v *view) writers() []*agentv1.Writer {
	var out []*agentv1.Writer
	v.steered = map[string]bool{}
	for _, h := range v.hpas {
		ref := h.Spec.ScaleTargetRef
		if v.isSteered != nil && v.isSteered(h) {
			v.steered[workloadKey(h.Namespace, ref.Kind, ref.Name)] = true
			continue
		}
		w := &agentv1.Writer{
			Workload: workloadKey(h.Namespace, ref.Kind, ref.Name), Manager: "horizontal-pod-autoscaler",
			Object: "HorizontalPodAutoscaler/" + h.Name, Field: "spec.replicas", AtMs: h.CreationTimestamp.UnixMilli(),
		}
		if h.Status.LastScaleTime != nil {
			w.AtMs = h.Status.LastScaleTime.UnixMilli()
		}
		out = append(out, w)
	}
	for _, d := range v.deployments {
		if inferenceService(d) == "" {
			out = append(out, v.fieldWriters(workloadKey(d.Namespace, "Deployment", d.Name), d.ManagedFields, out)...)
		}
	}
	for _, l := range v.groups {
		out = append(out, v.fieldWriters(l.key(), l.ManagedFields, out)...)
	}
	for _, s := range v.statefulSets {
		out = append(out, v.fieldWriters(workloadKey(s.Namespace, "StatefulSet", s.Name), s.ManagedFields, out)...)
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].GetWorkload() != out[j].GetWorkload() {
			return out[i].GetWorkload() < out[j].GetWorkload()
		}
		return out[i].GetManager()+out[i].GetObject() < out[j].GetManager()+out[j].GetObject()
	})
	return out
}

// fieldWriters reads who owns spec.replicas. The controller manager's entry is that of the autoscaler, which is named better
// where there is one.
func (v *view) fieldWriters(key string, fields []metav1.ManagedFieldsEntry, known []*agentv1.Writer) []*agentv1.Writer {
	hasHPA := slices.ContainsFunc(known, func(w *agentv1.Writer) bool {
		return w.GetWorkload() == key && w.GetManager() == "horizontal-pod-autoscaler"
	})
	var out []*agentv1.Writer
	for _, f := range fields {
		repository := slices.ContainsFunc(gitOps, func(m string) bool { return strings.HasPrefix(f.Manager, m) })
		switch {
		case f.Manager == v.manager || strings.HasPrefix(f.Manager, "kubectl") || !ownsReplicas(f.FieldsV1):
		case f.Manager == "kube-controller-manager" && (hasHPA || v.steered[key]):
		case strings.HasPrefix(f.Manager, "keda") && v.steered[key]: // it wakes a workload and puts it to sleep itself
		case f.Subresource == "scale", repository:
			w := &agentv1.Writer{Workload: key, Manager: f.Manager, Field: "spec.replicas"}
			if f.Time != nil {
				w.AtMs = f.Time.UnixMilli()
			}
			out = append(out, w)
		}
	}
	return out
}

func ownsReplicas(f *metav1.FieldsV1) bool {
	if f == nil {
		return false
	}
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(f.GetRawBytes(), &fields) != nil {
		return false
	}
	_, ok := fields.Spec["f:replicas"]
	return ok
}
