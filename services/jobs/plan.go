package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// PlanArgs asks for a decision on one cluster.
type PlanArgs struct {
	Tenant  fleet.TenantID  `json:"tenant"`
	Cluster fleet.ClusterID `json:"cluster"`
}

// Kind implements river.JobArgs.
func (PlanArgs) Kind() string { return "plan" }

// InsertOpts implements river.JobArgsWithInsertOpts. A plan that failed is tried a few times only: the next report asks again.
func (PlanArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queuePlan, MaxAttempts: 3}
}

// PlanWorker makes plans: lock the cluster, load what is known, decide, check, save, tell the agent, and complete the job, all in
// one transaction.
type PlanWorker struct {
	river.WorkerDefaults[PlanArgs]
	DB     *store.DB
	Prices func() *market.PriceBook
	Log    *slog.Logger
	Took   prometheus.Observer // seconds of Decide; nil: not measured
	// Unsound counts decisions that their check threw out; nil: not counted.
	Unsound prometheus.Counter
	// decide is optimizer.Decide unless a test wants to see a bad decision.
	decide func(optimizer.Input) (optimizer.Plan, error)
}

// Timeout of one plan; a cluster of ten thousand workloads takes a second or two.
func (*PlanWorker) Timeout(*river.Job[PlanArgs]) time.Duration { return 30 * time.Second }

// Work implements river.Worker.
func (w *PlanWorker) Work(ctx context.Context, job *river.Job[PlanArgs]) error {
	err := w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error {
		if err := w.plan(ctx, tx, job.Args.Cluster); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx.PGX(), job)
		return err
	})
	if store.IsNotFound(err) { // the cluster was deleted meanwhile: asking again does not bring it back
		return river.JobCancel(err)
	}
	return err
}

func (w *PlanWorker) plan(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID) error {
	loaded, err := store.LoadPlanInput(ctx, tx, cluster)
	if err != nil {
		return fmt.Errorf("load snapshot: %w", err)
	}
	if loaded == nil {
		return nil
	}
	in := loaded.Input
	if err := expire(ctx, tx, cluster, in.Snapshot.Now); err != nil {
		return err
	}
	if in.Snapshot.Mode == fleet.ModeObserve || len(in.Policies) == 0 {
		return nil
	}
	if err := store.PricePlan(ctx, tx, w.Prices(), loaded); err != nil {
		return fmt.Errorf("load prices: %w", err)
	}
	if in.Budgets, err = store.PlanBudgets(ctx, tx, in); err != nil {
		return fmt.Errorf("load budgets: %w", err)
	}
	started := time.Now()
	in, learned := w.learn(ctx, in, loaded.Learned, loaded.Starts)
	if in, err = w.rollouts(ctx, tx, in); err != nil {
		return err
	}
	if in, err = w.hints(ctx, tx, in); err != nil {
		return err
	}
	if in, err = w.services(ctx, tx, in); err != nil {
		return err
	}
	decide := w.decide
	if decide == nil {
		decide = optimizer.Decide
	}
	plan, err := decide(in)
	if err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	if w.Took != nil {
		w.Took.Observe(time.Since(started).Seconds())
	}
	if plan, err = w.sound(ctx, plan, optimizer.Check(plan, in)); err != nil {
		return err
	}
	if err := store.SaveMemory(ctx, tx, plan.Memory); err != nil {
		return err
	}
	if err := store.SaveLearned(ctx, tx, learned); err != nil {
		return err
	}
	if err := w.trip(ctx, tx, plan); err != nil {
		return err
	}
	return w.save(ctx, tx, plan, in)
}

// learn brings what is known of the workloads with an SLO rule up to now. It returns the input with their forecasts, and what is due to be
// kept. What was kept and cannot be used is thrown away, with a word in the log and caution in the decisions.
func (w *PlanWorker) learn(ctx context.Context, in optimizer.Input, kept map[fleet.WorkloadID]store.Learned, starts map[fleet.WorkloadID]int) (optimizer.Input, []store.Learned) {
	in, learners := optimizer.LearnAll(in, func(id fleet.WorkloadID, s *optimizer.SLO, class string) *optimizer.Learner {
		return optimizer.NewLearner(kept[id].State, kept[id].Began, s, class, starts[id])
	})
	due := store.LearnedNow(learners, kept, in.Snapshot.Now, true)
	for _, k := range due {
		if learners[k.Workload].Kept < 0 {
			w.Log.InfoContext(ctx, "learning begins", "cluster", in.Snapshot.Cluster, "workload", k.Workload, "reason", k.Began)
		}
	}
	return in, due
}

func expire(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID, now time.Time) error {
	n, err := store.ExpireDecisions(ctx, tx, cluster, now)
	if err != nil || n == 0 {
		return err
	}
	return store.Notify(ctx, tx, store.EventDecision, cluster, "")
}

// sound drops the decisions that break a rule, with what they would have remembered: their workloads stay as they are and are
// decided upon anew at the next report, all others are not kept waiting for them. A plan that is wrong as a whole is an error.
func (w *PlanWorker) sound(ctx context.Context, plan optimizer.Plan, bad []optimizer.Violation) (optimizer.Plan, error) {
	if len(bad) == 0 {
		return plan, nil
	}
	broken := map[fleet.WorkloadID]bool{}
	for _, v := range bad {
		if v.Workload == "" {
			return plan, fmt.Errorf("plan of cluster %s fails its check: %s: %s", plan.Cluster, v.Code, v.Message)
		}
		broken[v.Workload] = true
		w.Log.ErrorContext(ctx, "decision fails its check", "cluster", plan.Cluster, "workload", v.Workload, "code", v.Code, "error", v.Message)
	}
	if w.Unsound != nil {
		w.Unsound.Add(float64(len(broken)))
	}
	plan.Decisions = slices.DeleteFunc(slices.Clone(plan.Decisions), func(d optimizer.Decision) bool { return broken[d.Workload] })
	plan.Memory = maps.Clone(plan.Memory)
	maps.DeleteFunc(plan.Memory, func(id fleet.WorkloadID, _ optimizer.Memory) bool { return broken[id] })
	return plan, nil
}

// save writes the plan if it tells anything new, and tells the doors.
func (w *PlanWorker) save(ctx context.Context, tx *store.Tx, plan optimizer.Plan, in optimizer.Input) error {
	var news []optimizer.Decision
	for _, d := range plan.Decisions {
		if d.Mode != fleet.ModeObserve && optimizer.News(in.Memory[d.Workload], d) {
			news = append(news, d)
		}
	}
	if len(news) == 0 {
		return nil
	}
	id, err := store.SavePlan(ctx, tx, plan, news, in, store.SaveOptions{})
	if err != nil {
		return err
	}
	for _, d := range news {
		w.Log.InfoContext(ctx, "decided", "tenant", tx.Tenant, "cluster", plan.Cluster, "plan", id, "workload", d.Key,
			"outcome", d.Outcome, "from", d.From, "target", d.Target, "binding", d.Binding, "mode", d.Mode)
	}
	return store.Notify(ctx, tx, store.EventPlan, plan.Cluster, string(id))
}
