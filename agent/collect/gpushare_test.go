package collect

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func quantities(m map[string]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range m {
		out[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	return out
}

func shareText(s *agentv1.GPUShare) string {
	return fmt.Sprintf("%s%s %s x%d core %d mem %d/%d %s", s.GetDevice(), s.GetInstance(), s.GetProfile(), s.GetCount(), s.GetCoreMilli(), s.GetMemMilli(), s.GetMemMib(), s.GetClaim())
}

func TestWhatPodsAskOfGPUs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		limits      map[string]string
		annotations map[string]string
		env         map[string]string
		space       string
		want        []string
		milli       int64
	}{
		{"whole GPUs need no more words", map[string]string{"nvidia.com/gpu": "2"}, nil, nil, "", nil, 2000},
		{"MIG instances by profile", map[string]string{"nvidia.com/mig-1g.10gb": "2", "nvidia.com/mig-3g.40gb": "1"}, nil, nil, "", []string{" 1g.10gb x2 core 0 mem 0/0 ", " 3g.40gb x1 core 0 mem 0/0 "}, 715},
		{"all seven slices are a whole GPU", map[string]string{"nvidia.com/mig-1g.10gb": "7"}, nil, nil, "", []string{" 1g.10gb x7 core 0 mem 0/0 "}, 1000},
		{"HAMi says cores and memory", map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30", "nvidia.com/gpumem": "8000"}, nil, nil, "", []string{"  x1 core 300 mem 0/8000 "}, 1000},
		{"HAMi's percent of memory", map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "25"}, nil, nil, "", []string{"  x1 core 0 mem 250/0 "}, 1000},
		{"KAI's fraction", nil, map[string]string{"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, nil, "", []string{"  x2 core 250 mem 0/0 "}, 500},
		{"KAI's memory", nil, map[string]string{"gpu-memory": "4096"}, nil, "", []string{"  x1 core 0 mem 0/4096 "}, 0},
		{"a fraction that is none", nil, map[string]string{"gpu-fraction": "7"}, nil, "", nil, 0},
		{"the pod that keeps a GPU for fractions holds nothing itself", map[string]string{"nvidia.com/gpu": "1"}, nil, nil, "kai-resource-reservation", nil, 0},
		{"threads of MPS", map[string]string{"nvidia.com/gpu": "1"}, nil, map[string]string{mpsThreads: "40"}, "", []string{"  x1 core 400 mem 0/0 "}, 1000},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.space, Annotations: c.annotations}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: quantities(c.limits)}}}}}
		for k, v := range c.env {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: k, Value: v})
		}
		out := podOf(p, "")
		var got []string
		for _, s := range out.GetGpus() {
			got = append(got, shareText(s))
		}
		if d := cmp.Diff(c.want, got); d != "" || out.GetGpuMilli() != c.milli {
			t.Errorf("%s: %d thousandths, want %d (-want +got):\n%s", c.name, out.GetGpuMilli(), c.milli, d)
		}
	}
}

