package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// TracedPod is a pod that held something in an hour.
type TracedPod struct {
	UID, Name, Node string
	From            time.Time
	To              *time.Time
	ReadyAt         *time.Time
	CPUMilli        int64
	MemMiB          int64
	GPUMilli        int64
}

// CostTrace is one workload's hour: what it cost on which machine, which pods were there, and what was decided.
type CostTrace struct {
	Cluster   fleet.ClusterID
	Key       string
	State     string // open or closed; empty: the hour was not costed
	Version   int
	AsOf      *time.Time
	Lines     []ledger.CostLine // by machine: closed hours; of an open one by resource only, without a machine
	Nodes     map[string]string // names by uid
	Pods      []TracedPod
	Decisions []DecisionRow // those of the hour, and before them the one that was in force when it began; oldest first
}

// maxTracedPods bounds one answer.
const maxTracedPods = 500

// TraceCost reads one workload's hour.
func TraceCost(ctx context.Context, tx *Tx, workload fleet.WorkloadID, hour time.Time) (CostTrace, error) {
	t := CostTrace{Nodes: map[string]string{}}
	err := tx.pgx.QueryRow(ctx, `SELECT cluster_id::text, key FROM workload WHERE tenant_id = $1 AND id = $2`, tx.Tenant, workload).Scan(&t.Cluster, &t.Key)
	if err != nil {
		return t, notFound(err, "workload")
	}
	err = tx.pgx.QueryRow(ctx, `SELECT state, version, CASE WHEN state = 'closed' THEN closed_at END FROM cost_hour WHERE tenant_id = $1 AND cluster_id = $2 AND hour = $3`, tx.Tenant, t.Cluster, hour).
		Scan(&t.State, &t.Version, &t.AsOf)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return t, fmt.Errorf("load hour: %w", err)
	}
	if err := t.lines(ctx, tx, workload, hour); err != nil {
		return t, err
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT uid, name, node, coalesce(started_at, created_at), ended_at, ready_at, cpu_milli, mem_mib, gpu_milli FROM pod
WHERE tenant_id = $1 AND cluster_id = $2 AND workload_key = $3 AND node <> '' AND created_at < $5 AND (ended_at IS NULL OR ended_at > $4)
ORDER BY 4, uid LIMIT $6`, tx.Tenant, t.Cluster, t.Key, hour, hour.Add(time.Hour), maxTracedPods)
	if err != nil {
		return t, fmt.Errorf("load pods: %w", err)
	}
	if t.Pods, err = pgx.CollectRows(rows, pgx.RowToStructByPos[TracedPod]); err != nil {
		return t, fmt.Errorf("load pods: %w", err)
	}
	t.Decisions, err = decisionsBehind(ctx, tx, workload, hour, hour.Add(time.Hour))
	return t, err
}

func (t *CostTrace) lines(ctx context.Context, tx *Tx, workload fleet.WorkloadID, hour time.Time) error {
	var payload []byte
	err := tx.pgx.QueryRow(ctx, `SELECT payload FROM cost_detail WHERE tenant_id = $1 AND cluster_id = $2 AND hour = $3 AND version = $4`, tx.Tenant, t.Cluster, hour, t.Version).Scan(&payload)
	switch {
	case err == nil:
		all, err := unpackDetail(payload)
		if err != nil {
			return err
		}
		for _, l := range all {
			if l.Owner.Workload == workload {
				t.Lines = append(t.Lines, l)
			}
		}
		return t.names(ctx, tx)
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("load detail: %w", err)
	}
	rows, err := tx.pgx.Query(ctx, `SELECT resource, purchase, amount_nano, quantity, unpriced, measured, used FROM cost_hour_line WHERE tenant_id = $1 AND cluster_id = $2 AND hour = $3 AND workload_id = $4
ORDER BY resource, purchase`, tx.Tenant, t.Cluster, hour, workload)
	if err != nil {
		return fmt.Errorf("load costs: %w", err)
	}
	t.Lines, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (l ledger.CostLine, err error) {
		l.Kind = ledger.KindWorkload
		err = r.Scan(&l.Resource, &l.Purchase, &l.Amount, &l.Quantity, &l.Unpriced, &l.Measured, &l.Used)
		return l, err
	})
	if err != nil {
		return fmt.Errorf("load costs: %w", err)
	}
	return nil
}

func (t *CostTrace) names(ctx context.Context, tx *Tx) error {
	var uids []string
	for _, l := range t.Lines {
		uids = append(uids, l.Node)
	}
	rows, err := tx.pgx.Query(ctx, `SELECT uid, name FROM node WHERE tenant_id = $1 AND cluster_id = $2 AND uid = ANY ($3)`, tx.Tenant, t.Cluster, orEmpty(uids))
	if err != nil {
		return fmt.Errorf("load nodes: %w", err)
	}
	var uid, name string
	if _, err := pgx.ForEachRow(rows, []any{&uid, &name}, func() error { t.Nodes[uid] = name; return nil }); err != nil {
		return fmt.Errorf("load nodes: %w", err)
	}
	return nil
}

// decisionsBehind are the decisions of [from, to) that changed something or say why nothing did, and the applied one that was in force at its
// beginning.
func decisionsBehind(ctx context.Context, tx *Tx, workload fleet.WorkloadID, from, to time.Time) ([]DecisionRow, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT * FROM (
  (SELECT `+decisionColumns+` FROM decision d JOIN workload w ON w.tenant_id = d.tenant_id AND w.id = d.workload_id
   WHERE d.tenant_id = $1 AND d.workload_id = $2 AND d.state = 'applied' AND d.at < $3 ORDER BY d.at DESC, d.id LIMIT 1)
  UNION ALL
  (SELECT `+decisionColumns+` FROM decision d JOIN workload w ON w.tenant_id = d.tenant_id AND w.id = d.workload_id
   WHERE d.tenant_id = $1 AND d.workload_id = $2 AND d.at >= $3 AND d.at < $4 ORDER BY d.at, d.id LIMIT 200)) x ORDER BY at, id`, tx.Tenant, workload, from, to)
	if err != nil {
		return nil, fmt.Errorf("load decisions: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[DecisionRow])
}

// CostHour is a workload's hour with how often it was scaled in it.
type CostHour struct {
	Hour       time.Time
	Amount     fleet.Money
	Quantity   float64 // GPU-hours, or core-hours of a workload without GPUs
	Ups, Downs int
}

// CostHours are a workload's hours in [from, to), oldest first. Hours without a cost are not listed.
func CostHours(ctx context.Context, tx *Tx, workload fleet.WorkloadID, from, to time.Time) ([]CostHour, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT c.hour, c.amount, c.quantity, coalesce(d.ups, 0), coalesce(d.downs, 0) FROM (
  SELECT hour, sum(amount_nano)::bigint AS amount, coalesce(sum(quantity) FILTER (WHERE resource = 'gpu'), sum(quantity) FILTER (WHERE resource = 'cpu'), 0) AS quantity
  FROM cost_hour_line WHERE tenant_id = $1 AND cluster_id = (SELECT cluster_id FROM workload WHERE tenant_id = $1 AND id = $2) AND workload_id = $2 AND hour >= $3 AND hour < $4 GROUP BY hour) c
LEFT JOIN (SELECT date_trunc('hour', at) AS hour, count(*) FILTER (WHERE outcome = 'scale_up')::int AS ups, count(*) FILTER (WHERE outcome = 'scale_down')::int AS downs
  FROM decision WHERE tenant_id = $1 AND workload_id = $2 AND state = 'applied' AND at >= $3 AND at < $4 GROUP BY 1) d ON d.hour = c.hour
ORDER BY c.hour`, tx.Tenant, workload, from, to)
	if err != nil {
		return nil, fmt.Errorf("load hours: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[CostHour])
}
