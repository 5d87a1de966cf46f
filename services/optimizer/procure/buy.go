package procure

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// priceUnit turns millionths into nano-units, so that weighing rounds nothing that matters; maxHazard bounds what is learned of a pool.
const (
	priceUnit = 1000
	maxHazard = 100_000
)

// Config has the constants of the policy.
type Config struct {
	Share   float64 // penalty of a pool's share of the Spot replicas, in units of the on-demand price
	Shock   float64 // added to the hazard by a refusal or a loss
	Keep    float64 // of the hazard per slot
	First   int     // back-off in slots after a refusal or a notice, doubled each time
	Longest int     // of it while one replica on demand stands in for Spot; with n of them shorter by the root of n
	Calm    int     // of it otherwise, and always the longest
	Rest    int     // least of it otherwise
	Full    int     // slots until a pool that refused beyond what it has is asked for one more, doubled each time
	Doubt   float64 // added to the score of a pool that did not answer last time
	Safe    float64 // share of what is in use that must survive the loss of the largest pool; the rest is bought on demand. 0: none
	Single  bool    // of the pools that did not answer last time, one is asked at a time
	InRow   int     // refusals one after the other, no pool having answered since, after which all that did not answer are left alone for a while. 0: never
	Pause   int     // for so many slots, and as many more for each refusal beyond
}

// Default is the default.
func Default() Config {
	return Config{Share: 0.05, Shock: 0.03, Keep: 0.9995, Doubt: 0.02,
		First: 1200 / SlotSeconds, Longest: 3600 / SlotSeconds, Calm: 8 * hourSlots, Rest: 4 * hourSlots, Full: 2 * hourSlots,
		Single: true, InRow: 3, Pause: 300 / SlotSeconds}
}

// Policy holds what was learned of the pools.
type Policy struct {
	cfg   Config
	slot  int
	pools []belief
	open  int // Spot replicas that were refused and have not been had since
}

// belief is what is known of a pool.
type belief struct {
	hazard  float64
	since   int // slot of the last bad news
	backoff int // slots to leave it alone from then on; 0: it answers
	cap     int // replicas that it refused to go beyond; 0: not known
	capped  int // slot in which it did
	full    int // slots until one more is tried
	yes, no int // slots in which it last had a replica, and had none
	row     int // refusals up to that one, less than an hour apart and without an answer of its own between
}

// New makes the policy.
func New(cfg Config) *Policy { return &Policy{cfg: cfg} }

// Fear is how much the hazard of a pool counts: p (1 + 2 h), section 5 of the specification. Twice or three times as much changes next to nothing
// (docs/replay.md, "Mixed procurement").
const Fear = 2

// Weighed is the price by which offerings are compared: p (1 + Fear h), h in thousandths of interruptions per machine-hour, at least 0 and at most
// maxHazard.
func Weighed(p fleet.Money, hazardMilli, maxHazard int64) fleet.Money {
	return p.MulDiv(1000+Fear*min(max(hazardMilli, 0), maxHazard), 1000)
}

// Buy decides for one slot how many replicas each pool holds, want in total; busy is how many are in use. targets has one absolute count per pool.
func (b *Policy) Buy(slot int, pools []Pool, want int, busy float64, targets []int) {
	b.slot = slot
	b.learn(pools)
	b.Choose(pools, want, busy, targets)
	// What was refused and is asked for elsewhere may be refused there too: on demand starts beside it.
	b.open = min(b.open, missing(want, there(pools)))
	for i := range pools {
		if pools[i].Purchase == fleet.PurchaseOnDemand {
			targets[i] = max(targets[i], b.open)
			return
		}
	}
}

