package lab

import (
	"math"
	"math/rand/v2"

	"plimsoll.dev/services/fleet"
)

// PoolView is what a buyer sees of one pool at the end of a slot.
type PoolView struct {
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
func (p *PoolView) Held() int { return p.Ready + p.Starting + p.Asking }

// MarketView is what a buyer sees: the gauges of the service, and the pools.
type MarketView struct {
	Observation
	Pools []PoolView
}

// Buyer decides how many replicas to hold in each pool, once per slot. It writes one absolute count per pool.
type Buyer interface {
	Buy(v *MarketView, targets []int)
}

// MixScore is the scorecard of a buyer. Cost is exact: millionths of an on-demand replica-slot.
type MixScore struct {
	Score
	Cost          int64   `json:"cost_micro_slots"`
	CostHours     float64 `json:"cost_on_demand_hours"` // the same in on-demand replica-hours
	SpotHours     float64 `json:"spot_replica_hours"`
	OnDemandHours float64 `json:"on_demand_replica_hours"`
	Launches      int     `json:"launches"`
	Failed        int     `json:"failed_launches"`
	Interrupted   int     `json:"interrupted_replicas"`
	Unannounced   int     `json:"interrupted_without_notice"`
	ZoneLosses    int     `json:"pool_losses"` // times that a pool took everything back
}

// poolState is the world's side of a pool.
type poolState struct {
	ready, starting, asking, noticed, draining int
	boot, drain, notice, refuse                []int // rings: what becomes ready, ends, is lost, is refused at slot s stands at s mod len
	got, failed, warned, lost                  int
	paid                                       int64 // replica-slots
}

// MixWorld is one service, or the sum of several, whose replicas are bought in a market.
type MixWorld struct {
	cfg    MixConfig
	market *Market
	queue  *World
	pools  []poolState
	view   MarketView
	target []int
	score  MixScore
}

// NewMixWorld starts with initial replicas ready on the first pool that has them for sure: on demand.
func NewMixWorld(t *Trace, m *Market, cfg MixConfig, initial int) (*MixWorld, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if err := m.Check(t.Slots()); err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	w := &MixWorld{cfg: cfg, market: m, queue: NewWorld(t, Config{ColdSlots: cfg.ColdSlots(), Min: 0, Max: cfg.Max}, initial),
		pools: make([]poolState, len(m.Pools)), target: make([]int, len(m.Pools))}
	w.view.Pools = make([]PoolView, len(m.Pools))
	placed := false
	for i := range w.pools {
		p := &w.pools[i]
		p.boot, p.drain = make([]int, cfg.ColdSlots()+1), make([]int, cfg.DrainSlots+1)
		p.notice, p.refuse = make([]int, cfg.NoticeSlots+1), make([]int, cfg.RefuseSlots+1)
		if m.Pools[i].Purchase == fleet.PurchaseOnDemand && !placed {
			p.ready, placed = initial, true
		}
		w.view.Pools[i] = PoolView{Name: m.Pools[i].Name, Region: m.Pools[i].Region, Purchase: m.Pools[i].Purchase}
	}
	if !placed {
		return nil, fleet.Errorf(fleet.CodeInvalid, "market %s has no on-demand pool to start from", m.Name)
	}
	return w, nil
}

// RunMix plays a buyer over the whole trace.
func RunMix(t *Trace, m *Market, cfg MixConfig, b Buyer) (MixScore, error) {
	first := 1.0
	for _, rho := range t.Rho[:min(cfg.ColdSlots()+1, t.Slots())] {
		first = max(first, rho)
	}
	w, err := NewMixWorld(t, m, cfg, int(math.Ceil(first)))
	if err != nil {
		return MixScore{}, err
	}
	for !w.Over() {
		v := w.Advance()
		clear(w.target)
		b.Buy(v, w.target)
		w.Order(w.target)
	}
	return w.Score(), nil
}

// Over says that the trace has ended.
func (w *MixWorld) Over() bool { return w.queue.Over() }

// Advance plays one slot: what the cloud gives and takes, then the queue. The view is valid until the next call.
func (w *MixWorld) Advance() *MarketView {
	s := w.queue.slot
	judged := s >= w.queue.trace.From && s < w.queue.trace.To
	serving, waiting, starting := 0, 0, 0
	for i := range w.pools {
		p := &w.pools[i]
		p.got, p.failed, p.warned, p.lost = 0, 0, 0, 0
		w.settle(p, s)
		w.take(i, s, judged)
		w.launch(i, s, judged)
		serving += p.ready + p.noticed
		waiting += p.starting + p.draining
		starting += p.starting
		w.pay(i, s, judged)
	}
	w.queue.ready, w.queue.pending = serving, waiting
	w.view.Observation = w.queue.Advance()
	w.view.Starting = starting
	next := min(s+1, w.queue.trace.Slots()-1)
	for i := range w.pools {
		p, v := &w.pools[i], &w.view.Pools[i]
		v.Price = w.market.Pools[i].Price[next]
		v.Ready, v.Starting, v.Asking, v.Noticed, v.Draining = p.ready, p.starting, p.asking, p.noticed, p.draining
		v.Got, v.Failed, v.Warned, v.Lost = p.got, p.failed, p.warned, p.lost
	}
	return &w.view
}

// settle ends the phases that are over by slot s.
func (w *MixWorld) settle(p *poolState, s int) {
	up := &p.boot[s%len(p.boot)]
	p.ready, p.starting, *up = p.ready+*up, p.starting-*up, 0
	gone := &p.drain[s%len(p.drain)]
	p.draining, *gone = p.draining-*gone, 0
	lost := &p.notice[s%len(p.notice)]
	p.noticed, p.lost, *lost = p.noticed-*lost, p.lost+*lost, 0
	no := &p.refuse[s%len(p.refuse)]
	p.asking, p.failed, *no = p.asking-*no, p.failed+*no, 0
}

// take lets the cloud have back what stock no longer covers: those that start first, at once; ready ones after a notice, or without.
func (w *MixWorld) take(i, s int, judged bool) {
	p, stock := &w.pools[i], int(w.market.Pools[i].Stock[s])
	over := p.ready + p.starting - stock
	if over <= 0 || w.market.Pools[i].Purchase != fleet.PurchaseSpot {
		return
	}
	young := p.cancelStarting(s, over)
	p.lost += young
	old := min(over-young, p.ready)
	p.ready -= old
	silent := w.market.Silent > 0 && rand.New(rand.NewPCG(w.market.Seed^uint64(i+1)*0x9e3779b97f4a7c15, uint64(s))).Float64() < w.market.Silent //nolint:gosec // mixed into a seed
	if silent || w.cfg.NoticeSlots == 0 {
		p.lost += old
	} else {
		p.warned += old
		p.noticed += old
		p.notice[(s+w.cfg.NoticeSlots)%len(p.notice)] += old
	}
	if judged {
		w.score.Interrupted += over
		if silent {
			w.score.Unannounced += over
		}
		if stock == 0 {
			w.score.ZoneLosses++
		}
	}
}

// cancelStarting drops up to n replicas that are not ready, the youngest first.
func (p *poolState) cancelStarting(s, n int) int {
	cut := 0
	for i := len(p.boot) - 1; i >= 1 && cut < n && p.starting > 0; i-- {
		at := &p.boot[(s+i)%len(p.boot)]
		k := min(*at, n-cut)
		*at -= k
		p.starting -= k
		cut += k
	}
	return cut
}

// launch answers what was asked for at the end of the last slot: there is stock, or a refusal is on its way.
func (w *MixWorld) launch(i, s int, judged bool) {
	p, pool := &w.pools[i], &w.market.Pools[i]
	asked := p.asking - sum(p.refuse)
	if asked <= 0 {
		return
	}
	got := min(max(int(pool.Stock[s])-p.ready-p.starting, 0), asked)
	p.got += got
	p.asking -= got
	if w.cfg.ColdSlots() == 0 {
		p.ready += got
	} else {
		p.starting += got
		p.boot[(s+w.cfg.ColdSlots())%len(p.boot)] += got
	}
	if refused := asked - got; refused > 0 {
		if w.cfg.RefuseSlots == 0 {
			p.asking -= refused
			p.failed += refused
		} else {
			p.refuse[(s+w.cfg.RefuseSlots)%len(p.refuse)] += refused
		}
		if judged {
			w.score.Failed += refused
		}
	}
	if judged {
		w.score.Launches += asked
	}
}

// pay charges the slot. A reservation costs its size.
func (w *MixWorld) pay(i, s int, judged bool) {
	p, pool := &w.pools[i], &w.market.Pools[i]
	n := p.ready + p.starting + p.noticed + p.draining
	p.paid += int64(n)
	if !judged {
		return
	}
	charged := n
	switch pool.Purchase {
	case fleet.PurchaseSpot:
		w.score.SpotHours += float64(n)
	case fleet.PurchaseOnDemand:
		w.score.OnDemandHours += float64(n)
	case fleet.PurchaseReserved:
		charged = int(pool.Stock[s])
	}
	w.score.Cost += int64(charged) * int64(pool.Price[s])
}

// Order takes the counts a buyer wants in the pools. More is asked for and answered in the next slot; of too many, those not yet answered
// go first, then those not ready, then ready ones drain.
func (w *MixWorld) Order(targets []int) {
	s := w.queue.slot
	have, want := 0, 0
	room := w.cfg.Max
	for i := range w.pools {
		p := &w.pools[i]
		target := min(max(targets[i], 0), room)
		room -= target
		held := p.ready + p.starting + p.asking
		have, want = have+held, want+target
		if target > held {
			p.asking += target - held
			continue
		}
		cut := held - target
		unanswered := min(cut, p.asking-sum(p.refuse))
		p.asking -= unanswered
		cut -= unanswered
		// A launch that is going to be refused cannot be taken back; it stops counting once the answer is there.
		cut = max(0, min(cut, p.ready+p.starting-target))
		cut -= p.cancelStarting(s-1, cut)
		if cut > 0 {
			p.ready -= cut
			if w.cfg.DrainSlots > 0 {
				p.draining += cut
				p.drain[(s+w.cfg.DrainSlots)%len(p.drain)] += cut
			}
		}
	}
	w.queue.score.ordered(have, want, s > w.queue.trace.From && s <= w.queue.trace.To)
}

func sum(values []int) int {
	n := 0
	for _, v := range values {
		n += v
	}
	return n
}

// Score is the scorecard so far.
func (w *MixWorld) Score() MixScore {
	out := w.score
	out.Score = w.queue.Score()
	out.CostHours = float64(out.Cost) / FullPrice / SlotsPerHour
	out.SpotHours /= SlotsPerHour
	out.OnDemandHours /= SlotsPerHour
	return out
}
