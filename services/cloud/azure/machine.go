package azure

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// sku is a row of the resource manager's list of SKUs.
type sku struct {
	ResourceType string
	Name         string
	Locations    []string
	Capabilities []struct{ Name, Value string }
	Restrictions []struct{ Type, ReasonCode string }
}

func (s *Source) skus(region string) string {
	return query("/subscriptions/"+s.cfg.Access.SubscriptionID+"/providers/Microsoft.Compute/skus", "2021-07-01", "$filter", "location eq '"+region+"'")
}

// InstanceTypes lists the machines of a region that the subscription may use.
func (s *Source) InstanceTypes(ctx context.Context, region string) (cloud.List[cloud.InstanceType], error) {
	var out cloud.List[cloud.InstanceType]
	err := s.list(ctx, "list Azure machines of "+region, func(ctx context.Context) error {
		return pages(ctx, &s.manager, s.skus(region), func(k *sku) {
			if t, reason := machine(k, region); reason == "" {
				out.Items = append(out.Items, t)
			} else {
				out.Skip(reason)
			}
		})
	})
	if err != nil {
		return cloud.List[cloud.InstanceType]{}, err
	}
	cloud.SettleTypes(&out)
	return out, nil
}

func machine(k *sku, region string) (cloud.InstanceType, cloud.SkipReason) {
	out := cloud.InstanceType{InstanceType: fleet.InstanceType{Cloud: fleet.CloudAzure, Name: k.Name}}
	here := slices.ContainsFunc(k.Locations, func(l string) bool { return strings.EqualFold(l, region) })
	for _, r := range k.Restrictions {
		here = here && r.Type != "Location"
	}
	if k.ResourceType != "virtualMachines" || !here || k.Name == "" {
		return out, cloud.SkipForeign
	}
	has := map[string]string{}
	for _, c := range k.Capabilities {
		has[c.Name] = c.Value
	}
	cpus, ok1 := number(has["vCPUs"])
	gib, ok2 := number(has["MemoryGB"])
	switch has["CpuArchitectureType"] {
	case "x64", "":
		out.Arch = "amd64"
	case "Arm64":
		out.Arch = "arm64"
	default:
		return out, cloud.SkipUnknown
	}
	if !ok1 || !ok2 {
		return out, cloud.SkipUnknown
	}
	out.CPUMilli, out.MemMiB = int64(math.Round(cpus*1000)), int64(math.Round(gib*1024))
	if available, ok := number(has["vCPUsAvailable"]); ok { // of sizes whose cores are partly switched off
		out.CPUMilli = int64(math.Round(available * 1000))
	}
	if text := has["GPUs"]; text != "" && text != "0" {
		count, err := strconv.Atoi(text)
		model, mib, known := gpuOf(k.Name)
		if err != nil || count < 0 || count > 64 || !known {
			return out, cloud.SkipUnknown // a part of a GPU, or one whose name we cannot tell from the size's
		}
		out.GPUName, out.GPUModel, out.GPUCount, out.GPUMemoryMiB = string(model), model, count, mib
	}
	if disk, ok := number(has["NvmeDiskSizeInMiB"]); ok {
		out.LocalDiskGB, out.LocalDiskTold = int64(disk*1.048576/1000), true
	}
	switch has["RdmaEnabled"] {
	case "True":
		out.Interconnect = "infiniband"
	case "False":
		out.Interconnect = "none"
	}
	out.SpotSold = has["LowPriorityCapable"] == "True"
	return out, ""
}

// number reads a positive capability.
func number(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && f > 0 && f < 1e9
}

// Azure does not name a size's GPU; the size's own name does: https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated.
var gpuSizes = []struct {
	size  *regexp.Regexp
	model fleet.GPUModel
	mib   int64
}{
	{regexp.MustCompile(`^Standard_NC+\d+adi?s_H100_v5$`), "H100-94GB", 96_256},
	{regexp.MustCompile(`^Standard_ND\d+isr_H100_v5$`), "H100", 81_920},
	{regexp.MustCompile(`^Standard_ND\d+isr_H200_v5$`), "H200", 144_384},
	{regexp.MustCompile(`^Standard_ND\d+isr_MI300X_v5$`), "MI300X", 196_608},
	{regexp.MustCompile(`^Standard_N[CD]\d+a\w*_A100_v4$`), "A100-80GB", 81_920},
	{regexp.MustCompile(`^Standard_ND96asr_v4$`), "A100-40GB", 40_960},
	{regexp.MustCompile(`^Standard_NC\d+as_T4_v3$`), "T4", 16_384},
	{regexp.MustCompile(`^Standard_N[CV](36|72|8|16|32)ad\w*_A10_v[45]$`), "A10", 24_576}, // smaller sizes have a part of one
	{regexp.MustCompile(`^Standard_NC\d+r?s_v3$`), "V100", 16_384},
	{regexp.MustCompile(`^Standard_ND40rs_v2$`), "V100-32GB", 32_768},
}

func gpuOf(size string) (fleet.GPUModel, int64, bool) {
	for _, g := range gpuSizes {
		if g.size.MatchString(size) {
			return g.model, g.mib, true
		}
	}
	return "", 0, false
}
