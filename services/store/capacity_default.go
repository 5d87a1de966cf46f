package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// CapacityDefault is the capacity policy of a tenant's clusters that have none of their own; version 0: there is none, and the built-in defaults hold.
type CapacityDefault struct {
	Policy    capacity.Policy
	Version   int
	UpdatedBy string
	UpdatedAt time.Time
}

// CapacityDefaultOf reads the tenant's default; lock keeps others from changing it until the transaction ends.
func CapacityDefaultOf(ctx context.Context, tx *Tx, lock bool) (d CapacityDefault, err error) {
	sql := `SELECT document, version, updated_by, updated_at FROM capacity_default WHERE tenant_id = $1`
	if lock {
		sql += ` FOR UPDATE`
	}
	var doc []byte
	err = tx.pgx.QueryRow(ctx, sql, tx.Tenant).Scan(&doc, &d.Version, &d.UpdatedBy, &d.UpdatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return CapacityDefault{}, nil
	}
	if err != nil {
		return d, fmt.Errorf("load default capacity policy: %w", err)
	}
	if err := json.Unmarshal(doc, &d.Policy); err != nil {
		return d, fmt.Errorf("read default capacity policy: %w", err)
	}
	return d, nil
}

// SetCapacityDefault writes the tenant's default if version is the one that stands, 0 for none. Clusters that take it are planned again.
func SetCapacityDefault(ctx context.Context, tx *Tx, policy capacity.Policy, version int, by string) error {
	if err := ValidCapacityPolicy(policy); err != nil {
		return err
	}
	doc, err := json.Marshal(policy)
	if err != nil {
		return fmt.Errorf("encode capacity policy: %w", err)
	}
	tag, err := tx.pgx.Exec(ctx, `INSERT INTO capacity_default (tenant_id, version, document, updated_by, updated_at) SELECT $1, 1, $3, $4, $5 WHERE $2 = 0 ON CONFLICT (tenant_id) DO NOTHING`,
		tx.Tenant, version, doc, by, tx.Now)
	if err == nil && version > 0 {
		tag, err = tx.pgx.Exec(ctx, `UPDATE capacity_default SET version = version + 1, document = $3, updated_by = $4, updated_at = $5 WHERE tenant_id = $1 AND version = $2`, tx.Tenant, version, doc, by, tx.Now)
	}
	if err != nil {
		return fmt.Errorf("save default capacity policy: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fleet.Errorf(fleet.CodeConflict, "the default was changed meanwhile: load it again")
	}
	takers, err := CapacityTakers(ctx, tx)
	if err != nil {
		return err
	}
	for _, c := range takers {
		if err := ageCapacityPlan(ctx, tx, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// CapacityTaker is a cluster that takes the tenant's default.
type CapacityTaker struct {
	ID   fleet.ClusterID
	Name string
	Mode fleet.Mode
}

// CapacityTakers lists the clusters that have no capacity policy of their own, by name.
func CapacityTakers(ctx context.Context, tx *Tx) ([]CapacityTaker, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT c.id::text, c.name, c.mode FROM cluster c WHERE c.tenant_id = $1
AND NOT EXISTS (SELECT FROM capacity_policy p WHERE p.tenant_id = c.tenant_id AND p.cluster_id = c.id AND NOT p.inherits) ORDER BY c.name`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("list clusters that take the default: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[CapacityTaker])
	if err != nil {
		return nil, fmt.Errorf("list clusters that take the default: %w", err)
	}
	return list, nil
}

// InheritCapacityPolicy takes a cluster's own policy away, if version is the one that stands: the tenant's default holds. A cluster that has none of its own is a
// conflict.
func InheritCapacityPolicy(ctx context.Context, tx *Tx, cluster fleet.ClusterID, version int, by string) error {
	tag, err := tx.pgx.Exec(ctx, `UPDATE capacity_policy SET version = version + 1, inherits = true, updated_by = $4, updated_at = $5 WHERE tenant_id = $1 AND cluster_id = $2 AND version = $3 AND NOT inherits`,
		tx.Tenant, cluster, version, by, tx.Now)
	if err != nil {
		return fmt.Errorf("take a cluster's capacity policy away: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fleet.Errorf(fleet.CodeConflict, "the cluster has no policy of its own, or it was changed meanwhile: load it again")
	}
	return ageCapacityPlan(ctx, tx, cluster)
}
