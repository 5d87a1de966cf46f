package availability

import "math"

// counts are the sufficient statistics of the two-state process, faded by age. Exposures are in operational hours: hours weighted by
// the fading of the age, so that a count divided by its exposure is the rate at the age of one hour.
type counts struct {
	Losses    float64 `json:"l,omitempty"`
	ThereExp  float64 `json:"te,omitempty"` // exposure to loss
	Returns   float64 `json:"r,omitempty"`
	GoneExp   float64 `json:"ge,omitempty"` // exposure to return
	ThereHour float64 `json:"th,omitempty"` // plain hours seen there
	GoneHour  float64 `json:"gh,omitempty"`
}

func (c *counts) scale(f float64) {
	c.Losses *= f
	c.ThereExp *= f
	c.Returns *= f
	c.GoneExp *= f
	c.ThereHour *= f
	c.GoneHour *= f
}

func (c *counts) add(o counts) {
	c.Losses += o.Losses
	c.ThereExp += o.ThereExp
	c.Returns += o.Returns
	c.GoneExp += o.GoneExp
	c.ThereHour += o.ThereHour
	c.GoneHour += o.GoneHour
}

// faded is what is left of 1 after hours at the half-life.
func faded(hours, halfLife float64) float64 {
	if hours <= 0 {
		return 1
	}
	return math.Exp2(-hours / halfLife)
}

// exposure is the operational time between two ages of a state: the integral of (age+floor)^-fade.
func exposure(from, to, fade, floor float64) float64 {
	if to <= from {
		return 0
	}
	k := 1 - fade
	return (math.Pow(to+floor, k) - math.Pow(from+floor, k)) / k
}

// gamma is a rate we are not sure of: shape/scale is its mean.
type gamma struct{ shape, scale float64 }

// learn puts counts on top of the wider level's mean, which is worth strength changes.
func learn(events, exposed, strength, mean float64) gamma {
	return gamma{events + strength, exposed + strength/mean}
}

func (g gamma) mean() float64 { return g.shape / g.scale }

// stays is the chance that nothing happens over an exposure, averaged over what the rate may be: (1 + e/scale)^-shape. It is never
// as sure of itself as exp(-mean*e), which matters with little evidence.
func (g gamma) stays(exposed float64) float64 {
	if exposed <= 0 {
		return 1
	}
	return math.Exp(-g.shape * math.Log1p(exposed/g.scale))
}

// mood is what happened to a group lately against what was to be expected: below zero, things go wrong. In observed hours.
type mood struct {
	Excess float64 `json:"x,omitempty"`
	Seen   float64 `json:"s,omitempty"`
}

func (m *mood) scale(f float64) { m.Excess *= f; m.Seen *= f }

// value is from -1 to 1, with own left out.
func (m mood) value(own mood, slack float64) float64 {
	excess, seen := m.Excess-own.Excess, max(m.Seen-own.Seen, 0)
	return min(max(excess/(seen+slack), -1), 1)
}
