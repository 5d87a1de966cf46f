package gcp

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// aggregated is the address of a list over all zones and regions of the project. Without returnPartialSuccess Google answers with an
// error when a place does not answer.
func (s *Source) aggregated(what, token string, max int) string {
	q := url.Values{"maxResults": {strconv.Itoa(max)}, "returnPartialSuccess": {"false"}}
	if token != "" {
		q.Set("pageToken", token)
	}
	return "/compute/v1/projects/" + s.cfg.Access.ProjectID + "/aggregated/" + what + "?" + q.Encode()
}

const pageSize = 500

// scoped reads an aggregated list. Each place has its rows under the name of the list; a place that could not be asked fails all of it.
func scoped[T any](ctx context.Context, s *Source, what string, each func(place string, row *T)) error {
	count := 0
	return cloud.Pages(ctx, func(token string) (string, error) {
		var page struct {
			Items         map[string]map[string]rows[T]
			NextPageToken string
			Unreachables  []string
		}
		if err := s.compute.Get(ctx, s.aggregated(what, token, pageSize), &page); err != nil {
			return "", err
		}
		if len(page.Unreachables) > 0 {
			return "", fleet.Errorf(fleet.CodeUnavailable, "the cloud could not ask %d places, %.40s the first", len(page.Unreachables), page.Unreachables[0])
		}
		for _, place := range slices.Sorted(maps.Keys(page.Items)) {
			list := page.Items[place][what]
			count += len(list)
			for i := range list {
				each(path.Base(place), &list[i])
			}
		}
		return page.NextPageToken, cloud.Room(count)
	})
}

// rows reads a list and passes over what else stands beside it: a place without rows has a warning there instead.
type rows[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (r *rows[T]) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '[' {
		return nil
	}
	return json.Unmarshal(text, (*[]T)(r))
}

// machineType is a row of the machine types of a zone.
type machineType struct {
	Name         string
	GuestCpus    int64
	MemoryMb     int64
	IsSharedCpu  bool
	Architecture string
	Accelerators []struct {
		GuestAcceleratorType  string
		GuestAcceleratorCount int
	}
	BundledLocalSsds struct{ PartitionCount int64 }
	Deprecated       *struct{ State string }
}

// machine is a type with what its price is made of.
type machine struct {
	cloud.InstanceType
	ssdGiB int64
	shared bool
}

// InstanceTypes lists the predefined machines that at least one zone of a region has.
func (s *Source) InstanceTypes(ctx context.Context, region string) (cloud.List[cloud.InstanceType], error) {
	machines, err := s.machines(ctx, region)
	if err != nil {
		return cloud.List[cloud.InstanceType]{}, err
	}
	out := cloud.List[cloud.InstanceType]{Skipped: machines.Skipped}
	for _, m := range machines.Items {
		out.Items = append(out.Items, m.InstanceType)
	}
	return out, nil
}

