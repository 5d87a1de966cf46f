package lab

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// ProcureConfig has the constants of the procurement policy.
type ProcureConfig struct {
	Share    float64 // penalty of a pool's share of the Spot replicas, in units of the on-demand price
	Fear     float64 // how much the hazard counts
	Shock    float64 // added to the hazard by a refusal or a loss
	Keep     float64 // of the hazard per slot
	First    int     // back-off in slots after a refusal or a notice, doubled each time
	Longest  int     // of it while on demand stands in for Spot, so that Spot is worth looking for
	Calm     int     // of it otherwise
	Rest     int     // least of it otherwise
	Spare    float64 // Spot beyond the demand, as a share of the largest pool
	Critical float64 // share of the demand that must survive the loss of the largest pool
}

// DefaultProcure is the default.
func DefaultProcure() ProcureConfig {
	return ProcureConfig{Share: 0.05, Fear: 2, Shock: 0.03, Keep: 0.9995, First: 600 / SlotSeconds, Longest: 1800 / SlotSeconds, Calm: 8 * SlotsPerHour, Rest: SlotsPerHour}
}

// Procure buys what a demand policy asks for: Spot where price, hazard and spread say, on demand where Spot does not answer.
type Procure struct {
	cfg    ProcureConfig
	demand Policy
	pools  []poolBelief
}

// poolBelief is what is known of a pool.
type poolBelief struct {
	hazard  float64
	since   int // slot of the last bad news
	capped  int // slot in which it did
	cap     int // replicas that it refused to go beyond; 0: not known
	backoff int // slots to leave it alone from then on; 0: it answers
}

// NewProcure makes the policy.
func NewProcure(cfg ProcureConfig, demand Policy) *Procure { return &Procure{cfg: cfg, demand: demand} }

// Buy decides for one slot.
func (b *Procure) Buy(v *MarketView, targets []int) {
	b.buy(v, b.demand.Step(&v.Observation), targets)
}

func (b *Procure) buy(v *MarketView, want int, targets []int) {
	b.learn(v)
	largest := 0
	for i := range v.Pools {
		targets[i] = v.Pools[i].Held()
		if v.Pools[i].Purchase == fleet.PurchaseSpot {
			largest = max(largest, targets[i])
		}
	}
	held, ready := heldOf(v, fleet.PurchaseSpot)
	total := want + int(math.Round(b.cfg.Spare*float64(largest)))
	for held < total {
		best := b.best(v, targets, held)
		if best < 0 {
			break
		}
		targets[best]++
		held++
	}
	for ; held > total; held-- {
		targets[b.worst(v, targets, held)]--
	}
	held, ready = b.leaveDear(v, want, held, ready, targets)
	onDemand, _ := heldOf(v, fleet.PurchaseOnDemand)
	// What Spot cannot give is bought on demand; what stands in for Spot goes when Spot is ready.
	need := max(missing(want, held), min(onDemand, missing(want, ready)))
	need = max(need, missing(int(math.Ceil(b.cfg.Critical*v.Busy)), ready-largest))
	place(v, targets, fleet.PurchaseOnDemand, need)
}

// dear says that a pool of Spot costs more than the cheapest on demand: nobody buys there, whatever its hazard.
func dear(v *MarketView, i int) bool {
	for j := range v.Pools {
		if v.Pools[j].Purchase == fleet.PurchaseOnDemand && v.Pools[i].Purchase == fleet.PurchaseSpot && v.Pools[i].Price > v.Pools[j].Price {
			return true
		}
	}
	return false
}

// leaveDear lets go of Spot that is dearer than on demand once what stands in for it serves, and says what Spot is left to count on.
func (b *Procure) leaveDear(v *MarketView, want, held, ready int, targets []int) (heldLeft, readyLeft int) {
	for i := range v.Pools {
		if dear(v, i) {
			held, ready = held-targets[i], ready-v.Pools[i].Ready
		}
	}
	if _, standIn := heldOf(v, fleet.PurchaseOnDemand); ready+standIn < want {
		return held, ready
	}
	for i := range v.Pools {
		if dear(v, i) {
			targets[i] = 0
		}
	}
	return held, ready
}

func (b *Procure) learn(v *MarketView) {
	if b.pools == nil {
		b.pools = make([]poolBelief, len(v.Pools))
	}
	for i := range v.Pools {
		p, k := &v.Pools[i], &b.pools[i]
		k.hazard *= b.cfg.Keep
		if p.Got > 0 {
			k.backoff = 0
		}
		if p.Failed > 0 && p.Warned+p.Lost == 0 && p.Ready+p.Starting > 0 && k.backoff == 0 {
			// It has what it has and gives no more: full, not gone.
			k.cap, k.capped = p.Ready+p.Starting, v.Slot
			continue
		}
		if k.cap > 0 && v.Slot-k.capped > b.cfg.Longest {
			k.cap = 0
		}
		if p.Failed+p.Warned > 0 || (p.Lost > 0 && k.backoff == 0) {
			k.hazard += b.cfg.Shock
			k.backoff = min(max(2*k.backoff, b.cfg.First), b.cfg.Calm)
			k.since = v.Slot
		}
	}
}

// score of holding one more, or of holding what there is.
func (b *Procure) score(v *MarketView, i, n, all int) float64 {
	return float64(v.Pools[i].Price)/FullPrice*(1+b.cfg.Fear*b.pools[i].hazard) + b.cfg.Share*part(float64(n), float64(all))
}

// wait is how long a pool is left alone after bad news.
func (b *Procure) wait(k *poolBelief, needed bool) int {
	switch {
	case k.backoff == 0:
		return 0
	case needed:
		return min(k.backoff, b.cfg.Longest)
	}
	return max(k.backoff, b.cfg.Rest)
}

// best is the pool for the next replica, or -1. Where nothing of ours runs, one launch asks whether there is any before others follow.
func (b *Procure) best(v *MarketView, targets []int, held int) int {
	best, least := -1, math.Inf(1)
	onDemand, _ := heldOf(v, fleet.PurchaseOnDemand)
	for i := range v.Pools {
		p, k := &v.Pools[i], &b.pools[i]
		if p.Purchase != fleet.PurchaseSpot || dear(v, i) || v.Slot < k.since+b.wait(k, onDemand > 0) || (p.Ready+p.Starting == 0 && targets[i] > 0) || (k.cap > 0 && targets[i] >= k.cap) {
			continue
		}
		if s := b.score(v, i, targets[i]+1, held+1); s < least {
			best, least = i, s
		}
	}
	return best
}

func (b *Procure) worst(v *MarketView, targets []int, held int) int {
	worst, most := -1, math.Inf(-1)
	for i := range v.Pools {
		if v.Pools[i].Purchase != fleet.PurchaseSpot || targets[i] == 0 {
			continue
		}
		if s := b.score(v, i, targets[i], held); s > most {
			worst, most = i, s
		}
	}
	return worst
}
