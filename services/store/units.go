package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// WorkloadOutput is what a workload did in a span; nil: nobody said.
type WorkloadOutput struct {
	ID        fleet.WorkloadID
	Key       string
	Namespace string
	Team      string
	Kind      string
	Amount    fleet.Money // allocation basis: what it held
	Used      fleet.Money // usage basis: the part of Measured that was used
	Measured  fleet.Money // the part of Amount whose use is known
	Unpriced  bool
	TokensIn  *float64
	TokensOut *float64
	Requests  *float64
	RunHours  *float64 // in which a replica was ready
	KeptMins  *float64 // minutes times the share of requests in time
	Coverage  float64  // share of its hours that telemetry speaks of
}

// maxOutputs bounds one answer.
const maxOutputs = 20_000

// WorkloadOutputs are the workloads with costs in the whole hours of [from, to), and what they did. Rates are means of an hour, so a count is
// rate times 3,600, times the part of the hour that was reported: the samples of the workload over the most that any had in that hour.
func WorkloadOutputs(ctx context.Context, tx *Tx, q CostQuery) ([]WorkloadOutput, error) {
	costs, err := OwnerCosts(ctx, tx, q)
	if err != nil {
		return nil, err
	}
	at := map[fleet.WorkloadID]int{}
	var all []WorkloadOutput
	for _, c := range costs {
		if c.Kind != ledger.KindWorkload || c.Owner.Workload == "" {
			continue
		}
		i, ok := at[c.Owner.Workload]
		if !ok {
			if len(all) >= maxOutputs {
				return nil, fleet.Errorf(fleet.CodeTooLarge, "more than %d workloads; ask for a cluster, a namespace or a team", maxOutputs)
			}
			i = len(all)
			at[c.Owner.Workload] = i
			all = append(all, WorkloadOutput{ID: c.Owner.Workload, Namespace: c.Owner.Namespace, Team: c.Owner.Team})
		}
		w := &all[i]
		w.Amount, w.Unpriced = w.Amount.Add(c.Amount), w.Unpriced || c.Unpriced > 0
		if priced := c.Quantity - c.Unpriced; priced > 0 && c.Measured > 0 {
			w.Measured = w.Measured.Add(share(c.Amount, c.Measured, c.Quantity))
			w.Used = w.Used.Add(share(c.Amount, min(c.Used, c.Measured), c.Quantity))
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, addOutputs(ctx, tx, all, at, q.From, q.To)
}

// share is the part of an amount that so much of a quantity bears.
func share(m fleet.Money, part, whole float64) fleet.Money {
	const grain = 1 << 40
	if whole <= 0 || part <= 0 {
		return 0
	}
	return m.MulDiv(int64(min(part/whole, 1)*grain), grain)
}

func addOutputs(ctx context.Context, tx *Tx, all []WorkloadOutput, at map[fleet.WorkloadID]int, from, to time.Time) error {
	ids := make([]string, len(all))
	for i, w := range all {
		ids[i] = string(w.ID)
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT w.id::text, w.key, w.kind, r.tokens_in, r.tokens_out, r.requests, r.run_hours, r.kept, coalesce(r.hours, 0)
FROM workload w LEFT JOIN (
  SELECT workload_id, 3600 * sum(tokens_in_per_second * part) AS tokens_in, 3600 * sum(tokens_out_per_second * part) AS tokens_out, 3600 * sum(request_rate * part) AS requests,
    sum(least(ready, 1) * part) AS run_hours, 60 * sum((1 - late_ratio) * part) FILTER (WHERE request_rate > 0) AS kept, sum(part) AS hours
  FROM (SELECT r.*, r.samples::float8 / nullif(max(r.samples) OVER (PARTITION BY r.cluster_id, r.at), 0) AS part FROM rollup_1h r WHERE r.tenant_id = $1 AND r.at >= $3 AND r.at < $4) r
  WHERE workload_id = ANY ($2::uuid[]) GROUP BY workload_id) r ON r.workload_id = w.id
WHERE w.tenant_id = $1 AND w.id = ANY ($2::uuid[])`, tx.Tenant, ids, from, to)
	if err != nil {
		return fmt.Errorf("load outputs: %w", err)
	}
	var o WorkloadOutput
	var hours float64
	span := to.Sub(from).Hours()
	_, err = pgx.ForEachRow(rows, []any{&o.ID, &o.Key, &o.Kind, &o.TokensIn, &o.TokensOut, &o.Requests, &o.RunHours, &o.KeptMins, &hours}, func() error {
		w := &all[at[o.ID]]
		w.Key, w.Kind, w.TokensIn, w.TokensOut, w.Requests, w.RunHours, w.KeptMins, w.Coverage = o.Key, o.Kind, o.TokensIn, o.TokensOut, o.Requests, o.RunHours, o.KeptMins, hours/span
		return nil
	})
	if err != nil {
		return fmt.Errorf("load outputs: %w", err)
	}
	return nil
}
