package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Provisioner changes objects of the cluster's node provisioner. Objects are named by key, "NodePool/name".
type Provisioner interface {
	// Prepare makes what is new, closed, and waits a while until it is ready, so that Put opens all of it at nearly the same time: what
	// opens first would be filled with what belongs elsewhere.
	Prepare(ctx context.Context, all []*agentv1.CapacityAction, by Mark) error
	// Settle waits a while until what was put counts for the provisioner as it was put.
	Settle(ctx context.Context, put []*agentv1.CapacityAction) error
	// Read returns the object that an action is about as it stands. One that does not exist is no error.
	Read(ctx context.Context, x *agentv1.CapacityAction) (Object, error)
	// Put makes the object as the action says, or returns ErrConflict, as a *WritersError where somebody else holds a field,
	// ErrForbidden where the object is not ours, ErrBusy where it may not go yet.
	Put(ctx context.Context, x *agentv1.CapacityAction, from Object, by Mark) (Object, error)
	// Carries says whether the object of a key was last written by this plan and action.
	Carries(ctx context.Context, key string, by Mark) (bool, error)
}

// Object is an object of a provisioner as read.
type Object struct {
	Exists     bool
	Spec       string // JSON of the fields that the action is about; empty: there is none
	Version    string
	Generation uint64 // of the plan that wrote it last; 0: none did
	Same       bool   // it is as the action wants it
	spec       int64  // the API's count of changes of the spec: a status that moves on is no change
}

// Mark is kept on every object: which plan wrote it.
type Mark struct {
	Plan       string
	Action     string
	Generation uint64
	AtMS       int64
}

// ErrBusy means that an object has machines and therefore stays.
var ErrBusy = errors.New("it has machines")

// WritersError is a conflict over fields, with those who write them. It is an ErrConflict.
type WritersError struct {
	Object  string
	Writers []string // ours is the last
	Fields  []string
	Stopped bool // we were told to own it, and another controller writes it back again and again
}

// Error implements error.
func (e *WritersError) Error() string {
	what := "yielding"
	if e.Stopped {
		what = "they fight, and we stop"
	}
	return fmt.Sprintf("%s: %s is written by %s: %s", e.Object, strings.Join(e.Fields, ", "), strings.Join(e.Writers, " and "), what)
}

// Is makes it an ErrConflict.
func (e *WritersError) Is(target error) bool { return target == ErrConflict }

// UseProvisioner lets the actor carry out capacity actions. It is called before the first plan.
func (a *Actor) UseProvisioner(p Provisioner) { a.provisioner = p }

// capacityKey names the object of an action; empty where it names none.
func capacityKey(x *agentv1.CapacityAction) string {
	set := 0
	for _, is := range []bool{x.GetNodePool() != nil, x.GetNodeOverlay() != nil, x.GetNodeDrain() != nil, x.GetWarmPool() != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return ""
	}
	for kind, name := range map[string]string{kindPool: x.GetNodePool().GetName(), kindOverlay: x.GetNodeOverlay().GetName(), kindDrain: x.GetNodeDrain().GetNode(), kindWarm: x.GetWarmPool().GetName()} {
		if name != "" {
			return kind + "/" + name
		}
	}
	return ""
}

// UseWarmPools lets the actor keep room ready. It is called before the first plan.
func (a *Actor) UseWarmPools(p Provisioner) { a.warm = p }

// provisionerOf is who carries out an action on an object of a key; nil: nobody here.
func (a *Actor) provisionerOf(key string) Provisioner {
	if strings.HasPrefix(key, kindWarm+"/") {
		return a.warm
	}
	return a.provisioner
}

func isCapacityKey(key string) bool {
	return strings.HasPrefix(key, kindPool+"/") || strings.HasPrefix(key, kindOverlay+"/") || strings.HasPrefix(key, kindDrain+"/") || strings.HasPrefix(key, kindWarm+"/")
}

// changesAtOnce bounds the capacity actions of one plan that are carried out side by side.
const changesAtOnce = 16

// changeAll carries out the capacity actions of a plan: overlays first, so that prices hold before anything is bought, then pools, then removals, and drains at the
// end. Pools of a phase are looked at, then noted in the journal, then changed side by side, with nothing else in between, since the first that opens would be filled with what belongs elsewhere; for the same reason what is reserved, and
// paid for already, opens before them all, and pools without a limit, which take what no other does, after them all: whoever buys in between finds too little open, and
// never too much. One that fails keeps no other from being tried. Results are in the plan's order.
func (a *Actor) changeAll(ctx context.Context, plan *agentv1.Plan) []*agentv1.ActionResult {
	all := plan.GetCapacity()
	out := make([]*agentv1.ActionResult, len(all))
	for phase := range phases {
		var todo []int
		for i, x := range all {
			if phaseOf(x) == phase {
				todo = append(todo, i)
			}
		}
		a.changePhase(ctx, plan, phase, todo, out)
		if phase == phaseReserved || phase == phaseLimited { // too little open for a moment does no harm, and what is open is bounded
			var applied []*agentv1.CapacityAction
			for _, i := range todo {
				if all[i].GetNodePool() != nil && out[i].GetOutcome() == "applied" {
					applied = append(applied, all[i])
				}
			}
			a.settlePools(ctx, plan, applied)
		}
	}
	for i, r := range out {
		a.log.Info("capacity", "plan", r.GetPlanId(), "action", r.GetActionId(), "object", capacityKey(all[i]), "outcome", r.GetOutcome(),
			"code", r.GetErrorCode(), "error", r.GetError(), "reasons", strings.Join(all[i].GetReasons(), ","))
	}
	return out
}

