package lab

import (
	"fmt"
	"io"
	"sort"
	"text/tabwriter"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// MixEntry is a buyer of the board, for one service.
type MixEntry struct {
	Name string
	// Reserve is the size of the reservation it has, from what is known beforehand; nil: none.
	Reserve func(t *Trace) int
	New     func(t *Trace, cfg MixConfig, reserved int) Buyer
}

// ReservedPrice is what a reservation costs, in millionths of the on-demand price: the discount of one year on the cards of docs/replay.md.
const ReservedPrice = 630_000

// demandOf is the quantile policy as it is by default.
func demandOf(cfg MixConfig) Policy {
	return NewCQ(quantile.Params{}, cfg.ColdSlots())
}

// spotCycle is what an up-down-up is worth avoiding where replicas are bought in a market, in replica-slots: little more than its start of twelve
// slots. On demand it is 300, for the sake of calm; a market moves replicas about in any case.
const spotCycle = 20

// spotLate is what the demand policy aims at there: its default of 0.9 % less what the market takes.
const spotLate = 0.0083

// ownDemand is the quantile policy as our own buyer has it.
func ownDemand(cfg MixConfig) Policy {
	return NewCQ(quantile.Params{Cycle: spotCycle, Late: spotLate}, cfg.ColdSlots())
}

// Buyers of the board, in its order. All but two follow the same demand policy, so that what differs is how they buy.
func Buyers() []MixEntry {
	hedge := func(extra int) MixEntry {
		return MixEntry{Name: fmt.Sprintf("spothedge+%d", extra), New: func(_ *Trace, cfg MixConfig, _ int) Buyer {
			return &spotHedge{demand: demandOf(cfg), extra: extra}
		}}
	}
	return []MixEntry{
		{Name: "on-demand hpa-70", New: func(*Trace, MixConfig, int) Buyer { return &onDemandOnly{demand: newHPA(0.7, 0)} }},
		{Name: "on-demand", New: func(_ *Trace, cfg MixConfig, _ int) Buyer { return &onDemandOnly{demand: demandOf(cfg)} }},
		{Name: "reserved-first", Reserve: worthReserving, New: func(_ *Trace, cfg MixConfig, reserved int) Buyer {
			return &reservedFirst{demand: demandOf(cfg), size: reserved}
		}},
		{Name: "half-and-half", New: func(_ *Trace, cfg MixConfig, _ int) Buyer { return &spotFallback{demand: demandOf(cfg), share: 0.5} }},
		{Name: "spot-fallback", New: func(_ *Trace, cfg MixConfig, _ int) Buyer { return &spotFallback{demand: demandOf(cfg), share: 1} }},
		{Name: "skyserve+2", New: func(t *Trace, _ MixConfig, _ int) Buyer { return &spotHedge{demand: newSkyServe(0.7, t), extra: 2} }},
		hedge(0), hedge(1), hedge(2), hedge(3),
		{Name: PlimsollMix, New: func(_ *Trace, cfg MixConfig, _ int) Buyer {
			return ownBuyer(cfg)
		}},
	}
}

// ownBuyer is our own: demand quantiles with margins that the market's own losses choose, above the free cap from a credit, bought where price, hazard and
// spread say.
func ownBuyer(cfg MixConfig) Buyer {
	return NewProcure(DefaultProcure(), NewSurge(NewHedged(DefaultHedge(), cfg.ColdSlots(), ownDemand(cfg))))
}

// PlimsollMix is the name of our own buyer on the board.
const PlimsollMix = "plimsoll-mix"

// worthReserving is how many replicas the history before the judged span (or, without one, the span itself) uses for more of the time than a
// reservation costs of the on-demand price.
func worthReserving(t *Trace) int {
	history := t.Rho[:t.From]
	if len(history) == 0 {
		history = t.Rho[t.From:t.To]
	}
	sorted := append([]float64(nil), history...)
	sort.Float64s(sorted)
	at := int(float64(len(sorted)) * (1 - float64(ReservedPrice)/FullPrice))
	return int(sorted[min(at, len(sorted)-1)])
}

// MixRow is one buyer over all windows of a board.
type MixRow struct {
	Policy     string    `json:"policy"`
	Ratio      float64   `json:"cost_ratio"` // cost over the priced bound
	LateRate   float64   `json:"late_ratio"`
	Timeouts   float64   `json:"timeout_ratio"`
	PerWindow  []float64 `json:"cost_ratio_per_window"`
	LateWindow []float64 `json:"late_ratio_per_window"`
	Cost       float64   `json:"cost_on_demand_hours"`
	Spot       float64   `json:"spot_replica_hours"`
	OnDemand   float64   `json:"on_demand_replica_hours"`
	Launches   int       `json:"launches"`
	Failed     int       `json:"failed_launches"`
	Lost       int       `json:"interrupted_replicas"`
	Silent     int       `json:"interrupted_without_notice"`
}

// MixBoard is the section "mixed": one service in several windows of a market, every buyer.
type MixBoard struct {
	Workload string   `json:"workload"`
	Markets  []string `json:"markets"`
	Zones    int      `json:"spot_pools"`
	// Bound is the priced one in on-demand replica-hours, summed over the windows; Unpriced is that of on demand alone.
	Bound    float64  `json:"priced_bound_on_demand_hours"`
	Unpriced float64  `json:"unpriced_bound_replica_hours"`
	Rows     []MixRow `json:"rows"`
}

// ScoreMix plays every buyer in every market.
func ScoreMix(t *Trace, markets []*Market, buyers []MixEntry) (MixBoard, error) {
	b := MixBoard{Workload: t.Name}
	if len(markets) == 0 {
		return b, fleet.Errorf(fleet.CodeInvalid, "workload %s: no market to buy in", t.Name)
	}
	cfg := DefaultMix(t)
	bounds := make([]float64, 0, len(markets))
	for _, m := range markets {
		priced, err := PricedBound(t, m, cfg)
		if err != nil {
			return b, err
		}
		bounds = append(bounds, float64(priced)/FullPrice/SlotsPerHour)
		b.Bound += bounds[len(bounds)-1]
		b.Markets = append(b.Markets, m.Name)
	}
	b.Zones = spotPools(markets[0])
	alone, err := Bound(t, Config{ColdSlots: cfg.ColdSlots(), Min: 1, Max: cfg.Max})
	if err != nil {
		return b, err
	}
	b.Unpriced = alone * float64(len(markets))
	for _, e := range buyers {
		row := MixRow{Policy: e.Name}
		late, timedOut, requests := 0.0, 0.0, 0.0
		for i, m := range markets {
			size := 0
			if e.Reserve != nil {
				size = e.Reserve(t)
				m = m.With(Reservation(t.Slots(), size, ReservedPrice))
			}
			s, err := RunMix(t, m, cfg, e.New(t, cfg, size))
			if err != nil {
				return b, err
			}
			row.add(&s)
			row.PerWindow = append(row.PerWindow, part(s.CostHours, bounds[i]))
			row.LateWindow = append(row.LateWindow, s.LateRatio())
			late, timedOut, requests = late+s.Late, timedOut+s.TimedOut, requests+s.Requests
		}
		row.Ratio, row.LateRate, row.Timeouts = part(row.Cost, b.Bound), part(late, requests), part(timedOut, requests)
		b.Rows = append(b.Rows, row)
	}
	return b, nil
}

func spotPools(m *Market) int {
	n := 0
	for i := range m.Pools {
		if m.Pools[i].Purchase == fleet.PurchaseSpot {
			n++
		}
	}
	return n
}

func (r *MixRow) add(s *MixScore) {
	r.Cost += s.CostHours
	r.Spot += s.SpotHours
	r.OnDemand += s.OnDemandHours
	r.Launches += s.Launches
	r.Failed += s.Failed
	r.Lost += s.Interrupted
	r.Silent += s.Unannounced
}

// Row of a buyer.
func (b *MixBoard) Row(policy string) (MixRow, bool) {
	for _, r := range b.Rows {
		if r.Policy == policy {
			return r, true
		}
	}
	return MixRow{}, false
}

// Write prints the section.
func (b *MixBoard) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "\nmixed: %s, %d Spot pools, %d windows; priced bound %.1f on-demand hours, on demand alone %.1f\n", b.Workload, b.Zones, len(b.Markets), b.Bound, b.Unpriced)
	fmt.Fprint(tw, "policy\tcost / bound\tlate %\tover a minute %\tfailed launches\tinterrupted\tof them unannounced\tSpot h\ton-demand h")
	for _, m := range b.Markets {
		fmt.Fprintf(tw, "\t%s", m)
	}
	fmt.Fprintln(tw)
	for _, r := range b.Rows {
		fmt.Fprintf(tw, "%s\t%.3f\t%.2f\t%.3f\t%d\t%d\t%d\t%.0f\t%.0f", r.Policy, r.Ratio, 100*r.LateRate, 100*r.Timeouts, r.Failed, r.Lost, r.Silent, r.Spot, r.OnDemand)
		for i := range r.PerWindow {
			fmt.Fprintf(tw, "\t%.3f / %.2f", r.PerWindow[i], 100*r.LateWindow[i])
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
