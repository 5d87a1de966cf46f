package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

const (
	// capacitySweepEvery is how often clusters are looked over for news about their machines.
	capacitySweepEvery = 15 * time.Second
	// capacityEvery is the least time between two plans of one cluster; a plan that takes long comes less often, see store.CapacityDue.
	capacityEvery = 20 * time.Second
	// capacitySearch is how long a plan may search before it takes the best so far.
	capacitySearch = 4 * time.Second
	// capacityDueAtOnce bounds the clusters of one tenant that one sweep asks for.
	capacityDueAtOnce = 500
	// maxCapacityTold bounds the pods that an alert names.
	maxCapacityTold = 5
)

// CapacitySweepArgs asks for plans of the machines of every cluster with news.
type CapacitySweepArgs struct{}

// Kind implements river.JobArgs.
func (CapacitySweepArgs) Kind() string { return "capacity_sweep" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (CapacitySweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// CapacitySweep enqueues CapacityPlan per cluster that is due.
type CapacitySweep struct {
	river.WorkerDefaults[CapacitySweepArgs]
	DB *store.DB
}

// Work implements river.Worker. One tenant's trouble does not keep the others from being planned.
func (w *CapacitySweep) Work(ctx context.Context, _ *river.Job[CapacitySweepArgs]) error {
	return enqueueDue(ctx, w.DB, func(ctx context.Context, tx *store.Tx) ([]fleet.ClusterID, error) {
		return store.CapacityDue(ctx, tx, capacityEvery, capacityDueAtOnce)
	}, func(t fleet.TenantID, id fleet.ClusterID) river.JobArgs {
		return CapacityPlanArgs{Tenant: t, Cluster: id}
	})
}

// CapacityPlanArgs asks for a plan of one cluster's machines.
type CapacityPlanArgs struct {
	Tenant  fleet.TenantID  `json:"tenant" river:"unique"`
	Cluster fleet.ClusterID `json:"cluster" river:"unique"`
}

// Kind implements river.JobArgs.
func (CapacityPlanArgs) Kind() string { return "capacity_plan" }

// InsertOpts implements river.JobArgsWithInsertOpts: one per cluster waits or runs at a time; the next sweep asks again.
func (CapacityPlanArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 2}
}

// CapacityPlan plans the machines of a cluster: what it reads, decides and checks is kept with the plan. Where the cluster's plans are
// carried out through Karpenter, what its agent shall tell Karpenter is written down in the same transaction.
type CapacityPlan struct {
	river.WorkerDefaults[CapacityPlanArgs]
	DB      *store.DB
	Prices  func() *market.PriceBook
	Log     *slog.Logger
	Took    prometheus.Observer // seconds of Decide; nil: not measured
	Unsound prometheus.Counter  // plans that their check threw out; nil: not counted
	// decide is capacity.Decide unless a test wants to see a bad plan.
	decide func(capacity.Input, func() bool) (*capacity.Plan, error)
}

// Timeout of one plan.
func (*CapacityPlan) Timeout(*river.Job[CapacityPlanArgs]) time.Duration { return time.Minute }

// Work implements river.Worker. No connection is held while it searches.
func (w *CapacityPlan) Work(ctx context.Context, job *river.Job[CapacityPlanArgs]) error {
	started := time.Now()
	var in *capacity.Input
	err := w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) (err error) {
		in, err = store.LoadCapacityInput(ctx, tx, w.Prices(), job.Args.Cluster)
		return err
	})
	if store.IsNotFound(err) { // the cluster was deleted meanwhile
		return river.JobCancel(err)
	}
	if err != nil {
		return fmt.Errorf("load capacity input: %w", err)
	}
	if in == nil {
		return nil
	}
	plan, err := w.plan(ctx, *in)
	if err != nil {
		var coded *fleet.Error
		if errors.As(err, &coded) && coded.Code == fleet.CodeTooLarge {
			return river.JobCancel(err)
		}
		return err
	}
	told, err := w.tellKarpenter(ctx, job.Args.Tenant, in, plan)
	if err != nil {
		return err
	}
	return w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error {
		if stands, err := store.CapacityTurnStands(ctx, tx, in); err != nil || !stands {
			return err // another policy is in force by now: the next sweep plans under it
		}
		news, err := store.SaveCapacityPlan(ctx, tx, *in, plan, time.Since(started))
		if err != nil {
			return err
		}
		if err := capacityAlert(ctx, tx, in, plan); err != nil {
			return err
		}
		if news {
			w.Log.InfoContext(ctx, "planned capacity", "tenant", tx.Tenant, "cluster", in.Cluster, "outcome", plan.Outcome, "groups", len(plan.Add), "drains", len(plan.Drain),
				"waiting", len(plan.Waiting), "mode", plan.Mode)
			if err := store.Notify(ctx, tx, store.EventPlan, in.Cluster, ""); err != nil {
				return err
			}
		}
		if err := w.openOrder(ctx, tx, in, told); err != nil {
			return err
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx.PGX(), job)
		return err
	})
}

