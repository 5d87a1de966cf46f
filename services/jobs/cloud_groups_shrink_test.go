package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/cloud/fakecloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// openYardOfFour is a ward of four machines that are nodes n0 to n3, whose group may end machines by name.
func openYardOfFour(t *testing.T, change ...func(*fakecloud.MachineGroup)) *ward {
	t.Helper()
	w := openWard(t, 5, append([]func(*fakecloud.MachineGroup){func(m *fakecloud.MachineGroup) { m.Desired, m.Running = 4, 4 }}, change...)...)
	w.group.Shrink = true
	w.tx(func(ctx context.Context, tx *store.Tx) error { return store.SaveCloudGroup(ctx, tx, w.group) })
	w.exec(`UPDATE cluster SET capabilities = '{drain}' WHERE tenant_id = $1`, w.tenant)
	for i := range 4 {
		w.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, zone, instance_type, purchase, phase, started_at, provider_id)
VALUES ($1, $2, $3, $3, 'aws', 'us-east-1', 'us-east-1a', 'g5.xlarge', 'on_demand', 'ready', now() - interval '1 hour', $4)`, w.tenant, w.cluster, fmt.Sprint("n", i), fmt.Sprintf("aws:///us-east-1a/i-%x", i))
	}
	return w
}

// lets saves a plan of now that lets nodes go.
func (w *ward) lets(held []capacity.Hold, nodes ...string) {
	w.t.Helper()
	p := &capacity.Plan{Outcome: capacity.OutcomeChange, Mode: fleet.ModeEnforce, Held: held, Add: []capacity.Group{}, Drain: []capacity.Drain{}, At: time.Now().UTC()}
	for _, n := range nodes {
		p.Drain = append(p.Drain, capacity.Drain{UID: n, Name: n, Why: capacity.WhyConsolidate})
	}
	if len(nodes) == 0 {
		p.Outcome = capacity.OutcomeNothing
	}
	if len(held) > 0 {
		p.Outcome = capacity.OutcomeHeld
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SaveCapacityPlan(ctx, tx, capacity.Input{Cluster: w.cluster, Now: time.Now().UTC(), DataAt: time.Now().UTC()}, p, time.Millisecond)
		return err
	})
}

// ordered are the drains of the newest order, those that shall not be with a dash.
func (w *ward) ordered() string {
	w.t.Helper()
	var out []string
	for _, a := range w.pending().GetCapacity() {
		text := a.GetNodeDrain().GetNode()
		if a.GetAbsent() {
			text = "-" + text
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// answered is the agent's answer to all drains of the open order: begun, and ended so.
func (w *ward) answered(ended string) {
	w.t.Helper()
	p := w.pending()
	if p == nil {
		w.t.Fatal("nothing was ordered")
	}
	w.answers(p, "applied", "")
	if ended != "" {
		w.exec(`UPDATE karpenter_action SET after_spec = '{"checkpoints":null,"ended":"`+ended+`"}', answered_at = now() - interval '10 seconds' WHERE tenant_id = $1 AND action_id LIKE 'drain/%' AND NOT absent`, w.tenant)
	}
	w.exec(`UPDATE node SET phase = 'draining' WHERE tenant_id = $1 AND 'drain/' || uid IN (SELECT action_id FROM karpenter_action WHERE tenant_id = $1 AND NOT absent)`, w.tenant)
	w.reported()
}

// emptied is a ward where n1 and n2 were drained.
func emptied(t *testing.T, change ...func(*fakecloud.MachineGroup)) *ward {
	t.Helper()
	w := openYardOfFour(t, change...)
	w.lets(nil, "n1", "n2")
	w.look()
	if got := w.ordered(); got != "n1 n2" {
		t.Fatalf("ordered %q", got)
	}
	if got := w.cloud.Ended("gpu"); len(got) != 0 {
		t.Fatalf("ended before they were drained: %v", got)
	}
	w.answered("applied")
	w.lets(nil)
	return w
}

func TestMachinesAreDrainedAndThenEndedByName(t *testing.T) {
	t.Parallel()
	w := emptied(t)
	w.expect("drained", "pending 4-2; 0 changes, size 2")
	if got := w.cloud.Ended("gpu"); !slices.Equal(got, []string{"i-1", "i-2"}) {
		t.Fatalf("ended %v", got)
	}
	w.expect("again", "joined 4-2 ended; 0 changes, size 2")
	w.lets(nil)
	w.expect("and nothing more", "joined 4-2 ended; 0 changes, size 2")
	if got := w.cloud.Ended("gpu"); len(got) != 2 {
		t.Errorf("ended %v", got)
	}
	w.undo()
	w.expect("undone by as many new ones", "pending 2-4; 1 changes, size 4")
}

func TestAMachineIsNotEndedUnlessItWasDrainedAndIsEmpty(t *testing.T) {
	t.Parallel()
	pod := `INSERT INTO pod (tenant_id, cluster_id, uid, namespace, name, node, workload_key, phase, cpu_milli, mem_mib, gpu_milli, labels, created_at)
VALUES ($1, (SELECT id FROM cluster WHERE tenant_id = $1), 'p', 'a', 'p', 'n1', 'a/Deployment/w', 'ready', 1, 1, 0, '{}', now())`
	for name, sql := range map[string]string{
		"a pod came":              pod,
		"it takes pods":           `UPDATE node SET phase = 'ready' WHERE tenant_id = $1`,
		"a drain was given up":    `UPDATE karpenter_action SET after_spec = '{"ended":"failed"}' WHERE tenant_id = $1`,
		"a drain goes on":         `UPDATE karpenter_action SET after_spec = '{"drain":"dr-1"}' WHERE tenant_id = $1`,
		"an older report":         `UPDATE cluster SET data_at = now() - interval '1 minute' WHERE tenant_id = $1`,
		"an agent says nothing":   `UPDATE cluster SET last_seen_at = now() - interval '3 minutes' WHERE tenant_id = $1`,
		"the kill switch":         `UPDATE cluster SET frozen = true WHERE tenant_id = $1`,
		"approval only":           `UPDATE cluster SET mode = 'approve' WHERE tenant_id = $1`,
		"the plan is old":         `UPDATE capacity_plan SET checked_at = checked_at - interval '3 minutes' WHERE tenant_id = $1`,
		"the group is off":        `UPDATE cloud_group SET enabled = false WHERE tenant_id = $1`,
		"it may not shrink":       `UPDATE cloud_group SET shrink = false WHERE tenant_id = $1`,
		"the policy's bound":      `UPDATE cloud_group SET min_size = 4 WHERE tenant_id = $1`,
		"what an hour allows":     `UPDATE cloud_group SET hourly = 1 WHERE tenant_id = $1`,
		"a machine of no group":   `UPDATE node SET provider_id = 'aws:///us-east-1a/i-ffff' WHERE tenant_id = $1`,
		"nobody knows what it is": `UPDATE node SET provider_id = '' WHERE tenant_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := emptied(t)
			w.exec(sql, w.tenant)
			_ = w.run()
			got := w.cloud.Ended("gpu")
			switch name {
			case "a pod came": // the other one goes
				if !slices.Equal(got, []string{"i-2"}) {
					t.Errorf("ended %v", got)
				}
			case "what an hour allows":
				if len(got) != 1 {
					t.Errorf("ended %v", got)
				}
			default:
				if len(got) != 0 {
					t.Errorf("ended %v", got)
				}
			}
		})
	}
	for name, change := range map[string]func(*fakecloud.MachineGroup){
		"its owner's bound":          func(m *fakecloud.MachineGroup) { m.Min = 4 },
		"its owner protects it":      func(m *fakecloud.MachineGroup) { m.Kept = []string{"i-1", "i-2"} },
		"a schedule of the cloud":    func(m *fakecloud.MachineGroup) { m.Schedules = []string{"morning"} },
		"machines move among zones":  func(m *fakecloud.MachineGroup) { m.Zones = []string{"us-east-1a", "us-east-1b"} },
		"a scaling policy would act": func(m *fakecloud.MachineGroup) { m.Policies = []string{"cpu"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openYardOfFour(t, change)
			w.lets(nil, "n1", "n2")
			if got := w.look(); w.ordered() != "" && name != "its owner protects it" {
				t.Errorf("what may not be ended is drained: %q, %s", w.ordered(), got)
			}
			if name == "its owner protects it" {
				w.answered("applied")
				w.lets(nil)
				w.look()
			}
			if got := w.cloud.Ended("gpu"); len(got) != 0 {
				t.Errorf("ended %v", got)
			}
		})
	}
}

