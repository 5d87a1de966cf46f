package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// Route says which alerts go to a channel. Empty fields mean all.
type Route struct {
	ID          string
	Name        string
	Channel     string
	Kinds       []string
	MinSeverity Severity
	Team        string
	Resolved    bool // tell when it is over, too
	CreatedAt   time.Time
}

// Fits says whether an event of an alert goes this way.
func (r Route) Fits(event string, a Alert) bool {
	return (r.Resolved || event != EventResolved) && (len(r.Kinds) == 0 || slices.Contains(r.Kinds, a.Kind)) &&
		a.Severity.rank() >= r.MinSeverity.rank() && (r.Team == "" || r.Team == a.Team())
}

func (s Severity) rank() int {
	return slices.Index([]Severity{SeverityInfo, SeverityWarning, SeverityCritical}, s)
}

// Routes lists them by name.
func Routes(ctx context.Context, tx *Tx) ([]Route, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT r.id::text, r.name, r.channel_id::text, r.kinds, r.min_severity, r.team, r.resolved, r.created_at FROM notify_route r
JOIN webhook w ON w.tenant_id = r.tenant_id AND w.id = r.channel_id AND w.disabled_at IS NULL
WHERE r.tenant_id = $1 ORDER BY r.name, r.id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load routes: %w", err)
	}
	routes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Route])
	if err != nil {
		return nil, fmt.Errorf("load routes: %w", err)
	}
	return routes, nil
}

