package lab

import (
	"fmt"
	"math"
	"math/rand/v2"

	"plimsoll.dev/services/fleet"
)

// GeneratedMarket is a market that a seed invents: three regions of two zones. Zones come and go with heavy-tailed spans, now and then a whole
// region goes; what a zone has while it is there changes; prices wander slowly around a level of the region. On demand is out of stock
// for some minutes once in two days. It needs no data, and stands for the shapes of the recorded one, not for its figures.
func GeneratedMarket(name string, slots int, seed uint64) (*Market, error) {
	if slots < 1 || slots > maxSlots {
		return nil, fleet.Errorf(fleet.CodeInvalid, "market %s: %d slots; want 1 to %d", name, slots, maxSlots)
	}
	m := &Market{Name: name, Pools: []Pool{OnDemand(slots)}, Silent: 0.2, Seed: seed}
	r := rand.New(rand.NewPCG(seed, 0x6d61726b6574))
	dry(&m.Pools[0], r, slots)
	for g := range 3 {
		region := fmt.Sprintf("region-%d", g+1)
		level := 0.30 + 0.06*float64(g)
		down := spans(r, slots, 40*SlotsPerHour, SlotsPerHour/2) // the whole region
		for z := range 2 {
			p := Pool{Name: fmt.Sprintf("%s%c", region, 'a'+z), Region: region, Purchase: fleet.PurchaseSpot, Price: make([]int32, slots), Stock: make([]int32, slots)}
			zone := spans(r, slots, float64(4+3*z)*SlotsPerHour, SlotsPerHour)
			price, depth := level*(1+0.05*r.NormFloat64()), 16
			for s := range slots {
				if s%SlotsPerHour == 0 {
					price += 0.05*(level-price) + 0.004*r.NormFloat64()
					price = math.Min(math.Max(price, 0.15), 0.95)
				}
				if s%(2*SlotsPerHour) == 0 {
					depth = 6 + r.IntN(14)
				}
				p.Price[s] = int32(math.Round(price * FullPrice))
				if !zone[s] && !down[s] {
					p.Stock[s] = int32(depth)
				}
			}
			m.Pools = append(m.Pools, p)
		}
	}
	return m, m.Check(slots)
}

// dry empties a pool now and then for ten minutes: nothing new is to be had, what is held is kept.
func dry(p *Pool, r *rand.Rand, slots int) {
	for s := 0; s < slots; {
		s += 1 + int(r.ExpFloat64()*2*SlotsPerDay)
		for i := range min(40, max(0, slots-s)) {
			p.Stock[s+i] = 0
		}
		s += 40
	}
}

// spans marks the slots of heavy-tailed spans of being away, up and down by turns with these means.
func spans(r *rand.Rand, slots int, up, down float64) []bool {
	out := make([]bool, slots)
	for s, away := 0, false; s < slots; away = !away {
		mean := up
		if away {
			mean = down
		}
		n := 1 + int(mean*math.Exp(1.2*r.NormFloat64()-0.72))
		for i := s; i < min(s+n, slots); i++ {
			out[i] = away
		}
		s += n
	}
	return out
}
