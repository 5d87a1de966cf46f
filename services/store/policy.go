package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// PolicyVersion is one saved version of a workload's policy.
type PolicyVersion struct {
	Workload  fleet.WorkloadID
	Version   int
	Document  string
	Mode      fleet.Mode
	CreatedBy string
	CreatedAt time.Time
}

// Policies returns the versions of a workload's policy, newest first, at most limit. None is an empty list.
func Policies(ctx context.Context, tx *Tx, workload fleet.WorkloadID, limit int) ([]PolicyVersion, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT workload_id::text, version, document, mode, created_by, created_at FROM policy
		WHERE tenant_id = $1 AND workload_id = $2 ORDER BY version DESC LIMIT $3`, tx.Tenant, workload, limit)
	if err != nil {
		return nil, fmt.Errorf("load policies: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[PolicyVersion])
}

// SavePolicy adds a version. expect is the version that the writer saw (0: none yet); another one by now is a conflict and
// nothing is written.
func SavePolicy(ctx context.Context, tx *Tx, p PolicyVersion, expect int) (PolicyVersion, error) {
	p.Version, p.CreatedAt = expect+1, tx.Now
	tag, err := tx.pgx.Exec(ctx, `
INSERT INTO policy (tenant_id, workload_id, version, document, mode, created_by, created_at)
SELECT $1, w.id, $3, $4, $5, $6, $7 FROM workload w
WHERE w.tenant_id = $1 AND w.id = $2 AND coalesce((SELECT max(version) FROM policy p WHERE p.tenant_id = $1 AND p.workload_id = $2), 0) = $8`,
		tx.Tenant, p.Workload, p.Version, p.Document, p.Mode, p.CreatedBy, p.CreatedAt, expect)
	if violates(err, "policy_pkey") || (err == nil && tag.RowsAffected() == 0) {
		return p, fleet.Errorf(fleet.CodeConflict, "the policy was changed by somebody else meanwhile; load it again")
	}
	if err != nil {
		return p, fmt.Errorf("save policy: %w", err)
	}
	return p, nil
}
