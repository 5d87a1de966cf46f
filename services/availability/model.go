package availability

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Limits of how far one look speaks, in hours. Between two looks further apart than closeLook the state may have changed unseen.
const (
	closeLook  = 0.25 // looks this close together count as watching
	blindLimit = 1.0  // at most so much of a blind gap counts as seen
	ageLimit   = 3.0  // after a longer blind gap the age of a state is guessed at half the gap
	// presenceHours is what the region's share of good hours is worth in an offering's own.
	presenceHours = 6.0
	// pulse is what one event without a duration adds to the mood of its neighbours, in observed hours; a loss counts double.
	pulse = 0.25
	// sure bounds what the model ever says of one attempt: between two looks somebody else may have been faster.
	sure = 0.998
)

// Back-off after a stock-out or notice, doubled for each in a row.
const (
	firstBackoff = 2 * time.Minute
	lastBackoff  = 30 * time.Minute
)

// pool is what is known of one offering.
type pool struct {
	Offering fleet.Offering `json:"offering"`
	At       time.Time      `json:"at"` // faded until here
	Counts   counts         `json:"counts"`
	Mood     mood           `json:"mood"` // its own part of the mood of its groups

	Known bool      `json:"known,omitempty"`
	There bool      `json:"there,omitempty"`
	Since time.Time `json:"since,omitzero"` // of the state
	Seen  time.Time `json:"seen,omitzero"`  // last look at the state

	RunSince time.Time `json:"run_since,omitzero"` // machines were seen alive, without a loss, from here
	RunSeen  time.Time `json:"run_seen,omitzero"`  // to here

	Failures int           `json:"failures,omitempty"`
	Delay    time.Duration `json:"delay,omitempty"`
	Until    time.Time     `json:"until,omitzero"`

	Attempts      float64 `json:"attempts,omitempty"`
	StockOuts     float64 `json:"stock_outs,omitempty"`
	Interruptions float64 `json:"interruptions,omitempty"`

	Ratio   float64   `json:"ratio,omitempty"`
	Last    time.Time `json:"last,omitzero"` // newest event
	LastBad int       `json:"last_bad,omitempty"`

	// Made from the offering.
	key   string
	keys  [3]string
	prior Prior
}

// level is what a wider group shows: a type in a region, a type anywhere, or everything in a zone.
type level struct {
	At     time.Time `json:"at"`
	Counts counts    `json:"counts"`
	Mood   mood      `json:"mood"`
}

// Model of one tenant. Not safe for concurrent use. Every event costs the same, however many there were.
type Model struct {
	params Params
	prior  func(fleet.Offering) Prior
	pools  map[fleet.Offering]*pool
	levels map[string]*level
	dirty  map[string]bool // keys of State rows that changed since the last State or Changes
}

// New makes an empty model with the published bands as prior.
func New(p Params) *Model { return NewWithPrior(p, PriorOf) }

// NewWithPrior makes an empty model with a prior of the caller's.
func NewWithPrior(p Params, prior func(fleet.Offering) Prior) *Model {
	return &Model{params: p, prior: prior, pools: map[fleet.Offering]*pool{}, levels: map[string]*level{}, dirty: map[string]bool{}}
}

// Observe takes a batch of events in whatever order; batches come oldest first. An event that is older than what its offering has
// shown since still counts, but no longer changes the offering's state. Nothing is learned when one event is invalid.
func (m *Model) Observe(events ...Event) error {
	for _, e := range events {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	if len(events) > 1 {
		events = slices.Clone(events)
		slices.SortStableFunc(events, compareEvents)
	}
	for _, e := range events {
		m.observe(e)
	}
	return nil
}

// compareEvents is a total order up to equal events: time, then kind, then the rest.
func compareEvents(a, b Event) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Kind.rank(), b.Kind.rank()), compareOfferings(a.Offering, b.Offering),
		cmp.Compare(a.Machines, b.Machines), cmp.Compare(a.Of, b.Of), cmp.Compare(a.Ratio, b.Ratio))
}

func compareOfferings(a, b fleet.Offering) int {
	return cmp.Or(strings.Compare(string(a.Cloud), string(b.Cloud)), strings.Compare(a.Region, b.Region), strings.Compare(a.InstanceType, b.InstanceType),
		strings.Compare(a.Zone, b.Zone), strings.Compare(string(a.Purchase), string(b.Purchase)))
}

