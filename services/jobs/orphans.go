package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// orphans gives jobs back to the queue whose process died without finishing them. River by itself waits for an hour, and a job that
// is unique keeps its like out for as long. Every process holds an advisory lock under its name for as long as it lives; whoever
// gets the lock of another knows that it is dead.
type orphans struct {
	config *pgx.ConnConfig
	name   string // River's id of this client
	log    *slog.Logger
}

const (
	orphansEvery    = 10 * time.Second
	orphansDeadline = 10 * time.Second
)

const lockName = `hashtextextended('plimsoll jobs ' || $1, 0)`

// hold connects and takes the lock of this process.
func (o *orphans) hold(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, orphansDeadline)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, o.config)
	if err != nil {
		return nil, fmt.Errorf("connect to hold the workers' name: %w", err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(`+lockName+`)`, o.name); err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("hold the workers' name: %w", err)
	}
	return conn, nil
}

// run looks for orphans until ctx ends. A lost connection is replaced: meanwhile another process may run our jobs a second time,
// which they allow.
func (o *orphans) run(ctx context.Context, conn *pgx.Conn) {
	defer func() {
		if conn != nil {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = conn.Close(clean)
		}
	}()
	tick := time.NewTicker(orphansEvery)
	defer tick.Stop()
	for {
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = o.hold(ctx); err != nil {
				conn = nil
				o.log.WarnContext(ctx, "workers are without their name", "error", err)
			}
		}
		if conn != nil {
			if n, err := o.adopt(ctx, conn); err != nil && ctx.Err() == nil {
				o.log.WarnContext(ctx, "orphaned jobs were not looked for", "error", err)
				_ = conn.Close(context.WithoutCancel(ctx))
			} else if n > 0 {
				o.log.InfoContext(ctx, "jobs of a dead process run again", "jobs", n)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// adopt puts the running jobs of dead processes back into the queue, at once and without counting the attempt.
func (o *orphans) adopt(ctx context.Context, conn *pgx.Conn) (adopted int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, orphansDeadline)
	defer cancel()
	rows, err := conn.Query(ctx, `SELECT DISTINCT attempted_by[array_upper(attempted_by, 1)] FROM river_job WHERE state = 'running'
		AND attempted_by[array_upper(attempted_by, 1)] <> $1`, o.name)
	if err != nil {
		return 0, fmt.Errorf("list owners of jobs: %w", err)
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("list owners of jobs: %w", err)
	}
	for _, owner := range owners {
		var dead bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+lockName+`)`, owner).Scan(&dead); err != nil {
			return adopted, fmt.Errorf("ask after %s: %w", owner, err)
		}
		if !dead {
			continue
		}
		tag, err := conn.Exec(ctx, `
UPDATE river_job SET state = 'available', scheduled_at = now(), attempt = greatest(attempt - 1, 0)
WHERE state = 'running' AND attempted_by[array_upper(attempted_by, 1)] = $1`, owner)
		if err != nil {
			return adopted, fmt.Errorf("adopt jobs of %s: %w", owner, err)
		}
		adopted += tag.RowsAffected()
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_unlock(`+lockName+`)`, owner); err != nil {
			return adopted, fmt.Errorf("let go of %s: %w", owner, err)
		}
	}
	return adopted, nil
}
