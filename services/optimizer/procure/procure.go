// Package procure decides where the replicas of a service are bought: which Spot pools hold how many of them, and how many stand on demand. It
// counts time in slots, prices in millionths of the on-demand price, and learns of a pool only by what its launches and losses tell. It is
// pure and knows nothing but numbers: room lab scores it in recorded markets, and room capacity weighs offerings by the same rule. It never acts, and it may
// never read a clock.
package procure

import "plimsoll.dev/services/fleet"

// FullPrice is the on-demand price of one replica for one slot.
const FullPrice = 1_000_000

// SlotSeconds is one step.
const SlotSeconds = 15

const hourSlots = 3600 / SlotSeconds

// Pool is what is seen of one place to buy at the end of a slot.
type Pool struct {
	Name     string
	Region   string
	Purchase fleet.Purchase
	Price    int32 // of the next slot, millionths of the on-demand price
	Ready    int   // serving, no notice
	Starting int   // had, not ready
	Asking   int   // asked for, not answered yet
	Noticed  int   // serving until the cloud takes them
	Draining int
	// What happened in the slot that just passed.
	Got    int // launches that were answered with a machine
	Failed int // launches that were refused
	Warned int // replicas that got a notice
	Lost   int // replicas that the cloud took
}

// Held is what the pool has for the long run: ready or on its way.
func (p *Pool) Held() int { return p.Ready + p.Starting + p.Asking }

// Held sums what the pools of a purchase hold for the long run, and what of it is ready.
func Held(pools []Pool, by fleet.Purchase) (held, ready int) {
	for i := range pools {
		if pools[i].Purchase == by {
			held += pools[i].Held()
			ready += pools[i].Ready
		}
	}
	return held, ready
}
