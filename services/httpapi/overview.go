package httpapi

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Overview is the first page: what it costs, whether promises are kept, what was decided, what needs a person.
type Overview struct {
	DataNow  time.Time `json:"data_now"`
	Currency string    `json:"currency"`
	Cost     struct {
		Today            Money   `json:"today"`
		MonthToDate      Money   `json:"month_to_date"`
		PreviousSameSpan Money   `json:"previous_same_span" doc:"as much time before this month as has passed of it, to the hour"`
		ForecastMonth    *Money  `json:"forecast_month" doc:"at the month's end, if the mean rate of the last seven days holds; null before an hour of data"`
		UnpricedShare    float64 `json:"unpriced_share" doc:"node-seconds of this month without a price over all"`
		IdleShare        float64 `json:"idle_share" doc:"of this month's cost"`
	} `json:"cost"`
	SLO struct {
		LateRatio24h *float64      `json:"late_ratio_24h" doc:"requests later than their promise over all, weighted by traffic; null without traffic"`
		Worst        []SLOWorkload `json:"worst"`
	} `json:"slo"`
	Savings struct {
		MonthToDate *Money `json:"month_to_date" doc:"against every automated workload at its policy's max all the time; null without history"`
	} `json:"savings"`
	Replicas struct {
		Ready   int `json:"ready"`
		Desired int `json:"desired"`
	} `json:"replicas"`
	GPUs struct {
		Total         int      `json:"total"`
		Allocated     float64  `json:"allocated"`
		SMActiveRatio *float64 `json:"sm_active_ratio" doc:"mean of the last hour over GPU workloads, weighted by replicas"`
	} `json:"gpus"`
	Clusters struct {
		Online  int `json:"online"`
		Offline int `json:"offline"`
	} `json:"clusters"`
	Decisions24h struct {
		ScaleUp   int `json:"scale_up"`
		ScaleDown int `json:"scale_down"`
		Hold      int `json:"hold"`
		Proposed  int `json:"proposed" doc:"open now"`
		Capped    int `json:"capped" doc:"held at max although more was needed"`
	} `json:"decisions_24h"`
	AlertsOpen int       `json:"alerts_open"`
	CostByDay  []DayCost `json:"cost_by_day" doc:"last 30 days, oldest first"`
}

// SLOWorkload is a workload that kept its promise badly.
type SLOWorkload struct {
	WorkloadID fleet.WorkloadID `json:"workload_id"`
	Key        string           `json:"key"`
	LateRatio  float64          `json:"late_ratio"`
}

// DayCost is the cost of a UTC day.
type DayCost struct {
	Day    string `json:"day" format:"date"`
	Amount Money  `json:"amount"`
}

func (s *Server) registerOverview() {
	op(s, huma.Operation{OperationID: "get-overview", Method: http.MethodGet, Path: "/api/v1/overview", Summary: "What it costs, whether promises are kept, what needs a person", Tags: []string{"overview"}},
		auth.RoleViewer, s.getOverview)
}

func (s *Server) getOverview(ctx context.Context, p auth.Principal, _ *struct{}) (*struct{ Body Overview }, error) {
	out := &struct{ Body Overview }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return err
		}
		o, err := store.LoadOverview(ctx, tx, now)
		if err != nil {
			return err
		}
		saved, err := s.savings(ctx, tx, o)
		out.Body = s.showOverview(o, saved)
		return err
	})
	return out, err
}

func (s *Server) showOverview(o store.Overview, saved *fleet.Money) Overview {
	cur := s.prices().Currency()
	v := Overview{DataNow: o.Now, Currency: cur, AlertsOpen: o.AlertsOpen, CostByDay: make([]DayCost, 0, len(o.Days))}
	v.Cost.Today, v.Cost.MonthToDate, v.Cost.PreviousSameSpan = money(o.Today, cur), money(o.MonthToDate, cur), money(o.PreviousSameSpan, cur)
	v.Cost.ForecastMonth = moneyOrNil(o.ForecastMonth(), cur)
	v.Cost.UnpricedShare, v.Cost.IdleShare = o.UnpricedShare, o.IdleShare
	v.SLO.LateRatio24h, v.SLO.Worst = o.LateRatio, make([]SLOWorkload, 0, len(o.Worst))
	for _, w := range o.Worst {
		v.SLO.Worst = append(v.SLO.Worst, SLOWorkload{WorkloadID: w.ID, Key: w.Key, LateRatio: w.Ratio})
	}
	v.Savings.MonthToDate = moneyOrNil(saved, cur)
	v.Replicas.Ready, v.Replicas.Desired = o.Ready, o.Desired
	v.GPUs.Total, v.GPUs.Allocated, v.GPUs.SMActiveRatio = o.GPUs, o.GPUsAllocated, o.SMActive
	v.Clusters.Online, v.Clusters.Offline = o.Online, o.Offline
	v.Decisions24h.ScaleUp, v.Decisions24h.ScaleDown, v.Decisions24h.Hold = o.Ups, o.Downs, o.Holds
	v.Decisions24h.Proposed, v.Decisions24h.Capped = o.Proposed, o.Capped
	for _, d := range o.Days {
		v.CostByDay = append(v.CostByDay, DayCost{Day: d.Day.Format(time.DateOnly), Amount: money(d.Amount, cur)})
	}
	return v
}

// savings compares this month with every automated workload at its policy's max around the clock, at what machines like
// the one its replicas run on cost today: what commitments cover of those is in that price. Workloads without a known price are left out of both sides.
func (s *Server) savings(ctx context.Context, tx *store.Tx, o store.Overview) (*fleet.Money, error) {
	ids := make([]fleet.WorkloadID, 0, len(o.Automated))
	for _, w := range o.Automated {
		ids = append(ids, w.ID)
	}
	hosts, err := store.Hosts(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	prices, err := store.PricesAt(ctx, tx, s.prices(), o.Now, store.Offerings(hosts)...)
	if err != nil {
		return nil, err
	}
	var sum fleet.Money
	known := false
	for _, w := range o.Automated {
		host, ok := hosts[w.ID]
		if !ok || w.Seconds == 0 {
			continue
		}
		hour := prices.LiveReplica(w.Cluster, host, w.CPUMilli, w.MemMiB, w.GPUMilli)
		if hour == nil {
			continue
		}
		policy, _ := s.deps.DB.ParsePolicy(w.Document)
		if at := float64(*hour) * float64(policy.Max) * float64(w.Seconds) / 3600; at+float64(sum) > math.MaxInt64/2 {
			return nil, nil // a bound that nobody means: no figure is better than a silly one
		}
		known, sum = true, sum.Add(hour.MulDiv(int64(policy.Max)*w.Seconds, 3600)-fleet.Money(w.Cost))
	}
	if !known {
		return nil, nil
	}
	return &sum, nil
}
