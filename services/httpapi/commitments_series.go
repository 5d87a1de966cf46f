package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// CommitmentStep is a stretch of time. used + unused = bought.
type CommitmentStep struct {
	From          time.Time `json:"from"`
	To            time.Time `json:"to" doc:"exclusive; the first and the last step may be cut short"`
	Bought        Money     `json:"bought" doc:"amortised"`
	Used          Money     `json:"used"`
	Unused        Money     `json:"unused"`
	Utilisation   *float64  `json:"utilisation" doc:"used over bought; null when nothing was bought"`
	EligibleHours float64   `json:"eligible_hours" doc:"machine-hours that are not Spot; on Google a machine counts once per resource"`
	CoveredHours  float64   `json:"covered_hours"`
	OnDemandCost  Money     `json:"on_demand_cost" doc:"of the eligible usage at list prices"`
	CoveredCost   Money     `json:"covered_cost" doc:"of the covered usage at list prices"`
	Coverage      *float64  `json:"coverage" doc:"covered over eligible, at on-demand prices where all have one, else in hours; null without usage"`
}

// CommitmentSeries is use and coverage over time.
type CommitmentSeries struct {
	From  time.Time        `json:"from" doc:"as asked, or the hour of the first machine that was seen if that is later"`
	To    time.Time        `json:"to" doc:"exclusive"`
	Step  string           `json:"step" enum:"hour,day"`
	Items []CommitmentStep `json:"items" doc:"in order of time, without gaps"`
}

func (s *Server) registerCommitmentSeries() {
	op(s, huma.Operation{OperationID: "commitment-series", Method: http.MethodGet, Path: "/api/v1/commitments/series", Summary: "Use and coverage of commitments over time", Tags: []string{"commitments"},
		Errors: []int{404, 413, 422}}, auth.RoleViewer, s.commitmentSeries)
}

// maxHourSteps bounds a series by the hour.
const maxHourSteps = 31 * 24

func (s *Server) commitmentSeries(ctx context.Context, p auth.Principal, in *struct {
	CommitmentSpan
	Step       string `query:"step" enum:"hour,day" default:"day" doc:"of UTC; hours of at most 31 days"`
	Commitment string `query:"commitment" format:"uuid" doc:"the use of this one alone; coverage stays that of all"`
}) (*struct{ Body CommitmentSeries }, error) {
	step := 24 * time.Hour
	if in.Step == "hour" {
		step = time.Hour
	}
	var h history
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		h, err = s.loadHistory(ctx, tx, in.CommitmentSpan, 7*24*time.Hour)
		return err
	})
	if err != nil {
		return nil, err
	}
	if h.asked > maxHourSteps*step {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "hours of at most 31 days; ask for days", Field: "query.step"}
	}
	if in.Commitment != "" && !slices.ContainsFunc(h.plain, func(c commitment.Commitment) bool { return c.ID == in.Commitment }) {
		return nil, fleet.Errorf(fleet.CodeNotFound, "no such commitment ran in this time")
	}
	found, err := commitment.Series(h.span, step, h.nodes, h.plain, h.prices, in.Commitment, ctx.Err)
	if err != nil {
		return nil, err
	}
	out := &struct{ Body CommitmentSeries }{Body: CommitmentSeries{From: h.span.From, To: h.span.To, Step: in.Step, Items: make([]CommitmentStep, 0, len(found))}}
	hours := func(ms int64) float64 { return float64(ms) / float64(time.Hour/time.Millisecond) }
	for _, f := range found {
		b, c := f.Balance, f.Coverage
		out.Body.Items = append(out.Body.Items, CommitmentStep{From: f.Interval.From, To: f.Interval.To, Bought: s.money(b.Bought), Used: s.money(b.Used), Unused: s.money(b.Unused), Utilisation: b.Ratio(),
			EligibleHours: hours(c.Eligible), CoveredHours: hours(c.Covered), OnDemandCost: s.money(c.ListedEligible), CoveredCost: s.money(c.ListedCovered), Coverage: c.Ratio()})
	}
	return out, nil
}
