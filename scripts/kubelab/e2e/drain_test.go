package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	sigsyaml "sigs.k8s.io/yaml"
)

// TestGentleDrain: the cloud takes a node back. Its pods are told by annotation before they are evicted, one at a time under their
// disruption budget; the agent is killed while one is being told, and asks again under the same id; what is refused is said; the service
// shows it; an uninstall leaves the node cordoned that the cloud takes, and nothing else.
func TestGentleDrain(t *testing.T) {
	const replicas = 8 // two on each node
	c := startCluster(t)
	c.addNodes(t)
	s := startService(t)
	token := s.enrolmentToken(t)
	files := render(t, "plimsoll-agent", agentNamespace, fmt.Sprintf(`
endpoint: %s
clusterName: lab
mode: enforce
enrolment: {existingSecret: unused}
namespaces: {include: [%s]}
intervals: {sampleSeconds: 1, frameSeconds: 5, inventoryResyncSeconds: 10}
drain: {enabled: true, annotations: true}
`, s.url, namespace))
	c.namespace(t, agentNamespace, nil)
	c.apply(t, files["serviceaccount.yaml"], files["rbac.yaml"])
	var m corev1.ConfigMap
	if err := sigsyaml.Unmarshal([]byte(files["configmap.yaml"]), &m); err != nil {
		t.Fatal(err)
	}
	c.deploy(t, 1)
	// Pods that want to be told, spread over the nodes.
	patch := `{"spec":{"replicas":8,"template":{"metadata":{"annotations":{"plimsoll.dev/checkpoint":"annotation","plimsoll.dev/checkpoint-seconds":"110"}},
"spec":{"terminationGracePeriodSeconds":1,"topologySpreadConstraints":[{"topologyKey":"kubernetes.io/hostname","maxSkew":1,"whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"vllm"}}}]}}}}`
	if _, err := c.kube.AppsV1().Deployments(namespace).Patch(t.Context(), workload, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitReplicas(t, time.Minute, replicas)
	one := intstr.FromInt32(1)
	if _, err := c.kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: workload},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "vllm"}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "the budget counts its pods", func() (bool, string) {
		b, err := c.kube.PolicyV1().PodDisruptionBudgets(namespace).Get(t.Context(), workload, metav1.GetOptions{})
		return err == nil && b.Status.DisruptionsAllowed == 1, fmt.Sprint(err)
	})

	a := installAgent(t, c, m.Data["agent.yaml"], token)
	a.start(t)
	within(t, patience, "the service knows that the agent tells pods", func() (bool, string) {
		var list struct{ Told bool }
		err := s.try(http.MethodGet, "/clusters/"+s.cluster+"/checkpoints", nil, &list)
		return err == nil && list.Told, fmt.Sprint(err)
	})
	node := "gpu-1"
	before := c.podsOn(t, node)
	if len(before) == 0 {
		t.Fatalf("nothing runs on %s", node)
	}
	w := watchTold(t, c)
	c.taint(t, node, "aws-node-termination-handler/spot-itn")

	w.ask(t, len(before)) // all are told, nobody answers yet
	if gone := len(before) - len(c.podsOn(t, node)); gone != 0 {
		t.Fatalf("%d pods were evicted before they answered", gone)
	}
	if n, err := c.kube.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); err != nil || !n.Spec.Unschedulable {
		t.Fatalf("the node takes pods: %v", err)
	}
	first := w.ids()
	a.running.kill()
	a.start(t)
	w.answer(true)
	took := within(t, 2*time.Minute, "the node is empty and all replicas run", func() (bool, string) {
		left := c.podsOn(t, node)
		d, err := c.deployment(t.Context())
		if err != nil {
			return false, err.Error()
		}
		return len(left) == 0 && d.Status.ReadyReplicas == replicas, fmt.Sprintf("%d on the node, %d ready", len(left), d.Status.ReadyReplicas)
	})
	for pod, ids := range first {
		if again := w.ids()[pod]; !slices.Equal(ids, again) || len(again) != 1 {
			t.Errorf("%s was told under %v, before the restart %v", pod, again, ids)
		}
	}
	t.Logf("%d pods saved their work and moved in %s; never more than %d away at once", len(before), took.Round(100*time.Millisecond), w.away())
	if w.away() > 1 {
		t.Errorf("%d pods were away at once: their budget allows one", w.away())
	}
	var told struct {
		Told  bool `json:"told"`
		Items []struct {
			ID, Pod, Node, Cause, Outcome string
			TookMS                        int64 `json:"took_ms"`
		} `json:"items"`
	}
	within(t, patience, "the service shows who was told", func() (bool, string) {
		if err := s.try(http.MethodGet, "/clusters/"+s.cluster+"/checkpoints", nil, &told); err != nil {
			return false, err.Error()
		}
		return len(told.Items) == len(before), fmt.Sprintf("%d shown", len(told.Items))
	})
	for _, x := range told.Items {
		if x.Outcome != "done" || x.Cause != "interruption" || x.Node != node || !slices.Contains(first[strings.TrimPrefix(x.Pod, namespace+"/")], x.ID) {
			t.Errorf("shown %+v", x)
		}
	}
	if !told.Told {
		t.Error("the service does not know that the agent tells pods")
	}

	// Another node, whose pods declare an address: here it is one on loopback, which is never called. The machine goes all the same.
	w.answer(false)
	for _, p := range c.podsOn(t, "gpu-2") {
		note := []byte(`{"metadata":{"annotations":{"plimsoll.dev/checkpoint":"http://:18000/save"}}}`)
		if _, err := c.kube.CoreV1().Pods(namespace).Patch(t.Context(), p.Name, types.MergePatchType, note, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.taint(t, "gpu-2", "aws-node-termination-handler/spot-itn")
	within(t, time.Minute, "the second node is empty", func() (bool, string) {
		left := c.podsOn(t, "gpu-2")
		return len(left) == 0, fmt.Sprintf("%d on the node", len(left))
	})
	c.waitReplicas(t, time.Minute, replicas)
	within(t, patience, "the service shows what was refused", func() (bool, string) {
		if err := s.try(http.MethodGet, "/clusters/"+s.cluster+"/checkpoints", nil, &told); err != nil {
			return false, err.Error()
		}
		n := 0
		for _, x := range told.Items {
			if x.Node == "gpu-2" && x.Outcome == "refused" {
				n++
			}
		}
		return n > 0, fmt.Sprintf("%d refused", n)
	})

	a.running.stop()
	cmd := exec.Command(a.bin, "-config", filepath.Join(a.dir, "agent.yaml"), "-hand-back")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		if goes := n.Name == node || n.Name == "gpu-2"; n.Spec.Unschedulable != goes {
			t.Errorf("after the uninstall %s is cordoned: %v", n.Name, n.Spec.Unschedulable)
		}
	}
}

