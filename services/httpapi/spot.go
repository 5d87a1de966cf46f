package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// SpotPool is where machines of one type are sold under one Spot price.
type SpotPool struct {
	Cloud        fleet.Cloud `json:"cloud"`
	Region       string      `json:"region"`
	Zone         string      `json:"zone" doc:"empty: the price holds for the region"`
	InstanceType string      `json:"instance_type"`
	Product      string      `json:"product" example:"Linux/UNIX" doc:"accelerator: the price of the accelerator alone"`
}

// SpotMachine says what a machine of a pool has.
type SpotMachine struct {
	GPUModel     fleet.GPUModel `json:"gpu_model,omitempty"`
	GPUCount     int            `json:"gpu_count"`
	GPUMemoryMiB int64          `json:"gpu_memory_mib" doc:"of one GPU"`
	CPUMilli     int64          `json:"cpu_milli"`
	MemMiB       int64          `json:"mem_mib"`
}

// SpotQuote is the best knowledge of a Spot price at a moment.
type SpotQuote struct {
	Price  *Money    `json:"price" doc:"per machine-hour; null: no Spot there, or unknown"`
	At     time.Time `json:"at" doc:"since when the price holds, or the catalogue's date"`
	Source string    `json:"source"`
	Stale  bool      `json:"stale" doc:"nobody was heard for over 26 hours: it may be wrong by now"`
}

// SpotPoint is one step of a series. Amounts are decimals per machine-hour in the answer's currency; null: none listed.
type SpotPoint struct {
	At       time.Time `json:"at" doc:"beginning of the step"`
	Min      *string   `json:"min"`
	Avg      *string   `json:"avg" doc:"weighted by time"`
	Max      *string   `json:"max"`
	Last     *string   `json:"last" doc:"null: no Spot at the step's end"`
	OnDemand *string   `json:"on_demand" doc:"at the step's end, from the same source, else the catalogue's"`
}

// SpotSeries is the price of one pool over time.
type SpotSeries struct {
	Pool     SpotPool    `json:"pool"`
	ZoneName string      `json:"zone_name,omitempty" doc:"the zone as the tenant's account names it, where prices are kept under the cloud's id of it"`
	Newest   SpotQuote   `json:"newest" doc:"the newest price, whatever the range"`
	Points   []SpotPoint `json:"points"`
}

// SpotHistory is the answer for one machine type: a series per zone, and the catalogue's prices as lines to compare with.
type SpotHistory struct {
	Currency          string       `json:"currency"`
	From              time.Time    `json:"from"`
	To                time.Time    `json:"to"`
	StepSeconds       int          `json:"step_seconds"`
	Machine           *SpotMachine `json:"machine" doc:"null: not in the catalogue"`
	CatalogueOnDemand *Money       `json:"catalogue_on_demand" doc:"of the region asked for; null without a region"`
	CatalogueSpot     *Money       `json:"catalogue_spot" doc:"stands in where there is no series"`
	CatalogueSource   string       `json:"catalogue_source,omitempty"`
	Effective         []PricePoint `json:"effective" doc:"what the next machine on demand cost this tenant at each step: its own price, after what its commitments left over then, in the cheapest zone; empty without a region"`
	EffectiveProblem  string       `json:"effective_problem,omitempty" doc:"why effective is empty although a region was asked for"`
	Data              *SpotData    `json:"data" doc:"how far the history of what was asked for reaches, whatever the range; null: there is none"`
	Series            []SpotSeries `json:"series" doc:"by region and zone"`
}

// PricePoint is a price at a step.
type PricePoint struct {
	At    time.Time `json:"at"`
	Price *string   `json:"price" doc:"per machine-hour; null: unknown"`
}

// SpotData is how far a history reaches.
type SpotData struct {
	FirstAt time.Time `json:"first_at" doc:"the first change"`
	LastAt  time.Time `json:"last_at" doc:"the newest change"`
	SeenAt  time.Time `json:"seen_at" doc:"when a source was heard last: prices hold until then"`
	Stale   bool      `json:"stale" doc:"nobody was heard for over 26 hours"`
	Source  string    `json:"source" doc:"who was heard last"`
	Pools   int       `json:"pools"`
	Changes int64     `json:"changes"`
}

