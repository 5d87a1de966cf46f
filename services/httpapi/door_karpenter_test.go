package httpapi_test

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// order writes down an order of two pools, one of which is to go, as the planner would.
func (q *quay) order() {
	q.t.Helper()
	ctx := context.Background()
	err := q.db.Tenant(ctx, q.tenant.ID, func(tx *store.Tx) error {
		p := store.KarpenterPolicy{Enabled: true, ClassGroup: "karpenter.k8s.aws", ClassKind: "EC2NodeClass", ClassName: "default"}
		if err := store.SetKarpenterPolicy(ctx, tx, q.cluster, p, "test"); err != nil {
			return err
		}
		made, why, err := store.OpenKarpenterOrder(ctx, tx, store.KarpenterOrder{Cluster: q.cluster, Kind: "plan", At: time.Now(), ExpiresAt: time.Now().Add(time.Hour), CreatedBy: "test"}, []*agentv1.CapacityAction{
			{ActionId: "pool/plimsoll-a", NodePool: &agentv1.NodePoolSpec{Name: "plimsoll-a", Weight: 99, Limits: map[string]string{"nodes": "3"}}, Reasons: []string{"plan"}},
			{ActionId: "pool/plimsoll-b", NodePool: &agentv1.NodePoolSpec{Name: "plimsoll-b"}, Absent: true, Reasons: []string{"retired"}},
		})
		if !made {
			q.t.Errorf("not written down: %s", why)
		}
		return err
	})
	if err != nil {
		q.t.Fatal(err)
	}
}

func TestOrdersForKarpenterReachTheAgentWithPlansOfReplicasAndItsAnswersAreKept(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	q.exec(`UPDATE cluster SET mode = 'enforce', last_seen_at = now(), data_at = now() WHERE id = $1`, q.cluster)
	l := q.stream(1)
	l.greeted()
	q.order()
	alone := l.next().GetPlan()
	if alone.GetGeneration() != 1 || len(alone.GetActions()) != 0 || len(alone.GetCapacity()) != 2 || alone.GetCapacity()[0].GetNodePool().GetLimits()["nodes"] != "3" || !alone.GetCapacity()[1].GetAbsent() {
		t.Fatalf("the agent gets %v", alone)
	}
	result := func(p *agentv1.Plan, id, outcome, code string, writers ...string) *agentv1.ActionResult {
		return &agentv1.ActionResult{ActionId: id, PlanId: p.GetPlanId(), Generation: p.GetGeneration(), Outcome: outcome, ErrorCode: code, AtMs: time.Now().UnixMilli(), BeforeSpec: `{"weight":1}`, AfterSpec: `{"weight":99}`, Writers: writers}
	}
	answer := func(seq uint64, results ...*agentv1.ActionResult) {
		l.report(&agentv1.Report{Seq: seq, AtMs: time.Now().UnixMilli(), Body: &agentv1.Report_Results{Results: &agentv1.ActionResults{Results: results}}})
		l.ack(seq)
	}
	answer(1, result(alone, "pool/plimsoll-b", "applied", ""))
	// A plan of replicas comes while the other pool has no answer: it carries what is left.
	head := q.arrange(2)
	q.notify(store.EventPlan, head)
	both := l.next().GetPlan()
	if both.GetPlanId() != head || both.GetGeneration() != 2 || len(both.GetActions()) != 1 || len(both.GetCapacity()) != 1 || both.GetCapacity()[0].GetActionId() != "pool/plimsoll-a" {
		t.Fatalf("with a plan of replicas the agent gets %v", both)
	}
	answer(2, result(both, "pool/plimsoll-a", "failed", "conflict", "kubectl-edit", "plimsoll"), result(both, "pool/plimsoll-nobodys", "applied", ""), result(alone, "pool/plimsoll-b", "failed", "internal"))
	q.want(`SELECT count(*) FROM karpenter_action WHERE action_id = 'pool/plimsoll-a' AND outcome = 'failed' AND code = 'conflict' AND writers = '{kubectl-edit,plimsoll}' AND before_spec <> '' AND after_spec <> ''`, 1)
	q.want(`SELECT count(*) FROM karpenter_action WHERE action_id = 'pool/plimsoll-b' AND outcome = 'applied'`, 1)
	q.want(`SELECT count(*) FROM karpenter_order WHERE state = 'partial' AND closed_at IS NOT NULL`, 1)
	q.want(`SELECT applied_generation FROM cluster`, 1)
	q.want(`SELECT count(*) FROM karpenter_object`, 1)
	// An order that is newer than the plan of replicas takes its actions along, under an id of its own.
	q.exec(`DELETE FROM karpenter_policy`)
	q.exec(`UPDATE karpenter_order SET closed_at = now() - interval '1 hour'`)
	q.order()
	newer := l.next().GetPlan()
	if newer.GetPlanId() == head || newer.GetParentId() != head || newer.GetGeneration() != 3 || len(newer.GetActions()) != 1 || len(newer.GetCapacity()) != 2 {
		t.Fatalf("a newer order gives %v", newer)
	}
}
