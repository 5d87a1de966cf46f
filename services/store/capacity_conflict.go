package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// Conflict is a workload whose replicas others write as well.
type Conflict struct {
	Workload    fleet.WorkloadID
	Key         string
	Writers     []fleet.Writer // of the last day, newest first
	Mode        string         // of our policy; empty: none
	Yields      bool           // the newest decision left the replicas to the other writer
	Applied     int            // replicas that we set in the last day
	Overwritten int            // of those, how often somebody else had changed what we set before
	Refused     int            // by the agent, since somebody else had changed it
	LastAt      *time.Time     // of the newest such change; nil: none
}

// maxFought bounds the workloads of one answer.
const maxFought = 500

// Conflicts lists the workloads of a cluster with other writers, those that are fought over most first. at is the moment the list is for.
func Conflicts(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (list []Conflict, at time.Time, err error) {
	var dataAt *time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT data_at FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, cluster).Scan(&dataAt); err != nil {
		return nil, at, notFound(err, "cluster")
	}
	if dataAt == nil {
		return []Conflict{}, at, nil
	}
	at = dataAt.UTC()
	rows, err := tx.pgx.Query(ctx, `
WITH set AS (
  SELECT d.workload_id, d.finished_at, d.result_code, d.state, d.before_replicas,
    lag(d.after_replicas) OVER (PARTITION BY d.workload_id ORDER BY d.finished_at, d.id) AS left_at
  FROM decision d WHERE d.tenant_id = $1 AND d.cluster_id = $2 AND d.at > $3::timestamptz - interval '1 day' AND d.finished_at IS NOT NULL AND d.state IN ('applied', 'refused')
), fought AS (
  SELECT workload_id, count(*) FILTER (WHERE state = 'applied') AS applied,
    count(*) FILTER (WHERE state = 'applied' AND before_replicas <> left_at) AS overwritten,
    count(*) FILTER (WHERE state = 'refused' AND result_code IN ('conflict', 'precondition')) AS refused,
    max(finished_at) FILTER (WHERE before_replicas <> left_at OR result_code IN ('conflict', 'precondition')) AS last_at
  FROM set GROUP BY workload_id
)
SELECT w.id::text, w.key, coalesce((SELECT mode FROM policy p WHERE p.tenant_id = w.tenant_id AND p.workload_id = w.id ORDER BY version DESC LIMIT 1), ''),
  coalesce((SELECT d.binding = 'conflict' FROM decision d WHERE d.tenant_id = w.tenant_id AND d.workload_id = w.id ORDER BY d.at DESC, d.id DESC LIMIT 1), false),
  coalesce(f.applied, 0), coalesce(f.overwritten, 0), coalesce(f.refused, 0), f.last_at
FROM workload w LEFT JOIN fought f ON f.workload_id = w.id
WHERE w.tenant_id = $1 AND w.cluster_id = $2 AND w.gone_at IS NULL AND (coalesce(f.overwritten, 0) + coalesce(f.refused, 0) > 0
  OR EXISTS (SELECT FROM workload_writer x WHERE x.tenant_id = w.tenant_id AND x.cluster_id = w.cluster_id AND x.workload_key = w.key AND x.at > $3::timestamptz - interval '1 day'))
ORDER BY coalesce(f.overwritten, 0) + coalesce(f.refused, 0) DESC, w.key LIMIT $4`, tx.Tenant, cluster, at, maxFought)
	if err != nil {
		return nil, at, fmt.Errorf("list conflicts: %w", err)
	}
	list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Conflict, err error) {
		return c, row.Scan(&c.Workload, &c.Key, &c.Mode, &c.Yields, &c.Applied, &c.Overwritten, &c.Refused, &c.LastAt)
	})
	if err != nil {
		return nil, at, fmt.Errorf("list conflicts: %w", err)
	}
	return list, at, addWriters(ctx, tx, cluster, at, list)
}

func addWriters(ctx context.Context, tx *Tx, cluster fleet.ClusterID, at time.Time, list []Conflict) error {
	byKey, keys := map[string]*Conflict{}, []string{}
	for i := range list {
		byKey[list[i].Key] = &list[i]
		keys = append(keys, list[i].Key)
	}
	rows, err := tx.pgx.Query(ctx, `SELECT workload_key, manager, object, field, at FROM workload_writer
WHERE tenant_id = $1 AND cluster_id = $2 AND workload_key = ANY ($3) AND at > $4::timestamptz - interval '1 day' ORDER BY at DESC, manager, object`, tx.Tenant, cluster, keys, at)
	if err != nil {
		return fmt.Errorf("list writers: %w", err)
	}
	var key string
	var w fleet.Writer
	_, err = pgx.ForEachRow(rows, []any{&key, &w.Manager, &w.Object, &w.Field, &w.At}, func() error {
		c := byKey[key]
		w.At = w.At.UTC()
		c.Writers = append(c.Writers, w)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list writers: %w", err)
	}
	return nil
}

// NodeGPUs is how a node gives its GPUs out, in one group.
type NodeGPUs struct {
	Mode      string // whole, mig, time_slice, mps
	Count     int    // GPUs
	Replicas  int    // shares of one GPU
	Instances []NodeMIG
}

// NodeMIG is instances of one profile on the GPUs of a group together.
type NodeMIG struct {
	Profile string
	Count   int
}

// GPUGroupsOf gives the GPU groups of a cluster's live nodes by name; nodes whose GPUs are all whole ones are left out.
func GPUGroupsOf(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (map[string][]NodeGPUs, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT name, gpus FROM node WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL AND gpus <> '[]'::jsonb LIMIT $3`, tx.Tenant, cluster, maxNodes)
	if err != nil {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	out := map[string][]NodeGPUs{}
	var name string
	var groups []gpuGroup
	_, err = pgx.ForEachRow(rows, []any{&name, &groups}, func() error {
		for _, g := range groups {
			n := NodeGPUs{Mode: g.Mode, Count: g.Count, Replicas: g.Replicas}
			for _, i := range g.Instances {
				n.Instances = append(n.Instances, NodeMIG(i))
			}
			out[name] = append(out[name], n)
		}
		groups = nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	return out, nil
}
