package act

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"google.golang.org/protobuf/proto"
)

const (
	kindWarm = "WarmPool"

	warmPrefix = "plimsoll-warm-"
	warmLabel  = "plimsoll.dev/warm" // of placeholders: the name of their pool
	saysNote   = "plimsoll.dev/says" // hash of what the plan said
	maxWarmGPU = 1024
)

// WarmConfig says how placeholders are made.
type WarmConfig struct {
	Namespace     string // the agent's own
	PriorityClass string // below that of any other pod, and preempting nobody
	Image         string // a container that does nothing
	Max           int32  // placeholders of all pools together
}

// WarmPools keeps room ready by placeholder pods: a Deployment for each pool in the agent's own namespace. Any pod takes a placeholder's
// place by the scheduler's own preemption; the placeholder that waits then makes the cluster's autoscaler bring the next machine.
type WarmPools struct {
	client kubernetes.Interface
	cfg    WarmConfig
}

// NewWarmPools makes the provisioner.
func NewWarmPools(client kubernetes.Interface, cfg WarmConfig) *WarmPools {
	return &WarmPools{client: client, cfg: cfg}
}

// Prepare implements Provisioner: there is nothing to wait for.
func (*WarmPools) Prepare(context.Context, []*agentv1.CapacityAction, Mark) error { return nil }

// Settle implements Provisioner: room is asked for, and comes when it comes.
func (*WarmPools) Settle(context.Context, []*agentv1.CapacityAction) error { return nil }

