// Package act applies plans to the cluster: each plan at most once, never an old one, never beyond the agent's own limits,
// which the service cannot lift. Counts are absolute. It may never decide by itself: when the service is away, the last plan
// holds and nothing changes (there is no reactive local scaling yet, neither up nor down).
package act

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Errors that an Actuator returns, wrapped or plain.
var (
	ErrNotFound  = errors.New("the workload does not exist")
	ErrForbidden = errors.New("the cluster does not allow it")
	ErrConflict  = errors.New("somebody else changed the workload at the same time")
)

// Scale is the replica count of a workload as read, with the version that a change must build on.
type Scale struct {
	Replicas int32
	Version  string
}

// Actuator changes replica counts of one kind of cluster. Workloads are named by key, "namespace/Kind/name".
type Actuator interface {
	// Read returns the count asked for now (spec, not status).
	Read(ctx context.Context, workload string) (Scale, error)
	// Set changes the count, or returns ErrConflict when the workload is no longer as it was read.
	Set(ctx context.Context, workload string, from Scale, to int32) (Scale, error)
}

// Limits are the agent's own; zero means no limit.
type Limits struct {
	MaxReplicas            int64 // of all workloads together
	MaxReplicasPerWorkload int64
	MaxActionsPerMinute    int64
	Freeze                 bool
}

// Config of an Actor.
type Config struct {
	Mode   string // observe, recommend, approve or enforce
	Limits Limits
}

// Env is what an Actor knows of the world, besides what its Actuator reads.
type Env struct {
	NowMS    func() int64            // the cluster's clock
	Observed func() map[string]int32 // replicas asked for, of every workload that is seen
	// TransitMS is how much later than its time a plan may come, because the clock of a replayed cluster outruns its way.
	// Nil or zero on wall time.
	TransitMS func() int64
}

const (
	maxActions  = 4096 // of one plan
	setAttempts = 3    // re-reads after a conflict
	minuteMS    = 60_000
)

// Actor applies plans, one at a time.
type Actor struct {
	cfg      Config
	journal  *Journal
	actuator Actuator // nil: nothing can be changed here
	env      Env
	log      *slog.Logger

	provisioner Provisioner // nil: machines are not steered here
	drainer     *Drainer    // nil: machines are not let go here
	warm        Provisioner // nil: no room is kept ready here

	// mu serialises plans: it is held while one is applied, calls to the cluster included.
	mu sync.Mutex
	// counting is held while a change is counted against the limit per minute and written to the journal: capacity actions go side by side.
	counting sync.Mutex
}

// New makes an Actor. A nil actuator refuses every plan.
func New(cfg Config, journal *Journal, actuator Actuator, env Env, log *slog.Logger) *Actor {
	return &Actor{cfg: cfg, journal: journal, actuator: actuator, env: env, log: log}
}

// Configure takes what the service asks for. The stricter of its mode and the local one counts, and either freeze.
func (a *Actor) Configure(c *agentv1.Config) error {
	return a.journal.Configure(c.GetMode(), c.GetFrozen())
}

// Mode is the mode in force.
func (a *Actor) Mode() string { return stricter(a.cfg.Mode, a.journal.Service().Mode) }

// Frozen says whether nothing may change.
func (a *Actor) Frozen() bool { return a.cfg.Limits.Freeze || a.journal.Service().Frozen }

// Limits are the local limits as the service is told.
func (a *Actor) Limits() *agentv1.Limits {
	l := a.cfg.Limits
	return &agentv1.Limits{
		MaxReplicas: l.MaxReplicas, MaxReplicasPerWorkload: l.MaxReplicasPerWorkload, MaxActionsPerMinute: l.MaxActionsPerMinute,
		Frozen: a.Frozen(), Mode: a.Mode(),
	}
}

// Generation is that of the newest plan begun here.
func (a *Actor) Generation() uint64 { return a.journal.Generation() }

