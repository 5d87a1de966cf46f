package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// Budget is a limit and how it stood at its last check. Empty scope fields mean all.
type Budget struct {
	ID            fleet.BudgetID   `json:"id"`
	Name          string           `json:"name"`
	Cluster       fleet.ClusterID  `json:"cluster_id,omitempty"`
	Namespace     string           `json:"namespace,omitempty"`
	Team          string           `json:"team,omitempty"`
	Workload      fleet.WorkloadID `json:"workload_id,omitempty"`
	Amount        Money            `json:"amount" doc:"per period"`
	Thresholds    []int            `json:"thresholds" doc:"percent"`
	Webhook       string           `json:"webhook_id,omitempty"`
	CreatedAt     time.Time        `json:"created_at"`
	PeriodStart   time.Time        `json:"period_start"`
	PeriodEnd     time.Time        `json:"period_end" doc:"exclusive"`
	Spent         Money            `json:"spent"`
	SpentRatio    float64          `json:"spent_ratio"`
	Forecast      *Money           `json:"forecast" doc:"at the period's end: the level of the last week, shaped by the hours of the week; null before three hours of data"`
	ForecastRatio *float64         `json:"forecast_ratio"`
	Crossed       []BudgetCrossing `json:"crossed" doc:"thresholds that are reached now"`
	Period        ledger.Period    `json:"period" enum:"day,week,month,quarter,year" doc:"of the tenant's calendar"`
	LabelKey      string           `json:"label_key,omitempty" doc:"of workloads"`
	LabelValue    string           `json:"label_value,omitempty"`
	ForecastLow   *Money           `json:"forecast_low" doc:"eight of ten ends of the back-test lie between low and high; null: too little to test on"`
	ForecastHigh  *Money           `json:"forecast_high"`
	ForecastError *float64         `json:"forecast_error" doc:"mean absolute error of the back-test, as a share of what came; null: too little to test on"`
	TestOrigins   int              `json:"forecast_test_origins" doc:"from how many earlier moments the back-test forecast"`
	TestHours     int              `json:"forecast_test_hours" doc:"how far each of them looked"`
	UsualHour     Money            `json:"usual_hour" doc:"what an hour like the present one costs"`
	AllowedHour   Money            `json:"allowed_hour" doc:"what may be spent per hour from now on so that the rest lasts to the period's end"`
	CheckedAt     time.Time        `json:"checked_at" doc:"data time"`
	Enforced      bool             `json:"enforced" doc:"planning keeps within it"`
	Breaker       *BudgetBreaker   `json:"breaker" doc:"null: there is none"`
}

// BudgetBreaker freezes scale-ups of a budget's scope when the spend rate is a multiple of the usual one.
type BudgetBreaker struct {
	Percent   int        `json:"percent" doc:"of the usual hour"`
	Minutes   int        `json:"minutes" doc:"for how long; 0: until somebody resets it"`
	Limit     Money      `json:"limit_hour" doc:"the rate at which it trips"`
	Tripped   bool       `json:"tripped" doc:"scale-ups are frozen now"`
	TrippedAt *time.Time `json:"tripped_at"`
	Until     *time.Time `json:"until"`
}

// BudgetCrossing is a threshold that a budget has reached.
type BudgetCrossing struct {
	Basis   ledger.Basis `json:"basis" enum:"actual,forecast"`
	Percent int          `json:"percent"`
}

// BudgetDetail is a budget with its days.
type BudgetDetail struct {
	Budget
	Days []DayCost `json:"days" doc:"this month and the one before, oldest first"`
}

