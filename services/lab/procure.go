package lab

import "plimsoll.dev/services/optimizer/procure"

// The market counts time and prices as the policy does.
var (
	_ [SlotSeconds]struct{} = [procure.SlotSeconds]struct{}{}
	_ [FullPrice]struct{}   = [procure.FullPrice]struct{}{}
)

// Procure lets the policy of room procure, the one that production weighs offerings by, buy in a market what a demand policy asks for.
type Procure struct {
	policy *procure.Policy
	demand Policy
}

// NewProcure makes the buyer.
func NewProcure(cfg procure.Config, demand Policy) *Procure {
	return &Procure{policy: procure.New(cfg), demand: demand}
}

// DefaultProcure is the default.
func DefaultProcure() procure.Config { return procure.Default() }

// Buy decides for one slot.
func (b *Procure) Buy(v *MarketView, targets []int) {
	b.buy(v, b.demand.Step(&v.Observation), targets)
}

func (b *Procure) buy(v *MarketView, want int, targets []int) {
	b.policy.Buy(v.Slot, v.Pools, want, v.Busy, targets)
}