// Apply applies a plan and returns one result for each action. A plan known from before is answered from the journal.
func (a *Actor) Apply(ctx context.Context, plan *agentv1.Plan) []*agentv1.ActionResult {
	a.mu.Lock()
	defer a.mu.Unlock()
	if done, ok := a.journal.Plan(plan.GetPlanId()); ok {
		return a.again(plan, done)
	}
	if code, why := a.refusal(plan); code != "" {
		a.log.Warn("plan refused", "plan", plan.GetPlanId(), "generation", plan.GetGeneration(), "code", code)
		return a.refuseAll(plan, code, why)
	}
	if err := a.journal.Begin(plan, a.env.NowMS()); err != nil {
		return a.refuseAll(plan, "internal", "the agent could not write its journal: "+err.Error())
	}
	results := make([]*agentv1.ActionResult, 0, len(plan.GetActions())+len(plan.GetCapacity()))
	for _, action := range plan.GetActions() {
		r := a.perform(ctx, plan, action)
		a.log.Info("action", "plan", r.GetPlanId(), "action", r.GetActionId(), "workload", action.GetWorkload(), "outcome", r.GetOutcome(),
			"code", r.GetErrorCode(), "before", r.GetBefore(), "after", r.GetAfter(), "reasons", strings.Join(action.GetReasons(), ","))
		results = append(results, r)
	}
	if a.provisioner != nil && len(plan.GetCapacity()) > 0 {
		mark := Mark{Plan: plan.GetPlanId(), Action: "prepare", Generation: plan.GetGeneration(), AtMS: a.env.NowMS()}
		if err := a.provisioner.Prepare(ctx, plan.GetCapacity(), mark); err != nil {
			a.log.Warn("new pools are opened without being ready", "plan", plan.GetPlanId(), "error", err)
		}
	}
	return append(results, a.changeAll(ctx, plan)...)
}

// refusal is why the plan as a whole may not be applied; an empty code means it may.
func (a *Actor) refusal(plan *agentv1.Plan) (code, why string) {
	mode := a.Mode()
	switch {
	case a.actuator == nil || (mode != "enforce" && mode != "approve"):
		return "mode", fmt.Sprintf("the agent is in %s mode and changes nothing", mode)
	case a.Frozen():
		return "frozen", "changes are frozen"
	case plan.GetGeneration() <= a.journal.Generation():
		return "stale_generation", fmt.Sprintf("plan %d is not newer than plan %d, which was applied here", plan.GetGeneration(), a.journal.Generation())
	case plan.GetExpiresMs()+a.transit() <= a.env.NowMS():
		return "expired", "the plan came after its time"
	case len(plan.GetActions())+len(plan.GetCapacity()) > maxActions:
		return "limit", fmt.Sprintf("the plan has %d actions; %d are allowed", len(plan.GetActions())+len(plan.GetCapacity()), maxActions)
	}
	seen := map[string]bool{}
	for _, x := range plan.GetActions() {
		if x.GetActionId() == "" || seen[x.GetActionId()] || seen["w "+x.GetWorkload()] {
			return "precondition", "the plan names an action or a workload twice, or an action without an id"
		}
		seen[x.GetActionId()], seen["w "+x.GetWorkload()] = true, true
	}
	for _, x := range plan.GetCapacity() {
		key := capacityKey(x)
		if x.GetActionId() == "" || key == "" || seen[x.GetActionId()] || seen["c "+key] {
			return "precondition", "the plan names a capacity action or an object twice, or one without an id or a name"
		}
		seen[x.GetActionId()], seen["c "+key] = true, true
	}
	return "", ""
}

func (a *Actor) transit() int64 {
	if a.env.TransitMS == nil {
		return 0
	}
	return a.env.TransitMS()
}

func (a *Actor) refuseAll(plan *agentv1.Plan, code, why string) []*agentv1.ActionResult {
	out := make([]*agentv1.ActionResult, 0, min(len(plan.GetActions())+len(plan.GetCapacity()), maxActions))
	for _, action := range plan.GetActions()[:min(len(plan.GetActions()), maxActions)] {
		out = append(out, a.result(plan, action, "refused", code, why))
	}
	for _, x := range plan.GetCapacity()[:min(len(plan.GetCapacity()), maxActions-len(out))] {
		out = append(out, a.changed(plan, x, Object{}, Object{}, "refused", code, why))
	}
	return out
}

