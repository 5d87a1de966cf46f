package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// Anomaly is a day of a scope that cost other than expected.
type Anomaly struct {
	ID           string
	Scope        string // tenant, cluster, team, namespace, workload
	Key          string // id or name; empty for the tenant
	Name         string // for people: of a cluster or a workload
	Day          time.Time
	Direction    ledger.Direction
	Actual       fleet.Money
	Expected     fleet.Money
	Low, High    fleet.Money
	Score        float64
	Days         int             // that it was expected from
	Contributors json.RawMessage // []AnomalyPart
	Decisions    json.RawMessage // []AnomalyDecision
	FoundAt      time.Time
	AckedBy      string
	AckedAt      *time.Time
	Note         string
}

// AnomalyPart is what one workload, or idle, adds to an anomaly, against the mean of the four same weekdays before.
type AnomalyPart struct {
	Workload fleet.WorkloadID `json:"workload_id,omitempty"` // empty: idle, overhead, residual
	Name     string           `json:"name"`
	Delta    string           `json:"delta"`
	Price    string           `json:"price"`
	Quantity string           `json:"quantity"`
	Mix      string           `json:"mix"`
}

// AnomalyDecision is a decision of that day on a workload that contributes.
type AnomalyDecision struct {
	ID       fleet.DecisionID `json:"id"`
	Workload fleet.WorkloadID `json:"workload_id"`
	Key      string           `json:"workload"`
	At       time.Time        `json:"at"`
	From     int              `json:"from"`
	Target   int              `json:"target"`
	Binding  string           `json:"binding"`
}

const anomalyColumns = `a.id::text, a.scope, a.scope_key, coalesce(CASE a.scope WHEN 'cluster' THEN (SELECT name FROM cluster c WHERE c.tenant_id = a.tenant_id AND c.id::text = a.scope_key)
    WHEN 'workload' THEN (SELECT key FROM workload w WHERE w.tenant_id = a.tenant_id AND w.id::text = a.scope_key) END, a.scope_key),
  a.day, a.direction, a.actual_nano, a.expected_nano, a.low_nano, a.high_nano, a.score, a.days, a.contributors, a.decisions, a.found_at,
  coalesce(a.acked_by, ''), a.acked_at, coalesce(a.note, '')`

// AnomalyFilter selects anomalies; empty fields select all.
type AnomalyFilter struct {
	Open  bool // not acknowledged
	Scope string
	From  time.Time // day
	After Position  // At is the day
	Limit int
}

// Anomalies lists them, newest day first.
func Anomalies(ctx context.Context, tx *Tx, f AnomalyFilter) ([]Anomaly, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+anomalyColumns+` FROM anomaly a WHERE a.tenant_id = $1 AND (NOT $2 OR a.acked_at IS NULL) AND ($3 = '' OR a.scope = $3)
  AND ($4::timestamptz IS NULL OR a.day >= $4::timestamptz::date) AND ($5 = '' OR (a.day, a.id) < ($6::timestamptz::date, nullif($5, '')::uuid))
ORDER BY a.day DESC, a.id DESC LIMIT $7`, tx.Tenant, f.Open, f.Scope, orNull(f.From), f.After.ID, f.After.At, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("load anomalies: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Anomaly])
	if err != nil {
		return nil, fmt.Errorf("load anomalies: %w", err)
	}
	return list, nil
}

// LoadAnomaly finds one.
func LoadAnomaly(ctx context.Context, tx *Tx, id string) (Anomaly, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+anomalyColumns+` FROM anomaly a WHERE a.tenant_id = $1 AND a.id = $2`, tx.Tenant, id)
	if err != nil {
		return Anomaly{}, fmt.Errorf("load anomaly: %w", err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Anomaly])
	if err != nil {
		return Anomaly{}, notFound(err, "anomaly")
	}
	return a, nil
}

