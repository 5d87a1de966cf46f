package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// CloudGroup is a group of machines at a cloud that the capacity plans of a cluster may make larger.
type CloudGroup struct {
	ID            string
	Cluster       fleet.ClusterID
	Account       string // cloud account whose access may write
	Ref           string // as the cloud's adapter writes it
	Cloud         fleet.Cloud
	Region        string
	Zones         []string // empty: any of the region
	InstanceTypes []string
	Purchase      fleet.Purchase
	Min, Max      int
	Step          int // machines that one action adds at most
	Hourly        int // machines that are added within an hour at most
	Enabled       bool
	UpdatedBy     string
	UpdatedAt     time.Time
	Own           bool            // stop what of the cloud itself changes it, and give that back
	Shrink        bool            // end machines by name that were drained
	Writers       json.RawMessage // what of the cloud itself changes it, as it was looked at last
	WritersAt     *time.Time      // nil: never
	WritersWhy    string          // why that is not known
	Suspended     []string        // what was stopped, or is about to be, in the adapter's words
	StoppedAt     []time.Time     // when something was stopped, of late, by our clock
	SeenAt        *time.Time      // when its size and bounds were looked at last; nil: never
	Undone        int             // how often within the last hour somebody else undid a size of ours
}

// Brings tells whether the group's machines are of an offering.
func (g *CloudGroup) Brings(o fleet.Offering) bool {
	return g.Cloud == o.Cloud && g.Region == o.Region && g.Purchase == o.Purchase && slices.Contains(g.InstanceTypes, o.InstanceType) && (len(g.Zones) == 0 || slices.Contains(g.Zones, o.Zone))
}

// Validate refuses what has no meaning; the error names the field.
func (g *CloudGroup) Validate() error {
	bad := func(field, message string) error {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: message, Field: "body." + field}
	}
	switch {
	case g.Ref == "" || len(g.Ref) > 512:
		return bad("ref", "a group needs a name of at most 512 bytes")
	case g.Region == "":
		return bad("region", "a group needs a region")
	case len(g.InstanceTypes) == 0 || len(g.InstanceTypes) > 40:
		return bad("instance_types", "a group needs 1 to 40 instance types")
	case len(g.Zones) > 40:
		return bad("zones", "a group has at most 40 zones")
	case g.Purchase != fleet.PurchaseOnDemand && g.Purchase != fleet.PurchaseSpot:
		return bad("purchase", "machines of a group are on_demand or spot")
	case g.Max < 0 || g.Max > 20_000:
		return bad("max", "max is 0 to 20000")
	case g.Min < 0 || g.Min > g.Max:
		return bad("min", "min is 0 to max")
	case g.Step < 1:
		return bad("step", "step is at least 1")
	case g.Hourly < 1:
		return bad("hourly", "hourly is at least 1")
	}
	return nil
}

const cloudGroupColumns = `id::text, cluster_id::text, account_id::text, ref, cloud, region, zones, instance_types, purchase, min_size, max_size, step, hourly, enabled, updated_by, updated_at,
  own, shrink, writers, writers_at, writers_problem, suspended, stopped_at, seen_at,
  (SELECT count(*) FROM cloud_group_change x WHERE x.tenant_id = cloud_group.tenant_id AND x.group_id = cloud_group.id AND x.undid AND x.at > now() - interval '1 hour')::int`

// CloudGroups lists a cluster's groups by ref.
func CloudGroups(ctx context.Context, tx *Tx, cluster fleet.ClusterID) ([]CloudGroup, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+cloudGroupColumns+` FROM cloud_group WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY ref, id`, tx.Tenant, cluster)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[CloudGroup])
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return all, nil
}

