package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func told(seq uint64, at time.Time, c *agentv1.Checkpoint) *agentv1.Report {
	return &agentv1.Report{Seq: seq, AtMs: at.UnixMilli(), Body: &agentv1.Report_Events{Events: &agentv1.Events{Events: []*agentv1.Event{{AtMs: at.UnixMilli(), Kind: "checkpoint", Object: "Pod/" + c.GetPod(), Reason: c.GetOutcome(), Checkpoint: c}}}}}
}

func TestWhoWasToldToSaveItsWorkIsKept(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	call := func(id, outcome string, took int64) *agentv1.Checkpoint {
		return &agentv1.Checkpoint{Id: id, Pod: "train/a-0", PodUid: "p1", Workload: "train/Job/a", Node: "n1", Cause: "interruption", Outcome: outcome, AtMs: day.UnixMilli(), TookMs: took, Tries: 2, Detail: "it answered 503"}
	}
	for _, r := range []struct {
		report *agentv1.Report
		want   string
	}{
		{told(1, day, call("cp-1", "late", 9000)), "accepted"},
		{told(2, day, call("cp-1", "done", 4200)), "accepted"}, // the agent started anew and asked under the same id
		{told(3, day, call("cp-2", "an outcome of tomorrow", 1)), "accepted"},
		{told(4, day, call("", "done", 1)), "malformed"},
		{told(5, day, call("cp-3", "done", -1)), "malformed"},
		{told(6, day, call("cp-3", "do\x00ne", 1)), "malformed"},
	} {
		if out := ingest(t, src, r.report); out[0].Result != r.want {
			t.Errorf("seq %d: %+v, want %s", r.report.GetSeq(), out[0], r.want)
		}
	}
	var all, none []store.CheckpointCall
	s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) (err error) {
		if all, err = store.CheckpointCalls(ctx, tx, s.cluster, "train/Job/a", 10); err != nil {
			return err
		}
		none, err = store.CheckpointCalls(ctx, tx, s.cluster, "train/Job/b", 10)
		return err
	})
	if len(all) != 1 || len(none) != 0 || all[0].Outcome != "done" || all[0].Took != 4200*time.Millisecond || all[0].Workload != "train/Job/a" || all[0].Tries != 2 || !all[0].At.Equal(day) {
		t.Errorf("kept %+v, %+v", all, none)
	}
}

func TestAnnotationsOfPodsReachTheCapacityInput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, can := range []bool{false, true} {
		h := hello(1)
		if can {
			h.Epoch, h.Capabilities = 2, []string{store.CapabilityDrain}
		}
		src := s.open(t, h)
		saved := day.Add(-time.Hour)
		r := inventoryReport(1, day, &agentv1.Inventory{Snapshot: true,
			Nodes: []*agentv1.Node{{Uid: "u1", Name: "n1", Cloud: "aws", Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g5.xlarge", Purchase: "on_demand", Phase: "ready", CpuMilli: 4000, MemMib: 16384, GpuModel: "A10G", GpuCount: 1,
				Labels: map[string]string{"nvidia.com/cuda.driver.major": "550", "nvidia.com/cuda.driver.minor": "54"}}},
			Pods: []*agentv1.Pod{{Uid: "p1", Name: "a-0", Namespace: "train", Workload: "train/Job/a", Node: "n1", Phase: "ready", CpuMilli: 100, MemMib: 100, GpuMilli: 1000,
				Notes: map[string]string{capacity.NoteCheckpoint: "http://:80/save", capacity.NoteCheckpointSeconds: "45", capacity.NoteCheckpointed: saved.Format(time.RFC3339), capacity.NoteMinCUDA: "12.4"}}}})
		if out := ingest(t, src, r); out[0].Result != "accepted" {
			t.Fatalf("%+v", out[0])
		}
		var in *capacity.Input
		s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) (err error) {
			in, err = store.LoadCapacityInput(ctx, tx, market.Catalogue(), s.cluster)
			return err
		})
		p, n := in.Pods[0], in.Nodes[0]
		if !p.SavedAt.Equal(saved) || len(p.Needs) != 1 || in.Needs[0].Least != "12.4" || n.Facts != (capacity.Facts{Driver: "550.54", CUDA: "12.4", Compute: "8.6"}) {
			t.Errorf("pod %+v, node %+v, needs %+v", p, n.Facts, in.Needs)
		}
		if (p.HookSec == 45) != can || (p.Protected == "job") == can {
			t.Errorf("an agent that lets machines go gently: %v; the pod %+v", can, p)
		}
	}
}

