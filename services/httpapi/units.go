package httpapi

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// UnitPrices are a cost over what it brought. Null where nobody said how much that was, or where it was nothing.
type UnitPrices struct {
	Cost           *Money `json:"cost" doc:"of this basis"`
	PerMTokensIn   *Money `json:"per_million_tokens_in"`
	PerMTokensOut  *Money `json:"per_million_tokens_out"`
	PerMTokens     *Money `json:"per_million_tokens" doc:"input and output together, a token is a token"`
	PerKRequests   *Money `json:"per_thousand_requests"`
	PerTrainHour   *Money `json:"per_training_hour"`
	PerKeptMinutes *Money `json:"per_slo_minute" doc:"a minute with requests times the share of them in time"`
}

// UnitEconomy is what one unit of a group's work costs, on both bases.
type UnitEconomy struct {
	Key         string     `json:"key" doc:"workload id, or team"`
	Name        string     `json:"name"`
	Team        string     `json:"team"`
	Namespace   string     `json:"namespace"`
	TokensIn    *float64   `json:"tokens_in"`
	TokensOut   *float64   `json:"tokens_out"`
	Requests    *float64   `json:"requests"`
	TrainHours  *float64   `json:"training_hours" doc:"hours in which a replica of a job was ready; null for what serves requests"`
	KeptMinutes *float64   `json:"slo_minutes"`
	Allocation  UnitPrices `json:"allocation" doc:"everything that was held"`
	Usage       UnitPrices `json:"usage" doc:"the part of it that was used; of workloads whose use is known for at least nine tenths of their cost"`
	Utilisation *float64   `json:"utilisation" doc:"usage over allocation, of what is measured"`
	Measured    *float64   `json:"measured_share" doc:"part of the cost whose use is known"`
	Reported    float64    `json:"reported_share" doc:"part of the window's hours that telemetry speaks of"`
	Unpriced    bool       `json:"unpriced"`
}

// UnitEconomics is the answer, dearest first.
type UnitEconomics struct {
	From         time.Time     `json:"from"`
	To           time.Time     `json:"to"`
	Aggregate    string        `json:"aggregate"`
	OutputWeight float64       `json:"output_weight" doc:"how much dearer an output token counts than an input token"`
	Total        Money         `json:"total" doc:"of all workloads of the window; bare pods, idle, overhead and residual are not in it"`
	Items        []UnitEconomy `json:"items"`
}

// trainingKinds are controllers whose work is hours, not requests.
var trainingKinds = []string{"Job", "CronJob", "PyTorchJob", "TFJob", "MPIJob", "JAXJob", "XGBoostJob", "PaddleJob", "TrainJob", "RayJob", "JobSet", "Workflow", "VCJob"}

// measuredEnough is the share of a cost whose use must be known before a usage price is told.
const measuredEnough = 0.9

func (s *Server) registerUnits() {
	op(s, huma.Operation{OperationID: "get-unit-economics", Method: http.MethodGet, Path: "/api/v1/cost/unit-economics", Summary: "What a million tokens, a thousand requests, a training hour and a minute of kept promise cost", Tags: []string{"cost"},
		Description: "The allocation basis counts what was held, the usage basis what of it was used; utilisation is usage over allocation. Idle machines are in neither. One machine makes input and output tokens together, so their prices come from " +
			"dividing its cost by output_weight, which is a convention of yours, not a measurement."}, auth.RoleViewer, s.getUnitEconomics)
}

func (s *Server) getUnitEconomics(ctx context.Context, p auth.Principal, in *struct {
	CostFilter
	From         time.Time `query:"from" required:"true" doc:"a whole hour"`
	To           time.Time `query:"to" required:"true" doc:"exclusive; at most 93 days after from"`
	Aggregate    string    `query:"aggregate" enum:"workload,team" default:"workload"`
	OutputWeight float64   `query:"output_weight" minimum:"0.01" maximum:"100" default:"4"`
}) (*struct{ Body UnitEconomics }, error) {
	span, err := wholeSpan(in.From, in.To, "query.from")
	if err != nil {
		return nil, err
	}
	if span.To.Sub(span.From) > 93*24*time.Hour {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "the span is too long: at most 93 days", Field: "query.from"}
	}
	out := &struct{ Body UnitEconomics }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.WorkloadOutputs(ctx, tx, store.CostQuery{From: span.From, To: span.To, Cluster: in.Cluster, Namespace: in.Namespace, Team: in.Team, Workload: in.Workload})
		if err != nil {
			return err
		}
		groups := all
		if in.Aggregate == "team" {
			groups = byTeam(all)
		}
		slices.SortFunc(groups, func(a, b store.WorkloadOutput) int {
			return cmp.Or(cmp.Compare(b.Amount, a.Amount), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Team, b.Team))
		})
		out.Body = UnitEconomics{From: span.From, To: span.To, Aggregate: in.Aggregate, OutputWeight: in.OutputWeight, Items: make([]UnitEconomy, 0, len(groups))}
		var total fleet.Money
		for _, w := range groups {
			total = total.Add(w.Amount)
			out.Body.Items = append(out.Body.Items, s.showUnits(w, in.Aggregate, in.OutputWeight))
		}
		out.Body.Total = s.money(total)
		return nil
	})
	return out, err
}

