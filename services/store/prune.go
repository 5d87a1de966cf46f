package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// pruneRows is how many rows one statement deletes at most: no lock is held for long.
const pruneRows = 1000

// retentions say how long rows live, by the cluster's data time. Each statement takes tenant, cluster and the time before which rows
// go, and deletes at most pruneRows.
var retentions = []struct {
	table string
	keep  time.Duration
	sql   string
}{
	{"telemetry_frame", 6 * time.Hour, `
DELETE FROM telemetry_frame WHERE tenant_id = $1 AND cluster_id = $2 AND (stream, epoch, seq) IN (
  SELECT f.stream, f.epoch, f.seq FROM telemetry_frame f
  WHERE f.tenant_id = $1 AND f.cluster_id = $2 AND f.from_at < $3 AND f.to_at <= $3 AND NOT EXISTS (
    SELECT FROM rollup_dirty d WHERE d.tenant_id = $1 AND d.cluster_id = $2 AND d.block_at < f.to_at AND d.block_at + interval '2 hours' > f.from_at)
  ORDER BY f.from_at LIMIT $4)`},
	{"observation", time.Hour, `
DELETE FROM observation WHERE tenant_id = $1 AND cluster_id = $2 AND (at, stream, epoch, seq) IN (
  SELECT at, stream, epoch, seq FROM observation WHERE tenant_id = $1 AND cluster_id = $2 AND at < $3 LIMIT $4)`},
	{"rollup_1m", keepMinutes, rollupPrune("rollup_1m")},
	{"rollup_1h", 400 * 24 * time.Hour, rollupPrune("rollup_1h")},
	{"rollup_1d", 5 * 366 * 24 * time.Hour, rollupPrune("rollup_1d")},
	{"telemetry_chunk", 30 * 24 * time.Hour, `
DELETE FROM telemetry_chunk WHERE tenant_id = $1 AND cluster_id = $2 AND (from_at, kind, entity) IN (
  SELECT from_at, kind, entity FROM telemetry_chunk WHERE tenant_id = $1 AND cluster_id = $2 AND from_at < $3 LIMIT $4)`},
	{"cluster_event", 90 * 24 * time.Hour, `
DELETE FROM cluster_event WHERE tenant_id = $1 AND cluster_id = $2 AND (at, stream, epoch, seq, position) IN (
  SELECT at, stream, epoch, seq, position FROM cluster_event WHERE tenant_id = $1 AND cluster_id = $2 AND at < $3 LIMIT $4)`},
	{"checkpoint_call", 90 * 24 * time.Hour, `
DELETE FROM checkpoint_call WHERE tenant_id = $1 AND cluster_id = $2 AND id IN (
  SELECT id FROM checkpoint_call WHERE tenant_id = $1 AND cluster_id = $2 AND at < $3 LIMIT $4)`},
	{"workload_writer", 24 * time.Hour, `
DELETE FROM workload_writer WHERE tenant_id = $1 AND cluster_id = $2 AND (workload_key, manager, object, field) IN (
  SELECT workload_key, manager, object, field FROM workload_writer WHERE tenant_id = $1 AND cluster_id = $2 AND at < $3 LIMIT $4)`},
	{"gpu_holding", 62 * 24 * time.Hour, `
DELETE FROM gpu_holding WHERE tenant_id = $1 AND cluster_id = $2 AND (node, namespace, pod, holding, from_at) IN (
  SELECT node, namespace, pod, holding, from_at FROM gpu_holding WHERE tenant_id = $1 AND cluster_id = $2 AND to_at < $3 LIMIT $4)`},
	{"pod", 62 * 24 * time.Hour, `
DELETE FROM pod WHERE tenant_id = $1 AND cluster_id = $2 AND uid IN (
  SELECT uid FROM pod WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at < $3 LIMIT $4)`},
}

func rollupPrune(table string) string {
	return `DELETE FROM ` + table + ` WHERE tenant_id = $1 AND (workload_id, at) IN (
  SELECT workload_id, at FROM ` + table + ` WHERE tenant_id = $1 AND cluster_id = $2 AND at < $3 LIMIT $4)`
}

// Names of series go with the last frame of their epoch, once a newer epoch is there.
const pruneSeries = `
DELETE FROM ingest_series WHERE tenant_id = $1 AND cluster_id = $2 AND (stream, epoch, series_id) IN (
  SELECT s.stream, s.epoch, s.series_id FROM ingest_series s JOIN ingest_stream i ON i.tenant_id = s.tenant_id AND i.cluster_id = s.cluster_id AND i.stream = s.stream
  WHERE s.tenant_id = $1 AND s.cluster_id = $2 AND s.epoch < i.epoch AND NOT EXISTS (
    SELECT FROM telemetry_frame f WHERE f.tenant_id = $1 AND f.cluster_id = $2 AND f.stream = s.stream AND f.epoch = s.epoch)
  LIMIT $3)`

// PruneCluster deletes what has lived long enough, a bounded number of rows of each table. It returns how many went, and whether
// there may be more. Frames of blocks that are not compacted stay.
func PruneCluster(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (gone int64, more bool, err error) {
	var dataAt *time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT data_at FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, cluster).Scan(&dataAt); err != nil {
		return 0, false, notFound(err, "cluster")
	}
	if dataAt == nil {
		return 0, false, nil
	}
	b := &pgx.Batch{}
	for _, r := range retentions {
		b.Queue(r.sql, tx.Tenant, cluster, dataAt.Add(-r.keep), pruneRows)
	}
	b.Queue(pruneSeries, tx.Tenant, cluster, pruneRows)
	results := tx.pgx.SendBatch(ctx, b)
	for range b.Len() {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close()
			return 0, false, fmt.Errorf("prune: %w", err)
		}
		gone += tag.RowsAffected()
		more = more || tag.RowsAffected() >= pruneRows
	}
	if err := results.Close(); err != nil {
		return 0, false, fmt.Errorf("prune: %w", err)
	}
	return gone, more, nil
}

// ClusterIDs lists the clusters of the tenant.
func ClusterIDs(ctx context.Context, tx *Tx) ([]fleet.ClusterID, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT id::text FROM cluster WHERE tenant_id = $1 ORDER BY id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[fleet.ClusterID])
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	return ids, nil
}
