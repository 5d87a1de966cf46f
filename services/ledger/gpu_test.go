package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
)

// gpuNode has GPUs and nothing else; each costs 56 an hour, so that sevenths and eighths are whole amounts.
func gpuNode(name string, model fleet.GPUModel, groups ...ledger.GPUGroup) ledger.Node {
	n := node(name)
	n.CPUMilli, n.MemMiB, n.GPUModel, n.GPUCount, n.GPUs = 0, 0, model, 0, groups
	for _, g := range groups {
		n.GPUCount += g.Count
	}
	n.Price = price(fmt.Sprint(56 * n.GPUCount))
	n.Weights = market.Weights{GPUHour: map[fleet.GPUModel]fleet.Money{model: usd("1")}}
	return n
}

func mig(count int, instances ...ledger.GPUInstance) ledger.GPUGroup {
	return ledger.GPUGroup{Mode: ledger.GPUSliced, Count: count, Instances: instances}
}

func of(profile string, n int) ledger.GPUInstance {
	return ledger.GPUInstance{Profile: profile, Count: n}
}

func sharing(name string, s ...ledger.GPUShare) ledger.Pod {
	p := pod(name, "a", 0)
	p.GPUs = s
	return p
}

func many(n int, s ledger.GPUShare) (all []ledger.Pod) {
	for i := range n {
		all = append(all, sharing(fmt.Sprintf("p%02d", i), s))
	}
	return all
}

