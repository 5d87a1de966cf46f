package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

const (
	// GroupFights is how often within an hour somebody else may undo the size that we asked of a group before it is left alone until an hour has fewer.
	GroupFights = 3
	// groupChangesKept is how long changes of groups that others made are kept.
	groupChangesKept = 24 * time.Hour
	// maxGroupChanges bounds the changes of a group that are shown.
	maxGroupChanges = 10
	// GroupConflictAlert is the kind of the alert of a group over which two fight.
	GroupConflictAlert = "group_conflict"
)

// Contended says that somebody else undoes the sizes that we ask of the group: nothing more is asked of it for now.
func (g *CloudGroup) Contended() bool { return g.Undone >= GroupFights }

// GroupSizes are a group's size and its owner's bounds.
type GroupSizes struct {
	Desired, Min int
	Max          int // -1: the cloud knows none
}

// SeeGroup compares a group with how it was seen last, or as we asked for it since, and keeps what others changed. A size on the way between the two of an action of
// ours is ours: clouds end machines one by one, and what did not come is given back.
func SeeGroup(ctx context.Context, tx *Tx, group string, now GroupSizes) error {
	var desired, low, top *int
	var seenAt *time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT seen_desired, seen_min, seen_max, seen_at FROM cloud_group WHERE tenant_id = $1 AND id = $2 FOR UPDATE`, tx.Tenant, group).Scan(&desired, &low, &top, &seenAt); err != nil {
		return notFound(err, "group")
	}
	b := &pgx.Batch{}
	if seenAt != nil {
		for _, c := range []struct {
			field         string
			before, after int
		}{{"desired", *desired, now.Desired}, {"min", *low, now.Min}, {"max", *top, now.Max}} {
			if c.before == c.after {
				continue
			}
			b.Queue(`
INSERT INTO cloud_group_change (tenant_id, group_id, id, at, field, before_size, after_size, undid)
SELECT $1, $2, $3, $4::timestamptz, $5::text, $6::int, $7::int, $5 = 'desired' AND coalesce($6 = (SELECT a.desired FROM cloud_group_action a WHERE a.tenant_id = $1 AND a.group_id = $2 AND a.asked_at > $4::timestamptz - $9::interval
    AND (a.state NOT IN ('asked', 'refused', 'failed') OR a.result <> '{}') ORDER BY a.id DESC LIMIT 1), false)
WHERE $5 <> 'desired' OR NOT EXISTS (SELECT FROM cloud_group_action a WHERE a.tenant_id = $1 AND a.group_id = $2 AND (a.closed_at IS NULL OR a.closed_at >= $8::timestamptz)
  AND ($7 = a.desired AND a.asked_at >= $8
    OR (cardinality(a.machines) > 0 OR a.state IN ('partial', 'stock_out', 'refused')) AND $7 BETWEEN least(a.before_size, a.desired) AND greatest(a.before_size, a.desired)))`,
				tx.Tenant, group, uuid.Must(uuid.NewV7()), tx.Now, c.field, c.before, c.after, *seenAt, groupChangesKept)
		}
	}
	b.Queue(`UPDATE cloud_group SET seen_desired = $3, seen_min = $4, seen_max = $5, seen_at = $6 WHERE tenant_id = $1 AND id = $2`, tx.Tenant, group, now.Desired, now.Min, now.Max, tx.Now)
	b.Queue(`DELETE FROM cloud_group_change WHERE tenant_id = $1 AND group_id = $2 AND at < $3`, tx.Tenant, group, tx.Now.Add(-groupChangesKept))
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("note how a group is: %w", err)
	}
	return nil
}

// askedOfGroup keeps the size that the cloud has taken from us: one that is found later is held against it.
func askedOfGroup(ctx context.Context, tx *Tx, a GroupAction) error {
	if a.State != GroupPending {
		return nil
	}
	if _, err := tx.pgx.Exec(ctx, `UPDATE cloud_group SET seen_desired = $3 WHERE tenant_id = $1 AND id = $2 AND seen_at IS NOT NULL`, tx.Tenant, a.Group, a.Desired); err != nil {
		return fmt.Errorf("note the size that was asked of a group: %w", err)
	}
	return nil
}

// GroupConflict is a group that others write as well.
type GroupConflict struct {
	Group    CloudGroup
	Applied  int        // sizes that we asked for in the last day and the cloud took
	Changes  int        // of size or bounds in the last day that others made
	Undone   int        // of those, how often a size of ours was undone, in the last day
	Replaced int        // actions of ours of the last day that somebody else's size ended
	LastAt   *time.Time // of the newest change or replaced action, by our clock; nil: none
	Newest   []GroupChange
}

// GroupChange is a change of a group that we did not make.
type GroupChange struct {
	At            time.Time // our clock, when it was seen
	Field         string    // desired, min, max
	Before, After int
	Undid         bool // what it changed was the size that we had asked for
}

// GroupConflicts lists a cluster's groups that others write: by what of the cloud changes them as it was looked at last, by changes of the last day that we did not
// make, or by scaling of the cloud that we stopped. Those that are fought over most come first.
func GroupConflicts(ctx context.Context, tx *Tx, cluster fleet.ClusterID) ([]GroupConflict, error) {
	groups, err := CloudGroups(ctx, tx, cluster)
	if err != nil {
		return nil, err
	}
	list, at := make([]GroupConflict, len(groups)), map[string]*GroupConflict{}
	for i := range groups {
		list[i].Group, list[i].Newest = groups[i], []GroupChange{}
		at[groups[i].ID] = &list[i]
	}
	since := tx.Now.Add(-groupChangesKept)
	for i := range list {
		list[i].Group.StoppedAt = slices.DeleteFunc(list[i].Group.StoppedAt, func(t time.Time) bool { return t.Before(since) })
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT g.id::text, a.applied, c.changes, c.undone, a.replaced, greatest(c.last_at, a.last_at)
FROM cloud_group g
CROSS JOIN LATERAL (SELECT count(*)::int AS changes, (count(*) FILTER (WHERE undid))::int AS undone, max(at) AS last_at FROM cloud_group_change x WHERE x.tenant_id = g.tenant_id AND x.group_id = g.id AND x.at > $3) c
CROSS JOIN LATERAL (SELECT (count(*) FILTER (WHERE x.result <> '{}'))::int AS applied, (count(*) FILTER (WHERE x.state = 'replaced'))::int AS replaced, max(x.closed_at) FILTER (WHERE x.state = 'replaced') AS last_at
  FROM cloud_group_action x WHERE x.tenant_id = g.tenant_id AND x.group_id = g.id AND x.asked_at > $3) a
WHERE g.tenant_id = $1 AND g.cluster_id = $2`, tx.Tenant, cluster, since)
	if err != nil {
		return nil, fmt.Errorf("list conflicts of groups: %w", err)
	}
	var id string
	var one GroupConflict
	if _, err := pgx.ForEachRow(rows, []any{&id, &one.Applied, &one.Changes, &one.Undone, &one.Replaced, &one.LastAt}, func() error {
		if c := at[id]; c != nil {
			c.Applied, c.Changes, c.Undone, c.Replaced, c.LastAt = one.Applied, one.Changes, one.Undone, one.Replaced, one.LastAt
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list conflicts of groups: %w", err)
	}
	rows, err = tx.pgx.Query(ctx, `
SELECT group_id::text, at, field, before_size, after_size, undid FROM (
  SELECT x.*, row_number() OVER (PARTITION BY x.group_id ORDER BY x.id DESC) AS n FROM cloud_group_change x JOIN cloud_group g ON g.tenant_id = x.tenant_id AND g.id = x.group_id
  WHERE x.tenant_id = $1 AND g.cluster_id = $2 AND x.at > $3) x WHERE n <= $4 ORDER BY group_id, n`, tx.Tenant, cluster, since, maxGroupChanges)
	if err != nil {
		return nil, fmt.Errorf("list changes of groups: %w", err)
	}
	var ch GroupChange
	if _, err := pgx.ForEachRow(rows, []any{&id, &ch.At, &ch.Field, &ch.Before, &ch.After, &ch.Undid}, func() error {
		if c := at[id]; c != nil {
			ch.At = ch.At.UTC()
			c.Newest = append(c.Newest, ch)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list changes of groups: %w", err)
	}
	return sortedFights(list), nil
}

// GroupFoughtOver brings the alert of a group in line with whether two fight over it, and says so where it changed.
func GroupFoughtOver(ctx context.Context, tx *Tx, g *CloudGroup) (err error) {
	subject := groupConflictSubject(g.ID)
	var alert Alert
	var changed bool
	if g.Enabled && g.Contended() {
		c, err := ClusterByID(ctx, tx, g.Cluster)
		if err != nil {
			return err
		}
		alert, changed, err = OpenAlert(ctx, tx, GroupConflictAlert, subject, SeverityWarning, tx.Now, map[string]any{"cluster": c.Name, "cluster_id": g.Cluster, "group": g.Ref, "times": g.Undone})
		if err != nil {
			return err
		}
	} else if alert, changed, err = ResolveAlert(ctx, tx, GroupConflictAlert, subject, tx.Now); err != nil {
		return err
	}
	if !changed {
		return nil
	}
	return Notify(ctx, tx, EventAlert, g.Cluster, alert.ID)
}

func groupConflictSubject(group string) string { return "group/" + group + "/conflict" }

// sortedFights leaves out the groups that nobody else writes.
func sortedFights(list []GroupConflict) []GroupConflict {
	list = slices.DeleteFunc(list, func(c GroupConflict) bool {
		var writers []json.RawMessage
		return c.Changes+c.Replaced == 0 && len(c.Group.Suspended) == 0 && len(c.Group.StoppedAt) == 0 && (json.Unmarshal(c.Group.Writers, &writers) != nil || len(writers) == 0)
	})
	slices.SortStableFunc(list, func(a, b GroupConflict) int {
		return cmp.Or(cmp.Compare(b.Group.Undone, a.Group.Undone), cmp.Compare(b.Undone+b.Replaced, a.Undone+a.Replaced), cmp.Compare(b.Changes, a.Changes), cmp.Compare(a.Group.Ref, b.Group.Ref))
	})
	return list
}
