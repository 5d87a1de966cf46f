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

// Rollout is a staged rollout of a policy to one workload.
type Rollout struct {
	ID            string            `json:"id" format:"uuid"`
	WorkloadID    fleet.WorkloadID  `json:"workload_id" format:"uuid"`
	Document      string            `json:"document"`
	BaseVersion   int               `json:"base_version" doc:"in force before"`
	Version       *int              `json:"version" doc:"saved for the canary; null before"`
	State         string            `json:"state" enum:"shadow,canary,enforce,done,rolled_back,cancelled,superseded"`
	ShadowSeconds int               `json:"shadow_seconds"`
	CanarySeconds int               `json:"canary_seconds" doc:"of the canary, and of the watch under enforce"`
	CanaryShare   float64           `json:"canary_share" doc:"of the replicas at its beginning that the canary may take away"`
	CanaryFloor   *int              `json:"canary_floor" doc:"replicas, from the share"`
	ReplayID      *string           `json:"replay_id"`
	Reason        string            `json:"reason" doc:"why without a replay"`
	StageAt       time.Time         `json:"stage_at" doc:"data time"`
	BeforeLate    *float32          `json:"before_late_ratio" doc:"over as long as the canary before it; null: nobody said"`
	BeforeError   *float32          `json:"before_error_ratio"`
	AfterLate     *float32          `json:"after_late_ratio" doc:"of the stage so far"`
	AfterError    *float32          `json:"after_error_ratio"`
	Shadow        store.ShadowCount `json:"shadow" doc:"what it decided beside the policy in force"`
	Outcome       string            `json:"outcome" doc:"why it ended: late_ratio, error_ratio, nothing_told, policy_changed, or words"`
	CreatedBy     string            `json:"created_by"`
	CreatedAt     time.Time         `json:"created_at"`
	FinishedAt    *time.Time        `json:"finished_at"`
}

func (s *Server) registerRollouts() {
	tags := []string{"policies"}
	op(s, huma.Operation{OperationID: "create-rollout", Method: http.MethodPost, Path: "/api/v1/workloads/{id}/rollouts", Summary: "Roll a policy out in stages: shadow, canary, enforce", Tags: tags,
		DefaultStatus: http.StatusCreated, Errors: []int{404, 409, 422}, MaxBodyBytes: 128 << 10}, auth.RoleOperator, s.createRollout)
	op(s, huma.Operation{OperationID: "list-rollouts", Method: http.MethodGet, Path: "/api/v1/workloads/{id}/rollouts", Summary: "List a workload's rollouts, newest first", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.listRollouts)
	op(s, huma.Operation{OperationID: "rollback-rollout", Method: http.MethodPost, Path: "/api/v1/rollouts/{id}/rollback", Summary: "End a rollout; from the canary on the policy before is in force again", Tags: tags, Errors: []int{404, 409}},
		auth.RoleOperator, s.rollbackRollout)
}

func (s *Server) createRollout(ctx context.Context, p auth.Principal, in *struct {
	WorkloadPath
	Body struct {
		Document       string  `json:"document" minLength:"1" maxLength:"65536" doc:"YAML with mode: enforce"`
		ShadowSeconds  int     `json:"shadow_seconds,omitempty" minimum:"60" maximum:"604800" default:"3600"`
		CanarySeconds  int     `json:"canary_seconds,omitempty" minimum:"300" maximum:"172800" default:"3600"`
		CanaryShare    float64 `json:"canary_share,omitempty" minimum:"0" maximum:"1" default:"0.25"`
		ReplayOverride string  `json:"replay_override,omitempty" maxLength:"500" doc:"why without a replay; kept in the audit log"`
	}
}) (*struct{ Body Rollout }, error) {
	document, err := proposedDocument(in.Body.Document, "", "")
	if err != nil {
		return nil, err
	}
	policy, _ := optimizer.ParsePolicy([]byte(document))
	if policy.Mode != fleet.ModeEnforce {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Field: "body.document", Message: "a rollout ends with a policy that enforces: its mode must be enforce"}
	}
	reason := strings.TrimSpace(in.Body.ReplayOverride)
	out := &struct{ Body Rollout }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		w, err := loadWorkload(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if w.PolicyVersion == 0 {
			return fleet.Errorf(fleet.CodeConflict, "the workload has no policy to go back to; save one first")
		}
		if document == w.PolicyDoc {
			return fleet.Errorf(fleet.CodeConflict, "this policy is in force already")
		}
		replay, err := replayGate(ctx, tx, &w, document, policy.Mode, reason)
		if err != nil {
			return err
		}
		r := store.Rollout{Workload: w.ID, Cluster: w.Cluster, Document: document, BaseVersion: w.PolicyVersion, ShadowSeconds: in.Body.ShadowSeconds, CanarySeconds: in.Body.CanarySeconds,
			CanaryShare: float32(in.Body.CanaryShare), Reason: reason, CreatedBy: p.Actor(), StageAt: tx.Now}
		if w.DataAt != nil {
			r.StageAt = *w.DataAt
		}
		detail := map[string]string{"base_version": strconv.Itoa(w.PolicyVersion)}
		if replay != "" {
			r.ReplayID, r.Reason = &replay, ""
			detail["replay"] = replay
		} else {
			detail["replay_override"] = reason
		}
		id, err := store.CreateRollout(ctx, tx, r)
		if err != nil {
			return err
		}
		detail["rollout"] = id
		if err := store.Audit(ctx, tx, p.Actor(), "rollout.shadow", "workload:"+string(w.ID), detail); err != nil {
			return err
		}
		saved, err := store.RolloutOf(ctx, tx, id)
		out.Body = showRollout(saved)
		return err
	})
	return out, err
}

