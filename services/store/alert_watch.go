package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// WatchedWorkload is a workload that is in a state that somebody should know of.
type WatchedWorkload struct {
	ID      fleet.WorkloadID
	Key     string
	Team    string
	Cluster fleet.ClusterID
	At      time.Time // data time, since when
	Max     int       // of its policy
	Problem string
}

const (
	watchFresh = 10 * time.Minute // a decision older than that says nothing of now
	watchStuck = 15 * time.Minute // at the maximum for that long
	watchLimit = 1000
	burnLimit  = 10_000 // workloads with late requests
)

// FoughtWorkloads lists those whose newest decision yielded to another controller.
func FoughtWorkloads(ctx context.Context, tx *Tx) ([]WatchedWorkload, error) {
	return watched(ctx, tx, `
SELECT w.id::text, w.key, w.team, w.cluster_id::text, (m.memory ->> 'last_news')::timestamptz, 0, ''
FROM planner_memory m JOIN workload w ON w.tenant_id = m.tenant_id AND w.id = m.workload_id AND w.gone_at IS NULL
JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id
WHERE m.tenant_id = $1 AND m.memory ->> 'last_binding' = 'conflict' AND (m.memory ->> 'last_at')::timestamptz >= c.data_at - $2::interval
ORDER BY w.key, w.id LIMIT $3`, watchFresh)
}

// StuckWorkloads lists those that have been held at their policy's maximum for a quarter of an hour.
func StuckWorkloads(ctx context.Context, tx *Tx) ([]WatchedWorkload, error) {
	return watched(ctx, tx, `
SELECT w.id::text, w.key, w.team, w.cluster_id::text, (m.memory ->> 'last_news')::timestamptz, coalesce((m.memory ->> 'last_target')::int, 0), ''
FROM planner_memory m JOIN workload w ON w.tenant_id = m.tenant_id AND w.id = m.workload_id AND w.gone_at IS NULL
JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id
WHERE m.tenant_id = $1 AND m.memory ->> 'last_binding' = 'max_replicas' AND (m.memory ->> 'last_at')::timestamptz >= c.data_at - interval '10 minutes'
  AND (m.memory ->> 'last_news')::timestamptz <= c.data_at - $2::interval
ORDER BY w.key, w.id LIMIT $3`, watchStuck)
}

// FailedWorkloads lists those whose newest finished decision of the last hour failed in the cluster.
func FailedWorkloads(ctx context.Context, tx *Tx) ([]WatchedWorkload, error) {
	return watched(ctx, tx, `
SELECT w.id::text, w.key, w.team, w.cluster_id::text, d.finished_at, 0, coalesce(d.result_detail, d.result_code, '')
FROM (SELECT DISTINCT ON (d.workload_id) d.* FROM decision d JOIN cluster c ON c.tenant_id = d.tenant_id AND c.id = d.cluster_id
      WHERE d.tenant_id = $1 AND d.at >= c.data_at - $2::interval AND d.state IN ('applied', 'failed') ORDER BY d.workload_id, d.at DESC, d.id DESC) d
JOIN workload w ON w.tenant_id = d.tenant_id AND w.id = d.workload_id AND w.gone_at IS NULL
WHERE d.state = 'failed' ORDER BY w.key, w.id LIMIT $3`, time.Hour)
}

func watched(ctx context.Context, tx *Tx, query string, span time.Duration) ([]WatchedWorkload, error) {
	rows, err := tx.pgx.Query(ctx, query, tx.Tenant, span, watchLimit)
	if err != nil {
		return nil, fmt.Errorf("watch workloads: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[WatchedWorkload])
	if err != nil {
		return nil, fmt.Errorf("watch workloads: %w", err)
	}
	return list, nil
}

// StalePrices is a region in which the tenant runs Spot machines whose prices have not been heard of for long.
type StalePrices struct {
	Cloud  fleet.Cloud
	Region string
	SeenAt time.Time // the newest word about any of them
}

// StaleSpot lists the regions of running Spot machines of which no source said anything since before, of clouds that the tenant has an account
// for: without one nobody is expected to say anything.
func StaleSpot(ctx context.Context, tx *Tx, before time.Time) ([]StalePrices, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT n.cloud, n.region, max(p.seen_at) FROM (
  SELECT DISTINCT cloud, region, instance_type FROM node WHERE tenant_id = $1 AND ended_at IS NULL AND purchase = 'spot') n
JOIN spot_pool p ON p.cloud = n.cloud AND p.region = n.region AND p.instance_type = n.instance_type
WHERE EXISTS (SELECT FROM cloud_account a WHERE a.tenant_id = $1 AND a.cloud = n.cloud)
GROUP BY n.cloud, n.region HAVING max(p.seen_at) < $2 ORDER BY n.cloud, n.region`, tx.Tenant, before)
	if err != nil {
		return nil, fmt.Errorf("look for stale prices: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[StalePrices])
	if err != nil {
		return nil, fmt.Errorf("look for stale prices: %w", err)
	}
	return list, nil
}
