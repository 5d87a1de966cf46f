// Package jobs is the door of the clock: it plans, compacts, costs, checks budgets, delivers and prunes, on River in Postgres.
// Workers are idempotent and complete their job in the transaction of its effect, so that any process may die at any time. It
// never imports httpapi.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// Queues. Planning has its own, so that a backlog of costing never delays a decision.
const (
	queuePlan    = "plan"
	queueBulk    = "bulk"    // compaction, costing, pruning
	queueDeliver = "deliver" // waits for other people's servers
)

// Config of the workers.
type Config struct {
	// PlanWorkers is how many plans are made at once. Default 8; each holds one connection.
	PlanWorkers int
	// BulkWorkers compacts and costs. Default 2.
	BulkWorkers int
	// DeliverWorkers sends webhooks. Default 8.
	DeliverWorkers int
	// SweepEvery is how often clusters are looked over for work that nobody asked for. Default 1 minute.
	SweepEvery time.Duration
	// SpotKeepYears is how long Spot prices are kept, before the newest of their cloud. 0: for ever.
	SpotKeepYears int
	// PublicURL of the dashboard, for links in what people are told. Empty: no links.
	PublicURL string
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	for _, d := range []struct {
		v   *int
		def int
	}{{&c.PlanWorkers, 8}, {&c.BulkWorkers, 2}, {&c.DeliverWorkers, 8}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = time.Minute
	}
	return c
}

// Deps are the rooms that jobs work with.
type Deps struct {
	DB       *store.DB
	Prices   func() *market.PriceBook // the newest book; whoever works with one keeps it to the end
	Secrets  Resealer                 // webhook secrets, access to cloud accounts; nil: none is opened
	Sources  SourceOpener             // cloud accounts; nil: this process cannot read them
	Groups   GroupOpener              // groups of machines at clouds; nil: this process changes none
	Sender   Sender                   // webhooks
	Mailer   Mailer                   // mail; nil: this process sends none
	Log      *slog.Logger
	Registry *prometheus.Registry
}

// Client runs the workers.
type Client struct {
	river   *river.Client[pgx.Tx]
	orphans *orphans
}

