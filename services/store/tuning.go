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

// States of a tuning.
const (
	TuningProposed  = "proposed"  // another setting would be cheaper, or more punctual
	TuningKept      = "kept"      // the one in force is right
	TuningRefused   = "refused"   // nothing can be said: see the reason
	TuningDismissed = "dismissed" // a person does not want it
	TuningFailed    = "failed"
)

const tuningsKept = 30

// TuneTried is how one setting fared over a span.
type TuneTried struct {
	Aim      float64      `json:"aim_share"`
	Paid     float64      `json:"paid_replica_hours"`
	Cost     *fleet.Money `json:"cost_nano,omitempty"`
	Late     float64      `json:"late_ratio"`
	Timeouts float64      `json:"timeout_ratio"`
	OnTime   bool         `json:"on_time"` // late at most as much as a tuned setting may be
}

// TuneSpan is a part of the history.
type TuneSpan struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// TuneResult is what was played.
type TuneResult struct {
	Days      float64     `json:"days"` // of history
	Need      float64     `json:"days_needed"`
	Objective float64     `json:"objective"` // share of requests that may be late
	Limit     float64     `json:"limit"`     // that a tuned setting may have on the days it is chosen by
	Current   float64     `json:"current"`
	Proposed  float64     `json:"proposed,omitzero"`
	Chosen    *TuneSpan   `json:"chosen_on,omitempty"`
	Held      *TuneSpan   `json:"held_out,omitempty"`
	Tried     []TuneTried `json:"tried"`          // on the days it is chosen by
	Out       []TuneTried `json:"held,omitempty"` // on the held-out days: the current one, then the proposed
	Words     string      `json:"words,omitempty"`
}

// Tuning is one night's.
type Tuning struct {
	ID            string
	Workload      fleet.WorkloadID
	At            time.Time // data time
	MadeAt        time.Time // our clock
	PolicyVersion int
	State         string
	Reason        string
	Document      string
	ReplayID      *string
	RolloutID     *string
	Took          time.Duration
	Result        TuneResult
	DismissedBy   string
}

const tuningColumns = `id::text, workload_id::text, at, made_at, policy_version, state, reason, document, replay_id::text, rollout_id::text, took_ms, result, dismissed_by`

func scanTuning(row pgx.CollectableRow) (t Tuning, err error) {
	var result []byte
	err = row.Scan(&t.ID, &t.Workload, &t.At, &t.MadeAt, &t.PolicyVersion, &t.State, &t.Reason, &t.Document, &t.ReplayID, &t.RolloutID, (*millisOf)(&t.Took), &result, &t.DismissedBy)
	if err == nil {
		err = json.Unmarshal(result, &t.Result)
	}
	t.At, t.MadeAt = t.At.UTC(), t.MadeAt.UTC()
	return t, err
}

// Tunings of a workload, newest first.
func Tunings(ctx context.Context, tx *Tx, workload fleet.WorkloadID, limit int) ([]Tuning, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+tuningColumns+` FROM tuning WHERE tenant_id = $1 AND workload_id = $2 ORDER BY id DESC LIMIT $3`, tx.Tenant, workload, limit)
	if err != nil {
		return nil, fmt.Errorf("list tunings: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanTuning)
	if err != nil {
		return nil, fmt.Errorf("list tunings: %w", err)
	}
	return list, nil
}

// SaveTuning keeps a tuning under a new id; an older proposal of the workload that nobody took is one no more.
func SaveTuning(ctx context.Context, tx *Tx, t Tuning) (string, error) {
	result, err := json.Marshal(t.Result)
	if err != nil {
		return "", fmt.Errorf("encode tuning: %w", err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	b := &pgx.Batch{}
	b.Queue(`UPDATE tuning SET state = 'dismissed', dismissed_by = 'a newer tuning' WHERE tenant_id = $1 AND workload_id = $2 AND state = 'proposed'`, tx.Tenant, t.Workload)
	b.Queue(`INSERT INTO tuning (tenant_id, workload_id, id, at, made_at, policy_version, state, reason, document, replay_id, rollout_id, took_ms, result)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`, tx.Tenant, t.Workload, id, t.At, tx.Now, t.PolicyVersion, t.State, t.Reason, t.Document, t.ReplayID, t.RolloutID, t.Took.Milliseconds(), result)
	b.Queue(`DELETE FROM tuning WHERE tenant_id = $1 AND workload_id = $2 AND id IN (
  SELECT id FROM tuning WHERE tenant_id = $1 AND workload_id = $2 ORDER BY id DESC OFFSET $3 LIMIT 1000)`, tx.Tenant, t.Workload, tuningsKept)
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return "", fmt.Errorf("save tuning: %w", err)
	}
	return id, nil
}

// DismissTuning says that nobody wants a proposal. Not found: the workload has no such tuning; conflict: it is no open proposal.
func DismissTuning(ctx context.Context, tx *Tx, workload fleet.WorkloadID, id, by string) error {
	var state string
	err := tx.pgx.QueryRow(ctx, `SELECT state FROM tuning WHERE tenant_id = $1 AND workload_id = $2 AND id = $3 FOR UPDATE`, tx.Tenant, workload, id).Scan(&state)
	if err != nil {
		return notFound(err, "tuning")
	}
	if state != TuningProposed {
		return fleet.Errorf(fleet.CodeConflict, "this tuning proposes nothing any more: it is %s", state)
	}
	if _, err := tx.pgx.Exec(ctx, `UPDATE tuning SET state = 'dismissed', dismissed_by = $4 WHERE tenant_id = $1 AND workload_id = $2 AND id = $3`, tx.Tenant, workload, id, by); err != nil {
		return fmt.Errorf("dismiss tuning: %w", err)
	}
	return nil
}

// TuneDue lists workloads with a policy that were not tuned for so long, those that wait longest first, and of those that never were others every hour. Whether the policy has an slo rule is for the caller to see.
func TuneDue(ctx context.Context, tx *Tx, every time.Duration, limit int) ([]fleet.WorkloadID, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT w.id::text FROM workload w
JOIN LATERAL (SELECT p.document FROM policy p WHERE p.tenant_id = w.tenant_id AND p.workload_id = w.id ORDER BY p.version DESC LIMIT 1) p ON true
LEFT JOIN LATERAL (SELECT max(t.made_at) AS at FROM tuning t WHERE t.tenant_id = w.tenant_id AND t.workload_id = w.id) t ON true
WHERE w.tenant_id = $1 AND w.gone_at IS NULL AND p.document ~ '(^|\n)slo:' AND p.document !~ 'tuning:[ "'']*off' AND (t.at IS NULL OR t.at < $2)
ORDER BY t.at NULLS FIRST, md5(w.id::text || $4) LIMIT $3`, tx.Tenant, tx.Now.Add(-every), limit, tx.Now.UTC().Format("2006010215"))
	if err != nil {
		return nil, fmt.Errorf("list workloads to tune: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[fleet.WorkloadID])
	if err != nil {
		return nil, fmt.Errorf("list workloads to tune: %w", err)
	}
	return ids, nil
}
