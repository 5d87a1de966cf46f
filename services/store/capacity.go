package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
)

// CapacityStock is a number of machines that a cloud holds for an account.
type CapacityStock struct {
	AccountID    string
	Ref          string
	Cloud        fleet.Cloud
	Region       string
	Zone         string // as the account names it
	InstanceType string
	Total        int64
	Available    *int64 // not in use; nil: not told
	Block        bool   // paid in advance for its term
	From, To     *time.Time
	State        string
	SeenAt       time.Time
}

// Reasons why a commitment that a cloud lists counts for nothing.
const (
	PendingNoCost   = "no_cost"   // the cloud does not say what it costs
	PendingNoSpend  = "no_spend"  // the cloud does not say what the plan commits to
	PendingNotValid = "not_valid" // what the cloud says makes no commitment
)

// PendingCommitment is one that a cloud lists and that counts for nothing until a person adds what is missing.
type PendingCommitment struct {
	commitment.Commitment
	AccountID   string
	AccountName string
	Reason      string
	Problem     string
	SeenAt      time.Time
}

// SaveAccountStock replaces what was known of an account's reserved capacity and of its commitments that wait for a person.
func SaveAccountStock(ctx context.Context, tx *Tx, account string, stock []CapacityStock, pending []PendingCommitment) error {
	if len(stock) > MaxCommitments || len(pending) > MaxCommitments {
		return fleet.Errorf(fleet.CodeTooLarge, "an account with more than %d reservations", MaxCommitments)
	}
	b := &pgx.Batch{}
	b.Queue(`DELETE FROM capacity_stock WHERE tenant_id = $1 AND account_id = $2`, tx.Tenant, account)
	b.Queue(`DELETE FROM commitment_pending WHERE tenant_id = $1 AND account_id = $2`, tx.Tenant, account)
	for _, s := range stock {
		b.Queue(`
INSERT INTO capacity_stock (tenant_id, account_id, ref, cloud, region, zone, instance_type, total, available, block, starts_at, ends_at, state, seen_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (tenant_id, account_id, ref) DO NOTHING`,
			tx.Tenant, account, s.Ref, s.Cloud, s.Region, s.Zone, s.InstanceType, s.Total, s.Available, s.Block, s.From, s.To, s.State, tx.Now)
	}
	for _, p := range pending {
		b.Queue(`
INSERT INTO commitment_pending (tenant_id, account_id, ref, kind, reason, problem, region, zone, instance_type, family, resource, gpu_model, quantity, starts_at, ends_at, seen_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT (tenant_id, account_id, ref) DO NOTHING`,
			tx.Tenant, account, p.Ref, p.Kind, p.Reason, p.Problem, p.Region, p.Zone, p.InstanceType, p.Family, p.Resource, p.GPUModel, p.Quantity, p.Term.From, orNull(p.Term.To), tx.Now)
	}
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("save reserved capacity: %w", err)
	}
	return nil
}

