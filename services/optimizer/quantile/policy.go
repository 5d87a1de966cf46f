package quantile

import (
	"math"
	"slices"
)

// Policy is the learner of one service: what it knows, and the shadow in charge.
type Policy struct {
	par    Params
	slot   int64 // the next one to learn
	load   load
	past   history
	casts  [Casts]forecast
	queue  []shadow
	chief  int    // the shadow in charge
	second int    // the one that would be in its place; -1: none would be on time
	own    shadow // what the policy itself would have asked for, without bounds and damping
	plain  shadow // a HorizontalPodAutoscaler at plainTarget beside it
	track  track

	requests, slots float64 // decayed like the shadows' sums
	since, fast     float64 // requests at the beginning of the hour; of the last hours
	hours           float64 // of experience
	budget          budget
	scale           float64 // how many times as late as elsewhere the shadows are
	wants           [Casts][]int32
}

// New makes the policy of a service of which nothing is known; slot 0 is the first to learn.
func New(p Params) *Policy {
	c := &Policy{par: p.WithDefaults(), second: -1, scale: scaleFirst}
	for i := range c.casts {
		c.casts[i].init(Cast(i), c.par.ColdSlots+1, c.par.Quantiles)
		c.wants[i] = make([]int32, len(c.par.Quantiles))
		c.casts[i].ask(0, c.wants[i])
	}
	for f := range c.casts {
		for q := range c.par.Quantiles {
			for h := range c.par.Holds {
				if (Choice{Cast(f), q, h}) == *c.par.First {
					c.chief = len(c.queue)
				}
				c.queue = append(c.queue, newShadow(&c.par, Choice{Cast(f), q, h}))
			}
		}
	}
	c.own = shadow{hold: newExtreme(slices.Max(c.par.Holds) + int(c.par.leastHold())), start: newExtreme(c.par.ColdSlots + 1)}
	c.plain = shadow{hold: newExtreme(plainHold), start: newExtreme(c.par.ColdSlots + 1)}
	return c
}

// Begin says which slot is the first to learn. It is for a policy that has learned nothing yet.
func (c *Policy) Begin(slot int64) { c.slot = max(slot, 0) }

// Next is the next slot to learn.
func (c *Policy) Next() int64 { return c.slot }

// Step learns from one slot and says how many replicas the service shall have from now on.
func (c *Policy) Step(g Gauges) int {
	demand, requests := c.load.step(g), g.Rate*SlotSeconds
	c.past.add(demand)
	c.requests += requests
	c.slots++
	for i := range c.casts {
		c.casts[i].step(&c.past, demand, c.wants[i])
	}
	used := c.used()
	for i := range c.queue {
		s := &c.queue[i]
		s.step(&c.par, c.slot, c.wants[s.at.Cast][s.at.Quantile], used, demand, requests)
	}
	c.plain.react(&c.par, c.slot, demand, requests)
	c.own.serve(&c.par, demand, requests)
	c.slot++
	if c.casts[0].n%hourSlots == 0 {
		c.hourly()
	}
	want := c.want()
	c.own.order(c.slot-1, int32(want)) //nolint:gosec // at most maxReplicas
	c.track.add(c)
	return want
}

// want is what the quantile and hold of the shadow in charge ask for, and what works off a backlog. The hold is the policy's own: when another
// shadow takes over, the count goes on from where it is. It is never under what the shadow has, which is on time because it has that much.
func (c *Policy) want() int {
	at := c.queue[c.chief].at
	need := max(c.wants[at.Cast][at.Quantile], c.catchUp())
	return int(max(c.own.settle(&c.par, c.slot-1, need, c.used(), c.par.Holds[at.Hold]), c.queue[c.chief].want))
}

// catchUp is what works off the backlog there is, and the one that a surge is about to make.
func (c *Policy) catchUp() int32 {
	demand, backlog := c.demand(), c.load.backlog()
	return c.par.catchUp(demand, backlog+c.own.coming(&c.par, c.slot, demand, backlog))
}

// used is the replicas in use over the last minute, and a tenth more.
func (c *Policy) used() int32 {
	return int32(math.Ceil(1.1 * c.past.mean(c.past.n-4, c.past.n)))
}

// demand of the newest slot.
func (c *Policy) demand() float64 { return c.past.mean(c.past.n-1, c.past.n) }

// Skip passes over slots of which nothing is known. The demand of the last known one stands in for them, so that means and the same time
// yesterday keep their places, but nothing is learned from it.
func (c *Policy) Skip(slots int64) {
	if slots <= 0 {
		return
	}
	last := int64(0)
	if c.past.n > 0 {
		last = c.past.value(c.past.n - 1)
	}
	for range min(slots, historySlots) {
		c.past.put(last)
	}
	for i := range c.casts {
		c.casts[i].fit = c.casts[i].n
	}
	c.slot += slots
	c.track.open = point{}
}

