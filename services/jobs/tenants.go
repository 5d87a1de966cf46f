package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// eachTenant runs one transaction per tenant. One tenant's trouble does not keep the others from their turn.
func eachTenant(ctx context.Context, db *store.DB, fn func(*store.Tx) error) error {
	var tenants []fleet.TenantID
	err := db.Global(ctx, func(tx *store.Tx) (err error) {
		tenants, err = store.TenantIDs(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("list tenants: %w", err)
	}
	var failed []error
	for _, t := range tenants {
		if err := db.Tenant(ctx, t, fn); err != nil {
			failed = append(failed, fmt.Errorf("tenant %s: %w", t, err))
		}
	}
	return errors.Join(failed...)
}

// enqueueDue asks for a job for everything that is due, tenant by tenant.
func enqueueDue[ID any](ctx context.Context, db *store.DB, due func(context.Context, *store.Tx) ([]ID, error), job func(fleet.TenantID, ID) river.JobArgs) error {
	client := river.ClientFromContext[pgx.Tx](ctx)
	return eachTenant(ctx, db, func(tx *store.Tx) error {
		ids, err := due(ctx, tx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			args := job(tx.Tenant, id)
			if _, err := client.InsertTx(ctx, tx.PGX(), args, nil); err != nil {
				return fmt.Errorf("enqueue %s: %w", args.Kind(), err)
			}
		}
		return nil
	})
}
