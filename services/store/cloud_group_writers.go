package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// NoteGroupWriters writes down what of the cloud itself changes a group; why says that it is not known, and what was known is forgotten then.
func NoteGroupWriters(ctx context.Context, tx *Tx, group string, writers any, why string) error {
	doc, err := json.Marshal(writers)
	if err != nil {
		return fmt.Errorf("encode writers: %w", err)
	}
	if why != "" || string(doc) == "null" {
		doc = []byte("[]")
	}
	if _, err := tx.pgx.Exec(ctx, `UPDATE cloud_group SET writers = $3, writers_at = $4, writers_problem = $5 WHERE tenant_id = $1 AND id = $2`, tx.Tenant, group, doc, tx.Now, why); err != nil {
		return fmt.Errorf("note writers of a group: %w", err)
	}
	return nil
}

// StopGroupScaling writes down what of a cloud's own scaling is about to be stopped, besides what is stopped already, before the cloud is asked. At most so many times
// within a window: false says that somebody starts it again and again, and nothing is written.
func StopGroupScaling(ctx context.Context, tx *Tx, group string, what []string, most int, window time.Duration) (bool, error) {
	var suspended []string
	var stopped []time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT suspended, stopped_at FROM cloud_group WHERE tenant_id = $1 AND id = $2 AND enabled AND own FOR UPDATE`, tx.Tenant, group).Scan(&suspended, &stopped); err != nil {
		return false, notFound(err, "group")
	}
	stopped = slices.DeleteFunc(stopped, func(at time.Time) bool { return tx.Now.Sub(at) > window })
	if len(stopped) >= most {
		return false, nil
	}
	suspended = append(suspended, what...)
	slices.Sort(suspended)
	if _, err := tx.pgx.Exec(ctx, `UPDATE cloud_group SET suspended = $3, stopped_at = $4 WHERE tenant_id = $1 AND id = $2`, tx.Tenant, group, slices.Compact(suspended), append(stopped, tx.Now)); err != nil {
		return false, fmt.Errorf("write down what is stopped: %w", err)
	}
	return true, nil
}

// GaveScalingBack forgets what was stopped of a group that is not owned any more. False: it is owned again.
func GaveScalingBack(ctx context.Context, tx *Tx, group string, what []string) (bool, error) {
	tag, err := tx.pgx.Exec(ctx, `UPDATE cloud_group SET suspended = ARRAY (SELECT w FROM unnest(suspended) AS w WHERE w <> ALL ($3) ORDER BY w), stopped_at = '{}', writers_at = NULL
WHERE tenant_id = $1 AND id = $2 AND NOT (enabled AND own)`, tx.Tenant, group, what)
	if err != nil {
		return false, fmt.Errorf("forget what was stopped: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// groupsOfAccountAreFree refuses to forget an account that is needed to start a cloud's own scaling again.
func groupsOfAccountAreFree(ctx context.Context, tx *Tx, account string) error {
	var refs []string
	if err := tx.pgx.QueryRow(ctx, `SELECT coalesce(array_agg(ref ORDER BY ref), '{}') FROM cloud_group WHERE tenant_id = $1 AND account_id = $2 AND cardinality(suspended) > 0`, tx.Tenant, account).Scan(&refs); err != nil {
		return fmt.Errorf("look for groups of an account: %w", err)
	}
	if len(refs) > 0 {
		return fleet.Errorf(fleet.CodeConflict, "the cloud's own scaling of %s is stopped by this account: switch the group off, and it is given back within a minute, then delete the account", refs[0])
	}
	return nil
}

// GroupMachine is a node of a cluster that may be a machine of a group.
type GroupMachine struct {
	UID      string
	Name     string
	Provider string // id, as its kubelet wrote it
	Offering fleet.Offering
	Cordoned bool
	Pods     int        // that run on it, those of daemon sets and of the node itself left out
	Drain    string     // of its newest drain: done, failed, begun, refused, asked; empty: none
	DrainAt  *time.Time // when that ended, or was ordered, by the cluster's time
	Release  bool       // its newest order says that it shall take pods again
	Failed   bool       // its end was asked of the cloud since it was drained, and refused
}

// GroupMachines lists the nodes of a cluster that a cloud may end by name, by name, with how their drain stands. told is when the cluster reported last, by its own
// time; zero where its agent is silent.
func GroupMachines(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (list []GroupMachine, told time.Time, err error) {
	var lastSeen, dataAt *time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT last_seen_at, data_at FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, cluster).Scan(&lastSeen, &dataAt); err != nil {
		return nil, told, notFound(err, "cluster")
	}
	if lastSeen != nil && dataAt != nil && tx.Now.Sub(*lastSeen) <= karpenterSilent {
		told = dataAt.UTC()
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT n.uid, n.name, n.provider_id, n.cloud, n.region, n.zone, n.instance_type, n.purchase, n.phase = 'draining',
  (SELECT count(*) FROM pod p WHERE p.tenant_id = n.tenant_id AND p.cluster_id = n.cluster_id AND p.node = n.name AND p.ended_at IS NULL AND p.phase NOT IN ('ended', 'failed')
    AND split_part(p.workload_key, '/', 2) NOT IN ('DaemonSet', 'Node')),
  coalesce(d.drain, ''), d.at, coalesce(d.absent, false),
  EXISTS (SELECT FROM cloud_group_action x WHERE x.tenant_id = n.tenant_id AND x.cluster_id = n.cluster_id AND x.nodes @> ARRAY[n.name] AND x.asked_at >= d.created_at AND x.state IN ('refused', 'replaced', 'failed'))
FROM node n LEFT JOIN LATERAL (
  SELECT CASE WHEN a.after_spec LIKE '{"checkpoints":%' OR a.after_spec LIKE '{"ended":%' THEN CASE a.after_spec::jsonb ->> 'ended' WHEN 'applied' THEN 'done' ELSE 'failed' END WHEN a.outcome IN ('applied', 'already') THEN 'begun' WHEN a.outcome IS NOT NULL THEN 'refused' WHEN o.state = 'open' THEN 'asked' ELSE '' END AS drain,
    coalesce(a.answered_at, o.at) AS at, a.absent, o.created_at
  FROM karpenter_action a JOIN karpenter_order o ON o.tenant_id = a.tenant_id AND o.id = a.order_id AND o.cluster_id = n.cluster_id
  WHERE a.tenant_id = n.tenant_id AND a.action_id = 'drain/' || n.uid ORDER BY o.generation DESC LIMIT 1) d ON true
WHERE n.tenant_id = $1 AND n.cluster_id = $2 AND n.ended_at IS NULL AND n.provider_id <> '' ORDER BY n.name, n.uid LIMIT 10000`, tx.Tenant, cluster)
	if err != nil {
		return nil, told, fmt.Errorf("list machines: %w", err)
	}
	for rows.Next() {
		var m GroupMachine
		if err := rows.Scan(&m.UID, &m.Name, &m.Provider, &m.Offering.Cloud, &m.Offering.Region, &m.Offering.Zone, &m.Offering.InstanceType, &m.Offering.Purchase, &m.Cordoned, &m.Pods, &m.Drain, &m.DrainAt, &m.Release, &m.Failed); err != nil {
			return nil, told, fmt.Errorf("list machines: %w", err)
		}
		list = append(list, m)
	}
	if err := rows.Err(); err != nil {
		return nil, told, fmt.Errorf("list machines: %w", err)
	}
	return list, told, nil
}

// DrainStop is why no machine may be drained for groups now, with the cluster's time; empty: it may. lock takes the planner's lock, for an order in the same transaction.
func DrainStop(ctx context.Context, tx *Tx, cluster fleet.ClusterID, lock bool) (why string, now time.Time, err error) {
	return orderStop(ctx, tx, cluster, lock, CapabilityDrain)
}
