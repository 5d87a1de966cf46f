package lab

import (
	"sort"

	"plimsoll.dev/services/fleet"
)

// PricedBound is the least that serving everybody on time can cost in a market over the judged span, in millionths of an on-demand
// replica-slot. It is Bound with another tariff: in every slot the k-th replica is charged the k-th cheapest unit that anybody could be
// holding, and a replica that starts is charged the cheapest unit of each slot of its start. Both only help: whoever runs n replicas and starts m
// pays for n+m different units, of which the n cheapest and m times the cheapest are a lower bound. What a real buyer pays beyond that, and the
// bound does not, are moves: losing a machine, starting it again elsewhere, holding one in a dearer zone because it was there. Reservations have
// no part in it.
func PricedBound(t *Trace, m *Market, cfg MixConfig) (int64, error) {
	b, err := newPriced(t, m, cfg, 0)
	if err != nil {
		return 0, err
	}
	for s := t.From; s < t.To; s++ {
		b.slot(s, nil)
	}
	return b.least(), nil
}

func newPriced(t *Trace, m *Market, cfg MixConfig, step float64) (*bounding, error) {
	if err := m.Check(t.Slots()); err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	b, err := newBounding(t, Config{ColdSlots: cfg.ColdSlots(), Min: 1, Max: cfg.Max}, step)
	if err != nil {
		return nil, err
	}
	b.rate = newPriceList(m, cfg, b.most, t)
	return b, nil
}

// priceList is the tariff of a market.
type priceList struct {
	market *Market
	most   int
	linger int      // slots that a unit may still run after its stock is gone
	since  []peakOf // per pool: highest stock of those slots, as the slots come
	fed    int
	least  []int64 // least[s] is the sum of the cheapest unit's price over the slots before s
	cold   int
	from   int // first judged slot: what was paid before it is nobody's cost
	pay    []int64
	order  []int
	units  []int
}

func newPriceList(m *Market, cfg MixConfig, most int, t *Trace) *priceList {
	slots := t.Slots()
	p := &priceList{market: m, most: most, from: t.From, linger: cfg.NoticeSlots, cold: cfg.ColdSlots(), pay: make([]int64, most+1), least: make([]int64, slots+1), units: make([]int, len(m.Pools))}
	for i := range m.Pools {
		if m.Pools[i].Purchase != fleet.PurchaseReserved {
			p.order = append(p.order, i)
		}
		p.since = append(p.since, newPeakOf(cfg.NoticeSlots+1))
	}
	for s := range slots {
		p.feed(s)
		least := int64(maxPrice)
		for _, i := range p.order {
			if p.units[i] > 0 {
				least = min(least, int64(m.Pools[i].Price[s]))
			}
		}
		p.least[s+1] = p.least[s] + least
	}
	p.reset()
	return p
}

func (p *priceList) reset() {
	p.fed = 0
	for i := range p.since {
		p.since[i] = newPeakOf(p.linger + 1)
	}
}

// feed brings the units that could be held up to slot s.
func (p *priceList) feed(s int) {
	if s < p.fed-1 {
		p.reset()
	}
	for p.fed = max(p.fed, s-p.linger); p.fed <= s; p.fed++ {
		for i := range p.since {
			p.units[i] = p.since[i].add(p.fed, int(p.market.Pools[i].Stock[p.fed]))
			if p.market.Pools[i].Purchase == fleet.PurchaseOnDemand {
				p.units[i] = maxReplicas // what is held is kept, whatever the stock
			}
		}
	}
}

func (p *priceList) slot(s int) (pay []int64, start int64) {
	p.feed(s)
	sort.SliceStable(p.order, func(a, b int) bool {
		return p.market.Pools[p.order[a]].Price[s] < p.market.Pools[p.order[b]].Price[s]
	})
	n := 0
	for _, i := range p.order {
		for k := 0; k < p.units[i] && n < p.most; k++ {
			p.pay[n+1] = p.pay[n] + int64(p.market.Pools[i].Price[s])
			n++
		}
	}
	return p.pay, p.least[s] - p.least[max(s-p.cold, p.from)]
}

// PooledBound is the priced bound of several services that may share replicas: the bound of their summed demand. Whatever schedule serves each of
// them on time, the sums of its replicas and of its backlogs serve the sum on time: backlogs are not negative, none is more than what came
// to its service in the last LateSeconds, and the work done is at most the sum of the capacities. So the schedule is among those that the
// program for the sum chooses from, and is no cheaper than the best of them. Swapping replicas between services is free in it.
func PooledBound(services []*Trace, m *Market, cfg MixConfig) (int64, error) {
	all, err := Summed("sum", services)
	if err != nil {
		return 0, err
	}
	return PricedBound(all, m, cfg)
}

// Summed adds up the demand of services of the same length and judged span.
func Summed(name string, services []*Trace) (*Trace, error) {
	if len(services) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "no services to add up")
	}
	first := services[0]
	out := &Trace{Name: name, Rho: make([]float64, first.Slots()), Requests: make([]float64, first.Slots()), From: first.From, To: first.To}
	held, requests := 0.0, 0.0
	for _, t := range services {
		if t.Slots() != first.Slots() || t.From != first.From || t.To != first.To {
			return nil, fleet.Errorf(fleet.CodeInvalid, "services %s and %s differ in length or judged span", first.Name, t.Name)
		}
		for s := range out.Rho {
			out.Rho[s] += t.Rho[s]
			out.Requests[s] += t.Requests[s]
			held += t.Rho[s]
			requests += t.Rho[s] / t.Share
		}
	}
	out.Share = part(held, requests)
	if held == 0 { // nobody asks for anything
		out.Share = first.Share
	}
	return out, out.Check()
}
