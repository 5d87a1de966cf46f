package lab

import (
	"math"
	"slices"

	"plimsoll.dev/services/optimizer/procure"
)

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

// PoolConfig is how much is held for several services, and how it is spread over them.
type PoolConfig struct {
	Part float64 // of the sum of the services' own sizes
	All  float64 // of the highest rise of their summed demand within a start, held beyond the demand of now
	Each float64 // of a service's own highest rise, held with it so that it need not wait for a swap
}

// Pooling serves several services from one fleet. Each is sized by its own policy a cold start ahead; what one gives up is warm and serves the next that
// grows, without a start; and who has less than it needs now takes from who can spare it, so that each may be sized more tightly than if it were alone.
// What rose within a start once in the last eight days is expected to rise again at any time: as much is held ready.
type Pooling struct {
	cfg     PoolConfig
	procure *Procure
	each    []Policy
	recent  []window
	load    []arriving
	rise    []rising // of each service, and of all together
	need    []float64
	wish    []int
	given   []int
}

// NewPooling makes the policy from a demand policy for each service.
func NewPooling(cfg PoolConfig, buy procure.Config, each []Policy) *Pooling {
	b := &Pooling{cfg: cfg, procure: NewProcure(buy, nil), each: each, need: make([]float64, len(each)), load: make([]arriving, len(each))}
	for range each {
		b.recent = append(b.recent, newWindow(60/SlotSeconds))
		b.rise = append(b.rise, newRising())
	}
	b.rise = append(b.rise, newRising())
	return b
}

// Buy decides for one slot.
func (b *Pooling) Buy(v *PooledView, targets, assign []int) {
	sized, all := 0, 0.0
	for k := range b.each {
		o := &v.Services[k]
		want := max(1, b.each[k].Step(o))
		sized += want
		demand := b.load[k].step(o)
		all += demand
		b.rise[k].add(v.Slot, demand)
		b.need[k] = max(o.Demand, b.recent[k].add(o.Demand))
		assign[k] = max(want, int(math.Ceil(b.need[k])), int(math.Ceil(b.rise[k].level+b.cfg.Each*b.rise[k].most)))
	}
	sum := &b.rise[len(b.each)]
	sum.add(v.Slot, all)
	total := max(1, int(math.Round(float64(sized)*b.cfg.Part)))
	if b.cfg.All > 0 {
		total = max(total, int(math.Ceil(all+b.cfg.All*sum.most)))
	}
	b.procure.buy(&v.Market, total, targets)
	b.share(v, assign)
}

// rising is how far a demand has risen within a start.
type rising struct {
	low, high peakOf // in sixteenths of a replica
	level     float64
	most      float64         // over the last eight days
	hours     [8 * 24]float64 // the same by hour
	hour      int
}

const (
	risingSlots = 240 / SlotSeconds // a start and a minute
	levelSlots  = 300 / SlotSeconds // over which the level is the highest
	sixteenths  = 16
)

func newRising() rising { return rising{low: newPeakOf(risingSlots), high: newPeakOf(levelSlots)} }

func (r *rising) add(slot int, demand float64) {
	v := int(demand * sixteenths)
	low := -float64(r.low.add(slot, -v)) / sixteenths
	r.level = float64(r.high.add(slot, v)) / sixteenths
	if at := slot / SlotsPerHour % len(r.hours); at != r.hour {
		r.hour, r.hours[at] = at, 0
		r.most = slices.Max(r.hours[:])
	}
	r.hours[r.hour] = max(r.hours[r.hour], demand-low)
	r.most = max(r.most, demand-low)
}

// Moves between services cost a drain and a swap, so they are for need only: a service that has too few takes from one that can spare it.
const richSpare = 1.0 // what a giver has left beyond its need, in units of spread

// share turns wishes into what there is. What a service no longer wishes for becomes warm; warm replicas go to whoever has the least to spare; and only
// where somebody has less than it needs now and nothing is warm, others give.
func (b *Pooling) share(v *PooledView, assign []int) {
	b.wish = append(b.wish[:0], assign...)
	warm := v.Warm
	short := 0
	for k := range assign {
		assign[k] = min(b.wish[k], v.Services[k].Ready+v.Services[k].Starting)
	}
	for ; warm > 0; warm-- {
		at := b.poorest(assign)
		if at < 0 {
			break
		}
		assign[at]++
	}
	for k := range assign {
		short += max(0, int(math.Ceil(b.need[k]))-assign[k])
	}
	b.given = append(b.given[:0], assign...)
	for short -= v.Releasing + warm; short > 0; short-- {
		at := b.richest(assign)
		if at < 0 {
			break
		}
		assign[at]--
	}
	// What is not there yet is promised, so that a replica that has just started serves at once whoever wants it most.
	for k := range assign {
		if assign[k] == b.given[k] {
			assign[k] = max(assign[k], b.wish[k])
		}
	}
}

// poorest is the service that wishes for more and has the least to spare, or -1.
func (b *Pooling) poorest(assign []int) int {
	at, least := -1, math.Inf(1)
	for k := range assign {
		if spare := b.spare(k, assign[k]); assign[k] < b.wish[k] && spare < least {
			at, least = k, spare
		}
	}
	return at
}

// richest is the service with the most to spare after giving one, or -1.
func (b *Pooling) richest(assign []int) int {
	at, most := -1, richSpare
	for k := range assign {
		if spare := b.spare(k, assign[k]-1); assign[k] > 1 && spare > most {
			at, most = k, spare
		}
	}
	return at
}

// spare is what n replicas have beyond the need of a service, in units of how far its demand may move.
func (b *Pooling) spare(k, n int) float64 { return (float64(n) - b.need[k]) / spreadOf(b.need[k]) }

// spreadOf is the shape of the demand's spread around a level, replicas: the one that the quantile policy has.
func spreadOf(level float64) float64 { return math.Sqrt(0.05*level + 0.0225*level*level + 0.02) }
