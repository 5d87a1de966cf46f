package lab

import "plimsoll.dev/services/optimizer/quantile"

// The policy counts time in the same slots as the World.
var _ [SlotSeconds]struct{} = [quantile.SlotSeconds]struct{}{}

// CQ lets the policy of room quantile, the one that decides in production, play in a World.
type CQ struct{ *quantile.Policy }

// NewCQ makes the policy for a service whose replicas start within cold slots.
func NewCQ(p quantile.Params, cold int) CQ {
	p.ColdSlots = cold
	return CQ{quantile.New(p)}
}

// Step decides for one slot.
func (c CQ) Step(o *Observation) int {
	return c.Policy.Step(quantile.Gauges{Busy: o.Busy, Queue: o.Queue, Rate: o.Rate})
}

// Needed is what the forecast in charge asks for, before its hold.
func (c CQ) Needed() int { return c.Need() }
