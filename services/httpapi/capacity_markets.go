package httpapi

import (
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// PlannedMarket is how machines for some pods are bought: which Spot pools hold how many, and how many stand on demand.
type PlannedMarket struct {
	Pods    []string     `json:"pods" doc:"an example: those of the first machine; at most 50"`
	Want    int          `json:"want" doc:"machines in all"`
	StandIn int          `json:"stand_in" doc:"machines on demand that stand in for Spot"`
	Pools   []MarketPool `json:"pools" doc:"those with machines first; the last one on demand"`
}

// MarketPool is a place to buy: a machine type in a zone.
type MarketPool struct {
	Offering     PlannedOffering `json:"offering"`
	Price        Money           `json:"price" doc:"per machine-hour"`
	Score        *float64        `json:"score" doc:"price with hazard, share and doubt, in units of the on-demand price: the least is asked first; null: on demand"`
	Hazard       *float64        `json:"hazard" doc:"learned from refused launches and losses, halved in six hours; null: on demand"`
	Held         int             `json:"held" doc:"machines that run, start or are planned"`
	Target       int             `json:"target"`
	Most         *int            `json:"most" doc:"it may be asked to hold so many now; null: no limit"`
	BackoffUntil *time.Time      `json:"backoff_until" doc:"left alone until then after a refusal or a loss; null: not"`
}

func marketViews(list []capacity.Market, currency string) []PlannedMarket {
	out := []PlannedMarket{}
	for _, m := range list {
		v := PlannedMarket{Pods: m.Pods[:min(len(m.Pods), maxNamedPods)], Want: m.Want, StandIn: m.Standby, Pools: []MarketPool{}}
		for _, p := range m.Pools {
			x := MarketPool{Offering: offeringView(p.Offering), Price: money(p.Price, currency), Held: p.Held, Target: p.Target, Most: p.Asked}
			if p.Offering.Purchase == fleet.PurchaseSpot {
				score, hazard := float64(p.ScoreMilli)/1000, float64(p.HazardMilli)/1000
				x.Score, x.Hazard = &score, &hazard
			}
			if !p.BackoffUntil.IsZero() {
				at := p.BackoffUntil.UTC()
				x.BackoffUntil = &at
			}
			v.Pools = append(v.Pools, x)
		}
		out = append(out, v)
	}
	return out
}
