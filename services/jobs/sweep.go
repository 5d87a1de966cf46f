package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// SweepArgs looks over all clusters for work that no event asked for.
type SweepArgs struct{}

// Kind implements river.JobArgs.
func (SweepArgs) Kind() string { return "sweep" }

// InsertOpts implements river.JobArgsWithInsertOpts: one sweep waits or runs at a time.
func (SweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// Sweep asks for costing of every cluster with news, ends what expired, and opens and resolves alerts about silent agents.
type Sweep struct {
	river.WorkerDefaults[SweepArgs]
	DB  *store.DB
	Log *slog.Logger
}

// Timeout of one sweep over all tenants.
func (*Sweep) Timeout(*river.Job[SweepArgs]) time.Duration { return 5 * time.Minute }

// Work implements river.Worker. One tenant's trouble does not keep the others from being swept.
func (w *Sweep) Work(ctx context.Context, _ *river.Job[SweepArgs]) error {
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
		for _, part := range []func(context.Context, *store.Tx) error{expireSilent, w.tenant} {
			if err := w.DB.Tenant(ctx, t, func(tx *store.Tx) error { return part(ctx, tx) }); err != nil {
				failed++
				w.Log.ErrorContext(ctx, "sweep failed", "tenant", t, "error", err)
				break
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tenants could not be swept", failed, len(tenants))
	}
	return nil
}

// expireSilent ends what expired in clusters that report nothing any more: the others' planning does it. It has a transaction of its
// own, since planning locks a cluster before its decisions.
func expireSilent(ctx context.Context, tx *store.Tx) error {
	ids, err := store.ExpireSilent(ctx, tx)
	if err != nil || len(ids) == 0 {
		return err
	}
	return store.Notify(ctx, tx, store.EventDecision, "", "")
}

func (w *Sweep) tenant(ctx context.Context, tx *store.Tx) error {
	client := river.ClientFromContext[pgx.Tx](ctx)
	dirty, err := store.DirtyClusters(ctx, tx)
	if err != nil {
		return err
	}
	for _, id := range dirty {
		if _, err := client.InsertTx(ctx, tx.PGX(), CompactArgs{Tenant: tx.Tenant, Cluster: id}, nil); err != nil {
			return fmt.Errorf("enqueue compaction: %w", err)
		}
	}
	for after := fleet.ClusterID(""); ; {
		clusters, err := store.ClusterPulses(ctx, tx, after, 500)
		if err != nil {
			return err
		}
		for _, c := range clusters {
			after = c.ID
			if err := w.cluster(ctx, tx, client, c); err != nil {
				return err
			}
		}
		if len(clusters) < 500 {
			return nil
		}
	}
}

// silentAfter is how long after its last report an agent is alerted about, by our clock.
const silentAfter = 5 * time.Minute

func (w *Sweep) cluster(ctx context.Context, tx *store.Tx, client *river.Client[pgx.Tx], c store.ClusterPulse) error {
	if _, err := client.InsertTx(ctx, tx.PGX(), CloseHourArgs{Tenant: tx.Tenant, Cluster: c.ID}, nil); err != nil {
		return fmt.Errorf("enqueue costing: %w", err)
	}
	subject := "cluster/" + string(c.ID)
	var alert store.Alert
	var changed bool
	var err error
	if tx.Now.Sub(c.LastSeenAt) > silentAfter {
		alert, changed, err = store.OpenAlert(ctx, tx, "agent_offline", subject, store.SeverityWarning, c.DataAt,
			map[string]any{"cluster": c.Name, "last_seen_at": c.LastSeenAt})
	} else {
		alert, changed, err = store.ResolveAlert(ctx, tx, "agent_offline", subject, c.DataAt)
	}
	if err != nil || !changed {
		return err
	}
	return store.Notify(ctx, tx, store.EventAlert, c.ID, alert.ID)
}
