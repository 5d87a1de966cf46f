package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// rollupColumns are the columns of rollup_1m, 1h and 1d in their order: which field of a workload's series each is made from, and
// whether it is the mean or the maximum of the bucket.
var rollupColumns = []struct {
	name, field string
	max         bool
}{
	{"replicas", "replicas", false},
	{"ready", "ready", false},
	{"starting", "starting", false},
	{"request_rate", string(fleet.SignalRequestRate), false},
	{"request_rate_max", string(fleet.SignalRequestRate), true},
	{"queue_length", string(fleet.SignalQueueLength), false},
	{"queue_length_max", string(fleet.SignalQueueLength), true},
	{"running_requests", string(fleet.SignalRunning), false},
	{"latency_p50_seconds", string(fleet.SignalLatencyP50), false},
	{"latency_p99_seconds", string(fleet.SignalLatencyP99), false},
	{"latency_p99_max", string(fleet.SignalLatencyP99), true},
	{"ttft_p99_seconds", string(fleet.SignalTTFTP99), false},
	{"kv_cache_ratio", string(fleet.SignalKVCache), false},
	{"gpu_sm_active_ratio", string(fleet.SignalGPUSM), false},
	{"gpu_util_ratio", string(fleet.SignalGPUUtil), false},
	{"gpu_memory_used_mib", string(fleet.SignalGPUMemory), false},
	{"cpu_cores", string(fleet.SignalCPU), false},
	{"cpu_ratio", string(fleet.SignalCPURatio), false},
	{"memory_mib", string(fleet.SignalMemory), false},
	{"error_ratio", string(fleet.SignalErrorRatio), false},
	{"late_ratio", string(fleet.SignalLateRatio), false},
	{"tokens_in_per_second", string(fleet.SignalTokensIn), false},
	{"tokens_out_per_second", string(fleet.SignalTokensOut), false},
}

const rollupWidth = 23

// rollup is one bucket of one workload; NaN: nobody said.
type rollup struct {
	workload fleet.WorkloadID
	at       time.Time
	samples  int // ticks with any value
	values   [rollupWidth]float64
}

// fold makes one coarser bucket of finer ones: means weighted by samples, maxima of maxima.
func fold(workload fleet.WorkloadID, at time.Time, parts []rollup) rollup {
	out := rollup{workload: workload, at: at}
	for c, column := range rollupColumns {
		sum, weight, top := 0.0, 0.0, math.NaN()
		for _, p := range parts {
			v := p.values[c]
			if math.IsNaN(v) {
				continue
			}
			sum += v * float64(p.samples)
			weight += float64(p.samples)
			if math.IsNaN(top) || v > top {
				top = v
			}
		}
		switch {
		case weight == 0:
			out.values[c] = math.NaN()
		case column.max:
			out.values[c] = top
		default:
			out.values[c] = sum / weight
		}
	}
	for _, p := range parts {
		out.samples += p.samples
	}
	return out
}

// foldAll groups buckets by workload and coarser step, and folds each group. The result is sorted.
func foldAll(parts []rollup, step time.Duration) []rollup {
	type key struct {
		workload fleet.WorkloadID
		at       time.Time
	}
	groups := map[key][]rollup{}
	for _, p := range parts {
		k := key{p.workload, p.at.Truncate(step)}
		groups[k] = append(groups[k], p)
	}
	out := make([]rollup, 0, len(groups))
	for k, group := range groups {
		slices.SortFunc(group, func(a, b rollup) int { return a.at.Compare(b.at) }) // sums of floats in one order
		out = append(out, fold(k.workload, k.at, group))
	}
	sortRollups(out)
	return out
}

func sortRollups(rows []rollup) {
	slices.SortFunc(rows, func(a, b rollup) int {
		if c := strings.Compare(string(a.workload), string(b.workload)); c != 0 {
			return c
		}
		return a.at.Compare(b.at)
	})
}

// merge puts fresh buckets over older ones of the same workload and time.
func merge(older, fresh []rollup) []rollup {
	type key struct {
		workload fleet.WorkloadID
		at       int64
	}
	have := make(map[key]bool, len(fresh))
	for _, r := range fresh {
		have[key{r.workload, r.at.UnixMilli()}] = true
	}
	out := slices.Clone(fresh)
	for _, r := range older {
		if !have[key{r.workload, r.at.UnixMilli()}] {
			out = append(out, r)
		}
	}
	return out
}

// minutes rolls one entity's raw columns up to minutes, from the given time on.
func minutes(workload fleet.WorkloadID, e *entity, from time.Time) []rollup {
	var columns [rollupWidth][]float64
	for c, column := range rollupColumns {
		if i, ok := e.index[column.field]; ok {
			columns[c] = e.columns[i]
		}
	}
	var out []rollup
	i, _ := slices.BinarySearch(e.ticks, from.UnixMilli())
	for i < len(e.ticks) {
		start := millis(e.ticks[i]).Truncate(time.Minute)
		end := i
		for end < len(e.ticks) && e.ticks[end] < start.UnixMilli()+60_000 {
			end++
		}
		if r := minute(workload, start, &columns, i, end); r.samples > 0 {
			out = append(out, r)
		}
		i = end
	}
	return out
}

