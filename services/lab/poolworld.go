package lab

// PooledView is what a buyer of several services sees at the end of a slot: each service alone, all together, and the pools.
type PooledView struct {
	Slot      int
	Services  []Observation // Ready and Starting are those that serve the service, and those swapping in
	Warm      int           // ready for any service within the swap time
	Releasing int           // given back, not warm yet
	Market    MarketView    // of all together
}

// PooledBuyer decides how many replicas to hold in each pool, and how many of them each service gets. Both are absolute counts.
type PooledBuyer interface {
	Buy(v *PooledView, targets, assign []int)
}

// PooledWorld is several services of one replica type that share what is bought: a replica that no service has is warm (booted, image and weights of
// all of them on its disk), and serves one after the swap time. What a service gives back finishes its requests first.
type PooledWorld struct {
	*rental
	queues   []*World
	with     []int   // per service: replicas that serve it
	swap     [][]int // per service, ring: replicas that begin to serve at slot s stand at s mod len
	release  []int   // ring: replicas that are warm again at slot s
	warm     int
	released int
	target   []int // per pool
	assign   []int // per service
	view     PooledView
}

// PoolSwapSlots is the swap time: 30 s to load weights from the local disk and to answer the first request.
const PoolSwapSlots = 2

// NewPooledWorld starts with what each service needs first, on demand.
func NewPooledWorld(services []*Trace, m *Market, cfg MixConfig) (*PooledWorld, error) {
	all, err := Summed("sum", services)
	if err != nil {
		return nil, err
	}
	w := &PooledWorld{target: make([]int, len(m.Pools)), assign: make([]int, len(services)), with: make([]int, len(services)),
		release: make([]int, cfg.DrainSlots+1), view: PooledView{Services: make([]Observation, len(services))}}
	for k, t := range services {
		if err := t.Check(); err != nil {
			return nil, err
		}
		w.with[k] = firstNeed(t, cfg.ColdSlots())
		w.swap = append(w.swap, make([]int, PoolSwapSlots+1))
		w.queues = append(w.queues, NewWorld(t, Config{ColdSlots: cfg.ColdSlots(), Max: cfg.Max}, w.with[k]))
	}
	w.rental, err = newRental(all, m, cfg, sum(w.with))
	return w, err
}

// RunPooled plays a buyer over the whole traces; it returns the scorecard of all together, and the queues' of each service.
func RunPooled(services []*Trace, m *Market, cfg MixConfig, b PooledBuyer) (MixScore, []Score, error) {
	w, err := NewPooledWorld(services, m, cfg)
	if err != nil {
		return MixScore{}, nil, err
	}
	for !w.Over() {
		v := w.Advance()
		clear(w.target)
		clear(w.assign)
		b.Buy(v, w.target, w.assign)
		w.Order(w.target, w.assign)
	}
	total, each := w.Score()
	return total, each, nil
}

// Over says that the traces have ended.
func (w *PooledWorld) Over() bool { return w.queues[0].Over() }

// Advance plays one slot: the market, then who serves whom, then the queues. The view is valid until the next call.
func (w *PooledWorld) Advance() *PooledView {
	s := w.queues[0].slot
	first := w.queues[0].trace
	w.advance(s, s >= first.From && s < first.To)
	back := &w.release[s%len(w.release)]
	w.warm, w.released, *back = w.warm+*back, w.released-*back, 0
	for k := range w.with {
		in := &w.swap[k][s%len(w.swap[k])]
		w.with[k], *in = w.with[k]+*in, 0
	}
	w.warm += w.fresh
	w.lose(w.warm + w.released + sum(w.with) + w.swapping() - w.serving)
	w.enlist()
	v := &w.view
	v.Slot, v.Warm, v.Releasing = s, w.warm, w.released
	all := Observation{Slot: s, Ready: w.serving, Starting: w.starting}
	for k, q := range w.queues {
		q.ready, q.pending = w.with[k], 0
		o := q.Advance()
		o.Starting = sum(w.swap[k])
		v.Services[k] = o
		all.Rate += o.Rate
		all.Running += o.Running
		all.Queue += o.Queue
		all.Busy += o.Busy
		all.Demand += o.Demand
	}
	v.Market = MarketView{Observation: all, Pools: w.views}
	return v
}

func (w *PooledWorld) swapping() int {
	n := 0
	for k := range w.swap {
		n += sum(w.swap[k])
	}
	return n
}

// lose takes n replicas that the market no longer has out of the services: each time from where most are, as the cloud does not ask who
// uses a machine.
func (w *PooledWorld) lose(n int) {
	for ; n > 0; n-- {
		most, at := w.warm, -1
		for k := range w.with {
			if w.with[k] > most {
				most, at = w.with[k], k
			}
		}
		switch {
		case at >= 0:
			w.with[at]--
		case w.warm > 0:
			w.warm--
		case w.drop(w.release):
			w.released--
		default:
			for k := range w.swap {
				if w.drop(w.swap[k]) {
					break
				}
			}
		}
	}
}

func (w *PooledWorld) drop(ring []int) bool {
	for i := range ring {
		if ring[i] > 0 {
			ring[i]--
			return true
		}
	}
	return false
}

// enlist lets replicas that have just started serve whoever was promised more than it has: they load its weights anyway.
func (w *PooledWorld) enlist() {
	for n := min(w.fresh, w.warm); n > 0; n-- {
		at, most := -1, 0
		for k := range w.with {
			if short := w.assign[k] - w.with[k] - sum(w.swap[k]); short > most {
				at, most = k, short
			}
		}
		if at < 0 {
			return
		}
		w.with[at]++
		w.warm--
	}
}

// Order takes the counts that are wanted in the pools, and per service. Services give back before others get; a pool that shrinks gives up
// warm replicas: a buyer that lets go more than are warm lets go of replicas in use, as with lose.
func (w *PooledWorld) Order(targets, assign []int) {
	s := w.queues[0].slot
	copy(w.assign, assign)
	w.order(s, targets)
	gone := min(w.drained, w.warm)
	w.warm -= gone
	w.lose(w.drained - gone)
	for k := range w.with {
		if cut := min(w.with[k]+sum(w.swap[k])-assign[k], w.with[k]); cut > 0 {
			w.with[k] -= cut
			if w.cfg.DrainSlots == 0 {
				w.warm += cut
				continue
			}
			w.released += cut
			w.release[(s+w.cfg.DrainSlots)%len(w.release)] += cut
		}
	}
	for {
		at, most := -1, 0
		for k := range w.with {
			if short := assign[k] - w.with[k] - sum(w.swap[k]); short > most {
				at, most = k, short
			}
		}
		if at < 0 || w.warm == 0 {
			break
		}
		w.warm--
		w.swap[at][(s+PoolSwapSlots)%len(w.swap[at])]++
	}
	first := w.queues[0]
	first.score.ordered(w.have, w.want, s > first.trace.From && s <= first.trace.To)
}

// Score is the scorecard of all together so far, and of each service's queue.
func (w *PooledWorld) Score() (MixScore, []Score) {
	all := Score{}
	each := make([]Score, 0, len(w.queues))
	for k, q := range w.queues {
		s := q.Score()
		each = append(each, s)
		if k == 0 {
			all = s
			continue
		}
		all.Demand += s.Demand
		all.Requests += s.Requests
		all.Late += s.Late
		all.TimedOut += s.TimedOut
	}
	out := w.finished(all)
	out.Paid = 0
	for i := range w.pools {
		out.Paid += float64(w.pools[i].judged) / SlotsPerHour
	}
	return out, each
}
