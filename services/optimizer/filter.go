package optimizer

import (
	"math"
	"sort"
	"time"

	"plimsoll.dev/services/fleet"
)

// historySamples is how many of the newest samples an outlier is judged by (the Hampel window of the optimizer's design).
const historySamples = 20

// outlierFloor is the least spread, as a part of the median: a flat line must not make every breath an outlier.
const outlierFloor = 0.05

// maxValue is the largest value and target that is computed with, minTarget the smallest target, maxPods the
// most pods behind a sample. Beyond them something is broken.
const (
	maxValue  = 1e15
	minTarget = 1e-9
	maxPods   = 10_000_000
)

// reading is a signal after the filter, as one decision sees it.
type reading struct {
	name    fleet.SignalName
	truth   fleet.Truth
	last    fleet.Sample // the newest usable sample
	ok      bool         // there is one
	age     float64      // seconds
	level   float64      // filtered value
	outlier int          // the newest sample was rejected: -1 too low, +1 too high
	samples int
	// change of the mean of the last window against the one before, as a part of it; known tells whether there was one.
	change float64
	known  bool
}

func (r *reading) fresh() bool { return r.truth == fleet.TruthFresh }

// history is the usable tail of a signal, oldest first, on the stack.
type history struct {
	at [historySamples]time.Time
	v  [historySamples]float64
	n  int
}

// read classifies and filters a signal. perPod values are means over the pods that reported; older ones are weighed by the
// pods behind them, so that a change of the replica count does not look like a change of the load. queued says that work
// is waiting, which confirms a sudden rise.
func read(s fleet.Signal, now time.Time, maxAge time.Duration, f Filter, perPod, queued bool) reading {
	r := reading{name: s.Name, truth: fleet.TruthMissing, samples: len(s.Samples)}
	samples := inOrder(s.Samples)
	s.Samples = samples
	r.truth = s.Truth(now, maxAge)
	if n := len(samples); n > 0 && !usable(samples[n-1]) {
		r.truth = fleet.TruthMissing
	}
	var h history
	r.last, r.ok = h.fill(samples, perPod)
	if !r.ok {
		r.truth = fleet.TruthMissing
		return r
	}
	r.age = math.Max(0, now.Sub(r.last.At).Seconds())
	r.level, r.outlier = h.level(f, queued)
	r.change, r.known = h.trend(f)
	return r
}

// usable says that a sample is a number that a signal can have. Zero from no pod at all, while there are pods that said
// nothing, is silence and not zero demand.
func usable(s fleet.Sample) bool {
	if !(s.Value >= 0 && s.Value <= maxValue) || min(s.PodsReported, s.PodsMissing, s.PodsUnready) < 0 ||
		max(s.PodsReported, s.PodsMissing, s.PodsUnready) > maxPods {
		return false
	}
	return s.Value > 0 || s.PodsReported > 0 || s.PodsMissing+s.PodsUnready == 0
}

// inOrder returns the samples by time, in a copy when they were not: a clock may have jumped.
func inOrder(samples []fleet.Sample) []fleet.Sample {
	for i := 1; i < len(samples); i++ {
		if samples[i].At.Before(samples[i-1].At) {
			sorted := append([]fleet.Sample(nil), samples...)
			sort.SliceStable(sorted, func(a, b int) bool { return sorted[a].At.Before(sorted[b].At) })
			return sorted
		}
	}
	return samples
}

// fill takes the newest usable samples and returns the newest of them.
func (h *history) fill(samples []fleet.Sample, perPod bool) (fleet.Sample, bool) {
	var newest fleet.Sample
	for i := len(samples) - 1; i >= 0 && h.n < historySamples; i-- {
		s := samples[i]
		if !usable(s) {
			continue
		}
		if h.n == 0 {
			newest = s
		}
		v := s.Value
		if perPod && s.PodsReported > 0 && newest.PodsReported > 0 {
			v *= float64(s.PodsReported) / float64(newest.PodsReported)
		}
		j := historySamples - 1 - h.n
		h.at[j], h.v[j] = s.At, v
		h.n++
	}
	copy(h.at[:h.n], h.at[historySamples-h.n:])
	copy(h.v[:h.n], h.v[historySamples-h.n:])
	return newest, h.n > 0
}

