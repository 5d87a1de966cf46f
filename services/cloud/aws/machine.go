package aws

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// InstanceTypes lists the machines of a region.
func (s *Source) InstanceTypes(ctx context.Context, region string) (cloud.List[cloud.InstanceType], error) {
	var out cloud.List[cloud.InstanceType]
	err := s.list(ctx, "list AWS machines of "+region, func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			page, err := s.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100), NextToken: optional(token)}, in(region))
			if err != nil {
				return "", err
			}
			for i := range page.InstanceTypes {
				if t, reason := machine(&page.InstanceTypes[i]); reason == "" {
					out.Items = append(out.Items, t)
				} else {
					out.Skip(reason)
				}
			}
			return aws.ToString(page.NextToken), cloud.Room(len(out.Items))
		})
	})
	if err != nil {
		return cloud.List[cloud.InstanceType]{}, err
	}
	cloud.SettleTypes(&out)
	return out, nil
}

func optional(token string) *string {
	if token == "" {
		return nil
	}
	return &token
}

// machine reads one type. A machine without a size, or with accelerators of several kinds, is left out.
func machine(t *types.InstanceTypeInfo) (cloud.InstanceType, cloud.SkipReason) {
	out := cloud.InstanceType{InstanceType: fleet.InstanceType{Cloud: fleet.CloudAWS, Name: string(t.InstanceType)}}
	if out.Name == "" || t.VCpuInfo == nil || aws.ToInt32(t.VCpuInfo.DefaultVCpus) <= 0 || t.MemoryInfo == nil || aws.ToInt64(t.MemoryInfo.SizeInMiB) <= 0 || t.ProcessorInfo == nil {
		return out, cloud.SkipUnknown
	}
	out.CPUMilli, out.MemMiB = int64(*t.VCpuInfo.DefaultVCpus)*1000, *t.MemoryInfo.SizeInMiB
	for _, a := range t.ProcessorInfo.SupportedArchitectures {
		switch a {
		case types.ArchitectureTypeX8664:
			out.Arch = "amd64"
		case types.ArchitectureTypeArm64:
			out.Arch = "arm64"
		}
	}
	if out.Arch == "" {
		return out, cloud.SkipForeign
	}
	if t.GpuInfo != nil && len(t.GpuInfo.Gpus) > 0 {
		if len(t.GpuInfo.Gpus) > 1 {
			return out, cloud.SkipUnknown
		}
		g := t.GpuInfo.Gpus[0]
		if g.MemoryInfo == nil || aws.ToInt32(g.Count) < 0 {
			return out, cloud.SkipUnknown
		}
		// A machine with a part of a GPU says a count of zero; how large the part is, its memory tells.
		out.GPUName, out.GPUCount, out.GPUMemoryMiB = aws.ToString(g.Name), max(int(aws.ToInt32(g.Count)), 1), int64(aws.ToInt32(g.MemoryInfo.SizeInMiB))
		out.GPUModel = cloud.GPU(out.GPUName, out.GPUMemoryMiB)
		if out.GPUModel == "" {
			return out, cloud.SkipUnknown
		}
	}
	if t.NetworkInfo != nil {
		network(t.NetworkInfo, &out)
	}
	switch {
	case t.InstanceStorageInfo != nil:
		out.LocalDiskGB, out.LocalDiskTold = aws.ToInt64(t.InstanceStorageInfo.TotalSizeInGB), true
	case t.InstanceStorageSupported != nil:
		out.LocalDiskTold = !*t.InstanceStorageSupported
	}
	for _, u := range t.SupportedUsageClasses {
		out.SpotSold = out.SpotSold || u == types.UsageClassTypeSpot
	}
	return out, ""
}

// network reads bandwidth, fabric and addresses. The bandwidth is what the machine always has, or its peak where the cloud tells no more.
// Cards of some machines (p5) share its bandwidth out, cards of others (g6e) each repeat the whole: where the cloud sells a plain number,
// that is the whole.
func network(n *types.NetworkInfo, out *cloud.InstanceType) {
	var peak, always float64
	told := len(n.NetworkCards) > 0
	interfaces := aws.ToInt32(n.MaximumNetworkInterfaces)
	for _, card := range n.NetworkCards {
		peak += aws.ToFloat64(card.PeakBandwidthInGbps)
		always += aws.ToFloat64(card.BaselineBandwidthInGbps)
		told = told && card.BaselineBandwidthInGbps != nil
		if card.MaximumNetworkInterfaces != nil && aws.ToInt32(card.NetworkCardIndex) == aws.ToInt32(n.DefaultNetworkCardIndex) {
			interfaces = *card.MaximumNetworkInterfaces
		}
	}
	if !told {
		always = peak
	}
	if text, plain := strings.CutSuffix(aws.ToString(n.NetworkPerformance), " Gigabit"); plain {
		if whole, err := strconv.ParseFloat(text, 64); err == nil {
			always = whole
		}
	}
	if always > 0 && always < maxGbps {
		out.NetworkMbps = int64(math.Round(always * 1000))
	}
	if n.EfaSupported != nil {
		out.Interconnect = "none"
		if *n.EfaSupported { // it may use all of the network
			out.Interconnect, out.FabricGbps = "efa", out.NetworkMbps/1000
		}
	}
	// The rule of EKS: the first address of each interface is the machine's, and two pods share the host's.
	if addresses := aws.ToInt32(n.Ipv4AddressesPerInterface); interfaces > 0 && interfaces < maxInterfaces && addresses > 0 && addresses < maxInterfaces {
		out.AddressPods = int64(interfaces)*int64(addresses-1) + 2
	}
}

// Bounds far above what machines have.
const (
	maxGbps       = 1_000_000
	maxInterfaces = 1_000
)
