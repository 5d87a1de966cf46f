package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// modelled are the signals that a World can tell of a service, in the order in which a Planner keeps them. Shares of a replica that are in use
// (SM activity, GPU utilisation, KV cache, CPU) are all taken as busy over ready: in the lab a replica is full when its batch is.
var modelled = []fleet.SignalName{
	fleet.SignalRunning, fleet.SignalQueueLength, fleet.SignalRequestRate, fleet.SignalTTFTP99, fleet.SignalQueueAge,
	fleet.SignalGPUSM, fleet.SignalGPUUtil, fleet.SignalKVCache, fleet.SignalCPURatio,
}

// assumed are those of them that are only as good as the assumption that use is the share of the batch.
var assumed = map[fleet.SignalName]bool{fleet.SignalGPUSM: true, fleet.SignalGPUUtil: true, fleet.SignalKVCache: true, fleet.SignalCPURatio: true}

// Planner sizes a service with a policy document through the code that decides in production: signals in a snapshot, learning that is kept
// and read back, memory, damping and guards, and the check of the finished plan.
type Planner struct {
	// Measured is how long replicas were measured to take until they serve, in seconds, for policies that do not say; 0 or nil: not known.
	Measured func(slot int) int
	// Deliver says which samples reach the planner after a slot; nil: those of the slot.
	Deliver func(slot int, signal fleet.SignalName, s fleet.Sample) []fleet.Sample
	// Prepare changes the snapshot before it is decided upon; nil: nothing does.
	Prepare func(slot int, s *fleet.Snapshot)
	// Judge sees every input and its plan; nil: nobody does.
	Judge func(slot int, in *optimizer.Input, p *optimizer.Plan) error

	input   optimizer.Input
	kept    []byte
	learner *optimizer.Learner
	signals []fleet.Signal
	used    []fleet.SignalName // by the policy
	before  float64            // queue at the end of the last slot
	needed  int
	start   int // measured, that the learner was made with
	err     error
}

// plannerSamples is how far back a snapshot reaches, in samples of a slot: a quarter of an hour.
const plannerSamples = 60

// NewPlanner takes a policy to play with: always enforced, of the given class of service. A policy that looks at a signal that the lab has no
// model of is refused.
func NewPlanner(p optimizer.Policy, class string) (*Planner, error) {
	p.Mode = fleet.ModeEnforce
	p = p.WithDefaults()
	if findings := p.Validate(); optimizer.HasErrors(findings) {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the policy cannot be used as it is: %s", findings[0].Message)
	}
	used := optimizer.Signals(&p)
	out := &Planner{}
	for _, name := range used {
		known := false
		for _, m := range modelled {
			known = known || m == name
		}
		if !known {
			return nil, fleet.Errorf(fleet.CodeInvalid, "the policy looks at %s, which a replay has no model of: what it would have been with other replicas is not known", name)
		}
	}
	for _, name := range modelled {
		out.signals = append(out.signals, fleet.Signal{Name: name})
	}
	out.used = used
	w := fleet.Workload{ID: rulesWorkload, Key: "lab/Deployment/service", Kind: "Deployment", Class: class}
	out.input = optimizer.Input{
		Snapshot: fleet.Snapshot{Mode: fleet.ModeEnforce, Workloads: []fleet.WorkloadState{{Workload: w}}},
		Policies: map[fleet.WorkloadID]optimizer.Binding{rulesWorkload: {Version: 1, Policy: p}},
	}
	return out, nil
}

// Assumed lists the signals of the policy that the lab takes as the share of the batch in use.
func (d *Planner) Assumed() []fleet.SignalName {
	out := []fleet.SignalName{}
	for _, n := range d.used {
		if assumed[n] {
			out = append(out, n)
		}
	}
	return out
}

// plannerEpoch is when slot 0 began; any time that is a whole number of slots will do.
const plannerEpoch = 1_000_000 * SlotSeconds

func slotTime(slot int) time.Time { return time.Unix(int64(slot)*SlotSeconds+plannerEpoch, 0).UTC() }

