package optimizer

import (
	"math"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// SLO is the rule that sizes by an objective: so many requests may wait too long, at the least cost. It learns the workload's demand
// (room optimizer/quantile) and needs running_requests, queue_length and request_rate.
type SLO struct {
	// Class gold, standard or economy sets LateShare. Default: the workload's class, standard where it has none.
	Class string `json:"class,omitempty"`
	// LateShare is the share of requests that may be late. Default by class: gold 0.01, standard 0.03, economy 0.10. The policy aims at
	// 90 % of it, one more hour as bad as the worst included.
	LateShare float64 `json:"late_share,omitempty"`
	// LateSeconds: a request that waits longer to start is late. Default 5.
	LateSeconds float64 `json:"late_seconds"`
	// StartSeconds is how long a new replica takes from the order until it serves, the slow tenth of them. Default 0: measured on the
	// starts of the last week, 180 until five of them were seen.
	StartSeconds int `json:"start_seconds,omitempty"`
	// AimShare is the part of the objective that is aimed at, from 0.1 to 0.95: less is more punctual and dearer. Default 0.9.
	AimShare float64 `json:"aim_share,omitempty"`
	// Tuning says what becomes of a better AimShare that nightly tuning finds on the workload's own history: off (it does not look), propose, or
	// apply (it rolls it out in stages). Default propose.
	Tuning string `json:"tuning,omitempty"`
	// RequestsPerReplica is how many requests one replica serves at once within its latency. Required.
	RequestsPerReplica float64 `json:"requests_per_replica"`
}

// Classes of service.
const (
	ClassGold     = "gold"
	ClassStandard = "standard"
	ClassEconomy  = "economy"
)

// What nightly tuning may do.
const (
	TuningOff     = "off"
	TuningPropose = "propose"
	TuningApply   = "apply"
)

// Bounds of AimShare.
const (
	MinAimShare = 0.1
	MaxAimShare = 0.95
)

// Defaults and bounds of the rule.
const (
	defaultLateSeconds  = 5
	defaultStartSeconds = 180
	maxStartSeconds     = hourSeconds
	sloMargin           = 0.9 // the part of the objective that is aimed at, one more worst hour included
)

// lateShare is the objective of a class; of an unknown one that of standard.
func lateShare(class string) float64 {
	switch class {
	case ClassGold:
		return 0.01
	case ClassEconomy:
		return 0.10
	}
	return 0.03
}

func (s SLO) withDefaults() *SLO {
	orFloat(&s.LateSeconds, defaultLateSeconds)
	return &s
}

// Objective is the share of requests that may be late, for a workload of the given class.
func (s *SLO) Objective(class string) float64 {
	if s.LateShare > 0 {
		return s.LateShare
	}
	if s.Class != "" {
		class = s.Class
	}
	return lateShare(class)
}

// startMoves is by how much a measured start must differ from the one that is learned for, before all that was learned is given up for it.
const startMoves = 0.4

// start is what is looked ahead by, in seconds: as the policy says, else what was learned for so far unless what is measured is far from
// it, else what is measured. 0 is unknown.
func (s *SLO) start(measured, kept int) int {
	measured = min(measured, maxStartSeconds)
	switch {
	case s.StartSeconds > 0:
		return s.StartSeconds
	case kept > 0 && (measured <= 0 || math.Abs(float64(measured-kept)) <= startMoves*float64(kept)):
		return kept
	case measured > 0:
		return measured
	}
	return defaultStartSeconds
}

// params of the policy for a workload of the given class whose replicas start in so many seconds.
func (s *SLO) params(class string, start int) quantile.Params {
	return quantile.Params{
		ColdSlots: max(1, (start+quantile.SlotSeconds-1)/quantile.SlotSeconds),
		Late:      s.Aim(class), LateSeconds: s.LateSeconds,
	}
}

// Aim is the share of late requests that the policy aims at for a workload of the given class: a part of the objective, since what will
// happen differs from what has.
func (s *SLO) Aim(class string) float64 { return s.Aims() * s.Objective(class) }

// Aims is the part of the objective that is aimed at.
func (s *SLO) Aims() float64 {
	if s.AimShare > 0 {
		return s.AimShare
	}
	return sloMargin
}

// sloDamping is the damping of a policy that has an SLO rule and says nothing else: the rule holds by itself, for as long as pays.
func (p *Policy) sloDamping() {
	none := func(d *Damping) {
		orInt(&d.CooldownSeconds, -1)
		orInt(&d.StabilisationSeconds, -1)
	}
	none(&p.Up)
	none(&p.Down)
	orInt(&p.Flap.CyclesPerHour, sloCycles)
}

// sloCycles: the rule weighs every up-down-up against what it saves, so that only restlessness beyond that is damped.
const sloCycles = 6

// Forecast is what was learned of a workload, in numbers: with it a decision computes again without what it was learned from.
type Forecast struct {
	At      time.Time        `json:"at"` // the end of the newest slot that was learned
	Began   Beginning        `json:"began"`
	Aim     float64          `json:"aim"` // share of late requests that is aimed at
	Outlook quantile.Outlook `json:"outlook"`
}

// leastLearned is after how many slots a forecast may be decided by: ten minutes, for the longest mean and the first hold to be filled.
const leastLearned = 600 / quantile.SlotSeconds

// usable says whether a decision at now may rest on the forecast.
func (f *Forecast) usable(now time.Time, maxAge time.Duration) bool {
	age := now.Sub(f.At)
	o := &f.Outlook
	return age <= maxAge && age >= -maxAge && o.Learned >= leastLearned && o.Want >= 0 && o.Want <= maxReplicas && o.CatchUp >= 0 && o.CatchUp <= maxReplicas &&
		o.Need >= 0 && o.Need <= maxReplicas && finite(o.Upper) && finite(o.Demand) && finite(o.Median)
}

// sloRule asks for what the forecast says. Without one that is fresh it never goes down, and up by the rule of thumb for a service of which
// nothing is known.
func (g *deciding) sloRule(s *SLO) {
	running, queue, rate := g.read(fleet.SignalRunning), g.read(fleet.SignalQueueLength), g.read(fleet.SignalRequestRate)
	f, from := g.forecast, g.d.From
	if f == nil || !f.usable(g.snap.Now, seconds(g.policy.MaxSignalAgeSeconds)) {
		g.withoutForecast(s, running, queue, rate)
		return
	}
	o := &f.Outlook
	first := Reason{Code: ReasonForecast, Signal: fleet.SignalRunning, From: from, To: o.Need, Numbers: f.numbers()}
	last := first
	if o.Want > o.Need {
		last = Reason{Code: ReasonForecastHold, Signal: fleet.SignalRunning, To: o.Want, Numbers: map[string]float64{
			"hold_seconds": float64(o.Chief.Hold * quantile.SlotSeconds), "need": float64(o.Need)}}
	}
	if o.CatchUp > o.Need && o.CatchUp >= o.Want {
		last = Reason{Code: ReasonBacklog, Signal: fleet.SignalQueueLength, To: o.CatchUp, Numbers: map[string]float64{
			"backlog_seconds": o.Backlog, "demand": o.Demand, "late_seconds": s.LateSeconds}}
	}
	last = g.sloGuards(f, running, last)
	if last.Code != first.Code {
		g.note(first)
	}
	needed := last.To
	g.need(last, min(max(o.Upper, 0), maxReplicas))
	g.input(running, s.RequestsPerReplica, &needed)
	g.input(queue, 0, nil)
	g.input(rate, 0, nil)
}

// sloGuards keep a need from going down where the forecast may not be believed downwards.
func (g *deciding) sloGuards(f *Forecast, running *reading, need Reason) Reason {
	o, from := &f.Outlook, g.d.From
	if floor, c := g.collapsed(o, need.To); floor > need.To {
		need = Reason{Code: ReasonCollapse, Signal: fleet.SignalRunning, To: floor, Numbers: map[string]float64{
			"demand": o.Demand, "median": c.Median, "replicas": float64(c.Replicas), "since_seconds": g.snap.Now.Sub(c.At).Seconds()}}
	}
	switch {
	case need.To >= from:
	case o.Hours < 1:
		code := ReasonLearning
		if f.Began != BeganNew {
			code = ReasonRelearning
		}
		need = Reason{Code: code, To: from, Numbers: map[string]float64{"hours": o.Hours, "needed": float64(need.To)}}
	case running.last.PodsMissing > 0:
		need = Reason{Code: ReasonUnreadyPods, Signal: fleet.SignalRunning, To: from, Numbers: map[string]float64{
			"missing": float64(running.last.PodsMissing), "needed": float64(need.To)}}
	}
	return need
}

// withoutForecast is square-root staffing of what is in flight: 1.25 times it and 2.33 of its standard deviations, at nine tenths of what a
// replica can hold. It only ever raises.
func (g *deciding) withoutForecast(s *SLO, running, queue, rate *reading) {
	r := Reason{Code: ReasonNoForecast, Signal: fleet.SignalRunning, To: g.d.From, Numbers: map[string]float64{}}
	if g.forecast != nil {
		r.Numbers["age_seconds"] = math.Max(0, g.snap.Now.Sub(g.forecast.At).Seconds())
		r.Numbers["learned_seconds"] = float64(g.forecast.Outlook.Learned * quantile.SlotSeconds)
		if g.forecast.Began != BeganNew && g.forecast.Outlook.Learned < leastLearned {
			g.note(Reason{Code: ReasonRelearning, From: g.d.From, To: g.d.From, Numbers: map[string]float64{"hours": 0, "needed": float64(g.d.From)}})
		}
	}
	if running.fresh() && queue.fresh() {
		rho := (running.level + queue.level) / s.RequestsPerReplica
		r.Numbers["demand"] = rho
		r.To = max(r.To, s.staffed(rho))
		g.need(r, rho)
	} else {
		g.note(r)
	}
	g.input(running, s.RequestsPerReplica, nil)
	g.input(queue, 0, nil)
	g.input(rate, 0, nil)
	g.notFresh++ // the forecast is a signal too
	if g.worst == nil {
		g.worst = running
	}
}

// Collapse is a sudden fall of the demand to almost nothing: more often a fault in front of the workload than an end of the day.
type Collapse struct {
	At       time.Time `json:"at"`
	Replicas int       `json:"replicas"` // that there were
	Median   float64   `json:"median"`   // of the demand, over the hour before
}

// When a collapse is seen, what is kept, for how long, and how it is given back: 0.7 of the size for half an hour, then a quarter of that
// less every ten minutes.
const (
	collapseBelow = 0.3
	collapseOver  = 0.5 // of the median: it is back
	collapseKeep  = 0.7
	collapseGive  = 0.75
	collapseHold  = 30 * time.Minute
	collapseStep  = 10 * time.Minute
)

// collapsed notes a collapse of the demand and says what is kept for its sake.
func (g *deciding) collapsed(o *quantile.Outlook, need int) (int, *Collapse) {
	m, now := &g.memory, g.snap.Now
	if c := m.Collapse; c != nil && (o.Demand >= collapseOver*c.Median || c.At.After(now)) {
		m.Collapse = nil
	}
	if m.Collapse == nil && g.d.From > 2 && o.Hours >= 1 && o.Demand < collapseBelow*o.Median {
		m.Collapse = &Collapse{At: now, Replicas: g.d.From, Median: o.Median}
	}
	c := m.Collapse
	if c == nil {
		return 0, nil
	}
	keep := collapseKeep * float64(c.Replicas)
	if after := now.Sub(c.At) - collapseHold; after >= 0 {
		keep *= math.Pow(collapseGive, math.Floor(float64(after)/float64(collapseStep))+1)
	}
	floor := ceilCount(keep)
	if floor <= need || floor <= 1 {
		if now.Sub(c.At) >= collapseHold {
			m.Collapse = nil
		}
		return 0, c
	}
	return floor, c
}

// numbers explain the forecast: what binds, who is second, and what a HorizontalPodAutoscaler would have cost.
func (f *Forecast) numbers() map[string]float64 {
	o := &f.Outlook
	n := map[string]float64{
		"demand": o.Demand, "level": o.Level, "middle": o.Middle, "upper": o.Upper, "lead_seconds": float64(o.LeadSlots * quantile.SlotSeconds),
		"hours": o.Hours, "aim": f.Aim, "cast": float64(o.Chief.Cast), "quantile": o.Chief.Quantile,
		"hold_seconds": float64(o.Chief.Hold * quantile.SlotSeconds), "expected_late": o.Chief.Expected, "mean": o.Chief.Mean,
		"own_mean": o.Own.Mean, "own_late": o.Own.Late, "plain_mean": o.Plain.Mean, "plain_late": o.Plain.Late, "plain_want": float64(o.Plain.Want),
	}
	if r := o.Runner; r != nil {
		n["runner_cast"], n["runner_quantile"], n["runner_hold_seconds"] = float64(r.Cast), r.Quantile, float64(r.Hold*quantile.SlotSeconds)
		n["runner_want"], n["runner_late"], n["runner_mean"] = float64(r.Want), r.Expected, r.Mean
	}
	for k, v := range n {
		if !finite(v) {
			delete(n, k)
		}
	}
	return n
}
