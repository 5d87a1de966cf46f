package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Restatement is an order to let a bill's prices stand in the ledger.
type Restatement struct {
	ID           string     `json:"id" format:"uuid"`
	From         time.Time  `json:"from"`
	To           time.Time  `json:"to" doc:"exclusive"`
	Machines     int        `json:"machines"`
	MachineHours int        `json:"machine_hours"`
	Before       Money      `json:"before" doc:"of these hours, as the ledger had them"`
	After        Money      `json:"after" doc:"as the bill has them, rounded to nano-units a machine and day"`
	Bills        []string   `json:"bills" doc:"ids"`
	WaitingHours int        `json:"waiting_hours" doc:"hours of clusters that are to be costed again; the ledger shows the version before until then"`
	CreatedBy    string     `json:"created_by"`
	CreatedAt    time.Time  `json:"created_at"`
	UndoneBy     string     `json:"undone_by,omitempty"`
	UndoneAt     *time.Time `json:"undone_at" doc:"null: it counts"`
}

// RestatementRequest says which days are restated.
type RestatementRequest struct {
	From time.Time `json:"from" doc:"a whole day, UTC"`
	To   time.Time `json:"to" doc:"exclusive; a whole day, UTC"`
}

func (s *Server) registerRestatements() {
	tags := []string{"bills"}
	op(s, huma.Operation{OperationID: "list-restatements", Method: http.MethodGet, Path: "/api/v1/restatements", Summary: "List restatements", Tags: tags}, auth.RoleViewer, s.listRestatements)
	op(s, huma.Operation{OperationID: "restate", Method: http.MethodPost, Path: "/api/v1/restatements", Summary: "Let bills' prices of machines stand for the estimates of closed days",
		Description: "Every machine's day that a bill has another amount for is costed again at the bill's amount, split to owners as before. What was in the ledger stays readable with as_of. Days older than 60 cannot be restated.",
		Tags:        tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 413, 422, 503}, MaxBodyBytes: 1 << 16}, auth.RoleFinance, s.restate)
	op(s, huma.Operation{OperationID: "undo-restatement", Method: http.MethodPost, Path: "/api/v1/restatements/{id}/undo", Summary: "Let the frozen prices count again", Tags: tags, Errors: []int{404, 409}},
		auth.RoleFinance, s.undoRestatement)
}

func (s *Server) listRestatements(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []Restatement `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Restatement `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.Restatements(ctx, tx)
		out.Body.Items = make([]Restatement, 0, len(all))
		for _, r := range all {
			out.Body.Items = append(out.Body.Items, s.showRestatement(r))
		}
		return err
	})
	return out, err
}

func (s *Server) restate(ctx context.Context, p auth.Principal, in *struct{ Body RestatementRequest }) (*struct{ Body Restatement }, error) {
	from, to, err := daySpan(in.Body.From, in.Body.To)
	if err != nil {
		return nil, err
	}
	if to.Sub(from) > store.RestateFloor {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the span is too long: at most 60 days can be restated")
	}
	if err := s.takeExport(); err != nil {
		return nil, err
	}
	defer func() { <-s.exports }()
	ctx, cancel := context.WithTimeout(ctx, reconcileDeadline)
	defer cancel()
	out := &struct{ Body Restatement }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		r, err := store.Restate(ctx, tx, from, to, p.Actor())
		if err != nil {
			return err
		}
		out.Body = s.showRestatement(r)
		return store.Audit(ctx, tx, p.Actor(), "restatement.create", "restatement/"+r.ID, map[string]string{"from": from.Format(time.DateOnly), "to": to.Format(time.DateOnly), "machine_hours": strconv.Itoa(r.Hours),
			"before": r.Before.String(), "after": r.After.String()})
	})
	return out, err
}

func (s *Server) undoRestatement(ctx context.Context, p auth.Principal, in *BillPath) (*struct{ Body Restatement }, error) {
	out := &struct{ Body Restatement }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		r, err := store.UndoRestatement(ctx, tx, in.ID, p.Actor())
		if err != nil {
			return err
		}
		out.Body = s.showRestatement(r)
		return store.Audit(ctx, tx, p.Actor(), "restatement.undo", "restatement/"+r.ID, map[string]string{"from": r.From.Format(time.DateOnly), "to": r.To.Format(time.DateOnly)})
	})
	return out, err
}

func (s *Server) showRestatement(r store.Restatement) Restatement {
	v := Restatement{ID: r.ID, From: r.From.UTC(), To: r.To.UTC(), Machines: r.Machines, MachineHours: r.Hours, Before: s.money(r.Before), After: s.money(r.After), Bills: r.Bills, WaitingHours: r.Waiting,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(), UndoneBy: r.UndoneBy, UndoneAt: r.UndoneAt}
	if v.Bills == nil {
		v.Bills = []string{}
	}
	return v
}
