package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	namespace   = "llm"
	workload    = "qwen"
	metricsPort = 18000
	gpuNodes    = 4
	gpusPerNode = 4
)

// cluster is a real control plane whose nodes KWOK plays. Its pods have
// addresses in 127.1.0.0/16, where this process answers for them.
type cluster struct {
	kube *kubernetes.Clientset
	rest *rest.Config
	dir  string
	lab  *process
	base int // first port
	life int // how often the lab was started
}

// kwokOptions gives pods loopback addresses. A configuration file replaces
// KWOK's own defaults, hence the parallelisms.
const kwokOptions = `kind: KwokConfiguration
apiVersion: config.kwok.x-k8s.io/v1alpha1
options:
  cidr: 127.1.0.1/16
  nodeLeaseParallelism: 4
  nodePlayStageParallelism: 4
  podPlayStageParallelism: 4
`

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: filepath.Join(logsOf(t), "lab")}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	options := filepath.Join(c.dir, "kwok-options.yaml")
	if err := os.WriteFile(options, []byte(kwokOptions), 0o600); err != nil {
		t.Fatal(err)
	}
	c.base = freePorts(t, 6)
	t.Cleanup(func() { c.lab.stop() })
	c.startLab(t)
	var err error
	if c.rest, err = clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "admin.kubeconfig")); err != nil {
		t.Fatal(err)
	}
	c.rest.QPS, c.rest.Burst = 100, 200
	if c.kube, err = kubernetes.NewForConfig(c.rest); err != nil {
		t.Fatal(err)
	}
	return c
}

// startLab starts the control plane on its directory: what was there before is
// there again.
func (c *cluster) startLab(t *testing.T) {
	t.Helper()
	c.life++
	name := "kubelab"
	if c.life > 1 {
		name = fmt.Sprintf("kubelab-%d", c.life)
	}
	lab := launch(t, name, exec.Command(kubelabBin, "up", "-dir", c.dir, "-base-port", fmt.Sprint(c.base), "-kwok-config", filepath.Join(c.dir, "kwok-options.yaml")))
	c.lab = lab
	within(t, 3*time.Minute, "control plane", func() (bool, string) {
		if !lab.alive() {
			t.Fatal(lab.tail())
		}
		b, err := os.ReadFile(filepath.Join(c.dir, "ready"))
		return err == nil, strings.TrimSpace(string(b))
	})
}

// addNodes adds GPU nodes as a cloud would label them, and waits until they are Ready.
func (c *cluster) addNodes(t *testing.T) {
	t.Helper()
	zones := []string{"us-east-1a", "us-east-1b"}
	size := corev1.ResourceList{
		"cpu": resource.MustParse("48"), "memory": resource.MustParse("192Gi"), "pods": resource.MustParse("110"),
		"nvidia.com/gpu": resource.MustParse(fmt.Sprint(gpusPerNode)),
	}
	for i := range gpuNodes {
		name, zone := fmt.Sprintf("gpu-%d", i), zones[i%len(zones)]
		_, err := c.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				"topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": zone,
				"node.kubernetes.io/instance-type": "g5.12xlarge", "karpenter.sh/capacity-type": "on-demand",
				"karpenter.sh/nodepool": "gpu", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-A10G", "nvidia.com/gpu.memory": "23028", "nvidia.com/gpu.count": fmt.Sprint(gpusPerNode),
			}},
			Spec:   corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///%s/i-%017x", zone, i)},
			Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	within(t, time.Minute, "GPU nodes", func() (bool, string) {
		nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		ready := 0
		for _, n := range nodes.Items {
			for _, condition := range n.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
					ready++
				}
			}
		}
		return ready == gpuNodes, fmt.Sprintf("%d of %d ready", ready, gpuNodes)
	})
}

// deploy makes the workload: pods with one GPU each that serve vLLM's metrics.
func (c *cluster) deploy(t *testing.T, replicas int32) {
	t.Helper()
	c.namespace(t, namespace, nil)
	labels := map[string]string{"app": "vllm", "team": "search"}
	_, err := c.kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: workload, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "vllm", Image: "vllm/vllm-openai:v0.11.0",
					Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: metricsPort}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromString("http")}}},
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "nvidia.com/gpu": resource.MustParse("1")},
						Limits:   corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
					},
				}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.waitReplicas(t, time.Minute, replicas)
}

