package jobs

import (
	"context"
	"math"

	"plimsoll.dev/services/fleet"
)

// CatchUp rolls up and costs everything a cluster has reported, now and here instead of through the queue. It is for a start that
// brings weeks of history along; what a worker does at the same moment it waits for.
func CatchUp(ctx context.Context, deps Deps, tenant fleet.TenantID, cluster fleet.ClusterID) error {
	if err := compactUntilClean(ctx, deps.DB, tenant, cluster, math.MaxInt); err != nil {
		return err
	}
	closing := &CloseHour{DB: deps.DB, Prices: deps.Prices, Log: deps.Log}
	return closing.CatchUp(ctx, CloseHourArgs{Tenant: tenant, Cluster: cluster})
}
