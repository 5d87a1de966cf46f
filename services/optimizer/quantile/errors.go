package quantile

import "math"

// errorBook counts errors in narrow classes, older ones for less.
type errorBook struct {
	count [errorClasses]float32
}

const (
	errorClasses = 400
	errorLowest  = -4.0 // in units of spread
	errorWidth   = 0.05
	errorKeep    = 0.9904 // per hour: half in three days
)

// init starts from a bell curve with a heavy upper tail, worth an hour of experience.
func (b *errorBook) init() {
	total := 0.0
	shape := func(i int) float64 {
		z := errorLowest + (float64(i)+0.5)*errorWidth
		return math.Exp(-z*z/2) + 0.02*math.Exp(-math.Abs(z)/2)
	}
	for i := range b.count {
		total += shape(i)
	}
	for i := range b.count {
		b.count[i] = float32(shape(i) * hourSlots / total)
	}
}

func (b *errorBook) add(z float64) {
	i := int(min(max((z-errorLowest)/errorWidth, 0), errorClasses-1))
	b.count[i]++
}

// quantiles fills out with the upper edges of the classes in which the quantiles (ascending) lie.
func (b *errorBook) quantiles(quantiles, out []float64) {
	total := 0.0
	for _, n := range b.count {
		total += float64(n)
	}
	sum, q := 0.0, 0
	for i, n := range b.count {
		sum += float64(n)
		for q < len(quantiles) && sum >= quantiles[q]*total {
			out[q] = errorLowest + (float64(i)+1)*errorWidth
			q++
		}
	}
}

func (b *errorBook) age() {
	for i := range b.count {
		b.count[i] *= errorKeep
	}
}
