package quantile

import "slices"

// Outlook is what the policy expects and why it asks for what it asks for: numbers only, enough to decide by without the policy.
type Outlook struct {
	Slot    int64   // the newest that was learned
	Learned int     // slots that were learned; in the first minutes a rise from nothing is seen that there was not
	Hours   float64 // of experience, whole ones; before the first is over nothing was chosen yet
	Demand  float64 // replicas in use by what arrived in it
	Backlog float64 // replica-seconds that wait
	Median  float64 // of the demand, over the last hour

	LeadSlots int     // how far ahead is looked: a start and one slot
	Level     float64 // the forecast of the shadow in charge
	Middle    float64 // the median of the demand then
	Upper     float64 // the quantile of the demand then, by which is sized
	Need      int     // replicas for Upper
	Want      int     // replicas that are asked for: the Need or CatchUp of now, or a higher one that is held
	CatchUp   int     // what a backlog takes to be worked off; 0: none that makes requests late
	Chief     Standing
	Runner    *Standing // the next cheapest that would have been on time; nil: none would
	Own       Standing  // the policy as it was, whoever was in charge
	Plain     Standing  // a HorizontalPodAutoscaler at 70 % in its place
}

// Standing is how a shadow fared over the experience, which fades with the half-life.
type Standing struct {
	Cast     Cast    // of shadows
	Quantile float64 // of shadows
	Hold     int     // slots for which one spare replica is kept, of shadows
	Want     int     // asked for now
	Mean     float64 // replicas paid for
	Late     float64 // share of requests
	Expected float64 // share of requests, with its worst hour once more and what it would have elsewhere on such a load; of shadows
	Cycles   float64 // up-down-ups per hour
}

// Outlook after the newest slot.
func (c *Policy) Outlook() Outlook {
	at := c.queue[c.chief].at
	f := &c.casts[at.Cast]
	level := f.level()
	size := spread(level)
	o := Outlook{Slot: c.slot - 1, Learned: c.casts[0].n, Hours: c.hours, Demand: c.demand(), Backlog: c.load.backlog(), Median: c.median(), LeadSlots: f.lead,
		Level: level, Middle: max(0, level+f.middle*size), Upper: max(0, level+f.edge[at.Quantile]*size),
		Need: int(c.wants[at.Cast][at.Quantile]), Want: int(c.own.want), CatchUp: int(c.catchUp()),
		Chief: c.standing(&c.queue[c.chief]), Own: c.standing(&c.own), Plain: c.standing(&c.plain)}
	if c.second >= 0 {
		s := c.standing(&c.queue[c.second])
		o.Runner = &s
	}
	return o
}

// standing of one of the policy's shadows; of the two that are none, cast, quantile and hold say nothing.
func (c *Policy) standing(s *shadow) Standing {
	believed := c.believed()
	return Standing{Cast: s.at.Cast, Quantile: c.par.Quantiles[s.at.Quantile], Hold: c.par.Holds[s.at.Hold], Want: int(s.want),
		Mean: part(s.paid, c.slots), Late: part(s.late, c.requests), Expected: part(s.late+s.worst+believed*c.scale*s.prior, c.requests+believed),
		Cycles: part(s.cycles*hourSlots, c.slots)}
}

func (c *Policy) median() float64 {
	n := min(c.past.n, hourSlots)
	if n == 0 {
		return 0
	}
	var values [hourSlots]int64
	for i := range n {
		values[i] = c.past.value(c.past.n - 1 - i)
	}
	slices.Sort(values[:n])
	return float64(values[n/2]) / historyUnit
}

// Record is how a shadow fared, all sums fading with the half-life.
type Record struct {
	Choice   Choice
	Want     int     // what it asks for now
	Paid     float64 // replica-slots
	Late     float64 // requests
	Cycles   float64 // completed up-down-ups
	Requests float64 // that it was run with
}

// Shadow tells how shadow i fared.
func (c *Policy) Shadow(i int) Record { return c.record(&c.queue[i]) }

// Plain tells how a HorizontalPodAutoscaler at 70 % fared beside the policy.
func (c *Policy) Plain() Record { return c.record(&c.plain) }

func (c *Policy) record(s *shadow) Record {
	return Record{Choice: s.at, Want: int(s.want), Paid: s.paid, Late: s.late, Cycles: s.cycles, Requests: c.requests}
}

// HalfLifeDays after which experience counts half.
func (c *Policy) HalfLifeDays() float64 { return c.par.HalfLifeDays }
