package lab

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

// spotPool has a stock per slot at one price.
func spotPool(name string, price int32, stock ...int32) Pool {
	p := Pool{Name: name, Region: "r", Purchase: fleet.PurchaseSpot, Stock: stock, Price: make([]int32, len(stock))}
	for s := range p.Price {
		p.Price[s] = price
	}
	return p
}

// smallMix is a start of three slots, a notice of two, a drain and a refusal of one.
var smallMix = MixConfig{BootSlots: 1, PullSlots: 1, WarmSlots: 1, DrainSlots: 1, NoticeSlots: 2, RefuseSlots: 1, Max: 50}

type mixLine struct{ ready, starting, noticed, draining, failed, lost int }

func TestSpotReplicasBootAreNoticedAndLost(t *testing.T) {
	t.Parallel()
	tr := flat("mix", make([]float64, 12))
	m := &Market{Name: "m", Pools: []Pool{OnDemand(12), spotPool("z", 300_000, 4, 4, 4, 4, 4, 4, 1, 1, 1, 0, 0, 0)}}
	w, err := NewMixWorld(tr, m, smallMix, 1)
	if err != nil {
		t.Fatal(err)
	}
	// Four are asked for at the end of slot 0, a fifth in slot 4 is refused; in slot 6 the zone keeps one, in slot 9 none.
	asked := []int{4, 4, 4, 4, 5, 4, 4, 4, 4, 4, 0, 0}
	want := []mixLine{
		0: {}, 1: {starting: 4}, 2: {starting: 4}, 3: {starting: 4}, 4: {ready: 4},
		5: {ready: 4},                                    // the fifth is asked for and will be refused
		6: {ready: 1, noticed: 3, failed: 1},             // the notice
		7: {ready: 1, noticed: 3},                        // three more are refused on the way
		8: {ready: 1, lost: 3, failed: 3},                // the loss
		9: {noticed: 1}, 10: {noticed: 1}, 11: {lost: 1}, // and so on
	}
	for s := range want {
		v := w.Advance()
		p := v.Pools[1]
		got := mixLine{p.Ready, p.Starting, p.Noticed, p.Draining, 0, p.Lost}
		if s <= 8 { // later refusals are not the point
			got.failed = p.Failed
		}
		if got != want[s] {
			t.Fatalf("slot %d: %+v, want %+v", s, got, want[s])
		}
		if v.Ready != 1+p.Ready+p.Noticed {
			t.Fatalf("slot %d: %d serve", s, v.Ready)
		}
		w.Order([]int{1, asked[s]})
	}
	s := w.Score()
	if s.Interrupted != 4 || s.Unannounced != 0 {
		t.Errorf("%d interrupted, %d without notice; want 4 and 0", s.Interrupted, s.Unannounced)
	}
}

func TestOnDemandThatIsOutOfStockKeepsWhatIsHeld(t *testing.T) {
	t.Parallel()
	tr := flat("dry", make([]float64, 8))
	m := &Market{Name: "m", Pools: []Pool{OnDemand(8)}}
	for s := range 8 {
		m.Pools[0].Stock[s] = 0
	}
	w, err := NewMixWorld(tr, m, smallMix, 3)
	if err != nil {
		t.Fatal(err)
	}
	for !w.Over() {
		if v := w.Advance(); v.Ready != 3 {
			t.Fatalf("slot %d: %d serve; want the three that were there", v.Slot, v.Ready)
		}
		w.Order([]int{5})
	}
	if s := w.Score(); s.Failed == 0 || s.Cost != 8*3*FullPrice {
		t.Errorf("%d failed launches, cost %d", s.Failed, s.Cost)
	}
}

// wild buys at random.
type wild struct{ r *rapid.T }

func (b *wild) Buy(v *MarketView, targets []int) {
	for i := range v.Pools {
		targets[i] = rapid.IntRange(0, 6).Draw(b.r, "target")
	}
}

