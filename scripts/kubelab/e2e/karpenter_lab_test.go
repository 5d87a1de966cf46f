package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/client-go/kubernetes"
)

var (
	nodePools    = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	nodeClaims   = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	nodeOverlays = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1alpha1", Resource: "nodeoverlays"}
)

// karpenterLab is a control plane with a real Karpenter whose cloud sells the
// offers of a catalogue.
type karpenterLab struct {
	*cluster
	name      string
	offers    []offer
	objects   dynamic.Interface
	karpenter *process
	market    string // file of what has run out
	catalogue string
	listed    string // what Karpenter takes the offers to cost
	agent     string // configuration file
	lost      string // zone whose machines are as good as gone
	moveCost  string
	scheduler string             // of all pods; empty: the packing one
	replicas  map[string]replica // by Deployment
	gen       uint64
	said      string // by the planner, of the newest plan
}

func startKarpenterLab(t *testing.T, name string, offers []offer) *karpenterLab {
	t.Helper()
	dir := filepath.Join(logsOf(t), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l := &karpenterLab{cluster: &cluster{dir: dir}, name: name, offers: offers, replicas: map[string]replica{},
		market: filepath.Join(dir, "market.json"), catalogue: filepath.Join(dir, "catalogue.csv"), listed: filepath.Join(dir, "listed.csv")}
	// No test of the lab is about silent nodes, and with hundreds of them on a
	// busy machine KWOK may be late to speak for all.
	lab := start(t, "kubelab-"+name, exec.Command(kubelabBin, "up", "-dir", dir, "-base-port", fmt.Sprint(freePorts(t, 6)), "-node-monitor-grace-period", "5m"))
	within(t, 3*time.Minute, "control plane", func() (bool, string) {
		if !lab.alive() {
			t.Fatal(lab.tail())
		}
		b, err := os.ReadFile(filepath.Join(dir, "ready"))
		return err == nil, strings.TrimSpace(string(b))
	})
	var err error
	if l.rest, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig")); err != nil {
		t.Fatal(err)
	}
	l.rest.QPS, l.rest.Burst = 200, 400
	if l.kube, err = kubernetes.NewForConfig(l.rest); err != nil {
		t.Fatal(err)
	}
	if l.objects, err = dynamic.NewForConfig(l.rest); err != nil {
		t.Fatal(err)
	}
	types := filepath.Join(dir, "types.json")
	writeInstanceTypes(t, types, offers)
	writeCatalogue(t, l.catalogue, offers)
	writeCatalogue(t, l.listed, offers)
	l.dryUp(t)
	crds, err := exec.Command(kubelabBin, "karpenter-crds").Output()
	if err != nil {
		t.Fatal(err)
	}
	l.apply(t, string(crds))
	l.namespace(t, "karpenter", nil)
	l.namespace(t, namespace, nil)
	health := freePort(t)
	l.karpenter = start(t, "karpenter-"+name, exec.Command(kubelabBin, "karpenter", "--disable-leader-election=true",
		fmt.Sprintf("--metrics-port=%d", freePort(t)), fmt.Sprintf("--health-probe-port=%d", health)),
		"KUBECONFIG="+filepath.Join(dir, "admin.kubeconfig"), "SYSTEM_NAMESPACE=karpenter", "INSTANCE_TYPES_FILE_PATH="+types,
		"FEATURE_GATES=NodeOverlay=true,ReservedCapacity=true", "KUBELAB_MARKET="+l.market)
	within(t, time.Minute, "Karpenter ready", func() (bool, string) {
		if !l.karpenter.alive() {
			t.Fatal(l.karpenter.tail())
		}
		return get(fmt.Sprintf("http://127.0.0.1:%d/readyz", health))
	})
	l.apply(t, "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: default}\nspec: {nodeRegistrationDelay: 2s}\n")
	l.startPackingScheduler(t)
	l.apply(t, precedence)
	l.agent = filepath.Join(dir, "agent.yaml")
	l.writeAgent(t, "")
	return l
}

