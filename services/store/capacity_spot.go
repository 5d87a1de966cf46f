package store

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// What is looked at to know how Spot pools behave: older news count for nothing, since what was learned of a hazard halves in six hours.
const (
	spotNewsSpan = 7 * 24 * time.Hour
	maxSpotNews  = 20_000 // the newest
)

// spotLives are the Spot machines of the cluster and an offering: when they began, and when they ended or got their notice, each in order.
type spotLives struct{ from, to []time.Time }

// recall tells candidates of Spot what the tenant's clusters saw of their pools; machines held are those of this cluster.
func (c *capacityInput) recall(ctx context.Context, tx *Tx) error {
	since := c.in.Now.Add(-spotNewsSpan)
	lives, err := c.spotLives(ctx, tx, since)
	if err != nil {
		return err
	}
	rows, err := tx.pgx.Query(ctx, `SELECT at, cloud, region, zone, instance_type, purchase, kind, machines FROM availability_event
WHERE tenant_id = $1 AND at > $2 AND at <= $3 AND purchase = $4 AND kind IN ('had', 'exhausted', 'notice', 'lost') ORDER BY at DESC, source DESC LIMIT $5`,
		tx.Tenant, since, c.in.Now, fleet.PurchaseSpot, maxSpotNews)
	if err != nil {
		return fmt.Errorf("load news of Spot: %w", err)
	}
	var all []availability.Event
	var e availability.Event
	o := &e.Offering
	if _, err = pgx.ForEachRow(rows, []any{&e.At, &o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase, &e.Kind, &e.Machines}, func() error {
		all = append(all, e)
		return nil
	}); err != nil {
		return fmt.Errorf("load news of Spot: %w", err)
	}
	slices.Reverse(all)
	news := map[fleet.Offering][]capacity.SpotNews{}
	for _, e := range all {
		n := capacity.SpotNews{At: e.At.UTC(), Held: lives[e.Offering].held(e.At)}
		count := max(e.Machines, 1)
		switch e.Kind {
		case availability.KindHad:
			n.Got = count
		case availability.KindExhausted:
			n.Failed = count
		case availability.KindNotice:
			n.Warned = count
		case availability.KindLost:
			n.Lost = count
		case availability.KindPrice, availability.KindRunning:
		}
		news[e.Offering] = append(news[e.Offering], n)
	}
	c.in.Recall(news)
	return nil
}

// spotLives are the cluster's Spot machines of a span, by offering.
func (c *capacityInput) spotLives(ctx context.Context, tx *Tx, since time.Time) (map[fleet.Offering]*spotLives, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT n.cloud, n.region, n.zone, n.instance_type, n.purchase, n.started_at, least(n.ended_at, l.at) FROM node n
LEFT JOIN availability_event l ON l.tenant_id = n.tenant_id AND l.source = 'loss/' || n.cluster_id::text || '/' || n.uid
WHERE n.tenant_id = $1 AND n.cluster_id = $2 AND n.purchase = $3 AND (n.ended_at IS NULL OR n.ended_at > $4) AND n.started_at <= $5
ORDER BY n.started_at DESC, n.uid LIMIT $6`, tx.Tenant, c.in.Cluster, fleet.PurchaseSpot, since, c.in.Now, maxSpotNews)
	if err != nil {
		return nil, fmt.Errorf("load Spot machines: %w", err)
	}
	out := map[fleet.Offering]*spotLives{}
	var o fleet.Offering
	var from time.Time
	var to *time.Time
	_, err = pgx.ForEachRow(rows, []any{&o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase, &from, &to}, func() error {
		l := out[o]
		if l == nil {
			l = &spotLives{}
			out[o] = l
		}
		l.from = append(l.from, from)
		if to != nil {
			l.to = append(l.to, *to)
		}
		to = nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load Spot machines: %w", err)
	}
	for _, l := range out {
		slices.SortFunc(l.from, time.Time.Compare)
		slices.SortFunc(l.to, time.Time.Compare)
	}
	return out, nil
}

// held counts the machines that were there right after a moment.
func (l *spotLives) held(at time.Time) int {
	if l == nil {
		return 0
	}
	upTo := func(list []time.Time) int {
		return sort.Search(len(list), func(i int) bool { return list[i].After(at) })
	}
	return upTo(l.from) - upTo(l.to)
}
