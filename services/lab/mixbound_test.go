package lab

import (
	"math"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

// cheapestPriced tries every schedule at the tariff of the bound.
func cheapestPriced(t *Trace, cfg MixConfig, m *Market, most int) int64 {
	best := int64(math.MaxInt64)
	units := func(s int) []int64 { // by hand: what somebody could be holding, cheapest first
		out := []int64{}
		for i := range m.Pools {
			n := most
			if m.Pools[i].Purchase == fleet.PurchaseSpot {
				n = 0
				for u := max(0, s-cfg.NoticeSlots); u <= s; u++ {
					n = max(n, int(m.Pools[i].Stock[u]))
				}
			}
			for range n {
				out = append(out, int64(m.Pools[i].Price[s]))
			}
		}
		sort.Slice(out, func(a, b int) bool { return out[a] < out[b] })
		return out
	}
	var try func(s, before int, backlog float64, paid int64)
	try = func(s, before int, backlog float64, paid int64) {
		if paid >= best {
			return
		}
		if s == t.To {
			best = paid
			return
		}
		for n := 1; n <= most; n++ {
			if backlog > float64(n)*LateSeconds+1e-9 {
				continue
			}
			end := max(0, backlog+(t.Rho[s]-float64(n))*SlotSeconds)
			if end > t.Rho[s]*LateSeconds+1e-9 {
				continue
			}
			cost := int64(0)
			for _, price := range units(s)[:n] {
				cost += price
			}
			if s > t.From && n > before {
				for u := max(t.From, s-cfg.ColdSlots()); u < s; u++ {
					cost += int64(n-before) * units(u)[0]
				}
			}
			try(s+1, n, end, paid+cost)
		}
	}
	try(t.From, 0, 0, 0)
	return best
}

func TestPricedBoundEqualsBruteForceOnItsOwnGrid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(r, "slots")
		rho := make([]float64, n)
		for i := range rho {
			rho[i] = float64(rapid.IntRange(1, 45).Draw(r, "fifteenths"))/15 + 1e-12
		}
		tr := flat("tiny", rho)
		m := drawnMarket(r, n)
		b, err := newPriced(tr, m, smallMix, 1.0/3)
		if err != nil {
			r.Fatal(err)
		}
		for s := range n {
			b.slot(s, nil)
		}
		// No schedule needs more than the peak: what comes later is no cheaper for having been started before.
		if got, want := b.least(), cheapestPriced(tr, smallMix, m, b.most); got != want {
			r.Fatalf("bound %d, cheapest of all schedules %d, demand %v", got, want, rho)
		}
	})
}

func TestNoBuyerServesEverybodyForLessThanThePricedBound(t *testing.T) {
	t.Parallel()
	for _, whole := range builtin(t) {
		tr := flat(whole.Name, whole.Rho[:SlotsPerDay])
		m, err := GeneratedMarket("m", tr.Slots(), 5)
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultMix(tr)
		bound, err := PricedBound(tr, m, cfg)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := Bound(tr, Config{ColdSlots: cfg.ColdSlots(), Min: 1, Max: cfg.Max})
		if err != nil {
			t.Fatal(err)
		}
		if unpriced := alone * SlotsPerHour * FullPrice; float64(bound) > unpriced+1 {
			t.Errorf("%s: the priced bound %d is above the on-demand bound %.0f", tr.Name, bound, unpriced)
		}
		only, err := PricedBound(tr, &Market{Name: "od", Pools: []Pool{OnDemand(tr.Slots())}}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(math.Round(alone * SlotsPerHour * FullPrice)); only > want || only < want-want/1000 {
			t.Errorf("%s: with on demand alone the priced bound is %d, the other %d", tr.Name, only, want)
		}
		for _, e := range Buyers() {
			if e.Reserve != nil {
				continue
			}
			s, err := RunMix(tr, m, cfg, e.New(tr, cfg, 0))
			if err != nil {
				t.Fatal(err)
			}
			if s.Late == 0 && s.Cost < bound {
				t.Errorf("%s, %s: everybody is on time for %d, less than the bound %d", tr.Name, e.Name, s.Cost, bound)
			}
		}
	}
}

// The schedule of the priced program, played without rounding at the same tariff, costs at most a tenth more.
func TestThePricedScheduleCostsTheBoundAndItsExecutionLittleMore(t *testing.T) {
	t.Parallel()
	for _, whole := range builtin(t) {
		tr := flat(whole.Name, whole.Rho[whole.From:whole.From+SlotsPerDay])
		m, err := GeneratedMarket("m", tr.Slots(), 5)
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultMix(tr)
		bound, err := PricedBound(tr, m, cfg)
		if err != nil {
			t.Fatal(err)
		}
		b, err := newPriced(tr, m, cfg, 0)
		if err != nil {
			t.Fatal(err)
		}
		plan := b.schedule()
		_, played := Executed(tr, Config{ColdSlots: cfg.ColdSlots(), Min: 1, Max: cfg.Max}, plan)
		cost := func(counts []int) int64 {
			sum := int64(0)
			list := newPriceList(m, cfg, b.most+8, tr)
			for i, n := range counts {
				pay, start := list.slot(i)
				sum += pay[n]
				if i > 0 && n > counts[i-1] {
					sum += int64(n-counts[i-1]) * start
				}
			}
			return sum
		}
		if got := cost(plan); got != bound {
			t.Errorf("%s: the schedule costs %d, the bound is %d", tr.Name, got, bound)
		}
		if got := float64(cost(played)) / float64(bound); got < 1 || got > 1.10 {
			t.Errorf("%s: executing the schedule costs %.4f of the bound; want 1 to 1.10", tr.Name, got)
		}
	}
}
