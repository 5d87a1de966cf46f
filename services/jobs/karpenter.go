package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/capacity/karpenter"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const (
	// karpenterRounds of search for the order of pools; the plan itself is searched for elsewhere.
	karpenterRounds = 600
	// karpenterValid is how long an order may be carried out; the next plan makes another.
	karpenterValid = 5 * time.Minute
	// noPool stands for the pool of machines that no NodePool made: the play must know their room, and their pool is nobody's to write.
	noPool = "none"
)

// karpenterOrder is what an agent shall tell Karpenter, not written down yet.
type karpenterOrder struct {
	policy  int // version that it was made under
	actions []*agentv1.CapacityAction
	bought  fleet.Money
}

// tellKarpenter makes an order of a plan, where anything may be sent at all; nil: nothing may. It is looked at again when the order is written down.
func (w *CapacityPlan) tellKarpenter(ctx context.Context, tenant fleet.TenantID, in *capacity.Input, plan *capacity.Plan) (*karpenterOrder, error) {
	var work store.KarpenterWork
	if err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		work, err = store.LoadKarpenterWork(ctx, tx, in.Cluster, false)
		return err
	}); err != nil {
		return nil, fmt.Errorf("look whether Karpenter is told: %w", err)
	}
	if work.Why != "" {
		return nil, nil
	}
	if why := karpenterHolds(in, plan); why != "" {
		w.Log.InfoContext(ctx, "Karpenter is not told", "tenant", tenant, "cluster", in.Cluster, "why", why)
		return nil, nil
	}
	k, s, err := karpenterInput(in, plan, &work)
	if err != nil {
		return nil, err
	}
	told, err := karpenter.Compose(k, s)
	if err != nil {
		return nil, fmt.Errorf("compose NodePools: %w", err)
	}
	return &karpenterOrder{policy: work.Policy.Version, actions: append(told.Actions(work.Overlays), gentleActions(in, plan, work.Warm)...), bought: told.Bought}, nil
}

// karpenterHolds is why a plan leads to no order; empty: it does. A plan that changes nothing does too: limits follow what runs.
func karpenterHolds(in *capacity.Input, plan *capacity.Plan) string {
	for _, h := range plan.Held {
		if h != capacity.HoldActions && h != capacity.HoldTime {
			return store.KarpenterHeld
		}
	}
	p := in.Policy
	priced := slices.ContainsFunc(in.Candidates, func(c capacity.Candidate) bool { return c.Price != nil && *c.Price > 0 })
	switch {
	case plan.Outcome == capacity.OutcomeHeld:
		return store.KarpenterHeld
	case plan.Unpriced > 0 && (p.HourlyMax != nil || p.DailyMax != nil):
		return store.KarpenterUnpriced
	case !priced:
		return store.KarpenterNoOffers
	}
	return ""
}

// karpenterInput puts a plan into Karpenter's terms. Under any cap nothing but what the plan buys is opened: the plan alone has counted against the caps.
func karpenterInput(in *capacity.Input, plan *capacity.Plan, work *store.KarpenterWork) (karpenter.Input, karpenter.Settings, error) {
	p := in.Policy
	s := karpenter.Settings{Class: karpenter.Class{Group: work.Policy.ClassGroup, Kind: work.Policy.ClassKind, Name: work.Policy.ClassName}, ReservationKey: work.Policy.ReservationKey,
		TaintGPUs: !p.CPUOnGPU, Rounds: karpenterRounds, Capped: p.MaxNodes > 0 || p.MaxGPUs > 0 || p.HourlyMax != nil || p.DailyMax != nil}
	if t := p.Pools; t != nil {
		s.Template = karpenter.Template{Labels: t.Labels, Taints: t.Taints, StartupTaints: t.StartupTaints, ExpireSec: t.ExpireAfterHrs * 3600, GraceSec: t.TerminationSec, DriftBudget: t.DriftBudget, EmptyBudget: t.EmptyBudget}
	}
	b, err := capacity.Buy(in, plan)
	if err != nil {
		return karpenter.Input{}, s, fmt.Errorf("put the plan into Karpenter's terms: %w", err)
	}
	k := karpenter.Input{Pods: b.Pods, Offerings: b.Offerings, New: b.New, Pools: work.Pools, Owned: work.Policy.Own, Labels: newLabels(in, b)}
	moves := map[string]bool{} // machines to let go that have pods; empty ones go by themselves
	ours := gentle(in, plan)
	for _, d := range plan.Drain {
		moves[d.Name] = len(d.Moves) > 0 && !ours[d.Name]
	}
	runs := make([]int64, len(k.Offerings))
	for _, r := range b.Running {
		pool := r.Pool
		if pool == "" {
			pool = noPool
		}
		k.Running = append(k.Running, karpenter.Machine{Name: r.Name, Pool: pool, Offering: r.Offering, Pods: r.Pods, Ends: r.Ends})
		runs[r.Offering]++
		if moves[r.Name] {
			k.OpenFor(pool)
		}
	}
	if s.Capped {
		bought := make([]bool, len(k.Offerings))
		for _, n := range k.New {
			bought[n.Offering] = true
		}
		for j := range k.Offerings {
			if !bought[j] {
				k.Offerings[j].Stock = &runs[j]
			}
		}
	}
	if !work.Policy.Prices { // Karpenter goes by the prices that it knows
		for j := range k.Offerings {
			k.Listed = append(k.Listed, k.Offerings[j].Price)
		}
	}
	return k, s, nil
}

// newLabels are what new machines of each offering shall be labelled with: the candidates come first.
func newLabels(in *capacity.Input, b *capacity.Purchase) []map[string]string {
	out := make([]map[string]string, len(b.Offerings))
	for i := range in.Candidates {
		out[i] = in.Candidates[i].Labels
	}
	of := map[string]map[string]string{}
	for i := range in.Nodes {
		of[in.Nodes[i].Name] = in.Nodes[i].Labels
	}
	for _, r := range b.Running {
		if r.Offering >= len(in.Candidates) {
			out[r.Offering] = of[r.Name]
		}
	}
	return out
}

// openOrder writes an order down if nothing has come between.
func (w *CapacityPlan) openOrder(ctx context.Context, tx *store.Tx, in *capacity.Input, told *karpenterOrder) error {
	if told == nil {
		return nil
	}
	work, err := store.LoadKarpenterWork(ctx, tx, in.Cluster, true)
	if err != nil {
		return err
	}
	if work.Why != "" || work.Policy.Version != told.policy {
		return nil // the next plan looks again
	}
	head, _, err := store.CapacityPlan(ctx, tx, in.Cluster, "")
	if err != nil {
		return err
	}
	made, why, err := store.OpenKarpenterOrder(ctx, tx, store.KarpenterOrder{Cluster: in.Cluster, Plan: &head.ID, Kind: "plan", Bought: &told.bought, At: in.Now, ExpiresAt: in.Now.Add(karpenterValid), CreatedBy: "planner"}, told.actions)
	if err != nil {
		return err
	}
	if made {
		w.Log.InfoContext(ctx, "Karpenter is told", "tenant", tx.Tenant, "cluster", in.Cluster, "actions", len(told.actions), "expected_per_hour", told.bought)
	} else if why != store.KarpenterNothing {
		w.Log.WarnContext(ctx, "Karpenter is not told", "tenant", tx.Tenant, "cluster", in.Cluster, "why", why)
	}
	return nil
}
