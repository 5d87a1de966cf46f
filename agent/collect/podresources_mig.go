package collect

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// migInstance is where a MIG instance is. The kubelet knows it by a UUID of its own, DCGM by its GPU and number.
type migInstance struct {
	GPU      string // UUID
	Instance string // number on its GPU; empty: not known
	Profile  string
}

// entity is the name that readings have.
func (m migInstance) entity() string {
	if m.GPU == "" || m.Instance == "" {
		return ""
	}
	return m.GPU + "/gi/" + m.Instance
}

const (
	maxSMIOutput = 4 << 20
	smiTime      = 2 * time.Second
	smiEvery     = time.Minute // the driver's tool is asked no more often
)

// migTable asks the driver's own tool for the instances of the node, by UUID.
type migTable func(context.Context) (map[string]migInstance, error)

// nvidiaSMI runs nvidia-smi twice: -L names instances by GPU, profile and index, -q -x has the number behind each index.
func nvidiaSMI(ctx context.Context) (map[string]migInstance, error) {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, errors.New("no nvidia-smi to tell MIG instances by")
	}
	run := func(args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, smiTime)
		defer cancel()
		out, err := exec.CommandContext(ctx, path, args...).Output()
		if err != nil {
			return nil, fmt.Errorf("nvidia-smi: %w", err)
		}
		return out[:min(len(out), maxSMIOutput)], nil
	}
	list, err := run("-L")
	if err != nil {
		return nil, err
	}
	detail, err := run("-q", "-x")
	if err != nil {
		detail = nil // profiles and GPUs are known without it
	}
	return parseMIG(list, detail), nil
}

