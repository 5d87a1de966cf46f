package lab

import (
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// rules lets the optimizer's own rules decide, the way the service runs them: one snapshot per slot, its memory kept.
type rules struct {
	input   optimizer.Input
	samples [][]fleet.Sample // per signal, oldest first
	signals []fleet.Signal
	depth   int // samples kept of a signal
	seen    int
	feed    func(o *Observation, values []float64)
	values  []float64
	needed  int
}

const rulesWorkload fleet.WorkloadID = "lab"

// newRules binds a policy to signals; feed says their values in a slot. Only the newest sample is kept.
func newRules(p optimizer.Policy, signals []fleet.SignalName, feed func(o *Observation, values []float64)) *rules {
	p.Filter = optimizer.Filter{WindowSeconds: -1, OutlierMAD: -1}
	p.Flap.CyclesPerHour = -1
	return newRulesWith(p, signals, 1, feed)
}

// newRulesWith keeps so many samples of each signal and leaves filter and flap detector to the policy.
func newRulesWith(p optimizer.Policy, signals []fleet.SignalName, depth int, feed func(o *Observation, values []float64)) *rules {
	p.Mode, p.Min, p.Max = fleet.ModeEnforce, 1, maxReplicas
	r := &rules{feed: feed, depth: depth, values: make([]float64, len(signals)), samples: make([][]fleet.Sample, len(signals)), signals: make([]fleet.Signal, len(signals))}
	r.input = optimizer.Input{
		Snapshot: fleet.Snapshot{Mode: fleet.ModeEnforce, Workloads: []fleet.WorkloadState{{Workload: fleet.Workload{ID: rulesWorkload, Key: "lab/Deployment/service", Kind: "Deployment"}}}},
		Policies: map[fleet.WorkloadID]optimizer.Binding{rulesWorkload: {Version: 1, Policy: p.WithDefaults()}},
		Memory:   map[fleet.WorkloadID]optimizer.Memory{},
	}
	for i, name := range signals {
		r.samples[i] = make([]fleet.Sample, depth)
		r.signals[i] = fleet.Signal{Name: name}
	}
	return r
}

// Step asks the optimizer. An input it refuses would be a fault of this file; the count is held then.
func (r *rules) Step(o *Observation) int {
	now := time.Unix(int64(o.Slot+1)*SlotSeconds, 0).UTC()
	r.feed(o, r.values)
	r.seen = min(r.seen+1, r.depth)
	for i := range r.samples {
		s := r.samples[i]
		copy(s, s[1:])
		s[r.depth-1] = fleet.Sample{At: now, Value: r.values[i], PodsReported: o.Ready, PodsUnready: o.Starting}
		r.signals[i].Samples = s[r.depth-r.seen:]
	}
	r.input.Snapshot.Now = now
	w := &r.input.Snapshot.Workloads[0]
	w.Replicas, w.Ready, w.Starting, w.Signals = o.Replicas(), o.Ready, o.Starting, r.signals
	plan, err := optimizer.Decide(r.input)
	if err != nil {
		r.needed = o.Replicas()
		return o.Replicas()
	}
	r.input.Memory = plan.Memory
	d := &plan.Decisions[0]
	r.needed = d.Needed
	return d.Target
}

// Needed is what the signals alone asked for in the last decision, before any damping.
func (r *rules) Needed() int { return r.needed }

// hpaDamping is what a HorizontalPodAutoscaler does without a behavior of its own: up by the larger of 100 % and 4 pods per 15 s at once,
// down to the highest recommendation of the last 300 s.
// https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#default-behavior
func hpaDamping(p *optimizer.Policy) {
	p.Up = optimizer.Damping{CooldownSeconds: -1, StabilisationSeconds: -1}
	p.Down = optimizer.Damping{CooldownSeconds: -1, StabilisationSeconds: 300, Steps: []optimizer.Step{{Type: optimizer.StepPercent, Value: 100, PeriodSeconds: 15}}}
}

// newHPA is the Kubernetes HorizontalPodAutoscaler on utilisation (share of a replica's batch in use, mean over ready pods), queue (waiting
// requests per pod, AverageValue) or both; a target of 0 leaves a metric out. The arithmetic is the optimizer's, which golden tests
// hold equal to upstream's documented cases.
// https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details
func newHPA(utilisation, queue float64) Policy {
	p := optimizer.Policy{}
	hpaDamping(&p)
	if utilisation > 0 {
		p.TargetRatio = append(p.TargetRatio, optimizer.TargetRatio{Signal: fleet.SignalGPUSM, Type: optimizer.RatioUtilization, Target: utilisation})
	}
	if queue > 0 {
		p.TargetRatio = append(p.TargetRatio, optimizer.TargetRatio{Signal: fleet.SignalQueueLength, Type: optimizer.RatioAverageValue, Target: queue})
	}
	return newRules(p, []fleet.SignalName{fleet.SignalGPUSM, fleet.SignalQueueLength}, func(o *Observation, v []float64) {
		v[0], v[1] = part(o.Busy, float64(o.Ready)), o.Queue
	})
}

// newHPAInFlight is the HPA on two metrics: utilisation, and requests running and waiting per pod (AverageValue); the larger wins.
func newHPAInFlight(share float64, t *Trace) Policy {
	p := optimizer.Policy{TargetRatio: []optimizer.TargetRatio{
		{Signal: fleet.SignalGPUSM, Type: optimizer.RatioUtilization, Target: share},
		{Signal: fleet.SignalRunning, Type: optimizer.RatioAverageValue, Target: share / t.Share},
	}}
	hpaDamping(&p)
	return newRules(p, []fleet.SignalName{fleet.SignalGPUSM, fleet.SignalRunning}, func(o *Observation, v []float64) {
		v[0], v[1] = part(o.Busy, float64(o.Ready)), o.Running+o.Queue
	})
}

// newHPAQueueValue is the HPA on the length of the queue as a plain Value, as many tutorials have it: the ready pods times what waits over the
// target, so that a queue that stays multiplies the pods at every look, and an empty one asks for none.
func newHPAQueueValue(queue float64) Policy {
	p := optimizer.Policy{TargetRatio: []optimizer.TargetRatio{{Signal: fleet.SignalQueueLength, Type: optimizer.RatioValue, Target: queue}}}
	hpaDamping(&p)
	return newRules(p, []fleet.SignalName{fleet.SignalQueueLength}, func(o *Observation, v []float64) { v[0] = o.Queue })
}

// newKEDAQueue scales on waiting requests per replica, KEDA's external metric of type AverageValue; the default threshold of its Prometheus
// scaler for queues in vLLM's own guide is 5. From one replica on, KEDA leaves the arithmetic to the HPA that it makes.
// https://keda.sh/docs/2.17/scalers/prometheus/ and https://docs.vllm.ai (production stack, autoscaling)
func newKEDAQueue(queue float64) Policy {
	p := optimizer.Policy{TargetRatio: []optimizer.TargetRatio{{Signal: fleet.SignalQueueLength, Type: optimizer.RatioAverageValue, Target: queue}}}
	hpaDamping(&p)
	// The operator polls every 30 s (pollingInterval); with cached metrics the HPA sees the value of the last poll.
	polled := 0.0
	return newRules(p, []fleet.SignalName{fleet.SignalQueueLength}, func(o *Observation, v []float64) {
		if o.Slot%(30/SlotSeconds) == 0 {
			polled = o.Queue
		}
		v[0] = polled
	})
}

// newKEDA scales on requests in flight (running and waiting) per replica: KEDA's external metric of type AverageValue, which the HPA that
// KEDA makes computes as ceil(total / target). https://keda.sh/docs/2.17/concepts/scaling-deployments/ . The target is a share of the batch.
func newKEDA(share float64, t *Trace) Policy {
	p := optimizer.Policy{TargetRatio: []optimizer.TargetRatio{{Signal: fleet.SignalRunning, Type: optimizer.RatioAverageValue, Target: share / t.Share}}}
	hpaDamping(&p)
	return newRules(p, []fleet.SignalName{fleet.SignalRunning, fleet.SignalQueueLength}, func(o *Observation, v []float64) {
		v[0], v[1] = o.Running+o.Queue, o.Queue
	})
}

// newQueueLatency is Plimsoll's own classic rule: requests in flight per replica, and a step of 25 % when the 99th percentile of the time to
// first token is over 1.2 times its target of LateSeconds while the load presses, or under half of it while the load is steady; with the
// product's default filter, cooldowns, steps and flap detector.
func newQueueLatency(share float64, t *Trace) Policy {
	p := optimizer.Policy{
		Queue:   &optimizer.QueueRule{TargetPerReplica: share / t.Share, IncludeRunning: true},
		Latency: &optimizer.LatencyRule{Signal: fleet.SignalTTFTP99, TargetSeconds: LateSeconds},
	}
	slowest := 0.0 // prefill of the slowest requests, where the load says so
	if n := len(t.Prefill); n > 0 {
		slowest = t.Prefill[n-1]
	}
	before := 0.0
	signals := []fleet.SignalName{fleet.SignalQueueLength, fleet.SignalRunning, fleet.SignalTTFTP99, fleet.SignalRequestRate}
	return newRulesWith(p, signals, 120/SlotSeconds, func(o *Observation, v []float64) {
		begun := o.Rate - (o.Queue-before)/SlotSeconds // requests per second that leave the queue
		before = o.Queue
		wait := 0.0
		if o.Queue > 0 {
			wait = 600 // nothing moves: as long as anybody asks
			if begun > 0 {
				wait = min(o.Queue/begun, wait)
			}
		}
		v[0], v[1], v[2], v[3] = o.Queue, o.Running, wait+slowest, o.Rate
	})
}