func (c *cluster) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	return c.kube.AppsV1().Deployments(namespace).Get(ctx, workload, metav1.GetOptions{})
}

// waitReplicas waits until the Deployment asks for n replicas and has them ready.
func (c *cluster) waitReplicas(t *testing.T, d time.Duration, n int32) time.Duration {
	t.Helper()
	return within(t, d, fmt.Sprintf("%d replicas ready", n), func() (bool, string) {
		dep, err := c.deployment(t.Context())
		if err != nil {
			return false, err.Error()
		}
		return *dep.Spec.Replicas == n && dep.Status.ReadyReplicas == n && dep.Status.Replicas == n,
			fmt.Sprintf("wants %d, has %d, ready %d", *dep.Spec.Replicas, dep.Status.Replicas, dep.Status.ReadyReplicas)
	})
}

// changed says whether the Deployment asks for another number than n. A write
// of the same number does not count; a write and its reverse between two looks
// does, because each raises the generation.
func (c *cluster) changed(t *testing.T, n int32) func() (bool, string) {
	t.Helper()
	first, err := c.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func() (bool, string) {
		dep, err := c.deployment(t.Context())
		if err != nil {
			return false, err.Error()
		}
		return *dep.Spec.Replicas != n || dep.Generation != first.Generation,
			fmt.Sprintf("replicas %d, generation %d (was %d)", *dep.Spec.Replicas, dep.Generation, first.Generation)
	}
}

// kubeconfigFor writes a kubeconfig with a bound token of a service account.
func (c *cluster) kubeconfigFor(t *testing.T, ns, account string) string {
	t.Helper()
	token, err := c.kube.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), account, &authv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.dir, ns+"."+account+".kubeconfig")
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: agent, user: {token: %s}}]
contexts: [{name: lab, context: {cluster: lab, user: agent}}]
current-context: lab
`, c.rest.Host, base64.StdEncoding.EncodeToString(c.rest.CAData), token.Status.Token)
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// load plays the pods' servers: each running pod answers on its own address
// with its share of the load, as vLLM would.
type load struct {
	mu      sync.Mutex
	waiting float64                 // of the whole workload
	running float64                 // of the whole workload
	silent  bool                    // the pods do not answer
	pods    int                     // that run; two may have one address: KWOK forgets those it gave when it starts again
	servers map[string]*http.Server // by pod address
}

// serveLoad starts and ends a server for each pod of the workload as they come and go.
func serveLoad(t *testing.T, c *cluster) *load {
	t.Helper()
	l := &load{servers: map[string]*http.Server{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			l.follow(ctx, c)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; l.follow(context.Background(), nil) })
	return l
}

func (l *load) set(waiting, running float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting, l.running = waiting, running
}

func (l *load) setSilent(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
}

// follow makes the servers match the running pods; without a cluster it ends them all.
func (l *load) follow(ctx context.Context, c *cluster) {
	want, running := map[string]bool{}, 0
	if c != nil {
		pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=vllm"})
		if err != nil {
			return
		}
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && p.Status.PodIP != "" {
				want[p.Status.PodIP] = true
				running++
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods = running
	for ip, s := range l.servers {
		if !want[ip] {
			_ = s.Close()
			delete(l.servers, ip)
		}
	}
	for ip := range want {
		if l.servers[ip] == nil {
			listener, err := net.Listen("tcp", net.JoinHostPort(ip, fmt.Sprint(metricsPort)))
			if err != nil {
				continue // tried again at the next look
			}
			s := &http.Server{Handler: l, ReadHeaderTimeout: time.Second}
			l.servers[ip] = s
			go func() { _ = s.Serve(listener) }()
		}
	}
}

func (l *load) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	waiting, running, silent := l.waiting, l.running, l.silent
	pods := float64(max(l.pods, 1))
	l.mu.Unlock()
	if silent {
		http.Error(w, "no answer", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, `# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="qwen"} %g
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="qwen"} %g
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="qwen"} 0.4
`, waiting/pods, running/pods)
}
