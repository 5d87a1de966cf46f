package optimizer

import (
	"math"
	"testing"
)

// The cases hold what Kubernetes' own controller does (autoscaling/v2, 1.33): formula, tolerance, pods without values, pods
// that are not ready, AverageValue, zero replicas. Figures are our own.
func TestHPANeedIsThatOfKubernetes(t *testing.T) {
	t.Parallel()
	util, value, average := RatioUtilization, RatioValue, RatioAverageValue
	for _, c := range []struct {
		name   string
		typ    string
		target float64
		value  float64
		pods   pods
		want   int
		within bool
		turned bool
	}{
		{"twice the target doubles", util, 0.4, 0.8, pods{3, 3, 0, 0}, 6, false, false},
		{"half the target halves", util, 0.8, 0.4, pods{6, 6, 0, 0}, 3, false, false},
		{"a need is rounded up", util, 0.3, 0.5, pods{3, 3, 0, 0}, 5, false, false},
		{"a need is rounded up on the way down too", util, 0.5, 0.28, pods{5, 5, 0, 0}, 3, false, false},
		{"just inside the tolerance above", util, 0.5, 0.55, pods{10, 10, 0, 0}, 10, true, false},
		{"just outside the tolerance above", util, 0.5, 0.56, pods{10, 10, 0, 0}, 12, false, false},
		{"just inside the tolerance below", util, 0.5, 0.45, pods{10, 10, 0, 0}, 10, true, false},
		{"just outside the tolerance below", util, 0.5, 0.44, pods{10, 10, 0, 0}, 9, false, false},
		{"use is compared in whole per cent", util, 0.5, 0.559, pods{10, 10, 0, 0}, 10, true, false},
		{"at the target nothing moves", util, 0.7, 0.7, pods{4, 4, 0, 0}, 4, true, false},
		{"an idle workload needs none", util, 0.7, 0, pods{4, 4, 0, 0}, 0, false, false},

		{"going down, a pod without a value counts as its whole request", util, 0.5, 0.1, pods{4, 3, 1, 0}, 3, false, false},
		{"with a target over the request it counts as the target", util, 1.5, 0.3, pods{4, 3, 1, 0}, 2, false, false},
		{"going down, silent pods may bring it into the tolerance", util, 0.5, 0.36, pods{4, 3, 1, 0}, 4, true, false},
		{"going down, silent pods cannot turn it up", util, 0.5, 0.4, pods{4, 2, 2, 0}, 4, false, true},
		{"going up, a pod without a value counts as idle", util, 0.5, 1.0, pods{4, 3, 1, 0}, 6, false, false},
		{"going up, silent pods cannot turn it down", util, 1, 1.9, pods{2, 1, 1, 0}, 2, true, false},
		{"going up, many silent pods cannot turn it down", util, 0.5, 0.7, pods{4, 2, 2, 0}, 4, false, true},
		{"exactly at the target, silent pods change nothing", util, 1, 1, pods{2, 1, 1, 0}, 2, true, false},

		{"going up, an unready pod counts as idle", util, 0.3, 0.6, pods{3, 2, 0, 1}, 4, false, false},
		{"going up, unready pods cannot turn it down", util, 0.3, 0.4, pods{3, 1, 0, 2}, 3, false, true},
		{"going down, unready pods do not count", util, 0.5, 0.3, pods{5, 3, 0, 2}, 2, false, false},
		{"going down with one of five ready", util, 0.5, 0.1, pods{5, 1, 0, 4}, 1, false, false},
		{"unready and silent going up both count as idle", util, 0.5, 2.0, pods{3, 1, 1, 1}, 4, false, false},
		{"unready and silent going down: only silence counts", util, 0.5, 0.1, pods{4, 2, 1, 1}, 3, false, false},
		{"during a surge a silent third pod cannot grow the workload", util, 0.5, 0.1, pods{2, 2, 1, 0}, 2, false, true},

		{"a plain value per pod", value, 15, 20, pods{3, 3, 0, 0}, 4, false, false},
		{"a plain value within tolerance", value, 20, 20.666, pods{3, 3, 0, 0}, 3, true, false},
		{"a plain value, silent pods at the target going down", value, 20, 5, pods{4, 3, 1, 0}, 2, false, false},
		{"a plain value counts ready pods only", value, 10, 50, pods{3, 1, 0, 0}, 5, false, false},
		{"a plain value with few ready pods, as Kubernetes has it", value, 4.4, 8.6, pods{3, 1, 0, 0}, 2, false, false},
		{"a plain value wakes from zero", value, 10, 25, pods{0, 0, 0, 0}, 3, false, false},

		{"average value divides the total", average, 5, 20, pods{3, 3, 0, 0}, 4, false, false},
		{"average value down", average, 2, 6, pods{5, 5, 0, 0}, 3, false, false},
		{"average value within tolerance", average, 5, 20.166, pods{4, 4, 0, 0}, 4, true, false},
		{"average value just under tolerance", average, 2.9, 8.6, pods{3, 3, 0, 0}, 3, true, false},
		{"average value ignores readiness", average, 10, 100, pods{4, 1, 0, 3}, 10, false, false},
		{"average value wakes from zero", average, 10, 1, pods{0, 0, 0, 0}, 1, false, false},
		{"average value of nothing stays at zero", average, 10, 0, pods{0, 0, 0, 0}, 0, false, false},
		{"average value going down, a silent pod counts as the target", average, 5, 5, pods{4, 3, 1, 0}, 2, false, false},
		{"average value going down, silent pods cannot turn it up", average, 5, 14, pods{4, 2, 2, 0}, 4, false, true},
		{"average value going up, silent pods count as nothing", average, 5, 30, pods{4, 2, 2, 0}, 6, false, false},
		{"average value of nothing needs none", average, 10, 0, pods{4, 4, 0, 0}, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := hpaNeed(&TargetRatio{Type: c.typ, Target: c.target, Tolerance: 0.1}, c.value, c.pods)
			if got.needed != c.want || got.within != c.within || got.turned != c.turned {
				t.Errorf("needed %d within %v turned %v, want %d %v %v", got.needed, got.within, got.turned, c.want, c.within, c.turned)
			}
		})
	}
}

