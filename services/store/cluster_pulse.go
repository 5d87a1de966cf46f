package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// ClusterPulse is when a cluster was last heard of.
type ClusterPulse struct {
	ID         fleet.ClusterID
	Name       string
	LastSeenAt time.Time // our clock
	DataAt     time.Time // the agent's clock
}

// ClusterPulses lists the clusters that ever reported, by id. after is the last id seen, empty for the first page.
func ClusterPulses(ctx context.Context, tx *Tx, after fleet.ClusterID, limit int) ([]ClusterPulse, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT id::text, name, last_seen_at, data_at FROM cluster
WHERE tenant_id = $1 AND last_seen_at IS NOT NULL AND data_at IS NOT NULL AND ($2 = '' OR id > nullif($2, '')::uuid)
ORDER BY id LIMIT $3`, tx.Tenant, string(after), limit)
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ClusterPulse])
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	return list, nil
}
