package collect

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	maxPodResources = 4 << 20 // bytes of the kubelet's answer
	podResourceTime = 3 * time.Second
	nodePodsEvery   = 30 * time.Second // pods of the node are listed no more often
	maxNodePods     = 2000
)

// PodRef names a pod.
type PodRef struct{ Namespace, Name string }

// NodePods is the first source of the node role: which pods run on the node, and which of them holds which GPU. What does not
// answer leaves the GPUs without workloads, and is logged when it begins.
type NodePods struct {
	node   string
	client kubernetes.Interface
	conn   *grpc.ClientConn
	lister podresources.PodResourcesListerClient
	log    *slog.Logger

	// Only the collector's goroutine.
	pods   []Pod
	readAt time.Time
	failed string
	table  migTable
	mig    map[string]migInstance // by UUID, as last read
	migAt  time.Time
}

// NewNodePods reads the kubelet through its socket, and the pods of the node through the API server.
func NewNodePods(node, socket string, client kubernetes.Interface, log *slog.Logger) (*NodePods, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), // a socket of this machine
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxPodResources)))
	if err != nil {
		return nil, fmt.Errorf("kubelet's pod resources: %w", err)
	}
	return &NodePods{node: node, client: client, conn: conn, lister: podresources.NewPodResourcesListerClient(conn), log: log, table: nvidiaSMI}, nil
}

// Close ends the connection.
func (n *NodePods) Close() { _ = n.conn.Close() }

// Name implements Source.
func (n *NodePods) Name() string { return "pod_resources" }

// Collect implements Source. It never fails: GPUs are read without it too.
func (n *NodePods) Collect(ctx context.Context, in Input) (Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, podResourceTime)
	defer cancel()
	b := Batch{}
	held, err := n.ask(ctx)
	if err == nil {
		b.Devices, b.Loose, b.Holdings = devicesOf(held), loose(held), report(n.node, held, in.NowMS)
		err = n.list(ctx)
	}
	n.note(err)
	b.Pods = n.pods
	return b, nil
}

func (n *NodePods) note(err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	if (said == "") != (n.failed == "") {
		n.log.Warn("GPUs and workloads are joined", "ok", err == nil, "error", said)
	}
	n.failed = said
}

// ask reads which container holds which GPU or part of one, and finds MIG instances by the driver's word.
func (n *NodePods) ask(ctx context.Context) ([]holding, error) {
	r, err := n.lister.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("kubelet's pod resources: %w", err)
	}
	all, unknown := holdingsOf(r, n.mig)
	if unknown && time.Since(n.migAt) >= smiEvery {
		n.migAt = time.Now()
		if table, err := n.table(ctx); err == nil {
			n.mig = table
			all, _ = holdingsOf(r, n.mig)
		}
	}
	return sharesInTurn(all), nil
}

func isGPUResource(name string) bool {
	for _, r := range gpuResources {
		if string(r) == name {
			return true
		}
	}
	return migSlices(corev1.ResourceName(name)) > 0
}

// list reads the pods of this node, from time to time.
func (n *NodePods) list(ctx context.Context) error {
	if time.Since(n.readAt) < nodePodsEvery {
		return nil
	}
	l, err := n.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.node, Limit: maxNodePods})
	if err != nil {
		return fmt.Errorf("pods of the node: %w", err)
	}
	n.pods, n.readAt = nil, time.Now()
	for i := range l.Items {
		p := &l.Items[i]
		if w := podOwner(p); w != "" && !podEnded(p) && p.Spec.NodeName == n.node {
			n.pods = append(n.pods, Pod{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Node: n.node, Workload: w, Ready: podReady(p)})
		}
	}
	return nil
}

// podOwner is the workload of a pod by what the pod itself says. A Deployment names its ReplicaSets by the hash that it also
// puts on their pods as a label, so its own name is what is before it.
func podOwner(p *corev1.Pod) string {
	ref := metav1.GetControllerOf(p)
	if ref == nil {
		return ""
	}
	if set := p.Labels[lwsNameLabel]; set != "" {
		return workloadKey(p.Namespace, "LeaderWorkerSet", set)
	}
	if hash := p.Labels["pod-template-hash"]; ref.Kind == "ReplicaSet" && hash != "" {
		if name, ok := strings.CutSuffix(ref.Name, "-"+hash); ok {
			return workloadKey(p.Namespace, "Deployment", name)
		}
	}
	return workloadKey(p.Namespace, ref.Kind, ref.Name)
}

// join names the pods of the readings by what the kubelet says. MIG instances that nobody can tell by number keep what the exporter
// says of them; where that is nothing, the one holder of a profile has the one reading of that profile.
func join(readings []gpuReading, in Input) {
	if in.Devices == nil {
		return
	}
	left := map[string][]*gpuReading{}
	for i := range readings {
		r := &readings[i]
		p, ok := in.Devices[r.Entity]
		switch {
		case ok:
			r.Namespace, r.Pod = p.Namespace, p.Name
		case !strings.Contains(r.Entity, "/gi/"):
			r.Namespace, r.Pod = "", ""
		case r.Profile != "":
			left[r.Profile] = append(left[r.Profile], r)
		}
	}
	for profile, holders := range in.Loose {
		if rs := left[profile]; len(holders) == 1 && len(rs) == 1 {
			rs[0].Namespace, rs[0].Pod = holders[0].Namespace, holders[0].Name
		}
	}
}

// nodeValues are the ratios of workloads as bulk telemetry: means over this node's GPUs. Totals are left out, because those of
// several nodes are averaged and not added.
func nodeValues(ws []Value) []Value {
	var out []Value
	for _, v := range ws {
		if strings.HasSuffix(v.Field, "_ratio") {
			out = append(out, v)
		}
	}
	return out
}