// New wires the workers; nothing runs before Run.
func New(cfg Config, deps Deps) (*Client, error) {
	cfg = cfg.WithDefaults()
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "plimsoll_jobs_run_seconds", Help: "Time of a job's run, by kind and outcome.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), NativeHistogramBucketFactor: 1.2,
	}, []string{"kind", "outcome"})
	waited := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "plimsoll_jobs_wait_seconds", Help: "Time from when a job may run until it runs, by kind.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), NativeHistogramBucketFactor: 1.2,
	}, []string{"kind"})
	decide := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "plimsoll_plan_decide_seconds", Help: "Time of the decision itself, without loading and saving.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10), NativeHistogramBucketFactor: 1.2,
	})
	unsound := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "plimsoll_plan_unsound_decisions_total", Help: "Decisions that broke a rule of their check and were thrown out. Each is a defect.",
	})
	doubts := newSpotGauge()
	planned, brokenPlans := capacityMetrics()
	deps.Registry.MustRegister(seconds, waited, decide, unsound, doubts, planned, brokenPlans)
	workers := river.NewWorkers()
	river.AddWorker(workers, &PlanWorker{DB: deps.DB, Prices: deps.Prices, Log: deps.Log, Took: decide, Unsound: unsound})
	river.AddWorker(workers, &CapacitySweep{DB: deps.DB})
	river.AddWorker(workers, &CapacityPlan{DB: deps.DB, Prices: deps.Prices, Log: deps.Log, Took: planned, Unsound: brokenPlans})
	river.AddWorker(workers, &CapacityRolloutSweep{DB: deps.DB})
	river.AddWorker(workers, &NodeCompliance{DB: deps.DB})
	river.AddWorker(workers, &CapacityRollout{DB: deps.DB, Prices: deps.Prices, Log: deps.Log})
	river.AddWorker(workers, &ServiceSweep{DB: deps.DB})
	river.AddWorker(workers, &ServicePlan{DB: deps.DB, Log: deps.Log})
	river.AddWorker(workers, &ReplayWorker{DB: deps.DB, Prices: deps.Prices, Log: deps.Log})
	river.AddWorker(workers, &TuneSweep{DB: deps.DB})
	river.AddWorker(workers, &Tune{DB: deps.DB, Prices: deps.Prices, Log: deps.Log})
	river.AddWorker(workers, &Compact{DB: deps.DB})
	river.AddWorker(workers, &CloseHour{DB: deps.DB, Prices: deps.Prices, Log: deps.Log})
	river.AddWorker(workers, &CheckBudgets{DB: deps.DB, Currency: deps.Prices().Currency(), PublicURL: cfg.PublicURL, Log: deps.Log})
	river.AddWorker(workers, &Deliver{DB: deps.DB, Secrets: deps.Secrets, Sender: deps.Sender, Mailer: deps.Mailer, Log: deps.Log})
	addTelling(workers, cfg, deps)
	river.AddWorker(workers, &Sweep{DB: deps.DB, Log: deps.Log})
	river.AddWorker(workers, &MeasureSavings{DB: deps.DB, Log: deps.Log})
	river.AddWorker(workers, &Prune{DB: deps.DB, SpotKeepYears: cfg.SpotKeepYears, Log: deps.Log})
	river.AddWorker(workers, &Reseal{DB: deps.DB, Secrets: deps.Secrets, Log: deps.Log})
	river.AddWorker(workers, &AvailabilitySweep{DB: deps.DB})
	river.AddWorker(workers, &LearnAvailability{DB: deps.DB, Log: deps.Log})
	river.AddWorker(workers, &SpotAlerts{DB: deps.DB, Log: deps.Log, Open: doubts})
	sources := deps.Sources
	if sources == nil {
		sources = noSources
	}
	river.AddWorker(workers, &Refresh{DB: deps.DB, Secrets: deps.Secrets, Open: sources, Prices: deps.Prices, Log: deps.Log})
	river.AddWorker(workers, &RefreshSweep{DB: deps.DB})
	river.AddWorker(workers, &CloudGroupsSweep{DB: deps.DB})
	river.AddWorker(workers, &CloudGroups{DB: deps.DB, Secrets: deps.Secrets, Open: deps.Groups, Log: deps.Log})
	name := uuid.NewString()
	client, err := river.NewClient(riverpgxv5.New(deps.DB.Pool()), &river.Config{
		ID:      name,
		Workers: workers,
		Queues: map[string]river.QueueConfig{
			queuePlan:          {MaxWorkers: cfg.PlanWorkers, FetchCooldown: 20 * time.Millisecond, FetchPollInterval: 500 * time.Millisecond},
			queueBulk:          {MaxWorkers: cfg.BulkWorkers},
			queueDeliver:       {MaxWorkers: cfg.DeliverWorkers},
			queueReplay:        {MaxWorkers: 1},
			river.QueueDefault: {MaxWorkers: 4},
		},
		PeriodicJobs: append(tellingJobs(), []*river.PeriodicJob{
			river.NewPeriodicJob(river.PeriodicInterval(cfg.SweepEvery), func() (river.JobArgs, *river.InsertOpts) { return SweepArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(savingsEvery), func() (river.JobArgs, *river.InsertOpts) { return SavingsArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(pruneEvery), func() (river.JobArgs, *river.InsertOpts) { return PruneArgs{}, nil }, nil),
			river.NewPeriodicJob(river.PeriodicInterval(resealEvery), func() (river.JobArgs, *river.InsertOpts) { return ResealArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(availabilityEvery), func() (river.JobArgs, *river.InsertOpts) { return AvailabilitySweepArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(capacitySweepEvery), func() (river.JobArgs, *river.InsertOpts) { return CapacitySweepArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(complianceEvery), func() (river.JobArgs, *river.InsertOpts) { return NodeComplianceArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(capacityRolloutEvery), func() (river.JobArgs, *river.InsertOpts) { return CapacityRolloutSweepArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(serviceSweepEvery), func() (river.JobArgs, *river.InsertOpts) { return ServiceSweepArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(tuneEvery), func() (river.JobArgs, *river.InsertOpts) { return TuneSweepArgs{}, nil }, nil),
			river.NewPeriodicJob(river.PeriodicInterval(groupsEvery), func() (river.JobArgs, *river.InsertOpts) { return CloudGroupsSweepArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(refreshSweepEvery), func() (river.JobArgs, *river.InsertOpts) { return RefreshSweepArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
			river.NewPeriodicJob(river.PeriodicInterval(spotAlertsEvery), func() (river.JobArgs, *river.InsertOpts) { return SpotAlertsArgs{}, nil },
				&river.PeriodicJobOpts{RunOnStart: true}),
		}...),
		// The defaults keep a day of finished jobs: tens of millions of rows at a plan per cluster and tick.
		CompletedJobRetentionPeriod: 10 * time.Minute,
		CancelledJobRetentionPeriod: time.Hour,
		DiscardedJobRetentionPeriod: 7 * 24 * time.Hour,
		JobTimeout:                  time.Minute,
		Logger:                      slog.New(quiet{deps.Log.Handler()}),
		Plugins:                     []rivertype.Plugin{&measure{run: seconds, wait: waited}},
	})
	if err != nil {
		return nil, fmt.Errorf("set up jobs: %w", err)
	}
	return &Client{client, &orphans{config: deps.DB.Pool().Config().ConnConfig, name: name, log: deps.Log}}, nil
}

// Run works until ctx ends, then lets running jobs finish for ten seconds before it cancels them; a cancelled job runs again
// elsewhere.
func (c *Client) Run(ctx context.Context) error {
	conn, err := c.orphans.hold(ctx)
	if err != nil {
		return err
	}
	minder, stop := context.WithCancel(context.WithoutCancel(ctx)) // the name is held until the last job is done
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.orphans.run(minder, conn)
	}()
	defer func() { stop(); <-done }()
	if err := c.river.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start jobs: %w", err)
	}
	<-ctx.Done()
	soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := c.river.Stop(soft); err != nil {
		hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := c.river.StopAndCancel(hard); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("stop jobs: %w", err)
		}
	}
	return nil
}

// Enqueuer puts jobs into the queue in the caller's transaction. It needs no running workers.
type Enqueuer struct{ river *river.Client[pgx.Tx] }

// NewEnqueuer makes an Enqueuer.
func NewEnqueuer(db *store.DB, log *slog.Logger) (*Enqueuer, error) {
	client, err := river.NewClient(riverpgxv5.New(db.Pool()), &river.Config{Logger: slog.New(quiet{log.Handler()})})
	if err != nil {
		return nil, fmt.Errorf("set up the job queue: %w", err)
	}
	return &Enqueuer{client}, nil
}

// PlanSoon asks for a decision on the cluster. Not unique on purpose: a report that arrives while a plan is being made must lead
// to another one.
func (e *Enqueuer) PlanSoon(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID) error {
	return e.insert(ctx, tx, PlanArgs{Tenant: tx.Tenant, Cluster: cluster})
}

// CompactSoon asks for chunks and roll-ups of what the cluster reported.
func (e *Enqueuer) CompactSoon(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID) error {
	return e.insert(ctx, tx, CompactArgs{Tenant: tx.Tenant, Cluster: cluster})
}

// CloseSoon asks to cost the hours of the cluster that are due.
func (e *Enqueuer) CloseSoon(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID) error {
	return e.insert(ctx, tx, CloseHourArgs{Tenant: tx.Tenant, Cluster: cluster})
}

// DeliverSoon asks to send a webhook delivery.
func (e *Enqueuer) DeliverSoon(ctx context.Context, tx *store.Tx, deliveryID string) error {
	return e.insert(ctx, tx, DeliverArgs{Tenant: tx.Tenant, Delivery: deliveryID})
}

// CheckBudgetsSoon asks to hold the tenant's budgets against its costs.
func (e *Enqueuer) CheckBudgetsSoon(ctx context.Context, tx *store.Tx) error {
	return e.insert(ctx, tx, CheckBudgetsArgs{Tenant: tx.Tenant})
}

func (e *Enqueuer) insert(ctx context.Context, tx *store.Tx, args river.JobArgs) error {
	if _, err := e.river.InsertTx(ctx, tx.PGX(), args, nil); err != nil {
		return fmt.Errorf("enqueue %s: %w", args.Kind(), err)
	}
	return nil
}

// measure counts what jobs take.
type measure struct {
	river.MiddlewareDefaults
	run  *prometheus.HistogramVec
	wait *prometheus.HistogramVec
}

// Work implements rivertype.WorkerMiddleware.
func (m *measure) Work(ctx context.Context, job *rivertype.JobRow, inner func(context.Context) error) error {
	started := time.Now()
	m.wait.WithLabelValues(job.Kind).Observe(max(started.Sub(job.ScheduledAt).Seconds(), 0))
	err := inner(ctx)
	outcome := "done"
	if err != nil {
		outcome = "error"
	}
	m.run.WithLabelValues(job.Kind, outcome).Observe(time.Since(started).Seconds())
	return err
}

// quiet lowers River's chatter by one level: its statistics are our metrics.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l > slog.LevelInfo && q.Handler.Enabled(ctx, l)
}
