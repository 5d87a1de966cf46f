package jobs

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

func sealerOf(t *testing.T, keys ...byte) *auth.Sealer {
	t.Helper()
	var all [][]byte
	for _, k := range keys {
		all = append(all, bytes.Repeat([]byte{k}, auth.SealKeySize))
	}
	s, err := auth.NewSealer(all[0], all[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestARotatedKeySealsEverythingAnew(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	ctx := context.Background()
	old, lost := sealerOf(t, 1), sealerOf(t, 9)
	hook, account, orphan := uuid.NewString(), uuid.NewString(), uuid.NewString()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		for id, by := range map[string]*auth.Sealer{hook: old, orphan: lost} {
			if err := store.InsertWebhook(ctx, tx, store.Webhook{ID: id, Name: id, URL: "https://example.com", SealedSecret: by.Seal(notify.SecretPurpose(e.tenant, id), []byte("whisper"))}); err != nil {
				return err
			}
		}
		return store.InsertCloudAccount(ctx, tx, store.CloudAccount{ID: account, Cloud: fleet.CloudAWS, Name: "a", Regions: []string{"us-east-1"}, CreatedBy: "test"},
			old.Seal(cloud.AccessPurpose(e.tenant, account), []byte("{}")))
	})
	var kid string
	keys, err := e.db.RotateSigningKeys(ctx, func(now time.Time, _ []store.SigningKey) (*store.SigningKey, error) {
		kid = "k1"
		return &store.SigningKey{ID: kid, Public: []byte("public"), Sealed: old.Seal(auth.SigningKeyPurpose(kid), []byte("private")), CreatedAt: now, RetiresAt: now.Add(auth.KeySigns), ExpiresAt: now.Add(2 * auth.KeySigns)}, nil
	})
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}

	worker := &Reseal{DB: e.db, Secrets: sealerOf(t, 2, 1), Log: e.log} // the new key, the old one beside it
	for round, want := range []Resealed{{All: 4, Resealed: 3, Locked: 1}, {All: 4, Locked: 1}} {
		if got, err := worker.Run(ctx); err != nil || got != want {
			t.Fatalf("round %d: %+v, %v, want %+v", round+1, got, err, want)
		}
	}

	fresh := sealerOf(t, 2) // nothing of the old key is needed any more
	opens := func(what, purpose string, sealed []byte, want string) {
		t.Helper()
		if got, err := fresh.Open(purpose, sealed); err != nil || string(got) != want {
			t.Errorf("%s after the rotation: %q, %v", what, got, err)
		}
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		h, err := store.LoadWebhook(ctx, tx, hook)
		if err != nil {
			return err
		}
		opens("webhook", notify.SecretPurpose(e.tenant, hook), h.SealedSecret, "whisper")
		kept, err := store.LoadWebhook(ctx, tx, orphan)
		if err != nil {
			return err
		}
		if got, err := lost.Open(notify.SecretPurpose(e.tenant, orphan), kept.SealedSecret); err != nil || string(got) != "whisper" {
			t.Errorf("what no key opened was touched: %v", err)
		}
		_, sealed, err := store.LoadCloudAccount(ctx, tx, account)
		if err != nil {
			return err
		}
		opens("cloud account", cloud.AccessPurpose(e.tenant, account), sealed, "{}")
		all, err := store.LoadSigningKeys(ctx, tx)
		if err != nil {
			return err
		}
		opens("signing key", auth.SigningKeyPurpose(kid), all[0].Sealed, "private")
		return nil
	})
}

// Whoever adds a sealed column has to say how it is sealed anew.
func TestEverySealedColumnIsSealedAnew(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	known := map[string]bool{"signing_key.sealed_private": true, "webhook.sealed_secret": true, "webhook.sealed_old": true, "cloud_account.sealed": true}
	found := 0
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.PGX().Query(ctx, `SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name LIKE 'sealed%' AND data_type = 'bytea'`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			if found++; !known[name] {
				t.Errorf("%s is sealed, and jobs.Reseal does not know it: add it to store.sealedPlaces", name)
			}
		}
		return rows.Err()
	})
	if found < len(known) {
		t.Errorf("%d sealed columns were found, want at least %d", found, len(known))
	}
}
