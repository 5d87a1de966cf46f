package act

import (
	"context"
	"errors"
	"fmt"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// release lets a machine that a plan had drained take pods again: a NodeDrain that shall not be.
func (a *Actor) release(ctx context.Context, plan *agentv1.Plan, x *agentv1.CapacityAction) *agentv1.ActionResult {
	say := func(outcome, code, why string) *agentv1.ActionResult {
		return a.changed(plan, x, Object{}, Object{}, outcome, code, why)
	}
	d := x.GetNodeDrain()
	switch {
	case a.drainer == nil:
		return say("refused", "mode", "this agent does not let machines go")
	case d.GetUid() == "":
		return say("refused", "precondition", "the end of a drain needs the uid of the machine that the plan saw")
	}
	if ok, err := a.mayChange(plan, x); err != nil {
		return say("failed", "internal", "write journal: "+err.Error())
	} else if !ok {
		return say("refused", "limit", "this agent has made its changes of the minute")
	}
	done, err := a.drainer.Release(ctx, d.GetNode(), d.GetUid())
	switch {
	case errors.Is(err, ErrBusy):
		return say("refused", "precondition", err.Error())
	case err != nil:
		return a.changeFailed(plan, x, Object{}, err)
	case !done:
		return say("already", "", "")
	}
	return say("applied", "", "")
}

// Release uncordons a machine that was drained for a plan. false: there is nothing to undo, since it is gone, or was cordoned by somebody else. One whose drain is
// under way is ErrBusy: it ends by itself.
func (d *Drainer) Release(ctx context.Context, node, uid string) (bool, error) {
	if x, ok := d.log.Of(uid, CausePlan); ok && x.Ended == "" {
		return false, fmt.Errorf("the drain of %s is under way: %w", node, ErrBusy)
	}
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	n, err := d.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, kubeError("Node/"+node, err)
	}
	_, cause, ours := strings.Cut(n.Annotations[noteDrain], " ")
	if string(n.UID) != uid || !ours || cause != CausePlan {
		return false, nil
	}
	if err := mark(ctx, d.client, node, uid, false, ""); err != nil {
		return false, err
	}
	return true, nil
}
