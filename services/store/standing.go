package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Capabilities by which an agent says that it answers other autoscalers, and so wants to be told what holds.
const (
	CapabilityKEDA     = "keda"
	CapabilityExpander = "expander"
)

// Bounds of a Standing. It is told every two minutes: one that gets lost is no reason to fall back.
const (
	standingValid        = 10 * time.Minute
	maxStandingTargets   = 10_000
	maxStandingOfferings = 10_000
	maxStandingRegions   = 8
)

// StandingOf is what holds now for a cluster: the replicas that are wanted of each workload under a policy, and what offerings in the
// cluster's regions cost and how sure they are. nil where its agent asks for neither, may not act, or never reported.
func StandingOf(ctx context.Context, tx *Tx, book *market.PriceBook, cluster fleet.ClusterID) (*agentv1.Standing, error) {
	var (
		mode             fleet.Mode
		generation       int64
		can              []string
		limits           AgentLimits
		lastSeen, dataAt *time.Time
		speed            float64
	)
	err := tx.pgx.QueryRow(ctx, `SELECT mode, generation, capabilities, agent_limits, last_seen_at, data_at, clock_speed FROM cluster WHERE tenant_id = $1 AND id = $2`,
		tx.Tenant, cluster).Scan(&mode, &generation, &can, &limits, &lastSeen, &dataAt, &speed)
	if err != nil {
		return nil, notFound(err, "cluster")
	}
	keda, expander := slices.Contains(can, CapabilityKEDA), slices.Contains(can, CapabilityExpander)
	mode = limits.allow(mode)
	if !keda && !expander || lastSeen == nil || dataAt == nil || mode != fleet.ModeApprove && mode != fleet.ModeEnforce {
		return nil, nil
	}
	now := dataNow(tx.Now, *lastSeen, *dataAt, speed)
	valid := time.Duration(float64(standingValid) * max(speed, 1))
	s := &agentv1.Standing{AtMs: now.UnixMilli(), ValidUntilMs: now.Add(valid).UnixMilli(), Generation: uint64(max(generation, 0))}
	if keda {
		if s.Targets, err = standingTargets(ctx, tx, cluster); err != nil {
			return nil, err
		}
	}
	if expander {
		if s.Offerings, err = standingOfferings(ctx, tx, book, cluster, now); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// standingTargets reads the newest decision of each workload that was carried out, or that said to stay, under the policy in force. What
// is on its way is not said here: it comes as a plan.
func standingTargets(ctx context.Context, tx *Tx, cluster fleet.ClusterID) ([]*agentv1.Target, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT w.key, d.replicas, d.min, d.max
FROM workload w
JOIN LATERAL (SELECT version FROM policy p WHERE p.tenant_id = w.tenant_id AND p.workload_id = w.id ORDER BY version DESC LIMIT 1) p ON true
JOIN LATERAL (
  SELECT coalesce(d.after_replicas, d.target) AS replicas, coalesce((d.detail->>'min')::int, 0) AS min, coalesce((d.detail->>'max')::int, 0) AS max,
    (d.detail->>'policy_version')::int AS version
  FROM decision d WHERE d.tenant_id = w.tenant_id AND d.workload_id = w.id AND (d.outcome = 'hold' OR d.state = 'applied')
  ORDER BY d.at DESC, d.id LIMIT 1) d ON d.version = p.version
WHERE w.tenant_id = $1 AND w.cluster_id = $2 AND w.gone_at IS NULL AND w.scalable
ORDER BY w.key LIMIT $3`, tx.Tenant, cluster, maxStandingTargets)
	if err != nil {
		return nil, fmt.Errorf("load targets: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*agentv1.Target, error) {
		t := &agentv1.Target{}
		return t, row.Scan(&t.Workload, &t.Replicas, &t.Min, &t.Max)
	})
	if err != nil {
		return nil, fmt.Errorf("read targets: %w", err)
	}
	return out, nil
}

// standingOfferings prices what machines of the cluster's regions could be: every type on demand, by region; Spot by zone; and what the
// tenant has tried there itself.
func standingOfferings(ctx context.Context, tx *Tx, book *market.PriceBook, cluster fleet.ClusterID, now time.Time) ([]*agentv1.OfferingPrice, error) {
	places, err := clusterRegions(ctx, tx, cluster)
	if err != nil {
		return nil, err
	}
	model, err := LoadAvailability(ctx, tx)
	if err != nil {
		return nil, err
	}
	ids, err := ZoneIDs(ctx, tx)
	if err != nil {
		return nil, err
	}
	names := namesOfZones(ids)
	var all []fleet.Offering
	for _, p := range places {
		for _, name := range book.SpotTypes(market.CheapestFilter{Cloud: p.Cloud}) {
			all = append(all, fleet.Offering{Cloud: p.Cloud, Region: p.Region, InstanceType: name, Purchase: fleet.PurchaseOnDemand})
		}
		pools, err := SpotStates(ctx, tx, SpotFilter{Cloud: p.Cloud, Region: p.Region, Product: market.ProductLinux}, now)
		if err != nil {
			return nil, err
		}
		for _, s := range pools { // nodes go by the account's name of a zone, and a node whose zone has no price by its region's
			for _, zone := range append([]string{""}, names.of(s.Pool.Zone)...) {
				all = append(all, fleet.Offering{Cloud: p.Cloud, Region: p.Region, Zone: zone, InstanceType: s.Pool.InstanceType, Purchase: fleet.PurchaseSpot})
			}
		}
	}
	tried := model.Offerings()
	for _, o := range tried {
		if slices.ContainsFunc(places, func(p fleet.Offering) bool { return p.Cloud == o.Cloud && p.Region == o.Region }) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b fleet.Offering) int {
		return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.Region, b.Region), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Purchase, b.Purchase), cmp.Compare(a.Zone, b.Zone))
	})
	all = slices.Compact(all)
	prices, err := PricesAt(ctx, tx, book, now, all...)
	if err != nil {
		return nil, err
	}
	var out []*agentv1.OfferingPrice
	for _, o := range all {
		quote := prices.Marginal(o, fleet.InstanceType{Cloud: o.Cloud, Name: o.InstanceType}, 1)
		if quote.PerHour == nil || *quote.PerHour < 0 || len(out) == maxStandingOfferings {
			continue
		}
		score := model.Score(o, now)
		p := &agentv1.OfferingPrice{Region: o.Region, Zone: o.Zone, InstanceType: o.InstanceType, Purchase: string(o.Purchase),
			HourNano:      max(int64(*quote.PerHour), 1), // what a commitment has paid for already is the cheapest there is, and not unknown
			HazardPerHour: chance(1 - score.SurvivesNextHour), StockOut: chance(score.StockOut)}
		if score.BackoffUntil.After(now) {
			p.StockedOutUntilMs = score.BackoffUntil.UnixMilli()
		}
		out = append(out, p)
	}
	return out, nil
}

// zoneNames are what the tenant's accounts call zones, by id.
type zoneNames map[string][]string

func namesOfZones(ids map[string]string) zoneNames {
	out := zoneNames{}
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		out[ids[name]] = append(out[ids[name]], name)
	}
	return out
}

// of gives the names of a zone; its own where no account knows it.
func (z zoneNames) of(zone string) []string {
	if names := z[zone]; len(names) > 0 {
		return names
	}
	return []string{zone}
}

// chance keeps what an estimate rounds beyond a probability within it.
func chance(x float64) float64 { return min(max(x, 0), 1) }

// clusterRegions are the clouds and regions that a cluster has or had machines in, most machines first.
func clusterRegions(ctx context.Context, tx *Tx, cluster fleet.ClusterID) ([]fleet.Offering, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT cloud, region FROM node WHERE tenant_id = $1 AND cluster_id = $2 AND cloud IN ('aws', 'azure', 'gcp') AND region <> ''
GROUP BY cloud, region ORDER BY count(*) FILTER (WHERE ended_at IS NULL) DESC, count(*) DESC, cloud, region LIMIT $3`, tx.Tenant, cluster, maxStandingRegions)
	if err != nil {
		return nil, fmt.Errorf("load regions: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o fleet.Offering, err error) {
		err = row.Scan(&o.Cloud, &o.Region)
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("read regions: %w", err)
	}
	return out, nil
}
