package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// Bounds of replays per tenant.
const (
	MaxOpenReplays = 2   // queued or running at once
	maxKeptReplays = 200 // the oldest go when there are more
)

// States of a replay.
const (
	ReplayQueued    = "queued"
	ReplayRunning   = "running"
	ReplayDone      = "done"
	ReplayFailed    = "failed"
	ReplayCancelled = "cancelled"
)

// ReplayOptions are what a replay was asked to do beside its policy and window.
type ReplayOptions struct {
	Baselines          []string `json:"baselines"`
	RequestsPerReplica float64  `json:"requests_per_replica"` // 0: as the policy says
	StartSeconds       int      `json:"start_seconds"`        // 0: as the policy says, or as measured
}

// Replay is one replay of a policy on a workload's history.
type Replay struct {
	ID             string
	Workload       fleet.WorkloadID
	WorkloadKey    string
	Cluster        fleet.ClusterID
	Document       string
	CurrentVersion int
	From, To       time.Time
	Options        ReplayOptions
	State          string
	Progress       float32
	Step           string
	CreatedBy      string
	CreatedAt      time.Time
	StartedAt      *time.Time
	FinishedAt     *time.Time
	Problem        string
	Usable         bool
	Result         json.RawMessage // nil in lists, and until it is done
}

// CreateReplay queues a replay. More than MaxOpenReplays at once are refused.
func CreateReplay(ctx context.Context, tx *Tx, r Replay) (string, error) {
	var open int
	if _, err := tx.pgx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('replay:' || $1::text, 0))`, tx.Tenant); err != nil {
		return "", fmt.Errorf("lock replays: %w", err)
	}
	if err := tx.pgx.QueryRow(ctx, `SELECT count(*) FROM replay WHERE tenant_id = $1 AND state IN ('queued', 'running')`, tx.Tenant).Scan(&open); err != nil {
		return "", fmt.Errorf("count replays: %w", err)
	}
	if open >= MaxOpenReplays {
		return "", fleet.Errorf(fleet.CodeRateLimited, "%d replays are queued or running; at most %d at once", open, MaxOpenReplays)
	}
	options, err := json.Marshal(r.Options)
	if err != nil {
		return "", fmt.Errorf("encode replay: %w", err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	hash := sha256.Sum256([]byte(r.Document))
	if _, err := tx.pgx.Exec(ctx, `
INSERT INTO replay (tenant_id, id, workload_id, document, document_hash, current_version, from_at, to_at, options, state, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'queued', $10, $11)`,
		tx.Tenant, id, r.Workload, r.Document, hash[:], r.CurrentVersion, r.From, r.To, options, r.CreatedBy, tx.Now); err != nil {
		return "", fmt.Errorf("create replay: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, `DELETE FROM replay WHERE tenant_id = $1 AND state NOT IN ('queued', 'running') AND id IN (
		SELECT id FROM replay WHERE tenant_id = $1 ORDER BY created_at DESC, id DESC OFFSET $2)`, tx.Tenant, maxKeptReplays)
	if err != nil {
		return "", fmt.Errorf("prune replays: %w", err)
	}
	return id, nil
}

const replayColumns = `r.id::text, r.workload_id::text, w.key, w.cluster_id::text, r.document, r.current_version, r.from_at, r.to_at, r.options, r.state, r.progress, r.step,
  r.created_by, r.created_at, r.started_at, r.finished_at, r.problem, r.usable`

func scanReplay(row pgx.CollectableRow) (Replay, error) {
	var r Replay
	var options []byte
	err := row.Scan(&r.ID, &r.Workload, &r.WorkloadKey, &r.Cluster, &r.Document, &r.CurrentVersion, &r.From, &r.To, &options, &r.State, &r.Progress, &r.Step,
		&r.CreatedBy, &r.CreatedAt, &r.StartedAt, &r.FinishedAt, &r.Problem, &r.Usable, &r.Result)
	if err == nil {
		err = json.Unmarshal(options, &r.Options)
	}
	return r, err
}

// ReplayCursor is where a page of replays begins: after this one.
type ReplayCursor struct {
	At time.Time `json:"t"`
	ID string    `json:"i"`
}

// Replays lists replays, newest first, without their results. workload and after may be empty.
func Replays(ctx context.Context, tx *Tx, workload fleet.WorkloadID, after ReplayCursor, limit int) ([]Replay, error) {
	var at *time.Time
	if after.ID != "" {
		at = &after.At
	}
	rows, err := tx.pgx.Query(ctx, `SELECT `+replayColumns+`, NULL::jsonb FROM replay r JOIN workload w ON w.tenant_id = r.tenant_id AND w.id = r.workload_id