// SaveCloudGroup adds or changes a group. The cloud is the account's.
func SaveCloudGroup(ctx context.Context, tx *Tx, g CloudGroup) error {
	if err := g.Validate(); err != nil {
		return err
	}
	if g.Enabled { // one at a time buys for the same pods; the lock is that of SetKarpenterPolicy
		if err := lockCluster(ctx, tx, g.Cluster); err != nil {
			return err
		}
		karpenter, err := KarpenterPolicyOf(ctx, tx, g.Cluster)
		if err != nil {
			return err
		}
		if karpenter.Enabled {
			return fleet.Errorf(fleet.CodeConflict, "this cluster's plans are carried out through Karpenter: switch that off first")
		}
	}
	zones := g.Zones
	if zones == nil {
		zones = []string{}
	}
	tag, err := tx.pgx.Exec(ctx, `
INSERT INTO cloud_group (tenant_id, id, cluster_id, account_id, ref, cloud, region, zones, instance_types, purchase, min_size, max_size, step, hourly, enabled, updated_by, updated_at, own, shrink)
SELECT $1, $2, $3, a.id, $5, a.cloud, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18 FROM cloud_account a WHERE a.tenant_id = $1 AND a.id = $4
ON CONFLICT (tenant_id, id) DO UPDATE SET account_id = excluded.account_id, ref = excluded.ref, cloud = excluded.cloud, region = excluded.region, zones = excluded.zones,
  instance_types = excluded.instance_types, purchase = excluded.purchase, min_size = excluded.min_size, max_size = excluded.max_size, step = excluded.step, hourly = excluded.hourly,
  enabled = excluded.enabled, updated_by = excluded.updated_by, updated_at = excluded.updated_at,
  own = excluded.own, shrink = excluded.shrink WHERE cloud_group.cluster_id = excluded.cluster_id`,
		tx.Tenant, g.ID, g.Cluster, g.Account, g.Ref, g.Region, zones, g.InstanceTypes, g.Purchase, g.Min, g.Max, g.Step, g.Hourly, g.Enabled, g.UpdatedBy, tx.Now, g.Own, g.Shrink)
	if violates(err, "cloud_group_ref") {
		return &fleet.Error{Code: fleet.CodeConflict, Message: "this group is there already", Field: "body.ref"}
	}
	if err != nil {
		return fmt.Errorf("save group: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such cloud account, or the group is another cluster's")
	}
	return nil
}

// DeleteCloudGroup forgets a group and what was done to it; the machines stay. One whose own scaling is stopped is not forgotten: nobody would start it again.
func DeleteCloudGroup(ctx context.Context, tx *Tx, cluster fleet.ClusterID, id string) error {
	var stopped bool
	if err := tx.pgx.QueryRow(ctx, `SELECT cardinality(suspended) > 0 FROM cloud_group WHERE tenant_id = $1 AND cluster_id = $2 AND id = $3 FOR UPDATE`, tx.Tenant, cluster, id).Scan(&stopped); err != nil {
		return notFound(err, "group")
	}
	if stopped {
		return fleet.Errorf(fleet.CodeConflict, "the cloud's own scaling of this group is stopped: switch the group off, and it is given back within a minute, then delete it")
	}
	if _, _, err := ResolveAlert(ctx, tx, GroupConflictAlert, groupConflictSubject(id), tx.Now); err != nil {
		return err
	}
	tag, err := tx.pgx.Exec(ctx, `DELETE FROM cloud_group WHERE tenant_id = $1 AND cluster_id = $2 AND id = $3`, tx.Tenant, cluster, id)
	if err != nil {
		return fmt.Errorf("delete group: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such group")
	}
	return nil
}

// GroupState is how far an action upon a group has come.
type GroupState string

// The states. An action is closed when it is joined, given up, replaced by somebody or refused.
const (
	GroupAsked    GroupState = "asked"   // written down; the cloud may have heard of it or not
	GroupPending  GroupState = "pending" // the cloud works on it
	GroupPartial  GroupState = "partial" // some machines came, some could not
	GroupReached  GroupState = "reached" // all machines run; not all are nodes yet
	GroupJoined   GroupState = "joined"  // all machines are nodes
	GroupStockOut GroupState = "stock_out"
	GroupRefused  GroupState = "refused"
	GroupReplaced GroupState = "replaced" // somebody else set another size since
	GroupFailed   GroupState = "failed"   // the cloud could not be asked
)

// GroupAction is a size that was asked of a group.
type GroupAction struct {
	ID          string
	Group       string
	Cluster     fleet.ClusterID
	Plan        *string
	Undoes      *string
	Before      int
	ReadyBefore int
	Desired     int
	Version     string
	State       GroupState
	Ready       int
	Failures    json.RawMessage
	Problem     string
	Result      json.RawMessage
	AskedAt     time.Time
	CheckedAt   time.Time
	ClosedAt    *time.Time
	Machines    []string // that go, by the cloud's names; empty: the action sets a size
	Nodes       []string // that they are
}

const groupActionColumns = `id::text, group_id::text, cluster_id::text, plan_id::text, undoes::text, before_size, ready_before, desired, version, state, ready, failures, problem, result, asked_at, checked_at, closed_at, machines, nodes`

