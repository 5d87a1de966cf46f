package lab

import (
	"plimsoll.dev/services/fleet"
)

// runChaosMarket plays the price spike: three zones of Spot at a third of the on-demand price, which for an hour cost three times as much as on
// demand. The policy decides how many replicas, the lab's own buyer decides where; all policies but the lab's go through their production code.
func runChaosMarket(s Scenario, p ChaosPolicy) (ChaosResult, error) {
	spike := func(slot int) bool { return within(slot, chaosFault, SlotsPerHour) }
	t := chaosTrace(&fault{})
	m := spikeMarket(spike)
	cfg := DefaultMix(t)
	demand, planner, err := p.demand(Config{ColdSlots: cfg.ColdSlots(), Min: 1, Max: cfg.Max})
	if err != nil {
		return ChaosResult{}, err
	}
	w := &watchedBuyer{inner: NewProcure(DefaultProcure(), NewSurge(NewHedged(DefaultHedge(), cfg.ColdSlots(), demand))), spike: spike}
	score, err := RunMix(t, m, cfg, w)
	if err != nil {
		return ChaosResult{}, err
	}
	demand, _, err = p.demand(Config{ColdSlots: cfg.ColdSlots(), Min: 1, Max: cfg.Max})
	if err != nil {
		return ChaosResult{}, err
	}
	plain, err := RunMix(t, m, cfg, &onDemandOnly{demand: demand})
	if err != nil {
		return ChaosResult{}, err
	}
	out := ChaosResult{Scenario: s.Name, Policy: p.Name, Pass: true, Checks: []ChaosCheck{}, Late: score.LateRatio(), Most: score.Most, Paid: score.CostHours}
	check := func(name string, v, most float64) {
		c := ChaosCheck{Name: name, Value: v, Bound: most, Pass: v <= most}
		out.Checks, out.Pass = append(out.Checks, c), out.Pass && c.Pass
	}
	check("cost over that of on demand alone, three hours before to five after", part(score.CostHours, plain.CostHours), 1.05)
	check("seconds until no Spot is held while it is dearer than on demand", float64(w.heldFor*SlotSeconds), 900)
	check("late, share", score.LateRatio(), 0.05)
	if planner != nil {
		unsound := 0.0
		if planner.Err() != nil {
			unsound = 1
		}
		check("decisions that break their check", unsound, 0)
	}
	return out, nil
}

// demand is the policy as a sizer of replicas.
func (p *ChaosPolicy) demand(cfg Config) (Policy, *Planner, error) {
	if p.document == nil {
		return p.lab(cfg), nil, nil
	}
	doc := *p.document
	doc.Max = cfg.Max
	d, err := NewPlanner(doc, "")
	return d, d, err
}

func spikeMarket(spike func(int) bool) *Market {
	m := &Market{Name: "price spike", Pools: []Pool{OnDemand(chaosSlots)}}
	for _, zone := range []string{"a", "b", "c"} {
		p := Pool{Name: "spot-" + zone, Region: "one", Purchase: fleet.PurchaseSpot, Price: make([]int32, chaosSlots), Stock: make([]int32, chaosSlots)}
		for s := range chaosSlots {
			p.Price[s], p.Stock[s] = FullPrice/3, 40
			if spike(s) {
				p.Price[s] = 3 * FullPrice
			}
		}
		m.Pools = append(m.Pools, p)
	}
	return m
}

// watchedBuyer counts for how long Spot is held while it is dearer than on demand.
type watchedBuyer struct {
	inner   Buyer
	spike   func(int) bool
	heldFor int
}

// Buy passes on what the buyer wants.
func (w *watchedBuyer) Buy(v *MarketView, targets []int) {
	w.inner.Buy(v, targets)
	if !w.spike(v.Slot) {
		return
	}
	for i := range v.Pools {
		if v.Pools[i].Purchase == fleet.PurchaseSpot && v.Pools[i].Held() > 0 {
			w.heldFor++
			return
		}
	}
}
