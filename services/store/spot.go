package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// SpotFilter selects pools; a zero field does not filter.
type SpotFilter struct {
	Cloud         fleet.Cloud
	Region        string
	Zone          string
	InstanceTypes []string // none: all
	Product       string
	Limit         int // default and most: 5,000
}

const maxSpotPools = 5000

func (f SpotFilter) args(more ...any) []any {
	if f.Limit <= 0 || f.Limit > maxSpotPools {
		f.Limit = maxSpotPools
	}
	if f.InstanceTypes == nil {
		f.InstanceTypes = []string{}
	}
	return append([]any{f.Cloud, f.Region, f.Zone, f.InstanceTypes, f.Product, f.Limit}, more...)
}

const (
	spotPoolColumns = `p.id, p.cloud, p.region, p.zone, p.instance_type, p.product, extract(epoch FROM p.at)::bigint AS at,
  coalesce(p.spot_nano, 0) AS spot, coalesce(p.on_demand_nano, 0) AS on_demand, p.seen_at, p.source`
	spotPoolOrder = `p.cloud, p.region, p.instance_type, p.zone, p.product`
	spotPools     = `SELECT ` + spotPoolColumns + ` FROM spot_pool p WHERE ($1 = '' OR p.cloud = $1) AND ($2 = '' OR p.region = $2) AND ($3 = '' OR p.zone = $3)
  AND (cardinality($4::text[]) = 0 OR p.instance_type = ANY($4)) AND ($5 = '' OR p.product = $5) ORDER BY ` + spotPoolOrder + ` LIMIT $6`
)

// spotFields are where spotPoolColumns go.
func spotFields(id *int32, s *market.SpotState) []any {
	p, c := &s.Pool, &s.Change
	return []any{id, &p.Cloud, &p.Region, &p.Zone, &p.InstanceType, &p.Product, &c.At, &c.Spot, &c.OnDemand, &s.SeenAt, &s.Source}
}

// SpotStates gives the state of the pools that match, at a moment, sorted by pool. Pools that were not known then are left out.
func SpotStates(ctx context.Context, tx *Tx, f SpotFilter, at time.Time) ([]market.SpotState, error) {
	// The newest state stands in the pool's row. An older moment is in its month's chunk, or in the one before if that begins later.
	rows, err := tx.pgx.Query(ctx, `
WITH p AS MATERIALIZED (`+spotPools+`)
SELECT p.*, c.month, c.body FROM p LEFT JOIN LATERAL (
  SELECT month, body FROM spot_chunk WHERE pool_id = p.id AND p.at > $7 AND month <= $8 ORDER BY month DESC LIMIT 2) c ON true
ORDER BY `+spotPoolOrder+`, c.month DESC`, f.args(at.Unix(), monthOf(at.Unix()))...)
	if err != nil {
		return nil, fmt.Errorf("load Spot prices: %w", err)
	}
	defer rows.Close()
	var out []market.SpotState
	var buf []market.SpotChange
	answered := int32(0)
	for rows.Next() {
		var id int32
		var s market.SpotState
		var month *time.Time
		var body []byte
		if err := rows.Scan(append(spotFields(&id, &s), &month, &body)...); err != nil {
			return nil, fmt.Errorf("load Spot prices: %w", err)
		}
		if id == answered {
			continue
		}
		if s.Change.At > at.Unix() {
			if month == nil {
				continue
			}
			if buf, err = unpackSpot(month.UTC(), body, buf[:0]); err != nil {
				return nil, fmt.Errorf("load Spot prices of pool %d in %s: %w", id, month.Format("2006-01"), err)
			}
			c, ok := market.SpotAt(buf, at.Unix())
			if !ok {
				continue
			}
			s.Change = c
		}
		out, answered = append(out, s), id
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("load Spot prices: %w", err)
	}
	return out, nil
}

