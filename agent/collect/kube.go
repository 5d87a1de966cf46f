package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// KubeConfig says what of a cluster is seen.
type KubeConfig struct {
	Include, Exclude []string // namespaces; an empty include means all
	FieldManager     string   // our own name as a writer
	// Steered says that an autoscaler of the cluster gets its orders from here: it is no other writer then. nil: none does.
	Steered func(*autoscalingv2.HorizontalPodAutoscaler) bool
	// Dynamic reads kinds of operators, where a cluster has them; nil: none.
	Dynamic dynamic.Interface
}

// Kube is the inventory of a Kubernetes cluster, kept by watches: nodes, pods with their owners, workloads and who else
// writes their replicas. Reading it costs no call to the API server.
type Kube struct {
	cfg       KubeConfig
	factories []informers.SharedInformerFactory
	stores    map[string][]cache.Store
	synced    map[string][]cache.InformerSynced
	cancel    context.CancelFunc

	// Kinds that may be absent: lookFor starts them and ends with ctx.
	late    []*late
	settled chan struct{} // closed when it is known which of them there are
	looking sync.WaitGroup
	supply  supplyLog

	events eventLog
	// mu guards events: Collect is called from one goroutine, Close from another.
	mu sync.Mutex
}

// The kinds that are watched. Without the required ones nothing is observed; the others may be forbidden.
const (
	kindNodes, kindPods, kindDeployments, kindStatefulSets, kindReplicaSets = "nodes", "pods", "deployments", "statefulsets", "replicasets"
	kindDaemonSets, kindJobs, kindHPAs                                      = "daemonsets", "jobs", "horizontalpodautoscalers"
	kindLimits                                                              = "poddisruptionbudgets"
)

var requiredKinds = []string{kindNodes, kindPods, kindDeployments, kindStatefulSets, kindReplicaSets}

// NewKube starts the watches; they end with Close.
func NewKube(client kubernetes.Interface, cfg KubeConfig) (*Kube, error) {
	k := &Kube{cfg: cfg, stores: map[string][]cache.Store{}, synced: map[string][]cache.InformerSynced{}, events: newEventLog(), settled: make(chan struct{})}
	const resync = 0 // a watch needs none
	cluster := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(slimObject))
	k.factories = append(k.factories, cluster)
	spaces := []informers.SharedInformerFactory{cluster}
	if len(cfg.Include) > 0 {
		spaces = nil
		for _, ns := range cfg.Include {
			spaces = append(spaces, informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(ns), informers.WithTransform(slimObject)))
		}
		k.factories = append(k.factories, spaces...)
	}
	k.watch(kindNodes, cluster.Core().V1().Nodes().Informer())
	for _, f := range spaces {
		k.watch(kindPods, f.Core().V1().Pods().Informer())
		k.watch(kindDeployments, f.Apps().V1().Deployments().Informer())
		k.watch(kindStatefulSets, f.Apps().V1().StatefulSets().Informer())
		k.watch(kindReplicaSets, f.Apps().V1().ReplicaSets().Informer())
		k.watch(kindDaemonSets, f.Apps().V1().DaemonSets().Informer())
		k.watch(kindJobs, f.Batch().V1().Jobs().Informer())
		k.watch(kindHPAs, f.Autoscaling().V2().HorizontalPodAutoscalers().Informer())
	}
	k.late = k.lateKinds(client)
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	for _, f := range k.factories {
		f.Start(ctx.Done())
	}
	k.looking.Go(func() { k.lookFor(ctx, k.late) })
	return k, nil
}

func (k *Kube) watch(kind string, i cache.SharedIndexInformer) {
	k.stores[kind] = append(k.stores[kind], i.GetStore())
	k.synced[kind] = append(k.synced[kind], i.HasSynced)
}

// Close ends the watches and waits for them.
func (k *Kube) Close() {
	k.cancel()
	k.looking.Wait()
	for _, l := range k.late {
		l.stop()
	}
	for _, f := range k.factories {
		f.Shutdown()
	}
}

// Name implements Source.
func (k *Kube) Name() string { return "kubernetes" }

func (k *Kube) ready(kind string) bool {
	for _, synced := range k.synced[kind] {
		if !synced() {
			return false
		}
	}
	return true
}

