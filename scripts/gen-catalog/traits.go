package main

import (
	"fmt"
	"strings"
)

// traits of a machine beyond its size. A nil pointer is unknown, which is never the same as zero.
type traits struct {
	netMbps, diskGiB *int64
	link             string // among the GPUs of one machine; empty: unknown
	linkGB           *int64 // per GPU, both directions together, GB/s
	fabric           string // among machines; empty: unknown
	fabricGbps       *int64
	pods             *int64 // that the network interfaces have addresses for
}

func known(n int64) *int64 { return &n }

// gib turns what a cloud sells as GB of 10^9 bytes into whole GiB.
func gib(gb int64) *int64 { return known(gb * 1_000_000_000 >> 30) }

func (t traits) fields() string {
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	word := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	return strings.Join([]string{number(t.netMbps), number(t.diskGiB), word(t.link), number(t.linkGB), word(t.fabric), number(t.fabricGbps), number(t.pods)}, "\t")
}

// mig lists the profiles of a GPU model that MIG can split, as "profile:most at once", without those that only add media engines.
// Source: NVIDIA MIG user guide, supported MIG profiles (docs.nvidia.com/datacenter/tesla/mig-user-guide), read 2026-11.
var mig = map[string]string{
	"A100-40GB":    "1g.5gb:7 1g.10gb:4 2g.10gb:3 3g.20gb:2 4g.20gb:1 7g.40gb:1",
	"A100-80GB":    "1g.10gb:7 1g.20gb:4 2g.20gb:3 3g.40gb:2 4g.40gb:1 7g.80gb:1",
	"A30":          "1g.6gb:4 2g.12gb:2 4g.24gb:1",
	"H100":         "1g.10gb:7 1g.20gb:4 2g.20gb:3 3g.40gb:2 4g.40gb:1 7g.80gb:1",
	"H100-94GB":    "1g.12gb:7 1g.24gb:4 2g.24gb:3 3g.47gb:2 4g.47gb:1 7g.94gb:1",
	"H200":         "1g.18gb:7 1g.35gb:4 2g.35gb:3 3g.71gb:2 4g.71gb:1 7g.141gb:1",
	"B200":         "1g.23gb:7 1g.45gb:4 2g.45gb:3 3g.90gb:2 4g.90gb:1 7g.180gb:1",
	"RTX-PRO-6000": "1g.24gb:4 2g.48gb:2 4g.96gb:1",
	// Not on the maker's list of GPUs with MIG.
	"K80": "", "M60": "", "P4": "", "P100": "", "V100": "", "V100-32GB": "", "T4": "", "T4g": "", "A10": "", "A10G": "", "L4": "", "L40S": "", "MI300X": "", "Radeon-V520": "",
}

// linkOf says how the GPUs of one machine reach each other, and with how many GB/s per GPU, both directions together. Only GPUs of a
// board with NVLink or Infinity Fabric are named so; cards in slots share PCI Express. What differs from size to size is unknown.
// Sources: the makers' data sheets (NVLink 2, 3, 4, 5: 300, 600, 900, 1,800 GB/s; MI300X: 896) and the clouds' pages on their GPU machines.
func linkOf(m *machine) (string, *int64) {
	switch {
	case m.gpus == 0:
		return "", nil
	case m.gpus == 1:
		return "none", nil
	}
	board := m.cloud == "aws" || m.cloud == "gcp" || strings.HasPrefix(m.name, "Standard_ND")
	switch m.gpu {
	case "K80", "M60", "T4", "T4g", "A10", "A10G", "L4", "L40S", "RTX-PRO-6000", "Radeon-V520":
		return "pcie", nil
	case "V100", "V100-32GB":
		if board {
			return "nvlink", known(300)
		}
		return "pcie", nil // Azure's NC v3
	case "A100-40GB", "A100-80GB":
		if board {
			return "nvswitch", known(600)
		}
	case "H100", "H200":
		if board {
			return "nvswitch", known(900)
		}
	case "B200":
		return "nvswitch", known(1800)
	case "MI300X":
		return "infinity_fabric", known(896)
	}
	return "", nil
}

// awsNewer are types with an Elastic Fabric Adapter that are newer than the table of descriptions; it carries the whole bandwidth.
// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html, and docs.aws.amazon.com/ec2/latest/instancetypes/ac.html for the disks.
var awsNewer = map[string]struct{ diskGB int64 }{"p5.4xlarge": {3840}, "p5en.48xlarge": {8 * 3840}, "p6-b200.48xlarge": {8 * 3840}}