func (m *Model) observe(e Event) {
	p := m.pools[e.Offering]
	if p == nil {
		p = m.adopt(&pool{Offering: e.Offering, At: e.At})
	}
	late := e.At.Before(p.Last) || (e.At.Equal(p.Last) && e.Kind.rank() < p.LastBad)
	if e.Kind == KindPrice {
		if !late || p.Ratio == 0 {
			p.Ratio = e.Ratio
		}
		m.dirty[p.key] = true
		return
	}
	presence := m.presence(p, e.At)
	m.fade(p, e.At)
	var d counts
	var feel mood
	weight := faded(p.At.Sub(e.At).Hours(), m.params.PoolHalfLife) // under 1 for a late event only
	switch {
	case late:
		d = lateCounts(e)
	default:
		d, feel = m.advance(p, e, presence)
		p.Last, p.LastBad = e.At, e.Kind.rank()
	}
	m.tally(p, e, weight)
	d.scale(weight)
	p.Counts.add(d)
	p.Mood.Excess += feel.Excess
	p.Mood.Seen += feel.Seen
	m.share(p, e.At, d, feel)
	m.dirty[p.key] = true
}

// adopt takes a pool into the model and fills in what its offering says.
func (m *Model) adopt(p *pool) *pool {
	p.key, p.keys, p.prior = poolKey(p.Offering), levelKeys(p.Offering), m.prior(p.Offering)
	m.pools[p.Offering] = p
	return p
}

// lateCounts is what an event tells that is older than the state: that it happened, not for how long.
func lateCounts(e Event) counts {
	switch e.Kind {
	case KindNotice, KindLost:
		return counts{Losses: e.share()}
	default:
		return counts{}
	}
}

func (m *Model) tally(p *pool, e Event, weight float64) {
	switch e.Kind {
	case KindHad:
		p.Attempts += weight
	case KindExhausted:
		p.Attempts += weight
		p.StockOuts += weight
	case KindNotice, KindLost:
		p.Interruptions += weight * e.share()
	case KindPrice, KindRunning:
	}
}

// advance moves the state of the offering to the event and returns what the time since the last look has shown.
func (m *Model) advance(p *pool, e Event, presence float64) (d counts, feel mood) {
	known, there := p.Known, p.There
	switch e.Kind {
	case KindHad:
		d, feel = m.look(p, e.At, true, presence, false)
		p.Failures, p.Delay, p.Until = 0, 0, time.Time{}
	case KindRunning:
		if p.Known && !p.There {
			d = m.outlive(p, e.At) // survivors of a stock-out say nothing about the next attempt
		} else {
			// A machine that runs now was had at the last look or before, since a later one would have been a look itself.
			d, feel = m.look(p, e.At, true, presence, true)
		}
		if p.RunSince.IsZero() {
			p.RunSince = e.At
		}
		p.RunSeen = e.At
	case KindExhausted:
		ran := !p.RunSeen.IsZero() && e.At.Sub(p.RunSeen).Hours() <= closeLook
		d, feel = m.look(p, e.At, false, presence, ran)
		if ran {
			d.Losses = 0 // the machines live on: nothing was lost, there is no more of it
		}
		p.backOff(e.At)
	case KindNotice, KindLost:
		if e.share() == 1 {
			d, feel = m.look(p, e.At, false, presence, true)
		}
		d.Losses = e.share()
		feel.Excess -= 2 * pulse * e.share()
		feel.Seen += 2 * pulse
		p.RunSince, p.RunSeen = time.Time{}, time.Time{}
		p.Since = e.At // what is left, or the hole, starts a new age
		p.backOff(e.At)
	case KindPrice:
	}
	if p.Known && (p.There != there || !known) {
		at := 0.0
		if p.There {
			at = 1
		}
		feel.Excess += pulse * (at - presence)
		feel.Seen += pulse
	}
	return d, feel
}

// look credits the time since the last look and sets the state. watched: the gap was not blind, whatever its length.
func (m *Model) look(p *pool, at time.Time, there bool, presence float64, watched bool) (d counts, feel mood) {
	if !p.Known {
		p.Known, p.There, p.Since, p.Seen = true, there, at, at
		return d, feel
	}
	gap := at.Sub(p.Seen).Hours()
	age := max(p.Seen.Sub(p.Since).Hours(), 0) // a loss of a part starts the age anew after the last look
	watched = watched || gap <= closeLook
	first, second := gap, 0.0 // hours in the old state and in the new one
	if p.There != there && !watched {
		first, second = gap/2, gap/2
	}
	if !watched {
		first, second = min(first, blindLimit), min(second, blindLimit)
	}
	m.credit(&d, p.There, age, first)
	m.credit(&d, there, 0, second)
	for _, h := range []struct {
		there bool
		hours float64
	}{{p.There, first}, {there, second}} {
		good := 0.0
		if h.there {
			good = 1
		}
		seen := min(h.hours, blindLimit)
		feel.Excess += seen * (good - presence)
		feel.Seen += seen
	}
	switch {
	case p.There != there:
		if p.There {
			d.Losses++
		} else {
			d.Returns++
		}
		p.Since = at.Add(-time.Duration(second * float64(time.Hour)))
		if !watched {
			p.Since = at.Add(-at.Sub(p.Seen) / 2)
		}
	case !watched:
		unseen := m.unseen(p, age, first)
		d.Losses += unseen
		d.Returns += unseen
		if gap > ageLimit {
			unseen = 1
		}
		middle := at.Add(-at.Sub(p.Seen) / 2)
		p.Since = p.Since.Add(time.Duration(unseen * float64(middle.Sub(p.Since))))
	}
	p.There, p.Seen = there, at
	return d, feel
}

