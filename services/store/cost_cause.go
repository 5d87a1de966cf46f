package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/ledger"
)

// CostCause is a sum of what was paid for one cause by one owner.
type CostCause struct {
	ledger.Cause
	Key string // of the workload; empty for bare pods and idle
}

// maxCauses bounds one answer.
const maxCauses = 20_000

// Causes sums what parts of the costs of whole hours in [q.From, q.To) were for, dearest first. Of q only the filters count: what nobody
// owns is there when no owner is asked for.
func Causes(ctx context.Context, tx *Tx, q CostQuery) ([]CostCause, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT c.cause, c.reason, c.kind, c.resource, c.purchase, CASE WHEN c.workload_id = '`+noWorkload+`' THEN '' ELSE c.workload_id::text END, c.namespace, c.team,
  coalesce(w.key, ''), sum(c.amount_nano)::bigint, sum(c.quantity)
FROM cost_hour_cause c LEFT JOIN workload w ON w.tenant_id = c.tenant_id AND w.id = c.workload_id
WHERE c.tenant_id = @tenant AND c.hour >= @from AND c.hour < @to AND (@cluster = '' OR c.cluster_id = nullif(@cluster, '')::uuid)
  AND (@namespace = '' OR c.namespace = @namespace) AND (@team = '' OR c.team = @team) AND (@workload = '' OR c.workload_id = nullif(@workload, '')::uuid)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9 ORDER BY 10 DESC, 11 DESC, 1, 2, 4, 5, 6, 7, 8 LIMIT @limit`, pgx.NamedArgs{
		"tenant": tx.Tenant, "from": q.From, "to": q.To, "cluster": string(q.Cluster), "namespace": q.Namespace, "team": q.Team, "workload": string(q.Workload), "limit": maxCauses,
	})
	if err != nil {
		return nil, fmt.Errorf("load causes: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c CostCause, err error) {
		err = r.Scan(&c.Name, &c.Reason, &c.Kind, &c.Resource, &c.Purchase, &c.Owner.Workload, &c.Owner.Namespace, &c.Owner.Team, &c.Key, &c.Amount, &c.Quantity)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("load causes: %w", err)
	}
	return all, nil
}