var (
	smiGPU = regexp.MustCompile(`^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)`)
	smiMIG = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)`)
)

// parseMIG joins the two answers by GPU and index. An instance whose number is not told stays without.
func parseMIG(list, detail []byte) map[string]migInstance {
	var log struct {
		GPUs []struct {
			UUID string `xml:"uuid"`
			MIGs []struct {
				Index    string `xml:"index"`
				Instance string `xml:"gpu_instance_id"`
			} `xml:"mig_devices>mig_device"`
		} `xml:"gpu"`
	}
	number := map[string]string{} // GPU and index
	d := xml.NewDecoder(bytes.NewReader(detail))
	d.Strict = false
	if d.Decode(&log) == nil {
		for _, g := range log.GPUs {
			for _, m := range g.MIGs {
				number[g.UUID+"/"+strings.TrimSpace(m.Index)] = strings.TrimSpace(m.Instance)
			}
		}
	}
	out := map[string]migInstance{}
	gpu := ""
	for line := range strings.Lines(string(list)) {
		line = strings.TrimRight(line, "\r\n")
		if m := smiGPU.FindStringSubmatch(line); m != nil {
			gpu = m[2]
		} else if m := smiMIG.FindStringSubmatch(line); m != nil && gpu != "" {
			out[m[3]] = migInstance{GPU: gpu, Instance: number[gpu+"/"+m[2]], Profile: m[1]}
		}
	}
	return out
}

// holding is a device, or a part of one, that a container holds by the kubelet's word.
type holding struct {
	pod       PodRef
	container string
	share     *agentv1.GPUShare
	entity    string // of readings; empty: nobody knows which
	shared    bool   // others may hold the same device
	unplaced  bool   // an instance whose GPU and number nobody knows; entity is its UUID
}

// holdingsOf reads the kubelet's answer. Of a device that it shares out the plugin numbers the shares: GPU-1::0.
func holdingsOf(r *podresources.ListPodResourcesResponse, table map[string]migInstance) (all []holding, unknown bool) {
	for _, p := range r.GetPodResources() {
		for _, c := range p.GetContainers() {
			h := holding{pod: PodRef{p.GetNamespace(), p.GetName()}, container: c.GetName()}
			for _, d := range c.GetDevices() {
				if !isGPUResource(d.GetResourceName()) {
					continue
				}
				profile, _ := strings.CutPrefix(d.GetResourceName(), migResource)
				if profile == d.GetResourceName() {
					profile = ""
				}
				for _, id := range d.GetDeviceIds() {
					one := h
					one.device(id, profile, table)
					unknown = unknown || one.unplaced
					all = append(all, one)
				}
			}
			for _, claim := range c.GetDynamicResources() {
				for _, d := range claim.GetClaimResources() {
					if s := claimShare(d.GetDriverName(), d.GetDeviceName()); s != nil {
						one := h
						s.Claim, one.share, one.shared = claim.GetClaimNamespace()+"/"+claim.GetClaimName(), s, d.GetShareId() != ""
						all = append(all, one)
					}
				}
			}
		}
	}
	return all, unknown
}

// device names what a plugin's id stands for.
func (h *holding) device(id, profile string, table map[string]migInstance) {
	h.share = &agentv1.GPUShare{Count: 1, Profile: profile}
	id, _, h.shared = strings.Cut(id, "::")
	switch m, known := table[id]; {
	case known:
		h.entity, h.share.Device, h.share.Instance, h.unplaced = m.entity(), m.GPU, id, m.entity() == ""
		if profile == "" {
			h.share.Profile = m.Profile
		}
	case strings.HasPrefix(id, "MIG-GPU-"): // the older form names GPU and number: MIG-GPU-aaaa/3/0
		if parts := strings.Split(id, "/"); len(parts) == 3 {
			h.share.Device, h.share.Instance = strings.TrimPrefix(parts[0], "MIG-"), parts[1]
			h.entity = h.share.GetDevice() + "/gi/" + parts[1]
		}
	case strings.HasPrefix(id, "MIG-"):
		h.entity, h.share.Instance, h.unplaced = id, id, true
	default:
		h.entity, h.share.Device = id, id
	}
}

// Names of NVIDIA's DRA driver: gpu-0 is a GPU; gpu-0-mig-19-4-1 and gpu-0-mig-1g.10gb-19-0 are instances, by the driver's number of the
// profile or by its name.
var (
	draGPU     = regexp.MustCompile(`^gpu-(\d+)$`)
	draProfile = regexp.MustCompile(`^gpu-(\d+)-mig-(\d)g\.?(\d+)gb`)
	draNumber  = regexp.MustCompile(`^gpu-(\d+)-mig-(\d+)-\d+-\d+$`)
	draSlices  = map[string]string{"19": "1g", "20": "1g", "14": "2g", "9": "3g", "5": "4g", "0": "7g"} // by NVML's number
)

// claimShare is what a device of a resource claim is of a GPU; nil for drivers that are not of GPUs, and for devices of unknown names.
func claimShare(driver, device string) *agentv1.GPUShare {
	if driver != "gpu.nvidia.com" {
		return nil
	}
	if draGPU.MatchString(device) {
		return &agentv1.GPUShare{Count: 1, Device: device}
	}
	if m := draProfile.FindStringSubmatch(device); m != nil {
		return &agentv1.GPUShare{Count: 1, Device: "gpu-" + m[1], Instance: device, Profile: m[2] + "g." + m[3] + "gb"}
	}
	m := draNumber.FindStringSubmatch(device)
	switch {
	case m == nil:
		return nil
	case m[2] == "15": // one compute slice with two of memory: a quarter of the GPU
		return &agentv1.GPUShare{Count: 1, Device: "gpu-" + m[1], Instance: device, CoreMilli: 143, MemMilli: 250}
	case draSlices[m[2]] == "":
		return nil
	}
	return &agentv1.GPUShare{Count: 1, Device: "gpu-" + m[1], Instance: device, Profile: draSlices[m[2]]}
}

// devicesOf says which pod holds which reading. Of a device that several pods share nobody can say who does what.
func devicesOf(all []holding) map[string]PodRef {
	out := map[string]PodRef{}
	for _, h := range all {
		if h.entity == "" {
			continue
		}
		if other, taken := out[h.entity]; taken && other != h.pod {
			out[h.entity] = PodRef{}
			continue
		}
		out[h.entity] = h.pod
	}
	return out
}

// loose are the MIG instances that a pod holds and nobody can tell by number: one holder of a profile is found by it where the node
// has one reading of that profile left.
func loose(all []holding) map[string][]PodRef {
	out := map[string][]PodRef{}
	for _, h := range all {
		if h.unplaced && h.share.GetProfile() != "" {
			out[h.share.GetProfile()] = append(out[h.share.GetProfile()], h.pod)
		}
	}
	return out
}

// report is what the service is told of the node's holdings.
func report(node string, all []holding, atMS int64) *agentv1.GPUHoldings {
	out := &agentv1.GPUHoldings{Node: node, AtMs: atMS}
	for _, h := range all {
		out.Holdings = append(out.Holdings, &agentv1.GPUHolding{Namespace: h.pod.Namespace, Pod: h.pod.Name, Container: h.container, Share: h.share})
	}
	return out
}

// sharesInTurn numbers the turns of one container on one device as one share: a container that asked for two turns holds two.
func sharesInTurn(all []holding) []holding {
	at := map[string]int{}
	out := all[:0:0]
	for _, h := range all {
		key := strings.Join([]string{h.pod.Namespace, h.pod.Name, h.container, h.share.GetDevice(), h.share.GetInstance(), h.share.GetProfile(), h.share.GetClaim(), strconv.FormatBool(h.shared)}, "|")
		if i, ok := at[key]; ok && h.shared {
			out[i].share.Count++
			continue
		}
		at[key] = len(out)
		out = append(out, h)
	}
	return out
}
