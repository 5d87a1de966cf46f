package collect

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func supplyEvent(kind, name, reason, message string) *corev1.Event {
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "." + reason, UID: types.UID(kind + name + reason + message)},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Reason: reason, Message: message, Type: corev1.EventTypeWarning, Count: 1, LastTimestamp: born}
	if kind == "Pod" {
		e.InvolvedObject.Namespace = "llm"
	}
	return e
}

func testClaim(name string, requirements map[string][]string) *nodeClaim {
	c := &nodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"karpenter.sh/nodepool": "gpu"}}}
	for _, key := range sortedKeys(requirements) {
		c.Spec.Requirements = append(c.Spec.Requirements, struct {
			Key      string   `json:"key"`
			Operator string   `json:"operator"`
			Values   []string `json:"values"`
		}{key, "In", requirements[key]})
	}
	return c
}

func eventsText(es []*agentv1.Event) string {
	var out []string
	for _, e := range es {
		out = append(out, fmt.Sprintf("%s %s %s: %s", e.GetKind(), e.GetObject(), e.GetReason(), e.GetMessage()))
	}
	return strings.Join(out, "; ")
}

func TestStockOutsAreNamed(t *testing.T) {
	t.Parallel()
	pod := testPod("chat-1-a", false)
	pod.Spec.NodeSelector = map[string]string{"cloud.google.com/gke-nodepool": "l4", "cloud.google.com/gke-spot": "true", "node.kubernetes.io/instance-type": "g2-standard-4"}
	node := testNode()
	v := &view{nodes: []*corev1.Node{node}, byName: map[string]*corev1.Pod{"llm/chat-1-a": pod}, podWorkload: map[*corev1.Pod]string{pod: "llm/Deployment/chat"}}
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf("g5.%dxlarge", i)
	}
	const instance, zone, way = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"
	const fleetError = "NodeClaim gpu-x7k2p event: creating instance, with fleet error(s), "
	for _, c := range []struct {
		name  string
		claim *nodeClaim
		event *corev1.Event
		want  string
	}{
		{"AWS says what, not where else", nil, supplyEvent("NodeClaim", "gpu-x7k2p", "InsufficientCapacityError", fleetError+
			"InsufficientInstanceCapacity: We currently do not have sufficient g5.xlarge capacity in the Availability Zone you requested (us-east-1a). You can currently get g5.xlarge capacity by choosing us-east-1b, us-east-1c"),
			"capacity_failure NodePool/gpu InsufficientInstanceCapacity: no g5.xlarge in us-east-1a"},
		{"Spot, and the claim knows the rest", testClaim("gpu-x7k2p", map[string][]string{instance: {"g5.xlarge"}, zone: {"us-east-1b", "us-east-1a"}, way: {"spot", "on-demand"}}),
			supplyEvent("NodeClaim", "gpu-x7k2p", "InsufficientCapacityError", fleetError+"UnfulfillableCapacity: There is no Spot capacity available that matches your request."),
			"capacity_failure NodePool/gpu UnfulfillableCapacity: no g5.xlarge spot in us-east-1a; capacity_failure NodePool/gpu UnfulfillableCapacity: no g5.xlarge spot in us-east-1b"},
		{"of two ways to buy nobody says which was tried", testClaim("gpu-x7k2p", map[string][]string{instance: {"g5.xlarge"}, zone: {"us-east-1a"}, way: {"spot", "on-demand"}}),
			supplyEvent("NodeClaim", "gpu-x7k2p", "InsufficientCapacityError", "insufficient capacity"), "capacity_failure NodePool/gpu InsufficientCapacityError: no g5.xlarge in us-east-1a"},
		{"of thirty types nobody says which were tried", testClaim("gpu-x7k2p", map[string][]string{instance: many, zone: {"us-east-1a"}, way: {"on-demand"}}),
			supplyEvent("NodeClaim", "gpu-x7k2p", "InsufficientCapacityError", "insufficient capacity"), "capacity_failure NodePool/gpu InsufficientCapacityError: no machine on-demand in us-east-1a"},
		{"Azure", nil, supplyEvent("NodeClaim", "gpu-x7k2p", "InsufficientCapacityError", "SkuNotAvailable: the requested SKU is unavailable for instance type Standard_NC24ads_A100_v4 with capacity type spot"),
			"capacity_failure NodePool/gpu SkuNotAvailable: no Standard_NC24ads_A100_v4 spot"},
		{"a group of the Cluster Autoscaler, EKS", nil, supplyEvent("ConfigMap", "cluster-autoscaler-status", "FailedToScaleUpGroup",
			"Scale-up failed for group eks-gpu-5ac0f2: InsufficientInstanceCapacity in us-west-2b"), "capacity_failure NodePool/gpu InsufficientInstanceCapacity: no machine in us-west-2b"},
		{"a group of the Cluster Autoscaler, GKE", nil, supplyEvent("ConfigMap", "cluster-autoscaler-status", "FailedToScaleUpGroup",
			"Scale-up failed for group https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a/instanceGroups/gke-prod-gpu-1a2b-grp: ZONE_RESOURCE_POOL_EXHAUSTED"),
			"capacity_failure NodePool/gpu ZONE_RESOURCE_POOL_EXHAUSTED: no machine in us-central1-a"},
		{"a pod that waits for a machine, GKE", nil, supplyEvent("Pod", "chat-1-a", "FailedScaleUp",
			"Node scale up in zones us-central1-c, us-central1-a associated with this pod failed: GCE out of resources. Pod is at risk of not being scheduled."),
			"capacity_failure NodePool/l4 FailedScaleUp: no g2-standard-4 spot in us-central1-a; capacity_failure NodePool/l4 FailedScaleUp: no g2-standard-4 spot in us-central1-c"},
		{"a pod that nobody knows any more", nil, supplyEvent("Pod", "gone", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 out of resources"),
			"capacity_failure Pod/llm/gone NotTriggerScaleUp: no machine"},
		{"a quota is not supply", nil, supplyEvent("ConfigMap", "cluster-autoscaler-status", "FailedToScaleUpGroup", "Scale-up failed for group gpu: Quota 'GPUS' exceeded"), ""},
		{"a pod that fits nowhere is not supply", nil, supplyEvent("Pod", "chat-1-a", "NotTriggerScaleUp", "pod didn't trigger scale-up: 2 Insufficient nvidia.com/gpu, 1 max node group size reached"), ""},
		{"the scheduler's word is not supply", nil, supplyEvent("Pod", "chat-1-a", "FailedScheduling", "0/3 nodes: insufficient capacity"), ""},
		{"Karpenter's notice", nil, supplyEvent("Node", "n1", "SpotInterrupted", "Spot interruption warning was triggered"), "interruption_notice Node/n1 SpotInterrupted: spot interruption notice"},
		{"the termination handler's notice", nil, supplyEvent("Node", "n1", "SpotInterruption", "Spot ITN received"), "interruption_notice Node/n1 SpotInterruption: spot interruption notice"},
		{"Azure's notice", nil, supplyEvent("Node", "n1", "PreemptScheduled", "Preempt Scheduled: now"), "interruption_notice Node/n1 PreemptScheduled: the cloud will take the machine back"},
		{"a node that Karpenter gives back", nil, supplyEvent("Node", "n1", "DisruptionTerminating", "Disrupting Node: Underutilized"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var l supplyLog
			if c.claim != nil {
				l.claim(c.claim)
			}
			slimEvent(c.event)
			l.event(c.event)
			if got := eventsText(l.look(v, 5)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			l.event(c.event)
			if got := l.look(v, 10); len(got) != 0 {
				t.Errorf("told twice: %v", got)
			}
		})
	}
}

func TestSupplyIsToldOnceInItsTime(t *testing.T) {
	t.Parallel()
	now := born.UnixMilli() + supplyOldMS
	v := &view{}
	var l supplyLog
	dry := func(count int32, at int64) *corev1.Event {
		e := supplyEvent("ConfigMap", "status", "FailedToScaleUpGroup", "Scale-up failed for group gpu: out of resources")
		e.Count, e.LastTimestamp = count, metav1.NewTime(time.UnixMilli(at))
		return e
	}
	l.event(dry(1, now-supplyOldMS-1000))
	if got := l.look(v, now); len(got) != 0 {
		t.Errorf("what a former life has told: %v", got)
	}
	for _, c := range []struct {
		name  string
		count int32
		at    int64
		want  int
	}{
		{"it happens again", 2, now + 1000, 1}, {"and at once again", 3, now + 2000, 0}, {"an old count comes late", 2, now + supplyPauseMS + 1000, 0},
		{"a minute later it is news", 4, now + supplyPauseMS + 2000, 1},
	} {
		l.event(dry(c.count, c.at))
		if got := l.look(v, c.at); len(got) != c.want {
			t.Errorf("%s: %v, want %d", c.name, got, c.want)
		}
	}
}

func TestSupplyIsBounded(t *testing.T) {
	t.Parallel()
	var l supplyLog
	for i := range maxSupplySeen + maxSupplyPending {
		l.event(supplyEvent("ConfigMap", fmt.Sprint(i), "FailedToScaleUpGroup", fmt.Sprintf("Scale-up failed for group g%d: out of resources", i)))
		l.claim(testClaim(fmt.Sprint(i), nil))
	}
	if len(l.pending) > maxSupplyPending || len(l.seen) > maxSupplySeen || len(l.claims) > maxSupplyClaims || len(l.order) != len(l.claims) {
		t.Errorf("%d waiting, %d seen, %d claims, %d in order", len(l.pending), len(l.seen), len(l.claims), len(l.order))
	}
	if got := l.look(&view{}, 5); len(got) != maxSupplyEvents {
		t.Errorf("%d told at once", len(got))
	}
}

// dynamicClient makes a dynamic client that serves what is given, and says of the others that they are not there.
func dynamicClient(absent []schema.GroupVersionResource, objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		resourceLWS: "LeaderWorkerSetList", resourceClaim: "NodeClaimList"}, objects...)
	for _, r := range absent {
		client.PrependReactor("list", r.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(r.GroupResource(), "")
		})
	}
	return client
}