// Choose is Buy without what the slot tells: it rests on what is known of the pools.
func (b *Policy) Choose(pools []Pool, want int, busy float64, targets []int) {
	for i := range pools {
		targets[i] = pools[i].Held()
	}
	held, ready := Held(pools, fleet.PurchaseSpot)
	for held < want {
		best := b.best(pools, targets, held)
		if best < 0 {
			break
		}
		targets[best]++
		held++
	}
	for ; held > want; held-- {
		targets[b.worst(pools, targets, held)]--
	}
	held, ready = b.leaveDear(pools, want, held, ready, targets)
	onDemand, _ := Held(pools, fleet.PurchaseOnDemand)
	// What Spot cannot give is bought on demand; what stands in for Spot goes when Spot is ready.
	need := max(missing(want, held), min(onDemand, missing(want, ready)))
	need = max(need, missing(int(math.Ceil(b.cfg.Safe*busy)), ready-largest(pools)))
	// After a loss, most of what is held may be on its way in one pool that has yet to prove itself: on demand starts beside it.
	need = max(need, missing(largest(pools), ready))
	for i := range pools {
		if pools[i].Purchase == fleet.PurchaseOnDemand {
			targets[i] = need
			return
		}
	}
}

// largest is how many replicas go, ready or on their way, when one pool of Spot fails.
func largest(pools []Pool) int {
	most := 0
	for i := range pools {
		if pools[i].Purchase == fleet.PurchaseSpot {
			most = max(most, pools[i].Held())
		}
	}
	return most
}

// there is what the pools of Spot have given, ready or on its way.
func there(pools []Pool) int {
	n := 0
	for i := range pools {
		if pools[i].Purchase == fleet.PurchaseSpot {
			n += pools[i].Ready + pools[i].Starting
		}
	}
	return n
}

// missing of a total beyond what is held; never negative.
func missing(want, held int) int { return max(0, want-held) }

// dear says that a pool of Spot costs more than the cheapest on demand: nobody buys there, whatever its hazard.
func dear(pools []Pool, i int) bool {
	for j := range pools {
		if pools[j].Purchase == fleet.PurchaseOnDemand && pools[i].Purchase == fleet.PurchaseSpot && pools[i].Price > pools[j].Price {
			return true
		}
	}
	return false
}

// leaveDear lets go of Spot that is dearer than on demand once what stands in for it serves, and says what Spot is left to count on.
func (b *Policy) leaveDear(pools []Pool, want, held, ready int, targets []int) (heldLeft, readyLeft int) {
	for i := range pools {
		if dear(pools, i) {
			held, ready = held-targets[i], ready-pools[i].Ready
		}
	}
	if _, standIn := Held(pools, fleet.PurchaseOnDemand); ready+standIn < want {
		return held, ready
	}
	for i := range pools {
		if dear(pools, i) {
			targets[i] = 0
		}
	}
	return held, ready
}

// learn takes what happened in the slot.
func (b *Policy) learn(pools []Pool) {
	if b.pools == nil {
		b.pools = make([]belief, len(pools))
	}
	for i := range pools {
		if pools[i].Purchase == fleet.PurchaseSpot {
			b.open = max(b.open+pools[i].Failed-pools[i].Got, 0)
		}
		b.pools[i].hazard *= b.cfg.Keep
		b.pools[i].take(&b.cfg, b.slot, &pools[i])
	}
}

// take is what a slot tells of a pool.
func (k *belief) take(cfg *Config, slot int, p *Pool) {
	if p.Got > 0 {
		k.backoff, k.yes, k.row = 0, slot, 0
	}
	if p.Failed > 0 && p.Ready+p.Starting == 0 {
		if slot-k.no > hourSlots {
			k.row = 0
		}
		k.no, k.row = slot, k.row+1
	}
	if k.cap > 0 && p.Ready+p.Starting > k.cap { // it gives more than it did
		k.cap, k.full = 0, 0
	}
	if p.Failed > 0 && p.Warned+p.Lost == 0 && p.Ready+p.Starting > 0 && k.backoff == 0 {
		// It has what it has and gives no more: full, not gone.
		k.cap, k.capped = p.Ready+p.Starting, slot
		k.full = min(max(2*k.full, cfg.Full), 24*hourSlots)
		return
	}
	if p.Failed+p.Warned > 0 || (p.Lost > 0 && k.backoff == 0) {
		k.hazard += cfg.Shock
		k.backoff = min(max(2*k.backoff, cfg.First), cfg.Calm)
		k.since = slot
	}
}

