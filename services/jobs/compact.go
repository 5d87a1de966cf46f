package jobs

import (
	"context"
	"slices"
	"time"

	"github.com/riverqueue/river"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// CompactArgs asks to make chunks and roll-ups of a cluster's dirty blocks.
type CompactArgs struct {
	Tenant  fleet.TenantID  `json:"tenant" river:"unique"`
	Cluster fleet.ClusterID `json:"cluster" river:"unique"`
}

// Kind implements river.JobArgs.
func (CompactArgs) Kind() string { return "compact" }

// InsertOpts implements river.JobArgsWithInsertOpts: one job per cluster waits or runs at a time; what it misses, the next report or
// sweep asks for.
func (CompactArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 5}
}

// Compact makes chunks and roll-ups, one transaction per block of two hours, each idempotent.
type Compact struct {
	river.WorkerDefaults[CompactArgs]
	DB *store.DB
}

// Timeout of one job: weeks of history fit.
func (*Compact) Timeout(*river.Job[CompactArgs]) time.Duration { return 5 * time.Minute }

// compactRounds is how often a job looks again: what was reported while it ran found it running and asked for no other.
const compactRounds = 20

// Work implements river.Worker.
func (w *Compact) Work(ctx context.Context, job *river.Job[CompactArgs]) error {
	return compactUntilClean(ctx, w.DB, job.Args.Tenant, job.Args.Cluster, compactRounds)
}

// compactUntilClean compacts until nothing new is there, at most so many rounds. Another process may hold the cluster's compaction: that
// is a round too.
func compactUntilClean(ctx context.Context, db *store.DB, tenant fleet.TenantID, cluster fleet.ClusterID, rounds int) error {
	for range rounds {
		var dirty []fleet.ClusterID
		err := db.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
			dirty, err = store.DirtyClusters(ctx, tx)
			return err
		})
		if err != nil || !slices.Contains(dirty, cluster) {
			return err
		}
		if err := compact(ctx, db, tenant, cluster); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// compact goes over the dirty blocks of a cluster once, newest first.
func compact(ctx context.Context, db *store.DB, tenant fleet.TenantID, cluster fleet.ClusterID) error {
	var blocks []time.Time
	err := db.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		blocks, err = store.DirtyBlocks(ctx, tx, cluster)
		return err
	})
	for i := 0; i < len(blocks) && err == nil; i++ {
		err = db.Tenant(ctx, tenant, func(tx *store.Tx) error {
			_, err := store.CompactBlock(ctx, tx, cluster, blocks[i])
			return err
		})
	}
	return err
}