func TestHPAToleranceOfNoneActsOnEverything(t *testing.T) {
	t.Parallel()
	r := TargetRatio{Type: RatioUtilization, Target: 0.5, Tolerance: -1}
	if got := hpaNeed(&r, 0.51, pods{10, 10, 0, 0}); got.needed != 11 || got.within {
		t.Errorf("one per cent over without tolerance: %+v, want 11", got)
	}
	if got := hpaNeed(&r, 0.5, pods{10, 10, 0, 0}); got.needed != 10 {
		t.Errorf("at the target: %+v, want 10", got)
	}
}

func TestCeilCountNeverLeavesTheRangeOfCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    float64
		want int
	}{{0, 0}, {-1, 0}, {math.NaN(), 0}, {math.Inf(-1), 0}, {math.Inf(1), maxReplicas}, {1e300, maxReplicas}, {0.0001, 1}, {4, 4}, {4.0001, 5}} {
		if got := ceilCount(c.v); got != c.want {
			t.Errorf("ceilCount(%v) = %d, want %d", c.v, got, c.want)
		}
	}
}

// Kubernetes moves the count against the load when the pods it counts are not the replicas that were asked for. Here that
// holds, and says so.
func TestPodsInTransitNeverMoveTheCountAgainstTheLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		s    scene
	}{
		{"over target while only 3 of 10 asked for exist yet", newScene(10, cpu(0.8), counted(3, 0, 0))},
		{"under target while 8 drain to 4", newScene(4, cpu(0.4), counted(8, 0, 0))},
		{"a gateway's value while no replica is ready", newScene(4, func(s *scene) {
			s.state.Ready = 0
			s.policy.TargetRatio = []TargetRatio{{Signal: "gateway_value", Type: RatioValue, Target: 10}}
		}, gauge("gateway_value", 5, 3))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, _ := c.s.decide(t)
			if d.Outcome != OutcomeHold || d.Binding != ReasonUnreadyPods {
				t.Errorf("%s by %s to %d, want hold by unready_pods", d.Outcome, d.Binding, d.Target)
			}
		})
	}
}

