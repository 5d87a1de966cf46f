package lab

import (
	"math"
	"slices"

	"plimsoll.dev/services/optimizer/procure"
)

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
	cfg    PoolConfig
	buyer  Buyer // of the total that it is told
	total  told
	whole  Policy // sizes the sum of the demands; nil: the sum of what each wants is the size
	each   []Policy
	recent []window
	load   []arriving
	rise   []rising // of each service, and of all together
	need   []float64
	wish   []int
	given  []int
}

// told is a demand that somebody else has worked out.
type told struct{ n int }

// Step says what was told.
func (d *told) Step(*Observation) int { return d.n }

// NewPooling makes the policy from a demand policy for each service.
func NewPooling(cfg PoolConfig, buy procure.Config, each []Policy) *Pooling {
	return poolOf(cfg, each, func(d Policy) Buyer { return NewProcure(buy, d) })
}

// poolOf makes the policy with another way to buy.
func poolOf(cfg PoolConfig, each []Policy, buyer func(d Policy) Buyer) *Pooling {
	b := &Pooling{cfg: cfg, each: each, need: make([]float64, len(each)), load: make([]arriving, len(each))}
	b.buyer = buyer(&b.total)
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
	if b.whole != nil {
		sized = b.whole.Step(&v.Market.Observation)
	}
	b.total.n = max(1, int(math.Round(float64(sized)*b.cfg.Part)))
	if b.cfg.All > 0 {
		b.total.n = max(b.total.n, int(math.Ceil(all+b.cfg.All*sum.most)))
	}
	b.buyer.Buy(&v.Market, targets)
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