WHERE r.tenant_id = $1 AND ($2 = '' OR r.workload_id = nullif($2, '')::uuid)
  AND ($3::timestamptz IS NULL OR (r.created_at, r.id) < ($3, nullif($4, '')::uuid))
ORDER BY r.created_at DESC, r.id DESC LIMIT $5`, tx.Tenant, string(workload), at, after.ID, limit)
	if err != nil {
		return nil, fmt.Errorf("list replays: %w", err)
	}
	return pgx.CollectRows(rows, scanReplay)
}

// ReplayOf loads a replay with its result.
func ReplayOf(ctx context.Context, tx *Tx, id string) (Replay, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+replayColumns+`, r.result FROM replay r JOIN workload w ON w.tenant_id = r.tenant_id AND w.id = r.workload_id
WHERE r.tenant_id = $1 AND r.id = $2`, tx.Tenant, id)
	if err != nil {
		return Replay{}, fmt.Errorf("load replay: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanReplay)
	if err != nil {
		return Replay{}, notFound(err, "replay")
	}
	return r, nil
}

// StepReplay notes how far a replay is; false: it was cancelled, or is over, and nobody wants it any more.
func StepReplay(ctx context.Context, tx *Tx, id string, progress float64, step string) (bool, error) {
	tag, err := tx.pgx.Exec(ctx, `UPDATE replay SET state = 'running', progress = $3, step = $4, started_at = coalesce(started_at, $5)
		WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running')`, tx.Tenant, id, progress, step, tx.Now)
	if err != nil {
		return false, fmt.Errorf("note replay: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// FinishReplay stores what was found, or why nothing was. One that is over already stays as it is.
func FinishReplay(ctx context.Context, tx *Tx, id string, result any, usable bool, problem string) error {
	state, doc := ReplayDone, []byte(nil)
	if problem != "" {
		state = ReplayFailed
	} else {
		var err error
		if doc, err = json.Marshal(result); err != nil {
			return fmt.Errorf("encode replay: %w", err)
		}
	}
	_, err := tx.pgx.Exec(ctx, `UPDATE replay SET state = $3, progress = 1, step = '', result = $4, usable = $5, problem = $6, finished_at = $7
		WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running')`, tx.Tenant, id, state, doc, usable && problem == "", problem, tx.Now)
	if err != nil {
		return fmt.Errorf("finish replay: %w", err)
	}
	return nil
}

// CancelReplay ends a replay that is not over; false: it was over already.
func CancelReplay(ctx context.Context, tx *Tx, id string) (bool, error) {
	tag, err := tx.pgx.Exec(ctx, `UPDATE replay SET state = 'cancelled', finished_at = $3 WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running')`,
		tx.Tenant, id, tx.Now)
	if err != nil {
		return false, fmt.Errorf("cancel replay: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// replayCounts is how long a finished replay lets its document be enforced.
const replayCounts = 30 * 24 * time.Hour

// Replayed returns the newest finished replay of this very document on the workload's history in which it could be played; empty: there is
// none within 30 days.
func Replayed(ctx context.Context, tx *Tx, workload fleet.WorkloadID, document string) (string, error) {
	hash := sha256.Sum256([]byte(document))
	var id string
	err := tx.pgx.QueryRow(ctx, `SELECT coalesce((SELECT id::text FROM replay WHERE tenant_id = $1 AND workload_id = $2 AND document_hash = $3 AND usable AND finished_at > $4
		ORDER BY finished_at DESC LIMIT 1), '')`, tx.Tenant, workload, hash[:], tx.Now.Add(-replayCounts)).Scan(&id)
	if err != nil {
		return "", fmt.Errorf("look for a replay: %w", err)
	}
	return id, nil
}
