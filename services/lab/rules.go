package lab

import (
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// rules lets the optimizer's own rules decide, the way the service runs them: one snapshot per slot, its memory kept.
type rules struct {
	input   optimizer.Input
	samples [2][1]fleet.Sample
	signals [2]fleet.Signal
	feed    func(o *Observation, s *[2][1]fleet.Sample)
}

const rulesWorkload fleet.WorkloadID = "lab"

// newRules binds a policy to signals; feed fills the values of the two signals for a slot.
func newRules(p optimizer.Policy, signals [2]fleet.SignalName, feed func(o *Observation, s *[2][1]fleet.Sample)) *rules {
	p.Mode, p.Min, p.Max = fleet.ModeEnforce, 1, maxReplicas
	p.Filter = optimizer.Filter{WindowSeconds: -1, OutlierMAD: -1}
	p.Flap.CyclesPerHour = -1
	r := &rules{feed: feed}
	r.input = optimizer.Input{
		Snapshot: fleet.Snapshot{Mode: fleet.ModeEnforce, Workloads: []fleet.WorkloadState{{Workload: fleet.Workload{ID: rulesWorkload, Key: "lab/Deployment/service", Kind: "Deployment"}}}},
		Policies: map[fleet.WorkloadID]optimizer.Binding{rulesWorkload: {Version: 1, Policy: p.WithDefaults()}},
		Memory:   map[fleet.WorkloadID]optimizer.Memory{},
	}
	for i, name := range signals {
		r.signals[i] = fleet.Signal{Name: name, Samples: r.samples[i][:]}
	}
	return r
}

// Step asks the optimizer. An input it refuses would be a fault of this file; the count is held then.
func (r *rules) Step(o *Observation) int {
	now := time.Unix(int64(o.Slot+1)*SlotSeconds, 0).UTC()
	for i := range r.samples {
		r.samples[i][0] = fleet.Sample{At: now, PodsReported: o.Ready, PodsUnready: o.Starting}
	}
	r.feed(o, &r.samples)
	r.input.Snapshot.Now = now
	w := &r.input.Snapshot.Workloads[0]
	w.Replicas, w.Ready, w.Starting, w.Signals = o.Replicas(), o.Ready, o.Starting, r.signals[:]
	plan, err := optimizer.Decide(r.input)
	if err != nil {
		return o.Replicas()
	}
	r.input.Memory = plan.Memory
	return plan.Decisions[0].Target
}

// hpaDamping is what a HorizontalPodAutoscaler does without a behavior of its own: up by the larger of 100 % and 4 pods per 15 s at once,
// down to the highest recommendation of the last 300 s.
// https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#default-behavior
func hpaDamping(p *optimizer.Policy) {
	p.Up = optimizer.Damping{CooldownSeconds: -1, StabilisationSeconds: -1}
	p.Down = optimizer.Damping{CooldownSeconds: -1, StabilisationSeconds: 300, Steps: []optimizer.Step{{Type: optimizer.StepPercent, Value: 100, PeriodSeconds: 15}}}
}

// newHPA is the Kubernetes HorizontalPodAutoscaler on utilisation (share of a replica's batch in use, mean over ready pods), queue (waiting
// requests per pod, AverageValue) or both; a target of 0 leaves a metric out. The arithmetic is the optimizer's, which a golden test
// holds equal to upstream's documented cases.
func newHPA(utilisation, queue float64) Policy {
	p := optimizer.Policy{}
	hpaDamping(&p)
	if utilisation > 0 {
		p.TargetRatio = append(p.TargetRatio, optimizer.TargetRatio{Signal: fleet.SignalGPUSM, Type: optimizer.RatioUtilization, Target: utilisation})
	}
	if queue > 0 {
		p.TargetRatio = append(p.TargetRatio, optimizer.TargetRatio{Signal: fleet.SignalQueueLength, Type: optimizer.RatioAverageValue, Target: queue})
	}
	return newRules(p, [2]fleet.SignalName{fleet.SignalGPUSM, fleet.SignalQueueLength}, func(o *Observation, s *[2][1]fleet.Sample) {
		s[0][0].Value = part(o.Busy, float64(o.Ready))
		s[1][0].Value = o.Queue
	})
}

// newKEDA scales on requests in flight (running and waiting) per replica: KEDA's external metric of type AverageValue, which the HPA that
// KEDA makes computes as ceil(total / target). https://keda.sh/docs/2.17/concepts/scaling-deployments/ . The target is a share of the batch.
func newKEDA(share float64, t *Trace) Policy {
	p := optimizer.Policy{TargetRatio: []optimizer.TargetRatio{{Signal: fleet.SignalRunning, Type: optimizer.RatioAverageValue, Target: share / t.Share}}}
	hpaDamping(&p)
	return newRules(p, [2]fleet.SignalName{fleet.SignalRunning, fleet.SignalQueueLength}, func(o *Observation, s *[2][1]fleet.Sample) {
		s[0][0].Value = o.Running + o.Queue
		s[1][0].Value = o.Queue
	})
}
