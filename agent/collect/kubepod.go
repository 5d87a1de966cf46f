package collect

import (
	"strings"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bootGrace is how long after its creation a node may still be booting.
const bootGrace = 10 * time.Minute

// plannedNotes are the annotations that plans go by: how a pod is told to save its work, when it did so last, and what it asks of a GPU's driver.
var plannedNotes = []string{"plimsoll.dev/checkpoint", "plimsoll.dev/checkpoint-seconds", "plimsoll.dev/checkpointed", "plimsoll.dev/min-compute", "plimsoll.dev/min-cuda", "plimsoll.dev/min-driver"}

func podOf(p *corev1.Pod, workload string) *agentv1.Pod {
	cpu, mem, gpu := podRequests(&p.Spec)
	out := &agentv1.Pod{
		Uid: string(p.UID), Name: p.Name, Namespace: p.Namespace, Workload: workload, Node: p.Spec.NodeName,
		CpuMilli: cpu, MemMib: mem, CreatedMs: p.CreationTimestamp.UnixMilli(), Labels: boundLabels(p.Labels),
	}
	out.Gpus, out.GpuMilli = podGPUs(p, gpu)
	for _, key := range plannedNotes {
		if v := p.Annotations[key]; v != "" {
			if out.Notes == nil {
				out.Notes = map[string]string{}
			}
			out.Notes[key] = strings.ToValidUTF8(v[:min(len(v), maxLabelValue)], "")
		}
	}
	out.Phase, out.Reason = podPhase(p)
	if p.Status.StartTime != nil {
		out.StartedMs = p.Status.StartTime.UnixMilli()
	}
	if c := condition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		out.ReadyMs = c.LastTransitionTime.UnixMilli()
	}
	if podEnded(p) {
		out.EndedMs = endedAt(p)
	}
	return out
}

// podPhase tells the parts of a cold start apart, and why a pod is not ready, in the cluster's words.
func podPhase(p *corev1.Pod) (phase, reason string) {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return "ended", p.Status.Reason
	case corev1.PodFailed:
		return "failed", p.Status.Reason
	}
	switch {
	case p.DeletionTimestamp != nil:
		return "terminating", ""
	case podReady(p):
		return "ready", ""
	case p.Spec.NodeName == "":
		if c := condition(p, corev1.PodScheduled); c != nil {
			reason = c.Reason
		}
		return "pending", reason
	}
	started := false
	for _, s := range containerStatuses(p) {
		if s.State.Waiting != nil && reason == "" {
			reason = s.State.Waiting.Reason
		}
		started = started || s.State.Running != nil
	}
	if started {
		return "loading", reason
	}
	return "pulling", reason
}

func podReady(p *corev1.Pod) bool {
	c := condition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
}

func podEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func condition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func containerStatuses(p *corev1.Pod) []corev1.ContainerStatus {
	return append(append([]corev1.ContainerStatus(nil), p.Status.InitContainerStatuses...), p.Status.ContainerStatuses...)
}

// endedAt is when the last container ended; failing that, when the pod last changed.
func endedAt(p *corev1.Pod) int64 {
	var last metav1.Time
	for _, s := range containerStatuses(p) {
		if s.State.Terminated != nil && s.State.Terminated.FinishedAt.After(last.Time) {
			last = s.State.Terminated.FinishedAt
		}
	}
	for _, c := range p.Status.Conditions {
		if last.IsZero() || (p.Status.Phase == corev1.PodFailed && len(p.Status.ContainerStatuses) == 0 && c.LastTransitionTime.After(last.Time)) {
			last = c.LastTransitionTime
		}
	}
	if last.IsZero() {
		return p.CreationTimestamp.UnixMilli()
	}
	return last.UnixMilli()
}

// podRequests is what a pod asks of the scheduler: the containers together with sidecars, or the largest step of the init
// containers if that is more.
func podRequests(s *corev1.PodSpec) (cpuMilli, memMiB, gpuMilli int64) {
	var sum, step, sidecars [3]int64
	for i := range s.Containers {
		add(&sum, requests(&s.Containers[i]))
	}
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		r := requests(c)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(&sidecars, r)
			r = [3]int64{}
		}
		for j := range step {
			step[j] = max(step[j], sidecars[j]+r[j])
		}
	}
	add(&sum, sidecars)
	for j := range sum {
		sum[j] = max(sum[j], step[j])
	}
	return sum[0] + s.Overhead.Cpu().MilliValue(), sum[1] + mib(*s.Overhead.Memory()), sum[2]
}

func requests(c *corev1.Container) [3]int64 {
	r := c.Resources.Requests
	var gpu int64
	for _, list := range []corev1.ResourceList{c.Resources.Limits, r} { // extended resources: limits equal requests
		gpu = 0
		for name, q := range list {
			if s := migSlices(name); s > 0 {
				gpu += (s*1000*q.Value() + 3) / 7 // seven of seven are a whole one
			}
		}
		for _, name := range gpuResources {
			if q, ok := list[name]; ok {
				gpu += 1000 * q.Value()
			}
		}
		if gpu > 0 {
			break
		}
	}
	return [3]int64{r.Cpu().MilliValue(), mib(*r.Memory()), gpu}
}

func add(sum *[3]int64, x [3]int64) {
	for i := range sum {
		sum[i] += x[i]
	}
}
