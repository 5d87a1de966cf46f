package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// ChannelKind is how a channel is spoken to.
type ChannelKind string

// Kinds of channels.
const (
	ChannelWebhook   ChannelKind = "webhook"
	ChannelSlack     ChannelKind = "slack"
	ChannelTeams     ChannelKind = "teams"
	ChannelEmail     ChannelKind = "email"
	ChannelPagerDuty ChannelKind = "pagerduty"
	ChannelOpsgenie  ChannelKind = "opsgenie"
)

// Pager says whether a channel's receiver keeps an incident per alert, which its end closes. Its key is sealed.
func (k ChannelKind) Pager() bool { return k == ChannelPagerDuty || k == ChannelOpsgenie }

// Webhook is a channel: where events are sent to.
type Webhook struct {
	ID   string
	Name string
	// URL of a webhook. Of Slack and Teams the host only: the whole address is a secret, and sealed. Of mail "mailto:" and the addresses.
	URL          string
	SealedSecret []byte
	CreatedAt    time.Time
	Kind         ChannelKind // empty on insert: a webhook
	Language     string      // of texts: en or zh; empty on insert: en
	// SealedOld signs too until OldUntil, while a secret is exchanged.
	SealedOld []byte
	OldUntil  *time.Time
}

const webhookColumns = `id::text, name, url, sealed_secret, created_at, kind, language, sealed_old, old_until`

// Webhooks lists the enabled channels by name.
func Webhooks(ctx context.Context, tx *Tx) ([]Webhook, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+webhookColumns+` FROM webhook WHERE tenant_id = $1 AND disabled_at IS NULL ORDER BY name, id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load channels: %w", err)
	}
	hooks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Webhook])
	if err != nil {
		return nil, fmt.Errorf("load channels: %w", err)
	}
	return hooks, nil
}

// LoadWebhook finds a channel that is enabled.
func LoadWebhook(ctx context.Context, tx *Tx, id string) (Webhook, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+webhookColumns+` FROM webhook WHERE tenant_id = $1 AND id = $2 AND disabled_at IS NULL`, tx.Tenant, id)
	if err != nil {
		return Webhook{}, fmt.Errorf("load channel: %w", err)
	}
	w, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Webhook])
	if err != nil {
		return Webhook{}, notFound(err, "channel")
	}
	return w, nil
}

// InsertWebhook adds a channel whose id and sealed secret the caller made.
func InsertWebhook(ctx context.Context, tx *Tx, w Webhook) error {
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO webhook (tenant_id, id, name, url, sealed_secret, created_at, kind, language)
VALUES ($1, $2, $3, $4, $5, $6, coalesce(nullif($7, ''), 'webhook'), coalesce(nullif($8, ''), 'en'))`,
		tx.Tenant, w.ID, w.Name, w.URL, w.SealedSecret, tx.Now, string(w.Kind), w.Language)
	if err != nil {
		return fmt.Errorf("save channel: %w", err)
	}
	return nil
}

// RotateWebhook puts a new sealed secret in force; the one before signs too until a time.
func RotateWebhook(ctx context.Context, tx *Tx, id string, sealed []byte, until time.Time) error {
	return changeOne(ctx, tx, `
UPDATE webhook SET sealed_old = sealed_secret, old_until = $4, sealed_secret = $3 WHERE tenant_id = $1 AND id = $2 AND kind = 'webhook' AND disabled_at IS NULL`, "webhook", id, sealed, until)
}

// DisableWebhook ends a webhook: nothing is sent to it any more, its log stays, budgets forget it.
func DisableWebhook(ctx context.Context, tx *Tx, id string) error {
	tag, err := tx.pgx.Exec(ctx, `UPDATE webhook SET disabled_at = $3 WHERE tenant_id = $1 AND id = $2 AND disabled_at IS NULL`, tx.Tenant, id, tx.Now)
	if err != nil {
		return fmt.Errorf("disable channel: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such channel")
	}
	if _, err := tx.pgx.Exec(ctx, `UPDATE budget SET webhook_id = NULL WHERE tenant_id = $1 AND webhook_id = $2`, tx.Tenant, id); err != nil {
		return fmt.Errorf("disable channel: %w", err)
	}
	if _, err := tx.pgx.Exec(ctx, `DELETE FROM notify_route WHERE tenant_id = $1 AND channel_id = $2`, tx.Tenant, id); err != nil {
		return fmt.Errorf("disable channel: %w", err)
	}
	if _, err := tx.pgx.Exec(ctx, `DELETE FROM notify_digest WHERE tenant_id = $1 AND channel_id = $2`, tx.Tenant, id); err != nil {
		return fmt.Errorf("disable channel: %w", err)
	}
	return nil
}

