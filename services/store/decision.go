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
	Capped   bool      // besides Outcomes, holds at the policy's max
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
  AND (cardinality(@outcomes::text[]) = 0 OR d.outcome = ANY (@outcomes) OR (@capped AND d.outcome = 'hold' AND d.binding = 'max_replicas'))
  AND (@from::timestamptz IS NULL OR d.at >= @from) AND (@to::timestamptz IS NULL OR d.at < @to)
  AND (@after_at::timestamptz IS NULL OR d.at < @after_at OR (d.at = @after_at AND d.id > nullif(@after_id, '')::uuid))
ORDER BY d.at DESC, d.id LIMIT @limit`, pgx.NamedArgs{
		"tenant": tx.Tenant, "cluster": string(f.Cluster), "workload": string(f.Workload), "states": orEmpty(f.States), "outcomes": orEmpty(f.Outcomes), "capped": f.Capped,
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
// A proposal that is no longer open, or expired by now (data time), is a conflict; so is approving what the cluster's mode, a
// freeze or a newer policy does not allow any more.
func Resolve(ctx context.Context, tx *Tx, id fleet.DecisionID, approve bool, actor, reason string) (DecisionRow, error) {
	d, err := DecisionByID(ctx, tx, id)
	if err != nil {
		return d.DecisionRow, err
	}
	c, err := lockForApproval(ctx, tx, d.Cluster, d.Workload)
	if err != nil {
		return d.DecisionRow, err
	}
	if d, err = DecisionByID(ctx, tx, id); err != nil { // as it is now that nobody else can change it
		return d.DecisionRow, err
	}
	if d.State != "proposed" || !d.ExpiresAt.After(c.now) {
		return d.DecisionRow, fleet.Errorf(fleet.CodeConflict, "this proposal is not open any more (it is %s)", openState(d.State, d.ExpiresAt, c.now))
	}
	state, expires := "rejected", d.ExpiresAt
	if approve {
		if err := c.allows(d); err != nil {
			return d.DecisionRow, err
		}
		state, expires = "approved", maxTime(d.ExpiresAt, c.now.Add(2*time.Minute)) // the agent needs time to get it
	}
	tag, err := tx.pgx.Exec(ctx, `
UPDATE decision SET state = $3, decided_by = $4, decided_at = $5, result_detail = nullif($6, ''), expires_at = $7,
  finished_at = CASE WHEN $3 = 'rejected' THEN $8::timestamptz END
WHERE tenant_id = $1 AND id = $2 AND state = 'proposed'`, tx.Tenant, id, state, actor, tx.Now, reason, expires, c.now)
	if err != nil {
		return d.DecisionRow, fmt.Errorf("resolve decision: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return d.DecisionRow, fleet.Errorf(fleet.CodeConflict, "this proposal is not open any more")
	}
	if approve {
		if err := approvedPlan(ctx, tx, d, c, expires); err != nil {
			return d.DecisionRow, err
		}
	}
	if err := Notify(ctx, tx, EventDecision, d.Cluster, string(id)); err != nil {
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

// approval is what a proposal is held against.
type approval struct {
	now        time.Time // data time of the cluster
	mode       fleet.Mode
	frozen     bool
	generation int64
	head       *string
	policy     int // version in force
}

// lockForApproval takes the planner's lock.
func lockForApproval(ctx context.Context, tx *Tx, cluster fleet.ClusterID, workload fleet.WorkloadID) (approval, error) {
	var lastSeen, dataAt *time.Time
	var speed float64
	a := approval{now: tx.Now}
	err := tx.pgx.QueryRow(ctx, `
SELECT last_seen_at, data_at, clock_speed, mode, frozen, generation, head_plan_id::text FROM cluster WHERE tenant_id = $1 AND id = $2 FOR UPDATE`, tx.Tenant, cluster).
		Scan(&lastSeen, &dataAt, &speed, &a.mode, &a.frozen, &a.generation, &a.head)
	if err != nil {
		return a, notFound(err, "cluster")
	}
	if err := tx.pgx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM policy WHERE tenant_id = $1 AND workload_id = $2`, tx.Tenant, workload).Scan(&a.policy); err != nil {
		return a, fmt.Errorf("load policy version: %w", err)
	}
	if lastSeen != nil && dataAt != nil {
		a.now = dataNow(tx.Now, *lastSeen, *dataAt, speed)
	}
	return a, nil
}

// allows says why a proposal may not be approved now; nil when it may.
func (a approval) allows(d DecisionDetail) error {
	var detail struct {
		Policy int `json:"policy_version"`
	}
	if err := json.Unmarshal(d.Detail, &detail); err != nil {
		return fmt.Errorf("read decision: %w", err)
	}
	switch {
	case a.frozen:
		return fleet.Errorf(fleet.CodeConflict, "the cluster is frozen; nothing may change there")
	case a.mode.Rank() < fleet.ModeApprove.Rank():
		return fleet.Errorf(fleet.CodeConflict, "the cluster is in %s mode by now; nothing may change there", a.mode)
	case a.policy != detail.Policy:
		return fleet.Errorf(fleet.CodeConflict, "the policy was changed since this was proposed; wait for the next decision")
	}
	return nil
}

// approvedPlan is the child plan that carries an approved proposal: the same input, the next generation. The agent is told.
func approvedPlan(ctx context.Context, tx *Tx, d DecisionDetail, c approval, expires time.Time) error {
	id := uuid.Must(uuid.NewV7()).String()
	batch := &pgx.Batch{}
	batch.Queue(`
INSERT INTO plan (tenant_id, id, cluster_id, generation, parent_id, at, created_at, expires_at, mode, input_hash, input)
SELECT p.tenant_id, $3, p.cluster_id, $4, $5, $6, $7, $8, 'approve', p.input_hash, p.input FROM plan p WHERE p.tenant_id = $1 AND p.id = $2`,
		tx.Tenant, d.PlanID, id, c.generation+1, c.head, c.now, tx.Now, expires)
	batch.Queue(`UPDATE cluster SET generation = $3, head_plan_id = $4 WHERE tenant_id = $1 AND id = $2`, tx.Tenant, d.Cluster, c.generation+1, id)
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("save approved plan: %w", err)
	}
	return Notify(ctx, tx, EventPlan, d.Cluster, id)
}
