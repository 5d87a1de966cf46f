package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// savingForce is how long a decision counts: after a day nobody can say that the count before it would still be there.
const savingForce = 24 * time.Hour

// shadowSQL is the count that a HorizontalPodAutoscaler at 70 % asks for minute by minute: what is ready times its utilisation, which is the
// load as long as nothing is saturated, over 0.7, the highest of the last five minutes, within the policy's bounds.
const shadowSQL = `
SELECT workload_id, avg(replicas) FILTER (WHERE at >= @hour), avg(coalesce(starting, 0)) FILTER (WHERE at >= @hour AND replicas IS NOT NULL),
  CASE WHEN count(held) FILTER (WHERE at >= @hour) >= 30 THEN avg(held) FILTER (WHERE at >= @hour) END
FROM (
  SELECT m.workload_id, m.at, m.replicas, m.starting,
    least(p.max, greatest(p.min, max(ceil(m.ready * coalesce(m.gpu_util_ratio, m.gpu_sm_active_ratio, m.cpu_ratio) / 0.7)) OVER (PARTITION BY m.workload_id ORDER BY m.at ROWS BETWEEN 4 PRECEDING AND CURRENT ROW))) AS held
  FROM rollup_1m m JOIN unnest(@ids::uuid[], @min::int[], @max::int[]) AS p (id, min, max) ON p.id = m.workload_id
  WHERE m.tenant_id = @tenant AND m.at >= @hour::timestamptz - interval '5 minutes' AND m.at < @hour::timestamptz + interval '1 hour') x
GROUP BY workload_id`

// MeasureSavings writes what the closed hours of a cluster would have cost by other rules: at most limit hours that have none yet, or an older
// version, oldest first. It returns how many it wrote. Whoever calls it holds no other lock; two at once write the same.
func (db *DB) MeasureSavings(ctx context.Context, tx *Tx, cluster fleet.ClusterID, limit int) (int, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT h.hour, h.version FROM cost_hour h
WHERE h.tenant_id = $1 AND h.cluster_id = $2 AND h.state = 'closed'
  AND h.hour > (SELECT min(at) FROM decision WHERE tenant_id = $1 AND cluster_id = $2) - interval '1 hour'
  AND NOT EXISTS (SELECT FROM saving_hour s WHERE s.tenant_id = $1 AND s.cluster_id = $2 AND s.hour = h.hour AND s.workload_id = '`+noWorkload+`' AND s.version = h.version)
ORDER BY h.hour LIMIT $3`, tx.Tenant, cluster, limit)
	if err != nil {
		return 0, fmt.Errorf("load hours without savings: %w", err)
	}
	type due struct {
		Hour    time.Time
		Version int
	}
	hours, err := pgx.CollectRows(rows, pgx.RowToStructByPos[due])
	if err != nil || len(hours) == 0 {
		return 0, err
	}
	for _, h := range hours {
		if err := db.measureHour(ctx, tx, cluster, h.Hour.UTC(), h.Version); err != nil {
			return 0, fmt.Errorf("savings of %s: %w", h.Hour.Format(time.RFC3339), err)
		}
	}
	return len(hours), nil
}

// automated is a workload with a policy in an hour.
type automated struct {
	ledger.AutomatedHour
	min, max   int
	ups, downs int
}

func (db *DB) measureHour(ctx context.Context, tx *Tx, cluster fleet.ClusterID, hour time.Time, version int) error {
	all, err := db.automatedIn(ctx, tx, cluster, hour)
	if err != nil {
		return err
	}
	if err := addCounts(ctx, tx, all, hour); err != nil {
		return err
	}
	if err := addDecisions(ctx, tx, cluster, all, hour); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM saving_hour WHERE tenant_id = $1 AND cluster_id = $2 AND hour = $3`, tx.Tenant, cluster, hour)
	const insert = `INSERT INTO saving_hour (tenant_id, cluster_id, hour, workload_id, version, amount_nano, unit_nano, replicas_milli, max_replicas, static_nano, shadow_nano, stayed_nano, promised_nano, cooldown_nano,
  starting_nano, ups, downs) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`
	batch.Queue(insert, tx.Tenant, cluster, hour, noWorkload, version, 0, nil, nil, 0, nil, nil, nil, 0, nil, nil, 0, 0)
	for _, id := range sortedKeys(all) {
		a := all[id]
		s := a.Save()
		batch.Queue(insert, tx.Tenant, cluster, hour, id, version, a.Amount, s.Unit, a.Replicas, a.max, s.Static, s.Shadow, s.Stayed, s.Promised, s.Cooldown, s.Starting, a.ups, a.downs)
	}
	return tx.pgx.SendBatch(ctx, batch).Close()
}

