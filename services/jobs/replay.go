package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// queueReplay is of its own: a replay takes seconds of CPU and delays neither costing nor deciding.
const queueReplay = "replay"

// ReplayArgs asks for a replay that was created.
type ReplayArgs struct {
	Tenant fleet.TenantID `json:"tenant"`
	Replay string         `json:"replay"`
}

// Kind implements river.JobArgs.
func (ReplayArgs) Kind() string { return "replay" }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (ReplayArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueReplay, MaxAttempts: 3}
}

// ReplaySoon asks to run a replay.
func (e *Enqueuer) ReplaySoon(ctx context.Context, tx *store.Tx, id string) error {
	return e.insert(ctx, tx, ReplayArgs{Tenant: tx.Tenant, Replay: id})
}

// ReplayWorker plays a policy on a workload's own history. It reads in one transaction, plays without any, notes its progress in short ones,
// and stores the result in the transaction that completes the job. It may run again at any time: the same history gives the same result.
type ReplayWorker struct {
	river.WorkerDefaults[ReplayArgs]
	DB     *store.DB
	Prices func() *market.PriceBook
	Log    *slog.Logger
}

// Timeout of one replay: four weeks and a dozen policies take about a minute.
func (*ReplayWorker) Timeout(*river.Job[ReplayArgs]) time.Duration { return 10 * time.Minute }

// errUnwanted: the replay was cancelled or is over.
var errUnwanted = errors.New("nobody wants this replay any more")

// Work implements river.Worker.
func (w *ReplayWorker) Work(ctx context.Context, job *river.Job[ReplayArgs]) error {
	report, usable, err := w.play(ctx, job.Args)
	problem := ""
	var told *fleet.Error
	switch {
	case errors.Is(err, errUnwanted):
		return nil
	case store.IsNotFound(err): // the workload was deleted meanwhile
		return river.JobCancel(err)
	case errors.As(err, &told) && (told.Code == fleet.CodeInvalid || told.Code == fleet.CodeTooLarge):
		problem = told.Message
	case err != nil && job.Attempt >= job.MaxAttempts:
		problem = "the replay failed three times by a fault of the service; its log has the cause"
		w.Log.ErrorContext(ctx, "replay failed", "tenant", job.Args.Tenant, "replay", job.Args.Replay, "error", err)
	case err != nil:
		return err
	}
	return w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error {
		if err := store.FinishReplay(ctx, tx, job.Args.Replay, report, usable, problem); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx.PGX(), job)
		return err
	})
}

// replayInput is what a replay is played from.
type replayInput struct {
	row      store.Replay
	workload store.WorkloadRow
	current  string // document in force then; empty: none
	minutes  []store.PastMinute
	start    int
	price    *fleet.Money
}

func (w *ReplayWorker) play(ctx context.Context, args ReplayArgs) (report lab.HistoryReport, usable bool, err error) {
	if err := w.step(ctx, args, 0, "read"); err != nil {
		return report, false, err
	}
	in, err := w.load(ctx, args)
	if err != nil {
		return report, false, err
	}
	run, err := in.prepare()
	if err != nil {
		return report, false, err
	}
	done := 0
	for more := true; more; done++ {
		if err := w.step(ctx, args, 0.1+0.9*float64(done)/float64(run.Steps()), "play"); err != nil {
			return report, false, err
		}
		if more = run.Step(); ctx.Err() != nil {
			return report, false, ctx.Err()
		}
	}
	report = run.Report()
	for _, r := range report.Rows {
		usable = usable || r.Kind == lab.ContenderProposed && r.Problem == ""
	}
	return report, usable, nil
}

// step notes progress and finds out whether anybody still waits.
func (w *ReplayWorker) step(ctx context.Context, args ReplayArgs, progress float64, step string) error {
	return w.DB.Tenant(ctx, args.Tenant, func(tx *store.Tx) error {
		wanted, err := store.StepReplay(ctx, tx, args.Replay, progress, step)
		if err == nil && !wanted {
			err = errUnwanted
		}
		return err
	})
}

func (w *ReplayWorker) load(ctx context.Context, args ReplayArgs) (in replayInput, err error) {
	err = w.DB.Tenant(ctx, args.Tenant, func(tx *store.Tx) error {
		if in.row, err = store.ReplayOf(ctx, tx, args.Replay); err != nil {
			return err
		}
		rows, err := store.Workloads(ctx, tx, store.WorkloadFilter{ID: in.row.Workload, Gone: true, Limit: 1})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fleet.Errorf(fleet.CodeNotFound, "no such workload")
		}
		in.workload = rows[0]
		if in.row.CurrentVersion > 0 {
			versions, err := store.Policies(ctx, tx, in.row.Workload, 1000)
			if err != nil {
				return err
			}
			for _, v := range versions {
				if v.Version == in.row.CurrentVersion {
					in.current = v.Document
				}
			}
		}
		if in.minutes, err = store.ReplayHistory(ctx, tx, in.workload.Cluster, in.workload.ID, in.workload.Key, in.row.From, in.row.To); err != nil {
			return err
		}
		if in.start, err = store.MeasuredStart(ctx, tx, in.workload.Cluster, in.workload.Key, in.row.To); err != nil {
			return err
		}
		in.price, err = w.price(ctx, tx, in.workload)
		return err
	})
	return in, err
}

// price of a replica-hour as the planner reckons now; nil: not known.
func (w *ReplayWorker) price(ctx context.Context, tx *store.Tx, row store.WorkloadRow) (*fleet.Money, error) {
	hosts, err := store.Hosts(ctx, tx, []fleet.WorkloadID{row.ID})
	if err != nil {
		return nil, err
	}
	host, ok := hosts[row.ID]
	if !ok {
		return nil, nil //nolint:nilnil // not known is an answer
	}
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return nil, err
	}
	prices, err := store.PricesAt(ctx, tx, w.Prices(), now, store.Offerings(hosts)...)
	if err != nil {
		return nil, err
	}
	return prices.LiveReplica(row.Cluster, host, row.CPUMilli, row.MemMiB, row.GPUMilli), nil
}