func (s *Server) listRollouts(ctx context.Context, p auth.Principal, in *WorkloadPath) (*struct {
	Body struct {
		Items []Rollout `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Rollout `json:"items"`
		}
	}{}
	out.Body.Items = []Rollout{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if _, err := loadWorkload(ctx, tx, in.ID); err != nil {
			return err
		}
		rows, err := store.Rollouts(ctx, tx, in.ID, 50)
		for _, r := range rows {
			out.Body.Items = append(out.Body.Items, showRollout(r))
		}
		return err
	})
	return out, err
}

func (s *Server) rollbackRollout(ctx context.Context, p auth.Principal, in *struct {
	ID string `path:"id" format:"uuid"`
}) (*struct{ Body Rollout }, error) {
	out := &struct{ Body Rollout }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		r, err := store.RolloutOf(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if !r.Open() {
			return fleet.Errorf(fleet.CodeConflict, "the rollout is over already: it is %s", r.State)
		}
		state := store.RolledBack
		if r.State == store.RolloutShadow {
			state = store.RolloutCancelled
		}
		if err := store.EndRollout(ctx, tx, &r, p.Actor(), state, "by "+p.Actor()); err != nil {
			return err
		}
		out.Body = showRollout(r)
		return s.deps.Queue.PlanSoon(ctx, tx, r.Cluster)
	})
	return out, err
}

func showRollout(r store.Rollout) Rollout {
	return Rollout{ID: r.ID, WorkloadID: r.Workload, Document: r.Document, BaseVersion: r.BaseVersion, Version: r.Version, State: r.State, ShadowSeconds: r.ShadowSeconds,
		CanarySeconds: r.CanarySeconds, CanaryShare: float64(r.CanaryShare), CanaryFloor: r.CanaryFloor, ReplayID: r.ReplayID, Reason: r.Reason, StageAt: r.StageAt.UTC(),
		BeforeLate: r.BeforeLate, BeforeError: r.BeforeError, AfterLate: r.AfterLate, AfterError: r.AfterError, Shadow: r.Shadow, Outcome: r.Outcome, CreatedBy: r.CreatedBy,
		CreatedAt: r.CreatedAt.UTC(), FinishedAt: r.FinishedAt}
}
