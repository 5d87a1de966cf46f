package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/replay"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Rhythm of a history that is made at full speed.
const (
	decideEvery    = 30 * time.Second
	inventoryEvery = 30 * time.Minute // times in it are exact; only phases in between are not seen
	coarseTick     = 5 * time.Minute  // of telemetry
	fineTick       = time.Minute      // within the last fineSpan, which is as long as minutes are kept
	fineSpan       = 48 * time.Hour
	frameSpan      = 2 * time.Hour // the block that chunks and roll-ups are made of
	planSpan       = 6 * time.Hour
	observedSpan   = 15 * time.Minute // as far back as a decision looks
	shortest       = 5 * time.Minute  // gaps under this are left to the live agent

	// A cluster of more workloads than these is decided upon less often, and seen in coarse ticks to the end: thousands of series.
	demoFewWorkloads = 50
	decideManyEvery  = 5 * time.Minute
)

// history brings the demo cluster from where its World stands to now: it lets optimizer.Decide run the World, sends what an agent would
// have sent through the agents' door on a stream of its own, and stores the plans.
type history struct {
	cfg      demoConfig
	world    *replay.World
	policies map[string]string

	loop    *replay.Loop
	learned map[fleet.WorkloadID]store.Learned      // as it was kept before
	kept    map[fleet.WorkloadID]optimizer.Decision // newest decision that got a row
	frames  *frameBuilder
}

// batch is what one goroutine hands to the next.
type batch struct {
	at        time.Time
	inventory *agentv1.Inventory
	frame     *agentv1.Frame
	events    []*agentv1.Event
	plans     []replayedPlan
}

