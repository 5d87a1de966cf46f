package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/store"
)

// CostCause is what a part of an owner's cost was for.
type CostCause struct {
	Cause     string  `json:"cause" enum:"broken,warm_idle,warm_pool,mig_fragment,mig_unusable" doc:"broken: held while the pod could not run; warm_idle: held with a model in memory and no work; warm_pool: held by a placeholder so that pods to come find room; mig_fragment: no MIG instance has it, though one could; mig_unusable: compute or memory that the layout leaves without its counterpart, which has no amount"`
	Reason    string  `json:"reason" doc:"of broken: the cluster's word, such as ImagePullBackOff" example:"ImagePullBackOff"`
	Kind      string  `json:"kind" enum:"workload,idle" doc:"whose cost it is a part of"`
	Resource  string  `json:"resource" enum:"cpu,memory,gpu,gpu_compute,gpu_memory"`
	Purchase  string  `json:"purchase"`
	Workload  string  `json:"workload" doc:"id; empty for bare pods and idle"`
	Name      string  `json:"name" doc:"key of the workload, or its namespace"`
	Namespace string  `json:"namespace"`
	Team      string  `json:"team"`
	Amount    Money   `json:"amount" doc:"part of what the owner is charged, never beside it"`
	Quantity  float64 `json:"quantity" doc:"core-hours, GiB-hours or GPU-hours"`
}

// CostCauses is what parts of the costs of a span were for.
type CostCauses struct {
	From  time.Time   `json:"from"`
	To    time.Time   `json:"to" doc:"exclusive"`
	Items []CostCause `json:"items" doc:"dearest first"`
}

func (s *Server) registerCostCauses() {
	op(s, huma.Operation{OperationID: "get-cost-causes", Method: http.MethodGet, Path: "/api/v1/cost/causes", Summary: "What was paid in vain, and why", Tags: []string{"cost"},
		Description: "Broken and warm-idle time of workloads, and the idle that MIG layouts make. At most 31 days, in whole hours."}, auth.RoleViewer, s.getCostCauses)
}

func (s *Server) getCostCauses(ctx context.Context, p auth.Principal, in *struct {
	CostFilter
	From time.Time `query:"from" doc:"default: 7 days before to"`
	To   time.Time `query:"to" doc:"default: the tenant's newest data"`
}) (*struct{ Body CostCauses }, error) {
	out := &struct{ Body CostCauses }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		scope := CostScope{CostFilter: in.CostFilter, From: in.From, To: in.To, Aggregate: "workload"}
		if scope.To.IsZero() {
			now, err := store.DataNow(ctx, tx)
			if err != nil {
				return err
			}
			scope.To = now.UTC()
		}
		if scope.From.IsZero() {
			scope.From = scope.To.AddDate(0, 0, -7)
		}
		q, err := scope.query(ctx, tx, time.Hour)
		if err != nil {
			return err
		}
		causes, err := store.Causes(ctx, tx, q)
		if err != nil {
			return err
		}
		out.Body = CostCauses{From: q.From, To: q.To, Items: make([]CostCause, 0, len(causes))}
		for _, c := range causes {
			out.Body.Items = append(out.Body.Items, s.showCause(c))
		}
		return nil
	})
	return out, err
}

func (s *Server) showCause(c store.CostCause) CostCause {
	name := c.Key
	if name == "" {
		name = c.Owner.Namespace
	}
	return CostCause{Cause: string(c.Name), Reason: c.Reason, Kind: string(c.Kind), Resource: string(c.Resource), Purchase: string(c.Purchase), Workload: string(c.Owner.Workload),
		Name: name, Namespace: c.Owner.Namespace, Team: c.Owner.Team, Amount: s.money(c.Amount), Quantity: c.Quantity}
}