func TestNothingIsDrainedForAGroupInAFreezeOrBesideGrowth(t *testing.T) {
	t.Parallel()
	w := openYardOfFour(t)
	w.lets([]capacity.Hold{capacity.HoldWindow}, "n1")
	w.look()
	if got := w.ordered(); got != "" {
		t.Errorf("in a freeze window: %q", got)
	}
	w.exec(`UPDATE cluster SET capabilities = '{}' WHERE tenant_id = $1`, w.tenant)
	w.lets(nil, "n1")
	w.look()
	if got := w.ordered(); got != "" {
		t.Errorf("an agent that lets nothing go: %q", got)
	}
	w = openYardOfFour(t)
	p := &capacity.Plan{Outcome: capacity.OutcomeChange, Mode: fleet.ModeEnforce, Add: []capacity.Group{}, At: time.Now().UTC(), Drain: []capacity.Drain{
		{UID: "n1", Name: "n1", Moves: []capacity.Move{{Pod: "a/b"}}}, {UID: "n2", Name: "n2", Moves: []capacity.Move{{Pod: "a/c", To: "n3"}}}}}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SaveCapacityPlan(ctx, tx, capacity.Input{Cluster: w.cluster, Now: time.Now().UTC(), DataAt: time.Now().UTC()}, p, time.Millisecond)
		return err
	})
	w.look()
	if got := w.ordered(); got != "n2" {
		t.Errorf("the room for its pods comes first: %q", got)
	}
	w = emptied(t)
	w.plan(1) // a machine of the group is wanted after all
	w.look()
	if got := w.cloud.Ended("gpu"); len(got) != 0 {
		t.Errorf("ended %v while one is bought", got)
	}
}

