package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// told is what the service says of Karpenter.
type told struct {
	Version int
	Stopped string
	Pools   []string
	Orders  []struct{ ID, State, Kind string }
}

// toldAction is an object of an order.
type toldAction struct {
	ActionID string `json:"action_id"`
	Outcome  string
	Code     string
	Writers  []string
}

func (s *service) karpenter(t *testing.T) (k told) {
	t.Helper()
	s.call(t, http.MethodGet, "/clusters/"+s.cluster+"/karpenter", nil, &k)
	return k
}

func (s *service) steer(t *testing.T, version int, on bool) {
	t.Helper()
	s.call(t, http.MethodPut, "/clusters/"+s.cluster+"/karpenter", map[string]any{"version": version, "settings": map[string]any{
		"enabled": on, "class_group": "karpenter.kwok.sh", "class_kind": "KWOKNodeClass", "class_name": "default"}}, nil)
}

// seed is a machine of the cluster from before, that takes no pods: it says in
// which cloud and region the cluster is.
func (l *karpenterLab) seed(t *testing.T) {
	t.Helper()
	size := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("110")}
	_, err := l.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "seed", Labels: map[string]string{"topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": "us-east-1a",
			"node.kubernetes.io/instance-type": "c6i.large", "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/hostname": "seed", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
		Spec:   corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-00000000000000001", Taints: []corev1.Taint{{Key: "lab", Value: "seed", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestServiceSteersKarpenter lets the service plan a cluster's machines, its
// agent tell a real Karpenter, and the answers come back: nothing is handed
// over by hand.
func TestServiceSteersKarpenter(t *testing.T) {
	l := startKarpenterLab(t, "service", builtIn())
	l.seed(t)
	s := startService(t)
	token := filepath.Join(l.dir, "token")
	if err := os.WriteFile(token, []byte(s.enrolmentToken(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("endpoint: %s\ntokenFile: %s\nclusterName: lab\nstateDir: %s\nmode: enforce\nmetricsAddress: 127.0.0.1:%d\nintervals: {sampleSeconds: 1, frameSeconds: 5, inventoryResyncSeconds: 10}\n"+
		"sources: {kubernetes: {enabled: true, kubeconfig: %s}}\nautoscalers: {karpenter: {enabled: true}}\n", s.url, token, filepath.Join(l.dir, "agent"), freePort(t), filepath.Join(l.dir, "admin.kubeconfig"))
	if err := os.WriteFile(l.agent, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.call(t, http.MethodPut, "/clusters/"+s.cluster+"/capacity-policy", map[string]any{"version": 0, "policy": map[string]any{
		"instance_types": []string{"c6i.large", "c6i.xlarge", "c6i.2xlarge", "m6i.large", "m6i.xlarge", "m6i.2xlarge"}, "zones": []string{"us-east-1a"}}}, nil)
	agent := launch(t, "agent-service", exec.Command(agentBin, "--config", l.agent, "--role", "controller"), "POD_NAME=plimsoll-agent-0")
	t.Cleanup(agent.stop)
	var pods []replica
	for i := range 12 {
		pods = append(pods, replica{name: fmt.Sprintf("p%03d", i), cpu: 1500, mem: 2500, spot: true})
	}
	l.demand(t, pods, false)
	within(t, 2*time.Minute, "nothing is in the way but the switch", func() (bool, string) {
		if !agent.alive() {
			t.Fatal(agent.tail())
		}
		k := s.karpenter(t)
		return k.Stopped == "off", k.Stopped
	})
	if n := len(l.names(t, nodePools)); n != 0 {
		t.Fatalf("%d pools before anybody switched it on", n)
	}
	begin := time.Now()
	s.steer(t, 0, true)
	l.allRun(t, 3*time.Minute, len(pods))
	cost, machines := l.cost(t)
	for _, n := range l.nodes(t) {
		if pool := n.Labels["karpenter.sh/nodepool"]; n.Name != "seed" && !strings.HasPrefix(pool, "plimsoll-") {
			t.Errorf("machine %s is of the pool %q", n.Name, pool)
		}
	}
	within(t, time.Minute, "an order is recorded as applied", func() (bool, string) {
		k := s.karpenter(t)
		return slices.ContainsFunc(k.Orders, func(o struct{ ID, State, Kind string }) bool { return o.State == "applied" }), fmt.Sprintf("%+v", k)
	})
	if over := l.overLimits(t); over != "" {
		t.Errorf("bought twice: %s", over)
	}
	t.Logf("KARPENTER told by the service: %d pods run %.1f s after it was switched on, on %d machines for $%.2f/h", len(pods), time.Since(begin).Seconds(), machines, cost)

	name := l.names(t, nodePools)[0]
	l.edit(t, name)
	l.scale(t, "w-p000", 20)
	within(t, 3*time.Minute, "the service names both writers of a pool", func() (bool, string) {
		k := s.karpenter(t)
		for _, o := range k.Orders {
			var one struct{ Actions []toldAction }
			if err := s.try(http.MethodGet, "/clusters/"+s.cluster+"/karpenter/orders/"+o.ID, nil, &one); err != nil {
				return false, err.Error()
			}
			for _, a := range one.Actions {
				if a.ActionID == "pool/"+name && a.Code == "conflict" && slices.Contains(a.Writers, "kubectl-edit") && slices.Contains(a.Writers, "plimsoll-agent") {
					return true, ""
				}
			}
		}
		return false, fmt.Sprintf("%d orders", len(k.Orders))
	})
	if w := l.weight(t, name); w != 55 {
		t.Errorf("the weight that was set by hand is %d now", w)
	}
	l.allRun(t, 3*time.Minute, 20)

	s.steer(t, s.karpenter(t).Version, false)
	l.scale(t, "w-p000", 0)
	within(t, 3*time.Minute, "empty machines go", func() (bool, string) {
		n := len(l.nodes(t))
		return n <= 1, fmt.Sprintf("%d machines", n)
	})
	within(t, 2*time.Minute, "handed back", func() (bool, string) {
		left := l.names(t, nodePools)
		if len(left) == 0 {
			return true, ""
		}
		if err := s.try(http.MethodPost, "/clusters/"+s.cluster+"/karpenter/hand-back", nil, nil); err != nil {
			return false, err.Error()
		}
		return false, fmt.Sprintf("%v left", left)
	})
	t.Log("KARPENTER handed back: no pool of ours is left")
}
