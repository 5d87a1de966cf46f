package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	sigsyaml "sigs.k8s.io/yaml"
)

const agentNamespace = "plimsoll"

// render returns a chart's manifests by file name, under a release of the
// chart's name.
func render(t *testing.T, name, ns, values string) map[string]string {
	t.Helper()
	chart, err := loader.LoadDir("../../../deploy/helm/" + name)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	if err := sigsyaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: name, Namespace: ns, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]string{}
	for name, content := range files {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(content) != "" {
			byName[filepath.Base(name)] = content
		}
	}
	return byName
}

// apply sends manifests to the server as a person would, with kubectl.
func (c *cluster) apply(t *testing.T, manifests ...string) {
	t.Helper()
	kubectl := exec.Command(kubelabBin, "kubectl", "--kubeconfig", filepath.Join(c.dir, "admin.kubeconfig"), "apply", "--server-side", "-f", "-")
	kubectl.Stdin = strings.NewReader(strings.Join(manifests, "\n---\n"))
	var out bytes.Buffer
	kubectl.Stdout, kubectl.Stderr = &out, &out
	if err := kubectl.Run(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out.Bytes())
	}
}

func (c *cluster) namespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	_, err := c.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// installRights creates what the chart grants the agent, and returns the
// configuration that it would mount; the agent runs as a process of the test.
func installRights(t *testing.T, c *cluster, endpoint string) (config string) {
	t.Helper()
	files := render(t, "plimsoll-agent", agentNamespace, fmt.Sprintf(`
endpoint: %s
clusterName: lab
mode: enforce
enrolment: {existingSecret: unused}
namespaces: {include: [%s]}
intervals: {sampleSeconds: 1, frameSeconds: 5, inventoryResyncSeconds: 10}
limits: {maxReplicas: 100, maxReplicasPerWorkload: 12, maxActionsPerMinute: 60}
sources:
  podMetrics:
    - selector: app=vllm
      port: %d
      path: /metrics
      mapping:
        queue_length: "vllm:num_requests_waiting"
        running_requests: "vllm:num_requests_running"
        kv_cache_ratio: "vllm:kv_cache_usage_perc"
`, endpoint, namespace, metricsPort))
	c.namespace(t, agentNamespace, nil)
	c.apply(t, files["serviceaccount.yaml"], files["rbac.yaml"])
	var m corev1.ConfigMap
	if err := sigsyaml.Unmarshal([]byte(files["configmap.yaml"]), &m); err != nil {
		t.Fatal(err)
	}
	return m.Data["agent.yaml"]
}

// TestChart needs no service and no agent.
func TestChart(t *testing.T) {
	c := startCluster(t)
	c.addNodes(t)
	c.deploy(t, 1)
	t.Run("installs", func(t *testing.T) { testChartsInstall(t, c) })
	t.Run("rights", func(t *testing.T) { testRights(t, c) })
}

