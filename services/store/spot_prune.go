package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/market"
)

// spotPruneChunks is how many months of pools one transaction deletes at most: writers of prices wait for it.
const spotPruneChunks = 5000

// PruneSpot deletes months of Spot prices that lie so many years before the newest look at their cloud, a bounded number of them. The
// newest month before that stays for each pool, so that the price at the beginning of what is kept is known still. A pool that nobody was
// heard about for as long goes altogether. It returns how many months went and whether there may be more. The caller needs no tenant.
func PruneSpot(ctx context.Context, tx *Tx, keepYears int) (gone int, more bool, err error) {
	if keepYears <= 0 {
		return 0, false, nil
	}
	if _, err := tx.pgx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(spotWriterLock)); err != nil {
		return 0, false, fmt.Errorf("lock Spot prices: %w", err)
	}
	// The day that counts is the newest one of the cloud's own prices: a history that was imported years later is as old as its end.
	rows, err := tx.pgx.Query(ctx, `
WITH edge AS (SELECT cloud, max(seen_at) - make_interval(years => $1) AS at FROM spot_pool GROUP BY cloud),
old AS (
  SELECT c.pool_id, c.month FROM spot_chunk c JOIN spot_pool p ON p.id = c.pool_id JOIN edge e ON e.cloud = p.cloud
  WHERE c.month + interval '1 month' <= e.at AND (p.seen_at < e.at OR EXISTS (
    SELECT FROM spot_chunk n WHERE n.pool_id = c.pool_id AND n.month > c.month AND n.month + interval '1 month' <= e.at))
  ORDER BY c.month, c.pool_id LIMIT $2)
DELETE FROM spot_chunk c USING old WHERE c.pool_id = old.pool_id AND c.month = old.month RETURNING c.pool_id, c.month, c.body`, keepYears, spotPruneChunks)
	if err != nil {
		return 0, false, fmt.Errorf("prune Spot prices: %w", err)
	}
	fewer := map[int32]int64{}
	var id int32
	var month time.Time
	var body []byte
	var changes []market.SpotChange
	if _, err := pgx.ForEachRow(rows, []any{&id, &month, &body}, func() (err error) {
		changes, err = unpackSpot(month.UTC(), body, changes[:0])
		fewer[id] += int64(len(changes))
		gone++
		return err
	}); err != nil {
		return 0, false, fmt.Errorf("prune Spot prices: %w", err)
	}
	var ids columns[int32]
	var counts columns[int64]
	for id, n := range fewer {
		ids.add(id)
		counts.add(n)
	}
	if _, err := tx.pgx.Exec(ctx, `UPDATE spot_pool p SET changes = greatest(p.changes - f.n, 0) FROM unnest($1::int[], $2::bigint[]) f(id, n) WHERE p.id = f.id`,
		[]int32(ids), []int64(counts)); err != nil {
		return 0, false, fmt.Errorf("prune Spot prices: %w", err)
	}
	if _, err := tx.pgx.Exec(ctx, `
DELETE FROM spot_pool p USING (SELECT cloud, max(seen_at) - make_interval(years => $1) AS at FROM spot_pool GROUP BY cloud) e
WHERE e.cloud = p.cloud AND p.seen_at < e.at AND NOT EXISTS (SELECT FROM spot_chunk c WHERE c.pool_id = p.id)`, keepYears); err != nil {
		return 0, false, fmt.Errorf("prune Spot pools: %w", err)
	}
	return gone, gone >= spotPruneChunks, nil
}