// Pods that a node of EKS has addresses for: interfaces * (addresses of each - 1) + 2, for the default network card.
// Source: github.com/aws/amazon-vpc-cni-k8s misc/eni-max-pods.txt (Apache-2.0), which AWS makes from DescribeInstanceTypes. Most
// families climb the same ladder; podsOf says which do, and podsOther has the rest of what this catalogue needs.
var podsLadder = map[string]int64{"medium": 8, "large": 29, "xlarge": 58, "2xlarge": 58, "3xlarge": 58, "4xlarge": 234, "6xlarge": 234, "8xlarge": 234, "9xlarge": 234, "12xlarge": 234,
	"16xlarge": 737, "18xlarge": 737, "24xlarge": 737, "32xlarge": 737, "48xlarge": 737, "metal": 737, "metal-16xl": 737, "metal-24xl": 737, "metal-32xl": 737, "metal-48xl": 737}

var podsFamilies = words(`c3 c4 c5 c5a c5d c5n c6a c6g c6gd c6gn c6i c6id c6in c7a c7g c7gd c7gn c7i c7i-flex c8g i3 i3en i4i im4gn is4gen
m5 m5a m5ad m5d m5dn m5n m6a m6g m6gd m6i m6id m6idn m6in m7a m7g m7gd m7i m7i-flex m8g r3 r4 r5 r5a r5ad r5b r5d r5dn r5n r6a r6g r6gd r6i r6id r6idn r6in
r7a r7g r7gd r7i r7iz r8g x2idn x2iedn p3dn p4d p4de gr6 g5g g6`)

var podsOther = map[string]int64{
	"c6in.32xlarge": 394, "c6in.metal": 394, "m6idn.32xlarge": 394, "m6idn.metal": 394, "m6in.32xlarge": 394, "m6in.metal": 394,
	"r6idn.32xlarge": 394, "r6idn.metal": 394, "r6in.32xlarge": 394, "r6in.metal": 394, "i4i.24xlarge": 437,
	"g4ad.xlarge": 8, "g4ad.2xlarge": 8, "g4ad.4xlarge": 29, "g4ad.8xlarge": 58, "g4ad.16xlarge": 234,
	"g4dn.xlarge": 29, "g4dn.2xlarge": 29, "g4dn.4xlarge": 29, "g4dn.8xlarge": 58, "g4dn.12xlarge": 234, "g4dn.16xlarge": 58, "g4dn.metal": 737,
	"g5.xlarge": 58, "g5.2xlarge": 58, "g5.4xlarge": 234, "g5.8xlarge": 234, "g5.12xlarge": 737, "g5.16xlarge": 234, "g5.24xlarge": 737, "g5.48xlarge": 345,
	"g6e.xlarge": 58, "g6e.2xlarge": 58, "g6e.4xlarge": 234, "g6e.8xlarge": 234, "g6e.12xlarge": 292, "g6e.16xlarge": 737, "g6e.24xlarge": 492, "g6e.48xlarge": 492,
	"p3.2xlarge": 58, "p3.8xlarge": 234, "p3.16xlarge": 234, "p5.48xlarge": 100, "p5en.48xlarge": 198,
	"t3.nano": 4, "t3.micro": 4, "t3.small": 11, "t3.medium": 17, "t3.large": 35, "t3.xlarge": 58, "t3.2xlarge": 58,
	"t3a.nano": 4, "t3a.micro": 4, "t3a.small": 8, "t3a.medium": 17, "t3a.large": 35, "t3a.xlarge": 58, "t3a.2xlarge": 58,
	"t4g.nano": 4, "t4g.micro": 4, "t4g.small": 11, "t4g.medium": 17, "t4g.large": 35, "t4g.xlarge": 58, "t4g.2xlarge": 58,
	"t2.nano": 4, "t2.micro": 4, "t2.small": 11, "t2.medium": 17, "t2.large": 35, "t2.xlarge": 44, "t2.2xlarge": 44,
	"m4.large": 20, "m4.xlarge": 58, "m4.2xlarge": 58, "m4.4xlarge": 234, "m4.10xlarge": 234, "m4.16xlarge": 234,
	"m5zn.large": 29, "m5zn.xlarge": 58, "m5zn.2xlarge": 58, "m5zn.3xlarge": 234, "m5zn.6xlarge": 234, "m5zn.12xlarge": 737, "m5zn.metal": 737,
	"z1d.large": 29, "z1d.xlarge": 58, "z1d.2xlarge": 58, "z1d.3xlarge": 234, "z1d.6xlarge": 234, "z1d.12xlarge": 737, "z1d.metal": 737,
	"a1.medium": 8, "a1.large": 29, "a1.xlarge": 58, "a1.2xlarge": 58, "a1.4xlarge": 234, "a1.metal": 234,
}