func drawnMarket(r *rapid.T, slots int) *Market {
	m := &Market{Name: "drawn", Pools: []Pool{OnDemand(slots)}, Silent: rapid.Float64Range(0, 1).Draw(r, "silent"), Seed: 7}
	for range rapid.IntRange(1, 3).Draw(r, "zones") {
		p := Pool{Name: "z", Purchase: fleet.PurchaseSpot, Price: make([]int32, slots), Stock: make([]int32, slots)}
		for s := range slots {
			p.Price[s] = int32(rapid.IntRange(1, FullPrice).Draw(r, "price"))
			p.Stock[s] = int32(rapid.IntRange(0, 5).Draw(r, "stock"))
		}
		m.Pools = append(m.Pools, p)
	}
	return m
}

// What is paid is what is held: every replica-slot between its launch and its end, as counted from the views alone; and the cost is those slots
// at the pools' prices.
func TestPaidReplicaSlotsAreHeldReplicaSlots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(r, "slots")
		tr := flat("any", make([]float64, n))
		m := drawnMarket(r, n)
		cfg := smallMix
		cfg.NoticeSlots = rapid.IntRange(0, 3).Draw(r, "notice")
		cfg.DrainSlots = rapid.IntRange(0, 3).Draw(r, "drain")
		cfg.RefuseSlots = rapid.IntRange(0, 3).Draw(r, "refuse")
		w, err := NewMixWorld(tr, m, cfg, 2)
		if err != nil {
			r.Fatal(err)
		}
		b := &wild{r}
		alive := make([]int, len(m.Pools)) // by events: got, lost, let go
		alive[0] = 2
		paid, cost := int64(0), int64(0)
		ends := map[int][]int{} // slot -> per pool, drains that end
		targets := make([]int, len(m.Pools))
		for !w.Over() {
			v := w.Advance()
			for i := range v.Pools {
				p := &v.Pools[i]
				if gone := ends[v.Slot]; gone != nil {
					alive[i] -= gone[i]
				}
				alive[i] += p.Got - p.Lost
				if p.Got < 0 || p.Lost < 0 || p.Failed < 0 || p.Asking < 0 {
					r.Fatalf("slot %d: %+v", v.Slot, *p)
				}
				held := p.Ready + p.Starting + p.Noticed + p.Draining
				if held != alive[i] {
					r.Fatalf("slot %d, pool %d: %d held, %d by launches and ends", v.Slot, i, held, alive[i])
				}
				if p.Purchase == fleet.PurchaseSpot && p.Ready+p.Starting > int(m.Pools[i].Stock[v.Slot]) {
					r.Fatalf("slot %d, pool %d: more than there is", v.Slot, i)
				}
				paid += int64(held)
				cost += int64(held) * int64(m.Pools[i].Price[v.Slot])
			}
			b.Buy(v, targets)
			before := make([][2]int, len(m.Pools))
			for i := range w.pools {
				before[i] = [2]int{w.pools[i].ready, w.pools[i].starting}
			}
			w.Order(targets)
			for i := range w.pools {
				alive[i] -= before[i][1] - w.pools[i].starting // ends at once
				drained := before[i][0] - w.pools[i].ready
				if cfg.DrainSlots == 0 {
					alive[i] -= drained
					continue
				}
				at := v.Slot + 1 + cfg.DrainSlots
				if ends[at] == nil {
					ends[at] = make([]int, len(m.Pools))
				}
				ends[at][i] += drained
			}
		}
		s := w.Score()
		if s.Cost != cost || math.Abs(s.Paid*SlotsPerHour-float64(paid)) > 1e-6 {
			r.Fatalf("cost %d, paid %v; by hand %d, %d", s.Cost, s.Paid*SlotsPerHour, cost, paid)
		}
	})
}

func TestAReservationIsPaidWhetherUsedOrNot(t *testing.T) {
	t.Parallel()
	tr := flat("idle", make([]float64, 10))
	m := (&Market{Name: "m", Pools: []Pool{OnDemand(10)}}).With(Reservation(10, 3, ReservedPrice))
	s, err := RunMix(tr, m, smallMix, &reservedFirst{demand: fixed(2), size: 3})
	if err != nil {
		t.Fatal(err)
	}
	// One on demand for the first slot and its drain, while the reservation is asked for and starts.
	if got := s.Cost - 10*3*ReservedPrice; got != 2*FullPrice {
		t.Errorf("beside the reservation %d is paid; want two slots on demand", got)
	}
}
