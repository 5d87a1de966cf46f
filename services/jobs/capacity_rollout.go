package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/riverqueue/river"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

const (
	// capacityRolloutEvery is how often open rollouts of capacity policies are looked at.
	capacityRolloutEvery = 30 * time.Second
	// capacityShadowSearch is how long the shadow of one cluster may search, both plans together.
	capacityShadowSearch = 6 * time.Second
	// capacityShadowsAtOnce bounds the clusters of a rollout whose shadow one look plans, and capacityShadowTime how long it begins new ones; the
	// others come with the next looks.
	capacityShadowsAtOnce = 40
	capacityShadowTime    = 75 * time.Second
)

// CapacityRolloutSweepArgs asks for a look at every open rollout of a capacity policy.
type CapacityRolloutSweepArgs struct{}

// Kind implements river.JobArgs.
func (CapacityRolloutSweepArgs) Kind() string { return "capacity_rollout_sweep" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (CapacityRolloutSweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// CapacityRolloutSweep enqueues CapacityRollout per open rollout.
type CapacityRolloutSweep struct {
	river.WorkerDefaults[CapacityRolloutSweepArgs]
	DB *store.DB
}

// Work implements river.Worker. One tenant's trouble does not keep the others from being looked at.
func (w *CapacityRolloutSweep) Work(ctx context.Context, _ *river.Job[CapacityRolloutSweepArgs]) error {
	return enqueueDue(ctx, w.DB, store.OpenCapacityRollouts, func(t fleet.TenantID, id string) river.JobArgs {
		return CapacityRolloutArgs{Tenant: t, Rollout: id}
	})
}

// CapacityRolloutArgs asks for a look at one rollout.
type CapacityRolloutArgs struct {
	Tenant  fleet.TenantID `json:"tenant" river:"unique"`
	Rollout string         `json:"rollout" river:"unique"`
}

// Kind implements river.JobArgs.
func (CapacityRolloutArgs) Kind() string { return "capacity_rollout" }

// InsertOpts implements river.JobArgsWithInsertOpts: one per rollout waits or runs at a time; the next sweep asks again.
func (CapacityRolloutArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// CapacityRollout looks at a rollout of a capacity policy: it plans the shadow beside the policy in force, reads what the clusters show, and
// takes the next step, or takes the rollout back. Where the rollout stands is in the database alone; a step is taken in one transaction under
// the rollout's lock, from what that transaction reads.
type CapacityRollout struct {
	river.WorkerDefaults[CapacityRolloutArgs]
	DB     *store.DB
	Prices func() *market.PriceBook
	Log    *slog.Logger
}

// Timeout of one look.
func (*CapacityRollout) Timeout(*river.Job[CapacityRolloutArgs]) time.Duration {
	return 2 * time.Minute
}

// Work implements river.Worker.
func (w *CapacityRollout) Work(ctx context.Context, job *river.Job[CapacityRolloutArgs]) error {
	return w.Look(ctx, job.Args.Tenant, job.Args.Rollout)
}

// Look looks at a rollout now.
func (w *CapacityRollout) Look(ctx context.Context, tenant fleet.TenantID, id string) error {
	var r store.CapacityRollout
	err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		r, err = store.CapacityRolloutOf(ctx, tx, id, false)
		return err
	})
	if store.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load rollout: %w", err)
	}
	if !r.Open() {
		return nil
	}
	shadows, err := w.shadows(ctx, tenant, &r)
	if err != nil {
		return err
	}
	return w.DB.Tenant(ctx, tenant, func(tx *store.Tx) error { return w.step(ctx, tx, id, shadows) })
}

// step reads what the clusters of a rollout show and takes the next step where it is due, all under the rollout's lock.
func (w *CapacityRollout) step(ctx context.Context, tx *store.Tx, id string, shadows map[fleet.ClusterID]*capacity.Comparison) error {
	r, err := store.CapacityRolloutOf(ctx, tx, id, true)
	if err != nil || !r.Open() {
		return err
	}
	seen := make([]capacity.Sight, len(r.Parts))
	for i := range r.Parts {
		if seen[i], err = store.CapacitySight(ctx, tx, &r, i); err != nil {
			return err
		}
		seen[i].Shadow = shadows[r.Parts[i].Cluster]
	}
	moved := r.Look(tx.Now, seen)
	if moved {
		w.Log.InfoContext(ctx, "capacity rollout moved", "tenant", tx.Tenant, "rollout", id, "state", r.State, "step", r.Step, "outcome", r.Outcome)
	}
	return store.SaveCapacityRollout(ctx, tx, &r, moved, "", store.CapacityRolloutActor)
}

// shadows plans clusters of a rollout in its shadow under both policies; those that were looked at longest ago first. No connection is held
// while it searches. A cluster that cannot be planned has none.
func (w *CapacityRollout) shadows(ctx context.Context, tenant fleet.TenantID, r *store.CapacityRollout) (map[fleet.ClusterID]*capacity.Comparison, error) {
	if r.State != capacity.RolloutShadow {
		return nil, nil
	}
	order := make([]*capacity.RolloutPart, len(r.Parts))
	for i := range r.Parts {
		order[i] = &r.Parts[i]
	}
	planned := func(p *capacity.RolloutPart) time.Time {
		if p.Shadow == nil {
			return time.Time{}
		}
		return p.Shadow.At
	}
	slices.SortStableFunc(order, func(a, b *capacity.RolloutPart) int { return planned(a).Compare(planned(b)) })
	out, started := map[fleet.ClusterID]*capacity.Comparison{}, time.Now()
	for _, p := range order[:min(len(order), capacityShadowsAtOnce)] {
		if time.Since(started) > capacityShadowTime {
			break
		}
		c, err := w.shadow(ctx, tenant, p.Cluster, r.Document)
		if err != nil {
			w.Log.WarnContext(ctx, "no shadow plan", "tenant", tenant, "rollout", r.ID, "cluster", p.Cluster, "error", err)
			continue
		}
		if c != nil {
			out[p.Cluster] = c
		}
	}
	return out, ctx.Err()
}

func (w *CapacityRollout) shadow(ctx context.Context, tenant fleet.TenantID, cluster fleet.ClusterID, policy capacity.Policy) (*capacity.Comparison, error) {
	var base, proposed *capacity.Input
	var now time.Time
	err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		now = tx.Now
		book := w.Prices()
		if base, err = store.LoadCapacityInput(ctx, tx, book, cluster); err != nil || base == nil {
			return err
		}
		proposed, err = store.LoadCapacityInputUnder(ctx, tx, book, cluster, policy)
		return err
	})
	if err != nil || base == nil || proposed == nil {
		return nil, err
	}
	started := time.Now()
	c, err := capacity.Compare(*base, *proposed, func() bool { return ctx.Err() != nil || time.Since(started) > capacityShadowSearch })
	if err != nil {
		return nil, fmt.Errorf("plan the shadow: %w", err)
	}
	c.At = now
	return c, nil
}
