package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// SaveOptions for SavePlan.
type SaveOptions struct {
	// History: the plan was made and carried out by a replay; its actions are recorded as applied at the plan's time.
	History bool
}

// SavePlan stores the given decisions of a plan (those that are news) with the input they came from, moves the cluster to the
// plan's generation and supersedes what was still open for the same workloads: an action ends the one before it, a hold ends a
// proposal that nobody approved yet. The caller holds the cluster's row lock.
func SavePlan(ctx context.Context, tx *Tx, plan optimizer.Plan, news []optimizer.Decision, input optimizer.Input, opt SaveOptions) (fleet.PlanID, error) {
	blob, hash, err := encodeInput(input, news)
	if err != nil {
		return "", err
	}
	id := uuid.Must(uuid.NewV7()).String()
	batch := &pgx.Batch{}
	batch.Queue(`
INSERT INTO plan (tenant_id, id, cluster_id, generation, parent_id, at, created_at, expires_at, mode, input_hash, input)
VALUES ($1, $2, $3, $4, nullif($5, '')::uuid, $6, $7, $8, $9, $10, $11)`,
		tx.Tenant, id, plan.Cluster, plan.Generation, string(plan.Parent), plan.At, tx.Now, plan.ExpiresAt, plan.Mode, hash, blob)
	for _, d := range news {
		if err := queueDecision(batch, tx, plan, id, d, opt); err != nil {
			return "", err
		}
	}
	batch.Queue(`UPDATE cluster SET generation = $3, head_plan_id = $4 WHERE tenant_id = $1 AND id = $2 AND generation < $3`,
		tx.Tenant, plan.Cluster, plan.Generation, id)
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		if violates(err, "plan_generation_key") {
			return "", fleet.Errorf(fleet.CodeConflict, "generation %d of this cluster exists", plan.Generation)
		}
		return "", fmt.Errorf("save plan: %w", err)
	}
	return fleet.PlanID(id), nil
}

func queueDecision(batch *pgx.Batch, tx *Tx, plan optimizer.Plan, planID string, d optimizer.Decision, opt SaveOptions) error {
	detail, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode decision: %w", err)
	}
	state := stateOf(d)
	var before, after *int
	var finished *time.Time
	if opt.History && state == "dispatched" {
		state, before, after, finished = "applied", &d.From, &d.Target, &plan.At
	}
	if opt.History && state == "proposed" {
		state = "expired"
	}
	if !opt.History {
		ended := []string{"proposed"}
		if state != "noted" {
			ended = append(ended, "approved", "dispatched")
		}
		batch.Queue(`UPDATE decision SET state = 'superseded', finished_at = $4
			WHERE tenant_id = $1 AND cluster_id = $2 AND workload_id = $3 AND state = ANY ($5)`, tx.Tenant, plan.Cluster, d.Workload, plan.At, ended)
	}
	var delta *int64
	if d.CostDelta != nil {
		n := int64(*d.CostDelta)
		delta = &n
	}
	batch.Queue(`
INSERT INTO decision (tenant_id, id, plan_id, cluster_id, workload_id, at, outcome, from_replicas, needed, target, binding, detail,
  cost_delta_nano, state, expires_at, before_replicas, after_replicas, finished_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
		tx.Tenant, uuid.Must(uuid.NewV7()).String(), planID, plan.Cluster, d.Workload, plan.At, d.Outcome, d.From, d.Needed, d.Target, d.Binding,
		detail, delta, state, d.ExpiresAt, before, after, finished)
	return nil
}

// stateOf: what happens with a decision next. Holds and recommendations are noted; in approve mode a person decides; in
// enforce mode it goes to the agent.
func stateOf(d optimizer.Decision) string {
	switch {
	case d.Outcome == optimizer.OutcomeHold:
		return "noted"
	case d.Mode == fleet.ModeApprove:
		return "proposed"
	case d.Mode == fleet.ModeEnforce:
		return "dispatched"
	}
	return "noted"
}

// SaveMemory keeps what the policies remember.
func SaveMemory(ctx context.Context, tx *Tx, memory map[fleet.WorkloadID]optimizer.Memory) error {
	if len(memory) == 0 {
		return nil
	}
	ids := make([]string, 0, len(memory))
	docs := make([]string, 0, len(memory))
	for id, m := range memory {
		doc, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("encode planner memory: %w", err)
		}
		ids, docs = append(ids, string(id)), append(docs, string(doc))
	}
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO planner_memory (tenant_id, workload_id, memory, updated_at)
SELECT $1, w, m::jsonb, $4 FROM unnest($2::uuid[], $3::text[]) AS u(w, m)
ON CONFLICT (tenant_id, workload_id) DO UPDATE SET memory = excluded.memory, updated_at = excluded.updated_at`,
		tx.Tenant, ids, docs, tx.Now)
	if err != nil {
		return fmt.Errorf("save planner memory: %w", err)
	}
	return nil
}

