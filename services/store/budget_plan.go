package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// PlanBudgets reads the budgets that are enforced or have a breaker and count a workload that the input decides upon, as they stand for a
// decision at the input's time. A budget that was never checked is left out: nothing is known of it yet.
func PlanBudgets(ctx context.Context, tx *Tx, in optimizer.Input) ([]optimizer.Budget, error) {
	budgets, err := Budgets(ctx, tx)
	if err != nil {
		return nil, err
	}
	budgets = slices.DeleteFunc(budgets, func(b Budget) bool { return !b.Enforced && b.BreakerPercent == 0 })
	if len(budgets) == 0 {
		return nil, nil
	}
	standings, err := BudgetStandings(ctx, tx)
	if err != nil {
		return nil, err
	}
	var out []optimizer.Budget
	for _, b := range budgets {
		s, ok := standings[b.ID]
		if !ok || !s.To.After(in.Snapshot.Now) { // of a period that is over: the next check, minutes away, begins the new one
			continue
		}
		p := optimizer.Budget{ID: b.ID, Enforced: b.Enforced, Remaining: s.Left(b.Amount), EndsAt: s.To, AllowedHour: s.Allowed, UsualHour: UsualHour(b, s)}
		for _, w := range in.Snapshot.Workloads {
			if _, decided := in.Policies[w.Workload.ID]; decided && b.counts(in.Snapshot.Cluster, w.Workload) {
				p.Workloads = append(p.Workloads, w.Workload.ID)
			}
		}
		if len(p.Workloads) == 0 {
			continue
		}
		slices.Sort(p.Workloads)
		if p.ElsewhereHour, err = spentElsewhere(ctx, tx, b, in.Snapshot, p.Workloads); err != nil {
			return nil, err
		}
		if b.BreakerPercent > 0 {
			limit := p.UsualHour.MulDiv(int64(b.BreakerPercent), 100)
			p.BreakerHour = &limit
			if b.Tripped(in.Snapshot.Now) {
				at := b.TrippedAt.UTC()
				p.TrippedAt = &at
				if b.TrippedUntil != nil {
					until := b.TrippedUntil.UTC()
					p.Until = &until
				}
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b optimizer.Budget) int { return compareIDs(a.ID, b.ID) })
	return out, nil
}

func compareIDs(a, b fleet.BudgetID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// UsualHour is what an hour like this one costs, and at least the even rate of the budget: what a budget allows all the time is not a runaway.
func UsualHour(b Budget, s BudgetStanding) fleet.Money {
	hours := max(int64(s.To.Sub(s.From)/time.Hour), 1)
	even := b.Amount.MulDiv(1, hours)
	if !s.Forecast.Known {
		return even
	}
	return min(max(s.Forecast.UsualHour, even), math.MaxInt64/1000)
}

// Tripped says whether the budget's breaker holds at a data time.
func (b Budget) Tripped(now time.Time) bool {
	return b.TrippedAt != nil && (b.TrippedUntil == nil || now.Before(*b.TrippedUntil))
}

// counts says whether a budget counts what a workload of a cluster costs.
func (b Budget) counts(cluster fleet.ClusterID, w fleet.Workload) bool {
	return (b.Cluster == "" || b.Cluster == cluster) && (b.Namespace == "" || b.Namespace == w.Namespace) && (b.Team == "" || b.Team == w.Team) &&
		(b.Workload == "" || b.Workload == w.ID) && (b.LabelKey == "" || w.Labels[b.LabelKey] == b.LabelValue)
}

// spentElsewhere is what a budget counted in the last hour that is over, beside the given workloads of the snapshot's cluster.
func spentElsewhere(ctx context.Context, tx *Tx, b Budget, s fleet.Snapshot, workloads []fleet.WorkloadID) (fleet.Money, error) {
	ids := make([]string, len(workloads))
	for i, id := range workloads {
		ids[i] = string(id)
	}
	var m fleet.Money
	err := tx.pgx.QueryRow(ctx, `
SELECT coalesce(sum(l.amount_nano), 0)::bigint FROM `+budgetClusters+`
JOIN cost_hour_line l ON l.tenant_id = c.tenant_id AND l.cluster_id = c.id AND l.hour = @hour
WHERE c.tenant_id = @tenant AND (@cluster = '' OR c.id = nullif(@cluster, '')::uuid)
  AND NOT (l.cluster_id = @here::uuid AND l.workload_id = ANY (@ids::uuid[])) AND `+budgetCounts,
		b.args(tx, pgx.NamedArgs{"hour": s.Now.Add(-time.Hour).Truncate(time.Hour), "here": string(s.Cluster), "ids": ids})).Scan(&m)
	if err != nil {
		return 0, fmt.Errorf("load spend elsewhere: %w", err)
	}
	return max(m, 0), nil
}
