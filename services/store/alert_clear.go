package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ClearAlerts notes which open alerts of a kind are so still (their subjects are in seen) and since when the others are not, and returns the
// subjects of those that have been clear for hold at least, to be resolved. now is data time.
func ClearAlerts(ctx context.Context, tx *Tx, kind string, seen []string, now time.Time, hold time.Duration) (clear []string, err error) {
	rows, err := tx.pgx.Query(ctx, `
WITH noted AS (
  UPDATE alert SET clear_since = CASE WHEN subject = ANY ($3) THEN NULL ELSE least(coalesce(clear_since, $4), $4) END
  WHERE tenant_id = $1 AND kind = $2 AND resolved_at IS NULL AND NOT (subject = ANY ($3) AND clear_since IS NULL)
  RETURNING subject, clear_since)
SELECT subject FROM noted WHERE clear_since <= $5 ORDER BY subject`, tx.Tenant, kind, orEmpty(seen), now, now.Add(-hold))
	if err != nil {
		return nil, fmt.Errorf("clear alerts: %w", err)
	}
	clear, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("clear alerts: %w", err)
	}
	return clear, nil
}

// AlertOver says whether an alert is resolved; one that nobody knows is.
func AlertOver(ctx context.Context, tx *Tx, id string) (over bool, err error) {
	err = tx.pgx.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM alert WHERE tenant_id = $1 AND id = nullif($2, '')::uuid AND resolved_at IS NULL)`, tx.Tenant, id).Scan(&over)
	if err != nil {
		return false, fmt.Errorf("look up alert: %w", err)
	}
	return over, nil
}
