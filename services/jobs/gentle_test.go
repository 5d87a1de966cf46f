package jobs

import (
	"testing"

	"plimsoll.dev/services/capacity"
)

func TestWhatTheAgentDoesItselfForAPlan(t *testing.T) {
	t.Parallel()
	in := &capacity.Input{KeepsRoom: true, Pods: []capacity.Pod{{Name: "train/a", HookSec: 30}, {Name: "train/b", HookSec: 30}, {Name: "web/c"}}}
	plan := &capacity.Plan{
		Drain: []capacity.Drain{
			{Name: "n1", UID: "u1", Why: capacity.WhyConsolidate, Moves: []capacity.Move{{Pod: "train/a", To: "n9"}, {Pod: "web/c", To: "n9"}}},
			{Name: "n2", UID: "u2", Why: capacity.WhyReplace, Moves: []capacity.Move{{Pod: "train/b"}}}, // its machine is not there yet
			{Name: "n3", UID: "u3", Why: capacity.WhyConsolidate, Moves: []capacity.Move{{Pod: "web/c", To: "n9"}}},
			{Name: "n4", UID: "u4", Why: capacity.WhyEmpty},
		},
		Warm: []capacity.WarmNote{
			{Rule: "h100", How: capacity.WarmFixed, Want: 3, Ready: 1, Add: 1, Short: 1, Types: []string{"p5.48xlarge"}, CPUMilli: 100_000, MemMiB: 1_000_000, GPUs: 8},
			{Rule: "nothing-known", How: capacity.WarmFixed, Want: 1, Short: 1},
		},
	}
	actions := gentleActions(in, plan, []string{"h100", "old"})
	var ids []string
	for _, a := range actions {
		ids = append(ids, a.GetActionId())
	}
	if len(actions) != 3 || ids[0] != "drain/u1" || ids[1] != "warm/h100" || ids[2] != "warm/old" {
		t.Fatalf("actions %v", ids)
	}
	if d := actions[0].GetNodeDrain(); d.GetNode() != "n1" || d.GetUid() != "u1" || d.GetSeconds() == 0 {
		t.Errorf("drain %v", d)
	}
	w := actions[1].GetWarmPool()
	if w.GetCount() != 2 || w.GetGpus() != 8 || len(w.GetRequirements()) != 2 || w.GetRequirements()[1].GetOperator() != "NotIn" || len(w.GetTolerates()) != 1 {
		t.Errorf("warm pool %v", w)
	}
	if !actions[2].GetAbsent() {
		t.Error("a pool that the plan does not name stays")
	}
	if ours := gentle(in, plan); !ours["n1"] || !ours["n2"] || ours["n3"] || ours["n4"] {
		t.Errorf("let go by the agent: %v", ours)
	}
	in.KeepsRoom = false
	if left := gentleActions(in, plan, nil); len(left) != 1 {
		t.Errorf("an agent that keeps no room is told %v", left)
	}
}
