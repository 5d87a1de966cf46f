package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// Costing is how far the costing of a cluster has come.
type Costing struct {
	DataAt     *time.Time // the cluster's newest data; nil: it has never reported
	FirstHour  *time.Time // the hour in which its first node started; nil: no node yet
	LastClosed *time.Time // newest hour in the ledger; nil: none
	Dirty      []DirtyBlock
}

// DirtyBlock is a block of two hours whose roll-ups are not made from all its data yet.
type DirtyBlock struct {
	At       time.Time
	MarkedAt time.Time // our clock, when its newest data came
}

// LockCosting makes this transaction the only one that costs the cluster, until it ends, and says how far the costing has come.
// ok is false when another transaction holds the lock: whoever holds it does the work.
func LockCosting(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (c Costing, ok bool, err error) {
	err = tx.pgx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('costing ' || $1::text, 0))`, string(cluster)).Scan(&ok)
	if err != nil || !ok {
		return c, false, err
	}
	err = tx.pgx.QueryRow(ctx, `
SELECT c.data_at,
  (SELECT date_trunc('hour', min(started_at)) FROM node n WHERE n.tenant_id = c.tenant_id AND n.cluster_id = c.id),
  (SELECT max(hour) FROM cost_hour h WHERE h.tenant_id = c.tenant_id AND h.cluster_id = c.id AND h.state = 'closed')
FROM cluster c WHERE c.tenant_id = $1 AND c.id = $2`, tx.Tenant, cluster).Scan(&c.DataAt, &c.FirstHour, &c.LastClosed)
	if err != nil {
		return c, false, notFound(err, "cluster")
	}
	rows, err := tx.pgx.Query(ctx, `SELECT block_at, marked_at FROM rollup_dirty WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY block_at`, tx.Tenant, cluster)
	if err != nil {
		return c, false, fmt.Errorf("load dirty blocks: %w", err)
	}
	if c.Dirty, err = pgx.CollectRows(rows, pgx.RowToStructByPos[DirtyBlock]); err != nil {
		return c, false, fmt.Errorf("load dirty blocks: %w", err)
	}
	return c, true, nil
}

// CostedNode is a node with the place that its price depends on.
type CostedNode struct {
	ledger.Node
	Offering fleet.Offering
}

// FrozenPrice is what an earlier costing of an hour used.
type FrozenPrice struct {
	List, Effective *fleet.Money
	Source          string
	AsOf            time.Time
}

// HourKey names a node's hour.
type HourKey struct {
	Hour time.Time
	Node string // uid
}

// HourState is a row of cost_hour.
type HourState struct {
	State       string // open or closed
	Version     int
	ContentHash []byte
}

// CostInput is everything that the costing of the hours in [from, to) looks at.
type CostInput struct {
	Nodes  []CostedNode
	Pods   []ledger.Pod
	Usage  map[time.Time]map[fleet.WorkloadID]ledger.Usage // by hour
	Frozen map[HourKey]FrozenPrice
	Hours  map[time.Time]HourState
	Prices []TenantPrice
}

// LoadCostInput reads the inventory, roll-ups, frozen prices and states of the hours in [from, to).
func LoadCostInput(ctx context.Context, tx *Tx, cluster fleet.ClusterID, from, to time.Time) (*CostInput, error) {
	in := &CostInput{Usage: map[time.Time]map[fleet.WorkloadID]ledger.Usage{}, Frozen: map[HourKey]FrozenPrice{}, Hours: map[time.Time]HourState{}}
	batch := &pgx.Batch{}
	batch.Queue(`
SELECT uid, name, cloud, region, zone, instance_type, purchase, cpu_milli, mem_mib, gpu_model, gpu_count, started_at, ready_at, ended_at
FROM node WHERE tenant_id = $1 AND cluster_id = $2 AND started_at < $4 AND (ended_at IS NULL OR ended_at > $3) ORDER BY uid`,
		tx.Tenant, cluster, from, to).Query(in.readNodes)
	batch.Queue(`
SELECT p.uid, p.node, coalesce(w.id::text, ''), p.namespace, coalesce(w.team, ''), p.cpu_milli, p.mem_mib, p.gpu_milli,
  coalesce(p.started_at, p.created_at), p.ended_at
FROM pod p LEFT JOIN workload w ON w.tenant_id = p.tenant_id AND w.cluster_id = p.cluster_id AND w.key = p.workload_key
WHERE p.tenant_id = $1 AND p.cluster_id = $2 AND p.node <> '' AND p.created_at < $4 AND coalesce(p.started_at, p.created_at) < $4
  AND (p.ended_at IS NULL OR p.ended_at > $3) ORDER BY p.uid`, tx.Tenant, cluster, from, to).Query(in.readPods)
	batch.Queue(`
SELECT r.at, r.workload_id::text, r.cpu_cores, r.memory_mib, coalesce(r.gpu_sm_active_ratio, r.gpu_util_ratio)
FROM workload w JOIN rollup_1h r ON r.tenant_id = w.tenant_id AND r.workload_id = w.id AND r.at >= $3 AND r.at < $4
WHERE w.tenant_id = $1 AND w.cluster_id = $2`, tx.Tenant, cluster, from, to).Query(in.readUsage)
	batch.Queue(`
SELECT DISTINCT ON (hour, node_uid) hour, node_uid, list_nano, effective_nano, source, as_of FROM node_price
WHERE tenant_id = $1 AND cluster_id = $2 AND hour >= $3 AND hour < $4 ORDER BY hour, node_uid, version DESC`,
		tx.Tenant, cluster, from, to).Query(in.readFrozen)
	batch.Queue(`SELECT hour, state, version, content_hash FROM cost_hour WHERE tenant_id = $1 AND cluster_id = $2 AND hour >= $3 AND hour < $4`,
		tx.Tenant, cluster, from, to).Query(in.readHours)
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("load cost input: %w", err)
	}
	prices, err := TenantPrices(ctx, tx)
	if err != nil {
		return nil, err
	}
	in.Prices = prices
	return in, nil
}

func (in *CostInput) readNodes(rows pgx.Rows) error {
	for rows.Next() {
		var n CostedNode
		var ready, ended *time.Time
		o := &n.Offering
		if err := rows.Scan(&n.UID, &n.Name, &o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase, &n.CPUMilli, &n.MemMiB, &n.GPUModel, &n.GPUCount,
			&n.Life.From, &ready, &ended); err != nil {
			return err
		}
		n.Purchase = o.Purchase
		n.Life.From, n.ReadyAt, n.Life.To = n.Life.From.UTC(), orZero(ready), orZero(ended)
		in.Nodes = append(in.Nodes, n)
	}
	return rows.Err()
}

func (in *CostInput) readPods(rows pgx.Rows) error {
	for rows.Next() {
		var p ledger.Pod
		var ended *time.Time
		if err := rows.Scan(&p.UID, &p.Node, &p.Owner.Workload, &p.Owner.Namespace, &p.Owner.Team, &p.CPUMilli, &p.MemMiB, &p.GPUMilli, &p.Held.From, &ended); err != nil {
			return err
		}
		p.Held.From, p.Held.To = p.Held.From.UTC(), orZero(ended)
		in.Pods = append(in.Pods, p)
	}
	return rows.Err()
}

func (in *CostInput) readUsage(rows pgx.Rows) error {
	for rows.Next() {
		var at time.Time
		var id fleet.WorkloadID
		var cpu, mem, sm *float32
		if err := rows.Scan(&at, &id, &cpu, &mem, &sm); err != nil {
			return err
		}
		at = at.UTC()
		if in.Usage[at] == nil {
			in.Usage[at] = map[fleet.WorkloadID]ledger.Usage{}
		}
		in.Usage[at][id] = ledger.Usage{CPUCores: finite(cpu), MemMiB: finite(mem), GPUSM: finite(sm)}
	}
	return rows.Err()
}

func (in *CostInput) readFrozen(rows pgx.Rows) error {
	for rows.Next() {
		var key HourKey
		var p FrozenPrice
		var asOf *time.Time
		if err := rows.Scan(&key.Hour, &key.Node, &p.List, &p.Effective, &p.Source, &asOf); err != nil {
			return err
		}
		key.Hour, p.AsOf = key.Hour.UTC(), orZero(asOf)
		in.Frozen[key] = p
	}
	return rows.Err()
}

func (in *CostInput) readHours(rows pgx.Rows) error {
	for rows.Next() {
		var hour time.Time
		var h HourState
		if err := rows.Scan(&hour, &h.State, &h.Version, &h.ContentHash); err != nil {
			return err
		}
		in.Hours[hour.UTC()] = h
	}
	return rows.Err()
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func finite(f *float32) *float64 {
	if f == nil || math.IsNaN(float64(*f)) || math.IsInf(float64(*f), 0) {
		return nil
	}
	v := float64(*f)
	return &v
}

// UnpricedCluster is a cluster's node time without a price.
type UnpricedCluster struct {
	Cluster  fleet.ClusterID
	Name     string
	Unpriced int64 // node-seconds
	All      int64
	Types    []string // instance types whose newest hour has no price
}

// UnpricedClusters lists every cluster with costed hours since from.
func UnpricedClusters(ctx context.Context, tx *Tx, from time.Time) ([]UnpricedCluster, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT c.id::text, c.name, h.unpriced, h.seconds,
  (SELECT coalesce(array_agg(DISTINCT n.instance_type), '{}') FROM node_price p JOIN node n ON n.tenant_id = p.tenant_id AND n.cluster_id = p.cluster_id AND n.uid = p.node_uid
   WHERE h.unpriced > 0 AND p.tenant_id = c.tenant_id AND p.cluster_id = c.id AND p.hour >= $2 AND p.effective_nano IS NULL)
FROM cluster c JOIN (SELECT cluster_id, sum(unpriced_node_seconds)::bigint AS unpriced, sum(node_seconds)::bigint AS seconds FROM cost_hour
  WHERE tenant_id = $1 AND hour >= $2 GROUP BY cluster_id HAVING sum(node_seconds) > 0) h ON h.cluster_id = c.id
WHERE c.tenant_id = $1 ORDER BY c.name`, tx.Tenant, from)
	if err != nil {
		return nil, fmt.Errorf("load unpriced clusters: %w", err)
	}
	clusters, err := pgx.CollectRows(rows, pgx.RowToStructByPos[UnpricedCluster])
	if err != nil {
		return nil, fmt.Errorf("load unpriced clusters: %w", err)
	}
	return clusters, nil
}
