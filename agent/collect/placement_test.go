package collect

import (
	"fmt"
	"testing"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

// ruledPodSpec asks for everything that a placement tells.
func ruledPodSpec() corev1.PodSpec {
	s := testPodSpec()
	chat := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "chat"}}
	s.NodeSelector = map[string]string{"disk": "nvme", "arch": "x"}
	s.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: chat}}
	s.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}}}}}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: chat}}},
	}
	return s
}

func TestPodsOfOneSpecShareOnePlacement(t *testing.T) {
	t.Parallel()
	var objects []runtime.Object
	for i := range 5 {
		p := testPod(fmt.Sprintf("chat-1-%d", i), true)
		p.Spec = ruledPodSpec()
		objects = append(objects, p)
	}
	plain := testPod("plain", true)
	node := testNode()
	node.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	two := int32(2)
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "chat"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "chat"}}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: two, CurrentHealthy: 5, DesiredHealthy: 3}}
	stale := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "edited", Generation: 2}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 9, ObservedGeneration: 1}}
	k, _ := newTestKube(t, KubeConfig{}, append(objects, plain, node, pdb, stale)...)
	inv := collectKube(t, k).Inventory

	if n := inv.GetNodes()[0]; n.GetProviderId() != "aws:///us-east-1a/i-0" || !n.GetTaintsTold() || len(n.GetTaints()) != 1 || n.GetTaints()[0].GetKey() != "nvidia.com/gpu" {
		t.Errorf("node %v", n)
	}
	if len(inv.GetPlacements()) != 2 {
		t.Fatalf("%d placements, want one of five pods and one of the plain pod", len(inv.GetPlacements()))
	}
	ids := map[uint64]int{}
	for _, p := range inv.GetPods() {
		ids[p.GetPlacement()]++
	}
	for _, p := range inv.GetPlacements() {
		switch ids[p.GetId()] {
		case 5:
			if len(p.GetSelector()) != 2 || p.GetSelector()[0].GetKey() != "arch" || len(p.GetNodeTerms()) != 1 || len(p.GetTolerations()) != 1 || len(p.GetAntiAffinity()) != 1 || len(p.GetSpread()) != 1 || p.GetIncomplete() {
				t.Errorf("placement %v", p)
			}
		case 1:
			if p.GetId() == 0 || len(p.GetSelector())+len(p.GetTolerations()) != 0 {
				t.Errorf("the plain pod's placement %v", p)
			}
		default:
			t.Errorf("placement %d of %d pods", p.GetId(), ids[p.GetId()])
		}
	}
	if !inv.GetLimitsTold() || len(inv.GetDisruptionLimits()) != 2 || inv.GetDisruptionLimits()[0].GetAllowed() != 2 || inv.GetDisruptionLimits()[1].GetAllowed() != 0 || len(inv.GetDisruptionLimits()[1].GetSelector()) != 1 {
		t.Errorf("limits %v", inv.GetDisruptionLimits())
	}
}

func TestWhoMayNotReadDisruptionLimitsSaysSo(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(testObjects()...)
	client.PrependReactor("list", "poddisruptionbudgets", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "poddisruptionbudgets"}, "", nil)
	})
	k, err := NewKube(client, KubeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	if collectKube(t, k).Inventory.GetLimitsTold() {
		t.Error("limits that nobody could read are told")
	}
}

func TestADeltaTellsThePlacementsOfItsPodsOnly(t *testing.T) {
	t.Parallel()
	pods := func(n int, placement uint64) (out []*agentv1.Pod) {
		for i := range n {
			out = append(out, &agentv1.Pod{Uid: fmt.Sprint(placement, "-", i), Name: "x", Placement: placement})
		}
		return out
	}
	all := []*agentv1.Placement{{Id: 1}, {Id: 2}}
	s := &inventoryState{}
	s.reports(&agentv1.Inventory{Pods: pods(3, 1), Placements: all[:1], LimitsTold: true}, 1000, 60_000)
	now := &agentv1.Inventory{Pods: append(pods(3, 1), pods(2500, 2)...), Placements: all, LimitsTold: true}
	got := s.reports(now, 2000, 60_000)
	if len(got) != 2 || got[0].GetLimitsTold() {
		t.Fatalf("%d reports", len(got))
	}
	for _, r := range got {
		if len(r.GetPlacements()) != 1 || r.GetPlacements()[0].GetId() != 2 {
			t.Errorf("placements %v", r.GetPlacements())
		}
	}
	now = proto.Clone(now).(*agentv1.Inventory)
	now.DisruptionLimits = []*agentv1.DisruptionLimit{{Namespace: "llm", Name: "chat", Allowed: 1}}
	if got := s.reports(now, 3000, 60_000); len(got) != 1 || !got[0].GetLimitsTold() || len(got[0].GetDisruptionLimits()) != 1 {
		t.Errorf("%v", got)
	}
	now = proto.Clone(now).(*agentv1.Inventory)
	now.LimitsTold, now.DisruptionLimits = false, nil
	if got := s.reports(now, 4000, 60_000); len(got) != 0 {
		t.Errorf("limits that could not be read are told as none: %v", got)
	}
}

// TestWhatPlacementsCostOnTheWire holds what a pod's rules add to a snapshot: 10,000 pods of 200 workloads, every one with a selector, a
// node term, a toleration, anti-affinity and spread.
func TestWhatPlacementsCostOnTheWire(t *testing.T) {
	t.Parallel()
	before, after := &agentv1.Inventory{Snapshot: true}, &agentv1.Inventory{Snapshot: true}
	for w := range 200 {
		spec := ruledPodSpec()
		spec.NodeSelector["team"] = fmt.Sprint("team-", w)
		at := placementOf(&spec)
		after.Placements = append(after.Placements, at)
		for i := range 50 {
			p := testPod(fmt.Sprintf("chat-%d-%05d", w, i), true)
			p.UID = "6f6e2f9c-7f0a-4c55-9d2a-0123456789ab"
			q := podOf(p, fmt.Sprintf("llm/Deployment/chat-%d", w))
			before.Pods = append(before.Pods, q)
			r := proto.Clone(q).(*agentv1.Pod)
			r.Placement = at.GetId()
			after.Pods = append(after.Pods, r)
		}
	}
	started := time.Now()
	spec := ruledPodSpec()
	for range 10_000 {
		placementOf(&spec)
	}
	took := time.Since(started)
	n := float64(len(after.GetPods()))
	was, is := float64(proto.Size(before))/n, float64(proto.Size(after))/n
	t.Logf("bytes per pod: %.1f without placements, %.1f with them; 10,000 placements in %s", was, is, took)
	if is-was > 20 {
		t.Errorf("rules add %.1f bytes to a pod, want at most 20", is-was)
	}
}
