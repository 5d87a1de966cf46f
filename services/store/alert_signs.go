package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// BudgetHeldWorkloads lists those whose newest decision a budget held below what their signals ask for, or took replicas from.
func BudgetHeldWorkloads(ctx context.Context, tx *Tx) ([]WatchedWorkload, error) {
	return watched(ctx, tx, `
SELECT w.id::text, w.key, w.team, w.cluster_id::text, coalesce((m.memory ->> 'last_news')::timestamptz, c.data_at), 0, m.memory ->> 'last_binding'
FROM planner_memory m JOIN workload w ON w.tenant_id = m.tenant_id AND w.id = m.workload_id AND w.gone_at IS NULL
JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id
WHERE m.tenant_id = $1 AND m.memory ->> 'last_binding' IN ('budget', 'budget_over', 'budget_unknown') AND (m.memory ->> 'last_at')::timestamptz >= c.data_at - $2::interval
ORDER BY w.key, w.id LIMIT $3`, watchFresh)
}

// SilentWorkloads lists those that nothing was decided for in ten minutes because no signal of theirs is fresh, while their cluster reports.
func SilentWorkloads(ctx context.Context, tx *Tx) ([]WatchedWorkload, error) {
	return watched(ctx, tx, `
SELECT w.id::text, w.key, w.team, w.cluster_id::text, (m.memory ->> 'last_news')::timestamptz, 0, m.memory ->> 'last_binding'
FROM planner_memory m JOIN workload w ON w.tenant_id = m.tenant_id AND w.id = m.workload_id AND w.gone_at IS NULL
JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id
WHERE m.tenant_id = $1 AND m.memory ->> 'last_binding' IN ('no_signal', 'no_forecast') AND (m.memory ->> 'last_at')::timestamptz >= c.data_at - $2::interval
  AND (m.memory ->> 'last_news')::timestamptz <= c.data_at - $2::interval
ORDER BY w.key, w.id LIMIT $3`, watchFresh)
}

// Oscillation is what a workload's replicas did in the last hour.
type Oscillation struct {
	ID      fleet.WorkloadID
	Key     string
	Team    string
	Cluster fleet.ClusterID
	At      time.Time // data time of the cluster
	Memory  optimizer.Memory
}