// SpotCloudData is how far the history of a cloud reaches.
type SpotCloudData struct {
	Cloud fleet.Cloud `json:"cloud"`
	SpotData
}

// SpotPoolStats describe a pool's price over a window. Shares and ratios are 0 to 1; null: there was nothing to compute it from.
type SpotPoolStats struct {
	Pool            SpotPool     `json:"pool"`
	Machine         *SpotMachine `json:"machine" doc:"null: not in the catalogue"`
	ListedShare     float64      `json:"listed_share" doc:"of the window, with a Spot price"`
	Level           *Money       `json:"level" doc:"mean over the listed time, per machine-hour"`
	PerGPU          *Money       `json:"per_gpu" doc:"the level, per GPU"`
	Min             *Money       `json:"min"`
	Max             *Money       `json:"max"`
	Last            *Money       `json:"last" doc:"at the window's end; null: no Spot then"`
	OnDemand        *Money       `json:"on_demand" doc:"mean over the listed time; the catalogue's where the source lists none"`
	Discount        *float64     `json:"discount" doc:"1 - level / on demand"`
	ChangesPerDay   float64      `json:"changes_per_day" doc:"as seen: changes between two looks are not"`
	Volatility      *float64     `json:"volatility" doc:"standard deviation of the logarithm's daily change"`
	JumpProbability *float64     `json:"jump_probability" doc:"of at least one step of more than a tenth within a day"`
	SeenAt          time.Time    `json:"seen_at"`
	Source          string       `json:"source"`
}

// SpotOffer is a machine on Spot at the price of a moment.
type SpotOffer struct {
	Pool     SpotPool    `json:"pool"`
	Machine  SpotMachine `json:"machine"`
	Quote    SpotQuote   `json:"quote"`
	OnDemand *Money      `json:"on_demand"`
	PerGPU   *Money      `json:"per_gpu" doc:"what offers are ranked by; null: no GPU, ranked by the machine's price"`
	Discount *float64    `json:"discount" doc:"1 - price / on demand"`
}

// SpotMarket is one machine type in one region that there is a history of.
type SpotMarket struct {
	Cloud        fleet.Cloud  `json:"cloud"`
	Region       string       `json:"region"`
	InstanceType string       `json:"instance_type"`
	Product      string       `json:"product"`
	Zones        []string     `json:"zones" doc:"an empty name: one price for the region"`
	Machine      *SpotMachine `json:"machine" doc:"null: not in the catalogue"`
	SeenAt       time.Time    `json:"seen_at"`
	LastAt       time.Time    `json:"last_at" doc:"the newest change"`
	SpotListed   bool         `json:"spot_listed" doc:"some zone has a Spot price now; false: the type is not sold on Spot there"`
	Stale        bool         `json:"stale" doc:"nobody was heard for over 26 hours: ask for ranges that end at seen_at"`
}

// QuarantinedPrice is a price that the guard did not believe; it is never used.
type QuarantinedPrice struct {
	ID       int64                `json:"id"`
	Pool     SpotPool             `json:"pool"`
	At       time.Time            `json:"at"`
	Spot     string               `json:"spot" doc:"as the source wrote it; empty: none"`
	OnDemand string               `json:"on_demand" doc:"as the source wrote it; empty: none"`
	Expected *Money               `json:"expected" doc:"what it was held against"`
	Reason   market.SuspectReason `json:"reason" enum:"not_positive,not_a_number,too_high,currency,off_history,off_on_demand,off_catalogue,conflict"`
	Source   string               `json:"source"`
	FoundAt  time.Time            `json:"found_at"`
}

