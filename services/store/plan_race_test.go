package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func wantConflict(t *testing.T, what string, err error) {
	t.Helper()
	var coded *fleet.Error
	if !errors.As(err, &coded) || coded.Code != fleet.CodeConflict {
		t.Errorf("%s: %v, want a conflict", what, err)
	}
}

func (b *planBench) resolve(id fleet.DecisionID, approve bool) error {
	b.t.Helper()
	return b.db.Tenant(context.Background(), b.tenant, func(tx *store.Tx) error {
		_, err := store.Resolve(context.Background(), tx, id, approve, "a person", "")
		return err
	})
}

func (b *planBench) results(list ...store.ActionResult) (changed []fleet.DecisionID) {
	b.t.Helper()
	b.tx(func(tx *store.Tx) (err error) {
		changed, err = store.ApplyResults(context.Background(), tx, b.cluster, list)
		return err
	})
	return changed
}

func (b *planBench) exec(sql string, args ...any) {
	b.t.Helper()
	b.tx(func(tx *store.Tx) error {
		_, err := tx.PGX().Exec(context.Background(), sql, append([]any{tx.Tenant, b.cluster}, args...)...)
		return err
	})
}

func (b *planBench) set(mode fleet.Mode, frozen bool) {
	b.t.Helper()
	b.tx(func(tx *store.Tx) error {
		_, _, err := store.SetCluster(context.Background(), tx, b.cluster, &mode, &frozen)
		return err
	})
}

// state of the newest scale-up.
func (b *planBench) state() string {
	b.t.Helper()
	for _, d := range b.decisions() {
		if d.Outcome == "scale_up" {
			return d.State
		}
	}
	b.t.Fatal("nothing was ever scaled up")
	return ""
}

func TestAnActionIsNeverSentAfterItsTime(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	b.observe(2, 60)
	b.plan()
	first := b.pending()
	if len(first.GetActions()) != 1 {
		t.Fatalf("pending %v", first)
	}
	// A second workload's action with a longer life goes out in the next plan; the first one's runs out meanwhile.
	other := store.WorkloadIDOf(b.cluster, "ns/Deployment/v")
	b.exec(`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, replicas, first_seen)
		VALUES ($1, $3, $2, 'ns/Deployment/v', 'ns', 'Deployment', 'v', 2, now())`, other)
	b.tx(func(tx *store.Tx) error {
		_, err := store.SavePolicy(context.Background(), tx, store.PolicyVersion{Workload: other, Document: replaceMode(queuePolicy, fleet.ModeEnforce) + "plan_ttl_seconds: 600\n",
			Mode: fleet.ModeEnforce, CreatedBy: "test"}, 0)
		return err
	})
	b.observeWorkload("ns/Deployment/v", 2, 60)
	b.plan()
	both := b.pending()
	if len(both.GetActions()) != 2 || both.GetGeneration() != 2 {
		t.Fatalf("pending %v", both)
	}
	if both.GetExpiresMs() != first.GetExpiresMs() {
		t.Errorf("the plan lives until %d, its first action only until %d", both.GetExpiresMs(), first.GetExpiresMs())
	}
	b.at = time.UnixMilli(first.GetExpiresMs()).UTC().Add(-14 * time.Second)
	b.observe(2, 60) // one second after the first action's time; no plan is made, as when the workers are away
	left := b.pending()
	if len(left.GetActions()) != 1 || left.GetActions()[0].GetWorkload() != "ns/Deployment/v" || left.GetExpiresMs() <= first.GetExpiresMs() {
		t.Errorf("after the first action's time: %v", left)
	}
}

func TestAHoldEndsTheProposalBeforeIt(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeApprove)
	b.observe(2, 60)
	b.plan()
	proposal := b.decisions("proposed")[0]
	b.observe(2, 20) // what is there suffices again
	if p := b.plan(); p.Decisions[0].Outcome != "hold" {
		t.Fatalf("decided %+v", p.Decisions[0])
	}
	if got := b.state(); got != "superseded" {
		t.Errorf("the proposal is %s although nobody wants it any more", got)
	}
	wantConflict(t, "approving it", b.resolve(proposal.ID, true))
}

