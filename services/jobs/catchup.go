package jobs

import (
	"context"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// CatchUp rolls up and costs everything a cluster has reported, now and here instead of through the queue. It is for a start that
// brings weeks of history along; what a worker does at the same moment it waits for.
func CatchUp(ctx context.Context, deps Deps, tenant fleet.TenantID, cluster fleet.ClusterID) error {
	for {
		var dirty []fleet.ClusterID
		err := deps.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
			dirty, err = store.DirtyClusters(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
		if !slices.Contains(dirty, cluster) {
			break
		}
		if err := compact(ctx, deps.DB, tenant, cluster); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond): // somebody else may hold the cluster's compaction
		}
	}
	closing := &CloseHour{DB: deps.DB, Prices: deps.Prices, Log: deps.Log}
	return closing.CatchUp(ctx, CloseHourArgs{Tenant: tenant, Cluster: cluster})
}
