package act

import (
	"context"
	"fmt"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
)

// FieldManager is the name under which this agent writes; the inventory tells its writes from those of others by it.
const FieldManager = "plimsoll-agent"

const kubeTimeout = 15 * time.Second

// scalable maps the kinds that workload keys use to their group. Anything else with a scale subresource is found by discovery
// once its group is known here.
var scalable = map[string]schema.GroupKind{
	"Deployment":      {Group: "apps", Kind: "Deployment"},
	"StatefulSet":     {Group: "apps", Kind: "StatefulSet"},
	"ReplicaSet":      {Group: "apps", Kind: "ReplicaSet"},
	"LeaderWorkerSet": {Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"},
	"Rollout":         {Group: "argoproj.io", Kind: "Rollout"},
}

// Kube scales workloads of a Kubernetes cluster through the scale subresource.
type Kube struct {
	scales scale.ScalesGetter
	mapper meta.RESTMapper
}

// NewKube makes the actuator for a cluster.
func NewKube(cfg *rest.Config) (*Kube, error) {
	disc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disc))
	scales, err := scale.NewForConfig(cfg, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(disc))
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return newKube(scales, mapper), nil
}

func newKube(scales scale.ScalesGetter, mapper meta.RESTMapper) *Kube {
	return &Kube{scales: scales, mapper: mapper}
}

// Read implements Actuator.
func (k *Kube) Read(ctx context.Context, workload string) (Scale, error) {
	ns, gr, name, err := k.resolve(workload)
	if err != nil {
		return Scale{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	s, err := k.scales.Scales(ns).Get(ctx, gr, name, metav1.GetOptions{})
	if err != nil {
		return Scale{}, kubeError(workload, err)
	}
	return Scale{Replicas: s.Spec.Replicas, Version: s.ResourceVersion}, nil
}

// Set implements Actuator. The version that was read goes along: the API server refuses the change when it is an old one.
func (k *Kube) Set(ctx context.Context, workload string, from Scale, to int32) (Scale, error) {
	ns, gr, name, err := k.resolve(workload)
	if err != nil {
		return Scale{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	s := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, ResourceVersion: from.Version},
		Spec:       autoscalingv1.ScaleSpec{Replicas: to},
	}
	s, err = k.scales.Scales(ns).Update(ctx, gr, s, metav1.UpdateOptions{FieldManager: FieldManager})
	if err != nil {
		return Scale{}, kubeError(workload, err)
	}
	return Scale{Replicas: s.Spec.Replicas, Version: s.ResourceVersion}, nil
}

func (k *Kube) resolve(workload string) (ns string, gr schema.GroupResource, name string, err error) {
	parts := strings.Split(workload, "/")
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return "", gr, "", fmt.Errorf("%q is not namespace/Kind/name: %w", workload, ErrNotFound)
	}
	gk, ok := scalable[parts[1]]
	if !ok {
		return "", gr, "", fmt.Errorf("kind %s cannot be scaled: %w", parts[1], ErrNotFound)
	}
	m, err := k.mapper.RESTMapping(gk)
	if err != nil {
		if meta.IsNoMatchError(err) {
			return "", gr, "", fmt.Errorf("this cluster has no kind %s: %w", parts[1], ErrNotFound)
		}
		return "", gr, "", fmt.Errorf("kubernetes discovery: %w", err)
	}
	return parts[0], m.Resource.GroupResource(), parts[2], nil
}

func kubeError(workload string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: %w", workload, ErrNotFound)
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %w", workload, ErrForbidden)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s: %w", workload, ErrConflict)
	}
	return fmt.Errorf("%s: %w", workload, err)
}
