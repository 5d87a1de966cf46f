package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// ResealArgs asks to seal anew what an old key sealed.
type ResealArgs struct{}

// Kind implements river.JobArgs.
func (ResealArgs) Kind() string { return "reseal_secrets" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (ResealArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// Resealer opens with every key that is known and seals with the one in force; auth.Sealer is one.
type Resealer interface {
	Opener
	KeyID() []byte
	Seal(purpose string, plain []byte) []byte
}

const resealEvery = time.Hour

// Reseal seals anew what another key than the one in force sealed, so that old keys can be forgotten. What no known key opens stays as
// it is, and is counted.
type Reseal struct {
	river.WorkerDefaults[ResealArgs]
	DB      *store.DB
	Secrets Resealer
	Log     *slog.Logger
}

// Timeout of one run over all tenants.
func (*Reseal) Timeout(*river.Job[ResealArgs]) time.Duration { return 10 * time.Minute }

// Work implements river.Worker.
func (w *Reseal) Work(ctx context.Context, _ *river.Job[ResealArgs]) error {
	if w.Secrets == nil { // this process opens nothing
		return nil
	}
	done, err := w.Run(ctx)
	if done.Resealed+done.Locked > 0 {
		w.Log.WarnContext(ctx, "sealed values of an old PLIMSOLL_SECRET_KEY", "sealed_anew", done.Resealed, "cannot_be_opened", done.Locked)
	}
	return err
}

// Resealed counts sealed values.
type Resealed struct {
	All      int
	Resealed int // an old key opened them; the key in force sealed them anew
	Locked   int // no known key opens them
}

// Run looks at the sealed values of the service and of all tenants. It may be stopped and started again at any moment.
func (w *Reseal) Run(ctx context.Context) (done Resealed, err error) {
	var tenants []fleet.TenantID
	err = w.DB.Global(ctx, func(tx *store.Tx) (err error) {
		if tenants, err = store.TenantIDs(ctx, tx); err != nil {
			return err
		}
		return w.reseal(ctx, tx, &done)
	})
	if err != nil {
		return done, fmt.Errorf("seal the service's keys anew: %w", err)
	}
	var failed []error
	for _, t := range tenants {
		one := Resealed{}
		if err := w.DB.Tenant(ctx, t, func(tx *store.Tx) error { return w.reseal(ctx, tx, &one) }); err != nil {
			failed = append(failed, fmt.Errorf("seal secrets of tenant %s anew: %w", t, err))
			continue
		}
		done = Resealed{done.All + one.All, done.Resealed + one.Resealed, done.Locked + one.Locked}
	}
	return done, errors.Join(failed...)
}

func (w *Reseal) reseal(ctx context.Context, tx *store.Tx, done *Resealed) error {
	stale, all, err := store.StaleSecrets(ctx, tx, w.Secrets.KeyID())
	if err != nil {
		return err
	}
	done.All += all
	for _, v := range stale {
		purpose, err := sealPurpose(tx.Tenant, v)
		if err != nil {
			return err
		}
		plain, err := w.Secrets.Open(purpose, v.Sealed)
		if err != nil { // it never says why, and quotes nothing
			done.Locked++
			continue
		}
		saved, err := store.Reseal(ctx, tx, v, w.Secrets.Seal(purpose, plain))
		if err != nil {
			return err
		}
		if saved {
			done.Resealed++
		}
	}
	return nil
}

// sealPurpose is what a value was sealed for: it opens for nothing else.
func sealPurpose(tenant fleet.TenantID, v store.SealedValue) (string, error) {
	switch v.Kind {
	case store.SealedSigningKey:
		return auth.SigningKeyPurpose(v.ID), nil
	case store.SealedWebhook, store.SealedWebhookOld:
		return notify.SecretPurpose(tenant, v.ID), nil
	case store.SealedCloudAccount:
		return cloud.AccessPurpose(tenant, v.ID), nil
	default:
		return "", fleet.Errorf(fleet.CodeInternal, "nobody knows what a %q is sealed for", v.Kind)
	}
}
