package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// noPlaceholder leaves out the pods that keep room ready: a label alone does not make one, or a pod could hide what it holds.
const noPlaceholder = `coalesce(p.workload_key <> p.namespace || '/Deployment/plimsoll-warm-' || (p.labels ->> '` + capacity.LabelWarm + `'), true)`

const (
	growthDays   = 7
	maxGrowthSet = 50_000 // pods

	// CapabilityDrain is how an agent says that it lets machines go gently; CapabilityWarm, that it keeps room ready.
	CapabilityDrain, CapabilityWarm = "drain", "warm"

	maxCheckpointTook = 7 * 24 * int64(time.Hour/time.Millisecond)
)

var (
	checkpointCauses   = []string{"interruption", "rebalance", "consolidation", "plan"}
	checkpointOutcomes = []string{"done", "late", "failed", "refused"}
)

// checkCheckpoint looks at what an event says about a pod that was told to save its work. Causes and outcomes that nobody knows are left out later.
func (s *Source) checkCheckpoint(now time.Time, c *agentv1.Checkpoint) error {
	if c == nil {
		return nil
	}
	if err := s.checkTime(now, c.GetAtMs()); err != nil {
		return err
	}
	if c.GetId() == "" || len(c.GetId()) > 64 || c.GetPod() == "" || c.GetNode() == "" || c.GetTookMs() < 0 || c.GetTookMs() > maxCheckpointTook || c.GetTries() < 0 {
		return bad("a checkpoint has no id, pod or node, or a time that cannot be right")
	}
	if err := checkTexts(nil, c.GetId(), c.GetPod(), c.GetPodUid(), c.GetWorkload(), c.GetNode(), c.GetCause(), c.GetOutcome()); err != nil {
		return err
	}
	if !cleanText(c.GetDetail()) {
		return bad("a checkpoint is not text")
	}
	return nil
}

// queueCheckpoints keeps who was told to save its work. The same id twice is the same: what came last counts.
func (s *Source) queueCheckpoints(b *pgx.Batch, tx *Tx, list *agentv1.Events) {
	var all []*agentv1.Checkpoint
	for _, e := range list.GetEvents() {
		if c := e.GetCheckpoint(); c != nil && slices.Contains(checkpointCauses, c.GetCause()) && slices.Contains(checkpointOutcomes, c.GetOutcome()) {
			all = append(all, c)
		}
	}
	rows := make([][]any, 0, len(all))
	for _, c := range unique(all, (*agentv1.Checkpoint).GetId) {
		rows = append(rows, []any{tx.Tenant, s.Cluster, c.GetId(), millis(c.GetAtMs()), c.GetPod(), c.GetPodUid(), c.GetWorkload(), c.GetNode(), c.GetCause(), c.GetOutcome(), c.GetTookMs(), c.GetTries(), cut(c.GetDetail(), maxMessage)})
	}
	queueRows(b, "INSERT INTO checkpoint_call (tenant_id, cluster_id, id, at, pod, pod_uid, workload_key, node, cause, outcome, took_ms, tries, detail)",
		" ON CONFLICT (tenant_id, cluster_id, id) DO UPDATE SET outcome = excluded.outcome, took_ms = excluded.took_ms, tries = excluded.tries, detail = excluded.detail", rows)
}

// drainEnd is how a drain ended, as the agent tells after its first answer.
type drainEnd struct {
	Action     string
	Generation int64
	Outcome    string // applied, failed
	Code       string
	Detail     string
	Told       []map[string]any
	At         time.Time
}

// drainEnds are the ends among results: those of drains without a state after, since a begun one tells its drain there.
func drainEnds(list *agentv1.ActionResults, results []ActionResult) (out []drainEnd) {
	for i, r := range list.GetResults() {
		if !strings.HasPrefix(r.GetActionId(), "drain/") || r.GetAfterSpec() != "" || r.GetOutcome() != "applied" && r.GetOutcome() != "failed" {
			continue
		}
		e := drainEnd{Action: r.GetActionId(), Generation: results[i].Generation, Outcome: r.GetOutcome(), Code: results[i].Code, Detail: results[i].Detail, At: results[i].At}
		for _, c := range r.GetCheckpoints()[:min(len(r.GetCheckpoints()), 200)] {
			if cleanText(c.GetPod()+c.GetOutcome()+c.GetDetail()+c.GetId()) && len(c.GetPod()) <= 512 && len(c.GetId()) <= 64 {
				e.Told = append(e.Told, map[string]any{"pod": c.GetPod(), "id": c.GetId(), "outcome": cut(c.GetOutcome(), 32), "took_ms": c.GetTookMs(), "detail": cut(c.GetDetail(), 256)})
			}
		}
		out = append(out, e)
	}
	return out
}

// applyDrainEnds writes beside an answered drain how it ended.
func applyDrainEnds(ctx context.Context, tx *Tx, cluster fleet.ClusterID, ends []drainEnd) error {
	for _, e := range ends {
		doc, err := json.Marshal(map[string]any{"ended": e.Outcome, "checkpoints": e.Told})
		if err != nil {
			return fmt.Errorf("encode the end of a drain: %w", err)
		}
		_, err = tx.pgx.Exec(ctx, `
UPDATE karpenter_action a SET outcome = $5, code = $6, detail = $7, after_spec = $8, answered_at = $9 FROM karpenter_order o
WHERE a.tenant_id = $1 AND o.tenant_id = $1 AND o.cluster_id = $2 AND o.id = a.order_id AND a.action_id = $4 AND a.outcome IS NOT NULL
  AND o.id = (SELECT id FROM karpenter_order WHERE tenant_id = $1 AND cluster_id = $2 AND generation <= $3 ORDER BY generation DESC LIMIT 1)`,
			tx.Tenant, cluster, e.Generation, e.Action, e.Outcome, e.Code, e.Detail, string(doc), e.At)
		if err != nil {
			return fmt.Errorf("record the end of a drain: %w", err)
		}
	}
	return nil
}

