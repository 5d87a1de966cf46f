package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// States of a rollout.
const (
	RolloutShadow     = "shadow"
	RolloutCanary     = "canary"
	RolloutEnforce    = "enforce"
	RolloutDone       = "done"
	RolledBack        = "rolled_back"
	RolloutCancelled  = "cancelled"
	RolloutSuperseded = "superseded"
)

// ShadowCount is what a policy decided beside the one in force, over the shadow stage.
type ShadowCount struct {
	Decisions  int     `json:"decisions"`
	Same       int     `json:"same"`  // the same count as the policy in force
	More       int     `json:"more"`  // more replicas than it
	Fewer      int     `json:"fewer"` // fewer
	Blind      int     `json:"blind"` // of them without a forecast, that an slo rule must learn first
	Ratio      float64 `json:"ratio"` // mean of its replicas over those of the policy in force
	LastTarget int     `json:"last_target"`
	LastForce  int     `json:"last_in_force"`
	LastReason string  `json:"last_reason"`
}

// Rollout is a staged rollout of a policy to one workload.
type Rollout struct {
	ID            string
	Workload      fleet.WorkloadID
	Cluster       fleet.ClusterID
	Document      string
	BaseVersion   int
	Version       *int
	State         string
	ShadowSeconds int
	CanarySeconds int
	CanaryShare   float32
	CanaryFloor   *int
	ReplayID      *string
	Reason        string
	CreatedBy     string
	CreatedAt     time.Time
	StageAt       time.Time
	BeforeLate    *float32
	BeforeError   *float32
	AfterLate     *float32
	AfterError    *float32
	Shadow        ShadowCount
	Memory        *optimizer.Memory
	Outcome       string
	FinishedAt    *time.Time
}

// Open says that the rollout is under way.
func (r *Rollout) Open() bool {
	return r.State == RolloutShadow || r.State == RolloutCanary || r.State == RolloutEnforce
}

const rolloutColumns = `id::text, workload_id::text, cluster_id::text, document, base_version, version, state, shadow_seconds, canary_seconds, canary_share, canary_floor,
  replay_id::text, reason, created_by, created_at, stage_at, before_late, before_error, after_late, after_error, shadow, memory, outcome, finished_at`

func scanRollout(row pgx.CollectableRow) (Rollout, error) {
	var r Rollout
	var shadow, memory []byte
	err := row.Scan(&r.ID, &r.Workload, &r.Cluster, &r.Document, &r.BaseVersion, &r.Version, &r.State, &r.ShadowSeconds, &r.CanarySeconds, &r.CanaryShare, &r.CanaryFloor,
		&r.ReplayID, &r.Reason, &r.CreatedBy, &r.CreatedAt, &r.StageAt, &r.BeforeLate, &r.BeforeError, &r.AfterLate, &r.AfterError, &shadow, &memory, &r.Outcome, &r.FinishedAt)
	if err == nil {
		err = json.Unmarshal(shadow, &r.Shadow)
	}
	if err == nil && len(memory) > 0 {
		r.Memory = &optimizer.Memory{}
		err = json.Unmarshal(memory, r.Memory)
	}
	return r, err
}

