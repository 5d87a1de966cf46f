package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// OpenCostQuery selects costs for the OpenCost-compatible endpoints.
type OpenCostQuery struct {
	From, To time.Time     // whole hours
	Step     time.Duration // length of a set, counted back from To
	// Days reads the daily table: From, To and Step are whole days.
	Days bool
	// Nodes tells machines apart. It reads the ledger, which has closed hours only, and no use.
	Nodes bool
}

// OpenCostRow is a sum of costs within a set.
type OpenCostRow struct {
	Set     int // 0: the one that ends at To
	Cluster fleet.ClusterID
	Node    string // uid
	ledger.Row
}

// maxOpenCostRows bounds what one answer is made from.
const maxOpenCostRows = 400_000

// OpenCostRows sums costs by set, cluster, machine if asked, kind, resource and owner.
func OpenCostRows(ctx context.Context, tx *Tx, q OpenCostQuery) ([]OpenCostRow, error) {
	const set = `floor((extract(epoch FROM @to::timestamptz) - extract(epoch FROM %s) - @grain) / @step)::int`
	grain := time.Hour
	table, at := "cost_hour_line t", "t.hour"
	if q.Days {
		table, at, grain = "cost_day t", "t.day::timestamptz", 24*time.Hour
	}
	span := at + " >= @from AND " + at + " < @to"
	if q.Days {
		span = "t.day >= @from::timestamptz::date AND t.day < @to::timestamptz::date"
	}
	sums := `sum(t.amount_nano)::bigint, sum(t.quantity), sum(t.unpriced), sum(t.measured), sum(t.used)`
	workload, node := `CASE WHEN t.workload_id = '`+noWorkload+`' THEN '' ELSE t.workload_id::text END`, `''`
	if q.Nodes {
		table = `cost_transfer t JOIN cost_hour h ON h.tenant_id = t.tenant_id AND h.cluster_id = t.cluster_id AND h.hour = t.hour AND h.version = t.version`
		sums = `sum(CASE WHEN t.debit LIKE 'node/%' THEN -t.amount_nano ELSE t.amount_nano END)::bigint, sum(t.quantity), 0::float8, 0::float8, 0::float8`
		span += ` AND NOT EXISTS (SELECT FROM cost_detail d WHERE d.tenant_id = t.tenant_id AND d.cluster_id = t.cluster_id AND d.hour = t.hour AND d.version = t.version)`
		workload, node = `coalesce(t.workload_id::text, '')`, `regexp_replace(CASE WHEN t.debit LIKE 'node/%' THEN t.debit ELSE t.credit END, '^[a-z]+/', '')`
	}
	rows, err := tx.pgx.Query(ctx, `SELECT `+fmt.Sprintf(set, at)+`, t.cluster_id::text, `+node+`, t.kind, t.resource, t.purchase, `+workload+`, t.namespace, t.team, `+sums+`
FROM `+table+` WHERE t.tenant_id = @tenant AND `+span+` GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9 LIMIT @limit`,
		pgx.NamedArgs{"tenant": tx.Tenant, "from": q.From, "to": q.To, "grain": grain.Seconds(), "step": q.Step.Seconds(), "limit": maxOpenCostRows + 1})
	if err != nil {
		return nil, fmt.Errorf("load costs: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r OpenCostRow, err error) {
		err = row.Scan(&r.Set, &r.Cluster, &r.Node, &r.Kind, &r.Resource, &r.Purchase, &r.Owner.Workload, &r.Owner.Namespace, &r.Owner.Team, &r.Amount, &r.Quantity, &r.Unpriced, &r.Measured, &r.Used)
		return r, err
	})
	if err == nil && q.Nodes {
		all, err = addDetails(ctx, tx, q, all)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("load costs: %w", err)
	case len(all) > maxOpenCostRows:
		return nil, fleet.Errorf(fleet.CodeTooLarge, "the window holds more than %d costs; ask for less, or for longer steps", maxOpenCostRows)
	}
	return all, nil
}