// Oscillations reads the memories of workloads whose replicas changed direction often enough for least cycles, whoever changed them.
func Oscillations(ctx context.Context, tx *Tx, least int) ([]Oscillation, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT w.id::text, w.key, w.team, w.cluster_id::text, c.data_at, m.memory
FROM planner_memory m JOIN workload w ON w.tenant_id = m.tenant_id AND w.id = m.workload_id AND w.gone_at IS NULL
JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id AND c.data_at IS NOT NULL
WHERE m.tenant_id = $1 AND jsonb_array_length(coalesce(m.memory -> 'changes', '[]')) > 2 * $2::int
ORDER BY w.key, w.id LIMIT $3`, tx.Tenant, least, watchLimit)
	if err != nil {
		return nil, fmt.Errorf("load oscillations: %w", err)
	}
	var out []Oscillation
	var o Oscillation
	var memory []byte
	_, err = pgx.ForEachRow(rows, []any{&o.ID, &o.Key, &o.Team, &o.Cluster, &o.At, &memory}, func() error {
		o.Memory = optimizer.Memory{}
		if err := json.Unmarshal(memory, &o.Memory); err != nil {
			return fmt.Errorf("read memory of %s: %w", o.ID, err)
		}
		o.At = o.At.UTC()
		out = append(out, o)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load oscillations: %w", err)
	}
	return out, nil
}

// BurnWindows are the spans, longest last, that late requests are counted over.
var BurnWindows = [...]time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour}

// Promised is a workload with an SLO rule in force, and how late its requests were.
type Promised struct {
	ID       fleet.WorkloadID
	Key      string
	Team     string
	Class    string
	Cluster  fleet.ClusterID
	At       time.Time // data time of the cluster
	Document string    // of the policy
	// Late and Minutes by BurnWindows: the share of requests that were late, and over how many minutes somebody told so. Of a window without
	// traffic both are zero.
	Late    [len(BurnWindows)]float64
	Minutes [len(BurnWindows)]float64
}

// PromisedWorkloads reads the workloads whose newest policy may have an SLO rule and that had a late request in the last three days. Windows of
// six hours and more are whole hours. The caller reads the policy.
func PromisedWorkloads(ctx context.Context, tx *Tx) ([]Promised, error) {
	rows, err := tx.pgx.Query(ctx, `
WITH promised AS (
  SELECT w.id, w.key, w.team, w.class, w.cluster_id, c.data_at, p.document FROM workload w
  JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id AND c.data_at IS NOT NULL
  JOIN LATERAL (SELECT document FROM policy p WHERE p.tenant_id = w.tenant_id AND p.workload_id = w.id ORDER BY version DESC LIMIT 1) p ON p.document LIKE '%slo%'
  WHERE w.tenant_id = $1 AND w.gone_at IS NULL
)
SELECT p.id::text, p.key, p.team, p.class, p.cluster_id::text, p.data_at, p.document, m.late, m.minutes, h.late, h.minutes
FROM promised p CROSS JOIN LATERAL (
  SELECT array_agg(coalesce(late, 0) ORDER BY span) AS late, array_agg(minutes ORDER BY span) AS minutes FROM (
    SELECT span, sum(r.late_ratio * r.request_rate)::float8 / nullif(sum(r.request_rate), 0)::float8 AS late, count(r.at)::float8 AS minutes
    FROM unnest($2::interval[]) AS span LEFT JOIN rollup_1m r ON r.tenant_id = $1 AND r.workload_id = p.id AND r.at > p.data_at - span AND r.at <= p.data_at
      AND r.request_rate > 0 AND r.late_ratio IS NOT NULL GROUP BY span) s) m
CROSS JOIN LATERAL (
  SELECT array_agg(coalesce(late, 0) ORDER BY span) AS late, array_agg(minutes ORDER BY span) AS minutes FROM (
    SELECT span, sum(r.late_ratio * r.request_rate)::float8 / nullif(sum(r.request_rate), 0)::float8 AS late, 60 * count(r.at)::float8 AS minutes
    FROM unnest($3::interval[]) AS span LEFT JOIN rollup_1h r ON r.tenant_id = $1 AND r.workload_id = p.id AND r.at > p.data_at - span AND r.at <= p.data_at
      AND r.request_rate > 0 AND r.late_ratio IS NOT NULL GROUP BY span) s) h
WHERE m.late[1] > 0 OR h.late[3] > 0
ORDER BY p.key, p.id LIMIT $4`, tx.Tenant, BurnWindows[:4], BurnWindows[4:], burnLimit)
	if err != nil {
		return nil, fmt.Errorf("load late requests: %w", err)
	}
	var out []Promised
	var p Promised
	var late, minutes, hourLate, hourMinutes []float64
	_, err = pgx.ForEachRow(rows, []any{&p.ID, &p.Key, &p.Team, &p.Class, &p.Cluster, &p.At, &p.Document, &late, &minutes, &hourLate, &hourMinutes}, func() error {
		copy(p.Late[:], late)
		copy(p.Late[len(late):], hourLate)
		copy(p.Minutes[:], minutes)
		copy(p.Minutes[len(minutes):], hourMinutes)
		p.At = p.At.UTC()
		out = append(out, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load late requests: %w", err)
	}
	return out, nil
}

// Expiring is a commitment that ends soon.
type Expiring struct {
	ID     string
	Ref    string
	Kind   string
	Region string
	What   string // machine, family or resource
	Owner  string // team
	EndsAt time.Time
}

// ExpiringCommitments lists those that end in (now, now + within].
func ExpiringCommitments(ctx context.Context, tx *Tx, now time.Time, within time.Duration) ([]Expiring, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT id::text, ref, kind, region, coalesce(nullif(instance_type, ''), nullif(family, ''), resource), owner, ends_at FROM commitment
WHERE tenant_id = $1 AND deleted_at IS NULL AND starts_at <= $2 AND ends_at > $2 AND ends_at <= $3 ORDER BY ends_at, id LIMIT $4`, tx.Tenant, now, now.Add(within), watchLimit)
	if err != nil {
		return nil, fmt.Errorf("load commitments that end: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Expiring])
	if err != nil {
		return nil, fmt.Errorf("load commitments that end: %w", err)
	}
	return list, nil
}

// SpotLosses is how a region's Spot machines fared.
type SpotLosses struct {
	Cloud    fleet.Cloud
	Region   string
	Lost     int // machines with a notice, or taken
	Machines int // that ran at any time of the span
	At       time.Time
}

// LostSpot counts the Spot machines that the clouds took back or warned of in the span before now, by region, where there were least of them.
func LostSpot(ctx context.Context, tx *Tx, now time.Time, span time.Duration, least int) ([]SpotLosses, error) {
	rows, err := tx.pgx.Query(ctx, `
WITH lost AS (
  SELECT cloud, region, count(*)::int AS n, max(at) AS at FROM availability_event
  WHERE tenant_id = $1 AND at > $2 AND at <= $3 AND kind IN ('notice', 'lost') AND purchase = 'spot' GROUP BY cloud, region HAVING count(*) >= $4)
SELECT l.cloud, l.region, l.n, greatest(l.n, (SELECT count(*)::int FROM node n WHERE n.tenant_id = $1 AND n.cloud = l.cloud AND n.region = l.region AND n.purchase = 'spot'
  AND n.started_at <= $3 AND (n.ended_at IS NULL OR n.ended_at > $2))), l.at
FROM lost l ORDER BY l.cloud, l.region`, tx.Tenant, now.Add(-span), now, least)
	if err != nil {
		return nil, fmt.Errorf("count lost machines: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SpotLosses])
	if err != nil {
		return nil, fmt.Errorf("count lost machines: %w", err)
	}
	return list, nil
}

// DryOffering is what attempts to get machines of an offering came to.
type DryOffering struct {
	InstanceType string         `json:"instance_type"`
	Zone         string         `json:"zone"`
	Purchase     fleet.Purchase `json:"purchase"`
	Failed       int            `json:"failed"`
	Had          int            `json:"had"`
}

// CapacityReason is why the clouds gave nothing, in their words.
type CapacityReason struct {
	Reason  string    `json:"reason"`
	Times   int       `json:"times"`
	Object  string    `json:"object"` // the newest
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// DryCluster is a cluster whose attempts to get machines fail.
type DryCluster struct {
	ID        fleet.ClusterID
	Name      string
	Failed    int
	Had       int
	At        time.Time
	Offerings []DryOffering    // most failures first
	Reasons   []CapacityReason // most frequent first
}

// DryClusters lists the clusters with least failed attempts or more in the span before their data time, with what failed and why.
func DryClusters(ctx context.Context, tx *Tx, span time.Duration, least int) ([]DryCluster, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT c.id::text, c.name, t.failed, t.had, c.data_at, t.offerings,
  coalesce((SELECT jsonb_agg(r ORDER BY r.times DESC, r.reason) FROM (
    SELECT e.reason, count(*)::int AS times, (array_agg(e.object ORDER BY e.at DESC, e.seq DESC))[1] AS object,
      left((array_agg(e.message ORDER BY e.at DESC, e.seq DESC))[1], 200) AS message, max(e.at) AS at
    FROM cluster_event e WHERE e.tenant_id = $1 AND e.cluster_id = c.id AND e.kind = 'capacity_failure' AND e.at > c.data_at - $2::interval AND e.at <= c.data_at
    GROUP BY e.reason ORDER BY 2 DESC, 1 LIMIT 5) r), '[]')
FROM cluster c CROSS JOIN LATERAL (
  SELECT coalesce(sum(o.failed), 0)::int AS failed, coalesce(sum(o.had), 0)::int AS had,
    coalesce(jsonb_agg(o ORDER BY o.failed DESC, o.instance_type, o.zone, o.purchase) FILTER (WHERE o.failed > 0), '[]') AS offerings
  FROM (SELECT instance_type, zone, purchase, count(*) FILTER (WHERE kind = 'exhausted')::int AS failed, count(*) FILTER (WHERE kind = 'had')::int AS had
    FROM availability_event v WHERE v.tenant_id = $1 AND v.cluster_id = c.id AND v.at > c.data_at - $2::interval AND v.at <= c.data_at AND v.kind IN ('had', 'exhausted')
    GROUP BY instance_type, zone, purchase) o) t
WHERE c.tenant_id = $1 AND c.data_at IS NOT NULL AND t.failed >= $3 ORDER BY c.name, c.id LIMIT $4`, tx.Tenant, span, least, watchLimit)
	if err != nil {
		return nil, fmt.Errorf("look for failed scale-outs: %w", err)
	}
	var out []DryCluster
	var c DryCluster
	var offerings, reasons []byte
	_, err = pgx.ForEachRow(rows, []any{&c.ID, &c.Name, &c.Failed, &c.Had, &c.At, &offerings, &reasons}, func() error {
		c.Offerings, c.Reasons = nil, nil
		if err := json.Unmarshal(offerings, &c.Offerings); err != nil {
			return fmt.Errorf("read offerings: %w", err)
		}
		if err := json.Unmarshal(reasons, &c.Reasons); err != nil {
			return fmt.Errorf("read reasons: %w", err)
		}
		c.At = c.At.UTC()
		out = append(out, c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for failed scale-outs: %w", err)
	}
	return out, nil
}

// SkewedCluster is a cluster whose clock differs from ours.
type SkewedCluster struct {
	ID   fleet.ClusterID
	Name string
	Skew time.Duration // its clock minus ours at the last report
	At   time.Time     // of that report, our clock
}

// SkewedClusters lists the clusters that reported after since, with a clock off by least or more. Clocks that are simulated are off on purpose.
func SkewedClusters(ctx context.Context, tx *Tx, since time.Time, least time.Duration) ([]SkewedCluster, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT id::text, name, skew_ms * interval '1 millisecond', last_seen_at FROM cluster
WHERE tenant_id = $1 AND NOT simulated_clock AND last_seen_at >= $2 AND abs(skew_ms) >= $3 ORDER BY name, id`, tx.Tenant, since, least.Milliseconds())
	if err != nil {
		return nil, fmt.Errorf("look at clocks: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SkewedCluster])
	if err != nil {
		return nil, fmt.Errorf("look at clocks: %w", err)
	}
	return list, nil
}
