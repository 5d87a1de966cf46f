package optimizer

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
)

// twoRules adds a queue rule (10 waiting per replica) to the scene's CPU rule.
func twoRules(p *Policy) { p.Queue = &QueueRule{TargetPerReplica: 10} }

func queue(age int, values ...float64) option { return gauge(fleet.SignalQueueLength, age, values...) }

func TestDecisionFollowsItsSignalsAndGuards(t *testing.T) {
	t.Parallel()
	frozen := func(s *scene) { s.frozen = true }
	for _, c := range []struct {
		name    string
		scene   scene
		target  int
		needed  int
		binding ReasonCode
	}{
		{"load over target scales up", newScene(4, cpu(0.8)), 7, 7, ReasonTargetRatio},
		{"load under target scales down", newScene(8, cpu(0.25)), 4, 4, ReasonTargetRatio},
		{"load near target holds", newScene(4, cpu(0.52)), 4, 4, ReasonWithinTolerance},
		{"a need that rounds to what is there is steady", newScene(2, cpu(0.4)), 2, 2, ReasonSteady},
		{"of several needs the largest wins", newScene(4, withPolicy(twoRules), cpu(0.8), queue(5, 95)), 10, 10, ReasonQueue},
		{"of equal needs the first rule counts", newScene(4, withPolicy(twoRules), cpu(0.8), queue(5, 70)), 7, 7, ReasonTargetRatio},

		{"no signal at all holds", newScene(4), 4, 4, ReasonNoSignal},
		{"a stale signal holds", newScene(4, gauge(fleet.SignalCPURatio, 46, 0.1)), 4, 4, ReasonNoSignal},
		{"a stale signal cannot scale up alone", newScene(4, gauge(fleet.SignalCPURatio, 46, 0.9)), 4, 4, ReasonNoSignal},
		{"a signal of exactly the allowed age is fresh", newScene(4, gauge(fleet.SignalCPURatio, 45, 0.25)), 2, 2, ReasonTargetRatio},
		{"sources that disagree hold", newScene(4, cpu(0.1), conflicting), 4, 4, ReasonNoSignal},
		{"one stale of two signals cannot scale down", newScene(4, withPolicy(twoRules), cpu(0.1), queue(100, 0)), 4, 1, ReasonPartialSignal},
		{"one missing of two signals cannot scale down", newScene(4, withPolicy(twoRules), cpu(0.1)), 4, 1, ReasonPartialSignal},
		{"one conflicting of two signals cannot scale down", newScene(4, withPolicy(twoRules), cpu(0.1), queue(5, 0), conflicting), 4, 1, ReasonPartialSignal},
		{"one missing of two signals can scale up", newScene(4, withPolicy(twoRules), cpu(0.9)), 8, 8, ReasonTargetRatio},
		{"silence of unready pods is no demand of zero", newScene(4, cpu(0), counted(0, 0, 4)), 4, 4, ReasonNoSignal},
		{"silence of ready pods is no demand of zero", newScene(4, cpu(0), counted(0, 4, 0)), 4, 4, ReasonNoSignal},

		{"max caps the need", newScene(18, cpu(0.9)), 20, 33, ReasonMax},
		{"at max a larger need is capped, not steady", newScene(20, cpu(0.9)), 20, 36, ReasonMax},
		{"min holds the floor", newScene(4, withPolicy(func(p *Policy) { p.Min = 3 }), cpu(0.1)), 3, 1, ReasonMin},
		{"under min it is raised without a signal", newScene(2, withPolicy(func(p *Policy) { p.Min = 3 })), 3, 2, ReasonMin},
		{"over max it is lowered with fresh signals", newScene(30, cpu(0.5)), 20, 30, ReasonMax},
		{"over max it is held without a signal", newScene(30), 30, 30, ReasonNoSignal},
		{"over max it is held with part of the signals", newScene(30, withPolicy(twoRules), cpu(0.5)), 30, 30, ReasonPartialSignal},
		{"over max it is not raised further with part of the signals", newScene(30, withPolicy(twoRules), cpu(0.9)), 30, 54, ReasonMax},

		{"frozen holds a need", newScene(4, cpu(0.9), frozen), 4, 8, ReasonFrozen},
		{"frozen holds a count outside its bounds", newScene(30, cpu(0.5), frozen), 30, 30, ReasonFrozen},
		{"another controller makes it yield", newScene(4, cpu(0.9), withWriter("horizontal-pod-autoscaler", 60)), 4, 8, ReasonConflict},
		{"a person's write makes it yield too", newScene(4, cpu(0.9), withWriter("kubectl-edit", 599)), 4, 8, ReasonConflict},
		{"a write ten minutes ago is forgotten", newScene(4, cpu(0.9), withWriter("keda-operator", 601)), 8, 8, ReasonTargetRatio},
		{"its own writes are no conflict", newScene(4, cpu(0.9), withWriter("plimsoll-agent", 10)), 8, 8, ReasonTargetRatio},
		{"own_replicas goes on in a conflict", newScene(4, withPolicy(func(p *Policy) { p.OwnReplicas = true }), cpu(0.9), withWriter("keda-operator", 10)), 8, 8, ReasonTargetRatio},
		{"a writer of another field is no conflict", newScene(4, cpu(0.9), func(s *scene) {
			s.state.Writers = []fleet.Writer{{Manager: "vpa", Field: "spec.template", At: s.now}}
		}), 8, 8, ReasonTargetRatio},
		{"a write at an unknown time is a conflict", newScene(4, cpu(0.9), func(s *scene) {
			s.state.Writers = []fleet.Writer{{Manager: "someone"}}
		}), 4, 8, ReasonConflict},

		{"scaled to zero by hand it is left alone", newScene(0, withPolicy(twoRules), queue(5, 50)), 0, 5, ReasonZeroReplicas},
		{"at zero with a floor of zero a queue wakes it", newScene(0, withPolicy(zero), queue(5, 11)), 2, 2, ReasonQueue},
		{"at zero without work it stays", newScene(0, withPolicy(zero), queue(5, 0)), 0, 0, ReasonSteady},
		{"an empty queue lets it go to zero", newScene(3, withPolicy(zero), queue(5, 0)), 0, 0, ReasonQueue},

		{"a DaemonSet is not scaled", newScene(4, cpu(0.9), func(s *scene) { s.state.Workload.Kind = "DaemonSet" }), 4, 4, ReasonNotScalable},
		{"a policy that cannot be computed with holds", newScene(4, cpu(0.9), withPolicy(func(p *Policy) { p.TargetRatio[0].Target = -1 })), 4, 4, ReasonInvalidPolicy},
		{"a policy without rules holds", newScene(4, cpu(0.9), withPolicy(func(p *Policy) { p.TargetRatio = nil })), 4, 4, ReasonInvalidPolicy},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, _ := c.scene.decide(t)
			if d.Target != c.target || d.Needed != c.needed || d.Binding != c.binding {
				t.Errorf("target %d needed %d by %s, want %d, %d by %s\n%+v", d.Target, d.Needed, d.Binding, c.target, c.needed, c.binding, d.Reasons)
			}
		})
	}
}

