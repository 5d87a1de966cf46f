package collect

import (
	"hash/fnv"
	"maps"
	"slices"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Bounds of one placement. What is more is not told, and the placement says so.
const (
	maxRequirements = 32
	maxValues       = 64
	maxTerms        = 16
	maxLimits       = 5000 // disruption limits of a cluster
)

// placementOf is where a pod may run: selector, affinity, tolerations and spread of its spec, required terms only. Tolerations that
// Kubernetes gives to every pod, and the node that a daemon's pod is made for, are left out: they would make every pod its own.
func placementOf(s *corev1.PodSpec) *agentv1.Placement {
	b := placementBuilder{out: &agentv1.Placement{}}
	for _, k := range sortedKeys(s.NodeSelector) {
		b.out.Selector = append(b.out.Selector, &agentv1.NodeRequirement{Key: k, Operator: string(corev1.NodeSelectorOpIn), Values: []string{s.NodeSelector[k]}})
	}
	b.out.Selector = b.requirements(b.out.Selector)
	if a := s.Affinity; a != nil {
		b.affinity(a)
	}
	for _, t := range s.Tolerations {
		if t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) || t.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if len(b.out.Tolerations) == maxRequirements {
			b.out.Incomplete = true
			break
		}
		b.out.Tolerations = append(b.out.Tolerations, &agentv1.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect)})
	}
	for i := range s.TopologySpreadConstraints {
		c := &s.TopologySpreadConstraints[i]
		if len(b.out.Spread) == maxTerms {
			b.out.Incomplete = true
			break
		}
		// Labels whose values come from the pod itself, and least numbers of places, cannot be told: the rule is told without them.
		b.out.Spread = append(b.out.Spread, &agentv1.TopologySpread{Topology: c.TopologyKey, MaxSkew: c.MaxSkew, Soft: c.WhenUnsatisfiable == corev1.ScheduleAnyway, Selector: b.labels(c.LabelSelector)})
	}
	h := fnv.New64a()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(b.out)
	if err != nil { // text that is no UTF-8, which the API server lets nobody write
		return &agentv1.Placement{Id: 1, Incomplete: true}
	}
	_, _ = h.Write(raw)
	b.out.Id = max(h.Sum64(), 1)
	return b.out
}

type placementBuilder struct{ out *agentv1.Placement }

func (b *placementBuilder) requirements(list []*agentv1.NodeRequirement) []*agentv1.NodeRequirement {
	if len(list) > maxRequirements {
		b.out.Incomplete = true
		list = list[:maxRequirements]
	}
	for _, r := range list {
		if len(r.GetValues()) > maxValues {
			b.out.Incomplete = true
			r.Values = r.Values[:maxValues]
		}
	}
	return list
}

func (b *placementBuilder) affinity(a *corev1.Affinity) {
	if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			term := &agentv1.NodeTerm{}
			byName := false
			for _, list := range [][]corev1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
				for _, r := range list {
					byName = byName || r.Key == metav1.ObjectNameField
					term.Requirements = append(term.Requirements, &agentv1.NodeRequirement{Key: r.Key, Operator: string(r.Operator), Values: slices.Clone(r.Values)})
				}
			}
			switch {
			case byName: // a daemon's pod
			case len(b.out.NodeTerms) == maxTerms:
				b.out.Incomplete = true
			default:
				term.Requirements = b.requirements(term.Requirements)
				b.out.NodeTerms = append(b.out.NodeTerms, term)
			}
		}
	}
	if a.PodAffinity != nil {
		b.out.Affinity = b.terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		b.out.AntiAffinity = b.terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
}

func (b *placementBuilder) terms(list []corev1.PodAffinityTerm) []*agentv1.PodTerm {
	var out []*agentv1.PodTerm
	for i := range list {
		t := &list[i]
		if len(out) == maxTerms || len(t.Namespaces) > maxValues {
			b.out.Incomplete = true
			break
		}
		term := &agentv1.PodTerm{Topology: t.TopologyKey, Selector: b.labels(t.LabelSelector), Namespaces: slices.Clone(t.Namespaces)}
		if s := t.NamespaceSelector; s != nil {
			term.AllNamespaces = len(s.MatchLabels)+len(s.MatchExpressions) == 0
			b.out.Incomplete = b.out.Incomplete || !term.AllNamespaces // labels of namespaces are not told
		}
		out = append(out, term)
	}
	return out
}

