package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/spread"
	"plimsoll.dev/services/store"
)

const (
	// serviceSweepEvery is how often services are looked over.
	serviceSweepEvery = 15 * time.Second
	// serviceEvery is the least time between two plans of one service.
	serviceEvery = 14 * time.Second
	// servicesAtOnce bounds the services of one tenant that one sweep asks for.
	servicesAtOnce = 200
)

// ServiceSweepArgs asks for plans of all services that are due.
type ServiceSweepArgs struct{}

// Kind implements river.JobArgs.
func (ServiceSweepArgs) Kind() string { return "service_sweep" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (ServiceSweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// ServiceSweep enqueues ServicePlan per service that is due.
type ServiceSweep struct {
	river.WorkerDefaults[ServiceSweepArgs]
	DB *store.DB
}

// Work implements river.Worker. One tenant's trouble does not keep the others from being planned.
func (w *ServiceSweep) Work(ctx context.Context, _ *river.Job[ServiceSweepArgs]) error {
	return enqueueDue(ctx, w.DB, func(ctx context.Context, tx *store.Tx) ([]string, error) {
		return store.ServicesDue(ctx, tx, serviceEvery, servicesAtOnce)
	}, func(t fleet.TenantID, id string) river.JobArgs {
		return ServicePlanArgs{Tenant: t, Service: id}
	})
}

// ServicePlanArgs asks for a plan of one service.
type ServicePlanArgs struct {
	Tenant  fleet.TenantID `json:"tenant" river:"unique"`
	Service string         `json:"service" river:"unique"`
}

// Kind implements river.JobArgs.
func (ServicePlanArgs) Kind() string { return "service_plan" }

// InsertOpts implements river.JobArgsWithInsertOpts: one per service waits or runs at a time; the next sweep asks again.
func (ServicePlanArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 2}
}

// ServicePlan splits the replicas of a service over its clusters. What it reads, decides and checks is kept with the plan, and in enforce the bounds that it
// leaves each cluster's workload, in one transaction.
type ServicePlan struct {
	river.WorkerDefaults[ServicePlanArgs]
	DB  *store.DB
	Log *slog.Logger
	// decide is spread.Decide unless a test wants to see a bad plan.
	decide func(spread.Input) (*spread.Plan, error)
}

// Timeout of one plan.
func (*ServicePlan) Timeout(*river.Job[ServicePlanArgs]) time.Duration { return time.Minute }

// Work implements river.Worker. No connection is held while prices are worked out.
func (w *ServicePlan) Work(ctx context.Context, job *river.Job[ServicePlanArgs]) error {
	started := time.Now()
	var work *store.ServiceWork
	err := w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) (err error) {
		work, err = store.LoadServiceWork(ctx, tx, job.Args.Service)
		return err
	})
	if err != nil {
		return hopeless(fmt.Errorf("load service: %w", err))
	}
	if work == nil {
		return nil
	}
	if err := priceSites(work); err != nil {
		return fmt.Errorf("price service %s: %w", work.Service.Name, err)
	}
	decide := w.decide
	if decide == nil {
		decide = spread.Decide
	}
	plan, err := decide(work.Input)
	if err != nil {
		return hopeless(fmt.Errorf("plan service %s: %w", work.Service.Name, err))
	}
	if bad := spread.Check(work.Input, plan); len(bad) > 0 {
		return fmt.Errorf("plan of service %s fails its check: %s and %d more", work.Service.Name, bad[0], len(bad)-1)
	}
	err = w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error {
		news, err := store.SaveServicePlan(ctx, tx, job.Args.Service, work.Service.Version, work.Input, plan, time.Since(started))
		if err != nil {
			return err
		}
		if news {
			w.Log.InfoContext(ctx, "planned service", "tenant", tx.Tenant, "service", work.Service.Name, "outcome", plan.Outcome, "demand", plan.Demand, "target", plan.Target,
				"missing", plan.Missing, "moves", plan.Moves, "mode", plan.Mode)
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx.PGX(), job)
		return err
	})
	return hopeless(err)
}

// hopeless cancels a job that asking again does not help: the service is gone, was changed, or is too large. The next sweep asks anew.
func hopeless(err error) error {
	var coded *fleet.Error
	if err != nil && errors.As(err, &coded) {
		return river.JobCancel(err)
	}
	return err
}

// priceSites works out what replicas cost at each site. Where no pod runs, one of the largest other site tells what it takes.
func priceSites(work *store.ServiceWork) error {
	var like *capacity.Pod
	most := -1
	for i, m := range work.Machines {
		if m == nil || work.Input.Sites[i].Replicas <= most {
			continue
		}
		if p := capacity.Likeness(m.Pods, work.Input.Sites[i].Key); p != nil {
			like, most = p, work.Input.Sites[i].Replicas
		}
	}
	for i, m := range work.Machines {
		if m == nil {
			continue
		}
		s := &work.Input.Sites[i]
		places, err := capacity.PlacesOf(*m, s.Key, like)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", s.Name, err)
		}
		s.Reach = places.Reach
		for _, p := range places.List {
			s.Steps = append(s.Steps, spread.Step{Count: p.Count, Price: p.Price, Weighed: p.Weighed, Kind: spread.StepKind(p.Kind), Offering: p.Offering})
		}
	}
	return nil
}

// services narrows the policies of workloads that are parts of services to what the newest plans leave them. A surge beyond what such a plan saw is not held
// back: what the signals ask for now is worked out first.
func (w *PlanWorker) services(ctx context.Context, tx *store.Tx, in optimizer.Input) (optimizer.Input, error) {
	bounds, err := store.ServiceBounds(ctx, tx, in.Snapshot.Cluster)
	if err != nil || len(bounds) == 0 {
		return in, err
	}
	in.Policies = maps.Clone(in.Policies)
	for _, s := range in.Snapshot.Workloads {
		id := s.Workload.ID
		bound, bounded := bounds[id]
		b, decided := in.Policies[id]
		if !bounded || !decided {
			continue
		}
		need := bound.Bound.Need
		if bound.Bound.Cap != nil {
			one := in
			one.Snapshot.Workloads, one.Budgets = []fleet.WorkloadState{s}, nil
			free, err := decideOne(one, id, b, in.Memory[id])
			if err != nil {
				return in, fmt.Errorf("decide without a bound: %w", err)
			}
			need = free.Decisions[0].Needed
		}
		p := b.Policy.WithDefaults()
		low, high := bound.Bound.Lift(p.Min, p.Max, need)
		b.Share = &optimizer.Share{Service: bound.Service, Min: p.Min, Max: p.Max}
		b.Policy.Min, b.Policy.Max = low, max(high, 1)
		in.Policies[id] = b
	}
	return in, nil
}
