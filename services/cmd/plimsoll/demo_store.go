package main

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/replay"
	"plimsoll.dev/services/store"
)

// demoStore is what the demo needs of the database beside the agent's door: policies, and the plans that its own history made.
type demoStore interface {
	// DataAt is the newest data of the demo cluster; zero: none yet.
	DataAt(ctx context.Context) (time.Time, error)
	// Bind saves the given policies (by workload key) where a workload has none yet.
	Bind(ctx context.Context, documents map[string]string) error
	// Load reads what a decision is made from: ids, policies, memory, mode, and what replicas cost.
	Load(ctx context.Context) (*store.PlanInput, error)
	// SaveHistory stores plans in the order in which they were made, as the next generations.
	SaveHistory(ctx context.Context, made []replayedPlan) error
	// SaveMemory keeps what the planner goes on from.
	SaveMemory(ctx context.Context, memory map[fleet.WorkloadID]optimizer.Memory, learned []store.Learned) error
}

// replayedPlan is a plan of history with the decisions in it that are worth a row.
type replayedPlan struct {
	input optimizer.Input
	plan  optimizer.Plan
	news  []optimizer.Decision
}

// pgDemoStore is the demoStore on Postgres.
type pgDemoStore struct {
	db      *store.DB
	tenant  fleet.TenantID
	cluster fleet.ClusterID
	prices  *market.PriceBook
}

func (s pgDemoStore) DataAt(ctx context.Context) (at time.Time, err error) {
	err = s.db.Tenant(ctx, s.tenant, func(tx *store.Tx) error {
		c, err := store.ClusterByID(ctx, tx, s.cluster)
		if err == nil && c.DataAt != nil {
			at = *c.DataAt
		}
		return err
	})
	return at, err
}

func (s pgDemoStore) Bind(ctx context.Context, documents map[string]string) error {
	return s.db.Tenant(ctx, s.tenant, func(tx *store.Tx) error {
		rows, err := store.Workloads(ctx, tx, store.WorkloadFilter{Cluster: s.cluster, Limit: replay.MaxDemoWorkloads})
		if err != nil {
			return err
		}
		for _, w := range rows {
			document, ok := documents[w.Key]
			if !ok || w.PolicyVersion > 0 {
				continue
			}
			policy, findings := optimizer.ParsePolicy([]byte(document))
			for _, f := range findings {
				if f.Severity == optimizer.SeverityError {
					return fmt.Errorf("policy of %s: %s: %s", w.Key, f.Field, f.Message)
				}
			}
			if _, err := store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: w.ID, Document: document, Mode: policy.Mode, CreatedBy: "demo"}, 0); err != nil {
				return fmt.Errorf("policy of %s: %w", w.Key, err)
			}
		}
		return nil
	})
}

func (s pgDemoStore) Load(ctx context.Context) (in *store.PlanInput, err error) {
	err = s.db.Tenant(ctx, s.tenant, func(tx *store.Tx) error {
		if in, err = store.LoadPlanInput(ctx, tx, s.cluster); err == nil && in == nil {
			err = fleet.Errorf(fleet.CodeNotFound, "the demo cluster has not reported yet")
		}
		if err != nil {
			return err
		}
		return store.PricePlan(ctx, tx, s.prices, in)
	})
	return in, err
}

// SaveHistory numbers the plans anew under the cluster's lock, in the plan and in what it was made from alike: the planner may have
// made one meanwhile.
func (s pgDemoStore) SaveHistory(ctx context.Context, made []replayedPlan) error {
	return s.db.Tenant(ctx, s.tenant, func(tx *store.Tx) error {
		head, err := store.LoadPlanInput(ctx, tx, s.cluster)
		if err != nil {
			return err
		}
		generation, parent := head.Input.Snapshot.Generation, head.Input.Snapshot.Parent
		for _, m := range made {
			m.input.Snapshot.Generation, m.input.Snapshot.Parent = generation, parent
			generation++
			m.plan.Generation, m.plan.Parent = generation, parent
			if parent, err = store.SavePlan(ctx, tx, m.plan, m.news, m.input, store.SaveOptions{History: true}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s pgDemoStore) SaveMemory(ctx context.Context, memory map[fleet.WorkloadID]optimizer.Memory, learned []store.Learned) error {
	return s.db.Tenant(ctx, s.tenant, func(tx *store.Tx) error {
		if err := store.SaveMemory(ctx, tx, memory); err != nil {
			return err
		}
		return store.SaveLearned(ctx, tx, learned)
	})
}

// demoPrices prices a replica as the planner does, at the moment when the history began.
func demoPrices(in *store.PlanInput) func(fleet.WorkloadState) *fleet.Money {
	known := map[fleet.WorkloadID]*fleet.Money{}
	for _, w := range in.Input.Snapshot.Workloads {
		known[w.Workload.ID] = w.ReplicaHour
	}
	return func(st fleet.WorkloadState) *fleet.Money { return known[st.Workload.ID] }
}
