package collect

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	probeTime  = 10 * time.Second
	probeAgain = 5 * time.Minute // for what a cluster has not, or does not show us
	probeRetry = time.Second     // for what did not answer
	probeMost  = 30 * time.Second
)

var (
	resourceLWS   = schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}
	resourceClaim = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
)

// supplyEvents are the events that can tell of supply. Those of pods are the flood of a cluster, so only two reasons of them
// are asked for.
var supplyEvents = []string{
	"involvedObject.kind!=Pod,involvedObject.kind!=ReplicaSet,involvedObject.kind!=Deployment,involvedObject.kind!=StatefulSet,involvedObject.kind!=Job," +
		"involvedObject.kind!=HorizontalPodAutoscaler,involvedObject.kind!=PersistentVolumeClaim,involvedObject.kind!=Lease",
	"involvedObject.kind=Pod,reason=FailedScaleUp",
	"involvedObject.kind=Pod,reason=NotTriggerScaleUp",
}

// late is a kind that a cluster may not have or not show: it is asked for first, and watched from when it answers.
type late struct {
	kind  string
	probe func(context.Context) error
	// start begins the watches, stop waits for their end. Both are called once at most, by lookFor and then by Close.
	start func(stop <-chan struct{})
	stop  func()
	// synced is that of a kind with replicas; nil: nobody waits for it.
	synced  cache.InformerSynced
	started atomic.Bool
}

// lateKinds prepares the kinds that may be absent; nothing runs yet.
func (k *Kube) lateKinds(client kubernetes.Interface) []*late {
	var out []*late
	for _, selector := range supplyEvents {
		one := func(o *metav1.ListOptions) { o.FieldSelector = selector }
		f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(one), informers.WithTransform(slimObject))
		i := f.Core().V1().Events().Informer()
		k.hear(i, func(x any) {
			if e, ok := x.(*corev1.Event); ok {
				k.supply.event(e)
			}
		})
		out = append(out, &late{kind: "events", start: f.Start, stop: f.Shutdown, probe: func(ctx context.Context) error {
			_, err := client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1, FieldSelector: selector})
			return err
		}})
	}
	spaces := k.cfg.Include
	if len(spaces) == 0 {
		spaces = []string{metav1.NamespaceAll}
	}
	for _, ns := range spaces {
		f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(ns), informers.WithTransform(slimObject))
		i := f.Policy().V1().PodDisruptionBudgets().Informer()
		k.stores[kindLimits] = append(k.stores[kindLimits], i.GetStore())
		out = append(out, &late{kind: kindLimits, start: f.Start, stop: f.Shutdown, synced: i.HasSynced, probe: func(ctx context.Context) error {
			_, err := client.PolicyV1().PodDisruptionBudgets(ns).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		}})
	}
	if k.cfg.Dynamic == nil {
		return out
	}
	for _, ns := range spaces {
		l, i := lateResource(k.cfg.Dynamic, kindLWS, resourceLWS, ns, lwsObject)
		l.synced = i.HasSynced
		k.stores[kindLWS] = append(k.stores[kindLWS], i.GetStore())
		out = append(out, l)
	}
	l, i := lateResource(k.cfg.Dynamic, "nodeclaims", resourceClaim, metav1.NamespaceAll, claimObject)
	k.hear(i, func(x any) {
		if c, ok := x.(*nodeClaim); ok {
			k.supply.claim(c)
		}
	})
	return append(out, l)
}

// reads tells whether all of a kind that may be absent could be read.
func (k *Kube) reads(kind string) bool {
	n := 0
	for _, l := range k.late {
		if l.kind != kind {
			continue
		}
		if !l.started.Load() || l.synced == nil || !l.synced() {
			return false
		}
		n++
	}
	return n > 0
}

func lateResource(client dynamic.Interface, kind string, r schema.GroupVersionResource, ns string, slim cache.TransformFunc) (*late, cache.SharedIndexInformer) {
	f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, ns, nil)
	i := f.ForResource(r).Informer()
	_ = i.SetTransform(slim) // fails for a running informer only
	return &late{kind: kind, start: f.Start, stop: f.Shutdown, probe: func(ctx context.Context) error {
		_, err := client.Resource(r).Namespace(ns).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	}}, i
}

// hear calls f for every object that appears or changes.
func (k *Kube) hear(i cache.SharedIndexInformer, f func(any)) {
	_, _ = i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: f, UpdateFunc: func(_, now any) { f(now) }}) // fails for a stopped informer only
}

// lookFor starts the watches of what the cluster has, until ctx ends: an operator may be installed later. When everything has
// given an answer once, be it no, it closes settled.
func (k *Kube) lookFor(ctx context.Context, kinds []*late) {
	answered, pause := false, probeRetry
	for {
		silent := false
		var absent []*late
		for _, l := range kinds {
			switch err := ask(ctx, l); {
			case err == nil:
				l.start(ctx.Done())
				l.started.Store(true)
				continue
			case !isAbsent(err):
				silent = true
			}
			absent = append(absent, l)
		}
		if kinds = absent; !silent && !answered {
			answered = true
			close(k.settled)
		}
		if len(kinds) == 0 {
			return
		}
		if pause = min(2*pause, probeMost); !silent {
			pause = probeAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func ask(ctx context.Context, l *late) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return l.probe(ctx)
}

func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || meta.IsNoMatchError(err)
}
