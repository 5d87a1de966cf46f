package availability

import (
	"math"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// view is everything one score is made from, brought to one moment.
type view struct {
	pool           pool
	seen           bool
	levels         [3]level
	prior          Prior
	loss, back     gamma
	lossMul, backM float64
	presence       float64
	moved          float64 // presence, moved by the neighbours' mood
}

// Score tells what to expect of an offering now and in the next hour, whether or not it was ever seen.
func (m *Model) Score(o fleet.Offering, now time.Time) Score {
	v := m.view(o, now)
	p := &v.pool
	s := Score{Offering: o, At: now, Failures: p.Failures, Attempts: p.Attempts, StockOuts: p.StockOuts, Interruptions: p.Interruptions,
		ObservedHours: p.Counts.ThereHour + p.Counts.GoneHour, LastSeen: p.Last, PriceRatio: p.Ratio}
	s.AvailableNow = clamp(m.there(&v, now), 1-sure, sure)
	s.StockOut = 1 - s.AvailableNow
	thereAge, goneAge := v.ages(now, m.params.PoolHalfLife)
	s.ReturnsNextHour = 1 - v.back.stays(v.backM*exposure(goneAge, goneAge+1, m.params.ReturnFade, m.params.AgeFloor))
	s.AvailableNextHour = clamp(s.AvailableNow+(1-s.AvailableNow)*s.ReturnsNextHour, 0, sure)
	s.SurvivesNextHour = v.loss.stays(v.lossMul * exposure(thereAge, thereAge+1, m.params.LossFade, m.params.AgeFloor))
	s.Hazard = -math.Log(max(s.SurvivesNextHour, 1e-9))
	s.PriorShare = v.priorShare()
	if p.Until.After(now) {
		s.BackoffUntil = p.Until
	}
	return s
}

// Offerings lists all that were ever seen, in order.
func (m *Model) Offerings() []fleet.Offering {
	out := make([]fleet.Offering, 0, len(m.pools))
	for o := range m.pools {
		out = append(out, o)
	}
	slices.SortFunc(out, compareOfferings)
	return out
}

func (m *Model) view(o fleet.Offering, now time.Time) (v view) {
	if p := m.pools[o]; p != nil {
		v.pool, v.seen = *p, true
		m.fade(&v.pool, now)
	} else {
		v.pool = pool{Offering: o, At: now, keys: levelKeys(o), prior: m.prior(o)}
	}
	for i, key := range v.pool.keys {
		v.levels[i].At = now
		if l := m.levels[key]; l != nil {
			v.levels[i] = *l
			m.fadeLevel(&v.levels[i], now)
		}
	}
	v.prior = v.pool.prior.forPrice(v.pool.Ratio)
	v.loss, v.back = m.ratesOf(&v.pool, &v.levels[typeLevel], &v.levels[regionLevel])
	v.presence = presenceOf(&v.pool, &v.levels[typeLevel], &v.levels[regionLevel], v.prior)
	region := v.levels[regionLevel].Mood.value(v.pool.Mood, m.params.MoodSlack)
	zone := v.levels[zoneLevel].Mood.value(v.pool.Mood, m.params.MoodSlack)
	v.lossMul = math.Exp(-m.params.RegionLoss*region - m.params.Zone*zone)
	v.backM = math.Exp(m.params.RegionReturn*region + m.params.Zone*zone)
	v.moved = logistic(logit(v.presence) + m.params.RegionReturn*region + m.params.Zone*zone)
	return v
}

// rates are those of an offering at a moment.
func (m *Model) rates(p *pool, now time.Time) (loss, back gamma) {
	levels := m.wider(p, now)
	return m.ratesOf(p, &levels[typeLevel], &levels[regionLevel])
}

// ratesOf goes from the prior over type and region to the offering; each level is worth Strength changes to the next.
func (m *Model) ratesOf(p *pool, typed, region *level) (loss, back gamma) {
	k := m.params.Strength
	prior := p.prior.forPrice(p.Ratio)
	loss, back = gamma{k, k / prior.Loss}, gamma{k, k / prior.Return}
	for _, c := range []counts{typed.Counts, region.Counts, p.Counts} {
		loss, back = learn(c.Losses, c.ThereExp, k, loss.mean()), learn(c.Returns, c.GoneExp, k, back.mean())
	}
	return loss, back
}

// wider are type and region as of a moment.
func (m *Model) wider(p *pool, now time.Time) (levels [2]level) {
	for i := range levels {
		levels[i].At = now
		if l := m.levels[p.keys[i]]; l != nil {
			levels[i] = *l
			m.fadeLevel(&levels[i], now)
		}
	}
	return levels
}

// presence is the share of hours in which the offering is there, without its state of the moment.
func (m *Model) presence(p *pool, now time.Time) float64 {
	own := *p
	m.fade(&own, now)
	levels := m.wider(p, now)
	return presenceOf(&own, &levels[typeLevel], &levels[regionLevel], p.prior)
}

func presenceOf(p *pool, typed, region *level, prior Prior) float64 {
	share := prior.Presence
	for _, c := range []counts{typed.Counts, region.Counts, p.Counts} {
		share = (c.ThereHour + presenceHours*share) / (c.ThereHour + c.GoneHour + presenceHours)
	}
	return clamp(share, 0.001, 0.999)
}

// there is the chance that the offering is there now: what was seen last, as far as it still holds, and the usual share for the rest.
func (m *Model) there(v *view, now time.Time) float64 {
	p := &v.pool
	if !p.Known {
		return v.moved
	}
	age, gap := max(p.Seen.Sub(p.Since).Hours(), 0), max(now.Sub(p.Seen).Hours(), 0)
	kept := faded(gap, m.params.PoolHalfLife) // what was seen long ago is no longer known, however lasting it was
	if p.There {
		stay := kept * v.loss.stays(v.lossMul*exposure(age, age+gap, m.params.LossFade, m.params.AgeFloor))
		return stay + (1-stay)*v.moved
	}
	stay := kept * v.back.stays(v.backM*exposure(age, age+gap, m.params.ReturnFade, m.params.AgeFloor))
	return (1 - stay) * v.moved
}

// referenceAge is the age at which the rates are stated; a state that nobody saw begin gets it.
const referenceAge = 1.0

// ages are how long the offering has been there, and how long it would have been gone, in hours. What was seen long ago gives way to
// the reference.
func (v *view) ages(now time.Time, halfLife float64) (there, gone float64) {
	p := &v.pool
	if !p.Known {
		return referenceAge, referenceAge
	}
	blind := max(now.Sub(p.Seen).Hours(), 0)
	kept := faded(blind, halfLife)
	since := max(now.Sub(p.Since).Hours(), 0)
	switch {
	case p.There:
		there, gone = since, blind/2
	case !p.RunSince.IsZero():
		there, gone = max(now.Sub(p.RunSince).Hours(), 0), since
	default:
		there, gone = 0, since // a machine had now would be fresh
	}
	return kept*there + (1-kept)*referenceAge, kept*gone + (1-kept)*referenceAge
}

// priorShare is how much of the hazard and of the usual share of good hours is not the offering's own, in the mean.
func (v *view) priorShare() float64 {
	c := v.pool.Counts
	loss := (v.loss.scale - c.ThereExp) / v.loss.scale
	hours := presenceHours / (c.ThereHour + c.GoneHour + presenceHours)
	return clamp((loss+hours)/2, 0, 1)
}

func clamp(v, lo, hi float64) float64 { return min(max(v, lo), hi) }

func logit(p float64) float64 { return math.Log(p / (1 - p)) }

func logistic(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