type budgetBody struct {
	Name       string           `json:"name" minLength:"1" maxLength:"100"`
	Cluster    fleet.ClusterID  `json:"cluster_id,omitempty" format:"uuid"`
	Namespace  string           `json:"namespace,omitempty" maxLength:"253"`
	Team       string           `json:"team,omitempty" maxLength:"253"`
	Workload   fleet.WorkloadID `json:"workload_id,omitempty" format:"uuid"`
	Amount     string           `json:"amount" example:"5000.00" maxLength:"24" doc:"decimal, in the tenant's currency, per period"`
	Thresholds []int            `json:"thresholds,omitempty" minItems:"1" maxItems:"10" uniqueItems:"true" doc:"percent, 1 to 1000; default 50, 80, 100"`
	Webhook    string           `json:"webhook_id,omitempty" format:"uuid" doc:"a channel that is told besides those of the routes"`
	Period     ledger.Period    `json:"period,omitempty" enum:"day,week,month,quarter,year" doc:"default month"`
	LabelKey   string           `json:"label_key,omitempty" maxLength:"317"`
	LabelValue string           `json:"label_value,omitempty" maxLength:"63"`
	Enforced   bool             `json:"enforced,omitempty" doc:"planning keeps within it: nothing is raised past what is left, batch and economy give way before standard; gold is let through"`
	Breaker    int              `json:"breaker_percent,omitempty" minimum:"0" maximum:"10000" doc:"of the usual hour; 110 or more; 0: no breaker"`
	Minutes    *int             `json:"breaker_minutes,omitempty" minimum:"0" maximum:"10080" doc:"default 60; 0: until somebody resets it"`
}

// BudgetPath names a budget. Exported because huma passes over embedded types that are not.
type BudgetPath struct {
	ID fleet.BudgetID `path:"id" format:"uuid"`
}

const maxBudgets = 200

func (s *Server) registerBudgets() {
	tags := []string{"budgets"}
	op(s, huma.Operation{OperationID: "list-budgets", Method: http.MethodGet, Path: "/api/v1/budgets", Summary: "List budgets and how they stand", Tags: tags},
		auth.RoleViewer, s.listBudgets)
	op(s, huma.Operation{OperationID: "create-budget", Method: http.MethodPost, Path: "/api/v1/budgets", Summary: "Create a budget", Tags: tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 422}},
		auth.RoleFinance, s.createBudget)
	op(s, huma.Operation{OperationID: "get-budget", Method: http.MethodGet, Path: "/api/v1/budgets/{id}", Summary: "Get a budget with its days", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.getBudget)
	op(s, huma.Operation{OperationID: "put-budget", Method: http.MethodPut, Path: "/api/v1/budgets/{id}", Summary: "Change a budget", Tags: tags, Errors: []int{404, 409, 422}},
		auth.RoleFinance, s.putBudget)
	op(s, huma.Operation{OperationID: "delete-budget", Method: http.MethodDelete, Path: "/api/v1/budgets/{id}", Summary: "Delete a budget", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{404}},
		auth.RoleFinance, s.deleteBudget)
	op(s, huma.Operation{OperationID: "reset-budget-breaker", Method: http.MethodPost, Path: "/api/v1/budgets/{id}/reset-breaker", Summary: "Let scale-ups go on after a spend-rate breaker tripped", Tags: tags, Errors: []int{404, 409}},
		auth.RoleOperator, s.resetBreaker)
}

func (s *Server) listBudgets(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []Budget `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Budget `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		budgets, err := store.Budgets(ctx, tx)
		if err != nil {
			return err
		}
		standings, err := store.BudgetStandings(ctx, tx)
		if err != nil {
			return err
		}
		out.Body.Items = make([]Budget, 0, len(budgets))
		for _, b := range budgets {
			standing, ok := standings[b.ID]
			if !ok {
				if standing, err = stand(ctx, tx, b); err != nil {
					return err
				}
			}
			out.Body.Items = append(out.Body.Items, s.showBudget(b, standing))
		}
		return nil
	})
	return out, err
}