// SaveRoute makes a route (empty ID) or changes one. A channel of nobody is invalid.
func SaveRoute(ctx context.Context, tx *Tx, r Route) (Route, error) {
	if _, err := LoadWebhook(ctx, tx, r.Channel); err != nil {
		if IsNotFound(err) {
			return r, &fleet.Error{Code: fleet.CodeInvalid, Message: "no such channel", Field: "body.channel_id"}
		}
		return r, err
	}
	if r.Kinds == nil {
		r.Kinds = []string{}
	}
	if r.ID == "" {
		r.ID, r.CreatedAt = uuid.Must(uuid.NewV7()).String(), tx.Now
		_, err := tx.pgx.Exec(ctx, `
INSERT INTO notify_route (tenant_id, id, name, channel_id, kinds, min_severity, team, resolved, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			tx.Tenant, r.ID, r.Name, r.Channel, r.Kinds, r.MinSeverity, r.Team, r.Resolved, tx.Now)
		if err != nil {
			return r, fmt.Errorf("save route: %w", err)
		}
		return r, nil
	}
	err := tx.pgx.QueryRow(ctx, `
UPDATE notify_route SET name = $3, channel_id = $4, kinds = $5, min_severity = $6, team = $7, resolved = $8 WHERE tenant_id = $1 AND id = $2 RETURNING created_at`,
		tx.Tenant, r.ID, r.Name, r.Channel, r.Kinds, r.MinSeverity, r.Team, r.Resolved).Scan(&r.CreatedAt)
	if err != nil {
		return r, notFound(err, "route")
	}
	return r, nil
}

// DeleteRoute ends one.
func DeleteRoute(ctx context.Context, tx *Tx, id string) error {
	return changeOne(ctx, tx, `DELETE FROM notify_route WHERE tenant_id = $1 AND id = $2`, "route", id)
}

// changeOne runs a statement that changes one row of the tenant, which is its first argument; no row is not_found.
func changeOne(ctx context.Context, tx *Tx, sql, what string, args ...any) error {
	tag, err := tx.pgx.Exec(ctx, sql, append([]any{tx.Tenant}, args...)...)
	if err != nil {
		return fmt.Errorf("change %s: %w", what, err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such %s", what)
	}
	return nil
}

// Silence keeps alerts from being told for a while. Empty fields mean all.
type Silence struct {
	ID        string
	Kinds     []string
	Subject   string // what the subject begins with
	Team      string
	Reason    string
	From      time.Time
	Until     time.Time
	CreatedBy string
	CreatedAt time.Time
	EndedAt   *time.Time // by hand, before Until
}

// Holds says whether the silence covers an alert at a time.
func (s Silence) Holds(a Alert, at time.Time) bool {
	return s.EndedAt == nil && !at.Before(s.From) && at.Before(s.Until) && (len(s.Kinds) == 0 || slices.Contains(s.Kinds, a.Kind)) &&
		strings.HasPrefix(a.Subject, s.Subject) && (s.Team == "" || s.Team == a.Team())
}

// Silences lists those that hold or will hold, and with all also those that are over, newest first.
func Silences(ctx context.Context, tx *Tx, all bool, limit int) ([]Silence, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT id::text, kinds, subject, team, reason, from_at, until, created_by, created_at, ended_at FROM silence
WHERE tenant_id = $1 AND ($2 OR (ended_at IS NULL AND until > $3)) ORDER BY created_at DESC, id DESC LIMIT $4`, tx.Tenant, all, tx.Now, limit)
	if err != nil {
		return nil, fmt.Errorf("load silences: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Silence])
	if err != nil {
		return nil, fmt.Errorf("load silences: %w", err)
	}
	return list, nil
}

// InsertSilence adds one.
func InsertSilence(ctx context.Context, tx *Tx, s Silence) (Silence, error) {
	s.ID, s.CreatedAt = uuid.Must(uuid.NewV7()).String(), tx.Now
	if s.Kinds == nil {
		s.Kinds = []string{}
	}
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO silence (tenant_id, id, kinds, subject, team, reason, from_at, until, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		tx.Tenant, s.ID, s.Kinds, s.Subject, s.Team, s.Reason, s.From, s.Until, s.CreatedBy, tx.Now)
	if err != nil {
		return s, fmt.Errorf("save silence: %w", err)
	}
	return s, nil
}

// EndSilence ends one before its time. It stays in the list of those that are over.
func EndSilence(ctx context.Context, tx *Tx, id string) error {
	return changeOne(ctx, tx, `UPDATE silence SET ended_at = $3 WHERE tenant_id = $1 AND id = $2 AND ended_at IS NULL AND until > $3`, "silence", id, tx.Now)
}

// Digest is a summary that a channel gets every day or week.
type Digest struct {
	Channel   string
	Every     string // day or week
	Hour      int    // of the tenant's zone
	SentFor   *time.Time
	CreatedAt time.Time
}

// Digests lists those of channels that are there.
func Digests(ctx context.Context, tx *Tx) ([]Digest, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT d.channel_id::text, d.every, d.hour, d.sent_for, d.created_at FROM notify_digest d
JOIN webhook w ON w.tenant_id = d.tenant_id AND w.id = d.channel_id AND w.disabled_at IS NULL WHERE d.tenant_id = $1 ORDER BY d.channel_id, d.every`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load digests: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Digest])
	if err != nil {
		return nil, fmt.Errorf("load digests: %w", err)
	}
	return list, nil
}

// SaveDigest sets when a channel gets a digest.
func SaveDigest(ctx context.Context, tx *Tx, d Digest) error {
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO notify_digest (tenant_id, channel_id, every, hour, created_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, channel_id, every) DO UPDATE SET hour = excluded.hour`, tx.Tenant, d.Channel, d.Every, d.Hour, tx.Now)
	if err != nil {
		return fmt.Errorf("save digest: %w", err)
	}
	return nil
}

// DeleteDigest ends one.
func DeleteDigest(ctx context.Context, tx *Tx, channel, every string) error {
	return changeOne(ctx, tx, `DELETE FROM notify_digest WHERE tenant_id = $1 AND channel_id = $2 AND every = $3`, "digest", channel, every)
}

// ClaimDigest notes that the period that ends at end is told; false: it was already.
func ClaimDigest(ctx context.Context, tx *Tx, d Digest, end time.Time) (bool, error) {
	tag, err := tx.pgx.Exec(ctx, `UPDATE notify_digest SET sent_for = $4 WHERE tenant_id = $1 AND channel_id = $2 AND every = $3 AND (sent_for IS NULL OR sent_for < $4)`,
		tx.Tenant, d.Channel, d.Every, end)
	if err != nil {
		return false, fmt.Errorf("claim digest: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