func podsOf(name string) *int64 {
	if n, ok := podsOther[name]; ok {
		return known(n)
	}
	family, size, _ := strings.Cut(name, ".")
	if n, ok := podsLadder[size]; ok && podsFamilies[family] {
		return known(n)
	}
	return nil
}

// azureNIC is the bandwidth in Gbit/s and the local NVMe disk in GB of GPU sizes whose pages state them, -1 where they do not. Sizes with
// an r among their letters are those with InfiniBand. Source: learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated.
var azureNIC = map[string][2]int64{
	"Standard_NC4as_T4_v3": {8, -1}, "Standard_NC8as_T4_v3": {8, -1}, "Standard_NC16as_T4_v3": {8, -1}, "Standard_NC64as_T4_v3": {32, -1},
	"Standard_NC24ads_A100_v4": {20, 960}, "Standard_NC48ads_A100_v4": {40, 2 * 960}, "Standard_NC96ads_A100_v4": {80, 4 * 960},
	"Standard_NC40ads_H100_v5": {40, 3840}, "Standard_NC80adis_H100_v5": {80, 2 * 3840},
	"Standard_ND40rs_v2": {24, -1}, "Standard_ND96isr_H100_v5": {80, -1}, "Standard_ND96isr_H200_v5": {80, -1}, "Standard_ND96isr_MI300X_v5": {80, -1},
}

// azureInfiniBand in Gbit/s of a machine: one adapter per GPU from ND A100 v4 on, one per machine before. Same source.
var azureInfiniBand = map[string]*int64{
	"Standard_ND40rs_v2": known(100), "Standard_ND96asr_v4": known(8 * 200), "Standard_ND96amsr_A100_v4": known(8 * 200),
	"Standard_ND96isr_H100_v5": known(8 * 400), "Standard_ND96isr_H200_v5": known(8 * 400), "Standard_ND96isr_MI300X_v5": known(8 * 400),
	"Standard_NC24rs_v3": nil,
}

func azureTraits(m *machine) {
	if nic, ok := azureNIC[m.name]; ok {
		m.netMbps = known(nic[0] * 1000)
		if nic[1] >= 0 {
			m.diskGiB = gib(nic[1])
		}
	}
	m.fabric = "none"
	if gbps, ok := azureInfiniBand[m.name]; ok {
		m.fabric, m.fabricGbps = "infiniband", gbps
	}
	m.link, m.linkGB = linkOf(m)
}

// gcpNIC is the most Gbit/s that a GPU machine sends without an upgrade. Source: cloud.google.com/compute/docs/gpus.
var gcpNIC = map[string]int64{
	"a2-highgpu-1g": 24, "a2-highgpu-2g": 32, "a2-highgpu-4g": 50, "a2-highgpu-8g": 100, "a2-megagpu-16g": 100,
	"a2-ultragpu-1g": 24, "a2-ultragpu-2g": 32, "a2-ultragpu-4g": 50, "a2-ultragpu-8g": 100,
	"a3-highgpu-1g": 25, "a3-highgpu-2g": 50, "a3-highgpu-4g": 100, "a3-highgpu-8g": 1000, "a3-megagpu-8g": 1800,
	"g2-standard-4": 10, "g2-standard-8": 16, "g2-standard-12": 16, "g2-standard-16": 32, "g2-standard-24": 32, "g2-standard-32": 32, "g2-standard-48": 50, "g2-standard-96": 100,
	"g4-standard-48": 50, "g4-standard-96": 100, "g4-standard-192": 200, "g4-standard-384": 400,
}

// gcpFabric is what the GPUs of several machines reach each other by: GPUDirect over network cards of their own. Same source.
var gcpFabric = map[string]int64{"a3-highgpu-8g": 4 * 200, "a3-megagpu-8g": 8 * 200}

func gcpTraits(m *machine, ssdGiB int64) {
	if gbps, ok := gcpNIC[m.name]; ok {
		m.netMbps = known(gbps * 1000)
	}
	m.diskGiB, m.fabric = known(ssdGiB), "none"
	if m.name == "a3-megagpu-8g" && ssdGiB == 0 {
		m.diskGiB = known(16 * 375) // the price list leaves it out
	}
	if gbps, ok := gcpFabric[m.name]; ok {
		m.fabric, m.fabricGbps = "gpudirect", known(gbps)
	}
	m.link, m.linkGB = linkOf(m)
}
