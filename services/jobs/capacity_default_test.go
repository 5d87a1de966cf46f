package jobs

import (
	"context"
	"errors"
	"slices"
	"testing"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// beginDefault begins a rollout of the tenant's default to the clusters.
func (e *rolling) beginDefault(policy capacity.Policy, version int, clusters ...fleet.ClusterID) (id string, err error) {
	e.t.Helper()
	err = e.db.Tenant(context.Background(), e.tenant, func(tx *store.Tx) (err error) {
		r := store.CapacityRollout{Document: policy, Hourly: 4, CreatedBy: "test", Default: &version}
		r.Shares, r.ShadowSec, r.StageSec, r.CostOver = []int64{250, 1000}, 600, 600, 200
		id, err = store.CreateCapacityRollout(context.Background(), tx, r, clusters, nil)
		return err
	})
	return id, err
}

func (e *rolling) setDefault(policy capacity.Policy, version int) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.SetCapacityDefault(ctx, tx, policy, version, "test")
	})
}

func (e *rolling) own(version int, policy *capacity.Policy) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if policy == nil {
			return store.InheritCapacityPolicy(ctx, tx, e.cluster, version, "test")
		}
		return store.SetCapacityPolicy(ctx, tx, e.cluster, *policy, version, "test")
	})
}

func TestAClusterTakesTheTenantsDefaultUntilItHasItsOwnAndAgainAfterIt(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	for _, step := range []struct {
		name              string
		do                func()
		nodes             int64
		version, standard int
		inherits          bool
	}{
		{"nobody has said anything", func() {}, 0, 0, 0, true},
		{"the tenant has a default", func() { e.setDefault(capacity.Policy{MaxNodes: 30}, 0) }, 30, 0, 1, true},
		{"the cluster has its own", func() { e.own(0, &capacity.Policy{MaxNodes: 40}) }, 40, 1, 0, false},
		{"the default changes beside it", func() { e.setDefault(capacity.Policy{MaxNodes: 31}, 1) }, 40, 1, 0, false},
		{"it goes back", func() { e.own(1, nil) }, 31, 2, 2, true},
		{"and has its own again, of a version that was not there before", func() { e.own(2, &capacity.Policy{MaxNodes: 41}) }, 41, 3, 0, false},
	} {
		step.do()
		p := e.policy(e.cluster)
		if p.Policy.MaxNodes != step.nodes || p.Version != step.version || p.Default != step.standard || p.Inherits != step.inherits {
			t.Errorf("%s: %d nodes, version %d, default %d, inherits %v", step.name, p.Policy.MaxNodes, p.Version, p.Default, p.Inherits)
		}
		if in := e.load(e.cluster); in.Policy.MaxNodes != step.nodes || in.Turn.Version != step.version || in.Turn.Default != step.standard {
			t.Errorf("%s: planned under %d nodes, %+v", step.name, in.Policy.MaxNodes, in.Turn)
		}
	}
}

func TestAPlanUnderADefaultThatWasChangedIsNotKept(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	e.setDefault(capacity.Policy{MaxNodes: 30}, 0)
	in := e.load(e.cluster)
	e.setDefault(capacity.Policy{MaxNodes: 3}, 1)
	if e.save(in) {
		t.Error("a plan under the default before is kept")
	}
	if !e.save(e.load(e.cluster)) {
		t.Error("a plan under the default is not kept")
	}
}

func TestADefaultIsRolledOutOverItsClustersAndNoneGetsAPolicyOfItsOwn(t *testing.T) {
	t.Parallel()
	e := newRolling(t)
	e.setDefault(capacity.Policy{MaxNodes: 40}, 0)
	e.tick(0, e.cluster)
	id, err := e.beginDefault(capacity.Policy{MaxNodes: 50}, 1, e.cluster)
	if err != nil {
		t.Fatal(err)
	}
	if in := e.load(e.cluster); in.Policy.MaxNodes != 40 {
		t.Fatalf("the shadow is in force: %+v", in.Turn)
	}
	if r := e.until(id, inCanary, e.cluster); r.State != capacity.RolloutCanary {
		t.Fatalf("%s: %s", r.State, r.Outcome)
	}
	if in := e.load(e.cluster); in.Policy.MaxNodes != 50 || !in.Turn.Proposed || held(in) == 0 {
		t.Errorf("canary: %d nodes, %d held, %+v", in.Policy.MaxNodes, held(in), in.Turn)
	}
	if r := e.until(id, func(store.CapacityRollout) bool { return false }, e.cluster); r.State != capacity.RolloutDone {
		t.Fatalf("%s: %s", r.State, r.Outcome)
	}
	p := e.policy(e.cluster)
	if p.Policy.MaxNodes != 50 || p.Version != 0 || p.Default != 2 || !p.Inherits || p.UpdatedBy != store.CapacityRolloutActor {
		t.Errorf("%+v", p)
	}
	if got := e.words(id); !slices.Equal(got, []string{"shadow 0", "canary 0", "canary 1", "done 1"}) {
		t.Errorf("steps %v", got)
	}
}

func TestARolloutEndsWhereTheDefaultBelowItIsChangedOrTheClusterLeavesIt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rolling){
		"the default is saved":                func(e *rolling) { e.setDefault(capacity.Policy{MaxNodes: 41}, 1) },
		"the cluster has a policy of its own": func(e *rolling) { e.own(0, &capacity.Policy{MaxNodes: 42}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newRolling(t)
			e.setDefault(capacity.Policy{MaxNodes: 40}, 0)
			e.tick(0, e.cluster)
			id, err := e.beginDefault(capacity.Policy{MaxNodes: 50}, 1, e.cluster)
			if err != nil {
				t.Fatal(err)
			}
			e.until(id, inCanary, e.cluster)
			change(e)
			if in := e.load(e.cluster); in.Policy.MaxNodes == 50 {
				t.Error("the proposed default is in force still")
			}
			e.look(id)
			if r := e.get(id); r.State != capacity.RolloutSuperseded || r.Outcome != capacity.RolloutChanged {
				t.Errorf("%s: %s", r.State, r.Outcome)
			}
		})
	}
	e := newRolling(t)
	e.setDefault(capacity.Policy{MaxNodes: 40}, 0)
	var coded *fleet.Error
	if _, err := e.beginDefault(capacity.Policy{MaxNodes: 50}, 0, e.cluster); !errors.As(err, &coded) || coded.Code != fleet.CodeConflict {
		t.Errorf("a rollout of a default that was read before it was changed: %v", err)
	}
	e.own(0, &capacity.Policy{MaxNodes: 42})
	if _, err := e.beginDefault(capacity.Policy{MaxNodes: 50}, 1, e.cluster); !errors.As(err, &coded) || coded.Code != fleet.CodeConflict {
		t.Errorf("a rollout of the default to a cluster with its own: %v", err)
	}
}
