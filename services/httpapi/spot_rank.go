package httpapi

import (
	"context"
	"slices"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// filters gives the selection as the market and the store understand it. none says that no machine fits.
func (in SpotSelection) filters(book *market.PriceBook) (m market.CheapestFilter, f store.SpotFilter, none bool) {
	m = market.CheapestFilter{Cloud: in.Cloud, Region: in.Region, GPUModel: in.GPUModel, MinGPUs: in.MinGPUs, MinGPUMemoryMiB: in.MinGPUMemoryMiB,
		MinCPUMilli: in.MinCPUMilli, MinMemMiB: in.MinMemMiB, Limit: in.Limit}
	f = store.SpotFilter{Cloud: in.Cloud, Region: in.Region, Product: market.ProductLinux}
	byHardware := in.GPUModel != "" || in.MinGPUs > 0 || in.MinGPUMemoryMiB > 0 || in.MinCPUMilli > 0 || in.MinMemMiB > 0
	if in.InstanceType != "" {
		m.InstanceTypes, f.InstanceTypes = []string{in.InstanceType}, []string{in.InstanceType}
	}
	if byHardware {
		f.InstanceTypes = book.SpotTypes(m)
		none = len(f.InstanceTypes) == 0
	}
	return m, f, none
}

func (s *Server) getSpotStats(ctx context.Context, p auth.Principal, in *struct {
	SpotSelection
	From time.Time `query:"from" doc:"default: 30 days before to"`
	To   time.Time `query:"to" doc:"default: the tenant's data now"`
}) (*struct {
	Body struct {
		From  time.Time       `json:"from"`
		To    time.Time       `json:"to"`
		Total int             `json:"total" doc:"before the limit"`
		Items []SpotPoolStats `json:"items" doc:"cheapest per GPU first; pools without a Spot price in the window last"`
	}
}, error) {
	out := &struct {
		Body struct {
			From  time.Time       `json:"from"`
			To    time.Time       `json:"to"`
			Total int             `json:"total" doc:"before the limit"`
			Items []SpotPoolStats `json:"items" doc:"cheapest per GPU first; pools without a Spot price in the window last"`
		}
	}{}
	_, f, none := in.filters(s.prices())
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		from, to, err := spotRange(ctx, tx, in.From, in.To)
		if err != nil {
			return err
		}
		if to.Sub(from) > 370*24*time.Hour {
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "statistics are of at most 370 days", Field: "query.from"}
		}
		out.Body.From, out.Body.To, out.Body.Items = from, to, []SpotPoolStats{}
		if none {
			return nil
		}
		series, err := store.SpotHistory(ctx, tx, f, from, to)
		if err != nil {
			return err
		}
		type ranked struct {
			view SpotPoolStats
			unit fleet.Money // 0: no price
		}
		all := make([]ranked, 0, len(series))
		for _, line := range series {
			view, unit := s.showSpotStats(line, from, to)
			all = append(all, ranked{view, unit})
		}
		slices.SortStableFunc(all, func(a, b ranked) int {
			switch {
			case a.unit == b.unit:
				return 0
			case a.unit == 0 || b.unit != 0 && b.unit < a.unit:
				return 1
			}
			return -1
		})
		out.Body.Total = len(all)
		for _, r := range all[:min(in.Limit, len(all))] {
			out.Body.Items = append(out.Body.Items, r.view)
		}
		return nil
	})
	return out, err
}

func (s *Server) showSpotStats(line store.SpotSeries, from, to time.Time) (SpotPoolStats, fleet.Money) {
	pool, cur := line.State.Pool, s.prices().Currency()
	st := market.SpotStatistics(line.Changes, from, to)
	v := SpotPoolStats{Pool: SpotPool(pool), Machine: s.spotMachine(pool.Cloud, pool.InstanceType), ListedShare: st.ListedShare, Level: moneyOrNil(st.Level, cur),
		Min: moneyOrNil(st.Min, cur), Max: moneyOrNil(st.Max, cur), Last: moneyOrNil(st.Last, cur), Discount: st.Discount,
		ChangesPerDay: st.ChangesPerDay, Volatility: st.Volatility, JumpProbability: st.JumpProbability, SeenAt: line.State.SeenAt.UTC(), Source: line.State.Source}
	list := st.OnDemand
	if list == nil {
		list = s.prices().Price(fleet.Offering{Cloud: pool.Cloud, Region: pool.Region, InstanceType: pool.InstanceType, Purchase: fleet.PurchaseOnDemand}).List
		if list != nil && st.Level != nil {
			d := 1 - float64(*st.Level)/float64(*list)
			v.Discount = &d
		}
	}
	v.OnDemand = moneyOrNil(list, cur)
	if st.Level == nil {
		return v, 0
	}
	unit := *st.Level
	if v.Machine != nil && v.Machine.GPUCount > 0 {
		unit = unit.MulDiv(1, int64(v.Machine.GPUCount))
		v.PerGPU = moneyOrNil(&unit, cur)
	}
	return v, unit
}

func (s *Server) listCheapestSpot(ctx context.Context, p auth.Principal, in *struct {
	SpotSelection
	At time.Time `query:"at" doc:"default: the tenant's data now"`
}) (*struct {
	Body struct {
		At    time.Time   `json:"at"`
		Items []SpotOffer `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			At    time.Time   `json:"at"`
			Items []SpotOffer `json:"items"`
		}
	}{}
	m, f, none := in.filters(s.prices())
	out.Body.Items = []SpotOffer{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		at := in.At.UTC()
		if in.At.IsZero() {
			if at, err = store.DataNow(ctx, tx); err != nil {
				return err
			}
		}
		out.Body.At = at
		if none {
			return nil
		}
		states, err := store.SpotStates(ctx, tx, f, at)
		if err != nil {
			return err
		}
		cur := s.prices().Currency()
		for _, o := range s.prices().CheapestSpot(states, m, at) {
			out.Body.Items = append(out.Body.Items, SpotOffer{Pool: SpotPool(o.Pool), Machine: showMachine(o.Type), OnDemand: moneyOrNil(o.OnDemand, cur), PerGPU: moneyOrNil(o.PerGPU, cur),
				Discount: o.Discount, Quote: SpotQuote{Price: moneyOrNil(o.Quote.Price, cur), At: o.Quote.At.UTC(), Source: o.Quote.Source, Stale: o.Quote.Stale}})
		}
		return nil
	})
	return out, err
}
