package jobs

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// steered is an estate whose cluster is told to Karpenter, with one machine and a pod that waits.
func steered(t *testing.T) *estate {
	t.Helper()
	e := newEstate(t)
	e.exec(`UPDATE cluster SET mode = 'enforce', capabilities = '{karpenter}' WHERE tenant_id = $1`, e.tenant)
	e.reported()
	e.machine("n1", "c6a.4xlarge", "us-east-1a", 15_900, 30_000, time.Now().UTC())
	e.replica("api-1", "n1", "ready", 12_000, 24_000, 0, time.Now().UTC())
	e.replica("big-1", "", "pending", 14_000, 24_000, 0, time.Now().UTC())
	e.karpenter(func(p *store.KarpenterPolicy) { p.Enabled = true })
	return e
}

// reported is a report now.
func (e *estate) reported() {
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = now() WHERE tenant_id = $1`, e.tenant)
}

func (e *estate) karpenter(change func(*store.KarpenterPolicy)) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		p, err := store.KarpenterPolicyOf(ctx, tx, e.cluster)
		if err != nil {
			return err
		}
		p.ClassGroup, p.ClassKind, p.ClassName = "karpenter.k8s.aws", "EC2NodeClass", "default"
		change(&p)
		return store.SetKarpenterPolicy(ctx, tx, e.cluster, p, "test")
	})
}

func (e *estate) orders() (all []store.KarpenterOrder) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		all, err = store.KarpenterOrders(ctx, tx, e.cluster, 50)
		return err
	})
	return all
}

func (e *estate) pending() (p *agentv1.Plan) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = store.PendingPlan(ctx, tx, e.cluster)
		return err
	})
	return p
}

// answers says the same of all actions of a plan.
func (e *estate) answers(p *agentv1.Plan, outcome, code string) (orders []string) {
	e.t.Helper()
	var list []store.ActionResult
	for _, a := range p.GetCapacity() {
		r := store.ActionResult{Decision: fleet.DecisionID(a.GetActionId()), Outcome: outcome, Code: code, Generation: int64(p.GetGeneration()), BeforeSpec: "", AfterSpec: `{"weight":1}`, At: time.Now().UTC()}
		if code == "conflict" {
			r.Writers = []string{"kubectl-edit", "plimsoll"}
		}
		list = append(list, r)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		orders, err = store.ApplyCapacityResults(ctx, tx, e.cluster, list)
		return err
	})
	return orders
}

func TestACapacityPlanIsToldToKarpenterOnceAndAnswered(t *testing.T) {
	t.Parallel()
	e := steered(t)
	head, plan := e.planCapacity(&CapacityPlan{})
	all := e.orders()
	if plan.Outcome != capacity.OutcomeChange || len(all) != 1 || all[0].State != "open" || all[0].Generation != 1 || all[0].Plan == nil || *all[0].Plan != head.ID {
		t.Fatalf("%s, orders %+v", plan.Outcome, all)
	}
	p := e.pending()
	if p.GetPlanId() != all[0].ID || p.GetGeneration() != 1 || len(p.GetActions()) != 0 {
		t.Fatalf("pending %v", p)
	}
	buys, rest := false, false
	for _, a := range p.GetCapacity() {
		np := a.GetNodePool()
		buys = buys || np.GetLimits()["nodes"] == "1" && slices.Equal(a.GetReasons(), []string{"plan"}) && np.GetClassName() == "default"
		rest = rest || np.GetName() == "plimsoll-rest" && len(np.GetLimits()) == 0
		if a.GetNodeOverlay() != nil {
			t.Errorf("prices are told, and nobody asked for it: %v", a)
		}
	}
	if !buys || !rest {
		t.Fatalf("no pool buys the machine, or none is for the rest: %v", p.GetCapacity())
	}
	e.reported()
	e.planCapacity(&CapacityPlan{})
	if again := e.pending(); len(e.orders()) != 1 || again.GetPlanId() != p.GetPlanId() || len(again.GetCapacity()) != len(p.GetCapacity()) {
		t.Fatalf("told twice, or no more: %v", again)
	}
	if got := e.answers(p, "applied", ""); len(got) != 1 {
		t.Fatalf("the answers changed %v", got)
	}
	if got := e.answers(p, "failed", "internal"); len(got) != 0 {
		t.Fatalf("answers that come twice changed %v", got)
	}
	all = e.orders()
	if all[0].State != "applied" || e.pending() != nil || e.number(`SELECT applied_generation FROM cluster WHERE tenant_id = $1`, e.tenant) != 1 {
		t.Fatalf("%+v, pending %v", all[0], e.pending())
	}
	e.reported()
	e.planCapacity(&CapacityPlan{})
	if all = e.orders(); len(all) != 1 {
		t.Fatalf("what Karpenter was told already is told again: %+v", all)
	}
	e.exec(`UPDATE karpenter_order SET closed_at = now() - interval '31 minutes' WHERE tenant_id = $1`, e.tenant)
	e.reported()
	e.planCapacity(&CapacityPlan{})
	if all = e.orders(); len(all) != 2 || all[0].Generation != 2 {
		t.Fatalf("what somebody may have deleted since is never told again: %+v", all)
	}
	e.answers(e.pending(), "already", "")
	// The pod ended: the pool for its machine goes.
	e.exec(`UPDATE pod SET ended_at = now(), phase = 'ended' WHERE tenant_id = $1 AND name = 'big-1'`, e.tenant)
	e.reported()
	e.planCapacity(&CapacityPlan{})
	all = e.orders()
	p = e.pending()
	retired := slices.ContainsFunc(p.GetCapacity(), func(a *agentv1.CapacityAction) bool { return a.GetAbsent() })
	if len(all) != 3 || p.GetGeneration() != 3 || !retired {
		t.Fatalf("a pool that nothing is wanted of stays: %+v, %v", all, p)
	}
	objects := e.number(`SELECT count(*) FROM karpenter_object WHERE tenant_id = $1`, e.tenant)
	e.answers(p, "applied", "")
	if n := e.number(`SELECT count(*) FROM karpenter_object WHERE tenant_id = $1`, e.tenant); n >= objects {
		t.Errorf("%d objects of %d are known after one went", n, objects)
	}
}

func TestAConflictWithAnotherWriterIsKeptAndLeftForAWhile(t *testing.T) {
	t.Parallel()
	e := steered(t)
	e.planCapacity(&CapacityPlan{})
	e.answers(e.pending(), "failed", "conflict")
	first := e.orders()[0]
	var actions []store.KarpenterAction
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		actions, err = store.KarpenterActions(ctx, tx, first.ID)
		return err
	})
	if a := actions[0]; first.State != "refused" || *a.Outcome != "failed" || a.Code != "conflict" || !slices.Equal(a.Writers, []string{"kubectl-edit", "plimsoll"}) || a.After == "" {
		t.Fatalf("%+v %+v", first, a)
	}
	for _, c := range []struct {
		ago  string
		want int
	}{{"2 minutes", 1}, {"11 minutes", 2}} {
		e.exec(`UPDATE karpenter_order SET closed_at = now() - $2::interval WHERE tenant_id = $1`, e.tenant, c.ago)
		e.reported()
		e.planCapacity(&CapacityPlan{})
		if n := len(e.orders()); n != c.want {
			t.Errorf("%d orders %s after the conflict, want %d", n, c.ago, c.want)
		}
	}
}

func TestNothingIsToldToKarpenterWhereNothingMayBe(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(e *estate){
		"off":                  func(e *estate) { e.karpenter(func(p *store.KarpenterPolicy) { p.Enabled = false }) },
		"a cluster in approve": func(e *estate) { e.exec(`UPDATE cluster SET mode = 'approve' WHERE tenant_id = $1`, e.tenant) },
		"an agent in recommend": func(e *estate) {
			e.exec(`UPDATE cluster SET agent_limits = '{"mode": "recommend"}' WHERE tenant_id = $1`, e.tenant)
		},
		"frozen": func(e *estate) { e.exec(`UPDATE cluster SET frozen = true WHERE tenant_id = $1`, e.tenant) },
		"frozen by the agent": func(e *estate) {
			e.exec(`UPDATE cluster SET agent_limits = '{"frozen": true}' WHERE tenant_id = $1`, e.tenant)
		},
		"an agent without Karpenter": func(e *estate) { e.exec(`UPDATE cluster SET capabilities = '{}' WHERE tenant_id = $1`, e.tenant) },
		"a silent agent": func(e *estate) {
			e.exec(`UPDATE cluster SET last_seen_at = now() - interval '3 minutes' WHERE tenant_id = $1`, e.tenant)
		},
		"an old inventory": func(e *estate) {
			e.exec(`UPDATE cluster SET data_at = now() - interval '1 hour', last_seen_at = now() - interval '1 hour' WHERE tenant_id = $1`, e.tenant)
		},
		"no price under a cap": func(e *estate) {
			e.exec(`UPDATE node SET instance_type = 'unknown.type' WHERE tenant_id = $1`, e.tenant)
			e.tx(func(ctx context.Context, tx *store.Tx) error {
				most := fleet.Money(1000 * 1e9)
				return store.SetCapacityPolicy(ctx, tx, e.cluster, capacity.Policy{HourlyMax: &most}, 0, "test")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := steered(t)
			set(e)
			e.planCapacity(&CapacityPlan{})
			if all := e.orders(); len(all) != 0 {
				t.Errorf("%+v", all)
			}
		})
	}
}

func TestAnOpenOrderIsTakenBackByFreezeModeTimeAndSwitch(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(e *estate){
		"frozen":  func(e *estate) { e.exec(`UPDATE cluster SET frozen = true WHERE tenant_id = $1`, e.tenant) },
		"approve": func(e *estate) { e.exec(`UPDATE cluster SET mode = 'approve' WHERE tenant_id = $1`, e.tenant) },
		"its time": func(e *estate) {
			e.exec(`UPDATE cluster SET data_at = data_at + interval '6 minutes' WHERE tenant_id = $1`, e.tenant)
		},
		"off": func(e *estate) { e.karpenter(func(p *store.KarpenterPolicy) { p.Enabled = false }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := steered(t)
			e.planCapacity(&CapacityPlan{})
			before := e.pending()
			set(e)
			if p := e.pending(); before == nil || p != nil {
				t.Errorf("before %v, after %v", before, p)
			}
			if got := e.answers(before, "applied", ""); len(got) != 1 { // the agent had it already
				t.Errorf("what happened all the same is not recorded: %v", got)
			}
		})
	}
}

func TestUnderACapNoPoolIsOpenedBeyondThePlan(t *testing.T) {
	t.Parallel()
	e := steered(t)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.SetCapacityPolicy(ctx, tx, e.cluster, capacity.Policy{MaxNodes: 2}, 0, "test")
	})
	_, plan := e.planCapacity(&CapacityPlan{})
	opened := 0
	for _, a := range e.pending().GetCapacity() {
		switch n := a.GetNodePool().GetLimits()["nodes"]; n {
		case "":
			t.Errorf("%s has no limit", a.GetActionId())
		case "0":
		case "1":
			opened++
		default:
			t.Errorf("%s: %s machines", a.GetActionId(), n)
		}
	}
	if opened != 1 || len(plan.Add) != 1 || plan.Add[0].Count != 1 {
		t.Errorf("%d machines for a plan of %+v", opened, plan.Add)
	}
}

func TestKarpenterAndGroupsOfCloudsExcludeEachOther(t *testing.T) {
	t.Parallel()
	w := openWard(t, 10)
	policy := store.KarpenterPolicy{Enabled: true, ClassGroup: "karpenter.k8s.aws", ClassKind: "EC2NodeClass", ClassName: "default"}
	refused := func(what string, fn func(ctx context.Context, tx *store.Tx) error) {
		t.Helper()
		ctx := context.Background()
		err := w.db.Tenant(ctx, w.tenant, func(tx *store.Tx) error { return fn(ctx, tx) })
		if err == nil || !strings.Contains(err.Error(), "first") {
			t.Errorf("%s: %v", what, err)
		}
	}
	on := func(ctx context.Context, tx *store.Tx) error {
		return store.SetKarpenterPolicy(ctx, tx, w.cluster, policy, "test")
	}
	refused("Karpenter beside a group", on)
	w.plan(1)
	w.look()
	w.group.Enabled = false
	w.tx(func(ctx context.Context, tx *store.Tx) error { return store.SaveCloudGroup(ctx, tx, w.group) })
	refused("Karpenter beside a group's open action", on)
	w.exec(`UPDATE cloud_group_action SET closed_at = now() WHERE tenant_id = $1`, w.tenant)
	w.tx(on)
	w.group.Enabled, w.group.ID, w.group.Ref = true, uuid.NewString(), "us-east-1/other"
	refused("a group beside Karpenter", func(ctx context.Context, tx *store.Tx) error { return store.SaveCloudGroup(ctx, tx, w.group) })
}
