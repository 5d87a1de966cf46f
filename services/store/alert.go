package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Severity of an alert.
type Severity string

// Severities.
const (
	SeverityInfo     Severity = "info"
	SeverityWarning  Severity = "warning"
	SeverityCritical Severity = "critical"
)

// Alert is a state that somebody should know of. At most one is open per kind and subject.
type Alert struct {
	ID         string
	Kind       string // budget_threshold, unknown_price, agent_offline, conflict, ...
	Subject    string // what it is about: "budget/<id>/actual/80", "cluster/<id>"
	Severity   Severity
	OpenedAt   time.Time
	ResolvedAt *time.Time
	Detail     json.RawMessage // numbers and names; the text is made by whoever shows it
}

const alertColumns = `id::text, kind, subject, severity, opened_at, resolved_at, detail`

// OpenAlert opens an alert unless one of its kind and subject is open; opened says whether it is new. detail becomes JSON. at is the
// time that the state is of: data time for what a cluster did. Whoever is to be told of it is told once (alert_event.go).
func OpenAlert(ctx context.Context, tx *Tx, kind, subject string, severity Severity, at time.Time, detail any) (a Alert, opened bool, err error) {
	text, err := json.Marshal(detail)
	if err != nil {
		return a, false, fmt.Errorf("encode alert: %w", err)
	}
	rows, err := tx.pgx.Query(ctx, `
INSERT INTO alert (tenant_id, id, kind, subject, severity, opened_at, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, kind, subject) WHERE resolved_at IS NULL DO NOTHING RETURNING `+alertColumns,
		tx.Tenant, uuid.Must(uuid.NewV7()).String(), kind, subject, severity, at, text)
	if err != nil {
		return a, false, fmt.Errorf("open alert: %w", err)
	}
	a, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Alert])
	if errors.Is(err, pgx.ErrNoRows) {
		return a, false, nil
	}
	if err != nil {
		return a, false, fmt.Errorf("open alert: %w", err)
	}
	return a, true, insertAlertEvent(ctx, tx, a.ID, EventOpened)
}

// ResolveAlert ends the open alert of the kind and subject; resolved says whether there was one.
func ResolveAlert(ctx context.Context, tx *Tx, kind, subject string, at time.Time) (a Alert, resolved bool, err error) {
	rows, err := tx.pgx.Query(ctx, `
UPDATE alert SET resolved_at = greatest($4, opened_at) WHERE tenant_id = $1 AND kind = $2 AND subject = $3 AND resolved_at IS NULL RETURNING `+alertColumns,
		tx.Tenant, kind, subject, at)
	if err != nil {
		return a, false, fmt.Errorf("resolve alert: %w", err)
	}
	a, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Alert])
	if errors.Is(err, pgx.ErrNoRows) {
		return a, false, nil
	}
	if err != nil {
		return a, false, fmt.Errorf("resolve alert: %w", err)
	}
	return a, true, insertAlertEvent(ctx, tx, a.ID, EventResolved)
}

// Position is where a list that is sorted by time, newest first, goes on; zero is its beginning.
type Position struct {
	At time.Time `json:"t"`
	ID string    `json:"i"`
}

// AlertFilter selects alerts.
type AlertFilter struct {
	OnlyOpen bool
	Kind     string // empty: all
	After    Position
	Limit    int
}

// Alerts lists alerts, newest first.
func Alerts(ctx context.Context, tx *Tx, f AlertFilter) ([]Alert, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+alertColumns+` FROM alert WHERE tenant_id = $1 AND (NOT $2 OR resolved_at IS NULL) AND ($3 = '' OR kind = $3)
  AND ($4 = '' OR (opened_at, id) < ($5, nullif($4, '')::uuid)) ORDER BY opened_at DESC, id DESC LIMIT $6`,
		tx.Tenant, f.OnlyOpen, f.Kind, f.After.ID, f.After.At, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("load alerts: %w", err)
	}
	alerts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Alert])
	if err != nil {
		return nil, fmt.Errorf("load alerts: %w", err)
	}
	return alerts, nil
}
