package optimizer

import (
	"math"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

func TestCheckFindsWhatIsWrongInAPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		break_ func(*Plan, *Decision, *Input)
		code   string
	}{
		{"a target over max", func(_ *Plan, d *Decision, _ *Input) { d.Target = 21 }, "bounds"},
		{"a target under min", func(_ *Plan, d *Decision, _ *Input) { d.Target, d.Outcome = 0, OutcomeDown }, "bounds"},
		{"a negative target", func(_ *Plan, d *Decision, _ *Input) { d.Target, d.Outcome = -1, OutcomeDown }, "target"},
		{"an old generation", func(p *Plan, _ *Decision, _ *Input) { p.Generation = 41 }, "generation"},
		{"another parent", func(p *Plan, _ *Decision, _ *Input) { p.Parent = "q" }, "generation"},
		{"another cluster", func(p *Plan, _ *Decision, _ *Input) { p.Cluster = "d" }, "origin"},
		{"another moment", func(p *Plan, _ *Decision, _ *Input) { p.At = p.At.Add(time.Second) }, "origin"},
		{"another start", func(_ *Plan, d *Decision, _ *Input) { d.From = 5 }, "origin"},
		{"expired from the start", func(p *Plan, _ *Decision, _ *Input) { p.ExpiresAt = p.At }, "expiry"},
		{"a looser plan mode", func(p *Plan, _ *Decision, in *Input) { in.Snapshot.Mode = fleet.ModeObserve }, "mode"},
		{"a looser decision mode", func(_ *Plan, d *Decision, in *Input) {
			b := in.Policies[chatID]
			b.Policy.Mode = fleet.ModeRecommend
			in.Policies[chatID] = b
		}, "mode"},
		{"a change while frozen", func(_ *Plan, _ *Decision, in *Input) { in.Snapshot.Frozen = true }, "frozen"},
		{"a change in a conflict", func(_ *Plan, _ *Decision, in *Input) {
			in.Snapshot.Workloads[0].Writers = []fleet.Writer{{Manager: "keda-operator", At: noon}}
		}, "conflict"},
		{"down on a stale signal", func(_ *Plan, d *Decision, in *Input) {
			d.Target, d.Outcome = 3, OutcomeDown
			in.Snapshot.Workloads[0].Signals[0].Samples[0].At = noon.Add(-time.Minute)
		}, "truth"},
		{"down without having looked", func(_ *Plan, d *Decision, _ *Input) { d.Target, d.Outcome, d.Inputs = 3, OutcomeDown, nil }, "truth"},
		{"a hold that moves", func(_ *Plan, d *Decision, _ *Input) { d.Outcome = OutcomeHold }, "outcome"},
		{"no reason", func(_ *Plan, d *Decision, _ *Input) { d.Reasons = nil }, "reasons"},
		{"a reason without a code", func(_ *Plan, d *Decision, _ *Input) { d.Reasons[0].Code = "" }, "reasons"},
		{"no binding reason", func(_ *Plan, d *Decision, _ *Input) { d.Reasons[0].Binding = false }, "binding"},
		{"two binding reasons", func(_ *Plan, d *Decision, _ *Input) { d.Reasons = append(d.Reasons, d.Reasons[0]) }, "binding"},
		{"another binding code", func(_ *Plan, d *Decision, _ *Input) { d.Binding = ReasonMax }, "binding"},
		{"a binding reason that ends elsewhere", func(_ *Plan, d *Decision, _ *Input) { d.Reasons[0].To = 9 }, "binding"},
		{"a number that is none", func(_ *Plan, d *Decision, _ *Input) { d.Reasons[0].Numbers["value"] = math.NaN() }, "number"},
		{"an input that is no number", func(_ *Plan, d *Decision, _ *Input) { v := math.Inf(1); d.Inputs[0].Raw = &v }, "number"},
		{"an alternative that is no number", func(_ *Plan, d *Decision, _ *Input) { v := math.NaN(); d.Alternatives[0].Load = &v }, "number"},
		{"a wrong sum", func(_ *Plan, d *Decision, _ *Input) { *d.CostDelta++ }, "cost"},
		{"no sum", func(_ *Plan, d *Decision, _ *Input) { d.CostDelta = nil }, "cost"},
		{"another policy version", func(_ *Plan, d *Decision, _ *Input) { d.Policy = 2 }, "policy"},
		{"nothing to remember", func(p *Plan, _ *Decision, _ *Input) { p.Memory = nil }, "memory"},
		{"a decision about nothing", func(_ *Plan, d *Decision, _ *Input) { d.Workload = "x" }, "unknown"},
		{"a workload left out", func(p *Plan, _ *Decision, _ *Input) { p.Decisions = nil }, "left_out"},
		{"a workload twice", func(p *Plan, d *Decision, _ *Input) { p.Decisions = append(p.Decisions, *d) }, "twice"},
		{"decisions out of order", func(p *Plan, d *Decision, _ *Input) {
			a := *d
			a.Key = "a"
			p.Decisions = append(p.Decisions, a)
		}, "sorted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			price := fleet.Money(1_000_000_000)
			in := newScene(4, cpu(0.8), func(s *scene) { s.state.ReplicaHour = &price }).input()
			plan, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if v := Check(plan, in); len(v) != 0 {
				t.Fatalf("violations before anything is wrong: %+v", v)
			}
			c.break_(&plan, &plan.Decisions[0], &in)
			got := Check(plan, in)
			if !slices.ContainsFunc(got, func(v Violation) bool { return v.Code == c.code && v.Message != "" }) {
				t.Errorf("no violation %q in %+v", c.code, got)
			}
		})
	}
}