// unseen is the chance that the state changed and changed back within a blind gap, by what is believed of the rates so far: without
// it, whoever looks seldom takes every state for a lasting one.
func (m *Model) unseen(p *pool, age, hours float64) float64 {
	loss, back := m.rates(p, p.At)
	var left, again float64
	if p.There {
		left = 1 - loss.stays(exposure(age, age+hours, m.params.LossFade, m.params.AgeFloor))
		again = 1 - back.stays(exposure(0, hours/2, m.params.ReturnFade, m.params.AgeFloor))
	} else {
		left = 1 - back.stays(exposure(age, age+hours, m.params.ReturnFade, m.params.AgeFloor))
		again = 1 - loss.stays(exposure(0, hours/2, m.params.LossFade, m.params.AgeFloor))
	}
	return left * again / (1 - left + left*again)
}

func (m *Model) credit(d *counts, there bool, age, hours float64) {
	if there {
		d.ThereExp += exposure(age, age+hours, m.params.LossFade, m.params.AgeFloor)
		d.ThereHour += hours
		return
	}
	d.GoneExp += exposure(age, age+hours, m.params.ReturnFade, m.params.AgeFloor)
	d.GoneHour += hours
}

// outlive credits machines that go on running while no others are to be had.
func (m *Model) outlive(p *pool, at time.Time) (d counts) {
	if p.RunSince.IsZero() {
		return d
	}
	from := p.RunSeen.Sub(p.RunSince).Hours()
	d.ThereExp = exposure(from, at.Sub(p.RunSince).Hours(), m.params.LossFade, m.params.AgeFloor)
	return d
}

// backOff doubles the wait for failures in a row. What happens during a wait is part of the same failure: ten notices at once are
// one.
func (p *pool) backOff(at time.Time) {
	if p.Delay > 0 && at.Before(p.Until) {
		p.Until = later(p.Until, at.Add(p.Delay))
		return
	}
	p.Failures++
	p.Delay = min(max(2*p.Delay, firstBackoff), lastBackoff)
	p.Until = at.Add(p.Delay)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// fade brings the offering's counts to the time; it never goes back.
func (m *Model) fade(p *pool, at time.Time) {
	hours := at.Sub(p.At).Hours()
	if hours <= 0 {
		return
	}
	f := faded(hours, m.params.PoolHalfLife)
	p.Counts.scale(f)
	p.Attempts *= f
	p.StockOuts *= f
	p.Interruptions *= f
	p.Mood.scale(faded(hours, m.params.MoodHalfLife))
	p.At = at
}

// share tells the wider levels.
func (m *Model) share(p *pool, at time.Time, d counts, feel mood) {
	for i, key := range p.keys {
		l := m.levels[key]
		if l == nil {
			l = &level{At: at}
			m.levels[key] = l
		}
		m.fadeLevel(l, at)
		if i != zoneLevel { // a zone's types have no rate in common, only a mood
			l.Counts.add(d)
		}
		l.Mood.Excess += feel.Excess
		l.Mood.Seen += feel.Seen
		m.dirty[key] = true
	}
}

func (m *Model) fadeLevel(l *level, at time.Time) {
	hours := at.Sub(l.At).Hours()
	if hours <= 0 {
		return
	}
	l.Counts.scale(faded(hours, m.params.ParentHalfLife))
	l.Mood.scale(faded(hours, m.params.MoodHalfLife))
	l.At = at
}

// Order of levelKeys.
const (
	typeLevel = iota
	regionLevel
	zoneLevel
)

func levelKeys(o fleet.Offering) [3]string {
	return [3]string{
		"type/" + string(o.Cloud) + "/" + o.InstanceType + "/" + string(o.Purchase),
		"region/" + string(o.Cloud) + "/" + o.Region + "/" + o.InstanceType + "/" + string(o.Purchase),
		"zone/" + string(o.Cloud) + "/" + o.Region + "/" + o.Zone,
	}
}

func poolKey(o fleet.Offering) string {
	return "offering/" + string(o.Cloud) + "/" + o.Region + "/" + o.Zone + "/" + o.InstanceType + "/" + string(o.Purchase)
}