// again answers a plan that was begun before: what was applied is "already", the rest as it was.
func (a *Actor) again(plan *agentv1.Plan, done map[string]*agentv1.ActionResult) []*agentv1.ActionResult {
	out := make([]*agentv1.ActionResult, 0, len(done))
	for _, action := range plan.GetActions() {
		r, ok := done[action.GetActionId()]
		if !ok {
			r = a.result(plan, action, "failed", "internal", "this action was not begun before the agent stopped")
		}
		if r.GetOutcome() == "applied" {
			r.Outcome = "already"
		}
		out = append(out, r)
	}
	for _, x := range plan.GetCapacity() {
		r, ok := done[x.GetActionId()]
		if !ok {
			r = a.changed(plan, x, Object{}, Object{}, "failed", "internal", "this action was not begun before the agent stopped")
		}
		if r.GetOutcome() == "applied" {
			r.Outcome = "already"
		}
		out = append(out, r)
	}
	return out
}

func (a *Actor) result(plan *agentv1.Plan, action *agentv1.Action, outcome, code, why string) *agentv1.ActionResult {
	return &agentv1.ActionResult{
		ActionId: action.GetActionId(), PlanId: plan.GetPlanId(), Generation: plan.GetGeneration(), Outcome: outcome,
		ErrorCode: code, Error: why, AtMs: a.env.NowMS(),
	}
}

// perform carries one action out and journals how it ended.
func (a *Actor) perform(ctx context.Context, plan *agentv1.Plan, action *agentv1.Action) *agentv1.ActionResult {
	r := a.attempt(ctx, plan, action)
	if err := a.journal.Done(r); err != nil {
		a.log.Error("journal cannot be written", "plan", plan.GetPlanId(), "error", err)
	}
	return r
}

func (a *Actor) attempt(ctx context.Context, plan *agentv1.Plan, action *agentv1.Action) *agentv1.ActionResult {
	for try := 0; ; try++ {
		now, err := a.actuator.Read(ctx, action.GetWorkload())
		if err != nil {
			return a.failure(plan, action, Scale{}, err)
		}
		if code, why := a.guard(action, now); code != "" {
			r := a.result(plan, action, "refused", code, why)
			r.Before, r.After, r.ResourceVersion = now.Replicas, now.Replicas, now.Version
			return r
		}
		if now.Replicas == action.GetTo() {
			r := a.result(plan, action, "already", "", "")
			r.Before, r.After, r.ResourceVersion = now.Replicas, now.Replicas, now.Version
			return r
		}
		if err := a.journal.Acting(plan.GetPlanId(), action, now.Replicas, a.env.NowMS()); err != nil {
			return a.failure(plan, action, now, fmt.Errorf("write journal: %w", err))
		}
		after, err := a.actuator.Set(ctx, action.GetWorkload(), now, action.GetTo())
		if errors.Is(err, ErrConflict) && try+1 < setAttempts {
			continue // read again and decide again: never send the same blindly
		}
		if err != nil {
			return a.failure(plan, action, now, err)
		}
		r := a.result(plan, action, "applied", "", "")
		r.Before, r.After, r.ResourceVersion = now.Replicas, after.Replicas, after.Version
		return r
	}
}

func (a *Actor) failure(plan *agentv1.Plan, action *agentv1.Action, now Scale, err error) *agentv1.ActionResult {
	code := "internal"
	switch {
	case errors.Is(err, ErrNotFound):
		code = "not_found"
	case errors.Is(err, ErrForbidden):
		code = "forbidden"
	case errors.Is(err, ErrConflict):
		code = "conflict"
	}
	r := a.result(plan, action, "failed", code, err.Error())
	r.Before, r.After, r.ResourceVersion = now.Replicas, now.Replicas, now.Version
	return r
}