// packingScheduler fills machines instead of spreading over them, as clusters
// with GPUs set it up. Spreading, the default, takes room on machines that
// Karpenter bought for other pods. A pod that had no room is tried again after
// a second, not after up to ten: a machine with eight GPUs becomes ready in
// steps, each of which its pod tries in vain, and while that pod waits eight
// small ones take the machine.
const packingScheduler = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 200, burst: 400}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles:
- schedulerName: packing
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}, {name: nvidia.com/gpu, weight: 4}]
`

// precedence lets pods that few machines can take be placed before pods that
// fit anywhere: those that want a whole machine, then those that name their
// GPU models. Nothing is preempted. All pods of the lab have it, whoever
// steers; without it what was bought for them is taken by others first.
const precedence = `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: whole-machine}
value: 2000
preemptionPolicy: Never
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gpu-model}
value: 1000
preemptionPolicy: Never
`

func (p *replica) precedence() string {
	switch {
	case p.gpus >= 4:
		return "whole-machine"
	case len(p.models) > 0:
		return "gpu-model"
	}
	return ""
}

// startPackingScheduler runs it beside the default one; all pods of the lab
// use it, whoever steers.
func (l *karpenterLab) startPackingScheduler(t *testing.T) {
	t.Helper()
	file, port := filepath.Join(l.dir, "packing-scheduler.yaml"), freePort(t)
	kubeconfig := filepath.Join(l.dir, "admin.kubeconfig")
	if err := os.WriteFile(file, fmt.Appendf(nil, packingScheduler, kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "scheduler-"+l.name, exec.Command(kubelabBin, "kube-scheduler", "--config="+file, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig, "--cert-dir="+filepath.Join(l.dir, "scheduler-certs")))
	time.Sleep(time.Second)
	if !p.alive() {
		t.Fatal(p.tail())
	}
}

// writeAgent writes the agent's configuration; own names NodePools of others.
func (l *karpenterLab) writeAgent(t *testing.T, own string) {
	t.Helper()
	config := fmt.Sprintf("endpoint: http://127.0.0.1:1\nstateDir: %s\nmode: enforce\nsources: {kubernetes: {enabled: true, kubeconfig: %s}}\nautoscalers: {karpenter: {enabled: true, own: [%s]}}\n",
		filepath.Join(l.dir, "agent"), filepath.Join(l.dir, "admin.kubeconfig"), own)
	if err := os.WriteFile(l.agent, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dry is an offering that has run out, as the lab's market file says it.
type dry struct {
	InstanceType string `json:"InstanceType,omitempty"`
	Zone         string `json:"Zone,omitempty"`
	CapacityType string `json:"CapacityType,omitempty"`
	Hidden       bool   `json:"Hidden,omitempty"`
}

func (l *karpenterLab) dryUp(t *testing.T, out ...dry) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"dry": out})
	if err == nil {
		err = os.WriteFile(l.market+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(l.market+".new", l.market)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// demand makes one Deployment for each shape of pods, with a PDB that lets one
// pod in four be away. pinned adds what hand-tuned workloads say: Spot only
// where Spot is allowed.
func (l *karpenterLab) demand(t *testing.T, pods []replica, pinned bool) {
	t.Helper()
	shapes := map[string]int32{}
	of := map[string]replica{}
	for _, p := range pods {
		name := p.name
		p.name = ""
		key := fmt.Sprint(p)
		if of[key].name == "" {
			p.name = "w-" + strings.ToLower(name)
			of[key] = p
		}
		shapes[key]++
	}
	for _, key := range slices.Sorted(maps.Keys(shapes)) {
		l.deployShape(t, of[key], shapes[key], pinned)
	}
	within(t, time.Minute, "pods exist", func() (bool, string) {
		all := l.pods(t)
		return len(all) == len(pods), fmt.Sprintf("%d of %d", len(all), len(pods))
	})
}

func (l *karpenterLab) deployShape(t *testing.T, p replica, n int32, pinned bool) {
	t.Helper()
	var terms []corev1.NodeSelectorRequirement
	in := func(key string, values ...string) {
		terms = append(terms, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
	}
	if len(p.models) > 0 {
		in(gpuNameLabel, p.models...)
	}
	switch {
	case !p.spot:
		in("karpenter.sh/capacity-type", "on-demand", "reserved")
	case pinned:
		in("karpenter.sh/capacity-type", "spot")
	}
	requests := corev1.ResourceList{"cpu": *resource.NewMilliQuantity(p.cpu, resource.DecimalSI), "memory": *resource.NewQuantity(p.mem<<20, resource.BinarySI)}
	limits := corev1.ResourceList{}
	scheduler := l.scheduler
	if scheduler == "" {
		scheduler = "packing"
	}
	spec := corev1.PodSpec{SchedulerName: scheduler, PriorityClassName: p.precedence(), TerminationGracePeriodSeconds: new(int64)}
	*spec.TerminationGracePeriodSeconds = 1
	if p.gpus > 0 {
		requests["nvidia.com/gpu"] = *resource.NewQuantity(p.gpus, resource.DecimalSI)
		limits["nvidia.com/gpu"] = requests["nvidia.com/gpu"]
		spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	}
	if terms != nil {
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: terms}}}}}
	}
	spec.Containers = []corev1.Container{{Name: "main", Image: "example.test/replica:1", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}
	labels := map[string]string{"app": p.name, "lab": "mix"}
	_, err := l.kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: labels},
		Spec: appsv1.DeploymentSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	away := intstr.FromString("25%")
	_, err = l.kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: labels},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &away, Selector: &metav1.LabelSelector{MatchLabels: labels}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.replicas[p.name] = p
}

func (l *karpenterLab) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	list, err := l.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "lab=mix", ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func (l *karpenterLab) nodes(t *testing.T) []corev1.Node {
	t.Helper()
	list, err := l.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// running counts the pods that run.
func (l *karpenterLab) running(t *testing.T) (running, all int) {
	t.Helper()
	pods := l.pods(t)
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				running++
			}
		}
	}
	return running, len(pods)
}

func (l *karpenterLab) allRun(t *testing.T, d time.Duration, n int) time.Duration {
	t.Helper()
	return within(t, d, fmt.Sprintf("%s: all pods run", l.name), func() (bool, string) {
		if !l.karpenter.alive() {
			t.Fatal(l.karpenter.tail())
		}
		running, all := l.running(t)
		cost, machines := l.cost(t)
		return running == n && all == n, fmt.Sprintf("%d of %d on %d machines for $%.2f/h", running, n, machines, cost)
	})
}

// offerOf finds what a node is.
func (l *karpenterLab) offerOf(labels map[string]string) *offer {
	for i := range l.offers {
		o := &l.offers[i]
		if o.name == labels["node.kubernetes.io/instance-type"] && o.zone == labels["topology.kubernetes.io/zone"] && o.way == labels["karpenter.sh/capacity-type"] && o.reservation == labels[reservationLabel] {
			return o
		}
	}
	return nil
}

// cost is what all machines together cost per hour, at the market's prices.
func (l *karpenterLab) cost(t *testing.T) (perHour float64, machines int) {
	t.Helper()
	for _, n := range l.nodes(t) {
		o := l.offerOf(n.Labels)
		if o == nil {
			t.Fatalf("node %s is of no offer: %v", n.Name, n.Labels)
		}
		perHour += o.price
		machines++
	}
	return perHour, machines
}

// state writes pods and machines as the planner reads them.
func (l *karpenterLab) state(t *testing.T, out []dry) (pods, state string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("name,cpu_milli,mem_mib,gpu_count,gpu_milli,gpu_models,spot_ok,where\n")
	on := map[string][]string{}
	for _, p := range l.pods(t) {
		r := l.replicas[p.Labels["app"]]
		milli, spot, where := 0, 0, ""
		if r.gpus > 0 {
			milli = 1000
		}
		if r.spot {
			spot = 1
		}
		if terms := p.Spec.Affinity; terms != nil {
			for _, e := range terms.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions {
				if e.Key == "karpenter.sh/capacity-type" && slices.Equal(e.Values, []string{"spot"}) {
					where = "capacity_type=spot"
				}
			}
		}
		fmt.Fprintf(&b, "%s,%d,%d,%d,%d,%s,%d,%s\n", p.Name, r.cpu, r.mem, r.gpus, milli, strings.Join(r.models, "|"), spot, where)
		if p.Spec.NodeName != "" {
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p.Name)
		}
	}
	type machine struct {
		Name         string   `json:"name"`
		Pool         string   `json:"pool"`
		InstanceType string   `json:"instance_type"`
		Zone         string   `json:"zone"`
		CapacityType string   `json:"capacity_type"`
		Reservation  string   `json:"reservation_id"`
		Pods         []string `json:"pods"`
	}
	var st struct {
		Machines []machine           `json:"machines"`
		Pools    []string            `json:"pools"`
		Overlays []string            `json:"overlays"`
		Dry      []map[string]string `json:"dry"`
	}
	for _, n := range l.nodes(t) {
		if n.DeletionTimestamp == nil && (l.lost == "" || l.lost != n.Labels["topology.kubernetes.io/zone"]) {
			st.Machines = append(st.Machines, machine{n.Name, n.Labels["karpenter.sh/nodepool"], n.Labels["node.kubernetes.io/instance-type"], n.Labels["topology.kubernetes.io/zone"], n.Labels["karpenter.sh/capacity-type"], n.Labels[reservationLabel], on[n.Name]})
		}
	}
	st.Pools, st.Overlays = l.names(t, nodePools), l.names(t, nodeOverlays)
	for _, d := range out {
		st.Dry = append(st.Dry, map[string]string{"instance_type": d.InstanceType, "zone": d.Zone, "capacity_type": d.CapacityType})
	}
	j, err := json.Marshal(st)
	pods, state = filepath.Join(l.dir, "pods.csv"), filepath.Join(l.dir, "state.json")
	if err == nil {
		err = os.WriteFile(state, j, 0o600)
	}
	if err == nil {
		err = os.WriteFile(pods, []byte(b.String()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pods, state
}

// names lists the objects that the agent manages.
func (l *karpenterLab) names(t *testing.T, what schema.GroupVersionResource) []string {
	t.Helper()
	var out []string
	for _, u := range l.list(t, what, "plimsoll.dev/managed=true") {
		out = append(out, u.GetName())
	}
	return out
}

func (l *karpenterLab) list(t *testing.T, what schema.GroupVersionResource, selector string) []unstructured.Unstructured {
	t.Helper()
	list, err := l.objects.Resource(what).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// plan asks the product for the plan that fits what is there now.
func (l *karpenterLab) plan(t *testing.T, out ...dry) string {
	t.Helper()
	l.gen++
	pods, state := l.state(t, out)
	file := filepath.Join(l.dir, fmt.Sprintf("plan-%d.json", l.gen))
	var stderr bytes.Buffer
	moving := l.moveCost
	if moving == "" {
		moving = "0.05"
	}
	cmd := exec.Command(serviceBin, "karpenter", "-move-cost", moving, "-pods", pods, "-catalog", l.catalogue, "-listed", l.listed, "-state", state, "-class", "karpenter.kwok.sh/KWOKNodeClass/default",
		"-generation", fmt.Sprint(l.gen), "-reservation-key", reservationLabel, "-empty-after", "5s")
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("plan: %v: %s", err, stderr.String())
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	l.said = strings.TrimSpace(stderr.String())
	t.Logf("plan %d: %s", l.gen, l.said)
	return file
}

// outcome is what the agent says about an action.
type outcome struct {
	ActionID   string   `json:"actionId"`
	PlanID     string   `json:"planId"`
	Outcome    string   `json:"outcome"`
	ErrorCode  string   `json:"errorCode"`
	Error      string   `json:"error"`
	BeforeSpec string   `json:"beforeSpec"`
	AfterSpec  string   `json:"afterSpec"`
	Writers    []string `json:"writers"`
}

// carryOut lets the agent apply a plan, and returns how each action ended.
func (l *karpenterLab) carryOut(t *testing.T, plan string) []outcome {
	t.Helper()
	cmd := exec.Command(agentBin, "-config", l.agent, "-apply", plan)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run() // an action that was not carried out is told by the results
	out := results(t, stdout.Bytes())
	if err != nil && len(out) == 0 {
		t.Fatalf("apply %s: %v: %s", plan, err, stderr.String())
	}
	count := map[string]int{}
	for _, r := range out {
		count[r.Outcome]++
	}
	t.Logf("agent: %s: %v", filepath.Base(plan), count)
	return out
}

func results(t *testing.T, b []byte) []outcome {
	t.Helper()
	var out []outcome
	for line := range bytes.Lines(b) {
		var r outcome
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, r)
	}
	return out
}

// cpuSeconds is what a process has used.
func cpuSeconds(p *process) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	var user, system float64
	if len(f) < 13 {
		return 0
	}
	fmt.Sscan(f[11], &user)
	fmt.Sscan(f[12], &system)
	return (user + system) / 100
}
