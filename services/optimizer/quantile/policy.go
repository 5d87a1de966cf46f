package quantile

import "math"

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
	hours           float64 // of experience
	wants           [Casts][]int32
}

// New makes the policy of a service of which nothing is known; slot 0 is the first to learn.
func New(p Params) *Policy {
	c := &Policy{par: p.WithDefaults(), second: -1}
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
	c.own = shadow{start: newExtreme(c.par.ColdSlots + 1)}
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
	for i := range c.queue {
		s := &c.queue[i]
		s.step(&c.par, c.slot, c.wants[s.at.Cast][s.at.Quantile], demand, requests)
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

// want is what the shadow in charge asks for, and what works off a backlog.
func (c *Policy) want() int {
	return int(max(c.queue[c.chief].want, c.catchUp()))
}

// catchUp is what works off the backlog there is, and the one that a surge is about to make.
func (c *Policy) catchUp() int32 {
	demand, backlog := c.demand(), c.load.backlog()
	return c.par.catchUp(demand, backlog+c.own.coming(&c.par, c.slot, demand, backlog))
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
	c.chief, c.second = c.best()
	keep := math.Exp2(-1 / (24 * c.par.HalfLifeDays))
	c.requests *= keep
	c.slots *= keep
	for i := range c.queue {
		c.queue[i].age(keep)
	}
	c.own.age(keep)
	c.plain.age(keep)
}

// best is the cheapest shadow that was on time and calm, and the next cheapest, -1 where there is none; if none was on time, the one with
// the fewest late requests.
func (c *Policy) best() (best, second int) {
	believed := c.believed()
	least := 0
	best, second = -1, -1
	for i := range c.queue {
		s, l := &c.queue[i], &c.queue[least]
		if s.late < l.late || (s.late == l.late && s.paid < l.paid) {
			least = i
		}
		if s.late+believed*s.prior > c.par.Late*(c.requests+believed) {
			continue
		}
		switch {
		case best < 0 || c.price(i) < c.price(best):
			best, second = i, best
		case second < 0 || c.price(i) < c.price(second):
			second = i
		}
	}
	if best < 0 {
		best = least
	}
	return best, second
}

// believed is how many requests the expectations from elsewhere count for. What has not happened yet will: a shadow starts with the
// lateness that its quantile and hold had elsewhere, worth some hours.
func (c *Policy) believed() float64 {
	halfLife := 24 * c.par.HalfLifeDays
	seen := (1 - math.Exp2(-c.hours/halfLife)) / (1 - math.Exp2(-1/halfLife))
	if seen == 0 {
		return 0
	}
	return c.requests / seen * c.par.PriorHours * math.Exp2(-c.hours/halfLife)
}

// price of a shadow, in replica-slots: what it paid, and its restlessness.
func (c *Policy) price(i int) float64 { return c.queue[i].paid + c.queue[i].cycles*c.par.Cycle }
