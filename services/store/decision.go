package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// DecisionRow is a stored decision without its explanation.
type DecisionRow struct {
	ID           fleet.DecisionID
	PlanID       fleet.PlanID
	Cluster      fleet.ClusterID
	Workload     fleet.WorkloadID
	Key          string
	At           time.Time
	Outcome      string
	From         int
	Needed       int
	Target       int
	Binding      string
	CostDelta    *int64 // nano-units per hour
	State        string
	ExpiresAt    time.Time
	DecidedBy    *string
	DecidedAt    *time.Time
	Before       *int
	After        *int
	ResultCode   *string
	ResultDetail *string
	FinishedAt   *time.Time
}

const decisionColumns = `d.id::text, d.plan_id::text, d.cluster_id::text, d.workload_id::text, w.key, d.at, d.outcome, d.from_replicas, d.needed,
  d.target, d.binding, d.cost_delta_nano, d.state, d.expires_at, d.decided_by, d.decided_at, d.before_replicas, d.after_replicas,
  d.result_code, d.result_detail, d.finished_at`

// DecisionFilter selects decisions; empty fields select all.
type DecisionFilter struct {
	Cluster  fleet.ClusterID
	Workload fleet.WorkloadID
	States   []string
	Outcomes []string
	From, To time.Time // [From, To)
	// After the row with this time and id, in the list's order (newest first).
	AfterAt time.Time
	AfterID fleet.DecisionID
	Limit   int
}

// Decisions lists decisions, newest first.
func Decisions(ctx context.Context, tx *Tx, f DecisionFilter) ([]DecisionRow, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT `+decisionColumns+`
FROM decision d JOIN workload w ON w.tenant_id = d.tenant_id AND w.id = d.workload_id
WHERE d.tenant_id = @tenant
  AND (@cluster = '' OR d.cluster_id = nullif(@cluster, '')::uuid)
  AND (@workload = '' OR d.workload_id = nullif(@workload, '')::uuid)
  AND (cardinality(@states::text[]) = 0 OR d.state = ANY (@states))
  AND (cardinality(@outcomes::text[]) = 0 OR d.outcome = ANY (@outcomes))
  AND (@from::timestamptz IS NULL OR d.at >= @from) AND (@to::timestamptz IS NULL OR d.at < @to)
  AND (@after_at::timestamptz IS NULL OR d.at < @after_at OR (d.at = @after_at AND d.id > nullif(@after_id, '')::uuid))
ORDER BY d.at DESC, d.id LIMIT @limit`, pgx.NamedArgs{
		"tenant": tx.Tenant, "cluster": string(f.Cluster), "workload": string(f.Workload), "states": orEmpty(f.States), "outcomes": orEmpty(f.Outcomes),
		"from": orNull(f.From), "to": orNull(f.To), "after_at": orNull(f.AfterAt), "after_id": string(f.AfterID), "limit": f.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("load decisions: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[DecisionRow])
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// DecisionDetail is a decision with its explanation and its plan.
type DecisionDetail struct {
	DecisionRow
	Detail     json.RawMessage // optimizer.Decision
	Generation int64
	ParentID   *string
	PlanMode   fleet.Mode
	InputHash  []byte
}

// DecisionByID loads one decision with its explanation.
func DecisionByID(ctx context.Context, tx *Tx, id fleet.DecisionID) (DecisionDetail, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT `+decisionColumns+`, d.detail, p.generation, p.parent_id::text, p.mode, p.input_hash
FROM decision d JOIN workload w ON w.tenant_id = d.tenant_id AND w.id = d.workload_id
JOIN plan p ON p.tenant_id = d.tenant_id AND p.id = d.plan_id
WHERE d.tenant_id = $1 AND d.id = $2`, tx.Tenant, id)
	if err != nil {
		return DecisionDetail{}, fmt.Errorf("load decision: %w", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[DecisionDetail])
	if err != nil {
		return d, notFound(err, "decision")
	}
	return d, nil
}

