package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// Overview is what the first page is made from. Amounts are in the tenant's currency.
type Overview struct {
	Now              time.Time
	Today            fleet.Money
	MonthToDate      fleet.Money
	PreviousSameSpan fleet.Money
	UnpricedShare    float64
	IdleShare        float64
	Days             []DayAmount
	LateRatio        *float64
	Worst            []LateWorkload
	SMActive         *float64
	Ready, Desired   int
	GPUs             int
	GPUsAllocated    float64
	Online, Offline  int
	Ups, Downs       int
	Holds, Capped    int
	Proposed         int
	AlertsOpen       int
	Automated        []AutomatedWorkload
}

// DayAmount is the cost of a UTC day.
type DayAmount struct {
	Day    time.Time
	Amount fleet.Money
}

// LateWorkload is a workload with its share of late requests.
type LateWorkload struct {
	ID    fleet.WorkloadID
	Key   string
	Ratio float64
}

// AutomatedWorkload is a workload with a policy and what it cost this month.
type AutomatedWorkload struct {
	ID       fleet.WorkloadID
	Cluster  fleet.ClusterID
	Document string
	CPUMilli int64
	MemMiB   int64
	GPUMilli int64
	Cost     int64 // nano-units, this month
	// Seconds of this month in which it was there and was costed, to the day.
	Seconds int64
}

// ForecastMonth is the month at its end if the recent rate holds, as budgets and the cost page forecast it; nil before an hour of data.
func (o Overview) ForecastMonth() *fleet.Money {
	days := make([]ledger.Spend, len(o.Days))
	for i, d := range o.Days {
		days[i] = ledger.Spend(d)
	}
	look := ledger.Look(days, o.Now)
	if !look.Known {
		return nil
	}
	total := o.MonthToDate.Add(look.Forecast - look.ToDate) // Days may not reach back to the first
	return &total
}

// onlineWithin is how long after its last report an agent still counts as online (our clock).
const onlineWithin = 90 * time.Second

// LoadOverview reads the first page at the tenant's data time, in one round trip.
func LoadOverview(ctx context.Context, tx *Tx, now time.Time) (Overview, error) {
	o := Overview{Now: now.UTC()}
	today := o.Now.Truncate(24 * time.Hour)
	month := time.Date(o.Now.Year(), o.Now.Month(), 1, 0, 0, 0, 0, time.UTC)
	b := &pgx.Batch{}
	queueOverviewCost(b, tx, &o, today, month)
	queueOverviewService(b, tx, &o)
	queueOverviewCounts(b, tx, &o)
	b.Queue(`
SELECT w.id::text, w.cluster_id::text, p.document, w.cpu_milli, w.mem_mib, w.gpu_milli, coalesce(c.amount, 0)::bigint,
  greatest(least(extract(epoch FROM $3 - greatest(w.first_seen, $2)), coalesce(c.days, 0) * 86400), 0)::bigint
FROM workload w
JOIN LATERAL (SELECT document FROM policy p WHERE p.tenant_id = w.tenant_id AND p.workload_id = w.id ORDER BY version DESC LIMIT 1) p ON true
LEFT JOIN LATERAL (SELECT sum(amount_nano) AS amount, count(DISTINCT day) AS days FROM cost_day c
                   WHERE c.tenant_id = w.tenant_id AND c.workload_id = w.id AND c.kind = 'workload' AND c.day >= $2) c ON true
WHERE w.tenant_id = $1 AND w.gone_at IS NULL ORDER BY w.id`, tx.Tenant, month, o.Now).Query(func(rows pgx.Rows) (err error) {
		o.Automated, err = pgx.CollectRows(rows, pgx.RowToStructByPos[AutomatedWorkload])
		return err
	})
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return o, fmt.Errorf("load overview: %w", err)
	}
	return o, nil
}

