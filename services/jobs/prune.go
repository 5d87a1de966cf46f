package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// PruneArgs asks to delete what has lived long enough, of all tenants.
type PruneArgs struct{}

// Kind implements river.JobArgs.
func (PruneArgs) Kind() string { return "prune" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (PruneArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// Prune deletes old telemetry in small transactions. What one run leaves, the next takes.
type Prune struct {
	river.WorkerDefaults[PruneArgs]
	DB            *store.DB
	SpotKeepYears int // 0: Spot prices are kept for ever
	Log           *slog.Logger
}

const (
	pruneEvery = 5 * time.Minute
	// pruneRounds bounds the transactions of one cluster in one run.
	pruneRounds = 50
)

// Timeout of one run over all tenants.
func (*Prune) Timeout(*river.Job[PruneArgs]) time.Duration { return pruneEvery }

// Work implements river.Worker. One cluster's trouble does not keep the others from being pruned.
func (w *Prune) Work(ctx context.Context, _ *river.Job[PruneArgs]) error {
	var tenants []fleet.TenantID
	err := w.DB.Global(ctx, func(tx *store.Tx) (err error) {
		tenants, err = store.TenantIDs(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("list tenants: %w", err)
	}
	failed := w.spot(ctx)
	for _, t := range tenants {
		var clusters []fleet.ClusterID
		err := w.DB.Tenant(ctx, t, func(tx *store.Tx) (err error) {
			if clusters, err = store.ClusterIDs(ctx, tx); err != nil {
				return err
			}
			return store.PruneBillUploads(ctx, tx)
		})
		if err != nil {
			return err
		}
		for _, c := range clusters {
			if err := w.cluster(ctx, t, c); err != nil {
				failed = fmt.Errorf("prune cluster %s: %w", c, err)
				w.Log.ErrorContext(ctx, "prune failed", "tenant", t, "cluster", c, "error", err)
			}
		}
	}
	return failed
}

// spot deletes months of Spot prices, which belong to no tenant.
func (w *Prune) spot(ctx context.Context) error {
	total := 0
	for range pruneRounds {
		gone, more := 0, false
		err := w.DB.Global(ctx, func(tx *store.Tx) (err error) {
			gone, more, err = store.PruneSpot(ctx, tx, w.SpotKeepYears)
			return err
		})
		if err != nil {
			w.Log.ErrorContext(ctx, "prune failed", "error", err)
			return err
		}
		if total += gone; !more {
			break
		}
	}
	if total > 0 {
		w.Log.InfoContext(ctx, "old Spot prices deleted", "months_of_pools", total, "keep_years", w.SpotKeepYears)
	}
	return nil
}

func (w *Prune) cluster(ctx context.Context, tenant fleet.TenantID, cluster fleet.ClusterID) error {
	for range pruneRounds {
		more := false
		err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
			_, more, err = store.PruneCluster(ctx, tx, cluster)
			return err
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}
