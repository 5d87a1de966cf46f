package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Sessions keeps the sessions of the dashboard. It fits scs.CtxStore. Tokens are hashed, so that a stolen table signs nobody in.
type Sessions struct{ db *DB }

// Sessions returns the session store.
func (db *DB) Sessions() Sessions { return Sessions{db} }

func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// FindCtx returns the data of a session that is not over.
func (s Sessions) FindCtx(ctx context.Context, token string) (data []byte, found bool, err error) {
	err = s.db.Global(ctx, func(tx *Tx) error {
		return tx.pgx.QueryRow(ctx, "SELECT data FROM web_session WHERE token = $1 AND expires_at > $2", tokenHash(token), tx.Now).Scan(&data)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("find session: %w", err)
	}
	return data, true, nil
}

// CommitCtx keeps a session, and clears away some that are over.
func (s Sessions) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	return s.db.Global(ctx, func(tx *Tx) error {
		_, err := tx.pgx.Exec(ctx, `
INSERT INTO web_session (token, data, expires_at) VALUES ($1, $2, $3)
ON CONFLICT (token) DO UPDATE SET data = excluded.data, expires_at = excluded.expires_at`, tokenHash(token), data, expiry)
		if err != nil {
			return fmt.Errorf("keep session: %w", err)
		}
		_, err = tx.pgx.Exec(ctx, `
DELETE FROM web_session WHERE token IN (SELECT token FROM web_session WHERE expires_at <= $1 ORDER BY expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)`, tx.Now)
		if err != nil {
			return fmt.Errorf("clear sessions: %w", err)
		}
		return nil
	})
}

// DeleteCtx ends a session; one that is not there is no error.
func (s Sessions) DeleteCtx(ctx context.Context, token string) error {
	return s.db.Global(ctx, func(tx *Tx) error {
		if _, err := tx.pgx.Exec(ctx, "DELETE FROM web_session WHERE token = $1", tokenHash(token)); err != nil {
			return fmt.Errorf("end session: %w", err)
		}
		return nil
	})
}

// sessionBound limits the calls of scs that come without a context.
const sessionBound = 5 * time.Second

// Find is FindCtx for callers without a context.
func (s Sessions) Find(token string) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sessionBound)
	defer cancel()
	return s.FindCtx(ctx, token)
}

// Commit is CommitCtx for callers without a context.
func (s Sessions) Commit(token string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), sessionBound)
	defer cancel()
	return s.CommitCtx(ctx, token, data, expiry)
}

// Delete is DeleteCtx for callers without a context.
func (s Sessions) Delete(token string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sessionBound)
	defer cancel()
	return s.DeleteCtx(ctx, token)
}
