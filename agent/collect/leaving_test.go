package collect

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestMachinesThatGoAreNamedWithTheirTime(t *testing.T) {
	t.Parallel()
	const now = int64(1_700_000_500_000)
	taint := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key}} }
	}
	on := func(cloud string, then func(*corev1.Node)) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.ProviderID = cloud + "://x"; then(n) }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		asks   bool // a pod on it wants to be told
		want   string
	}{
		"a node like any other":                      {func(*corev1.Node) {}, true, ""},
		"a Spot notice of AWS leaves two minutes":    {on("aws", taint("aws-node-termination-handler/spot-itn")), false, "interruption true 120000"},
		"Azure leaves half a minute":                 {on("azure", taint("cloudprovider.azure.microsoft.com/draining")), false, "interruption true 30000"},
		"Google leaves half a minute":                {on("gce", taint("cloud.google.com/impending-node-termination")), false, "interruption true 30000"},
		"a place that nobody knows names no time":    {on("baremetal", taint("aws-node-termination-handler/spot-itn")), false, "interruption true 0"},
		"a recommendation names no time":             {taint("aws-node-termination-handler/rebalance-recommendation"), false, "rebalance true 0"},
		"Karpenter lets it go, and a pod asks":       {taint("karpenter.sh/disrupted"), true, "consolidation false 0"},
		"Karpenter lets it go, and nobody asks":      {taint("karpenter.sh/disrupted"), false, ""},
		"Cluster Autoscaler lets it go":              {taint("ToBeDeletedByClusterAutoscaler"), true, "consolidation false 0"},
		"it is being deleted":                        {func(n *corev1.Node) { n.DeletionTimestamp, n.Finalizers = &born, []string{"x"} }, true, "consolidation false 0"},
		"the cloud has shut it down":                 {taint("node.cloudprovider.kubernetes.io/shutdown"), true, ""},
		"somebody cordoned it, for their own reason": {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, pod := testNode(), testPod("chat-1-a", true)
			c.change(node)
			pod.Spec.NodeName = node.Name
			if c.asks {
				pod.Annotations = map[string]string{"plimsoll.dev/checkpoint": "http://:80/save", "plimsoll.dev/min-cuda": "12.4", "somebody.else/note": "x"}
			}
			objects := append([]runtime.Object{node, pod}, testObjects()[1:5]...)
			k, _ := newTestKube(t, KubeConfig{}, objects...)
			b := collectKube(t, k)
			got := ""
			for range 2 { // asked again, the time is the same
				got = ""
				for _, l := range k.Leaving(now) {
					left := l.DeadlineMS
					if left > 0 {
						left -= now
					}
					got += fmt.Sprint(l.Cause, " ", l.Evict, " ", left)
					if l.Node != node.Name || l.UID != string(node.UID) {
						t.Errorf("named %+v", l)
					}
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if later := k.Leaving(now + 7000); len(later) == 1 && later[0].DeadlineMS > 0 && later[0].DeadlineMS-now > 120_000 {
				t.Errorf("the time moves on: %+v", later)
			}
			if w := k.Workload("llm/chat-1-a"); w != "llm/Deployment/chat" || k.Workload("llm/nobody") != "" {
				t.Errorf("the pod is of %q", w)
			}
			for _, p := range b.Inventory.GetPods() {
				if notes := p.GetNotes(); c.asks && (len(notes) != 2 || notes["plimsoll.dev/min-cuda"] != "12.4") || !c.asks && notes != nil {
					t.Errorf("annotations that are told: %v", notes)
				}
			}
		})
	}
}

func TestAnEventOfANoticeIsHeardAtOnce(t *testing.T) {
	t.Parallel()
	k, client := newTestKube(t, KubeConfig{}, testObjects()...)
	collectKube(t, k)
	e := supplyEvent("Node", "n1", "SpotInterrupted", "x")
	if _, err := client.CoreV1().Events("default").Create(context.Background(), e, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	at := eventMS(e)
	var got []Leaving
	for deadline := time.Now().Add(10 * time.Second); len(got) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the notice is not heard")
		}
		got = k.Leaving(at + 1000)
	}
	if got[0].Cause != "interruption" || !got[0].Evict || got[0].DeadlineMS != at+120_000 {
		t.Errorf("heard %+v", got[0])
	}
	if old := k.Leaving(at + 11*60_000); len(old) != 0 {
		t.Errorf("an old notice is still heard: %+v", old)
	}
}

func TestLabelsThatPlansGoByAreToldFirst(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"nvidia.com/cuda.driver.major": "550", "topology.kubernetes.io/zone": "a"}
	for i := range 3 * maxLabels {
		labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-%03d", i)] = "true"
	}
	if got := boundLabels(labels); len(got) != maxLabels || got["nvidia.com/cuda.driver.major"] != "550" || got["topology.kubernetes.io/zone"] != "a" {
		t.Errorf("told %d labels, the driver %q", len(got), got["nvidia.com/cuda.driver.major"])
	}
}
