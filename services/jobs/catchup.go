package jobs

import (
	"context"
	"math"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// CatchUp rolls up and costs everything a cluster has reported and measures what was saved, now and here instead of through the
// queue. It is for a start that brings weeks of history along; what a worker does at the same moment it waits for.
func CatchUp(ctx context.Context, deps Deps, tenant fleet.TenantID, cluster fleet.ClusterID) error {
	if err := compactUntilClean(ctx, deps.DB, tenant, cluster, math.MaxInt); err != nil {
		return err
	}
	closing := &CloseHour{DB: deps.DB, Prices: deps.Prices, Log: deps.Log}
	if err := closing.CatchUp(ctx, CloseHourArgs{Tenant: tenant, Cluster: cluster}); err != nil {
		return err
	}
	for n := savingsBatch; n == savingsBatch; { // less than a batch: nothing is due any more
		err := deps.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
			n, err = deps.DB.MeasureSavings(ctx, tx, cluster, savingsBatch)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