// SpotSelection chooses machines; what is not given does not filter.
type SpotSelection struct {
	Cloud           fleet.Cloud    `query:"cloud" enum:"aws,azure,gcp"`
	Region          string         `query:"region" maxLength:"64"`
	InstanceType    string         `query:"instance_type" maxLength:"128"`
	GPUModel        fleet.GPUModel `query:"gpu_model" maxLength:"64"`
	MinGPUs         int            `query:"min_gpus" minimum:"0" maximum:"64"`
	MinGPUMemoryMiB int64          `query:"min_gpu_memory_mib" minimum:"0" doc:"of one GPU"`
	MinCPUMilli     int64          `query:"min_cpu_milli" minimum:"0"`
	MinMemMiB       int64          `query:"min_mem_mib" minimum:"0"`
	Limit           int            `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

func (s *Server) registerSpot() {
	tags := []string{"prices"}
	get := func(id, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: "/api/v1/prices/spot" + path, Summary: summary, Tags: tags, Errors: []int{422}}
	}
	op(s, get("get-spot-history", "", "Spot price of a machine type over time, per zone"), auth.RoleViewer, s.getSpotHistory)
	op(s, get("get-spot-stats", "/stats", "Level, discount and steadiness of Spot prices, per pool"), auth.RoleViewer, s.getSpotStats)
	op(s, get("list-cheapest-spot", "/cheapest", "What Spot machines cost at a moment, cheapest per GPU first"), auth.RoleViewer, s.listCheapestSpot)
	op(s, get("get-spot-data", "/data", "How far the history of Spot prices reaches, per cloud"), auth.RoleViewer, s.getSpotData)
	op(s, get("list-spot-markets", "/markets", "Machine types and regions that there is a price history of"), auth.RoleViewer, s.listSpotMarkets)
	op(s, get("list-quarantined-prices", "/quarantine", "Prices that were not believed, newest first"), auth.RoleViewer, s.listQuarantinedPrices)
}

// The least and most steps of a series, and how many series one answer has.
const (
	spotSteps     = 300
	maxSpotSteps  = 1000
	maxSpotSeries = 60
)

func (s *Server) getSpotHistory(ctx context.Context, p auth.Principal, in *struct {
	Cloud        fleet.Cloud `query:"cloud" enum:"aws,azure,gcp" default:"aws"`
	Region       string      `query:"region" maxLength:"64" doc:"default: all, at most 60 series"`
	Zone         string      `query:"zone" maxLength:"64" doc:"the name that prices are kept under, or the account's"`
	InstanceType string      `query:"instance_type" required:"true" minLength:"1" maxLength:"128"`
	Product      string      `query:"product" maxLength:"64" default:"Linux/UNIX"`
	From         time.Time   `query:"from" doc:"default: 30 days before to"`
	To           time.Time   `query:"to" doc:"default: the tenant's data now"`
	Step         int         `query:"step" minimum:"0" doc:"seconds; default: about 300 steps, at least a minute; at most 1000 steps"`
}) (*struct{ Body SpotHistory }, error) {
	out := &struct{ Body SpotHistory }{}
	machine := fleet.Offering{Cloud: in.Cloud, Region: in.Region, InstanceType: in.InstanceType, Purchase: fleet.PurchaseOnDemand}
	var line *store.EffectiveLine
	var list []*fleet.Money
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		from, to, err := spotRange(ctx, tx, in.From, in.To)
		if err != nil {
			return err
		}
		step := time.Duration(in.Step) * time.Second
		if step == 0 {
			step = max(time.Minute, (to.Sub(from) / spotSteps).Round(time.Minute))
		}
		if to.Sub(from)/step > maxSpotSteps {
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "that is more than 1000 steps; ask for longer ones", Field: "query.step"}
		}
		filter := store.SpotFilter{Cloud: in.Cloud, Region: in.Region, Zone: in.Zone, InstanceTypes: []string{in.InstanceType}, Product: in.Product, Limit: maxSpotSeries}
		ids, err := store.ZoneIDs(ctx, tx)
		if err != nil {
			return err
		}
		names := map[string]string{}
		for name, id := range ids {
			if was, ok := names[id]; !ok || name < was {
				names[id] = name
			}
		}
		series, err := store.SpotHistory(ctx, tx, filter, from, to)
		if err != nil {
			return err
		}
		if id := ids[in.Zone]; len(series) == 0 && id != "" { // asked for by the account's name
			filter.Zone = id
			if series, err = store.SpotHistory(ctx, tx, filter, from, to); err != nil {
				return err
			}
		}
		data, err := store.SpotReach(ctx, tx, filter)
		if err != nil {
			return err
		}
		cur := s.prices().Currency()
		out.Body = SpotHistory{Currency: cur, From: from, To: to, StepSeconds: int(step / time.Second), Machine: s.spotMachine(in.Cloud, in.InstanceType), Series: make([]SpotSeries, 0, len(series))}
		if in.Region != "" && in.Product == market.ProductLinux {
			listed := s.prices().Price(fleet.Offering{Cloud: in.Cloud, Region: in.Region, InstanceType: in.InstanceType, Purchase: fleet.PurchaseSpot})
			out.Body.CatalogueOnDemand, out.Body.CatalogueSpot, out.Body.CatalogueSource = moneyOrNil(listed.List, cur), moneyOrNil(listed.Effective, cur), listed.Source
		}
		for _, line := range series {
			list = listedFirst(list, market.SpotBuckets(line.Changes, from, to, step))
			view := s.showSpotSeries(line, from, to, step, tx.Now)
			view.ZoneName = names[view.Pool.Zone]
			out.Body.Series = append(out.Body.Series, view)
		}
		for _, d := range data {
			out.Body.Data = ptr(showSpotData(d, tx.Now))
		}
		if in.Region != "" && in.Product == market.ProductLinux {
			line, err = store.LoadEffectiveLine(ctx, tx, s.prices(), machine, fleet.Interval{From: from, To: to})
			var coded *fleet.Error
			if errors.As(err, &coded) && coded.Code == fleet.CodeTooLarge { // the chart does without the line
				out.Body.EffectiveProblem, err = coded.Message, nil
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Body.Effective = []PricePoint{}
	if line == nil {
		return out, nil
	}
	moments := steps(out.Body.From, out.Body.To, time.Duration(out.Body.StepSeconds)*time.Second)
	if len(list) != len(moments) {
		list = make([]*fleet.Money, len(moments))
	}
	prices, err := line.At(ctx, machine, in.Zone, moments, list)
	for i, at := range moments {
		if err == nil {
			out.Body.Effective = append(out.Body.Effective, PricePoint{At: at, Price: decimal(prices[i])})
		}
	}
	return out, err
}

// listedFirst fills in the on-demand prices of steps that are not known yet.
func listedFirst(known []*fleet.Money, buckets []market.SpotBucket) []*fleet.Money {
	if known == nil {
		known = make([]*fleet.Money, len(buckets))
	}
	for i, b := range buckets {
		if known[i] == nil {
			known[i] = b.OnDemand.Money()
		}
	}
	return known
}

// steps are the beginnings of the steps of a range.
func steps(from, to time.Time, step time.Duration) (out []time.Time) {
	for at := from; at.Before(to); at = at.Add(step) {
		out = append(out, at)
	}
	return out
}

func showSpotData(d store.SpotReached, now time.Time) SpotData {
	return SpotData{FirstAt: d.FirstAt.UTC(), LastAt: d.LastAt.UTC(), SeenAt: d.SeenAt.UTC(), Stale: now.Sub(d.SeenAt) > market.SpotFreshFor, Source: d.Source, Pools: d.Pools, Changes: d.Changes}
}

func (s *Server) getSpotData(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		DataNow time.Time       `json:"data_now" doc:"the tenant's: what a range ends with by default"`
		Items   []SpotCloudData `json:"items" doc:"by cloud; one without any prices is left out"`
	}
}, error) {
	out := &struct {
		Body struct {
			DataNow time.Time       `json:"data_now" doc:"the tenant's: what a range ends with by default"`
			Items   []SpotCloudData `json:"items" doc:"by cloud; one without any prices is left out"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		if out.Body.DataNow, err = store.DataNow(ctx, tx); err != nil {
			return err
		}
		data, err := store.SpotReach(ctx, tx, store.SpotFilter{})
		out.Body.Items = make([]SpotCloudData, 0, len(data))
		for _, d := range data {
			out.Body.Items = append(out.Body.Items, SpotCloudData{Cloud: d.Cloud, SpotData: showSpotData(d, tx.Now)})
		}
		return err
	})
	return out, err
}

