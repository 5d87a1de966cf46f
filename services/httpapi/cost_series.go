package httpapi

import (
	"context"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

func (s *Server) getCostTimeseries(ctx context.Context, p auth.Principal, in *struct {
	CostScope
	Step  string `query:"step" enum:"day,hour" default:"day" doc:"hour: at most 31 days"`
	Limit int    `query:"limit" minimum:"1" maximum:"50" default:"8" doc:"series of workloads, the rest is summed as \"other\""`
}) (*struct{ Body CostTimeseries }, error) {
	out := &struct{ Body CostTimeseries }{}
	step := 24 * time.Hour
	if in.Step == "hour" {
		step = time.Hour
	}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		q, err := in.query(ctx, tx, step)
		if err != nil {
			return err
		}
		rows, _, err := costs(ctx, tx, q, in.spread())
		if err != nil {
			return err
		}
		groups, _ := group(rows, q.ByOwner(), in.Limit)
		names, err := costNames(ctx, tx, q.Aggregate, groups)
		if err != nil {
			return err
		}
		out.Body = CostTimeseries{From: q.From, To: q.To, Step: in.Step, Series: make([]CostSeries, 0, len(groups))}
		for _, g := range groups {
			series := CostSeries{Key: g.key, Name: nameOf(names, g.key), Kind: g.kind, Points: make([]CostPoint, 0, int(q.To.Sub(q.From)/step))}
			for at := q.From; at.Before(q.To); at = at.Add(step) {
				series.Points = append(series.Points, CostPoint{At: at, Amount: s.money(g.byStep[at])})
			}
			out.Body.Series = append(out.Body.Series, series)
		}
		return nil
	})
	return out, err
}

func (s *Server) getCostSummary(ctx context.Context, p auth.Principal, in *struct {
	CostFilter
}) (*struct{ Body CostSummary }, error) {
	out := &struct{ Body CostSummary }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return err
		}
		now = now.UTC()
		today := now.Truncate(24 * time.Hour)
		month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		rows, err := store.Costs(ctx, tx, store.CostQuery{From: month.AddDate(0, -1, 0), To: today.AddDate(0, 0, 1), Aggregate: "kind", Cluster: in.Cluster,
			Namespace: in.Namespace, Team: in.Team, Workload: in.Workload, Buckets: true})
		if err != nil {
			return err
		}
		coverage, err := store.Coverage(ctx, tx, in.Cluster, month, today.AddDate(0, 0, 1))
		if err != nil {
			return err
		}
		out.Body = s.summarise(rows, now)
		out.Body.UnpricedShare, out.Body.LastClosed, out.Body.OpenHours = coverage.Unpriced(), coverage.LastClosed, coverage.OpenHours
		return nil
	})
	return out, err
}

func (s *Server) summarise(rows []store.CostRow, now time.Time) CostSummary {
	var days []ledger.Spend
	var before, today, yesterday, idle ledger.Spend
	start := now.Truncate(24 * time.Hour)
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, r := range rows {
		days = append(days, ledger.Spend{Day: r.At, Amount: r.Amount})
		switch {
		case r.At.Before(month):
			before.Amount = before.Amount.Add(r.Amount)
		case r.Kind == ledger.KindIdle:
			idle.Amount = idle.Amount.Add(r.Amount)
		}
		switch {
		case r.At.Equal(start):
			today.Amount = today.Amount.Add(r.Amount)
		case r.At.Equal(start.AddDate(0, 0, -1)):
			yesterday.Amount = yesterday.Amount.Add(r.Amount)
		}
	}
	look := ledger.Look(days, now)
	v := CostSummary{DataNow: now, Month: look.From.Format("2006-01"), MonthToDate: s.money(look.ToDate), PreviousMonth: s.money(before.Amount),
		Today: s.money(today.Amount), Yesterday: s.money(yesterday.Amount), Catalogue: s.prices().Date()}
	if look.Known {
		f := s.money(look.Forecast)
		v.Forecast = &f
	}
	if look.ToDate > 0 {
		v.IdleShare = idle.Amount.Float() / look.ToDate.Float()
	}
	return v
}