// ExpireDecisions ends proposals nobody approved and actions the agent never answered, and returns how many there were.
func ExpireDecisions(ctx context.Context, tx *Tx, cluster fleet.ClusterID, now time.Time) (int64, error) {
	tag, err := tx.pgx.Exec(ctx, `UPDATE decision SET state = 'expired', finished_at = $3
		WHERE tenant_id = $1 AND cluster_id = $2 AND state IN ('proposed', 'approved', 'dispatched') AND expires_at <= $3`, tx.Tenant, cluster, now)
	if err != nil {
		return 0, fmt.Errorf("expire decisions: %w", err)
	}
	return tag.RowsAffected(), nil
}

// ExpireSilent does the same for all clusters of the tenant at their estimated data time, for those that report nothing any more.
func ExpireSilent(ctx context.Context, tx *Tx) ([]fleet.DecisionID, error) {
	rows, err := tx.pgx.Query(ctx, `
UPDATE decision d SET state = 'expired', finished_at = d.expires_at FROM cluster c
WHERE d.tenant_id = $1 AND d.state IN ('proposed', 'approved', 'dispatched') AND c.tenant_id = d.tenant_id AND c.id = d.cluster_id
  AND d.expires_at <= c.data_at + greatest($2 - c.last_seen_at, interval '0') * c.clock_speed
RETURNING d.id::text`, tx.Tenant, tx.Now)
	if err != nil {
		return nil, fmt.Errorf("expire decisions: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[fleet.DecisionID])
	if err != nil {
		return nil, fmt.Errorf("expire decisions: %w", err)
	}
	return ids, nil
}

// PendingPlan is what the agent of the cluster shall carry out now: the newest generation with every action that is on its way,
// as far as the cluster's mode still allows it, its time is not over, and it was decided under the policy in force. The plan
// lives as long as its shortest-lived action. What Karpenter is to be told comes with it. nil when there is none.
func PendingPlan(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (*agentv1.Plan, error) {
	ordered, err := hasKarpenterOrder(ctx, tx, cluster)
	if err != nil {
		return nil, err
	}
	p, err := pendingReplicas(ctx, tx, cluster)
	if err != nil || !ordered {
		return p, err
	}
	return withKarpenterOrder(ctx, tx, cluster, p)
}

func pendingReplicas(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (*agentv1.Plan, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT c.last_seen_at, c.data_at, c.clock_speed, c.head_plan_id::text, c.generation, h.at, coalesce(h.parent_id::text, ''),
  d.id::text, w.key, d.from_replicas, d.target, d.binding, d.expires_at, (d.detail->>'min')::int, (d.detail->>'max')::int
FROM cluster c
JOIN plan h ON h.tenant_id = c.tenant_id AND h.id = c.head_plan_id
JOIN decision d ON d.tenant_id = c.tenant_id AND d.cluster_id = c.id AND (d.state, c.mode) IN (('approved', 'approve'), ('approved', 'enforce'), ('dispatched', 'enforce'))
JOIN workload w ON w.tenant_id = d.tenant_id AND w.id = d.workload_id AND w.gone_at IS NULL
WHERE c.tenant_id = $1 AND c.id = $2 AND NOT c.frozen AND c.last_seen_at IS NOT NULL AND c.data_at IS NOT NULL
  AND (d.detail->>'policy_version')::int = (SELECT max(version) FROM policy p WHERE p.tenant_id = $1 AND p.workload_id = d.workload_id)
ORDER BY w.key`, tx.Tenant, cluster)
	if err != nil {
		return nil, fmt.Errorf("load pending plan: %w", err)
	}
	defer rows.Close()
	var p *agentv1.Plan
	for rows.Next() {
		var head, parent, binding string
		var generation int64
		var lastSeen, dataAt, at, expires time.Time
		var speed float64
		a := &agentv1.Action{}
		if err := rows.Scan(&lastSeen, &dataAt, &speed, &head, &generation, &at, &parent,
			&a.ActionId, &a.Workload, &a.From, &a.To, &binding, &expires, &a.Min, &a.Max); err != nil {
			return nil, fmt.Errorf("read pending plan: %w", err)
		}
		if !expires.After(dataNow(tx.Now, lastSeen, dataAt, speed)) {
			continue
		}
		if p == nil {
			p = &agentv1.Plan{PlanId: head, ParentId: parent, Generation: uint64(generation), CreatedMs: at.UnixMilli(), ExpiresMs: expires.UnixMilli()} //nolint:gosec // never negative
		}
		p.ExpiresMs = min(p.ExpiresMs, expires.UnixMilli())
		a.Reasons = []string{binding}
		p.Actions = append(p.Actions, a)
	}
	return p, rows.Err()
}

// ActionResult is what the agent says became of an action.
type ActionResult struct {
	Decision   fleet.DecisionID // pool/name or overlay/name: an object of Karpenter
	Outcome    string           // applied, already, refused, failed
	Before     int
	After      int
	Generation int64
	Code       string
	Detail     string
	BeforeSpec string // of an object of Karpenter: JSON of the fields in question; empty: there was nothing
	AfterSpec  string
	Writers    []string // of a conflict over its fields; ours is the last
	At         time.Time
}

// ApplyResults records what the agent did. A result for a decision that has one already, that nobody let out, or of another cluster
// changes nothing: results may come twice. One that comes after the decision expired or was superseded is still what happened. It
// returns the decisions that changed.
func ApplyResults(ctx context.Context, tx *Tx, cluster fleet.ClusterID, results []ActionResult) ([]fleet.DecisionID, error) {
	var changed []fleet.DecisionID
	for _, r := range results {
		state := map[string]string{"applied": "applied", "already": "applied", "refused": "refused", "failed": "failed"}[r.Outcome]
		if state == "" || uuid.Validate(string(r.Decision)) != nil {
			continue // from a newer or broken agent; the ingest counts it
		}
		tag, err := tx.pgx.Exec(ctx, `
UPDATE decision SET state = $4, before_replicas = $5, after_replicas = $6, result_code = nullif($7, ''), result_detail = nullif($8, ''), finished_at = $9
WHERE tenant_id = $1 AND cluster_id = $2 AND id = $3 AND (state IN ('approved', 'dispatched')
  OR (state IN ('expired', 'superseded') AND after_replicas IS NULL AND (decided_at IS NOT NULL OR detail->>'mode' = 'enforce')))`,
			tx.Tenant, cluster, r.Decision, state, r.Before, r.After, r.Code, r.Detail, r.At)
		if err != nil {
			return nil, fmt.Errorf("record action result: %w", err)
		}
		if tag.RowsAffected() == 1 {
			changed = append(changed, r.Decision)
		}
		if state == "applied" && r.Generation > 0 {
			if _, err := tx.pgx.Exec(ctx, `UPDATE cluster SET applied_generation = $3 WHERE tenant_id = $1 AND id = $2 AND applied_generation < $3`,
				tx.Tenant, cluster, r.Generation); err != nil {
				return nil, fmt.Errorf("record applied generation: %w", err)
			}
		}
	}
	return changed, nil
}

// Encoders and decoders are costly to make and safe to share; both work on whole buffers here.
var (
	inputEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
		if err != nil {
			panic(err) // only for options that contradict each other
		}
		return e
	})
	inputDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// encodeInput packs what Decide saw of the given decisions' workloads, so that each can be computed again.
func encodeInput(in optimizer.Input, news []optimizer.Decision) (blob, hash []byte, err error) {
	part := optimizer.Input{Snapshot: in.Snapshot, Policies: map[fleet.WorkloadID]optimizer.Binding{}, Memory: map[fleet.WorkloadID]optimizer.Memory{}}
	part.Snapshot.Workloads = nil
	var keep map[fleet.WorkloadID]bool
	keep, part.Budgets = in.Needs(news)
	for id := range keep {
		if p, ok := in.Policies[id]; ok {
			part.Policies[id] = p
		}
		if m, ok := in.Memory[id]; ok {
			part.Memory[id] = m
		}
		if f, ok := in.Forecasts[id]; ok {
			if part.Forecasts == nil {
				part.Forecasts = map[fleet.WorkloadID]optimizer.Forecast{}
			}
			part.Forecasts[id] = f
		}
	}
	for _, w := range in.Snapshot.Workloads {
		if keep[w.Workload.ID] {
			part.Snapshot.Workloads = append(part.Snapshot.Workloads, w)
		}
	}
	doc, err := json.Marshal(part)
	if err != nil {
		return nil, nil, fmt.Errorf("encode plan input: %w", err)
	}
	sum := sha256.Sum256(doc)
	return inputEncoder().EncodeAll(doc, nil), sum[:], nil
}

// PlanInputOf reads back what a stored plan was decided from and checks it against its hash.
func PlanInputOf(ctx context.Context, tx *Tx, plan fleet.PlanID) (optimizer.Input, error) {
	var blob, hash []byte
	var in optimizer.Input
	if err := tx.pgx.QueryRow(ctx, `SELECT input, input_hash FROM plan WHERE tenant_id = $1 AND id = $2`, tx.Tenant, plan).Scan(&blob, &hash); err != nil {
		return in, notFound(err, "plan")
	}
	doc, err := inputDecoder().DecodeAll(blob, nil)
	if err != nil {
		return in, fmt.Errorf("unpack plan input: %w", err)
	}
	if sum := sha256.Sum256(doc); !bytes.Equal(sum[:], hash) {
		return in, fmt.Errorf("plan %s: stored input does not match its hash", plan)
	}
	if err := json.Unmarshal(doc, &in); err != nil {
		return in, fmt.Errorf("read plan input: %w", err)
	}
	return in, nil
}
