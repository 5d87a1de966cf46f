package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// EnrolmentToken lets one agent into a cluster, without its secret.
type EnrolmentToken struct {
	ID        string
	Cluster   fleet.ClusterID
	Hash      []byte // SHA-256 of the secret
	ExpiresAt time.Time
}

// maxOpenTokens is how many enrolment tokens of a cluster may wait to be used at once.
const maxOpenTokens = 20

// CreateEnrolmentToken keeps a new token.
func CreateEnrolmentToken(ctx context.Context, tx *Tx, t EnrolmentToken) error {
	var open int
	err := tx.pgx.QueryRow(ctx, `
SELECT count(*) FROM enrolment_token WHERE tenant_id = $1 AND cluster_id = $2 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $3`,
		tx.Tenant, t.Cluster, tx.Now).Scan(&open)
	if err != nil {
		return fmt.Errorf("count enrolment tokens: %w", err)
	}
	if open >= maxOpenTokens {
		return fleet.Errorf(fleet.CodeConflict, "%d enrolment tokens of this cluster wait to be used; use one of them", open)
	}
	_, err = tx.pgx.Exec(ctx, `
INSERT INTO enrolment_token (tenant_id, id, cluster_id, secret_hash, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		tx.Tenant, t.ID, t.Cluster, t.Hash, tx.Now, t.ExpiresAt)
	if err != nil {
		return fmt.Errorf("create enrolment token: %w", err)
	}
	return nil
}

// MaxInstallID bounds the install id of an agent in bytes.
const MaxInstallID = 128

// RedeemEnrolment exchanges a token for the cluster that it leads into; matches compares the presented secret with the kept hash (see
// auth.Presented). The first use must come before the token expires and binds it to the install id. The same install may ask again
// at any time, since an answer may get lost and an agent may be away longer than its credential lives; any other install is refused.
// All refusals are unauthorized.
func RedeemEnrolment(ctx context.Context, tx *Tx, id string, matches func(hash []byte) bool, installID string) (fleet.ClusterID, error) {
	if installID == "" || len(installID) > MaxInstallID || installID != plainText(installID) {
		return "", fleet.Errorf(fleet.CodeInvalid, "install_id has 1 to %d bytes of text", MaxInstallID)
	}
	var (
		t       = EnrolmentToken{ID: id}
		used    *string
		revoked bool
	)
	rows, err := tx.pgx.Query(ctx, `
SELECT cluster_id::text, secret_hash, expires_at, install_id, revoked_at IS NOT NULL
FROM enrolment_token WHERE tenant_id = $1 AND id = $2 FOR UPDATE`, tx.Tenant, id)
	if err != nil {
		return "", fmt.Errorf("load enrolment token: %w", err)
	}
	found, err := pgx.ForEachRow(rows, []any{&t.Cluster, &t.Hash, &t.ExpiresAt, &used, &revoked}, func() error { return nil })
	if err != nil {
		return "", fmt.Errorf("load enrolment token: %w", err)
	}
	switch {
	case found.RowsAffected() != 1 || !matches(t.Hash):
		return "", fleet.Errorf(fleet.CodeUnauthorized, "the enrolment token is not valid")
	case revoked:
		return "", fleet.Errorf(fleet.CodeUnauthorized, "the enrolment token was revoked")
	case used != nil && *used == installID:
		return t.Cluster, nil
	case used != nil:
		return "", fleet.Errorf(fleet.CodeUnauthorized, "the enrolment token was used by another installation; make a new one")
	case !tx.Now.Before(t.ExpiresAt):
		return "", fleet.Errorf(fleet.CodeUnauthorized, "the enrolment token expired; make a new one")
	}
	_, err = tx.pgx.Exec(ctx, "UPDATE enrolment_token SET used_at = $3, install_id = $4 WHERE tenant_id = $1 AND id = $2", tx.Tenant, id, tx.Now, installID)
	if err != nil {
		return "", fmt.Errorf("use enrolment token: %w", err)
	}
	err = Audit(ctx, tx, "agent:"+string(t.Cluster), "agent.enrol", "cluster:"+string(t.Cluster), map[string]string{"token": id, "install_id": installID})
	return t.Cluster, err
}

// RevokeEnrolment ends all tokens of a cluster, used ones too: its agent keeps its credential until that expires, and can then only
// come back with a new token.
func RevokeEnrolment(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (int64, error) {
	tag, err := tx.pgx.Exec(ctx, "UPDATE enrolment_token SET revoked_at = $3 WHERE tenant_id = $1 AND cluster_id = $2 AND revoked_at IS NULL",
		tx.Tenant, cluster, tx.Now)
	if err != nil {
		return 0, fmt.Errorf("revoke enrolment tokens: %w", err)
	}
	return tag.RowsAffected(), nil
}
