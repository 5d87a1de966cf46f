package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

func (s *Server) registerCapacityDefault() {
	tags := []string{"capacity"}
	op(s, huma.Operation{OperationID: "get-capacity-default", Method: http.MethodGet, Path: "/api/v1/capacity-default", Summary: "The capacity policy of clusters that have none of their own, and which take it", Tags: tags}, auth.RoleViewer, s.getCapacityDefault)
	op(s, huma.Operation{OperationID: "set-capacity-default", Method: http.MethodPut, Path: "/api/v1/capacity-default", Summary: "Change it; version is the one that was read", Tags: tags, Errors: []int{409, 422},
		Description: "While a cluster that takes it enforces, it is rolled out in steps (POST /api/v1/capacity-rollouts with default), or saved with a reason."}, auth.RoleOperator, s.setCapacityDefault)
	op(s, huma.Operation{OperationID: "inherit-capacity-policy", Method: http.MethodDelete, Path: "/api/v1/clusters/{id}/capacity-policy", Summary: "Take the cluster's own policy away: the tenant's default holds", Tags: tags, Errors: []int{404, 409}, DefaultStatus: http.StatusOK,
		Description: "On a cluster that enforces, either the default says the same as the cluster's own policy (roll the default's document out to the cluster first), or a reason is given."}, auth.RoleOperator, s.inheritCapacityPolicy)
}

type capacityDefaultOutput struct {
	Body struct {
		Policy    CapacityPolicyDoc `json:"policy"`
		Version   int               `json:"version" doc:"0: there is none; the built-in defaults hold"`
		UpdatedBy string            `json:"updated_by"`
		UpdatedAt *time.Time        `json:"updated_at"`
		Clusters  []CapacityTaker   `json:"clusters" doc:"that take it, by name"`
	}
}

// CapacityTaker is a cluster that takes the tenant's default.
type CapacityTaker struct {
	ID   fleet.ClusterID `json:"id"`
	Name string          `json:"name"`
	Mode fleet.Mode      `json:"mode" enum:"observe,recommend,approve,enforce"`
}

func (s *Server) getCapacityDefault(ctx context.Context, p auth.Principal, _ *struct{}) (*capacityDefaultOutput, error) {
	out := &capacityDefaultOutput{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error { return capacityDefault(ctx, tx, out) })
	return out, err
}

func capacityDefault(ctx context.Context, tx *store.Tx, out *capacityDefaultOutput) error {
	d, err := store.CapacityDefaultOf(ctx, tx, false)
	if err != nil {
		return err
	}
	takers, err := store.CapacityTakers(ctx, tx)
	if err != nil {
		return err
	}
	out.Body.Policy, out.Body.Version, out.Body.UpdatedBy, out.Body.Clusters = policyDocOf(d.Policy), d.Version, d.UpdatedBy, []CapacityTaker{}
	if d.Version > 0 {
		at := d.UpdatedAt.UTC()
		out.Body.UpdatedAt = &at
	}
	for _, t := range takers {
		out.Body.Clusters = append(out.Body.Clusters, CapacityTaker(t))
	}
	return nil
}

func (s *Server) setCapacityDefault(ctx context.Context, p auth.Principal, q *struct {
	Body struct {
		Policy   CapacityPolicyDoc `json:"policy"`
		Version  int               `json:"version" minimum:"0" doc:"of the default that was read; 0: there was none"`
		Override string            `json:"rollout_override,omitempty" maxLength:"500" doc:"why it is in force at once, without a rollout, on clusters that enforce; kept in the audit log"`
	}
}) (*capacityDefaultOutput, error) {
	policy, err := q.Body.Policy.policy()
	if err != nil {
		return nil, err
	}
	out := &capacityDefaultOutput{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		why := strings.TrimSpace(q.Body.Override)
		enforcing, err := enforcingTakers(ctx, tx)
		if err != nil {
			return err
		}
		if len(enforcing) > 0 && why == "" {
			return &fleet.Error{Code: fleet.CodeConflict, Field: "body.rollout_override",
				Message: fmt.Sprintf("%d clusters that take the default enforce: roll it out in steps (POST /api/v1/capacity-rollouts with default: true), or give a reason in rollout_override", len(enforcing))}
		}
		if err := store.SetCapacityDefault(ctx, tx, policy, q.Body.Version, p.Actor()); err != nil {
			return err
		}
		detail := q.Body.Policy.audit()
		if why != "" {
			detail["rollout_override"] = why
		}
		if err := store.Audit(ctx, tx, p.Actor(), "capacity_default.set", "tenant", detail); err != nil {
			return err
		}
		return capacityDefault(ctx, tx, out)
	})
	return out, err
}

