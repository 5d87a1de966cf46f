package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// CostChange is why a group's cost differs between two windows: quantity + mix + price = after - before, exactly.
type CostChange struct {
	Key      string `json:"key"`
	Name     string `json:"name"`
	Kind     string `json:"kind" enum:"workload,idle,overhead,residual,commitment_unused"`
	Before   Money  `json:"before"`
	After    Money  `json:"after"`
	Delta    Money  `json:"delta"`
	Quantity Money  `json:"quantity" doc:"more or fewer hours held, at the mean price of before"`
	Mix      Money  `json:"mix" doc:"other ways of buying or other workloads, each at its price of before"`
	Price    Money  `json:"price" doc:"another price for the same, at the hours of now"`
}

// CostComparison is what changed between two windows.
type CostComparison struct {
	From       time.Time    `json:"from"`
	To         time.Time    `json:"to"`
	BeforeFrom time.Time    `json:"before_from"`
	BeforeTo   time.Time    `json:"before_to"`
	Aggregate  string       `json:"aggregate"`
	Total      CostChange   `json:"total" doc:"the sum of the items"`
	Items      []CostChange `json:"items" doc:"largest change first; what is beyond the limit is summed as key \"other\""`
	OpenHours  int          `json:"open_hours" doc:"hours of both windows that are provisional"`
	Unpriced   bool         `json:"unpriced" doc:"some hours of either window have no price, and are in no figure"`
}

// CompareQuery selects the two windows. Exported because huma passes over embedded types that are not.
type CompareQuery struct {
	CostFilter
	From       time.Time `query:"from" required:"true" doc:"a whole hour"`
	To         time.Time `query:"to" required:"true" doc:"exclusive"`
	BeforeFrom time.Time `query:"before_from" doc:"default: the window of the same length before"`
	BeforeTo   time.Time `query:"before_to"`
	Aggregate  string    `query:"aggregate" default:"team" enum:"team,namespace,workload,cluster"`
	Limit      int       `query:"limit" minimum:"1" maximum:"5000" default:"200"`
}

func (s *Server) registerCompare() {
	op(s, huma.Operation{OperationID: "compare-costs", Method: http.MethodGet, Path: "/api/v1/cost/compare", Summary: "What changed between two windows: quantity, mix, price", Tags: []string{"cost"},
		Description: "The three effects of every group add up to its change to the nano-unit. Windows of different length are compared as they are."}, auth.RoleViewer, s.compareCosts)
	op(s, huma.Operation{OperationID: "get-cost-trace", Method: http.MethodGet, Path: "/api/v1/cost/trace", Summary: "One workload's hour: machines, pods, and the decision behind them", Tags: []string{"cost"},
		Errors: []int{404}}, auth.RoleViewer, s.getCostTrace)
	op(s, huma.Operation{OperationID: "get-cost-hours", Method: http.MethodGet, Path: "/api/v1/cost/hours", Summary: "One workload's cost by hour, with what was decided in each", Tags: []string{"cost"}}, auth.RoleViewer, s.getCostHours)
}

// wholeSpan checks a span of whole hours.
func wholeSpan(from, to time.Time, field string) (fleet.Interval, error) {
	from, to = from.UTC(), to.UTC()
	switch {
	case !from.Equal(from.Truncate(time.Hour)) || !to.Equal(to.Truncate(time.Hour)):
		return fleet.Interval{}, &fleet.Error{Code: fleet.CodeInvalid, Message: "a window begins and ends at a full hour", Field: field}
	case !from.Before(to):
		return fleet.Interval{}, &fleet.Error{Code: fleet.CodeInvalid, Message: "from must lie before to", Field: field}
	case to.Sub(from) > maxCostDays:
		return fleet.Interval{}, &fleet.Error{Code: fleet.CodeInvalid, Message: "the span is too long: at most 400 days", Field: field}
	}
	return fleet.Interval{From: from, To: to}, nil
}

