package karpenter

import (
	"cmp"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Actions are the plan as the agent is told: overlays before pools, so that prices hold before anything is bought, removals at the end. The agent opens the
// pools side by side, what is reserved first and what takes the rest last: what opens first would be filled with what belongs elsewhere. overlays names those of ours that
// exist; those that the plan does not name go. Action ids are the names of the objects.
func (p *Plan) Actions(overlays []string) []*agentv1.CapacityAction {
	var out []*agentv1.CapacityAction
	named := map[string]bool{}
	for i := range p.Overlays {
		o := &p.Overlays[i]
		named[o.Name] = true
		out = append(out, &agentv1.CapacityAction{ActionId: "overlay/" + o.Name, Reasons: []string{"effective_price"},
			NodeOverlay: &agentv1.NodeOverlaySpec{Name: o.Name, Weight: o.Weight, Requirements: wire(o.Requirements), HourNano: int64(o.Price)}})
	}
	for i := range p.Pools {
		n := &p.Pools[i]
		out = append(out, &agentv1.CapacityAction{ActionId: "pool/" + n.Name, NodePool: n.wire(), Reasons: []string{n.Why}})
	}
	for _, name := range p.Retire {
		out = append(out, &agentv1.CapacityAction{ActionId: "pool/" + name, Absent: true, NodePool: &agentv1.NodePoolSpec{Name: name}, Reasons: []string{"retired"}})
	}
	for _, name := range overlays {
		if !named[name] {
			out = append(out, &agentv1.CapacityAction{ActionId: "overlay/" + name, Absent: true, NodeOverlay: &agentv1.NodeOverlaySpec{Name: name}, Reasons: []string{"retired"}})
		}
	}
	return out
}

func (n *NodePool) wire() *agentv1.NodePoolSpec {
	w := &agentv1.NodePoolSpec{Name: n.Name, Weight: n.Weight, Requirements: wire(n.Requirements), ClassGroup: n.Class.Group, ClassKind: n.Class.Kind, ClassName: n.Class.Name,
		ConsolidationPolicy: "WhenEmpty", ConsolidateAfterSeconds: int32(min(n.EmptyAfterSec, 1<<30))} //nolint:gosec // bounded
	if n.Nodes != nil {
		w.Limits = map[string]string{"nodes": strconv.FormatInt(*n.Nodes, 10)}
		if n.CPUMilli > 0 {
			w.Limits["cpu"] = strconv.FormatInt(n.CPUMilli, 10) + "m"
		}
	}
	w.Budgets = []*agentv1.DisruptionBudget{{Nodes: cmp.Or(n.Template.EmptyBudget, "100%"), Reasons: []string{"Empty"}}, {Nodes: cmp.Or(n.Template.DriftBudget, "0"), Reasons: []string{"Drifted"}}}
	w.ExpireAfterSeconds, w.TerminationGraceSeconds, w.StartupTaints = n.Template.ExpireSec, n.Template.GraceSec, wireTaints(n.Template.StartupTaints)
	if n.Consolidate > 0 {
		w.ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	}
	w.Budgets = append(w.Budgets, &agentv1.DisruptionBudget{Nodes: strconv.FormatInt(n.Consolidate, 10), Reasons: []string{"Underutilized"}})
	w.Labels = n.Labels
	if n.TaintGPUs {
		w.Taints = []*agentv1.NodeTaint{{Key: TaintGPU, Effect: "NoSchedule"}}
	}
	w.Taints = append(w.Taints, wireTaints(n.Taints)...)
	return w
}

// wireTaints reads key=value:effect.
func wireTaints(list []string) (out []*agentv1.NodeTaint) {
	for _, t := range list {
		what, effect, _ := strings.Cut(t, ":")
		key, value, _ := strings.Cut(what, "=")
		out = append(out, &agentv1.NodeTaint{Key: key, Value: value, Effect: effect})
	}
	return out
}

func wire(in []Requirement) []*agentv1.NodeRequirement {
	out := make([]*agentv1.NodeRequirement, 0, len(in))
	for _, r := range in {
		out = append(out, &agentv1.NodeRequirement{Key: r.Key, Operator: "In", Values: r.Values})
	}
	return out
}

// CapacityType is Karpenter's word for a purchase option.
func CapacityType(p fleet.Purchase) string { return capacityType(p) }
