package jobs

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Kinds of alert that the watch opens on signs of trouble.
const (
	AlertBudgetHeld = "held_by_budget"
	AlertSilent     = "signals_missing"
	AlertBurn       = "slo_burn"
	AlertSlowBurn   = "slo_burn_slow"
	AlertThrash     = "thrash"
	AlertExpiring   = "commitment_expiring"
	AlertSpotLosses = "spot_interruptions"
	AlertScaleOut   = "scale_out_failing"
	AlertSkew       = "clock_skew"
)

// Limits and how long a sign must be gone before its alert is over, in data time.
const (
	thrashCycles  = 3 // completed up-down-up cycles an hour: damping widens from two on, so that three say that it does not suffice
	spotSpan      = time.Hour
	spotLeast     = 3
	spotRate      = 0.2 // of the region's Spot machines within spotSpan
	massLeast     = 5
	massRate      = 0.5
	capacitySpan  = 30 * time.Minute
	capacityLeast = 3
	capacityRate  = 0.5              // of the attempts within capacitySpan
	skewLeast     = 30 * time.Second // from there on fresh signals may count as stale
	expiringEarly = 30 * 24 * time.Hour
	expiringLate  = 7 * 24 * time.Hour
	clearSoon     = 5 * time.Minute
	clearLater    = 30 * time.Minute
	clearBurn     = 15 * time.Minute
	clearSlowBurn = 2 * time.Hour
)

// sign is a state that somebody should know of, found now.
type sign struct {
	subject  string
	severity store.Severity
	at       time.Time
	detail   map[string]any
}

// signs brings the alerts of a kind in line with what was found: one opens for each that is new; those that were not found again are over once
// they have been clear for hold.
func (w *Watch) signs(ctx context.Context, tx *store.Tx, kind string, hold time.Duration, found []sign) error {
	seen := make([]string, 0, len(found))
	for _, s := range found {
		seen = append(seen, s.subject)
		if err := openAlert(ctx, tx, w.Log, kind, s.subject, s.severity, s.at, s.detail); err != nil {
			return err
		}
	}
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return err
	}
	over, err := store.ClearAlerts(ctx, tx, kind, seen, now, hold)
	if err != nil {
		return err
	}
	for _, subject := range over {
		if err := resolveAlert(ctx, tx, w.Log, kind, subject, now); err != nil {
			return err
		}
	}
	return nil
}

