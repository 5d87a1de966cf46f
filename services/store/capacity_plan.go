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

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// capacityPlansKept is how many plans of a cluster are kept.
const capacityPlansKept = 100

// CapacityPlanHead is a stored plan without its content.
type CapacityPlanHead struct {
	ID        string
	At        time.Time // data time of the newest computation that said this
	FirstAt   time.Time // data time of the first
	CheckedAt time.Time // our clock
	Took      time.Duration
	Outcome   capacity.Outcome
	Adds      int
	Drains    int
	Waiting   int
	Before    fleet.Money
	After     fleet.Money
}

const capacityHead = `id::text, at, first_at, checked_at, took_ms, outcome, adds, drains, waiting, before_nano, after_nano`

func (h *CapacityPlanHead) fields() []any {
	return []any{&h.ID, &h.At, &h.FirstAt, &h.CheckedAt, (*millisOf)(&h.Took), &h.Outcome, &h.Adds, &h.Drains, &h.Waiting, &h.Before, &h.After}
}

// millisOf scans a number of milliseconds into a duration.
type millisOf time.Duration

// Scan implements sql.Scanner.
func (m *millisOf) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a duration in milliseconds is a number, not %T", v)
	}
	*m = millisOf(time.Duration(n) * time.Millisecond)
	return nil
}

// SaveCapacityPlan keeps a plan with the input it came from. A plan that says the same as the newest takes its place. It returns whether
// the plan is news.
func SaveCapacityPlan(ctx context.Context, tx *Tx, in capacity.Input, plan *capacity.Plan, took time.Duration) (news bool, err error) {
	in.Steps = plan.Steps
	input, err := json.Marshal(in)
	if err != nil {
		return false, fmt.Errorf("encode capacity input: %w", err)
	}
	doc, err := json.Marshal(plan)
	if err != nil {
		return false, fmt.Errorf("encode capacity plan: %w", err)
	}
	hash, says := sha256.Sum256(input), capacitySays(plan)
	adds := 0
	for _, g := range plan.Add {
		adds += g.Count
	}
	var id string
	var said []byte
	err = tx.pgx.QueryRow(ctx, `SELECT id::text, says FROM capacity_plan WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY id DESC LIMIT 1 FOR UPDATE`, tx.Tenant, in.Cluster).Scan(&id, &said)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("load capacity plan: %w", err)
	}
	b := &pgx.Batch{}
	if news = !bytes.Equal(said, says); news {
		id = uuid.Must(uuid.NewV7()).String()
	}
	b.Queue(`
INSERT INTO capacity_plan (tenant_id, cluster_id, id, at, first_at, checked_at, took_ms, outcome, adds, drains, waiting, before_nano, after_nano, says, plan, input_hash, input)
VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (tenant_id, cluster_id, id) DO UPDATE SET at = excluded.at, checked_at = excluded.checked_at, took_ms = excluded.took_ms, waiting = excluded.waiting,
  before_nano = excluded.before_nano, after_nano = excluded.after_nano, plan = excluded.plan, input_hash = excluded.input_hash, input = excluded.input`,
		tx.Tenant, in.Cluster, id, in.Now, tx.Now, took.Milliseconds(), plan.Outcome, adds, len(plan.Drain), len(plan.Waiting), int64(plan.Before), int64(plan.After), says,
		inputEncoder().EncodeAll(doc, nil), hash[:], inputEncoder().EncodeAll(input, nil))
	if news {
		b.Queue(`DELETE FROM capacity_plan WHERE tenant_id = $1 AND cluster_id = $2 AND id IN (
  SELECT id FROM capacity_plan WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY id DESC OFFSET $3 LIMIT 1000)`, tx.Tenant, in.Cluster, capacityPlansKept)
	}
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return false, fmt.Errorf("save capacity plan: %w", err)
	}
	return news, nil
}

