package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startKarpenter runs the real Karpenter; its instances are KWOK nodes, its
// prices those of manifests/instance_types.json.
func (c *cluster) startKarpenter(t *testing.T) {
	t.Helper()
	crds, err := exec.Command(kubelabBin, "karpenter-crds").Output()
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, string(crds))
	c.namespace(t, "karpenter", nil)
	health := freePort(t)
	k := start(t, "karpenter", exec.Command(kubelabBin, "karpenter", "--disable-leader-election=true",
		fmt.Sprintf("--metrics-port=%d", freePort(t)), fmt.Sprintf("--health-probe-port=%d", health)),
		"KUBECONFIG="+filepath.Join(c.dir, "admin.kubeconfig"), "SYSTEM_NAMESPACE=karpenter",
		"INSTANCE_TYPES_FILE_PATH="+absolute(t, "../manifests/instance_types.json"))
	within(t, time.Minute, "Karpenter ready", func() (bool, string) {
		if !k.alive() {
			t.Fatal(k.tail())
		}
		return get(fmt.Sprintf("http://127.0.0.1:%d/readyz", health))
	})
	pool, err := os.ReadFile("../manifests/nodepool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, string(pool))
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// TestKarpenterBringsNodes holds kubelab to its word: a cluster without nodes,
// and pods that make Karpenter buy some.
func TestKarpenterBringsNodes(t *testing.T) {
	c := startCluster(t)
	c.startKarpenter(t)
	c.deploy(t, 3)
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var bought []string
	for _, n := range nodes.Items {
		bought = append(bought, n.Labels["node.kubernetes.io/instance-type"]+" "+n.Labels["karpenter.sh/capacity-type"])
	}
	if len(bought) == 0 {
		t.Error("pods run, but no node was bought")
	}
	t.Logf("bought %s", strings.Join(bought, ", "))
}
