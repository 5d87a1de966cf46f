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
}

// NewNodePods reads the kubelet through its socket, and the pods of the node through the API server.
func NewNodePods(node, socket string, client kubernetes.Interface, log *slog.Logger) (*NodePods, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), // a socket of this machine
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxPodResources)))
	if err != nil {
		return nil, fmt.Errorf("kubelet's pod resources: %w", err)
	}
	return &NodePods{node: node, client: client, conn: conn, lister: podresources.NewPodResourcesListerClient(conn), log: log}, nil
}

// Close ends the connection.
func (n *NodePods) Close() { _ = n.conn.Close() }

// Name implements Source.
func (n *NodePods) Name() string { return "pod_resources" }

// Collect implements Source. It never fails: GPUs are read without it too.
func (n *NodePods) Collect(ctx context.Context, _ Input) (Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, podResourceTime)
	defer cancel()
	devices, err := n.devices(ctx)
	if err == nil {
		err = n.list(ctx)
	}
	n.note(err)
	return Batch{Pods: n.pods, Devices: devices}, nil
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

// devices asks the kubelet which pod holds which GPU or MIG instance, by the UUID that the device plugin gave it.
func (n *NodePods) devices(ctx context.Context) (map[string]PodRef, error) {
	r, err := n.lister.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("kubelet's pod resources: %w", err)
	}
	out := map[string]PodRef{}
	for _, p := range r.GetPodResources() {
		for _, c := range p.GetContainers() {
			for _, d := range c.GetDevices() {
				if !isGPUResource(d.GetResourceName()) {
					continue
				}
				for _, id := range d.GetDeviceIds() {
					id, _, shared := strings.Cut(migEntity(id), "::") // the plugin numbers the shares of a GPU that several pods use in turn
					if other, taken := out[id]; shared && taken && other != (PodRef{p.GetNamespace(), p.GetName()}) {
						out[id] = PodRef{} // of several nobody can say who does what
						continue
					}
					out[id] = PodRef{p.GetNamespace(), p.GetName()}
				}
			}
		}
	}
	return out, nil
}

// migEntity names a MIG instance by GPU and number, where the older form of its name says them: "MIG-GPU-aaaa/3/0".
func migEntity(id string) string {
	if parts := strings.Split(id, "/"); len(parts) == 3 && strings.HasPrefix(id, "MIG-GPU-") {
		return strings.TrimPrefix(parts[0], "MIG-") + "/gi/" + parts[1]
	}
	return id
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

// join names the pods of the readings by what the kubelet says. A MIG instance that is known by its GPU and number only, keeps
// what the exporter says of it.
func join(readings []gpuReading, devices map[string]PodRef) {
	if devices == nil {
		return
	}
	for i := range readings {
		r := &readings[i]
		if p, ok := devices[r.Entity]; ok {
			r.Namespace, r.Pod = p.Namespace, p.Name
		} else if !strings.Contains(r.Entity, "/gi/") {
			r.Namespace, r.Pod = "", ""
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
