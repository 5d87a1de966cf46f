package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// Calendar is how the tenant counts its time, and who carries idle in its statements.
type Calendar struct {
	TimeZone    string `json:"time_zone" maxLength:"64" example:"Europe/Berlin" doc:"IANA"`
	FiscalMonth int    `json:"fiscal_month" minimum:"1" maximum:"12" doc:"in which the fiscal year begins"`
	WeekStart   int    `json:"week_start" minimum:"0" maximum:"6" doc:"0 is Sunday"`
	IdleScope   string `json:"idle_scope" enum:"separate,cluster,node" doc:"of statements: idle stands apart, or is carried by the workloads of its cluster, or of its machine"`
	IdleSpread  string `json:"idle_spread" enum:"weighted,even" doc:"in proportion to what each pays, or the same for each"`
}

// CostWindow is a span of the tenant's calendar.
type CostWindow struct {
	Name string    `json:"name"`
	From time.Time `json:"from"`
	To   time.Time `json:"to" doc:"exclusive; not cut at the newest data"`
}

// CalendarAnswer is the calendar with its windows as of the tenant's newest data.
type CalendarAnswer struct {
	Calendar
	DataNow    time.Time    `json:"data_now"`
	FiscalYear int          `json:"fiscal_year" doc:"by the year in which it ends"`
	Windows    []CostWindow `json:"windows" doc:"costs are kept by hours of UTC; an hour belongs to the day in which it begins"`
}

// calendarWindows are what people ask for by name.
var calendarWindows = []struct {
	name   string
	period ledger.Period
	shift  int
}{
	{"today", ledger.PeriodDay, 0}, {"yesterday", ledger.PeriodDay, -1}, {"week", ledger.PeriodWeek, 0}, {"last_week", ledger.PeriodWeek, -1},
	{"month", ledger.PeriodMonth, 0}, {"last_month", ledger.PeriodMonth, -1}, {"quarter", ledger.PeriodQuarter, 0}, {"last_quarter", ledger.PeriodQuarter, -1},
	{"year", ledger.PeriodYear, 0}, {"last_year", ledger.PeriodYear, -1},
}

// SharedCostRule says which costs all teams carry, and how.
type SharedCostRule struct {
	ID        string           `json:"id" format:"uuid" readOnly:"true"`
	Name      string           `json:"name" minLength:"1" maxLength:"100"`
	Pick      string           `json:"pick" enum:"namespace,team" doc:"whose workloads are shared"`
	Value     string           `json:"value" minLength:"1" maxLength:"253"`
	Spread    string           `json:"spread" enum:"even,weighted,fixed" doc:"the same for each team; in proportion to what each pays; in agreed parts"`
	Parts     map[string]int64 `json:"parts,omitempty" doc:"of fixed: parts by team, whole numbers. A team without costs of its own carries nothing"`
	CreatedBy string           `json:"created_by,omitempty" readOnly:"true"`
	CreatedAt *time.Time       `json:"created_at,omitempty" readOnly:"true"`
}

type sharedCostRules struct {
	Body struct {
		Items []SharedCostRule `json:"items" doc:"in the order in which they apply"`
	}
}

func (s *Server) registerCalendar() {
	tags := []string{"calendar"}
	op(s, huma.Operation{OperationID: "get-calendar", Method: http.MethodGet, Path: "/api/v1/calendar", Summary: "Time zone, fiscal year, and their windows", Tags: tags}, auth.RoleViewer, s.getCalendar)
	op(s, huma.Operation{OperationID: "put-calendar", Method: http.MethodPut, Path: "/api/v1/calendar", Summary: "Change how time is counted and idle is carried", Tags: tags, Errors: []int{422}}, auth.RoleAdmin, s.putCalendar)
	op(s, huma.Operation{OperationID: "list-shared-cost-rules", Method: http.MethodGet, Path: "/api/v1/shared-cost-rules", Summary: "Costs that all teams carry", Tags: tags}, auth.RoleViewer, s.listSharedCosts)
	op(s, huma.Operation{OperationID: "create-shared-cost-rule", Method: http.MethodPost, Path: "/api/v1/shared-cost-rules", Summary: "Share costs over all teams", Tags: tags, DefaultStatus: http.StatusCreated,
		Errors: []int{409, 422}}, auth.RoleFinance, s.createSharedCost)
	op(s, huma.Operation{OperationID: "delete-shared-cost-rule", Method: http.MethodDelete, Path: "/api/v1/shared-cost-rules/{id}", Summary: "Share them no more; statements that were issued stay", Tags: tags,
		DefaultStatus: http.StatusNoContent, Errors: []int{404}}, auth.RoleFinance, s.deleteSharedCost)
}

func (s *Server) getCalendar(ctx context.Context, p auth.Principal, _ *struct{}) (*struct{ Body CalendarAnswer }, error) {
	out := &struct{ Body CalendarAnswer }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		out.Body, err = showCalendar(ctx, tx)
		return err
	})
	return out, err
}