func (s *Source) machines(ctx context.Context, region string) (cloud.List[machine], error) {
	var out cloud.List[machine]
	seen := map[string]bool{}
	err := s.list(ctx, "list Google machines of "+region, func(ctx context.Context) error {
		return scoped(ctx, s, "machineTypes", func(zone string, t *machineType) {
			if regionOf(zone) != region || seen[t.Name] {
				return
			}
			seen[t.Name] = true // the same in all zones
			if m, reason := t.machine(); reason == "" {
				out.Items = append(out.Items, m)
			} else {
				out.Skip(reason)
			}
		})
	})
	if err != nil {
		return cloud.List[machine]{}, err
	}
	slices.SortFunc(out.Items, func(a, b machine) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func regionOf(zone string) string {
	if i := strings.LastIndexByte(zone, '-'); i > 0 {
		return zone[:i]
	}
	return ""
}

// gpuMemory of one accelerator in MiB: the API tells its name only, https://cloud.google.com/compute/docs/gpus.
var gpuMemory = map[string]int64{
	"nvidia-tesla-t4": 16_384, "nvidia-l4": 24_576, "nvidia-tesla-v100": 16_384, "nvidia-tesla-p100": 16_384, "nvidia-tesla-p4": 8192, "nvidia-tesla-a100": 40_960, "nvidia-a100-80gb": 81_920,
	"nvidia-h100-80gb": 81_920, "nvidia-h100-mega-80gb": 81_920, "nvidia-h200-141gb": 144_384, "nvidia-b200": 184_320, "nvidia-rtx-pro-6000": 98_304,
}

func (t *machineType) machine() (machine, cloud.SkipReason) {
	m := machine{InstanceType: cloud.InstanceType{InstanceType: fleet.InstanceType{Cloud: fleet.CloudGCP, Name: t.Name, CPUMilli: t.GuestCpus * 1000, MemMiB: t.MemoryMb}}, shared: t.IsSharedCpu}
	switch {
	case t.Deprecated != nil && t.Deprecated.State != "" && t.Deprecated.State != "ACTIVE":
		return m, cloud.SkipForeign
	case t.Name == "" || t.GuestCpus <= 0 || t.GuestCpus > 10_000 || t.MemoryMb <= 0 || t.MemoryMb > 1<<30 || len(t.Accelerators) > 1:
		return m, cloud.SkipUnknown
	}
	switch t.Architecture {
	case "X86_64", "":
		m.Arch = "amd64"
	case "ARM64":
		m.Arch = "arm64"
	default:
		return m, cloud.SkipUnknown
	}
	for _, a := range t.Accelerators {
		mib, ok := gpuMemory[a.GuestAcceleratorType]
		if !ok || a.GuestAcceleratorCount <= 0 || a.GuestAcceleratorCount > 64 {
			return m, cloud.SkipUnknown
		}
		m.GPUName, m.GPUCount, m.GPUMemoryMiB = a.GuestAcceleratorType, a.GuestAcceleratorCount, mib
		m.GPUModel = cloud.GPU(a.GuestAcceleratorType, mib)
	}
	if n := t.BundledLocalSsds.PartitionCount; n >= 0 && n < 1000 {
		m.ssdGiB = n * localSSDGiB
		m.LocalDiskGB, m.LocalDiskTold = m.ssdGiB*1_073_741_824/1_000_000_000, true // what is not bundled is not there
	}
	if strings.HasPrefix(t.Name, "a3-highgpu-8g") || strings.HasPrefix(t.Name, "a3-mega") || strings.HasPrefix(t.Name, "a3-ultra") || strings.HasPrefix(t.Name, "a4-") {
		m.Interconnect = "gpudirect"
	}
	return m, ""
}

// localSSDGiB is the size of one partition.
const localSSDGiB = 375

// commitment is a resource-based commitment.
type commitment struct {
	ID             string
	Name           string
	Type           string
	Status         string
	StartTimestamp time.Time
	EndTimestamp   time.Time
	Resources      []struct {
		Type, Amount, AcceleratorType string
	}
}

// Commitments lists the project's active resource-based commitments in its regions, one row per resource. Spend-based ones belong to
// the billing account and are not told here.
func (s *Source) Commitments(ctx context.Context) (cloud.List[cloud.Commitment], error) {
	var out cloud.List[cloud.Commitment]
	err := s.list(ctx, "list Google commitments", func(ctx context.Context) error {
		return scoped(ctx, s, "commitments", func(region string, c *commitment) {
			if c.Status != "ACTIVE" || !slices.Contains(s.cfg.Regions, region) {
				out.Skip(cloud.SkipForeign)
				return
			}
			for i := range c.Resources {
				if r, reason := c.resource(i, region); reason == "" {
					out.Items = append(out.Items, r)
				} else {
					out.Skip(reason)
				}
			}
		})
	})
	if err != nil {
		return cloud.List[cloud.Commitment]{}, err
	}
	cloud.SettleCommitments(&out)
	return out, nil
}

func (c *commitment) resource(i int, region string) (cloud.Commitment, cloud.SkipReason) {
	r := c.Resources[i]
	out := cloud.Commitment{Ref: c.ID + "/" + strings.ToLower(r.Type), Kind: cloud.GCPResource, Region: region, From: c.StartTimestamp.UTC(), To: c.EndTimestamp.UTC(), State: c.Status}
	amount, err := strconv.ParseInt(r.Amount, 10, 64)
	if c.ID == "" || err != nil || amount <= 0 || amount > 1_000_000_000 || out.From.IsZero() || out.To.IsZero() {
		return out, cloud.SkipUnknown
	}
	switch r.Type {
	case "VCPU":
		out.Resource, out.QuantityMill = "vcpu", amount*1000
	case "MEMORY":
		out.Resource, out.QuantityMill = "memory", amount // MiB
	case "ACCELERATOR":
		mib, ok := gpuMemory[path.Base(r.AcceleratorType)]
		if !ok {
			return out, cloud.SkipUnknown
		}
		out.Resource, out.QuantityMill, out.GPUModel = "gpu", amount*1000, cloud.GPU(path.Base(r.AcceleratorType), mib)
		out.Ref += "/" + path.Base(r.AcceleratorType)
		return out, ""
	default: // local disks, licences
		return out, cloud.SkipForeign
	}
	family, ok := families[c.Type]
	if !ok {
		return out, cloud.SkipUnknown
	}
	out.Family = family
	return out, ""
}

// families by the type of a commitment: https://cloud.google.com/compute/docs/reference/rest/v1/regionCommitments.
var families = map[string]string{
	"GENERAL_PURPOSE": "n1", "GENERAL_PURPOSE_E2": "e2", "GENERAL_PURPOSE_N2": "n2", "GENERAL_PURPOSE_N2D": "n2d", "GENERAL_PURPOSE_N4": "n4", "GENERAL_PURPOSE_T2D": "t2d", "GENERAL_PURPOSE_C4": "c4",
	"COMPUTE_OPTIMIZED": "c2", "COMPUTE_OPTIMIZED_C2D": "c2d", "COMPUTE_OPTIMIZED_C3": "c3", "COMPUTE_OPTIMIZED_C3D": "c3d", "COMPUTE_OPTIMIZED_H3": "h3",
	"ACCELERATOR_OPTIMIZED": "a2", "ACCELERATOR_OPTIMIZED_A3": "a3", "GRAPHICS_OPTIMIZED": "g2", "MEMORY_OPTIMIZED_M3": "m3",
}

// reservation holds machines in a zone.
type reservation struct {
	ID                  string
	Status              string
	CreationTimestamp   time.Time
	SpecificReservation struct {
		Count, InUseCount  string
		InstanceProperties struct{ MachineType string }
	}
}

// CapacityReservations lists what the project's reservations hold now, in its regions.
func (s *Source) CapacityReservations(ctx context.Context) (cloud.List[cloud.Capacity], error) {
	var out cloud.List[cloud.Capacity]
	err := s.list(ctx, "list Google reservations", func(ctx context.Context) error {
		return scoped(ctx, s, "reservations", func(zone string, r *reservation) {
			if !slices.Contains(s.cfg.Regions, regionOf(zone)) || r.Status != "READY" {
				out.Skip(cloud.SkipForeign)
				return
			}
			total, err1 := strconv.Atoi(or(r.SpecificReservation.Count, "0"))
			used, err2 := strconv.Atoi(or(r.SpecificReservation.InUseCount, "0"))
			c := cloud.Capacity{Ref: r.ID, Region: regionOf(zone), Zone: zone, InstanceType: r.SpecificReservation.InstanceProperties.MachineType, Total: total, Available: total - used, From: r.CreationTimestamp.UTC(), State: r.Status}
			if err1 != nil || err2 != nil || c.Ref == "" || c.InstanceType == "" || used < 0 || used > total {
				out.Skip(cloud.SkipUnknown)
				return
			}
			out.Items = append(out.Items, c)
		})
	})
	if err != nil {
		return cloud.List[cloud.Capacity]{}, err
	}
	cloud.SettleCapacity(&out)
	return out, nil
}
