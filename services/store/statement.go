package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// Counting is how a tenant counts its time, and who carries idle in its statements.
type Counting struct {
	Zone        string // IANA
	FiscalMonth int    // 1..12: in which the fiscal year begins
	WeekStart   int    // 0..6, 0 is Sunday
	IdleScope   string // separate, cluster or node
	IdleSpread  ledger.Spread
}

// Calendar of the tenant. A zone that this machine does not know is an error: other midnights would be other amounts.
func (c Counting) Calendar() (ledger.Calendar, error) {
	zone, err := time.LoadLocation(c.Zone)
	if err != nil {
		return ledger.Calendar{}, fleet.Errorf(fleet.CodeInvalid, "time zone %q is not known", c.Zone)
	}
	return ledger.Calendar{Zone: zone, FirstMonth: time.Month(c.FiscalMonth), WeekStart: time.Weekday(c.WeekStart)}, nil
}

// LoadCounting reads it.
func LoadCounting(ctx context.Context, tx *Tx) (c Counting, err error) {
	err = tx.pgx.QueryRow(ctx, `SELECT time_zone, fiscal_month, week_start, idle_scope, idle_spread FROM tenant WHERE tenant_id = $1`, tx.Tenant).
		Scan(&c.Zone, &c.FiscalMonth, &c.WeekStart, &c.IdleScope, &c.IdleSpread)
	if err != nil {
		return c, notFound(err, "tenant")
	}
	return c, nil
}

// SaveCounting changes it. Statements that were issued stay as they are.
func SaveCounting(ctx context.Context, tx *Tx, c Counting) error {
	if _, err := c.Calendar(); err != nil {
		return err
	}
	_, err := tx.pgx.Exec(ctx, `UPDATE tenant SET time_zone = $2, fiscal_month = $3, week_start = $4, idle_scope = $5, idle_spread = $6 WHERE tenant_id = $1`,
		tx.Tenant, c.Zone, c.FiscalMonth, c.WeekStart, c.IdleScope, string(c.IdleSpread))
	if err != nil {
		return fmt.Errorf("save calendar: %w", err)
	}
	return nil
}

// SharedCostRule is a rule with its name.
type SharedCostRule struct {
	ledger.SharedRule
	Name      string
	CreatedBy string
	CreatedAt time.Time
}

// maxSharedCostRules of a tenant.
const maxSharedCostRules = 50

// SharedCostRules lists the rules in the order in which they apply: oldest first.
func SharedCostRules(ctx context.Context, tx *Tx) ([]SharedCostRule, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT id::text, name, pick, value, spread, parts, created_by, created_at FROM shared_cost_rule WHERE tenant_id = $1 AND deleted_at IS NULL ORDER BY created_at, id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load shared costs: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (s SharedCostRule, err error) {
		err = r.Scan(&s.ID, &s.Name, &s.Pick, &s.Value, &s.Spread, &s.Parts, &s.CreatedBy, &s.CreatedAt)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("load shared costs: %w", err)
	}
	return all, nil
}

