package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// What one night may take: so many workloads of a tenant, one after the other on the queue of replays, each for so long at most.
const (
	tuneEvery     = time.Hour // the sweep; a workload comes once a day
	tuneAgain     = 20 * time.Hour
	tuneAtOnce    = 10 // of a tenant per sweep
	tuneTimeout   = 5 * time.Minute
	tuneBudget    = 3 * time.Minute // of playing; then it says that it took too long
	tuneLearned   = 48 * time.Hour  // policies only learn
	tuneChosen    = 7 * 24 * time.Hour
	tuneHeldOut   = 48 * time.Hour
	tuneLeast     = 9 * 24 * time.Hour // of history: two days to learn, five to choose by, two held out
	tuneHalf      = 0.5                // of the objective: what a tuned setting may leave late on the days it was chosen by
	tuneActor     = "nightly tuning"
	tuneShadow    = 3600 // seconds of a rollout that begins by itself
	tuneCanary    = 3600
	tuneCanaryCut = 0.25
)

// tuneGrid is the settings of aim_share from careful to thrifty. One night moves by one notch at most.
var tuneGrid = []float64{0.3, 0.45, 0.6, 0.75, 0.9}

// Why a tuning says what it says.
const (
	tuneShort        = "too_little_history"
	tuneUnusable     = "history_unusable"
	tuneIdle         = "nothing_was_served"
	tuneKept         = "cheapest_on_time"
	tuneCheaper      = "cheaper_on_time"
	tuneCareful      = "none_on_time"
	tuneUnconfirmed  = "not_confirmed" // on the held-out days
	tuneNotWritten   = "document"      // the policy cannot be changed by itself
	tuneMostCareful  = "most_careful"  // none is on time, and there is nothing more careful
	tuneReplaysTaken = "replays_busy"
	tuneSlow         = "too_slow" // the grid could not be played within its time
)

// TuneSweepArgs asks for the tunings that are due.
type TuneSweepArgs struct{}

// Kind implements river.JobArgs.
func (TuneSweepArgs) Kind() string { return "tune_sweep" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (TuneSweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// TuneSweep enqueues Tune for workloads whose policy has an slo rule and that were not tuned for a day.
type TuneSweep struct {
	river.WorkerDefaults[TuneSweepArgs]
	DB *store.DB
}

// Work implements river.Worker. One tenant's trouble does not keep the others from being tuned.
func (w *TuneSweep) Work(ctx context.Context, _ *river.Job[TuneSweepArgs]) error {
	return enqueueDue(ctx, w.DB, func(ctx context.Context, tx *store.Tx) ([]fleet.WorkloadID, error) {
		return store.TuneDue(ctx, tx, tuneAgain, tuneAtOnce)
	}, func(t fleet.TenantID, id fleet.WorkloadID) river.JobArgs {
		return TuneArgs{Tenant: t, Workload: id}
	})
}

// TuneArgs asks for the tuning of one workload.
type TuneArgs struct {
	Tenant   fleet.TenantID   `json:"tenant" river:"unique"`
	Workload fleet.WorkloadID `json:"workload" river:"unique"`
}

// Kind implements river.JobArgs.
func (TuneArgs) Kind() string { return "tune" }

// InsertOpts implements river.JobArgsWithInsertOpts: one per workload waits or runs at a time, behind the replays that somebody waits for.
func (TuneArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueReplay, Priority: 4, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 2}
}

// Tune replays a workload's own history under a small grid of its slo rule: it chooses on a week, checks on two days that had no part in the choice, and keeps what it
// found. A proposal counts as a replay of the proposed policy, and is rolled out by itself only where the policy says so.
type Tune struct {
	river.WorkerDefaults[TuneArgs]
	DB     *store.DB
	Prices func() *market.PriceBook
	Log    *slog.Logger
}

// Timeout of one workload.
func (*Tune) Timeout(*river.Job[TuneArgs]) time.Duration { return tuneTimeout }

// Work implements river.Worker. It reads in one transaction, plays without any, and keeps what it found in the one that completes the job.
func (w *Tune) Work(ctx context.Context, job *river.Job[TuneArgs]) error {
	started := time.Now()
	in, err := w.load(ctx, job.Args)
	if store.IsNotFound(err) {
		return river.JobCancel(err)
	}
	if err != nil || in == nil {
		return err
	}
	found, report := in.tune(func() bool { return ctx.Err() != nil || time.Since(started) > tuneBudget })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	found.Took = time.Since(started)
	return w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error {
		if err := w.keep(ctx, tx, in, &found, report); err != nil {
			return err
		}
		w.Log.InfoContext(ctx, "tuned", "tenant", tx.Tenant, "workload", found.Workload, "state", found.State, "reason", found.Reason, "took", found.Took)
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx.PGX(), job)
		return err
	})
}

