package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
)

// Costing is how far the costing of a cluster has come.
type Costing struct {
	DataAt     *time.Time // the cluster's newest data; nil: it has never reported
	FirstHour  *time.Time // the hour in which its first node started; nil: no node yet
	LastClosed *time.Time // newest hour in the ledger; nil: none
	Dirty      []DirtyBlock
	Touched    []time.Time // closed hours that late data has changed, oldest first; see TouchedHours
	Unpriced   []time.Time // closed hours of the last day in which a node had no price, oldest first
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
	if c.LastClosed == nil {
		return c, true, nil
	}
	rows, err = tx.pgx.Query(ctx, `SELECT hour FROM cost_hour WHERE tenant_id = $1 AND cluster_id = $2 AND state = 'closed' AND unpriced_node_seconds > 0
AND hour > $3 ORDER BY hour`, tx.Tenant, cluster, c.LastClosed.Add(-24*time.Hour))
	if err != nil {
		return c, false, fmt.Errorf("load hours without prices: %w", err)
	}
	if c.Unpriced, err = pgx.CollectRows(rows, pgx.RowTo[time.Time]); err != nil {
		return c, false, fmt.Errorf("load hours without prices: %w", err)
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
	List, Contracted, Effective *fleet.Money
	Source                      string
	AsOf                        time.Time
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
	Weights     map[string]string // versions of the regression by cloud
}

// CostInput is everything that the costing of the hours in [from, to) looks at.
type CostInput struct {
	Nodes  []CostedNode
	Pods   []ledger.Pod                                    // by their beginning
	Usage  map[time.Time]map[fleet.WorkloadID]ledger.Usage // by hour
	Frozen map[HourKey]FrozenPrice
	Hours  map[time.Time]HourState
	Prices []TenantPrice
	// Weights that these hours were split by, by version.
	Weights map[string]market.Weights

	gpuMiB map[string]int64 // of one GPU, by name of the node
}

// LoadCostInput reads the inventory, roll-ups, frozen prices and states of the hours in [from, to).
func LoadCostInput(ctx context.Context, tx *Tx, cluster fleet.ClusterID, from, to time.Time) (*CostInput, error) {
	in := &CostInput{Usage: map[time.Time]map[fleet.WorkloadID]ledger.Usage{}, Frozen: map[HourKey]FrozenPrice{}, Hours: map[time.Time]HourState{}}
	batch := &pgx.Batch{}
	batch.Queue(`
SELECT uid, name, cloud, region, zone, instance_type, purchase, cpu_milli, mem_mib, gpu_model, gpu_count, gpu_memory_mib, gpus, started_at, ready_at, ended_at
FROM node WHERE tenant_id = $1 AND cluster_id = $2 AND started_at < $4 AND (ended_at IS NULL OR ended_at + interval '1 minute' > $3) ORDER BY uid`,
		tx.Tenant, cluster, from, to).Query(in.readNodes)
	gpus := podGPUs{byName: map[podName]*heldGPUs{}, troubles: map[string][]ledger.Trouble{}}
	batch.Queue(`SELECT node, namespace, pod, share, from_at FROM gpu_holding
WHERE tenant_id = $1 AND cluster_id = $2 AND from_at < $4 AND (to_at IS NULL OR to_at > $3) ORDER BY node, namespace, pod, holding, from_at`, tx.Tenant, cluster, from, to).Query(gpus.readHoldings)
	batch.Queue(`SELECT uid, from_at, to_at, reason FROM pod_trouble WHERE tenant_id = $1 AND cluster_id = $2 AND from_at < $4 AND (to_at IS NULL OR to_at > $3)
ORDER BY uid, from_at`, tx.Tenant, cluster, from, to).Query(gpus.readTroubles)
	batch.Queue(`
SELECT p.uid, p.node, coalesce(w.id::text, ''), p.namespace, coalesce(w.team, ''), p.cpu_milli, p.mem_mib, p.gpu_milli,
  coalesce(p.started_at, p.created_at), p.ended_at, p.name, CASE WHEN p.gpus = '[]' THEN NULL ELSE p.gpus END, NOT `+noPlaceholder+`
FROM pod p LEFT JOIN workload w ON w.tenant_id = p.tenant_id AND w.cluster_id = p.cluster_id AND w.key = p.workload_key
WHERE p.tenant_id = $1 AND p.cluster_id = $2 AND p.node <> '' AND p.created_at < $4 AND coalesce(p.started_at, p.created_at) < $4
  AND (p.ended_at IS NULL OR p.ended_at > $3)`, tx.Tenant, cluster, from, to).Query(func(rows pgx.Rows) error { return in.readPods(rows, gpus) })
	batch.Queue(`
SELECT r.at, r.workload_id::text, r.cpu_cores, r.memory_mib, coalesce(r.gpu_sm_active_ratio, r.gpu_util_ratio), r.gpu_memory_used_mib
FROM workload w JOIN rollup_1h r ON r.tenant_id = w.tenant_id AND r.workload_id = w.id AND r.at >= $3 AND r.at < $4
WHERE w.tenant_id = $1 AND w.cluster_id = $2`, tx.Tenant, cluster, from, to).Query(in.readUsage)
	batch.Queue(`
SELECT DISTINCT ON (p.hour, p.node_uid) p.hour, p.node_uid, p.list_nano, p.contracted_nano, coalesce(b.hour_nano, p.effective_nano), CASE WHEN b.hour_nano IS NULL THEN p.source ELSE 'bill' END, p.as_of
FROM node_price p LEFT JOIN bill_price b ON b.tenant_id = p.tenant_id AND b.cluster_id = p.cluster_id AND b.hour = p.hour AND b.node_uid = p.node_uid
WHERE p.tenant_id = $1 AND p.cluster_id = $2 AND p.hour >= $3 AND p.hour < $4 AND p.source <> 'bill' ORDER BY p.hour, p.node_uid, p.version DESC`,
		tx.Tenant, cluster, from, to).Query(in.readFrozen)
	batch.Queue(`
SELECT w.version, w.weights FROM cost_weights w WHERE w.tenant_id = $1 AND w.version IN (
  SELECT DISTINCT v.value FROM cost_hour h, jsonb_each_text(h.weights) v WHERE h.tenant_id = $1 AND h.cluster_id = $2 AND h.hour >= $3 AND h.hour < $4)`,
		tx.Tenant, cluster, from, to).Query(in.readWeights)
	batch.Queue(`SELECT hour, state, version, content_hash, weights FROM cost_hour WHERE tenant_id = $1 AND cluster_id = $2 AND hour >= $3 AND hour < $4`,
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
	in.gpuMiB = map[string]int64{}
	for rows.Next() {
		var n CostedNode
		var ready, ended *time.Time
		var gpuMiB int64
		var groups []gpuGroup
		o := &n.Offering
		if err := rows.Scan(&n.UID, &n.Name, &o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase, &n.CPUMilli, &n.MemMiB, &n.GPUModel, &n.GPUCount, &gpuMiB, &groups,
			&n.Life.From, &ready, &ended); err != nil {
			return err
		}
		n.Purchase, n.MinBill = o.Purchase, ledger.LeastBilled(o.Cloud)
		n.Life.From, n.ReadyAt, n.Life.To = n.Life.From.UTC(), orZero(ready), orZero(ended)
		n.GPUs = ledgerGroups(groups)
		in.gpuMiB[n.Name] = gpuMiB
		in.Nodes = append(in.Nodes, n)
	}
	return rows.Err()
}

// podName is a pod as a kubelet names it.
type podName struct{ node, namespace, name string }

// heldGPUs are the shares that a pod of that name held from a moment on; a StatefulSet gives a name to one pod after another.
type heldGPUs struct {
	from  []time.Time
	share []gpuShare
}

// podGPUs is what is known of pods beside the inventory.
type podGPUs struct {
	byName   map[podName]*heldGPUs
	troubles map[string][]ledger.Trouble
}

func (g podGPUs) readHoldings(rows pgx.Rows) error {
	for rows.Next() {
		var n podName
		var s gpuShare
		var from time.Time
		if err := rows.Scan(&n.node, &n.namespace, &n.name, &s, &from); err != nil {
			return err
		}
		h := g.byName[n]
		if h == nil {
			h = &heldGPUs{}
			g.byName[n] = h
		}
		h.from, h.share = append(h.from, from.UTC()), append(h.share, s)
	}
	return rows.Err()
}

func (g podGPUs) readTroubles(rows pgx.Rows) error {
	for rows.Next() {
		var uid string
		var t ledger.Trouble
		var to *time.Time
		if err := rows.Scan(&uid, &t.From, &to, &t.Reason); err != nil {
			return err
		}
		t.From, t.To = t.From.UTC(), orZero(to)
		g.troubles[uid] = append(g.troubles[uid], t)
	}
	return rows.Err()
}

// of lists what a pod held while it lived. What a kubelet says of a device without a share of its own, such as a turn of a GPU, is
// filled in from what the pod asked for.
func (g podGPUs) of(n podName, life fleet.Interval) (shares []gpuShare) {
	h := g.byName[n]
	if h == nil {
		return nil
	}
	for i, s := range h.share {
		if h.from[i].Before(life.From.Add(-time.Minute)) || !life.To.IsZero() && !h.from[i].Before(life.To) {
			continue
		}
		shares = append(shares, s)
	}
	return shares
}

func (in *CostInput) readPods(rows pgx.Rows, gpus podGPUs) error {
	for rows.Next() {
		var p ledger.Pod
		var ended *time.Time
		var name string
		var asked []gpuShare
		if err := rows.Scan(&p.UID, &p.Node, &p.Owner.Workload, &p.Owner.Namespace, &p.Owner.Team, &p.CPUMilli, &p.MemMiB, &p.GPUMilli, &p.Held.From, &ended, &name, &asked, &p.Ready); err != nil {
			return err
		}
		p.Held.From, p.Held.To = p.Held.From.UTC(), orZero(ended)
		p.Broken = gpus.troubles[p.UID]
		held := gpus.of(podName{p.Node, p.Owner.Namespace, name}, p.Held)
		for _, s := range heldOrAsked(held, asked) {
			p.GPUs = append(p.GPUs, s.ledger(in.gpuMiB[p.Node]))
		}
		in.Pods = append(in.Pods, p)
	}
	slices.SortFunc(in.Pods, func(a, b ledger.Pod) int { return cmp.Or(a.Held.From.Compare(b.Held.From), cmp.Compare(a.UID, b.UID)) })
	return rows.Err()
}

// heldOrAsked takes the kubelet's word, which names devices and profiles, unless what the pod asked for says more: a scheduler of
// fractions keeps them in annotations, and the kubelet knows whole GPUs only.
func heldOrAsked(held, asked []gpuShare) []gpuShare {
	fraction := slices.ContainsFunc(asked, func(s gpuShare) bool { return s.CoreMilli > 0 || s.MemMilli > 0 || s.MemMiB > 0 })
	if len(held) == 0 || fraction {
		return asked
	}
	return held
}

func (in *CostInput) readUsage(rows pgx.Rows) error {
	for rows.Next() {
		var at time.Time
		var id fleet.WorkloadID
		var cpu, mem, sm, gpuMiB *float32
		if err := rows.Scan(&at, &id, &cpu, &mem, &sm, &gpuMiB); err != nil {
			return err
		}
		at = at.UTC()
		if in.Usage[at] == nil {
			in.Usage[at] = map[fleet.WorkloadID]ledger.Usage{}
		}
		in.Usage[at][id] = ledger.Usage{CPUCores: finite(cpu), MemMiB: finite(mem), GPUSM: finite(sm), GPUMiB: finite(gpuMiB)}
	}
	return rows.Err()
}

func (in *CostInput) readFrozen(rows pgx.Rows) error {
	for rows.Next() {
		var key HourKey
		var p FrozenPrice
		var asOf *time.Time
		if err := rows.Scan(&key.Hour, &key.Node, &p.List, &p.Contracted, &p.Effective, &p.Source, &asOf); err != nil {
			return err
		}
		key.Hour, p.AsOf = key.Hour.UTC(), orZero(asOf)
		in.Frozen[key] = p
	}
	return rows.Err()
}

func (in *CostInput) readWeights(rows pgx.Rows) error {
	in.Weights = map[string]market.Weights{}
	for rows.Next() {
		var version string
		var w market.Weights
		if err := rows.Scan(&version, &w); err != nil {
			return err
		}
		in.Weights[version] = w
	}
	return rows.Err()
}

// SplitBy is what the closed hour's prices of a cloud were split by; false for an hour that is not closed yet.
func (in *CostInput) SplitBy(hour time.Time, cloud fleet.Cloud) (market.Weights, bool) {
	h := in.Hours[hour]
	if h.State != "closed" {
		return market.Weights{}, false
	}
	w, ok := in.Weights[h.Weights[string(cloud)]]
	return w, ok
}

func (in *CostInput) readHours(rows pgx.Rows) error {
	for rows.Next() {
		var hour time.Time
		var h HourState
		if err := rows.Scan(&hour, &h.State, &h.Version, &h.ContentHash, &h.Weights); err != nil {
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
