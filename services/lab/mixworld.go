package lab

import (
	"math"
	"math/rand/v2"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/procure"
)

// PoolView is what a buyer sees of one pool at the end of a slot.
type PoolView = procure.Pool

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
	judged                                     int64 // replica-slots paid in the judged span
}

// rental is what is held in a market, and what is paid for it.
type rental struct {
	cfg    MixConfig
	market *Market
	pools  []poolState
	views  []PoolView
	score  MixScore
	// Of the slot that just passed, over all pools.
	serving, starting, draining, fresh, drained int
	have, want                                  int // of the last order, in total
}

// newRental starts with initial replicas ready on demand.
func newRental(t *Trace, m *Market, cfg MixConfig, initial int) (*rental, error) {
	if err := m.Check(t.Slots()); err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	w := &rental{cfg: cfg, market: m, pools: make([]poolState, len(m.Pools)), views: make([]PoolView, len(m.Pools))}
	placed := false
	for i := range w.pools {
		p := &w.pools[i]
		p.boot, p.drain = make([]int, cfg.ColdSlots()+1), make([]int, cfg.DrainSlots+1)
		p.notice, p.refuse = make([]int, cfg.NoticeSlots+1), make([]int, cfg.RefuseSlots+1)
		if m.Pools[i].Purchase == fleet.PurchaseOnDemand && !placed {
			p.ready, placed = initial, true
		}
		w.views[i] = PoolView{Name: m.Pools[i].Name, Region: m.Pools[i].Region, Purchase: m.Pools[i].Purchase}
	}
	if !placed {
		return nil, fleet.Errorf(fleet.CodeInvalid, "market %s has no on-demand pool to start from", m.Name)
	}
	return w, nil
}

// advance plays one slot of the market: what is over ends, what the cloud takes goes, what was asked for is answered, and all is paid.
func (w *rental) advance(s int, judged bool) {
	w.serving, w.starting, w.draining, w.fresh = 0, 0, 0, 0
	for i := range w.pools {
		p, v := &w.pools[i], &w.views[i]
		p.got, p.failed, p.warned, p.lost = 0, 0, 0, 0
		w.fresh += w.settle(p, s)
		w.take(i, s, judged)
		w.launch(i, s, judged)
		w.pay(i, s, judged)
		w.serving += p.ready + p.noticed
		w.starting += p.starting
		w.draining += p.draining
		v.Price = w.market.Pools[i].Price[min(s+1, len(w.market.Pools[i].Price)-1)]
		v.Ready, v.Starting, v.Asking, v.Noticed, v.Draining = p.ready, p.starting, p.asking, p.noticed, p.draining
		v.Got, v.Failed, v.Warned, v.Lost = p.got, p.failed, p.warned, p.lost
	}
}

// finished is the scorecard, with what the queues say.
func (w *rental) finished(queues Score) MixScore {
	out := w.score
	out.Score = queues
	out.CostHours = float64(out.Cost) / FullPrice / SlotsPerHour
	out.SpotHours /= SlotsPerHour
	out.OnDemandHours /= SlotsPerHour
	return out
}

// MixWorld is one service whose replicas are bought in a market.
type MixWorld struct {
	*rental
	queue  *World
	view   MarketView
	target []int
}

// NewMixWorld starts with initial replicas ready on demand.
func NewMixWorld(t *Trace, m *Market, cfg MixConfig, initial int) (*MixWorld, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	r, err := newRental(t, m, cfg, initial)
	if err != nil {
		return nil, err
	}
	return &MixWorld{rental: r, queue: NewWorld(t, Config{ColdSlots: cfg.ColdSlots(), Max: cfg.Max}, initial), target: make([]int, len(m.Pools))}, nil
}

// RunMix plays a buyer over the whole trace.
func RunMix(t *Trace, m *Market, cfg MixConfig, b Buyer) (MixScore, error) {
	w, err := NewMixWorld(t, m, cfg, firstNeed(t, cfg.ColdSlots()))
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

// firstNeed is what the first slots need, which no order could have had ready.
func firstNeed(t *Trace, cold int) int {
	first := 1.0
	for _, rho := range t.Rho[:min(cold+1, t.Slots())] {
		first = max(first, rho)
	}
	return int(math.Ceil(first))
}

// Over says that the trace has ended.
func (w *MixWorld) Over() bool { return w.queue.Over() }

// Advance plays one slot: the market, then the queue. The view is valid until the next call.
func (w *MixWorld) Advance() *MarketView {
	s := w.queue.slot
	w.advance(s, s >= w.queue.trace.From && s < w.queue.trace.To)
	w.queue.ready, w.queue.pending = w.serving, w.starting+w.draining
	w.view.Observation = w.queue.Advance()
	w.view.Starting = w.starting
	w.view.Pools = w.views
	return &w.view
}

// Order takes the counts a buyer wants in the pools.
func (w *MixWorld) Order(targets []int) {
	w.order(w.queue.slot, targets)
	w.queue.score.ordered(w.have, w.want, w.queue.slot > w.queue.trace.From && w.queue.slot <= w.queue.trace.To)
}

// Score is the scorecard so far.
func (w *MixWorld) Score() MixScore { return w.finished(w.queue.Score()) }

// settle ends the phases that are over by slot s and says how many replicas got ready.
func (w *rental) settle(p *poolState, s int) (fresh int) {
	up := &p.boot[s%len(p.boot)]
	fresh = *up
	p.ready, p.starting, *up = p.ready+fresh, p.starting-fresh, 0
	gone := &p.drain[s%len(p.drain)]
	p.draining, *gone = p.draining-*gone, 0
	lost := &p.notice[s%len(p.notice)]
	p.noticed, p.lost, *lost = p.noticed-*lost, p.lost+*lost, 0
	no := &p.refuse[s%len(p.refuse)]
	p.asking, p.failed, *no = p.asking-*no, p.failed+*no, 0
	return fresh
}

// take lets the cloud have back what stock no longer covers: those that start first, at once; ready ones after a notice, or without.
func (w *rental) take(i, s int, judged bool) {
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
func (w *rental) launch(i, s int, judged bool) {
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
func (w *rental) pay(i, s int, judged bool) {
	p, pool := &w.pools[i], &w.market.Pools[i]
	n := p.ready + p.starting + p.noticed + p.draining
	if !judged {
		return
	}
	p.judged += int64(n)
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

// order takes the counts that are wanted in the pools from slot s on. More is asked for and answered in the next slot; of too many, those not yet answered
// go first, then those not ready, then ready ones drain.
func (w *rental) order(s int, targets []int) {
	w.have, w.want, w.drained = 0, 0, 0
	room := w.cfg.Max
	for i := range w.pools {
		p := &w.pools[i]
		target := min(max(targets[i], 0), room)
		room -= target
		held := p.ready + p.starting + p.asking
		w.have, w.want = w.have+held, w.want+target
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
			w.drained += cut
			if w.cfg.DrainSlots > 0 {
				p.draining += cut
				p.drain[(s+w.cfg.DrainSlots)%len(p.drain)] += cut
			}
		}
	}
}

func sum(values []int) int {
	n := 0
	for _, v := range values {
		n += v
	}
	return n
}
