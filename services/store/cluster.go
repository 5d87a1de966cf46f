package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// Health is how well the agent's connection is, by our clock.
type Health string

// Health of a connection, see HealthOf.
const (
	HealthOnline  Health = "online"
	HealthLagging Health = "lagging"
	HealthOffline Health = "offline"
	HealthNever   Health = "never"
)

// An agent reports at least once a minute; one missed report is noise, five minutes of silence are not.
const (
	laggingAfter = 90 * time.Second
	offlineAfter = 5 * time.Minute
)

// HealthOf judges a connection by when the agent was last seen; both times are our clock's.
func HealthOf(now time.Time, lastSeen *time.Time) Health {
	switch {
	case lastSeen == nil:
		return HealthNever
	case now.Sub(*lastSeen) > offlineAfter:
		return HealthOffline
	case now.Sub(*lastSeen) > laggingAfter:
		return HealthLagging
	}
	return HealthOnline
}

// AgentLimits are the agent's own limits, as it reported them; column cluster.agent_limits holds them as this JSON.
type AgentLimits struct {
	MaxReplicas            int64  `json:"max_replicas" doc:"Of all workloads together; 0: no limit"`
	MaxReplicasPerWorkload int64  `json:"max_replicas_per_workload"`
	MaxActionsPerMinute    int64  `json:"max_actions_per_minute"`
	Frozen                 bool   `json:"frozen"`
	Mode                   string `json:"mode,omitempty"`
}

// Cluster is a cluster with what its agent said last and what is in it now.
type Cluster struct {
	ID                fleet.ClusterID
	Name              string
	Mode              fleet.Mode
	Frozen            bool
	CreatedAt         time.Time
	AgentVersion      string
	KubernetesVersion string
	Capabilities      []string
	Limits            AgentLimits
	SimulatedClock    bool
	ClockSpeed        float64
	Skew              time.Duration // agent's clock minus ours
	LastSeenAt        *time.Time    // our clock
	DataAt            *time.Time    // the agent's clock
	Generation        int64
	AppliedGeneration int64
	Nodes             int
	GPUs              int
	Workloads         int
	// Cost is what the live nodes cost per hour, as far as their price is known; nil: of no node. UnpricedNodes count the others. Both are
	// set by PriceClusters.
	Cost          *fleet.Money
	Currency      string
	UnpricedNodes int
}

const clusterQuery = `
SELECT c.id::text, c.name, c.mode, c.frozen, c.created_at, c.agent_version, c.kubernetes_version, c.capabilities, c.agent_limits,
  c.simulated_clock, c.clock_speed, c.skew_ms, c.last_seen_at, c.data_at, c.generation, c.applied_generation,
  (SELECT count(*) FROM workload w WHERE w.tenant_id = c.tenant_id AND w.cluster_id = c.id AND w.gone_at IS NULL),
  n.nodes, n.gpus, t.currency
FROM cluster c
JOIN tenant t ON t.tenant_id = c.tenant_id
CROSS JOIN LATERAL (
  SELECT count(*) AS nodes, coalesce(sum(n.gpu_count), 0) AS gpus FROM node n
  WHERE n.tenant_id = c.tenant_id AND n.cluster_id = c.id AND n.ended_at IS NULL
) n
WHERE c.tenant_id = @tenant`

func scanCluster(row pgx.CollectableRow) (c Cluster, err error) {
	var limits []byte
	var skew int64
	err = row.Scan(&c.ID, &c.Name, &c.Mode, &c.Frozen, &c.CreatedAt, &c.AgentVersion, &c.KubernetesVersion, &c.Capabilities, &limits,
		&c.SimulatedClock, &c.ClockSpeed, &skew, &c.LastSeenAt, &c.DataAt, &c.Generation, &c.AppliedGeneration,
		&c.Workloads, &c.Nodes, &c.GPUs, &c.Currency)
	if err != nil {
		return c, err
	}
	c.CreatedAt, c.LastSeenAt, c.DataAt = c.CreatedAt.UTC(), utc(c.LastSeenAt), utc(c.DataAt)
	c.Skew = time.Duration(skew) * time.Millisecond
	if err := json.Unmarshal(limits, &c.Limits); err != nil {
		return c, fmt.Errorf("agent limits of cluster %s: %w", c.ID, err)
	}
	return c, nil
}

