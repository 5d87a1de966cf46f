package lab

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// PoolRow is one way to run several services.
type PoolRow struct {
	Policy    string    `json:"policy"`
	Siloed    float64   `json:"cost_over_siloed_hpa"` // over every service alone on HPA 70 %, on demand
	Ratio     float64   `json:"cost_ratio"`           // over the pooled priced bound
	LateRate  float64   `json:"late_ratio"`
	Timeouts  float64   `json:"timeout_ratio"`
	LateEach  []float64 `json:"late_ratio_per_service"`
	Cost      float64   `json:"cost_on_demand_hours"`
	Failed    int       `json:"failed_launches"`
	Lost      int       `json:"interrupted_replicas"`
	late, all float64
	timedOut  float64
	each      [][2]float64
}

// PoolBoard is the section "pool + mix": several services of one replica type, each alone or all from one fleet.
type PoolBoard struct {
	Services []string `json:"services"`
	Markets  []string `json:"markets"`
	// Bound is that of the summed demand in on-demand hours, over all windows; SiloedBound is the sum of the services' own; Reference is what HPA at
	// 70 % costs on demand, every service alone.
	Bound       float64   `json:"pooled_bound_on_demand_hours"`
	SiloedBound float64   `json:"siloed_bound_on_demand_hours"`
	Reference   float64   `json:"siloed_hpa_on_demand_hours"`
	Rows        []PoolRow `json:"rows"`
}

// The pool's own settings: what each service aims at beyond the SLO of 1 % because others can help; how much of the sum and of what may rise is held; and
// that Spot is spread so that most of what is in use survives the loss of a zone, since nobody shall wait for over a minute.
const poolLate = 0.015

var (
	poolConfig = PoolConfig{Part: 0.95, All: 1, Each: 0.5}
	poolShare  = 0.5
	poolSafe   = 0.6
)

// poolOnDemandLate is what a service of a pool on demand aims at. Nothing is taken back there, so no rise and no zone is insured: that costs 30 points of the
// siloed HPA at the full price (docs/replay.md, "Pooling").
const poolOnDemandLate = 0.012

// pooledOnDemand is our own way to run several services on demand.
func pooledOnDemand(cfg MixConfig, services int) *Pooling {
	each := []Policy{}
	for range services {
		each = append(each, NewCQ(quantile.Params{Late: poolOnDemandLate}, cfg.ColdSlots()))
	}
	return poolOf(PoolConfig{Part: 1}, each, allOnDemand.make)
}

// pooledBuyer is our own buyer for several services.
func pooledBuyer(cfg MixConfig, services int) *Pooling {
	hedge := DefaultHedge()
	hedge.Late = poolLate
	each := []Policy{}
	for range services {
		each = append(each, NewSurge(NewHedged(hedge, cfg.ColdSlots(), ownDemand(cfg))))
	}
	buy := DefaultProcure()
	buy.Share, buy.Safe = poolShare, poolSafe
	return NewPooling(poolConfig, buy, each)
}

// poolRun plays one window: services in a market of their own each, and the market that they share.
type poolRun struct {
	services []*Trace
	alone    *Market // what each service finds when it is alone
	shared   *Market // what all of them find together
	cfg      MixConfig
}

