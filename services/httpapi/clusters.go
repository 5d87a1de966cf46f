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

// Cluster is a cluster with what its agent said last and what is in it now.
type Cluster struct {
	ID                fleet.ClusterID   `json:"id"`
	Name              string            `json:"name"`
	Mode              fleet.Mode        `json:"mode" enum:"observe,recommend,approve,enforce" doc:"How far decisions may go; a policy may be stricter"`
	Frozen            bool              `json:"frozen" doc:"Nothing may be changed in this cluster"`
	CreatedAt         time.Time         `json:"created_at"`
	Health            store.Health      `json:"health" enum:"online,lagging,offline,never" doc:"Of the agent's connection, by our clock"`
	AgentVersion      string            `json:"agent_version"`
	KubernetesVersion string            `json:"kubernetes_version"`
	Capabilities      []string          `json:"capabilities"`
	AgentLimits       store.AgentLimits `json:"agent_limits" doc:"The agent's own limits; the service cannot lift them"`
	SimulatedClock    bool              `json:"simulated_clock"`
	ClockSpeed        float64           `json:"clock_speed" doc:"1: real time"`
	SkewMS            int64             `json:"skew_ms" doc:"Agent's clock minus ours at the last report"`
	LastSeenAt        *time.Time        `json:"last_seen_at" doc:"By our clock"`
	DataAt            *time.Time        `json:"data_at" doc:"The cluster's own time: its newest data"`
	Generation        int64             `json:"generation" doc:"Of the newest plan"`
	AppliedGeneration int64             `json:"applied_generation" doc:"Of the newest plan that the agent applied"`
	Nodes             int               `json:"nodes"`
	GPUs              int               `json:"gpus"`
	Workloads         int               `json:"workloads"`
	CostHour          *Money            `json:"cost_hour" doc:"What the live nodes with a known price cost per hour now, with what commitments cover at its amortised price; null: no price is known"`
	UnpricedNodes     int               `json:"unpriced_nodes" doc:"Live nodes that cost_hour leaves out"`
}

func clusterOf(c store.Cluster, now time.Time) Cluster {
	capabilities := c.Capabilities
	if capabilities == nil {
		capabilities = []string{}
	}
	return Cluster{
		ID: c.ID, Name: c.Name, Mode: c.Mode, Frozen: c.Frozen, CreatedAt: c.CreatedAt, Health: store.HealthOf(now, c.LastSeenAt),
		AgentVersion: c.AgentVersion, KubernetesVersion: c.KubernetesVersion, Capabilities: capabilities, AgentLimits: c.Limits,
		SimulatedClock: c.SimulatedClock, ClockSpeed: c.ClockSpeed, SkewMS: c.Skew.Milliseconds(), LastSeenAt: c.LastSeenAt, DataAt: c.DataAt,
		Generation: c.Generation, AppliedGeneration: c.AppliedGeneration, Nodes: c.Nodes, GPUs: c.GPUs, Workloads: c.Workloads,
		CostHour: moneyOrNil(c.Cost, c.Currency), UnpricedNodes: c.UnpricedNodes,
	}
}

type pageQuery struct {
	Cursor string `query:"cursor" maxLength:"1000" doc:"next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"200"`
}

type clusterList struct {
	Body struct {
		Items      []Cluster `json:"items"`
		NextCursor string    `json:"next_cursor,omitempty"`
	}
}

type clusterOutput struct{ Body Cluster }

type clusterPath struct {
	ID fleet.ClusterID `path:"id" format:"uuid"`
}

type newClusterInput struct {
	Body struct {
		// The name goes into a command line that people paste, so it holds nothing that a shell reads.
		Name string     `json:"name" minLength:"1" maxLength:"63" pattern:"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$" doc:"Letters, digits, dot, dash and underscore"`
		Mode fleet.Mode `json:"mode,omitempty" enum:"observe,recommend,approve,enforce" default:"recommend"`
	}
}

type setClusterInput struct {
	ID   fleet.ClusterID `path:"id" format:"uuid"` // not embedded: huma passes over embedded types that are not exported
	Body struct {
		Mode   *fleet.Mode `json:"mode,omitempty" enum:"observe,recommend,approve,enforce"`
		Frozen *bool       `json:"frozen,omitempty"`
	}
}

