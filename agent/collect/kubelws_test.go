package collect

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// testLWS has groups of a leader (1 core, 1 GPU) and two workers (2 cores, 4 GPUs).
func testLWS(namespace string) *unstructured.Unstructured {
	template := func(cpu string, gpus string) map[string]any {
		list := map[string]any{"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": gpus}
		return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "vllm", "readinessProbe": map[string]any{}, "resources": map[string]any{"requests": list, "limits": list}}}}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
		"metadata": map[string]any{"namespace": namespace, "name": "lws", "labels": map[string]any{"plimsoll.dev/class": "gold"}, "managedFields": []any{
			map[string]any{"manager": "my-scaler", "operation": "Update", "subresource": "scale", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}}}}},
		"spec": map[string]any{"replicas": int64(4), "leaderWorkerTemplate": map[string]any{"size": int64(3), "leaderTemplate": template("1", "1"), "workerTemplate": template("2", "4")}},
	}}
}

// testGroup are the pods of one replica: the leader of the set's StatefulSet, the workers of one that the leader owns.
func testGroup(n int, ready ...bool) []runtime.Object {
	leader := fmt.Sprintf("lws-%d", n)
	out := []runtime.Object{&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: leader, OwnerReferences: ownedBy("Pod", leader)}}}
	for i, r := range ready {
		p := testPod(leader, r)
		p.OwnerReferences = ownedBy("StatefulSet", "lws")
		if i > 0 {
			p = testPod(fmt.Sprintf("%s-%d", leader, i), r)
			p.OwnerReferences = ownedBy("StatefulSet", leader)
		}
		p.Labels = map[string]string{lwsNameLabel: "lws", lwsGroupLabel: fmt.Sprint(n)}
		out = append(out, p)
	}
	return out
}

func TestLeaderWorkerSet(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "lws", OwnerReferences: ownedBy("LeaderWorkerSet", "lws")}}}
	objects = append(objects, testGroup(0, true, true, true)...)
	objects = append(objects, testGroup(1, true, true, false)...)
	objects = append(objects, testGroup(2, true)...)
	leaving := testGroup(3, true, true, true)
	leaving[3].(*corev1.Pod).DeletionTimestamp, leaving[3].(*corev1.Pod).Finalizers = &born, []string{"x"}
	orphans := testGroup(4, false, true)
	objects = append(append(objects, leaving...), orphans[0], orphans[2]) // the leader is gone
	k, err := NewKube(fake.NewClientset(objects...), KubeConfig{Dynamic: dynamicClient([]schema.GroupVersionResource{resourceClaim}, testLWS("llm")), FieldManager: "plimsoll-agent"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	b := collectKube(t, k)
	if len(b.Inventory.GetWorkloads()) != 1 {
		t.Fatalf("workloads %v", b.Inventory.GetWorkloads())
	}
	w := b.Inventory.GetWorkloads()[0]
	if got, want := fmt.Sprint(w.GetKey(), w.GetReplicas(), w.GetCpuMilli(), w.GetMemMib(), w.GetGpuMilli(), w.GetScalable(), w.GetHasReadinessProbe(), w.GetHasRequests(), w.GetClass()),
		fmt.Sprint("llm/LeaderWorkerSet/lws", 4, 5000, 3072, 9000, true, true, true, "gold"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, p := range b.Inventory.GetPods() {
		if p.GetWorkload() != "llm/LeaderWorkerSet/lws" {
			t.Errorf("%s belongs to %s", p.GetName(), p.GetWorkload())
		}
	}
	o := b.Workloads[0]
	if got := fmt.Sprint(o.GetReplicas(), o.GetReady(), o.GetStarting(), o.GetDraining()); got != "4 1 3 1" {
		t.Errorf("groups %s: wanted, ready, starting, draining", got)
	}
	if ws := b.Inventory.GetWriters(); len(ws) != 1 || ws[0].GetManager() != "my-scaler" {
		t.Errorf("writers %v", ws)
	}
}

func TestLeaderWorkerSetsOfSomeNamespaces(t *testing.T) {
	t.Parallel()
	client := dynamicClient([]schema.GroupVersionResource{resourceClaim}, testLWS("llm"), testLWS("batch"))
	k, err := NewKube(fake.NewClientset(), KubeConfig{Include: []string{"llm"}, Dynamic: client})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	if ws := collectKube(t, k).Inventory.GetWorkloads(); len(ws) != 1 || ws[0].GetNamespace() != "llm" {
		t.Errorf("workloads %v", ws)
	}
	for _, a := range client.Actions() {
		if a.GetResource() == resourceLWS && a.GetNamespace() != "llm" {
			t.Errorf("%s in %q", a.GetVerb(), a.GetNamespace())
		}
	}
}

// A cluster that does not answer whether it has a kind must not look like one that has none.
func TestNoInventoryBeforeTheKindsAreKnown(t *testing.T) {
	t.Parallel()
	client := dynamicClient(nil, testLWS("llm"))
	asked, answer := make(chan struct{}), make(chan struct{})
	var first sync.Once
	client.PrependReactor("list", "leaderworkersets", func(clienttesting.Action) (bool, runtime.Object, error) {
		first.Do(func() {
			close(asked)
			<-answer
		})
		return false, nil, nil
	})
	k, err := NewKube(fake.NewClientset(), KubeConfig{Dynamic: client})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	<-asked
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := k.Collect(ctx, Input{}); err == nil || !strings.Contains(err.Error(), "which kinds") {
		t.Errorf("got %v", err)
	}
	close(answer)
	if ws := collectKube(t, k).Inventory.GetWorkloads(); len(ws) != 1 {
		t.Errorf("workloads %v", ws)
	}
}

func TestInferenceServices(t *testing.T) {
	t.Parallel()
	deployment := func(name string, replicas int32, class string) *appsv1.Deployment {
		yes := true
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: name, Annotations: map[string]string{"serving.kserve.io/autoscalerClass": class},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "serving.kserve.io/v1beta1", Kind: "InferenceService", Name: strings.Split(name, "-")[0], Controller: &yes}}},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: testTemplate()}}
	}
	transformer := deployment("chat-atransformer", 1, "hpa")
	transformer.Spec.Template.Spec.Containers = transformer.Spec.Template.Spec.Containers[1:]
	objects := []runtime.Object{transformer, deployment("chat-predictor", 2, "hpa"), deployment("free-predictor", 3, "external")}
	for _, d := range []string{"chat-atransformer", "chat-predictor", "free-predictor"} {
		p := testPod(d+"-1-a", true)
		p.OwnerReferences = ownedBy("ReplicaSet", d+"-1")
		objects = append(objects, p, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: d + "-1", OwnerReferences: ownedBy("Deployment", d)}})
	}
	k, _ := newTestKube(t, KubeConfig{}, objects...)
	b := collectKube(t, k)
	var got []string
	for i, w := range b.Inventory.GetWorkloads() {
		got = append(got, fmt.Sprint(w.GetKey(), " ", w.GetReplicas(), " ", w.GetGpuMilli(), " ", w.GetScalable(), " ", b.Workloads[i].GetReady()))
	}
	if want := "llm/Deployment/free-predictor 3 1000 true 1; llm/InferenceService/chat 3 1000 false 2"; strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}
