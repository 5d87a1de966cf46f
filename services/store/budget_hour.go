package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

const (
	// budgetLearn is how far back a forecast looks: six weeks.
	budgetLearn = 42 * 24 * time.Hour
	// budgetFresh is how far back every check counts anew; what is restated before that is seen at the daily count of all hours.
	budgetFresh = 48 * time.Hour
	budgetWhole = 24 * time.Hour
)

// CountBudgetHours brings what a budget counted per hour up to data time now. from is the beginning of its period. Of several at the same
// moment one counts after the other; whoever counts several budgets in one transaction does so in the order of Budgets.
func CountBudgetHours(ctx context.Context, tx *Tx, b Budget, from, now time.Time) error {
	if _, err := tx.pgx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('budget hours ' || $1::text, 0))`, string(b.ID)); err != nil {
		return fmt.Errorf("wait for the budget's hours: %w", err)
	}
	oldest := now.Add(-budgetLearn)
	if from.Before(oldest) {
		oldest = from
	}
	since := now.Add(-budgetFresh)
	var last *time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT max(at) FROM budget_standing WHERE tenant_id = $1 AND budget_id = $2`, tx.Tenant, b.ID).Scan(&last); err != nil {
		return fmt.Errorf("load the budget's last check: %w", err)
	}
	// Data that comes all at once, after an outage or with a history, leaves more behind than is counted anew.
	leapt := last != nil && now.Sub(*last) >= budgetWhole
	whole := leapt || b.HoursAt == nil || tx.Now.Sub(*b.HoursAt) >= budgetWhole
	if whole || since.Before(oldest) {
		since = oldest
	}
	args := b.args(tx, pgx.NamedArgs{"since": since.Truncate(time.Hour), "to": now.Add(time.Hour), "oldest": oldest.Truncate(time.Hour), "now": tx.Now})
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM budget_hour WHERE tenant_id = @tenant AND budget_id = @budget AND (hour >= @since OR hour < @oldest)`, args)
	// The clusters come first, so that the lines are found by cluster and hour.
	batch.Queue(`
INSERT INTO budget_hour (tenant_id, budget_id, hour, amount_nano)
SELECT @tenant, @budget, l.hour, sum(l.amount_nano)::bigint FROM `+budgetClusters+`
JOIN cost_hour_line l ON l.tenant_id = c.tenant_id AND l.cluster_id = c.id AND l.hour >= @since AND l.hour < @to
WHERE c.tenant_id = @tenant AND (@cluster = '' OR c.id = nullif(@cluster, '')::uuid) AND `+budgetCounts+`
GROUP BY l.hour ORDER BY l.hour`, args)
	if whole {
		batch.Queue(`UPDATE budget SET hours_at = @now WHERE tenant_id = @tenant AND id = @budget`, args)
	}
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("count budget: %w", err)
	}
	return nil
}

// BudgetHours lists what a budget counted per hour, oldest first.
func BudgetHours(ctx context.Context, tx *Tx, id fleet.BudgetID) ([]ledger.HourSpend, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT hour, amount_nano FROM budget_hour WHERE tenant_id = $1 AND budget_id = $2 ORDER BY hour`, tx.Tenant, id)
	if err != nil {
		return nil, fmt.Errorf("load budget hours: %w", err)
	}
	hours, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.HourSpend])
	if err != nil {
		return nil, fmt.Errorf("load budget hours: %w", err)
	}
	return hours, nil
}

// BudgetStanding is how a budget stood at its last check.
type BudgetStanding struct {
	Budget   fleet.BudgetID
	At       time.Time // data time
	From, To time.Time // the period
	Spent    fleet.Money
	Forecast ledger.Forecast
	Allowed  fleet.Money // per hour from At on
}

// Left of the amount; negative: overspent.
func (s BudgetStanding) Left(amount fleet.Money) fleet.Money { return amount - s.Spent }

// Crossed lists the thresholds that the budget has reached.
func (s BudgetStanding) Crossed(b Budget) []ledger.Crossing {
	return ledger.Crossed(b.Amount, b.Thresholds, ledger.Outlook{From: s.From, To: s.To, ToDate: s.Spent, Forecast: s.Forecast.Total, Known: s.Forecast.Known})
}

// StandBudget counts a budget's hours up to data time now and keeps how it stands.
func StandBudget(ctx context.Context, tx *Tx, b Budget, calendar ledger.Calendar, now time.Time) (BudgetStanding, error) {
	span, err := calendar.Span(b.Period, now, 0)
	if err != nil {
		return BudgetStanding{}, err
	}
	if err := CountBudgetHours(ctx, tx, b, span.From, now); err != nil {
		return BudgetStanding{}, err
	}
	hours, err := BudgetHours(ctx, tx, b.ID)
	if err != nil {
		return BudgetStanding{}, err
	}
	s := BudgetStanding{Budget: b.ID, At: now, From: span.From, To: span.To}
	for _, h := range hours {
		if !h.Hour.Before(span.From) && h.Hour.Before(span.To) {
			s.Spent = s.Spent.Add(h.Amount)
		}
	}
	s.Forecast = ledger.ForecastSpend(hours, s.Spent, now, span.To)
	s.Allowed = ledger.Pace(s.Left(b.Amount), s.Spent, s.Forecast, now, span.To)
	return s, SaveBudgetStanding(ctx, tx, s)
}

