package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// SpotAlertsArgs tells people of Spot prices that were not believed.
type SpotAlertsArgs struct{}

// Kind implements river.JobArgs.
func (SpotAlertsArgs) Kind() string { return "spot_alerts" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (SpotAlertsArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

const (
	spotAlertsEvery = 5 * time.Minute
	// A price that nobody decided on for this long says nothing of what a tenant pays now.
	spotAlertsFor = 7 * 24 * time.Hour
	maxSpotAlerts = 50 // per tenant
)

// SpotAlerts counts quarantined prices for the operators of the service, and alerts each tenant that runs machines of a pool
// whose newest price was not believed: what it sees there is the price before.
type SpotAlerts struct {
	river.WorkerDefaults[SpotAlertsArgs]
	DB   *store.DB
	Log  *slog.Logger
	Open *prometheus.GaugeVec // by reason
	told atomic.Int64         // how many were open when it was last logged
}

func newSpotGauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "plimsoll_market_quarantined_prices", Help: "Spot prices that were not believed and that nobody has decided on, by reason.",
	}, []string{"reason"})
}

// Work implements river.Worker. One tenant's trouble does not keep the others from being told.
func (w *SpotAlerts) Work(ctx context.Context, _ *river.Job[SpotAlertsArgs]) error {
	var tenants []fleet.TenantID
	var counts map[market.SuspectReason]int
	err := w.DB.Global(ctx, func(tx *store.Tx) (err error) {
		if tenants, err = store.TenantIDs(ctx, tx); err != nil {
			return err
		}
		counts, err = store.QuarantineCounts(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	total := 0
	for _, reason := range market.SuspectReasons() {
		w.Open.WithLabelValues(string(reason)).Set(float64(counts[reason]))
		total += counts[reason]
	}
	if before := w.told.Swap(int64(total)); int64(total) > before {
		w.Log.WarnContext(ctx, "Spot prices were not believed; see plimsoll market quarantine", "open", total)
	}
	failed := 0
	for _, t := range tenants {
		if err := w.DB.Tenant(ctx, t, func(tx *store.Tx) error { return tellSpot(ctx, tx) }); err != nil {
			failed++
			w.Log.ErrorContext(ctx, "alerts on Spot prices failed", "tenant", t, "error", err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tenants could not be told of Spot prices", failed, len(tenants))
	}
	return nil
}

const alertPriceQuarantined = "price_quarantined"

// tellSpot opens an alert per pool of the tenant's running machines with a quarantined price, and resolves those that are over.
func tellSpot(ctx context.Context, tx *store.Tx) error {
	prices, err := store.QuarantinedInUse(ctx, tx, tx.Now.Add(-spotAlertsFor), maxSpotAlerts)
	if err != nil {
		return err
	}
	open := map[string]bool{}
	for _, q := range prices {
		place := q.Pool.Zone
		if place == "" {
			place = q.Pool.Region
		}
		subject := fmt.Sprintf("spot/%s/%s/%s", q.Pool.Cloud, place, q.Pool.InstanceType)
		if open[subject] {
			continue
		}
		open[subject] = true
		alert, opened, err := store.OpenAlert(ctx, tx, alertPriceQuarantined, subject, store.SeverityWarning, q.FoundAt, map[string]any{
			"cloud": q.Pool.Cloud, "region": q.Pool.Region, "zone": q.Pool.Zone, "instance_type": q.Pool.InstanceType, "at": q.At,
			"spot": q.Spot, "on_demand": q.OnDemand, "expected": q.Expected, "reason": q.Reason, "source": q.Source})
		if err != nil {
			return err
		}
		if opened {
			if err := store.Notify(ctx, tx, store.EventAlert, "", alert.ID); err != nil {
				return err
			}
		}
	}
	alerts, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Kind: alertPriceQuarantined, Limit: 1000})
	if err != nil {
		return err
	}
	for _, a := range alerts {
		if open[a.Subject] {
			continue
		}
		alert, resolved, err := store.ResolveAlert(ctx, tx, alertPriceQuarantined, a.Subject, tx.Now)
		if err != nil {
			return err
		}
		if resolved {
			if err := store.Notify(ctx, tx, store.EventAlert, "", alert.ID); err != nil {
				return err
			}
		}
	}
	return nil
}