// Clusters lists the tenant's clusters by name. after is the last name seen, empty for the first page.
func Clusters(ctx context.Context, tx *Tx, after string, limit int) ([]Cluster, error) {
	rows, err := tx.pgx.Query(ctx, clusterQuery+" AND c.name > @after ORDER BY c.name LIMIT @limit",
		pgx.NamedArgs{"tenant": tx.Tenant, "after": after, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanCluster)
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	return list, nil
}

// ClusterByID reads one cluster.
func ClusterByID(ctx context.Context, tx *Tx, id fleet.ClusterID) (Cluster, error) {
	rows, err := tx.pgx.Query(ctx, clusterQuery+" AND c.id = @id", pgx.NamedArgs{"tenant": tx.Tenant, "id": id})
	if err != nil {
		return Cluster{}, fmt.Errorf("load cluster: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCluster)
	if err != nil {
		return c, notFound(err, "cluster")
	}
	return c, nil
}

// MaxClusters is how many clusters a tenant may have.
const MaxClusters = 10_000

// CreateCluster makes a cluster that waits for its agent. A name that is taken is a conflict.
func CreateCluster(ctx context.Context, tx *Tx, name string, mode fleet.Mode) (fleet.ClusterID, error) {
	var have int
	if err := tx.pgx.QueryRow(ctx, "SELECT count(*) FROM cluster WHERE tenant_id = $1", tx.Tenant).Scan(&have); err != nil {
		return "", fmt.Errorf("count clusters: %w", err)
	}
	if have >= MaxClusters {
		return "", fleet.Errorf(fleet.CodeConflict, "there are %d clusters, which is the limit", have)
	}
	id := fleet.ClusterID(uuid.NewString())
	_, err := tx.pgx.Exec(ctx, "INSERT INTO cluster (tenant_id, id, name, mode, created_at) VALUES ($1, $2, $3, $4, $5)",
		tx.Tenant, id, name, mode, tx.Now)
	if violates(err, "cluster_name_key") {
		return "", &fleet.Error{Code: fleet.CodeConflict, Field: "body.name", Message: "there is a cluster with this name"}
	}
	if err != nil {
		return "", fmt.Errorf("create cluster: %w", err)
	}
	return id, nil
}

// SetCluster changes mode and freeze; nil leaves as it is. It returns what was before.
func SetCluster(ctx context.Context, tx *Tx, id fleet.ClusterID, mode *fleet.Mode, frozen *bool) (oldMode fleet.Mode, oldFrozen bool, err error) {
	err = tx.pgx.QueryRow(ctx, "SELECT mode, frozen FROM cluster WHERE tenant_id = $1 AND id = $2 FOR UPDATE", tx.Tenant, id).Scan(&oldMode, &oldFrozen)
	if err != nil {
		return "", false, notFound(err, "cluster")
	}
	_, err = tx.pgx.Exec(ctx, `
UPDATE cluster SET mode = coalesce(@mode, mode), frozen = coalesce(@frozen, frozen) WHERE tenant_id = @tenant AND id = @id`,
		pgx.NamedArgs{"tenant": tx.Tenant, "id": id, "mode": mode, "frozen": frozen})
	if err != nil {
		return "", false, fmt.Errorf("change cluster: %w", err)
	}
	return oldMode, oldFrozen, nil
}

// ClusterExists is not_found for a cluster that this tenant does not have.
func ClusterExists(ctx context.Context, tx *Tx, id fleet.ClusterID) error {
	var one int
	if err := tx.pgx.QueryRow(ctx, "SELECT 1 FROM cluster WHERE tenant_id = $1 AND id = $2", tx.Tenant, id).Scan(&one); err != nil {
		return notFound(err, "cluster")
	}
	return nil
}
