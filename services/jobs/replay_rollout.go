package jobs

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// What ends a rollout: late requests of more than twice those before and one per cent, failed ones of more than twice and half a per cent; where
// nobody told how it was before, five and two per cent.
const (
	worseTimes      = 2
	worseLate       = 0.01
	worseError      = 0.005
	unknownLate     = 0.05
	unknownError    = 0.02
	leastWatched    = 5 // minutes
	rolloutPatience = 3 // times the stage, after which a rollout of which nobody tells anything is taken back
	rolloutActor    = "rollout"
	outcomeLate     = "late_ratio"
	outcomeError    = "error_ratio"
	outcomeNoSignal = "nothing_told"
	outcomeChanged  = "policy_changed"
)

// rollouts moves the rollouts of the cluster's workloads on by the snapshot's time: it decides in the shadow, bounds canaries, watches, and takes
// back. What it returns is the input to decide by. It runs in the plan's transaction: a rollout is where its decisions are.
func (w *PlanWorker) rollouts(ctx context.Context, tx *store.Tx, in optimizer.Input) (optimizer.Input, error) {
	open, err := store.OpenRollouts(ctx, tx, in.Snapshot.Cluster)
	if err != nil || len(open) == 0 {
		return in, err
	}
	in.Policies = maps.Clone(in.Policies)
	for i := range open {
		r := &open[i]
		if err := w.rollout(ctx, tx, &in, r); err != nil {
			return in, fmt.Errorf("rollout %s: %w", r.ID, err)
		}
	}
	return in, nil
}

func (w *PlanWorker) rollout(ctx context.Context, tx *store.Tx, in *optimizer.Input, r *store.Rollout) error {
	expected := r.BaseVersion
	if r.Version != nil {
		expected = *r.Version
	}
	now, b := in.Snapshot.Now, in.Policies[r.Workload]
	if b.Version != expected {
		if b.Version == 0 {
			return nil // not to be decided upon now: it stays where it is
		}
		return store.EndRollout(ctx, tx, r, rolloutActor, store.RolloutSuperseded, outcomeChanged)
	}
	switch r.State {
	case store.RolloutShadow:
		if err := shadow(in, r); err != nil {
			return err
		}
		if now.Sub(r.StageAt) >= time.Duration(r.ShadowSeconds)*time.Second {
			return canary(ctx, tx, in, r)
		}
		return store.SaveRollout(ctx, tx, r)
	case store.RolloutCanary:
		if r.CanaryFloor != nil {
			b.Policy.Min = max(b.Policy.Min, min(*r.CanaryFloor, b.Policy.Max))
			in.Policies[r.Workload] = b
		}
	}
	return watch(ctx, tx, r, now)
}

// shadow lets the proposed policy decide on what the one in force decides on, and counts how they differ. Nothing acts on it.
func shadow(in *optimizer.Input, r *store.Rollout) error {
	policy, findings := optimizer.ParsePolicy([]byte(r.Document))
	if optimizer.HasErrors(findings) {
		return fleet.Errorf(fleet.CodeInternal, "its document cannot be used: %s", findings[0].Message)
	}
	one := *in
	one.Snapshot.Workloads = nil
	for _, s := range in.Snapshot.Workloads {
		if s.Workload.ID == r.Workload {
			one.Snapshot.Workloads = []fleet.WorkloadState{s}
		}
	}
	if len(one.Snapshot.Workloads) == 0 {
		return nil
	}
	force, err := decideOne(one, r.Workload, in.Policies[r.Workload], in.Memory[r.Workload])
	if err != nil {
		return err
	}
	var memory optimizer.Memory
	if r.Memory != nil {
		memory = *r.Memory
	}
	if !sameLearning(policy.SLO, in.Policies[r.Workload].Policy.SLO) {
		one.Forecasts = nil // what was learned for another rule says nothing here
	}
	got, err := decideOne(one, r.Workload, optimizer.Binding{Version: r.BaseVersion, Policy: policy}, memory)
	if err != nil {
		return err
	}
	kept := got.Memory[r.Workload]
	r.Memory = &kept
	tally(&r.Shadow, &got.Decisions[0], &force.Decisions[0], policy.SLO != nil && one.Forecasts == nil)
	return nil
}

