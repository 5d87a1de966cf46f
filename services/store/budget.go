package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// Budget is a limit on what a scope costs in a period. Empty scope fields mean all.
type Budget struct {
	ID         fleet.BudgetID
	Name       string
	Cluster    fleet.ClusterID
	Namespace  string
	Team       string
	Workload   fleet.WorkloadID
	Amount     fleet.Money
	Thresholds []int // percent, rising
	Webhook    string
	CreatedAt  time.Time
	Period     ledger.Period // empty on save: month
	LabelKey   string        // of workloads; empty: any
	LabelValue string
	// Enforced: planning keeps within it. Otherwise it only tells.
	Enforced bool
	// BreakerPercent of the usual hour freezes scale-ups; zero: no breaker. BreakerMinutes is for how long; zero: until somebody resets it.
	BreakerPercent int
	BreakerMinutes int
	TrippedAt      *time.Time
	TrippedUntil   *time.Time // nil while tripped: until somebody resets it
	HoursAt        *time.Time // when the hours it counts were last made anew as a whole
}

const budgetColumns = `id::text, name, coalesce(cluster_id::text, ''), coalesce(namespace, ''), coalesce(team, ''), coalesce(workload_id::text, ''),
  amount_nano, thresholds, coalesce(webhook_id::text, ''), created_at, period, coalesce(label_key, ''), coalesce(label_value, ''), enforced,
  coalesce(breaker_percent, 0), breaker_minutes, tripped_at, tripped_until, hours_at`

