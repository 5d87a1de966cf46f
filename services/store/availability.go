package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
)

// AvailabilityKept is how long evidence and what was learned from it are kept; by then it counts for nothing.
const AvailabilityKept = 90 * 24 * time.Hour

// maxAvailabilityRows bounds the state of one tenant: offerings and wider levels.
const maxAvailabilityRows = 50_000

// LockAvailability waits until nobody else learns for this tenant; the lock is held to the end of the transaction.
func LockAvailability(ctx context.Context, tx *Tx) error {
	if _, err := tx.pgx.Exec(ctx, `INSERT INTO availability_head (tenant_id, learned_at) VALUES ($1, $2) ON CONFLICT (tenant_id) DO NOTHING`, tx.Tenant, tx.Now); err != nil {
		return fmt.Errorf("lock availability: %w", err)
	}
	var at time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT learned_at FROM availability_head WHERE tenant_id = $1 FOR UPDATE`, tx.Tenant).Scan(&at); err != nil {
		return fmt.Errorf("lock availability: %w", err)
	}
	return nil
}

// LoadAvailability gives what the tenant has learned so far; an empty model when it is nothing.
func LoadAvailability(ctx context.Context, tx *Tx) (*availability.Model, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT key, state FROM availability_state WHERE tenant_id = $1 ORDER BY key LIMIT $2`, tx.Tenant, maxAvailabilityRows+1)
	if err != nil {
		return nil, fmt.Errorf("load availability: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[availability.Row])
	if err != nil {
		return nil, fmt.Errorf("load availability: %w", err)
	}
	if len(all) > maxAvailabilityRows {
		return nil, fleet.Errorf(fleet.CodeTooLarge, "the tenant has seen more than %d offerings", maxAvailabilityRows)
	}
	return availability.Restore(availability.DefaultParams(), all)
}

// SaveAvailability keeps what has changed. The caller holds the lock.
func SaveAvailability(ctx context.Context, tx *Tx, m *availability.Model) error {
	changes := m.Changes()
	batch := &pgx.Batch{}
	rows := make([][]any, 0, len(changes))
	for _, r := range changes {
		rows = append(rows, []any{tx.Tenant, r.Key, r.State, tx.Now})
	}
	queueRows(batch, `INSERT INTO availability_state (tenant_id, key, state, changed_at)`,
		`ON CONFLICT (tenant_id, key) DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at`, rows)
	batch.Queue(`UPDATE availability_head SET learned_at = $2 WHERE tenant_id = $1`, tx.Tenant, tx.Now)
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("save availability: %w", err)
	}
	return nil
}

// Sighting is one piece of evidence with where it came from.
type Sighting struct {
	Source string
	Event  availability.Event
}

// AddSightings keeps those that are new and returns them in the given order.
func AddSightings(ctx context.Context, tx *Tx, cluster fleet.ClusterID, all []Sighting) ([]Sighting, error) {
	var fresh []Sighting
	for len(all) > 0 {
		n := min(len(all), 1000)
		added, err := addSightings(ctx, tx, cluster, all[:n])
		if err != nil {
			return nil, fmt.Errorf("save sightings: %w", err)
		}
		for _, s := range all[:n] {
			if added[s.Source] {
				fresh = append(fresh, s)
				delete(added, s.Source)
			}
		}
		all = all[n:]
	}
	return fresh, nil
}

func addSightings(ctx context.Context, tx *Tx, cluster fleet.ClusterID, all []Sighting) (map[string]bool, error) {
	batch, added := &pgx.Batch{}, map[string]bool{}
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.Source] {
			continue
		}
		seen[s.Source] = true
		o := s.Event.Offering
		batch.Queue(`
INSERT INTO availability_event (tenant_id, source, cluster_id, at, cloud, region, zone, instance_type, purchase, kind, machines, of_machines)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (tenant_id, source) DO NOTHING`,
			tx.Tenant, s.Source, cluster, s.Event.At, o.Cloud, o.Region, o.Zone, o.InstanceType, o.Purchase, s.Event.Kind, s.Event.Machines, s.Event.Of).
			Exec(func(tag pgconn.CommandTag) error {
				if tag.RowsAffected() > 0 {
					added[s.Source] = true
				}
				return nil
			})
	}
	return added, tx.pgx.SendBatch(ctx, batch).Close()
}