// score of holding one more, or of holding what there is.
func (b *Policy) score(pools []Pool, i, n, all int) float64 {
	share := 0.0
	if all > 0 {
		share = float64(n) / float64(all)
	}
	weighed := Weighed(fleet.Money(pools[i].Price)*fleet.Money(priceUnit), int64(math.Round(1000*b.pools[i].hazard)), maxHazard)
	return float64(weighed)/(FullPrice*priceUnit) + b.cfg.Share*share
}

// wait is how long a pool is left alone after bad news: the longer the less there is to be had from asking.
func (b *Policy) wait(k *belief, standIn int) int {
	switch {
	case k.backoff == 0:
		return 0
	case standIn > 0:
		return min(k.backoff, max(b.cfg.First, int(float64(b.cfg.Longest)/math.Sqrt(float64(standIn)))))
	}
	return max(k.backoff, b.cfg.Rest)
}

// best is the pool for the next replica, or -1. Where nothing of ours runs, one launch asks whether there is any before others follow; where a
// pool was full, one launch asks whether it still is.
func (b *Policy) best(pools []Pool, targets []int, held int) int {
	best, least := -1, math.Inf(1)
	standIn, _ := Held(pools, fleet.PurchaseOnDemand)
	asked := b.silent(pools) || (b.cfg.Single && b.asked(pools, targets))
	for i := range pools {
		p, k := &pools[i], &b.pools[i]
		if asked && k.backoff > 0 {
			continue
		}
		if p.Purchase != fleet.PurchaseSpot || dear(pools, i) || b.slot < k.since+b.wait(k, standIn) || (p.Ready+p.Starting == 0 && targets[i] > 0) || targets[i] >= b.most(k) {
			continue
		}
		s := b.score(pools, i, targets[i]+1, held+1)
		if k.backoff > 0 {
			s += b.cfg.Doubt
		}
		if s < least {
			best, least = i, s
		}
	}
	return best
}

// silent says that so many launches were refused one after the other that asking again is in vain for a while.
func (b *Policy) silent(pools []Pool) bool {
	yes, n, last := 0, 0, 0
	for i := range b.pools {
		if pools[i].Purchase == fleet.PurchaseSpot {
			yes = max(yes, b.pools[i].yes)
		}
	}
	for i := range b.pools {
		if no := b.pools[i].no; pools[i].Purchase == fleet.PurchaseSpot && no > yes {
			n, last = n+b.pools[i].row, max(last, no)
		}
	}
	return b.cfg.InRow > 0 && n >= b.cfg.InRow && b.slot < last+b.cfg.Pause*(n-b.cfg.InRow+1)
}

// asked says that a pool that did not answer last time has yet to answer now.
func (b *Policy) asked(pools []Pool, targets []int) bool {
	for i := range pools {
		p := &pools[i]
		if p.Purchase == fleet.PurchaseSpot && b.pools[i].backoff > 0 && (p.Asking > 0 || targets[i] > p.Held()) {
			return true
		}
	}
	return false
}

// most is how many replicas may be asked of a pool.
func (b *Policy) most(k *belief) int {
	switch {
	case k.cap == 0:
		return math.MaxInt
	case b.slot-k.capped > k.full:
		return k.cap + 1
	}
	return k.cap
}

func (b *Policy) worst(pools []Pool, targets []int, held int) int {
	worst, most := -1, math.Inf(-1)
	for i := range pools {
		if pools[i].Purchase != fleet.PurchaseSpot || targets[i] == 0 {
			continue
		}
		if s := b.score(pools, i, targets[i], held); s > most {
			worst, most = i, s
		}
	}
	return worst
}
