package optimizer

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// pods are the counts that the Kubernetes formula is fed with.
type pods struct {
	current  int // spec.replicas
	reported int // ready pods with a value
	missing  int // ready pods without one
	unready  int
}

// podsOf takes the counts from the newest sample; a signal that knows no pods (a gateway's, a queue's) counts ready replicas.
func podsOf(s fleet.Sample, w *fleet.WorkloadState) pods {
	p := pods{current: w.Replicas, reported: s.PodsReported, missing: s.PodsMissing, unready: s.PodsUnready}
	if p.reported == 0 && p.missing == 0 && p.unready == 0 {
		p.reported = w.Ready
	}
	return p
}

// ratioNeed is what the Kubernetes HPA would ask for, with what it was computed from.
type ratioNeed struct {
	needed int
	ratio  float64 // value against target, before pods without a value are counted in
	within bool    // too near to the target to act
	turned bool    // held, since counting pods without a value turned the direction
}

// hpaNeed is the replica count that the HorizontalPodAutoscaler of Kubernetes 1.33 computes from one metric.
func hpaNeed(r *TargetRatio, value float64, p pods) ratioNeed {
	tolerance := math.Max(r.Tolerance, 0)
	switch r.Type {
	case RatioAverageValue:
		return hpaAverageValue(value, r.Target, tolerance, p)
	case RatioValue:
		return hpaRatio(value, r.Target, r.Target, tolerance, p, func(v float64) float64 { return v })
	}
	// A resource metric is compared in whole per cent, rounded down; a pod without a value counts as its whole request
	// (or as the target where that is above the request) on the way down.
	target := wholePercent(r.Target)
	return hpaRatio(value*100, target, math.Max(100, target), tolerance, p, func(v float64) float64 { return math.Floor(v + 1e-9) })
}

// wholePercent turns a ratio into per cent without the crumbs of 0.29 x 100.
func wholePercent(v float64) float64 {
	if p := math.Round(v * 100); math.Abs(p-v*100) < 1e-9 {
		return p
	}
	return v * 100
}

// hpaRatio compares a mean per pod with a target. Pods without a value count as missingValue on the way down and as nothing
// on the way up; pods that are not ready count as nothing on the way up and not at all on the way down. Neither may turn
// the direction.
func hpaRatio(value, target, missingValue, tolerance float64, p pods, round func(float64) float64) ratioNeed {
	ratio := round(value) / target
	out := ratioNeed{needed: p.current, ratio: ratio}
	if p.current == 0 {
		out.needed = ceilCount(ratio)
		return out
	}
	upWithUnready := p.unready > 0 && ratio > 1
	if !upWithUnready && p.missing == 0 {
		if out.within = within(ratio, tolerance); !out.within {
			out.needed = ceilCount(ratio * float64(p.reported))
		}
		return out
	}
	total, n := value*float64(p.reported), p.reported
	if ratio < 1 {
		total += missingValue * float64(p.missing)
	}
	if ratio != 1 { // exactly at the target there is no direction to be careful in
		n += p.missing
	}
	if upWithUnready {
		n += p.unready
	}
	again := round(total/float64(n)) / target
	if within(again, tolerance) {
		out.within = true
		return out
	}
	needed := ceilCount(again * float64(n))
	out.turned = (ratio < 1 && again > 1) || (ratio > 1 && again < 1) ||
		(again < 1 && needed > p.current) || (again > 1 && needed < p.current)
	if !out.turned {
		out.needed = needed
	}
	return out
}

// hpaAverageValue divides a total by the target of one replica. Kubernetes knows no pods behind such a total; where they
// are known here, the missing ones count as the target on the way down.
func hpaAverageValue(total, target, tolerance float64, p pods) ratioNeed {
	out := ratioNeed{needed: p.current, ratio: total / (target * float64(p.current))}
	if p.current == 0 {
		out.ratio = total / target
		out.needed = ceilCount(out.ratio)
		return out
	}
	if out.within = within(out.ratio, tolerance); out.within {
		return out
	}
	if out.ratio < 1 {
		total += target * float64(p.missing)
	}
	needed := ceilCount(total / target)
	if out.turned = out.ratio < 1 && needed > p.current; !out.turned {
		out.needed = needed
	}
	return out
}

// within says that a ratio is too near to one to act upon.
func within(ratio, tolerance float64) bool { return 1-tolerance <= ratio && ratio <= 1+tolerance }

// ceilCount rounds a need up to whole replicas, held to what a count can be.
func ceilCount(v float64) int {
	switch {
	case !(v > 0):
		return 0
	case v >= maxReplicas:
		return maxReplicas
	}
	return int(math.Ceil(v))
}

// ratioRule asks one target-ratio rule.
func (g *deciding) ratioRule(r *TargetRatio) {
	in := g.read(r.Signal)
	if !in.fresh() {
		g.input(in, r.Target, nil)
		return
	}
	p := podsOf(in.last, g.state)
	n := hpaNeed(r, in.level, p)
	code, needed := ReasonTargetRatio, n.needed
	switch {
	case n.within:
		code = ReasonWithinTolerance
	case n.turned:
		code = ReasonUnreadyPods
	case p.current > 0 && r.Type != RatioAverageValue && p.reported == 0,
		p.current > 0 && n.ratio > 1 && needed < p.current,
		p.current > 0 && n.ratio < 1 && needed > p.current:
		// Stricter than Kubernetes: the pods counted are not the replicas asked for (they start, or drain), and that
		// alone must not move the count against the load.
		code, needed = ReasonUnreadyPods, p.current
	}
	numbers := map[string]float64{"value": in.level, "target": r.Target, "ratio": n.ratio, "tolerance": math.Max(r.Tolerance, 0), "pods": float64(p.reported)}
	if p.missing > 0 {
		numbers["missing"] = float64(p.missing)
	}
	if p.unready > 0 {
		numbers["unready"] = float64(p.unready)
	}
	load := in.level * float64(p.reported)
	switch r.Type {
	case RatioAverageValue:
		load = in.level / r.Target
	case RatioValue:
		load /= r.Target
	}
	g.need(Reason{Code: code, Signal: r.Signal, To: needed, Numbers: numbers}, load)
	g.input(in, r.Target, &needed)
}
