package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// SavingAgainst compares what was paid with another rule, over the workload-hours for which the other rule's cost is known.
type SavingAgainst struct {
	Cost  *Money `json:"cost" doc:"by the other rule; null: known for no hour"`
	Paid  *Money `json:"paid" doc:"by the ledger, for the same hours"`
	Saved *Money `json:"saved" doc:"cost less paid; negative: the other rule would have been cheaper"`
	Hours int    `json:"hours" doc:"workload-hours compared"`
}

// SavingLine is what scaling did for one workload, for a day, or for all.
type SavingLine struct {
	WorkloadID string        `json:"workload_id"`
	Name       string        `json:"name"`
	Team       string        `json:"team"`
	Paid       Money         `json:"paid" doc:"of the ledger, of all automated hours"`
	Hours      int           `json:"hours" doc:"workload-hours with a policy"`
	Promised   Money         `json:"promised" doc:"by the decisions in force, at the prices they were made with; negative: they promised to cost more, to keep requests in time"`
	Measured   SavingAgainst `json:"measured" doc:"against the counts as they were before the decisions in force"`
	Static     SavingAgainst `json:"static" doc:"against the policy's max all the time"`
	Shadow     SavingAgainst `json:"shadow" doc:"against a HorizontalPodAutoscaler at 70 % with its default window of five minutes on the way down, within the policy's bounds"`
	Cooldown   Money         `json:"cooldown" doc:"part of paid: held only by a cooldown or a stabilisation window"`
	Starting   Money         `json:"starting" doc:"part of paid: replicas on their way to ready, which is the part of churn that has a price"`
	Ups        int           `json:"ups" doc:"applied"`
	Downs      int           `json:"downs"`
}

// SavingDay is a day of the series.
type SavingDay struct {
	Day      time.Time `json:"day"`
	Paid     Money     `json:"paid"`
	Promised Money     `json:"promised"`
	Measured *Money    `json:"measured"`
	Static   *Money    `json:"static" doc:"saved against max"`
	Shadow   *Money    `json:"shadow" doc:"saved against the HorizontalPodAutoscaler"`
}

// SavingsAnswer is the savings ledger of a span.
type SavingsAnswer struct {
	From  time.Time    `json:"from"`
	To    time.Time    `json:"to"`
	Total SavingLine   `json:"total"`
	Items []SavingLine `json:"items" doc:"dearest first"`
	Days  []SavingDay  `json:"days" doc:"UTC"`
	Churn []string     `json:"churn_unknown" doc:"what scaling also costs and nobody meters here, so that it is in no figure"`
}

func (s *Server) registerSavings() {
	op(s, huma.Operation{OperationID: "get-savings", Method: http.MethodGet, Path: "/api/v1/savings", Summary: "What scaling promised, what it measurably did, and what it cost", Tags: []string{"cost"},
		Description: "Closed hours of workloads with a policy. Every counterfactual is a count of replicas times the hour's own price of a replica, so a change of price is nobody's saving. Hours for which a count is not known are in neither side of a comparison. " +
			"A decision counts for a day at most. The shadow autoscaler sees the utilisation that was measured: of a saturated workload that is too little, and its cost is understated."}, auth.RoleViewer, s.getSavings)
}

func (s *Server) getSavings(ctx context.Context, p auth.Principal, in *struct {
	CostFilter
	From time.Time `query:"from" required:"true" doc:"a whole hour"`
	To   time.Time `query:"to" required:"true" doc:"exclusive"`
}) (*struct{ Body SavingsAnswer }, error) {
	span, err := wholeSpan(in.From, in.To, "query.from")
	if err != nil {
		return nil, err
	}
	out := &struct{ Body SavingsAnswer }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		q := store.CostQuery{From: span.From, To: span.To, Cluster: in.Cluster, Namespace: in.Namespace, Team: in.Team, Workload: in.Workload}
		lines, err := store.Savings(ctx, tx, q, false)
		if err != nil {
			return err
		}
		days, err := store.Savings(ctx, tx, q, true)
		if err != nil {
			return err
		}
		out.Body = SavingsAnswer{From: span.From, To: span.To, Items: make([]SavingLine, 0, len(lines)), Days: make([]SavingDay, 0, len(days)), Churn: []string{"image_pulls", "egress", "lost_work"}}
		var total store.SavingSum
		for _, l := range lines {
			total = plusSaving(total, l)
			out.Body.Items = append(out.Body.Items, s.showSaving(l))
		}
		out.Body.Total = s.showSaving(total)
		for _, d := range days {
			v := s.showSaving(d)
			out.Body.Days = append(out.Body.Days, SavingDay{Day: d.Day, Paid: v.Paid, Promised: v.Promised, Measured: v.Measured.Saved, Static: v.Static.Saved, Shadow: v.Shadow.Saved})
		}
		return nil
	})
	return out, err
}

func plusSaving(a, b store.SavingSum) store.SavingSum {
	for _, m := range []struct {
		to *fleet.Money
		by fleet.Money
	}{{&a.Amount, b.Amount}, {&a.Static, b.Static}, {&a.StaticAmount, b.StaticAmount}, {&a.Shadow, b.Shadow}, {&a.ShadowAmount, b.ShadowAmount}, {&a.Stayed, b.Stayed}, {&a.StayedAmount, b.StayedAmount},
		{&a.Promised, b.Promised}, {&a.Cooldown, b.Cooldown}, {&a.Starting, b.Starting}} {
		*m.to = m.to.Add(m.by)
	}
	a.Hours, a.StaticHours, a.ShadowHours, a.StayedHours = a.Hours+b.Hours, a.StaticHours+b.StaticHours, a.ShadowHours+b.ShadowHours, a.StayedHours+b.StayedHours
	a.Ups, a.Downs = a.Ups+b.Ups, a.Downs+b.Downs
	return a
}

func (s *Server) showSaving(l store.SavingSum) SavingLine {
	return SavingLine{WorkloadID: string(l.Workload), Name: l.Key, Team: l.Team, Paid: s.money(l.Amount), Hours: l.Hours, Promised: s.money(l.Promised), Measured: s.against(l.Stayed, l.StayedAmount, l.StayedHours),
		Static: s.against(l.Static, l.StaticAmount, l.StaticHours), Shadow: s.against(l.Shadow, l.ShadowAmount, l.ShadowHours), Cooldown: s.money(l.Cooldown), Starting: s.money(l.Starting), Ups: l.Ups, Downs: l.Downs}
}

func (s *Server) against(cost, paid fleet.Money, hours int) SavingAgainst {
	if hours == 0 {
		return SavingAgainst{}
	}
	c, p, saved := s.money(cost), s.money(paid), s.money(cost-paid)
	return SavingAgainst{Cost: &c, Paid: &p, Saved: &saved, Hours: hours}
}
