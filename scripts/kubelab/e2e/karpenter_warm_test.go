package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKarpenterWarm keeps one GPU machine ready beside a real Karpenter: a placeholder brings it, a pod takes the placeholder's place on that
// very machine, the placeholder that waits brings the next one, and an uninstall leaves no placeholder.
func TestKarpenterWarm(t *testing.T) {
	const pool, machine = "plimsoll-ready", "g6.xlarge"
	l := startKarpenterLab(t, "warm", builtIn())
	// One scheduler for placeholders and pods, as clusters have it. Two may give
	// the GPU away twice, the room of a placeholder that goes to the next one
	// before it has seen who took it: a kubelet then refuses one, and KWOK's
	// nodes have none.
	l.scheduler = "default-scheduler"
	l.namespace(t, agentNamespace, nil)
	files := render(t, "plimsoll-agent", agentNamespace, "endpoint: http://127.0.0.1:1\nclusterName: lab\nmode: enforce\nenrolment: {existingSecret: unused}\nwarmPools: {enabled: true}\n")
	l.apply(t, files["serviceaccount.yaml"], files["warm.yaml"])
	config := fmt.Sprintf("endpoint: http://127.0.0.1:1\nstateDir: %s\nmode: enforce\nsources: {kubernetes: {enabled: true, kubeconfig: %s}}\nautoscalers: {karpenter: {enabled: true}}\n"+
		"warmPools: {enabled: true, namespace: %s, priorityClass: plimsoll-agent-warm, image: registry.k8s.io/pause:3.10}\n",
		filepath.Join(l.dir, "agent"), filepath.Join(l.dir, "admin.kubeconfig"), agentNamespace)
	if err := os.WriteFile(l.agent, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	apply := func(generation, count int) {
		t.Helper()
		actions := []map[string]any{{"action_id": "pool/" + pool, "node_pool": map[string]any{"name": pool, "weight": 10, "class_group": "karpenter.kwok.sh", "class_kind": "KWOKNodeClass", "class_name": "default",
			"limits": map[string]string{"nodes": "4"}, "consolidation_policy": "WhenEmpty", "consolidate_after_seconds": 30,
			"budgets": []map[string]any{{"nodes": "100%", "reasons": []string{"Empty"}}, {"nodes": "0", "reasons": []string{"Drifted", "Underutilized"}}}, "taints": []map[string]any{{"key": "nvidia.com/gpu", "effect": "NoSchedule"}},
			"requirements": []map[string]any{{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []string{machine}}, {"key": "karpenter.sh/capacity-type", "operator": "In", "values": []string{"on-demand"}}}}},
			{"action_id": "warm/l4", "warm_pool": map[string]any{"name": "l4", "count": count, "cpu_milli": 2000, "mem_mib": 6000, "gpus": 1,
				"requirements": []map[string]any{{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []string{machine}}, {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": []string{"spot"}}},
				"tolerates":    []map[string]any{{"key": "nvidia.com/gpu", "effect": "NoSchedule"}}}}}
		now := time.Now()
		b, err := json.Marshal(map[string]any{"plan_id": fmt.Sprint("warm-", generation), "generation": generation, "created_ms": now.UnixMilli(), "expires_ms": now.Add(time.Minute).UnixMilli(), "capacity": actions})
		file := filepath.Join(l.dir, fmt.Sprintf("warm-%d.json", generation))
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(agentBin, "-config", l.agent, "-apply", file).CombinedOutput(); err != nil {
			t.Fatalf("apply: %v: %s", err, out)
		}
	}
	// placeholders that run, by node, and those that wait.
	placeholders := func() (on map[string]bool, waiting int) {
		t.Helper()
		list, err := l.kube.CoreV1().Pods(agentNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "plimsoll.dev/warm=l4"})
		if err != nil {
			t.Fatal(err)
		}
		on = map[string]bool{}
		for _, p := range list.Items {
			switch {
			case p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed:
			case p.Status.Phase == corev1.PodRunning:
				on[p.Spec.NodeName] = true
			default:
				waiting++
			}
		}
		return on, waiting
	}
	ready := func(n int) (took time.Duration, on map[string]bool) {
		t.Helper()
		took = within(t, 2*time.Minute, fmt.Sprintf("%d machines are ready", n), func() (bool, string) {
			var waiting int
			on, waiting = placeholders()
			return len(on) == n && waiting == 0, fmt.Sprintf("%d placeholders run, %d wait, %d nodes", len(on), waiting, len(l.nodes(t)))
		})
		return took, on
	}
	apply(1, 1)
	cold, before := ready(1)

	l.demand(t, []replica{{name: "chat", cpu: 2000, mem: 4096, gpus: 1}}, false)
	warm := l.allRun(t, time.Minute, 1)
	if p := l.pods(t)[0]; !before[p.Spec.NodeName] {
		t.Errorf("the pod runs on %s, not on the machine that was ready: %v", p.Spec.NodeName, before)
	}
	refill := within(t, 2*time.Minute, "the next machine is ready", func() (bool, string) { // the placeholder that made room may be listed for a moment
		on, waiting := placeholders()
		elsewhere := 0
		for node := range on {
			if !before[node] {
				elsewhere++
			}
		}
		return elsewhere == 1 && len(on) == 1 && waiting == 0, fmt.Sprintf("%d placeholders run, %d of them elsewhere, %d wait", len(on), elsewhere, waiting)
	})
	if n := len(l.nodes(t)); n != 2 {
		t.Errorf("%d machines for one pod and one that is ready", n)
	}
	t.Logf("KARPENTER a machine for the placeholder came in %.1f s; the pod ran on it %.1f s after it was made; the next machine was ready %.1f s later", cold.Seconds(), warm.Seconds(), refill.Seconds())

	if out, err := exec.Command(agentBin, "-config", l.agent, "-hand-back").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	within(t, time.Minute, "no placeholder is left", func() (bool, string) {
		on, waiting := placeholders()
		return len(on)+waiting == 0, fmt.Sprintf("%d run, %d wait", len(on), waiting)
	})
	if running, _ := l.running(t); running != 1 {
		t.Error("the uninstall ended the pod")
	}
}