func TestUnitsOfGPUs(t *testing.T) {
	t.Parallel()
	slices7 := mig(1, of("1g.10gb", 7))
	turns := func(mode ledger.GPUMode, n int) ledger.GPUGroup {
		return ledger.GPUGroup{Mode: mode, Count: 1, Replicas: n}
	}
	whole := ledger.GPUGroup{Mode: ledger.GPUWhole, Count: 1}
	for _, c := range []struct {
		name   string
		model  fleet.GPUModel
		groups []ledger.GPUGroup
		pods   []ledger.Pod
		each   string // of the first pod
		idle   string
		causes map[string]float64 // name/resource -> hours
	}{
		{"seven slices of an H100 are 7/7 of its compute and 7/8 of its memory, and the rest has a name", "H100", []ledger.GPUGroup{slices7},
			many(7, ledger.GPUShare{Profile: "1g.10gb"}), "8", "0", map[string]float64{"mig_unusable/gpu_memory": 0.125}},
		{"three of seven slices leave four idle", "H100", []ledger.GPUGroup{slices7}, many(3, ledger.GPUShare{Profile: "1g.10gb"}), "8", "32",
			map[string]float64{"mig_unusable/gpu_memory": 0.125}},
		{"slices with double memory count by it", "H100", []ledger.GPUGroup{mig(1, of("1g.20gb", 4))}, many(4, ledger.GPUShare{Profile: "1g.20gb"}), "14", "0",
			map[string]float64{"mig_unusable/gpu_compute": 3. / 7}},
		{"half a GPU that was never cut is a fragment", "A100-80GB", []ledger.GPUGroup{mig(1, of("3g.40gb", 1))}, many(1, ledger.GPUShare{Profile: "3g.40gb"}), "28", "28",
			map[string]float64{"mig_fragment/gpu": 0.5}},
		{"4g beside 3g fill a GPU although their units are 15/14, and pay 8/15 and 7/15 of it", "H100", []ledger.GPUGroup{mig(1, of("4g.40gb", 1), of("3g.40gb", 1))},
			[]ledger.Pod{sharing("p0", ledger.GPUShare{Profile: "4g.40gb"}), sharing("p1", ledger.GPUShare{Profile: "3g.40gb"})}, "29.866666667", "0", nil},
		{"an A30 is cut into quarters", "A30", []ledger.GPUGroup{mig(1, of("1g.6gb", 2), of("2g.12gb", 1))}, many(2, ledger.GPUShare{Profile: "1g.6gb"}), "14", "28", nil},
		{"an H200 has profiles of its own", "H200", []ledger.GPUGroup{mig(2, of("1g.18gb", 14))}, many(14, ledger.GPUShare{Profile: "1g.18gb"}), "8", "0",
			map[string]float64{"mig_unusable/gpu_memory": 0.25}},
		{"under the name of a GPU a single layout gives out its slices", "H100", []ledger.GPUGroup{slices7}, many(7, ledger.GPUShare{}), "8", "0",
			map[string]float64{"mig_unusable/gpu_memory": 0.125}},
		{"four turns of four are one GPU", "L4", []ledger.GPUGroup{turns(ledger.GPUTimeSliced, 4)}, many(4, ledger.GPUShare{}), "14", "0", nil},
		{"eleven turns of eleven are one GPU, though eleven divides no power of ten", "L4", []ledger.GPUGroup{turns(ledger.GPUTimeSliced, 11)}, many(11, ledger.GPUShare{}), "5.090909091", "0", nil},
		{"MPS counts by threads or memory, whichever is more", "L4", []ledger.GPUGroup{turns(ledger.GPUMPS, 10)}, many(2, ledger.GPUShare{CoreMilli: 200, MemMilli: 500}), "28", "0", nil},
		{"MPS without limits is one of its replicas", "L4", []ledger.GPUGroup{turns(ledger.GPUMPS, 10)}, many(10, ledger.GPUShare{}), "5.6", "0", nil},
		{"a fraction counts by cores or memory, whichever is more", "L4", []ledger.GPUGroup{whole}, many(4, ledger.GPUShare{CoreMilli: 250, MemMilli: 100}), "14", "0", nil},
		{"a claim of a tenth of a device's capacity is a tenth", "L4", []ledger.GPUGroup{whole}, many(5, ledger.GPUShare{MemMilli: 100}), "5.6", "28", nil},
		{"a node with cut and whole GPUs charges each for its own", "H100", []ledger.GPUGroup{{Mode: ledger.GPUWhole, Count: 1}, mig(1, of("4g.40gb", 1), of("3g.40gb", 1))},
			[]ledger.Pod{sharing("p0", ledger.GPUShare{}), sharing("p1", ledger.GPUShare{Profile: "3g.40gb"})}, "56", "29.866666667", nil},
		{"a named GPU is charged for what is held of it", "L4", []ledger.GPUGroup{{Device: "GPU-1", Mode: ledger.GPUWhole, Count: 1}, {Device: "GPU-2", Mode: ledger.GPUTimeSliced, Count: 1, Replicas: 2}},
			many(2, ledger.GPUShare{Device: "GPU-2"}), "28", "56", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := closed([]ledger.Node{gpuNode("a", c.model, c.groups...)}, c.pods...)
			wantMoney(t, "the first pod", amount(s, ledger.KindWorkload, "", string(c.pods[0].Owner.Workload[2:])), c.each)
			wantMoney(t, "idle", amount(s, ledger.KindIdle, "", ""), c.idle)
			wantMoney(t, "residual", amount(s, ledger.KindResidual, "", ""), "0")
			wantMoney(t, "all", amount(s, "", "", ""), s.NodeCost.String())
			got := map[string]float64{}
			for _, x := range s.Causes {
				got[string(x.Name)+"/"+string(x.Resource)] += x.Quantity
			}
			if len(got) == 0 {
				got = nil
			}
			if d := cmp.Diff(c.causes, got); d != "" {
				t.Errorf("causes (-want +got):\n%s", d)
			}
			if len(s.Conflicts) != 0 {
				t.Errorf("conflicts: %+v", s.Conflicts)
			}
		})
	}
}

func TestBrokenTimeIsItsOwnersWithTheReason(t *testing.T) {
	t.Parallel()
	p := pod("p1", "a", 1000)
	p.CPUMilli = 500
	p.Broken = []ledger.Trouble{
		{Interval: fleet.Interval{From: hour, To: hour.Add(12 * time.Minute)}, Reason: "ImagePullBackOff"},
		{Interval: fleet.Interval{From: hour.Add(6 * time.Minute), To: hour.Add(30 * time.Minute)}, Reason: "CrashLoopBackOff"}, // counts from minute 12
	}
	s := closed([]ledger.Node{node("a")}, p)
	wantMoney(t, "what the owner bears", amount(s, ledger.KindWorkload, ledger.ResourceGPU, "p1"), "15")
	got := map[string]string{}
	for _, c := range s.CauseRows() {
		if c.Name != ledger.CauseBroken || c.Owner != p.Owner {
			t.Errorf("cause %+v", c)
		}
		got[c.Reason+"/"+string(c.Resource)] = c.Amount.String()
	}
	want := map[string]string{"ImagePullBackOff/gpu": "3.00", "ImagePullBackOff/cpu": "1.50", "CrashLoopBackOff/gpu": "4.50", "CrashLoopBackOff/cpu": "2.25"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("broken time (-want +got):\n%s", d)
	}
}