// CapacityStocks lists what clouds hold for the tenant's accounts, by cloud, region, zone, type and ref.
func CapacityStocks(ctx context.Context, tx *Tx) ([]CapacityStock, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT account_id::text, ref, cloud, region, zone, instance_type, total, available, block, starts_at, ends_at, state, seen_at
FROM capacity_stock WHERE tenant_id = $1 ORDER BY cloud, region, zone, instance_type, ref`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load reserved capacity: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[CapacityStock])
	if err != nil {
		return nil, fmt.Errorf("load reserved capacity: %w", err)
	}
	return all, nil
}

// PendingCommitments lists those that wait for a person, by ref. One that a person wrote down since the account was read is left out.
func PendingCommitments(ctx context.Context, tx *Tx) ([]PendingCommitment, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT p.account_id::text, a.name, p.ref, p.kind, p.reason, p.problem, p.region, p.zone, p.instance_type, p.family, p.resource, p.gpu_model, p.quantity, p.starts_at, p.ends_at, p.seen_at
FROM commitment_pending p JOIN cloud_account a ON a.tenant_id = p.tenant_id AND a.id = p.account_id
WHERE p.tenant_id = $1 AND NOT EXISTS (SELECT FROM commitment c WHERE c.tenant_id = p.tenant_id AND c.ref = p.ref AND c.deleted_at IS NULL) ORDER BY p.ref, p.account_id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load pending commitments: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p PendingCommitment, err error) {
		var ends *time.Time
		err = row.Scan(&p.AccountID, &p.AccountName, &p.Ref, &p.Kind, &p.Reason, &p.Problem, &p.Region, &p.Zone, &p.InstanceType, &p.Family, &p.Resource, &p.GPUModel, &p.Quantity,
			&p.Term.From, &ends, &p.SeenAt)
		p.Term.To = orZero(ends)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("load pending commitments: %w", err)
	}
	return all, nil
}

// PlacementScore is how likely a cloud itself holds a request for Spot machines to be granted.
type PlacementScore struct {
	Cloud        fleet.Cloud
	Region       string
	ZoneID       string // the cloud's id of the zone; empty: the region as a whole
	InstanceType string
	Machines     int64 // how many were asked for
	Score        int   // 1 to 10
	SeenAt       time.Time
}

// placementKept is how long a score says anything at all.
const placementKept = 7 * 24 * time.Hour

// SavePlacementScores puts scores in place of earlier ones, and forgets those that are old.
func SavePlacementScores(ctx context.Context, tx *Tx, scores []PlacementScore) error {
	b := &pgx.Batch{}
	for _, s := range scores {
		b.Queue(`
INSERT INTO placement_score (tenant_id, cloud, region, zone, instance_type, machines, score, seen_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant_id, cloud, region, instance_type, zone) DO UPDATE SET machines = excluded.machines, score = excluded.score, seen_at = excluded.seen_at`,
			tx.Tenant, s.Cloud, s.Region, s.ZoneID, s.InstanceType, s.Machines, s.Score, tx.Now)
	}
	b.Queue(`DELETE FROM placement_score WHERE tenant_id = $1 AND seen_at < $2`, tx.Tenant, tx.Now.Add(-placementKept))
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("save placement scores: %w", err)
	}
	return nil
}

// PlacementScores lists the newest ones, at most 10,000, by place and type.
func PlacementScores(ctx context.Context, tx *Tx) ([]PlacementScore, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT cloud, region, zone, instance_type, machines, score, seen_at FROM placement_score WHERE tenant_id = $1 AND seen_at >= $2
ORDER BY cloud, region, instance_type, zone LIMIT 10000`, tx.Tenant, tx.Now.Add(-placementKept))
	if err != nil {
		return nil, fmt.Errorf("load placement scores: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[PlacementScore])
	if err != nil {
		return nil, fmt.Errorf("load placement scores: %w", err)
	}
	return all, nil
}

// SpotTypesInUse names the types of a cloud that the tenant runs on Spot or has tried to within a week, with how many run now; those that
// run most first.
func SpotTypesInUse(ctx context.Context, tx *Tx, cloud fleet.Cloud, limit int) (types []string, running map[string]int, err error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT instance_type, sum(n)::int FROM (
  SELECT instance_type, count(*) AS n FROM node WHERE tenant_id = $1 AND cloud = $2 AND purchase = 'spot' AND ended_at IS NULL GROUP BY instance_type
  UNION ALL
  SELECT DISTINCT instance_type, 0::bigint FROM availability_event WHERE tenant_id = $1 AND cloud = $2 AND purchase = 'spot' AND at > $3) x
GROUP BY instance_type ORDER BY 2 DESC, 1 LIMIT $4`, tx.Tenant, cloud, tx.Now.Add(-7*24*time.Hour), limit)
	if err != nil {
		return nil, nil, fmt.Errorf("list Spot types: %w", err)
	}
	running = map[string]int{}
	var name string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		types = append(types, name)
		running[name] = n
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("list Spot types: %w", err)
	}
	return types, running, nil
}
