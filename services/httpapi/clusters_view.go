package httpapi

import (
	"context"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Node is a live node with what runs on it.
type Node struct {
	UID          string          `json:"uid"`
	Name         string          `json:"name"`
	Pool         string          `json:"pool"`
	Cloud        fleet.Cloud     `json:"cloud"`
	Region       string          `json:"region"`
	Zone         string          `json:"zone"`
	InstanceType string          `json:"instance_type"`
	Purchase     fleet.Purchase  `json:"purchase"`
	Phase        fleet.NodePhase `json:"phase"`
	StartedAt    time.Time       `json:"started_at"`
	ReadyAt      *time.Time      `json:"ready_at"`
	Pods         int             `json:"pods"`
	CPUMilli     int64           `json:"cpu_milli"`
	CPUAllocated int64           `json:"cpu_milli_allocated" doc:"Requested by the pods on it"`
	MemMiB       int64           `json:"memory_mib"`
	MemAllocated int64           `json:"memory_mib_allocated"`
	GPUModel     fleet.GPUModel  `json:"gpu_model"`
	GPUCount     int             `json:"gpu_count"`
	GPUAllocated float64         `json:"gpu_allocated" doc:"GPUs requested; fractions come from shared ones"`
	CostHour     *Money          `json:"cost_hour" doc:"what it costs now, with what commitments cover at its amortised price; null: nobody knows"`
}

type nodeInput struct {
	ID     fleet.ClusterID `path:"id" format:"uuid"`
	Cursor string          `query:"cursor" maxLength:"1000" doc:"next_cursor of the page before"`
	Limit  int             `query:"limit" minimum:"1" maximum:"500" default:"200"`
}

type nodeList struct {
	Body struct {
		Items      []Node `json:"items"`
		NextCursor string `json:"next_cursor,omitempty"`
	}
}

func (s *Server) listNodes(ctx context.Context, p auth.Principal, in *nodeInput) (*nodeList, error) {
	after := ""
	if in.Cursor != "" {
		if err := decodeCursor(in.Cursor, &after); err != nil {
			return nil, err
		}
	}
	out := &nodeList{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.ClusterExists(ctx, tx, in.ID); err != nil {
			return err
		}
		nodes, err := store.LiveNodes(ctx, tx, in.ID, after, in.Limit)
		if err != nil {
			return err
		}
		if err := store.PriceNodes(ctx, tx, s.prices(), in.ID, nodes); err != nil {
			return err
		}
		out.Body.Items = make([]Node, 0, len(nodes))
		for _, v := range nodes {
			out.Body.Items = append(out.Body.Items, nodeOf(v))
		}
		if n := len(nodes); n == in.Limit {
			out.Body.NextCursor = encodeCursor(nodes[n-1].Node.Name)
		}
		return nil
	})
	return out, err
}

func nodeOf(v store.NodeView) Node {
	n := v.Node
	out := Node{
		UID: n.UID, Name: n.Name, Pool: n.Pool, Cloud: n.Offering.Cloud, Region: n.Offering.Region, Zone: n.Offering.Zone,
		InstanceType: n.Offering.InstanceType, Purchase: n.Offering.Purchase, Phase: n.Phase, StartedAt: n.StartedAt, Pods: v.Pods,
		CPUMilli: n.CPUMilli, CPUAllocated: v.CPUAllocated, MemMiB: n.MemMiB, MemAllocated: v.MemAllocated,
		GPUModel: n.GPUModel, GPUCount: n.GPUCount, GPUAllocated: float64(v.GPUAllocated) / 1000, CostHour: moneyOrNil(v.Cost, v.Currency),
	}
	if !n.ReadyAt.IsZero() {
		out.ReadyAt = &n.ReadyAt
	}
	return out
}

// ClusterEvent is something that the agent saw happen.
type ClusterEvent struct {
	At       time.Time `json:"at" doc:"The cluster's own time"`
	Kind     string    `json:"kind"`
	Object   string    `json:"object"`
	Workload string    `json:"workload" doc:"namespace/Kind/name; empty when it is about none"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
}

type eventInput struct {
	ID     fleet.ClusterID `path:"id" format:"uuid"`
	Cursor string          `query:"cursor" maxLength:"1000" doc:"next_cursor of the page before"`
	Limit  int             `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Kind   string          `query:"kind" maxLength:"100"`
}

type eventList struct {
	Body struct {
		Items      []ClusterEvent `json:"items"`
		NextCursor string         `json:"next_cursor,omitempty"`
	}
}

func (s *Server) listClusterEvents(ctx context.Context, p auth.Principal, in *eventInput) (*eventList, error) {
	var before *store.EventKey
	if in.Cursor != "" {
		if err := decodeCursor(in.Cursor, &before); err != nil {
			return nil, err
		}
	}
	out := &eventList{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.ClusterExists(ctx, tx, in.ID); err != nil {
			return err
		}
		events, err := store.ClusterEvents(ctx, tx, in.ID, in.Kind, before, in.Limit)
		out.Body.Items = make([]ClusterEvent, 0, len(events))
		for _, e := range events {
			out.Body.Items = append(out.Body.Items, ClusterEvent{At: e.Key.At, Kind: e.Kind, Object: e.Object, Workload: e.Workload, Reason: e.Reason, Message: e.Message})
		}
		if n := len(events); n == in.Limit {
			out.Body.NextCursor = encodeCursor(events[n-1].Key)
		}
		return err
	})
	return out, err
}