// Step is one round of the planner.
func (d *Planner) Step(o *Observation) int {
	now := slotTime(o.Slot + 1)
	values := d.values(o)
	for i := range d.signals {
		s := &d.signals[i]
		sample := fleet.Sample{At: now, Value: values[i], PodsReported: o.Ready, PodsUnready: o.Starting}
		if d.Deliver == nil {
			s.Samples = append(s.Samples[max(0, len(s.Samples)-plannerSamples+1):len(s.Samples):len(s.Samples)], sample)
			continue
		}
		s.Samples = append(s.Samples[:len(s.Samples):len(s.Samples)], d.Deliver(o.Slot, s.Name, sample)...)
		s.Samples = s.Samples[max(0, len(s.Samples)-3*plannerSamples):]
	}
	d.input.Snapshot.Now, d.input.Snapshot.LastSeen = now, now
	w := &d.input.Snapshot.Workloads[0]
	w.Replicas, w.Ready, w.Starting, w.Signals, w.Writers = o.Replicas(), o.Ready, o.Starting, d.signals, nil
	if d.Prepare != nil {
		d.Prepare(o.Slot, &d.input.Snapshot)
	}
	return d.decide(o)
}

func (d *Planner) values(o *Observation) []float64 {
	begun := o.Rate - (o.Queue-d.before)/SlotSeconds // requests per second that leave the queue
	d.before = o.Queue
	wait := 0.0
	if o.Queue > 0 {
		wait = 600 // nothing moves: as long as anybody asks
		if begun > 0 {
			wait = min(o.Queue/begun, wait)
		}
	}
	use := part(o.Busy, float64(o.Ready))
	return []float64{o.Running, o.Queue, o.Rate, wait, wait, use, use, use, use}
}

func (d *Planner) decide(o *Observation) int {
	start := 0
	if d.Measured != nil {
		start = d.Measured(o.Slot)
	}
	in, learned := optimizer.LearnAll(d.input, func(_ fleet.WorkloadID, s *optimizer.SLO, class string) *optimizer.Learner {
		if d.learner == nil || start != d.start || o.Slot%997 == 0 { // another planner takes over now and then
			d.learner, d.start = optimizer.NewLearner(d.kept, optimizer.BeganNew, s, class, start), start
		}
		return d.learner
	})
	if l := learned[rulesWorkload]; l != nil && l.Due() {
		d.kept, l.Kept = l.Policy.Encode(), l.Policy.Next()
	}
	plan, err := optimizer.Decide(in)
	if err == nil {
		if bad := optimizer.Check(plan, in); len(bad) > 0 {
			err = fleet.Errorf(fleet.CodeInternal, "slot %d: the decision breaks the rule %q: %s", o.Slot, bad[0].Code, bad[0].Message)
		}
	}
	if err == nil && d.Judge != nil {
		err = d.Judge(o.Slot, &in, &plan)
	}
	if err != nil {
		if d.err == nil {
			d.err = err
		}
		d.needed = o.Replicas()
		return o.Replicas()
	}
	d.input.Memory = plan.Memory
	d.needed = plan.Decisions[0].Needed
	return plan.Decisions[0].Target
}

// Needed is what the signals alone asked for in the last decision, before any damping.
func (d *Planner) Needed() int { return d.needed }

// Err is the first decision that could not be made or that broke a rule of its check; nil: all were sound.
func (d *Planner) Err() error { return d.err }

// Recomputes says whether a plan is what its stored input gives: the input is written as JSON, read back and decided upon again, and the
// decisions are compared byte for byte. An input with a value that JSON cannot hold is decided upon again as it is.
func Recomputes(in *optimizer.Input, p *optimizer.Plan) error {
	again := *in
	if doc, err := json.Marshal(in); err == nil {
		again = optimizer.Input{}
		if err := json.Unmarshal(doc, &again); err != nil {
			return fmt.Errorf("read the stored input: %w", err)
		}
	}
	second, err := optimizer.Decide(again)
	if err != nil {
		return err
	}
	was, err := json.Marshal(p.Decisions)
	if err != nil {
		return err
	}
	is, err := json.Marshal(second.Decisions)
	if err != nil {
		return err
	}
	if !bytes.Equal(was, is) {
		return fleet.Errorf(fleet.CodeInternal, "the stored input gives another decision: %s for %s", is, was)
	}
	return nil
}

// Batch is the replica of a service of which only the requests it holds at once are known.
func Batch(requests float64) Replica {
	r := DefaultReplica()
	r.OutputPerSecond = math.Max(requests, 1) / r.SecondsPerToken
	return r
}