// capacitySays is the same for plans that a person would call the same: what is added, drained and held, and how many pods wait for what.
func capacitySays(p *capacity.Plan) []byte {
	h := sha256.New()
	fmt.Fprintln(h, p.Outcome, p.Held, p.Unpriced)
	for _, g := range p.Add {
		fmt.Fprintln(h, "add", g.Offering, g.Count, g.Why)
	}
	for _, d := range p.Drain {
		fmt.Fprintln(h, "drain", d.UID, d.Why)
	}
	causes := map[capacity.Cause]int{}
	for _, w := range p.Waiting {
		causes[w.Cause]++
	}
	for _, c := range []capacity.Cause{capacity.CauseNew, capacity.CauseNothing, capacity.CauseDeferred, capacity.CauseImage, capacity.CauseCrash, capacity.CauseConfig} {
		fmt.Fprintln(h, c, causes[c])
	}
	return h.Sum(nil)
}

// CapacityPlan reads a plan; an empty id is the newest. Not found: the cluster has none, or not this one.
func CapacityPlan(ctx context.Context, tx *Tx, cluster fleet.ClusterID, id string) (h CapacityPlanHead, plan *capacity.Plan, err error) {
	var doc []byte
	err = tx.pgx.QueryRow(ctx, `SELECT `+capacityHead+`, plan FROM capacity_plan WHERE tenant_id = $1 AND cluster_id = $2 AND ($3 = '' OR id = nullif($3, '')::uuid) ORDER BY id DESC LIMIT 1`,
		tx.Tenant, cluster, id).Scan(append(h.fields(), &doc)...)
	if err != nil {
		return h, nil, notFound(err, "capacity plan")
	}
	text, err := inputDecoder().DecodeAll(doc, nil)
	if err != nil {
		return h, nil, fmt.Errorf("unpack capacity plan: %w", err)
	}
	plan = &capacity.Plan{}
	if err := json.Unmarshal(text, plan); err != nil {
		return h, nil, fmt.Errorf("read capacity plan: %w", err)
	}
	return h, plan, nil
}

// CapacityPlanInput reads what a plan was made from and checks it against its hash; an empty id is the newest.
func CapacityPlanInput(ctx context.Context, tx *Tx, cluster fleet.ClusterID, id string) (in capacity.Input, err error) {
	var blob, hash []byte
	err = tx.pgx.QueryRow(ctx, `SELECT input, input_hash FROM capacity_plan WHERE tenant_id = $1 AND cluster_id = $2 AND ($3 = '' OR id = nullif($3, '')::uuid) ORDER BY id DESC LIMIT 1`,
		tx.Tenant, cluster, id).Scan(&blob, &hash)
	if err != nil {
		return in, notFound(err, "capacity plan")
	}
	text, err := inputDecoder().DecodeAll(blob, nil)
	if err != nil {
		return in, fmt.Errorf("unpack capacity input: %w", err)
	}
	if sum := sha256.Sum256(text); !bytes.Equal(sum[:], hash) {
		return in, fmt.Errorf("capacity plan of cluster %s: stored input does not match its hash", cluster)
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return in, fmt.Errorf("read capacity input: %w", err)
	}
	return in, nil
}

// CapacityPlans lists a cluster's plans, newest first. before is the last id seen, empty for the first page.
func CapacityPlans(ctx context.Context, tx *Tx, cluster fleet.ClusterID, before string, limit int) ([]CapacityPlanHead, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+capacityHead+` FROM capacity_plan WHERE tenant_id = $1 AND cluster_id = $2 AND ($3 = '' OR id < nullif($3, '')::uuid) ORDER BY id DESC LIMIT $4`,
		tx.Tenant, cluster, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list capacity plans: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h CapacityPlanHead, err error) { return h, row.Scan(h.fields()...) })
	if err != nil {
		return nil, fmt.Errorf("list capacity plans: %w", err)
	}
	return list, nil
}

