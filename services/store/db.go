// Package store keeps everything in one Postgres: one file per noun, all access inside a Tx that named its tenant, isolation by
// row-level security under a role that owns nothing. It may not decide, price or send anything.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"plimsoll.dev/services/fleet"
)

// DB is a pool of connections of the service role. Safe for concurrent use.
type DB struct {
	pool     *pgxpool.Pool
	policies policyCache
}

// Options for Open.
type Options struct {
	MaxConns int32 // default 20
}

// Open connects with the service role's URL and refuses a role that could bypass row-level security.
func Open(ctx context.Context, url string, opt Options) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", err)
	}
	cfg.MaxConns = 20
	if opt.MaxConns > 0 {
		cfg.MaxConns = opt.MaxConns
	}
	cfg.ConnConfig.RuntimeParams["citus.propagate_set_commands"] = "local"
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		// Times are UTC wherever the process runs; pgx gives local ones by default.
		conn.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	var bypass bool
	err = pool.QueryRow(ctx, "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user").Scan(&bypass)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	if bypass {
		pool.Close()
		return nil, errors.New("the service must not connect as a role that bypasses row-level security; give it a role in plimsoll_service")
	}
	return &DB{pool: pool}, nil
}

// Close waits for open transactions and closes all connections.
func (db *DB) Close() { db.pool.Close() }

// Pool is for River and LISTEN, which need a pool of their own kind. Nothing else may use it: it names no tenant.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Ping says whether the database answers.
func (db *DB) Ping(ctx context.Context) error { return db.pool.Ping(ctx) }

// Tx is one transaction of one tenant at one time. Tenant is empty in a global Tx, which sees global tables only.
type Tx struct {
	// Now is the one time of this transaction, UTC, microsecond precision as Postgres keeps it.
	Now    time.Time
	Tenant fleet.TenantID
	pgx    pgx.Tx
	// policies of the DB, for what is parsed on the way.
	policies *policyCache
}

// PGX gives the transaction to River's InsertTx and JobCompleteTx. Queries belong into this package.
func (tx *Tx) PGX() pgx.Tx { return tx.pgx }

// Tenant runs fn in a transaction that can see and write this tenant's rows only. The transaction commits when fn returns nil.
func (db *DB) Tenant(ctx context.Context, tenant fleet.TenantID, fn func(*Tx) error) error {
	id, err := uuid.Parse(string(tenant)) // parsed, so that it can be written into SET LOCAL, which takes no parameters
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "tenant id is not a UUID")
	}
	return db.begin(ctx, "BEGIN; SET LOCAL app.tenant_id = '"+id.String()+"'", fleet.TenantID(id.String()), fn)
}

// Global runs fn in a transaction without a tenant: only global tables have rows.
func (db *DB) Global(ctx context.Context, fn func(*Tx) error) error {
	return db.begin(ctx, "BEGIN", "", fn)
}

func (db *DB) begin(ctx context.Context, query string, tenant fleet.TenantID, fn func(*Tx) error) (err error) {
	pgxTx, err := db.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: query})
	if err != nil {
		return fmt.Errorf("begin: %w", unavailable(err))
	}
	defer func() {
		if err != nil {
			// The caller's context may be over; the connection still has to be given back clean.
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = pgxTx.Rollback(clean)
		}
	}()
	tx := &Tx{Now: time.Now().UTC().Truncate(time.Microsecond), Tenant: tenant, pgx: pgxTx, policies: &db.policies}
	if err = fn(tx); err != nil {
		return unavailable(err)
	}
	if err = pgxTx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", unavailable(err))
	}
	return nil
}

// unavailable gives errors that mean "the database is away", or "this transaction lost against others", the code of it, so that
// clients try again instead of giving up.
func unavailable(err error) error {
	var coded *fleet.Error
	if errors.As(err, &coded) {
		return err
	}
	var pg *pgconn.PgError
	away := errors.As(err, &pg) && (pg.Code[:2] == "57" || pg.Code[:2] == "53" || pg.Code[:2] == "08" || pg.Code[:2] == "40")
	var connect *pgconn.ConnectError
	if away || errors.As(err, &connect) || pgconn.SafeToRetry(err) {
		return &fleet.Error{Code: fleet.CodeUnavailable, Message: "the database is not available at this moment; try again", Err: err}
	}
	return err
}

// violates says whether err is a violation of the named constraint.
func violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == constraint
}

// notFound turns "no rows" into an error for people; other errors pass through wrapped.
func notFound(err error, what string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.CodeNotFound, "no such %s", what)
	}
	return fmt.Errorf("load %s: %w", what, err)
}
