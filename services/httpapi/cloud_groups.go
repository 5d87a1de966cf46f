package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

func (s *Server) registerCloudGroups() {
	tags := []string{"capacity"}
	op(s, huma.Operation{OperationID: "list-cloud-groups", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/cloud-groups", Summary: "Groups of machines at clouds that the cluster's plans may make larger, and what was done to them", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.listCloudGroups)
	op(s, huma.Operation{OperationID: "set-cloud-group", Method: http.MethodPut, Path: "/api/v1/clusters/{id}/cloud-groups/{group}", Summary: "Add or change a group; off unless enabled is true", Tags: tags, Errors: []int{404, 409, 422},
		Description: "The account is one whose access may set sizes; it may be another one than the account that is read. Groups are made larger within their bounds, their step and what an hour allows, and only while the cluster is in enforce and not frozen; smaller only with shrink, by ending machines by name that the agent has drained."},
		auth.RoleAdmin, s.setCloudGroup)
	op(s, huma.Operation{OperationID: "delete-cloud-group", Method: http.MethodDelete, Path: "/api/v1/clusters/{id}/cloud-groups/{group}", Summary: "Leave a group alone; its machines stay", Tags: tags, Errors: []int{404}, DefaultStatus: http.StatusNoContent},
		auth.RoleAdmin, s.deleteCloudGroup)
	op(s, huma.Operation{OperationID: "undo-cloud-group-action", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/cloud-group-actions/{action}/undo", Summary: "Give a group the size again that it had before an action", Tags: tags, Errors: []int{404, 409}, DefaultStatus: http.StatusAccepted,
		Description: "Of an action that made the group larger the cloud chooses which machines go, so drain them first; one that ended machines brings as many new ones. Refused while the cluster is frozen or not in enforce. A group whose size somebody else changed since is left alone."}, auth.RoleAdmin, s.undoCloudGroupAction)
}

// CloudGroup is a group of machines at a cloud.
type CloudGroup struct {
	ID            string   `json:"id"`
	AccountID     string   `json:"account_id"`
	Ref           string   `json:"ref"`
	Cloud         string   `json:"cloud"`
	Region        string   `json:"region"`
	Zones         []string `json:"zones"`
	InstanceTypes []string `json:"instance_types"`
	Purchase      string   `json:"purchase" enum:"on_demand,spot"`
	Min           int      `json:"min"`
	Max           int      `json:"max"`
	Step          int      `json:"step"`
	Hourly        int      `json:"hourly"`
	Enabled       bool     `json:"enabled"`
	Own           bool     `json:"own" doc:"stop what of the cloud itself changes the group, and give that back once own or the group is switched off"`
	Shrink        bool     `json:"shrink" doc:"end machines by name that the plan drains, once the agent has drained them"`
	// What of the cloud itself changes the group. Plimsoll yields to it unless it owns the group.
	Writers        []CloudGroupWriter `json:"writers" doc:"what of the cloud itself changes the group now, as it was looked at last"`
	WritersAt      *time.Time         `json:"writers_at,omitempty" doc:"absent: nobody has looked yet"`
	WritersProblem string             `json:"writers_problem,omitempty" doc:"why it is not known what changes the group"`
	Yields         bool               `json:"yields" doc:"the group is left to one of its writers"`
	Suspended      []string           `json:"suspended" doc:"what of the cloud's own scaling is stopped, in its words; given back when own or the group is switched off"`
}

// CloudGroupWriter is something of a cloud that changes a group by itself.
type CloudGroupWriter struct {
	Kind  string `json:"kind" enum:"scaling_policy,schedule,autoscaler,rebalance"`
	Name  string `json:"name" doc:"in the cloud's words"`
	Sizes bool   `json:"sizes" doc:"it sets the size; false: it starts and ends machines between zones"`
	Stop  string `json:"stop" doc:"what is stopped of the cloud when the group is owned; empty: only the cloud's owner can"`
}

// CloudGroupAction is a size that was asked of a group.
type CloudGroupAction struct {
	ID       string          `json:"id"`
	GroupID  string          `json:"group_id"`
	PlanID   *string         `json:"plan_id,omitempty"`
	Undoes   *string         `json:"undoes,omitempty"`
	Before   int             `json:"before"`
	Desired  int             `json:"desired"`
	Ready    int             `json:"ready"`
	State    string          `json:"state" enum:"asked,pending,partial,reached,joined,stock_out,refused,replaced,failed"`
	Problem  string          `json:"problem,omitempty"`
	Failures json.RawMessage `json:"failures" doc:"what the cloud could not give, in its words"`
	Nodes    []string        `json:"nodes" doc:"machines that are ended by name; empty: the action sets a size"`
	AskedAt  time.Time       `json:"asked_at"`
	ClosedAt *time.Time      `json:"closed_at,omitempty"`
}

type cloudGroupsOutput struct {
	Body struct {
		Items   []CloudGroup       `json:"items"`
		Actions []CloudGroupAction `json:"actions" doc:"newest first, at most 200"`
	}
}

func (s *Server) listCloudGroups(ctx context.Context, p auth.Principal, q *clusterOnly) (*cloudGroupsOutput, error) {
	out := &cloudGroupsOutput{}
	out.Body.Items, out.Body.Actions = []CloudGroup{}, []CloudGroupAction{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.ClusterExists(ctx, tx, q.ID); err != nil {
			return err
		}
		groups, err := store.CloudGroups(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		for _, g := range groups {
			view := CloudGroup{ID: g.ID, AccountID: g.Account, Ref: g.Ref, Cloud: string(g.Cloud), Region: g.Region, Zones: g.Zones, InstanceTypes: g.InstanceTypes,
				Purchase: string(g.Purchase), Min: g.Min, Max: g.Max, Step: g.Step, Hourly: g.Hourly, Enabled: g.Enabled,
				Own: g.Own, Shrink: g.Shrink, Writers: []CloudGroupWriter{}, WritersAt: g.WritersAt, WritersProblem: g.WritersWhy, Suspended: g.Suspended}
			if err := json.Unmarshal(g.Writers, &view.Writers); err != nil {
				return fmt.Errorf("read writers of group %s: %w", g.ID, err)
			}
			view.Yields = g.Enabled && slices.ContainsFunc(view.Writers, func(x CloudGroupWriter) bool { return x.Sizes || g.Shrink })
			out.Body.Items = append(out.Body.Items, view)
		}
		actions, err := store.GroupActions(ctx, tx, q.ID, false, 200)
		if err != nil {
			return err
		}
		for _, a := range actions {
			out.Body.Actions = append(out.Body.Actions, CloudGroupAction{ID: a.ID, GroupID: a.Group, PlanID: a.Plan, Undoes: a.Undoes, Before: a.Before, Desired: a.Desired, Ready: a.Ready, State: string(a.State),
				Problem: a.Problem, Failures: a.Failures, Nodes: a.Nodes, AskedAt: a.AskedAt, ClosedAt: a.ClosedAt})
		}
		return nil
	})
	return out, err
}

type setCloudGroupInput struct {
	ID    fleet.ClusterID `path:"id" format:"uuid"`
	Group string          `path:"group" format:"uuid" doc:"made by the caller"`
	Body  struct {
		AccountID     string   `json:"account_id" format:"uuid"`
		Ref           string   `json:"ref" minLength:"1" maxLength:"512" doc:"AWS: region/name. Azure: the scale set's resource id. Google: zones/zone/instanceGroupManagers/name, or regions/..."`
		Region        string   `json:"region" minLength:"1" maxLength:"64"`
		Zones         []string `json:"zones,omitempty" maxItems:"40" doc:"empty: any of the region"`
		InstanceTypes []string `json:"instance_types" minItems:"1" maxItems:"40"`
		Purchase      string   `json:"purchase" enum:"on_demand,spot"`
		Min           int      `json:"min" minimum:"0" maximum:"20000"`
		Max           int      `json:"max" minimum:"0" maximum:"20000"`
		Step          int      `json:"step,omitempty" minimum:"1" maximum:"1000" default:"5" doc:"machines that one action adds at most"`
		Hourly        int      `json:"hourly,omitempty" minimum:"1" maximum:"20000" default:"20" doc:"machines that are added within an hour at most"`
		Enabled       bool     `json:"enabled,omitempty"`
		Own           bool     `json:"own,omitempty" doc:"stop what of the cloud itself changes the group: scaling policies, schedules, autoscalers, moves between zones"`
		Shrink        bool     `json:"shrink,omitempty" doc:"let the agent drain machines that the plan lets go, and end them by name"`
	}
}

func (s *Server) setCloudGroup(ctx context.Context, p auth.Principal, q *setCloudGroupInput) (*struct{}, error) {
	b := &q.Body
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.ClusterExists(ctx, tx, q.ID); err != nil {
			return err
		}
		if err := store.SaveCloudGroup(ctx, tx, store.CloudGroup{ID: q.Group, Cluster: q.ID, Account: b.AccountID, Ref: b.Ref, Region: b.Region, Zones: b.Zones, InstanceTypes: b.InstanceTypes,
			Purchase: fleet.Purchase(b.Purchase), Min: b.Min, Max: b.Max, Step: b.Step, Hourly: b.Hourly, Enabled: b.Enabled, Own: b.Own, Shrink: b.Shrink, UpdatedBy: p.Actor()}); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "cloud_group.set", "cloud_group/"+q.Group, map[string]string{"cluster": string(q.ID), "ref": b.Ref, "min": strconv.Itoa(b.Min), "max": strconv.Itoa(b.Max),
			"step": strconv.Itoa(b.Step), "hourly": strconv.Itoa(b.Hourly), "enabled": strconv.FormatBool(b.Enabled), "own": strconv.FormatBool(b.Own), "shrink": strconv.FormatBool(b.Shrink)})
	})
}

type cloudGroupOnly struct {
	ID    fleet.ClusterID `path:"id" format:"uuid"`
	Group string          `path:"group" format:"uuid"`
}

func (s *Server) deleteCloudGroup(ctx context.Context, p auth.Principal, q *cloudGroupOnly) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DeleteCloudGroup(ctx, tx, q.ID, q.Group); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "cloud_group.delete", "cloud_group/"+q.Group, nil)
	})
}

type undoCloudGroupInput struct {
	ID     fleet.ClusterID `path:"id" format:"uuid"`
	Action string          `path:"action" format:"uuid"`
}

func (s *Server) undoCloudGroupAction(ctx context.Context, p auth.Principal, q *undoCloudGroupInput) (*struct{}, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.UndoGroupAction(ctx, tx, q.ID, q.Action, id.String()); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "cloud_group.undo", "cloud_group_action/"+q.Action, nil)
	})
}
