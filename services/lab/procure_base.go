package lab

import (
	"plimsoll.dev/services/fleet"
)

// The buyers that the field has. Each takes its total from a demand policy and decides where to hold it.

// missing of a total beyond what is held; never negative.
func missing(want, held int) int { return max(0, want-held) }

// heldOf sums what the pools of a purchase hold for the long run.
func heldOf(v *MarketView, p fleet.Purchase) (held, ready int) {
	for i := range v.Pools {
		if v.Pools[i].Purchase == p {
			held += v.Pools[i].Held()
			ready += v.Pools[i].Ready
		}
	}
	return held, ready
}

// place puts n replicas on pools of a purchase, in the order of the pools.
func place(v *MarketView, targets []int, p fleet.Purchase, n int) {
	for i := range v.Pools {
		if v.Pools[i].Purchase == p {
			targets[i] = max(n, 0)
			return
		}
	}
}

// onDemandOnly buys everything on demand.
type onDemandOnly struct{ demand Policy }

// Buy holds what the demand asks for.
func (b *onDemandOnly) Buy(v *MarketView, targets []int) {
	place(v, targets, fleet.PurchaseOnDemand, b.demand.Step(&v.Observation))
}

// reservedFirst uses a reservation of a fixed size and buys the rest on demand.
type reservedFirst struct {
	demand Policy
	size   int
}

// Buy fills the reservation first.
func (b *reservedFirst) Buy(v *MarketView, targets []int) {
	want := b.demand.Step(&v.Observation)
	n := min(want, b.size)
	place(v, targets, fleet.PurchaseReserved, n)
	place(v, targets, fleet.PurchaseOnDemand, want-n)
}

// spotFallback holds a share of the total on Spot in the cheapest pool that has not refused for three minutes, and on demand where there is none:
// what Karpenter does with a NodePool that allows both (an offering without capacity is left out for three minutes:
// https://karpenter.sh/docs/concepts/nodepools/ and pkg/cache UnavailableOfferingsTTL of karpenter-provider-aws). There one call asks all pools of Spot and
// on demand follows at once if none has any; here a launch asks one pool and waits 30 s for a refusal, so on demand stands in from the first refusal on while
// the next pool is asked. On-demand replicas are replaced when Spot is back. share 0.5 is the mix of half and half that instance policies of Auto Scaling
// groups offer.
type spotFallback struct {
	demand Policy
	share  float64
	until  []int // slot up to which a pool is left out
	open   int   // Spot replicas that were refused and have not been had since
}

const unavailableSlots = 180 / SlotSeconds

// Buy follows the total.
func (b *spotFallback) Buy(v *MarketView, targets []int) {
	if b.until == nil {
		b.until = make([]int, len(v.Pools))
	}
	want := b.demand.Step(&v.Observation)
	spot := int(float64(want) * b.share)
	cheapest, there := -1, 0
	for i := range v.Pools {
		p := &v.Pools[i]
		targets[i] = p.Held()
		if p.Purchase != fleet.PurchaseSpot {
			continue
		}
		there += p.Ready + p.Starting
		b.open += p.Failed - p.Got
		if p.Failed > 0 {
			b.until[i] = v.Slot + unavailableSlots
		}
		if b.until[i] <= v.Slot && (cheapest < 0 || p.Price < v.Pools[cheapest].Price) {
			cheapest = i
		}
	}
	held, ready := heldOf(v, fleet.PurchaseSpot)
	onDemand, _ := heldOf(v, fleet.PurchaseOnDemand)
	short := missing(spot, held)
	if cheapest >= 0 {
		targets[cheapest] += short
	}
	dropSpot(v, targets, held-spot)
	// What was refused is bought on demand at once, and kept until Spot has taken its place.
	b.open = min(max(b.open, 0), missing(spot, there))
	standIn := max(b.open, min(missing(spot, ready), onDemand-(want-spot)))
	if cheapest < 0 {
		standIn = max(standIn, short)
	}
	place(v, targets, fleet.PurchaseOnDemand, want-spot+standIn)
}