// SaveBudgetStanding keeps how a budget stands.
func SaveBudgetStanding(ctx context.Context, tx *Tx, s BudgetStanding) error {
	f := s.Forecast
	var low, high *int64
	if f.HasBand {
		l, h := int64(f.Low), int64(f.High)
		low, high = &l, &h
	}
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO budget_standing (tenant_id, budget_id, at, from_at, to_at, spent_nano, known, forecast_nano, low_nano, high_nano, error, origins, horizon_hours, usual_nano, allowed_nano)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (tenant_id, budget_id) DO UPDATE SET at = excluded.at, from_at = excluded.from_at, to_at = excluded.to_at, spent_nano = excluded.spent_nano,
  known = excluded.known, forecast_nano = excluded.forecast_nano, low_nano = excluded.low_nano, high_nano = excluded.high_nano, error = excluded.error,
  origins = excluded.origins, horizon_hours = excluded.horizon_hours, usual_nano = excluded.usual_nano, allowed_nano = excluded.allowed_nano`,
		tx.Tenant, s.Budget, s.At, s.From, s.To, s.Spent, f.Known, f.Total, low, high, f.Error, f.Origins, f.HorizonHours, f.UsualHour, s.Allowed)
	if err != nil {
		return fmt.Errorf("save budget standing: %w", err)
	}
	return nil
}

// BudgetStandings reads how budgets stood at their last check; those that were never checked are left out.
func BudgetStandings(ctx context.Context, tx *Tx) (map[fleet.BudgetID]BudgetStanding, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT budget_id::text, at, from_at, to_at, spent_nano, known, forecast_nano, low_nano, high_nano, error, origins, horizon_hours, usual_nano, allowed_nano
FROM budget_standing WHERE tenant_id = $1`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load budget standings: %w", err)
	}
	out := map[fleet.BudgetID]BudgetStanding{}
	var s BudgetStanding
	var low, high *fleet.Money
	_, err = pgx.ForEachRow(rows, []any{&s.Budget, &s.At, &s.From, &s.To, &s.Spent, &s.Forecast.Known, &s.Forecast.Total, &low, &high, &s.Forecast.Error,
		&s.Forecast.Origins, &s.Forecast.HorizonHours, &s.Forecast.UsualHour, &s.Allowed}, func() error {
		keep := s
		keep.At, keep.From, keep.To = s.At.UTC(), s.From.UTC(), s.To.UTC()
		keep.Forecast.Low, keep.Forecast.High = s.Forecast.Total, s.Forecast.Total
		if keep.Forecast.HasBand = low != nil && high != nil; keep.Forecast.HasBand {
			keep.Forecast.Low, keep.Forecast.High = *low, *high
		}
		if s.Forecast.Error != nil {
			e := *s.Forecast.Error
			keep.Forecast.Error = &e
		}
		out[keep.Budget] = keep
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load budget standings: %w", err)
	}
	return out, nil
}

// TripBreaker freezes scale-ups of a budget's scope until a time, nil: until somebody resets it. False: it was tripped already.
func TripBreaker(ctx context.Context, tx *Tx, id fleet.BudgetID, at time.Time, until *time.Time) (bool, error) {
	tag, err := tx.pgx.Exec(ctx, `
UPDATE budget SET tripped_at = $3, tripped_until = $4 WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL
  AND (tripped_at IS NULL OR tripped_until <= $3)`, tx.Tenant, id, at, until)
	if err != nil {
		return false, fmt.Errorf("trip breaker: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// ResetBreaker lets scale-ups of a budget's scope go on. A breaker that is closed is a conflict.
func ResetBreaker(ctx context.Context, tx *Tx, id fleet.BudgetID) error {
	var was *time.Time
	err := tx.pgx.QueryRow(ctx, `SELECT tripped_at FROM budget WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE`, tx.Tenant, id).Scan(&was)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fleet.Errorf(fleet.CodeNotFound, "no such budget")
	case err != nil:
		return fmt.Errorf("reset breaker: %w", err)
	case was == nil:
		return fleet.Errorf(fleet.CodeConflict, "the breaker has not tripped")
	}
	if _, err := tx.pgx.Exec(ctx, `UPDATE budget SET tripped_at = NULL, tripped_until = NULL WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id); err != nil {
		return fmt.Errorf("reset breaker: %w", err)
	}
	return nil
}
