package quantile

import "math"

// history is the demand of the last day and a bit, as running sums in a ring. Demand is kept in whole 1/1024 of a replica, so that sums are
// exact and can be made again from the values.
type history struct {
	sums []int64 // sums[i mod len] is the sum of the first i values
	n    int
}

const (
	historySlots = daySlots + hourSlots // the furthest back that a forecast looks, and then some
	historyUnit  = 1024
)

func (h *history) add(v float64) { h.put(int64(math.Round(min(v, maxReplicas) * historyUnit))) }

func (h *history) put(units int64) {
	if h.sums == nil {
		h.sums = make([]int64, historySlots+1)
	}
	last := h.sums[h.n%len(h.sums)]
	h.n++
	h.sums[h.n%len(h.sums)] = last + units
}

// value i, in units; one of the last historySlots.
func (h *history) value(i int) int64 { return h.sums[(i+1)%len(h.sums)] - h.sums[i%len(h.sums)] }

// mean of the values [from, to), those that exist; nothing before the ring's beginning may be asked for.
func (h *history) mean(from, to int) float64 {
	from, to = max(from, 0), min(to, h.n)
	if to <= from {
		return 0
	}
	return float64(h.sums[to%len(h.sums)]-h.sums[from%len(h.sums)]) / (historyUnit * float64(to-from))
}

// peaks are the highest means of five minutes of the last hour, and of the last six.
func (h *history) peaks() (hour, sixHours float64) {
	const block = 300 / SlotSeconds
	for b := 0; b < 6*hourSlots/block && h.n-block*(b+1) >= 0; b++ {
		v := h.mean(h.n-block*(b+1), h.n-block*b)
		if b < hourSlots/block {
			hour = max(hour, v)
		}
		sixHours = max(sixHours, v)
	}
	return hour, sixHours
}

// Cast names a forecast.
type Cast int

// The forecasts.
const (
	CastShort  Cast = iota // mean of 30 s
	CastMiddle             // of 2 min
	CastTrend              // a minute, carried on by how it rose
	CastLinear             // the best linear mix of recent means and of the same time a day ago
	CastUpper              // the linear mix of means and peaks, up to a day back, that the demand is rarely over
	Casts                  // how many there are
)

// String is the name that is stored and shown.
func (c Cast) String() string {
	if c < 0 || c >= Casts {
		return "unknown"
	}
	return [Casts]string{"mean_30s", "mean_2m", "trend", "linear", "upper"}[c]
}

// forecast is one way to foretell the demand when an order of now becomes ready, and how it erred.
type forecast struct {
	kind Cast
	lead int
	rls  rls
	// made in the last lead slots, to be judged when their time has come
	inputs [][features]float64
	means  []float64
	n      int // made so far
	fit    int // the first of those in order that may be judged: a gap lies before it
	errors errorBook
	edge   []float64 // quantiles of the error, in units of spread
	middle float64   // its median
}

func (f *forecast) init(kind Cast, lead int, quantiles []float64) {
	f.kind, f.lead = kind, lead
	f.means = make([]float64, lead)
	f.edge = make([]float64, len(quantiles))
	switch kind {
	case CastLinear:
		f.rls = newRLS(0.9999, 7)
		f.rls.weight[1], f.rls.weight[2] = 0.5, 0.5
		f.inputs = make([][features]float64, lead)
	case CastUpper:
		f.rls = newRLS(0.9998, features)
		f.rls.weight[0], f.rls.weight[1], f.rls.weight[2] = 1, 0.5, 0.7
		f.inputs = make([][features]float64, lead)
	}
	f.errors.init()
	f.refresh(quantiles)
}

// spread of the demand around a forecast level, replicas: a shape that is the same everywhere; its size is learned as quantiles.
func spread(level float64) float64 { return math.Sqrt(0.05*level + 0.0225*level*level + 0.02) }

// judged is the span of demand that a forecast is judged by: the queue carries shorter peaks without making anybody wait for long.
const judged = 75 / SlotSeconds

// step judges the forecast made for the slots that just passed, makes one for lead slots ahead, and says how many replicas each quantile needs.
func (f *forecast) step(past *history, demand float64, wants []int32) {
	i := f.n % f.lead
	if f.n >= f.fit+f.lead {
		came := past.mean(past.n-judged, past.n)
		switch f.kind {
		case CastLinear:
			f.rls.learn(&f.inputs[i], demand, 0.1*demand+0.02*demand*demand+0.2)
		case CastUpper:
			f.learnUpper(&f.inputs[i], came, spread(f.means[i]))
		}
		f.errors.add((came - f.means[i]) / spread(f.means[i]))
	}
	m := f.make(past, i)
	f.means[i] = m
	f.n++
	f.ask(m, wants)
}

// upperShare is the share of the time that the demand is under CastUpper's line, before its own errors move it.
const upperShare = 0.95

// learnUpper moves the line towards the quantile: least squares in which an error counts by one over its size is least absolute errors, and
// errors above and under the line count as the quantile asks for (iteratively reweighted least squares, one pass).
func (f *forecast) learnUpper(x *[features]float64, came, size float64) {
	miss := came - f.rls.predict(x)
	share := 1 - upperShare
	if miss > 0 {
		share = upperShare
	}
	f.rls.learn(x, came, size*(math.Abs(miss)+0.1*size)*2*upperShare*(1-upperShare)/share)
}

// level is the newest forecast; nothing before the first.
func (f *forecast) level() float64 {
	if f.n == 0 {
		return 0
	}
	return f.means[(f.n-1)%f.lead]
}

// ask says how many replicas each quantile around a level needs.
func (f *forecast) ask(level float64, wants []int32) {
	size := spread(level)
	for q, e := range f.edge {
		wants[q] = int32(min(max(1, math.Ceil(level+e*size)), maxReplicas))
	}
}

func (f *forecast) make(past *history, i int) float64 {
	n := past.n
	switch f.kind {
	case CastShort:
		return past.mean(n-2, n)
	case CastMiddle:
		return past.mean(n-8, n)
	case CastTrend:
		now := past.mean(n-5, n)
		return now + 1.5*max(0, now-past.mean(n-8, n-5))
	}
	x := &f.inputs[i]
	*x = [features]float64{1, past.mean(n-2, n), past.mean(n-8, n), past.mean(n-32, n), past.mean(n-120, n)}
	if n > daySlots+40 {
		x[5], x[6] = past.mean(n-daySlots+f.lead-8, n-daySlots+f.lead+8), past.mean(n-daySlots-8, n-daySlots+8)
	}
	if f.kind == CastUpper {
		x[7], x[8], x[9] = past.mean(n-480, n), past.mean(n-1440, n), past.mean(n-daySlots, n)
		x[10], x[11] = past.peaks()
	}
	now := max(x[1], x[2])
	return min(max(f.rls.predict(x), 0.25*min(x[1], x[2])), 4*now+1)
}

// refresh takes the quantiles from the errors so far.
func (f *forecast) refresh(quantiles []float64) {
	f.errors.quantiles(quantiles, f.edge)
	var middle [1]float64
	f.errors.quantiles([]float64{0.5}, middle[:])
	f.middle = middle[0]
	f.errors.age()
}