// labels are the requirements of a selector; one that is not there selects nothing, which a term of nothing cannot say.
func (b *placementBuilder) labels(s *metav1.LabelSelector) []*agentv1.NodeRequirement {
	if s == nil {
		b.out.Incomplete = true
		return nil
	}
	return b.requirements(selectorOf(s))
}

func selectorOf(s *metav1.LabelSelector) []*agentv1.NodeRequirement {
	var out []*agentv1.NodeRequirement
	for _, k := range sortedKeys(s.MatchLabels) {
		out = append(out, &agentv1.NodeRequirement{Key: k, Operator: string(metav1.LabelSelectorOpIn), Values: []string{s.MatchLabels[k]}})
	}
	for _, r := range s.MatchExpressions {
		out = append(out, &agentv1.NodeRequirement{Key: r.Key, Operator: string(r.Operator), Values: slices.Clone(r.Values)})
	}
	return out
}

// taintsOf are those that keep pods away until a person takes them off; those by which Kubernetes and clouds say how a node is come and go.
func taintsOf(n *corev1.Node) []*agentv1.NodeTaint {
	var out []*agentv1.NodeTaint
	for _, t := range n.Spec.Taints {
		_, reclaim := reclaimTaints[t.Key]
		passing := reclaim || t.Key == corev1.TaintNodeUnschedulable || t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeMemoryPressure ||
			t.Key == corev1.TaintNodeDiskPressure || t.Key == corev1.TaintNodePIDPressure || t.Key == corev1.TaintNodeNetworkUnavailable || t.Key == "node.cloudprovider.kubernetes.io/uninitialized" ||
			t.Key == "karpenter.sh/disrupted" || t.Key == "karpenter.sh/unregistered"
		if !passing && t.Effect != corev1.TaintEffectPreferNoSchedule && len(out) < maxRequirements {
			out = append(out, &agentv1.NodeTaint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return out
}

// limitOf is a budget as the disruption controller last counted it. One that it has not counted in its newest form allows nothing.
func limitOf(p *policyv1.PodDisruptionBudget) *agentv1.DisruptionLimit {
	out := &agentv1.DisruptionLimit{Namespace: p.Namespace, Name: p.Name, Allowed: max(p.Status.DisruptionsAllowed, 0), Healthy: max(p.Status.CurrentHealthy, 0), Wanted: max(p.Status.DesiredHealthy, 0)}
	if p.Status.ObservedGeneration < p.Generation {
		out.Allowed = 0
	}
	if s := p.Spec.Selector; s == nil {
		out.Selector = []*agentv1.NodeRequirement{{Key: "", Operator: string(metav1.LabelSelectorOpExists)}} // no label has this name: it selects nothing
	} else {
		out.Selector = selectorOf(s)
	}
	if m := p.Spec.MaxUnavailable; m != nil && m.Type == intstr.Int && m.IntVal == 0 {
		out.Allowed = 0
	}
	return out
}

// place fills in where pods may run, and what may be evicted.
func (v *view) place(inv *agentv1.Inventory) {
	known := map[uint64]*agentv1.Placement{}
	for i, p := range v.pods {
		if podEnded(p) {
			continue
		}
		at := placementOf(&p.Spec)
		inv.Pods[i].Placement = at.GetId()
		known[at.GetId()] = at
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		inv.Placements = append(inv.Placements, known[id])
	}
	if !v.limitsTold || len(v.limits) > maxLimits {
		return
	}
	inv.LimitsTold = true
	for _, p := range v.limits {
		inv.DisruptionLimits = append(inv.DisruptionLimits, limitOf(p))
	}
}

// placementsOf keeps of known those that pods name.
func placementsOf(pods []*agentv1.Pod, known []*agentv1.Placement) []*agentv1.Placement {
	named := map[uint64]bool{}
	for _, p := range pods {
		named[p.GetPlacement()] = true
	}
	var out []*agentv1.Placement
	for _, k := range known {
		if named[k.GetId()] {
			out = append(out, k)
		}
	}
	return out
}