// spotRange fills in and checks a range of time.
func spotRange(ctx context.Context, tx *store.Tx, from, to time.Time) (time.Time, time.Time, error) {
	if to.IsZero() {
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return from, to, err
		}
		to = now
	}
	if from.IsZero() {
		from = to.AddDate(0, 0, -30)
	}
	from, to = from.UTC().Truncate(time.Second), to.UTC().Truncate(time.Second)
	switch {
	case !from.Before(to):
		return from, to, &fleet.Error{Code: fleet.CodeInvalid, Message: "from must be before to", Field: "query.from"}
	case to.Sub(from) > 12*366*24*time.Hour || from.Year() < 2006 || to.Year() > 2200:
		return from, to, &fleet.Error{Code: fleet.CodeInvalid, Message: "the range must lie after 2006 and be at most twelve years", Field: "query.from"}
	}
	return from, to, nil
}

func (s *Server) showSpotSeries(line store.SpotSeries, from, to time.Time, step time.Duration, now time.Time) SpotSeries {
	pool := line.State.Pool
	var list *string
	if pool.Product == market.ProductLinux {
		list = decimal(s.prices().Price(fleet.Offering{Cloud: pool.Cloud, Region: pool.Region, InstanceType: pool.InstanceType, Purchase: fleet.PurchaseOnDemand}).List)
	}
	buckets := market.SpotBuckets(line.Changes, from, to, step)
	v := SpotSeries{Pool: SpotPool(pool), Points: make([]SpotPoint, 0, len(buckets)), Newest: SpotQuote{Price: moneyOrNil(line.State.Change.Spot.Money(), s.prices().Currency()),
		At: line.State.Change.Time(), Source: line.State.Source, Stale: line.State.Stale(now)}}
	for _, b := range buckets {
		pt := SpotPoint{At: b.At, Min: decimal(b.Min.Money()), Avg: decimal(b.Avg.Money()), Max: decimal(b.Max.Money()), Last: decimal(b.Last.Money()), OnDemand: decimal(b.OnDemand.Money())}
		if pt.OnDemand == nil && b.Last != 0 {
			pt.OnDemand = list
		}
		v.Points = append(v.Points, pt)
	}
	return v
}

