package ledger

import "plimsoll.dev/services/fleet"

// AutomatedHour is an hour of a workload that a policy scales: what the ledger says of it, and what the counts were. Counts are means over the
// hour in thousandths of a replica; nil: nobody said.
type AutomatedHour struct {
	Amount   fleet.Money  // of the ledger
	Replicas *int64       // held
	Unit     *fleet.Money // of a replica for an hour, from the last hour that had one: for hours without any
	Max      int64        // of the policy
	Shadow   *int64       // what a HorizontalPodAutoscaler at 70 % would have held
	Before   *int64       // what was there before each decision in force; nil: none was in force
	Promised fleet.Money  // what these decisions promised for their time in this hour; positive: a saving
	Cooldown *int64       // held only because a cooldown or a stabilisation window held it
	Starting *int64       // on their way to ready
}

// Saving of an hour. All counterfactuals are counts of that hour times its own price of a replica, so that a change of price is nobody's
// saving. Nil: not known.
type Saving struct {
	Unit     *fleet.Money
	Static   *fleet.Money // what holding Max all the time costs
	Shadow   *fleet.Money // what the HorizontalPodAutoscaler costs
	Stayed   *fleet.Money // what leaving the counts as they were before each decision costs
	Promised fleet.Money
	Cooldown *fleet.Money // part of Amount
	Starting *fleet.Money // part of Amount
}

// maxCount bounds counts (thousandths) so that products with amounts stay in range: a million replicas. Amounts of 2^52 nano-units (4.5 million
// an hour) and more have no price of a replica for the same reason.
const maxCount = 1_000_000_000

// Save says what an hour would have cost by other rules.
func (h AutomatedHour) Save() Saving {
	s := Saving{Promised: h.Promised, Unit: h.Unit}
	if h.Replicas != nil && *h.Replicas > 0 && h.Amount > 0 && h.Amount < 1<<52 {
		unit := h.Amount.MulDiv(1000, *h.Replicas)
		s.Unit = &unit
	}
	at := func(count *int64) *fleet.Money {
		if count == nil || s.Unit == nil || *count < 0 || *count > maxCount {
			return nil
		}
		if *s.Unit > (1<<62)/maxCount*1000 {
			return nil
		}
		v := s.Unit.MulDiv(*count, 1000)
		return &v
	}
	top := h.Max * 1000
	s.Static, s.Shadow, s.Stayed = at(&top), at(h.Shadow), at(h.Before)
	s.Cooldown, s.Starting = h.part(h.Cooldown), h.part(h.Starting)
	return s
}

// part is what so many of the replicas cost; never more than all of them.
func (h AutomatedHour) part(count *int64) *fleet.Money {
	if count == nil || h.Replicas == nil || *count < 0 {
		return nil
	}
	if *h.Replicas <= 0 {
		zero := fleet.Money(0)
		return &zero
	}
	v := h.Amount.MulDiv(min(*count, *h.Replicas), *h.Replicas)
	return &v
}
