package optimizer

import (
	"math"
	"time"
)

// damp takes the need to what may be done now: stabilisation, cooldown, steps, in the order in which Kubernetes applies its
// own (stabilise first, then limit the rate).
func (g *deciding) damp() {
	g.stabilise()
	g.cooldown()
	g.steps()
}

// stabilise keeps the count within the lowest recommendation of the up window and the highest of the down window.
func (g *deciding) stabilise() {
	p, from := g.policy, g.d.From
	up, down := max(p.Up.StabilisationSeconds, 0), max(p.Down.StabilisationSeconds, 0)
	wide := widened(p.Flap, down, g.memory.FlapLevel)
	lowest, _ := g.extreme(up, false)
	highest, until := g.extreme(wide, true)
	target := max(from, min(lowest, g.count))
	target = min(target, max(highest, g.count))
	if target == g.count {
		return
	}
	r := Reason{Code: ReasonStabilisation, From: g.count, To: target, Numbers: map[string]float64{}}
	if g.count > from {
		r.Numbers["window_seconds"], r.Numbers["recommendation"] = float64(up), float64(lowest)
		g.settle(r)
		return
	}
	r.Numbers["window_seconds"], r.Numbers["recommendation"], r.Until = float64(wide), float64(highest), &until
	if wide > down {
		if plain, _ := g.extreme(down, true); min(from, max(plain, g.count)) < target {
			r.Code = ReasonFlapping
			r.Numbers["cycles"], r.Numbers["level"], r.Numbers["base_seconds"] = float64(g.memory.cycles()), float64(g.memory.FlapLevel), float64(down)
		}
	}
	g.settle(r)
}

// extreme is the highest or lowest recommendation made within the last seconds, this decision's included, and when it
// leaves the window.
func (g *deciding) extreme(window int, highest bool) (int, time.Time) {
	recs := g.memory.Recommendations
	best := recs[len(recs)-1]
	cutoff := g.snap.Now.Add(-seconds(window))
	for i := len(recs) - 2; i >= 0 && recs[i].At.After(cutoff); i-- {
		if (highest && recs[i].Needed > best.Needed) || (!highest && recs[i].Needed < best.Needed) {
			best = recs[i]
		}
	}
	return best.Needed, best.At.Add(seconds(window))
}

// cooldown holds a direction for a time after the last change in it. It never holds the other one.
func (g *deciding) cooldown() {
	from := g.d.From
	switch {
	case g.count > from:
		g.coolOne(ReasonCooldownUp, g.policy.Up.CooldownSeconds, g.memory.LastUp)
	case g.count < from:
		g.coolOne(ReasonCooldownDown, g.policy.Down.CooldownSeconds, g.memory.LastDown)
	}
}

func (g *deciding) coolOne(code ReasonCode, cooldown int, last *time.Time) {
	if cooldown <= 0 || last == nil {
		return
	}
	until := last.Add(seconds(cooldown))
	if !g.snap.Now.Before(until) {
		return
	}
	g.hold(Reason{Code: code, Until: &until, Numbers: map[string]float64{
		"cooldown_seconds": float64(cooldown), "since_seconds": g.snap.Now.Sub(*last).Seconds()}})
}

// steps limits how far the count moves within the period of each step, counting what already changed in it.
func (g *deciding) steps() {
	from := g.d.From
	switch {
	case g.count > from:
		limit := max(g.limit(g.policy.Up, true), from)
		if g.count > limit {
			g.settle(Reason{Code: ReasonStepUp, From: g.count, To: limit, Numbers: map[string]float64{"limit": float64(limit)}})
		}
	case g.count < from:
		limit := min(g.limit(g.policy.Down, false), from)
		if g.count < limit {
			g.settle(Reason{Code: ReasonStepDown, From: g.count, To: limit, Numbers: map[string]float64{"limit": float64(limit)}})
		}
	}
}

// limit is the farthest count that the steps of a direction allow: of several, the one with the largest change, or the
// smallest with select min. Per cent are rounded away from the start on the way up and, as Kubernetes does, also on the way
// down (0.5 x 3 leaves 1).
func (g *deciding) limit(d Damping, up bool) int {
	if d.Select == SelectDisabled {
		return g.d.From
	}
	chosen, first := 0, true
	for _, s := range d.Steps {
		start := g.d.From - g.changedWithin(s.PeriodSeconds)
		at := start
		switch {
		case s.Type == StepPods && up:
			at += s.Value
		case s.Type == StepPods:
			at -= s.Value
		case up:
			at = ceilCount(float64(start) * (1 + float64(s.Value)/100))
		default:
			at = int(math.Max(0, float64(start)*(1-float64(s.Value)/100)))
		}
		farther := (up && at > chosen) || (!up && at < chosen)
		if first || farther == (d.Select != SelectMin) {
			chosen, first = at, false
		}
	}
	return max(chosen, 0)
}

// changedWithin is the net change of the count within the last seconds.
func (g *deciding) changedWithin(period int) int {
	cutoff := g.snap.Now.Add(-seconds(period))
	net := 0
	for i := len(g.memory.Changes) - 1; i >= 0 && g.memory.Changes[i].At.After(cutoff); i-- {
		net += g.memory.Changes[i].To - g.memory.Changes[i].From
	}
	return net
}
