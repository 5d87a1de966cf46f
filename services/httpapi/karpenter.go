package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// handBackValid is how long an agent may carry a hand-back out.
const handBackValid = 10 * time.Minute

func (s *Server) registerKarpenter() {
	tags := []string{"capacity"}
	op(s, huma.Operation{OperationID: "get-karpenter", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/karpenter", Summary: "Whether the cluster's capacity plans are carried out through Karpenter, what it was told, and why it is told nothing now", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.getKarpenter)
	op(s, huma.Operation{OperationID: "set-karpenter", Method: http.MethodPut, Path: "/api/v1/clusters/{id}/karpenter", Summary: "Switch it on or off; version is the one that was read, 0 for none", Tags: tags, Errors: []int{404, 409, 422}, DefaultStatus: http.StatusNoContent,
		Description: "Off unless enabled is true. Refused while groups of clouds may be changed for the cluster. Nothing is sent unless cluster and agent are in enforce and not frozen. Switching it off withdraws what the agent has not answered; what Karpenter was told stays until it is handed back."},
		auth.RoleAdmin, s.setKarpenter)
	op(s, huma.Operation{OperationID: "get-karpenter-order", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/karpenter/orders/{order}", Summary: "What the agent was told in one order, and what it found and made of each object", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.getKarpenterOrder)
	op(s, huma.Operation{OperationID: "hand-back-karpenter", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/karpenter/hand-back", Summary: "Take Plimsoll's NodePools and NodeOverlays away; pools with machines stay, and pools of others say again what they said before", Tags: tags, Errors: []int{404, 409}, DefaultStatus: http.StatusAccepted,
		Description: "Switch it off first. No machine goes: a pool that has machines is refused by the agent and stays as it was told last."}, auth.RoleAdmin, s.handBackKarpenter)
}

// KarpenterSettings are what the node pools of a cluster are made with.
type KarpenterSettings struct {
	Enabled        bool     `json:"enabled"`
	ClassGroup     string   `json:"class_group,omitempty" maxLength:"253" default:"karpenter.k8s.aws" doc:"API group of the node class"`
	ClassKind      string   `json:"class_kind,omitempty" maxLength:"63" default:"EC2NodeClass"`
	ClassName      string   `json:"class_name,omitempty" maxLength:"253" default:"default"`
	ReservationKey string   `json:"reservation_key,omitempty" maxLength:"317" doc:"node label that names a reservation; empty: reserved machines are left to Karpenter"`
	Prices         bool     `json:"prices,omitempty" doc:"tell effective prices by NodeOverlays, an alpha feature of Karpenter"`
	Own            []string `json:"own,omitempty" maxItems:"50" doc:"NodePools of others that plans shall write: they come after all of ours and keep what they bring. The agent must allow it (autoscalers.karpenter.own). What they said before is kept, and said again once they are left out here or handed back"`
}

// KarpenterOrderSummary is what an agent was told at one time.
type KarpenterOrderSummary struct {
	ID         string     `json:"id"`
	Generation int64      `json:"generation"`
	PlanID     *string    `json:"plan_id,omitempty" doc:"capacity plan; older plans are forgotten"`
	Kind       string     `json:"kind" enum:"plan,hand_back,drain" doc:"drain: machines that groups of clouds let go"`
	State      string     `json:"state" enum:"open,applied,partial,refused,expired,withdrawn"`
	Hourly     *string    `json:"hourly,omitempty" doc:"per hour: what Karpenter is expected to buy"`
	By         string     `json:"by"`
	At         time.Time  `json:"at"`
	ClosedAt   *time.Time `json:"closed_at,omitempty"`
}

// KarpenterActionView is one object of an order.
type KarpenterActionView struct {
	ActionID   string          `json:"action_id" doc:"pool/name or overlay/name"`
	Absent     bool            `json:"absent,omitempty" doc:"it shall not exist"`
	Spec       json.RawMessage `json:"spec" doc:"as it was sent"`
	Outcome    *string         `json:"outcome,omitempty" enum:"applied,already,refused,failed" doc:"absent: no answer yet"`
	Code       string          `json:"code,omitempty" doc:"conflict: somebody else holds a field; see writers"`
	Detail     string          `json:"detail,omitempty"`
	Before     string          `json:"before,omitempty" doc:"JSON of the fields in question as the agent found them; absent: there was nothing"`
	After      string          `json:"after,omitempty"`
	Writers    []string        `json:"writers" doc:"of a conflict; ours is the last"`
	AnsweredAt *time.Time      `json:"answered_at,omitempty"`
}

type karpenterOutput struct {
	Body struct {
		Version  int                     `json:"version" doc:"0: never set"`
		Settings KarpenterSettings       `json:"settings"`
		Stopped  string                  `json:"stopped,omitempty" enum:"off,mode,frozen,agent,silent,groups,open" doc:"why nothing is sent now. open: an earlier order has no answer yet. A plan may be held for other reasons"`
		Pools    []string                `json:"pools" doc:"NodePools of ours that may exist"`
		Overlays []string                `json:"overlays"`
		Orders   []KarpenterOrderSummary `json:"orders" doc:"newest first, at most 50"`
	}
}

func karpenterOrder(o *store.KarpenterOrder) KarpenterOrderSummary {
	out := KarpenterOrderSummary{ID: o.ID, Generation: o.Generation, PlanID: o.Plan, Kind: o.Kind, State: o.State, By: o.CreatedBy, At: o.CreatedAt.UTC(), ClosedAt: o.ClosedAt}
	if o.Bought != nil {
		text := o.Bought.String()
		out.Hourly = &text
	}
	return out
}

func (s *Server) getKarpenter(ctx context.Context, p auth.Principal, q *clusterOnly) (*karpenterOutput, error) {
	out := &karpenterOutput{}
	b := &out.Body
	b.Pools, b.Overlays, b.Orders = []string{}, []string{}, []KarpenterOrderSummary{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		work, err := store.LoadKarpenterWork(ctx, tx, q.ID, false)
		if err != nil {
			return err
		}
		k := work.Policy
		b.Version, b.Stopped = k.Version, work.Why
		b.Settings = KarpenterSettings{Enabled: k.Enabled, ClassGroup: k.ClassGroup, ClassKind: k.ClassKind, ClassName: k.ClassName, ReservationKey: k.ReservationKey, Prices: k.Prices, Own: k.Own}
		b.Pools, b.Overlays = append(b.Pools, work.Pools...), append(b.Overlays, work.Overlays...)
		orders, err := store.KarpenterOrders(ctx, tx, q.ID, 50)
		for i := range orders {
			b.Orders = append(b.Orders, karpenterOrder(&orders[i]))
		}
		return err
	})
	return out, err
}

type setKarpenterInput struct {
	ID   fleet.ClusterID `path:"id" format:"uuid"`
	Body struct {
		Version  int               `json:"version" minimum:"0"`
		Settings KarpenterSettings `json:"settings"`
	}
}

func (s *Server) setKarpenter(ctx context.Context, p auth.Principal, q *setKarpenterInput) (*struct{}, error) {
	k := q.Body.Settings
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.SetKarpenterPolicy(ctx, tx, q.ID, store.KarpenterPolicy{Version: q.Body.Version, Enabled: k.Enabled, ClassGroup: k.ClassGroup, ClassKind: k.ClassKind, ClassName: k.ClassName,
			ReservationKey: k.ReservationKey, Prices: k.Prices, Own: k.Own}, p.Actor()); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "karpenter.set", "cluster:"+string(q.ID), map[string]string{"enabled": strconv.FormatBool(k.Enabled), "class": k.ClassGroup + "/" + k.ClassKind + "/" + k.ClassName,
			"reservation_key": k.ReservationKey, "prices": strconv.FormatBool(k.Prices), "own": strings.Join(k.Own, ",")})
	})
}

