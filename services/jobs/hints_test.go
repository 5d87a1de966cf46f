package jobs

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// What somebody expects is a floor of the plan; it can be computed again from what was kept, after the hint is gone.
func TestAHintIsPlannedFor(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	api := e.planned("api", fleet.ModeEnforce)
	e.planned("other", fleet.ModeEnforce)
	p := e.planners(&PlanWorker{})
	e.observe(1, 20, "api", "other")
	var hint store.Hint
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		hint = store.Hint{Workload: api, CreatedBy: "test", Hint: optimizer.Hint{Kind: optimizer.HintReplicas, Amount: 4, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}}
		hint, err = store.AddHint(ctx, tx, hint)
		return err
	})
	p.ask(e.cluster)
	p.done()
	if n := e.number(`SELECT target FROM decision WHERE tenant_id = $1 AND workload_id = $2 AND binding = 'hint'`, e.tenant, api); n != 4 {
		t.Errorf("%d replicas; want those that were told", n)
	}
	if n := e.number(`SELECT count(*) FROM decision WHERE tenant_id = $1 AND binding = 'hint'`, e.tenant); n != 1 {
		t.Errorf("%d decisions by a hint", n)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if err := store.DeleteHint(ctx, tx, api, hint.ID); err != nil {
			return err
		}
		var plan fleet.PlanID
		if err := tx.PGX().QueryRow(ctx, `SELECT plan_id::text FROM decision WHERE tenant_id = $1 AND workload_id = $2 ORDER BY at DESC LIMIT 1`, e.tenant, api).Scan(&plan); err != nil {
			return err
		}
		in, err := store.PlanInputOf(ctx, tx, plan)
		if err != nil {
			return err
		}
		again, err := optimizer.Decide(in)
		if err != nil {
			return err
		}
		for _, d := range again.Decisions {
			if d.Workload == api && (d.Target != 4 || d.Binding != optimizer.ReasonHint) {
				t.Errorf("computed again: %d by %s", d.Target, d.Binding)
			}
		}
		return nil
	})
}
