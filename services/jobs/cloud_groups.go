package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

const (
	groupsEvery = 30 * time.Second
	// groupPlanAge is how old a plan may be by our clock and still be carried out.
	groupPlanAge = 2 * time.Minute
	// groupGiveUp is how long a cloud may say that it has none before the action ends and the next plan looks elsewhere.
	groupGiveUp = 3 * time.Minute
	// groupJoin is how long machines that run may take to become nodes.
	groupJoin = 15 * time.Minute
	// groupLost is how long an action may go on at all.
	groupLost = time.Hour
	// groupDeadline of one cluster's groups.
	groupDeadline = 5 * time.Minute
)

// GroupOpener makes the Groups of an account's access; no call is made before its first method.
type GroupOpener func(ctx context.Context, access cloud.Access) (cloud.Groups, error)

// CloudGroupsSweepArgs asks for a look at every cluster whose groups may be changed.
type CloudGroupsSweepArgs struct{}

// Kind implements river.JobArgs.
func (CloudGroupsSweepArgs) Kind() string { return "cloud_groups_sweep" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (CloudGroupsSweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// CloudGroupsSweep enqueues CloudGroups per cluster.
type CloudGroupsSweep struct {
	river.WorkerDefaults[CloudGroupsSweepArgs]
	DB *store.DB
}

// Work implements river.Worker.
func (w *CloudGroupsSweep) Work(ctx context.Context, _ *river.Job[CloudGroupsSweepArgs]) error {
	return enqueueDue(ctx, w.DB, store.ClustersWithGroups, func(t fleet.TenantID, id fleet.ClusterID) river.JobArgs {
		return CloudGroupsArgs{Tenant: t, Cluster: id}
	})
}

// CloudGroupsArgs asks to carry out the newest capacity plan of a cluster through its groups.
type CloudGroupsArgs struct {
	Tenant  fleet.TenantID  `json:"tenant" river:"unique"`
	Cluster fleet.ClusterID `json:"cluster" river:"unique"`
}

// Kind implements river.JobArgs.
func (CloudGroupsArgs) Kind() string { return "cloud_groups" }

// InsertOpts implements river.JobArgsWithInsertOpts: one per cluster waits or runs at a time; the next sweep asks again.
func (CloudGroupsArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueDeliver, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// CloudGroups makes groups larger as the capacity plan says, and smaller by ending machines by name that were drained before: a lower size would let the cloud
// pick a busy one. An action is written down before the cloud is asked, and is asked for again, with the same token, size and machines, until the cloud has
// answered. Where something of the cloud itself changes a group, it yields, unless it was told to own the group.
type CloudGroups struct {
	river.WorkerDefaults[CloudGroupsArgs]
	DB      *store.DB
	Secrets Opener
	Open    GroupOpener // nil: this process changes no groups
	Log     *slog.Logger
}

// Timeout of one job.
func (*CloudGroups) Timeout(*river.Job[CloudGroupsArgs]) time.Duration {
	return groupDeadline + time.Minute
}

// Work implements river.Worker.
func (w *CloudGroups) Work(ctx context.Context, job *river.Job[CloudGroupsArgs]) error {
	return w.Cluster(ctx, job.Args.Tenant, job.Args.Cluster)
}

// Cluster looks after one cluster's groups now.
func (w *CloudGroups) Cluster(ctx context.Context, tenant fleet.TenantID, cluster fleet.ClusterID) error {
	if w.Open == nil || w.Secrets == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, groupDeadline)
	defer cancel()
	var work store.GroupWork
	if err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		work, err = store.LoadGroupWork(ctx, tx, cluster)
		return err
	}); err != nil {
		return fmt.Errorf("load groups: %w", err)
	}
	var failed error
	busy := map[string]bool{}
	for _, a := range work.Open {
		busy[a.Group] = true
		if i := slices.IndexFunc(work.Groups, func(g store.CloudGroup) bool { return g.ID == a.Group }); i >= 0 {
			failed = errors.Join(failed, w.follow(ctx, tenant, &work.Groups[i], a, mayAct(&work)))
		}
	}
	for i := range work.Groups {
		failed = errors.Join(failed, w.look(ctx, tenant, &work, &work.Groups[i]), w.see(ctx, tenant, &work, &work.Groups[i]))
	}
	steps := groupSteps(&work, busy)
	for _, s := range steps {
		failed = errors.Join(failed, w.start(ctx, tenant, s, work.Head.ID))
	}
	return errors.Join(failed, w.shrink(ctx, tenant, &work, busy, len(steps) > 0))
}

// mayAct tells whether anything may be asked of a cloud for the cluster at all.
func mayAct(work *store.GroupWork) bool { return work.Mode == fleet.ModeEnforce && !work.Frozen }

// groupStep is a group with the number of machines that the plan wants more of it.
type groupStep struct {
	group store.CloudGroup
	more  int
}