// settlePools waits until what was opened counts: a provisioner that has not looked at it again buys from what opens after it. It is no reason to leave the rest
// of a plan undone.
func (a *Actor) settlePools(ctx context.Context, plan *agentv1.Plan, applied []*agentv1.CapacityAction) {
	if len(applied) == 0 {
		return
	}
	provisioner := a.provisionerOf(capacityKey(applied[0]))
	if provisioner == nil {
		return
	}
	if err := provisioner.Settle(ctx, applied); err != nil {
		a.log.Warn("pools that were opened are not taken yet; the plan goes on", "plan", plan.GetPlanId(), "error", err)
	}
}

// Phases of a plan's capacity actions; each ends before the next begins.
const (
	phasePrices = iota
	phaseReserved
	phaseLimited
	phaseRest
	phaseRemovals
	phaseDrains // room for their pods is on its way by then
	phases
)

func phaseOf(x *agentv1.CapacityAction) int {
	p := x.GetNodePool()
	switch {
	case x.GetNodeDrain() != nil:
		return phaseDrains
	case x.GetAbsent():
		return phaseRemovals
	case x.GetNodeOverlay() != nil:
		return phasePrices
	case p != nil && reservedOnly(p):
		return phaseReserved
	case p != nil && len(p.GetLimits()) == 0:
		return phaseRest
	}
	return phaseLimited
}

// reservedOnly says whether a pool holds nothing but what is paid for already.
func reservedOnly(p *agentv1.NodePoolSpec) bool {
	return slices.ContainsFunc(p.GetRequirements(), func(r *agentv1.NodeRequirement) bool {
		return r.GetKey() == "karpenter.sh/capacity-type" && r.GetOperator() == "In" && slices.Equal(r.GetValues(), []string{"reserved"})
	})
}

// sideBySide calls f for 0 to n-1, at most so many at a time, and returns when all have returned.
func sideBySide(n, most int, f func(int)) {
	var wg sync.WaitGroup
	free := make(chan struct{}, most)
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			f(i)
		})
	}
	wg.Wait()
}

// changePhase carries out the actions of one phase and journals how they ended. Between the first change and the last there is nothing but changes: what takes time,
// looking at what is there and writing the journal, comes before and after all of them.
func (a *Actor) changePhase(ctx context.Context, plan *agentv1.Plan, phase int, todo []int, out []*agentv1.ActionResult) {
	all, now := plan.GetCapacity(), make([]Object, len(todo))
	sideBySide(len(todo), changesAtOnce, func(k int) {
		if x := all[todo[k]]; phase == phaseDrains {
			out[todo[k]] = a.letGo(ctx, plan, x)
		} else {
			now[k], out[todo[k]] = a.look(ctx, plan, x)
		}
	})
	var put []int
	for k, i := range todo {
		if out[i] == nil {
			out[i] = a.announce(plan, all[i], now[k])
		}
		if out[i] == nil {
			put = append(put, k)
		}
	}
	sideBySide(len(put), changesAtOnce, func(k int) {
		i := todo[put[k]]
		out[i] = a.change(ctx, plan, all[i], now[put[k]])
	})
	for _, i := range todo {
		if err := a.journal.Done(out[i]); err != nil {
			a.log.Error("journal cannot be written", "plan", plan.GetPlanId(), "error", err)
		}
	}
}

func (a *Actor) letGo(ctx context.Context, plan *agentv1.Plan, x *agentv1.CapacityAction) *agentv1.ActionResult {
	if x.GetAbsent() {
		return a.release(ctx, plan, x)
	}
	return a.drain(plan, x)
}