// AddSharedCostRule stores one. A name or a pick that is taken is a conflict.
func AddSharedCostRule(ctx context.Context, tx *Tx, s SharedCostRule) (SharedCostRule, error) {
	s.ID, s.CreatedAt = uuid.Must(uuid.NewV7()).String(), tx.Now
	if s.Parts == nil {
		s.Parts = map[string]int64{}
	}
	var n int
	if err := tx.pgx.QueryRow(ctx, `SELECT count(*) FROM shared_cost_rule WHERE tenant_id = $1 AND deleted_at IS NULL`, tx.Tenant).Scan(&n); err != nil {
		return s, fmt.Errorf("count shared costs: %w", err)
	}
	if n >= maxSharedCostRules {
		return s, fleet.Errorf(fleet.CodeConflict, "there are %d rules already", n)
	}
	_, err := tx.pgx.Exec(ctx, `INSERT INTO shared_cost_rule (tenant_id, id, name, pick, value, spread, parts, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		tx.Tenant, s.ID, s.Name, s.Pick, s.Value, string(s.Spread), s.Parts, s.CreatedBy, s.CreatedAt)
	switch {
	case violates(err, "shared_cost_rule_name"):
		return s, &fleet.Error{Code: fleet.CodeConflict, Message: "a rule of this name is there already", Field: "body.name"}
	case violates(err, "shared_cost_rule_picks"):
		return s, &fleet.Error{Code: fleet.CodeConflict, Message: "another rule shares these costs already", Field: "body.value"}
	case err != nil:
		return s, fmt.Errorf("save shared cost: %w", err)
	}
	return s, nil
}

// DropSharedCostRule ends a rule.
func DropSharedCostRule(ctx context.Context, tx *Tx, id string) error {
	tag, err := tx.pgx.Exec(ctx, `UPDATE shared_cost_rule SET deleted_at = $3 WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`, tx.Tenant, id, tx.Now)
	if err != nil {
		return fmt.Errorf("drop shared cost: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such rule")
	}
	return nil
}

// OwnerCost is a sum of costs of one owner in one cluster.
type OwnerCost struct {
	Cluster fleet.ClusterID
	ledger.Row
}

// maxOwnerCosts bounds one answer.
const maxOwnerCosts = 400_000

// OwnerCosts sums the costs of whole hours in [q.From, q.To) by cluster, kind, resource, purchase and owner. Of q count the span, the filters
// and AsOf.
func OwnerCosts(ctx context.Context, tx *Tx, q CostQuery) ([]OwnerCost, error) {
	q.Hourly, q.Buckets = true, false
	table, at := q.source()
	rows, err := tx.pgx.Query(ctx, `
SELECT c.cluster_id::text, c.kind, c.resource, c.purchase, CASE WHEN c.workload_id = '`+noWorkload+`' THEN '' ELSE c.workload_id::text END, c.namespace, c.team,
  sum(c.amount_nano)::bigint, sum(c.quantity), sum(c.unpriced), sum(c.measured), sum(c.used)
FROM `+table+` c WHERE c.tenant_id = @tenant AND `+at+` >= @from AND `+at+` < @to
  AND (@cluster = '' OR c.cluster_id = nullif(@cluster, '')::uuid) AND (@namespace = '' OR c.namespace = @namespace)
  AND (@team = '' OR c.team = @team) AND (@workload = '' OR c.workload_id = nullif(@workload, '')::uuid)
GROUP BY c.cluster_id, c.kind, c.resource, c.purchase, c.workload_id, c.namespace, c.team
ORDER BY 1, 2, 3, 4, 5, 6, 7 LIMIT @limit`, pgx.NamedArgs{
		"tenant": tx.Tenant, "from": q.From, "to": q.To, "cluster": string(q.Cluster), "namespace": q.Namespace, "team": q.Team, "workload": string(q.Workload), "limit": maxOwnerCosts + 1,
		"as_of": orNull(q.AsOf), "first_day": q.From.UTC().Add(24*time.Hour - 1).Truncate(24 * time.Hour), "past_days": q.To.UTC().Truncate(24 * time.Hour),
	})
	if err != nil {
		return nil, fmt.Errorf("load costs: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c OwnerCost, err error) {
		err = r.Scan(&c.Cluster, &c.Kind, &c.Resource, &c.Purchase, &c.Owner.Workload, &c.Owner.Namespace, &c.Owner.Team, &c.Amount, &c.Quantity, &c.Unpriced, &c.Measured, &c.Used)
		return c, err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("load costs: %w", err)
	case len(all) > maxOwnerCosts:
		return nil, fleet.Errorf(fleet.CodeTooLarge, "the span holds more than %d costs; ask for less", maxOwnerCosts)
	}
	return all, nil
}

// IssuedStatement is a statement as it was issued.
type IssuedStatement struct {
	ID       string
	Month    time.Time // first day; the date counts
	Scope    string    // tenant or team
	Team     string
	Version  int
	Kind     string // showback or chargeback
	From, To time.Time
	AsOf     time.Time
	Total    fleet.Money
	Document json.RawMessage
	IssuedBy string
}

const statementColumns = `id::text, month::timestamptz, scope, team, version, kind, from_at, to_at, as_of, total_nano, document, issued_by`

// IssueStatement stores a statement as the next version of its month, scope and team.
func IssueStatement(ctx context.Context, tx *Tx, s IssuedStatement) (IssuedStatement, error) {
	s.ID = uuid.Must(uuid.NewV7()).String()
	err := tx.pgx.QueryRow(ctx, `
INSERT INTO statement (tenant_id, id, month, scope, team, version, kind, from_at, to_at, as_of, total_nano, document, issued_by)
SELECT $1, $2, $3::date, $4, $5, coalesce(max(version), 0) + 1, $6, $7, $8, $9, $10, $11, $12 FROM statement WHERE tenant_id = $1 AND month = $3::date AND scope = $4 AND team = $5
RETURNING version`, tx.Tenant, s.ID, s.Month, s.Scope, s.Team, s.Kind, s.From, s.To, s.AsOf, int64(s.Total), s.Document, s.IssuedBy).Scan(&s.Version)
	switch {
	case violates(err, "statement_version"):
		return s, fleet.Errorf(fleet.CodeConflict, "somebody else issued this statement at the same moment; look at theirs")
	case err != nil:
		return s, fmt.Errorf("issue statement: %w", err)
	}
	return s, nil
}

// IssuedStatements lists statements of a month, or (zero) the newest of all, without their documents.
func IssuedStatements(ctx context.Context, tx *Tx, month time.Time, limit int) ([]IssuedStatement, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+statementColumns+` FROM (
  SELECT tenant_id, id, month, scope, team, version, kind, from_at, to_at, as_of, total_nano, 'null'::jsonb AS document, issued_by FROM statement
  WHERE tenant_id = $1 AND ($2::date IS NULL OR month = $2::date) ORDER BY as_of DESC, id LIMIT $3) s ORDER BY as_of DESC, id`, tx.Tenant, orNull(month), limit)
	if err != nil {
		return nil, fmt.Errorf("load statements: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[IssuedStatement])
}

// StatementByID loads one.
func StatementByID(ctx context.Context, tx *Tx, id string) (IssuedStatement, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+statementColumns+` FROM statement WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id)
	if err != nil {
		return IssuedStatement{}, fmt.Errorf("load statement: %w", err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[IssuedStatement])
	if err != nil {
		return s, notFound(err, "statement")
	}
	return s, nil
}

// Consistent makes the transaction see the database as it is now, until it ends, and still write. It must be the first thing that the
// transaction does. What others changed meanwhile makes its writes fail as unavailable, to be tried again.
func Consistent(ctx context.Context, tx *Tx) error {
	if _, err := tx.pgx.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
		return fmt.Errorf("take snapshot: %w", err)
	}
	return nil
}
