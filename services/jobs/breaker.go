package jobs

import (
	"context"
	"time"

	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// trip keeps the breakers that a plan tripped, and opens their alerts.
func (w *PlanWorker) trip(ctx context.Context, tx *store.Tx, plan optimizer.Plan) error {
	for _, t := range plan.Trips {
		b, err := store.LoadBudget(ctx, tx, t.Budget)
		if err != nil {
			return err
		}
		var until *time.Time
		if b.BreakerMinutes > 0 {
			u := t.At.Add(time.Duration(b.BreakerMinutes) * time.Minute)
			until = &u
		}
		if _, err := store.TripBreaker(ctx, tx, b.ID, t.At, until); err != nil {
			return err
		}
		detail := map[string]any{"budget_id": b.ID, "name": b.Name, "team": b.Team, "namespace": b.Namespace, "cluster_id": plan.Cluster, "rate_hour": t.RateHour.String(),
			"limit_hour": t.LimitHour.String(), "usual_hour": t.UsualHour.String(), "percent": b.BreakerPercent, "currency": w.Prices().Currency(), "until": until}
		if err := openAlert(ctx, tx, w.Log, AlertBreaker, subjectOf(b), store.SeverityCritical, t.At, detail); err != nil {
			return err
		}
	}
	return nil
}
