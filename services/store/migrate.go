package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"plimsoll.dev/migrations"
)

// MigrationState is one migration as the database sees it.
type MigrationState struct {
	Name    string
	Applied bool
	At      time.Time
}

// Migrator applies the schema as its owner. Several may run at once: a session lock lets one work and the others wait.
type Migrator struct {
	pool  *pgxpool.Pool
	goose *goose.Provider
}

// NewMigrator connects as the owner of the schema.
func NewMigrator(ctx context.Context, ownerURL string) (*Migrator, error) {
	cfg, err := pgxpool.ParseConfig(ownerURL)
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", err)
	}
	// Citus: one shard at a time in schema changes, and SET LOCAL reaches the workers. Plain Postgres accepts both.
	cfg.ConnConfig.RuntimeParams["citus.multi_shard_modify_mode"] = "sequential"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect as schema owner: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("make migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, stdlib.OpenDBFromPool(pool), migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return &Migrator{pool: pool, goose: p}, nil
}

// Close releases the connections.
func (m *Migrator) Close() {
	_ = m.goose.Close()
	m.pool.Close()
}

// Up brings schema and job tables to the newest version and grants the service role what it needs of the job tables.
func (m *Migrator) Up(ctx context.Context) error {
	if _, err := m.goose.Up(ctx); err != nil {
		return fmt.Errorf("migrate up: %w", err)
	}
	// rivermigrate has no lock of its own; several starting replicas take turns.
	conn, err := m.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect as schema owner: %w", err)
	}
	defer conn.Release()
	const riverLock = 7_041_776_001 // any constant that nothing else here uses
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(riverLock)); err != nil {
		return fmt.Errorf("lock job tables: %w", err)
	}
	defer func() {
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(riverLock))
	}()
	river, err := rivermigrate.New(riverpgxv5.New(m.pool), nil)
	if err != nil {
		return fmt.Errorf("read job migrations: %w", err)
	}
	if _, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate job tables: %w", err)
	}
	_, err = conn.Exec(ctx, `
DO $$ DECLARE t record; BEGIN
  FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'river%' LOOP
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO plimsoll_service', t.tablename);
  END LOOP;
  FOR t IN SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema() AND sequencename LIKE 'river%' LOOP
    EXECUTE format('GRANT USAGE, SELECT ON SEQUENCE %I TO plimsoll_service', t.sequencename);
  END LOOP;
END $$`)
	if err != nil {
		return fmt.Errorf("grant job tables: %w", err)
	}
	return nil
}

// Down takes back the newest migration of the schema and returns its name, or "" when there is none left.
func (m *Migrator) Down(ctx context.Context) (string, error) {
	version, err := m.goose.GetDBVersion(ctx)
	if err != nil {
		return "", fmt.Errorf("read schema version: %w", err)
	}
	if version == 0 {
		return "", nil
	}
	r, err := m.goose.Down(ctx)
	if err != nil {
		return "", fmt.Errorf("migrate down: %w", err)
	}
	return r.Source.Path, nil
}

// Status lists all migrations in order.
func (m *Migrator) Status(ctx context.Context) ([]MigrationState, error) {
	all, err := m.goose.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read schema state: %w", err)
	}
	out := make([]MigrationState, 0, len(all))
	for _, s := range all {
		out = append(out, MigrationState{Name: s.Source.Path, Applied: s.State == goose.StateApplied, At: s.AppliedAt})
	}
	return out, nil
}

// MigrateUp is Up on a connection of its own.
func MigrateUp(ctx context.Context, ownerURL string) error {
	m, err := NewMigrator(ctx, ownerURL)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Up(ctx)
}
