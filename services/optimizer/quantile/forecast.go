package quantile

import "math"

// history is the demand so far, as running sums in a ring of eight days.
type history struct {
	sums []float64 // sums[i mod len] is the sum of the first i values
	n    int
}

const historySlots = weekSlots + daySlots

func (h *history) add(v float64) {
	if h.sums == nil {
		h.sums = make([]float64, historySlots+1)
	}
	last := h.sums[h.n%len(h.sums)]
	h.n++
	h.sums[h.n%len(h.sums)] = last + v
}

// mean of the values [from, to), those that exist; nothing before the ring's beginning may be asked for.
func (h *history) mean(from, to int) float64 {
	from, to = max(from, 0), min(to, h.n)
	if to <= from {
		return 0
	}
	return (h.sums[to%len(h.sums)] - h.sums[from%len(h.sums)]) / float64(to-from)
}

// Cast names a forecast.
type Cast int

// The forecasts.
const (
	CastShort  Cast = iota // mean of 30 s
	CastMiddle             // of 2 min
	CastLong               // of 5 min
	CastTrend              // a minute, carried on by how it rose
	CastLinear             // the best linear mix of recent means and of the same time a day ago
	Casts                  // how many there are
)

// String is the name that is stored and shown.
func (c Cast) String() string {
	if c < 0 || c >= Casts {
		return "unknown"
	}
	return [Casts]string{"mean_30s", "mean_2m", "mean_5m", "trend", "linear"}[c]
}

// forecast is one way to foretell the demand when an order of now becomes ready, and how it erred.
type forecast struct {
	kind Cast
	lead int
	rls  rls
	// made in the last lead slots, to be judged when their time has come
	inputs [][features]float64
	means  []float64
	n      int
	errors errorBook
	edge   []float64 // quantiles of the error, in units of spread
}

func (f *forecast) init(kind Cast, lead int, quantiles []float64) {
	f.kind, f.lead = kind, lead
	f.means = make([]float64, lead)
	f.edge = make([]float64, len(quantiles))
	if kind == CastLinear {
		f.rls = newRLS(0.9999)
		f.rls.weight[1], f.rls.weight[2] = 0.5, 0.5
		f.inputs = make([][features]float64, lead)
	}
	f.errors.init()
	f.refresh(quantiles)
}

// spread of the demand around a forecast level, replicas: a shape that is the same everywhere; its size is learned as quantiles.
func spread(level float64) float64 { return math.Sqrt(0.05*level + 0.0225*level*level + 0.02) }

// step judges the forecast made for the slot that just passed, makes one for lead slots ahead, and says how many replicas each quantile needs.
func (f *forecast) step(past *history, demand float64, wants []int32) {
	i := f.n % f.lead
	if f.n >= f.lead {
		if f.kind == CastLinear {
			f.rls.learn(&f.inputs[i], demand, 0.1*demand+0.02*demand*demand+0.2)
		}
		f.errors.add((demand - f.means[i]) / spread(f.means[i]))
	}
	m := f.make(past, i)
	f.means[i] = m
	f.n++
	size := spread(m)
	for q, e := range f.edge {
		wants[q] = int32(min(max(1, math.Ceil(m+e*size)), maxReplicas))
	}
}

func (f *forecast) make(past *history, i int) float64 {
	n := past.n
	switch f.kind {
	case CastShort:
		return past.mean(n-2, n)
	case CastMiddle:
		return past.mean(n-8, n)
	case CastLong:
		return past.mean(n-20, n)
	case CastTrend:
		now := past.mean(n-5, n)
		return now + 1.5*max(0, now-past.mean(n-8, n-5))
	}
	x := &f.inputs[i]
	*x = [features]float64{1, past.mean(n-2, n), past.mean(n-8, n), past.mean(n-32, n), past.mean(n-120, n)}
	if n > daySlots+40 {
		x[5], x[6] = past.mean(n-daySlots+f.lead-8, n-daySlots+f.lead+8), past.mean(n-daySlots-8, n-daySlots+8)
	}
	now := max(x[1], x[2])
	return min(max(f.rls.predict(x), 0.25*min(x[1], x[2])), 4*now+1)
}

// refresh takes the quantiles from the errors so far.
func (f *forecast) refresh(quantiles []float64) {
	f.errors.quantiles(quantiles, f.edge)
	f.errors.age()
}

// errorBook counts errors in narrow classes, older ones for less.
type errorBook struct {
	count [errorClasses]float64
	total float64
}

const (
	errorClasses = 400
	errorLowest  = -4.0
	errorWidth   = 0.05
	errorKeep    = 0.9904 // per hour: half in three days
)

// init starts from a bell curve with a heavy upper tail, worth an hour of experience.
func (b *errorBook) init() {
	for i := range b.count {
		z := errorLowest + (float64(i)+0.5)*errorWidth
		b.count[i] = math.Exp(-z*z/2) + 0.02*math.Exp(-math.Abs(z)/2)
		b.total += b.count[i]
	}
	for i := range b.count {
		b.count[i] *= hourSlots / b.total
	}
	b.total = hourSlots
}

func (b *errorBook) add(z float64) {
	i := int((z - errorLowest) / errorWidth)
	b.count[min(max(i, 0), errorClasses-1)]++
	b.total++
}

// quantiles fills out with the upper edges of the classes in which the quantiles lie.
func (b *errorBook) quantiles(quantiles, out []float64) {
	sum, q := 0.0, 0
	for i, n := range b.count {
		sum += n
		for q < len(quantiles) && sum >= quantiles[q]*b.total {
			out[q] = errorLowest + (float64(i)+1)*errorWidth
			q++
		}
	}
}

func (b *errorBook) age() {
	for i := range b.count {
		b.count[i] *= errorKeep
	}
	b.total *= errorKeep
}
