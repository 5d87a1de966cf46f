package market

import (
	"plimsoll.dev/services/fleet"
)

// Allocatable is an estimate of what a node of a managed cluster leaves to pods. Fields are nil where the rule needs something that is
// not known. It starts from the size that the cloud sells: what firmware and kernel keep of the memory (one to seven in a hundred) is
// not in it, and no daemon set is. A node that runs reports its own figures, which come before any estimate.
type Allocatable struct {
	CPUMilli *int64
	MemMiB   *int64
	MaxPods  *int64
	Rule     string // eks, aks or gke; empty: no rule for this cloud
}

// evictionMiB is the memory under which the kubelet evicts pods; the three services set the same. Sources as below.
const evictionMiB = 100

// Allocatable estimates by the reservations that the managed service of the machine's cloud publishes, with its defaults.
func (m Machine) Allocatable() Allocatable {
	switch m.Cloud {
	case fleet.CloudAWS:
		return m.eks()
	case fleet.CloudAzure:
		return m.aks()
	case fleet.CloudGCP:
		return m.gke()
	default:
		return Allocatable{}
	}
}

// eks: CPU 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest; memory 255 MiB and 11 MiB for each pod
// that the network interfaces have an address for (without prefix delegation).
// Source: github.com/awslabs/amazon-eks-ami nodeadm/internal/kubelet, getCPUMillicoresToReserve and getMemoryMebibytesToReserve.
func (m Machine) eks() Allocatable {
	a := Allocatable{Rule: "eks", CPUMilli: left(m.CPUMilli, tieredCPU(m.CPUMilli))}
	if m.AddressPods != nil {
		pods := *m.AddressPods
		a.MaxPods, a.MemMiB = &pods, left(m.MemMiB, 255+11*pods+evictionMiB)
	}
	return a
}

// aksPods is what a node pool of AKS allows with Azure CNI Overlay, the default network since 2025.
const aksPods = 250

// aks: CPU from 60 millicores on one core to 740 on 64, on a line between the published points and beyond at the last one's slope;
// memory the lesser of 20 MB for each pod and 50 MB more, or a quarter of it.
// Source: learn.microsoft.com/azure/aks/node-resource-reservations, AKS 1.29 and later.
func (m Machine) aks() Allocatable {
	pods := int64(aksPods)
	reserved := min((20*aksPods+50)*1_000_000>>20, m.MemMiB/4)
	return Allocatable{Rule: "aks", CPUMilli: left(m.CPUMilli, aksCPU(m.CPUMilli)), MemMiB: left(m.MemMiB, reserved+evictionMiB), MaxPods: &pods}
}

func aksCPU(cpuMilli int64) int64 {
	points := []struct{ core, milli int64 }{{0, 0}, {1, 60}, {2, 100}, {4, 140}, {8, 180}, {16, 260}, {32, 420}, {64, 740}}
	for i := 1; ; i++ {
		a, b := points[i-1], points[i]
		if cpuMilli <= b.core*1000 || i == len(points)-1 {
			return a.milli + (cpuMilli-a.core*1000)*(b.milli-a.milli)/((b.core-a.core)*1000)
		}
	}
}

// gkePods is the default of a node pool of GKE Standard.
const gkePods = 110

// gke: CPU as for EKS, but 1,060 millicores of shared-core E2; memory 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8,
// 6 % of the next 112 and 2 % of the rest, or 255 MiB below one GiB.
// Source: cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes.
func (m Machine) gke() Allocatable {
	pods := int64(gkePods)
	a := Allocatable{Rule: "gke", CPUMilli: left(m.CPUMilli, tieredCPU(m.CPUMilli)), MemMiB: left(m.MemMiB, gkeMemory(m.MemMiB)+evictionMiB), MaxPods: &pods}
	switch m.Name {
	case "e2-micro", "e2-small", "e2-medium": // shows two cores, of which it may use a part for long
		a.CPUMilli = left(2000, 1060)
	}
	return a
}

func gkeMemory(mib int64) int64 {
	if mib < 1024 {
		return 255
	}
	return tiers(mib, []tier{{4 << 10, 2500}, {8 << 10, 2000}, {16 << 10, 1000}, {128 << 10, 600}, {maxMiB, 200}})
}

func tieredCPU(milli int64) int64 {
	return tiers(milli, []tier{{1000, 600}, {2000, 100}, {4000, 50}, {maxMilli, 25}})
}

// tier takes so many of ten thousand from what lies below upTo and above the tier before.
type tier struct{ upTo, of10k int64 }

func tiers(n int64, all []tier) int64 {
	var sum, from int64
	for _, t := range all {
		if n > from {
			sum += (min(n, t.upTo) - from) * t.of10k
		}
		from = t.upTo
	}
	return sum / 10_000
}

// left is what remains, never below zero.
func left(whole, reserved int64) *int64 {
	n := max(whole-reserved, 0)
	return &n
}
