package collect

import (
	"slices"
	"strconv"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
)

// Names that schedulers of fractions use.
const (
	hamiCores      = corev1.ResourceName("nvidia.com/gpucores")          // percent of a GPU
	hamiMemory     = corev1.ResourceName("nvidia.com/gpumem")            // MiB
	hamiMemoryPart = corev1.ResourceName("nvidia.com/gpumem-percentage") // percent
	kaiFraction    = "gpu-fraction"                                      // annotation: 0.5
	kaiMemory      = "gpu-memory"                                        // annotation: MiB
	kaiDevices     = "gpu-fraction-num-devices"                          // annotation
	mpsThreads     = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"                 // environment
	migResource    = "nvidia.com/mig-"
	maxGPUsOfPod   = 1024
)

// reservationSpaces hold the pods that take whole GPUs for a scheduler of fractions: what they hold is held by others.
var reservationSpaces = []string{"kai-resource-reservation", "runai-reservation"}

// podGPUs is what a pod asks of GPUs in other parts than whole ones, and in thousandths together; no shares: whole is what milli says.
func podGPUs(p *corev1.Pod, milli int64) ([]*agentv1.GPUShare, int64) {
	if slices.Contains(reservationSpaces, p.Namespace) {
		return nil, 0
	}
	if s := kaiShare(p.Annotations); s != nil && milli == 0 {
		return []*agentv1.GPUShare{s}, int64(s.GetCount()) * int64(s.GetCoreMilli())
	}
	var all []*agentv1.GPUShare
	parts := false
	for i := range p.Spec.Containers {
		shares, special := containerGPUs(&p.Spec.Containers[i])
		all, parts = append(all, shares...), parts || special
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			shares, special := containerGPUs(c)
			all, parts = append(all, shares...), parts || special
		}
	}
	if !parts {
		return nil, milli
	}
	return all, milli
}

// kaiShare reads the annotations of KAI and Run:ai.
func kaiShare(annotations map[string]string) *agentv1.GPUShare {
	s := &agentv1.GPUShare{Count: 1}
	if n, err := strconv.ParseInt(annotations[kaiDevices], 10, 32); err == nil && n > 1 && n <= maxGPUsOfPod {
		s.Count = count32(n)
	}
	if f, err := strconv.ParseFloat(annotations[kaiFraction], 64); err == nil && f > 0 && f <= 1 {
		s.CoreMilli = count32(int64(f*1000 + 0.5))
		return s
	}
	if m, err := strconv.ParseInt(annotations[kaiMemory], 10, 64); err == nil && m > 0 {
		s.MemMib = m
		return s
	}
	return nil
}

// containerGPUs lists what a container asks for; special says that this is more than a number of whole GPUs.
func containerGPUs(c *corev1.Container) (all []*agentv1.GPUShare, special bool) {
	list := c.Resources.Limits // extended resources: limits equal requests
	if len(list) == 0 {
		list = c.Resources.Requests
	}
	names := make([]string, 0, len(list))
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range names {
		q := list[corev1.ResourceName(name)]
		if q.Value() <= 0 {
			continue
		}
		if profile, ok := strings.CutPrefix(name, migResource); ok && migSlices(corev1.ResourceName(name)) > 0 {
			all, special = append(all, &agentv1.GPUShare{Profile: profile, Count: count32(q.Value())}), true
		}
	}
	for _, name := range gpuResources {
		q, ok := list[name]
		if !ok || q.Value() <= 0 {
			continue
		}
		s := &agentv1.GPUShare{Count: count32(q.Value())}
		value := func(r corev1.ResourceName) int64 { v := list[r]; return max(v.Value(), 0) }
		s.CoreMilli, s.MemMilli, s.MemMib = count32(min(value(hamiCores), 100)*10), count32(min(value(hamiMemoryPart), 100)*10), value(hamiMemory)
		for _, e := range c.Env {
			if n, err := strconv.ParseFloat(e.Value, 64); err == nil && e.Name == mpsThreads && n > 0 && n <= 100 {
				s.CoreMilli = max(s.CoreMilli, count32(int64(n*10+0.5)))
			}
		}
		special = special || s.GetCoreMilli() > 0 || s.GetMemMilli() > 0 || s.GetMemMib() > 0
		all = append(all, s)
	}
	return all, special
}

