package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// TenantPrice is what a machine-hour costs a tenant by its own word; it comes before the catalogue.
type TenantPrice struct {
	Cloud        fleet.Cloud
	Region       string // empty: all
	InstanceType string
	Purchase     fleet.Purchase
	ValidFrom    time.Time
	Hour         fleet.Money
	CreatedBy    string
	CreatedAt    time.Time
}

// TenantPrices lists all of them by machine, newest first.
func TenantPrices(ctx context.Context, tx *Tx) ([]TenantPrice, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT cloud, region, instance_type, purchase, valid_from, hour_nano, created_by, created_at FROM tenant_price WHERE tenant_id = $1
ORDER BY cloud, instance_type, purchase, region, valid_from DESC`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load prices: %w", err)
	}
	prices, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TenantPrice])
	if err != nil {
		return nil, fmt.Errorf("load prices: %w", err)
	}
	return prices, nil
}

// SetTenantPrice adds a price; the same machine at the same moment is set anew. Closed hours in which such a machine had no price, from then on
// and not older than RestateFloor, are costed again. What has a price keeps it.
func SetTenantPrice(ctx context.Context, tx *Tx, p TenantPrice) error {
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO tenant_price (tenant_id, cloud, region, instance_type, purchase, valid_from, hour_nano, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant_id, cloud, region, instance_type, purchase, valid_from)
DO UPDATE SET hour_nano = excluded.hour_nano, created_by = excluded.created_by, created_at = excluded.created_at`,
		tx.Tenant, p.Cloud, p.Region, p.InstanceType, p.Purchase, p.ValidFrom, p.Hour, p.CreatedBy, tx.Now)
	if err != nil {
		return fmt.Errorf("save price: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, `
INSERT INTO cost_touched (tenant_id, cluster_id, hour)
SELECT DISTINCT h.tenant_id, h.cluster_id, h.hour FROM cost_hour h JOIN cluster c ON c.tenant_id = h.tenant_id AND c.id = h.cluster_id
JOIN node n ON n.tenant_id = h.tenant_id AND n.cluster_id = h.cluster_id AND n.started_at < h.hour + interval '1 hour' AND (n.ended_at IS NULL OR n.ended_at + interval '1 minute' > h.hour)
WHERE h.tenant_id = $1 AND h.state = 'closed' AND h.unpriced_node_seconds > 0 AND h.hour >= greatest($6::timestamptz, c.data_at - $7::interval)
  AND n.cloud = $2 AND ($3 = '' OR n.region = $3) AND n.instance_type = $4 AND n.purchase = $5
ON CONFLICT DO NOTHING`, tx.Tenant, p.Cloud, p.Region, p.InstanceType, p.Purchase, p.ValidFrom, RestateFloor)
	if err != nil {
		return fmt.Errorf("have hours without a price costed again: %w", err)
	}
	return nil
}
