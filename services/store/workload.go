package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// WorkloadRow is a workload as lists show it.
type WorkloadRow struct {
	ID            fleet.WorkloadID
	Cluster       fleet.ClusterID
	ClusterName   string
	ClusterMode   fleet.Mode
	Key           string
	Namespace     string
	Kind          string
	Name          string
	Team          string
	Class         string
	Labels        map[string]string
	CPUMilli      int64
	MemMiB        int64
	GPUMilli      int64
	Replicas      int
	Scalable      bool
	Preflight     []string
	GoneAt        *time.Time
	DataAt        *time.Time // the cluster's newest data
	PolicyVersion int        // 0: no policy
	PolicyDoc     string
	LastID        *fleet.DecisionID
	LastAt        *time.Time
	LastOutcome   *string
	LastBinding   *string
	LastTarget    *int
	LastState     *string
}

// WorkloadFilter selects workloads; empty fields select all.
type WorkloadFilter struct {
	ID        fleet.WorkloadID
	Cluster   fleet.ClusterID
	Namespace string
	Team      string
	Query     string // part of the key, any case
	Gone      bool   // also those that are no longer in their cluster
	AfterKey  string // after the workload with this key and id, in the order of keys
	AfterID   fleet.WorkloadID
	Limit     int
}

// Workloads lists workloads by key.
func Workloads(ctx context.Context, tx *Tx, f WorkloadFilter) ([]WorkloadRow, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT w.id::text, w.cluster_id::text, c.name, c.mode, w.key, w.namespace, w.kind, w.name, w.team, w.class, w.labels, w.cpu_milli, w.mem_mib,
  w.gpu_milli, w.replicas, w.scalable, w.preflight, w.gone_at, c.data_at, coalesce(p.version, 0), coalesce(p.document, ''),
  d.id::text, d.at, d.outcome, d.binding, d.target, d.state
FROM workload w JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id
LEFT JOIN LATERAL (SELECT version, document FROM policy p WHERE p.tenant_id = w.tenant_id AND p.workload_id = w.id ORDER BY version DESC LIMIT 1) p ON true
LEFT JOIN LATERAL (SELECT id, at, outcome, binding, target, state FROM decision d WHERE d.tenant_id = w.tenant_id AND d.workload_id = w.id
                   ORDER BY at DESC, id LIMIT 1) d ON true
WHERE w.tenant_id = @tenant
  AND (@id = '' OR w.id = nullif(@id, '')::uuid) AND (@cluster = '' OR w.cluster_id = nullif(@cluster, '')::uuid)
  AND (@namespace = '' OR w.namespace = @namespace) AND (@team = '' OR w.team = @team)
  AND (@query = '' OR strpos(lower(w.key), lower(@query)) > 0)
  AND (@gone OR w.gone_at IS NULL)
  AND (@after_key = '' OR (w.key, w.id) > (@after_key, nullif(@after_id, '')::uuid))
ORDER BY w.key, w.id LIMIT @limit`, pgx.NamedArgs{
		"tenant": tx.Tenant, "id": string(f.ID), "cluster": string(f.Cluster), "namespace": f.Namespace, "team": f.Team, "query": f.Query,
		"gone": f.Gone, "after_key": f.AfterKey, "after_id": string(f.AfterID), "limit": f.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("load workloads: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[WorkloadRow])
}

// LatestObservations returns the newest observation of each workload of the clusters, by cluster and key.
// An agent tells a large cluster in parts of one tick, which arrive one after the other: the tick before fills in what is still to come.
func LatestObservations(ctx context.Context, tx *Tx, clusters []fleet.ClusterID) (map[fleet.ClusterID]map[string]*agentv1.WorkloadObservation, error) {
	out := map[fleet.ClusterID]map[string]*agentv1.WorkloadObservation{}
	ids := make([]string, len(clusters))
	for i, c := range clusters {
		ids[i] = string(c)
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT c.id::text, o.body FROM unnest($2::uuid[]) AS c(id)
CROSS JOIN LATERAL (SELECT o.at, o.body FROM observation o WHERE o.tenant_id = $1 AND o.cluster_id = c.id AND o.at IN (
  SELECT DISTINCT n.at FROM observation n WHERE n.tenant_id = $1 AND n.cluster_id = c.id ORDER BY n.at DESC LIMIT 2)) o
ORDER BY o.at`, tx.Tenant, ids)
	if err != nil {
		return nil, fmt.Errorf("load newest observations: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id fleet.ClusterID
		var body []byte
		if err := rows.Scan(&id, &body); err != nil {
			return nil, fmt.Errorf("read newest observation: %w", err)
		}
		var o agentv1.Observation
		if err := proto.Unmarshal(body, &o); err != nil {
			return nil, fmt.Errorf("read newest observation: %w", err)
		}
		byKey := out[id]
		if byKey == nil {
			byKey = make(map[string]*agentv1.WorkloadObservation, len(o.GetWorkloads()))
		}
		for _, w := range o.GetWorkloads() {
			byKey[w.GetWorkload()] = w
		}
		out[id] = byKey
	}
	return out, rows.Err()
}