func TestAHoldLeavesAnActionOnItsWayAlone(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	b.observe(2, 60)
	b.plan()
	action := b.pending().GetActions()[0]
	b.observe(int(action.GetTo()), 60) // the agent acted; its result comes after what it saw
	b.plan()
	if got := b.state(); got != "dispatched" {
		t.Errorf("before its result the action is %s", got)
	}
	b.results(store.ActionResult{Decision: fleet.DecisionID(action.GetActionId()), Outcome: "applied", Before: 2, After: int(action.GetTo()), Generation: 1, At: b.at})
	if got := b.state(); got != "applied" {
		t.Errorf("after its result the action is %s", got)
	}
}

// The service was away: what the agent did meanwhile is told after the action's time, or after another decision took its place.
func TestAResultThatComesLateIsStillTheTruth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, state string }{{"after its time", "expired"}, {"after a newer decision", "superseded"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newPlanBench(t, fleet.ModeEnforce)
			b.observe(2, 60)
			b.plan()
			id := fleet.DecisionID(b.pending().GetActions()[0].GetActionId())
			b.exec(`UPDATE decision SET state = $3, finished_at = at WHERE tenant_id = $1 AND cluster_id = $2`, c.state)
			r := store.ActionResult{Decision: id, Outcome: "applied", Before: 2, After: 6, Generation: 1, At: b.at}
			if changed := b.results(r); len(changed) != 1 || b.state() != "applied" {
				t.Errorf("changed %v, the decision is %s", changed, b.state())
			}
			r.After = 9
			if changed := b.results(r); len(changed) != 0 || *b.decisions("applied")[0].After != 6 {
				t.Errorf("a second result changed %v", changed)
			}
		})
	}
}

func TestAnAgentCannotApplyWhatNobodyApproved(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeApprove)
	b.observe(2, 60)
	b.plan()
	id := b.decisions("proposed")[0].ID
	for _, state := range []string{"proposed", "expired", "superseded", "rejected"} {
		b.exec(`UPDATE decision SET state = $3 WHERE tenant_id = $1 AND cluster_id = $2`, state)
		if changed := b.results(store.ActionResult{Decision: id, Outcome: "applied", Before: 2, After: 6, At: b.at}); len(changed) != 0 || b.state() != state {
			t.Errorf("%s proposal: changed %v, is %s", state, changed, b.state())
		}
	}
}

// The bounds in an action are those of the policy that it was decided under. Once another version is saved they prove nothing.
func TestNothingGoesOutUnderAPolicyThatWasReplaced(t *testing.T) {
	t.Parallel()
	replace := func(b *planBench, mode fleet.Mode) {
		b.tx(func(tx *store.Tx) error {
			_, err := store.SavePolicy(context.Background(), tx, store.PolicyVersion{Workload: b.workload, Document: replaceMode(queuePolicy, mode), Mode: mode, CreatedBy: "x"}, 1)
			return err
		})
	}
	enforced := newPlanBench(t, fleet.ModeEnforce)
	enforced.observe(2, 60)
	enforced.plan()
	replace(enforced, fleet.ModeEnforce)
	if p := enforced.pending(); p != nil {
		t.Errorf("still sent: %v", p)
	}
	proposed := newPlanBench(t, fleet.ModeApprove)
	proposed.observe(2, 60)
	proposed.plan()
	replace(proposed, fleet.ModeApprove)
	wantConflict(t, "approving under the old policy", proposed.resolve(proposed.decisions("proposed")[0].ID, true))
	if err := proposed.resolve(proposed.decisions("proposed")[0].ID, false); err != nil {
		t.Errorf("rejecting under the old policy: %v", err)
	}
}

func TestALoweredModeAndAFreezeStopWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	b.observe(2, 60)
	b.plan()
	for _, c := range []struct {
		mode   fleet.Mode
		frozen bool
		sent   bool
	}{
		{fleet.ModeObserve, false, false}, {fleet.ModeRecommend, false, false}, {fleet.ModeApprove, false, false}, // nobody approved it
		{fleet.ModeEnforce, true, false}, {fleet.ModeEnforce, false, true},
	} {
		b.set(c.mode, c.frozen)
		if p := b.pending(); (p != nil) != c.sent {
			t.Errorf("%s, frozen %v: sent %v", c.mode, c.frozen, p)
		}
	}
	a := newPlanBench(t, fleet.ModeApprove)
	a.observe(2, 60)
	a.plan()
	id := a.decisions("proposed")[0].ID
	a.set(fleet.ModeRecommend, false)
	wantConflict(t, "approving in recommend mode", a.resolve(id, true))
	a.set(fleet.ModeApprove, true)
	wantConflict(t, "approving while frozen", a.resolve(id, true))
	a.set(fleet.ModeApprove, false)
	if err := a.resolve(id, true); err != nil {
		t.Fatal(err)
	}
	if p := a.pending(); p == nil {
		t.Error("the approved action is not sent")
	}
	a.set(fleet.ModeRecommend, false)
	if p := a.pending(); p != nil {
		t.Errorf("sent in recommend mode: %v", p)
	}
}

// Two people press approve and reject at the same moment: one of them is told that it is too late, and one generation is made.
func TestApproveAndRejectAtOnceSettleAProposalOnce(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeApprove)
	b.observe(2, 60)
	b.plan()
	id := b.decisions("proposed")[0].ID
	const people = 8
	errs := make(chan error, people)
	for i := range people {
		go func() { errs <- b.resolve(id, i%2 == 0) }()
	}
	won := 0
	for range people {
		err := <-errs
		if err == nil {
			won++
			continue
		}
		wantConflict(t, "coming second", err)
	}
	if won != 1 {
		t.Errorf("%d people settled one proposal", won)
	}
	var generation int64
	b.tx(func(tx *store.Tx) error {
		return tx.PGX().QueryRow(context.Background(), `SELECT generation FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, b.cluster).Scan(&generation)
	})
	if want := map[string]int64{"approved": 2, "rejected": 1}[b.state()]; generation != want {
		t.Errorf("the proposal is %s and the cluster at generation %d, want %d", b.state(), generation, want)
	}
}

func TestProposalsOfASilentClusterExpire(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeApprove)
	b.observe(2, 60)
	b.plan()
	expire := func() (n int) {
		b.tx(func(tx *store.Tx) error {
			ids, err := store.ExpireSilent(context.Background(), tx)
			n = len(ids)
			return err
		})
		return n
	}
	if n := expire(); n != 0 {
		t.Errorf("%d proposals expired before their time", n)
	}
	b.exec(`UPDATE cluster SET last_seen_at = last_seen_at - interval '20 minutes' WHERE tenant_id = $1 AND id = $2`) // silent since
	if n := expire(); n != 1 || b.state() != "expired" {
		t.Errorf("%d proposals of the silent cluster expired, it is %s", n, b.state())
	}
}

func TestTimesAreReadInUTC(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeApprove)
	b.observe(2, 60)
	b.plan()
	d := b.decisions()[0]
	if d.At.Location() != time.UTC || d.ExpiresAt.Location() != time.UTC {
		t.Errorf("times are read in %v and %v", d.At.Location(), d.ExpiresAt.Location())
	}
}

func (b *planBench) observeWorkload(key string, replicas int32, queue float64) {
	b.t.Helper()
	b.seq++
	b.at = b.at.Add(15 * time.Second)
	body, err := proto.Marshal(&agentv1.Observation{AtMs: b.at.UnixMilli(), Workloads: []*agentv1.WorkloadObservation{{Workload: key, Replicas: replicas, Ready: replicas,
		Signals: []*agentv1.Signal{{Name: "queue_length", Value: queue, AtMs: b.at.UnixMilli(), PodsReported: replicas}}}}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.exec(`INSERT INTO observation (tenant_id, cluster_id, at, stream, epoch, seq, body) VALUES ($1, $2, $3, 'controller', 1, $4, $5)`, b.at, b.seq, body)
	b.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3 WHERE tenant_id = $1 AND id = $2`, b.at)
}
