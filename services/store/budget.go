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

// Budget is a monthly limit on what a scope costs. Empty scope fields mean all.
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
}

const budgetColumns = `id::text, name, coalesce(cluster_id::text, ''), coalesce(namespace, ''), coalesce(team, ''), coalesce(workload_id::text, ''),
  amount_nano, thresholds, coalesce(webhook_id::text, ''), created_at`

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

// SaveBudget makes a budget (empty ID) or changes one. A name that is taken is a conflict; a scope or webhook of nobody is not found.
func SaveBudget(ctx context.Context, tx *Tx, b Budget) (Budget, error) {
	if err := checkBudgetScope(ctx, tx, b); err != nil {
		return Budget{}, err
	}
	var rows pgx.Rows
	var err error
	if b.ID == "" {
		b.ID = fleet.BudgetID(uuid.Must(uuid.NewV7()).String())
		rows, err = tx.pgx.Query(ctx, `
INSERT INTO budget (tenant_id, id, name, cluster_id, namespace, team, workload_id, amount_nano, thresholds, webhook_id, created_at)
VALUES ($1, $2, $3, nullif($4, '')::uuid, nullif($5, ''), nullif($6, ''), nullif($7, '')::uuid, $8, $9, nullif($10, '')::uuid, $11) RETURNING `+budgetColumns,
			tx.Tenant, b.ID, b.Name, string(b.Cluster), b.Namespace, b.Team, string(b.Workload), b.Amount, b.Thresholds, b.Webhook, tx.Now)
	} else {
		rows, err = tx.pgx.Query(ctx, `
UPDATE budget SET name = $3, cluster_id = nullif($4, '')::uuid, namespace = nullif($5, ''), team = nullif($6, ''), workload_id = nullif($7, '')::uuid,
  amount_nano = $8, thresholds = $9, webhook_id = nullif($10, '')::uuid
WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL RETURNING `+budgetColumns,
			tx.Tenant, b.ID, b.Name, string(b.Cluster), b.Namespace, b.Team, string(b.Workload), b.Amount, b.Thresholds, b.Webhook)
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
		return &fleet.Error{Code: fleet.CodeInvalid, Message: "no such webhook", Field: "body.webhook_id"}
	}
	return nil
}

// DeleteBudget ends a budget; its alerts are resolved.
func DeleteBudget(ctx context.Context, tx *Tx, id fleet.BudgetID) error {
	tag, err := tx.pgx.Exec(ctx, `UPDATE budget SET deleted_at = $3 WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`, tx.Tenant, id, tx.Now)
	if err != nil {
		return fmt.Errorf("delete budget: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such budget")
	}
	return nil
}

// DailySpend sums what a budget's scope cost per UTC day in [from, to), by day.
func DailySpend(ctx context.Context, tx *Tx, b Budget, from, to time.Time) ([]ledger.Spend, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT day, sum(amount_nano)::bigint FROM cost_day
WHERE tenant_id = $1 AND day >= $2::timestamptz::date AND day < $3::timestamptz::date
  AND ($4 = '' OR cluster_id = nullif($4, '')::uuid) AND ($5 = '' OR namespace = $5) AND ($6 = '' OR team = $6)
  AND ($7 = '' OR workload_id = nullif($7, '')::uuid)
GROUP BY day ORDER BY day`, tx.Tenant, from, to, string(b.Cluster), b.Namespace, b.Team, string(b.Workload))
	if err != nil {
		return nil, fmt.Errorf("load spend: %w", err)
	}
	days, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.Spend])
	if err != nil {
		return nil, fmt.Errorf("load spend: %w", err)
	}
	return days, nil
}
