package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// AvailabilitySweepArgs asks every tenant's model to learn what is new.
type AvailabilitySweepArgs struct{}

// Kind implements river.JobArgs.
func (AvailabilitySweepArgs) Kind() string { return "availability_sweep" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (AvailabilitySweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// AvailabilitySweep enqueues LearnAvailability per tenant.
type AvailabilitySweep struct {
	river.WorkerDefaults[AvailabilitySweepArgs]
	DB *store.DB
}

// availabilityEvery is close enough that machines count as watched.
const availabilityEvery = time.Minute

// Work implements river.Worker.
func (w *AvailabilitySweep) Work(ctx context.Context, _ *river.Job[AvailabilitySweepArgs]) error {
	client := river.ClientFromContext[pgx.Tx](ctx)
	return w.DB.Global(ctx, func(tx *store.Tx) error {
		tenants, err := store.TenantIDs(ctx, tx)
		if err != nil {
			return fmt.Errorf("list tenants: %w", err)
		}
		for _, t := range tenants {
			if _, err := client.InsertTx(ctx, tx.PGX(), LearnAvailabilityArgs{Tenant: t}, nil); err != nil {
				return fmt.Errorf("enqueue availability: %w", err)
			}
		}
		return nil
	})
}

// LearnAvailabilityArgs asks the model of one tenant to learn what its clusters reported since.
type LearnAvailabilityArgs struct {
	Tenant fleet.TenantID `json:"tenant" river:"unique"`
}

// Kind implements river.JobArgs.
func (LearnAvailabilityArgs) Kind() string { return "learn_availability" }

// InsertOpts implements river.JobArgsWithInsertOpts: one per tenant waits or runs at a time; the next sweep asks again.
func (LearnAvailabilityArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 3}
}

// LearnAvailability feeds reports about supply into the tenant's model, in the order of data time and each piece once, however often it runs.
type LearnAvailability struct {
	river.WorkerDefaults[LearnAvailabilityArgs]
	DB  *store.DB
	Log *slog.Logger
}

const (
	// Reports may come late by this much, in data time; what is older is not read any more.
	availabilityOverlap = 6 * time.Hour
	// One round reads so many pieces of each kind per cluster, in a transaction of its own.
	availabilityRound  = 5000
	availabilityRounds = 50
)

// Timeout of one tenant, with months of history at the first time.
func (*LearnAvailability) Timeout(*river.Job[LearnAvailabilityArgs]) time.Duration {
	return 5 * time.Minute
}

// Work implements river.Worker.
func (w *LearnAvailability) Work(ctx context.Context, job *river.Job[LearnAvailabilityArgs]) error {
	l := learning{log: w.Log, from: map[fleet.ClusterID]time.Time{}}
	for range availabilityRounds {
		err := w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error { return l.round(ctx, tx) })
		if err != nil || l.done {
			return err
		}
	}
	return nil // the next sweep goes on
}

// learning is one run over a tenant.
type learning struct {
	log  *slog.Logger
	from map[fleet.ClusterID]time.Time // read up to here in this run
	done bool
}

func (l *learning) round(ctx context.Context, tx *store.Tx) error {
	if err := store.LockAvailability(ctx, tx); err != nil {
		return err
	}
	model, err := store.LoadAvailability(ctx, tx)
	if err != nil {
		return err
	}
	l.done = true
	var events []availability.Event
	for after := ""; ; {
		clusters, err := store.Clusters(ctx, tx, after, 500)
		if err != nil {
			return err
		}
		for _, c := range clusters {
			after = c.Name
			if c.DataAt == nil {
				continue
			}
			if events, err = l.cluster(ctx, tx, c.ID, *c.DataAt, events); err != nil {
				return err
			}
		}
		if len(clusters) < 500 {
			break
		}
	}
	if l.done {
		if events, err = prices(ctx, tx, model, events); err != nil {
			return err
		}
	}
	if err := model.Observe(events...); err != nil {
		return fmt.Errorf("learn availability: %w", err)
	}
	if err := store.SaveAvailability(ctx, tx, model); err != nil {
		return err
	}
	if !l.done {
		return nil
	}
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return err
	}
	return store.PruneAvailability(ctx, tx, now.Add(-store.AvailabilityKept))
}

// cluster adds what one cluster has to tell.
func (l *learning) cluster(ctx context.Context, tx *store.Tx, id fleet.ClusterID, dataAt time.Time, events []availability.Event) ([]availability.Event, error) {
	from, ok := l.from[id]
	if !ok {
		cursor, err := store.AvailabilityCursor(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		from = cursor.Add(-availabilityOverlap)
		if oldest := dataAt.Add(-store.AvailabilityKept); from.Before(oldest) {
			from = oldest
		}
	}
	if !from.Before(dataAt) {
		return events, nil
	}
	news, err := store.AvailabilityNews(ctx, tx, id, from, dataAt, availabilityRound)
	if err != nil {
		return nil, err
	}
	if news.Unplaced > 0 && !ok {
		l.log.DebugContext(ctx, "stock-outs that name no known offering", "tenant", tx.Tenant, "cluster", id, "count", news.Unplaced)
	}
	fresh, err := store.AddSightings(ctx, tx, id, news.Sightings)
	if err != nil {
		return nil, err
	}
	for _, s := range fresh {
		events = append(events, s.Event)
	}
	l.from[id] = news.To
	if news.To.Before(dataAt) {
		l.done = false
	} else {
		running, err := store.Running(ctx, tx, id, dataAt)
		if err != nil {
			return nil, err
		}
		events = append(events, running...)
	}
	return events, store.MoveAvailabilityCursor(ctx, tx, id, news.To)
}

// prices adds those that moved by over a hundredth.
func prices(ctx context.Context, tx *store.Tx, model *availability.Model, events []availability.Event) ([]availability.Event, error) {
	ratios, err := store.SpotRatios(ctx, tx)
	if err != nil {
		return nil, err
	}
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, r := range ratios {
		e := availability.Event{At: now, Offering: r.Offering, Kind: availability.KindPrice, Ratio: r.Ratio}
		if e.Validate() == nil && math.Abs(model.Score(r.Offering, now).PriceRatio-r.Ratio) > 0.01*r.Ratio {
			events = append(events, e)
		}
	}
	return events, nil
}
