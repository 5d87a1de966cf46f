// Package backtest scores the availability model on recorded traces, out of sample and in the order of time, against forecasts that
// cost nothing: the state holds, the past frequency, and the published interruption bands. It is pure: a trace in, figures out.
package backtest

import (
	"math"
	"slices"
	"time"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
)

// Target is a question that a forecast answers with a probability.
type Target string

// Targets. Available splits into Returns (nothing is there now) and the rest, which is nearly certain.
const (
	TargetAvailable Target = "available" // at some look of the next hour the offering is there
	TargetReturns   Target = "returns"   // the same, asked only when it is not there now
	TargetSurvives  Target = "survives"  // what is there now stays for the whole hour; with many machines, the share that stays
	TargetAttempt   Target = "attempt"   // the next look finds it there; asked just before the look
)

// Targets in the order of reports.
func Targets() []Target {
	return []Target{TargetAvailable, TargetReturns, TargetSurvives, TargetAttempt}
}

// Forecasters in the order of reports. The model comes first.
const (
	ByModel       = "model"
	ByPersistence = "persistence"        // the state holds: what is there is there in an hour
	ByLastHour    = "last hour again"    // the next hour is like the last
	ByFrequency   = "fitted persistence" // given the state, the frequency in the fitting part
	ByClimate     = "climatology"        // the frequency of the zone so far
	ByBands       = "bands, by letter"   // the published monthly interruption share as a rate
	ByFittedBands = "bands, fitted"      // per band, the frequency in the fitting part: the best a band can say
	ByEWMA        = "EWMA hazard, 6 h"   // changes over hours in the state, each offering alone, halved after 6 hours
	BySlowEWMA    = "EWMA hazard, 72 h"  // the same, halved after three days
)

const forecasters = 9

// Forecasters lists them.
func Forecasters() []string {
	return []string{ByModel, ByPersistence, ByLastHour, ByFrequency, ByClimate, ByBands, ByFittedBands, ByEWMA, BySlowEWMA}
}

const (
	horizon    = time.Hour
	scoreEvery = 15 * time.Minute
)

// Options of a run.
type Options struct {
	Params availability.Params
	// Fit is the span of time that the parameters and the fitted baselines come from; it is not scored. All its campaigns count.
	Fit fleet.Interval
	// Every thins the looks: the model sees no more than one per offering and Every. Zero: all of them.
	Every time.Duration
}

// sample is one question with all its answers.
type sample struct {
	target   Target
	campaign int
	truth    float64
	there    bool
	band     int
	fit      bool
	p        [forecasters]float64 // in the order of Forecasters
}

// run walks all campaigns, each with a model of its own that starts from the prior.
func run(t *Trace, o Options) []sample {
	var out []sample
	for i := range t.campaigns {
		out = walk(t, i, o, out)
	}
	fitBaselines(out)
	return out
}

// cursor is where a walk is in one series.
type cursor struct {
	s        *series
	k        int
	next     time.Time
	lastLook int // index of the last look fed; -1: none
	fed      time.Time
	scored   time.Time
	climate  map[Target]*frequency
	pending  []waiting
	hadLast  int // value at the last look
	ewma     [2]*ewma
}

type frequency struct{ hits, n float64 }

func (f *frequency) value() float64 { return (f.hits + 0.5) / (f.n + 1) }

// waiting is a truth that a forecaster of that time will know later only.
type waiting struct {
	known  time.Time
	target Target
	truth  float64
}

func walk(t *Trace, campaign int, o Options, out []sample) []sample {
	model := availability.New(o.Params)
	var cursors []*cursor
	for _, s := range t.campaigns[campaign].series {
		cursors = append(cursors, &cursor{s: s, next: s.start, lastLook: -1, climate: map[Target]*frequency{}, ewma: [2]*ewma{newEWMA(6), newEWMA(72)}})
	}
	events := make([]availability.Event, 0, len(cursors))
	var now []*cursor
	for {
		var at time.Time
		now = now[:0]
		for _, c := range cursors {
			if c.k >= len(c.s.values) {
				continue
			}
			if at.IsZero() || c.next.Before(at) {
				at, now = c.next, now[:0]
			}
			if c.next.Equal(at) {
				now = append(now, c)
			}
		}
		if len(now) == 0 {
			return out
		}
		events = events[:0]
		looked := now[:0]
		for _, c := range now {
			k := c.k
			c.k++
			c.next = c.s.start.Add(time.Duration(c.k) * c.s.gap)
			if c.s.values[k] < 0 || (o.Every > 0 && !c.fed.IsZero() && at.Sub(c.fed) < o.Every) {
				continue
			}
			due := c.lastLook >= 0 && at.Sub(c.scored) >= scoreEvery
			if due {
				out = append(out, c.attempt(model, campaign, k, at, o))
			}
			events = c.feed(events, k, at)
			if due {
				looked = append(looked, c)
			}
		}
		// Every event is valid by construction of the trace; an error here would be a bug of this package.
		if err := model.Observe(events...); err != nil {
			panic("backtest: " + err.Error())
		}
		for _, c := range looked {
			out = c.ask(model, campaign, at, o, out)
			c.scored = at
		}
	}
}

