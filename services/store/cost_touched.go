package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// maxTouchedHours bounds how much of the past one look takes; more is found at the next.
const maxTouchedHours = 10_000

// SweepTouched notes the closed hours, before open and not before floor, of which nodes or pods became known or changed since the last
// sweep. The caller holds LockCosting.
func SweepTouched(ctx context.Context, tx *Tx, cluster fleet.ClusterID, floor, open time.Time) error {
	if !floor.Before(open) {
		floor = open
	}
	batch := &pgx.Batch{}
	for _, object := range []struct{ table, begin, billed string }{{"pod", "created_at", "0"}, {"node", "started_at", "1 minute"}} {
		// A row that is changed at this moment keeps its mark for the next look: nothing waits for ingest here. The marks are cleared by a
		// list of keys and not by a join: the planner expects one marked row, and would compare every row with every other.
		batch.Queue(`
WITH old AS MATERIALIZED (
  SELECT uid, greatest(touched_from, `+object.begin+`) AS from_at, greatest(ended_at + interval '`+object.billed+`', CASE WHEN ended_at IS NOT NULL THEN touched_to END) AS past FROM `+object.table+`
  WHERE tenant_id = $1 AND cluster_id = $2 AND touched_from IS NOT NULL FOR UPDATE SKIP LOCKED
), cleared AS (
  UPDATE `+object.table+` SET touched_from = NULL, touched_to = NULL
  WHERE tenant_id = $1 AND cluster_id = $2 AND uid = ANY (ARRAY(SELECT uid FROM old))
), spans AS (
  SELECT greatest(date_trunc('hour', from_at, 'UTC'), $3::timestamptz) AS first, least(past, $4::timestamptz) AS past FROM old
), runs AS (
  SELECT DISTINCT first, past FROM spans WHERE first < past
)
INSERT INTO cost_touched (tenant_id, cluster_id, hour)
SELECT DISTINCT $1::uuid, $2::uuid, h FROM runs, generate_series(runs.first, runs.past - interval '1 microsecond', interval '1 hour') h
ON CONFLICT DO NOTHING`, tx.Tenant, cluster, floor, open)
	}
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("look for late data: %w", err)
	}
	return nil
}

// TouchedHours lists the closed hours that SweepTouched and compaction have noted, oldest first: they are to be costed again.
func TouchedHours(ctx context.Context, tx *Tx, cluster fleet.ClusterID) ([]time.Time, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT hour FROM cost_touched WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY hour LIMIT $3`, tx.Tenant, cluster, maxTouchedHours)
	if err != nil {
		return nil, fmt.Errorf("load touched hours: %w", err)
	}
	hours, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (t time.Time, err error) {
		err = r.Scan(&t)
		return t.UTC(), err
	})
	if err != nil {
		return nil, fmt.Errorf("load touched hours: %w", err)
	}
	return hours, nil
}

// Untouch says that the hours were costed again with all that is known.
func Untouch(ctx context.Context, tx *Tx, cluster fleet.ClusterID, hours []time.Time) error {
	_, err := tx.pgx.Exec(ctx, `DELETE FROM cost_touched WHERE tenant_id = $1 AND cluster_id = $2 AND hour = ANY ($3)`, tx.Tenant, cluster, hours)
	if err != nil {
		return fmt.Errorf("forget touched hours: %w", err)
	}
	return nil
}
