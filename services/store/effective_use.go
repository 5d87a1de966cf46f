package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// PricePlan fills in what one more replica of each workload costs, where its machine has a price, at the snapshot's moment.
func PricePlan(ctx context.Context, tx *Tx, book *market.PriceBook, in *PlanInput) error {
	snapshot := in.Input.Snapshot
	p, err := PricesAt(ctx, tx, book, snapshot.Now, Offerings(in.Hosts)...)
	if err != nil {
		return err
	}
	for i := range snapshot.Workloads {
		w := &snapshot.Workloads[i]
		if host, ok := in.Hosts[w.Workload.ID]; ok {
			w.ReplicaHour = p.NextReplica(host, w.Workload.CPUMilli, w.Workload.MemMiB, w.Workload.GPUMilli)
		}
	}
	return nil
}

// Offerings of hosts, for PricesAt.
func Offerings(hosts map[fleet.WorkloadID]Host) []fleet.Offering {
	out := make([]fleet.Offering, 0, len(hosts))
	for _, h := range hosts {
		out = append(out, h.Offering)
	}
	return out
}

// PriceNodes sets what live nodes of a cluster cost now.
func PriceNodes(ctx context.Context, tx *Tx, book *market.PriceBook, cluster fleet.ClusterID, nodes []NodeView) error {
	now, err := DataNow(ctx, tx)
	if err != nil {
		return err
	}
	offerings := make([]fleet.Offering, len(nodes))
	for i, n := range nodes {
		offerings[i] = n.Node.Offering
	}
	p, err := PricesAt(ctx, tx, book, now, offerings...)
	if err != nil {
		return err
	}
	for i := range nodes {
		nodes[i].Cost = p.Node(cluster, nodes[i].Node.UID, nodes[i].Node.Offering)
	}
	return nil
}

// PriceClusters sets what the live nodes of clusters cost now, and how many of them have no price.
func PriceClusters(ctx context.Context, tx *Tx, book *market.PriceBook, clusters []Cluster) error {
	at, ids := map[fleet.ClusterID]int{}, make([]string, len(clusters))
	for i, c := range clusters {
		at[c.ID], ids[i] = i, string(c.ID)
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT cluster_id::text, cloud, region, zone, instance_type, purchase, count(*) FROM node WHERE tenant_id = $1 AND cluster_id = ANY ($2::uuid[]) AND ended_at IS NULL
GROUP BY cluster_id, cloud, region, zone, instance_type, purchase ORDER BY cluster_id, cloud, region, zone, instance_type, purchase`, tx.Tenant, ids)
	if err != nil {
		return fmt.Errorf("count nodes: %w", err)
	}
	type kind struct {
		cluster  fleet.ClusterID
		offering fleet.Offering
		count    int64
	}
	kinds, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k kind, err error) {
		o := &k.offering
		return k, row.Scan(&k.cluster, &o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase, &k.count)
	})
	if err != nil || len(kinds) == 0 {
		if err != nil {
			err = fmt.Errorf("count nodes: %w", err)
		}
		return err
	}
	now, err := DataNow(ctx, tx)
	if err != nil {
		return err
	}
	offerings := make([]fleet.Offering, len(kinds))
	for i, k := range kinds {
		offerings[i] = k.offering
	}
	p, err := PricesAt(ctx, tx, book, now, offerings...)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		c := &clusters[at[k.cluster]]
		cost := p.machines(k.cluster, k.offering, k.count)
		if cost == nil {
			c.UnpricedNodes += int(k.count)
			continue
		}
		if c.Cost != nil {
			*cost = cost.Add(*c.Cost)
		}
		c.Cost = cost
	}
	return nil
}

// machines is what a number of a cluster's machines of an offering cost per hour; nil: unknown.
func (p *EffectivePrices) machines(cluster fleet.ClusterID, o fleet.Offering, count int64) *fleet.Money {
	if l := p.alike(cluster, o); l != nil {
		sum := l.sum.MulDiv(count, l.count)
		return &sum
	}
	known, _ := p.Candidate(o, fleet.InstanceType{Cloud: o.Cloud, Name: o.InstanceType}).Uncovered()
	if known.Hour == nil {
		return nil
	}
	sum := known.Hour.MulDiv(count, 1)
	return &sum
}
