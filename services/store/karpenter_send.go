package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"

	"plimsoll.dev/services/fleet"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// hasKarpenterOrder tells whether the cluster was ever told anything about Karpenter, and if so keeps generations from moving on until the transaction ends: the plan to send
// is read in several steps and must be of one moment.
func hasKarpenterOrder(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (bool, error) {
	var has bool
	if err := tx.pgx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM karpenter_order WHERE tenant_id = $1 AND cluster_id = $2)`, tx.Tenant, cluster).Scan(&has); err != nil || !has {
		return false, wrap("look for orders", err)
	}
	var one int
	err := tx.pgx.QueryRow(ctx, `SELECT 1 FROM cluster WHERE tenant_id = $1 AND id = $2 FOR SHARE`, tx.Tenant, cluster).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return true, wrap("keep the generation", err)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// withKarpenterOrder adds to the plan of replicas, nil where there is none, the actions of the open order that have no answer yet. A plan is known to the agent by its id, so
// the newest generation has the id of what made it: a plan of replicas or an order.
func withKarpenterOrder(ctx context.Context, tx *Tx, cluster fleet.ClusterID, p *agentv1.Plan) (*agentv1.Plan, error) {
	var id, state, kind string
	var generation, newest int64
	var head *string
	var at, expires, lastSeen, dataAt time.Time
	var speed float64
	var mode fleet.Mode
	var enabled bool
	err := tx.pgx.QueryRow(ctx, `
SELECT o.id::text, o.state, o.kind, o.generation, o.at, o.expires_at, c.generation, c.head_plan_id::text, c.last_seen_at, c.data_at, c.clock_speed, c.mode, coalesce(k.enabled, false)
FROM karpenter_order o JOIN cluster c ON c.tenant_id = o.tenant_id AND c.id = o.cluster_id LEFT JOIN karpenter_policy k ON k.tenant_id = o.tenant_id AND k.cluster_id = o.cluster_id
WHERE o.tenant_id = $1 AND o.cluster_id = $2 AND NOT c.frozen AND c.last_seen_at IS NOT NULL AND c.data_at IS NOT NULL ORDER BY o.generation DESC LIMIT 1`, tx.Tenant, cluster).
		Scan(&id, &state, &kind, &generation, &at, &expires, &newest, &head, &lastSeen, &dataAt, &speed, &mode, &enabled)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load order: %w", err)
	}
	name := id
	if generation < newest && head != nil {
		name = *head
	}
	if p != nil && name == id {
		p.ParentId, p.PlanId = p.GetPlanId(), id
	}
	if state != "open" || mode != fleet.ModeEnforce || !enabled && kind == "plan" || !expires.After(dataNow(tx.Now, lastSeen, dataAt, speed)) {
		return p, nil
	}
	actions, err := unansweredActions(ctx, tx, id)
	if err != nil || len(actions) == 0 || len(actions)+len(p.GetActions()) > maxResults {
		return p, err
	}
	if p == nil {
		p = &agentv1.Plan{PlanId: name, Generation: uint64(max(newest, 0)), CreatedMs: at.UnixMilli(), ExpiresMs: expires.UnixMilli()}
		if head != nil && *head != name {
			p.ParentId = *head
		}
	}
	p.ExpiresMs = min(p.ExpiresMs, expires.UnixMilli())
	p.Capacity = actions
	return p, nil
}

func unansweredActions(ctx context.Context, tx *Tx, order string) ([]*agentv1.CapacityAction, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT spec FROM karpenter_action WHERE tenant_id = $1 AND order_id = $2 AND outcome IS NULL ORDER BY position`, tx.Tenant, order)
	if err != nil {
		return nil, fmt.Errorf("load actions: %w", err)
	}
	docs, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("load actions: %w", err)
	}
	out := make([]*agentv1.CapacityAction, 0, len(docs))
	for _, doc := range docs {
		a := &agentv1.CapacityAction{}
		if err := protojson.Unmarshal(doc, a); err != nil {
			return nil, fmt.Errorf("read action: %w", err)
		}
		out = append(out, a)
	}
	return out, nil
}