// GroupActions lists what was done to a cluster's groups, newest first; open: only what has not ended.
func GroupActions(ctx context.Context, tx *Tx, cluster fleet.ClusterID, open bool, limit int) ([]GroupAction, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+groupActionColumns+` FROM cloud_group_action WHERE tenant_id = $1 AND cluster_id = $2 AND (NOT $3 OR closed_at IS NULL) ORDER BY id DESC LIMIT $4`,
		tx.Tenant, cluster, open, limit)
	if err != nil {
		return nil, fmt.Errorf("list actions of groups: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[GroupAction])
	if err != nil {
		return nil, fmt.Errorf("list actions of groups: %w", err)
	}
	return all, nil
}

// OpenGroupAction writes down what will be asked. false: another action of the group is open, and this one is not made.
func OpenGroupAction(ctx context.Context, tx *Tx, a GroupAction) (bool, error) {
	machines, nodes := append([]string{}, a.Machines...), append([]string{}, a.Nodes...)
	tag, err := tx.pgx.Exec(ctx, `
INSERT INTO cloud_group_action (tenant_id, id, group_id, cluster_id, plan_id, undoes, before_size, ready_before, desired, version, state, asked_at, checked_at, machines, nodes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'asked', $11, $11, $12, $13) ON CONFLICT DO NOTHING`,
		tx.Tenant, a.ID, a.Group, a.Cluster, a.Plan, a.Undoes, a.Before, a.ReadyBefore, a.Desired, a.Version, tx.Now, machines, nodes)
	if err != nil {
		return false, fmt.Errorf("write down an action: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// UndoGroupAction writes down that a group shall have the size again that it had before an action; the size is asked for at the next look. CodeConflict while
// nothing may be asked of a cloud for the cluster, and while another action of the group is open.
func UndoGroupAction(ctx context.Context, tx *Tx, cluster fleet.ClusterID, id, undo string) error {
	var mode fleet.Mode
	var frozen bool
	var limits AgentLimits
	if err := tx.pgx.QueryRow(ctx, `SELECT mode, frozen, agent_limits FROM cluster WHERE tenant_id = $1 AND id = $2 FOR SHARE`, tx.Tenant, cluster).Scan(&mode, &frozen, &limits); err != nil {
		return notFound(err, "cluster")
	}
	var a GroupAction
	err := tx.pgx.QueryRow(ctx, `SELECT group_id::text, before_size, desired, ready FROM cloud_group_action WHERE tenant_id = $1 AND cluster_id = $2 AND id = $3`, tx.Tenant, cluster, id).
		Scan(&a.Group, &a.Before, &a.Desired, &a.Ready)
	if err != nil {
		return notFound(err, "action")
	}
	switch {
	case frozen:
		return fleet.Errorf(fleet.CodeConflict, "the cluster is frozen, and nothing is asked of a cloud until it is not: unfreeze it first")
	case limits.Frozen:
		return fleet.Errorf(fleet.CodeConflict, "the cluster's agent is frozen by its own configuration: unfreeze it there first")
	case mode != fleet.ModeEnforce:
		return fleet.Errorf(fleet.CodeConflict, "the cluster is in mode %s: groups are changed in enforce only", mode)
	}
	made, err := OpenGroupAction(ctx, tx, GroupAction{ID: undo, Group: a.Group, Cluster: cluster, Undoes: &id, Before: a.Desired, ReadyBefore: a.Ready, Desired: a.Before})
	if err != nil {
		return err
	}
	if !made {
		return fleet.Errorf(fleet.CodeConflict, "another action of this group has not ended")
	}
	return nil
}

// NoteGroupAction writes down how an open action goes; closed ends it. An action that has ended stays as it is.
func NoteGroupAction(ctx context.Context, tx *Tx, a GroupAction, closed bool) error {
	_, err := tx.pgx.Exec(ctx, `
UPDATE cloud_group_action SET state = $3, ready = $4, failures = coalesce($5, failures), problem = $6, result = coalesce($7, result), checked_at = $8, closed_at = CASE WHEN $9 THEN $8::timestamptz END
WHERE tenant_id = $1 AND id = $2 AND closed_at IS NULL`, tx.Tenant, a.ID, a.State, a.Ready, nilIfEmpty(a.Failures), a.Problem, nilIfEmpty(a.Result), tx.Now, closed)
	if err != nil {
		return fmt.Errorf("note an action: %w", err)
	}
	return askedOfGroup(ctx, tx, a)
}

func nilIfEmpty(b json.RawMessage) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// GroupWork is what is to be known before a cluster's groups are changed.
type GroupWork struct {
	Mode   fleet.Mode
	Frozen bool
	Groups []CloudGroup
	Open   []GroupAction
	Hourly map[string]int // machines that were asked for within the hour, by group
	Gone   map[string]int // machines that were ended within the hour, by group
	Head   CapacityPlanHead
	Plan   *capacity.Plan // nil: none
	Last   *time.Time     // when the newest action ended, by our clock
	Now    time.Time
}

// LoadGroupWork reads it.
func LoadGroupWork(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (w GroupWork, err error) {
	w.Now, w.Hourly, w.Gone = tx.Now, map[string]int{}, map[string]int{}
	var limits AgentLimits
	if err := tx.pgx.QueryRow(ctx, `SELECT mode, frozen, agent_limits, (SELECT max(closed_at) FROM cloud_group_action a WHERE a.tenant_id = $1 AND a.cluster_id = $2) FROM cluster WHERE tenant_id = $1 AND id = $2`,
		tx.Tenant, cluster).Scan(&w.Mode, &w.Frozen, &limits, &w.Last); err != nil {
		return w, notFound(err, "cluster")
	}
	w.Frozen = w.Frozen || limits.Frozen
	if w.Groups, err = CloudGroups(ctx, tx, cluster); err != nil {
		return w, err
	}
	if w.Open, err = GroupActions(ctx, tx, cluster, true, 1000); err != nil {
		return w, err
	}
	rows, err := tx.pgx.Query(ctx, `SELECT group_id::text, sum(greatest(desired - before_size, 0))::int, sum(cardinality(machines))::int FROM cloud_group_action WHERE tenant_id = $1 AND cluster_id = $2 AND asked_at > $3 GROUP BY group_id`,
		tx.Tenant, cluster, tx.Now.Add(-time.Hour))
	if err != nil {
		return w, fmt.Errorf("count actions of groups: %w", err)
	}
	var id string
	var n, gone int
	if _, err := pgx.ForEachRow(rows, []any{&id, &n, &gone}, func() error { w.Hourly[id], w.Gone[id] = n, gone; return nil }); err != nil {
		return w, fmt.Errorf("count actions of groups: %w", err)
	}
	if w.Head, w.Plan, err = CapacityPlan(ctx, tx, cluster, ""); IsNotFound(err) {
		err = nil
	}
	return w, err
}

// ClustersWithGroups lists the clusters whose groups may be changed, have an action that has not ended, or have something to be given back: the cloud's own scaling,
// or machines that were drained of late.
func ClustersWithGroups(ctx context.Context, tx *Tx) ([]fleet.ClusterID, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT DISTINCT cluster_id::text FROM cloud_group g WHERE tenant_id = $1
AND (enabled OR cardinality(suspended) > 0 OR EXISTS (SELECT FROM karpenter_order o WHERE o.tenant_id = g.tenant_id AND o.cluster_id = g.cluster_id AND o.kind = 'drain' AND o.created_at > $2) OR EXISTS (SELECT FROM cloud_group_action a WHERE a.tenant_id = g.tenant_id AND a.group_id = g.id AND a.closed_at IS NULL)) ORDER BY 1`, tx.Tenant, tx.Now.Add(-2*time.Hour))
	if err != nil {
		return nil, fmt.Errorf("list clusters with groups: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[fleet.ClusterID])
	if err != nil {
		return nil, fmt.Errorf("list clusters with groups: %w", err)
	}
	return ids, nil
}

// GroupNodes counts machines of a group's offerings that became nodes since a moment of ours.
func GroupNodes(ctx context.Context, tx *Tx, g CloudGroup, since time.Time) (n int, err error) {
	err = tx.pgx.QueryRow(ctx, `SELECT count(*) FROM node WHERE tenant_id = $1 AND cluster_id = $2 AND cloud = $3 AND region = $4 AND purchase = $5 AND instance_type = ANY ($6)
AND (cardinality($7::text[]) = 0 OR zone = ANY ($7)) AND started_at >= $8`, tx.Tenant, g.Cluster, g.Cloud, g.Region, g.Purchase, g.InstanceTypes, g.Zones, since).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count machines of a group: %w", err)
	}
	return n, nil
}

// NoteGroupStockOut tells the model of availability that offerings of a group could not be had, once per action.
func NoteGroupStockOut(ctx context.Context, tx *Tx, a GroupAction, list []fleet.Offering, missing int) error {
	for i, o := range list {
		if _, err := tx.pgx.Exec(ctx, `
INSERT INTO availability_event (tenant_id, source, cluster_id, at, cloud, region, zone, instance_type, purchase, kind, machines, of_machines)
SELECT $1, $2, $3, c.data_at, $4, $5, $6, $7, $8, 'exhausted', $9, $9 FROM cluster c WHERE c.tenant_id = $1 AND c.id = $3 AND c.data_at IS NOT NULL ON CONFLICT (tenant_id, source) DO NOTHING`,
			tx.Tenant, fmt.Sprintf("group/%s/%s/%d", a.Cluster, a.ID, i), a.Cluster, o.Cloud, o.Region, o.Zone, o.InstanceType, o.Purchase, missing); err != nil {
			return fmt.Errorf("note a stock-out: %w", err)
		}
	}
	return nil
}
