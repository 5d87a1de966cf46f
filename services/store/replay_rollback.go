package store

import (
	"context"
	"strconv"
)

// rolloutActor is who saves the versions of a rollout.
const rolloutActor = "rollout"

// EndRollout ends a rollout in the given state with the reason. From the canary on the policy that was in force before is saved again as the
// newest version, so that it is in force at the next decision.
func EndRollout(ctx context.Context, tx *Tx, r *Rollout, actor, state, outcome string) error {
	detail := map[string]string{"rollout": r.ID, "from": r.State, "outcome": outcome}
	if r.Version != nil && (state == RolledBack || state == RolloutCancelled) {
		before, err := PolicyDocument(ctx, tx, r.Workload, r.BaseVersion)
		if err != nil {
			return err
		}
		saved, err := SavePolicy(ctx, tx, PolicyVersion{Workload: r.Workload, Document: before.Document, Mode: before.Mode, CreatedBy: rolloutActor}, *r.Version)
		if err != nil {
			return err
		}
		detail["version"] = strconv.Itoa(saved.Version)
	}
	r.State, r.Outcome = state, outcome
	if err := SaveRollout(ctx, tx, r); err != nil {
		return err
	}
	return Audit(ctx, tx, actor, "rollout."+state, "workload:"+string(r.Workload), detail)
}