// load reads what is played. nil: nothing is to be tuned, and nothing said about it.
func (w *Tune) load(ctx context.Context, args TuneArgs) (in *tuneInput, err error) {
	err = w.DB.Tenant(ctx, args.Tenant, func(tx *store.Tx) error {
		rows, err := store.Workloads(ctx, tx, store.WorkloadFilter{ID: args.Workload, Limit: 1})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fleet.Errorf(fleet.CodeNotFound, "no such workload")
		}
		row := rows[0]
		policy, findings := optimizer.ParsePolicy([]byte(row.PolicyDoc))
		if row.PolicyVersion == 0 || row.DataAt == nil || optimizer.HasErrors(findings) || policy.SLO == nil || policy.SLO.Tuning == optimizer.TuningOff {
			return nil
		}
		to := row.DataAt.UTC().Truncate(time.Minute)
		i := &tuneInput{row: row, policy: policy, to: to}
		if i.minutes, err = store.ReplayHistory(ctx, tx, row.Cluster, row.ID, row.Key, to.Add(-tuneLearned-tuneChosen-tuneHeldOut), to); err != nil {
			return err
		}
		if i.start, err = store.MeasuredStart(ctx, tx, row.Cluster, row.Key, to); err != nil {
			return err
		}
		if i.price, err = (&ReplayWorker{DB: w.DB, Prices: w.Prices, Log: w.Log}).price(ctx, tx, row); err != nil {
			return err
		}
		in = i
		return nil
	})
	return in, err
}

// keep writes down what was found. A proposal is a finished replay of its policy too, so that it can be rolled out without another.
func (w *Tune) keep(ctx context.Context, tx *store.Tx, in *tuneInput, found *store.Tuning, report *lab.HistoryReport) error {
	if found.State == store.TuningProposed {
		replay, err := store.CreateReplay(ctx, tx, store.Replay{Workload: in.row.ID, Cluster: in.row.Cluster, Document: found.Document, CurrentVersion: in.row.PolicyVersion,
			From: found.Result.Chosen.From.Add(-tuneLearned), To: found.Result.Held.To, Options: store.ReplayOptions{Baselines: []string{}}, CreatedBy: tuneActor})
		var coded *fleet.Error
		switch {
		case errors.As(err, &coded) && coded.Code == fleet.CodeRateLimited:
			found.State, found.Reason = store.TuningRefused, tuneReplaysTaken // tomorrow is another night
		case err != nil:
			return err
		default:
			if err := store.FinishReplay(ctx, tx, replay, report, true, ""); err != nil {
				return err
			}
			found.ReplayID = &replay
			if err := w.apply(ctx, tx, in, found, replay); err != nil {
				return err
			}
		}
	}
	_, err := store.SaveTuning(ctx, tx, *found)
	return err
}