func TestPlaceholdersAreNoPodsAndGrowthIsMeasured(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	warm := map[string]string{capacity.LabelWarm: "l4"}
	pod := func(uid, workload, phase string, from, to time.Duration, labels map[string]string) *agentv1.Pod {
		p := &agentv1.Pod{Uid: uid, Name: uid, Namespace: "plimsoll", Workload: workload, Node: "n1", Phase: phase, CpuMilli: 100, MemMib: 100, GpuMilli: 1000, CreatedMs: day.Add(from).UnixMilli(), Labels: labels}
		if to != 0 {
			p.EndedMs = day.Add(to).UnixMilli()
		}
		return p
	}
	pods := []*agentv1.Pod{
		pod("p-real", "plimsoll/Deployment/web", "ready", -40*time.Hour, 0, nil),
		pod("p-warm", "plimsoll/Deployment/plimsoll-warm-l4", "ready", -time.Hour, 0, warm),
		pod("p-hides", "plimsoll/Deployment/bitcoin", "ready", -40*time.Hour, 0, warm), // the label alone hides nothing
	}
	for i := range 120 { // two more GPUs for ten minutes of every twenty
		at := -40*time.Hour + time.Duration(i)*20*time.Minute
		for k := range 2 {
			pods = append(pods, pod("b"+string(rune('a'+k))+time.Duration(i).String(), "plimsoll/Job/burst", "ended", at, at+10*time.Minute, nil))
		}
	}
	r := inventoryReport(1, day, &agentv1.Inventory{Snapshot: true, Pods: pods, Nodes: []*agentv1.Node{{Uid: "u1", Name: "n1", Cloud: "aws", Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g6.xlarge", Purchase: "on_demand",
		Phase: "ready", CpuMilli: 4000, MemMib: 16384, GpuModel: "L4", GpuCount: 1}}})
	if out := ingest(t, src, r); out[0].Result != "accepted" {
		t.Fatalf("%+v", out[0])
	}
	var in *capacity.Input
	s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) (err error) {
		in, err = store.LoadCapacityInputUnder(ctx, tx, market.Catalogue(), s.cluster, capacity.Policy{Warm: []capacity.WarmRule{{Name: "l4", GPUModel: "L4", How: capacity.WarmGrowth, Count: 5}, {Name: "h", GPUModel: "H100", How: capacity.WarmGrowth, Count: 5, Least: 1}}})
		return err
	})
	names := map[string]bool{}
	for _, p := range in.Pods {
		names[p.UID] = true
	}
	if !names["p-real"] || !names["p-hides"] || names["p-warm"] {
		t.Errorf("the plan sees %v", names)
	}
	if len(in.Growths) != 2 || in.Growths[0].GPUs != 2 || in.Growths[0].Samples < 100 || in.Growths[1].Samples != 0 {
		t.Errorf("growth %+v", in.Growths)
	}
	h100 := false
	for _, c := range in.Candidates {
		h100 = h100 || c.GPUModel == "H100"
	}
	if !h100 {
		t.Error("no machine with the GPUs of a warm pool is offered")
	}
}