func TestBehaviourStepsAreThoseOfKubernetes(t *testing.T) {
	t.Parallel()
	percent := func(v, period int) Step { return Step{Type: StepPercent, Value: v, PeriodSeconds: period} }
	podStep := func(v, period int) Step { return Step{Type: StepPods, Value: v, PeriodSeconds: period} }
	for _, c := range []struct {
		name    string
		from    int
		up      bool
		sel     string
		steps   []Step
		changes []Change
		want    int
	}{
		{"doubling wins over four pods when there are many", 10, true, SelectMax, []Step{percent(100, 15), podStep(4, 15)}, nil, 20},
		{"four pods win when there are few", 2, true, SelectMax, []Step{percent(100, 15), podStep(4, 15)}, nil, 6},
		{"min takes the smaller of them", 10, true, SelectMin, []Step{percent(100, 15), podStep(4, 15)}, nil, 14},
		{"disabled stays", 10, true, SelectDisabled, []Step{percent(100, 15)}, nil, 10},
		{"per cent up is rounded up", 3, true, SelectMax, []Step{percent(10, 15)}, nil, 4},
		{"what was added within the period counts", 14, true, SelectMax, []Step{podStep(4, 60)}, []Change{{*at(-30), 10, 14}}, 14},
		{"what was added before the period does not", 14, true, SelectMax, []Step{podStep(4, 60)}, []Change{{*at(-60), 10, 14}}, 18},
		{"what was taken away within the period is given back", 8, true, SelectMax, []Step{podStep(4, 60)}, []Change{{*at(-30), 10, 8}}, 14},
		{"half down is rounded down", 7, false, SelectMax, []Step{percent(50, 60)}, nil, 3},
		{"max takes the larger step down", 10, false, SelectMax, []Step{percent(10, 60), podStep(5, 60)}, nil, 5},
		{"min takes the smaller step down", 10, false, SelectMin, []Step{percent(10, 60), podStep(5, 60)}, nil, 9},
		{"what was taken within the period counts", 8, false, SelectMax, []Step{podStep(2, 60)}, []Change{{*at(-30), 10, 8}}, 8},
		{"down never goes under zero", 2, false, SelectMax, []Step{podStep(5, 60)}, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(c.from)
			in := s.input()
			g := deciding{snap: &in.Snapshot, state: &in.Snapshot.Workloads[0], policy: &s.policy}
			g.d.From, g.memory.Changes = c.from, c.changes
			if got := g.limit(Damping{Select: c.sel, Steps: c.steps}, c.up); got != c.want {
				t.Errorf("limit %d, want %d", got, c.want)
			}
		})
	}
}

// The hpa-cpu preset, tick by tick, against the sequence that the upstream controller with default behaviour gives.
func TestHPAPresetFollowsTheDefaultBehaviour(t *testing.T) {
	t.Parallel()
	preset, findings := ParsePolicy([]byte(presetHPACPU))
	if HasErrors(findings) {
		t.Fatal(findings)
	}
	s := newScene(2, withPolicy(func(p *Policy) { *p = preset; p.Mode = "enforce"; p.Max = 40 }), withMemory(func(m *Memory) { *m = Memory{} }))
	replicas := 2
	for i, step := range []struct {
		use  float64
		want int
	}{
		{2.1, 6},              // needs 6: 4 pods more are allowed
		{2.1, 12},             // needs 18: doubled
		{2.1, 24},             // needs 36: doubled
		{1.4, 40},             // needs 48: doubled, then capped
		{0.35, 40}, {0.1, 40}, // down is held by the highest recommendation of 300 s
	} {
		cpu(step.use)(&s)
		d, m := s.decide(t)
		if d.Target != step.want {
			t.Fatalf("tick %d at %d replicas and use %v: target %d (%s), want %d", i, replicas, step.use, d.Target, d.Binding, step.want)
		}
		replicas = d.Target
		s.tick(15, replicas, m)
	}
	// 300 s after the last high recommendation the newest one rules at once, since the HPA may drop all pods in 15 s.
	for range 17 {
		cpu(0.1)(&s)
		_, m := s.decide(t)
		s.tick(15, replicas, m)
	}
	cpu(0.1)(&s)
	if d, _ := s.decide(t); d.Target != 20 {
		t.Errorf("after 300 s: target %d by %s, want the 20 recommended at 0.35", d.Target, d.Binding)
	}
}