// Hosts returns, for each of the workloads, the machine that most of its live replicas run on.
func Hosts(ctx context.Context, tx *Tx, workloads []fleet.WorkloadID) (map[fleet.WorkloadID]Host, error) {
	ids := make([]string, len(workloads))
	for i, w := range workloads {
		ids[i] = string(w)
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT DISTINCT ON (w.id) w.id::text, n.cloud, n.region, n.zone, n.instance_type, n.purchase, n.cpu_milli, n.mem_mib, n.gpu_model, n.gpu_count
FROM workload w JOIN pod p ON p.tenant_id = w.tenant_id AND p.cluster_id = w.cluster_id AND p.workload_key = w.key AND p.ended_at IS NULL
JOIN node n ON n.tenant_id = p.tenant_id AND n.cluster_id = p.cluster_id AND n.name = p.node AND n.ended_at IS NULL
WHERE w.tenant_id = $1 AND w.id = ANY ($2::uuid[])
GROUP BY w.id, n.cloud, n.region, n.zone, n.instance_type, n.purchase, n.cpu_milli, n.mem_mib, n.gpu_model, n.gpu_count
ORDER BY w.id, count(*) DESC, n.instance_type, n.zone, n.purchase`, tx.Tenant, ids)
	if err != nil {
		return nil, fmt.Errorf("load hosts: %w", err)
	}
	defer rows.Close()
	out := map[fleet.WorkloadID]Host{}
	for rows.Next() {
		var id fleet.WorkloadID
		var h Host
		if err := rows.Scan(&id, &h.Offering.Cloud, &h.Offering.Region, &h.Offering.Zone, &h.Offering.InstanceType, &h.Offering.Purchase,
			&h.Machine.CPUMilli, &h.Machine.MemMiB, &h.Machine.GPUModel, &h.Machine.GPUCount); err != nil {
			return nil, fmt.Errorf("read host: %w", err)
		}
		out[id] = h
	}
	return out, rows.Err()
}

// Writers returns who else wrote the replicas of a workload within ten minutes before its cluster's newest data.
func Writers(ctx context.Context, tx *Tx, cluster fleet.ClusterID, key string) ([]fleet.Writer, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT w.manager, w.object, w.field, w.at FROM workload_writer w JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id
WHERE w.tenant_id = $1 AND w.cluster_id = $2 AND w.workload_key = $3 AND w.at >= c.data_at - interval '10 minutes'
ORDER BY w.at DESC, w.manager`, tx.Tenant, cluster, key)
	if err != nil {
		return nil, fmt.Errorf("load writers: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[fleet.Writer])
}

// TimelinePoint is one bucket of a workload's history; nil = nobody said.
type TimelinePoint struct {
	At                time.Time `json:"at"`
	Replicas          *float32  `json:"replicas"`
	Ready             *float32  `json:"ready"`
	Starting          *float32  `json:"starting"`
	RequestRate       *float32  `json:"request_rate"`
	RequestRateMax    *float32  `json:"request_rate_max"`
	QueueLength       *float32  `json:"queue_length"`
	QueueLengthMax    *float32  `json:"queue_length_max"`
	RunningRequests   *float32  `json:"running_requests"`
	LatencyP50Seconds *float32  `json:"latency_p50_seconds"`
	LatencyP99Seconds *float32  `json:"latency_p99_seconds"`
	TTFTP99Seconds    *float32  `json:"ttft_p99_seconds"`
	GPUSMActiveRatio  *float32  `json:"gpu_sm_active_ratio"`
	GPUUtilRatio      *float32  `json:"gpu_util_ratio"`
	KVCacheRatio      *float32  `json:"kv_cache_ratio"`
	CPURatio          *float32  `json:"cpu_ratio"`
	CPUCores          *float32  `json:"cpu_cores"`
	MemoryMiB         *float32  `json:"memory_mib"`
	ErrorRatio        *float32  `json:"error_ratio"`
	LateRatio         *float32  `json:"late_ratio"`
}

// Resolution of a timeline.
type Resolution struct {
	Table string
	Step  time.Duration
	Every int // buckets of the table in one step
}

// ResolutionFor picks the roll-up that draws a span with at most about 700 points.
func ResolutionFor(span time.Duration) Resolution {
	switch {
	case span <= 11*time.Hour:
		return Resolution{"rollup_1m", time.Minute, 1}
	case span <= 48*time.Hour:
		return Resolution{"rollup_1m", 5 * time.Minute, 5}
	case span <= 29*24*time.Hour:
		return Resolution{"rollup_1h", time.Hour, 1}
	default:
		return Resolution{"rollup_1d", 24 * time.Hour, 1}
	}
}

// Timeline reads the history of a workload in [from, to).
func Timeline(ctx context.Context, tx *Tx, workload fleet.WorkloadID, from, to time.Time, r Resolution) ([]TimelinePoint, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT date_bin($5::interval, at, 'epoch') AS bucket, avg(replicas)::real, avg(ready)::real, avg(starting)::real, avg(request_rate)::real,
  max(request_rate_max)::real, avg(queue_length)::real, max(queue_length_max)::real, avg(running_requests)::real, avg(latency_p50_seconds)::real,
  max(latency_p99_seconds)::real, max(ttft_p99_seconds)::real, avg(gpu_sm_active_ratio)::real, avg(gpu_util_ratio)::real, avg(kv_cache_ratio)::real,
  avg(cpu_ratio)::real, avg(cpu_cores)::real, avg(memory_mib)::real, avg(error_ratio)::real, avg(late_ratio)::real
FROM `+r.Table+` WHERE tenant_id = $1 AND workload_id = $2 AND at >= $3 AND at < $4 GROUP BY 1 ORDER BY 1`,
		tx.Tenant, workload, from, to, r.Step)
	if err != nil {
		return nil, fmt.Errorf("load timeline: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[TimelinePoint])
}

// DataNow is the tenant's data time: the newest data of any cluster, or now without one.
func DataNow(ctx context.Context, tx *Tx) (time.Time, error) {
	var at *time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT max(data_at) FROM cluster WHERE tenant_id = $1`, tx.Tenant).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("load data time: %w", err)
	}
	if at == nil {
		return tx.Now, nil
	}
	return at.UTC(), nil
}