// podsOn lists the workload's pods on a node that do not end yet.
func (c *cluster) podsOn(t *testing.T, node string) (out []corev1.Pod) {
	t.Helper()
	list, err := c.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out
}

// taint puts a taint on a node as a termination handler does.
func (c *cluster) taint(t *testing.T, node, key string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, key)
	if _, err := c.kube.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// toldPods plays the workload: it sees which pods are asked to save their work, and answers when it is let.
type toldPods struct {
	mu      sync.Mutex
	asked   map[string][]string // ids by pod
	answers bool
	gone    int // pods that were evicted and are not replaced yet, the most at once
}

func watchTold(t *testing.T, c *cluster) *toldPods {
	t.Helper()
	w := &toldPods{asked: map[string][]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.look(ctx, c)
			}
		}
	}()
	return w
}

func (w *toldPods) look(ctx context.Context, c *cluster) {
	list, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ready := 0
	for _, p := range list.Items {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				ready++
			}
		}
		id, at, ok := strings.Cut(p.Annotations["plimsoll.dev/checkpoint-request"], " ")
		if !ok {
			continue
		}
		if !slices.Contains(w.asked[p.Name], id) {
			w.asked[p.Name] = append(w.asked[p.Name], id)
		}
		if !w.answers || p.Annotations["plimsoll.dev/checkpointed"] != "" {
			continue
		}
		note, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"plimsoll.dev/checkpointed": at}}})
		if err != nil {
			continue
		}
		_, _ = c.kube.CoreV1().Pods(namespace).Patch(ctx, p.Name, types.MergePatchType, note, metav1.PatchOptions{}) // asked again at the next look
	}
	w.gone = max(w.gone, 8-ready)
}

func (w *toldPods) answer(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = yes
}

func (w *toldPods) away() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

func (w *toldPods) ids() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string][]string{}
	for pod, ids := range w.asked {
		out[pod] = slices.Clone(ids)
	}
	return out
}

// ask waits until so many pods were asked.
func (w *toldPods) ask(t *testing.T, n int) {
	t.Helper()
	within(t, time.Minute, fmt.Sprintf("%d pods are told", n), func() (bool, string) {
		got := w.ids()
		return len(got) == n, fmt.Sprintf("%d", len(got))
	})
}
