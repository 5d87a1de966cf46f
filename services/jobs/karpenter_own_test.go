package jobs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func toldOf(p *agentv1.Plan, id string) *agentv1.CapacityAction {
	for _, a := range p.GetCapacity() {
		if a.GetActionId() == id {
			return a
		}
	}
	return nil
}

func TestAPoolOfOthersIsTakenOverByThePlanAndGivenBackWhenItIsNamedNoMore(t *testing.T) {
	t.Parallel()
	e := steered(t)
	e.karpenter(func(p *store.KarpenterPolicy) { p.Own = []string{"general"} })
	e.planCapacity(&CapacityPlan{})
	a := toldOf(e.pending(), "pool/general")
	if a == nil || a.GetAbsent() || a.GetNodePool().GetWeight() != 1 || len(a.GetNodePool().GetRequirements())+len(a.GetNodePool().GetLimits()) != 0 || !slices.Equal(a.GetReasons(), []string{"owned"}) {
		t.Fatalf("told %v", a)
	}
	e.answers(e.pending(), "applied", "")
	e.karpenter(func(p *store.KarpenterPolicy) { p.Own = nil })
	e.reported()
	e.planCapacity(&CapacityPlan{})
	if a = toldOf(e.pending(), "pool/general"); a == nil || !a.GetAbsent() {
		t.Fatalf("it is not given back: %v", e.pending())
	}
	e.answers(e.pending(), "applied", "")
	if n := e.number(`SELECT count(*) FROM karpenter_object WHERE tenant_id = $1 AND key = 'pool/general'`, e.tenant); n != 0 {
		t.Error("it is still taken for ours")
	}
	for name, own := range map[string][]string{"no name": {"Not A Name"}, "ours already": {"plimsoll-rest"}, "twice": {"a", "a"}} {
		err := (&store.KarpenterPolicy{ClassGroup: "g", ClassKind: "K", ClassName: "n", Own: own}).Validate()
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestReservedMachinesAreToldToKarpenterByTheirLabel(t *testing.T) {
	t.Parallel()
	e := steered(t)
	account := "0190b0e0-0000-7000-8000-0000000000a1"
	free := int64(2)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if err := store.InsertCloudAccount(ctx, tx, store.CloudAccount{ID: account, Cloud: fleet.CloudAWS, Name: "reserved", Regions: []string{"us-east-1"}, CreatedBy: "test"}, []byte("sealed")); err != nil {
			return err
		}
		return store.SaveAccountStock(ctx, tx, account, []store.CapacityStock{{AccountID: account, Ref: "cr-7", Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "c6a.4xlarge",
			Total: 2, Available: &free, State: "active"}}, nil)
	})
	e.planCapacity(&CapacityPlan{})
	named := func(p *agentv1.Plan) bool {
		return slices.ContainsFunc(p.GetCapacity(), func(a *agentv1.CapacityAction) bool {
			return slices.ContainsFunc(a.GetNodePool().GetRequirements(), func(r *agentv1.NodeRequirement) bool {
				return r.GetKey() == "example.test/reservation" && slices.Equal(r.GetValues(), []string{"cr-7"})
			})
		})
	}
	if named(e.pending()) {
		t.Fatal("a reservation is told, and nobody said how")
	}
	e.answers(e.pending(), "applied", "")
	e.karpenter(func(p *store.KarpenterPolicy) { p.ReservationKey = "example.test/reservation" })
	e.reported()
	_, plan := e.planCapacity(&CapacityPlan{})
	if len(plan.Add) == 0 || slices.ContainsFunc(plan.Add, func(g capacity.Group) bool { return g.Offering.Purchase != fleet.PurchaseReserved }) {
		t.Fatalf("what is paid for is not used first: %+v", plan.Add)
	}
	if !named(e.pending()) {
		t.Errorf("told %v", e.pending().GetCapacity())
	}
}

func TestHundredsOfAnswersAreRecordedTogether(t *testing.T) {
	t.Parallel()
	e := steered(t)
	const n = 500
	var actions []*agentv1.CapacityAction
	var results []store.ActionResult
	for i := range n {
		id := fmt.Sprintf("pool/plimsoll-%03d", i)
		actions = append(actions, &agentv1.CapacityAction{ActionId: id, Absent: i%2 == 1, NodePool: &agentv1.NodePoolSpec{Name: id[5:]}})
		for k, outcome := range []string{"applied", "failed"} { // the second is late news of the same
			results = append(results, store.ActionResult{Decision: fleet.DecisionID(id), Outcome: outcome, Generation: 1, Writers: []string{"a, \"b\"", "plimsoll"}, Detail: fmt.Sprint(k), At: time.Now().UTC()})
		}
	}
	results = append(results, store.ActionResult{Decision: "pool/never-told", Outcome: "applied", Generation: 1, At: time.Now()}, store.ActionResult{Decision: "pool/plimsoll-000", Outcome: "unheard of", Generation: 1, At: time.Now()})
	results[6].Outcome, results[6].Code = "refused", "precondition" // of the fourth action
	apply := func() (orders []string) {
		begin := time.Now()
		e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			orders, err = store.ApplyCapacityResults(ctx, tx, e.cluster, results)
			return err
		})
		t.Logf("%d results in %s", len(results), time.Since(begin))
		return orders
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		made, why, err := store.OpenKarpenterOrder(ctx, tx, store.KarpenterOrder{Cluster: e.cluster, Kind: "plan", At: time.Now(), ExpiresAt: time.Now().Add(time.Hour), CreatedBy: "test"}, actions)
		if !made {
			t.Fatal(why)
		}
		return err
	})
	if got := apply(); len(got) != 1 {
		t.Fatalf("changed %v", got)
	}
	if got := apply(); len(got) != 0 {
		t.Errorf("the same again changed %v", got)
	}
	first := e.orders()[0]
	var list []store.KarpenterAction
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = store.KarpenterActions(ctx, tx, first.ID)
		return err
	})
	if first.State != "partial" || first.ClosedAt == nil || len(list) != n {
		t.Fatalf("%+v, %d actions", first, len(list))
	}
	for i, a := range list {
		want := "applied"
		if i == 3 {
			want = "refused"
		}
		if *a.Outcome != want || a.Detail != "0" || !slices.Equal(a.Writers, []string{"a, \"b\"", "plimsoll"}) {
			t.Fatalf("%d: %+v", i, a)
		}
	}
	if left := e.number(`SELECT count(*) FROM karpenter_object WHERE tenant_id = $1`, e.tenant); left != n/2 {
		t.Errorf("%d objects are known", left)
	}
	if g := e.number(`SELECT applied_generation FROM cluster WHERE tenant_id = $1`, e.tenant); g != 1 {
		t.Errorf("applied generation %d", g)
	}
}
