package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// writeMachines keeps what runs where beside the logs: a line for each machine
// with its pool, price, how full it is, and its pods.
func (l *karpenterLab) writeMachines(t *testing.T) {
	t.Helper()
	on := map[string][]corev1.Pod{}
	for _, p := range l.pods(t) {
		on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
	}
	nodes := l.nodes(t)
	slices.SortFunc(nodes, func(a, b corev1.Node) int {
		return cmp.Or(cmp.Compare(a.Labels["karpenter.sh/nodepool"], b.Labels["karpenter.sh/nodepool"]), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var b strings.Builder
	b.WriteString("pool,machine,made,instance_type,zone,capacity_type,price_per_hour,cpu_milli,cpu_used,mem_mib,mem_used,gpus,gpus_used,pods\n")
	for _, n := range nodes {
		o := l.offerOf(n.Labels)
		if o == nil {
			continue
		}
		var cpu, mem, gpus int64
		var pods []string
		for _, p := range on[n.Name] {
			r := l.replicas[p.Labels["app"]]
			cpu, mem, gpus = cpu+r.cpu, mem+r.mem, gpus+r.gpus
			pods = append(pods, fmt.Sprintf("%d/%d/%d", r.cpu, r.mem, r.gpus))
		}
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s,%s,%.6f,%d,%d,%d,%d,%d,%d,%s\n", n.Labels["karpenter.sh/nodepool"], n.Name, n.CreationTimestamp.UTC().Format("15:04:05"), o.name, o.zone, o.way, o.price,
			o.cpu, cpu, o.mem, mem, o.gpus, gpus, strings.Join(pods, " "))
	}
	if err := os.WriteFile(filepath.Join(l.dir, "machines.csv"), []byte(b.String()), 0o600); err != nil {
		t.Error(err)
	}
}

var planned = regexp.MustCompile(`packed for ([0-9.]+), at least ([0-9.]+),.*expected to buy for ([0-9.]+)`)

// comparePlan says what the first plan wanted, what it could not have gone
// under, what it took Karpenter to make of it, and what Karpenter made.
func (l *karpenterLab) comparePlan(t *testing.T, first string, made float64) {
	t.Helper()
	m := planned.FindStringSubmatch(first)
	if m == nil {
		t.Errorf("the planner says nothing of costs: %s", first)
		return
	}
	var packed, bound, expected float64
	fmt.Sscan(m[1], &packed)
	fmt.Sscan(m[2], &bound)
	fmt.Sscan(m[3], &expected)
	t.Logf("KARPENTER plan: bound $%.2f/h, packed $%.2f/h, expected of Karpenter $%.2f/h, made of it $%.2f/h: %.1f %% over the plan, %.1f %% over the bound",
		bound, packed, expected, made, 100*(made/packed-1), 100*(made/bound-1))
}
