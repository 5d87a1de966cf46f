package aws

import (
	"context"

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
	if n := t.NetworkInfo; n != nil {
		for _, card := range n.NetworkCards {
			out.NetworkMbps += int64(aws.ToFloat64(card.PeakBandwidthInGbps) * 1000)
		}
		if aws.ToBool(n.EfaSupported) {
			out.Interconnect = "efa"
		}
	}
	if t.InstanceStorageInfo != nil {
		out.LocalDiskGB = aws.ToInt64(t.InstanceStorageInfo.TotalSizeInGB)
	}
	for _, u := range t.SupportedUsageClasses {
		out.SpotSold = out.SpotSold || u == types.UsageClassTypeSpot
	}
	return out, ""
}
