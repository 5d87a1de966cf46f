package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// amounts are what each closed hour costs, of all clusters, by hours after start.
func (e *estate) amounts(hours int) (all []string) {
	e.t.Helper()
	for h := range hours {
		all = append(all, e.closed(start.Add(time.Duration(h)*time.Hour), "").String())
	}
	return all
}

// The end of a machine that is told hours late takes its cost out of every hour after it, not only out of the one in which it ended.
func TestALateEndReachesAllHoursAfterIt(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	controller := e.agent("controller")
	n := &agentv1.Node{Uid: "n1", Name: "n1", Cloud: "aws", Region: "us-east-1", InstanceType: "g5.xlarge", Purchase: "on_demand", Phase: "ready", StartedMs: at(0).UnixMilli(), ReadyMs: at(0).UnixMilli(), CpuMilli: 4000, MemMib: 16384, GpuModel: "A10G", GpuCount: 1}
	p := &agentv1.Pod{Uid: "p1", Name: "p1", Namespace: "chat", Node: "n1", Phase: "ready", CreatedMs: at(0).UnixMilli(), StartedMs: at(0).UnixMilli(), CpuMilli: 4000, MemMib: 16384, GpuMilli: 1000}
	controller.inventory(at(1), &agentv1.Inventory{Snapshot: true, Nodes: []*agentv1.Node{n}, Pods: []*agentv1.Pod{p}})
	controller.inventory(at(5*60+15), &agentv1.Inventory{})
	e.catchUp()
	if d := cmp.Diff([]string{"1.006", "1.006", "1.006", "1.006", "1.006"}, e.amounts(5)); d != "" {
		t.Fatalf("as it was told (-want +got):\n%s", d)
	}
	p.EndedMs, p.Phase = at(60).UnixMilli(), "ended"
	controller.inventory(at(5*60+16), &agentv1.Inventory{Pods: []*agentv1.Pod{p}})
	e.catchUp()
	if idle := e.closed(at(180), "idle"); idle != usd(t, "1.006") {
		t.Errorf("hours after the pod's end have %s of idle, want all of the machine", idle)
	}
	n.EndedMs, n.Phase = at(90).UnixMilli(), "terminated"
	controller.inventory(at(5*60+17), &agentv1.Inventory{Nodes: []*agentv1.Node{n}})
	e.catchUp()
	if d := cmp.Diff([]string{"1.006", "0.503", "0.00", "0.00", "0.00"}, e.amounts(5)); d != "" {
		t.Errorf("the machine ended at half past one (-want +got):\n%s", d)
	}
	// It had not ended after all.
	n.EndedMs, n.Phase = 0, "ready"
	controller.inventory(at(5*60+18), &agentv1.Inventory{Nodes: []*agentv1.Node{n}})
	e.catchUp()
	if d := cmp.Diff([]string{"1.006", "1.006", "1.006", "1.006", "1.006"}, e.amounts(5)); d != "" {
		t.Errorf("the machine is still there (-want +got):\n%s", d)
	}
}

// A machine that was not ready for a minute has not been booting all its life: what it left idle before stays idle.
func TestAMachineThatWasNotReadyForAWhileIsNoNewOne(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	controller := e.agent("controller")
	n := &agentv1.Node{Uid: "n1", Name: "n1", Cloud: "aws", Region: "us-east-1", InstanceType: "g5.xlarge", Purchase: "on_demand", Phase: "ready", StartedMs: at(0).UnixMilli(), ReadyMs: at(6).UnixMilli(), CpuMilli: 4000, MemMib: 16384, GpuModel: "A10G", GpuCount: 1}
	controller.inventory(at(7), &agentv1.Inventory{Snapshot: true, Nodes: []*agentv1.Node{n}})
	n.Phase, n.ReadyMs = "not_ready", 0
	controller.inventory(at(150), &agentv1.Inventory{Nodes: []*agentv1.Node{n}})
	n.Phase, n.ReadyMs = "ready", at(151).UnixMilli()
	controller.inventory(at(151), &agentv1.Inventory{Nodes: []*agentv1.Node{n}})
	// Something else has the hours costed again.
	controller.inventory(at(3*60+15), &agentv1.Inventory{Pods: []*agentv1.Pod{{Uid: "late", Name: "late", Namespace: "chat", Node: "n1", Phase: "ready", CreatedMs: at(60).UnixMilli(), StartedMs: at(60).UnixMilli()}}})
	e.catchUp()
	e.wantClosed("the first hour boots for six minutes", start, "overhead", "0.1006")
	e.wantClosed("the hour in which it was not ready", at(120), "overhead", "0")
	e.wantClosed("the hour in which it was not ready", at(120), "idle", "1.006")
}