func zero(p *Policy) {
	p.TargetRatio, p.ScaleToZero = nil, true
	p.Queue = &QueueRule{TargetPerReplica: 10}
}

func TestHeldAndCappedSayWhatHeldThem(t *testing.T) {
	t.Parallel()
	d, _ := newScene(18, cpu(0.9)).decide(t)
	r, ok := reason(d, ReasonMax)
	if want := (Reason{Code: ReasonMax, From: 33, To: 20, Numbers: map[string]float64{"max": 20}, Binding: true}); !ok || !cmp.Equal(r, want) {
		t.Errorf("capped: %s", cmp.Diff(want, r))
	}
	d, _ = newScene(4, cpu(0.9), withWriter("keda-operator", 60)).decide(t)
	r, _ = reason(d, ReasonConflict)
	if r.Until == nil || !r.Until.Equal(noon.Add(seconds(540))) || r.From != 8 || r.To != 4 {
		t.Errorf("conflict: %+v, want from 8 to 4 until 540 s on", r)
	}
	d, _ = newScene(30, withPolicy(twoRules), cpu(0.5)).decide(t)
	if r, ok = reason(d, ReasonMax); !ok || r.To != 30 || r.Numbers["max"] != 20 || r.Binding {
		t.Errorf("over max in the dark: %+v, want a reason that names the ceiling without binding", r)
	}
}

func TestModeIsTheStricterOfClusterAndPolicy(t *testing.T) {
	t.Parallel()
	s := newScene(4, cpu(0.9), func(s *scene) { s.mode = fleet.ModeApprove })
	if d, _ := s.decide(t); d.Mode != fleet.ModeApprove || !d.ExpiresAt.Equal(noon.Add(seconds(900))) {
		t.Errorf("mode %s until %s, want approve for 900 s", d.Mode, d.ExpiresAt)
	}
	s = newScene(4, cpu(0.9), withPolicy(func(p *Policy) { p.Mode = fleet.ModeRecommend }))
	if d, _ := s.decide(t); d.Mode != fleet.ModeRecommend {
		t.Errorf("mode %s, want recommend", d.Mode)
	}
	if d, _ := newScene(4, cpu(0.9)).decide(t); d.Mode != fleet.ModeEnforce || !d.ExpiresAt.Equal(noon.Add(seconds(120))) {
		t.Errorf("mode %s until %s, want enforce for 120 s", d.Mode, d.ExpiresAt)
	}
}

