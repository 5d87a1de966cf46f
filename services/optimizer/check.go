package optimizer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// Violation is a rule that a finished plan breaks. A plan with one must not be saved.
type Violation struct {
	Workload fleet.WorkloadID `json:"workload,omitempty"` // empty: the plan as a whole
	Code     string           `json:"code"`
	Message  string           `json:"message"`
}

// checker collects violations.
type checker struct {
	out []Violation
	id  fleet.WorkloadID
}

func (c *checker) say(code, format string, args ...any) {
	c.out = append(c.out, Violation{Workload: c.id, Code: code, Message: fmt.Sprintf(format, args...)})
}

// Check lints a finished plan against the input it was made from. It trusts nothing that Decide did: bounds, guards, truth
// of the signals and sums are worked out again from the input. A sound plan has no violations.
func Check(p Plan, in Input) []Violation {
	c := &checker{}
	c.frame(p, in.Snapshot)
	states := make(map[fleet.WorkloadID]*fleet.WorkloadState, len(in.Snapshot.Workloads))
	for i := range in.Snapshot.Workloads {
		states[in.Snapshot.Workloads[i].Workload.ID] = &in.Snapshot.Workloads[i]
	}
	seen := make(map[fleet.WorkloadID]bool, len(p.Decisions))
	for i := range p.Decisions {
		d := &p.Decisions[i]
		c.id = d.Workload
		if i > 0 && p.Decisions[i-1].Key > d.Key {
			c.say("sorted", "decision %q stands after %q", d.Key, p.Decisions[i-1].Key)
		}
		if seen[d.Workload] {
			c.say("twice", "workload has two decisions")
		}
		seen[d.Workload] = true
		state := states[d.Workload]
		binding, ok := in.Policies[d.Workload]
		if !ok || state == nil {
			c.say("unknown", "decision is about a workload without a policy or not in the snapshot")
			continue
		}
		if _, ok = p.Memory[d.Workload]; !ok {
			c.say("memory", "there is nothing to remember of the decision")
		}
		c.decision(d, &in, state, binding)
	}
	c.id = ""
	for id := range states {
		if _, ok := in.Policies[id]; ok && !seen[id] {
			c.say("left_out", "workload %s has a policy and no decision", id)
		}
	}
	c.checkBudgets(p, &in, states)
	sortViolations(c.out)
	return c.out
}

// frame checks what a plan says of itself.
func (c *checker) frame(p Plan, s fleet.Snapshot) {
	if p.Generation != s.Generation+1 || p.Parent != s.Parent {
		c.say("generation", "generation is %d after %d, parent %q after %q", p.Generation, s.Generation, p.Parent, s.Parent)
	}
	if p.Cluster != s.Cluster || !p.At.Equal(s.Now) {
		c.say("origin", "plan is for cluster %q at %s, snapshot is of %q at %s", p.Cluster, p.At.Format(time.RFC3339), s.Cluster, s.Now.Format(time.RFC3339))
	}
	if p.Mode != s.Mode || p.Mode.Rank() < 0 {
		c.say("mode", "plan mode is %q, cluster mode %q", p.Mode, s.Mode)
	}
	if !p.ExpiresAt.After(p.At) {
		c.say("expiry", "plan expires before it begins")
	}
}

// decision checks one decision against what it was made from.
func (c *checker) decision(d *Decision, in *Input, w *fleet.WorkloadState, b Binding) {
	p, s := b.Policy.WithDefaults(), &in.Snapshot
	if d.From != w.Replicas || d.Key != w.Workload.Key {
		c.say("origin", "decision is for %q at %d replicas, snapshot has %q at %d", d.Key, d.From, w.Workload.Key, w.Replicas)
	}
	if d.Target < 0 && d.Target != d.From {
		c.say("target", "target %d is negative", d.Target)
	}
	if d.Mode != fleet.Stricter(s.Mode, p.Mode) {
		c.say("mode", "decision mode is %q, cluster %q and policy %q allow %q", d.Mode, s.Mode, p.Mode, fleet.Stricter(s.Mode, p.Mode))
	}
	if d.Policy != b.Version {
		c.say("policy", "decision names policy version %d, in force is %d", d.Policy, b.Version)
	}
	switch {
	case d.Outcome == OutcomeHold && d.Target == d.From, d.Outcome == OutcomeUp && d.Target > d.From, d.Outcome == OutcomeDown && d.Target < d.From:
	default:
		c.say("outcome", "outcome %q from %d to %d", d.Outcome, d.From, d.Target)
	}
	least := p.Min
	if b.Share != nil { // money may keep it from its part of a service, never from the policy's own floor
		least = b.Share.Min
	}
	if d.Target != d.From && (d.Target > p.Max || d.Target < least) {
		c.say("bounds", "target %d is outside %d to %d", d.Target, least, p.Max)
	}
	if s.Frozen && d.Target != d.From {
		c.say("frozen", "target changes from %d to %d while frozen", d.From, d.Target)
	}
	if _, fought := foreignWriter(w.Writers, s.Now); fought && !p.OwnReplicas && d.Target != d.From {
		c.say("conflict", "target changes while another controller writes the replicas")
	}
	if d.Target < d.From {
		c.truth(d, in, w, &p)
	}
	c.reasons(d)
	c.numbers(d)
	c.cost(d, w)
}

