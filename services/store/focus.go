package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/ledger"
)

// FocusExport walks over everything that the ledger holds of [From, To), whole hours, in one snapshot of the database: what is restated
// meanwhile is not in it. It holds one hour of one cluster at a time.
type FocusExport struct {
	From, To time.Time
	Cluster  fleet.ClusterID // empty: all, and what is unused of commitments
	Currency string
	// One of these gets each node's hour and each unused commitment, oldest first by cluster.
	Node   func(focus.NodeHour) error
	Unused func(focus.Unused) error
	// Purchase gets what was paid for commitments in closed hours, by commitment and hour, when all clusters are asked for. Nil: nobody wants it.
	Purchase func(focus.Purchase) error
}

// FocusCoverage is what an export holds and what it cannot.
type FocusCoverage struct {
	Total               fleet.Money // of the closed hours
	ClosedHours         int
	OpenHours           int   // not in the ledger yet
	UnpricedNodeSeconds int64 // without a price: no charge can say what is not known
}

// Snapshot makes the transaction see the database as it is now, until it ends. It must be the first thing that the transaction does.
func Snapshot(ctx context.Context, tx *Tx) error {
	if _, err := tx.pgx.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`); err != nil {
		return fmt.Errorf("take snapshot: %w", err)
	}
	return nil
}

// Coverage says what the export will hold.
func (e FocusExport) Coverage(ctx context.Context, tx *Tx) (c FocusCoverage, err error) {
	err = tx.pgx.QueryRow(ctx, `
SELECT coalesce(sum(node_nano) FILTER (WHERE state = 'closed'), 0)::bigint, count(*) FILTER (WHERE state = 'closed')::int, count(*) FILTER (WHERE state = 'open')::int,
  coalesce(sum(unpriced_node_seconds), 0)::bigint
FROM cost_hour WHERE tenant_id = $1 AND hour >= $2 AND hour < $3 AND ($4 = '' OR cluster_id = nullif($4, '')::uuid)`,
		tx.Tenant, e.From, e.To, string(e.Cluster)).Scan(&c.Total, &c.ClosedHours, &c.OpenHours, &c.UnpricedNodeSeconds)
	if err != nil {
		return c, fmt.Errorf("load export's coverage: %w", err)
	}
	return c, nil
}

// maxFocusHours bounds how many hours of clusters one export walks over: a year of a hundred clusters.
const maxFocusHours = 900_000

// Walk calls Node and Unused until one returns an error.
func (e FocusExport) Walk(ctx context.Context, tx *Tx) error {
	account := focus.Account{ID: string(tx.Tenant), Currency: e.Currency}
	if err := tx.pgx.QueryRow(ctx, `SELECT name FROM tenant WHERE tenant_id = $1`, tx.Tenant).Scan(&account.Name); err != nil {
		return fmt.Errorf("load tenant's name: %w", notFound(err, "tenant"))
	}
	bought, err := e.commitments(ctx, tx)
	if err != nil {
		return err
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT h.cluster_id::text, coalesce(c.name, ''), h.hour, h.version, h.closed_at FROM cost_hour h
LEFT JOIN cluster c ON c.tenant_id = h.tenant_id AND c.id = h.cluster_id
WHERE h.tenant_id = $1 AND h.hour >= $2 AND h.hour < $3 AND h.state = 'closed' AND h.node_nano <> 0 AND ($4 = '' OR h.cluster_id = nullif($4, '')::uuid)
ORDER BY h.cluster_id, h.hour LIMIT $5`, tx.Tenant, e.From, e.To, string(e.Cluster), maxFocusHours+1)
	if err != nil {
		return fmt.Errorf("load closed hours: %w", err)
	}
	hours, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h focusHour, err error) {
		err = row.Scan(&h.cluster.ID, &h.cluster.Name, &h.at, &h.version, &h.asOf)
		return h, err
	})
	switch {
	case err != nil:
		return fmt.Errorf("load closed hours: %w", err)
	case len(hours) > maxFocusHours:
		return fleet.Errorf(fleet.CodeTooLarge, "the span holds more than %d hours of clusters; ask for less", maxFocusHours)
	}
	for _, h := range hours {
		if err := e.hour(ctx, tx, account, bought, h); err != nil {
			return err
		}
	}
	if e.Purchase == nil || e.Cluster != "" {
		return nil
	}
	return e.purchases(ctx, tx, account, bought)
}

type focusHour struct {
	cluster focus.Cluster
	at      time.Time
	version int
	asOf    time.Time
}