// Collect implements Source. It waits for the first full read of the required kinds, and of the others that have replicas
// where the cluster has them: an inventory without them would say that they are gone.
func (k *Kube) Collect(ctx context.Context, in Input) (Batch, error) {
	for _, kind := range requiredKinds {
		if err := waitFor(ctx, kind, func() bool { return k.ready(kind) }); err != nil {
			return Batch{}, err
		}
	}
	select {
	case <-ctx.Done():
		return Batch{}, errors.New("the cluster has not said yet which kinds it has")
	case <-k.settled:
	}
	for _, l := range k.late {
		if l.synced != nil && l.started.Load() {
			if err := waitFor(ctx, l.kind, l.synced); err != nil {
				return Batch{}, err
			}
		}
	}
	v := k.view()
	b := Batch{Inventory: v.inventory(), Pods: v.sourcePods(), Workloads: v.counts()}
	k.mu.Lock()
	defer k.mu.Unlock()
	b.Events = k.events.since(v, b.Inventory, k.supply.look(v, in.NowMS), in.NowMS)
	return b, nil
}

func waitFor(ctx context.Context, kind string, read func() bool) error {
	for !read() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the first read of %s has not ended; may the agent list and watch them?", kind)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// view is one reading of the caches.
type view struct {
	nodes        []*corev1.Node
	pods         []*corev1.Pod
	deployments  []*appsv1.Deployment
	statefulSets []*appsv1.StatefulSet
	daemonSets   []*appsv1.DaemonSet
	jobs         []*batchv1.Job
	hpas         []*autoscalingv2.HorizontalPodAutoscaler
	replicaSets  map[string]*appsv1.ReplicaSet // namespace/name
	sets         map[string]*appsv1.StatefulSet
	groups       []*leaderWorkerSet
	limits       []*policyv1.PodDisruptionBudget
	limitsTold   bool                          // they could be read
	byName       map[string]*corev1.Pod        // namespace/name
	deployByName map[string]*appsv1.Deployment // namespace/name
	manager      string
	isSteered    func(*autoscalingv2.HorizontalPodAutoscaler) bool
	steered      map[string]bool // workloads whose autoscaler is
	podWorkload  map[*corev1.Pod]string
}

func (k *Kube) view() *view {
	v := &view{
		manager: k.cfg.FieldManager, isSteered: k.cfg.Steered, nodes: list[corev1.Node](k, kindNodes), pods: list[corev1.Pod](k, kindPods),
		deployments: list[appsv1.Deployment](k, kindDeployments), statefulSets: list[appsv1.StatefulSet](k, kindStatefulSets),
		daemonSets: list[appsv1.DaemonSet](k, kindDaemonSets), jobs: list[batchv1.Job](k, kindJobs),
		hpas: list[autoscalingv2.HorizontalPodAutoscaler](k, kindHPAs), replicaSets: map[string]*appsv1.ReplicaSet{},
		sets: map[string]*appsv1.StatefulSet{}, podWorkload: map[*corev1.Pod]string{}, groups: list[leaderWorkerSet](k, kindLWS),
		limits: list[policyv1.PodDisruptionBudget](k, kindLimits), limitsTold: k.reads(kindLimits),
		byName: map[string]*corev1.Pod{}, deployByName: map[string]*appsv1.Deployment{},
	}
	for _, d := range v.deployments {
		v.deployByName[d.Namespace+"/"+d.Name] = d
	}
	for _, rs := range list[appsv1.ReplicaSet](k, kindReplicaSets) {
		v.replicaSets[rs.Namespace+"/"+rs.Name] = rs
	}
	for _, s := range v.statefulSets {
		v.sets[s.Namespace+"/"+s.Name] = s
	}
	for _, p := range v.pods {
		v.byName[p.Namespace+"/"+p.Name] = p
	}
	for _, p := range v.pods {
		v.podWorkload[p] = v.owner(p)
	}
	return v
}

// object is what all kinds have in common.
type object[T any] interface {
	*T
	metav1.Object
}

// list reads the caches of a kind: allowed namespaces only, sorted by namespace and name.
func list[T any, P object[T]](k *Kube, kind string) []P {
	var out []P
	for _, store := range k.stores[kind] {
		for _, x := range store.List() {
			if o, ok := x.(P); ok && k.sees(o.GetNamespace()) {
				out = append(out, o)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].GetNamespace() != out[j].GetNamespace() {
			return out[i].GetNamespace() < out[j].GetNamespace()
		}
		return out[i].GetName() < out[j].GetName()
	})
	return out
}

func (k *Kube) sees(namespace string) bool {
	if namespace == "" {
		return true
	}
	return !slices.Contains(k.cfg.Exclude, namespace) && (len(k.cfg.Include) == 0 || slices.Contains(k.cfg.Include, namespace))
}

// maxOwners is the longest chain of owners that is followed: the worker of a LeaderWorkerSet has four, by way of its leader.
const maxOwners = 6

// owner follows the controller references of a pod to the workload that a person would scale; empty for a bare pod.
func (v *view) owner(p *corev1.Pod) string {
	ref := metav1.GetControllerOf(p)
	for depth := 0; ref != nil && depth < maxOwners; depth++ {
		var next *metav1.OwnerReference
		switch ref.Kind {
		case "Deployment":
			if d := v.deployByName[p.Namespace+"/"+ref.Name]; d != nil {
				return deploymentKey(d)
			}
		case "Pod":
			if leader := v.byName[p.Namespace+"/"+ref.Name]; leader != nil {
				next = metav1.GetControllerOf(leader)
			} else if set := p.Labels[lwsNameLabel]; set != "" { // the leader is gone already
				return workloadKey(p.Namespace, "LeaderWorkerSet", set)
			}
		case "ReplicaSet":
			if rs := v.replicaSets[p.Namespace+"/"+ref.Name]; rs != nil {
				next = metav1.GetControllerOf(rs)
			}
		case "StatefulSet":
			if s := v.sets[p.Namespace+"/"+ref.Name]; s != nil {
				next = metav1.GetControllerOf(s)
			}
		}
		if next == nil {
			return workloadKey(p.Namespace, ref.Kind, ref.Name)
		}
		ref = next
	}
	return ""
}

func workloadKey(namespace, kind, name string) string { return namespace + "/" + kind + "/" + name }

func (v *view) inventory() *agentv1.Inventory {
	inv := &agentv1.Inventory{Snapshot: true, Writers: v.writers()}
	for _, n := range v.nodes {
		inv.Nodes = append(inv.Nodes, nodeOf(n))
	}
	for _, p := range v.pods {
		inv.Pods = append(inv.Pods, podOf(p, v.podWorkload[p]))
	}
	inv.Workloads = v.workloads()
	v.place(inv)
	return inv
}

// sourcePods are the pods that can be asked for load: those that run and belong to a workload.
func (v *view) sourcePods() []Pod {
	var out []Pod
	for _, p := range v.pods {
		if v.podWorkload[p] == "" || podEnded(p) || p.DeletionTimestamp != nil {
			continue
		}
		cpu, _, _ := podRequests(&p.Spec)
		out = append(out, Pod{
			UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, IP: p.Status.PodIP, Node: p.Spec.NodeName, Workload: v.podWorkload[p],
			Labels: p.Labels, Annotations: p.Annotations, Ready: podReady(p), CPUMilli: cpu,
		})
	}
	return out
}

// counts are the replicas of each workload: asked for, ready, starting, draining.
func (v *view) counts() []*agentv1.WorkloadObservation {
	by := map[string]*agentv1.WorkloadObservation{}
	for _, w := range v.workloads() {
		by[w.GetKey()] = &agentv1.WorkloadObservation{Workload: w.GetKey(), Replicas: w.GetReplicas()}
	}
	grouped := map[string]bool{}
	for _, l := range v.groups {
		if o := by[l.key()]; o != nil {
			grouped[l.key()] = true
			v.countGroups(l, o)
		}
	}
	for _, p := range v.pods {
		o := by[v.podWorkload[p]]
		switch {
		case o == nil || podEnded(p) || grouped[v.podWorkload[p]]:
		case p.DeletionTimestamp != nil:
			o.Draining++
		case podReady(p):
			o.Ready++
		default:
			o.Starting++
		}
	}
	out := make([]*agentv1.WorkloadObservation, 0, len(by))
	for _, k := range sortedKeys(by) {
		out = append(out, by[k])
	}
	return out
}

// slimObject drops what nobody reads before it is cached: most of a cluster's memory would be managed fields and templates.
func slimObject(x any) (any, error) {
	switch o := x.(type) {
	case *corev1.Pod:
		o.ManagedFields = nil
	case *corev1.Node:
		o.ManagedFields, o.Annotations, o.Status.Images = nil, nil, nil
	case *appsv1.ReplicaSet:
		o.ManagedFields, o.Annotations = nil, nil
		o.Spec.Template = corev1.PodTemplateSpec{}
	case *appsv1.DaemonSet:
		o.ManagedFields = nil
	case *batchv1.Job:
		o.ManagedFields = nil
	case *autoscalingv2.HorizontalPodAutoscaler:
		o.ManagedFields, o.Annotations = nil, nil
	case *policyv1.PodDisruptionBudget:
		o.ManagedFields, o.Annotations = nil, nil
	case *corev1.Event:
		slimEvent(o)
	}
	return x, nil
}