// addDetails adds what the closed hours hold by machine, and sorts.
func addDetails(ctx context.Context, tx *Tx, q OpenCostQuery, all []OpenCostRow) ([]OpenCostRow, error) {
	type key struct {
		set      int
		cluster  fleet.ClusterID
		node     string
		kind     ledger.Kind
		resource ledger.Resource
		purchase fleet.Purchase
		owner    ledger.Owner
	}
	keyOf := func(r *OpenCostRow) key {
		return key{r.Set, r.Cluster, r.Node, r.Kind, r.Resource, r.Purchase, r.Owner}
	}
	at := make(map[key]int, len(all))
	for i := range all {
		at[keyOf(&all[i])] = i
	}
	err := eachDetail(ctx, tx, q.From, q.To, func(cluster fleet.ClusterID, hour time.Time, lines []ledger.CostLine) error {
		set := int((q.To.Sub(hour) - time.Hour) / q.Step)
		for _, l := range lines {
			if l.Amount == 0 {
				continue
			}
			r := OpenCostRow{Set: set, Cluster: cluster, Node: l.Node, Row: l.Row}
			if i, ok := at[keyOf(&r)]; ok {
				all[i].Amount, all[i].Quantity = all[i].Amount.Add(l.Amount), all[i].Quantity+l.Quantity
				continue
			}
			if len(all) > maxOpenCostRows {
				return fleet.Errorf(fleet.CodeTooLarge, "the window holds more than %d costs; ask for less, or for longer steps", maxOpenCostRows)
			}
			at[keyOf(&r)] = len(all)
			all = append(all, r)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b OpenCostRow) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Purchase, b.Purchase), cmp.Compare(a.Owner.Workload, b.Owner.Workload), cmp.Compare(a.Owner.Namespace, b.Owner.Namespace), cmp.Compare(a.Owner.Team, b.Owner.Team))
	})
	return all, err
}

// OpenCostNames are what the ids in OpenCostRows stand for.
type OpenCostNames struct {
	Clusters  map[fleet.ClusterID]string
	Workloads map[fleet.WorkloadID]OpenCostWorkload
	Nodes     map[string]OpenCostNode // by uid; filled when asked
}

// OpenCostWorkload is a controller.
type OpenCostWorkload struct {
	Kind, Name string
	Labels     map[string]string
}

// OpenCostNode is a machine.
type OpenCostNode struct {
	Cluster                          fleet.ClusterID
	Name, Pool, Cloud, Zone, Region  string
	InstanceType, Purchase, GPUModel string
	CPUMilli, MemMiB                 int64
	GPUCount                         int
	Started                          time.Time
	Ended                            *time.Time
	Labels                           map[string]string
}

// LoadOpenCostNames reads the names of clusters, workloads and, if asked, of the machines that lived in [from, to).
func LoadOpenCostNames(ctx context.Context, tx *Tx, nodes bool, from, to time.Time) (OpenCostNames, error) {
	n := OpenCostNames{Clusters: map[fleet.ClusterID]string{}, Workloads: map[fleet.WorkloadID]OpenCostWorkload{}, Nodes: map[string]OpenCostNode{}}
	batch := &pgx.Batch{}
	batch.Queue(`SELECT id::text, name FROM cluster WHERE tenant_id = $1`, tx.Tenant).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id fleet.ClusterID
			var name string
			if err := rows.Scan(&id, &name); err != nil {
				return err
			}
			n.Clusters[id] = name
		}
		return rows.Err()
	})
	batch.Queue(`SELECT id::text, kind, name, labels FROM workload WHERE tenant_id = $1 AND (gone_at IS NULL OR gone_at > $2)`, tx.Tenant, from.AddDate(0, 0, -1)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id fleet.WorkloadID
			var w OpenCostWorkload
			if err := rows.Scan(&id, &w.Kind, &w.Name, &w.Labels); err != nil {
				return err
			}
			n.Workloads[id] = w
		}
		return rows.Err()
	})
	if nodes {
		batch.Queue(`SELECT uid, cluster_id::text, name, pool, cloud, zone, region, instance_type, purchase, gpu_model, cpu_milli, mem_mib, gpu_count, started_at, ended_at, labels
FROM node WHERE tenant_id = $1 AND started_at < $3 AND (ended_at IS NULL OR ended_at > $2)`, tx.Tenant, from.AddDate(0, 0, -1), to).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var uid string
				var o OpenCostNode
				if err := rows.Scan(&uid, &o.Cluster, &o.Name, &o.Pool, &o.Cloud, &o.Zone, &o.Region, &o.InstanceType, &o.Purchase, &o.GPUModel, &o.CPUMilli, &o.MemMiB, &o.GPUCount, &o.Started, &o.Ended, &o.Labels); err != nil {
					return err
				}
				n.Nodes[uid] = o
			}
			return rows.Err()
		})
	}
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return n, fmt.Errorf("load names: %w", err)
	}
	return n, nil
}