// isCapacityAction tells whether an action id is of an object of Karpenter; those of replicas are UUIDs.
func isCapacityAction(id string) bool {
	return strings.HasPrefix(id, "pool/") || strings.HasPrefix(id, "overlay/")
}

// ApplyCapacityResults records what the agent made of Karpenter's objects: by the newest order that the plan's generation may carry. An action that is answered stays as it is:
// results may come twice. A result that comes after the order's time, or after it was withdrawn, is still what happened. It returns the orders that changed.
func ApplyCapacityResults(ctx context.Context, tx *Tx, cluster fleet.ClusterID, results []ActionResult) (orders []string, err error) {
	locked, done := false, int64(0)
	seen := map[string]bool{}
	for _, r := range results {
		if !isCapacityAction(string(r.Decision)) || r.Outcome != "applied" && r.Outcome != "already" && r.Outcome != "refused" && r.Outcome != "failed" {
			continue
		}
		if !locked {
			if err := lockCluster(ctx, tx, cluster); err != nil {
				return nil, err
			}
			locked = true
		}
		writers := r.Writers
		if writers == nil {
			writers = []string{}
		}
		var order string
		var absent bool
		err := tx.pgx.QueryRow(ctx, `
UPDATE karpenter_action SET outcome = $5, code = $6, detail = $7, before_spec = $8, after_spec = $9, writers = $10, answered_at = $11
WHERE tenant_id = $1 AND action_id = $4 AND outcome IS NULL
  AND order_id = (SELECT id FROM karpenter_order WHERE tenant_id = $1 AND cluster_id = $2 AND generation <= $3 ORDER BY generation DESC LIMIT 1)
RETURNING order_id::text, absent`, tx.Tenant, cluster, r.Generation, string(r.Decision), r.Outcome, r.Code, r.Detail, r.BeforeSpec, r.AfterSpec, writers, r.At).Scan(&order, &absent)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("record capacity result: %w", err)
		}
		if !seen[order] {
			seen[order] = true
			orders = append(orders, order)
		}
		if r.Outcome != "applied" && r.Outcome != "already" {
			continue
		}
		done = max(done, r.Generation)
		if absent {
			if _, err := tx.pgx.Exec(ctx, `DELETE FROM karpenter_object WHERE tenant_id = $1 AND cluster_id = $2 AND key = $3`, tx.Tenant, cluster, string(r.Decision)); err != nil {
				return nil, fmt.Errorf("forget object: %w", err)
			}
		}
	}
	for _, order := range orders {
		if _, err := tx.pgx.Exec(ctx, `
UPDATE karpenter_order o SET closed_at = $3, state = CASE WHEN a.good = a.n THEN 'applied' WHEN a.good > 0 THEN 'partial' ELSE 'refused' END
FROM (SELECT count(*) AS n, count(*) FILTER (WHERE outcome IN ('applied', 'already')) AS good, count(*) FILTER (WHERE outcome IS NULL) AS waits FROM karpenter_action WHERE tenant_id = $1 AND order_id = $2) a
WHERE o.tenant_id = $1 AND o.id = $2 AND o.state = 'open' AND a.waits = 0`, tx.Tenant, order, tx.Now); err != nil {
			return nil, fmt.Errorf("close order: %w", err)
		}
	}
	if done > 0 {
		if _, err := tx.pgx.Exec(ctx, `UPDATE cluster SET applied_generation = $3 WHERE tenant_id = $1 AND id = $2 AND applied_generation < $3 AND $3 <= generation`, tx.Tenant, cluster, done); err != nil {
			return nil, fmt.Errorf("record applied generation: %w", err)
		}
	}
	return orders, nil
}