// dropSpot takes n Spot replicas away, the dearest pools first.
func dropSpot(v *MarketView, targets []int, n int) {
	for n > 0 {
		dearest := -1
		for i := range v.Pools {
			if v.Pools[i].Purchase == fleet.PurchaseSpot && targets[i] > 0 && (dearest < 0 || v.Pools[i].Price > v.Pools[dearest].Price) {
				dearest = i
			}
		}
		if dearest < 0 {
			return
		}
		cut := min(n, targets[dearest])
		targets[dearest] -= cut
		n -= cut
	}
}

// spotHedge is SkyServe's policy: N + extra replicas on Spot, each new one in an active zone, those with the fewest replicas first, then the cheapest;
// a zone that preempts or refuses leaves the active list and comes back with the first replica that gets ready there; with fewer than two active ones
// all are active again. On demand stands in for every Spot replica that is not ready, up to N, and goes when it is.
// Mao et al., SkyServe: Serving AI Models across Regions and Clouds with Spot Instances, EuroSys 2025, and sky/serve/spot_placer.py of skypilot-org/skypilot.
type spotHedge struct {
	demand Policy
	extra  int
	active []bool
	ready  []int
}

// Buy follows the total.
func (b *spotHedge) Buy(v *MarketView, targets []int) {
	want := b.demand.Step(&v.Observation)
	b.learn(v)
	for i := range v.Pools {
		targets[i] = v.Pools[i].Held()
	}
	held, ready := heldOf(v, fleet.PurchaseSpot)
	total := want + b.extra
	for ; held < total; held++ {
		best := -1
		for i := range v.Pools {
			if !b.active[i] || v.Pools[i].Purchase != fleet.PurchaseSpot {
				continue
			}
			if best < 0 || targets[i] < targets[best] || (targets[i] == targets[best] && v.Pools[i].Price < v.Pools[best].Price) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		targets[best]++
	}
	for ; held > total; held-- {
		most := -1
		for i := range v.Pools {
			if v.Pools[i].Purchase == fleet.PurchaseSpot && (most < 0 || targets[i] > targets[most]) {
				most = i
			}
		}
		targets[most]--
	}
	place(v, targets, fleet.PurchaseOnDemand, min(want, missing(total, ready)))
}

func (b *spotHedge) learn(v *MarketView) {
	if b.active == nil {
		b.active, b.ready = make([]bool, len(v.Pools)), make([]int, len(v.Pools))
		for i := range b.active {
			b.active[i] = true
		}
	}
	for i := range v.Pools {
		p := &v.Pools[i]
		if p.Purchase != fleet.PurchaseSpot {
			continue
		}
		if p.Ready > b.ready[i] {
			b.active[i] = true
		}
		if p.Failed+p.Warned+p.Lost > 0 {
			b.active[i] = false
		}
		b.ready[i] = p.Ready
	}
	n := 0
	for i := range v.Pools {
		if b.active[i] && v.Pools[i].Purchase == fleet.PurchaseSpot {
			n++
		}
	}
	if n < 2 {
		for i := range b.active {
			b.active[i] = true
		}
	}
}

// skyServe is SkyServe's own replica count: requests per second over a minute by a target per replica, up after five minutes above, down after
// twenty below (upscale_delay_seconds 300 and downscale_delay_seconds 1200, its defaults).
type skyServe struct {
	perReplica float64 // requests per second
	recent     window
	now        int
	up, down   int
}

func newSkyServe(share float64, t *Trace) Policy {
	rate, rho := 0.0, 0.0
	for s := t.From; s < t.To; s++ {
		rate += t.Requests[s] / SlotSeconds
		rho += t.Rho[s]
	}
	return &skyServe{perReplica: share * part(rate, rho), recent: newWindow(60 / SlotSeconds)}
}

// Step counts how long the target has been above or below.
func (a *skyServe) Step(o *Observation) int {
	rate := a.recent.add(o.Rate)
	want := max(1, int(rate/max(a.perReplica, 1e-9)+0.999999))
	if a.now == 0 {
		a.now = max(o.Replicas(), 1)
	}
	switch {
	case want > a.now:
		a.up, a.down = a.up+1, 0
		if a.up >= 300/SlotSeconds {
			a.now, a.up = want, 0
		}
	case want < a.now:
		a.up, a.down = 0, a.down+1
		if a.down >= 1200/SlotSeconds {
			a.now, a.down = want, 0
		}
	default:
		a.up, a.down = 0, 0
	}
	return a.now
}