// feed turns a look into events: a probe of capacity is an attempt; a running fleet shows survivors, losses and launches, and what it lacks,
// it tried for in vain. A probe of many machines that gets fewer than the last one is a
// loss too: as many would have gone.
func (c *cursor) feed(events []availability.Event, k int, at time.Time) []availability.Event {
	v, before := int(c.s.values[k]), c.hadLast
	e := availability.Event{At: at, Offering: c.s.offering}
	add := func(kind availability.Kind, lost, of int) {
		e.Kind, e.Machines, e.Of = kind, lost, of
		events = append(events, e)
	}
	if v < before && (v > 0 || !c.s.probe) {
		add(availability.KindLost, before-v, before)
	}
	if !c.s.probe && v > 0 {
		add(availability.KindRunning, 0, 0)
	}
	there := c.s.there(k)
	for _, e := range c.ewma {
		e.look(at, there)
	}
	switch {
	case there && (c.s.probe || v > before):
		add(availability.KindHad, 0, 0)
	case !there && (v > 0 || before == 0 || c.s.probe):
		add(availability.KindExhausted, 0, 0)
	}
	c.lastLook, c.fed, c.hadLast = k, at, v
	return events
}

// attempt asks just before the look k.
func (c *cursor) attempt(m *availability.Model, campaign, k int, at time.Time, o Options) sample {
	s := m.Score(c.s.offering, at)
	before, truth := one(c.s.there(c.lastLook)), one(c.s.there(k))
	share := availability.InterruptionShare(c.s.offering.Cloud, c.s.offering.InstanceType)
	f := c.frequency(TargetAttempt)
	x := sample{target: TargetAttempt, campaign: campaign, truth: truth, there: before > 0, band: bandOf(share), fit: inside(o.Fit, at),
		p: [forecasters]float64{s.AvailableNow, before, before, 0, f.value(), 1 - share, 0, c.ewma[0].attempt(at.Sub(c.ewma[0].at)), c.ewma[1].attempt(at.Sub(c.ewma[1].at))}}
	f.hits += truth
	f.n++
	return x
}

// ask puts the questions about the coming hour, if the trace knows the answers.
func (c *cursor) ask(m *availability.Model, campaign int, at time.Time, o Options, out []sample) []sample {
	k := c.lastLook
	found, least, ok := c.s.ahead(k)
	c.learn(at)
	if !ok {
		return out
	}
	v := c.s.values[k]
	there := c.s.there(k)
	s := m.Score(c.s.offering, at)
	share := availability.InterruptionShare(c.s.offering.Cloud, c.s.offering.InstanceType)
	lastAny, lastAll := c.s.behind(k)
	x := sample{campaign: campaign, there: there, band: bandOf(share), fit: inside(o.Fit, at)}
	put := func(target Target, truth float64, p [forecasters]float64) {
		x.target, x.truth, x.p = target, truth, p
		p[4] = c.frequency(target).value()
		x.p = p
		out = append(out, x)
		c.pending = append(c.pending, waiting{at.Add(horizon), target, truth})
	}
	put(TargetAvailable, found, [forecasters]float64{s.AvailableNextHour, one(there), lastAny, 0, 0, 1 - share, 0, c.ewma[0].found(c.s.gap), c.ewma[1].found(c.s.gap)})
	if !there {
		put(TargetReturns, found, [forecasters]float64{s.AvailableNextHour, 0, lastAny, 0, 0, 1 - share, 0, c.ewma[0].found(c.s.gap), c.ewma[1].found(c.s.gap)})
	}
	if v == 0 {
		return out
	}
	x.there = true
	put(TargetSurvives, least/float64(v), [forecasters]float64{s.SurvivesNextHour, 1, lastAll, 0, 0, math.Pow(1-share, 1/hoursOfMonth), 0, c.ewma[0].survives(1), c.ewma[1].survives(1)})
	return out
}

const hoursOfMonth = 730

func (c *cursor) frequency(t Target) *frequency {
	f := c.climate[t]
	if f == nil {
		f = &frequency{}
		c.climate[t] = f
	}
	return f
}

// learn lets the climatology know what is known by now.
func (c *cursor) learn(at time.Time) {
	for len(c.pending) > 0 && !c.pending[0].known.After(at) {
		f := c.frequency(c.pending[0].target)
		f.hits += c.pending[0].truth
		f.n++
		c.pending = c.pending[1:]
	}
}

// fitBaselines fills in the two forecasts that are frequencies of the fitting part; without one, of nothing: one half.
func fitBaselines(all []sample) {
	type key struct {
		t     Target
		there bool
		band  int
	}
	f := map[key]*frequency{}
	at := func(k key) *frequency {
		if f[k] == nil {
			f[k] = &frequency{}
		}
		return f[k]
	}
	for _, s := range all {
		if !s.fit {
			continue
		}
		for _, k := range []key{{s.target, s.there, -1}, {s.target, false, 10 + s.band}, {s.target, false, 9}} {
			at(k).hits += s.truth
			at(k).n++
		}
	}
	for i := range all {
		s := &all[i]
		s.p[3] = at(key{s.target, s.there, -1}).value()
		band := at(key{s.target, false, 10 + s.band})
		if band.n == 0 {
			band = at(key{s.target, false, 9}) // a band that the fitting part did not have: all bands
		}
		s.p[6] = band.value()
	}
}

func bandOf(share float64) int {
	return slices.IndexFunc([]float64{0.05, 0.10, 0.15, 0.20, 1.01}, func(hi float64) bool { return share < hi })
}

func inside(i fleet.Interval, at time.Time) bool { return !at.Before(i.From) && at.Before(i.To) }

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