func TestMachinesThatAreNotEndedTakePodsAgain(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"nobody wants it any more": `UPDATE cloud_group SET shrink = false WHERE tenant_id = $1`,
		"the group is off":         `UPDATE cloud_group SET enabled = false WHERE tenant_id = $1`,
		"it takes too long":        `UPDATE karpenter_action SET answered_at = now() - interval '31 minutes' WHERE tenant_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := emptied(t)
			w.exec(sql, w.tenant)
			w.tx(func(ctx context.Context, tx *store.Tx) error {
				list, err := store.ClustersWithGroups(ctx, tx)
				if len(list) != 1 {
					t.Errorf("nobody looks after it: %v", list)
				}
				return err
			})
			w.look()
			if got := w.ordered(); got != "-n1 -n2" || len(w.cloud.Ended("gpu")) != 0 {
				t.Errorf("ordered %q, ended %v", got, w.cloud.Ended("gpu"))
			}
		})
	}
	w := emptied(t)
	w.cloud.Meddle("gpu", 3) // the cloud refuses: the size is another one than decided upon
	w.cloud.Fail(fakecloud.Fault{Operation: "TerminateInstanceInAutoScalingGroup", From: 1, Times: 1, How: fakecloud.Denied})
	_ = w.run()
	w.exec(`UPDATE cloud_group_action SET state = 'replaced', closed_at = now() WHERE tenant_id = $1`, w.tenant)
	w.exec(`UPDATE cloud_group_action SET asked_at = now() WHERE tenant_id = $1`, w.tenant)
	w.lets(nil)
	w.look()
	if got := w.ordered(); got != "-n1 -n2" {
		t.Errorf("after the cloud refused: %q", got)
	}
}

func TestAnEndThatIsInterruptedIsFinishedOnce(t *testing.T) {
	t.Parallel()
	w := emptied(t)
	w.cloud.Fail(fakecloud.Fault{Operation: "TerminateInstanceInAutoScalingGroup", From: 2, Times: 1, How: fakecloud.Broken})
	w.expect("broken after the first", "asked 4-2; 0 changes, size 3")
	w.expect("asked again", "pending 4-2; 0 changes, size 2")
	if got := w.cloud.Ended("gpu"); !slices.Equal(got, []string{"i-1", "i-2"}) {
		t.Errorf("ended %v", got)
	}
}

// The same story at the two other clouds.
func TestMachinesOfAzureAndGoogleAreEndedByName(t *testing.T) {
	t.Parallel()
	for name, c := range otherClouds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openYardOfFour(t, func(m *fakecloud.MachineGroup) {
				m.Cloud, m.Zone, m.Zones, m.Scaler = name, "us-east1-a", []string{"us-east1-a"}, "ON"
			})
			w.worker.Open = c.open(w)
			w.exec(`UPDATE cloud_group SET ref = $2, cloud = $3 WHERE tenant_id = $1`, w.tenant, c.ref, name)
			for i := range 4 {
				w.exec(`UPDATE node SET cloud = $2, provider_id = $3 WHERE tenant_id = $1 AND uid = $4`, w.tenant, name, fmt.Sprintf(c.provider, i), fmt.Sprint("n", i))
			}
			w.lets(nil, "n1", "n2")
			w.look()
			if got := w.ordered(); got != "" {
				t.Fatalf("drained although the cloud's own scaling would bring them back: %q", got)
			}
			w.exec(`UPDATE cloud_group SET own = true WHERE tenant_id = $1`, w.tenant)
			w.lets(nil, "n1", "n2")
			w.look()
			if got := w.ordered(); got != "n1 n2" || w.cloud.Scaling("gpu") != "OFF " {
				t.Fatalf("ordered %q, the cloud's own scaling is %q", got, w.cloud.Scaling("gpu"))
			}
			w.answered("applied")
			w.lets(nil)
			w.expect("drained", "pending 4-2; 0 changes, size 2")
			if got, all := w.cloud.Ended("gpu"), fmt.Sprint(w.cloud.Machines("gpu")); len(got) != 2 || strings.Contains(all, got[0]+" ") {
				t.Errorf("ended %v, left %s", got, all)
			}
			w.expect("and nothing more", "joined 4-2 ended; 0 changes, size 2")
			w.exec(`UPDATE cloud_group SET own = false WHERE tenant_id = $1`, w.tenant)
			w.look()
			if got := w.cloud.Scaling("gpu"); got != "ON " {
				t.Errorf("the cloud's own scaling is %q", got)
			}
		})
	}
}