// CheckpointCall is a pod that was told to save its work.
type CheckpointCall struct {
	ID       string
	At       time.Time
	Pod      string // namespace/name
	Workload string // key; empty: none
	Node     string
	Cause    string
	Outcome  string
	Took     time.Duration
	Tries    int
	Detail   string
}

// CheckpointCalls lists a cluster's newest, at most limit. workload filters when it is not empty.
func CheckpointCalls(ctx context.Context, tx *Tx, cluster fleet.ClusterID, workload string, limit int) ([]CheckpointCall, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT id, at, pod, workload_key, node, cause, outcome, took_ms, tries, detail FROM checkpoint_call
WHERE tenant_id = $1 AND cluster_id = $2 AND ($3 = '' OR workload_key = $3) ORDER BY at DESC, id LIMIT $4`, tx.Tenant, cluster, workload, limit)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c CheckpointCall, err error) {
		var ms int64
		err = row.Scan(&c.ID, &c.At, &c.Pod, &c.Workload, &c.Node, &c.Cause, &c.Outcome, &ms, &c.Tries, &c.Detail)
		c.At, c.Took = c.At.UTC(), time.Duration(ms)*time.Millisecond
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return all, nil
}

// gentle reads pods' annotations and what the agent can do, and puts into the input what moving pods costs. It is called after Evidence and before
// Rule, and returns the annotations of the input's pods.
func (c *capacityInput) gentle(ctx context.Context, tx *Tx) ([]map[string]string, error) {
	at := map[string]int{}
	for i := range c.in.Pods {
		if uid := c.in.Pods[i].UID; uid != "" {
			at[uid] = i
		}
	}
	notes := make([]map[string]string, len(c.in.Pods))
	var can []string
	b := &pgx.Batch{}
	b.Queue(`SELECT coalesce(capabilities, '{}') FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, c.in.Cluster).QueryRow(func(row pgx.Row) error { return row.Scan(&can) })
	b.Queue(`SELECT uid, notes FROM pod WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL AND notes <> '{}'`, tx.Tenant, c.in.Cluster).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var uid string
			var n map[string]string
			if err := rows.Scan(&uid, &n); err != nil {
				return err
			}
			if i, ok := at[uid]; ok {
				notes[i] = n
			}
		}
		return rows.Err()
	})
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("load what pods say about moving: %w", err)
	}
	first := map[string]int{} // a pod that is only planned says what its workload's pods say
	for i := range c.in.Pods {
		if p := &c.in.Pods[i]; !p.Planned && p.Workload != "" && notes[i] != nil {
			if _, ok := first[p.Workload]; !ok {
				first[p.Workload] = i
			}
		}
	}
	for i := range c.in.Pods {
		if like, ok := first[c.in.Pods[i].Workload]; ok && c.in.Pods[i].Planned {
			notes[i] = notes[like]
		}
	}
	c.in.KeepsRoom = slices.Contains(can, CapabilityWarm)
	capacity.Remember(&c.in, notes, slices.Contains(can, CapabilityDrain))
	return notes, c.growths(ctx, tx)
}

// growths measures for each warm pool that follows demand how much that grows while a machine starts.
func (c *capacityInput) growths(ctx context.Context, tx *Tx) error {
	for i := range c.in.Policy.Warm {
		r := &c.in.Policy.Warm[i]
		if r.How != capacity.WarmGrowth {
			continue
		}
		var spans []capacity.Span
		from := c.in.DataAt.Add(-growthDays * 24 * time.Hour)
		rows, err := tx.pgx.Query(ctx, `
SELECT p.created_at, p.ended_at, p.gpu_milli FROM pod p
WHERE p.tenant_id = $1 AND p.cluster_id = $2 AND p.gpu_milli > 0 AND (p.ended_at IS NULL OR p.ended_at > $3) AND `+noPlaceholder+`
  AND EXISTS (SELECT FROM node n WHERE n.tenant_id = $1 AND n.cluster_id = $2 AND n.name = p.node AND n.gpu_model = $4)
ORDER BY p.created_at DESC LIMIT $5`, tx.Tenant, c.in.Cluster, from, string(r.GPUModel), maxGrowthSet)
		if err != nil {
			return fmt.Errorf("load what GPUs ran: %w", err)
		}
		var s capacity.Span
		var ended *time.Time
		first := c.in.DataAt
		if _, err := pgx.ForEachRow(rows, []any{&s.From, &ended, &s.GPUs}, func() error {
			s.From, s.To = s.From.UTC(), time.Time{}
			if ended != nil {
				s.To = ended.UTC()
			}
			if s.From.Before(first) {
				first = s.From
			}
			spans = append(spans, s)
			return nil
		}); err != nil {
			return fmt.Errorf("load what GPUs ran: %w", err)
		}
		if from.Before(first) { // nothing is known from before the first pod: it is no time without demand
			from = first
		}
		g := capacity.Growing(r.Name, spans, from, c.in.DataAt, c.in.MachineStart(), r.QuantMilli)
		g.GPUs = (g.GPUs + 999) / 1000
		c.in.Growths = append(c.in.Growths, g)
	}
	return nil
}
