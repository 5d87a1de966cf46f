package collect

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	maxLabels     = 64
	maxLabelValue = 256
)

// Labels and taints of clouds, autoscalers and drivers. Ours win, so that a person can correct what a cloud says wrongly.
var (
	poolLabels     = []string{"plimsoll.dev/pool", "karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "agentpool"}
	purchaseLabels = []string{"plimsoll.dev/purchase", "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType", "kubernetes.azure.com/scalesetpriority", "node.kubernetes.io/lifecycle"}
	gpuResources   = []corev1.ResourceName{"nvidia.com/gpu", "amd.com/gpu", "nvidia.com/gpu.shared"}
	reclaimTaints  = map[string]string{
		"aws-node-termination-handler/spot-itn":                 "spot interruption notice",
		"aws-node-termination-handler/rebalance-recommendation": "rebalance recommendation",
		"cloud.google.com/impending-node-termination":           "termination by the cloud",
		"cloudprovider.azure.microsoft.com/draining":            "spot eviction",
		"node.cloudprovider.kubernetes.io/shutdown":             "shut down by the cloud",
	}
)

func nodeOf(n *corev1.Node) *agentv1.Node {
	out := &agentv1.Node{
		Uid: string(n.UID), Name: n.Name, Pool: firstLabel(n.Labels, poolLabels), Cloud: cloudOf(n),
		Region:       firstLabel(n.Labels, []string{"plimsoll.dev/region", corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion}),
		Zone:         firstLabel(n.Labels, []string{"plimsoll.dev/zone", corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}),
		InstanceType: firstLabel(n.Labels, []string{"plimsoll.dev/instance-type", corev1.LabelInstanceTypeStable, corev1.LabelInstanceType}),
		Purchase:     purchaseOf(n.Labels), StartedMs: n.CreationTimestamp.UnixMilli(),
		CpuMilli: n.Status.Capacity.Cpu().MilliValue(), MemMib: mib(*n.Status.Capacity.Memory()), Labels: boundLabels(n.Labels),
	}
	out.ProviderId, out.Taints, out.TaintsTold = n.Spec.ProviderID, taintsOf(n), true
	if v := n.Status.NodeInfo.KubeletVersion; len(v) <= maxLabelValue {
		out.KubeletVersion = v
	}
	out.Phase, out.ReadyMs = nodePhase(n)
	groups, gpus := nodeGPUs(n)
	out.Gpus, out.GpuCount = groups, count32(gpus)
	if out.GpuCount > 0 {
		out.GpuModel = gpuModel(firstLabel(n.Labels, []string{"plimsoll.dev/gpu-model", "nvidia.com/gpu.product", "karpenter.k8s.aws/instance-gpu-name", "cloud.google.com/gke-accelerator"}))
		out.GpuMemoryMib, _ = strconv.ParseInt(firstLabel(n.Labels, []string{"nvidia.com/gpu.memory", "karpenter.k8s.aws/instance-gpu-memory"}), 10, 64)
	}
	return out
}

// nodePhase is the phase and, once the node is ready, since when.
func nodePhase(n *corev1.Node) (phase string, readyMS int64) {
	ready, failed := false, false
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if ready = c.Status == corev1.ConditionTrue; ready {
			readyMS = c.LastTransitionTime.UnixMilli()
		}
		// A kubelet that starts says KubeletNotReady; anything else, or that for long, is a failure.
		failed = !ready && (c.Reason != "KubeletNotReady" || c.LastTransitionTime.Sub(n.CreationTimestamp.Time) > bootGrace)
	}
	switch {
	case n.DeletionTimestamp != nil || (n.Spec.Unschedulable && ready):
		return "draining", readyMS
	case ready:
		return "ready", readyMS
	case failed:
		return "not_ready", 0
	}
	return "booting", 0
}

func cloudOf(n *corev1.Node) string {
	if c := n.Labels["plimsoll.dev/cloud"]; c != "" {
		return c
	}
	scheme, _, _ := strings.Cut(n.Spec.ProviderID, "://")
	switch scheme {
	case "aws", "azure":
		return scheme
	case "gce":
		return "gcp"
	}
	return "onprem"
}