// truth checks that every signal that a policy's rules look at is fresh, by the snapshot's own account.
func (c *checker) truth(d *Decision, in *Input, w *fleet.WorkloadState, p *Policy) {
	s := &in.Snapshot
	for _, name := range ruleSignals(p) {
		sig := w.Signal(name)
		sig.Samples = inOrder(sig.Samples)
		if t := sig.Truth(s.Now, seconds(p.MaxSignalAgeSeconds)); t != fleet.TruthFresh {
			c.say("truth", "scales down while %s is %s", name, t)
		}
	}
	if f := in.forecast(d.Workload); p.SLO != nil && (f == nil || !f.usable(s.Now, seconds(p.MaxSignalAgeSeconds))) {
		c.say("truth", "scales down without a fresh forecast")
	}
	if len(d.Inputs) == 0 {
		c.say("truth", "scales down without having looked at a signal")
	}
}

// ruleSignals lists the signals that the rules of a policy look at.
func ruleSignals(p *Policy) []fleet.SignalName {
	var out []fleet.SignalName
	for _, r := range p.TargetRatio {
		out = append(out, r.Signal)
	}
	if q := p.Queue; q != nil {
		out = append(out, fleet.SignalQueueLength)
		if q.IncludeRunning {
			out = append(out, fleet.SignalRunning)
		}
		if q.MaxAgeSeconds > 0 {
			out = append(out, fleet.SignalQueueAge)
		}
	}
	if l := p.Latency; l != nil {
		out = append(out, l.Signal, fleet.SignalRequestRate)
	}
	if p.SLO != nil {
		out = append(out, fleet.SignalRunning, fleet.SignalQueueLength, fleet.SignalRequestRate)
	}
	return out
}

// reasons checks that a decision explains itself, with exactly one reason that settled it at its target.
func (c *checker) reasons(d *Decision) {
	if len(d.Reasons) == 0 {
		c.say("reasons", "decision has no reason")
		return
	}
	binding := 0
	for i := range d.Reasons {
		r := &d.Reasons[i]
		if r.Code == "" {
			c.say("reasons", "reason %d has no code", i)
		}
		if !r.Binding {
			continue
		}
		binding++
		if r.Code != d.Binding {
			c.say("binding", "reason %q is marked, decision names %q", r.Code, d.Binding)
		}
		if r.To != d.Target {
			c.say("binding", "binding reason ends at %d, target is %d", r.To, d.Target)
		}
	}
	if binding != 1 {
		c.say("binding", "%d reasons are binding, one must be", binding)
	}
}

// numbers checks that nothing in a decision is not a number.
func (c *checker) numbers(d *Decision) {
	for i := range d.Reasons {
		for k, v := range d.Reasons[i].Numbers {
			if !finite(v) {
				c.say("number", "reason %q: %s is %v", d.Reasons[i].Code, k, v)
			}
		}
	}
	for i := range d.Inputs {
		in := &d.Inputs[i]
		if !finite(in.AgeSeconds) || !finite(in.Target) || !finiteOrNil(in.Raw) || !finiteOrNil(in.Filtered) {
			c.say("number", "input %s is not a number", in.Name)
		}
	}
	for i := range d.Alternatives {
		a := &d.Alternatives[i]
		if !finiteOrNil(a.Load) || a.Replicas < 0 {
			c.say("number", "alternative of %d replicas is not a number", a.Replicas)
		}
	}
}

// cost checks that the difference in cost is that of the replicas.
func (c *checker) cost(d *Decision, w *fleet.WorkloadState) {
	want := times(w.ReplicaHour, d.Target-d.From)
	if (want == nil) != (d.CostDelta == nil) || (want != nil && *want != *d.CostDelta) {
		c.say("cost", "cost difference is not replicas x price")
	}
}

func finiteOrNil(v *float64) bool { return v == nil || finite(*v) }

// sortViolations orders by workload, code and message, since maps were walked.
func sortViolations(v []Violation) {
	slices.SortStableFunc(v, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
}
