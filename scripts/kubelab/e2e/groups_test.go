package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	sigsyaml "sigs.k8s.io/yaml"
)

// groupNodes are the machines of a group as nodes: half used, so that two of four are one too many.
func (c *cluster) groupNodes(t *testing.T, n int) {
	t.Helper()
	size := corev1.ResourceList{"cpu": resource.MustParse("48"), "memory": resource.MustParse("192Gi"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("4")}
	for i := range n {
		name := fmt.Sprintf("asg-%d", i)
		_, err := c.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				"topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": "us-east-1a", "node.kubernetes.io/instance-type": "g5.12xlarge", "karpenter.sh/capacity-type": "on-demand",
				"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-A10G", "nvidia.com/gpu.memory": "23028", "nvidia.com/gpu.count": "4",
			}},
			Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///us-east-1a/i-%x", i)}, Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// shrunk is what the service says of a cluster's groups.
type shrunk struct {
	Actions []struct {
		ID, State, Problem string
		Before, Desired    int
		Nodes              []string
	}
}

// TestGroupShrinks: a plan lets two of four machines of an EC2 Auto Scaling group go. The agent tells their pods, is killed while they save their work,
// starts anew, and evicts them under their disruption budget; it is killed again while the second one is drained; the cloud is asked to end these two by name, and
// nothing else.
func TestGroupShrinks(t *testing.T) {
	const replicas = 8 // two on each node
	cloud := startFakecloud(t, map[string]any{"Cloud": "aws", "Name": "gpu", "Region": "us-east-1", "Zones": []string{"us-east-1a"}, "Min": 1, "Max": 10, "Desired": 4, "Running": 4, "Types": []string{"g5.12xlarge"}, "Stock": 5})
	c := startCluster(t)
	c.groupNodes(t, 4)
	s := startService(t)
	s.worker.stop()
	s.work = append(s.work, cloud.env...)
	s.startWorker(t)
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
	patch := `{"spec":{"replicas":8,"template":{"metadata":{"annotations":{"plimsoll.dev/checkpoint":"annotation","plimsoll.dev/checkpoint-seconds":"110"}},
"spec":{"terminationGracePeriodSeconds":1,"topologySpreadConstraints":[{"topologyKey":"kubernetes.io/hostname","maxSkew":1,"whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"vllm"}}}]}}}}`
	if _, err := c.kube.AppsV1().Deployments(namespace).Patch(t.Context(), workload, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitReplicas(t, time.Minute, replicas)
	two := intstr.FromInt32(2) // a plan moves no more at once, so the machines go one after the other
	if _, err := c.kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: workload},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "vllm"}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.call(t, http.MethodPut, "/clusters/"+s.cluster+"/capacity-policy", map[string]any{"version": 0, "rollout_override": "the cluster is new", "policy": map[string]any{
		"instance_types": []string{"g5.12xlarge"}, "zones": []string{"us-east-1a"}, "no_spot": true, "move_cost": "0.001", "min_age_sec": 1, "ramp_sec": 1, "max_moved_milli": 1000}}, nil)
	var account struct{ ID string }
	s.call(t, http.MethodPost, "/cloud-accounts", map[string]any{"name": "groups", "cloud": "aws", "regions": []string{"us-east-1"}, "aws": map[string]any{"role_arn": "arn:aws:iam::123456789012:role/plimsoll-groups"}}, &account)
	group := "0190b0e0-0000-7000-8000-0000000000b1"
	s.call(t, http.MethodPut, "/clusters/"+s.cluster+"/cloud-groups/"+group, map[string]any{"account_id": account.ID, "ref": "us-east-1/gpu", "region": "us-east-1", "zones": []string{"us-east-1a"},
		"instance_types": []string{"g5.12xlarge"}, "purchase": "on_demand", "min": 1, "max": 8, "step": 4, "hourly": 5, "enabled": true, "shrink": true}, nil)
	a := installAgent(t, c, m.Data["agent.yaml"], token)
	a.start(t)
	w := watchTold(t, c)
	begin := time.Now()

	cordoned := func() (out []string) {
		nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes.Items {
			if n.Spec.Unschedulable {
				out = append(out, n.Name)
			}
		}
		slices.Sort(out)
		return out
	}
	within(t, 2*time.Minute, "machines are cordoned, and their pods are told", func() (bool, string) {
		if !a.running.alive() {
			t.Fatal(a.running.tail())
		}
		going := cordoned()
		pods := 0
		for _, n := range going {
			pods += len(c.podsOn(t, n))
		}
		return len(going) > 0 && len(w.ids()) == pods && pods > 0, fmt.Sprintf("cordoned %v with %d pods, told %d", going, pods, len(w.ids()))
	})
	going, first := cordoned(), w.ids()
	if g := cloud.group(t, "gpu"); len(g.Ended) > 0 || g.Desired != 4 {
		t.Fatalf("the cloud ended %v before the pods had saved their work", g.Ended)
	}
	a.running.kill()
	a.start(t)
	w.answer(true)
	kills := 1

	// The cloud's half of the cluster: a machine that was ended is no node any more. What it was when it was ended is looked at first.
	gone := map[string]bool{}
	within(t, 4*time.Minute, "the machines are ended by name", func() (bool, string) {
		g := cloud.group(t, "gpu")
		for _, id := range g.Ended {
			name := "asg-" + strings.TrimPrefix(id, "i-")
			if gone[name] {
				continue
			}
			gone[name] = true
			n, err := c.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || !n.Spec.Unschedulable || len(c.podsOn(t, name)) > 0 {
				t.Errorf("%s was ended with %d pods: %v", name, len(c.podsOn(t, name)), err)
			}
			if err := c.kube.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
		// The second machine is drained by an agent that dies again and again, wherever it is then.
		if left := cordoned(); len(gone) == 1 && len(left) == 1 && kills < 6 {
			kills++
			a.running.kill()
			a.start(t)
		}
		return len(gone) == 2, fmt.Sprintf("ended %v, cordoned %v", g.Ended, cordoned())
	})
	took := time.Since(begin)
	c.waitReplicas(t, time.Minute, replicas)
	for pod, ids := range first {
		if again := w.ids()[pod]; !slices.Equal(ids, again) {
			t.Errorf("%s was told under %v, before the restart %v", pod, again, ids)
		}
	}
	for _, n := range going {
		if !gone[n] {
			t.Errorf("%s was drained and not ended", n)
		}
	}
	var told shrunk
	within(t, 90*time.Second, "the service has it in its books", func() (bool, string) {
		if err := s.try(http.MethodGet, "/clusters/"+s.cluster+"/cloud-groups", nil, &told); err != nil {
			return false, err.Error()
		}
		ok := len(told.Actions) > 0
		for _, x := range told.Actions {
			ok = ok && x.State == "joined"
		}
		return ok, fmt.Sprintf("%+v", told.Actions)
	})
	named := map[string]bool{}
	for _, x := range told.Actions {
		if x.Before-x.Desired != len(x.Nodes) {
			t.Errorf("an action that names other machines than it ends: %+v", x)
		}
		for _, n := range x.Nodes {
			named[n] = true
		}
	}
	g := cloud.group(t, "gpu")
	if len(named) != 2 || len(g.Ended) != 2 || g.Desired != 2 || g.Resized != 0 || len(g.Machines) != 2 || len(cordoned()) != 0 {
		t.Errorf("named %v, the cloud says %+v, cordoned %v", named, g, cordoned())
	}
	if w.away() > 2 {
		t.Errorf("%d pods were away at once: their budget allows two", w.away())
	}
	t.Logf("GROUPS 2 of 4 machines drained and ended by name %.0f s after the agent started, over %d kills of it; %d pods were being told then, never more than %d were away; the size was set %d times", took.Seconds(), kills, len(first), w.away(), g.Resized)
}