// byTeam sums workloads. What one of a team's workloads does not say makes the team's figure unknown only when none says it; the costs of
// those that say nothing are then in the price: a team pays for all that it holds.
func byTeam(all []store.WorkloadOutput) []store.WorkloadOutput {
	at := map[string]int{}
	var teams []store.WorkloadOutput
	for _, w := range all {
		i, ok := at[w.Team]
		if !ok {
			i = len(teams)
			at[w.Team] = i
			teams = append(teams, store.WorkloadOutput{Team: w.Team, Key: w.Team})
		}
		t := &teams[i]
		t.Amount, t.Used, t.Measured, t.Unpriced = t.Amount.Add(w.Amount), t.Used.Add(w.Used), t.Measured.Add(w.Measured), t.Unpriced || w.Unpriced
		t.TokensIn, t.TokensOut, t.Requests, t.KeptMins = sumKnown(t.TokensIn, w.TokensIn), sumKnown(t.TokensOut, w.TokensOut), sumKnown(t.Requests, w.Requests), sumKnown(t.KeptMins, w.KeptMins)
		if slices.Contains(trainingKinds, w.Kind) {
			t.Kind, t.RunHours = w.Kind, sumKnown(t.RunHours, w.RunHours)
		}
		t.Coverage = max(t.Coverage, w.Coverage)
	}
	return teams
}

func sumKnown(a, b *float64) *float64 {
	switch {
	case b == nil:
		return a
	case a == nil:
		v := *b
		return &v
	}
	v := *a + *b
	return &v
}

func (s *Server) showUnits(w store.WorkloadOutput, aggregate string, weight float64) UnitEconomy {
	v := UnitEconomy{Key: string(w.ID), Name: w.Key, Team: w.Team, Namespace: w.Namespace, TokensIn: w.TokensIn, TokensOut: w.TokensOut, Requests: w.Requests, KeptMinutes: w.KeptMins, Reported: w.Coverage, Unpriced: w.Unpriced}
	if aggregate == "team" {
		v.Key = w.Team
	}
	if slices.Contains(trainingKinds, w.Kind) {
		v.TrainHours = w.RunHours
	}
	v.Allocation = s.unitPrices(w.Amount, v, weight)
	if w.Amount > 0 {
		share := w.Measured.Float() / w.Amount.Float()
		v.Measured = &share
	}
	if w.Measured > 0 {
		use := w.Used.Float() / w.Measured.Float()
		v.Utilisation = &use
		if *v.Measured >= measuredEnough {
			// Use is known for nearly all: the rest is taken to be used alike.
			v.Usage = s.unitPrices(w.Amount.MulDiv(int64(w.Used), int64(w.Measured)), v, weight)
		}
	}
	return v
}

func (s *Server) unitPrices(cost fleet.Money, v UnitEconomy, weight float64) UnitPrices {
	shown := s.money(cost)
	u := UnitPrices{Cost: &shown, PerKRequests: s.perUnit(cost, v.Requests, 1e3), PerTrainHour: s.perUnit(cost, v.TrainHours, 1), PerKeptMinutes: s.perUnit(cost, v.KeptMinutes, 1)}
	if v.TokensIn != nil && v.TokensOut != nil { // with one of them unknown, nobody can say what the other cost
		both, weighted := *v.TokensIn+*v.TokensOut, *v.TokensIn+weight**v.TokensOut
		u.PerMTokens = s.perUnit(cost, &both, 1e6)
		in, out := s.perUnit(cost, &weighted, 1e6), s.perUnit(cost, &weighted, 1e6*weight)
		if *v.TokensIn > 0 {
			u.PerMTokensIn = in
		}
		if *v.TokensOut > 0 {
			u.PerMTokensOut = out
		}
	}
	return u
}

// perUnit is the price of so many units; null without any.
func (s *Server) perUnit(cost fleet.Money, units *float64, of float64) *Money {
	if units == nil || *units <= 0 {
		return nil
	}
	price := cost.Float() / *units * of
	if math.IsNaN(price) || math.IsInf(price, 0) {
		return nil
	}
	m, err := fleet.MoneyFromFloat(price)
	if err != nil {
		return nil
	}
	v := s.money(m)
	return &v
}