func sortedKeys(all map[fleet.WorkloadID]*automated) []fleet.WorkloadID {
	ids := make([]fleet.WorkloadID, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// automatedIn are the workloads that had a decision by the end of the hour, with the cost of the hour and the last price of a replica.
func (db *DB) automatedIn(ctx context.Context, tx *Tx, cluster fleet.ClusterID, hour time.Time) (map[fleet.WorkloadID]*automated, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT w.id::text, p.document, coalesce(c.amount, 0)::bigint, s.unit_nano
FROM workload w
JOIN LATERAL (SELECT document FROM policy p WHERE p.tenant_id = $1 AND p.workload_id = w.id ORDER BY version DESC LIMIT 1) p ON true
LEFT JOIN (SELECT workload_id, sum(amount_nano) AS amount FROM cost_hour_line WHERE tenant_id = $1 AND cluster_id = $2 AND hour = $3 AND kind = 'workload' GROUP BY workload_id) c ON c.workload_id = w.id
LEFT JOIN saving_hour s ON s.tenant_id = $1 AND s.cluster_id = $2 AND s.hour = $3::timestamptz - interval '1 hour' AND s.workload_id = w.id
WHERE w.tenant_id = $1 AND w.cluster_id = $2 AND (w.gone_at IS NULL OR w.gone_at > $3) AND w.first_seen < $3::timestamptz + interval '1 hour'
  AND EXISTS (SELECT FROM decision d WHERE d.tenant_id = $1 AND d.workload_id = w.id AND d.at < $3::timestamptz + interval '1 hour')`, tx.Tenant, cluster, hour)
	if err != nil {
		return nil, fmt.Errorf("load workloads: %w", err)
	}
	all := map[fleet.WorkloadID]*automated{}
	var id fleet.WorkloadID
	var document string
	var amount fleet.Money
	var unit *fleet.Money
	_, err = pgx.ForEachRow(rows, []any{&id, &document, &amount, &unit}, func() error {
		policy, findings := db.ParsePolicy(document)
		if len(findings) > 0 && policy.Max == 0 {
			return nil // nothing that could be compared with
		}
		a := &automated{min: policy.Min, max: policy.Max}
		a.Amount, a.Unit, a.Max = amount, unit, int64(policy.Max)
		all[id] = a
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load workloads: %w", err)
	}
	return all, nil
}

func addCounts(ctx context.Context, tx *Tx, all map[fleet.WorkloadID]*automated, hour time.Time) error {
	var ids []string
	var least, most []int
	for _, id := range sortedKeys(all) {
		ids, least, most = append(ids, string(id)), append(least, all[id].min), append(most, all[id].max)
	}
	rows, err := tx.pgx.Query(ctx, shadowSQL, pgx.NamedArgs{"tenant": tx.Tenant, "hour": hour, "ids": orEmpty(ids), "min": least, "max": most})
	if err != nil {
		return fmt.Errorf("load counts: %w", err)
	}
	var id fleet.WorkloadID
	var replicas, starting, shadow *float64
	_, err = pgx.ForEachRow(rows, []any{&id, &replicas, &starting, &shadow}, func() error {
		if a := all[id]; a != nil {
			a.Replicas, a.Starting, a.Shadow = milli(replicas), milli(starting), milli(shadow)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load counts: %w", err)
	}
	return nil
}

func milli(f *float64) *int64 {
	if f == nil || math.IsNaN(*f) || *f < 0 || *f > 1e9 {
		return nil
	}
	n := int64(math.Round(*f * 1000))
	return &n
}

// event is a decision as far as money is concerned.
type event struct {
	Workload     fleet.WorkloadID
	At           time.Time // decided
	InForce      *time.Time
	Outcome      string
	From, Needed int
	Target       int
	Binding      string
	Delta        *fleet.Money
}

func addDecisions(ctx context.Context, tx *Tx, cluster fleet.ClusterID, all map[fleet.WorkloadID]*automated, hour time.Time) error {
	rows, err := tx.pgx.Query(ctx, `
SELECT workload_id::text, at, CASE WHEN state = 'applied' THEN coalesce(finished_at, at) END, outcome, from_replicas, needed, target, binding, cost_delta_nano FROM decision
WHERE tenant_id = $1 AND cluster_id = $2 AND at >= $3 AND at < $4 ORDER BY workload_id, at, id`, tx.Tenant, cluster, hour.Add(-savingForce), hour.Add(time.Hour))
	if err != nil {
		return fmt.Errorf("load decisions: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
	if err != nil {
		return fmt.Errorf("load decisions: %w", err)
	}
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Workload == events[0].Workload {
			n++
		}
		if a := all[events[0].Workload]; a != nil {
			a.decisions(events[:n], hour)
		}
		events = events[n:]
	}
	return nil
}

// decisions adds what the decisions of one workload, by time, mean for the hour.
func (a *automated) decisions(events []event, hour time.Time) {
	end := hour.Add(time.Hour)
	overlap := func(from, to time.Time) int64 {
		if from.Before(hour) {
			from = hour
		}
		if to.After(end) {
			to = end
		}
		return max(to.Sub(from).Milliseconds(), 0)
	}
	const whole = int64(time.Hour / time.Millisecond)
	var cooldown, before, covered int64
	var applied []event
	for i, e := range events {
		if e.InForce != nil && e.Outcome != "hold" {
			applied = append(applied, e)
		}
		if e.Needed < e.Target && (e.Binding == "cooldown_down" || e.Binding == "stabilisation") {
			until := e.At.Add(savingForce)
			if i+1 < len(events) {
				until = events[i+1].At
			}
			cooldown += int64(e.Target-e.Needed) * overlap(e.At, until)
		}
	}
	for i, e := range applied {
		until := e.InForce.Add(savingForce)
		if i+1 < len(applied) && applied[i+1].InForce.Before(until) {
			until = *applied[i+1].InForce
		}
		ms := overlap(*e.InForce, until)
		before, covered = before+int64(e.From)*ms, covered+ms
		if e.Delta != nil && ms > 0 {
			a.Promised = a.Promised.Add(-e.Delta.MulDiv(ms, whole))
		}
		if !e.InForce.Before(hour) && e.InForce.Before(end) {
			if e.Outcome == "scale_up" {
				a.ups++
			} else {
				a.downs++
			}
		}
	}
	held := cooldown * 1000 / whole
	a.Cooldown = &held
	if covered > 0 && a.Replicas != nil { // where none was in force, what was there stays
		stayed := (before*1000 + *a.Replicas*max(whole-covered, 0)) / whole
		a.Before = &stayed
	}
}

// SavingSum is what a workload, or all, would have cost by other rules in a span. Each counterfactual comes with the measured amount of
// exactly the hours for which it is known.
type SavingSum struct {
	Day          time.Time // of a series
	Workload     fleet.WorkloadID
	Key, Team    string
	Amount       fleet.Money // of all its hours in the span: the ledger's
	Static       fleet.Money
	StaticAmount fleet.Money
	Shadow       fleet.Money
	ShadowAmount fleet.Money
	Stayed       fleet.Money
	StayedAmount fleet.Money
	Promised     fleet.Money
	Cooldown     fleet.Money
	Starting     fleet.Money
	Hours        int // workload-hours
	StaticHours  int
	ShadowHours  int
	StayedHours  int
	Ups, Downs   int
}

const savingSums = `sum(s.amount_nano)::bigint,
  coalesce(sum(s.static_nano), 0)::bigint, coalesce(sum(s.amount_nano) FILTER (WHERE s.static_nano IS NOT NULL), 0)::bigint,
  coalesce(sum(s.shadow_nano), 0)::bigint, coalesce(sum(s.amount_nano) FILTER (WHERE s.shadow_nano IS NOT NULL), 0)::bigint,
  coalesce(sum(s.stayed_nano), 0)::bigint, coalesce(sum(s.amount_nano) FILTER (WHERE s.stayed_nano IS NOT NULL), 0)::bigint,
  sum(s.promised_nano)::bigint, coalesce(sum(s.cooldown_nano), 0)::bigint, coalesce(sum(s.starting_nano), 0)::bigint,
  count(*)::int, count(s.static_nano)::int, count(s.shadow_nano)::int, count(s.stayed_nano)::int, sum(s.ups)::int, sum(s.downs)::int`

// Savings sums the hours of [q.From, q.To) by workload (largest cost first) or, with byDay, by UTC day. Of q count the span, cluster, team,
// namespace and workload.
func Savings(ctx context.Context, tx *Tx, q CostQuery, byDay bool) ([]SavingSum, error) {
	group := `NULL::timestamptz, w.id::text, w.key, w.team`
	if byDay {
		group = `date_trunc('day', s.hour, 'UTC'), '', '', ''`
	}
	rows, err := tx.pgx.Query(ctx, `SELECT `+group+`, `+savingSums+`
FROM saving_hour s JOIN workload w ON w.tenant_id = s.tenant_id AND w.id = s.workload_id
WHERE s.tenant_id = @tenant AND s.hour >= @from AND s.hour < @to AND (@cluster = '' OR s.cluster_id = nullif(@cluster, '')::uuid) AND (@namespace = '' OR w.namespace = @namespace)
  AND (@team = '' OR w.team = @team) AND (@workload = '' OR w.id = nullif(@workload, '')::uuid)
GROUP BY 1, 2, 3, 4 ORDER BY 1, 5 DESC, 2 LIMIT 20000`, pgx.NamedArgs{"tenant": tx.Tenant, "from": q.From, "to": q.To, "cluster": string(q.Cluster), "namespace": q.Namespace, "team": q.Team, "workload": string(q.Workload)})
	if err != nil {
		return nil, fmt.Errorf("load savings: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (s SavingSum, err error) {
		var day *time.Time
		err = r.Scan(&day, &s.Workload, &s.Key, &s.Team, &s.Amount, &s.Static, &s.StaticAmount, &s.Shadow, &s.ShadowAmount, &s.Stayed, &s.StayedAmount, &s.Promised, &s.Cooldown, &s.Starting,
			&s.Hours, &s.StaticHours, &s.ShadowHours, &s.StayedHours, &s.Ups, &s.Downs)
		s.Day = orZero(day)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("load savings: %w", err)
	}
	return all, nil
}
