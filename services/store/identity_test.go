package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

func newTenant(t *testing.T, db *store.DB, email string) (store.Tenant, store.User) {
	t.Helper()
	tenant, owner, err := db.CreateTenant(context.Background(), store.NewTenant{Name: "Harbour", Owner: store.NewUser{Email: email, PasswordHash: "hash of " + email}})
	if err != nil {
		t.Fatal(err)
	}
	return tenant, owner
}

func codeOf(err error) fleet.Code {
	var coded *fleet.Error
	if errors.As(err, &coded) {
		return coded.Code
	}
	return ""
}

func TestTenantIsMadeWithItsOwner(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	first, owner := newTenant(t, db, " Owner@Harbour.test")
	if owner.Email != "owner@harbour.test" || owner.DisplayName != "owner@harbour.test" {
		t.Errorf("owner %+v", owner)
	}
	second, same, err := db.CreateTenant(ctx, store.NewTenant{Name: "Quay", Currency: "EUR", TimeZone: "Europe/Berlin", Owner: store.NewUser{Email: "owner@harbour.test", PasswordHash: "another"}})
	if err != nil || same.ID != owner.ID || same.PasswordHash != owner.PasswordHash {
		t.Errorf("an account of before got a new password or id: %+v, %v", same, err)
	}
	err = db.Global(ctx, func(tx *store.Tx) error {
		ids, err := store.TenantsOf(ctx, tx, owner.ID)
		if err == nil && (len(ids) != 2 || ids[0] != first.ID || ids[1] != second.ID) {
			t.Errorf("tenants of the owner: %v", ids)
		}
		all, err2 := store.TenantIDs(ctx, tx)
		if len(all) != 2 {
			t.Errorf("all tenants: %v", all)
		}
		return errors.Join(err, err2)
	})
	if err != nil {
		t.Error(err)
	}
	err = db.Tenant(ctx, second.ID, func(tx *store.Tx) error {
		got, err := store.LoadTenant(ctx, tx)
		if got.Currency != "EUR" || got.TimeZone != "Europe/Berlin" || got.Name != "Quay" {
			t.Errorf("loaded %+v", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for name, n := range map[string]store.NewTenant{
		"no name":          {Owner: store.NewUser{Email: "a@b.test"}},
		"no such zone":     {Name: "x", TimeZone: "Mars/Olympus", Owner: store.NewUser{Email: "a@b.test"}},
		"no such currency": {Name: "x", Currency: "EURO", Owner: store.NewUser{Email: "a@b.test"}},
		"no owner":         {Name: "x"},
		"no address":       {Name: "x", Owner: store.NewUser{Email: "nobody"}},
	} {
		if _, _, err := db.CreateTenant(ctx, n); codeOf(err) != fleet.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	_ = db.Global(ctx, func(tx *store.Tx) error {
		if all, err := store.TenantIDs(ctx, tx); len(all) != 2 || err != nil {
			t.Errorf("a refused tenant was half made: %v, %v", all, err)
		}
		return nil
	})
}

func TestTwoOwnersCannotBothStepDownAtOnce(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	tenant, first := newTenant(t, db, "first@harbour.test")
	var second store.User
	err := db.Tenant(ctx, tenant.ID, func(tx *store.Tx) (err error) {
		second, err = store.AddMember(ctx, tx, store.NewUser{Email: "second@harbour.test"}, "owner")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	results := make([]error, 2)
	var wg sync.WaitGroup
	for i, u := range []store.User{first, second} {
		wg.Go(func() {
			results[i] = db.Tenant(ctx, tenant.ID, func(tx *store.Tx) error { return store.SetRole(ctx, tx, u.ID, "viewer") })
		})
	}
	wg.Wait()
	if (results[0] == nil) == (results[1] == nil) {
		t.Errorf("stepping down: %v and %v", results[0], results[1])
	}
}

func TestAuditLinesOfManyWritersMakeOneChain(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	tenant, _ := newTenant(t, db, "owner@harbour.test")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 10 {
				err := db.Tenant(ctx, tenant.ID, func(tx *store.Tx) error {
					detail := map[string]string{"b": fmt.Sprint(i), "a": "\x00\xff ünïcode \"quotes\" \\", "": "</script>", "é": strings.Repeat("x", 1000)}
					if err := store.Audit(ctx, tx, fmt.Sprint("user:", w), "test", "test:1", detail); err != nil {
						return err
					}
					if i%3 == 2 {
						return errUndo // leaves no hole
					}
					return nil
				})
				if err != nil && !errors.Is(err, errUndo) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	err := db.Tenant(ctx, tenant.ID, func(tx *store.Tx) error {
		check, err := store.VerifyAudit(ctx, tx)
		if check.BrokenAt != 0 || check.Entries != 1+8*7 {
			t.Errorf("chain %+v", check)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestServiceCannotRewriteTheAuditLog(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	tenant, _ := newTenant(t, db, "owner@harbour.test")
	for _, sql := range []string{"UPDATE audit_log SET actor = 'x'", "DELETE FROM audit_log", "TRUNCATE audit_log"} {
		err := db.Tenant(ctx, tenant.ID, func(tx *store.Tx) error {
			_, err := tx.PGX().Exec(ctx, sql)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestReplicasShareSigningKeys(t *testing.T) {
	t.Parallel()
	db, d := open(t)
	other, err := store.Open(context.Background(), d.ServiceURL, store.Options{MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ctx := context.Background()
	made := func(now time.Time, have []store.SigningKey) (*store.SigningKey, error) {
		if len(have) > 0 {
			return nil, nil
		}
		return &store.SigningKey{ID: fmt.Sprint(now.UnixNano()), Public: []byte{1}, Sealed: []byte{2}, CreatedAt: now, RetiresAt: now.Add(time.Hour), ExpiresAt: now.Add(2 * time.Hour)}, nil
	}
	var mu sync.Mutex
	seen := map[string]bool{} // guarded by mu
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			keys, err := []*store.DB{db, other}[i%2].RotateSigningKeys(ctx, made)
			if err != nil || len(keys) != 1 {
				t.Errorf("replica %d has %d keys, %v", i, len(keys), err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[keys[0].ID] = true
		})
	}
	wg.Wait()
	if len(seen) != 1 {
		t.Errorf("%d keys were made", len(seen))
	}
	owner, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(ctx)
	if _, err := owner.Exec(ctx, "UPDATE signing_key SET created_at = now() - interval '3 h', retires_at = now() - interval '2 h', expires_at = now() - interval '1 h'"); err != nil {
		t.Fatal(err)
	}
	keys, err := db.RotateSigningKeys(ctx, made)
	if err != nil || len(keys) != 1 || seen[keys[0].ID] {
		t.Errorf("after the expiry: %d keys, %v", len(keys), err)
	}
}

func TestSessionsAreKeptHashedAndCleared(t *testing.T) {
	t.Parallel()
	db, d := open(t)
	ctx := context.Background()
	s := db.Sessions()
	now := time.Now()
	for token, expires := range map[string]time.Time{"live": now.Add(time.Hour), "dead": now.Add(-time.Second)} {
		if err := s.CommitCtx(ctx, token, []byte(token), expires); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit("live", []byte("changed"), now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if data, found, err := s.Find("live"); err != nil || !found || string(data) != "changed" {
		t.Errorf("live: %q %v %v", data, found, err)
	}
	for _, token := range []string{"dead", "unknown", "", "\x00"} {
		if _, found, err := s.FindCtx(ctx, token); found || err != nil {
			t.Errorf("%q: %v %v", token, found, err)
		}
	}
	owner, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(ctx)
	var rows, plain int
	if err := owner.QueryRow(ctx, "SELECT count(*), count(*) FILTER (WHERE token IN ('live', 'dead')) FROM web_session").Scan(&rows, &plain); err != nil {
		t.Fatal(err)
	}
	if rows != 1 || plain != 0 {
		t.Errorf("%d rows, %d of them plain", rows, plain)
	}
	if err := s.Delete("live"); err != nil {
		t.Error(err)
	}
	if _, found, _ := s.FindCtx(ctx, "live"); found {
		t.Error("an ended session is found")
	}
	if err := s.Delete("live"); err != nil {
		t.Errorf("ending twice: %v", err)
	}
}

func TestKeysOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	db, d := open(t)
	ctx := context.Background()
	tenant, _ := newTenant(t, db, "owner@harbour.test")
	owner, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(ctx)
	_, err = owner.Exec(ctx, `INSERT INTO api_key (tenant_id, id, name, secret_hash, hint, role, created_at)
		SELECT $1, gen_random_uuid(), 'k', '\x00', 'abcd', 'viewer', now() FROM generate_series(1, $2)`, string(tenant.ID), store.MaxAPIKeys)
	if err != nil {
		t.Fatal(err)
	}
	create := func() error {
		return db.Tenant(ctx, tenant.ID, func(tx *store.Tx) error {
			return store.CreateAPIKey(ctx, tx, store.APIKey{ID: "11111111-1111-4111-8111-111111111111", Name: "one too many", Hash: []byte{1}, Hint: "abcd", Role: "viewer"})
		})
	}
	if err := create(); codeOf(err) != fleet.CodeConflict {
		t.Errorf("one too many: %v", err)
	}
	if _, err := owner.Exec(ctx, "UPDATE api_key SET revoked_at = now() WHERE id = (SELECT id FROM api_key LIMIT 1)"); err != nil {
		t.Fatal(err)
	}
	if err := create(); err != nil {
		t.Errorf("after one was revoked: %v", err)
	}
}
