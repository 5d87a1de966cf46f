package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// CloudAccount is a tenant's account at a cloud.
type CloudAccount struct {
	ID          string
	Cloud       fleet.Cloud
	Name        string
	Subject     string // role, application or service account; no secret
	ExternalID  string
	Regions     []string
	State       string // new, ok or failing
	Failures    int    // in a row
	Problem     string // of the newest failure
	RefreshedAt *time.Time
	TriedAt     *time.Time
	NextAt      time.Time
	Outcome     json.RawMessage
	CreatedBy   string
	CreatedAt   time.Time
}

const cloudAccountColumns = `id::text, cloud, name, subject, external_id, regions, state, failures, problem, refreshed_at, tried_at, next_at, outcome, created_by, created_at`

// CloudAccounts lists them by name.
func CloudAccounts(ctx context.Context, tx *Tx) ([]CloudAccount, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+cloudAccountColumns+` FROM cloud_account WHERE tenant_id = $1 ORDER BY name, id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load cloud accounts: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[CloudAccount])
	if err != nil {
		return nil, fmt.Errorf("load cloud accounts: %w", err)
	}
	return all, nil
}

// LoadCloudAccount finds one, with what is sealed of it.
func LoadCloudAccount(ctx context.Context, tx *Tx, id string) (a CloudAccount, sealed []byte, err error) {
	err = tx.pgx.QueryRow(ctx, `SELECT `+cloudAccountColumns+`, sealed FROM cloud_account WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id).Scan(
		&a.ID, &a.Cloud, &a.Name, &a.Subject, &a.ExternalID, &a.Regions, &a.State, &a.Failures, &a.Problem, &a.RefreshedAt, &a.TriedAt, &a.NextAt, &a.Outcome, &a.CreatedBy, &a.CreatedAt, &sealed)
	if err != nil {
		return a, nil, notFound(err, "cloud account")
	}
	return a, sealed, nil
}

// InsertCloudAccount adds an account whose id and sealed access the caller made. It is due at once.
func InsertCloudAccount(ctx context.Context, tx *Tx, a CloudAccount, sealed []byte) error {
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO cloud_account (tenant_id, id, cloud, name, subject, external_id, regions, sealed, next_at, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9)`, tx.Tenant, a.ID, a.Cloud, a.Name, a.Subject, a.ExternalID, a.Regions, sealed, tx.Now, a.CreatedBy)
	if violates(err, "cloud_account_name") {
		return &fleet.Error{Code: fleet.CodeConflict, Message: "there is an account of this name", Field: "body.name"}
	}
	if err != nil {
		return fmt.Errorf("save cloud account: %w", err)
	}
	return nil
}

// DeleteCloudAccount forgets an account and what it takes to get in. Prices and commitments that came from it stay.
func DeleteCloudAccount(ctx context.Context, tx *Tx, id string) error {
	if err := groupsOfAccountAreFree(ctx, tx, id); err != nil {
		return err
	}
	tag, err := tx.pgx.Exec(ctx, `DELETE FROM cloud_account WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id)
	if err != nil {
		return fmt.Errorf("delete cloud account: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such cloud account")
	}
	return nil
}

// DueCloudAccounts lists accounts whose time to be refreshed has come, longest waiting first.
func DueCloudAccounts(ctx context.Context, tx *Tx, limit int) ([]string, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT id::text FROM cloud_account WHERE tenant_id = $1 AND next_at <= $2 ORDER BY next_at, id LIMIT $3`, tx.Tenant, tx.Now, limit)
	if err != nil {
		return nil, fmt.Errorf("list due cloud accounts: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list due cloud accounts: %w", err)
	}
	return ids, nil
}

// CloudAccountRefreshed notes a complete refresh: what it brought, the zones it saw, and when the next one is due. An account that was
// deleted meanwhile is left alone.
func CloudAccountRefreshed(ctx context.Context, tx *Tx, id string, outcome any, zones map[string]string, next time.Time) error {
	text, err := json.Marshal(outcome)
	if err != nil {
		return fmt.Errorf("encode outcome: %w", err)
	}
	seen, err := json.Marshal(noNilMap(zones))
	if err != nil {
		return fmt.Errorf("encode zones: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, `
UPDATE cloud_account SET state = 'ok', failures = 0, problem = '', refreshed_at = $3, tried_at = $3, next_at = $4, outcome = $5, zones = zones || $6::jsonb
WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id, tx.Now, next, text, seen)
	if err != nil {
		return fmt.Errorf("note refresh: %w", err)
	}
	return nil
}

func noNilMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// CloudAccountFailed notes a failed refresh and returns how many failed in a row; wait says when to try again by that number. 0: the
// account is gone.
func CloudAccountFailed(ctx context.Context, tx *Tx, id, problem string, wait func(failures int) time.Duration) (failures int, err error) {
	err = tx.pgx.QueryRow(ctx, `SELECT failures + 1 FROM cloud_account WHERE tenant_id = $1 AND id = $2 FOR UPDATE`, tx.Tenant, id).Scan(&failures)
	if err == pgx.ErrNoRows { //nolint:errorlint // never wrapped by QueryRow
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("note failed refresh: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, `UPDATE cloud_account SET state = 'failing', failures = $3, problem = $4, tried_at = $5, next_at = $6 WHERE tenant_id = $1 AND id = $2`,
		tx.Tenant, id, failures, problem, tx.Now, tx.Now.Add(wait(failures)))
	if err != nil {
		return 0, fmt.Errorf("note failed refresh: %w", err)
	}
	return failures, nil
}

// RefreshCloudAccountSoon makes an account due at once.
func RefreshCloudAccountSoon(ctx context.Context, tx *Tx, id string) error {
	tag, err := tx.pgx.Exec(ctx, `UPDATE cloud_account SET next_at = $3 WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id, tx.Now)
	if err != nil {
		return fmt.Errorf("make cloud account due: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such cloud account")
	}
	return nil
}

// zoneIDOf is SQL for the id of the zone of a table's row, where an account of tenant $1 knows it, else NULL. The row has cloud and zone.
func zoneIDOf(table string) string {
	return `(SELECT a.zones ->> ` + table + `.zone FROM cloud_account a WHERE a.tenant_id = $1 AND a.cloud = ` + table + `.cloud AND a.zones ? ` + table + `.zone ORDER BY a.created_at, a.id LIMIT 1)`
}

// ZoneIDs gives the ids of zones as the tenant's accounts name them: AWS shuffles names per account, and prices are kept by id.
func ZoneIDs(ctx context.Context, tx *Tx) (map[string]string, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT z.key, z.value FROM cloud_account a, jsonb_each_text(a.zones) z WHERE a.tenant_id = $1 ORDER BY a.created_at, a.id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load zones: %w", err)
	}
	out := map[string]string{}
	var name, id string
	if _, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error { out[name] = id; return nil }); err != nil {
		return nil, fmt.Errorf("load zones: %w", err)
	}
	return out, nil
}