// commitments by id, those that are deleted too: hours that used them stay in the ledger.
func (e FocusExport) commitments(ctx context.Context, tx *Tx) (map[string]focus.Commitment, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT id::text, ref, kind, region FROM commitment WHERE tenant_id = $1`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load commitments: %w", err)
	}
	bought := map[string]focus.Commitment{}
	var c focus.Commitment
	_, err = pgx.ForEachRow(rows, []any{&c.ID, &c.Ref, &c.Kind, &c.Region}, func() error {
		c.Cloud, c.Spend, c.Capacity = cloudOfCommitment(c.Kind), spends(c.Kind), c.Kind == "aws_capacity_reservation" || c.Kind == "aws_capacity_block"
		bought[c.ID] = c
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load commitments: %w", err)
	}
	return bought, nil
}

func cloudOfCommitment(kind string) fleet.Cloud {
	for _, c := range []fleet.Cloud{fleet.CloudAWS, fleet.CloudAzure, fleet.CloudGCP} {
		if len(kind) > len(c) && kind[:len(c)+1] == string(c)+"_" {
			return c
		}
	}
	return ""
}

func spends(kind string) bool {
	switch kind {
	case "aws_ec2_instance_sp", "aws_compute_sp", "azure_savings_plan", "gcp_flexible_cud":
		return true
	}
	return false
}

// hour hands the nodes of one hour of a cluster on.
func (e FocusExport) hour(ctx context.Context, tx *Tx, account focus.Account, bought map[string]focus.Commitment, h focusHour) error {
	nodes := map[string]*focus.NodeHour{}
	var order []string
	var unused []focus.Unused
	packed, err := e.packed(ctx, tx, h, func(uid string, l focus.Line) {
		if nodes[uid] == nil {
			nodes[uid] = &focus.NodeHour{Account: account, Cluster: h.cluster, Machine: focus.Machine{UID: uid, Name: uid}, Hour: h.at, Version: h.version, AsOf: h.asOf}
			order = append(order, uid)
		}
		nodes[uid].Lines = append(nodes[uid].Lines, l)
	})
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(`
SELECT t.debit, t.credit, t.kind, t.resource, coalesce(t.workload_id::text, ''), t.namespace, t.team, t.amount_nano, t.quantity, coalesce(w.key, ''), coalesce(w.labels, '{}')
FROM cost_transfer t LEFT JOIN workload w ON w.tenant_id = t.tenant_id AND w.id = t.workload_id
WHERE t.tenant_id = $1 AND t.cluster_id = $2 AND t.hour = $3 AND t.version = $4 AND (NOT $5 OR t.kind = 'commitment_unused')
ORDER BY CASE WHEN t.debit LIKE 'node/%' THEN t.debit ELSE t.credit END, t.kind, t.id`, tx.Tenant, h.cluster.ID, h.at, h.version, packed).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var debit, credit string
			var l focus.Line
			if err := rows.Scan(&debit, &credit, &l.Kind, &l.Resource, &l.Owner.Workload, &l.Owner.Namespace, &l.Owner.Team, &l.Amount, &l.Quantity, &l.Name, &l.Labels); err != nil {
				return err
			}
			if l.Kind == ledger.KindUnused {
				unused = append(unused, focus.Unused{Account: account, Commitment: commitmentOf(bought, credit[len("commitment/"):]), Hour: h.at, Version: h.version, AsOf: h.asOf,
					Team: l.Owner.Team, Amount: l.Amount, Hours: l.Quantity})
				continue
			}
			uid, negative := nodeOf(debit, credit)
			if negative {
				l.Amount = -l.Amount
			}
			n := nodes[uid]
			if n == nil {
				n = &focus.NodeHour{Account: account, Cluster: h.cluster, Machine: focus.Machine{UID: uid, Name: uid}, Hour: h.at, Version: h.version, AsOf: h.asOf}
				nodes[uid] = n
				order = append(order, uid)
			}
			n.Lines = append(n.Lines, l)
		}
		return rows.Err()
	})
	batch.Queue(`
SELECT DISTINCT ON (p.node_uid) p.node_uid, p.list_nano, p.effective_nano, p.source, coalesce(n.name, p.node_uid), coalesce(n.pool, ''), coalesce(n.cloud, ''), coalesce(n.region, ''),
  coalesce(n.zone, ''), coalesce(n.instance_type, ''), coalesce(n.purchase, ''), coalesce(n.cpu_milli, 0), coalesce(n.mem_mib, 0), coalesce(n.gpu_model, ''), coalesce(n.gpu_count, 0),
  coalesce(extract(epoch FROM least(coalesce(n.ended_at, $3::timestamptz + interval '1 hour'), $3::timestamptz + interval '1 hour') - greatest(n.started_at, $3::timestamptz)) * 1000, 0)::bigint
FROM node_price p LEFT JOIN node n ON n.tenant_id = p.tenant_id AND n.cluster_id = p.cluster_id AND n.uid = p.node_uid
WHERE p.tenant_id = $1 AND p.cluster_id = $2 AND p.hour = $3 AND p.version <= $4 ORDER BY p.node_uid, p.version DESC`, tx.Tenant, h.cluster.ID, h.at, h.version).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var n focus.NodeHour
			m, o := &n.Machine, &n.Machine.Offering
			if err := rows.Scan(&m.UID, &n.List, &n.Effective, &n.Source, &m.Name, &m.Pool, &o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase, &m.CPUMilli, &m.MemMiB, &m.GPUModel, &m.GPUCount,
				&n.Millis); err != nil {
				return err
			}
			if known := nodes[m.UID]; known != nil {
				known.Machine, known.List, known.Effective, known.Source, known.Millis = n.Machine, n.List, n.Effective, n.Source, max(n.Millis, 0)
			}
		}
		return rows.Err()
	})
	batch.Queue(`
SELECT node_uid, commitment_id::text, resource, units, amount_nano - coalesce((SELECT r.amount_nano FROM commitment_release r WHERE r.tenant_id = c.tenant_id AND r.hour = c.hour
  AND r.cluster_id = c.cluster_id AND r.node_uid = c.node_uid AND r.commitment_id = c.commitment_id AND r.resource = c.resource), 0)
FROM commitment_claim c WHERE tenant_id = $1 AND cluster_id = $2 AND hour = $3
ORDER BY node_uid, commitment_id, resource`, tx.Tenant, h.cluster.ID, h.at).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var uid, id, resource string
			var c focus.Claim
			if err := rows.Scan(&uid, &id, &resource, &c.UnitMillis, &c.Amount); err != nil {
				return err
			}
			c.Commitment, c.Machine = commitmentOf(bought, id), resource == "machine"
			if n := nodes[uid]; n != nil {
				n.Claims = append(n.Claims, c)
			}
		}
		return rows.Err()
	})
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("load an hour's charges: %w", err)
	}
	for _, uid := range order {
		if err := e.Node(*nodes[uid]); err != nil {
			return err
		}
	}
	for _, u := range unused {
		if err := e.Unused(u); err != nil {
			return err
		}
	}
	return nil
}

// packed hands on the lines of an hour by machine from its detail; false says that it has none, and every line is a transfer.
func (e FocusExport) packed(ctx context.Context, tx *Tx, h focusHour, line func(uid string, l focus.Line)) (bool, error) {
	lines, ok, err := HourDetail(ctx, tx, fleet.ClusterID(h.cluster.ID), h.at, h.version)
	if err != nil || !ok {
		return false, err
	}
	type name struct {
		key    string
		labels map[string]string
	}
	names := map[fleet.WorkloadID]name{}
	var ids []string
	for i := range lines {
		if id := lines[i].Owner.Workload; id != "" {
			if _, known := names[id]; !known {
				names[id] = name{}
				ids = append(ids, string(id))
			}
		}
	}
	rows, err := tx.pgx.Query(ctx, `SELECT id::text, key, labels FROM workload WHERE tenant_id = $1 AND id = ANY ($2::uuid[])`, tx.Tenant, ids)
	if err != nil {
		return false, fmt.Errorf("load names of workloads: %w", err)
	}
	for rows.Next() {
		var id fleet.WorkloadID
		var n name
		if err := rows.Scan(&id, &n.key, &n.labels); err != nil {
			return false, fmt.Errorf("load names of workloads: %w", err)
		}
		names[id] = n
	}
	if err := rows.Err(); err != nil {
		return false, fmt.Errorf("load names of workloads: %w", err)
	}
	for i := range lines {
		l := &lines[i]
		if l.Amount == 0 {
			continue
		}
		n := names[l.Owner.Workload]
		line(l.Node, focus.Line{Kind: l.Kind, Resource: l.Resource, Owner: l.Owner, Amount: l.Amount, Quantity: l.Quantity, Name: n.key, Labels: n.labels})
	}
	return true, nil
}

func commitmentOf(bought map[string]focus.Commitment, id string) focus.Commitment {
	c, ok := bought[id]
	if !ok {
		c = focus.Commitment{ID: id, Ref: id, Kind: "commitment"}
	}
	return c
}

// nodeOf finds the machine of a transfer; negative says that the machine is on the debit side.
func nodeOf(debit, credit string) (uid string, negative bool) {
	const prefix = "node/"
	if len(debit) > len(prefix) && debit[:len(prefix)] == prefix {
		return debit[len(prefix):], true
	}
	if len(credit) > len(prefix) {
		return credit[len(prefix):], false
	}
	return credit, false
}