func showCalendar(ctx context.Context, tx *store.Tx) (CalendarAnswer, error) {
	c, err := store.LoadCounting(ctx, tx)
	if err != nil {
		return CalendarAnswer{}, err
	}
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return CalendarAnswer{}, err
	}
	calendar, err := c.Calendar()
	if err != nil {
		return CalendarAnswer{}, err
	}
	v := CalendarAnswer{Calendar: Calendar{TimeZone: c.Zone, FiscalMonth: c.FiscalMonth, WeekStart: c.WeekStart, IdleScope: c.IdleScope, IdleSpread: string(c.IdleSpread)},
		DataNow: now, FiscalYear: calendar.FiscalYear(now), Windows: make([]CostWindow, 0, len(calendarWindows))}
	for _, w := range calendarWindows {
		span, err := calendar.Span(w.period, now, w.shift)
		if err != nil {
			return v, err
		}
		v.Windows = append(v.Windows, CostWindow{Name: w.name, From: span.From, To: span.To})
	}
	return v, nil
}

func (s *Server) putCalendar(ctx context.Context, p auth.Principal, in *struct{ Body Calendar }) (*struct{ Body CalendarAnswer }, error) {
	out := &struct{ Body CalendarAnswer }{}
	if _, err := time.LoadLocation(in.Body.TimeZone); err != nil || in.Body.TimeZone == "" || in.Body.TimeZone == "Local" {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "this time zone is not known; use a name such as Europe/Berlin", Field: "body.time_zone"}
	}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		b := in.Body
		if err := store.SaveCounting(ctx, tx, store.Counting{Zone: b.TimeZone, FiscalMonth: b.FiscalMonth, WeekStart: b.WeekStart, IdleScope: b.IdleScope, IdleSpread: ledger.Spread(b.IdleSpread)}); err != nil {
			return err
		}
		if err := store.Audit(ctx, tx, p.Actor(), "calendar.change", "calendar", map[string]string{"time_zone": b.TimeZone, "idle_scope": b.IdleScope}); err != nil {
			return err
		}
		out.Body, err = showCalendar(ctx, tx)
		return err
	})
	return out, err
}

func showSharedCost(r store.SharedCostRule) SharedCostRule {
	at := r.CreatedAt
	return SharedCostRule{ID: r.ID, Name: r.Name, Pick: r.Pick, Value: r.Value, Spread: string(r.Spread), Parts: r.Parts, CreatedBy: r.CreatedBy, CreatedAt: &at}
}

func (s *Server) listSharedCosts(ctx context.Context, p auth.Principal, _ *struct{}) (*sharedCostRules, error) {
	out := &sharedCostRules{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		rules, err := store.SharedCostRules(ctx, tx)
		out.Body.Items = make([]SharedCostRule, 0, len(rules))
		for _, r := range rules {
			out.Body.Items = append(out.Body.Items, showSharedCost(r))
		}
		return err
	})
	return out, err
}

// maxParts of a fixed rule, and the largest of them.
const (
	maxParts = 500
	maxPart  = 1_000_000
)

func (s *Server) createSharedCost(ctx context.Context, p auth.Principal, in *struct{ Body SharedCostRule }) (*struct{ Body SharedCostRule }, error) {
	b := in.Body
	sum := int64(0)
	for team, part := range b.Parts {
		if part < 0 || part > maxPart || len(team) > 253 {
			return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "a part is a whole number from 0 to 1,000,000", Field: "body.parts"}
		}
		sum += part
	}
	switch fixed := b.Spread == "fixed"; {
	case len(b.Parts) > maxParts:
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "more than 500 parts", Field: "body.parts"}
	case fixed && sum == 0:
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "a fixed rule needs parts: nobody would carry these costs", Field: "body.parts"}
	case !fixed && len(b.Parts) > 0:
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "only a fixed rule has parts", Field: "body.parts"}
	}
	out := &struct{ Body SharedCostRule }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		r, err := store.AddSharedCostRule(ctx, tx, store.SharedCostRule{SharedRule: ledger.SharedRule{Pick: b.Pick, Value: b.Value, Spread: ledger.Spread(b.Spread), Parts: b.Parts}, Name: b.Name, CreatedBy: p.Actor()})
		if err != nil {
			return err
		}
		out.Body = showSharedCost(r)
		return store.Audit(ctx, tx, p.Actor(), "shared_cost.create", "shared_cost/"+r.ID, map[string]string{"name": b.Name, "pick": b.Pick, "value": b.Value, "spread": b.Spread})
	})
	return out, err
}

func (s *Server) deleteSharedCost(ctx context.Context, p auth.Principal, in *struct {
	ID string `path:"id" format:"uuid"`
}) (*struct{}, error) {
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DropSharedCostRule(ctx, tx, in.ID); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "shared_cost.delete", "shared_cost/"+in.ID, nil)
	})
	return nil, err
}
