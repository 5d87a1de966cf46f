package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Changes of an alert's state that are told.
const (
	EventOpened   = "alert.opened"
	EventResolved = "alert.resolved"
)

// States of an alert's event.
const (
	EventPending  = "pending"
	EventSilenced = "silenced" // told when the silence ends and the alert is open still
	EventTold     = "told"
	EventDropped  = "dropped" // over before anybody was told
)

// AlertEvent is a change of an alert's state that is to be told once.
type AlertEvent struct {
	ID    string
	Event string
	At    time.Time
	State string
	Alert Alert
	// Opening is the state of the event that opened the alert; empty where there is none, from before such events were kept.
	Opening string
}

func insertAlertEvent(ctx context.Context, tx *Tx, alert, event string) error {
	_, err := tx.pgx.Exec(ctx, `INSERT INTO alert_event (tenant_id, id, alert_id, event, at, state) VALUES ($1, $2, $3, $4, $5, 'pending')`,
		tx.Tenant, uuid.Must(uuid.NewV7()).String(), alert, event, tx.Now)
	if err != nil {
		return fmt.Errorf("save alert event: %w", err)
	}
	return nil
}

// UntoldAlertEvents locks and lists the events that nobody was told of yet, oldest first. Those that another process holds are left to it.
func UntoldAlertEvents(ctx context.Context, tx *Tx, limit int) ([]AlertEvent, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT e.id::text, e.event, e.at, e.state, a.id::text, a.kind, a.subject, a.severity, a.opened_at, a.resolved_at, a.detail,
  coalesce((SELECT o.state FROM alert_event o WHERE o.tenant_id = e.tenant_id AND o.alert_id = e.alert_id AND o.event = 'alert.opened'), '')
FROM alert_event e JOIN alert a ON a.tenant_id = e.tenant_id AND a.id = e.alert_id
WHERE e.tenant_id = $1 AND e.state IN ('pending', 'silenced') ORDER BY e.at, e.id LIMIT $2 FOR UPDATE OF e SKIP LOCKED`, tx.Tenant, limit)
	if err != nil {
		return nil, fmt.Errorf("load alert events: %w", err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e AlertEvent, err error) {
		a := &e.Alert
		return e, row.Scan(&e.ID, &e.Event, &e.At, &e.State, &a.ID, &a.Kind, &a.Subject, &a.Severity, &a.OpenedAt, &a.ResolvedAt, &a.Detail, &e.Opening)
	})
	if err != nil {
		return nil, fmt.Errorf("load alert events: %w", err)
	}
	return events, nil
}

// SettleAlertEvent notes what became of an event: the silence that holds it, or how many channels were told.
func SettleAlertEvent(ctx context.Context, tx *Tx, id, state, silence string, channels int) error {
	_, err := tx.pgx.Exec(ctx, `
UPDATE alert_event SET state = $3, silence_id = nullif($4, '')::uuid, channels = $5, told_at = CASE WHEN $3 = 'told' THEN $6::timestamptz END
WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id, state, silence, channels, tx.Now)
	if err != nil {
		return fmt.Errorf("settle alert event: %w", err)
	}
	return nil
}

// DropOpening ends the event that opened an alert and was never told.
func DropOpening(ctx context.Context, tx *Tx, alert string) error {
	_, err := tx.pgx.Exec(ctx, `UPDATE alert_event SET state = 'dropped' WHERE tenant_id = $1 AND alert_id = $2 AND event = 'alert.opened' AND state IN ('pending', 'silenced')`, tx.Tenant, alert)
	if err != nil {
		return fmt.Errorf("drop alert event: %w", err)
	}
	return nil
}

// PruneAlertEvents forgets settled events of before a time, at most limit of them.
func PruneAlertEvents(ctx context.Context, tx *Tx, before time.Time, limit int) error {
	_, err := tx.pgx.Exec(ctx, `DELETE FROM alert_event WHERE tenant_id = $1 AND id IN (
  SELECT id FROM alert_event WHERE tenant_id = $1 AND state IN ('told', 'dropped') AND at < $2 ORDER BY at LIMIT $3)`, tx.Tenant, before, limit)
	if err != nil {
		return fmt.Errorf("prune alert events: %w", err)
	}
	return nil
}

// Team of an alert, from its detail; empty: of nobody in particular.
func (a Alert) Team() string {
	var d struct {
		Team string `json:"team"`
	}
	_ = json.Unmarshal(a.Detail, &d) // a detail of another shape has no team
	return d.Team
}

// AlertStory is what became of an alert's events.
type AlertStory struct {
	Alert    string
	Event    string
	State    string
	Silence  string
	Channels int
	ToldAt   *time.Time
}

// AlertStories reads the events of some alerts.
func AlertStories(ctx context.Context, tx *Tx, alerts []string) ([]AlertStory, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT alert_id::text, event, state, coalesce(silence_id::text, ''), channels, told_at FROM alert_event
WHERE tenant_id = $1 AND alert_id = ANY ($2::uuid[]) ORDER BY alert_id, at, event`, tx.Tenant, orEmpty(alerts))
	if err != nil {
		return nil, fmt.Errorf("load alert events: %w", err)
	}
	stories, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AlertStory])
	if err != nil {
		return nil, fmt.Errorf("load alert events: %w", err)
	}
	return stories, nil
}