func (s *Server) getBudget(ctx context.Context, p auth.Principal, in *BudgetPath) (*struct{ Body BudgetDetail }, error) {
	out := &struct{ Body BudgetDetail }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		b, err := store.LoadBudget(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		standing, err := stand(ctx, tx, b)
		if err != nil {
			return err
		}
		out.Body.Budget, out.Body.Days = s.showBudget(b, standing), []DayCost{}
		previous := time.Date(standing.At.Year(), standing.At.Month()-1, 1, 0, 0, 0, 0, time.UTC)
		days, err := store.DailySpend(ctx, tx, b, previous, standing.At.AddDate(0, 0, 1))
		for _, d := range days {
			out.Body.Days = append(out.Body.Days, DayCost{Day: d.Day.UTC().Format(time.DateOnly), Amount: s.money(d.Amount)})
		}
		return err
	})
	return out, err
}

func (s *Server) createBudget(ctx context.Context, p auth.Principal, in *struct{ Body budgetBody }) (*struct{ Body Budget }, error) {
	return s.saveBudget(ctx, p, "", in.Body, "budget.create")
}

func (s *Server) putBudget(ctx context.Context, p auth.Principal, in *struct {
	BudgetPath
	Body budgetBody
}) (*struct{ Body Budget }, error) {
	return s.saveBudget(ctx, p, in.ID, in.Body, "budget.change")
}

func (s *Server) saveBudget(ctx context.Context, p auth.Principal, id fleet.BudgetID, body budgetBody, action string) (*struct{ Body Budget }, error) {
	b, err := body.read(id)
	if err != nil {
		return nil, err
	}
	out := &struct{ Body Budget }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if id == "" {
			all, err := store.Budgets(ctx, tx)
			if err != nil {
				return err
			}
			if len(all) >= maxBudgets {
				return fleet.Errorf(fleet.CodeConflict, "a tenant has at most %d budgets", maxBudgets)
			}
		}
		saved, err := store.SaveBudget(ctx, tx, b)
		if err != nil {
			return err
		}
		standing, err := stand(ctx, tx, saved)
		if err != nil {
			return err
		}
		out.Body = s.showBudget(saved, standing)
		if err := s.deps.Queue.CheckBudgetsSoon(ctx, tx); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), action, "budget/"+string(saved.ID), map[string]string{"name": saved.Name, "amount": saved.Amount.String(),
			"period": string(saved.Period), "enforced": strconv.FormatBool(saved.Enforced), "breaker_percent": strconv.Itoa(saved.BreakerPercent)})
	})
	return out, err
}

func (b budgetBody) read(id fleet.BudgetID) (store.Budget, error) {
	amount, err := fleet.ParseMoney(b.Amount)
	if err != nil || amount <= 0 {
		return store.Budget{}, &fleet.Error{Code: fleet.CodeInvalid, Message: "the amount must be a decimal above zero", Field: "body.amount"}
	}
	thresholds := slices.Clone(b.Thresholds)
	if len(thresholds) == 0 {
		thresholds = []int{50, 80, 100}
	}
	slices.Sort(thresholds)
	if thresholds[0] < 1 || thresholds[len(thresholds)-1] > 1000 {
		return store.Budget{}, &fleet.Error{Code: fleet.CodeInvalid, Message: "thresholds are percent from 1 to 1000", Field: "body.thresholds"}
	}
	minutes := 60
	if b.Minutes != nil {
		minutes = *b.Minutes
	}
	switch {
	case (b.LabelKey == "") != (b.LabelValue == ""):
		return store.Budget{}, &fleet.Error{Code: fleet.CodeInvalid, Message: "a label has a key and a value", Field: "body.label_value"}
	case b.Breaker != 0 && b.Breaker < 110:
		return store.Budget{}, &fleet.Error{Code: fleet.CodeInvalid, Message: "a breaker trips at 110 percent of the usual hour or more", Field: "body.breaker_percent"}
	}
	return store.Budget{ID: id, Period: b.Period, LabelKey: b.LabelKey, LabelValue: b.LabelValue, Enforced: b.Enforced, BreakerPercent: b.Breaker, BreakerMinutes: minutes, Name: b.Name, Cluster: b.Cluster, Namespace: b.Namespace, Team: b.Team, Workload: b.Workload, Amount: amount,
		Thresholds: slices.Compact(thresholds), Webhook: b.Webhook}, nil
}