// Resolve approves or rejects a proposal. Approval makes a plan of a new generation, so that the agent gets it as any other.
// A proposal that is no longer open, or expired by now (data time), is a conflict.
func Resolve(ctx context.Context, tx *Tx, id fleet.DecisionID, approve bool, actor, reason string) (DecisionRow, error) {
	d, err := DecisionByID(ctx, tx, id)
	if err != nil {
		return d.DecisionRow, err
	}
	now, err := lockCluster(ctx, tx, d.Cluster)
	if err != nil {
		return d.DecisionRow, err
	}
	state := "rejected"
	if approve {
		state = "approved"
	}
	expires := d.ExpiresAt
	if approve {
		expires = maxTime(expires, now.Add(2*time.Minute)) // the agent needs time to get it
	}
	tag, err := tx.pgx.Exec(ctx, `
UPDATE decision SET state = $3, decided_by = $4, decided_at = $5, result_detail = nullif($6, ''), expires_at = $7,
  finished_at = CASE WHEN $3 = 'rejected' THEN $8::timestamptz END
WHERE tenant_id = $1 AND id = $2 AND state = 'proposed' AND expires_at > $8`, tx.Tenant, id, state, actor, tx.Now, reason, expires, now)
	if err != nil {
		return d.DecisionRow, fmt.Errorf("resolve decision: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return d.DecisionRow, fleet.Errorf(fleet.CodeConflict, "this proposal is not open any more (it is %s)", openState(d.State, d.ExpiresAt, now))
	}
	if approve {
		if err := approvedPlan(ctx, tx, d, now, expires); err != nil {
			return d.DecisionRow, err
		}
	}
	if err := Notify(ctx, tx, EventPlan, d.Cluster, string(id)); err != nil {
		return d.DecisionRow, err
	}
	d, err = DecisionByID(ctx, tx, id)
	return d.DecisionRow, err
}

func openState(state string, expires, now time.Time) string {
	if state == "proposed" && !expires.After(now) {
		return "expired"
	}
	return state
}

// lockCluster takes the planner's lock and returns the cluster's data time.
func lockCluster(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (time.Time, error) {
	var lastSeen, dataAt *time.Time
	var speed float64
	err := tx.pgx.QueryRow(ctx, `SELECT last_seen_at, data_at, clock_speed FROM cluster WHERE tenant_id = $1 AND id = $2 FOR UPDATE`, tx.Tenant, cluster).
		Scan(&lastSeen, &dataAt, &speed)
	if err != nil {
		return time.Time{}, notFound(err, "cluster")
	}
	if lastSeen == nil || dataAt == nil {
		return tx.Now, nil
	}
	return dataNow(tx.Now, *lastSeen, *dataAt, speed), nil
}

// approvedPlan is the child plan that carries an approved proposal: the same input, the next generation.
func approvedPlan(ctx context.Context, tx *Tx, d DecisionDetail, now, expires time.Time) error {
	id := uuid.Must(uuid.NewV7()).String()
	_, err := tx.pgx.Exec(ctx, `
WITH made AS (
  INSERT INTO plan (tenant_id, id, cluster_id, generation, parent_id, at, created_at, expires_at, mode, input_hash, input)
  SELECT c.tenant_id, $3, c.id, c.generation + 1, c.head_plan_id, $5, $6, $7, 'approve', p.input_hash, p.input
  FROM cluster c JOIN plan p ON p.tenant_id = c.tenant_id AND p.id = $4 WHERE c.tenant_id = $1 AND c.id = $2
  RETURNING generation)
UPDATE cluster SET generation = (SELECT generation FROM made), head_plan_id = $3 WHERE tenant_id = $1 AND id = $2`,
		tx.Tenant, d.Cluster, id, d.PlanID, now, tx.Now, expires)
	if err != nil {
		return fmt.Errorf("save approved plan: %w", err)
	}
	return nil
}
