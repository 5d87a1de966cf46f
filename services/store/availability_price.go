package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// SpotRatio is the newest Spot price of an offering over its on-demand price.
type SpotRatio struct {
	Offering fleet.Offering
	Ratio    float64
}

// SpotRatios lists them for the Spot machines that the tenant has now, where the price history knows both prices.
func SpotRatios(ctx context.Context, tx *Tx) ([]SpotRatio, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT n.cloud, n.region, n.zone, n.instance_type, n.purchase, max(p.spot_nano::double precision / p.on_demand_nano)
FROM (SELECT DISTINCT cloud, region, zone, instance_type, purchase FROM node WHERE tenant_id = $1 AND ended_at IS NULL AND purchase = 'spot') n
JOIN spot_pool p ON p.cloud = n.cloud AND p.region = n.region AND p.instance_type = n.instance_type AND p.zone IN (n.zone, '', `+zoneIDOf("n")+`) AND p.product IN ('Linux/UNIX', 'Linux', '')
WHERE p.spot_nano > 0 AND p.on_demand_nano > 0 GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load price ratios: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r SpotRatio, err error) {
		o := &r.Offering
		err = row.Scan(&o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase, &r.Ratio)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("load price ratios: %w", err)
	}
	return out, nil
}
