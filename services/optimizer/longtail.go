package optimizer

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// quiet notes since when the workload has had nothing waiting and little use. It takes a fresh use signal, and a fresh and
// empty queue where one is measured; what cannot be seen is not quiet.
func (g *deciding) quiet() {
	l := g.policy.LongTail
	if l == nil {
		g.memory.QuietSince = nil
		return
	}
	use, ok := g.use()
	queue := g.read(fleet.SignalQueueLength)
	measured := queue.samples > 0 || g.policy.Queue != nil
	empty := !measured || (queue.fresh() && queue.last.Value == 0)
	if !ok || use >= l.UseRatio || !empty || !g.mayGoDown() {
		g.memory.QuietSince = nil
		return
	}
	if g.memory.QuietSince == nil {
		now := g.snap.Now
		g.memory.QuietSince = &now
	}
}

// use is how busy the replicas are, 0..1: by the policy's first utilisation rule, else the GPU's SM activity, else CPU.
func (g *deciding) use() (float64, bool) {
	for i := range g.policy.TargetRatio {
		if r := &g.policy.TargetRatio[i]; r.Type == RatioUtilization {
			return g.busy(r.Signal)
		}
	}
	if v, ok := g.busy(fleet.SignalGPUSM); ok {
		return v, true
	}
	return g.busy(fleet.SignalCPURatio)
}

// busy reads a use ratio; the newest sample counts where it is above the filtered level.
func (g *deciding) busy(name fleet.SignalName) (float64, bool) {
	r := g.read(name)
	return math.Max(r.level, r.last.Value), r.fresh()
}

// longTail sends a workload that was quiet for long to its floor, past all damping: the wait was longer than any window. A
// last replica that still does something is kept even where the floor is zero. That all signals are fresh is part of quiet.
func (g *deciding) longTail() bool {
	l, since := g.policy.LongTail, g.memory.QuietSince
	if l == nil || since == nil || g.hinted > 0 || g.snap.Now.Sub(*since) < seconds(l.QuietSeconds) {
		return false
	}
	use, _ := g.use()
	floor := g.policy.Min
	if running := g.read(fleet.SignalRunning); floor == 0 && (use > 0 || (running.ok && running.last.Value > 0)) {
		floor = 1
	}
	if g.d.From <= floor || g.count > g.d.From {
		return false
	}
	g.settle(Reason{Code: ReasonLongTail, From: g.count, To: floor, Numbers: map[string]float64{
		"quiet_seconds": g.snap.Now.Sub(*since).Seconds(), "use": use, "use_ratio": l.UseRatio}})
	return true
}
