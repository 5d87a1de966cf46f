package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Every table with a tenant_id is isolated: forced row-level security, one policy that names the tenant for reading and for
// writing, tenant_id first in the primary key, and no right for anybody else than the service role.
func TestEveryTenantTableIsIsolated(t *testing.T) {
	t.Parallel()
	_, d := open(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `
SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,
  (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND pg_get_expr(p.polqual, c.oid) = '(tenant_id = app_tenant())'
     AND pg_get_expr(p.polwithcheck, c.oid) = '(tenant_id = app_tenant())'),
  (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid),
  (SELECT attname FROM pg_index i JOIN pg_attribute k ON k.attrelid = c.oid AND k.attnum = i.indkey[0] WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
  AND c.relname NOT IN ('tenant_directory', 'user_tenant') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for rows.Next() {
		var name, first string
		var forced bool
		var right, all int
		if err := rows.Scan(&name, &forced, &right, &all, &first); err != nil {
			t.Fatal(err)
		}
		tables++
		if !forced || right != 1 || all != 1 || first != "tenant_id" {
			t.Errorf("%s: forced=%v policies=%d of %d first key column=%s", name, forced, right, all, first)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if tables < 25 {
		t.Errorf("looked at %d tables only", tables)
	}
}

func TestATransactionWithoutTenantSeesNothing(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	tenants := []fleet.TenantID{"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"}
	for i, id := range tenants {
		err := db.Tenant(ctx, id, func(tx *store.Tx) error {
			_, err := tx.PGX().Exec(ctx, "INSERT INTO tenant (tenant_id, name, created_at) VALUES ($1, $2, $3)", string(id), fmt.Sprint(i), tx.Now)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func(run func(func(*store.Tx) error) error) (n int) {
		t.Helper()
		if err := run(func(tx *store.Tx) error { return tx.PGX().QueryRow(ctx, "SELECT count(*) FROM tenant").Scan(&n) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 20 { // over pooled connections: nothing leaks from one transaction into the next
		if n := count(func(f func(*store.Tx) error) error { return db.Tenant(ctx, tenants[0], f) }); n != 1 {
			t.Fatalf("tenant sees %d rows, want its own", n)
		}
		if n := count(func(f func(*store.Tx) error) error { return db.Global(ctx, f) }); n != 0 {
			t.Fatalf("global transaction sees %d tenant rows", n)
		}
	}
	err := db.Tenant(ctx, tenants[0], func(tx *store.Tx) error {
		_, err := tx.PGX().Exec(ctx, "INSERT INTO tenant (tenant_id, name, created_at) VALUES ($1, 'x', now())", "33333333-3333-4333-8333-333333333333")
		return err
	})
	if err == nil {
		t.Fatal("wrote a row of another tenant")
	}
}

func TestMigrationsGoDownAndUpAgain(t *testing.T) {
	t.Parallel()
	_, d := open(t)
	ctx := context.Background()
	m, err := store.NewMigrator(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	downs := 0
	for {
		name, err := m.Down(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if name == "" {
			break
		}
		downs++
	}
	if downs < 6 {
		t.Fatalf("only %d migrations went down", downs)
	}
	if err := m.Up(ctx); err != nil {
		t.Fatal(err)
	}
	states, err := m.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if !s.Applied {
			t.Errorf("%s is not applied", s.Name)
		}
	}
}
