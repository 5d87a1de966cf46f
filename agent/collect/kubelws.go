package collect

import (
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	kindLWS         = "leaderworkersets"
	lwsNameLabel    = "leaderworkerset.sigs.k8s.io/name"
	lwsGroupLabel   = "leaderworkerset.sigs.k8s.io/group-index"
	maxLWSGroupSize = 1024
)

// leaderWorkerSet is what we read of one: a replica is a group of pods, a leader and its workers.
type leaderWorkerSet struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Replicas             *int32 `json:"replicas"`
		LeaderWorkerTemplate struct {
			Leader *corev1.PodTemplateSpec `json:"leaderTemplate"`
			Worker corev1.PodTemplateSpec  `json:"workerTemplate"`
			Size   *int32                  `json:"size"`
		} `json:"leaderWorkerTemplate"`
	} `json:"spec"`
}

// lwsObject turns what the API serves into what is kept; an object that is none stays as it is, and nobody reads it.
func lwsObject(x any) (any, error) {
	u, ok := x.(*unstructured.Unstructured)
	if !ok {
		return x, nil
	}
	l := &leaderWorkerSet{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, l) != nil {
		return x, nil //nolint:nilerr // nobody reads an object of another type
	}
	return l, nil
}

func (l *leaderWorkerSet) size() int64 {
	return int64(min(max(replicasOf(l.Spec.LeaderWorkerTemplate.Size), 1), maxLWSGroupSize))
}

func (l *leaderWorkerSet) key() string { return workloadKey(l.Namespace, "LeaderWorkerSet", l.Name) }

// workload describes it by its leader, which is what serves; a replica asks for a whole group.
func (l *leaderWorkerSet) workload() *agentv1.Workload {
	t := &l.Spec.LeaderWorkerTemplate
	leader := t.Leader
	if leader == nil {
		leader = &t.Worker
	}
	w := workloadOf(l, "LeaderWorkerSet", replicasOf(l.Spec.Replicas), leader, true)
	cpu, mem, gpu := podRequests(&t.Worker.Spec)
	others := l.size() - 1
	w.CpuMilli, w.MemMib, w.GpuMilli = w.GetCpuMilli()+others*cpu, w.GetMemMib()+others*mem, w.GetGpuMilli()+others*gpu
	return w
}

// countGroups counts groups instead of pods: one that loses a pod drains, and one is ready when all its pods are.
func (v *view) countGroups(l *leaderWorkerSet, o *agentv1.WorkloadObservation) {
	ready, leaving := map[string]int64{}, map[string]bool{}
	for _, p := range v.pods {
		if v.podWorkload[p] != o.GetWorkload() || podEnded(p) {
			continue
		}
		group := p.Labels[lwsGroupLabel]
		leaving[group] = leaving[group] || p.DeletionTimestamp != nil
		if podReady(p) {
			ready[group]++
		}
	}
	for group, leaves := range leaving {
		switch {
		case leaves:
			o.Draining++
		case ready[group] >= l.size():
			o.Ready++
		default:
			o.Starting++
		}
	}
}

// inferenceService is the name of the KServe InferenceService that decides over a Deployment's replicas; empty when none does.
// KServe leaves the replicas alone when it is told that somebody else scales.
func inferenceService(d *appsv1.Deployment) string {
	ref := metav1.GetControllerOf(d)
	if ref == nil || ref.Kind != "InferenceService" || apiGroup(ref.APIVersion) != "serving.kserve.io" {
		return ""
	}
	switch d.Annotations["serving.kserve.io/autoscalerClass"] {
	case "external", "none":
		return ""
	}
	return ref.Name
}

// deploymentKey is the workload that a Deployment belongs to: itself, or the InferenceService that decides over it.
func deploymentKey(d *appsv1.Deployment) string {
	if s := inferenceService(d); s != "" {
		return workloadKey(d.Namespace, "InferenceService", s)
	}
	return workloadKey(d.Namespace, "Deployment", d.Name)
}

// apiGroup is the group of "group/version"; empty for the core's "v1".
func apiGroup(version string) string {
	group, _, ok := strings.Cut(version, "/")
	if !ok {
		return ""
	}
	return group
}