// prepare makes the run of what was loaded.
func (in *replayInput) prepare() (*lab.HistoryReplay, error) {
	proposed, findings := optimizer.ParsePolicy([]byte(in.row.Document))
	if optimizer.HasErrors(findings) {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the proposed policy cannot be used as it is: %s", findings[0].Message)
	}
	batch := in.row.Options.RequestsPerReplica
	if current, findings := optimizer.ParsePolicy([]byte(in.current)); batch == 0 && in.current != "" && !optimizer.HasErrors(findings) {
		batch = batchOf(&current) // what a replica holds is known best by the policy that runs it
	}
	if batch == 0 {
		batch = batchOf(&proposed)
	}
	if batch == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "how many requests a replica serves at once is not known: the policy has no slo rule and no queue rule; tell it with the replay")
	}
	past, bucket, err := in.past(batch)
	if err != nil {
		return nil, err
	}
	h := lab.History{Past: past, Class: in.workload.Class, Price: in.price, From: bucket, Min: max(proposed.Min, 1), Max: max(proposed.Max, 1), Start: in.startSeconds(&proposed)}
	contenders := []lab.Contender{}
	if in.current != "" && in.current != in.row.Document {
		if current, findings := optimizer.ParsePolicy([]byte(in.current)); !optimizer.HasErrors(findings) {
			contenders = append(contenders, lab.Contender{Name: fmt.Sprintf("version %d", in.row.CurrentVersion), Kind: lab.ContenderCurrent, Document: &current})
		}
	}
	contenders = append(contenders, lab.Contender{Name: "proposed", Kind: lab.ContenderProposed, Document: &proposed})
	for _, name := range in.row.Options.Baselines {
		contenders = append(contenders, lab.Contender{Name: name, Kind: lab.ContenderBaseline})
	}
	return lab.NewHistoryReplay(h, batch, contenders)
}

// startSeconds: as asked, as the policy says, as measured, or three minutes.
func (in *replayInput) startSeconds(p *optimizer.Policy) int {
	switch {
	case in.row.Options.StartSeconds > 0:
		return in.row.Options.StartSeconds
	case p.SLO != nil && p.SLO.StartSeconds > 0:
		return p.SLO.StartSeconds
	case in.start > 0:
		return min(in.start, 3600)
	}
	return 180
}

// batchOf is how many requests a replica serves at once, by the policy's own rules; 0: it does not say.
func batchOf(p *optimizer.Policy) float64 {
	switch {
	case p.SLO != nil:
		return p.SLO.RequestsPerReplica
	case p.Queue != nil && p.Queue.IncludeRunning:
		return p.Queue.TargetPerReplica
	}
	return 0
}

// learnedFrom is the part of a history that policies may only learn from: a third, at most two days.
func learnedFrom(span time.Duration) time.Duration {
	return min(span/3, 48*time.Hour).Truncate(time.Hour)
}

// coarse is the bucket of a history that says something every five minutes only.
const coarse = 5 * time.Minute

// past is the history as a load: minutes, or five of them where most minutes say nothing. It begins with the first minute that anybody told of,
// and ends with the window: what is missing at its end is missing.
func (in *replayInput) past(batch float64) (*lab.Past, time.Time, error) {
	return in.pastOf(batch, -1)
}

// pastOf is past with so much of its beginning to learn from; below 0: the usual share.
func (in *replayInput) pastOf(batch float64, learn time.Duration) (*lab.Past, time.Time, error) {
	if len(in.minutes) == 0 {
		return nil, time.Time{}, fleet.Errorf(fleet.CodeInvalid, "nothing was told of this workload from %s to %s", in.row.From.Format(time.RFC3339), in.row.To.Format(time.RFC3339))
	}
	bucket := time.Minute
	if span := in.row.To.Sub(in.minutes[0].At); float64(len(in.minutes)) < 0.8*math.Floor(span.Minutes()) {
		bucket = coarse
	}
	rows := pastRows(in.minutes, bucket)
	if last := in.row.To.Add(-time.Second).Truncate(bucket); last.After(rows[len(rows)-1].At) {
		rows = append(rows, lab.PastRow{At: last})
	}
	span := rows[len(rows)-1].At.Sub(rows[0].At) + bucket
	if learn < 0 {
		learn = learnedFrom(span)
	}
	past, err := lab.FromPast(in.workload.Key, rows, bucket, lab.Batch(batch), learn)
	return past, rows[0].At, err
}

// pastRows folds minutes into buckets.
func pastRows(minutes []store.PastMinute, bucket time.Duration) []lab.PastRow {
	out := []lab.PastRow{}
	var sums [3]float64
	var counts [3]int
	end := func() {
		if len(out) == 0 {
			return
		}
		row := &out[len(out)-1]
		for i, to := range []**float64{&row.RequestRate, &row.Queue, &row.Running} {
			if counts[i] > 0 {
				mean := sums[i] / float64(counts[i])
				*to = &mean
			}
		}
		sums, counts = [3]float64{}, [3]int{}
	}
	for _, m := range minutes {
		at := m.At.Truncate(bucket)
		if len(out) == 0 || !out[len(out)-1].At.Equal(at) {
			end()
			out = append(out, lab.PastRow{At: at})
		}
		for i, v := range []*float64{m.RequestRate, m.Queue, m.Running} {
			if v != nil {
				sums[i], counts[i] = sums[i]+*v, counts[i]+1
			}
		}
	}
	end()
	return out
}