// guard checks one action against what is there now, the policy's bounds and the local limits.
func (a *Actor) guard(action *agentv1.Action, now Scale) (code, why string) {
	to, l := int64(action.GetTo()), a.cfg.Limits
	switch {
	case now.Replicas == action.GetTo():
		// nothing to do, and nothing to refuse
	case now.Replicas != action.GetFrom():
		return "precondition", fmt.Sprintf("the plan was made for %d replicas, there are %d", action.GetFrom(), now.Replicas)
	case to < 0 || action.GetTo() < action.GetMin() || action.GetTo() > action.GetMax():
		return "limit", fmt.Sprintf("%d replicas are outside the policy's bounds %d to %d", to, action.GetMin(), action.GetMax())
	case l.MaxReplicasPerWorkload > 0 && to > l.MaxReplicasPerWorkload:
		return "limit", fmt.Sprintf("%d replicas are over this agent's limit of %d for one workload", to, l.MaxReplicasPerWorkload)
	case l.MaxReplicas > 0 && action.GetTo() > now.Replicas && a.total(action.GetWorkload())+to > l.MaxReplicas:
		return "limit", fmt.Sprintf("all workloads together would have %d replicas, over this agent's limit of %d", a.total(action.GetWorkload())+to, l.MaxReplicas)
	case l.MaxActionsPerMinute > 0 && a.journal.ActionsSince(a.env.NowMS()-minuteMS) >= l.MaxActionsPerMinute:
		return "limit", fmt.Sprintf("this agent makes at most %d changes a minute", l.MaxActionsPerMinute)
	}
	return "", ""
}

// total is the sum of replicas of all workloads but one: what is observed, and what was set here since.
func (a *Actor) total(but string) int64 {
	var sum int64
	observed := a.env.Observed()
	set := a.journal.RecentlySet(a.env.NowMS() - 5*minuteMS)
	for key, n := range observed {
		if key != but {
			sum += int64(max(n, set[key])) // the larger of both until the cluster shows the change
		}
	}
	for key, n := range set {
		if _, seen := observed[key]; !seen && key != but {
			sum += int64(n)
		}
	}
	return sum
}

// Recover finishes the books after a restart: plans that were begun and not reported. Nothing is acted upon; an action that
// was under way is looked up in the cluster and reported as it is found.
func (a *Actor) Recover(ctx context.Context) [][]*agentv1.ActionResult {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out [][]*agentv1.ActionResult
	for _, open := range a.journal.Unreported() {
		var results []*agentv1.ActionResult
		for _, x := range open.Actions {
			r := open.Results[x.ID]
			if r == nil {
				r = a.settle(ctx, open, x)
				if err := a.journal.Done(r); err != nil {
					a.log.Error("journal cannot be written", "plan", open.ID, "error", err)
				}
			}
			results = append(results, r)
		}
		out = append(out, results)
	}
	return out
}

func (a *Actor) settle(ctx context.Context, p OpenPlan, x OpenAction) *agentv1.ActionResult {
	r := &agentv1.ActionResult{ActionId: x.ID, PlanId: p.ID, Generation: p.Generation, Before: x.Before, After: x.Before, AtMs: a.env.NowMS(),
		Outcome: "failed", ErrorCode: "internal", Error: "the agent stopped before it began this action"}
	if !x.Begun {
		return r
	}
	r.Error = "the agent stopped while it carried this action out"
	if strings.HasPrefix(x.Workload, kindDrain+"/") {
		return a.settleDrain(p, x, r)
	}
	if isCapacityKey(x.Workload) {
		return a.settleChange(ctx, p, x, r)
	}
	if a.actuator == nil {
		return r
	}
	now, err := a.actuator.Read(ctx, x.Workload)
	if err != nil {
		return r
	}
	r.After, r.ResourceVersion = now.Replicas, now.Version
	if now.Replicas == x.To {
		r.Outcome, r.ErrorCode, r.Error = "applied", "", ""
	}
	return r
}

// Reported notes that the results of a plan are safe in the spool.
func (a *Actor) Reported(planID string) error { return a.journal.Reported(planID) }

var modeRank = map[string]int{"observe": 0, "recommend": 1, "approve": 2, "enforce": 3}

// stricter returns the mode that allows less; a mode nobody knows counts as observe, an empty one as no opinion.
func stricter(local, service string) string {
	if service == "" {
		return local
	}
	if modeRank[service] < modeRank[local] {
		if _, ok := modeRank[service]; !ok {
			return "observe"
		}
		return service
	}
	return local
}