// apply begins a rollout where the policy says that tuning may. One that is under way already is left alone: the proposal stands.
func (*Tune) apply(ctx context.Context, tx *store.Tx, in *tuneInput, found *store.Tuning, replay string) error {
	if in.policy.SLO.Tuning != optimizer.TuningApply || in.policy.Mode != fleet.ModeEnforce {
		return nil
	}
	now, err := store.Policies(ctx, tx, in.row.ID, 1)
	if err != nil || len(now) == 0 || now[0].Version != in.row.PolicyVersion {
		return err // changed meanwhile
	}
	open, err := store.Rollouts(ctx, tx, in.row.ID, 1)
	if err != nil || len(open) > 0 && open[0].Open() {
		return err
	}
	id, err := store.CreateRollout(ctx, tx, store.Rollout{Workload: in.row.ID, Cluster: in.row.Cluster, Document: found.Document, BaseVersion: in.row.PolicyVersion, ShadowSeconds: tuneShadow,
		CanarySeconds: tuneCanary, CanaryShare: tuneCanaryCut, ReplayID: &replay, CreatedBy: tuneActor, StageAt: in.to})
	if err != nil {
		return err
	}
	found.RolloutID = &id
	return store.Audit(ctx, tx, tuneActor, "rollout.shadow", "workload:"+string(in.row.ID), map[string]string{"rollout": id, "replay": replay})
}

// errTuneSlow ends a tuning that takes too long.
var errTuneSlow = errors.New("the grid takes too long to play")

// tuneInput is what a tuning is made from.
type tuneInput struct {
	row     store.WorkloadRow
	policy  optimizer.Policy
	minutes []store.PastMinute
	start   int
	price   *fleet.Money
	to      time.Time
}

// tune plays the grid. stop is asked between two settings.
func (in *tuneInput) tune(stop func() bool) (store.Tuning, *lab.HistoryReport) {
	s := in.policy.SLO
	t := store.Tuning{Workload: in.row.ID, At: in.to, PolicyVersion: in.row.PolicyVersion, State: store.TuningRefused,
		Result: store.TuneResult{Need: tuneLeast.Hours() / 24, Objective: s.Objective(in.row.Class), Current: s.Aims(), Tried: []store.TuneTried{}}}
	r := &t.Result
	r.Limit = tuneHalf * r.Objective
	refuse := func(reason string) store.Tuning { t.Reason = reason; return t }
	unusable := func(err error) (store.Tuning, *lab.HistoryReport) {
		t.Document = ""
		if errors.Is(err, errTuneSlow) {
			return refuse(tuneSlow), nil
		}
		r.Words = err.Error()
		return refuse(tuneUnusable), nil
	}
	if len(in.minutes) == 0 {
		return refuse(tuneShort), nil
	}
	span := in.to.Sub(in.minutes[0].At)
	r.Days = math.Round(span.Hours()/2.4) / 10
	if span < tuneLeast {
		return refuse(tuneShort), nil
	}
	cut := in.to.Add(-tuneHeldOut)
	chosen, err := in.play(in.minutes[0].At, cut, tuneLearned, in.settings(), stop)
	if err != nil {
		return unusable(err)
	}
	r.Chosen, r.Tried = &store.TuneSpan{From: chosen.JudgedFrom, To: chosen.JudgedTo}, in.tried(chosen, in.settings(), r.Limit)
	if len(r.Tried) < len(in.settings()) {
		return refuse(tuneIdle), nil
	}
	next, reason := nextAim(r.Tried, r.Current)
	t.Reason = reason
	if next == r.Current {
		if t.State = store.TuningKept; reason != tuneKept {
			t.State = store.TuningRefused
		}
		return t, nil
	}
	if t.Document, err = optimizer.AimDocument(in.row.PolicyDoc, next); err != nil {
		return refuse(tuneNotWritten), nil
	}
	r.Proposed = next
	held, err := in.play(in.minutes[0].At, in.to, cut.Sub(in.minutes[0].At), []float64{r.Current, next}, stop)
	if err != nil {
		return unusable(err)
	}
	r.Held, r.Out = &store.TuneSpan{From: held.JudgedFrom, To: held.JudgedTo}, in.tried(held, []float64{r.Current, next}, r.Objective)
	if len(r.Out) < 2 || !confirmed(r.Out[0], r.Out[1], reason) {
		t.Document = ""
		return refuse(tuneUnconfirmed), nil
	}
	t.State = store.TuningProposed
	return t, held
}