func TestALoadedModelWithoutWorkIsWarmIdle(t *testing.T) {
	t.Parallel()
	f := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name  string
		usage ledger.Usage
		want  string
	}{
		{"a quarter used is three quarters warm", ledger.Usage{GPUSM: f(0.25), GPUMiB: f(60_000)}, "11.25"},
		{"without a model in memory it is only held", ledger.Usage{GPUSM: f(0.25), GPUMiB: f(400)}, "0"},
		{"a use that nobody knows is not idle", ledger.Usage{GPUMiB: f(60_000)}, "0"},
		{"a memory that nobody knows is not full", ledger.Usage{GPUSM: f(0.25)}, "0"},
	} {
		s := ledger.Close(ledger.Hour{From: hour, To: hour.Add(time.Hour), Nodes: []ledger.Node{node("a")}, Pods: []ledger.Pod{pod("p1", "a", 1000)},
			Usage: map[fleet.WorkloadID]ledger.Usage{"w-p1": c.usage}})
		var warm fleet.Money
		for _, x := range s.Causes {
			if x.Name == ledger.CauseWarmIdle {
				warm += x.Amount
			}
		}
		wantMoney(t, c.name, warm, c.want)
	}
}

func TestRoomThatIsKeptReadySaysSo(t *testing.T) {
	t.Parallel()
	kept := pod("p1", "a", 1000)
	kept.Ready = true
	other := pod("p2", "b", 1000)
	s := ledger.Close(ledger.Hour{From: hour, To: hour.Add(time.Hour), Nodes: []ledger.Node{node("a"), node("b")}, Pods: []ledger.Pod{kept, other}})
	var warm, held fleet.Money
	for _, x := range s.Causes {
		if x.Name == ledger.CauseWarmPool {
			warm += x.Amount
			if x.Owner.Workload != kept.Owner.Workload {
				t.Errorf("the cause is of %q", x.Owner.Workload)
			}
		}
	}
	for _, l := range s.Lines {
		if l.Owner.Workload == kept.Owner.Workload {
			held += l.Amount
		}
	}
	if warm == 0 || warm != held {
		t.Errorf("%s of the %s that the placeholder holds are told as kept ready", warm, held)
	}
}

// Utilisation = usage over allocation: 1.00 against 4.00 per million tokens is 25 %.
func TestUsageOverAllocationIsUtilisation(t *testing.T) {
	t.Parallel()
	quarter := 0.25
	n := gpuNode("a", "L4", ledger.GPUGroup{Mode: ledger.GPUWhole, Count: 1})
	n.Price = price("4") // makes a million tokens an hour
	s := ledger.Close(ledger.Hour{From: hour, To: hour.Add(time.Hour), Nodes: []ledger.Node{n}, Pods: []ledger.Pod{pod("p1", "a", 1000)},
		Usage: map[fleet.WorkloadID]ledger.Usage{"w-p1": {GPUSM: &quarter}}})
	wantMoney(t, "allocation basis", amount(s, ledger.KindWorkload, "", ""), "4")
	if got, ok := ledger.Efficiency(s.Rows()); !ok || got != 0.25 {
		t.Errorf("utilisation = %v, %v, want 0.25", got, ok)
	}
}

// Eight GPUs that no pod asked for stay as a row, whatever is shared.
func TestEightIdleGPUsStayIdleWhenIdleIsShared(t *testing.T) {
	t.Parallel()
	n := node("a")
	n.GPUCount, n.Price = 8, price("140")
	p := pod("p1", "a", 0)
	p.CPUMilli = 500
	s := closed([]ledger.Node{n}, p)
	for _, r := range ledger.ShareIdle(s.Rows()) {
		if r.Resource == ledger.ResourceGPU && (r.Kind != ledger.KindIdle || r.Quantity != 8) {
			t.Errorf("idle GPUs became %+v", r)
		}
	}
}