type karpenterOrderInput struct {
	ID    fleet.ClusterID `path:"id" format:"uuid"`
	Order string          `path:"order" format:"uuid"`
}

type karpenterOrderOutput struct {
	Body struct {
		Order   KarpenterOrderSummary `json:"order"`
		Actions []KarpenterActionView `json:"actions"`
	}
}

func (s *Server) getKarpenterOrder(ctx context.Context, p auth.Principal, q *karpenterOrderInput) (*karpenterOrderOutput, error) {
	out := &karpenterOrderOutput{}
	out.Body.Actions = []KarpenterActionView{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		o, err := store.KarpenterOrderByID(ctx, tx, q.ID, q.Order)
		if err != nil {
			return err
		}
		out.Body.Order = karpenterOrder(&o)
		list, err := store.KarpenterActions(ctx, tx, q.Order)
		for _, a := range list {
			out.Body.Actions = append(out.Body.Actions, KarpenterActionView{ActionID: a.ActionID, Absent: a.Absent, Spec: a.Spec, Outcome: a.Outcome, Code: a.Code, Detail: a.Detail, Before: a.Before, After: a.After,
				Writers: a.Writers, AnsweredAt: a.AnsweredAt})
		}
		return err
	})
	return out, err
}

func (s *Server) handBackKarpenter(ctx context.Context, p auth.Principal, q *clusterOnly) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		work, err := store.LoadKarpenterWork(ctx, tx, q.ID, true)
		if err != nil {
			return err
		}
		switch {
		case work.Policy.Enabled:
			return fleet.Errorf(fleet.CodeConflict, "switch it off first: the next plan would make the pools again")
		case work.Why != store.KarpenterOff:
			return fleet.Errorf(fleet.CodeConflict, "nothing can be sent to the agent now: %s", work.Why)
		case len(work.Pools)+len(work.Overlays)+len(work.Warm) == 0:
			return fleet.Errorf(fleet.CodeConflict, "there is nothing to hand back")
		}
		var actions []*agentv1.CapacityAction
		for _, name := range work.Overlays {
			actions = append(actions, &agentv1.CapacityAction{ActionId: "overlay/" + name, Absent: true, NodeOverlay: &agentv1.NodeOverlaySpec{Name: name}, Reasons: []string{"hand_back"}})
		}
		for _, name := range work.Pools {
			actions = append(actions, &agentv1.CapacityAction{ActionId: "pool/" + name, Absent: true, NodePool: &agentv1.NodePoolSpec{Name: name}, Reasons: []string{"hand_back"}})
		}
		for _, name := range work.Warm {
			actions = append(actions, &agentv1.CapacityAction{ActionId: "warm/" + name, Absent: true, WarmPool: &agentv1.WarmPool{Name: name}, Reasons: []string{"hand_back"}})
		}
		made, why, err := store.OpenKarpenterOrder(ctx, tx, store.KarpenterOrder{Cluster: q.ID, Kind: "hand_back", At: work.At, ExpiresAt: work.At.Add(handBackValid), CreatedBy: p.Actor()}, actions)
		if err != nil {
			return err
		}
		if !made {
			return fleet.Errorf(fleet.CodeConflict, "not sent (%s): the same was asked for a moment ago, or there is too much of it", why)
		}
		return store.Audit(ctx, tx, p.Actor(), "karpenter.hand_back", "cluster:"+string(q.ID), map[string]string{"objects": strconv.Itoa(len(actions))})
	})
}
