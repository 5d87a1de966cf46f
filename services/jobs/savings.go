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

// SavingsArgs asks to say of every closed hour what it would have cost by other rules.
type SavingsArgs struct{}

// Kind implements river.JobArgs.
func (SavingsArgs) Kind() string { return "savings" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (SavingsArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

const (
	savingsEvery = 5 * time.Minute
	// savingsBatch is how many hours one transaction takes, and savingsMost how many one run takes of a cluster: a backlog of a year is worked
	// off in hours, and nobody else waits.
	savingsBatch = 24
	savingsMost  = 240
)

// MeasureSavings writes the savings ledger of all tenants.
type MeasureSavings struct {
	river.WorkerDefaults[SavingsArgs]
	DB  *store.DB
	Log *slog.Logger
}

// Timeout of one run over all tenants.
func (*MeasureSavings) Timeout(*river.Job[SavingsArgs]) time.Duration { return 10 * time.Minute }

// Work implements river.Worker. One cluster's trouble does not keep the others waiting.
func (w *MeasureSavings) Work(ctx context.Context, _ *river.Job[SavingsArgs]) error {
	var tenants []fleet.TenantID
	err := w.DB.Global(ctx, func(tx *store.Tx) (err error) {
		tenants, err = store.TenantIDs(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("list tenants: %w", err)
	}
	failed := 0
	for _, t := range tenants {
		if err := w.tenant(ctx, t); err != nil {
			failed++
			w.Log.ErrorContext(ctx, "savings not measured", "tenant", t, "error", err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("savings of %d of %d tenants were not measured", failed, len(tenants))
	}
	return nil
}

func (w *MeasureSavings) tenant(ctx context.Context, tenant fleet.TenantID) error {
	for after := fleet.ClusterID(""); ; {
		var clusters []store.ClusterPulse
		err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
			clusters, err = store.ClusterPulses(ctx, tx, after, 500)
			return err
		})
		if err != nil {
			return err
		}
		for _, c := range clusters {
			after = c.ID
			if err := w.Cluster(ctx, tenant, c.ID); err != nil {
				return err
			}
		}
		if len(clusters) < 500 {
			return nil
		}
	}
}

// Cluster measures what is due of one cluster.
func (w *MeasureSavings) Cluster(ctx context.Context, tenant fleet.TenantID, cluster fleet.ClusterID) error {
	for done := 0; done < savingsMost; {
		n := 0
		err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
			n, err = w.DB.MeasureSavings(ctx, tx, cluster, savingsBatch)
			return err
		})
		if err != nil || n < savingsBatch {
			return err
		}
		done += n
	}
	return nil
}
