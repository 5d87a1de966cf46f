package collect

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

type kubeletStub struct {
	podresources.UnimplementedPodResourcesListerServer

	pods []*podresources.PodResources
}

func (k *kubeletStub) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: k.pods}, nil
}

func holds(pod, resource string, ids ...string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: "llm", Name: pod, Containers: []*podresources.ContainerResources{{Name: "vllm",
		Devices: []*podresources.ContainerDevices{{ResourceName: resource, DeviceIds: ids}}}}}
}

func serveKubelet(t *testing.T, pods ...*podresources.PodResources) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "k.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, &kubeletStub{pods: pods})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return socket
}

func TestGPUsAreJoinedByTheKubelet(t *testing.T) {
	t.Parallel()
	socket := serveKubelet(t, holds("chat-1-a", "nvidia.com/gpu", "GPU-1", "GPU-2"), holds("chat-1-b", "nvidia.com/mig-3g.40gb", "MIG-7", "MIG-GPU-8/3/0"),
		holds("chat-1-a", "example.com/nic", "GPU-4"), holds("chat-1-a", "nvidia.com/gpu.shared", "GPU-5::0"), holds("chat-1-b", "nvidia.com/gpu.shared", "GPU-5::1"))
	first, second := testPod("chat-1-a", true), testPod("chat-1-b", true)
	for _, p := range []*corev1.Pod{first, second} {
		p.Labels["pod-template-hash"] = "1"
	}
	n, err := NewNodePods("n1", socket, fake.NewClientset(first, second), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	b, err := n.Collect(t.Context(), Input{})
	if err != nil {
		t.Fatal(err)
	}
	reading := func(entity, saidPod string, sm float64) gpuReading {
		return gpuReading{Entity: entity, Namespace: "llm", Pod: saidPod, Fields: map[string]float64{"dcgm_fi_prof_sm_active": sm, "dcgm_fi_dev_fb_used": 100}}
	}
	readings := []gpuReading{reading("GPU-1", "liar", 0.2), reading("GPU-2", "", 0.6), reading("MIG-7", "", 0.8), reading("GPU-3", "chat-1-a", 1), reading("GPU-4", "", 1),
		reading("GPU-5", "chat-1-a", 1), reading("GPU-9/gi/1", "chat-1-b", 0.4), reading("GPU-8/gi/3", "liar", 0.6)}
	got := gpuBatch(readings, Input{NowMS: 5, Pods: b.Pods, Devices: b.Devices})
	if text, want := workloadText(got.Workloads), "llm/Deployment/chat gpu_memory_used_mib=500 r2 u0 m0 gpu_sm_active_ratio=0.5 r2 u0 m0"; text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	values := nodeValues(workloadValues(got.Workloads))
	if fmt.Sprint(values) != "[{workload llm/Deployment/chat gpu_sm_active_ratio 0.5}]" {
		t.Errorf("of the workload the node sends %v", values)
	}
}

func TestWithoutTheKubeletGPUsAreStillRead(t *testing.T) {
	t.Parallel()
	n, err := NewNodePods("n1", filepath.Join(t.TempDir(), "none.sock"), fake.NewClientset(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	b, err := n.Collect(t.Context(), Input{})
	if err != nil || b.Devices != nil {
		t.Errorf("%v, %v", b, err)
	}
	if n.failed == "" {
		t.Error("nobody is told")
	}
}

func TestOwnersByThePodsOwnWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, name string
		labels     map[string]string
		want       string
	}{
		{"ReplicaSet", "chat-7d9f", map[string]string{"pod-template-hash": "7d9f"}, "llm/Deployment/chat"},
		{"ReplicaSet", "bare", nil, "llm/ReplicaSet/bare"},
		{"ReplicaSet", "bare", map[string]string{"pod-template-hash": "7d9f"}, "llm/ReplicaSet/bare"},
		{"StatefulSet", "lws-0", map[string]string{lwsNameLabel: "lws"}, "llm/LeaderWorkerSet/lws"},
		{"StatefulSet", "db", nil, "llm/StatefulSet/db"},
	} {
		p := testPod("x", true)
		p.Labels, p.OwnerReferences = c.labels, ownedBy(c.kind, c.name)
		if got := podOwner(p); got != c.want {
			t.Errorf("%s %s %v belongs to %s, want %s", c.kind, c.name, c.labels, got, c.want)
		}
	}
}
