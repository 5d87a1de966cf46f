package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

const (
	// complianceEvery is how often machines are held against their capacity policy.
	complianceEvery = 5 * time.Minute
	// complianceAlert is the kind of the alert of machines that do not obey it.
	complianceAlert = "node_compliance"
	// maxComplianceTold bounds the machines that an alert names.
	maxComplianceTold = 5
)

// NodeComplianceArgs asks to hold the machines of every cluster against its capacity policy.
type NodeComplianceArgs struct{}

// Kind implements river.JobArgs.
func (NodeComplianceArgs) Kind() string { return "node_compliance" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (NodeComplianceArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// NodeCompliance alerts of machines that do not obey their cluster's capacity policy, one alert per cluster. It does nothing to them.
type NodeCompliance struct {
	river.WorkerDefaults[NodeComplianceArgs]
	DB *store.DB
}

// Work implements river.Worker. One cluster's trouble does not keep the others from being looked at.
func (w *NodeCompliance) Work(ctx context.Context, _ *river.Job[NodeComplianceArgs]) error {
	type one struct {
		tenant  fleet.TenantID
		cluster fleet.ClusterID
	}
	var due []one
	failed := eachTenant(ctx, w.DB, func(tx *store.Tx) error {
		ids, err := store.ReportingClusters(ctx, tx)
		for _, id := range ids {
			due = append(due, one{tx.Tenant, id})
		}
		return err
	})
	for _, d := range due { // a transaction each: what is found of one cluster is kept whatever becomes of the next
		if err := w.DB.Tenant(ctx, d.tenant, func(tx *store.Tx) error { return w.cluster(ctx, tx, d.cluster) }); err != nil && !store.IsNotFound(err) {
			failed = errors.Join(failed, fmt.Errorf("hold machines of cluster %s against its policy: %w", d.cluster, err))
		}
	}
	return failed
}

func (*NodeCompliance) cluster(ctx context.Context, tx *store.Tx, id fleet.ClusterID) error {
	c, err := store.NodeCompliance(ctx, tx, id)
	if err != nil || c.At == nil {
		return err
	}
	subject := "cluster/" + string(id) + "/node_compliance"
	breaking, told := 0, []map[string]any{}
	for _, n := range c.Nodes {
		if len(n.Findings) == 0 {
			continue
		}
		if breaking++; len(told) < maxComplianceTold {
			told = append(told, map[string]any{"node": n.Name, "findings": n.Findings})
		}
	}
	var alert store.Alert
	var changed bool
	if breaking == 0 {
		alert, changed, err = store.ResolveAlert(ctx, tx, complianceAlert, subject, *c.At)
	} else {
		cluster, err2 := store.ClusterByID(ctx, tx, id)
		if err2 != nil {
			return err2
		}
		alert, changed, err = store.OpenAlert(ctx, tx, complianceAlert, subject, store.SeverityWarning, *c.At, map[string]any{"cluster": cluster.Name, "nodes": breaking, "first": told})
	}
	if err != nil || !changed {
		return err
	}
	return store.Notify(ctx, tx, store.EventAlert, id, alert.ID)
}
