package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// tenantTable is a table with a tenant_id.
type tenantTable struct {
	name    string
	columns []string
	types   []string
}

// tenantTables enumerates what is there, so that a table of tomorrow is tested too. The directory of tenants and of who belongs to
// which is global by design: sign-in reads it before a tenant is known.
func tenantTables(t *testing.T, owner *pgx.Conn) []tenantTable {
	t.Helper()
	rows, err := owner.Query(context.Background(), `
SELECT c.table_name, array_agg(c.column_name::text ORDER BY c.ordinal_position), array_agg(c.data_type::text ORDER BY c.ordinal_position)
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.is_identity = 'NO'
GROUP BY c.table_name HAVING bool_or(c.column_name = 'tenant_id') AND c.table_name NOT IN ('tenant_directory', 'user_tenant') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x tenantTable, err error) {
		return x, row.Scan(&x.name, &x.columns, &x.types)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) < 25 {
		t.Fatalf("found %d tenant tables only", len(tables))
	}
	return tables
}

// row makes an INSERT of one row of the tenant with any values.
func (x tenantTable) row(t *testing.T, tenant fleet.TenantID) string {
	t.Helper()
	values := make([]string, len(x.columns))
	for i, column := range x.columns {
		n := rand.IntN(1_000_000)
		switch kind := x.types[i]; {
		case column == "tenant_id":
			values[i] = "'" + string(tenant) + "'"
		case kind == "uuid":
			values[i] = "'" + uuid.NewString() + "'"
		case kind == "text":
			values[i] = fmt.Sprintf("'v%d'", n)
		case kind == "jsonb":
			values[i] = "'{}'"
		case kind == "bytea":
			values[i] = `'\x00'`
		case kind == "ARRAY":
			values[i] = "'{}'"
		case kind == "boolean":
			values[i] = "false"
		case strings.HasPrefix(kind, "timestamp"), kind == "date":
			values[i] = fmt.Sprintf("now() - interval '%d seconds'", n)
		default: // numbers
			values[i] = fmt.Sprint(n % 30_000)
		}
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", x.name, strings.Join(x.columns, ", "), strings.Join(values, ", "))
}

// withoutChecks takes foreign keys and checks away, so that any row goes in. Isolation does not rest on them.
func withoutChecks(t *testing.T, owner *pgx.Conn) {
	t.Helper()
	_, err := owner.Exec(context.Background(), `
DO $$ DECLARE c record; BEGIN
  FOR c IN SELECT conrelid::regclass AS t, conname FROM pg_constraint WHERE contype IN ('c', 'f') AND connamespace = 'public'::regnamespace AND conislocal LOOP
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I CASCADE', c.t, c.conname);
  END LOOP;
END $$`)
	if err != nil {
		t.Fatal(err)
	}
}

// Two tenants work at once over a shared pool that is smaller than what they ask for, in random order over every tenant table. Neither
// ever reads, changes or deletes a row of the other, or writes one in its name; without a tenant nothing is there.
func TestTwoTenantsOverOnePoolNeverMeet(t *testing.T) {
	t.Parallel()
	_, d := open(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	owner, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(ctx)
	withoutChecks(t, owner)
	tables := tenantTables(t, owner)
	tenants := []fleet.TenantID{fleet.TenantID(uuid.NewString()), fleet.TenantID(uuid.NewString())}
	for _, x := range tables {
		for _, tenant := range tenants {
			if _, err := owner.Exec(ctx, x.row(t, tenant)); err != nil {
				t.Fatalf("no row could be made for %s; teach the test how: %v", x.name, err)
			}
		}
	}
	print := func() map[string]string {
		out := map[string]string{}
		for _, x := range tables {
			var rows int
			var sum string
			err := owner.QueryRow(ctx, fmt.Sprintf("SELECT count(*), md5(string_agg(x::text, '|' ORDER BY x::text)) FROM %s x", x.name)).Scan(&rows, &sum)
			if err != nil {
				t.Fatal(err)
			}
			if rows != 2 {
				t.Errorf("%s has %d rows, want one of each tenant", x.name, rows)
			}
			out[x.name] = sum
		}
		return out
	}
	before := print()
	db, err := store.Open(ctx, d.ServiceURL, store.Options{MaxConns: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const workers, rounds = 8, 150
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(w)))
			for range rounds {
				x := tables[r.IntN(len(tables))]
				me, other := tenants[w%2], tenants[1-w%2]
				switch r.IntN(6) {
				case 0:
					stranger(ctx, t, db, x)
				default:
					intrude(ctx, t, db, x, me, other, r.IntN(4))
				}
			}
		})
	}
	wg.Wait()
	// Whatever chance left out.
	for _, x := range tables {
		stranger(ctx, t, db, x)
		for kind := range 4 {
			intrude(ctx, t, db, x, tenants[0], tenants[1], kind)
			intrude(ctx, t, db, x, tenants[1], tenants[0], kind)
		}
	}
	for name, sum := range print() {
		if sum != before[name] {
			t.Errorf("%s was changed", name)
		}
	}
}

// stranger looks without a tenant.
func stranger(ctx context.Context, t *testing.T, db *store.DB, x tenantTable) {
	t.Helper()
	var n int
	err := db.Global(ctx, func(tx *store.Tx) error {
		return tx.PGX().QueryRow(ctx, "SELECT count(*) FROM "+x.name).Scan(&n)
	})
	if err != nil || n != 0 {
		t.Errorf("without a tenant %s shows %d rows, %v", x.name, n, err)
	}
}

var errUndo = errors.New("undo")

// intrude lets me try to see or touch the other tenant's row; what me does to its own row is undone.
func intrude(ctx context.Context, t *testing.T, db *store.DB, x tenantTable, me, other fleet.TenantID, kind int) {
	t.Helper()
	err := db.Tenant(ctx, me, func(tx *store.Tx) error {
		var mine, all int
		err := tx.PGX().QueryRow(ctx, fmt.Sprintf("SELECT count(*) FILTER (WHERE tenant_id = $1), count(*) FROM %s", x.name), string(me)).Scan(&mine, &all)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if mine != 1 || all != 1 {
			t.Errorf("%s shows %d rows of which %d are one's own", x.name, all, mine)
		}
		switch kind {
		case 0:
			return touched(tx, t, x, "update of the other's", fmt.Sprintf("UPDATE %s SET %s = %s WHERE tenant_id = '%s'", x.name, x.columns[1], x.columns[1], other), 0)
		case 1:
			return touched(tx, t, x, "delete of the other's", fmt.Sprintf("DELETE FROM %s WHERE tenant_id = '%s'", x.name, other), 0)
		case 2:
			return touched(tx, t, x, "write in the other's name", x.row(t, other), -1)
		default:
			return touched(tx, t, x, "delete of all", "DELETE FROM "+x.name, 1)
		}
	})
	if err != nil && !errors.Is(err, errUndo) {
		t.Errorf("%s: %v", x.name, err)
	}
}

// touched runs a statement that may affect at most the given rows, or must be refused; then the transaction is undone.
func touched(tx *store.Tx, t *testing.T, x tenantTable, what, sql string, most int64) error {
	t.Helper()
	tag, err := tx.PGX().Exec(context.Background(), sql)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "42501": // insufficient privilege: refused by grant or policy
	case err != nil:
		t.Errorf("%s in %s: %v", what, x.name, err)
	case tag.RowsAffected() > most:
		t.Errorf("%s in %s affected %d rows", what, x.name, tag.RowsAffected())
	}
	return errUndo
}

// Random histories of two tenants through the store's own functions, at once: what each sees afterwards is exactly what it did.
func TestHistoriesOfTwoTenantsAreIndependent(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		type history struct {
			tenant fleet.TenantID
			ops    []int
			want   int // clusters
			lines  int64
		}
		var sides [2]*history
		for i := range sides {
			tenant, _, err := db.CreateTenant(ctx, store.NewTenant{Name: "tenant", Owner: store.NewUser{Email: uuid.NewString() + "@a.test"}})
			if err != nil {
				rt.Fatal(err)
			}
			sides[i] = &history{tenant: tenant.ID, lines: 1, ops: rapid.SliceOfN(rapid.IntRange(0, 4), 0, 12).Draw(rt, fmt.Sprint("ops", i))}
		}
		var wg sync.WaitGroup
		errs := make(chan error, 64)
		for _, h := range sides {
			wg.Go(func() {
				for n, op := range h.ops {
					err := db.Tenant(ctx, h.tenant, func(tx *store.Tx) error {
						switch op {
						case 0, 1: // the same names on both sides
							if _, err := store.CreateCluster(ctx, tx, fmt.Sprint("c", n), fleet.ModeObserve); err != nil {
								return err
							}
							if op == 1 {
								return errUndo
							}
							h.want++
							return nil
						case 2:
							h.lines++
							return store.Audit(ctx, tx, "system", "test", "test:1", nil)
						case 3:
							members, err := store.Members(ctx, tx)
							if err == nil && len(members) != 1 {
								return fmt.Errorf("sees %d members", len(members))
							}
							return err
						default:
							list, err := store.Clusters(ctx, tx, "", 100)
							if err == nil && len(list) != h.want {
								return fmt.Errorf("sees %d clusters, made %d", len(list), h.want)
							}
							return err
						}
					})
					if err != nil && !errors.Is(err, errUndo) {
						errs <- err
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			rt.Error(err)
		}
		for _, h := range sides {
			err := db.Tenant(ctx, h.tenant, func(tx *store.Tx) error {
				list, err := store.Clusters(ctx, tx, "", 100)
				if err != nil {
					return err
				}
				check, err := store.VerifyAudit(ctx, tx)
				if len(list) != h.want || check.Entries != h.lines || check.BrokenAt != 0 {
					rt.Errorf("%d clusters of %d, audit %+v of %d", len(list), h.want, check, h.lines)
				}
				return err
			})
			if err != nil {
				rt.Error(err)
			}
		}
	})
}