// groupSteps are the groups to make larger: what the plan adds, given to the groups that bring it, within each group's step and hourly limit. While any
// action is open, or ended after the plan was made, nothing is added: the plan has not seen its machines yet.
func groupSteps(work *store.GroupWork, busy map[string]bool) []groupStep {
	p := work.Plan
	if p == nil || len(busy) > 0 || !mayAct(work) || p.Outcome != capacity.OutcomeChange || work.Now.Sub(work.Head.CheckedAt) > groupPlanAge || work.Last != nil && !work.Head.CheckedAt.After(*work.Last) {
		return nil
	}
	want := map[string]int{}
	for _, add := range p.Add {
		for i := range work.Groups {
			if g := &work.Groups[i]; g.Enabled && !g.Contended() && g.Brings(add.Offering) {
				want[g.ID] += add.Count
				break
			}
		}
	}
	var out []groupStep
	for _, g := range work.Groups {
		if n := min(want[g.ID], g.Step, g.Hourly-work.Hourly[g.ID]); n > 0 {
			out = append(out, groupStep{g, n})
		}
	}
	return out
}

func (w *CloudGroups) groups(ctx context.Context, tenant fleet.TenantID, account string) (cloud.Groups, error) {
	var sealed []byte
	if err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		_, sealed, err = store.LoadCloudAccount(ctx, tx, account)
		return err
	}); err != nil {
		return nil, err
	}
	access, err := cloud.OpenAccess(w.Secrets.Open, tenant, account, sealed)
	if err != nil {
		return nil, err
	}
	return w.Open(ctx, access)
}

// start reads a group, writes down the size to ask for, and asks.
func (w *CloudGroups) start(ctx context.Context, tenant fleet.TenantID, s groupStep, plan string) error {
	api, err := w.groups(ctx, tenant, s.group.Account)
	if err != nil {
		return err
	}
	if free, err := w.free(ctx, tenant, api, &s.group, false); err != nil || !free {
		return err
	}
	now, err := api.Describe(ctx, s.group.Ref)
	if err != nil {
		return fmt.Errorf("read group %s: %w", s.group.Ref, err)
	}
	top := s.group.Max
	if now.Max >= 0 {
		top = min(top, now.Max)
	}
	desired := min(now.Desired+s.more, top)
	if now.Weighted || desired <= now.Desired || now.Coming > 0 || now.Ready < now.Desired { // a size in weights is no number of machines; one on its way was asked for by somebody
		return nil
	}
	a := store.GroupAction{ID: uuid.Must(uuid.NewV7()).String(), Group: s.group.ID, Cluster: s.group.Cluster, Plan: &plan, Before: now.Desired, ReadyBefore: now.Ready, Desired: desired, Version: now.Version}
	made := false
	if err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		made, err = store.OpenGroupAction(ctx, tx, a)
		return err
	}); err != nil || !made {
		return err
	}
	return w.ask(ctx, tenant, api, &s.group, a)
}

// ask asks the cloud for an action's size and writes down the answer. When there is none the action stays open as asked.
func (w *CloudGroups) ask(ctx context.Context, tenant fleet.TenantID, api cloud.Groups, g *store.CloudGroup, a store.GroupAction) error {
	if a.Undoes != nil && a.Version == "" { // only what we did is undone
		now, err := api.Describe(ctx, g.Ref)
		if err != nil {
			return fmt.Errorf("read group %s: %w", g.Ref, err)
		}
		if now.Desired != a.Before && now.Desired != a.Desired && now.Desired != a.ReadyBefore { // the last: what did not come was given back
			a.State, a.Problem = store.GroupReplaced, fmt.Sprintf("the group has %d machines by now: somebody else changed it", now.Desired)
			return w.note(ctx, tenant, g, a, true)
		}
		a.Version = now.Version
	}
	if a.Undoes != nil { // a size that something of the cloud writes is not set, unless that is stopped
		if free, err := w.free(ctx, tenant, api, g, false); err != nil {
			return err
		} else if !free {
			a.State, a.Problem = store.GroupReplaced, "something of the cloud itself writes the size of the group"
			return w.note(ctx, tenant, g, a, true)
		}
	}
	var done cloud.Resized
	var err error
	if len(a.Machines) > 0 {
		done, err = api.Terminate(ctx, cloud.Termination{Ref: g.Ref, Machines: a.Machines, Desired: a.Desired, Min: g.Min, Version: a.Version, Token: a.ID})
	} else {
		done, err = api.Resize(ctx, cloud.Resize{Ref: g.Ref, Desired: a.Desired, Min: g.Min, Max: g.Max, Version: a.Version, Token: a.ID})
	}
	var none *cloud.CapacityError
	var coded *fleet.Error
	closed := false
	switch {
	case err == nil:
		a.State = store.GroupPending
		done.Before, done.Ready = a.Before, a.ReadyBefore // also when it was asked for before a crash
		if done.At.IsZero() {
			done.At = a.AskedAt
		}
		if a.Result, err = json.Marshal(done); err != nil {
			return fmt.Errorf("encode answer: %w", err)
		}
		w.Log.InfoContext(ctx, "group resized", "tenant", tenant, "cluster", g.Cluster, "group", g.Ref, "before", a.Before, "desired", a.Desired, "action", a.ID)
	case errors.As(err, &none):
		a.State, a.Problem, closed = store.GroupRefused, none.Error(), true
		if none.Failure.Kind == cloud.FailureStockOut {
			a.State = store.GroupStockOut
		}
		a.Failures, _ = json.Marshal([]cloud.GroupFailure{none.Failure}) //nolint:errchkjson // texts and a time
	case errors.As(err, &coded) && coded.Code == fleet.CodeConflict:
		a.State, a.Problem, closed = store.GroupReplaced, cloud.Problem(err), true
	case errors.As(err, &coded) && coded.Code == fleet.CodeInvalid:
		a.State, a.Problem, closed = store.GroupRefused, cloud.Problem(err), true
	default:
		a.State, a.Problem = store.GroupAsked, cloud.Problem(err)
	}
	return w.note(ctx, tenant, g, a, closed)
}