func minute(workload fleet.WorkloadID, at time.Time, columns *[rollupWidth][]float64, from, to int) rollup {
	r := rollup{workload: workload, at: at}
	for c := range columns {
		r.values[c] = math.NaN()
		if columns[c] == nil {
			continue
		}
		sum, n, top := 0.0, 0, math.Inf(-1)
		for _, v := range columns[c][from:to] {
			if v == v {
				sum, n, top = sum+v, n+1, max(top, v)
			}
		}
		switch {
		case n == 0:
		case rollupColumns[c].max:
			r.values[c] = top
		default:
			r.values[c] = sum / float64(n)
		}
		r.samples = max(r.samples, n)
	}
	return r
}

var rollupSQL = func() (sql struct{ columns, update string }) {
	names, updates := make([]string, 0, rollupWidth), []string{"samples = excluded.samples"}
	for _, c := range rollupColumns {
		names, updates = append(names, c.name), append(updates, c.name+" = excluded."+c.name)
	}
	sql.columns, sql.update = strings.Join(names, ", "), strings.Join(updates, ", ")
	return sql
}()

func queueRollups(b *pgx.Batch, tx *Tx, table string, cluster fleet.ClusterID, list []rollup) {
	rows := make([][]any, 0, len(list))
	for _, r := range list {
		row := make([]any, 0, 5+rollupWidth)
		row = append(row, tx.Tenant, cluster, r.workload, r.at, r.samples)
		for _, v := range r.values {
			if math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 { // the columns are real; no measure of a workload is as large
				row = append(row, nil)
			} else {
				row = append(row, float32(v))
			}
		}
		rows = append(rows, row)
	}
	queueRows(b, "INSERT INTO "+table+" (tenant_id, cluster_id, workload_id, at, samples, "+rollupSQL.columns+")",
		"ON CONFLICT (tenant_id, workload_id, at) DO UPDATE SET "+rollupSQL.update, rows)
}

// loadRollups reads the buckets of some workloads in [from, to).
func loadRollups(ctx context.Context, tx *Tx, table string, workloads []fleet.WorkloadID, from, to time.Time) ([]rollup, error) {
	ids := make([]string, len(workloads))
	for i, w := range workloads {
		ids[i] = string(w)
	}
	rows, err := tx.pgx.Query(ctx, "SELECT workload_id::text, at, samples, "+rollupSQL.columns+" FROM "+table+
		" WHERE tenant_id = $1 AND workload_id = ANY ($2::uuid[]) AND at >= $3 AND at < $4", tx.Tenant, ids, from, to)
	if err != nil {
		return nil, fmt.Errorf("load roll-ups: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r rollup, err error) {
		var raw [rollupWidth]*float32
		targets := []any{&r.workload, &r.at, &r.samples}
		for i := range raw {
			targets = append(targets, &raw[i])
		}
		err = row.Scan(targets...)
		r.at = r.at.UTC()
		for i, v := range raw {
			r.values[i] = math.NaN()
			if v != nil {
				r.values[i] = float64(*v)
			}
		}
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("load roll-ups: %w", err)
	}
	return list, nil
}

// saveRollups writes minutes, and the hours and the day that follow from them. whole says that fresh holds every minute of its
// hours; otherwise the older minutes of these hours are read back.
func saveRollups(ctx context.Context, tx *Tx, cluster fleet.ClusterID, fresh []rollup, whole, keepMinutes bool) error {
	if len(fresh) == 0 {
		return nil
	}
	workloads, from, to := extent(fresh)
	all := fresh
	if !whole {
		older, err := loadRollups(ctx, tx, "rollup_1m", workloads, from.Truncate(time.Hour), to)
		if err != nil {
			return err
		}
		all = merge(older, fresh)
	}
	hours := foldAll(all, time.Hour)
	day := from.Truncate(24 * time.Hour) // a block never crosses midnight UTC
	others, err := loadRollups(ctx, tx, "rollup_1h", workloads, day, day.Add(24*time.Hour))
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	if keepMinutes {
		queueRollups(b, tx, "rollup_1m", cluster, fresh)
	}
	queueRollups(b, tx, "rollup_1h", cluster, hours)
	queueRollups(b, tx, "rollup_1d", cluster, foldAll(merge(others, hours), 24*time.Hour))
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("save roll-ups: %w", err)
	}
	return nil
}

// extent lists the workloads and the span [from, to) of buckets.
func extent(list []rollup) (workloads []fleet.WorkloadID, from, to time.Time) {
	from, to = list[0].at, list[0].at
	for _, r := range list {
		workloads = append(workloads, r.workload)
		if r.at.Before(from) {
			from = r.at
		}
		if r.at.After(to) {
			to = r.at
		}
	}
	slices.Sort(workloads)
	return slices.Compact(workloads), from, to.Add(time.Minute)
}