// ScorePool plays the ways to run the services in every window. alone and shared are the same markets with the depth that one service finds, and with
// that of all together.
func ScorePool(services []*Trace, alone, shared []*Market) (PoolBoard, error) {
	b := PoolBoard{}
	for _, t := range services {
		b.Services = append(b.Services, t.Name)
	}
	if len(alone) == 0 || len(alone) != len(shared) {
		return b, fleet.Errorf(fleet.CodeInvalid, "%d markets for services alone, %d for all together; want equally many", len(alone), len(shared))
	}
	all, err := Summed("sum", services)
	if err != nil {
		return b, err
	}
	runs := make([]poolRun, 0, len(alone))
	for i := range alone {
		b.Markets = append(b.Markets, shared[i].Name)
		r := poolRun{services, alone[i], shared[i], DefaultMix(all)}
		bound, err := PooledBound(services, r.shared, r.cfg)
		if err != nil {
			return b, err
		}
		b.Bound += float64(bound) / FullPrice / SlotsPerHour
		for _, t := range services {
			bound, err := PricedBound(t, r.alone, DefaultMix(t))
			if err != nil {
				return b, err
			}
			b.SiloedBound += float64(bound) / FullPrice / SlotsPerHour
		}
		runs = append(runs, r)
	}
	ways := []struct {
		name string
		play func(r *poolRun, row *PoolRow) error
	}{
		{"siloed hpa-70, on demand", siloed(func(*Trace, MixConfig) Buyer { return &onDemandOnly{demand: newHPA(0.7, 0)} })},
		{"siloed plimsoll-cq, on demand", siloed(func(_ *Trace, cfg MixConfig) Buyer { return &onDemandOnly{demand: demandOf(cfg)} })},
		{PooledOnDemand, func(r *poolRun, row *PoolRow) error {
			return row.pooled(r, &Market{Name: "on demand", Pools: []Pool{OnDemand(r.services[0].Slots())}}, pooledOnDemand(r.cfg, len(r.services)))
		}},
		{"siloed spothedge+2", siloed(func(_ *Trace, cfg MixConfig) Buyer { return &spotHedge{demand: demandOf(cfg), extra: 2} })},
		{"siloed " + PlimsollMix, siloed(func(_ *Trace, cfg MixConfig) Buyer { return ownBuyer(cfg) })},
		{PooledMix, func(r *poolRun, row *PoolRow) error {
			return row.pooled(r, r.shared, pooledBuyer(r.cfg, len(r.services)))
		}},
	}
	for i, way := range ways {
		row := PoolRow{Policy: way.name, each: make([][2]float64, len(services))}
		for k := range runs {
			if err := way.play(&runs[k], &row); err != nil {
				return b, err
			}
		}
		if i == 0 {
			b.Reference = row.Cost
		}
		row.finish(&b)
		b.Rows = append(b.Rows, row)
	}
	return b, nil
}

// The names of our own ways on the board.
const (
	PooledMix      = "pooled " + PlimsollMix
	PooledOnDemand = "pooled, on demand"
)

// siloed runs every service alone with a buyer of its own.
func siloed(buyer func(*Trace, MixConfig) Buyer) func(*poolRun, *PoolRow) error {
	return func(r *poolRun, row *PoolRow) error {
		for k, t := range r.services {
			cfg := DefaultMix(t)
			s, err := RunMix(t, r.alone, cfg, buyer(t, cfg))
			if err != nil {
				return err
			}
			row.add(&s)
			row.each[k][0] += s.Late
			row.each[k][1] += s.Requests
		}
		return nil
	}
}

func (r *PoolRow) pooled(run *poolRun, m *Market, b *Pooling) error {
	s, queues, err := RunPooled(run.services, m, run.cfg, b)
	if err != nil {
		return err
	}
	r.add(&s)
	for k := range queues {
		r.each[k][0] += queues[k].Late
		r.each[k][1] += queues[k].Requests
	}
	return nil
}

func (r *PoolRow) add(s *MixScore) {
	r.Cost += s.CostHours
	r.Failed += s.Failed
	r.Lost += s.Interrupted
	r.late, r.timedOut, r.all = r.late+s.Late, r.timedOut+s.TimedOut, r.all+s.Requests
}

func (r *PoolRow) finish(b *PoolBoard) {
	r.Siloed, r.Ratio = part(r.Cost, b.Reference), part(r.Cost, b.Bound)
	r.LateRate, r.Timeouts = part(r.late, r.all), part(r.timedOut, r.all)
	for _, e := range r.each {
		r.LateEach = append(r.LateEach, part(e[0], e[1]))
	}
}

// Row of a way.
func (b *PoolBoard) Row(policy string) (PoolRow, bool) {
	for _, r := range b.Rows {
		if r.Policy == policy {
			return r, true
		}
	}
	return PoolRow{}, false
}

// Write prints the section.
func (b *PoolBoard) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "\npool + mix: %s, %d windows; pooled bound %.1f on-demand hours, sum of the siloed ones %.1f\n", strings.Join(b.Services, " + "), len(b.Markets), b.Bound, b.SiloedBound)
	fmt.Fprint(tw, "policy\tcost / siloed hpa-70\tcost / bound\tlate %\tover a minute %\tfailed launches\tinterrupted")
	for _, s := range b.Services {
		fmt.Fprintf(tw, "\tlate %% %s", s)
	}
	fmt.Fprintln(tw)
	for _, r := range b.Rows {
		fmt.Fprintf(tw, "%s\t%.3f\t%.3f\t%.2f\t%.3f\t%d\t%d", r.Policy, r.Siloed, r.Ratio, 100*r.LateRate, 100*r.Timeouts, r.Failed, r.Lost)
		for _, l := range r.LateEach {
			fmt.Fprintf(tw, "\t%.2f", 100*l)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