// run makes the history up to until and is done when all of it is acknowledged.
func (h *history) run(ctx context.Context, until time.Time) error {
	began, from := h.cfg.now(), h.world.Now()
	push := newPusher(h.cfg.HTTP, h.cfg.ServiceURL, h.cfg.Token, uint64(began.UnixMilli()), 1)
	first, revision := wireInventory(h.world, 0, true)
	if err := push.inventory(ctx, first); err != nil {
		return err
	}
	if err := push.flush(ctx); err != nil {
		return err
	}
	if err := h.cfg.store.Bind(ctx, h.policies); err != nil {
		return err
	}
	if until.Sub(from) < shortest {
		return h.world.AdvanceTo(until)
	}
	in, err := h.cfg.store.Load(ctx)
	if err != nil {
		return err
	}
	h.loop = &replay.Loop{World: h.world, Tenant: h.cfg.Tenant, Cluster: h.cfg.Cluster, Mode: in.Input.Snapshot.Mode, IDs: map[string]fleet.WorkloadID{},
		Policies: in.Input.Policies, Memory: in.Input.Memory, Learners: map[fleet.WorkloadID]*optimizer.Learner{}, ReplicaHour: demoPrices(in)}
	h.learned = in.Learned
	for id, k := range in.Learned {
		if b := in.Input.Policies[id]; b.Policy.SLO != nil {
			h.loop.Learners[id] = optimizer.NewLearner(k.State, k.Began, b.Policy.SLO, classOf(in, id), 0)
		}
	}
	for _, w := range in.Input.Snapshot.Workloads {
		h.loop.IDs[w.Workload.Key] = w.Workload.ID
	}
	h.kept, h.frames = map[fleet.WorkloadID]optimizer.Decision{}, newFrameBuilder()

	reports, plans := make(chan batch, 4), make(chan batch, 4)
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.send(gctx, push, reports) })
	group.Go(func() error { return h.keep(gctx, plans) })
	var observations []*agentv1.Observation
	group.Go(func() (err error) {
		defer close(reports)
		defer close(plans)
		observations, err = h.replay(gctx, revision, until, reports, plans)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	rest, err := h.frames.flush(until.Add(time.Millisecond))
	if err != nil {
		return err
	}
	if err := push.frame(ctx, rest); err != nil {
		return err
	}
	return h.finish(ctx, push, observations, from, until, began)
}

// classOf is the class of a workload of the snapshot.
func classOf(in *store.PlanInput, id fleet.WorkloadID) string {
	for i := range in.Input.Snapshot.Workloads {
		if w := &in.Input.Snapshot.Workloads[i].Workload; w.ID == id {
			return w.Class
		}
	}
	return ""
}

// finish leaves the planner what it needs to go on: its memory, and the observations of the last quarter of an hour, which start it.
func (h *history) finish(ctx context.Context, push *pusher, observations []*agentv1.Observation, from, until, began time.Time) error {
	if err := h.cfg.store.SaveMemory(ctx, h.loop.Memory, store.LearnedNow(h.loop.Learners, h.learned, from, false)); err != nil {
		return err
	}
	for _, o := range observations {
		if err := push.observation(ctx, o); err != nil {
			return err
		}
	}
	if err := push.flush(ctx); err != nil {
		return err
	}
	h.cfg.Log.Info("demo history is there", "days", fmt.Sprintf("%.2f", until.Sub(from).Hours()/24), "reports", push.sent,
		"seconds", fmt.Sprintf("%.1f", h.cfg.now().Sub(began).Seconds()))
	return nil
}

// send pushes reports in order.
func (h *history) send(ctx context.Context, push *pusher, reports <-chan batch) error {
	for b := range reports {
		if b.inventory != nil {
			if err := push.inventory(ctx, b.inventory); err != nil {
				return err
			}
		}
		if err := push.events(ctx, b.at, b.events); err != nil {
			return err
		}
		if err := push.frame(ctx, b.frame); err != nil {
			return err
		}
	}
	return push.flush(ctx)
}

// keep stores plans in order.
func (h *history) keep(ctx context.Context, plans <-chan batch) error {
	for b := range plans {
		if err := h.cfg.store.SaveHistory(ctx, b.plans); err != nil {
			return err
		}
	}
	return nil
}

// replay moves the World and gathers what is to be sent and stored. It returns the observations of the last quarter of an hour.
func (h *history) replay(ctx context.Context, revision int64, until time.Time, reports, plans chan<- batch) ([]*agentv1.Observation, error) {
	var observations []*agentv1.Observation
	var made []replayedPlan
	_, cursor := h.world.Events(0)
	start := h.world.Now()
	for at := start; at.Before(until); {
		at = nextTick(at, until)
		if err := h.world.AdvanceTo(at); err != nil {
			return nil, err
		}
		if due(at, h.decideEvery()) {
			plan, err := h.decide()
			if err != nil {
				return nil, err
			}
			if len(plan.news) > 0 {
				made = append(made, plan)
			}
		}
		if until.Sub(at) < observedSpan {
			observations = append(observations, wireObservation(h.world.States(2*replay.SampleMillis*time.Millisecond), at, 1))
		}
		last := !at.Before(until)
		b := batch{at: at}
		if due(at, frameSpan) { // the tick on the border belongs to the next block
			var err error
			if b.frame, err = h.frames.flush(at); err != nil {
				return nil, err
			}
		}
		if last || h.telemetryDue(at, until) {
			h.frames.add(at, h.world.Series())
		}
		if last || due(at, inventoryEvery) {
			b.inventory, revision = wireInventory(h.world, revision, false)
			var events []replay.Event
			events, cursor = h.world.Events(cursor)
			for _, e := range events {
				b.events = append(b.events, wireEvent(e))
			}
			if err := hand(ctx, reports, b); err != nil {
				return nil, err
			}
		}
		if len(made) > 0 && (last || h.many() || due(at, planSpan)) {
			if err := hand(ctx, plans, batch{plans: made}); err != nil {
				return nil, err
			}
			made = nil
			if h.cfg.Progress != nil {
				h.cfg.Progress(float64(at.Sub(start)) / float64(until.Sub(start)))
			}
		}
	}
	return observations, nil
}

// many says whether the cluster is a large one.
func (h *history) many() bool { return h.cfg.Workloads > demoFewWorkloads }

func (h *history) decideEvery() time.Duration {
	if h.many() {
		return decideManyEvery
	}
	return decideEvery
}

// nextTick is the next moment to look at: every decision, and every sample while observations are wanted.
func nextTick(at, until time.Time) time.Time {
	step := decideEvery
	if until.Sub(at) <= observedSpan+decideEvery {
		step = replay.SampleMillis * time.Millisecond
	}
	next := at.Truncate(step).Add(step)
	if next.After(until) {
		return until
	}
	return next
}

func due(at time.Time, every time.Duration) bool { return at.UnixMilli()%every.Milliseconds() == 0 }

func (h *history) telemetryDue(at, until time.Time) bool {
	if until.Sub(at) <= fineSpan && !h.many() {
		return due(at, fineTick)
	}
	return due(at, coarseTick)
}

func hand(ctx context.Context, to chan<- batch, b batch) error {
	select {
	case to <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decide makes one plan and keeps of its news what a person would want to read weeks later.
func (h *history) decide() (replayedPlan, error) {
	made, err := h.loop.Decide()
	if err != nil {
		return replayedPlan{}, err
	}
	out := replayedPlan{input: made.Input, plan: made.Plan}
	for _, d := range made.News {
		if d.Mode != fleet.ModeObserve && worthKeeping(h.kept[d.Workload], d) {
			out.news = append(out.news, d)
			h.kept[d.Workload] = d
		}
	}
	return out, nil
}

// worthKeeping leaves out of the history what only says "nothing to do" in other words, and proposals that repeat an open one.
func worthKeeping(last, d optimizer.Decision) bool {
	if d.Outcome != optimizer.OutcomeHold {
		open := last.Outcome == d.Outcome && last.Target == d.Target && last.From == d.From && last.ExpiresAt.After(d.At)
		return d.Mode == fleet.ModeEnforce || !open
	}
	switch d.Binding {
	case optimizer.ReasonSteady, optimizer.ReasonWithinTolerance, optimizer.ReasonStabilisation:
		return false
	}
	return last.Outcome != d.Outcome || last.Binding != d.Binding || last.Target != d.Target
}
