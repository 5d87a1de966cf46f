package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/spread"
)

// servicePlansKept is how many plans of a service are kept.
const servicePlansKept = 200

// ServicePlanHead is a stored plan without its content.
type ServicePlanHead struct {
	ID      string
	FirstAt time.Time // our clock, of the first computation that said this
	At      time.Time // of the newest
	Outcome spread.Outcome
	Target  int
	Before  fleet.Money
	After   fleet.Money
}

const serviceHead = `id::text, first_at, at, outcome, target, before_nano, after_nano`

func (h *ServicePlanHead) fields() []any {
	return []any{&h.ID, &h.FirstAt, &h.At, &h.Outcome, &h.Target, &h.Before, &h.After}
}

// ServicesDue lists the services to plan: those that are on and not planned within least, nor within twenty times as long as their last plan took.
func ServicesDue(ctx context.Context, tx *Tx, least time.Duration, limit int) ([]string, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT id::text FROM service WHERE tenant_id = $1 AND mode <> 'off'
  AND (checked_at IS NULL OR checked_at + greatest($2::bigint, 20 * took_ms) * interval '1 millisecond' <= $3) ORDER BY checked_at NULLS FIRST, id LIMIT $4`,
		tx.Tenant, least.Milliseconds(), tx.Now, limit)
	if err != nil {
		return nil, fmt.Errorf("list services to plan: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list services to plan: %w", err)
	}
	return ids, nil
}

// SaveServicePlan keeps a plan with the input it came from, what the service remembers, and, in enforce, the bounds it leaves its workloads. version is the
// service's that was planned: a conflict when it is another one by now. A plan that says the same as the newest takes its place.
func SaveServicePlan(ctx context.Context, tx *Tx, id string, version int, in spread.Input, plan *spread.Plan, took time.Duration) (news bool, err error) {
	memory, err := json.Marshal(plan.Memory)
	if err != nil {
		return false, fmt.Errorf("encode memory: %w", err)
	}
	tag, err := tx.pgx.Exec(ctx, `UPDATE service SET memory = $4, checked_at = $5, took_ms = $6 WHERE tenant_id = $1 AND id = $2 AND version = $3`, tx.Tenant, id, version, memory, tx.Now, took.Milliseconds())
	if err != nil {
		return false, fmt.Errorf("save service: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return false, fleet.Errorf(fleet.CodeConflict, "the service was changed meanwhile")
	}
	input, err := json.Marshal(in)
	if err != nil {
		return false, fmt.Errorf("encode service input: %w", err)
	}
	doc, err := json.Marshal(plan)
	if err != nil {
		return false, fmt.Errorf("encode service plan: %w", err)
	}
	hash, says := sha256.Sum256(input), serviceSays(plan)
	var last string
	var said []byte
	err = tx.pgx.QueryRow(ctx, `SELECT id::text, says FROM service_plan WHERE tenant_id = $1 AND service_id = $2 ORDER BY id DESC LIMIT 1`, tx.Tenant, id).Scan(&last, &said)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("load service plan: %w", err)
	}
	b := &pgx.Batch{}
	if news = !bytes.Equal(said, says); news {
		last = uuid.Must(uuid.NewV7()).String()
	}
	b.Queue(`
INSERT INTO service_plan (tenant_id, service_id, id, first_at, at, outcome, target, before_nano, after_nano, says, plan, input_hash, input) VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (tenant_id, service_id, id) DO UPDATE SET at = excluded.at, before_nano = excluded.before_nano, after_nano = excluded.after_nano, plan = excluded.plan,
  input_hash = excluded.input_hash, input = excluded.input`,
		tx.Tenant, id, last, tx.Now, plan.Outcome, plan.Target, int64(plan.Before), int64(plan.After), says, inputEncoder().EncodeAll(doc, nil), hash[:], inputEncoder().EncodeAll(input, nil))
	if news {
		b.Queue(`DELETE FROM service_plan WHERE tenant_id = $1 AND service_id = $2 AND id IN (SELECT id FROM service_plan WHERE tenant_id = $1 AND service_id = $2 ORDER BY id DESC OFFSET $3 LIMIT 1000)`,
			tx.Tenant, id, servicePlansKept)
	}
	if err := queueBounds(b, tx, id, plan.Bounds(&in)); err != nil {
		return false, err
	}
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return false, fmt.Errorf("save service plan: %w", err)
	}
	return news, nil
}

// queueBounds puts a plan's bounds in place of those of the plan before.
func queueBounds(b *pgx.Batch, tx *Tx, id string, bounds map[fleet.WorkloadID]spread.Bound) error {
	ids, docs := []string{}, []string{}
	for w, x := range bounds {
		doc, err := json.Marshal(x)
		if err != nil {
			return fmt.Errorf("encode bound: %w", err)
		}
		ids, docs = append(ids, string(w)), append(docs, string(doc))
	}
	b.Queue(`DELETE FROM service_bound WHERE tenant_id = $1 AND service_id = $2 AND workload_id <> ALL ($3::uuid[])`, tx.Tenant, id, ids)
	b.Queue(`
INSERT INTO service_bound (tenant_id, workload_id, service_id, bound, at) SELECT $1, w, $2, d::jsonb, $5 FROM unnest($3::uuid[], $4::text[]) AS u(w, d)
ON CONFLICT (tenant_id, workload_id) DO UPDATE SET service_id = excluded.service_id, bound = excluded.bound, at = excluded.at`, tx.Tenant, id, ids, docs, tx.Now)
	return nil
}

// serviceSays is the same for plans that a person would call the same.
func serviceSays(p *spread.Plan) []byte {
	h := sha256.New()
	fmt.Fprintln(h, p.Outcome, p.Mode, p.Demand, p.Missing, p.Relaxed, p.Stays)
	for _, q := range p.Parts {
		fmt.Fprintln(h, q.Workload, q.Held, q.Target, q.Bound, q.Wait)
	}
	return h.Sum(nil)
}

// ServicePlan reads a plan with what it was made from; an empty id is the newest. Not found: the service has none, or not this one.
func ServicePlan(ctx context.Context, tx *Tx, service, id string) (h ServicePlanHead, in spread.Input, plan *spread.Plan, err error) {
	var doc, blob, hash []byte
	err = tx.pgx.QueryRow(ctx, `SELECT `+serviceHead+`, plan, input, input_hash FROM service_plan WHERE tenant_id = $1 AND service_id = $2 AND ($3 = '' OR id = nullif($3, '')::uuid) ORDER BY id DESC LIMIT 1`,
		tx.Tenant, service, id).Scan(append(h.fields(), &doc, &blob, &hash)...)
	if err != nil {
		return h, in, nil, notFound(err, "service plan")
	}
	text, err := inputDecoder().DecodeAll(blob, nil)
	if err != nil {
		return h, in, nil, fmt.Errorf("unpack service input: %w", err)
	}
	if sum := sha256.Sum256(text); !bytes.Equal(sum[:], hash) {
		return h, in, nil, fmt.Errorf("plan of service %s: stored input does not match its hash", service)
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return h, in, nil, fmt.Errorf("read service input: %w", err)
	}
	if text, err = inputDecoder().DecodeAll(doc, nil); err != nil {
		return h, in, nil, fmt.Errorf("unpack service plan: %w", err)
	}
	plan = &spread.Plan{}
	if err := json.Unmarshal(text, plan); err != nil {
		return h, in, nil, fmt.Errorf("read service plan: %w", err)
	}
	return h, in, plan, nil
}

// ServicePlans lists a service's plans, newest first.
func ServicePlans(ctx context.Context, tx *Tx, service string, limit int) ([]ServicePlanHead, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+serviceHead+` FROM service_plan WHERE tenant_id = $1 AND service_id = $2 ORDER BY id DESC LIMIT $3`, tx.Tenant, service, limit)
	if err != nil {
		return nil, fmt.Errorf("list service plans: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h ServicePlanHead, err error) { return h, row.Scan(h.fields()...) })
	if err != nil {
		return nil, fmt.Errorf("list service plans: %w", err)
	}
	return list, nil
}

// NewestServicePlans are the heads of the newest plan of each service, by the service's id.
func NewestServicePlans(ctx context.Context, tx *Tx) (map[string]ServicePlanHead, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT DISTINCT ON (service_id) service_id::text, `+serviceHead+` FROM service_plan WHERE tenant_id = $1 ORDER BY service_id, id DESC`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("list service plans: %w", err)
	}
	out := map[string]ServicePlanHead{}
	var of string
	var h ServicePlanHead
	_, err = pgx.ForEachRow(rows, append([]any{&of}, h.fields()...), func() error {
		out[of] = h
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list service plans: %w", err)
	}
	return out, nil
}

// ServiceBound is what a service leaves a workload's policy.
type ServiceBound struct {
	Service string // its name
	Bound   spread.Bound
}

// ServiceBounds are those of a cluster's workloads that hold now.
func ServiceBounds(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (map[fleet.WorkloadID]ServiceBound, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT b.workload_id::text, s.name, b.bound FROM service_bound b
JOIN service s ON s.tenant_id = b.tenant_id AND s.id = b.service_id AND s.mode = 'enforce'
JOIN workload w ON w.tenant_id = b.tenant_id AND w.id = b.workload_id
WHERE b.tenant_id = $1 AND w.cluster_id = $2 AND b.at > $3`, tx.Tenant, cluster, tx.Now.Add(-serviceBoundValid))
	if err != nil {
		return nil, fmt.Errorf("load bounds of services: %w", err)
	}
	out := map[fleet.WorkloadID]ServiceBound{}
	var id fleet.WorkloadID
	var name string
	var doc []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &name, &doc}, func() error {
		b := ServiceBound{Service: name}
		if err := json.Unmarshal(doc, &b.Bound); err != nil {
			return err
		}
		out[id] = b
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load bounds of services: %w", err)
	}
	return out, nil
}
