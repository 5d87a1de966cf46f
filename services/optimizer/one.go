package optimizer

import (
	"math"
	"time"

	"plimsoll.dev/services/fleet"
)

// deciding is one decision in the making: every step moves count and leaves a reason.
type deciding struct {
	snap   *fleet.Snapshot
	state  *fleet.WorkloadState
	policy *Policy
	memory Memory
	d      Decision
	count  int // the replica count so far
	bound  int // index of the reason that settled count
}

// need is what one rule asks for.
type need struct {
	reason Reason
	ok     bool // false: its signals cannot be used
}

// decideOne decides on one workload. p has its defaults.
func decideOne(snap *fleet.Snapshot, w *fleet.WorkloadState, p Policy, version int, m Memory) (Decision, Memory) {
	g := deciding{snap: snap, state: w, policy: &p, memory: m}
	g.d = Decision{
		Workload: w.Workload.ID, Key: w.Workload.Key, From: w.Replicas, Ready: w.Ready, Min: p.Min, Max: p.Max,
		Mode: fleet.Stricter(snap.Mode, p.Mode), Policy: version, At: snap.Now,
	}
	g.count = w.Replicas
	g.rules()
	g.bounds()
	return g.finish(), g.memory
}

// rules asks every rule and takes the largest need.
func (g *deciding) rules() {
	g.d.Needed = g.d.From
	best := -1
	for i := range g.policy.TargetRatio {
		r := &g.policy.TargetRatio[i]
		sig := g.state.Signal(r.Signal)
		truth := sig.Truth(g.snap.Now, seconds(g.policy.MaxSignalAgeSeconds))
		in := SignalInput{Name: r.Signal, Truth: truth, Samples: len(sig.Samples), Target: r.Target}
		if last, ok := sig.Last(); ok && finite(last.Value) {
			v := last.Value
			in.Raw, in.Filtered = &v, &v
			in.AgeSeconds = g.snap.Now.Sub(last.At).Seconds()
		}
		if truth == fleet.TruthFresh {
			last, _ := sig.Last()
			n, within := hpaNeed(r, *in.Filtered, last, g.state)
			code := ReasonTargetRatio
			if within {
				code = ReasonWithinTolerance
			}
			in.Needed = &n
			g.note(Reason{Code: code, Signal: r.Signal, From: g.d.From, To: n,
				Numbers: map[string]float64{"value": *in.Filtered, "target": r.Target, "tolerance": r.Tolerance}})
			if best < 0 || n > best {
				best, g.bound = n, len(g.d.Reasons)-1
			}
		}
		g.d.Inputs = append(g.d.Inputs, in)
	}
	if best < 0 {
		g.settle(Reason{Code: ReasonNoSignal, From: g.d.From, To: g.d.From})
		return
	}
	g.d.Needed, g.count = best, best
}

// note leaves a reason that settles nothing.
func (g *deciding) note(r Reason) { g.d.Reasons = append(g.d.Reasons, r) }

// settle leaves a reason and lets it decide the count.
func (g *deciding) settle(r Reason) {
	g.d.Reasons = append(g.d.Reasons, r)
	g.bound = len(g.d.Reasons) - 1
	g.count = r.To
}

// finish turns what was gathered into the decision and notes it in memory.
func (g *deciding) finish() Decision {
	d := &g.d
	d.Target = g.count
	d.Binding = d.Reasons[g.bound].Code
	switch {
	case d.Target > d.From:
		d.Outcome = OutcomeUp
	case d.Target < d.From:
		d.Outcome = OutcomeDown
	default:
		d.Outcome = OutcomeHold
	}
	if g.state.ReplicaHour != nil {
		c := g.state.ReplicaHour.MulDiv(int64(d.Target-d.From), 1)
		d.CostDelta = &c
	}
	d.Reasons[g.bound].Binding = true
	d.ExpiresAt = expiry(d, g.policy)
	g.memory.remember(d)
	return *d
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// expiry is when a decision may no longer be carried out.
func expiry(d *Decision, p *Policy) time.Time {
	if d.Mode == fleet.ModeEnforce {
		return d.At.Add(seconds(p.PlanTTLSeconds))
	}
	return d.At.Add(seconds(p.ApprovalTTLSeconds))
}