// level is half the newest sample and half the mean of the window, which suppresses peaks without hiding them, after
// samples that stand alone were taken out. A lone low sample never lowers the level; a lone high one raises it only while
// work is waiting. Two in a row are a new level, not outliers: on the way up the samples before it no longer count, so that
// the first step is not too small; on the way down they do, since nobody waits for it.
func (h *history) level(f Filter, queued bool) (float64, int) {
	newest, rejected, risen := h.v[h.n-1], 0, false
	median, limit := 0.0, math.Inf(1)
	if f.OutlierMAD > 0 && h.n >= 5 {
		var spread float64
		median, spread = medianMAD(h.v[:h.n-1])
		limit = f.OutlierMAD * math.Max(spread, math.Max(outlierFloor*median, 1e-9))
		side := beyond(newest, median, limit)
		if side != 0 && side != beyond(h.v[h.n-2], median, limit) && (side < 0 || !queued) {
			newest, rejected = median, side
		}
		risen = side > 0 && rejected == 0
	}
	if f.WindowSeconds <= 0 {
		return newest, rejected
	}
	from := h.at[h.n-1].Add(-seconds(f.WindowSeconds))
	sum, count := newest, 1.0
	for i := h.n - 2; i >= 0 && h.at[i].After(from); i-- {
		side := beyond(h.v[i], median, limit)
		if risen && side <= 0 {
			break
		}
		alone := side != 0 && side != beyond(h.v[i+1], median, limit) && (i == 0 || side != beyond(h.v[i-1], median, limit))
		if !alone {
			sum, count = sum+h.v[i], count+1
		}
	}
	return newest/2 + sum/count/2, rejected
}

// trend compares the mean of the last window with the one before it.
func (h *history) trend(f Filter) (float64, bool) {
	w := f.WindowSeconds
	if w <= 0 {
		w = defaultWindow
	}
	newest := h.at[h.n-1]
	var sum, count [2]float64
	for i := h.n - 1; i >= 0; i-- {
		k := int(newest.Sub(h.at[i]) / seconds(w))
		if k > 1 {
			break
		}
		sum[k], count[k] = sum[k]+h.v[i], count[k]+1
	}
	if count[1] == 0 {
		return 0, false
	}
	recent, before := sum[0]/count[0], sum[1]/count[1]
	if before == 0 {
		if recent == 0 {
			return 0, true
		}
		return 1, true
	}
	return math.Min((recent-before)/before, 1e6), true
}

// beyond says on which side of the band around the median a value lies: -1, 0 or 1.
func beyond(v, median, limit float64) int {
	switch {
	case v > median+limit:
		return 1
	case v < median-limit:
		return -1
	}
	return 0
}

// medianMAD returns the median and the median absolute deviation of at most historySamples values.
func medianMAD(values []float64) (median, mad float64) {
	var buf [historySamples]float64
	b := buf[:copy(buf[:], values)]
	median = medianOf(b)
	for i := range b {
		b[i] = math.Abs(b[i] - median)
	}
	return median, medianOf(b)
}

// medianOf sorts b in place (by insertion: it is short) and returns its median.
func medianOf(b []float64) float64 {
	for i := 1; i < len(b); i++ {
		for j := i; j > 0 && b[j] < b[j-1]; j-- {
			b[j], b[j-1] = b[j-1], b[j]
		}
	}
	n := len(b)
	if n%2 == 1 {
		return b[n/2]
	}
	return b[n/2-1]/2 + b[n/2]/2
}

// perPodSignal says that the values of a signal are means over pods.
func perPodSignal(n fleet.SignalName) bool {
	switch n {
	case fleet.SignalKVCache, fleet.SignalGPUSM, fleet.SignalGPUUtil, fleet.SignalCPURatio:
		return true
	}
	return false
}
