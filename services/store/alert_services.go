package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/spread"
)

// servicePlanFresh is how old a service's newest plan may be until how the service fares is not known any more.
const servicePlanFresh = 5 * time.Minute

// WatchedService is a service that is planned, as its newest plan has it.
type WatchedService struct {
	ID         string
	Name       string
	Traffic    spread.Traffic
	ShortSince *time.Time   // our clock; nil: it was not short when it was looked at last
	Plan       *spread.Plan // without its options; nil: how it fares is not known, since no plan of its rules is fresh
}

// SeenCluster is a cluster and when it was heard of.
type SeenCluster struct {
	Name   string
	SeenAt *time.Time // our clock; nil: never
}

// WatchedServices lists the services that are not off, by name, with the clusters of the tenant when there are any services.
func WatchedServices(ctx context.Context, tx *Tx) ([]WatchedService, map[fleet.ClusterID]SeenCluster, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT s.id::text, s.name, s.rules, s.short_since, p.plan FROM service s
LEFT JOIN LATERAL (SELECT plan FROM service_plan p WHERE p.tenant_id = s.tenant_id AND p.service_id = s.id AND s.checked_at > $2 ORDER BY p.id DESC LIMIT 1) p ON true
WHERE s.tenant_id = $1 AND s.mode <> 'off' ORDER BY s.name LIMIT $3`, tx.Tenant, tx.Now.Add(-servicePlanFresh), maxServices)
	if err != nil {
		return nil, nil, fmt.Errorf("look at services: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanWatchedService)
	if err != nil {
		return nil, nil, fmt.Errorf("look at services: %w", err)
	}
	if len(list) == 0 {
		return nil, nil, nil
	}
	if rows, err = tx.pgx.Query(ctx, `SELECT id::text, name, last_seen_at FROM cluster WHERE tenant_id = $1`, tx.Tenant); err != nil {
		return nil, nil, fmt.Errorf("look at clusters of services: %w", err)
	}
	clusters := map[fleet.ClusterID]SeenCluster{}
	var id fleet.ClusterID
	var c SeenCluster
	_, err = pgx.ForEachRow(rows, []any{&id, &c.Name, &c.SeenAt}, func() error {
		clusters[id] = c
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look at clusters of services: %w", err)
	}
	return list, clusters, nil
}

func scanWatchedService(row pgx.CollectableRow) (s WatchedService, err error) {
	var rules, doc []byte
	if err = row.Scan(&s.ID, &s.Name, &rules, &s.ShortSince, &doc); err != nil {
		return s, err
	}
	var r spread.Rules
	if err = json.Unmarshal(rules, &r); err != nil {
		return s, err
	}
	s.Traffic = r.WithDefaults().Traffic
	if doc == nil {
		return s, nil
	}
	text, err := inputDecoder().DecodeAll(doc, nil)
	if err != nil {
		return s, fmt.Errorf("unpack plan of service %s: %w", s.ID, err)
	}
	s.Plan = &spread.Plan{}
	if err = json.Unmarshal(text, s.Plan); err != nil {
		return s, fmt.Errorf("read plan of service %s: %w", s.ID, err)
	}
	s.Plan.Options = nil
	return s, nil
}

// SaveShortSince notes since when each of these services has been short; nil: it is not. One that is off is not.
func SaveShortSince(ctx context.Context, tx *Tx, since map[string]*time.Time) error {
	ids, times := make([]string, 0, len(since)), make([]*time.Time, 0, len(since))
	for id, at := range since {
		ids, times = append(ids, id), append(times, at)
	}
	b := &pgx.Batch{}
	b.Queue(`UPDATE service SET short_since = NULL WHERE tenant_id = $1 AND mode = 'off' AND short_since IS NOT NULL`, tx.Tenant)
	b.Queue(`UPDATE service s SET short_since = u.since FROM unnest($2::uuid[], $3::timestamptz[]) AS u(id, since)
WHERE s.tenant_id = $1 AND s.id = u.id AND s.mode <> 'off' AND s.short_since IS DISTINCT FROM u.since`, tx.Tenant, ids, times)
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("save since when services are short: %w", err)
	}
	return nil
}
