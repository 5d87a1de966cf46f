package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// Hint is load that somebody expects of a workload: a floor under what its policy asks for, never above the policy's maximum.
type Hint struct {
	ID        string             `json:"id"`
	From      time.Time          `json:"from"`
	To        time.Time          `json:"to"`
	Kind      optimizer.HintKind `json:"kind" enum:"factor,rate,replicas"`
	Amount    float64            `json:"amount" doc:"times the demand of the hour before; requests per second; replicas"`
	Note      string             `json:"note"`
	CreatedBy string             `json:"created_by"`
	CreatedAt time.Time          `json:"created_at"`
	State     string             `json:"state" enum:"ahead,now,over" doc:"by our clock; it takes effect one start of a replica earlier"`
}

type hintBody struct {
	From   time.Time          `json:"from"`
	To     time.Time          `json:"to" doc:"in the future, at most 31 days after from"`
	Kind   optimizer.HintKind `json:"kind" enum:"factor,rate,replicas" doc:"factor: times the demand of the hour before; rate: requests per second; replicas: at least so many. Factor and rate need a policy with an slo rule"`
	Amount float64            `json:"amount" doc:"more than 0; a factor at most 100"`
	Note   string             `json:"note,omitempty" maxLength:"500" doc:"what the event is"`
}

// HintList is a workload's hints, and whether anything reads them.
type HintList struct {
	Items []Hint `json:"items" doc:"by when they begin; overlapping ones may be, the largest wins"`
	Most  int    `json:"most" doc:"that may be there at a time"`
	Reads string `json:"reads" enum:"all,replicas,none" doc:"what the policy in force can use: all with an slo rule, replicas with other rules, none without a policy"`
}

// HintPath names a hint. Exported because huma passes over embedded types that are not.
type HintPath struct {
	ID   fleet.WorkloadID `path:"id" format:"uuid"`
	Hint string           `path:"hint" format:"uuid"`
}

func (s *Server) registerHints() {
	tags := []string{"workloads"}
	op(s, huma.Operation{OperationID: "list-workload-hints", Method: http.MethodGet, Path: "/api/v1/workloads/{id}/hints", Summary: "List the load that people expect of a workload", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.listHints)
	op(s, huma.Operation{OperationID: "create-workload-hint", Method: http.MethodPost, Path: "/api/v1/workloads/{id}/hints", Summary: "Tell that a workload will have more load for a while", Tags: tags,
		DefaultStatus: http.StatusCreated, Errors: []int{404, 409, 422}}, auth.RoleOperator, s.createHint)
	op(s, huma.Operation{OperationID: "delete-workload-hint", Method: http.MethodDelete, Path: "/api/v1/workloads/{id}/hints/{hint}", Summary: "Take back a hint", Tags: tags,
		DefaultStatus: http.StatusNoContent, Errors: []int{404}}, auth.RoleOperator, s.deleteHint)
}

func showHint(h store.Hint, now time.Time) Hint {
	state := "now"
	switch {
	case !h.To.After(now):
		state = "over"
	case h.From.After(now):
		state = "ahead"
	}
	return Hint{ID: h.ID, From: h.From, To: h.To, Kind: h.Kind, Amount: h.Amount, Note: h.Note, CreatedBy: h.CreatedBy, CreatedAt: h.CreatedAt, State: state}
}

func (s *Server) listHints(ctx context.Context, p auth.Principal, in *struct {
	WorkloadPath
	Past bool `query:"past" doc:"also those of the last 30 days that are over"`
}) (*struct{ Body HintList }, error) {
	out := &struct{ Body HintList }{Body: HintList{Items: []Hint{}, Most: store.MaxHints, Reads: "none"}}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		w, err := loadWorkload(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if policy, findings := s.deps.DB.ParsePolicy(w.PolicyDoc); w.PolicyVersion > 0 && !optimizer.HasErrors(findings) {
			out.Body.Reads = "replicas"
			if policy.SLO != nil {
				out.Body.Reads = "all"
			}
		}
		list, err := store.Hints(ctx, tx, in.ID, in.Past)
		for _, h := range list {
			out.Body.Items = append(out.Body.Items, showHint(h, tx.Now))
		}
		return err
	})
	return out, err
}

func (s *Server) createHint(ctx context.Context, p auth.Principal, in *struct {
	WorkloadPath
	Body hintBody
}) (*struct{ Body Hint }, error) {
	out := &struct{ Body Hint }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if _, err := loadWorkload(ctx, tx, in.ID); err != nil {
			return err
		}
		b := in.Body
		h := store.Hint{Hint: optimizer.Hint{From: b.From.UTC().Truncate(time.Second), To: b.To.UTC().Truncate(time.Second), Kind: b.Kind, Amount: b.Amount}, Workload: in.ID, Note: strings.TrimSpace(b.Note), CreatedBy: p.Name}
		if err := h.Validate(tx.Now); err != nil {
			return err
		}
		saved, err := store.AddHint(ctx, tx, h)
		if err != nil {
			return err
		}
		out.Body = showHint(saved, tx.Now)
		return store.Audit(ctx, tx, p.Actor(), "hint.create", "workload/"+string(in.ID), map[string]string{"hint": saved.ID, "kind": string(h.Kind),
			"amount": strconv.FormatFloat(h.Amount, 'g', -1, 64), "from": h.From.Format(time.RFC3339), "to": h.To.Format(time.RFC3339), "note": h.Note})
	})
	return out, err
}

func (s *Server) deleteHint(ctx context.Context, p auth.Principal, in *HintPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DeleteHint(ctx, tx, in.ID, in.Hint); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "hint.delete", "workload/"+string(in.ID), map[string]string{"hint": in.Hint})
	})
}