func (s *Server) compareCosts(ctx context.Context, p auth.Principal, in *CompareQuery) (*struct{ Body CostComparison }, error) {
	now, err := wholeSpan(in.From, in.To, "query.from")
	if err != nil {
		return nil, err
	}
	if in.BeforeFrom.IsZero() != in.BeforeTo.IsZero() {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "before_from and before_to come together", Field: "query.before_from"}
	}
	if in.BeforeFrom.IsZero() {
		in.BeforeFrom, in.BeforeTo = now.From.Add(now.From.Sub(now.To)), now.From
	}
	before, err := wholeSpan(in.BeforeFrom, in.BeforeTo, "query.before_from")
	if err != nil {
		return nil, err
	}
	out := &struct{ Body CostComparison }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		var cells [2][]ledger.Cell
		for i, span := range []fleet.Interval{before, now} {
			rows, err := store.OwnerCosts(ctx, tx, store.CostQuery{From: span.From, To: span.To, Cluster: in.Cluster, Namespace: in.Namespace, Team: in.Team, Workload: in.Workload})
			if err != nil {
				return err
			}
			coverage, err := store.Coverage(ctx, tx, in.Cluster, span.From, span.To)
			if err != nil {
				return err
			}
			out.Body.OpenHours += coverage.OpenHours
			for _, r := range rows {
				out.Body.Unpriced = out.Body.Unpriced || r.Unpriced > 0
				cells[i] = append(cells[i], ledger.Cell{Group: compareGroup(in.Aggregate, r), Resource: r.Resource, Variant: string(r.Purchase) + " " + string(r.Owner.Workload), Amount: r.Amount, Quantity: r.Quantity - r.Unpriced})
			}
		}
		changes := ledger.Compare(cells[0], cells[1])
		names, err := compareNames(ctx, tx, in.Aggregate, changes)
		if err != nil {
			return err
		}
		out.Body.From, out.Body.To, out.Body.BeforeFrom, out.Body.BeforeTo, out.Body.Aggregate = now.From, now.To, before.From, before.To, in.Aggregate
		var total, other ledger.Change
		out.Body.Items = make([]CostChange, 0, min(len(changes), in.Limit+1))
		for i, c := range changes {
			total = plus(total, c)
			if i >= in.Limit {
				other = plus(other, c)
				continue
			}
			kind, key, _ := strings.Cut(c.Group, " ")
			out.Body.Items = append(out.Body.Items, s.showChange(c, kind, key, nameOf(names, key)))
		}
		if len(changes) > in.Limit {
			out.Body.Items = append(out.Body.Items, s.showChange(other, string(ledger.KindWorkload), "other", "other"))
		}
		out.Body.Total = s.showChange(total, string(ledger.KindWorkload), "", "")
		return nil
	})
	return out, err
}

func plus(a, b ledger.Change) ledger.Change {
	a.Before, a.After, a.Quantity, a.Mix, a.Price = a.Before.Add(b.Before), a.After.Add(b.After), a.Quantity.Add(b.Quantity), a.Mix.Add(b.Mix), a.Price.Add(b.Price)
	return a
}

func compareGroup(aggregate string, r store.OwnerCost) string {
	key := ""
	switch {
	case aggregate == "cluster":
		key = string(r.Cluster)
	case r.Kind != ledger.KindWorkload:
	case aggregate == "team":
		key = r.Owner.Team
	case aggregate == "namespace":
		key = r.Owner.Namespace
	case r.Owner.Workload == "":
		key = "namespace/" + r.Owner.Namespace
	default:
		key = string(r.Owner.Workload)
	}
	return string(r.Kind) + " " + key
}

func compareNames(ctx context.Context, tx *store.Tx, aggregate string, changes []ledger.Change) (map[string]string, error) {
	groups := make([]*costGroup, 0, len(changes))
	for _, c := range changes {
		_, key, _ := strings.Cut(c.Group, " ")
		groups = append(groups, &costGroup{key: key})
	}
	return costNames(ctx, tx, aggregate, groups)
}

func (s *Server) showChange(c ledger.Change, kind, key, name string) CostChange {
	return CostChange{Key: key, Name: name, Kind: kind, Before: s.money(c.Before), After: s.money(c.After), Delta: s.money(c.After - c.Before), Quantity: s.money(c.Quantity), Mix: s.money(c.Mix), Price: s.money(c.Price)}
}
