package act

import (
	"context"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func warmAction(count int32) *agentv1.CapacityAction {
	return &agentv1.CapacityAction{ActionId: "warm/h100", WarmPool: &agentv1.WarmPool{Name: "h100", Count: count, CpuMilli: 1000, MemMib: 2048, Gpus: 8,
		Requirements: []*agentv1.NodeRequirement{{Key: "node.kubernetes.io/instance-type", Operator: "In", Values: []string{"p5.48xlarge"}}},
		Tolerates:    []*agentv1.NodeTaint{{Key: "nvidia.com/gpu", Effect: "NoSchedule"}}}}
}

func TestRoomIsKeptReadyByPlaceholders(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]int32{}, Config{Mode: "enforce"})
	client := fake.NewClientset()
	w := NewWarmPools(client, WarmConfig{Namespace: "plimsoll", PriorityClass: "plimsoll-warm", Image: "registry.k8s.io/pause:3.10", Max: 3})
	b.actor.UseWarmPools(w)
	apply := func(generation uint64, x *agentv1.CapacityAction) *agentv1.ActionResult {
		t.Helper()
		p := &agentv1.Plan{PlanId: "p" + string(rune('0'+generation)), Generation: generation, ExpiresMs: b.now + 60_000, Capacity: []*agentv1.CapacityAction{x}}
		return b.actor.Apply(context.Background(), p)[0]
	}
	if r := apply(1, warmAction(2)); r.GetOutcome() != "applied" || r.GetBeforeSpec() != "" || r.GetAfterSpec() == "" {
		t.Fatalf("made: %v", r)
	}
	d, err := client.AppsV1().Deployments("plimsoll").Get(context.Background(), "plimsoll-warm-h100", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 2 {
		t.Fatalf("%v, %v", d, err)
	}
	spec := d.Spec.Template.Spec
	gpus := spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
	if d.Spec.Template.Annotations["karpenter.sh/do-not-disrupt"] != "true" || spec.PriorityClassName != "plimsoll-warm" || gpus.Value() != 8 || *spec.TerminationGracePeriodSeconds != 0 || len(spec.Tolerations) != 1 ||
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "p5.48xlarge" {
		t.Errorf("a placeholder is %+v", spec)
	}
	if r := apply(2, warmAction(2)); r.GetOutcome() != "already" {
		t.Errorf("the same again: %v", r)
	}
	if r := apply(3, warmAction(1)); r.GetOutcome() != "applied" {
		t.Errorf("fewer: %v", r)
	}
	if r := apply(4, warmAction(4)); r.GetErrorCode() != "forbidden" {
		t.Errorf("more than this agent makes: %v", r)
	}
	gone := warmAction(0)
	gone.Absent = true
	if r := apply(5, gone); r.GetOutcome() != "applied" {
		t.Errorf("absent: %v", r)
	}
	if r := apply(6, gone); r.GetOutcome() != "already" {
		t.Errorf("absent again: %v", r)
	}
	apply(7, warmAction(3))
	if n, err := w.HandBack(context.Background()); n != 1 || err != nil {
		t.Errorf("handed back %d, %v", n, err)
	}
	if list, err := client.AppsV1().Deployments("").List(context.Background(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestADeploymentOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]int32{}, Config{Mode: "enforce"})
	client := fake.NewClientset()
	w := NewWarmPools(client, WarmConfig{Namespace: "plimsoll", Max: 3})
	d, err := w.desired(warmAction(1).GetWarmPool(), Mark{})
	if err != nil {
		t.Fatal(err)
	}
	d.Labels = nil
	if _, err := client.AppsV1().Deployments("plimsoll").Create(context.Background(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.actor.UseWarmPools(w)
	r := b.actor.Apply(context.Background(), &agentv1.Plan{PlanId: "p", Generation: 1, ExpiresMs: b.now + 60_000, Capacity: []*agentv1.CapacityAction{warmAction(2)}})[0]
	if r.GetOutcome() != "failed" || r.GetErrorCode() != "forbidden" {
		t.Errorf("result %v", r)
	}
	none := newBench(t, map[string]int32{}, Config{Mode: "enforce"})
	r = none.actor.Apply(context.Background(), &agentv1.Plan{PlanId: "p", Generation: 1, ExpiresMs: none.now + 60_000, Capacity: []*agentv1.CapacityAction{warmAction(2)}})[0]
	if r.GetOutcome() != "refused" || r.GetErrorCode() != "mode" {
		t.Errorf("an agent that keeps no room ready answers %v", r)
	}
}
