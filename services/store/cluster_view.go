package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// NodeView is a live node with what runs on it.
type NodeView struct {
	Node         fleet.Node
	Pods         int
	CPUAllocated int64        // milli-cores requested by the pods on it
	MemAllocated int64        // MiB
	GPUAllocated int64        // thousandths of a GPU
	Cost         *fleet.Money // per hour, set by PriceNodes; nil: nobody knows
	Currency     string
}

// LiveNodes lists the nodes of a cluster that are there now, by name. after is the last name seen.
func LiveNodes(ctx context.Context, tx *Tx, cluster fleet.ClusterID, after string, limit int) ([]NodeView, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT n.uid, n.name, n.pool, n.cloud, n.region, n.zone, n.instance_type, n.purchase, n.phase, n.cpu_milli, n.mem_mib, n.gpu_model, n.gpu_count,
  n.gpu_memory_mib, n.started_at, n.ready_at, d.pods, d.cpu, d.mem, d.gpu, t.currency
FROM node n
JOIN tenant t ON t.tenant_id = n.tenant_id
CROSS JOIN LATERAL (
  SELECT count(*) AS pods, coalesce(sum(d.cpu_milli), 0)::bigint AS cpu, coalesce(sum(d.mem_mib), 0)::bigint AS mem, coalesce(sum(d.gpu_milli), 0)::bigint AS gpu
  FROM pod d WHERE d.tenant_id = n.tenant_id AND d.cluster_id = n.cluster_id AND d.node = n.name AND d.ended_at IS NULL AND d.phase NOT IN ('ended', 'failed')
) d
WHERE n.tenant_id = @tenant AND n.cluster_id = @cluster AND n.ended_at IS NULL AND n.name > @after
ORDER BY n.name, n.uid LIMIT @limit`, pgx.NamedArgs{"tenant": tx.Tenant, "cluster": cluster, "after": after, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v NodeView, err error) {
		var ready *time.Time
		n := &v.Node
		err = row.Scan(&n.UID, &n.Name, &n.Pool, &n.Offering.Cloud, &n.Offering.Region, &n.Offering.Zone, &n.Offering.InstanceType,
			&n.Offering.Purchase, &n.Phase, &n.CPUMilli, &n.MemMiB, &n.GPUModel, &n.GPUCount, &n.GPUMemoryMiB, &n.StartedAt, &ready,
			&v.Pods, &v.CPUAllocated, &v.MemAllocated, &v.GPUAllocated, &v.Currency)
		n.StartedAt = n.StartedAt.UTC()
		if ready != nil {
			n.ReadyAt = ready.UTC()
		}
		return v, err
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodes, nil
}

// EventKey names a cluster event and orders them.
type EventKey struct {
	At       time.Time
	Stream   string
	Epoch    int64
	Seq      int64
	Position int
}

// ClusterEvent is something that an agent reported.
type ClusterEvent struct {
	Key      EventKey
	Kind     string
	Object   string
	Workload string // key, empty when it is about none
	Reason   string
	Message  string
}

// ClusterEvents lists events, newest first. kind filters when it is not empty; before is the last event seen, nil for the first page.
func ClusterEvents(ctx context.Context, tx *Tx, cluster fleet.ClusterID, kind string, before *EventKey, limit int) ([]ClusterEvent, error) {
	query := `
SELECT at, stream, epoch, seq, position, kind, object, workload_key, reason, message FROM cluster_event
WHERE tenant_id = @tenant AND cluster_id = @cluster AND (@kind = '' OR kind = @kind)`
	args := pgx.NamedArgs{"tenant": tx.Tenant, "cluster": cluster, "kind": kind, "limit": limit}
	if before != nil {
		query += " AND (at, stream, epoch, seq, position) < (@at, @stream, @epoch, @seq, @position)"
		args["at"], args["stream"], args["epoch"], args["seq"], args["position"] = before.At, before.Stream, before.Epoch, before.Seq, before.Position
	}
	rows, err := tx.pgx.Query(ctx, query+" ORDER BY at DESC, stream DESC, epoch DESC, seq DESC, position DESC LIMIT @limit", args)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e ClusterEvent, err error) {
		err = row.Scan(&e.Key.At, &e.Key.Stream, &e.Key.Epoch, &e.Key.Seq, &e.Key.Position, &e.Kind, &e.Object, &e.Workload, &e.Reason, &e.Message)
		e.Key.At = e.Key.At.UTC()
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return events, nil
}