// hourly refreshes the quantiles, lets the best shadow take over and ages what was learned.
func (c *Policy) hourly() {
	c.hours++
	for i := range c.casts {
		f := &c.casts[i]
		f.refresh(c.par.Quantiles)
		f.ask(f.level(), c.wants[i])
	}
	c.fast = fastKeep*c.fast + c.requests - c.since
	for i := range c.queue {
		c.queue[i].endHour()
	}
	c.scale = c.lateness()
	c.budget.endHour(c.own.late-c.own.since, c.requests-c.since)
	c.own.endHour()
	c.chief, c.second = c.best()
	keep := math.Exp2(-1 / (24 * c.par.HalfLifeDays))
	c.requests *= keep
	c.since = c.requests
	c.slots *= keep
	for i := range c.queue {
		c.queue[i].age(keep)
	}
	c.own.age(keep)
	c.plain.age(keep)
}

// best is the cheapest shadow that was on time, cycles priced in, and the next cheapest, -1 where there is none; if none was on time, the one
// with the fewest late requests. The one in charge stays while it is on time and next to nothing is saved.
func (c *Policy) best() (best, second int) {
	believed, surprise := c.believed(), c.surprise()
	least := 0
	best, second = -1, -1
	for i := range c.queue {
		s, l := &c.queue[i], &c.queue[least]
		if s.late < l.late || (s.late == l.late && s.paid < l.paid) {
			least = i
		}
		if s.fast > surprise || !c.onTime(s, believed) {
			continue
		}
		switch {
		case best < 0 || c.price(i) < c.price(best):
			best, second = i, best
		case second < 0 || c.price(i) < c.price(second):
			second = i
		}
	}
	switch {
	case best < 0:
		return least, second
	case best != c.chief && c.queue[c.chief].fast <= surprise && c.onTime(&c.queue[c.chief], believed) && c.price(best) > (1-worthMoving)*c.price(c.chief):
		return c.chief, best
	}
	return best, second
}

// worthMoving is the share of its price that another shadow must save to take over from one that is on time.
const worthMoving = 0.01

// surprise is how many late requests of the last hours forbid a shadow to be in charge, whatever it had before: four times what is aimed at, but
// twice what the best of them had, since after a burst that nobody could meet nobody is to blame. It is how a load that has become another one
// is noticed within hours.
func (c *Policy) surprise() float64 {
	least := c.queue[0].fast
	for i := range c.queue {
		least = min(least, c.queue[i].fast)
	}
	return max(4*c.par.target()*c.fast, 2*least)
}

// onTime says whether a shadow has few enough late requests: those that it had, as many again as its worst hour had, and those that it would
// have elsewhere on a load as late as this one. Late requests come in bursts, and what happened once will happen again.
func (c *Policy) onTime(s *shadow, believed float64) bool {
	return s.late+s.worst+believed*c.scale*s.prior <= c.budget.spend(&c.par, c.hours)*c.par.target()*(c.requests+believed)
}

// believed is how many requests the expectations from elsewhere count for. They never fade: of hundreds of shadows with the same true lateness the
// one with the fewest late requests was lucky, and what all of them had says more of it than its own few bursts.
func (c *Policy) believed() float64 {
	return part(c.requests, seen(c.hours, 24*c.par.HalfLifeDays)) * c.par.PriorHours
}

// seen is how many hours count after so many that fade with a half-life (hours).
func seen(hours, halfLife float64) float64 {
	if math.IsInf(halfLife, 1) {
		return hours
	}
	return (1 - math.Exp2(-hours/halfLife)) / (1 - math.Exp2(-1/halfLife))
}

// How many times as late as elsewhere a load is before anything of it was seen, for how many hours that counts, the bounds of what is learned, and the
// quantiles of the shadows that it is learned from: lower ones are late all the time, higher ones hardly ever.
const (
	scaleFirst, scaleHours    = 10, 8
	scaleLeast, scaleMost     = 0.8, 40
	scaleLowest, scaleHighest = 0.699, 0.951
)

// lateness is how many times as late as elsewhere this load makes the shadows, by all of them together.
func (c *Policy) lateness() float64 {
	late, prior := 0.0, 0.0
	for i := range c.queue {
		s := &c.queue[i]
		if q := c.par.Quantiles[s.at.Quantile]; q >= scaleLowest && q <= scaleHighest {
			late += s.late
			prior += s.prior
		}
	}
	extra := part(c.requests, seen(c.hours, 24*c.par.HalfLifeDays)) * scaleHours
	if prior == 0 || c.requests == 0 {
		return scaleFirst
	}
	return min(max((late+scaleFirst*prior*extra)/(prior*(c.requests+extra)), scaleLeast), scaleMost)
}

// price of a shadow, in replica-slots: what it paid, and its restlessness.
func (c *Policy) price(i int) float64 { return c.queue[i].paid + c.queue[i].cycles*c.par.Cycle }
