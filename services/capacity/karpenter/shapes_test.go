package karpenter_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/services/capacity/karpenter"
	"plimsoll.dev/services/packing"
)

// ruled are pods of a few workloads, each with rules of its own as a plan hands them over: equal in content, not in address.
func ruled(n int) (pods []packing.Pod) {
	for i := range n {
		pods = append(pods, packing.Pod{Name: fmt.Sprint("p", i), CPUMilli: 500 + int64(i%20)*100, MemMiB: 1000, SpotOK: i%2 == 0, Rules: &packing.Rules{
			Tolerates: []string{"dedicated=a:NoSchedule"}, Where: []packing.Selector{{Key: "zone", Values: []string{"a", "b"}}}}})
	}
	return pods
}

func TestPodsOfOneKindAreOneShapeWhereverTheirRulesLie(t *testing.T) {
	t.Parallel()
	offs := market()
	pods := ruled(5000)
	var nodes []packing.Node
	for range 100 {
		nodes = append(nodes, packing.Node{Offering: 4})
	}
	begin := time.Now()
	p, err := karpenter.Compose(karpenter.Input{Pods: pods, Offerings: offs, New: nodes}, karpenter.Settings{Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	shared := ruled(5000)
	for i := range shared {
		shared[i].Rules = shared[0].Rules
	}
	q, err := karpenter.Compose(karpenter.Input{Pods: shared, Offerings: offs, New: nodes}, karpenter.Settings{Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pods with rules of their own in %s", len(pods), took)
	if p.Bought != q.Bought || p.Rest != q.Rest {
		t.Errorf("rules of one's own: %s and %d left, shared ones: %s and %d left", p.Bought, p.Rest, q.Bought, q.Rest)
	}
	other := ruled(3)
	other[1].Rules.Where[0].Values = []string{"c"} // nowhere
	other[2].Rules.Where[0].Not = true             // neither
	r, err := karpenter.Compose(karpenter.Input{Pods: other, Offerings: offs, New: nodes[:1]}, karpenter.Settings{Rounds: 1})
	if err != nil || r.Rest != 2 {
		t.Errorf("%d pods with other rules are left to the rest, %v", r.Rest, err)
	}
}
