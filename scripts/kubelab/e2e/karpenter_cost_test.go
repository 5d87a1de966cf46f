package e2e

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// onePool is Karpenter as its quick start has it: one NodePool that may buy
// everything.
const onePool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand, reserved]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5s, budgets: [{nodes: "100%"}]}
`

// tunedPools is what an attentive team writes: a tainted pool for each GPU
// model, the cheapest GPU first, and one for machines without GPUs.
func tunedPools(offers []offer) string {
	var models, plain []string
	types, cheapest := map[string][]string{}, map[string]float64{}
	for _, o := range offers {
		if o.gpu == "" {
			plain = append(plain, o.name)
			continue
		}
		if types[o.gpu] == nil {
			models = append(models, o.gpu)
		}
		types[o.gpu] = append(types[o.gpu], o.name)
		if per := o.price / float64(o.gpus); o.way == "on-demand" && (cheapest[o.gpu] == 0 || per < cheapest[o.gpu]) {
			cheapest[o.gpu] = per
		}
	}
	slices.SortFunc(models, func(a, b string) int { return cmp.Compare(cheapest[a], cheapest[b]) })
	var b strings.Builder
	pool := func(name, taints string, weight int, types []string) {
		slices.Sort(types)
		fmt.Fprintf(&b, `---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  weight: %d
  template:
    spec:
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand, reserved]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [%s]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
%s  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5s, budgets: [{nodes: "100%%"}]}
`, name, weight, strings.Join(slices.Compact(types), ", "), taints)
	}
	pool("cpu", "", 100, plain)
	for i, m := range models {
		pool("gpu-"+strings.ToLower(m), "      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n", 99-i, types[m])
	}
	return b.String()
}

// settle is how long consolidation goes on before costs are compared, the same
// for all.
const settle = 30 * time.Second

// TestKarpenterCost runs the same GPU mix under Karpenter with one NodePool,
// with hand-tuned pools, and steered by Plimsoll, and compares what the
// machines cost.
func TestKarpenterCost(t *testing.T) {
	offers, pods := catalogue(t), mix(t, 500)
	type way struct {
		name   string
		pinned bool
		steer  func(*testing.T, *karpenterLab)
		again  func(*testing.T, *karpenterLab) // when all pods run
	}
	costs, settled := map[string]float64{}, map[string]float64{}
	nothing := func(*testing.T, *karpenterLab) {}
	for _, w := range []way{
		{"one-nodepool", false, func(t *testing.T, l *karpenterLab) { l.apply(t, onePool) }, nothing},
		{"hand-tuned", true, func(t *testing.T, l *karpenterLab) { l.apply(t, tunedPools(offers)) }, nothing},
		{"plimsoll", true, func(t *testing.T, l *karpenterLab) {
			for _, r := range l.carryOut(t, l.plan(t)) {
				if r.Outcome != "applied" {
					t.Fatalf("%s %s: %s %s", r.ActionID, r.Outcome, r.ErrorCode, r.Error)
				}
			}
		}, func(t *testing.T, l *karpenterLab) { l.applied(t, l.carryOut(t, l.plan(t))) }}, // the next plan opens what is worth consolidating
	} {
		if only := os.Getenv("E2E_ONLY"); only != "" && only != w.name {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			l := startKarpenterLab(t, w.name, offers)
			l.demand(t, pods, w.pinned)
			l.trace(t)
			w.steer(t, l)
			first := l.said
			took := l.allRun(t, 4*time.Minute, len(pods))
			cost, machines := l.cost(t)
			costs[w.name] = cost
			begin := time.Now()
			w.again(t, l)
			time.Sleep(settle - time.Since(begin)) // Karpenter's own consolidation has its turn
			running, _ := l.running(t)
			later, left := l.cost(t)
			l.writeMachines(t)
			if first != "" {
				l.comparePlan(t, first, later)
			}
			settled[w.name] = later
			t.Logf("KARPENTER %-14s $%8.2f/h on %3d machines when all %d pods run, after %5.1f s; $%8.2f/h on %3d machines after its consolidation (%d pods run); Karpenter used %.1f CPU-s",
				w.name, cost, machines, len(pods), took.Seconds(), later, left, running, cpuSeconds(l.karpenter))
		})
	}
	if t.Failed() || len(costs) < 3 {
		return
	}
	for _, at := range []struct {
		when string
		cost map[string]float64
	}{{"when all pods run", costs}, {"after consolidation", settled}} {
		t.Logf("KARPENTER %s ours is %.1f %% cheaper than one NodePool and %.1f %% cheaper than hand-tuned pools", at.when,
			100*(1-at.cost["plimsoll"]/at.cost["one-nodepool"]), 100*(1-at.cost["plimsoll"]/at.cost["hand-tuned"]))
	}
	ours := settled["plimsoll"]
	if ours > 0.8*settled["one-nodepool"] {
		t.Errorf("ours costs $%.2f/h: not 20 %% under one NodePool ($%.2f/h)", ours, settled["one-nodepool"])
	}
	if ours > 0.9*settled["hand-tuned"] {
		t.Errorf("ours costs $%.2f/h: not 10 %% under hand-tuned pools ($%.2f/h)", ours, settled["hand-tuned"])
	}
}
