package httpapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// Decision is a decision as lists show it.
type Decision struct {
	ID            fleet.DecisionID `json:"id"`
	At            time.Time        `json:"at" doc:"data time of the cluster"`
	PlanID        fleet.PlanID     `json:"plan_id"`
	ClusterID     fleet.ClusterID  `json:"cluster_id"`
	WorkloadID    fleet.WorkloadID `json:"workload_id"`
	Key           string           `json:"key"`
	Outcome       string           `json:"outcome" enum:"scale_up,scale_down,hold"`
	FromReplicas  int              `json:"from_replicas"`
	Needed        int              `json:"needed" doc:"what the signals alone ask for"`
	Target        int              `json:"target"`
	Binding       string           `json:"binding" doc:"code of the reason that settled the target"`
	State         string           `json:"state" enum:"noted,proposed,approved,rejected,expired,dispatched,applied,refused,failed,superseded"`
	CostDeltaHour *Money           `json:"cost_delta_hour"`
	ExpiresAt     time.Time        `json:"expires_at"`
	DecidedBy     *string          `json:"decided_by"`
	DecidedAt     *time.Time       `json:"decided_at"`
	Before        *int             `json:"before_replicas" doc:"read by the agent just before it acted"`
	After         *int             `json:"after_replicas"`
	ResultCode    *string          `json:"result_code"`
	ResultDetail  *string          `json:"result_detail"`
	FinishedAt    *time.Time       `json:"finished_at"`
}

// DecisionExplained adds everything the decision was made from.
type DecisionExplained struct {
	Decision
	Detail optimizer.Decision `json:"detail"`
	Plan   DecisionPlan       `json:"plan"`
}

// DecisionPlan is the plan a decision belongs to.
type DecisionPlan struct {
	ID         fleet.PlanID `json:"id"`
	Generation int64        `json:"generation"`
	ParentID   *string      `json:"parent_id"`
	Mode       fleet.Mode   `json:"mode"`
	InputHash  string       `json:"input_hash" doc:"SHA-256 of the stored input, hex"`
}

// DecisionPath names a decision. Exported because huma passes over embedded types that are not.
type DecisionPath struct {
	ID fleet.DecisionID `path:"id" format:"uuid"`
}

type decisionCursor struct {
	At time.Time        `json:"a"`
	ID fleet.DecisionID `json:"i"`
}

type decisionList struct {
	Body struct {
		Items      []Decision `json:"items"`
		NextCursor string     `json:"next_cursor,omitempty"`
	}
}

type decisionAnswer struct{ Body Decision }

