package collect

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsfake "k8s.io/metrics/pkg/client/clientset/versioned/fake"
)

var born = metav1.NewTime(time.Unix(1_700_000_000, 0))

func list4(cpu, mem, gpu string) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(mem)}
	if gpu != "" {
		out["nvidia.com/gpu"] = resource.MustParse(gpu)
	}
	return out
}

func ownedBy(kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &yes}}
}

func testNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1", CreationTimestamp: born, Labels: map[string]string{
			"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/zone": "us-east-1a", "topology.kubernetes.io/region": "us-east-1",
			"karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "gpu", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559",
		}},
		Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0"},
		Status: corev1.NodeStatus{Capacity: list4("192", "2048Gi", "8"), Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(born.Add(time.Minute))}}},
	}
}

func testTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: testPodSpec()}
}

func testPodSpec() corev1.PodSpec {
	return corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{
		{Name: "vllm", Resources: corev1.ResourceRequirements{Requests: list4("4", "16Gi", "1"), Limits: list4("8", "32Gi", "1")}, ReadinessProbe: &corev1.Probe{}},
		{Name: "proxy", Resources: corev1.ResourceRequirements{Requests: list4("500m", "512Mi", "")}},
	}}
}

// testPod is a pod of the Deployment chat; ready, starting or what else the condition says.
func testPod(name string, ready bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: name, UID: types.UID("pod-" + name), CreationTimestamp: born, OwnerReferences: ownedBy("ReplicaSet", "chat-1"), Labels: map[string]string{"app": "chat"}},
		Spec:       testPodSpec(),
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", StartTime: &born},
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(born.Add(time.Minute))}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "vllm", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

func testObjects() []runtime.Object {
	three := int32(3)
	return []runtime.Object{
		testNode(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "chat", Labels: map[string]string{"team": "search", "plimsoll.dev/class": "gold"}},
			Spec: appsv1.DeploymentSpec{Replicas: &three, Template: testTemplate()}},
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "chat-1", OwnerReferences: ownedBy("Deployment", "chat")}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "lws-1", OwnerReferences: ownedBy("LeaderWorkerSet", "lws")}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns"}},
		testPod("chat-1-a", true), testPod("chat-1-b", false),
	}
}

func newTestKube(t *testing.T, cfg KubeConfig, objects ...runtime.Object) (*Kube, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(objects...)
	k, err := NewKube(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k, client
}

func collectKube(t *testing.T, k *Kube) Batch {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b, err := k.Collect(ctx, Input{NowMS: 5})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestKubeInventory(t *testing.T) {
	t.Parallel()
	lws := testPod("lws-1-0", true)
	lws.OwnerReferences = ownedBy("StatefulSet", "lws-1")
	leaving := testPod("chat-1-c", true)
	leaving.DeletionTimestamp, leaving.Finalizers = &born, []string{"x"}
	done := testPod("chat-1-d", false)
	done.Status.Phase = corev1.PodFailed
	done.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(born.Add(time.Hour))}}}}
	k, _ := newTestKube(t, KubeConfig{Exclude: []string{"kube-system"}, FieldManager: "plimsoll-agent"}, append(testObjects(), lws, leaving, done)...)
	b := collectKube(t, k)

	n := b.Inventory.GetNodes()[0]
	if got, want := fmt.Sprint(n.GetName(), " ", n.GetPool(), " ", n.GetCloud(), " ", n.GetRegion(), " ", n.GetZone(), " ", n.GetInstanceType(), " ", n.GetPurchase(), " ", n.GetPhase(), " ",
		n.GetCpuMilli(), " ", n.GetMemMib(), " ", n.GetGpuModel(), " ", n.GetGpuCount(), " ", n.GetGpuMemoryMib(), " ", n.GetReadyMs()-n.GetStartedMs()),
		"n1 gpu aws us-east-1 us-east-1a p5.48xlarge spot ready 192000 2097152 H100 8 81559 60000"; got != want {
		t.Errorf("node\ngot  %s\nwant %s", got, want)
	}
	var keys []string
	for _, w := range b.Inventory.GetWorkloads() {
		keys = append(keys, w.GetKey())
	}
	if fmt.Sprint(keys) != "[llm/Deployment/chat]" {
		t.Fatalf("workloads %v: what another workload controls or another namespace has is not ours", keys)
	}
	w := b.Inventory.GetWorkloads()[0]
	if w.GetReplicas() != 3 || w.GetCpuMilli() != 4500 || w.GetMemMib() != 16896 || w.GetGpuMilli() != 1000 || !w.GetScalable() || !w.GetHasReadinessProbe() || !w.GetHasRequests() || w.GetClass() != "gold" {
		t.Errorf("workload %v", w)
	}
	o := b.Workloads[0]
	if o.GetReplicas() != 3 || o.GetReady() != 1 || o.GetStarting() != 1 || o.GetDraining() != 1 {
		t.Errorf("counts %v", o)
	}
	phases := map[string]string{}
	for _, p := range b.Inventory.GetPods() {
		phases[p.GetName()] = p.GetPhase() + " " + p.GetWorkload()
		if p.GetName() == "chat-1-d" && p.GetEndedMs() != born.Add(time.Hour).UnixMilli() {
			t.Errorf("the failed pod ended at %d", p.GetEndedMs())
		}
	}
	for name, want := range map[string]string{"chat-1-a": "ready llm/Deployment/chat", "chat-1-b": "loading llm/Deployment/chat", "chat-1-c": "terminating llm/Deployment/chat",
		"chat-1-d": "failed llm/Deployment/chat", "lws-1-0": "ready llm/LeaderWorkerSet/lws"} {
		if phases[name] != want {
			t.Errorf("pod %s is %q, want %q", name, phases[name], want)
		}
	}
	if len(b.Pods) != 3 {
		t.Errorf("%d pods to ask, want those that run", len(b.Pods))
	}
}