// A machine that lived for seconds is billed for a minute: across the end of an hour, under a commitment, and when its hours are costed again.
func TestTheLeastMinuteIsBilledOnceAndStays(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.ImportCommitments(ctx, tx, []commitment.Commitment{{Ref: "sp", Kind: commitment.KindComputeSP, Spend: usd(t, "0.60"), DiscountPPM: 500_000,
			Term: fleet.Interval{From: start.AddDate(0, -1, 0), To: start.AddDate(1, 0, 0)}}}, "api", "test")
		return err
	})
	e.node("covered", "g6.12xlarge", fleet.PurchaseOnDemand, start.Add(10*time.Minute))         // 4.6016 x 1/60, half off by the plan
	e.node("border", "g5.xlarge", fleet.PurchaseSpot, start.Add(59*time.Minute+50*time.Second)) // 0.41246 x 1/60
	e.exec(`UPDATE node SET ended_at = started_at + interval '5 seconds' WHERE tenant_id = $1`, e.tenant)
	e.dataAt(start.Add(2*time.Hour + 30*time.Minute))
	e.catchUp()
	check := func(what string) {
		t.Helper()
		e.wantClosed(what, start, "commitment_unused", "0.561653333")
		e.wantClosed(what, start, "", "0.601145722")                // the plan, and ten seconds of Spot
		e.wantClosed(what, start.Add(time.Hour), "", "0.605728611") // the plan, and fifty seconds
	}
	check("closed")
	e.pod("late", "covered", "", 500, start.Add(10*time.Minute))
	e.pod("late2", "border", "", 500, start.Add(50*time.Minute))
	e.catchUp()
	check("costed again")
	if n := e.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND cluster_id = $2 AND version > 1`, e.tenant, e.cluster); n != 2 {
		t.Errorf("%d hours were costed again, want 2", n)
	}
}

// A price that a tenant names weeks later reaches back to the hours that had none, and to no other.
func TestAPriceNamedLateReachesTheHoursWithoutOne(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start)
	e.node("odd", "x99.mystery", fleet.PurchaseOnDemand, start.Add(3*time.Hour))
	e.node("flash", "x99.mystery", fleet.PurchaseOnDemand, start.Add(time.Hour))
	e.exec(`UPDATE node SET ended_at = started_at + CASE uid WHEN 'odd' THEN interval '2 hours' ELSE interval '700 milliseconds' END WHERE tenant_id = $1 AND uid <> 'n1'`, e.tenant)
	e.dataAt(start.Add(100 * time.Hour))
	e.catchUp()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		for name, hour := range map[string]string{"x99.mystery": "3.60", "g5.xlarge": "99"} {
			if err := store.SetTenantPrice(ctx, tx, store.TenantPrice{Cloud: "aws", InstanceType: name, Purchase: fleet.PurchaseOnDemand, Hour: usd(t, hour), ValidFrom: start.Add(-time.Hour)}); err != nil {
				return err
			}
		}
		return nil
	})
	e.catchUp()
	if d := cmp.Diff([]string{"1.006", "1.066", "1.006", "4.606", "4.606", "1.006"}, e.amounts(6)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What a kubelet or the controller says late of a pod that has ended, or of its trouble, costs the hours again that it is about.
func TestLateWordsAboutAPodThatEndedCount(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	controller, kubelet, other := e.agent("controller"), e.agent("node/n1"), e.agent("node/n2")
	n := &agentv1.Node{Uid: "n1", Name: "n1", Cloud: "aws", Region: "us-east-1", InstanceType: "p5.4xlarge", Purchase: "on_demand", Phase: "ready", StartedMs: at(0).UnixMilli(), ReadyMs: at(0).UnixMilli(), GpuModel: "H100", GpuCount: 1,
		Gpus: []*agentv1.GPUGroup{{Mode: "mig", Count: 1, Instances: []*agentv1.GPUInstance{{Profile: "1g.10gb", Count: 7}}}}}
	p := &agentv1.Pod{Uid: "p1", Name: "p1", Namespace: "chat", Node: "n1", Phase: "ready", CreatedMs: at(0).UnixMilli(), StartedMs: at(0).UnixMilli()}
	controller.inventory(at(1), &agentv1.Inventory{Snapshot: true, Nodes: []*agentv1.Node{n}, Pods: []*agentv1.Pod{p}})
	e.setPrice("p5.4xlarge", "7")
	broken := &agentv1.Pod{Uid: "p1", Name: "p1", Namespace: "chat", Node: "n1", Phase: "loading", Reason: "CrashLoopBackOff", CreatedMs: at(0).UnixMilli(), StartedMs: at(0).UnixMilli()}
	ended := &agentv1.Pod{Uid: "p1", Name: "p1", Namespace: "chat", Node: "n1", Phase: "ended", CreatedMs: at(0).UnixMilli(), StartedMs: at(0).UnixMilli(), EndedMs: at(60).UnixMilli()}
	other.inventory(at(2*60+15), &agentv1.Inventory{}) // another stream is ahead, so that the hours close
	e.catchUp()
	controller.inventory(at(30), &agentv1.Inventory{Pods: []*agentv1.Pod{broken}})
	controller.inventory(at(60), &agentv1.Inventory{Pods: []*agentv1.Pod{ended}})
	e.catchUp()
	kubelet.say(at(1), &agentv1.Report{Body: &agentv1.Report_GpuHoldings{GpuHoldings: &agentv1.GPUHoldings{AtMs: at(1).UnixMilli(), Node: "n1", Holdings: []*agentv1.GPUHolding{
		{Namespace: "chat", Pod: "p1", Container: "c", Share: &agentv1.GPUShare{Profile: "1g.10gb", Device: "gpu-0", Count: 1}}}}}})
	e.catchUp()
	var held, broke int64
	held = e.number(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND hour = $2 AND resource = 'gpu' AND kind = 'workload'`, e.tenant, start)
	broke = e.number(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_hour_cause WHERE tenant_id = $1 AND hour = $2 AND resource = 'gpu' AND cause = 'broken'`, e.tenant, start)
	if held == 0 || broke != held/2 {
		t.Errorf("the pod held %s of the GPU, %s of it broken; want a seventh, and half of that", fleet.Money(held), fleet.Money(broke))
	}
}
