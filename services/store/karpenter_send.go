package store

import (
	"context"
	"encoding/json"
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

// isCapacityAction tells whether an action id is of an object of Karpenter, a machine that is let go or room that is kept ready; those of
// replicas are UUIDs.
func isCapacityAction(id string) bool {
	for _, kind := range []string{"pool/", "overlay/", "drain/", "warm/"} {
		if strings.HasPrefix(id, kind) {
			return true
		}
	}
	return false
}

// capacityResults are results about objects of Karpenter, by column.
type capacityResults struct {
	generations                                               []int64
	actions, outcomes, codes, details, before, after, writers []string // writers: JSON
	at                                                        []time.Time
}

func capacityColumns(results []ActionResult) (c capacityResults, err error) {
	for i := range results {
		r := &results[i]
		if !isCapacityAction(string(r.Decision)) || r.Outcome != "applied" && r.Outcome != "already" && r.Outcome != "refused" && r.Outcome != "failed" {
			continue
		}
		writers := []byte("[]")
		if len(r.Writers) > 0 {
			if writers, err = json.Marshal(r.Writers); err != nil {
				return c, fmt.Errorf("encode writers: %w", err)
			}
		}
		c.generations, c.actions, c.outcomes, c.codes = append(c.generations, r.Generation), append(c.actions, string(r.Decision)), append(c.outcomes, r.Outcome), append(c.codes, r.Code)
		c.details, c.before, c.after = append(c.details, r.Detail), append(c.before, r.BeforeSpec), append(c.after, r.AfterSpec)
		c.writers, c.at = append(c.writers, string(writers)), append(c.at, r.At)
	}
	return c, nil
}

// ApplyCapacityResults records what the agent made of Karpenter's objects: by the newest order that the plan's generation may carry. An action that is answered stays as it is:
// results may come twice, and of two about one action the first counts. A result that comes after the order's time, or after it was withdrawn, is still what happened. It takes
// as many statements for one result as for hundreds. It returns the orders that changed.
func ApplyCapacityResults(ctx context.Context, tx *Tx, cluster fleet.ClusterID, results []ActionResult) (orders []string, err error) {
	c, err := capacityColumns(results)
	if err != nil || len(c.actions) == 0 {
		return nil, err
	}
	if err := lockCluster(ctx, tx, cluster); err != nil {
		return nil, err
	}
	var done int64
	if orders, done, err = recordCapacity(ctx, tx, cluster, &c); err != nil || len(orders) == 0 {
		return nil, err
	}
	b := &pgx.Batch{}
	b.Queue(`
UPDATE karpenter_order o SET closed_at = $3, state = CASE WHEN a.good = a.n THEN 'applied' WHEN a.good > 0 THEN 'partial' ELSE 'refused' END
FROM (SELECT order_id, count(*) AS n, count(*) FILTER (WHERE outcome IN ('applied', 'already')) AS good, count(*) FILTER (WHERE outcome IS NULL) AS waits
  FROM karpenter_action WHERE tenant_id = $1 AND order_id = ANY ($2::uuid[]) GROUP BY order_id) a
WHERE o.tenant_id = $1 AND o.id = a.order_id AND o.state = 'open' AND a.waits = 0`, tx.Tenant, orders, tx.Now)
	if done > 0 {
		b.Queue(`UPDATE cluster SET applied_generation = $3 WHERE tenant_id = $1 AND id = $2 AND applied_generation < $3 AND $3 <= generation`, tx.Tenant, cluster, done)
	}
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("close orders: %w", err)
	}
	return orders, nil
}

// recordCapacity writes the answers down, and forgets the objects that are gone. done is the newest generation of which something was carried out.
func recordCapacity(ctx context.Context, tx *Tx, cluster fleet.ClusterID, c *capacityResults) (orders []string, done int64, err error) {
	rows, err := tx.pgx.Query(ctx, `
WITH told AS (
  SELECT u.*, (SELECT id FROM karpenter_order WHERE tenant_id = $1 AND cluster_id = $2 AND generation <= u.generation ORDER BY generation DESC LIMIT 1) AS order_id
  FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::timestamptz[])
    WITH ORDINALITY AS u(generation, action, outcome, code, detail, before, after, writers, at, n)
), one AS (
  SELECT DISTINCT ON (order_id, action) * FROM told ORDER BY order_id, action, n
), done AS (
  UPDATE karpenter_action a SET outcome = one.outcome, code = one.code, detail = one.detail, before_spec = one.before, after_spec = one.after,
    writers = ARRAY (SELECT jsonb_array_elements_text(one.writers::jsonb)), answered_at = one.at
  FROM one WHERE a.tenant_id = $1 AND a.order_id = one.order_id AND a.action_id = one.action AND a.outcome IS NULL
  RETURNING a.order_id, a.action_id, a.absent, one.generation, one.outcome IN ('applied', 'already') AS good
), gone AS (
  DELETE FROM karpenter_object WHERE tenant_id = $1 AND cluster_id = $2 AND key IN (SELECT action_id FROM done WHERE absent AND good)
)
SELECT order_id::text, coalesce(max(generation) FILTER (WHERE good), 0) FROM done GROUP BY order_id ORDER BY order_id`,
		tx.Tenant, cluster, c.generations, c.actions, c.outcomes, c.codes, c.details, c.before, c.after, c.writers, c.at)
	if err != nil {
		return nil, 0, fmt.Errorf("record capacity results: %w", err)
	}
	var order string
	var newest int64
	if _, err := pgx.ForEachRow(rows, []any{&order, &newest}, func() error {
		orders, done = append(orders, order), max(done, newest)
		return nil
	}); err != nil {
		return nil, 0, fmt.Errorf("record capacity results: %w", err)
	}
	return orders, done, nil
}
