package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
)

// purchases hands on what was paid for commitments in the closed hours of the span: the recurring part of each hour, and what is up front in
// the first hour of the term. A commitment that was deleted counts until then.
func (e FocusExport) purchases(ctx context.Context, tx *Tx, account focus.Account, bought map[string]focus.Commitment) error {
	rows, err := tx.pgx.Query(ctx, `SELECT DISTINCT hour FROM cost_hour WHERE tenant_id = $1 AND hour >= $2 AND hour < $3 AND state = 'closed' ORDER BY hour LIMIT $4`, tx.Tenant, e.From, e.To, maxFocusHours)
	if err != nil {
		return fmt.Errorf("load closed hours: %w", err)
	}
	hours, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return fmt.Errorf("load closed hours: %w", err)
	}
	rows, err = tx.pgx.Query(ctx, `
SELECT id::text, kind, quantity, upfront_nano, recurring_nano, spend_nano, starts_at, ends_at, owner, changed_at, deleted_at FROM commitment
WHERE tenant_id = $1 AND starts_at < $3 AND (ends_at IS NULL OR ends_at > $2) AND (deleted_at IS NULL OR deleted_at > $2) ORDER BY ref, id`, tx.Tenant, e.From, e.To)
	if err != nil {
		return fmt.Errorf("load commitments: %w", err)
	}
	type purchase struct {
		commitment.Commitment
		changed, until time.Time // until is zero for what is not deleted
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p purchase, err error) {
		var ends, deleted *time.Time
		err = row.Scan(&p.ID, &p.Kind, &p.Quantity, &p.Upfront, &p.Recurring, &p.Spend, &p.Term.From, &ends, &p.Owner, &p.changed, &deleted)
		p.Term.To, p.until = orZero(ends), orZero(deleted)
		return p, err
	})
	if err != nil {
		return fmt.Errorf("load commitments: %w", err)
	}
	for i := range all {
		c := &all[i]
		term := c.Term
		if !c.until.IsZero() && (term.To.IsZero() || c.until.Before(term.To)) {
			term.To = c.until
		}
		hourly, whole := c.HourCost(), int64(0)
		if !c.Term.To.IsZero() {
			whole = c.Term.To.Sub(c.Term.From).Milliseconds()
		}
		if c.Upfront > 0 && whole > 0 {
			hourly = max(hourly.Add(-c.Upfront.MulDiv(time.Hour.Milliseconds(), whole)), 0)
		}
		for _, at := range hours {
			at = at.UTC()
			part := fleet.Interval{From: later(term.From.UTC(), at), To: at.Add(time.Hour)}
			if !term.To.IsZero() && term.To.Before(part.To) {
				part.To = term.To.UTC()
			}
			ms := part.To.Sub(part.From).Milliseconds()
			if ms <= 0 {
				continue
			}
			p := focus.Purchase{Account: account, Commitment: commitmentOf(bought, c.ID), Hour: at, AsOf: c.changed, Team: c.Owner, Amount: hourly.MulDiv(ms, time.Hour.Milliseconds()), Millis: ms, Quantity: c.Quantity}
			if p.Amount > 0 {
				if err := e.Purchase(p); err != nil {
					return err
				}
			}
			if c.Upfront > 0 && whole > 0 && !term.From.Before(at) {
				p.Upfront, p.Amount, p.Millis = true, c.Upfront, whole
				if err := e.Purchase(p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