func (w *WarmPools) get(ctx context.Context, key string) (*appsv1.Deployment, error) {
	name, ok := strings.CutPrefix(key, kindWarm+"/")
	if !ok || name == "" {
		return nil, fmt.Errorf("%q is no warm pool: %w", key, ErrNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	d, err := w.client.AppsV1().Deployments(w.cfg.Namespace).Get(ctx, warmPrefix+name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, kubeError(key, err)
	}
	return d, nil
}

// Read implements Provisioner.
func (w *WarmPools) Read(ctx context.Context, x *agentv1.CapacityAction) (Object, error) {
	d, err := w.get(ctx, capacityKey(x))
	if err != nil || d == nil {
		return Object{Same: err == nil && x.GetAbsent()}, err
	}
	o := Object{Exists: true, Version: d.ResourceVersion, spec: d.Generation, Spec: specOf(d)}
	o.Generation, _ = strconv.ParseUint(d.Annotations[generationNote], 10, 64)
	o.Same = !x.GetAbsent() && d.Annotations[saysNote] == saysOf(x.GetWarmPool()) && d.Spec.Replicas != nil && *d.Spec.Replicas == x.GetWarmPool().GetCount()
	return o, nil
}

// Put implements Provisioner.
func (w *WarmPools) Put(ctx context.Context, x *agentv1.CapacityAction, from Object, by Mark) (Object, error) {
	key := capacityKey(x)
	now, err := w.get(ctx, key)
	switch {
	case err != nil:
		return Object{}, err
	case (now != nil) != from.Exists || now != nil && now.Generation != from.spec:
		return Object{}, fmt.Errorf("%s: %w", key, ErrConflict)
	case now != nil && now.Labels[managedLabel] != "true":
		return Object{}, fmt.Errorf("%s was not made by Plimsoll: %w", key, ErrForbidden)
	case x.GetAbsent():
		return Object{}, w.remove(ctx, now)
	}
	want, err := w.desired(x.GetWarmPool(), by)
	if err != nil {
		return Object{}, err
	}
	if err := w.room(ctx, want); err != nil {
		return Object{}, err
	}
	call, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	if now == nil {
		now, err = w.client.AppsV1().Deployments(w.cfg.Namespace).Create(call, want, metav1.CreateOptions{FieldManager: FieldManager})
	} else {
		want.ResourceVersion = now.ResourceVersion
		now, err = w.client.AppsV1().Deployments(w.cfg.Namespace).Update(call, want, metav1.UpdateOptions{FieldManager: FieldManager})
	}
	if err != nil {
		return Object{}, kubeError(key, err)
	}
	return Object{Exists: true, Version: now.ResourceVersion, Generation: by.Generation, Spec: specOf(now), Same: true}, nil
}

// room refuses placeholders beyond the agent's own limit.
func (w *WarmPools) room(ctx context.Context, want *appsv1.Deployment) error {
	all, err := w.all(ctx)
	if err != nil {
		return err
	}
	sum := int64(*want.Spec.Replicas)
	for i := range all {
		if d := &all[i]; d.Name != want.Name && d.Spec.Replicas != nil {
			sum += int64(*d.Spec.Replicas)
		}
	}
	if sum > int64(w.cfg.Max) {
		return fmt.Errorf("%d placeholders together; this agent makes at most %d: %w", sum, w.cfg.Max, ErrForbidden)
	}
	return nil
}

func (w *WarmPools) all(ctx context.Context) ([]appsv1.Deployment, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	list, err := w.client.AppsV1().Deployments(w.cfg.Namespace).List(ctx, metav1.ListOptions{LabelSelector: managedLabel + "=true," + warmLabel, Limit: drainPage})
	if err != nil {
		return nil, kubeError("warm pools", err)
	}
	return list.Items, nil
}

func (w *WarmPools) remove(ctx context.Context, now *appsv1.Deployment) error {
	if now == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	uid, background := now.UID, metav1.DeletePropagationBackground
	err := w.client.AppsV1().Deployments(w.cfg.Namespace).Delete(ctx, now.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return kubeError(now.Name, err)
	}
	return nil
}

// Carries implements Provisioner.
func (w *WarmPools) Carries(ctx context.Context, key string, by Mark) (bool, error) {
	d, err := w.get(ctx, key)
	return d != nil && d.Annotations[planNote] == by.Plan+"/"+by.Action, err
}

// HandBack deletes all placeholders of ours. The machines that they held are the cluster's autoscaler's to keep or to let go.
func (w *WarmPools) HandBack(ctx context.Context) (done int, err error) {
	all, err := w.all(ctx)
	if err != nil {
		return 0, err
	}
	for i := range all {
		if rerr := w.remove(ctx, &all[i]); rerr == nil {
			done++
		} else if err == nil {
			err = rerr
		}
	}
	return done, err
}

func (w *WarmPools) desired(p *agentv1.WarmPool, by Mark) (*appsv1.Deployment, error) {
	if p.GetCount() < 0 || p.GetCpuMilli() < 0 || p.GetMemMib() < 0 || p.GetGpus() < 0 || p.GetGpus() > maxWarmGPU {
		return nil, errors.New("a warm pool has a size below zero")
	}
	count, off, none := p.GetCount(), false, int64(0)
	labels := map[string]string{managedLabel: "true", warmLabel: p.GetName(), "app.kubernetes.io/part-of": "plimsoll"}
	own := map[string]string{warmLabel: p.GetName()}
	requests := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(p.GetCpuMilli(), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(p.GetMemMib()<<20, resource.BinarySI)}
	limits := corev1.ResourceList{}
	if p.GetGpus() > 0 {
		q := *resource.NewQuantity(int64(p.GetGpus()), resource.DecimalSI)
		requests["nvidia.com/gpu"], limits["nvidia.com/gpu"] = q, q
	}
	var terms []corev1.NodeSelectorRequirement
	for _, r := range p.GetRequirements() {
		terms = append(terms, corev1.NodeSelectorRequirement{Key: r.GetKey(), Operator: corev1.NodeSelectorOperator(r.GetOperator()), Values: r.GetValues()})
	}
	var affinity *corev1.Affinity
	if len(terms) > 0 {
		affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: terms}}}}}
	}
	var tolerations []corev1.Toleration
	for _, t := range p.GetTolerates() {
		tolerations = append(tolerations, corev1.Toleration{Key: t.GetKey(), Operator: corev1.TolerationOpEqual, Value: t.GetValue(), Effect: corev1.TaintEffect(t.GetEffect())})
	}
	nobody, no, yes := int64(65532), false, true
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: warmPrefix + p.GetName(), Namespace: w.cfg.Namespace, Labels: labels,
			Annotations: map[string]string{generationNote: strconv.FormatUint(by.Generation, 10), planNote: by.Plan + "/" + by.Action, saysNote: saysOf(p)}},
		Spec: appsv1.DeploymentSpec{Replicas: &count, Selector: &metav1.LabelSelector{MatchLabels: own}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
			Spec: corev1.PodSpec{
				PriorityClassName: w.cfg.PriorityClass, TerminationGracePeriodSeconds: &none, AutomountServiceAccountToken: &off, Affinity: affinity, Tolerations: tolerations,
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &nobody, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{Name: "room", Image: w.cfg.Image, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
			},
		}},
	}, nil
}

// saysOf is a hash of all that a plan says about a pool but its count.
func saysOf(p *agentv1.WarmPool) string {
	q := proto.CloneOf(p)
	if q == nil {
		return ""
	}
	q.Count = 0
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(q)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

func specOf(d *appsv1.Deployment) string {
	n := int32(1)
	if d.Spec.Replicas != nil {
		n = *d.Spec.Replicas
	}
	c := corev1.ResourceRequirements{}
	if len(d.Spec.Template.Spec.Containers) > 0 {
		c = d.Spec.Template.Spec.Containers[0].Resources
	}
	gpus := c.Requests["nvidia.com/gpu"]
	return fmt.Sprintf(`{"placeholders":%d,"cpu":%q,"memory":%q,"gpus":%d}`, n, c.Requests.Cpu().String(), c.Requests.Memory().String(), gpus.Value())
}