// Budgets lists the budgets that are not deleted, by name.
func Budgets(ctx context.Context, tx *Tx) ([]Budget, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+budgetColumns+` FROM budget WHERE tenant_id = $1 AND deleted_at IS NULL ORDER BY name, id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load budgets: %w", err)
	}
	budgets, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Budget])
	if err != nil {
		return nil, fmt.Errorf("load budgets: %w", err)
	}
	return budgets, nil
}

// LoadBudget finds one budget.
func LoadBudget(ctx context.Context, tx *Tx, id fleet.BudgetID) (Budget, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+budgetColumns+` FROM budget WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`, tx.Tenant, id)
	if err != nil {
		return Budget{}, fmt.Errorf("load budget: %w", err)
	}
	b, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Budget])
	if err != nil {
		return Budget{}, notFound(err, "budget")
	}
	return b, nil
}

// SaveBudget makes a budget (empty ID) or changes one; a change counts its hours anew. A name that is taken is a conflict; a scope or
// channel of nobody is invalid.
func SaveBudget(ctx context.Context, tx *Tx, b Budget) (Budget, error) {
	if err := checkBudgetScope(ctx, tx, b); err != nil {
		return Budget{}, err
	}
	if b.Period == "" {
		b.Period = ledger.PeriodMonth
	}
	var rows pgx.Rows
	var err error
	values := []any{tx.Tenant, b.ID, b.Name, string(b.Cluster), b.Namespace, b.Team, string(b.Workload), b.Amount, b.Thresholds, b.Webhook, b.Period,
		b.LabelKey, b.LabelValue, b.Enforced, b.BreakerPercent, b.BreakerMinutes}
	if b.ID == "" {
		values[1] = fleet.BudgetID(uuid.Must(uuid.NewV7()).String())
		rows, err = tx.pgx.Query(ctx, `
INSERT INTO budget (tenant_id, id, name, cluster_id, namespace, team, workload_id, amount_nano, thresholds, webhook_id, period, label_key, label_value,
  enforced, breaker_percent, breaker_minutes, created_at)
VALUES ($1, $2, $3, nullif($4, '')::uuid, nullif($5, ''), nullif($6, ''), nullif($7, '')::uuid, $8, $9, nullif($10, '')::uuid, $11, nullif($12, ''),
  CASE WHEN $12 = '' THEN NULL ELSE $13 END, $14, nullif($15, 0), $16, $17) RETURNING `+budgetColumns, append(values, tx.Now)...)
	} else {
		rows, err = tx.pgx.Query(ctx, `
UPDATE budget SET name = $3, cluster_id = nullif($4, '')::uuid, namespace = nullif($5, ''), team = nullif($6, ''), workload_id = nullif($7, '')::uuid,
  amount_nano = $8, thresholds = $9, webhook_id = nullif($10, '')::uuid, period = $11, label_key = nullif($12, ''),
  label_value = CASE WHEN $12 = '' THEN NULL ELSE $13 END, enforced = $14, breaker_percent = nullif($15, 0), breaker_minutes = $16, hours_at = NULL,
  tripped_at = CASE WHEN $15 = 0 THEN NULL ELSE tripped_at END, tripped_until = CASE WHEN $15 = 0 THEN NULL ELSE tripped_until END
WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL RETURNING `+budgetColumns, values...)
	}
	if err != nil {
		return Budget{}, fmt.Errorf("save budget: %w", err)
	}
	saved, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Budget])
	if violates(err, "budget_name_key") {
		return Budget{}, &fleet.Error{Code: fleet.CodeConflict, Message: "a budget of this name exists", Field: "body.name"}
	}
	if err != nil {
		return Budget{}, notFound(err, "budget")
	}
	return saved, nil
}

func checkBudgetScope(ctx context.Context, tx *Tx, b Budget) error {
	var cluster, workload, webhook bool
	err := tx.pgx.QueryRow(ctx, `
SELECT $2 = '' OR EXISTS (SELECT FROM cluster WHERE tenant_id = $1 AND id = nullif($2, '')::uuid),
  $3 = '' OR EXISTS (SELECT FROM workload WHERE tenant_id = $1 AND id = nullif($3, '')::uuid),
  $4 = '' OR EXISTS (SELECT FROM webhook WHERE tenant_id = $1 AND id = nullif($4, '')::uuid AND disabled_at IS NULL)`,
		tx.Tenant, string(b.Cluster), string(b.Workload), b.Webhook).Scan(&cluster, &workload, &webhook)
	switch {
	case err != nil:
		return fmt.Errorf("check budget: %w", err)
	case !cluster:
		return &fleet.Error{Code: fleet.CodeInvalid, Message: "no such cluster", Field: "body.cluster_id"}
	case !workload:
		return &fleet.Error{Code: fleet.CodeInvalid, Message: "no such workload", Field: "body.workload_id"}
	case !webhook:
		return &fleet.Error{Code: fleet.CodeInvalid, Message: "no such channel", Field: "body.webhook_id"}
	}
	return nil
}

// DeleteBudget ends a budget; its alerts are resolved at the next check.
func DeleteBudget(ctx context.Context, tx *Tx, id fleet.BudgetID) error {
	if err := changeOne(ctx, tx, `UPDATE budget SET deleted_at = $3 WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`, "budget", id, tx.Now); err != nil {
		return err
	}
	for _, table := range []string{"budget_hour", "budget_standing"} {
		if _, err := tx.pgx.Exec(ctx, `DELETE FROM `+table+` WHERE tenant_id = $1 AND budget_id = $2`, tx.Tenant, id); err != nil {
			return fmt.Errorf("delete budget: %w", err)
		}
	}
	return nil
}

// budgetClusters are the clusters c whose lines a budget may count, and what is the tenant's and no cluster's: unused commitments.
const budgetClusters = `(SELECT tenant_id, id FROM cluster WHERE tenant_id = @tenant UNION ALL SELECT @tenant::uuid, '` + string(NoCluster) + `'::uuid) c`

// budgetCounts selects the cost lines l that a budget counts.
const budgetCounts = `(@cluster = '' OR l.cluster_id = nullif(@cluster, '')::uuid) AND (@namespace = '' OR l.namespace = @namespace) AND (@team = '' OR l.team = @team)
  AND (@workload = '' OR l.workload_id = nullif(@workload, '')::uuid)
  AND (@label_key = '' OR l.workload_id IN (SELECT w.id FROM workload w WHERE w.tenant_id = @tenant AND w.labels ->> @label_key = @label_value))`

func (b Budget) args(tx *Tx, more pgx.NamedArgs) pgx.NamedArgs {
	args := pgx.NamedArgs{"tenant": tx.Tenant, "budget": b.ID, "cluster": string(b.Cluster), "namespace": b.Namespace, "team": b.Team, "workload": string(b.Workload),
		"label_key": b.LabelKey, "label_value": b.LabelValue}
	for k, v := range more {
		args[k] = v
	}
	return args
}

// DailySpend sums what a budget's scope cost per UTC day in [from, to), by day.
func DailySpend(ctx context.Context, tx *Tx, b Budget, from, to time.Time) ([]ledger.Spend, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT l.day, sum(l.amount_nano)::bigint FROM cost_day l
WHERE l.tenant_id = @tenant AND l.day >= @from::timestamptz::date AND l.day < @to::timestamptz::date AND `+budgetCounts+`
GROUP BY l.day ORDER BY l.day`, b.args(tx, pgx.NamedArgs{"from": from, "to": to}))
	if err != nil {
		return nil, fmt.Errorf("load spend: %w", err)
	}
	days, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.Spend])
	if err != nil {
		return nil, fmt.Errorf("load spend: %w", err)
	}
	return days, nil
}