func enforcingTakers(ctx context.Context, tx *store.Tx) ([]store.CapacityTaker, error) {
	takers, err := store.CapacityTakers(ctx, tx)
	return slices.DeleteFunc(takers, func(t store.CapacityTaker) bool { return t.Mode != fleet.ModeEnforce }), err
}

// defaultRollout names the clusters of a rollout of the default and the version that it stands on. seen is the version that was read; nil: whatever stands.
func defaultRollout(ctx context.Context, tx *store.Tx, seen *int) ([]fleet.ClusterID, *int, error) {
	d, err := store.CapacityDefaultOf(ctx, tx, true)
	if err != nil {
		return nil, nil, err
	}
	if seen != nil && *seen != d.Version {
		return nil, nil, fleet.Errorf(fleet.CodeConflict, "the default was changed meanwhile: load it again")
	}
	takers, err := enforcingTakers(ctx, tx)
	switch {
	case err != nil:
		return nil, nil, err
	case len(takers) == 0:
		return nil, nil, fleet.Errorf(fleet.CodeConflict, "no cluster that takes the default enforces, so nothing acts on its plans: save it (PUT /api/v1/capacity-default)")
	case len(takers) > store.MaxRolloutClusters:
		return nil, nil, fleet.Errorf(fleet.CodeConflict, "%d clusters that take the default enforce, and a rollout has at most %d: roll the policy out to some of them by id first, which gives them a policy of their own, or save it with a reason",
			len(takers), store.MaxRolloutClusters)
	}
	ids := make([]fleet.ClusterID, len(takers))
	for i, t := range takers {
		ids[i] = t.ID
	}
	return ids, &d.Version, nil
}

func (s *Server) inheritCapacityPolicy(ctx context.Context, p auth.Principal, q *struct {
	ID       fleet.ClusterID `path:"id" format:"uuid"`
	Version  int             `query:"version" minimum:"1" required:"true" doc:"of the cluster's own policy that was read"`
	Override string          `query:"rollout_override" maxLength:"500" doc:"why the default is in force at once on a cluster that enforces; kept in the audit log"`
}) (*capacityPolicyOutput, error) {
	out := &capacityPolicyOutput{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		c, err := store.ClusterByID(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		own, err := store.CapacityPolicyOf(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		d, err := store.CapacityDefaultOf(ctx, tx, false)
		if err != nil {
			return err
		}
		why := strings.TrimSpace(q.Override)
		if c.Mode == fleet.ModeEnforce && why == "" && !sameDocument(own.Policy, d.Policy) {
			return &fleet.Error{Code: fleet.CodeConflict, Field: "query.rollout_override",
				Message: "this cluster enforces, and the default says something else than its own policy: roll the default's policy out to it in steps first (POST /api/v1/capacity-rollouts), or give a reason in rollout_override"}
		}
		if err := store.InheritCapacityPolicy(ctx, tx, q.ID, q.Version, p.Actor()); err != nil {
			return err
		}
		detail := map[string]string{}
		if why != "" {
			detail["rollout_override"] = why
		}
		if err := store.Audit(ctx, tx, p.Actor(), "capacity_policy.inherit", "cluster:"+string(q.ID), detail); err != nil {
			return err
		}
		return capacityPolicy(ctx, tx, q.ID, out)
	})
	return out, err
}

// sameDocument says that two policies are written the same.
func sameDocument(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && string(x) == string(y)
}