// look reads the object of an action. A result means that there is nothing to do, or that nothing may be done.
func (a *Actor) look(ctx context.Context, plan *agentv1.Plan, x *agentv1.CapacityAction) (Object, *agentv1.ActionResult) {
	provisioner := a.provisionerOf(capacityKey(x))
	if provisioner == nil {
		return Object{}, a.changed(plan, x, Object{}, Object{}, "refused", "mode", "this agent does not steer a node provisioner, or keeps no room ready")
	}
	now, err := provisioner.Read(ctx, x)
	switch {
	case err != nil:
		return now, a.changeFailed(plan, x, now, err)
	case now.Generation > plan.GetGeneration():
		return now, a.changed(plan, x, now, now, "refused", "stale_generation", fmt.Sprintf("plan %d wrote it already; this is plan %d", now.Generation, plan.GetGeneration()))
	case now.Same:
		return now, a.changed(plan, x, now, now, "already", "", "")
	}
	return now, nil
}

// announce notes in the journal that a change comes. A result means that it may not be made.
func (a *Actor) announce(plan *agentv1.Plan, x *agentv1.CapacityAction, now Object) *agentv1.ActionResult {
	if ok, err := a.mayChange(plan, x); err != nil {
		return a.changeFailed(plan, x, now, fmt.Errorf("write journal: %w", err))
	} else if !ok {
		return a.changed(plan, x, now, now, "refused", "limit", fmt.Sprintf("this agent makes at most %d changes a minute", a.cfg.Limits.MaxActionsPerMinute))
	}
	return nil
}

// change makes a change that was announced. Where the object is another by now it is looked at again, and the change announced again.
func (a *Actor) change(ctx context.Context, plan *agentv1.Plan, x *agentv1.CapacityAction, now Object) *agentv1.ActionResult {
	for try := 1; ; try++ {
		after, err := a.provisionerOf(capacityKey(x)).Put(ctx, x, now, Mark{Plan: plan.GetPlanId(), Action: x.GetActionId(), Generation: plan.GetGeneration(), AtMS: a.env.NowMS()})
		if err == nil {
			return a.changed(plan, x, now, after, "applied", "", "")
		}
		var writers *WritersError
		if !errors.Is(err, ErrConflict) || errors.As(err, &writers) || try == setAttempts {
			return a.changeFailed(plan, x, now, err)
		}
		var r *agentv1.ActionResult
		if now, r = a.look(ctx, plan, x); r != nil {
			return r
		}
		if r = a.announce(plan, x, now); r != nil {
			return r
		}
	}
}

// mayChange counts a change and notes in the journal that it comes; false: there were enough of them within the minute.
func (a *Actor) mayChange(plan *agentv1.Plan, x *agentv1.CapacityAction) (bool, error) {
	a.counting.Lock()
	defer a.counting.Unlock()
	most, now := a.cfg.Limits.MaxActionsPerMinute, a.env.NowMS()
	if x.GetNodePool() != nil && most > 0 && a.journal.ActionsSince(now-minuteMS) >= most {
		return false, nil
	}
	return true, a.journal.Changing(plan.GetPlanId(), x.GetActionId(), x.GetNodePool() != nil, now)
}

func (a *Actor) changed(plan *agentv1.Plan, x *agentv1.CapacityAction, before, after Object, outcome, code, why string) *agentv1.ActionResult {
	return &agentv1.ActionResult{ActionId: x.GetActionId(), PlanId: plan.GetPlanId(), Generation: plan.GetGeneration(), Outcome: outcome, ErrorCode: code, Error: why,
		AtMs: a.env.NowMS(), BeforeSpec: before.Spec, AfterSpec: after.Spec, ResourceVersion: after.Version}
}

func (a *Actor) changeFailed(plan *agentv1.Plan, x *agentv1.CapacityAction, now Object, err error) *agentv1.ActionResult {
	outcome, code := "failed", "internal"
	switch {
	case errors.Is(err, ErrBusy):
		outcome, code = "refused", "precondition"
	case errors.Is(err, ErrNotFound):
		code = "not_found"
	case errors.Is(err, ErrForbidden):
		code = "forbidden"
	case errors.Is(err, ErrConflict):
		code = "conflict"
	}
	r := a.changed(plan, x, now, now, outcome, code, err.Error())
	var writers *WritersError
	if errors.As(err, &writers) {
		r.Writers = writers.Writers
	}
	return r
}

// settleChange says how a capacity action ended that a former life of the agent had under way.
func (a *Actor) settleChange(ctx context.Context, p OpenPlan, x OpenAction, r *agentv1.ActionResult) *agentv1.ActionResult {
	if strings.HasPrefix(x.Workload, kindDrain+"/") {
		if a.drainer != nil {
			if _, ok := a.drainer.log.Begun(p.ID, x.ID); ok {
				r.Outcome, r.ErrorCode, r.Error = "applied", "", ""
			}
		}
		return r
	}
	provisioner := a.provisionerOf(x.Workload)
	if provisioner == nil {
		return r
	}
	ok, err := provisioner.Carries(ctx, x.Workload, Mark{Plan: p.ID, Action: x.ID, Generation: p.Generation})
	if err == nil && ok {
		r.Outcome, r.ErrorCode, r.Error = "applied", "", ""
	}
	return r
}