// SpotPriceAt gives the state of one pool at a moment; false when it was not known then.
func SpotPriceAt(ctx context.Context, tx *Tx, p market.SpotPool, at time.Time) (market.SpotState, bool, error) {
	// The key as a whole, so that one index look-up finds it.
	rows, err := tx.pgx.Query(ctx, `
SELECT `+spotPoolColumns+`, c.month, c.body FROM spot_pool p LEFT JOIN LATERAL (
  SELECT month, body FROM spot_chunk WHERE pool_id = p.id AND extract(epoch FROM p.at) > $6 AND month <= $7 ORDER BY month DESC LIMIT 2) c ON true
WHERE p.cloud = $1 AND p.region = $2 AND p.zone = $3 AND p.instance_type = $4 AND p.product = $5 ORDER BY c.month DESC`,
		p.Cloud, p.Region, p.Zone, p.InstanceType, p.Product, at.Unix(), monthOf(at.Unix()))
	if err != nil {
		return market.SpotState{}, false, fmt.Errorf("load Spot price: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int32
		var s market.SpotState
		var month *time.Time
		var body []byte
		if err := rows.Scan(append(spotFields(&id, &s), &month, &body)...); err != nil {
			return s, false, fmt.Errorf("load Spot price: %w", err)
		}
		if s.Change.At <= at.Unix() {
			return s, true, nil
		}
		if month == nil {
			continue
		}
		changes, err := unpackSpot(month.UTC(), body, nil)
		if err != nil {
			return s, false, fmt.Errorf("load Spot prices of pool %d in %s: %w", id, month.Format("2006-01"), err)
		}
		if c, ok := market.SpotAt(changes, at.Unix()); ok {
			s.Change = c
			return s, true, nil
		}
	}
	if err := rows.Err(); err != nil {
		return market.SpotState{}, false, fmt.Errorf("load Spot price: %w", err)
	}
	return market.SpotState{}, false, nil
}

// SpotSeries is the history of one pool over a window.
type SpotSeries = market.SpotLine

// SpotHistory gives the changes of the pools that match within [from, to), sorted by pool. Pools without any are left out.
func SpotHistory(ctx context.Context, tx *Tx, f SpotFilter, from, to time.Time) ([]SpotSeries, error) {
	rows, err := tx.pgx.Query(ctx, `
WITH p AS MATERIALIZED (`+spotPools+`)
SELECT p.*, c.month, c.body FROM p JOIN spot_chunk c ON c.pool_id = p.id AND c.month <= $8 AND c.month >= coalesce(
  (SELECT max(b.month) FROM spot_chunk b WHERE b.pool_id = p.id AND b.month < $7), $7)
ORDER BY `+spotPoolOrder+`, c.month`, f.args(monthOf(from.Unix()), monthOf(to.Unix()))...)
	if err != nil {
		return nil, fmt.Errorf("load Spot history: %w", err)
	}
	defer rows.Close()
	var out []SpotSeries
	last := int32(0)
	for rows.Next() {
		var id int32
		var s market.SpotState
		var month time.Time
		var body []byte
		if err := rows.Scan(append(spotFields(&id, &s), &month, &body)...); err != nil {
			return nil, fmt.Errorf("load Spot history: %w", err)
		}
		if id != last {
			out, last = append(out, SpotSeries{State: s}), id
		}
		series := &out[len(out)-1]
		if series.Changes, err = unpackSpot(month.UTC(), body, series.Changes); err != nil {
			return nil, fmt.Errorf("load Spot prices of pool %d in %s: %w", id, month.Format("2006-01"), err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("load Spot history: %w", err)
	}
	kept := out[:0]
	for _, s := range out {
		if s.Changes = within(s.Changes, from.Unix(), to.Unix()); len(s.Changes) > 0 {
			kept = append(kept, s)
		}
	}
	return kept, nil
}

// within cuts changes to those that say something of [from, to).
func within(changes []market.SpotChange, from, to int64) []market.SpotChange {
	for len(changes) > 1 && changes[1].At <= from {
		changes = changes[1:]
	}
	for len(changes) > 0 && changes[len(changes)-1].At >= to {
		changes = changes[:len(changes)-1]
	}
	return changes
}

// SpotMarket is one machine type in one region that there is a history of.
type SpotMarket struct {
	Cloud                         fleet.Cloud
	Region, InstanceType, Product string
	Zones                         []string // sorted; an empty name: one price for the region
	LastAt, SeenAt                time.Time
	Listed                        bool // some zone has a Spot price now
}

// SpotMarkets lists at most 20,000 of them, of one cloud or of all, sorted.
func SpotMarkets(ctx context.Context, tx *Tx, cloud fleet.Cloud) ([]SpotMarket, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT cloud, region, instance_type, product, array_agg(zone ORDER BY zone), max(at), max(seen_at), bool_or(spot_nano IS NOT NULL) FROM spot_pool WHERE ($1 = '' OR cloud = $1)
GROUP BY cloud, region, instance_type, product ORDER BY 1, 2, 3, 4 LIMIT 20000`, cloud)
	if err != nil {
		return nil, fmt.Errorf("list Spot markets: %w", err)
	}
	markets, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m SpotMarket, err error) {
		return m, row.Scan(&m.Cloud, &m.Region, &m.InstanceType, &m.Product, &m.Zones, &m.LastAt, &m.SeenAt, &m.Listed)
	})
	if err != nil {
		return nil, fmt.Errorf("list Spot markets: %w", err)
	}
	return markets, nil
}

// SpotReached is how far the history of a cloud reaches.
type SpotReached struct {
	Cloud          fleet.Cloud
	FirstAt        time.Time // the first change of the first 5,000 pools that begin in the first month
	LastAt, SeenAt time.Time
	Source         string
	Pools          int
	Changes        int64
}

// SpotReach says how far the history of the pools that match reaches, by cloud; clouds without any are left out.
func SpotReach(ctx context.Context, tx *Tx, f SpotFilter) ([]SpotReached, error) {
	rows, err := tx.pgx.Query(ctx, `
WITH p AS (
  SELECT p.*, (SELECT min(c.month) FROM spot_chunk c WHERE c.pool_id = p.id) AS month FROM spot_pool p WHERE ($1 = '' OR p.cloud = $1) AND ($2 = '' OR p.region = $2)
  AND ($3 = '' OR p.zone = $3) AND (cardinality($4::text[]) = 0 OR p.instance_type = ANY($4)) AND ($5 = '' OR p.product = $5)),
g AS (SELECT cloud, min(month) AS month, max(at) AS at, max(seen_at) AS seen_at, count(*) AS pools, sum(changes) AS changes FROM p GROUP BY cloud)
SELECT g.cloud, g.at, g.seen_at, (SELECT p.source FROM p WHERE p.cloud = g.cloud ORDER BY p.seen_at DESC, p.id LIMIT 1), g.pools, g.changes, g.month,
  ARRAY(SELECT c.body FROM p JOIN spot_chunk c ON c.pool_id = p.id AND c.month = p.month WHERE p.cloud = g.cloud AND p.month = g.month ORDER BY p.id LIMIT $6)
FROM g ORDER BY g.cloud`, f.args()...)
	if err != nil {
		return nil, fmt.Errorf("measure Spot history: %w", err)
	}
	var buf []market.SpotChange
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r SpotReached, err error) {
		var month *time.Time
		var bodies [][]byte
		if err := row.Scan(&r.Cloud, &r.LastAt, &r.SeenAt, &r.Source, &r.Pools, &r.Changes, &month, &bodies); err != nil {
			return r, err
		}
		r.FirstAt = r.LastAt
		for _, body := range bodies {
			if buf, err = unpackSpot(month.UTC(), body, buf[:0]); err != nil {
				return r, err
			}
			if first := buf[0].Time(); first.Before(r.FirstAt) {
				r.FirstAt = first
			}
		}
		return r, nil
	})
	if err != nil {
		return nil, fmt.Errorf("measure Spot history: %w", err)
	}
	return out, nil
}

// SpotStock says how much is kept.
type SpotStock struct {
	Pools       int
	Changes     int64
	First, Last *time.Time // month of the first chunk, moment of the newest change; nil: nothing is kept
	Bytes       int64      // tables and indexes on disk
	Quarantined int        // open
}

// Spot gives the size of the history.
func Spot(ctx context.Context, tx *Tx) (s SpotStock, err error) {
	err = tx.pgx.QueryRow(ctx, `
SELECT (SELECT count(*) FROM spot_pool), (SELECT coalesce(sum(changes), 0) FROM spot_pool), (SELECT min(month)::timestamptz FROM spot_chunk), (SELECT max(at) FROM spot_pool),
  pg_total_relation_size('spot_pool') + pg_total_relation_size('spot_chunk') + pg_total_relation_size('spot_quarantine'),
  (SELECT count(*) FROM spot_quarantine WHERE state = 'open')`).Scan(&s.Pools, &s.Changes, &s.First, &s.Last, &s.Bytes, &s.Quarantined)
	if err != nil {
		return s, fmt.Errorf("measure Spot history: %w", err)
	}
	return s, nil
}