func purchaseOf(labels map[string]string) string {
	if labels["cloud.google.com/gke-spot"] == "true" || labels["cloud.google.com/gke-preemptible"] == "true" {
		return "spot"
	}
	switch strings.ToLower(firstLabel(labels, purchaseLabels)) {
	case "spot", "preemptible":
		return "spot"
	case "reserved", "capacity_block":
		return "reserved"
	}
	return "on_demand"
}

// gpuModel turns a driver's or a cloud's product name into the catalogue's: "NVIDIA-H100-80GB-HBM3" is an H100.
func gpuModel(product string) string {
	p := strings.NewReplacer("NVIDIA-", "", "NVIDIA ", "", "TESLA-", "", "TESLA ", "", "_", "-", " ", "-").Replace(strings.ToUpper(product))
	p = strings.TrimSuffix(p, "-SHARED")
	switch {
	case strings.HasPrefix(p, "A100") && strings.Contains(p, "80GB"):
		return "A100-80GB"
	case strings.HasPrefix(p, "A100"):
		return "A100-40GB"
	case strings.HasPrefix(p, "H100-80GB"), strings.HasPrefix(p, "H100-PCIE"), strings.HasPrefix(p, "H100-SXM"), p == "H100", p == "H100-NVL":
		return "H100"
	case strings.HasPrefix(p, "H200"):
		return "H200"
	case strings.HasPrefix(p, "B200"):
		return "B200"
	}
	for _, plain := range []string{"L40S", "L40", "L4", "A10G", "A10", "T4G", "T4", "V100", "P100", "P4", "A2", "A30", "A40", "GH200", "GB200", "MI300X"} {
		if p == plain || strings.HasPrefix(p, plain+"-") {
			return plain
		}
	}
	return p
}

// migGPUs estimates the whole GPUs of a node that offers MIG slices only: seven compute slices make one.
func migGPUs(n *corev1.Node) int64 {
	var sevenths int64
	for name, q := range n.Status.Capacity {
		if s := migSlices(name); s > 0 {
			sevenths += s * q.Value()
		}
	}
	return (sevenths + 6) / 7
}

// migSlices is the number of compute slices of a MIG resource, "nvidia.com/mig-3g.40gb" has 3; 0 for anything else.
func migSlices(name corev1.ResourceName) int64 {
	profile, ok := strings.CutPrefix(string(name), "nvidia.com/mig-")
	if !ok {
		return 0
	}
	g, _, ok := strings.Cut(profile, "g.")
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(g, 10, 64)
	if err != nil || n < 1 || n > 7 {
		return 0
	}
	return n
}

func firstLabel(labels map[string]string, names []string) string {
	for _, n := range names {
		if v := labels[n]; v != "" {
			return v
		}
	}
	return ""
}

// labelRank is 0 for labels that plans go by: of Kubernetes, clouds and provisioners, and of a GPU's driver; 1 for what feature discovery adds of CPU and kernel.
func labelRank(key string) int {
	if strings.HasPrefix(key, "feature.node.kubernetes.io/") {
		return 1
	}
	return 0
}

// boundLabels copies labels within bounds, the first ones in order of name, those of feature discovery last.
func boundLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	out := make(map[string]string, min(len(labels), maxLabels))
	keys := sortedKeys(labels)
	if len(keys) > maxLabels { // feature discovery gives a node more labels than are told: those that plans go by come first
		slices.SortStableFunc(keys, func(a, b string) int {
			return cmp.Compare(labelRank(a), labelRank(b))
		})
	}
	for _, k := range keys {
		if len(out) == maxLabels {
			break
		}
		v := labels[k]
		out[k] = v[:min(len(v), maxLabelValue)]
	}
	return out
}

func mib(q resource.Quantity) int64 { return (q.Value() + 1<<20 - 1) >> 20 }