func TestADrainIsAnsweredWhenItBeginsAndToldAgainWhenItEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := hello(1)
	h.Capabilities = []string{store.CapabilityDrain, store.CapabilityKarpenter}
	src := s.open(t, h)
	if out := ingest(t, src, inventoryReport(1, day, &agentv1.Inventory{Snapshot: true})); out[0].Result != "accepted" {
		t.Fatalf("%+v", out[0])
	}
	var order string
	s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
		_, _, err := store.OpenKarpenterOrder(ctx, tx, store.KarpenterOrder{Cluster: s.cluster, Kind: "plan", At: day, ExpiresAt: day.Add(time.Hour), CreatedBy: "planner"},
			[]*agentv1.CapacityAction{{ActionId: "drain/u1", NodeDrain: &agentv1.NodeDrain{Node: "n1", Uid: "u1"}}, {ActionId: "warm/l4", WarmPool: &agentv1.WarmPool{Name: "l4", Count: 1}}})
		if err != nil {
			return err
		}
		list, err := store.KarpenterOrders(ctx, tx, s.cluster, 1)
		order = list[0].ID
		return err
	})
	answer := func(seq uint64, r *agentv1.ActionResult) (drain, warm store.KarpenterAction, kept store.KarpenterWork) {
		t.Helper()
		r.PlanId, r.Generation, r.AtMs = order, 1, day.UnixMilli()
		report := &agentv1.Report{Seq: seq, AtMs: day.UnixMilli(), Body: &agentv1.Report_Results{Results: &agentv1.ActionResults{Results: []*agentv1.ActionResult{r}}}}
		if out := ingest(t, src, report); out[0].Result != "accepted" {
			t.Fatalf("%+v", out[0])
		}
		s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
			list, err := store.KarpenterActions(ctx, tx, order)
			if err != nil {
				return err
			}
			drain, warm = list[0], list[1]
			kept, err = store.LoadKarpenterWork(ctx, tx, s.cluster, false)
			return err
		})
		return drain, warm, kept
	}
	drain, _, kept := answer(2, &agentv1.ActionResult{ActionId: "drain/u1", Outcome: "applied", AfterSpec: `{"drain":"dr-1"}`})
	if drain.Outcome == nil || *drain.Outcome != "applied" || drain.After != `{"drain":"dr-1"}` || len(kept.Warm) != 1 || kept.Warm[0] != "l4" || len(kept.Pools)+len(kept.Overlays) != 0 {
		t.Fatalf("begun: %+v, what may exist: %+v", drain, kept)
	}
	end := &agentv1.ActionResult{ActionId: "drain/u1", Outcome: "failed", ErrorCode: "precondition", Error: "train/a did not save its work: late",
		Checkpoints: []*agentv1.Checkpoint{{Id: "cp-1", Pod: "train/a", Outcome: "late", TookMs: 30_000}}}
	drain, _, _ = answer(3, end)
	if *drain.Outcome != "failed" || drain.Detail != end.GetError() || !strings.Contains(drain.After, `"outcome":"late"`) || !strings.Contains(drain.After, `"took_ms":30000`) {
		t.Errorf("ended: %+v", drain)
	}
	if _, warm, _ := answer(4, &agentv1.ActionResult{ActionId: "warm/l4", Outcome: "applied", AfterSpec: "{}"}); warm.Outcome == nil || *warm.Outcome != "applied" {
		t.Errorf("the warm pool: %+v", warm)
	}
}

func TestWhatAnAgentTellsAgainIsKeptOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	call := &agentv1.Checkpoint{Id: "cp-1", Pod: "train/a-0", Node: "n1", Cause: "plan", Outcome: "done", AtMs: day.UnixMilli(), TookMs: 100}
	seq := uint64(0)
	tell := func(at time.Time, kind, object, reason string, c *agentv1.Checkpoint) {
		t.Helper()
		seq++
		e := &agentv1.Event{AtMs: at.UnixMilli(), Kind: kind, Object: object, Reason: reason, Checkpoint: c}
		if out := ingest(t, src, &agentv1.Report{Seq: seq, AtMs: at.UnixMilli(), Body: &agentv1.Report_Events{Events: &agentv1.Events{Events: []*agentv1.Event{e, {AtMs: at.UnixMilli(), Kind: "note"}}}}}); out[0].Result != "accepted" {
			t.Fatalf("%+v", out[0])
		}
	}
	for range 3 { // an agent that died between telling and noting that it told
		tell(day, "checkpoint", "Pod/train/a-0", "done", call)
		tell(day.Add(time.Second), "drain", "Node/n1", "done", nil)
	}
	tell(day.Add(time.Hour), "drain", "Node/n1", "done", nil) // another drain
	tell(day.Add(time.Second), "drain", "Node/n2", "done", nil)
	for kind, want := range map[string]int{"checkpoint": 1, "drain": 3, "note": 8} {
		if n := s.count(t, "SELECT count(*) FROM cluster_event WHERE kind = $1", kind); n != want {
			t.Errorf("%d events of kind %s, want %d", n, kind, want)
		}
	}
}

