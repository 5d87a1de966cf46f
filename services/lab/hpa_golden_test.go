package lab

import (
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// tick is one look of the autoscaler, 15 s after the last, and the count that upstream's documentation says must follow.
type tick struct {
	value             float64
	reported, missing int // reported 0: all replicas
	unready           int
	times             int // so often in a row; 0 is once
	want              int
}

// hpaCase is a Kubernetes HorizontalPodAutoscaler (autoscaling/v2) and what it does.
type hpaCase struct {
	name   string
	metric optimizer.TargetRatio
	damp   func(p *optimizer.Policy)
	from   int
	ticks  []tick
}

func resource(target float64) optimizer.TargetRatio {
	return optimizer.TargetRatio{Signal: fleet.SignalGPUSM, Type: optimizer.RatioUtilization, Target: target}
}

func external(target float64) optimizer.TargetRatio {
	return optimizer.TargetRatio{Signal: fleet.SignalQueueLength, Type: optimizer.RatioAverageValue, Target: target}
}

// behaviour sets scaleUp and scaleDown of spec.behavior.
func behaviour(up, down optimizer.Damping) func(p *optimizer.Policy) {
	return func(p *optimizer.Policy) {
		up.CooldownSeconds, down.CooldownSeconds = -1, -1
		p.Up, p.Down = up, down
	}
}

func free() optimizer.Damping {
	return optimizer.Damping{StabilisationSeconds: -1, Steps: []optimizer.Step{{Type: optimizer.StepPercent, Value: 10_000, PeriodSeconds: 15}, {Type: optimizer.StepPods, Value: 1000, PeriodSeconds: 15}}}
}

func freeDown() optimizer.Damping {
	return optimizer.Damping{StabilisationSeconds: -1, Steps: []optimizer.Step{{Type: optimizer.StepPercent, Value: 100, PeriodSeconds: 15}}}
}

func atMost(kind string, value, period int) optimizer.Step {
	return optimizer.Step{Type: kind, Value: value, PeriodSeconds: period}
}

func hpaCases() []hpaCase {
	unbounded := behaviour(free(), freeDown())
	return []hpaCase{
		// "Algorithm details": desired = ceil(current x value / target), no action within a tolerance of 0.1.
		{"200m against 100m doubles, 50m halves", resource(0.1), unbounded, 4, []tick{{value: 0.2, want: 8}, {value: 0.05, want: 4}}},
		{"a ratio of 1.1 is within the tolerance, of 1.12 is not", resource(0.5), unbounded, 10, []tick{{value: 0.55, want: 10}, {value: 0.56, want: 12}}},
		{"a ratio of 0.9 is within the tolerance, of 0.88 is not", resource(0.5), unbounded, 10, []tick{{value: 0.45, want: 10}, {value: 0.44, want: 9}}},
		// "Pods that are not yet ready count as using 0 % when scaling up", and are left out when scaling down; the direction may not turn.
		{"two hot pods and one that starts", resource(0.3), unbounded, 3, []tick{{value: 0.6, reported: 2, unready: 1, want: 4}}},
		{"one hot pod and two that start: they would turn the direction, so it holds", resource(0.3), unbounded, 3, []tick{{value: 0.4, reported: 1, unready: 2, want: 3}}},
		{"scaling down, pods that start are left out", resource(0.5), unbounded, 5, []tick{{value: 0.3, reported: 3, unready: 2, want: 2}}},
		// "Missing metrics count as 100 % of the request when scaling down and as 0 % when scaling up."
		{"missing on the way down counts as full", resource(0.5), unbounded, 4, []tick{{value: 0.1, reported: 3, missing: 1, want: 3}}},
		{"missing on the way up counts as idle", resource(0.5), unbounded, 4, []tick{{value: 1, reported: 3, missing: 1, want: 6}}},
		{"missing would turn the direction, so it holds", resource(0.5), unbounded, 4, []tick{{value: 0.4, reported: 2, missing: 2, want: 4}}},
		// "Default behavior": up by the larger of 100 % and 4 pods in 15 s at once; down after 300 s to the highest recommendation in them.
		{"default: four pods from one, then doubling", resource(0.1), hpaDamping, 1, []tick{{value: 1, want: 5}, {value: 1, want: 10}, {value: 1, want: 20}}},
		{"default: the fall waits until the high recommendation is 300 s old", resource(0.5), hpaDamping, 10, []tick{
			{value: 0.5, want: 10}, {value: 0.1, times: 19, want: 10}, {value: 0.1, want: 2}}},
		{"default: the window keeps the highest, not the newest", resource(0.5), hpaDamping, 10, []tick{
			{value: 0.5, want: 10}, {value: 0.3, times: 1, want: 10}, {value: 0.1, times: 18, want: 10}, {value: 0.1, want: 6}, {value: 0.1, want: 2}}},
		// "Stabilization window" on the way up: the lowest recommendation of it counts.
		{"scaleUp window of 60 s rides out a spike", resource(0.5), behaviour(optimizer.Damping{StabilisationSeconds: 60, Steps: free().Steps}, freeDown()), 4, []tick{
			{value: 0.5, want: 4}, {value: 1, times: 2, want: 4}, {value: 0.5, want: 4}, {value: 1, times: 3, want: 4}, {value: 1, want: 8}}},
		// "Scaling policies": Pods 4 and Percent 10 per 60 s, the larger wins: from 80 replicas 8, then 8 (7.2 rounded up) and, under 40, 4 at a time.
		{"documentation's 80 replicas, first steps", resource(0.5), behaviour(free(), optimizer.Damping{StabilisationSeconds: -1, Steps: []optimizer.Step{atMost(optimizer.StepPods, 4, 60), atMost(optimizer.StepPercent, 10, 60)}}), 80, []tick{
			{value: 0.01, want: 72}, {value: 0.01, times: 3, want: 72}, {value: 0.01, want: 64}}},
		{"documentation's policies under 40 replicas", resource(0.5), behaviour(free(), optimizer.Damping{StabilisationSeconds: -1, Steps: []optimizer.Step{atMost(optimizer.StepPods, 4, 60), atMost(optimizer.StepPercent, 10, 60)}}), 38, []tick{
			{value: 0.01, want: 34}, {value: 0.01, times: 3, want: 34}, {value: 0.01, want: 30}}},
		{"selectPolicy Min takes the smaller step", resource(0.1), behaviour(optimizer.Damping{StabilisationSeconds: -1, Select: optimizer.SelectMin, Steps: []optimizer.Step{atMost(optimizer.StepPods, 4, 60), atMost(optimizer.StepPercent, 100, 60)}}, freeDown()), 10, []tick{
			{value: 1, want: 14}, {value: 1, times: 3, want: 14}, {value: 1, want: 18}}},
		{"selectPolicy Disabled never goes down", resource(0.5), behaviour(free(), optimizer.Damping{StabilisationSeconds: -1, Select: optimizer.SelectDisabled}), 6, []tick{
			{value: 0.01, times: 40, want: 6}, {value: 1, want: 12}}},
		// External metrics of type AverageValue: the total over the replicas is compared, so that where the count ends depends on where it came
		// from: within 10 % of any count it stays there. 32.5 at a target of 10 are four replicas, but three hold it, and so do four.
		{"AverageValue from below: 3 replicas stay at 32.5", external(10), unbounded, 3, []tick{{value: 32.5, times: 10, want: 3}}},
		{"AverageValue from above: 4 replicas stay no longer at 32.5", external(10), unbounded, 5, []tick{{value: 32.5, want: 4}, {value: 32.5, times: 10, want: 4}}},
		{"AverageValue drifts with the load, one tolerance behind", external(10), unbounded, 10, []tick{
			{value: 109, want: 10}, {value: 110, want: 10}, {value: 111, want: 12}, {value: 109, want: 12}, {value: 107, want: 11}}},
		{"AverageValue knows no pods: unready ones change nothing", external(10), unbounded, 4, []tick{{value: 100, reported: 1, unready: 3, want: 10}}},
		{"AverageValue of nothing goes to the floor", external(10), unbounded, 4, []tick{{value: 0, want: 1}}},
	}
}

// The HPA that is scored equals upstream's documented behaviour (autoscaling/v2). Figures are our own except where the
// documentation gives an example.
func TestTheScoredHPADoesWhatKubernetesDocuments(t *testing.T) {
	t.Parallel()
	for _, c := range hpaCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := optimizer.Policy{Mode: fleet.ModeEnforce, Min: 1, Max: 1000, TargetRatio: []optimizer.TargetRatio{c.metric},
				Filter: optimizer.Filter{WindowSeconds: -1, OutlierMAD: -1}, Flap: optimizer.Flap{CyclesPerHour: -1}}
			c.damp(&p)
			in := optimizer.Input{Policies: map[fleet.WorkloadID]optimizer.Binding{rulesWorkload: {Version: 1, Policy: p}}, Memory: map[fleet.WorkloadID]optimizer.Memory{}}
			now, count := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), c.from
			for i, k := range c.ticks {
				for n := range max(k.times, 1) {
					reported := k.reported
					if reported == 0 {
						reported = count
					}
					in.Snapshot = fleet.Snapshot{Now: now, Mode: fleet.ModeEnforce, Workloads: []fleet.WorkloadState{{
						Workload: fleet.Workload{ID: rulesWorkload, Key: "lab/Deployment/service", Kind: "Deployment"},
						Replicas: count, Ready: count - k.unready, Starting: k.unready,
						Signals: []fleet.Signal{{Name: c.metric.Signal, Samples: []fleet.Sample{{At: now, Value: k.value, PodsReported: reported, PodsMissing: k.missing, PodsUnready: k.unready}}}},
					}}}
					plan, err := optimizer.Decide(in)
					if err != nil {
						t.Fatal(err)
					}
					in.Memory = plan.Memory
					if got := plan.Decisions[0].Target; got != k.want {
						t.Fatalf("tick %d (%d in a row) with %v at %d replicas: %d by %s; want %d", i, n+1, k.value, count, got, plan.Decisions[0].Binding, k.want)
					}
					count = plan.Decisions[0].Target
					now = now.Add(15 * time.Second)
				}
			}
		})
	}
}
