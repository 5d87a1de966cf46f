package optimizer

import (
	"testing"

	"plimsoll.dev/services/fleet"
)

// shared makes a scene's workload a part of a service: its policy is narrowed to low and high.
func (s scene) shared(t *testing.T, low, high int, budgets ...Budget) Decision {
	t.Helper()
	in := s.input()
	b := in.Policies[chatID]
	p := b.Policy.WithDefaults()
	b.Share = &Share{Service: "chat", Min: p.Min, Max: p.Max}
	b.Policy.Min, b.Policy.Max = low, high
	in.Policies[chatID], in.Budgets = b, budgets
	plan, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Check(plan, in) {
		t.Errorf("Check: %s: %s", v.Code, v.Message)
	}
	return plan.Decisions[0]
}

func TestAPartOfAServiceBoundsItsPolicyAndSaysSo(t *testing.T) {
	t.Parallel()
	stale := gauge(fleet.SignalCPURatio, 300, 0.5)
	sleeps := withPolicy(func(p *Policy) {
		p.ScaleToZero, p.Min = true, 0
		p.TargetRatio = nil
		p.Queue = &QueueRule{TargetPerReplica: 5}
	})
	for _, c := range []struct {
		name      string
		s         scene
		low, high int
		target    int
		binding   ReasonCode
	}{
		{"raised to its part", newScene(3, cpu(0.5)), 6, 20, 6, ReasonServiceMin},
		{"held to its part", newScene(6, cpu(0.5)), 1, 4, 4, ReasonServiceMax},
		{"a surge within its part is its own", newScene(4, cpu(1)), 2, 20, 8, ReasonTargetRatio},
		{"its policy's own maximum is told as such", newScene(15, cpu(0.9)), 1, 20, 20, ReasonMax},
		{"in the dark nothing is lowered", newScene(6, stale), 1, 4, 6, ReasonNoSignal},
		{"what was set to zero by hand stays there", newScene(0, cpu(0)), 3, 20, 0, ReasonZeroReplicas},
		{"what sleeps by its policy is woken", newScene(0, sleeps, gauge(fleet.SignalQueueLength, 5, 0)), 3, 20, 3, ReasonServiceMin},
		{"another writer is not fought", newScene(3, cpu(0.5), withWriter("keda-operator", 60)), 6, 20, 3, ReasonConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if d := c.s.shared(t, c.low, c.high); d.Target != c.target || d.Binding != c.binding {
				t.Errorf("%d by %s, want %d by %s: %+v", d.Target, d.Binding, c.target, c.binding, d.Reasons)
			}
		})
	}
}

// A part of a service is no reason to spend what a budget does not allow: only the policy's own floor is.
func TestAPartOfAServiceDoesNotPassABudget(t *testing.T) {
	t.Parallel()
	s := newScene(3, cpu(0.5))
	price := units(1)
	s.state.ReplicaHour = &price
	budget := Budget{ID: budgetID, EndsAt: noon.Add(seconds(86_400)), Workloads: []fleet.WorkloadID{chatID}, Enforced: true, Remaining: units(100), AllowedHour: units(4)}
	if d := s.shared(t, 6, 20, budget); d.Target != 4 || d.Binding != ReasonBudget || d.Min != 1 {
		t.Errorf("%d by %s, least %d: %+v", d.Target, d.Binding, d.Min, d.Reasons)
	}
}