// testChartsInstall: both charts are taken by the server into a namespace that
// enforces the restricted pod standard, and their pods are admitted there.
func testChartsInstall(t *testing.T, c *cluster) {
	const ns = "restricted"
	c.namespace(t, ns, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	_, err := c.kube.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "root"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("the namespace does not enforce the standard: %v", err)
	}
	files := render(t, "plimsoll-agent", ns, `
endpoint: https://plimsoll.example.com
clusterName: lab
mode: enforce
enrolment: {token: once}
state: {persistence: {enabled: false}}
controller: {podDisruptionBudget: {enabled: true}}
gpu: {enabled: true, dcgm: {mode: hostengine}}
`)
	c.apply(t, slices.Collect(maps.Values(files))...)
	service := render(t, "plimsoll", ns, `
publicURL: https://plimsoll.example.com
existingSecret: plimsoll
ingress: {enabled: true, host: plimsoll.example.com, tlsSecret: tls}
`)
	c.apply(t, slices.Collect(maps.Values(service))...)
	ready := map[string]int32{"plimsoll-agent": 1, "plimsoll-service": 2, "plimsoll-worker": 2}
	within(t, time.Minute, "pods of the charts run", func() (bool, string) {
		daemons, err := c.kube.AppsV1().DaemonSets(ns).Get(t.Context(), "plimsoll-agent-node", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		all, seen := daemons.Status.NumberReady == gpuNodes, fmt.Sprintf("nodes %d", daemons.Status.NumberReady)
		for name, want := range ready {
			d, err := c.kube.AppsV1().Deployments(ns).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			all, seen = all && d.Status.ReadyReplicas == want, fmt.Sprintf("%s, %s %d", seen, name, d.Status.ReadyReplicas)
		}
		return all, seen
	})
}

// testRights asks the real authoriser what each mode's service account may do.
func testRights(t *testing.T, c *cluster) {
	for mode, writes := range map[string]bool{"observe": false, "recommend": false, "approve": true, "enforce": true} {
		for _, scope := range []string{"cluster", "namespaced"} {
			ns := "rights-" + mode + "-" + scope
			c.namespace(t, ns, nil)
			files := render(t, "plimsoll-agent", ns, fmt.Sprintf("endpoint: https://x.example.com\nclusterName: lab\nmode: %s\nrbac: {scope: %s}\nnamespaces: {include: [%s]}",
				mode, scope, namespace))
			// the Roles of all modes would share a name in the workload's namespace
			rbac := strings.ReplaceAll(files["rbac.yaml"], "name: plimsoll-agent\n  namespace: "+namespace, "name: "+ns+"\n  namespace: "+namespace)
			rbac = strings.ReplaceAll(rbac, "kind: Role, name: plimsoll-agent}", "kind: Role, name: "+ns+"}")
			c.apply(t, files["serviceaccount.yaml"], rbac)
			t.Run(mode+" "+scope, func(t *testing.T) {
				as := c.as(t, ns, "plimsoll-agent")
				checkRights(t, c, as, writes, scope == "cluster")
			})
		}
	}
}

// as is a client with the rights of a service account.
func (c *cluster) as(t *testing.T, ns, account string) *kubernetes.Clientset {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.kubeconfigFor(t, ns, account))
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

func checkRights(t *testing.T, c *cluster, as *kubernetes.Clientset, writes, everywhere bool) {
	t.Helper()
	ctx := t.Context()
	apps := as.AppsV1().Deployments(namespace)
	within(t, 10*time.Second, "rights in force", func() (bool, string) { // roles reach the authoriser a moment later
		_, err := apps.Get(ctx, workload, metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	allowed := func(what string, want bool, err error) {
		t.Helper()
		if err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		} else if got := err == nil; got != want {
			t.Errorf("%s: allowed %t, want %t", what, got, want)
		}
	}
	_, err := as.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	allowed("list nodes", true, err)
	_, err = as.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	allowed("list pods everywhere", everywhere, err)
	_, err = as.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	allowed("list secrets", false, err)

	dryRun := []string{metav1.DryRunAll}
	scale, err := c.kube.AppsV1().Deployments(namespace).GetScale(ctx, workload, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale.ResourceVersion = ""
	_, err = apps.UpdateScale(ctx, workload, scale, metav1.UpdateOptions{DryRun: dryRun})
	allowed("update scale", writes, err)
	deployment, err := c.deployment(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = apps.Update(ctx, deployment, metav1.UpdateOptions{DryRun: dryRun})
	allowed("update the deployment itself", false, err)
	allowed("delete the deployment", false, apps.Delete(ctx, workload, metav1.DeleteOptions{DryRun: dryRun}))
	pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	allowed("delete a pod", false, as.CoreV1().Pods(namespace).Delete(ctx, pods.Items[0].Name, metav1.DeleteOptions{DryRun: dryRun}))
	allowed("delete a node", false, as.CoreV1().Nodes().Delete(ctx, "gpu-0", metav1.DeleteOptions{DryRun: dryRun}))
}
