package optimizer

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// hpaNeed is the replica count that the Kubernetes HPA formula asks for, and whether the value is within tolerance.
func hpaNeed(r *TargetRatio, value float64, s fleet.Sample, w *fleet.WorkloadState) (int, bool) {
	current := w.Replicas
	if r.Type == RatioAverageValue {
		if ratio := value / (r.Target * float64(current)); current > 0 && within(ratio, r.Tolerance) {
			return current, true
		}
		return ceilCount(value / r.Target), false
	}
	ratio := value / r.Target
	if current > 0 && within(ratio, r.Tolerance) {
		return current, true
	}
	ready := s.PodsReported
	if ready == 0 {
		ready = w.Ready
	}
	return ceilCount(ratio * float64(ready)), false
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