func queueOverviewCost(b *pgx.Batch, tx *Tx, o *Overview, today, month time.Time) {
	b.Queue(`SELECT day::timestamptz, sum(amount_nano)::bigint FROM cost_day WHERE tenant_id = $1 AND day > $2::date - 30 AND day <= $2::date GROUP BY day ORDER BY day`,
		tx.Tenant, today).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var d DayAmount
			if err := rows.Scan(&d.Day, &d.Amount); err != nil {
				return err
			}
			d.Day = d.Day.UTC()
			o.Days = append(o.Days, d)
			if d.Day.Equal(today) {
				o.Today = d.Amount
			}
		}
		return rows.Err()
	})
	// Before the month as much time counts as has passed of it: whole days, and hours of the one in which that begins.
	before := month.Add(month.Sub(o.Now)).UTC().Truncate(time.Hour)
	firstDay := before.Add(24*time.Hour - 1).Truncate(24 * time.Hour)
	b.Queue(`
SELECT coalesce(sum(amount_nano) FILTER (WHERE day >= $2::date), 0)::bigint, coalesce(sum(amount_nano) FILTER (WHERE day < $2::date), 0)::bigint,
  coalesce((sum(amount_nano) FILTER (WHERE day >= $2::date AND kind = 'idle') / nullif(sum(amount_nano) FILTER (WHERE day >= $2::date), 0))::float8, 0)
FROM (
  SELECT day, kind, amount_nano FROM cost_day WHERE tenant_id = $1 AND day >= ($4::timestamptz AT TIME ZONE 'UTC')::date
  UNION ALL SELECT (hour AT TIME ZONE 'UTC')::date, kind, amount_nano FROM cost_hour_line WHERE tenant_id = $1 AND hour >= $3 AND hour < $4) c`,
		tx.Tenant, month, before, firstDay).QueryRow(func(row pgx.Row) error {
		return row.Scan(&o.MonthToDate, &o.PreviousSameSpan, &o.IdleShare)
	})
	b.Queue(`SELECT coalesce(sum(unpriced_node_seconds)::float8 / nullif(sum(node_seconds), 0), 0) FROM cost_hour WHERE tenant_id = $1 AND hour >= $2`,
		tx.Tenant, month).QueryRow(func(row pgx.Row) error { return row.Scan(&o.UnpricedShare) })
}

func queueOverviewService(b *pgx.Batch, tx *Tx, o *Overview) {
	b.Queue(`
SELECT w.id::text, w.key, sum(r.late_ratio * r.request_rate) / nullif(sum(r.request_rate), 0), sum(r.request_rate)
FROM rollup_1h r JOIN workload w ON w.tenant_id = r.tenant_id AND w.id = r.workload_id
WHERE r.tenant_id = $1 AND r.at >= $2 AND r.late_ratio IS NOT NULL AND r.request_rate > 0 GROUP BY w.id, w.key ORDER BY 3 DESC NULLS LAST, w.key`,
		tx.Tenant, o.Now.Add(-24*time.Hour)).Query(func(rows pgx.Rows) error {
		late, all := 0.0, 0.0
		for rows.Next() {
			var w LateWorkload
			var rate float64
			if err := rows.Scan(&w.ID, &w.Key, &w.Ratio, &rate); err != nil {
				return err
			}
			late, all = late+w.Ratio*rate, all+rate
			if len(o.Worst) < 5 && w.Ratio > 0 {
				o.Worst = append(o.Worst, w)
			}
		}
		if all > 0 {
			ratio := late / all
			o.LateRatio = &ratio
		}
		return rows.Err()
	})
	b.Queue(`SELECT sum(gpu_sm_active_ratio * ready) / nullif(sum(ready), 0) FROM rollup_1m WHERE tenant_id = $1 AND at >= $2 AND gpu_sm_active_ratio IS NOT NULL`,
		tx.Tenant, o.Now.Add(-time.Hour)).QueryRow(func(row pgx.Row) error { return row.Scan(&o.SMActive) })
}

func queueOverviewCounts(b *pgx.Batch, tx *Tx, o *Overview) {
	b.Queue(`
SELECT (SELECT coalesce(sum(replicas), 0)::int FROM workload WHERE tenant_id = $1 AND gone_at IS NULL),
  (SELECT count(*)::int FROM pod WHERE tenant_id = $1 AND ended_at IS NULL AND phase = 'ready' AND workload_key <> ''),
  (SELECT coalesce(sum(gpu_count), 0)::int FROM node WHERE tenant_id = $1 AND ended_at IS NULL),
  (SELECT coalesce(sum(gpu_milli), 0)::float8 / 1000 FROM pod WHERE tenant_id = $1 AND ended_at IS NULL AND node <> ''),
  (SELECT count(*)::int FROM cluster WHERE tenant_id = $1 AND last_seen_at >= $2),
  (SELECT count(*)::int FROM cluster WHERE tenant_id = $1 AND last_seen_at < $2),
  (SELECT count(*)::int FROM alert WHERE tenant_id = $1 AND resolved_at IS NULL)`, tx.Tenant, tx.Now.Add(-onlineWithin)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&o.Desired, &o.Ready, &o.GPUs, &o.GPUsAllocated, &o.Online, &o.Offline, &o.AlertsOpen)
	})
	b.Queue(`
SELECT count(*) FILTER (WHERE outcome = 'scale_up' AND state <> 'proposed')::int, count(*) FILTER (WHERE outcome = 'scale_down' AND state <> 'proposed')::int,
  count(*) FILTER (WHERE outcome = 'hold')::int, count(*) FILTER (WHERE outcome = 'hold' AND binding = 'max_replicas')::int,
  count(*) FILTER (WHERE state = 'proposed')::int
FROM decision WHERE tenant_id = $1 AND at >= $2`, tx.Tenant, o.Now.Add(-24*time.Hour)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&o.Ups, &o.Downs, &o.Holds, &o.Capped, &o.Proposed)
	})
}