// nodeGPUs says how the GPUs of a node are given out, and how many there are; no groups: whole ones, as many as its capacity says.
func nodeGPUs(n *corev1.Node) (groups []*agentv1.GPUGroup, gpus int64) {
	var offered int64 // under the names of GPUs
	for _, name := range gpuResources {
		if q, ok := n.Status.Capacity[name]; ok {
			offered += max(q.Value(), 0)
		}
	}
	number := func(label string) int64 {
		v, err := strconv.ParseInt(n.Labels[label], 10, 32)
		if err != nil || v < 0 {
			return 0
		}
		return v
	}
	physical := number("nvidia.com/gpu.count")
	if _, profile, ok := strings.Cut(n.Labels["nvidia.com/gpu.product"], "-MIG-"); ok && n.Labels["nvidia.com/mig.strategy"] == "single" {
		if most := mostPerGPU(profile); most > 0 && offered > 0 {
			gpus = (offered + most - 1) / most
			return []*agentv1.GPUGroup{{Mode: "mig", Count: count32(gpus), Instances: []*agentv1.GPUInstance{{Profile: profile, Count: count32(offered)}}}}, gpus
		}
	}
	replicas := max(number("nvidia.com/gpu.replicas"), 1)
	instances := migInstances(n)
	whole := offered / replicas
	if offered == 0 && len(instances) == 0 {
		whole = physical // given out by resource claims only
	}
	if physical > 0 && physical < whole {
		whole = physical // a plugin that gives out shares without saying how many
		replicas = max(replicas, offered/physical)
	}
	cut := int64(0)
	if len(instances) > 0 {
		cut = max(migGPUs(n), memoryGPUs(instances), physical-whole)
	}
	switch {
	case replicas > 1:
		mode := "time_slice"
		if n.Labels["nvidia.com/gpu.sharing-strategy"] == "mps" || n.Labels["nvidia.com/mps.capable"] == "true" {
			mode = "mps"
		}
		groups = append(groups, &agentv1.GPUGroup{Mode: mode, Count: count32(whole), Replicas: count32(replicas)})
	case whole > 0 && cut > 0:
		groups = append(groups, &agentv1.GPUGroup{Mode: "whole", Count: count32(whole)})
	}
	if cut > 0 {
		groups = append(groups, &agentv1.GPUGroup{Mode: "mig", Count: count32(cut), Instances: instances})
	}
	return groups, whole + cut
}

func migInstances(n *corev1.Node) (all []*agentv1.GPUInstance) {
	for name, q := range n.Status.Capacity {
		if profile, ok := strings.CutPrefix(string(name), migResource); ok && migSlices(name) > 0 && q.Value() > 0 {
			all = append(all, &agentv1.GPUInstance{Profile: profile, Count: count32(q.Value())})
		}
	}
	slices.SortFunc(all, func(a, b *agentv1.GPUInstance) int { return strings.Compare(a.GetProfile(), b.GetProfile()) })
	return all
}

// memorySlices of a profile by its compute slices: of eight, on every model that is cut into sevenths. 1g with twice the memory is
// not told apart here, so this is what it takes at least.
func memorySlices(profile string) int64 {
	if profile == "" {
		return 0
	}
	return map[byte]int64{'1': 1, '2': 2, '3': 4, '4': 4, '7': 8}[profile[0]]
}

// memoryGPUs is how many GPUs the memory of the instances takes at least.
func memoryGPUs(all []*agentv1.GPUInstance) int64 {
	var eighths int64
	for _, i := range all {
		eighths += memorySlices(i.GetProfile()) * int64(i.GetCount())
	}
	return (eighths + 7) / 8
}

// mostPerGPU is how many instances of a profile fit a GPU, which is how the single strategy cuts it.
func mostPerGPU(profile string) int64 {
	compute, memory := migSlices(corev1.ResourceName(migResource+profile)), memorySlices(profile)
	if compute == 0 || memory == 0 {
		return 0
	}
	return min(7/compute, 8/memory)
}
