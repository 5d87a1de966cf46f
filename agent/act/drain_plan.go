package act

import (
	"encoding/json"
	"errors"
	"fmt"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// UseDrainer lets the actor let machines go. It is called before the first plan.
func (a *Actor) UseDrainer(d *Drainer) { a.drainer = d }

// Stopped is why nothing may be changed now: the mode, or a freeze. Empty: it may.
func (a *Actor) Stopped() string {
	switch mode := a.Mode(); {
	case mode != "enforce" && mode != "approve":
		return fmt.Sprintf("the agent is in %s mode and changes nothing", mode)
	case a.Frozen():
		return "changes are frozen"
	}
	return ""
}

// drain begins to let a machine go. Its result says that it was begun; how it ends is reported by the drainer, maybe much later.
func (a *Actor) drain(plan *agentv1.Plan, x *agentv1.CapacityAction) *agentv1.ActionResult {
	say := func(outcome, code, why string) *agentv1.ActionResult {
		return a.changed(plan, x, Object{}, Object{}, outcome, code, why)
	}
	if a.drainer == nil {
		return say("refused", "mode", "this agent does not let machines go")
	}
	d := x.GetNodeDrain()
	l := a.cfg.Limits
	switch {
	case d.GetUid() == "" || d.GetSeconds() < 0:
		return say("refused", "precondition", "a drain needs the uid of the machine that the plan saw")
	case l.MaxActionsPerMinute > 0 && a.journal.ActionsSince(a.env.NowMS()-minuteMS) >= l.MaxActionsPerMinute:
		return say("refused", "limit", fmt.Sprintf("this agent makes at most %d changes a minute", l.MaxActionsPerMinute))
	}
	if err := a.journal.Changing(plan.GetPlanId(), x.GetActionId(), true, a.env.NowMS()); err != nil {
		return say("failed", "internal", "write journal: "+err.Error())
	}
	seconds := int64(d.GetSeconds())
	if seconds == 0 {
		seconds = defaultDrainSeconds
	}
	begun, again, err := a.drainer.Begin(Leave{Node: d.GetNode(), UID: d.GetUid(), Cause: CausePlan, Evict: true, DeadlineMS: a.env.NowMS() + seconds*1000,
		Plan: plan.GetPlanId(), Action: x.GetActionId(), Generation: plan.GetGeneration()})
	switch {
	case errors.Is(err, ErrNotFound):
		return say("failed", "not_found", err.Error())
	case errors.Is(err, ErrForbidden):
		return say("refused", "forbidden", err.Error())
	case err != nil:
		return say("failed", "internal", err.Error())
	}
	outcome := "applied"
	if again {
		outcome = "already"
	}
	r := say(outcome, "", "")
	r.AfterSpec = begunSpec(begun)
	return r
}

// begunSpec is what the first answer to a drain says: the answer that has it is no end.
func begunSpec(x Drain) string {
	b, err := json.Marshal(map[string]any{"drain": x.ID, "node": x.Node, "deadline_ms": x.DeadlineMS})
	if err != nil {
		return "{}"
	}
	return string(b)
}

// settleDrain says of a drain that a former life was to begin whether it did. How it ends is told by the drainer.
func (a *Actor) settleDrain(p OpenPlan, x OpenAction, r *agentv1.ActionResult) *agentv1.ActionResult {
	if a.drainer == nil {
		return r
	}
	if begun, ok := a.drainer.log.Begun(p.ID, x.ID); ok {
		r.Outcome, r.ErrorCode, r.Error, r.AfterSpec = "applied", "", "", begunSpec(begun)
	}
	return r
}