func (s *Server) deleteBudget(ctx context.Context, p auth.Principal, in *BudgetPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DeleteBudget(ctx, tx, in.ID); err != nil {
			return err
		}
		if err := s.deps.Queue.CheckBudgetsSoon(ctx, tx); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "budget.delete", "budget/"+string(in.ID), nil)
	})
}

func (s *Server) resetBreaker(ctx context.Context, p auth.Principal, in *BudgetPath) (*struct{ Body Budget }, error) {
	out := &struct{ Body Budget }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.ResetBreaker(ctx, tx, in.ID); err != nil {
			return err
		}
		b, err := store.LoadBudget(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		standing, err := stand(ctx, tx, b)
		if err != nil {
			return err
		}
		out.Body = s.showBudget(b, standing)
		if err := s.deps.Queue.CheckBudgetsSoon(ctx, tx); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "budget.reset_breaker", "budget/"+string(in.ID), map[string]string{"name": b.Name})
	})
	return out, err
}

// stand holds a budget against its costs at the tenant's data time.
func stand(ctx context.Context, tx *store.Tx, b store.Budget) (store.BudgetStanding, error) {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return store.BudgetStanding{}, err
	}
	counting, err := store.LoadCounting(ctx, tx)
	if err != nil {
		return store.BudgetStanding{}, err
	}
	calendar, err := counting.Calendar()
	if err != nil {
		return store.BudgetStanding{}, err
	}
	return store.StandBudget(ctx, tx, b, calendar, now)
}

// showBudget is a budget and how it stands.
func (s *Server) showBudget(b store.Budget, st store.BudgetStanding) Budget {
	v := Budget{ID: b.ID, Name: b.Name, Cluster: b.Cluster, Namespace: b.Namespace, Team: b.Team, Workload: b.Workload,
		Amount: s.money(b.Amount), Thresholds: b.Thresholds, Webhook: b.Webhook, CreatedAt: b.CreatedAt.UTC(), PeriodStart: st.From, PeriodEnd: st.To,
		Spent: s.money(st.Spent), SpentRatio: st.Spent.Float() / b.Amount.Float(), Crossed: []BudgetCrossing{},
		Period: b.Period, LabelKey: b.LabelKey, LabelValue: b.LabelValue, Enforced: b.Enforced, CheckedAt: st.At,
		UsualHour: s.money(store.UsualHour(b, st)), AllowedHour: s.money(st.Allowed), ForecastError: st.Forecast.Error, TestOrigins: st.Forecast.Origins, TestHours: st.Forecast.HorizonHours}
	if st.Forecast.Known {
		f, ratio := s.money(st.Forecast.Total), st.Forecast.Total.Float()/b.Amount.Float()
		v.Forecast, v.ForecastRatio = &f, &ratio
	}
	if st.Forecast.HasBand {
		low, high := s.money(st.Forecast.Low), s.money(st.Forecast.High)
		v.ForecastLow, v.ForecastHigh = &low, &high
	}
	if b.BreakerPercent > 0 {
		v.Breaker = &BudgetBreaker{Percent: b.BreakerPercent, Minutes: b.BreakerMinutes, Limit: s.money(store.UsualHour(b, st).MulDiv(int64(b.BreakerPercent), 100)),
			Tripped: b.Tripped(st.At), TrippedAt: b.TrippedAt, Until: b.TrippedUntil}
	}
	for _, c := range st.Crossed(b) {
		v.Crossed = append(v.Crossed, BudgetCrossing{c.Basis, c.Percent})
	}
	return v
}