func decideOne(in optimizer.Input, id fleet.WorkloadID, b optimizer.Binding, m optimizer.Memory) (optimizer.Plan, error) {
	in.Policies = map[fleet.WorkloadID]optimizer.Binding{id: b}
	in.Memory = map[fleet.WorkloadID]optimizer.Memory{id: m}
	return optimizer.Decide(in)
}

// sameLearning says that a forecast learned for one rule holds for the other.
func sameLearning(a, b *optimizer.SLO) bool {
	return a != nil && b != nil && *a == *b
}

func tally(c *store.ShadowCount, got, force *optimizer.Decision, blind bool) {
	c.Decisions++
	switch {
	case got.Target > force.Target:
		c.More++
	case got.Target < force.Target:
		c.Fewer++
	default:
		c.Same++
	}
	if blind {
		c.Blind++
	}
	c.Ratio += (float64(got.Target)/math.Max(float64(force.Target), 1) - c.Ratio) / float64(c.Decisions)
	c.LastTarget, c.LastForce, c.LastReason = got.Target, force.Target, string(got.Binding)
}

// canary saves the proposed policy as the newest version. It may take away only a share of what there is.
func canary(ctx context.Context, tx *store.Tx, in *optimizer.Input, r *store.Rollout) error {
	now := in.Snapshot.Now
	var err error
	if r.BeforeLate, r.BeforeError, _, err = store.WatchedRatios(ctx, tx, r.Workload, now.Add(-time.Duration(r.CanarySeconds)*time.Second), now); err != nil {
		return err
	}
	for _, s := range in.Snapshot.Workloads {
		if s.Workload.ID == r.Workload {
			floor := int(math.Ceil(float64(s.Replicas) * (1 - float64(r.CanaryShare))))
			r.CanaryFloor = &floor
		}
	}
	saved, err := store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: r.Workload, Document: r.Document, Mode: fleet.ModeEnforce, CreatedBy: rolloutActor}, r.BaseVersion)
	if err != nil {
		return err
	}
	r.Version, r.State, r.StageAt = &saved.Version, store.RolloutCanary, now
	return moved(ctx, tx, r)
}

func moved(ctx context.Context, tx *store.Tx, r *store.Rollout) error {
	if err := store.SaveRollout(ctx, tx, r); err != nil {
		return err
	}
	detail := map[string]string{"rollout": r.ID}
	if r.Version != nil {
		detail["version"] = strconv.Itoa(*r.Version)
	}
	return store.Audit(ctx, tx, rolloutActor, "rollout."+r.State, "workload:"+string(r.Workload), detail)
}

// watch takes a rollout back when requests got late or failed, and moves it on when its stage is over and all is well. Unknown is neither.
func watch(ctx context.Context, tx *store.Tx, r *store.Rollout, now time.Time) error {
	late, failed, minutes, err := store.WatchedRatios(ctx, tx, r.Workload, r.StageAt, now)
	if err != nil {
		return err
	}
	r.AfterLate, r.AfterError = late, failed
	switch worse, stage := regressed(r, minutes), time.Duration(r.CanarySeconds)*time.Second; {
	case worse != "":
		return store.EndRollout(ctx, tx, r, rolloutActor, store.RolledBack, worse)
	case now.Sub(r.StageAt) < stage:
		return store.SaveRollout(ctx, tx, r)
	case minutes < leastWatched && now.Sub(r.StageAt) >= rolloutPatience*stage:
		return store.EndRollout(ctx, tx, r, rolloutActor, store.RolledBack, outcomeNoSignal)
	case minutes < leastWatched:
		return store.SaveRollout(ctx, tx, r)
	case r.State == store.RolloutCanary:
		r.State, r.StageAt = store.RolloutEnforce, now
		return moved(ctx, tx, r)
	}
	return store.EndRollout(ctx, tx, r, rolloutActor, store.RolloutDone, "")
}

// regressed says which ratio got worse; empty: none that is known.
func regressed(r *store.Rollout, minutes int) string {
	if minutes < leastWatched {
		return ""
	}
	over := func(after, before *float32, more, unknown float32) bool {
		switch {
		case after == nil:
			return false
		case before == nil:
			return *after > unknown
		}
		return *after > worseTimes**before+more
	}
	switch {
	case over(r.AfterLate, r.BeforeLate, worseLate, unknownLate):
		return outcomeLate
	case over(r.AfterError, r.BeforeError, worseError, unknownError):
		return outcomeError
	}
	return ""
}