func (s *Server) registerClusters() {
	tags := []string{"clusters"}
	missing := []int{http.StatusNotFound}
	op(s, huma.Operation{OperationID: "list-clusters", Method: http.MethodGet, Path: "/api/v1/clusters", Summary: "Clusters by name", Tags: tags}, auth.RoleViewer, s.listClusters)
	op(s, huma.Operation{OperationID: "create-cluster", Method: http.MethodPost, Path: "/api/v1/clusters", Summary: "Make a cluster that waits for its agent", Tags: tags,
		DefaultStatus: http.StatusCreated, Errors: []int{http.StatusConflict}}, auth.RoleOperator, s.createCluster)
	op(s, huma.Operation{OperationID: "get-cluster", Method: http.MethodGet, Path: "/api/v1/clusters/{id}", Summary: "One cluster", Tags: tags, Errors: missing}, auth.RoleViewer, s.getCluster)
	op(s, huma.Operation{OperationID: "set-cluster", Method: http.MethodPatch, Path: "/api/v1/clusters/{id}", Summary: "Change mode or freeze", Tags: tags, Errors: missing}, auth.RoleOperator, s.setCluster)
	op(s, huma.Operation{OperationID: "create-enrolment-token", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/enrolment-tokens", Tags: tags,
		Summary: "Make a token that lets one agent in; it is shown once", DefaultStatus: http.StatusCreated, Errors: append(missing, http.StatusConflict)}, auth.RoleOperator, s.createEnrolmentToken)
	op(s, huma.Operation{OperationID: "revoke-enrolment-tokens", Method: http.MethodDelete, Path: "/api/v1/clusters/{id}/enrolment-tokens", Tags: tags,
		Summary: "End all tokens of the cluster, used ones too: its agent cannot come back without a new one", DefaultStatus: http.StatusNoContent, Errors: missing}, auth.RoleOperator, s.revokeEnrolmentTokens)
	op(s, huma.Operation{OperationID: "list-nodes", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/nodes", Summary: "Nodes that are there now, by name", Tags: tags, Errors: missing}, auth.RoleViewer, s.listNodes)
	op(s, huma.Operation{OperationID: "list-cluster-events", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/events", Summary: "What the agent saw happen, newest first", Tags: tags, Errors: missing}, auth.RoleViewer, s.listClusterEvents)
}

func (s *Server) listClusters(ctx context.Context, p auth.Principal, in *pageQuery) (*clusterList, error) {
	after := ""
	if in.Cursor != "" {
		if err := decodeCursor(in.Cursor, &after); err != nil {
			return nil, err
		}
	}
	out := &clusterList{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		list, err := store.Clusters(ctx, tx, after, in.Limit)
		if err != nil {
			return err
		}
		if err := store.PriceClusters(ctx, tx, s.prices(), list); err != nil {
			return err
		}
		out.Body.Items = make([]Cluster, 0, len(list))
		for _, c := range list {
			out.Body.Items = append(out.Body.Items, clusterOf(c, tx.Now))
		}
		if n := len(list); n == in.Limit {
			out.Body.NextCursor = encodeCursor(list[n-1].Name)
		}
		return nil
	})
	return out, err
}

func (s *Server) createCluster(ctx context.Context, p auth.Principal, in *newClusterInput) (*clusterOutput, error) {
	return s.clusterAfter(ctx, p, func(tx *store.Tx) (fleet.ClusterID, error) {
		id, err := store.CreateCluster(ctx, tx, in.Body.Name, in.Body.Mode)
		if err != nil {
			return "", err
		}
		return id, store.Audit(ctx, tx, p.Actor(), "cluster.create", "cluster:"+string(id), map[string]string{"name": in.Body.Name, "mode": string(in.Body.Mode)})
	})
}

func (s *Server) getCluster(ctx context.Context, p auth.Principal, in *clusterPath) (*clusterOutput, error) {
	return s.clusterAfter(ctx, p, func(*store.Tx) (fleet.ClusterID, error) { return in.ID, nil })
}

func (s *Server) setCluster(ctx context.Context, p auth.Principal, in *setClusterInput) (*clusterOutput, error) {
	return s.clusterAfter(ctx, p, func(tx *store.Tx) (fleet.ClusterID, error) {
		mode, frozen, err := store.SetCluster(ctx, tx, in.ID, in.Body.Mode, in.Body.Frozen)
		if err != nil {
			return "", err
		}
		detail := map[string]string{}
		if in.Body.Mode != nil && *in.Body.Mode != mode {
			detail["mode.before"], detail["mode.after"] = string(mode), string(*in.Body.Mode)
		}
		if in.Body.Frozen != nil && *in.Body.Frozen != frozen {
			detail["frozen.before"], detail["frozen.after"] = strconv.FormatBool(frozen), strconv.FormatBool(*in.Body.Frozen)
		}
		if len(detail) == 0 {
			return in.ID, nil // applying twice equals applying once
		}
		if err := store.Notify(ctx, tx, store.EventConfig, in.ID, ""); err != nil {
			return "", err
		}
		return in.ID, store.Audit(ctx, tx, p.Actor(), "cluster.set", "cluster:"+string(in.ID), detail)
	})
}

// clusterAfter shows a cluster as it is after change, in one transaction.
func (s *Server) clusterAfter(ctx context.Context, p auth.Principal, change func(*store.Tx) (fleet.ClusterID, error)) (*clusterOutput, error) {
	out := &clusterOutput{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		id, err := change(tx)
		if err != nil {
			return err
		}
		c, err := store.ClusterByID(ctx, tx, id)
		if err != nil {
			return err
		}
		one := []store.Cluster{c}
		if err := store.PriceClusters(ctx, tx, s.prices(), one); err != nil {
			return err
		}
		out.Body = clusterOf(one[0], tx.Now)
		return nil
	})
	return out, err
}