func TestHowNodesGiveOutGPUs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		capacity map[string]string
		labels   map[string]string
		gpus     int32
		want     string
	}{
		{"whole GPUs", map[string]string{"nvidia.com/gpu": "8"}, nil, 8, ""},
		{"turns under the name of GPUs", map[string]string{"nvidia.com/gpu": "16"}, map[string]string{"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}, 4, "time_slice 4 of 4"},
		{"turns under a name of their own", map[string]string{"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "20"}, map[string]string{"nvidia.com/gpu.replicas": "10"}, 2, "time_slice 2 of 10"},
		{"MPS", map[string]string{"nvidia.com/gpu": "10"}, map[string]string{"nvidia.com/gpu.replicas": "10", "nvidia.com/gpu.sharing-strategy": "mps"}, 1, "mps 1 of 10"},
		{"a plugin that gives out more than there is, without a word", map[string]string{"nvidia.com/gpu": "20"}, map[string]string{"nvidia.com/gpu.count": "2"}, 2, "time_slice 2 of 10"},
		{"mixed MIG beside whole GPUs", map[string]string{"nvidia.com/gpu": "6", "nvidia.com/mig-3g.40gb": "2", "nvidia.com/mig-4g.40gb": "2"}, map[string]string{"nvidia.com/gpu.count": "8"}, 8, "whole 6 of 0; mig 2 of 0 3g.40gb x2 4g.40gb x2"},
		{"two halves of a GPU take all its memory", map[string]string{"nvidia.com/mig-3g.40gb": "4"}, nil, 2, "mig 2 of 0 3g.40gb x4"},
		{"single MIG under the name of GPUs", map[string]string{"nvidia.com/gpu": "24"}, map[string]string{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-2g.20gb", "nvidia.com/mig.strategy": "single", "nvidia.com/gpu.count": "24"}, 8, "mig 8 of 0 2g.20gb x24"},
		{"GPUs that only claims give out", nil, map[string]string{"nvidia.com/gpu.count": "4"}, 4, ""},
		{"labels that are no numbers", map[string]string{"nvidia.com/gpu": "4"}, map[string]string{"nvidia.com/gpu.replicas": "many", "nvidia.com/gpu.count": "-2"}, 4, ""},
	} {
		n := nodeOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}, Status: corev1.NodeStatus{Capacity: quantities(c.capacity)}})
		got := ""
		for i, g := range n.GetGpus() {
			if i > 0 {
				got += "; "
			}
			got += fmt.Sprintf("%s %d of %d", g.GetMode(), g.GetCount(), g.GetReplicas())
			for _, in := range g.GetInstances() {
				got += fmt.Sprintf(" %s x%d", in.GetProfile(), in.GetCount())
			}
		}
		if got != c.want || n.GetGpuCount() != c.gpus {
			t.Errorf("%s: %d GPUs, %q; want %d, %q", c.name, n.GetGpuCount(), got, c.gpus, c.want)
		}
	}
}

const smiList = `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a)
  MIG 1g.10gb     Device  0: (UUID: MIG-c6d4)
  MIG 3g.40gb     Device  1: (UUID: MIG-77aa)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1b)
  MIG 1g.10gb     Device  0: (UUID: MIG-9e01)
`

const smiDetail = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log><gpu id="00000000:18:00.0"><uuid>GPU-0a</uuid><mig_devices>
<mig_device><index>0</index><gpu_instance_id>9</gpu_instance_id><compute_instance_id>0</compute_instance_id></mig_device>
<mig_device><index>1</index><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id></mig_device>
</mig_devices></gpu><gpu id="00000000:2A:00.0"><uuid>GPU-1b</uuid><mig_devices><mig_device><index>0</index><gpu_instance_id>13</gpu_instance_id></mig_device></mig_devices></gpu></nvidia_smi_log>`

func TestInstancesAreFoundByTheDriversWord(t *testing.T) {
	t.Parallel()
	want := map[string]migInstance{"MIG-c6d4": {"GPU-0a", "9", "1g.10gb"}, "MIG-77aa": {"GPU-0a", "2", "3g.40gb"}, "MIG-9e01": {"GPU-1b", "13", "1g.10gb"}}
	if d := cmp.Diff(want, parseMIG([]byte(smiList), []byte(smiDetail))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for id, m := range want {
		m.Instance = ""
		want[id] = m
	}
	if d := cmp.Diff(want, parseMIG([]byte(smiList), []byte("<nvidia_smi_log><gpu>"))); d != "" {
		t.Errorf("without the numbers (-want +got):\n%s", d)
	}
	if got := parseMIG([]byte("NVIDIA-SMI has failed"), nil); len(got) != 0 {
		t.Errorf("a failure names %v", got)
	}
}

func claimed(pod, driver, device string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: "llm", Name: pod, Containers: []*podresources.ContainerResources{{Name: "vllm", DynamicResources: []*podresources.DynamicResource{
		{ClaimName: "c", ClaimNamespace: "llm", ClaimResources: []*podresources.ClaimResource{{DriverName: driver, PoolName: "n1", DeviceName: device}}}}}}}
}

// The kubelet names instances by UUID and DCGM by GPU and number: they meet through the driver's table, or where only one fits.
func TestInstancesOfTheKubeletMeetThoseOfDCGM(t *testing.T) {
	t.Parallel()
	r := &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{
		holds("a", "nvidia.com/mig-1g.10gb", "MIG-c6d4"), holds("b", "nvidia.com/mig-3g.40gb", "MIG-77aa"), holds("c", "nvidia.com/gpu.shared", "GPU-5::0", "GPU-5::3"), holds("d", "nvidia.com/gpu.shared", "GPU-5::1"),
		claimed("e", "gpu.nvidia.com", "gpu-3"), claimed("f", "gpu.nvidia.com", "gpu-0-mig-19-4-1"), claimed("g", "gpu.nvidia.com", "gpu-0-mig-15-4-2"), claimed("h", "nic.example.com", "nic-0"),
		claimed("i", "gpu.nvidia.com", "gpu-1-mig-2g20gb-14-0"),
	}}
	exporter, err := os.ReadFile("testdata/dcgm_exporter.prom")
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := parseDCGM(exporter); err != nil || parsed[2].Profile != "1g.5gb" {
		t.Fatalf("the exporter's profile: %v, %v", parsed, err)
	}
	readings := func() []gpuReading {
		return []gpuReading{{Entity: "GPU-0a/gi/9", Profile: "1g.10gb"}, {Entity: "GPU-0a/gi/2", Profile: "3g.40gb"}, {Entity: "GPU-1b/gi/13", Profile: "1g.10gb", Namespace: "llm", Pod: "said"}, {Entity: "GPU-5"}}
	}
	pods := func(table map[string]migInstance) (got []string) {
		all, _ := holdingsOf(r, table)
		all = sharesInTurn(all)
		rs := readings()
		join(rs, Input{Devices: devicesOf(all), Loose: loose(all)})
		for _, x := range rs {
			got = append(got, x.Entity+" "+x.Pod)
		}
		return got
	}
	if d := cmp.Diff([]string{"GPU-0a/gi/9 a", "GPU-0a/gi/2 b", "GPU-1b/gi/13 said", "GPU-5 "}, pods(parseMIG([]byte(smiList), []byte(smiDetail)))); d != "" {
		t.Errorf("by the table (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"GPU-0a/gi/9 ", "GPU-0a/gi/2 b", "GPU-1b/gi/13 said", "GPU-5 "}, pods(nil)); d != "" {
		t.Errorf("without it one profile is plain and the other is not (-want +got):\n%s", d)
	}
	all, unknown := holdingsOf(r, nil)
	if !unknown {
		t.Error("nobody asks the driver")
	}
	var got []string
	for _, h := range report("n1", sharesInTurn(all), 5).GetHoldings() {
		got = append(got, h.GetPod()+": "+shareText(h.GetShare()))
	}
	want := []string{"a: MIG-c6d4 1g.10gb x1 core 0 mem 0/0 ", "b: MIG-77aa 3g.40gb x1 core 0 mem 0/0 ", "c: GPU-5  x2 core 0 mem 0/0 ", "d: GPU-5  x1 core 0 mem 0/0 ",
		"e: gpu-3  x1 core 0 mem 0/0 llm/c", "f: gpu-0gpu-0-mig-19-4-1 1g x1 core 0 mem 0/0 llm/c", "g: gpu-0gpu-0-mig-15-4-2  x1 core 143 mem 250/0 llm/c", "i: gpu-1gpu-1-mig-2g20gb-14-0 2g.20gb x1 core 0 mem 0/0 llm/c"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the service is told (-want +got):\n%s", d)
	}
}