func (w *CapacityPlan) plan(ctx context.Context, in capacity.Input) (*capacity.Plan, error) {
	decide := w.decide
	if decide == nil {
		decide = capacity.Decide
	}
	started := time.Now()
	plan, err := decide(in, func() bool { return ctx.Err() != nil || time.Since(started) > capacitySearch })
	if err != nil {
		return nil, fmt.Errorf("plan capacity: %w", err)
	}
	if w.Took != nil {
		w.Took.Observe(time.Since(started).Seconds())
	}
	if bad := capacity.Check(in, plan); len(bad) > 0 {
		if w.Unsound != nil {
			w.Unsound.Inc()
		}
		return nil, fmt.Errorf("capacity plan of cluster %s fails its check: %s and %d more", in.Cluster, bad[0], len(bad)-1)
	}
	return plan, nil
}

// capacityAlert tells of pods that wait for a machine for too long, one alert per cluster, with what keeps the longest of them. A plan on
// an old inventory tells nothing new.
func capacityAlert(ctx context.Context, tx *store.Tx, in *capacity.Input, plan *capacity.Plan) error {
	for _, h := range plan.Held {
		if h == capacity.HoldStale || h == capacity.HoldEmpty {
			return nil
		}
	}
	subject := "cluster/" + string(in.Cluster) + "/unschedulable"
	var alert store.Alert
	var changed bool
	var err error
	if plan.LongWaiting == 0 {
		alert, changed, err = store.ResolveAlert(ctx, tx, "pods_unschedulable", subject, in.Now)
	} else {
		var cluster store.Cluster
		if cluster, err = store.ClusterByID(ctx, tx, in.Cluster); err != nil {
			return err
		}
		severity := store.SeverityWarning
		told := []map[string]any{}
		for _, x := range plan.Waiting {
			if !x.Long {
				continue
			}
			if x.Cause == capacity.CauseNothing {
				severity = store.SeverityCritical // waiting longer does not help
			}
			if len(told) < maxCapacityTold {
				told = append(told, map[string]any{"pod": x.Pod, "cause": x.Cause, "since": x.Since, "blocked": x.Blocked, "expected_seconds": x.Seconds})
			}
		}
		alert, changed, err = store.OpenAlert(ctx, tx, "pods_unschedulable", subject, severity, in.Now,
			map[string]any{"cluster": cluster.Name, "pods": plan.LongWaiting, "oldest_seconds": plan.OldestWait, "longest": told})
	}
	if err != nil || !changed {
		return err
	}
	return store.Notify(ctx, tx, store.EventAlert, in.Cluster, alert.ID)
}

func capacityMetrics() (took prometheus.Histogram, unsound prometheus.Counter) {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "plimsoll_capacity_decide_seconds", Help: "Time of a capacity plan itself, without loading and saving.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9), NativeHistogramBucketFactor: 1.2,
		}), prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plimsoll_capacity_unsound_plans_total", Help: "Capacity plans that broke a rule of their check and were thrown out. Each is a defect.",
		})
}
