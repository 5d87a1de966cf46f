package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// CostQuery selects and groups costs.
type CostQuery struct {
	From, To  time.Time // [From, To); whole UTC days unless Hourly
	Hourly    bool      // by hour instead of by day
	Aggregate string    // team, namespace, workload, cluster, label:<key>, kind, purchase or resource
	Cluster   fleet.ClusterID
	Namespace string
	Team      string
	Workload  fleet.WorkloadID
	// Everybody keeps rows that Namespace, Team and Workload do not match, told apart by CostRow.Outside: what idle is shared over.
	Everybody bool
	// AsOf reads what was in the ledger at that moment, by our clock, instead of the newest versions: closed hours only, and no use. Zero:
	// the newest.
	AsOf time.Time
	// Buckets tells days (or hours) apart; without it At is zero.
	Buckets bool
	// View is what amounts are; not with AsOf.
	View CostView
}

// CostView says what the amounts of a query are.
type CostView string

// Views of costs. Rows that were costed before a view was kept stand with their amount, see CostRow.Unviewed.
const (
	ViewEffective  CostView = ""           // what the ledger says is borne
	ViewList       CostView = "list"       // the same time at the list price on demand
	ViewContracted CostView = "contracted" // before commitments
	ViewCarried    CostView = "carried"    // effective, with the idle of each machine carried by its workloads
)

// amount is the column of a view; unviewed holds where it is not known.
func (v CostView) amount() (amount, unviewed string) {
	switch v {
	case ViewList:
		return "coalesce(c.list_nano, c.amount_nano)", "c.list_nano IS NULL"
	case ViewContracted:
		return "coalesce(c.contracted_nano, c.amount_nano)", "c.contracted_nano IS NULL"
	case ViewCarried:
		return "c.amount_nano + coalesce(c.carried_nano, 0)", "c.carried_nano IS NULL"
	}
	return "c.amount_nano", "false"
}

// CostRow is a sum of costs of one group.
type CostRow struct {
	At      time.Time
	Cluster fleet.ClusterID
	Key     string // of the group; empty for idle, overhead and residual of a grouping by owner
	Outside bool
	ledger.Row
	Unviewed fleet.Money // part of Amount that is not in the view that was asked for
}

// ByOwner says whether a grouping tells who holds something apart; idle, overhead and residual then stand beside the groups.
func (q CostQuery) ByOwner() bool {
	switch q.Aggregate {
	case "kind", "purchase", "resource":
		return false
	}
	return true
}

