package jobs

import (
	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/capacity/karpenter"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
	"strings"
)

// drainSeconds is how long a machine may take to be let go before that is given up.
const drainSeconds = 900

// gentle tells which machines a plan lets go under pods that want to be told first. Those are let go by the agent, not by Karpenter, which would
// not wait for an answer.
func gentle(in *capacity.Input, plan *capacity.Plan) map[string]bool {
	hooked := map[string]bool{}
	for i := range in.Pods {
		if in.Pods[i].HookSec > 0 {
			hooked[in.Pods[i].Name] = true
		}
	}
	out := map[string]bool{}
	for _, d := range plan.Drain {
		for _, m := range d.Moves {
			if hooked[m.Pod] {
				out[d.Name] = true
			}
		}
	}
	return out
}

// gentleActions are what the agent shall do itself: let machines go whose pods want to be told, once there is room on machines that run, and keep
// room ready by placeholders. kept names the warm pools that may exist; those that the plan does not name go.
func gentleActions(in *capacity.Input, plan *capacity.Plan, kept []string) []*agentv1.CapacityAction {
	var out []*agentv1.CapacityAction
	goes := gentle(in, plan)
	for _, d := range plan.Drain {
		if !goes[d.Name] || !roomNow(d) {
			continue
		}
		out = append(out, &agentv1.CapacityAction{ActionId: "drain/" + d.UID, Reasons: []string{string(d.Why)}, NodeDrain: &agentv1.NodeDrain{Node: d.Name, Uid: d.UID, Seconds: drainSeconds}})
	}
	named := map[string]bool{}
	if in.KeepsRoom {
		for i := range plan.Warm {
			n := &plan.Warm[i]
			if len(n.Types) == 0 || n.CPUMilli <= 0 {
				continue // nothing is known that it could stand on
			}
			named[n.Rule] = true
			out = append(out, warmAction(n, in.Policy.Pools))
		}
	}
	for _, name := range kept {
		if !named[name] {
			out = append(out, &agentv1.CapacityAction{ActionId: "warm/" + name, Absent: true, WarmPool: &agentv1.WarmPool{Name: name}, Reasons: []string{"retired"}})
		}
	}
	return out
}

// roomNow tells whether all pods that a drain moves have a machine that runs already: the replacement comes first.
func roomNow(d capacity.Drain) bool {
	for _, m := range d.Moves {
		if m.To == "" {
			return false
		}
	}
	return len(d.Moves) > 0
}

// warmAction is a pool as the agent makes it: as many placeholders as the plan lets there be machines, each of the room of one.
func warmAction(n *capacity.WarmNote, pools *capacity.PoolRules) *agentv1.CapacityAction {
	w := &agentv1.WarmPool{Name: n.Rule, Count: int32(min(n.Ready+n.Starting+n.Add, 1000)), CpuMilli: n.CPUMilli, MemMib: n.MemMiB, Gpus: int32(min(n.GPUs, 1024)), //nolint:gosec // bounded
		Requirements: []*agentv1.NodeRequirement{{Key: karpenter.LabelInstanceType, Operator: "In", Values: n.Types}}}
	if !n.Spot { // machines that say nothing of it are not Spot
		w.Requirements = append(w.Requirements, &agentv1.NodeRequirement{Key: karpenter.LabelCapacityType, Operator: "NotIn", Values: []string{"spot"}})
	}
	if n.GPUs > 0 {
		w.Tolerates = []*agentv1.NodeTaint{{Key: karpenter.TaintGPU, Effect: "NoSchedule"}}
	}
	if pools != nil {
		for _, t := range pools.Taints {
			what, effect, _ := strings.Cut(t, ":")
			key, value, _ := strings.Cut(what, "=")
			w.Tolerates = append(w.Tolerates, &agentv1.NodeTaint{Key: key, Value: value, Effect: effect})
		}
	}
	return &agentv1.CapacityAction{ActionId: "warm/" + n.Rule, WarmPool: w, Reasons: []string{"warm_" + n.How}}
}