// trouble looks for the signs that need figures or a while of calm.
func (w *Watch) trouble(ctx context.Context, tx *store.Tx) error {
	for _, look := range []func(context.Context, *store.Tx) error{w.held, w.silent, w.burns, w.thrash, w.expiring, w.spotLosses, w.scaleOuts, w.clocks, w.services} {
		if err := look(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

func ofWorkload(id fleet.WorkloadID, key, team string, cluster fleet.ClusterID) map[string]any {
	return map[string]any{"workload_id": id, "workload": key, "team": team, "cluster_id": cluster}
}

func (w *Watch) held(ctx context.Context, tx *store.Tx) error {
	list, err := store.BudgetHeldWorkloads(ctx, tx)
	if err != nil {
		return err
	}
	found := make([]sign, 0, len(list))
	for _, f := range list {
		detail := ofWorkload(f.ID, f.Key, f.Team, f.Cluster)
		detail["reason"] = f.Problem
		found = append(found, sign{"workload/" + string(f.ID), store.SeverityWarning, f.At, detail})
	}
	return w.signs(ctx, tx, AlertBudgetHeld, clearLater, found)
}

func (w *Watch) silent(ctx context.Context, tx *store.Tx) error {
	list, err := store.SilentWorkloads(ctx, tx)
	if err != nil {
		return err
	}
	found := make([]sign, 0, len(list))
	for _, f := range list {
		detail := ofWorkload(f.ID, f.Key, f.Team, f.Cluster)
		detail["since"] = f.At.UTC().Format(time.RFC3339)
		found = append(found, sign{"workload/" + string(f.ID), store.SeverityWarning, f.At, detail})
	}
	return w.signs(ctx, tx, AlertSilent, clearSoon, found)
}

// burns opens one alert for an allowance that goes fast and one for one that goes slowly: they are for different people.
func (w *Watch) burns(ctx context.Context, tx *store.Tx) error {
	list, err := store.PromisedWorkloads(ctx, tx)
	if err != nil {
		return err
	}
	var fast, slow []sign
	for i := range list {
		p := &list[i]
		policy, _ := w.DB.ParsePolicy(p.Document)
		if policy.SLO == nil {
			continue
		}
		objective := policy.SLO.Objective(p.Class)
		if b := burn(p, objective, fastPaces); b != nil {
			fast = append(fast, burnSign(p, b, objective, store.SeverityCritical))
		}
		if b := burn(p, objective, slowPaces); b != nil {
			slow = append(slow, burnSign(p, b, objective, store.SeverityWarning))
		}
	}
	if err := w.signs(ctx, tx, AlertBurn, clearBurn, fast); err != nil {
		return err
	}
	return w.signs(ctx, tx, AlertSlowBurn, clearSlowBurn, slow)
}

func burnSign(p *store.Promised, b *burning, objective float64, severity store.Severity) sign {
	detail := ofWorkload(p.ID, p.Key, p.Team, p.Cluster)
	detail["objective_percent"], detail["late_percent"], detail["late_now_percent"] = percent(objective), percent(b.late), percent(b.now)
	detail["burn_rate"] = tenths(b.late / objective)
	detail["window_minutes"], detail["short_window_minutes"] = int(b.long.Minutes()), int(b.short.Minutes())
	detail["budget_days"] = tenths(30 * objective / b.late) // until a whole month's allowance is gone at this pace
	return sign{"workload/" + string(p.ID), severity, p.At, detail}
}

func percent(share float64) float64 { return tenths(share * 100) }

// tenths rounds for people.
func tenths(v float64) float64 { return float64(int64(v*10+0.5)) / 10 }

func (w *Watch) thrash(ctx context.Context, tx *store.Tx) error {
	list, err := store.Oscillations(ctx, tx, thrashCycles)
	if err != nil {
		return err
	}
	var found []sign
	for _, o := range list {
		n := o.Memory.CyclesPerHour(o.At)
		if n < thrashCycles {
			continue
		}
		detail := ofWorkload(o.ID, o.Key, o.Team, o.Cluster)
		detail["cycles"], detail["limit"] = n, thrashCycles
		found = append(found, sign{"workload/" + string(o.ID), store.SeverityWarning, o.At, detail})
	}
	return w.signs(ctx, tx, AlertThrash, clearLater, found)
}

// expiring tells of each commitment twice: a month before its end, while there is time to choose, and a week before.
func (w *Watch) expiring(ctx context.Context, tx *store.Tx) error {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return err
	}
	list, err := store.ExpiringCommitments(ctx, tx, now, expiringEarly)
	if err != nil {
		return err
	}
	var found []sign
	for _, c := range list {
		left := c.EndsAt.Sub(now)
		detail := func() map[string]any {
			return map[string]any{"commitment_id": c.ID, "name": c.Ref, "commitment_kind": c.Kind, "region": c.Region, "what": c.What, "team": c.Owner,
				"ends_at": c.EndsAt.UTC().Format(time.RFC3339), "days": int(left.Hours() / 24)}
		}
		found = append(found, sign{"commitment/" + c.ID + "/30", store.SeverityInfo, now, detail()})
		if left <= expiringLate {
			found = append(found, sign{"commitment/" + c.ID + "/7", store.SeverityWarning, now, detail()})
		}
	}
	return w.signs(ctx, tx, AlertExpiring, 0, found)
}

// spotLosses tells of a region that takes Spot machines back, and again when it takes half of them.
func (w *Watch) spotLosses(ctx context.Context, tx *store.Tx) error {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return err
	}
	list, err := store.LostSpot(ctx, tx, now, spotSpan, spotLeast)
	if err != nil {
		return err
	}
	var found []sign
	for _, l := range list {
		rate := float64(l.Lost) / float64(l.Machines)
		if rate < spotRate {
			continue
		}
		detail := func() map[string]any {
			return map[string]any{"cloud": l.Cloud, "region": l.Region, "lost": l.Lost, "machines": l.Machines, "rate_percent": percent(rate), "minutes": int(spotSpan.Minutes())}
		}
		subject := fmt.Sprintf("spot/%s/%s", l.Cloud, l.Region)
		found = append(found, sign{subject, store.SeverityWarning, l.At, detail()})
		if l.Lost >= massLeast && rate >= massRate {
			found = append(found, sign{subject + "/mass", store.SeverityCritical, l.At, detail()})
		}
	}
	return w.signs(ctx, tx, AlertSpotLosses, clearLater, found)
}

// scaleOuts tells of a cluster that asks for machines and gets none: which, where, and what the cloud answers.
func (w *Watch) scaleOuts(ctx context.Context, tx *store.Tx) error {
	list, err := store.DryClusters(ctx, tx, capacitySpan, capacityLeast)
	if err != nil {
		return err
	}
	var found []sign
	for _, c := range list {
		tried := c.Failed + c.Had
		if float64(c.Failed) < capacityRate*float64(tried) {
			continue
		}
		severity := store.SeverityWarning
		if c.Had == 0 {
			severity = store.SeverityCritical
		}
		found = append(found, sign{"cluster/" + string(c.ID) + "/scale_out", severity, c.At, map[string]any{"cluster_id": c.ID, "cluster": c.Name, "failed": c.Failed, "tried": tried,
			"minutes": int(capacitySpan.Minutes()), "offerings": c.Offerings[:min(len(c.Offerings), maxCapacityTold)], "reasons": c.Reasons}})
	}
	return w.signs(ctx, tx, AlertScaleOut, clearLater, found)
}

// clocks tells of clusters whose clock is off: what they report seems older or newer than it is.
func (w *Watch) clocks(ctx context.Context, tx *store.Tx) error {
	list, err := store.SkewedClusters(ctx, tx, tx.Now.Add(-silentAfter), skewLeast)
	if err != nil {
		return err
	}
	found := make([]sign, 0, len(list))
	for _, c := range list {
		found = append(found, sign{"cluster/" + string(c.ID) + "/clock", store.SeverityWarning, c.At,
			map[string]any{"cluster_id": c.ID, "cluster": c.Name, "skew_seconds": tenths(c.Skew.Abs().Seconds()), "behind": c.Skew < 0}})
	}
	return w.signs(ctx, tx, AlertSkew, clearSoon, found)
}