// Delivery states.
const (
	DeliveryPending   = "pending"
	DeliveryDelivered = "delivered"
	DeliveryFailed    = "failed"
)

// Delivery is one sending of an event to a webhook: all attempts of it.
type Delivery struct {
	ID         string
	Webhook    string
	Alert      string // empty: a test
	EventID    string // the same for a redelivery
	Event      string // alert.opened, alert.resolved, test
	Payload    string // the body, byte for byte
	State      string
	Attempts   int
	LastStatus *int // HTTP status; nil: no answer
	LastError  string
	CreatedAt  time.Time
	FinishedAt *time.Time
}

const deliveryColumns = `id::text, webhook_id::text, coalesce(alert_id::text, ''), event_id::text, event, payload, state, attempts, last_status,
  coalesce(last_error, ''), created_at, finished_at`

// InsertDelivery records that an event is to be sent; an empty EventID makes a new one. It returns the delivery's id.
func InsertDelivery(ctx context.Context, tx *Tx, d Delivery) (string, error) {
	id := uuid.Must(uuid.NewV7()).String()
	if d.EventID == "" {
		d.EventID = id
	}
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO webhook_delivery (tenant_id, id, webhook_id, alert_id, event_id, event, payload, state, created_at)
VALUES ($1, $2, $3, nullif($4, '')::uuid, $5, $6, $7, 'pending', $8)`, tx.Tenant, id, d.Webhook, d.Alert, d.EventID, d.Event, d.Payload, tx.Now)
	if err != nil {
		return "", fmt.Errorf("save delivery: %w", err)
	}
	return id, nil
}

// Deliveries lists those of a webhook, newest first.
func Deliveries(ctx context.Context, tx *Tx, webhook string, after Position, limit int) ([]Delivery, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+deliveryColumns+` FROM webhook_delivery WHERE tenant_id = $1 AND webhook_id = $2
  AND ($3 = '' OR (created_at, id) < ($4, nullif($3, '')::uuid)) ORDER BY created_at DESC, id DESC LIMIT $5`, tx.Tenant, webhook, after.ID, after.At, limit)
	if err != nil {
		return nil, fmt.Errorf("load deliveries: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Delivery])
	if err != nil {
		return nil, fmt.Errorf("load deliveries: %w", err)
	}
	return list, nil
}

// LoadDelivery finds one delivery.
func LoadDelivery(ctx context.Context, tx *Tx, id string) (Delivery, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+deliveryColumns+` FROM webhook_delivery WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id)
	if err != nil {
		return Delivery{}, fmt.Errorf("load delivery: %w", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Delivery])
	if err != nil {
		return Delivery{}, notFound(err, "delivery")
	}
	return d, nil
}

// Attempt is one attempt of a delivery.
type Attempt struct {
	N       int // from 1
	At      time.Time
	Status  *int   // HTTP status; nil: no answer
	Problem string // empty: delivered
	TookMS  int
}

// Attempts lists those of a delivery, oldest first.
func Attempts(ctx context.Context, tx *Tx, delivery string) ([]Attempt, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT n, at, status, coalesce(problem, ''), took_ms FROM webhook_attempt WHERE tenant_id = $1 AND delivery_id = $2 ORDER BY n`, tx.Tenant, delivery)
	if err != nil {
		return nil, fmt.Errorf("load attempts: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Attempt])
	if err != nil {
		return nil, fmt.Errorf("load attempts: %w", err)
	}
	return list, nil
}

// RecordAttempt notes one attempt of a delivery that is pending. state says what it is now.
func RecordAttempt(ctx context.Context, tx *Tx, id, state string, status *int, problem string, took time.Duration) error {
	var n int
	err := tx.pgx.QueryRow(ctx, `
UPDATE webhook_delivery SET state = $3, attempts = attempts + 1, last_status = $4, last_error = nullif($5, ''),
  finished_at = CASE WHEN $3 = 'pending' THEN NULL ELSE $6::timestamptz END
WHERE tenant_id = $1 AND id = $2 AND state = 'pending' RETURNING attempts`, tx.Tenant, id, state, status, problem, tx.Now).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // somebody else finished it
	}
	if err != nil {
		return fmt.Errorf("record attempt: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, `INSERT INTO webhook_attempt (tenant_id, delivery_id, n, at, status, problem, took_ms) VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7)`,
		tx.Tenant, id, n, tx.Now, status, problem, took.Milliseconds())
	if err != nil {
		return fmt.Errorf("record attempt: %w", err)
	}
	return nil
}