// CreateRollout begins a rollout in its shadow stage at the given data time. One that is under way already is a conflict.
func CreateRollout(ctx context.Context, tx *Tx, r Rollout) (string, error) {
	id := uuid.Must(uuid.NewV7()).String()
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO policy_rollout (tenant_id, id, workload_id, cluster_id, document, base_version, state, shadow_seconds, canary_seconds, canary_share, replay_id, reason, created_by, created_at, stage_at)
VALUES ($1, $2, $3, $4, $5, $6, 'shadow', $7, $8, $9, $10, $11, $12, $13, $14)`,
		tx.Tenant, id, r.Workload, r.Cluster, r.Document, r.BaseVersion, r.ShadowSeconds, r.CanarySeconds, r.CanaryShare, r.ReplayID, r.Reason, r.CreatedBy, tx.Now, r.StageAt)
	if violates(err, "policy_rollout_open") {
		return "", fleet.Errorf(fleet.CodeConflict, "a rollout to this workload is under way; end it first")
	}
	if err != nil {
		return "", fmt.Errorf("create rollout: %w", err)
	}
	return id, nil
}

// Rollouts of a workload, newest first.
func Rollouts(ctx context.Context, tx *Tx, workload fleet.WorkloadID, limit int) ([]Rollout, error) {
	return rollouts(ctx, tx, `workload_id = $2 ORDER BY created_at DESC LIMIT $3`, workload, limit)
}

// OpenRollouts of a cluster's workloads.
func OpenRollouts(ctx context.Context, tx *Tx, cluster fleet.ClusterID) ([]Rollout, error) {
	return rollouts(ctx, tx, `cluster_id = $2 AND state IN ('shadow', 'canary', 'enforce') ORDER BY id FOR UPDATE`, cluster)
}

// RolloutOf loads a rollout and keeps others from moving it.
func RolloutOf(ctx context.Context, tx *Tx, id string) (Rollout, error) {
	found, err := rollouts(ctx, tx, `id = $2 FOR UPDATE`, id)
	if err == nil && len(found) == 0 {
		return Rollout{}, fleet.Errorf(fleet.CodeNotFound, "no such rollout")
	}
	if err != nil {
		return Rollout{}, err
	}
	return found[0], nil
}

func rollouts(ctx context.Context, tx *Tx, where string, args ...any) ([]Rollout, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+rolloutColumns+` FROM policy_rollout WHERE tenant_id = $1 AND `+where, append([]any{tx.Tenant}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("load rollouts: %w", err)
	}
	out, err := pgx.CollectRows(rows, scanRollout)
	if err != nil {
		return nil, fmt.Errorf("load rollouts: %w", err)
	}
	return out, nil
}

// SaveRollout keeps where a rollout stands. The caller has it locked.
func SaveRollout(ctx context.Context, tx *Tx, r *Rollout) error {
	shadow, err := json.Marshal(r.Shadow)
	if err != nil {
		return fmt.Errorf("encode rollout: %w", err)
	}
	var memory []byte
	if r.Memory != nil {
		if memory, err = json.Marshal(r.Memory); err != nil {
			return fmt.Errorf("encode rollout: %w", err)
		}
	}
	if !r.Open() && r.FinishedAt == nil {
		r.FinishedAt = &tx.Now
	}
	_, err = tx.pgx.Exec(ctx, `UPDATE policy_rollout SET version = $3, state = $4, canary_floor = $5, stage_at = $6, before_late = $7, before_error = $8, after_late = $9,
  after_error = $10, shadow = $11, memory = $12, outcome = $13, finished_at = $14 WHERE tenant_id = $1 AND id = $2`,
		tx.Tenant, r.ID, r.Version, r.State, r.CanaryFloor, r.StageAt, r.BeforeLate, r.BeforeError, r.AfterLate, r.AfterError, shadow, memory, r.Outcome, r.FinishedAt)
	if err != nil {
		return fmt.Errorf("save rollout: %w", err)
	}
	return nil
}

// WatchedRatios are the means of late and failed requests of a workload in [from, to), by minutes weighted by their requests; nil: nobody said.
// minutes counts those in which either was said.
func WatchedRatios(ctx context.Context, tx *Tx, workload fleet.WorkloadID, from, to time.Time) (late, failed *float32, minutes int, err error) {
	err = tx.pgx.QueryRow(ctx, `
SELECT (sum(late_ratio * w) FILTER (WHERE late_ratio IS NOT NULL) / nullif(sum(w) FILTER (WHERE late_ratio IS NOT NULL), 0))::real,
  (sum(error_ratio * w) FILTER (WHERE error_ratio IS NOT NULL) / nullif(sum(w) FILTER (WHERE error_ratio IS NOT NULL), 0))::real,
  count(*) FILTER (WHERE late_ratio IS NOT NULL OR error_ratio IS NOT NULL)
FROM (SELECT late_ratio, error_ratio, greatest(coalesce(request_rate, 1), 1e-6) AS w FROM rollup_1m
  WHERE tenant_id = $1 AND workload_id = $2 AND at >= $3 AND at < $4) AS m`, tx.Tenant, workload, from, to).Scan(&late, &failed, &minutes)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read late and failed requests: %w", err)
	}
	return late, failed, minutes, nil
}

// PolicyDocument is a version's document.
func PolicyDocument(ctx context.Context, tx *Tx, workload fleet.WorkloadID, version int) (PolicyVersion, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT workload_id::text, version, document, mode, created_by, created_at FROM policy
		WHERE tenant_id = $1 AND workload_id = $2 AND version = $3`, tx.Tenant, workload, version)
	if err != nil {
		return PolicyVersion{}, fmt.Errorf("load policy: %w", err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[PolicyVersion])
	if err != nil {
		return PolicyVersion{}, notFound(err, "policy version")
	}
	return v, nil
}