func (s *Server) registerDecisions() {
	tags := []string{"decisions"}
	op(s, huma.Operation{OperationID: "list-decisions", Method: http.MethodGet, Path: "/api/v1/decisions", Summary: "List decisions, newest first", Tags: tags},
		auth.RoleViewer, s.listDecisions)
	op(s, huma.Operation{OperationID: "get-decision", Method: http.MethodGet, Path: "/api/v1/decisions/{id}", Summary: "Get a decision with its explanation", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.getDecision)
	op(s, huma.Operation{OperationID: "approve-decision", Method: http.MethodPost, Path: "/api/v1/decisions/{id}/approve", Summary: "Approve a proposal", Tags: tags, Errors: []int{404, 409}},
		auth.RoleOperator, s.approveDecision)
	op(s, huma.Operation{OperationID: "reject-decision", Method: http.MethodPost, Path: "/api/v1/decisions/{id}/reject", Summary: "Reject a proposal", Tags: tags, Errors: []int{404, 409}},
		auth.RoleOperator, s.rejectDecision)
	op(s, huma.Operation{OperationID: "recompute-decision", Method: http.MethodPost, Path: "/api/v1/decisions/{id}/recompute", Summary: "Decide again from the stored input and compare", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.recomputeDecision)
}

func (s *Server) listDecisions(ctx context.Context, p auth.Principal, in *struct {
	Cluster  fleet.ClusterID  `query:"cluster" format:"uuid"`
	Workload fleet.WorkloadID `query:"workload" format:"uuid"`
	State    []string         `query:"state" enum:"noted,proposed,approved,rejected,expired,dispatched,applied,refused,failed,superseded"`
	Outcome  []string         `query:"outcome" enum:"scale_up,scale_down,hold"`
	From     time.Time        `query:"from"`
	To       time.Time        `query:"to"`
	Cursor   string           `query:"cursor" maxLength:"1024"`
	Limit    int              `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*decisionList, error) {
	f := store.DecisionFilter{Cluster: in.Cluster, Workload: in.Workload, States: in.State, Outcomes: in.Outcome, From: in.From, To: in.To, Limit: in.Limit + 1}
	if in.Cursor != "" {
		var c decisionCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		if err := cursorID(string(c.ID)); err != nil {
			return nil, err
		}
		f.AfterAt, f.AfterID = c.At, c.ID
	}
	out := &decisionList{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		rows, err := store.Decisions(ctx, tx, f)
		if err != nil {
			return err
		}
		if len(rows) > in.Limit {
			rows = rows[:in.Limit]
			last := rows[len(rows)-1]
			out.Body.NextCursor = encodeCursor(decisionCursor{last.At, last.ID})
		}
		out.Body.Items = make([]Decision, 0, len(rows))
		for _, d := range rows {
			out.Body.Items = append(out.Body.Items, s.showDecision(d))
		}
		return nil
	})
	return out, err
}

func (s *Server) showDecision(d store.DecisionRow) Decision {
	return Decision{ID: d.ID, At: d.At, PlanID: d.PlanID, ClusterID: d.Cluster, WorkloadID: d.Workload, Key: d.Key, Outcome: d.Outcome, FromReplicas: d.From,
		Needed: d.Needed, Target: d.Target, Binding: d.Binding, State: d.State, CostDeltaHour: nanoOrNil(d.CostDelta, s.prices().Currency()), ExpiresAt: d.ExpiresAt,
		DecidedBy: d.DecidedBy, DecidedAt: d.DecidedAt, Before: d.Before, After: d.After, ResultCode: d.ResultCode, ResultDetail: d.ResultDetail, FinishedAt: d.FinishedAt}
}

func (s *Server) getDecision(ctx context.Context, p auth.Principal, in *DecisionPath) (*struct{ Body DecisionExplained }, error) {
	out := &struct{ Body DecisionExplained }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		d, err := store.DecisionByID(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		out.Body = DecisionExplained{Decision: s.showDecision(d.DecisionRow), Plan: DecisionPlan{ID: d.PlanID, Generation: d.Generation, ParentID: d.ParentID,
			Mode: d.PlanMode, InputHash: hex.EncodeToString(d.InputHash)}}
		if err := json.Unmarshal(d.Detail, &out.Body.Detail); err != nil {
			return fmt.Errorf("read decision: %w", err)
		}
		return nil
	})
	return out, err
}

func (s *Server) approveDecision(ctx context.Context, p auth.Principal, in *DecisionPath) (*decisionAnswer, error) {
	return s.resolve(ctx, p, in.ID, true, "")
}

func (s *Server) rejectDecision(ctx context.Context, p auth.Principal, in *struct {
	DecisionPath
	Body struct {
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}) (*decisionAnswer, error) {
	return s.resolve(ctx, p, in.ID, false, in.Body.Reason)
}

func (s *Server) resolve(ctx context.Context, p auth.Principal, id fleet.DecisionID, approve bool, reason string) (*decisionAnswer, error) {
	out := &decisionAnswer{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		d, err := store.Resolve(ctx, tx, id, approve, p.Name, reason)
		if err != nil {
			return err
		}
		out.Body = s.showDecision(d)
		action := "decision.reject"
		if approve {
			action = "decision.approve"
		}
		return store.Audit(ctx, tx, p.Actor(), action, "decision:"+string(id), map[string]string{"workload": d.Key, "target": strconv.Itoa(d.Target), "reason": reason})
	})
	return out, err
}

// recomputeDecision decides again from what was stored. optimizer.Decide is pure, so anything but equality is a defect worth an
// alarm: the arch test allows this one call outside jobs and replay.
func (s *Server) recomputeDecision(ctx context.Context, p auth.Principal, in *DecisionPath) (*struct {
	Body struct {
		Equal bool `json:"equal" doc:"the stored input gives the stored decision, byte for byte"`
	}
}, error) {
	out := &struct {
		Body struct {
			Equal bool `json:"equal" doc:"the stored input gives the stored decision, byte for byte"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		d, err := store.DecisionByID(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		input, err := store.PlanInputOf(ctx, tx, d.PlanID)
		if err != nil {
			return err
		}
		plan, err := optimizer.Decide(input)
		if err != nil {
			return err
		}
		for _, again := range plan.Decisions {
			if again.Workload == d.Workload {
				out.Body.Equal, err = sameDecision(again, d.Detail)
				return err
			}
		}
		return nil
	})
	return out, err
}

// sameDecision compares through JSON, since the stored detail went through jsonb, which reorders keys.
func sameDecision(again optimizer.Decision, stored json.RawMessage) (bool, error) {
	var was optimizer.Decision
	if err := json.Unmarshal(stored, &was); err != nil {
		return false, fmt.Errorf("read decision: %w", err)
	}
	a, err := json.Marshal(again)
	if err != nil {
		return false, err
	}
	b, err := json.Marshal(was)
	return bytes.Equal(a, b), err
}
