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
	share  *Share // nil: it is no part of a service
	// forecast for an SLO rule; nil: there is none
	forecast *Forecast
	hints    []Hint
	hinted   int         // the floor that hints ask for; 0: none
	limited  *spendLimit // what budgets leave; nil: they do not speak
	memory   Memory
	d        Decision
	count    int // the replica count so far
	bound    int // index of the reason that settled count

	readings [16]reading // of signals read so far
	nRead    int
	queued   bool // work is waiting, by a fresh signal
	fresh    int  // rule signals that are fresh
	notFresh int  // rule signals that are not
	worst    *reading

	needs int     // rules that asked for a count
	best  int     // index of the reason of the largest need
	load  float64 // replicas that would be just full by the rule with the largest need; 0: not known
}

// decide decides on one workload. p is b's policy with its defaults. g is only a place to work in: nothing of what was in it counts.
func (g *deciding) decide(snap *fleet.Snapshot, w *fleet.WorkloadState, p *Policy, b *Binding, m Memory, f *Forecast, limit *spendLimit) (Decision, Memory) {
	*g = deciding{snap: snap, state: w, policy: p, share: b.Share, memory: m, forecast: f, hints: b.Hints, limited: limit}
	g.d = Decision{
		At: snap.Now, Workload: w.Workload.ID, Key: w.Workload.Key, From: w.Replicas, Ready: w.Ready, Needed: w.Replicas,
		Min: g.ownMin(), Max: p.Max, Mode: fleet.Stricter(snap.Mode, p.Mode), Policy: b.Version,
		Reasons: make([]Reason, 0, 6), Inputs: make([]SignalInput, 0, 6), Alternatives: []Alternative{},
	}
	g.count = w.Replicas
	if code, ok := g.decidable(); !ok {
		g.hold(Reason{Code: code})
		g.finish()
		return g.d, g.memory
	}
	g.memory = g.memory.at(snap.Now)
	g.seeChange()
	g.rules()
	g.hint()
	g.quiet()
	g.recommend()
	g.settleCount()
	g.finish()
	g.alternatives()
	return g.d, g.memory
}

// decidable says whether the workload can be computed with at all.
func (g *deciding) decidable() (ReasonCode, bool) {
	switch g.state.Workload.Kind {
	case "DaemonSet", "Job", "CronJob", "Pod":
		return ReasonNotScalable, false
	}
	if g.d.Mode.Rank() < 0 || g.state.Replicas < 0 || !g.policy.computable() {
		return ReasonInvalidPolicy, false
	}
	return "", true
}

// settleCount takes the count from the need to the target: guards, damping, bounds.
func (g *deciding) settleCount() {
	needed := map[string]float64{"needed": float64(g.d.Needed)}
	writer, fought := foreignWriter(g.state.Writers, g.snap.Now)
	switch {
	case g.snap.Frozen:
		g.hold(Reason{Code: ReasonFrozen, Numbers: needed})
	case fought && !g.policy.OwnReplicas:
		r := Reason{Code: ReasonConflict, Numbers: needed}
		if !writer.At.IsZero() {
			until := writer.At.Add(conflictWindow)
			r.Until, needed["age_seconds"] = &until, math.Max(0, g.snap.Now.Sub(writer.At).Seconds())
		}
		g.hold(r)
	case g.d.From == 0 && g.ownMin() > 0:
		needed["min"] = float64(g.ownMin())
		g.hold(Reason{Code: ReasonZeroReplicas, Numbers: needed})
	default:
		if !g.longTail() {
			g.damp()
		}
		g.bounds()
		g.spend()
	}
}

// rules asks every rule, takes the largest need, and refuses to go down unless every signal asked is fresh.
func (g *deciding) rules() {
	g.best = -1
	q := g.read(fleet.SignalQueueLength)
	g.queued = q.fresh() && q.last.Value > 0
	p := g.policy
	for i := range p.TargetRatio {
		g.ratioRule(&p.TargetRatio[i])
	}
	if p.Queue != nil {
		g.queueRule(p.Queue)
	}
	if p.Latency != nil {
		g.latencyRule(p.Latency)
	}
	if p.SLO != nil {
		g.sloRule(p.SLO)
	}
	from := g.d.From
	if g.best < 0 {
		g.hold(Reason{Code: ReasonNoSignal, Signal: g.worst.name, Numbers: g.darkness()})
		return
	}
	need := g.d.Reasons[g.best]
	g.bound, g.count, g.d.Needed = g.best, need.To, need.To
	if g.needs > 1 {
		g.note(Reason{Code: ReasonLargestNeed, Signal: need.Signal, From: from, To: need.To, Numbers: map[string]float64{"rules": float64(g.needs)}})
	}
	if g.notFresh > 0 && g.count < from {
		g.hold(Reason{Code: ReasonPartialSignal, Signal: g.worst.name, Numbers: g.darkness()})
		return
	}
	if sizes(need.Code) {
		if need.To == from {
			g.settle(Reason{Code: ReasonSteady, Signal: need.Signal, From: from, To: from, Numbers: map[string]float64{"needed": float64(need.To)}})
		}
	}
}