func decimal(m *fleet.Money) *string {
	if m == nil {
		return nil
	}
	text := m.String()
	return &text
}

func (s *Server) spotMachine(cloud fleet.Cloud, name string) *SpotMachine {
	it, ok := s.prices().InstanceType(cloud, name)
	if !ok {
		return nil
	}
	m := showMachine(it)
	return &m
}

func showMachine(it fleet.InstanceType) SpotMachine {
	return SpotMachine{GPUModel: it.GPUModel, GPUCount: it.GPUCount, GPUMemoryMiB: it.GPUMemoryMiB, CPUMilli: it.CPUMilli, MemMiB: it.MemMiB}
}

func (s *Server) listSpotMarkets(ctx context.Context, p auth.Principal, in *struct {
	Cloud fleet.Cloud `query:"cloud" enum:"aws,azure,gcp"`
}) (*struct {
	Body struct {
		Items []SpotMarket `json:"items" doc:"by cloud, region and type"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []SpotMarket `json:"items" doc:"by cloud, region and type"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		markets, err := store.SpotMarkets(ctx, tx, in.Cloud)
		out.Body.Items = make([]SpotMarket, 0, len(markets))
		for _, m := range markets {
			out.Body.Items = append(out.Body.Items, SpotMarket{Cloud: m.Cloud, Region: m.Region, InstanceType: m.InstanceType, Product: m.Product,
				Zones: m.Zones, Machine: s.spotMachine(m.Cloud, m.InstanceType), SeenAt: m.SeenAt.UTC(), LastAt: m.LastAt.UTC(), SpotListed: m.Listed, Stale: tx.Now.Sub(m.SeenAt) > market.SpotFreshFor})
		}
		return err
	})
	return out, err
}

func (s *Server) listQuarantinedPrices(ctx context.Context, p auth.Principal, in *struct {
	Limit int `query:"limit" minimum:"1" maximum:"500" default:"100"`
}) (*struct {
	Body struct {
		Items []QuarantinedPrice `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []QuarantinedPrice `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		prices, err := store.QuarantinedPrices(ctx, tx, in.Limit)
		out.Body.Items = make([]QuarantinedPrice, 0, len(prices))
		for _, q := range prices {
			out.Body.Items = append(out.Body.Items, QuarantinedPrice{ID: q.ID, Pool: SpotPool(q.Pool), At: q.At.UTC(), Spot: q.Spot, OnDemand: q.OnDemand,
				Expected: moneyOrNil(q.Expected, s.prices().Currency()), Reason: q.Reason, Source: q.Source, FoundAt: q.FoundAt.UTC()})
		}
		return err
	})
	return out, err
}
