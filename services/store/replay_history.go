package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"plimsoll.dev/services/fleet"
)

// PastMinute is one minute of a workload's history: means; nil means that nobody said.
type PastMinute struct {
	At          time.Time
	RequestRate *float64
	Queue       *float64
	Running     *float64
}

// ReplayHistory reads a workload's minutes in [from, to), oldest first: from the raw chunks where they are kept (30 days), else from the
// roll-ups of minutes. Minutes of which nobody said anything are left out.
func ReplayHistory(ctx context.Context, tx *Tx, cluster fleet.ClusterID, workload fleet.WorkloadID, key string, from, to time.Time) ([]PastMinute, error) {
	out := []PastMinute{}
	for block := from.Truncate(BlockLength); block.Before(to); block = block.Add(BlockLength) {
		ticks, columns, ok, err := Chunk(ctx, tx, cluster, kindWorkload, key, block)
		if err != nil {
			return nil, err
		}
		if !ok {
			part, err := pastRollups(ctx, tx, workload, maxTime(block, from), minTime(block.Add(BlockLength), to))
			if err != nil {
				return nil, err
			}
			out = append(out, part...)
			continue
		}
		out = append(out, pastMinutes(ticks, columns, from, to)...)
	}
	return out, nil
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func pastRollups(ctx context.Context, tx *Tx, workload fleet.WorkloadID, from, to time.Time) ([]PastMinute, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT at, request_rate::float8, queue_length::float8, running_requests::float8 FROM rollup_1m
		WHERE tenant_id = $1 AND workload_id = $2 AND at >= $3 AND at < $4 ORDER BY at`, tx.Tenant, workload, from, to)
	if err != nil {
		return nil, fmt.Errorf("read minutes: %w", err)
	}
	defer rows.Close()
	out := []PastMinute{}
	for rows.Next() {
		var m PastMinute
		if err := rows.Scan(&m.At, &m.RequestRate, &m.Queue, &m.Running); err != nil {
			return nil, fmt.Errorf("read minutes: %w", err)
		}
		m.At = m.At.UTC()
		out = append(out, m)
	}
	return out, rows.Err()
}

// pastMinutes folds the raw ticks of a chunk into minutes.
func pastMinutes(ticks []int64, columns []Column, from, to time.Time) []PastMinute {
	pick := func(field fleet.SignalName) []float64 {
		for _, c := range columns {
			if c.Field == string(field) {
				return c.Values
			}
		}
		return nil
	}
	series := [3][]float64{pick(fleet.SignalRequestRate), pick(fleet.SignalQueueLength), pick(fleet.SignalRunning)}
	out := []PastMinute{}
	for i := 0; i < len(ticks); {
		at := millis(ticks[i]).Truncate(time.Minute)
		end := i
		for end < len(ticks) && ticks[end] < at.UnixMilli()+60_000 {
			end++
		}
		if !at.Before(from) && at.Before(to) {
			m := PastMinute{At: at}
			for k, to := range []**float64{&m.RequestRate, &m.Queue, &m.Running} {
				*to = meanOf(series[k], i, end)
			}
			if m.RequestRate != nil || m.Queue != nil || m.Running != nil {
				out = append(out, m)
			}
		}
		i = end
	}
	return out
}

// meanOf the values that are there in [from, to); nil: none.
func meanOf(values []float64, from, to int) *float64 {
	sum, n := 0.0, 0
	for i := from; i < to && i < len(values); i++ {
		if v := values[i]; !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return nil
	}
	mean := sum / float64(n)
	return &mean
}

// MeasuredStart is how long the slow tenth of a workload's replicas took to get ready over the week before now, in seconds; 0: not known.
func MeasuredStart(ctx context.Context, tx *Tx, cluster fleet.ClusterID, key string, now time.Time) (int, error) {
	var seconds *float64
	err := tx.pgx.QueryRow(ctx, `SELECT CASE WHEN count(*) >= $5 THEN percentile_cont(0.9) WITHIN GROUP (ORDER BY extract(epoch FROM ready_at - created_at)::float8) END
FROM pod WHERE tenant_id = $1 AND cluster_id = $2 AND created_at > $3 AND ready_at > created_at AND workload_key = $4`,
		tx.Tenant, cluster, now.Add(-7*24*time.Hour), key, leastStarts).Scan(&seconds)
	if err != nil {
		return 0, fmt.Errorf("measure starts: %w", err)
	}
	if seconds == nil {
		return 0, nil
	}
	return int(*seconds + 0.5), nil
}
