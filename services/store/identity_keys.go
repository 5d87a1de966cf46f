package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// APIKey is a machine's way in, without its secret.
type APIKey struct {
	ID         string
	Name       string
	Hash       []byte // SHA-256 of the secret
	Hint       string // the last four characters
	Role       string // see auth.Role; never owner
	CreatedBy  *fleet.UserID
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	LastUsedAt *time.Time
	RevokedAt  *time.Time
}

// MaxAPIKeys is how many keys that are neither revoked nor expired a tenant may have.
const MaxAPIKeys = 200

// CreateAPIKey keeps a new key.
func CreateAPIKey(ctx context.Context, tx *Tx, k APIKey) error {
	var active int
	err := tx.pgx.QueryRow(ctx, `
SELECT count(*) FROM api_key WHERE tenant_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`, tx.Tenant, tx.Now).Scan(&active)
	if err != nil {
		return fmt.Errorf("count api keys: %w", err)
	}
	if active >= MaxAPIKeys {
		return fleet.Errorf(fleet.CodeConflict, "there are %d active keys; revoke one first", active)
	}
	_, err = tx.pgx.Exec(ctx, `
INSERT INTO api_key (tenant_id, id, name, secret_hash, hint, role, created_by, created_at, expires_at)
VALUES (@tenant, @id, @name, @hash, @hint, @role, @by, @at, @expires)`, pgx.NamedArgs{
		"tenant": tx.Tenant, "id": k.ID, "name": k.Name, "hash": k.Hash, "hint": k.Hint, "role": k.Role,
		"by": k.CreatedBy, "at": tx.Now, "expires": k.ExpiresAt,
	})
	if err != nil {
		return fmt.Errorf("create api key: %w", err)
	}
	return nil
}

const apiKeyQuery = `SELECT id::text, name, secret_hash, hint, role, created_by::text, created_at, expires_at, last_used_at, revoked_at
FROM api_key WHERE tenant_id = @tenant`

func scanAPIKey(row pgx.CollectableRow) (k APIKey, err error) {
	err = row.Scan(&k.ID, &k.Name, &k.Hash, &k.Hint, &k.Role, &k.CreatedBy, &k.CreatedAt, &k.ExpiresAt, &k.LastUsedAt, &k.RevokedAt)
	k.CreatedAt, k.ExpiresAt, k.LastUsedAt, k.RevokedAt = k.CreatedAt.UTC(), utc(k.ExpiresAt), utc(k.LastUsedAt), utc(k.RevokedAt)
	return k, err
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// APIKeys lists the tenant's keys that are not revoked, newest first.
func APIKeys(ctx context.Context, tx *Tx) ([]APIKey, error) {
	rows, err := tx.pgx.Query(ctx, apiKeyQuery+" AND revoked_at IS NULL ORDER BY created_at DESC, id LIMIT 1000", pgx.NamedArgs{"tenant": tx.Tenant})
	if err != nil {
		return nil, fmt.Errorf("list api keys: %w", err)
	}
	keys, err := pgx.CollectRows(rows, scanAPIKey)
	if err != nil {
		return nil, fmt.Errorf("list api keys: %w", err)
	}
	return keys, nil
}

// APIKeyByID reads one key, revoked or not.
func APIKeyByID(ctx context.Context, tx *Tx, id string) (APIKey, error) {
	rows, err := tx.pgx.Query(ctx, apiKeyQuery+" AND id = @id", pgx.NamedArgs{"tenant": tx.Tenant, "id": id})
	if err != nil {
		return APIKey{}, fmt.Errorf("load api key: %w", err)
	}
	k, err := pgx.CollectExactlyOneRow(rows, scanAPIKey)
	if err != nil {
		return k, notFound(err, "key")
	}
	return k, nil
}

// TouchAPIKey notes that a key was used, at most once a minute.
func TouchAPIKey(ctx context.Context, tx *Tx, id string) error {
	_, err := tx.pgx.Exec(ctx, `
UPDATE api_key SET last_used_at = @now WHERE tenant_id = @tenant AND id = @id AND (last_used_at IS NULL OR last_used_at < @minute)`,
		pgx.NamedArgs{"tenant": tx.Tenant, "id": id, "now": tx.Now, "minute": tx.Now.Add(-time.Minute)})
	if err != nil {
		return fmt.Errorf("note use of api key: %w", err)
	}
	return nil
}

// RevokeAPIKey ends a key for good.
func RevokeAPIKey(ctx context.Context, tx *Tx, id string) error {
	tag, err := tx.pgx.Exec(ctx, "UPDATE api_key SET revoked_at = $3 WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL", tx.Tenant, id, tx.Now)
	if err != nil {
		return fmt.Errorf("revoke api key: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such key")
	}
	return nil
}

// SigningKey is a key that signs agent tokens, its private half sealed.
type SigningKey struct {
	ID        string
	Public    []byte
	Sealed    []byte
	CreatedAt time.Time
	RetiresAt time.Time
	ExpiresAt time.Time
}

// signingLock is the advisory lock under which signing keys are rotated: any constant that nothing else here uses.
const signingLock = 7_041_776_002

// RotateSigningKeys runs next with all keys that are not expired, under a lock that all replicas share, keeps the key that next
// returns, drops expired keys, and returns what is there afterwards.
func (db *DB) RotateSigningKeys(ctx context.Context, next func(now time.Time, have []SigningKey) (*SigningKey, error)) (keys []SigningKey, err error) {
	err = db.Global(ctx, func(tx *Tx) error {
		if _, err := tx.pgx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(signingLock)); err != nil {
			return fmt.Errorf("lock signing keys: %w", err)
		}
		if _, err := tx.pgx.Exec(ctx, "DELETE FROM signing_key WHERE expires_at <= $1", tx.Now); err != nil {
			return fmt.Errorf("drop expired signing keys: %w", err)
		}
		if keys, err = LoadSigningKeys(ctx, tx); err != nil {
			return err
		}
		k, err := next(tx.Now, keys)
		if err != nil || k == nil {
			return err
		}
		keys = append(keys, *k)
		return AddSigningKey(ctx, tx, *k)
	})
	return keys, err
}

// LoadSigningKeys reads all keys; it needs no tenant.
func LoadSigningKeys(ctx context.Context, tx *Tx) ([]SigningKey, error) {
	rows, err := tx.pgx.Query(ctx, "SELECT kid, public_key, sealed_private, created_at, retires_at, expires_at FROM signing_key ORDER BY created_at, kid")
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k SigningKey, err error) {
		err = row.Scan(&k.ID, &k.Public, &k.Sealed, &k.CreatedAt, &k.RetiresAt, &k.ExpiresAt)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	return keys, nil
}

// AddSigningKey keeps a key; it needs no tenant.
func AddSigningKey(ctx context.Context, tx *Tx, k SigningKey) error {
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO signing_key (kid, public_key, sealed_private, created_at, retires_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		k.ID, k.Public, k.Sealed, k.CreatedAt, k.RetiresAt, k.ExpiresAt)
	if err != nil {
		return fmt.Errorf("add signing key: %w", err)
	}
	return nil
}
