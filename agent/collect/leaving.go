package collect

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Leaving is a machine that goes, by the signs that clouds and autoscalers leave on it.
type Leaving struct {
	Node       string
	UID        string
	Cause      string // interruption, rebalance, consolidation
	DeadlineMS int64  // when it is gone; 0: nobody says
	Evict      bool   // nobody is known to evict its pods; false: whoever lets it go does
}

// noticeMS is how long after its notice a cloud takes a Spot machine: two minutes on AWS, at least half a minute on Azure and Google Cloud, by
// their documentation of Spot interruptions (EC2 interruption notices, Azure Scheduled Events of type Preempt, GKE Spot VMs).
var noticeMS = map[string]int64{"aws": 120_000, "azure": 30_000, "gcp": 30_000}

// Signs of other controllers of the cluster that let a machine go for money or for a change, and evict its pods themselves.
var letGoTaints = []string{"karpenter.sh/disrupted", "karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler"}

const rebalanceTaint = "aws-node-termination-handler/rebalance-recommendation"

// Leaving returns the machines that show a sign of going now. One that others let go is named only if a pod on it wants to be told. It reads
// caches only, so that it may be asked every second.
func (k *Kube) Leaving(nowMS int64) []Leaving {
	heard := k.supply.heard(nowMS)
	var out []Leaving
	wanted := map[string]bool{} // nodes that others let go
	for _, n := range list[corev1.Node](k, kindNodes) {
		l := leavingOf(n)
		if at, ok := heard[n.Name]; ok && (l == nil || l.Cause != "interruption") {
			l = &Leaving{Cause: "interruption", Evict: true}
			if d := noticeMS[cloudOf(n)]; d > 0 {
				l.DeadlineMS = at + d
			}
		}
		if l == nil {
			continue
		}
		l.Node, l.UID = n.Name, string(n.UID)
		if d := noticeMS[cloudOf(n)]; l.Cause == "interruption" && l.DeadlineMS == 0 && d > 0 { // of others nobody knows how long it takes
			l.DeadlineMS = k.supply.since(l.UID, nowMS) + d
		}
		if !l.Evict {
			wanted[n.Name] = false
		}
		out = append(out, *l)
	}
	if len(wanted) == 0 {
		return out
	}
	for _, store := range k.stores[kindPods] {
		for _, x := range store.List() {
			if p, ok := x.(*corev1.Pod); ok && p.Annotations["plimsoll.dev/checkpoint"] != "" && k.sees(p.Namespace) {
				if _, goes := wanted[p.Spec.NodeName]; goes {
					wanted[p.Spec.NodeName] = true
				}
			}
		}
	}
	kept := out[:0]
	for _, l := range out {
		if l.Evict || wanted[l.Node] {
			kept = append(kept, l)
		}
	}
	return kept
}

// leavingOf reads a node's own signs; nil: there is none. A machine that the cloud has shut down already is not left any more.
func leavingOf(n *corev1.Node) *Leaving {
	for _, t := range n.Spec.Taints {
		if t.Key == "node.cloudprovider.kubernetes.io/shutdown" {
			return nil
		}
	}
	if sign, _ := reclaimed(n); sign == rebalanceTaint {
		return &Leaving{Cause: "rebalance", Evict: true}
	} else if sign != "" {
		return &Leaving{Cause: "interruption", Evict: true}
	}
	if n.DeletionTimestamp != nil {
		return &Leaving{Cause: "consolidation"}
	}
	for _, t := range n.Spec.Taints {
		for _, key := range letGoTaints {
			if t.Key == key || strings.HasPrefix(t.Key, key+"-") {
				return &Leaving{Cause: "consolidation"}
			}
		}
	}
	return nil
}

// Workload is the key of the workload of a pod, by "namespace/name"; empty: none, or no such pod.
func (k *Kube) Workload(pod string) string {
	for _, store := range k.stores[kindPods] {
		x, ok, err := store.GetByKey(pod)
		if p, is := x.(*corev1.Pod); err == nil && ok && is {
			return k.view().owner(p)
		}
	}
	return ""
}
