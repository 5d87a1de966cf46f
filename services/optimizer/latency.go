package optimizer

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// A request rate rises when the last window is this much above the one before, and is steady while it stays this near.
const (
	risingChange = 0.05
	steadyChange = 0.10
)

// latencyRule takes a step up when the latency is over its upper threshold and the load presses (the rate rises, or work
// waits: at saturation the served rate no longer rises), and a step down when it is under the lower one and the rate is
// steady. While replicas of the last step are still starting it waits for them.
func (g *deciding) latencyRule(r *LatencyRule) {
	lat, rate := g.read(r.Signal), g.read(fleet.SignalRequestRate)
	current := g.d.From
	step := max(1, ceilCount(float64(current)*r.StepRatio))
	high, low := r.TargetSeconds*r.High, r.TargetSeconds*r.Low
	numbers := map[string]float64{"value": lat.level, "target": r.TargetSeconds}
	if rate.fresh() && rate.known {
		numbers["rate_change"] = rate.change
	}
	pressed := g.queued || (rate.fresh() && rate.known && rate.change > risingChange)
	steady := rate.fresh() && rate.known && math.Abs(rate.change) <= steadyChange
	reason := Reason{Code: ReasonSteady, Signal: r.Signal, To: current, Numbers: numbers}
	switch {
	case !lat.fresh():
		g.input(lat, r.TargetSeconds, nil)
		g.input(rate, 0, nil)
		return
	case lat.level > high:
		numbers["threshold"] = high
		if pressed && g.state.Starting > 0 {
			numbers["starting"] = float64(g.state.Starting)
		} else if pressed {
			reason.Code, reason.To = ReasonLatencyHigh, min(current+step, maxReplicas)
		}
	case lat.level < low && steady && current > 0:
		numbers["threshold"] = low
		reason.Code, reason.To = ReasonLatencyLow, max(current-step, 0)
	}
	g.need(reason, 0)
	needed := reason.To
	g.input(lat, r.TargetSeconds, &needed)
	g.input(rate, 0, nil)
}
