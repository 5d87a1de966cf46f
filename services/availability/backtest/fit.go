package backtest

import (
	"math"
	"time"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
)

// knob is one parameter with the values that are tried.
type knob struct {
	at     func(*availability.Params) *float64
	values []float64
}

var knobs = []knob{
	{func(p *availability.Params) *float64 { return &p.LossFade }, []float64{0, 0.3, 0.4, 0.5, 0.6, 0.7}},
	{func(p *availability.Params) *float64 { return &p.ReturnFade }, []float64{0, 0.3, 0.4, 0.5, 0.6, 0.7}},
	{func(p *availability.Params) *float64 { return &p.AgeFloor }, []float64{0.02, 0.05, 0.1, 0.2}},
	{func(p *availability.Params) *float64 { return &p.PoolHalfLife }, []float64{12, 24, 48, 72, 144, 288}},
	{func(p *availability.Params) *float64 { return &p.ParentHalfLife }, []float64{72, 168, 336, 672}},
	{func(p *availability.Params) *float64 { return &p.Strength }, []float64{1, 2, 4, 8, 16}},
	{func(p *availability.Params) *float64 { return &p.MoodHalfLife }, []float64{0.5, 1, 2, 4}},
	{func(p *availability.Params) *float64 { return &p.MoodSlack }, []float64{0.5, 1, 2}},
	{func(p *availability.Params) *float64 { return &p.RegionLoss }, []float64{0, 0.4, 0.8, 1.2, 1.6}},
	{func(p *availability.Params) *float64 { return &p.RegionReturn }, []float64{0, 0.4, 0.8, 1.2, 1.6}},
}

// Fit chooses parameters by the Brier scores of Survives and Returns within the span, one knob at a time, twice around, from start. It
// looks at nothing after the span. The zone's weight is left alone: a trace of one machine type says nothing about it.
func Fit(t *Trace, span fleet.Interval, start availability.Params) (availability.Params, error) {
	cut := t.until(span.To)
	if len(cut.campaigns) == 0 {
		return start, fleet.Errorf(fleet.CodeInvalid, "the trace has nothing before %s to fit on", span.To.UTC().Format(time.RFC3339))
	}
	best := loss(cut, start, span)
	if math.IsNaN(best) {
		return start, fleet.Errorf(fleet.CodeInvalid, "the fitting span has nothing to score")
	}
	p := start
	for range 2 {
		for _, k := range knobs {
			for _, v := range k.values {
				q := p
				*k.at(&q) = v
				if q == p {
					continue
				}
				if l := loss(cut, q, span); l < best-1e-6 {
					best, p = l, q
				}
			}
		}
	}
	return p, nil
}

func loss(t *Trace, p availability.Params, span fleet.Interval) float64 {
	sums, n := map[Target]float64{}, map[Target]float64{}
	for _, s := range run(t, Options{Params: p, Fit: span}) {
		if s.fit {
			sums[s.target] += s.truth*(1-s.p[0])*(1-s.p[0]) + (1-s.truth)*s.p[0]*s.p[0]
			n[s.target]++
		}
	}
	return sums[TargetSurvives]/n[TargetSurvives] + sums[TargetReturns]/n[TargetReturns]
}

// until cuts off what comes later.
func (t *Trace) until(end time.Time) *Trace {
	out := &Trace{}
	for _, c := range t.campaigns {
		cut := campaign{name: c.name, start: c.start}
		for _, s := range c.series {
			n := min(int(end.Sub(s.start)/s.gap), len(s.values))
			if n > 0 {
				short := *s
				short.values = s.values[:n]
				cut.series = append(cut.series, &short)
			}
		}
		if len(cut.series) > 0 {
			out.campaigns = append(out.campaigns, cut)
		}
	}
	return out
}
