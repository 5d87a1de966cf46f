package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// Compliance is how a cluster's machines stand against its capacity policy.
type Compliance struct {
	At      *time.Time // data time; nil: the cluster never reported
	Version int        // of the cluster's own policy
	Default int        // of the tenant's default, where the cluster takes that
	Server  string     // version of the API server; empty: not told
	Nodes   []capacity.NodeCompliance
}

// NodeCompliance holds a cluster's machines against its own policy, not against one on its way.
func NodeCompliance(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (c Compliance, err error) {
	var dataAt *time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT data_at, kubernetes_version FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, cluster).Scan(&dataAt, &c.Server); err != nil {
		return c, notFound(err, "cluster")
	}
	policy, err := CapacityPolicyOf(ctx, tx, cluster)
	if err != nil {
		return c, err
	}
	c.Version, c.Default, c.Nodes = policy.Version, policy.Default, []capacity.NodeCompliance{}
	if dataAt == nil {
		return c, nil
	}
	at := dataAt.UTC()
	c.At = &at
	rows, err := tx.pgx.Query(ctx, `SELECT name, pool, cloud, region, zone, instance_type, purchase, gpu_model, gpu_count, started_at, labels,
  coalesce((SELECT array_agg(t->>'k' || coalesce('=' || nullif(t->>'v', ''), '') || ':' || coalesce(t->>'e', '') ORDER BY 1) FROM jsonb_array_elements(taints) t), '{}'), taints IS NOT NULL, kubelet_version, gpu_driver
FROM node WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL ORDER BY name, started_at DESC LIMIT $3`, tx.Tenant, cluster, capacity.MaxNodes)
	if err != nil {
		return c, fmt.Errorf("load nodes: %w", err)
	}
	nodes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n capacity.NodeFact, err error) {
		return n, row.Scan(&n.Name, &n.Pool, &n.Offering.Cloud, &n.Offering.Region, &n.Offering.Zone, &n.Offering.InstanceType, &n.Offering.Purchase, &n.GPUModel, &n.GPUCount, &n.StartedAt, &n.Labels, &n.Taints, &n.TaintsOK, &n.Kubelet, &n.Driver)
	})
	if err != nil {
		return c, fmt.Errorf("load nodes: %w", err)
	}
	c.Nodes = capacity.Comply(policy.Policy, c.Server, at, nodes)
	return c, nil
}

// ReportingClusters lists the clusters that have ever reported. Kubelets are held against the API server also where no policy asks for anything.
func ReportingClusters(ctx context.Context, tx *Tx) ([]fleet.ClusterID, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT id::text FROM cluster WHERE tenant_id = $1 AND data_at IS NOT NULL ORDER BY 1`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[fleet.ClusterID])
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	return ids, nil
}