// SaveAnomaly keeps what was found of a scope's day, anew when it was found before: who acknowledged it stays. It returns its id.
func SaveAnomaly(ctx context.Context, tx *Tx, a Anomaly) (string, error) {
	var id string
	err := tx.pgx.QueryRow(ctx, `
INSERT INTO anomaly (tenant_id, id, scope, scope_key, day, direction, actual_nano, expected_nano, low_nano, high_nano, score, days, contributors, decisions, found_at)
VALUES ($1, $2, $3, $4, $5::timestamptz::date, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT ON CONSTRAINT anomaly_once DO UPDATE SET direction = excluded.direction, actual_nano = excluded.actual_nano, expected_nano = excluded.expected_nano,
  low_nano = excluded.low_nano, high_nano = excluded.high_nano, score = excluded.score, days = excluded.days, contributors = excluded.contributors,
  decisions = excluded.decisions RETURNING id::text`,
		tx.Tenant, uuid.Must(uuid.NewV7()).String(), a.Scope, a.Key, a.Day, a.Direction, a.Actual, a.Expected, a.Low, a.High, a.Score, a.Days, a.Contributors, a.Decisions, tx.Now).Scan(&id)
	if err != nil {
		return "", fmt.Errorf("save anomaly: %w", err)
	}
	return id, nil
}

// AckAnomaly notes who has seen it.
func AckAnomaly(ctx context.Context, tx *Tx, id, by, note string) error {
	return changeOne(ctx, tx, `UPDATE anomaly SET acked_by = $3, acked_at = $4, note = nullif($5, '') WHERE tenant_id = $1 AND id = $2`, "anomaly", id, by, tx.Now, note)
}

// AnomalyDay is up to which day a tenant's costs were looked over; nil: never.
func AnomalyDay(ctx context.Context, tx *Tx) (*time.Time, error) {
	var day *time.Time
	err := tx.pgx.QueryRow(ctx, `SELECT day FROM anomaly_progress WHERE tenant_id = $1`, tx.Tenant).Scan(&day)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("load anomaly progress: %w", err)
	}
	return day, nil
}

// SetAnomalyDay notes it.
func SetAnomalyDay(ctx context.Context, tx *Tx, day time.Time) error {
	_, err := tx.pgx.Exec(ctx, `INSERT INTO anomaly_progress (tenant_id, day) VALUES ($1, $2::timestamptz::date) ON CONFLICT (tenant_id) DO UPDATE SET day = excluded.day`, tx.Tenant, day)
	if err != nil {
		return fmt.Errorf("save anomaly progress: %w", err)
	}
	return nil
}

// ScopeDay is what a scope cost on a UTC day.
type ScopeDay struct {
	Scope  string
	Key    string
	Day    time.Time
	Amount fleet.Money
}

