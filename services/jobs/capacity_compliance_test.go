package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/store"
)

func TestMachinesThatDoNotObeyThePolicyAreAlertedAboutOnce(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	now := time.Now().UTC().Truncate(time.Second)
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3, mode = 'enforce' WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, now)
	e.machine("n1", "m5.4xlarge", "us-east-1a", 16_000, 64_000, now)
	e.machine("n2", "m5.large", "us-east-1a", 2000, 8000, now)
	e.exec(`UPDATE node SET gpu_count = 1, gpu_model = 'L4', taints = '[{"k": "nvidia.com/gpu", "v": "present", "e": "NoSchedule"}]' WHERE tenant_id = $1 AND uid = 'n2'`, e.tenant)
	check := func() {
		t.Helper()
		for range 2 {
			if err := (&NodeCompliance{DB: e.db}).Work(context.Background(), &river.Job[NodeComplianceArgs]{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	set := func(p capacity.Policy, version int) {
		t.Helper()
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			return store.SetCapacityPolicy(ctx, tx, e.cluster, p, version, "test")
		})
	}
	check() // no policy asks for anything
	if _, all := e.alerts(complianceAlert); all != 0 {
		t.Errorf("%d alerts without a policy", all)
	}
	set(capacity.Policy{InstanceTypes: []string{"m5.large"}, Rules: &capacity.NodeRules{GPUTaints: []string{"nvidia.com/gpu=present:NoSchedule"}}}, 0)
	check()
	if open, all := e.alerts(complianceAlert); open != 1 || all != 1 {
		t.Errorf("%d open alerts of %d", open, all)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		c, err := store.NodeCompliance(ctx, tx, e.cluster)
		if err != nil {
			return err
		}
		if len(c.Nodes) != 2 || len(c.Nodes[0].Findings) != 1 || c.Nodes[0].Findings[0].Code != "type" || len(c.Nodes[1].Findings)+len(c.Nodes[1].Unchecked) != 0 {
			t.Errorf("%+v", c.Nodes)
		}
		return nil
	})
	if n := e.number(`SELECT count(*) FROM node WHERE tenant_id = $1 AND ended_at IS NULL AND phase = 'ready'`, e.tenant); n != 2 {
		t.Errorf("%d machines run: a finding led to an action", n)
	}
	set(capacity.Policy{}, 1)
	check()
	if open, all := e.alerts(complianceAlert); open != 0 || all != 1 {
		t.Errorf("%d open alerts of %d", open, all)
	}
}
