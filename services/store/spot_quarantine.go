package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// QuarantinedPrice is a price that the guard did not believe.
type QuarantinedPrice struct {
	ID        int64
	Pool      market.SpotPool
	At        time.Time
	Spot      string // as the source wrote it; empty: none listed
	OnDemand  string
	Expected  *fleet.Money // what it was held against
	Reason    market.SuspectReason
	Source    string
	FoundAt   time.Time
	State     string // open, accepted, dismissed
	DecidedAt *time.Time
}

const quarantineColumns = `id, cloud, region, zone, instance_type, product, at, spot, on_demand, expected_nano, reason, source, found_at, state, decided_at`

func scanQuarantined(row pgx.CollectableRow) (q QuarantinedPrice, err error) {
	return q, row.Scan(&q.ID, &q.Pool.Cloud, &q.Pool.Region, &q.Pool.Zone, &q.Pool.InstanceType, &q.Pool.Product, &q.At, &q.Spot, &q.OnDemand,
		&q.Expected, &q.Reason, &q.Source, &q.FoundAt, &q.State, &q.DecidedAt)
}

// QuarantinedPrices lists open ones, newest first.
func QuarantinedPrices(ctx context.Context, tx *Tx, limit int) ([]QuarantinedPrice, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+quarantineColumns+` FROM spot_quarantine WHERE state = 'open' ORDER BY found_at DESC, id DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("load quarantined prices: %w", err)
	}
	out, err := pgx.CollectRows(rows, scanQuarantined)
	if err != nil {
		return nil, fmt.Errorf("load quarantined prices: %w", err)
	}
	return out, nil
}

// QuarantineCounts counts the open ones by reason.
func QuarantineCounts(ctx context.Context, tx *Tx) (map[market.SuspectReason]int, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT reason, count(*) FROM spot_quarantine WHERE state = 'open' GROUP BY reason`)
	if err != nil {
		return nil, fmt.Errorf("count quarantined prices: %w", err)
	}
	out := map[market.SuspectReason]int{}
	var reason market.SuspectReason
	var n int
	_, err = pgx.ForEachRow(rows, []any{&reason, &n}, func() error { out[reason] = n; return nil })
	if err != nil {
		return nil, fmt.Errorf("count quarantined prices: %w", err)
	}
	return out, nil
}

// QuarantinedInUse lists the open ones, found since a moment, that price what the tenant runs on Spot now, newest first.
func QuarantinedInUse(ctx context.Context, tx *Tx, since time.Time, limit int) ([]QuarantinedPrice, error) {
	// The tenant's machines first, then a join with the reference table.
	rows, err := tx.pgx.Query(ctx, `
WITH running AS MATERIALIZED (
  SELECT n.*, `+zoneIDOf("n")+` AS zone_id FROM (SELECT DISTINCT cloud, region, zone, instance_type FROM node WHERE tenant_id = $1 AND purchase = 'spot' AND ended_at IS NULL) n)
SELECT `+quarantineColumns+` FROM spot_quarantine q WHERE state = 'open' AND found_at >= $2 AND product = $3 AND EXISTS (
  SELECT FROM running r WHERE r.cloud = q.cloud AND r.region = q.region AND r.instance_type = q.instance_type AND (q.zone = '' OR q.zone IN (r.zone, r.zone_id)))
ORDER BY found_at DESC, id DESC LIMIT $4`, tx.Tenant, since, market.ProductLinux, limit)
	if err != nil {
		return nil, fmt.Errorf("load quarantined prices: %w", err)
	}
	out, err := pgx.CollectRows(rows, scanQuarantined)
	if err != nil {
		return nil, fmt.Errorf("load quarantined prices: %w", err)
	}
	return out, nil
}

// DecideQuarantined ends an open quarantine. Accepting puts the price into the history, and the history before it judges later
// prices no more. What can be no price, and what contradicts a price of the same second, can only be dismissed.
func DecideQuarantined(ctx context.Context, tx *Tx, id int64, accept bool) error {
	rows, err := tx.pgx.Query(ctx, `SELECT `+quarantineColumns+` FROM spot_quarantine WHERE id = $1 FOR UPDATE`, id)
	if err != nil {
		return fmt.Errorf("load quarantined price: %w", err)
	}
	q, err := pgx.CollectExactlyOneRow(rows, scanQuarantined)
	if err != nil {
		return notFound(err, "quarantined price")
	}
	if q.State != "open" {
		return fleet.Errorf(fleet.CodeConflict, "this price is %s already", q.State)
	}
	state := "dismissed"
	if accept {
		state = "accepted"
		if err := acceptQuarantined(ctx, tx, q); err != nil {
			return err
		}
	}
	if _, err := tx.pgx.Exec(ctx, `UPDATE spot_quarantine SET state = $2, decided_at = $3 WHERE id = $1`, id, state, tx.Now); err != nil {
		return fmt.Errorf("decide on quarantined price: %w", err)
	}
	return nil
}

func acceptQuarantined(ctx context.Context, tx *Tx, q QuarantinedPrice) error {
	switch q.Reason {
	case market.SuspectOffHistory, market.SuspectOffOnDemand, market.SuspectOffCatalogue:
	default:
		return fleet.Errorf(fleet.CodeConflict, "a price that is quarantined as %s can only be dismissed", q.Reason)
	}
	row := market.SpotRow{Pool: q.Pool, Change: market.SpotChange{At: q.At.Unix()}}
	for _, f := range []struct {
		text string
		into *market.Listed
	}{{q.Spot, &row.Change.Spot}, {q.OnDemand, &row.Change.OnDemand}} {
		l, reason, err := market.ReadPrice(f.text)
		if err != nil || reason != "" {
			return fleet.Errorf(fleet.CodeConflict, "%q can be no price", f.text)
		}
		*f.into = l
	}
	w, err := NewSpotWriter(ctx, tx, SpotWriteOptions{Source: q.Source, Trust: true})
	if err != nil {
		return err
	}
	if err := w.Add(ctx, row); err != nil {
		return err
	}
	if _, err := w.Close(ctx); err != nil {
		return err
	}
	_, err = tx.pgx.Exec(ctx, `UPDATE spot_pool SET guard_since = greatest(guard_since, $6) WHERE cloud = $1 AND region = $2 AND zone = $3 AND instance_type = $4 AND product = $5`,
		q.Pool.Cloud, q.Pool.Region, q.Pool.Zone, q.Pool.InstanceType, q.Pool.Product, q.At)
	if err != nil {
		return fmt.Errorf("accept quarantined price: %w", err)
	}
	return nil
}
