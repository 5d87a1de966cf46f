package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// Hint is load that somebody expects of a workload.
type Hint struct {
	optimizer.Hint
	Workload  fleet.WorkloadID
	Note      string
	CreatedBy string
	CreatedAt time.Time // our clock
}

// MaxHints bounds the hints of a workload that are not over.
const MaxHints = 50

// hintsKept is for how long hints are kept after their time, to explain what was decided by them.
const hintsKept = 30 * 24 * time.Hour

const hintColumns = `id::text, workload_id::text, from_at, to_at, kind, amount, note, created_by, created_at`

func scanHint(row pgx.CollectableRow) (h Hint, err error) {
	err = row.Scan(&h.ID, &h.Workload, &h.From, &h.To, &h.Kind, &h.Amount, &h.Note, &h.CreatedBy, &h.CreatedAt)
	h.From, h.To, h.CreatedAt = h.From.UTC(), h.To.UTC(), h.CreatedAt.UTC()
	return h, err
}

// Hints lists a workload's hints by when they begin; past ones too, if they are asked for.
func Hints(ctx context.Context, tx *Tx, workload fleet.WorkloadID, past bool) ([]Hint, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+hintColumns+` FROM workload_hint WHERE tenant_id = $1 AND workload_id = $2 AND (to_at > $3 OR $4) ORDER BY from_at, id LIMIT 500`,
		tx.Tenant, workload, tx.Now, past)
	if err != nil {
		return nil, fmt.Errorf("list hints: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanHint)
	if err != nil {
		return nil, fmt.Errorf("list hints: %w", err)
	}
	return list, nil
}

// AddHint keeps a hint under a new id and forgets those of the workload that have long been over. Conflict: the workload has as many as it may.
func AddHint(ctx context.Context, tx *Tx, h Hint) (Hint, error) {
	if _, err := tx.pgx.Exec(ctx, `SELECT FROM workload WHERE tenant_id = $1 AND id = $2 FOR UPDATE`, tx.Tenant, h.Workload); err != nil { // one at a time counts
		return h, fmt.Errorf("lock workload: %w", err)
	}
	var n int
	if err := tx.pgx.QueryRow(ctx, `SELECT count(*) FROM workload_hint WHERE tenant_id = $1 AND workload_id = $2 AND to_at > $3`, tx.Tenant, h.Workload, tx.Now).Scan(&n); err != nil {
		return h, fmt.Errorf("count hints: %w", err)
	}
	if n >= MaxHints {
		return h, fleet.Errorf(fleet.CodeConflict, "a workload has at most %d hints that are not over", MaxHints)
	}
	h.ID, h.CreatedAt = uuid.Must(uuid.NewV7()).String(), tx.Now.UTC()
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO workload_hint (tenant_id, workload_id, id, from_at, to_at, kind, amount, note, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		tx.Tenant, h.Workload, h.ID, h.From, h.To, h.Kind, h.Amount, h.Note, h.CreatedBy, h.CreatedAt)
	b.Queue(`DELETE FROM workload_hint WHERE tenant_id = $1 AND workload_id = $2 AND to_at < $3`, tx.Tenant, h.Workload, tx.Now.Add(-hintsKept))
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return h, fmt.Errorf("save hint: %w", err)
	}
	return h, nil
}

// DeleteHint forgets a hint; not found: the workload has none of that id.
func DeleteHint(ctx context.Context, tx *Tx, workload fleet.WorkloadID, id string) error {
	tag, err := tx.pgx.Exec(ctx, `DELETE FROM workload_hint WHERE tenant_id = $1 AND workload_id = $2 AND id = $3`, tx.Tenant, workload, id)
	if err != nil {
		return fmt.Errorf("delete hint: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such hint")
	}
	return nil
}

// PlanHints are the hints of a cluster's workloads that may matter to decisions at now, by workload.
func PlanHints(ctx context.Context, tx *Tx, cluster fleet.ClusterID, now time.Time) (map[fleet.WorkloadID][]optimizer.Hint, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT h.id::text, h.workload_id::text, h.from_at, h.to_at, h.kind, h.amount FROM workload_hint h
JOIN workload w ON w.tenant_id = h.tenant_id AND w.id = h.workload_id
WHERE h.tenant_id = $1 AND w.cluster_id = $2 AND h.to_at > $3 AND h.from_at <= $3::timestamptz + interval '1 hour' ORDER BY h.workload_id, h.from_at, h.id`, tx.Tenant, cluster, now)
	if err != nil {
		return nil, fmt.Errorf("load hints: %w", err)
	}
	out := map[fleet.WorkloadID][]optimizer.Hint{}
	var h optimizer.Hint
	var workload fleet.WorkloadID
	if _, err = pgx.ForEachRow(rows, []any{&h.ID, &workload, &h.From, &h.To, &h.Kind, &h.Amount}, func() error {
		h.From, h.To = h.From.UTC(), h.To.UTC()
		out[workload] = append(out[workload], h)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("load hints: %w", err)
	}
	return out, nil
}