func managed(manager, sub string, op metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Subresource: sub, Operation: op, Time: &born, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestKubeWriters(t *testing.T) {
	t.Parallel()
	const replicas, image = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}}}`
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "chat-hpa"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "chat"}}}
	for _, c := range []struct {
		name   string
		hpa    bool
		fields []metav1.ManagedFieldsEntry
		want   string
		// steered: the HPA gets its orders from here
		steered bool
	}{
		{"an autoscaler that we steer is no other controller", true, []metav1.ManagedFieldsEntry{managed("kube-controller-manager", "scale", "Update", replicas)}, "", true},
		{"KEDA that fetches counts here wakes workloads", true, []metav1.ManagedFieldsEntry{managed("keda", "scale", "Update", replicas)}, "", true},
		{"KEDA that fetches them elsewhere is another controller", false, []metav1.ManagedFieldsEntry{managed("keda", "scale", "Update", replicas)}, "keda ", false},
		{"a third one beside an autoscaler that we steer", true, []metav1.ManagedFieldsEntry{managed("my-scaler", "scale", "Update", replicas)}, "my-scaler ", true},
		{"whoever created it with a count is not a controller", false, []metav1.ManagedFieldsEntry{managed("helm", "", "Update", replicas)}, "", false},
		{"a person with kubectl is not a controller", false, []metav1.ManagedFieldsEntry{managed("kubectl", "scale", "Update", replicas), managed("kubectl-client-side-apply", "", "Update", replicas)}, "", false},
		{"we are not another controller", false, []metav1.ManagedFieldsEntry{managed("plimsoll-agent", "scale", "Update", replicas)}, "", false},
		{"another controller that scales", false, []metav1.ManagedFieldsEntry{managed("my-scaler", "scale", "Update", replicas)}, "my-scaler ", false},
		{"one that writes other fields does not count", false, []metav1.ManagedFieldsEntry{managed("my-scaler", "scale", "Update", image)}, "", false},
		{"a repository that applies replicas", false, []metav1.ManagedFieldsEntry{managed("argocd-controller", "", "Apply", replicas)}, "argocd-controller ", false},
		{"an autoscaler is named by its object, once", true, []metav1.ManagedFieldsEntry{managed("kube-controller-manager", "scale", "Update", replicas)}, "horizontal-pod-autoscaler HorizontalPodAutoscaler/chat-hpa", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			objects := testObjects()
			objects[1].(*appsv1.Deployment).ManagedFields = c.fields
			if c.hpa {
				objects = append(objects, hpa.DeepCopy())
			}
			client := fake.NewSimpleClientset(objects...) // the newer one rewrites managed fields
			k, err := NewKube(client, KubeConfig{FieldManager: "plimsoll-agent", Steered: func(h *autoscalingv2.HorizontalPodAutoscaler) bool { return c.steered && h.Name == hpa.Name }})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			for !k.ready(kindHPAs) {
				<-time.After(time.Millisecond)
			}
			var got []string
			b := collectKube(t, k)
			for _, w := range b.Inventory.GetWriters() {
				got = append(got, w.GetManager()+" "+w.GetObject())
			}
			if strings.Join(got, ";") != c.want {
				t.Errorf("writers %q, want %q", got, c.want)
			}
			conflicts := 0
			for _, e := range b.Events {
				if e.GetKind() == "conflict" {
					conflicts++
				}
			}
			if conflicts != len(got) || len(collectKube(t, k).Events) != 0 {
				t.Errorf("%d conflicts told, want each writer once", conflicts)
			}
		})
	}
}

func TestKubeEvents(t *testing.T) {
	t.Parallel()
	pending := testPod("chat-1-p", false)
	pending.Spec.NodeName = ""
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}}
	pulling := testPod("chat-1-q", false)
	pulling.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	oom := testPod("chat-1-r", true)
	oom.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}}
	notice := testNode()
	notice.Name, notice.UID = "n2", "node-2"
	notice.Spec.Taints = []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn"}}
	broken := testNode()
	broken.Name, broken.UID = "n3", "node-3"
	broken.Status.Conditions[0].Status = corev1.ConditionFalse
	k, client := newTestKube(t, KubeConfig{}, append(testObjects(), pending, pulling, oom, notice, broken)...)
	kinds := func(es []*agentv1.Event) string {
		var out []string
		for _, e := range es {
			out = append(out, e.GetKind()+" "+e.GetObject())
		}
		return strings.Join(out, "; ")
	}
	if got, want := kinds(collectKube(t, k).Events), "interruption_notice Node/n2; node_lost Node/n3; failed_scheduling Pod/llm/chat-1-p; image_pull Pod/llm/chat-1-q; oom Pod/llm/chat-1-r"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := kinds(collectKube(t, k).Events); got != "" {
		t.Errorf("told twice: %s", got)
	}
	if err := client.CoreV1().Nodes().Delete(context.Background(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		b := collectKube(t, k)
		if got := kinds(b.Events); got == "node_lost Node/n1" {
			break
		} else if got != "" || time.Now().After(deadline) {
			t.Fatalf("after a node left: %q", got)
		}
	}
}

func TestKubeWithoutPermissionIsAnError(t *testing.T) {
	t.Parallel()
	k := &Kube{synced: map[string][]cache.InformerSynced{kindNodes: {func() bool { return false }}}}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := k.Collect(ctx, Input{}); err == nil || !strings.Contains(err.Error(), "nodes") {
		t.Fatalf("got %v", err)
	}
}

func TestNodeDetails(t *testing.T) {
	t.Parallel()
	for product, want := range map[string]string{
		"NVIDIA-A100-SXM4-80GB": "A100-80GB", "NVIDIA-A100-SXM4-40GB": "A100-40GB", "Tesla-T4": "T4", "NVIDIA-L4": "L4", "NVIDIA-L40S": "L40S", "NVIDIA A10G": "A10G",
		"nvidia-tesla-t4": "T4", "NVIDIA-H100-PCIe": "H100", "h100": "H100", "NVIDIA-H200": "H200", "NVIDIA-H100-80GB-HBM3-SHARED": "H100", "Other-9000": "OTHER-9000",
	} {
		if got := gpuModel(product); got != want {
			t.Errorf("%s is read as %s, want %s", product, got, want)
		}
	}
	for want, labels := range map[string]map[string]string{
		"spot":      {"eks.amazonaws.com/capacityType": "SPOT"},
		"on_demand": {"karpenter.sh/capacity-type": "on-demand"},
		"reserved":  {"karpenter.sh/capacity-type": "reserved"},
	} {
		if got := purchaseOf(labels); got != want {
			t.Errorf("%v is %s", labels, got)
		}
	}
	if migSlices("nvidia.com/mig-3g.40gb") != 3 || migSlices("nvidia.com/gpu") != 0 || migSlices("nvidia.com/mig-xg.1gb") != 0 {
		t.Error("MIG profiles are misread")
	}
	young := testNode()
	young.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", LastTransitionTime: born}
	if phase, _ := nodePhase(young); phase != "booting" {
		t.Errorf("a young node is %s", phase)
	}
}

func TestPodRequestsWithInitContainers(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	s := testPodSpec()
	s.InitContainers = []corev1.Container{
		{Name: "sidecar", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: list4("1", "1Gi", "")}},
		{Name: "load", Resources: corev1.ResourceRequirements{Requests: list4("9", "1Gi", "")}},
	}
	cpu, mem, gpu := podRequests(&s)
	if cpu != 10_000 || mem != 17_920 || gpu != 1000 {
		t.Errorf("cpu %d mem %d gpu %d", cpu, mem, gpu)
	}
}

func TestMetricsAPI(t *testing.T) {
	t.Parallel()
	client := metricsfake.NewSimpleClientset()
	usage := func(name, cpu string) metricsv1beta1.PodMetrics {
		return metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: name}, Containers: []metricsv1beta1.ContainerMetrics{
			{Usage: list4(cpu, "1Gi", "")}, {Usage: list4("100m", "512Mi", "")}}}
	}
	for _, u := range []metricsv1beta1.PodMetrics{usage("chat-0", "400m"), usage("chat-2", "9")} {
		if err := client.Tracker().Create(metricsv1beta1.SchemeGroupVersion.WithResource("pods"), &u, "llm"); err != nil {
			t.Fatal(err)
		}
	}
	b, err := NewMetricsAPI(client, nil).Collect(context.Background(), Input{Pods: pods(true, true, false)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := workloadText(b.Workloads), "llm/StatefulSet/chat cpu_cores=0.5 r1 u1 m1 cpu_ratio=0.5 r1 u1 m1 memory_mib=1536 r1 u1 m1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