// AvailabilityCursor says how far the cluster was read; zero: not at all.
func AvailabilityCursor(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (time.Time, error) {
	var at *time.Time
	err := tx.pgx.QueryRow(ctx, `SELECT max(read_to) FROM availability_cursor WHERE tenant_id = $1 AND cluster_id = $2`, tx.Tenant, cluster).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("load availability cursor: %w", err)
	}
	if at == nil {
		return time.Time{}, nil
	}
	return *at, nil
}

// MoveAvailabilityCursor notes how far the cluster was read; it never goes back.
func MoveAvailabilityCursor(ctx context.Context, tx *Tx, cluster fleet.ClusterID, to time.Time) error {
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO availability_cursor (tenant_id, cluster_id, read_to) VALUES ($1, $2, $3)
ON CONFLICT (tenant_id, cluster_id) DO UPDATE SET read_to = greatest(availability_cursor.read_to, excluded.read_to)`, tx.Tenant, cluster, to)
	if err != nil {
		return fmt.Errorf("move availability cursor: %w", err)
	}
	return nil
}

// PruneAvailability forgets evidence older than the moment (data time) and states that have not changed for as long (our clock).
func PruneAvailability(ctx context.Context, tx *Tx, before time.Time) error {
	if _, err := tx.pgx.Exec(ctx, `DELETE FROM availability_event WHERE tenant_id = $1 AND at < $2`, tx.Tenant, before); err != nil {
		return fmt.Errorf("prune availability: %w", err)
	}
	if _, err := tx.pgx.Exec(ctx, `DELETE FROM availability_state WHERE tenant_id = $1 AND changed_at < $2`, tx.Tenant, tx.Now.Add(-AvailabilityKept)); err != nil {
		return fmt.Errorf("prune availability: %w", err)
	}
	return nil
}

// AvailabilityCount is what was seen of an offering in one bucket of time.
type AvailabilityCount struct {
	At                                   time.Time // start of the bucket, data time
	Had, Exhausted, Notices, Lost, Ended int
}

// AvailabilityHistory counts the evidence about one offering in [from, to) by buckets of whole seconds; empty buckets are left out.
func AvailabilityHistory(ctx context.Context, tx *Tx, o fleet.Offering, from, to time.Time, step time.Duration) ([]AvailabilityCount, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT to_timestamp(floor(extract(epoch FROM at) / @step) * @step), count(*) FILTER (WHERE kind = 'had'), count(*) FILTER (WHERE kind = 'exhausted'),
  coalesce(sum(machines) FILTER (WHERE kind = 'notice'), 0), coalesce(sum(machines) FILTER (WHERE kind = 'lost'), 0), count(*) FILTER (WHERE kind = 'running')
FROM availability_event WHERE tenant_id = @tenant AND cloud = @cloud AND region = @region AND instance_type = @type AND zone = @zone AND purchase = @purchase
  AND at >= @from AND at < @to GROUP BY 1 ORDER BY 1`,
		pgx.NamedArgs{"tenant": tx.Tenant, "step": int64(step / time.Second), "cloud": o.Cloud, "region": o.Region, "type": o.InstanceType, "zone": o.Zone,
			"purchase": o.Purchase, "from": from, "to": to})
	if err != nil {
		return nil, fmt.Errorf("load availability history: %w", err)
	}
	counts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AvailabilityCount])
	if err != nil {
		return nil, fmt.Errorf("load availability history: %w", err)
	}
	return counts, nil
}
