package jobs

import (
	"context"
	"strings"
	"testing"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/capacity/karpenter"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func TestWhatThePolicySaysOfPoolsIsToldOfEveryPoolOfOurs(t *testing.T) {
	t.Parallel()
	if capacity.PoolPrefix != karpenter.Prefix {
		t.Fatalf("pools are held against rules by the prefix %q and made with %q", capacity.PoolPrefix, karpenter.Prefix)
	}
	e := steered(t)
	e.karpenter(func(p *store.KarpenterPolicy) { p.Own = []string{"hand-made"} })
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.SetCapacityPolicy(ctx, tx, e.cluster, capacity.Policy{Pools: &capacity.PoolRules{Labels: map[string]string{"tier": "gold"}, Taints: []string{"team=ml:NoSchedule"},
			StartupTaints: []string{"node.cilium.io/agent-not-ready=true:NoExecute"}, ExpireAfterHrs: 720, TerminationSec: 1800, DriftBudget: "10%", EmptyBudget: "3"}}, 0, "test")
	})
	e.planCapacity(&CapacityPlan{})
	has := func(list []*agentv1.NodeTaint, key, value, effect string) bool {
		for _, t := range list {
			if t.GetKey() == key && t.GetValue() == value && t.GetEffect() == effect {
				return true
			}
		}
		return false
	}
	rest, planned, owned := 0, 0, 0
	for _, a := range e.pending().GetCapacity() {
		p := a.GetNodePool()
		if p == nil || a.GetAbsent() {
			continue
		}
		if !strings.HasPrefix(p.GetName(), karpenter.Prefix) {
			if owned++; p.GetExpireAfterSeconds() != 0 || len(p.GetStartupTaints())+len(p.GetTaints())+len(p.GetLabels()) != 0 {
				t.Errorf("a pool that others made is told %v", p)
			}
			continue
		}
		if a.GetReasons()[0] == "rest" {
			rest++
		} else {
			planned++
		}
		if p.GetLabels()["tier"] != "gold" || !has(p.GetTaints(), "team", "ml", "NoSchedule") || !has(p.GetStartupTaints(), "node.cilium.io/agent-not-ready", "true", "NoExecute") || p.GetExpireAfterSeconds() != 720*3600 ||
			p.GetTerminationGraceSeconds() != 1800 {
			t.Errorf("%s: %v", p.GetName(), p)
		}
		budgets := ""
		for _, b := range p.GetBudgets() {
			budgets += strings.Join(b.GetReasons(), "+") + "=" + b.GetNodes() + " "
		}
		if !strings.Contains(budgets, "Drifted=10% ") || !strings.Contains(budgets, "Empty=3 ") {
			t.Errorf("%s: budgets %s", p.GetName(), budgets)
		}
	}
	if rest == 0 || owned != 1 {
		t.Errorf("%d pools for the rest, %d of the plan, %d of others", rest, planned, owned)
	}
}

func TestWhereKarpenterCarriesNothingOutPlansCountOnNothingThatPoolsPutOnMachines(t *testing.T) {
	t.Parallel()
	e := steered(t)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.SetCapacityPolicy(ctx, tx, e.cluster, capacity.Policy{Pools: &capacity.PoolRules{Labels: map[string]string{"tier": "gold"}}}, 0, "test")
	})
	pools := func() (p *capacity.PoolRules) {
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			in, err := store.LoadCapacityInput(ctx, tx, market.Catalogue(), e.cluster)
			p = in.Policy.Pools
			return err
		})
		return p
	}
	if pools() == nil {
		t.Error("Karpenter carries plans out, and what pools put on machines is left out")
	}
	e.karpenter(func(p *store.KarpenterPolicy) { p.Enabled = false })
	if p := pools(); p != nil {
		t.Errorf("%+v", p)
	}
}
