package procure

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// Belief is what is known of a pool, to be kept between decisions or made anew from what was seen. Slots are absolute.
type Belief struct {
	Hazard  float64 `json:"hazard"`            // learned, as of the slot it was asked for
	Since   int     `json:"since,omitempty"`   // slot of the last bad news
	Backoff int     `json:"backoff,omitempty"` // slots to leave it alone from then on; 0: it answers
	Cap     int     `json:"cap,omitempty"`     // replicas that it refused to go beyond; 0: not known
	Capped  int     `json:"capped,omitempty"`  // slot in which it did
	Full    int     `json:"full,omitempty"`    // slots until one more is tried
	Yes     int     `json:"yes,omitempty"`     // slot in which it last had a replica to give
	No      int     `json:"no,omitempty"`      // slot in which it last had none at all
	Row     int     `json:"row,omitempty"`     // refusals in a row up to that one
}

// News is what happened in a pool in one slot.
type News struct {
	Slot                      int
	Got, Failed, Warned, Lost int
	Held                      int // replicas, ready or starting and without a notice, after it
}

// Believe learns from the news of one pool, oldest first and one per slot at most, up to the slot now; held is what it has now. It knows what a Policy
// knows that saw every slot.
func Believe(cfg Config, news []News, now, held int) Belief {
	var k belief
	at := now
	if len(news) > 0 {
		at = news[0].Slot
	}
	for _, n := range news {
		k.hazard *= math.Pow(cfg.Keep, float64(max(n.Slot-at, 0)))
		at = n.Slot
		k.take(&cfg, n.Slot, &Pool{Ready: n.Held, Got: n.Got, Failed: n.Failed, Warned: n.Warned, Lost: n.Lost})
	}
	k.hazard *= math.Pow(cfg.Keep, float64(max(now-at, 0)))
	k.take(&cfg, now, &Pool{Ready: held})
	return Belief{Hazard: k.hazard, Since: k.since, Backoff: k.backoff, Cap: k.cap, Capped: k.capped, Full: k.full, Yes: k.yes, No: k.no, Row: k.row}
}

// Recall makes a policy that believes of the pools, in their order, what is given, in a slot.
func Recall(cfg Config, slot int, beliefs []Belief) *Policy {
	b := &Policy{cfg: cfg, slot: slot, pools: make([]belief, len(beliefs))}
	for i, k := range beliefs {
		b.pools[i] = belief{hazard: k.Hazard, since: k.Since, backoff: k.Backoff, cap: k.Cap, capped: k.Capped, full: k.Full, yes: k.Yes, no: k.No, row: k.Row}
	}
	return b
}

// Next is the pool of Spot for one more replica beyond targets; -1: none may be asked now.
func (b *Policy) Next(pools []Pool, targets []int) int {
	held := 0
	for i := range pools {
		if pools[i].Purchase == fleet.PurchaseSpot {
			held += targets[i]
		}
	}
	return b.best(pools, targets, held)
}

// Score is how a pool compares with others for one more replica beyond targets, in units of the on-demand price: the least is bought.
func (b *Policy) Score(pools []Pool, i int, targets []int) float64 {
	held := 0
	for j := range pools {
		if pools[j].Purchase == fleet.PurchaseSpot {
			held += targets[j]
		}
	}
	s := b.score(pools, i, targets[i]+1, held+1)
	if b.pools[i].backoff > 0 {
		s += b.cfg.Doubt
	}
	return s
}

// Free is the slot from which a pool may be asked again while so many replicas on demand stand in for Spot.
func (b *Policy) Free(i, standIn int) int {
	k := &b.pools[i]
	if k.backoff == 0 {
		return 0
	}
	return k.since + b.wait(k, standIn)
}

// Most is how many replicas a pool may be asked to hold when it holds so many: one where nothing runs, since a launch asks whether there is any before others
// follow; one more than it refused to go beyond when it is tried again.
func (b *Policy) Most(i, held int) int {
	most := b.most(&b.pools[i])
	if held == 0 {
		most = min(most, 1)
	}
	return most
}