func TestAnEndThatComesFirstOrTwiceIsTheEnd(t *testing.T) {
	t.Parallel()
	begun := &agentv1.ActionResult{ActionId: "drain/u1", Outcome: "applied", AfterSpec: `{"drain":"dr-1"}`}
	end := &agentv1.ActionResult{ActionId: "drain/u1", Outcome: "failed", ErrorCode: "precondition", Error: "late"}
	for name, order := range map[string][]*agentv1.ActionResult{
		"in order":                               {begun, end},
		"the end comes twice":                    {begun, end, end},
		"the end comes first":                    {end, begun},
		"the first answer comes again after it":  {begun, end, begun},
		"first, and all again by the next life":  {end, begun, end},
		"only the end, since the rest was early": {end},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			h := hello(1)
			h.Capabilities = []string{store.CapabilityDrain}
			src := s.open(t, h)
			ingest(t, src, inventoryReport(1, day, &agentv1.Inventory{Snapshot: true}))
			var id string
			s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
				_, _, err := store.OpenKarpenterOrder(ctx, tx, store.KarpenterOrder{Cluster: s.cluster, Kind: "drain", At: day, ExpiresAt: day.Add(time.Hour), CreatedBy: "planner"},
					[]*agentv1.CapacityAction{{ActionId: "drain/u1", NodeDrain: &agentv1.NodeDrain{Node: "n1", Uid: "u1"}}})
				if err != nil {
					return err
				}
				list, err := store.KarpenterOrders(ctx, tx, s.cluster, 1)
				id = list[0].ID
				return err
			})
			for i, r := range order {
				one := &agentv1.ActionResult{ActionId: r.GetActionId(), Outcome: r.GetOutcome(), ErrorCode: r.GetErrorCode(), Error: r.GetError(), AfterSpec: r.GetAfterSpec(), PlanId: id, Generation: 1, AtMs: day.UnixMilli()}
				report := &agentv1.Report{Seq: uint64(2 + i), AtMs: day.UnixMilli(), Body: &agentv1.Report_Results{Results: &agentv1.ActionResults{Results: []*agentv1.ActionResult{one}}}}
				if out := ingest(t, src, report); out[0].Result != "accepted" {
					t.Fatalf("%+v", out[0])
				}
			}
			s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
				list, err := store.KarpenterActions(ctx, tx, id)
				if len(list) == 1 && (list[0].Outcome == nil || *list[0].Outcome != "failed" || list[0].Detail != "late" || !strings.Contains(list[0].After, `"ended":"failed"`)) {
					t.Errorf("kept %+v", list[0])
				}
				return err
			})
		})
	}
}

func TestWhatWasDoneIsTakenWhateverTheClockOfTheClusterSays(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"an hour ahead": time.Hour, "two months behind": -60 * 24 * time.Hour, "a century ahead": 100 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			h := hello(1)
			h.SimulatedClock, h.ClockSpeed, h.Capabilities = false, 0, []string{store.CapabilityDrain}
			src := s.open(t, h)
			s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
				_, _, err := store.OpenKarpenterOrder(ctx, tx, store.KarpenterOrder{Cluster: s.cluster, Kind: "drain", At: day, ExpiresAt: day.Add(time.Hour), CreatedBy: "planner"},
					[]*agentv1.CapacityAction{{ActionId: "drain/u1", NodeDrain: &agentv1.NodeDrain{Node: "n1", Uid: "u1"}}})
				return err
			})
			at := day.Add(off).UnixMilli()
			r := &agentv1.Report{Seq: 1, AtMs: at, Body: &agentv1.Report_Results{Results: &agentv1.ActionResults{Results: []*agentv1.ActionResult{{ActionId: "drain/u1", Outcome: "applied", AfterSpec: "{}", Generation: 1, AtMs: at}}}}}
			if out := ingest(t, src, r); out[0].Result != "accepted" {
				t.Fatalf("%+v", out[0])
			}
			if n := s.count(t, "SELECT count(*) FROM karpenter_action WHERE outcome = 'applied' AND answered_at = $1", day); n != 1 {
				t.Error("the answer is lost, or of another time")
			}
			if out := ingest(t, src, observation(2, day.Add(off))); out[0].Result != "malformed" {
				t.Errorf("an observation of that clock: %+v", out[0])
			}
		})
	}
}