func TestCostAndAlternatives(t *testing.T) {
	t.Parallel()
	price := fleet.Money(2_500_000_000)
	s := newScene(18, cpu(0.9), func(s *scene) { s.state.ReplicaHour = &price })
	d, _ := s.decide(t)
	if d.CostDelta == nil || *d.CostDelta != 5_000_000_000 {
		t.Errorf("cost of two more replicas: %v, want 5.00", d.CostDelta)
	}
	money := func(m fleet.Money) *fleet.Money { return &m }
	load := func(v float64) *float64 { return &v }
	want := []Alternative{
		{Replicas: 18, CostHour: money(45_000_000_000), Load: load(0.9), Rejected: ReasonMax},
		{Replicas: 19, CostHour: money(47_500_000_000), Load: load(0.8526), Rejected: ReasonMax},
		{Replicas: 21, CostHour: money(52_500_000_000), Load: load(0.7714), Rejected: ReasonMax},
		{Replicas: 33, CostHour: money(82_500_000_000), Load: load(0.4909), Rejected: ReasonMax},
	}
	if diff := cmp.Diff(want, d.Alternatives); diff != "" {
		t.Error(diff)
	}
	s = newScene(4, withPolicy(func(p *Policy) { p.TargetRatio, p.Queue = nil, &QueueRule{TargetPerReplica: 10} }), queue(5, 35))
	d, _ = s.decide(t)
	want = []Alternative{
		{Replicas: 5, Load: load(0.7), Rejected: ReasonDearer},
		{Replicas: 3, Load: load(1.1667), Rejected: ReasonCheaper},
	}
	if diff := cmp.Diff(want, d.Alternatives); diff != "" {
		t.Error(diff)
	}
	if d.CostDelta != nil {
		t.Errorf("cost without a price: %v, want none", *d.CostDelta)
	}
}

func TestCostThatIsNoMoneyIsLeftOut(t *testing.T) {
	t.Parallel()
	price := fleet.Money(math.MaxInt64)
	if d, _ := newScene(4, cpu(0.9), func(s *scene) { s.state.ReplicaHour = &price }).decide(t); d.CostDelta != nil {
		t.Errorf("cost %v, want none", *d.CostDelta)
	}
}

func TestAWholeSnapshotIsRefusedRatherThanHalfDecided(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*fleet.Snapshot)
	}{
		{"no time", func(s *fleet.Snapshot) { s.Now = fleet.Snapshot{}.Now }},
		{"unknown mode", func(s *fleet.Snapshot) { s.Mode = "yolo" }},
		{"negative generation", func(s *fleet.Snapshot) { s.Generation = -1 }},
		{"a workload twice", func(s *fleet.Snapshot) { s.Workloads = append(s.Workloads, s.Workloads[0]) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := newScene(4, cpu(0.9)).input()
			c.change(&in.Snapshot)
			if _, err := Decide(in); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestPlanIsSortedAndLeavesWorkloadsWithoutPolicyAlone(t *testing.T) {
	t.Parallel()
	in := newScene(4, cpu(0.9)).input()
	base := in.Snapshot.Workloads[0]
	in.Snapshot.Workloads = nil
	for _, key := range []string{"z/Deployment/z", "a/Deployment/a", "m/Deployment/m"} {
		w := base
		w.Workload.Key, w.Workload.ID = key, fleet.WorkloadID(key)
		in.Snapshot.Workloads = append(in.Snapshot.Workloads, w)
		if key[0] != 'm' {
			in.Policies[w.Workload.ID] = in.Policies[chatID]
		}
	}
	delete(in.Policies, chatID)
	plan, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Decisions) != 2 || plan.Decisions[0].Key != "a/Deployment/a" || plan.Decisions[1].Key != "z/Deployment/z" || len(plan.Memory) != 2 {
		t.Errorf("decisions %+v", plan.Decisions)
	}
	if plan.Generation != 42 || plan.Parent != "p" || !plan.ExpiresAt.Equal(noon.Add(seconds(120))) {
		t.Errorf("generation %d parent %s expires %s", plan.Generation, plan.Parent, plan.ExpiresAt)
	}
	if v := Check(plan, in); len(v) != 0 {
		t.Errorf("violations: %+v", v)
	}
}

func TestDecideLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	s := newScene(6, cpu(0.9, 0.2, 0.9, 0.1), withMemory(func(m *Memory) {
		m.LastFrom = 4
		m.Recommendations = []Recommendation{{*at(-200), 9}, {*at(60), 7}}
		m.Changes = []Change{{*at(-7200), 1, 2}, {*at(-100), 2, 4}, {*at(500), 4, 2}}
		m.LastUp, m.QuietSince = at(300), at(400)
	}))
	s.state.Signals[0].Samples[0], s.state.Signals[0].Samples[3] = s.state.Signals[0].Samples[3], s.state.Signals[0].Samples[0]
	in := s.input()
	before, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decide(in); err != nil {
		t.Fatal(err)
	}
	after, _ := json.Marshal(in)
	if string(before) != string(after) {
		t.Error(cmp.Diff(string(before), string(after)))
	}
}