// note writes down an action, and tells the model of availability of what could not be had.
func (w *CloudGroups) note(ctx context.Context, tenant fleet.TenantID, g *store.CloudGroup, a store.GroupAction, closed bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return w.DB.Tenant(ctx, tenant, func(tx *store.Tx) error {
		if closed && (a.State == store.GroupStockOut || a.State == store.GroupPartial) {
			zones := g.Zones
			if len(zones) == 0 {
				zones = []string{""}
			}
			var dry []fleet.Offering
			for _, z := range zones {
				for _, t := range g.InstanceTypes {
					dry = append(dry, fleet.Offering{Cloud: g.Cloud, Region: g.Region, Zone: z, InstanceType: t, Purchase: g.Purchase})
				}
			}
			if err := store.NoteGroupStockOut(ctx, tx, a, dry, max(a.Desired-max(a.Ready, a.ReadyBefore), 1)); err != nil {
				return err
			}
		}
		return store.NoteGroupAction(ctx, tx, a, closed)
	})
}

// follow looks how far an open action has come.
func (w *CloudGroups) follow(ctx context.Context, tenant fleet.TenantID, g *store.CloudGroup, a store.GroupAction, may bool) error {
	api, err := w.groups(ctx, tenant, g.Account)
	if err != nil {
		return err
	}
	var now time.Time
	nodes := 0
	if err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		now = tx.Now
		nodes, err = store.GroupNodes(ctx, tx, *g, a.AskedAt)
		return err
	}); err != nil {
		return err
	}
	age := now.Sub(a.AskedAt)
	if a.State == store.GroupAsked { // nobody knows whether the cloud heard
		if age > groupLost || !may || !g.Enabled && a.Undoes == nil {
			a.State, a.Problem = store.GroupFailed, "given up before the cloud had answered"
			return w.note(ctx, tenant, g, a, true)
		}
		return w.ask(ctx, tenant, api, g, a)
	}
	var done cloud.Resized
	if err := json.Unmarshal(a.Result, &done); err != nil {
		return fmt.Errorf("read answer of action %s: %w", a.ID, err)
	}
	p, err := api.Progress(ctx, done)
	if err != nil {
		return fmt.Errorf("look after group %s: %w", g.Ref, err)
	}
	a.Ready, a.Problem = p.Group.Ready, ""
	if a.Failures, err = json.Marshal(p.Failures); err != nil {
		return fmt.Errorf("encode failures: %w", err)
	}
	closed := false
	switch p.State {
	case cloud.ProgressReached:
		if a.State = store.GroupReached; nodes >= a.Desired-a.Before || a.Desired <= a.Before || age > groupJoin {
			closed = true
			if a.State = store.GroupJoined; nodes < a.Desired-a.Before && a.Desired > a.Before {
				a.State, a.Problem = store.GroupFailed, fmt.Sprintf("%d of %d machines became nodes within %s", nodes, a.Desired-a.Before, groupJoin)
			}
		}
	case cloud.ProgressReplaced:
		a.State, closed = store.GroupReplaced, true
	case cloud.ProgressPending:
		a.State, closed = store.GroupPending, age > groupLost
	case cloud.ProgressPartial, cloud.ProgressStockOut, cloud.ProgressRefused:
		a.State = store.GroupState(p.State)
		if closed = age > groupGiveUp; closed && may && p.Group.Coming == 0 {
			// What did not come is not wanted there any more: the next plan looks elsewhere, and a machine that comes late would be one too many.
			back := cloud.Resize{Ref: g.Ref, Desired: max(p.Group.Ready, a.Before), Min: g.Min, Max: g.Max, Version: p.Group.Version, Token: "back-" + a.ID}
			if back.Desired < a.Desired {
				if _, err := api.Resize(ctx, back); err != nil { // the action stays open until the cloud has heard, or for an hour
					a.Problem = "what did not come is still asked for: " + cloud.Problem(err)
					closed = age > groupLost || settledByCloud(err)
				}
			}
		}
	}
	return w.note(ctx, tenant, g, a, closed)
}

// settledByCloud says whether a cloud's refusal is its last word: somebody else changed the group, or what was asked has no meaning.
func settledByCloud(err error) bool {
	var coded *fleet.Error
	return errors.As(err, &coded) && (coded.Code == fleet.CodeConflict || coded.Code == fleet.CodeInvalid)
}
