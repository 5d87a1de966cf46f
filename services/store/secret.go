package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// SealedKind names a place where sealed values are kept.
type SealedKind string

// Places of sealed values. Signing keys belong to no tenant.
const (
	SealedSigningKey   SealedKind = "signing_key"
	SealedWebhook      SealedKind = "webhook"
	SealedWebhookOld   SealedKind = "webhook_old" // of a secret that is being exchanged
	SealedCloudAccount SealedKind = "cloud_account"
)

// sealedPlaces say how each kind is found and written again. $1 of find is the id of the key in force, the bytes after a value's first.
// save takes the row's id, the value before and the one after; a tenant's rows also take the tenant as $4, in find as $2.
var sealedPlaces = []struct {
	kind       SealedKind
	ofTenant   bool
	find, save string
	all        string
}{
	{SealedSigningKey, false,
		`SELECT kid, sealed_private FROM signing_key WHERE substring(sealed_private FROM 2 FOR 4) IS DISTINCT FROM $1::bytea ORDER BY kid`,
		`UPDATE signing_key SET sealed_private = $3 WHERE kid = $1 AND sealed_private = $2`,
		`SELECT count(*) FROM signing_key`},
	{SealedWebhook, true,
		`SELECT id::text, sealed_secret FROM webhook WHERE tenant_id = $2 AND substring(sealed_secret FROM 2 FOR 4) IS DISTINCT FROM $1::bytea ORDER BY id`,
		`UPDATE webhook SET sealed_secret = $3 WHERE tenant_id = $4 AND id = $1::uuid AND sealed_secret = $2`,
		`SELECT count(*) FROM webhook WHERE tenant_id = $1`},
	{SealedWebhookOld, true,
		`SELECT id::text, sealed_old FROM webhook WHERE tenant_id = $2 AND sealed_old IS NOT NULL AND substring(sealed_old FROM 2 FOR 4) IS DISTINCT FROM $1::bytea ORDER BY id`,
		`UPDATE webhook SET sealed_old = $3 WHERE tenant_id = $4 AND id = $1::uuid AND sealed_old = $2`,
		`SELECT count(*) FROM webhook WHERE tenant_id = $1 AND sealed_old IS NOT NULL`},
	{SealedCloudAccount, true,
		`SELECT id::text, sealed FROM cloud_account WHERE tenant_id = $2 AND substring(sealed FROM 2 FOR 4) IS DISTINCT FROM $1::bytea ORDER BY id`,
		`UPDATE cloud_account SET sealed = $3 WHERE tenant_id = $4 AND id = $1::uuid AND sealed = $2`,
		`SELECT count(*) FROM cloud_account WHERE tenant_id = $1`},
}

// SealedValue is a value at rest.
type SealedValue struct {
	Kind   SealedKind
	ID     string
	Sealed []byte
}

// StaleSecrets lists what another key than the one in force sealed, and counts all sealed values looked at: those of the transaction's
// tenant, or without one those of the service.
func StaleSecrets(ctx context.Context, tx *Tx, keyID []byte) (stale []SealedValue, all int, err error) {
	for _, place := range sealedPlaces {
		if place.ofTenant == (tx.Tenant == "") {
			continue
		}
		find, counted := []any{keyID}, []any{}
		if place.ofTenant {
			find, counted = append(find, tx.Tenant), append(counted, tx.Tenant)
		}
		rows, err := tx.pgx.Query(ctx, place.find, find...)
		if err != nil {
			return nil, 0, fmt.Errorf("list sealed values: %w", err)
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v SealedValue, err error) {
			v.Kind = place.kind
			return v, row.Scan(&v.ID, &v.Sealed)
		})
		if err != nil {
			return nil, 0, fmt.Errorf("list sealed values: %w", err)
		}
		stale = append(stale, found...)
		n := 0
		if err := tx.pgx.QueryRow(ctx, place.all, counted...).Scan(&n); err != nil {
			return nil, 0, fmt.Errorf("count sealed values: %w", err)
		}
		all += n
	}
	return stale, all, nil
}

// Reseal puts a value sealed anew in place of the one that was read. A row that changed or went meanwhile stays as it is: false.
func Reseal(ctx context.Context, tx *Tx, v SealedValue, sealed []byte) (bool, error) {
	for _, place := range sealedPlaces {
		if place.kind != v.Kind {
			continue
		}
		args := []any{v.ID, v.Sealed, sealed}
		if place.ofTenant {
			args = append(args, tx.Tenant)
		}
		tag, err := tx.pgx.Exec(ctx, place.save, args...)
		if err != nil {
			return false, fmt.Errorf("seal %s anew: %w", v.Kind, err)
		}
		return tag.RowsAffected() > 0, nil
	}
	return false, fleet.Errorf(fleet.CodeInternal, "no sealed values of kind %q", v.Kind)
}