// ScopeDays sums costs per scope and UTC day in [from, to), by scope, key and day: the tenant, its clusters, teams, namespaces and workloads.
// Rows without a team, a namespace or a workload (idle, overhead) are in those of the tenant and the cluster only.
func ScopeDays(ctx context.Context, tx *Tx, from, to time.Time) ([]ScopeDay, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT CASE WHEN grouping(cluster_id) = 0 THEN 'cluster' WHEN grouping(team) = 0 THEN 'team' WHEN grouping(namespace) = 0 THEN 'namespace'
    WHEN grouping(workload_id) = 0 THEN 'workload' ELSE 'tenant' END AS scope,
  coalesce(cluster_id::text, team, namespace, workload_id::text, '') AS key, day, sum(amount_nano)::bigint
FROM cost_day WHERE tenant_id = $1 AND day >= $2::timestamptz::date AND day < $3::timestamptz::date
GROUP BY GROUPING SETS ((day), (day, cluster_id), (day, team), (day, namespace), (day, workload_id))
HAVING NOT (grouping(team) = 0 AND team = '') AND NOT (grouping(namespace) = 0 AND namespace = '')
  AND NOT (grouping(workload_id) = 0 AND workload_id = '00000000-0000-0000-0000-000000000000') ORDER BY 1, 2, 3`, tx.Tenant, from, to)
	if err != nil {
		return nil, fmt.Errorf("load scopes: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ScopeDay])
	if err != nil {
		return nil, fmt.Errorf("load scopes: %w", err)
	}
	return list, nil
}

// ScopeCells are the costs of a scope on some days by workload, resource and purchase: what ledger.Compare takes. Group is the workload's id,
// or the kind of the row where it has none.
func ScopeCells(ctx context.Context, tx *Tx, scope, key string, days []time.Time) ([]ledger.Cell, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT CASE WHEN workload_id = '00000000-0000-0000-0000-000000000000' THEN kind || CASE WHEN namespace = '' THEN '' ELSE ' ' || namespace END ELSE workload_id::text END,
  resource, purchase, sum(amount_nano)::bigint, sum(quantity - unpriced)
FROM cost_day WHERE tenant_id = $1 AND day = ANY ($4::timestamptz[]::date[])
  AND CASE $2 WHEN 'cluster' THEN cluster_id::text = $3 WHEN 'team' THEN team = $3 WHEN 'namespace' THEN namespace = $3 WHEN 'workload' THEN workload_id::text = $3 ELSE true END
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`, tx.Tenant, scope, key, days)
	if err != nil {
		return nil, fmt.Errorf("load contributors: %w", err)
	}
	cells, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c ledger.Cell, err error) {
		return c, row.Scan(&c.Group, &c.Resource, &c.Variant, &c.Amount, &c.Quantity)
	})
	if err != nil {
		return nil, fmt.Errorf("load contributors: %w", err)
	}
	return cells, nil
}

// ActedOn lists the decisions of some workloads that changed replicas in [from, to), newest first.
func ActedOn(ctx context.Context, tx *Tx, workloads []string, from, to time.Time, limit int) ([]AnomalyDecision, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT d.id::text, d.workload_id::text, w.key, d.at, coalesce(d.before_replicas, d.from_replicas), coalesce(d.after_replicas, d.target), d.binding
FROM decision d JOIN workload w ON w.tenant_id = d.tenant_id AND w.id = d.workload_id
WHERE d.tenant_id = $1 AND d.workload_id = ANY ($2::uuid[]) AND d.at >= $3 AND d.at < $4 AND d.state = 'applied' AND d.outcome <> 'hold'
ORDER BY abs(d.target - d.from_replicas) DESC, d.at DESC, d.id LIMIT $5`, tx.Tenant, orEmpty(workloads), from, to, limit)
	if err != nil {
		return nil, fmt.Errorf("load decisions: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AnomalyDecision])
	if err != nil {
		return nil, fmt.Errorf("load decisions: %w", err)
	}
	return list, nil
}

// ScopeSum is what one team, or another scope, cost.
type ScopeSum struct {
	Key    string
	Amount fleet.Money
}

// SpentBetween sums the hours in [from, to), what of it was idle, and the teams, dearest first.
func SpentBetween(ctx context.Context, tx *Tx, from, to time.Time) (total, idle fleet.Money, teams []ScopeSum, err error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT l.team, sum(l.amount_nano)::bigint, coalesce(sum(l.amount_nano) FILTER (WHERE l.kind = 'idle'), 0)::bigint
FROM (SELECT id FROM cluster WHERE tenant_id = $1 UNION ALL SELECT '`+string(NoCluster)+`'::uuid) c
JOIN cost_hour_line l ON l.tenant_id = $1 AND l.cluster_id = c.id AND l.hour >= $2 AND l.hour < $3
GROUP BY l.team ORDER BY 2 DESC, 1`, tx.Tenant, from, to)
	if err != nil {
		return 0, 0, nil, fmt.Errorf("load spend: %w", err)
	}
	var team ScopeSum
	var unused fleet.Money
	_, err = pgx.ForEachRow(rows, []any{&team.Key, &team.Amount, &unused}, func() error {
		total, idle = total.Add(team.Amount), idle.Add(unused)
		if team.Key != "" {
			teams = append(teams, team)
		}
		return nil
	})
	if err != nil {
		return 0, 0, nil, fmt.Errorf("load spend: %w", err)
	}
	return total, idle, teams, nil
}
