package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"plimsoll.dev/services/store"
)

// WatchArgs asks to look for workloads and prices that somebody should know of.
type WatchArgs struct{}

// Kind implements river.JobArgs.
func (WatchArgs) Kind() string { return "watch" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (WatchArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

const (
	watchEvery = time.Minute
	staleAfter = 24 * time.Hour
)

// Kinds of alert that the watch opens.
const (
	AlertConflict    = "conflict"
	AlertStuck       = "stuck_at_max"
	AlertScaleFailed = "scale_failed"
	AlertStalePrices = "stale_prices"
)

// Watch opens and resolves the alerts of workloads that are fought over, stuck at their maximum or failed to be scaled, of regions whose prices
// nobody has heard of for a day, and of the signs of trouble in watch_signs.go.
type Watch struct {
	river.WorkerDefaults[WatchArgs]
	DB  *store.DB
	Log *slog.Logger
}

// Timeout of one run over all tenants.
func (*Watch) Timeout(*river.Job[WatchArgs]) time.Duration { return 5 * time.Minute }

// Work implements river.Worker.
func (w *Watch) Work(ctx context.Context, _ *river.Job[WatchArgs]) error {
	return eachTenant(ctx, w.DB, func(tx *store.Tx) error { return w.Look(ctx, tx) })
}

// Look brings the alerts of one tenant in line.
func (w *Watch) Look(ctx context.Context, tx *store.Tx) error {
	for _, k := range []struct {
		kind     string
		severity store.Severity
		find     func(context.Context, *store.Tx) ([]store.WatchedWorkload, error)
	}{
		{AlertConflict, store.SeverityWarning, store.FoughtWorkloads},
		{AlertStuck, store.SeverityWarning, store.StuckWorkloads},
		{AlertScaleFailed, store.SeverityCritical, store.FailedWorkloads},
	} {
		found, err := k.find(ctx, tx)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, f := range found {
			subject := "workload/" + string(f.ID)
			seen[subject] = true
			detail := map[string]any{"workload_id": f.ID, "workload": f.Key, "team": f.Team, "cluster_id": f.Cluster}
			if f.Max > 0 {
				detail["max"] = f.Max
			}
			if f.Problem != "" {
				detail["problem"] = f.Problem
			}
			if err := openAlert(ctx, tx, w.Log, k.kind, subject, k.severity, f.At, detail); err != nil {
				return err
			}
		}
		if err := w.settle(ctx, tx, k.kind, seen); err != nil {
			return err
		}
	}
	if err := w.prices(ctx, tx); err != nil {
		return err
	}
	return w.trouble(ctx, tx)
}

func (w *Watch) prices(ctx context.Context, tx *store.Tx) error {
	stale, err := store.StaleSpot(ctx, tx, tx.Now.Add(-staleAfter))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, s := range stale {
		subject := fmt.Sprintf("spot/%s/%s", s.Cloud, s.Region)
		seen[subject] = true
		detail := map[string]any{"cloud": s.Cloud, "region": s.Region, "seen_at": s.SeenAt.UTC(), "age_hours": int(tx.Now.Sub(s.SeenAt).Hours())}
		if err := openAlert(ctx, tx, w.Log, AlertStalePrices, subject, store.SeverityWarning, tx.Now, detail); err != nil {
			return err
		}
	}
	return w.settle(ctx, tx, AlertStalePrices, seen)
}

// settle resolves the open alerts of a kind that were not seen again, at the tenant's data time.
func (w *Watch) settle(ctx context.Context, tx *store.Tx, kind string, seen map[string]bool) error {
	open, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Kind: kind, Limit: maxOpenAlerts})
	if err != nil || len(open) == 0 {
		return err
	}
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return err
	}
	for _, a := range open {
		if !seen[a.Subject] {
			if err := resolveAlert(ctx, tx, w.Log, kind, a.Subject, now); err != nil {
				return err
			}
		}
	}
	return nil
}
