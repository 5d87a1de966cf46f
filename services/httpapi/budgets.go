package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// Budget is a monthly limit and how it stands. Empty scope fields mean all.
type Budget struct {
	ID            fleet.BudgetID   `json:"id"`
	Name          string           `json:"name"`
	Cluster       fleet.ClusterID  `json:"cluster_id,omitempty"`
	Namespace     string           `json:"namespace,omitempty"`
	Team          string           `json:"team,omitempty"`
	Workload      fleet.WorkloadID `json:"workload_id,omitempty"`
	Amount        Money            `json:"amount" doc:"per calendar month, UTC"`
	Thresholds    []int            `json:"thresholds" doc:"percent"`
	Webhook       string           `json:"webhook_id,omitempty"`
	CreatedAt     time.Time        `json:"created_at"`
	PeriodStart   time.Time        `json:"period_start"`
	PeriodEnd     time.Time        `json:"period_end" doc:"exclusive"`
	Spent         Money            `json:"spent"`
	SpentRatio    float64          `json:"spent_ratio"`
	Forecast      *Money           `json:"forecast" doc:"at the period's end, if the mean rate of the last seven days holds; null before an hour of data"`
	ForecastRatio *float64         `json:"forecast_ratio"`
	Crossed       []BudgetCrossing `json:"crossed" doc:"thresholds that are reached now"`
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
	Amount     string           `json:"amount" example:"5000.00" maxLength:"24" doc:"decimal, in the tenant's currency, per calendar month"`
	Thresholds []int            `json:"thresholds,omitempty" minItems:"1" maxItems:"10" uniqueItems:"true" doc:"percent, 1 to 1000; default 50, 80, 100"`
	Webhook    string           `json:"webhook_id,omitempty" format:"uuid"`
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
		out.Body.Items = make([]Budget, 0, len(budgets))
		for _, b := range budgets {
			shown, err := s.showBudget(ctx, tx, b)
			if err != nil {
				return err
			}
			out.Body.Items = append(out.Body.Items, shown.Budget)
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
		out.Body, err = s.showBudget(ctx, tx, b)
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
		shown, err := s.showBudget(ctx, tx, saved)
		if err != nil {
			return err
		}
		out.Body = shown.Budget
		if err := s.deps.Queue.CheckBudgetsSoon(ctx, tx); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), action, "budget/"+string(saved.ID), map[string]string{"name": saved.Name, "amount": saved.Amount.String()})
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
	return store.Budget{ID: id, Name: b.Name, Cluster: b.Cluster, Namespace: b.Namespace, Team: b.Team, Workload: b.Workload, Amount: amount,
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

// showBudget adds how a budget stands at the tenant's data time.
func (s *Server) showBudget(ctx context.Context, tx *store.Tx, b store.Budget) (BudgetDetail, error) {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return BudgetDetail{}, err
	}
	now = now.UTC()
	previous := time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC)
	days, err := store.DailySpend(ctx, tx, b, previous, now.AddDate(0, 0, 1))
	if err != nil {
		return BudgetDetail{}, err
	}
	look := ledger.Look(days, now)
	v := BudgetDetail{Days: make([]DayCost, 0, len(days)), Budget: Budget{ID: b.ID, Name: b.Name, Cluster: b.Cluster, Namespace: b.Namespace, Team: b.Team, Workload: b.Workload,
		Amount: s.money(b.Amount), Thresholds: b.Thresholds, Webhook: b.Webhook, CreatedAt: b.CreatedAt.UTC(), PeriodStart: look.From, PeriodEnd: look.To,
		Spent: s.money(look.ToDate), SpentRatio: look.ToDate.Float() / b.Amount.Float(), Crossed: []BudgetCrossing{}}}
	if look.Known {
		f, ratio := s.money(look.Forecast), look.Forecast.Float()/b.Amount.Float()
		v.Forecast, v.ForecastRatio = &f, &ratio
	}
	for _, c := range ledger.Crossed(b.Amount, b.Thresholds, look) {
		v.Crossed = append(v.Crossed, BudgetCrossing{c.Basis, c.Percent})
	}
	for _, d := range days {
		v.Days = append(v.Days, DayCost{Day: d.Day.UTC().Format(time.DateOnly), Amount: s.money(d.Amount)})
	}
	return v, nil
}