func claimOf(name, reason string, status string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
		"metadata": map[string]any{"name": name, "uid": name, "labels": map[string]any{"karpenter.sh/nodepool": "gpu"}},
		"spec": map[string]any{"requirements": []any{
			map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{"p5.48xlarge"}},
			map[string]any{"key": "topology.kubernetes.io/zone", "operator": "In", "values": []any{"us-east-1a"}},
			map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"spot"}},
			map[string]any{"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": []any{"0"}},
		}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Launched", "status": status, "reason": reason, "message": "", "lastTransitionTime": "2023-11-14T22:13:20Z"}}},
	}}
}

func TestSupplyOfACluster(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(testObjects()...)
	claims := dynamicClient([]schema.GroupVersionResource{resourceLWS}, claimOf("gpu-a", "InsufficientCapacity", "False"), claimOf("gpu-b", "Launched", "True"))
	k, err := NewKube(client, KubeConfig{Dynamic: claims})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	var told []*agentv1.Event
	until := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); len(told) < n; {
			if time.Now().After(deadline) {
				t.Fatalf("told so far: %s", eventsText(told))
			}
			told = append(told, collectKube(t, k).Events...)
		}
	}
	until(1)
	if _, err := client.CoreV1().Events("default").Create(context.Background(), supplyEvent("Node", "n1", "SpotInterrupted", "x"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(2)
	node := testNode()
	node.Spec.Taints = []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn"}}
	if _, err := client.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for len(collectKube(t, k).Inventory.GetNodes()) == 0 || !tainted(k) { // the watch brings the taint
		<-time.After(time.Millisecond)
	}
	told = append(told, collectKube(t, k).Events...)
	if got, want := eventsText(told), "capacity_failure NodePool/gpu InsufficientCapacity: no p5.48xlarge spot in us-east-1a; interruption_notice Node/n1 SpotInterrupted: spot interruption notice"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func tainted(k *Kube) bool { return len(k.view().nodes[0].Spec.Taints) > 0 }

func TestNodesThatTheCloudTakesBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"a node like any other", func(*corev1.Node) {}, false},
		{"the termination handler's taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn"}} }, true},
		{"its label, where it may not taint", func(n *corev1.Node) { n.Labels["aws-node-termination-handler/event-id"] = "spot-itn-8f3a" }, true},
		{"its label for a maintenance", func(n *corev1.Node) { n.Labels["aws-node-termination-handler/event-id"] = "instance-stop-8f3a" }, false},
		{"GKE's taint", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "cloud.google.com/impending-node-termination"}}
		}, true},
		{"Azure's condition", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "VMEventScheduled", Status: corev1.ConditionTrue, Message: "Preempt Scheduled: now"})
		}, true},
		{"Azure's condition for a reboot", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "VMEventScheduled", Status: corev1.ConditionTrue, Message: "Reboot Scheduled: now"})
		}, false},
		{"Karpenter consolidates", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted"}} }, false},
		{"the Cluster Autoscaler gives it back", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}} }, false},
	} {
		n := testNode()
		c.change(n)
		if reason, _ := reclaimed(n); (reason != "") != c.want {
			t.Errorf("%s: %q, want a notice %v", c.name, reason, c.want)
		}
	}
}