// CapacityDue lists clusters that have reported since their machines were last planned, and whose planning is not too dear: it may take
// a twentieth of the time, and comes every least at most. A new cluster whose history is still being told waits for its end, ten minutes at most: a plan of
// machines of last week is no plan.
func CapacityDue(ctx context.Context, tx *Tx, least time.Duration, limit int) ([]fleet.ClusterID, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT c.id::text FROM cluster c
LEFT JOIN LATERAL (SELECT checked_at, took_ms FROM capacity_plan p WHERE p.tenant_id = c.tenant_id AND p.cluster_id = c.id ORDER BY p.id DESC LIMIT 1) p ON true
WHERE c.tenant_id = $1 AND c.last_seen_at IS NOT NULL AND c.data_at IS NOT NULL
  AND (p.checked_at IS NULL AND (c.data_at > $3::timestamptz - interval '1 hour' OR c.created_at < $3::timestamptz - interval '10 minutes') OR c.last_seen_at > p.checked_at AND p.checked_at + greatest($2::bigint, 20 * p.took_ms) * interval '1 millisecond' <= $3
    OR c.last_seen_at <= p.checked_at AND p.checked_at < c.last_seen_at + interval '6 minutes' AND p.checked_at + interval '1 minute' <= $3)
ORDER BY p.checked_at NULLS FIRST, c.id LIMIT $4`, tx.Tenant, least.Milliseconds(), tx.Now, limit)
	if err != nil {
		return nil, fmt.Errorf("list clusters to plan: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[fleet.ClusterID])
	if err != nil {
		return nil, fmt.Errorf("list clusters to plan: %w", err)
	}
	return ids, nil
}

// CapacityPolicy is what a cluster's machines are planned by: its own policy, or its tenant's default where it has none.
type CapacityPolicy struct {
	Policy    capacity.Policy
	Version   int // of the cluster's own; 0: it never had one
	Default   int // version of the tenant's default where that holds; 0: the cluster has its own, or the tenant has none and the built-in defaults hold
	Inherits  bool
	UpdatedBy string // of the one that holds; empty: nobody
	UpdatedAt time.Time
}

// CapacityPolicyOf reads the policy that holds for a cluster.
func CapacityPolicyOf(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (p CapacityPolicy, err error) {
	var doc []byte
	err = tx.pgx.QueryRow(ctx, `SELECT document, version, inherits, updated_by, updated_at FROM capacity_policy WHERE tenant_id = $1 AND cluster_id = $2`, tx.Tenant, cluster).
		Scan(&doc, &p.Version, &p.Inherits, &p.UpdatedBy, &p.UpdatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		p.Inherits, err = true, nil
	}
	if err != nil {
		return p, fmt.Errorf("load capacity policy: %w", err)
	}
	if p.Inherits {
		d, err := CapacityDefaultOf(ctx, tx, false)
		p.Policy, p.Default, p.UpdatedBy, p.UpdatedAt = d.Policy, d.Version, d.UpdatedBy, d.UpdatedAt
		return p, err
	}
	if err := json.Unmarshal(doc, &p.Policy); err != nil {
		return p, fmt.Errorf("read capacity policy: %w", err)
	}
	return p, nil
}

// SetCapacityPolicy gives a cluster a policy of its own if version is the one that stands, 0 for none.
func SetCapacityPolicy(ctx context.Context, tx *Tx, cluster fleet.ClusterID, policy capacity.Policy, version int, by string) error {
	if err := ValidCapacityPolicy(policy); err != nil {
		return err
	}
	doc, err := json.Marshal(policy)
	if err != nil {
		return fmt.Errorf("encode capacity policy: %w", err)
	}
	tag, err := tx.pgx.Exec(ctx, `
INSERT INTO capacity_policy (tenant_id, cluster_id, version, document, updated_by, updated_at) SELECT $1, $2, 1, $4, $5, $6 WHERE $3 = 0
ON CONFLICT (tenant_id, cluster_id) DO NOTHING`, tx.Tenant, cluster, version, doc, by, tx.Now)
	if err == nil && version > 0 {
		tag, err = tx.pgx.Exec(ctx, `UPDATE capacity_policy SET version = version + 1, document = $4, inherits = false, updated_by = $5, updated_at = $6 WHERE tenant_id = $1 AND cluster_id = $2 AND version = $3`,
			tx.Tenant, cluster, version, doc, by, tx.Now)
	}
	if err != nil {
		return fmt.Errorf("save capacity policy: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fleet.Errorf(fleet.CodeConflict, "the policy was changed meanwhile: load it again")
	}
	return ageCapacityPlan(ctx, tx, cluster)
}