// Costs sums costs by bucket, cluster, kind, group and resource. It reads one row per workload, day and resource, so a month of
// ten thousand pods in some hundred workloads takes tens of milliseconds. Rows are summed by the columns they have and named
// afterwards: a text made of every row costs more than all sums.
func Costs(ctx context.Context, tx *Tx, q CostQuery) ([]CostRow, error) {
	table, at := q.source()
	bucket := "NULL::timestamptz"
	if q.Buckets {
		bucket = at
	}
	label, _ := strings.CutPrefix(q.Aggregate, "label:")
	group, ok := map[string]struct{ raw, key string }{
		"team": {"c.team AS raw", "g.raw"}, "namespace": {"c.namespace AS raw", "g.raw"}, "cluster": {"''::text AS raw", "g.cluster_id::text"},
		"kind": {"''::text AS raw", "g.kind"}, "purchase": {"c.purchase AS raw", "g.raw"}, "resource": {"''::text AS raw", "g.resource"},
		"workload": {"CASE WHEN c.workload_id = '" + noWorkload + "' THEN c.namespace ELSE '' END AS raw", "CASE WHEN g.workload_id = '" + noWorkload + "' THEN 'namespace/' || g.raw ELSE g.workload_id::text END"},
	}[q.Aggregate]
	join, workload := "", "NULL::uuid"
	if q.Aggregate == "workload" {
		workload = "c.workload_id"
	}
	if !ok { // OFFSET keeps the label from being read once per row of costs instead of once per workload
		group.raw, group.key = "coalesce(w.label, '') AS raw", "g.raw"
		join = "LEFT JOIN (SELECT id, labels ->> @label AS label FROM workload WHERE tenant_id = @tenant OFFSET 0) w ON w.id = c.workload_id"
	}
	key := group.key
	if q.ByOwner() {
		key = "CASE WHEN g.kind = 'workload' THEN " + key + " ELSE '' END"
	}
	// Only filters that are set are asked of every row.
	var filters []string
	if q.Namespace != "" {
		filters = append(filters, "c.namespace = @namespace")
	}
	if q.Team != "" {
		filters = append(filters, "c.team = @team")
	}
	if q.Workload != "" {
		filters = append(filters, "c.workload_id = @workload::uuid")
	}
	outside, where := "false", ""
	switch matches := strings.Join(filters, " AND "); {
	case matches == "":
	case q.Everybody:
		outside = "NOT (" + matches + ")"
	default:
		where = " AND " + matches
	}
	if q.Cluster != "" {
		where += " AND c.cluster_id = @cluster::uuid"
	}
	amount, unviewed := q.View.amount()
	if q.View != ViewEffective && !q.AsOf.IsZero() {
		return nil, fleet.Errorf(fleet.CodeInvalid, "earlier versions of the ledger can be asked for what is borne only")
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT g.bucket::timestamptz AS bucket, g.cluster_id::text, g.kind, `+key+` AS key, g.outside, g.resource, sum(g.amount_nano)::bigint, sum(g.quantity), sum(g.unpriced), sum(g.measured), sum(g.used),
  coalesce(sum(g.unviewed), 0)::bigint
FROM (
  SELECT `+bucket+` AS bucket, c.cluster_id, c.kind, `+group.raw+`, `+workload+` AS workload_id, `+outside+` AS outside, c.resource, sum(`+amount+`) AS amount_nano,
    sum(c.quantity) AS quantity, sum(c.unpriced) AS unpriced, sum(c.measured) AS measured, sum(c.used) AS used, sum(c.amount_nano) FILTER (WHERE `+unviewed+`) AS unviewed
  FROM `+table+` c `+join+`
  WHERE c.tenant_id = @tenant AND `+at+` >= @from AND `+at+` < @to`+where+`
  GROUP BY 1, 2, 3, 4, 5, 6, 7) g
GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6`, pgx.NamedArgs{
		"tenant": tx.Tenant, "from": q.From, "to": q.To, "cluster": string(q.Cluster), "namespace": q.Namespace, "team": q.Team,
		"workload": string(q.Workload), "label": label, "as_of": orNull(q.AsOf), "first_day": q.From.UTC().Add(24*time.Hour - 1).Truncate(24 * time.Hour), "past_days": q.To.UTC().Truncate(24 * time.Hour),
	})
	if err != nil {
		return nil, fmt.Errorf("load costs: %w", err)
	}
	defer rows.Close()
	var all []CostRow
	for rows.Next() {
		var r CostRow
		var at *time.Time
		if err := rows.Scan(&at, &r.Cluster, &r.Kind, &r.Key, &r.Outside, &r.Resource, &r.Amount, &r.Quantity, &r.Unpriced, &r.Measured, &r.Used, &r.Unviewed); err != nil {
			return nil, fmt.Errorf("read costs: %w", err)
		}
		r.At = orZero(at)
		if q.View == ViewCarried && r.Amount == 0 && (r.Kind == ledger.KindIdle || r.Kind == ledger.KindOverhead) {
			continue // carried by others
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read costs: %w", err)
	}
	return all, nil
}

// source is the table that a query reads, and its column of time. What is not told apart by hour is read from the daily table as far as
// it goes, and from the hours at its ends.
func (q CostQuery) source() (table, at string) {
	switch {
	case !q.AsOf.IsZero() && q.Hourly:
		return ledgerAsOf, "c.hour"
	case !q.AsOf.IsZero():
		return ledgerAsOf, "(c.hour AT TIME ZONE 'UTC')::date"
	case !q.Hourly:
		return "cost_day", "c.day"
	case !q.Buckets && q.To.Sub(q.From) > 48*time.Hour:
		return daysAndHours, "c.hour"
	}
	return "cost_hour_line", "c.hour"
}

const costColumns = `cluster_id, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used, list_nano, contracted_nano, carried_nano`

// daysAndHours is the whole days from @first_day to @past_days, and the hours of [@from, @to) before and after them.
const daysAndHours = `(
  SELECT tenant_id, (day::timestamp AT TIME ZONE 'UTC') AS hour, ` + costColumns + ` FROM cost_day
  WHERE tenant_id = @tenant AND day >= (@first_day::timestamptz AT TIME ZONE 'UTC')::date AND day < (@past_days::timestamptz AT TIME ZONE 'UTC')::date
  UNION ALL SELECT tenant_id, hour, ` + costColumns + ` FROM cost_hour_line WHERE tenant_id = @tenant AND hour >= @from AND hour < @first_day
  UNION ALL SELECT tenant_id, hour, ` + costColumns + ` FROM cost_hour_line WHERE tenant_id = @tenant AND hour >= @past_days AND hour < @to)`

// ledgerAsOf is the rows of every hour of [@from, @to) in the version that was the newest at @as_of.
const ledgerAsOf = `(
  SELECT t.tenant_id, t.cluster_id, t.hour, t.kind, t.resource, t.purchase, coalesce(t.workload_id, '` + noWorkload + `') AS workload_id, t.namespace, t.team,
    CASE WHEN t.debit LIKE 'node/%' OR t.debit LIKE 'nodes/%' THEN -t.amount_nano ELSE t.amount_nano END AS amount_nano, t.quantity,
    0::float8 AS unpriced, 0::float8 AS measured, 0::float8 AS used
  FROM cost_transfer t JOIN (
    SELECT cluster_id, hour, max(version) AS version FROM (
      SELECT cluster_id, hour, version FROM cost_detail WHERE tenant_id = @tenant AND hour >= @from AND hour < @to AND as_of <= @as_of
      UNION ALL SELECT cluster_id, hour, version FROM cost_transfer WHERE tenant_id = @tenant AND hour >= @from AND hour < @to AND as_of <= @as_of) known
    GROUP BY cluster_id, hour) v ON v.cluster_id = t.cluster_id AND v.hour = t.hour AND v.version = t.version
  WHERE t.tenant_id = @tenant)`

// WorkloadKeys names workloads, also those that are gone.
func WorkloadKeys(ctx context.Context, tx *Tx, ids []string) (map[string]string, error) {
	return names(ctx, tx, `SELECT id::text, key FROM workload WHERE tenant_id = $1 AND id = ANY ($2::uuid[])`, ids)
}

// ClusterNames names clusters.
func ClusterNames(ctx context.Context, tx *Tx, ids []string) (map[string]string, error) {
	return names(ctx, tx, `SELECT id::text, name FROM cluster WHERE tenant_id = $1 AND id = ANY ($2::uuid[])`, ids)
}

func names(ctx context.Context, tx *Tx, query string, ids []string) (map[string]string, error) {
	rows, err := tx.pgx.Query(ctx, query, tx.Tenant, ids)
	if err != nil {
		return nil, fmt.Errorf("load names: %w", err)
	}
	out := make(map[string]string, len(ids))
	var id, name string
	if _, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error { out[id] = name; return nil }); err != nil {
		return nil, fmt.Errorf("load names: %w", err)
	}
	return out, nil
}

// CostCoverage is how complete the costs of a span are.
type CostCoverage struct {
	NodeSeconds, UnpricedNodeSeconds int64
	LastClosed                       *time.Time // start of the newest hour in the ledger, of any time
	OpenHours                        int        // hours of the span that are still provisional
	AsOf                             *time.Time // our clock, when the newest version of any closed hour of the span was made
	Restated                         int        // closed hours of the span that have more than one version
	Conflicts                        int        // hours of the span with contradicting inputs
}

// Unpriced is the share of node time without a price; nil without any node time.
func (c CostCoverage) Unpriced() *float64 {
	if c.NodeSeconds == 0 {
		return nil
	}
	share := float64(c.UnpricedNodeSeconds) / float64(c.NodeSeconds)
	return &share
}

// Coverage of the costs in [from, to), of one cluster or (empty) of all.
func Coverage(ctx context.Context, tx *Tx, cluster fleet.ClusterID, from, to time.Time) (c CostCoverage, err error) {
	err = tx.pgx.QueryRow(ctx, `
SELECT coalesce(sum(node_seconds), 0)::bigint, coalesce(sum(unpriced_node_seconds), 0)::bigint,
  (SELECT max(hour) FROM cost_hour WHERE tenant_id = $1 AND state = 'closed' AND ($2 = '' OR cluster_id = nullif($2, '')::uuid)),
  count(*) FILTER (WHERE state = 'open')::int, count(*) FILTER (WHERE conflicts <> '[]')::int, max(closed_at) FILTER (WHERE state = 'closed'),
  count(*) FILTER (WHERE version > 1)::int
FROM cost_hour WHERE tenant_id = $1 AND hour >= $3 AND hour < $4 AND ($2 = '' OR cluster_id = nullif($2, '')::uuid)`,
		tx.Tenant, string(cluster), from, to).Scan(&c.NodeSeconds, &c.UnpricedNodeSeconds, &c.LastClosed, &c.OpenHours, &c.Conflicts, &c.AsOf, &c.Restated)
	if err != nil {
		return c, fmt.Errorf("load cost coverage: %w", err)
	}
	return c, nil
}