// sizes says that a reason gives a size, which may be the one that is there.
func sizes(c ReasonCode) bool {
	switch c {
	case ReasonTargetRatio, ReasonQueue, ReasonForecast, ReasonForecastHold, ReasonBacklog:
		return true
	}
	return false
}

// mayGoDown says that every signal of every rule is fresh.
func (g *deciding) mayGoDown() bool { return g.notFresh == 0 && g.fresh > 0 }

// darkness counts the signals that cannot be believed, with the age of the first of them if it has one.
func (g *deciding) darkness() map[string]float64 {
	n := map[string]float64{"signals": float64(g.fresh + g.notFresh), "not_fresh": float64(g.notFresh)}
	if g.worst.ok {
		n["age_seconds"] = g.worst.age
	}
	return n
}

// read filters a signal once per decision.
func (g *deciding) read(name fleet.SignalName) *reading {
	for i := range g.readings[:g.nRead] {
		if g.readings[i].name == name {
			return &g.readings[i]
		}
	}
	confirmed := g.queued || name == fleet.SignalQueueLength || name == fleet.SignalQueueAge
	r := &g.readings[g.nRead%len(g.readings)]
	if g.nRead < len(g.readings) {
		g.nRead++
	} else { // more signals than any sane policy has: read, not kept
		r = new(reading)
	}
	*r = read(g.state.Signal(name), g.snap.Now, seconds(g.policy.MaxSignalAgeSeconds), g.policy.Filter, perPodSignal(name), confirmed)
	return r
}

// input lists a signal that a rule looked at; needed is nil when it asked for nothing by itself.
func (g *deciding) input(r *reading, target float64, needed *int) {
	if r.fresh() {
		g.fresh++
	} else {
		g.notFresh++
		if g.worst == nil {
			g.worst = r
		}
	}
	in := SignalInput{Name: r.name, AgeSeconds: r.age, Truth: r.truth, Samples: r.samples, Target: target, Needed: needed, Outlier: r.outlier != 0}
	if r.ok {
		v := [2]float64{r.last.Value, r.level}
		in.Raw, in.Filtered = &v[0], &v[1]
	}
	g.d.Inputs = append(g.d.Inputs, in)
}

// need notes what a rule asks for; of equal needs the first rule's counts. load is how many replicas would be just full.
func (g *deciding) need(r Reason, load float64) {
	r.From = g.d.From
	g.note(r)
	g.needs++
	if g.best < 0 || r.To > g.d.Reasons[g.best].To {
		g.best, g.load = len(g.d.Reasons)-1, load
	}
}

// note leaves a reason that settles nothing.
func (g *deciding) note(r Reason) { g.d.Reasons = append(g.d.Reasons, r) }

// settle leaves a reason and lets it decide the count.
func (g *deciding) settle(r Reason) {
	g.note(r)
	g.bound, g.count = len(g.d.Reasons)-1, r.To
}

// hold settles the count at what is there.
func (g *deciding) hold(r Reason) {
	r.From, r.To = g.count, g.d.From
	g.settle(r)
}

// finish turns what was gathered into the decision and notes it in memory.
func (g *deciding) finish() {
	d := &g.d
	d.Target = g.count
	d.Reasons[g.bound].Binding = true
	d.Binding = d.Reasons[g.bound].Code
	switch {
	case d.Target > d.From:
		d.Outcome = OutcomeUp
	case d.Target < d.From:
		d.Outcome = OutcomeDown
	default:
		d.Outcome = OutcomeHold
	}
	d.CostDelta = times(g.state.ReplicaHour, d.Target-d.From)
	d.ExpiresAt = expiry(d, g.policy)
	g.memory.remember(d)
}

// expiry is when a decision may no longer be carried out.
func expiry(d *Decision, p *Policy) time.Time {
	if d.Mode == fleet.ModeEnforce {
		return d.At.Add(seconds(p.PlanTTLSeconds))
	}
	return d.At.Add(seconds(p.ApprovalTTLSeconds))
}
