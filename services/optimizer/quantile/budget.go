package quantile

import "math"

// budget is the lateness that the policy itself had of late, whoever was in charge. It closes the loop that shadows leave open: they say what would
// have been late, and the choice among them is optimistic at some times and timid at others. Who was later than aimed at chooses by a
// stricter measure, who has lateness to spare by a looser one (adaptive conformal inference with a proportional rule).
type budget struct {
	late, requests float64
}

const (
	budgetHalfLife = 48   // hours
	budgetTrust    = 72   // hours on target that a new service is taken to have had
	budgetFrom     = 72   // hours of experience from which on lateness to spare is spent,
	budgetFull     = 168  // and those from which on all of it may be
	budgetGain     = 2    // in logarithms per target
	budgetLeast    = -0.7 // a half: after a burst that nobody could meet, more would be insurance after the fire
	budgetMost     = 0.8  // two and a quarter
)

// targetShare is the part of the lateness aimed at by which shadows are chosen: what comes is a tenth to a third later than the records of who was
// chosen, from one first week to another in docs/replay.md.
const targetShare = 0.76

func (p *Params) target() float64 { return targetShare * p.Late }

// endHour notes what was late in an hour, and of how many requests.
func (b *budget) endHour(late, requests float64) {
	keep := math.Exp2(-1.0 / budgetHalfLife)
	b.late = keep*b.late + late
	b.requests = keep*b.requests + requests
}

// spend is how many times the target the choice may go by.
func (b *budget) spend(p *Params, hours float64) float64 {
	if b.requests == 0 {
		return 1
	}
	extra := part(b.requests, seen(hours, budgetHalfLife)) * budgetTrust
	share := (b.late + p.target()*extra) / (b.requests + extra)
	most := budgetMost * min(max(hours-budgetFrom, 0)/(budgetFull-budgetFrom), 1)
	return math.Exp(min(max(budgetGain*(1-share/p.target()), budgetLeast), most))
}