// settings are the grid and the one in force.
func (in *tuneInput) settings() []float64 {
	out := slices.Clone(tuneGrid)
	if at := in.policy.SLO.Aims(); !slices.Contains(out, at) {
		out = append(out, at)
		slices.Sort(out)
	}
	return out
}

// play replays settings over a span, of which the beginning is only learned from.
func (in *tuneInput) play(from, to time.Time, learn time.Duration, aims []float64, stop func() bool) (*lab.HistoryReport, error) {
	part := replayInput{workload: in.row, start: in.start, price: in.price}
	part.row.From, part.row.To = from, to
	for _, m := range in.minutes {
		if m.At.Before(to) {
			part.minutes = append(part.minutes, m)
		}
	}
	past, bucket, err := part.pastOf(in.policy.SLO.RequestsPerReplica, learn)
	if err != nil {
		return nil, err
	}
	h := lab.History{Past: past, Class: in.row.Class, Price: in.price, From: bucket, Min: 1, Max: 0, Start: part.startSeconds(&in.policy)} // no bound is asked for
	var list []lab.Contender
	for i, aim := range aims {
		doc, slo := in.policy, *in.policy.SLO
		slo.AimShare = aim
		doc.SLO = &slo
		kind := lab.ContenderProposed
		if i == 0 && len(aims) == 2 {
			kind = lab.ContenderCurrent
		}
		list = append(list, lab.Contender{Name: fmt.Sprintf("aim_share %g", aim), Kind: kind, Document: &doc})
	}
	run, err := lab.NewHistoryReplay(h, in.policy.SLO.RequestsPerReplica, list)
	if err != nil {
		return nil, err
	}
	for run.Step() {
		if stop() {
			return nil, errTuneSlow
		}
	}
	report := run.Report()
	return &report, nil
}

// tried reads the rows of a report; those that could not be played, and those of a time in which nothing was served, are left out.
func (in *tuneInput) tried(report *lab.HistoryReport, aims []float64, limit float64) []store.TuneTried {
	out := []store.TuneTried{}
	for i, row := range report.Rows {
		if row.Problem != "" || report.Mean <= 0 {
			continue
		}
		out = append(out, store.TuneTried{Aim: aims[i], Paid: row.Paid, Cost: row.Cost, Late: row.Late, Timeouts: row.Timeouts, OnTime: row.Late <= limit})
	}
	return out
}

// nextAim is one notch from the current setting towards the cheapest that is on time, or towards careful when none is.
func nextAim(tried []store.TuneTried, current float64) (float64, string) {
	at := slices.IndexFunc(tried, func(t store.TuneTried) bool { return t.Aim == current })
	best := -1
	for i, t := range tried {
		if t.OnTime && (best < 0 || t.Paid < tried[best].Paid) {
			best = i
		}
	}
	switch {
	case best < 0 && at == 0:
		return current, tuneMostCareful
	case best < 0:
		return tried[at-1].Aim, tuneCareful
	case best == at:
		return current, tuneKept
	case best < at && tried[at].OnTime: // as cheap as can be, and on time by less: a rounding, not a reason to move
		if tried[at].Paid <= tried[best].Paid {
			return current, tuneKept
		}
		return tried[at-1].Aim, tuneCheaper
	case best < at:
		return tried[at-1].Aim, tuneCareful
	}
	return tried[at+1].Aim, tuneCheaper
}

// confirmed tells whether days that had no part in the choice say the same: thrift must be cheaper and within the objective, care must not be later.
func confirmed(current, next store.TuneTried, reason string) bool {
	if reason == tuneCheaper {
		return next.OnTime && next.Paid < current.Paid
	}
	return next.Late <= current.Late
}
