package lab

import (
	"plimsoll.dev/services/fleet"
)

// FullPrice is the on-demand price of one replica for one slot. Prices of a market are whole parts of it, so that costs are exact sums.
const FullPrice = 1_000_000

// Pool is one place to buy replicas: a zone's Spot, on demand, or a reservation.
type Pool struct {
	Name     string         `json:"name"`
	Region   string         `json:"region"`
	Purchase fleet.Purchase `json:"purchase"`
	// Price and Stock per slot: what a replica costs for the slot, in millionths of the on-demand price, and how many may be held at most.
	// Where the stock of Spot falls below what is held, the cloud takes the rest back; on demand it only refuses new launches.
	Price []int32 `json:"-"`
	Stock []int32 `json:"-"`
}

// Market is everything that can be bought, slot by slot, over the length of a trace.
type Market struct {
	Name  string `json:"name"`
	Pools []Pool `json:"pools"`
	// Silent is the share of losses of a pool that come without a notice, drawn per pool and slot from Seed.
	Silent float64 `json:"silent_share"`
	Seed   uint64  `json:"seed"`
}

const (
	maxPools = 64
	maxPrice = 20 * FullPrice
)

// Check refuses a market that does not cover the slots or cannot be computed with.
func (m *Market) Check(slots int) error {
	if len(m.Pools) == 0 || len(m.Pools) > maxPools || !(m.Silent >= 0 && m.Silent <= 1) {
		return fleet.Errorf(fleet.CodeInvalid, "market %s: %d pools, a share of %v without notice; want 1 to %d pools and a share from 0 to 1", m.Name, len(m.Pools), m.Silent, maxPools)
	}
	for i := range m.Pools {
		p := &m.Pools[i]
		switch p.Purchase {
		case fleet.PurchaseSpot, fleet.PurchaseOnDemand, fleet.PurchaseReserved:
		default:
			return fleet.Errorf(fleet.CodeInvalid, "market %s, pool %s: purchase %q", m.Name, p.Name, p.Purchase)
		}
		if len(p.Price) < slots || len(p.Stock) < slots {
			return fleet.Errorf(fleet.CodeInvalid, "market %s, pool %s: %d prices and %d stocks for %d slots", m.Name, p.Name, len(p.Price), len(p.Stock), slots)
		}
		for s := range slots {
			if p.Price[s] < 0 || p.Price[s] > maxPrice || p.Stock[s] < 0 || p.Stock[s] > maxReplicas {
				return fleet.Errorf(fleet.CodeInvalid, "market %s, pool %s, slot %d: price %d, stock %d", m.Name, p.Name, s, p.Price[s], p.Stock[s])
			}
		}
	}
	return nil
}

// OnDemand is a pool that always has everything at the on-demand price.
func OnDemand(slots int) Pool {
	p := Pool{Name: "on-demand", Purchase: fleet.PurchaseOnDemand, Price: make([]int32, slots), Stock: make([]int32, slots)}
	for s := range slots {
		p.Price[s], p.Stock[s] = FullPrice, maxReplicas
	}
	return p
}

// Reservation is a pool of a fixed size that is paid for whether it is used or not.
func Reservation(slots, size int, price int32) Pool {
	p := Pool{Name: "reserved", Purchase: fleet.PurchaseReserved, Price: make([]int32, slots), Stock: make([]int32, slots)}
	for s := range slots {
		p.Price[s], p.Stock[s] = price, int32(min(max(size, 0), maxReplicas))
	}
	return p
}

// With returns the market with one more pool; the slots are shared.
func (m *Market) With(p Pool) *Market {
	c := *m
	c.Pools = append(append([]Pool(nil), m.Pools...), p)
	return &c
}

// MixConfig is how replicas live in a market.
type MixConfig struct {
	BootSlots   int // node: machine to kubelet
	PullSlots   int // image and weights
	WarmSlots   int // engine start and first requests
	DrainSlots  int // a replica that is let go finishes what it has; it is paid and takes nothing new
	NoticeSlots int // from the notice to the loss; it serves until then
	RefuseSlots int // until a launch is known to have failed for want of stock
	Max         int // replicas asked for in total
}

// DefaultMix is that of the scoreboard: 60 s boot, 90 s image and weights, 30 s warming (180 s together, as in the on-demand world), 30 s drain, 120 s
// notice, 30 s until a stock-out is known.
func DefaultMix(t *Trace) MixConfig {
	return MixConfig{BootSlots: 4, PullSlots: 6, WarmSlots: 2, DrainSlots: 2, NoticeSlots: 8, RefuseSlots: 2, Max: DefaultConfig(t).Max}
}

// ColdSlots is the whole start.
func (c *MixConfig) ColdSlots() int { return c.BootSlots + c.PullSlots + c.WarmSlots }

func (c *MixConfig) check() error {
	for _, n := range []int{c.BootSlots, c.PullSlots, c.WarmSlots, c.DrainSlots, c.NoticeSlots, c.RefuseSlots} {
		if n < 0 || n > SlotsPerHour {
			return fleet.Errorf(fleet.CodeInvalid, "a phase of %d slots; want 0 to %d", n, SlotsPerHour)
		}
	}
	if c.Max < 1 || c.Max > maxReplicas {
		return fleet.Errorf(fleet.CodeInvalid, "at most %d replicas; want 1 to %d", c.Max, maxReplicas)
	}
	return nil
}
