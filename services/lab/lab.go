// Package lab is the back-test bench of scaling policies: it reads recorded load, turns it into demand in replica units, lets policies
// size one service in a world of 15 s slots, and scores what they cost against a proven lower bound. It is pure: the same load, seed and
// policy give the same scorecard, byte for byte. It may never read a clock or a file, and it never acts; room replay is the model
// cluster behind the demo, this room only judges policies.
package lab

import (
	"plimsoll.dev/services/fleet"
)

// The grain of time, and what counts as late.
const (
	SlotSeconds    = 15 // one decision and one capacity per slot
	LateSeconds    = 5  // a request that waits longer to start is late
	TimeoutSeconds = 60 // a request that waits longer counts as timed out (it is served all the same)
	SlotsPerHour   = 3600 / SlotSeconds
	SlotsPerDay    = 24 * SlotsPerHour
	SlotsPerWeek   = 7 * SlotsPerDay
	maxSlots       = 60 * SlotsPerDay
	maxReplicas    = 100_000
)

// Replica says what one replica can do. The rates are those of a saturated replica, so OutputPerSecond x SecondsPerToken is the batch.
type Replica struct {
	PromptPerSecond float64 // prompt tokens per second
	OutputPerSecond float64 // output tokens per second over the whole batch
	SecondsPerToken float64 // time per output token of one request at that batch
}

// DefaultReplica is the replica of the scoreboard.
func DefaultReplica() Replica {
	return Replica{PromptPerSecond: 5000, OutputPerSecond: 900, SecondsPerToken: 0.040}
}

// Valid says whether the rates can be computed with.
func (r Replica) Valid() bool {
	return r.PromptPerSecond > 0 && r.OutputPerSecond > 0 && r.SecondsPerToken > 0 && r.OutputPerSecond*r.SecondsPerToken >= 1 &&
		r.PromptPerSecond < 1e9 && r.OutputPerSecond < 1e9 && r.SecondsPerToken < 60
}

// Trace is the load of one service, per slot of 15 s, as it would be if every request started at once.
type Trace struct {
	Name     string
	Rho      []float64 // replicas in use, mean over the slot
	Requests []float64 // requests that arrive in the slot
	Share    float64   // of a replica that one request holds while in service, mean
	// Prefill is the seconds from the start of a request to its first token, at evenly spaced quantiles, rising; empty: not known.
	Prefill []float64
	// Score is the span that is judged; what lies before it is history that a policy may learn from.
	From, To int
}

// Slots is the length of the trace.
func (t *Trace) Slots() int { return len(t.Rho) }

// Check refuses a trace that cannot be replayed.
func (t *Trace) Check() error {
	switch {
	case len(t.Rho) == 0 || len(t.Rho) > maxSlots || len(t.Rho) != len(t.Requests):
		return fleet.Errorf(fleet.CodeInvalid, "trace %s: %d slots of demand and %d of requests; want equal numbers from 1 to %d", t.Name, len(t.Rho), len(t.Requests), maxSlots)
	case t.From < 0 || t.To <= t.From || t.To > len(t.Rho):
		return fleet.Errorf(fleet.CodeInvalid, "trace %s: the judged span [%d, %d) is not within its %d slots", t.Name, t.From, t.To, len(t.Rho))
	case !(t.Share > 0 && t.Share <= maxReplicas):
		return fleet.Errorf(fleet.CodeInvalid, "trace %s: a request holds %v of a replica; want more than nothing", t.Name, t.Share)
	}
	for i, v := range t.Rho {
		if !(v >= 0 && v <= maxReplicas) {
			return fleet.Errorf(fleet.CodeInvalid, "trace %s, slot %d: demand %v; want 0 to %d replicas", t.Name, i, v, maxReplicas)
		}
		if n := t.Requests[i]; !(n >= 0 && n <= 1e12) {
			return fleet.Errorf(fleet.CodeInvalid, "trace %s, slot %d: %v requests", t.Name, i, n)
		}
	}
	return nil
}

// Mean and Peak of demand over the judged span.
func (t *Trace) Mean() float64 {
	sum := 0.0
	for _, v := range t.Rho[t.From:t.To] {
		sum += v
	}
	return sum / float64(t.To-t.From)
}

// Peak is the largest demand of a slot of the judged span.
func (t *Trace) Peak() float64 {
	peak := 0.0
	for _, v := range t.Rho[t.From:t.To] {
		peak = max(peak, v)
	}
	return peak
}

// Span returns the trace with another judged span; the slots are shared.
func (t *Trace) Span(from, to int) *Trace {
	c := *t
	c.From, c.To = from, to
	return &c
}
