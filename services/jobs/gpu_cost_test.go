package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// agent sends reports of one stream.
type agent struct {
	e   *estate
	src *store.Source
	seq uint64
}

func (e *estate) agent(stream string) *agent {
	e.t.Helper()
	src, err := e.db.OpenSource(context.Background(), e.tenant, e.cluster, &agentv1.Hello{Stream: stream, Epoch: 1, SimulatedClock: true, ClockSpeed: 1})
	if err != nil {
		e.t.Fatal(err)
	}
	return &agent{e: e, src: src}
}

func (a *agent) say(at time.Time, r *agentv1.Report) {
	a.e.t.Helper()
	a.seq++
	r.Seq, r.AtMs = a.seq, at.UnixMilli()
	out, err := a.src.Ingest(context.Background(), at, []*agentv1.Report{r}, nil)
	if err != nil || len(out) != 1 || out[0].Code != agentv1.RejectCode_REJECT_CODE_UNSPECIFIED {
		a.e.t.Fatalf("%v, %+v", err, out)
	}
}

func (a *agent) inventory(at time.Time, inv *agentv1.Inventory) {
	a.e.t.Helper()
	inv.AtMs = at.UnixMilli()
	a.say(at, &agentv1.Report{Body: &agentv1.Report_Inventory{Inventory: inv}})
}

// What agents say of slices, turns and trouble reaches the ledger: two slices of a GPU that is cut in seven, one named by its pod's request
// and one by the kubelet alone, and a pod that crashes for half an hour.
func TestGPUSharesReachTheLedger(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	ms := func(minutes int) int64 { return start.Add(time.Duration(minutes) * time.Minute).UnixMilli() }
	at := func(minutes int) time.Time { return time.UnixMilli(ms(minutes)).UTC() }
	controller, node := e.agent("controller"), e.agent("node/n1")
	pod := func(name string, shares ...*agentv1.GPUShare) *agentv1.Pod {
		return &agentv1.Pod{Uid: name, Name: name, Namespace: "ns-" + name, Node: "n1", Phase: "ready", CreatedMs: ms(0), StartedMs: ms(0), Gpus: shares}
	}
	asked, claimed, broken := pod("asked", &agentv1.GPUShare{Profile: "1g.10gb", Count: 1}), pod("claimed"), pod("broken", &agentv1.GPUShare{Profile: "3g.40gb", Count: 1})
	n1 := &agentv1.Node{Uid: "n1", Name: "n1", Cloud: "aws", Region: "us-east-1", InstanceType: "p5.4xlarge", Purchase: "on_demand", Phase: "ready", StartedMs: ms(0), ReadyMs: ms(0), GpuModel: "H100", GpuCount: 1,
		GpuMemoryMib: 81559, Gpus: []*agentv1.GPUGroup{{Mode: "mig", Count: 1, Instances: []*agentv1.GPUInstance{{Profile: "1g.10gb", Count: 4}, {Profile: "3g.40gb", Count: 1}}}}}
	controller.inventory(at(1), &agentv1.Inventory{Snapshot: true, Nodes: []*agentv1.Node{n1}, Pods: []*agentv1.Pod{asked, claimed, broken}})
	crash := pod("broken", &agentv1.GPUShare{Profile: "3g.40gb", Count: 1})
	crash.Phase, crash.Reason = "loading", "CrashLoopBackOff"
	controller.inventory(at(15), &agentv1.Inventory{Pods: []*agentv1.Pod{crash}})
	controller.inventory(at(30), &agentv1.Inventory{Pods: []*agentv1.Pod{crash}})
	controller.inventory(at(45), &agentv1.Inventory{Pods: []*agentv1.Pod{broken}})
	e.setPrice("p5.4xlarge", "15")
	controller.inventory(at(75), &agentv1.Inventory{})
	e.catchUp()
	e.balanced(usd(t, "18.75"))
	gpu := func() map[string]float64 {
		got := map[string]float64{}
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			rows, err := store.Costs(ctx, tx, store.CostQuery{From: start, To: start.Add(time.Hour), Hourly: true, Aggregate: "namespace"})
			for _, r := range rows {
				if r.Resource == "gpu" {
					got[fmt.Sprintf("%s %s", r.Kind, r.Key)] = float64(int(r.Quantity*1e4+0.5)) / 1e4
				}
			}
			return err
		})
		return got
	}
	// 4 x 1/7 + 1/2 are 15/14 of a GPU, and each counts 14/15 of its unit.
	if d := cmp.Diff(map[string]float64{"workload ns-asked": 0.1333, "workload ns-broken": 0.4667, "idle ": 0.4}, gpu()); d != "" {
		t.Errorf("GPUs by what pods asked (-want +got):\n%s", d)
	}
	share := &agentv1.GPUShare{Profile: "1g.10gb", Device: "gpu-0", Instance: "gpu-0-mig-19-4-1", Claim: "ns-claimed/c", Count: 1}
	node.say(at(76), &agentv1.Report{Body: &agentv1.Report_GpuHoldings{GpuHoldings: &agentv1.GPUHoldings{AtMs: ms(0), Node: "n1", Holdings: []*agentv1.GPUHolding{
		{Namespace: "ns-claimed", Pod: "claimed", Container: "c", Share: share}, {Namespace: "ns-asked", Pod: "asked", Container: "c", Share: &agentv1.GPUShare{Profile: "1g.10gb", Count: 1}}}}}})
	e.catchUp()
	if d := cmp.Diff(map[string]float64{"workload ns-asked": 0.1333, "workload ns-broken": 0.4667, "workload ns-claimed": 0.1333, "idle ": 0.2667}, gpu()); d != "" {
		t.Errorf("GPUs by what the kubelet says (-want +got):\n%s", d)
	}
	if v := e.number(`SELECT version FROM cost_hour WHERE tenant_id = $1 AND hour = $2`, e.tenant, start); v != 2 {
		t.Errorf("the hour has version %d, want 2", v)
	}
	e.balanced(usd(t, "19"))
	var causes []store.CostCause
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		causes, err = store.Causes(ctx, tx, store.CostQuery{From: start, To: start.Add(time.Hour)})
		return err
	})
	var brokenCost, held fleet.Money
	for _, c := range causes {
		if c.Name == "broken" && c.Reason == "CrashLoopBackOff" && c.Owner.Namespace == "ns-broken" {
			brokenCost += c.Amount
		}
	}
	held = fleet.Money(e.number(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND hour = $2 AND namespace = 'ns-broken'`, e.tenant, start))
	if brokenCost == 0 || brokenCost != held.MulDiv(1, 2) {
		t.Errorf("half an hour of crashes costs %s of %s: %+v", brokenCost, held, causes)
	}
}

func (e *estate) setPrice(instanceType, hour string) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.SetTenantPrice(ctx, tx, store.TenantPrice{Cloud: "aws", InstanceType: instanceType, Purchase: fleet.PurchaseOnDemand, Hour: usd(e.t, hour), ValidFrom: start.Add(-time.Hour)})
	})
}
