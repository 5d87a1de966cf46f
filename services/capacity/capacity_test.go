package capacity_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func dollars(milli int64) *fleet.Money {
	m := fleet.Money(milli * 1_000_000)
	return &m
}

func offering(machine, zone string, p fleet.Purchase) fleet.Offering {
	return fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: zone, InstanceType: machine, Purchase: p}
}

// machines that tests rent: name -> sizes and price on demand in thousandths of a dollar.
var machines = []struct {
	name                 string
	cpu, mem, gpus, cost int64
	model                fleet.GPUModel
}{{"small", 4000, 16_000, 0, 200, ""}, {"large", 16_000, 64_000, 0, 760, ""}, {"one", 8000, 32_000, 1, 1000, "L4"}, {"four", 32_000, 128_000, 4, 3900, "L4"}, {"big", 64_000, 512_000, 8, 20_000, "H100"}}

func candidates() []capacity.Candidate {
	var out []capacity.Candidate
	for _, m := range machines {
		for _, p := range []fleet.Purchase{fleet.PurchaseOnDemand, fleet.PurchaseSpot} {
			for _, z := range []string{"a", "b"} {
				c := capacity.Candidate{Offering: offering(m.name, z, p), CPUMilli: m.cpu, MemMiB: m.mem, MaxPods: 50, VCPU: m.cpu / 1000, GPUModel: m.model, GPUCount: m.gpus, Arch: "amd64", Price: dollars(m.cost)}
				if p == fleet.PurchaseSpot {
					c.Price, c.HazardMilli, c.StockOutMilli = dollars(m.cost*3/10), 50, 200
				}
				out = append(out, c)
			}
		}
	}
	return out
}

func node(name, machine string, p fleet.Purchase) capacity.Node {
	for _, c := range candidates() {
		if c.Offering == offering(machine, "a", p) {
			return capacity.Node{UID: "uid-" + name, Name: name, Offering: c.Offering, Phase: fleet.NodeReady, CPUMilli: c.CPUMilli, MemMiB: c.MemMiB, MaxPods: 50,
				GPUModel: c.GPUModel, GPUCount: c.GPUCount, Arch: "amd64", Price: c.Price, Saves: c.Price, HazardMilli: c.HazardMilli, StartedAt: now.Add(-24 * time.Hour)}
		}
	}
	panic(machine)
}

func pod(name, on string, cpu, gpus int64) capacity.Pod {
	p := capacity.Pod{UID: "uid-" + name, Name: "ns/" + name, Workload: "ns/Deployment/" + name[:1], Node: on, Phase: fleet.PodReady, CPUMilli: cpu, MemMiB: cpu, GPUCount: gpus, GPUMilli: 1000,
		Since: now.Add(-time.Hour), ReadyAt: now.Add(-time.Hour)}
	if on == "" {
		p.Phase, p.Reason, p.ReadyAt = fleet.PodPending, "Unschedulable", time.Time{}
	}
	return p
}

type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func input(nodes []capacity.Node, pods ...capacity.Pod) capacity.Input {
	return capacity.Input{Now: now, DataAt: now, Mode: fleet.ModeRecommend, Nodes: nodes, Pods: pods, Candidates: candidates(), NodeStart: 120, PodStart: 60}
}

func decide(t failer, in capacity.Input) *capacity.Plan {
	t.Helper()
	p, err := capacity.Decide(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bad := capacity.Check(in, p); len(bad) > 0 {
		t.Fatalf("the plan breaks rules: %q", bad)
	}
	return p
}

// told is a plan in a line per change.
func told(p *capacity.Plan) []string {
	out := []string{string(p.Outcome)}
	for _, h := range p.Held {
		out = append(out, "held "+string(h))
	}
	for _, g := range p.Add {
		out = append(out, fmt.Sprintf("add %d %s %s %s", g.Count, g.Offering.InstanceType, g.Offering.Purchase, g.Why))
	}
	for _, d := range p.Drain {
		out = append(out, fmt.Sprintf("drain %s %s", d.Name, d.Why))
	}
	return out
}

func TestPlans(t *testing.T) {
	t.Parallel()
	onDemand, spot := fleet.PurchaseOnDemand, fleet.PurchaseSpot
	spotOK := func(p capacity.Pod) capacity.Pod { p.SpotOK = true; return p }
	protected := func(p capacity.Pod) capacity.Pod { p.Protected = "label"; return p }
	change := func(in capacity.Input, f func(*capacity.Input)) capacity.Input { f(&in); return in }
	for _, c := range []struct {
		name string
		in   capacity.Input
		want []string
	}{
		{"nothing to do", input([]capacity.Node{node("n", "small", onDemand)}, pod("a1", "n", 3000, 0)), []string{"nothing"}},
		{"a pod without room gets the cheapest machine", input(nil, pod("a1", "", 3000, 0)), []string{"change", "add 1 small on_demand pending"}},
		{"a pod that may run on Spot does", input(nil, spotOK(pod("a1", "", 3000, 1))), []string{"change", "add 1 one spot pending"}},
		{"room that is there comes first", input([]capacity.Node{node("n", "large", onDemand)}, pod("a1", "n", 9000, 0), pod("b1", "", 3000, 0)), []string{"nothing"}},
		{"an empty machine goes", input([]capacity.Node{node("n", "small", onDemand)}), []string{"change", "drain n empty"}},
		{"pods of two machines fit on one: Spot goes", input([]capacity.Node{node("n", "small", onDemand), node("s", "small", spot)}, spotOK(pod("a1", "n", 1500, 0)), spotOK(pod("b1", "s", 1500, 0))),
			[]string{"change", "drain s consolidate"}},
		{"a protected pod keeps its machine", input([]capacity.Node{node("n", "four", onDemand)}, protected(pod("a1", "n", 1000, 1))), []string{"nothing"}},
		{"a machine that is too large for its pods is exchanged", input([]capacity.Node{node("n", "four", onDemand)}, pod("a1", "n", 1000, 1)), []string{"change", "add 1 one on_demand replace", "drain n replace"}},
		{"back to Spot", input([]capacity.Node{node("n", "one", onDemand)}, spotOK(pod("a1", "n", 7000, 1))), []string{"change", "add 1 one spot return_to_spot", "drain n return_to_spot"}},
		{"a saving below the churn is left", change(input([]capacity.Node{node("n", "one", onDemand)}, spotOK(pod("a1", "n", 7000, 1))), func(in *capacity.Input) { in.Policy.MoveCost = dollars(5000) }), []string{"nothing"}},
		{"a machine paid by a commitment stays", change(input([]capacity.Node{node("n", "four", onDemand)}, pod("a1", "n", 1000, 1)), func(in *capacity.Input) { in.Nodes[0].Saves = dollars(0) }), []string{"nothing"}},
		{"a machine under notice is replaced first", change(input([]capacity.Node{node("s", "one", spot)}, spotOK(pod("a1", "s", 7000, 1))), func(in *capacity.Input) { in.Nodes[0].Notice = true }),
			[]string{"change", "add 1 one spot leaving"}},
		{"an offering under back-off is not asked", change(input(nil, spotOK(pod("a1", "", 7000, 1))), func(in *capacity.Input) {
			for i := range in.Candidates {
				if in.Candidates[i].Offering.Purchase == spot {
					in.Candidates[i].BackoffUntil = now.Add(time.Minute)
				}
			}
		}), []string{"change", "add 1 one on_demand pending"}},
		{"a cap on machines", change(input([]capacity.Node{node("n", "small", onDemand)}, pod("a1", "n", 3000, 0), pod("b1", "", 3000, 0)), func(in *capacity.Input) { in.Policy.MaxNodes = 1 }), []string{"nothing"}},
		{"a cap on spending", change(input(nil, pod("a1", "", 3000, 0), pod("b1", "", 3000, 0)), func(in *capacity.Input) { in.Policy.HourlyMax = dollars(300) }), []string{"change", "add 1 small on_demand pending"}},
		{"what is spent today counts", change(input(nil, pod("a1", "", 3000, 0)), func(in *capacity.Input) {
			in.Policy.DailyMax, in.SpentToday, in.DayLeft = dollars(2400), dollars(2000), 12
		}), []string{"nothing"}},
		{"an old inventory leads to nothing", change(input([]capacity.Node{node("n", "small", onDemand)}, pod("a1", "", 3000, 0)), func(in *capacity.Input) { in.DataAt = now.Add(-time.Hour) }), []string{"held", "held stale"}},
		{"a frozen cluster", change(input([]capacity.Node{node("n", "small", onDemand)}), func(in *capacity.Input) { in.Frozen = true }), []string{"held", "held frozen", "drain n empty"}},
		{"a freeze window", change(input([]capacity.Node{node("n", "small", onDemand)}), func(in *capacity.Input) {
			in.Freezes = []fleet.Interval{{From: now.Add(-time.Hour), To: now.Add(time.Hour)}}
		}), []string{"held", "held freeze_window", "drain n empty"}},
		{"no report yet", capacity.Input{Now: now}, []string{"held", "held no_inventory"}},
		{"an unpriced machine stays, and under a cap on spending nothing is added", change(input([]capacity.Node{node("n", "small", onDemand)}, pod("a1", "", 5000, 0)), func(in *capacity.Input) {
			in.Nodes[0].Price, in.Policy.HourlyMax = nil, dollars(100_000)
		}), []string{"nothing"}},
		{"only so many actions", change(input([]capacity.Node{node("n", "small", onDemand), node("o", "small", onDemand)}), func(in *capacity.Input) { in.Policy.MaxActions = 1 }), []string{"change", "held action_rate", "drain n empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, told(decide(t, c.in))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPodsThatWait(t *testing.T) {
	t.Parallel()
	booting := node("boot", "large", fleet.PurchaseOnDemand)
	booting.Phase, booting.StartedAt = fleet.NodeBooting, now.Add(-time.Minute)
	pulling := pod("e1", "n", 100, 0)
	pulling.Phase, pulling.Reason = fleet.PodPulling, "ImagePullBackOff"
	in := input([]capacity.Node{node("n", "small", fleet.PurchaseOnDemand), booting},
		pod("a1", "n", 3000, 0), pod("b1", "", 500, 0), pod("c1", "", 9000, 0), pod("d1", "", 3000, 1), pulling, pod("f1", "", 1000, 64))
	p := decide(t, in)
	got := map[string]string{}
	for _, w := range p.Waiting {
		got[w.Pod] = fmt.Sprint(w.Cause, " ", w.Node, " ", w.Seconds)
	}
	want := map[string]string{"ns/b1": "room n 60", "ns/c1": "node_starting boot 120", "ns/d1": "new_node  180", "ns/e1": "image n 0", "ns/f1": "fits_nothing  0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	last := p.Waiting[len(p.Waiting)-1]
	if len(last.Reasons) == 0 || len(last.Blocked) == 0 || last.Blocked[0] != packing.ConstraintGPUs {
		t.Errorf("no reason for %+v", last)
	}
	if p.LongWaiting != 4 || p.OldestWait != 3600 {
		t.Errorf("%d wait long, the longest %d s", p.LongWaiting, p.OldestWait)
	}
}

func TestTheLadderGoesFromNearToFar(t *testing.T) {
	t.Parallel()
	a, b := pod("a1", "", 3000, 1), pod("a2", "", 3000, 1)
	a.SpotOK, b.SpotOK = true, true
	p := decide(t, input(nil, a, b))
	if len(p.Add) != 1 {
		t.Fatal(told(p))
	}
	var steps []capacity.Step
	for _, r := range p.Add[0].Ladder {
		steps = append(steps, r.Step)
	}
	if len(steps) < 3 || steps[0] != capacity.StepZone {
		t.Errorf("ladder %v", steps)
	}
	if e := p.Add[0].Expected; e.FirstMilli != 800 || e.LadderMill < 990 || e.Seconds < 180 || e.Seconds > 240 {
		t.Errorf("expected %+v", e)
	}
}

func draw(t *rapid.T) capacity.Input {
	var nodes []capacity.Node
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		m := rapid.SampledFrom(machines).Draw(t, "machine")
		n := node(fmt.Sprintf("n%02d", i), m.name, rapid.SampledFrom([]fleet.Purchase{fleet.PurchaseOnDemand, fleet.PurchaseSpot}).Draw(t, "purchase"))
		n.Phase = rapid.SampledFrom([]fleet.NodePhase{fleet.NodeReady, fleet.NodeReady, fleet.NodeReady, fleet.NodeBooting, fleet.NodeDraining, fleet.NodeNotReady}).Draw(t, "phase")
		n.Notice = rapid.IntRange(0, 9).Draw(t, "notice") == 0
		switch rapid.IntRange(0, 11).Draw(t, "kind") {
		case 0:
			n.Price, n.Saves = nil, nil
		case 1:
			n.Fixed = "protected"
		case 2:
			n.Saves = dollars(0)
		case 3:
			n.StartedAt = now.Add(-time.Minute)
		}
		nodes = append(nodes, n)
	}
	in := input(nodes)
	for i := range rapid.IntRange(0, 25).Draw(t, "pods") {
		on := ""
		if len(nodes) > 0 && rapid.IntRange(0, 3).Draw(t, "runs") > 0 {
			on = rapid.SampledFrom(nodes).Draw(t, "on").Name
		}
		p := pod(fmt.Sprintf("%c%02d", 'a'+rapid.IntRange(0, 3).Draw(t, "workload"), i), on, rapid.Int64Range(0, 9000).Draw(t, "cpu"), rapid.SampledFrom([]int64{0, 0, 1, 2, 9}).Draw(t, "gpus"))
		p.SpotOK = rapid.Bool().Draw(t, "spot")
		if rapid.IntRange(0, 6).Draw(t, "protected") == 0 {
			p.Protected = "label"
		}
		in.Pods = append(in.Pods, p)
	}
	for i := range in.Candidates {
		switch rapid.IntRange(0, 9).Draw(t, "offer") {
		case 0:
			in.Candidates[i].Price = nil
		case 1:
			in.Candidates[i].BackoffUntil = now.Add(time.Minute)
		case 2:
			one := int64(1)
			in.Candidates[i].Stock = &one
		}
	}
	pol := &in.Policy
	pol.MaxNodes, pol.MaxGPUs = rapid.Int64Range(0, 10).Draw(t, "max nodes"), rapid.Int64Range(0, 20).Draw(t, "max gpus")
	if rapid.Bool().Draw(t, "capped") {
		pol.HourlyMax = dollars(rapid.Int64Range(0, 60_000).Draw(t, "hourly"))
	}
	pol.CPUOnGPU, pol.NoSpot = rapid.Bool().Draw(t, "cpu on gpu"), rapid.IntRange(0, 4).Draw(t, "no spot") == 0
	pol.MaxActions = rapid.IntRange(1, 12).Draw(t, "actions")
	if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
		in.DataAt = now.Add(-time.Hour)
	}
	if rapid.IntRange(0, 2).Draw(t, "kept ready") == 0 {
		pol.Warm = []capacity.WarmRule{{Name: "small", InstanceTypes: []string{"small"}, How: capacity.WarmFixed, Count: int64(rapid.IntRange(0, 3).Draw(t, "ready")), Spot: rapid.Bool().Draw(t, "ready on Spot")},
			{Name: "l4", GPUModel: "L4", GPUs: 1, How: capacity.WarmGrowth, Count: 4, Least: 1}}
		in.Growths = []capacity.Growth{{Rule: "l4", GPUs: int64(rapid.IntRange(0, 3).Draw(t, "growth")), Samples: rapid.IntRange(0, 1).Draw(t, "samples")}}
	}
	if rapid.Bool().Draw(t, "recalls") {
		pol.InsureMilli = rapid.SampledFrom([]int64{0, 300, 1000}).Draw(t, "insured")
		in.Recall(drawNews(t, &in))
	}
	return in
}

// drawNews is what happened to Spot pools in the last two days.
func drawNews(t *rapid.T, in *capacity.Input) map[fleet.Offering][]capacity.SpotNews {
	out := map[fleet.Offering][]capacity.SpotNews{}
	for i := range in.Candidates {
		o := in.Candidates[i].Offering
		at := now.Add(-48 * time.Hour)
		for range rapid.IntRange(0, 3).Draw(t, "news") {
			at = at.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "later")) * time.Second)
			count := func(what string) int { return rapid.IntRange(0, 2).Draw(t, what) }
			out[o] = append(out[o], capacity.SpotNews{At: at, Got: count("got"), Failed: count("failed"), Warned: count("warned"), Lost: count("lost"), Held: count("held")})
		}
	}
	return out
}

// apply is the cluster after a plan was carried out.
func apply(in capacity.Input, p *capacity.Plan, ready time.Time) capacity.Input {
	out := in
	out.Nodes, out.Pods = nil, append([]capacity.Pod(nil), in.Pods...)
	to := map[string]string{}
	gone := map[string]bool{}
	for _, d := range p.Drain {
		gone[d.Name] = true
		for _, m := range d.Moves {
			if m.To != "" {
				to[m.Pod] = m.To
			}
		}
	}
	for _, n := range in.Nodes {
		if !gone[n.Name] && !n.Notice && n.Phase != fleet.NodeDraining {
			out.Nodes = append(out.Nodes, n)
		}
	}
	for _, w := range p.Waiting {
		if w.Cause == capacity.CauseRoom || w.Cause == capacity.CauseStarting {
			to[w.Pod] = w.Node
		}
	}
	for g, group := range p.Add {
		c := in.Candidates[group.Candidate]
		for m, machine := range group.Machines {
			n := capacity.Node{Name: fmt.Sprintf("new-%d-%d-%d", ready.Unix(), g, m), Offering: c.Offering, Phase: fleet.NodeReady, CPUMilli: c.CPUMilli, MemMiB: c.MemMiB, MaxPods: c.MaxPods,
				GPUModel: c.GPUModel, GPUCount: c.GPUCount, Arch: c.Arch, Price: c.Price, Saves: c.Price, HazardMilli: c.HazardMilli, StartedAt: ready}
			n.UID = n.Name
			out.Nodes = append(out.Nodes, n)
			for _, name := range machine.Pods {
				to[name] = n.Name
			}
		}
	}
	there := map[string]bool{}
	for _, n := range out.Nodes {
		there[n.Name] = true
	}
	for i := range out.Pods {
		q := &out.Pods[i]
		if n, ok := to[q.Name]; ok && n != q.Node {
			q.Node, q.Phase, q.ReadyAt, q.Reason = n, fleet.PodReady, ready, ""
		}
		if q.Node != "" && !there[q.Node] {
			q.Node, q.Phase, q.ReadyAt = "", fleet.PodPending, time.Time{}
		}
	}
	return out
}

func TestPlansKeepTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		p, err := capacity.Decide(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bad := capacity.Check(in, p); len(bad) > 0 {
			t.Fatalf("%q", bad)
		}
		again, err := capacity.Decide(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatalf("the same input, another plan: %s", diff)
		}
	})
}

func TestAPlanAppliedTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		in.Policy.MaxActions = 1000
		p := decide(t, in)
		after := apply(in, p, now)
		if !quiet(after) { // a cap that a leaving machine frees, or one more pod that fits now, is something new
			return
		}
		again := decide(t, after)
		for _, g := range again.Add {
			if g.Why == capacity.WhyPending || g.Why == capacity.WhyLeaving {
				t.Fatalf("%v, and then %v", told(p), told(again))
			}
		}
		if len(again.Drain) > len(p.Drain) {
			t.Fatalf("%v, and then %v", told(p), told(again))
		}
	})
}

// quiet tells whether nothing waits.
func quiet(in capacity.Input) bool {
	for _, p := range in.Pods {
		if p.Node == "" {
			return false
		}
	}
	return true
}

func TestPlansComeToAnEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		in.Policy.MaxActions = 1000
		cost := fleet.Money(-1)
		for round := range 30 {
			p := decide(t, in)
			if !p.Changes() {
				return
			}
			insured := slices.ContainsFunc(p.Add, func(g capacity.Group) bool { return g.Why == capacity.WhyInsurance || g.Why == capacity.WhyWarm })
			if cost >= 0 && quiet(in) && p.After > cost && !insured {
				t.Fatalf("round %d costs %s after %s: %v", round, p.After, cost, told(p))
			}
			cost = p.After
			in = apply(in, p, in.Now)
			in.Now = in.Now.Add(time.Hour)
			in.DataAt = in.Now
		}
		t.Fatal("it never rests")
	})
}

func TestAnEndedSearchIsComputedAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		left := rapid.IntRange(0, 30).Draw(t, "steps")
		p, err := capacity.Decide(in, func() bool { left--; return left < 0 })
		if err != nil {
			t.Fatal(err)
		}
		if bad := capacity.Check(in, p); len(bad) > 0 {
			t.Fatalf("%q", bad)
		}
		in.Steps = p.Steps
		again, err := capacity.Decide(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	nodes := []capacity.Node{node("s", "one", fleet.PurchaseSpot), node("n", "small", fleet.PurchaseOnDemand)}
	pods := []capacity.Pod{pod("a1", "s", 1, 1), pod("a2", "", 1, 1), pod("b1", "n", 1, 0), pod("b2", "", 1, 0), pod("c1", "", 1, 0), pod("d1", "n", 1, 0), pod("e1", "n", 1, 0)}
	pods[5].Workload, pods[6].Workload = "ns/Job/d", "ns/DaemonSet/e"
	labels := make([]map[string]string, len(pods))
	labels[4] = map[string]string{capacity.LabelSpot: "true", capacity.LabelZone: "a_b", capacity.LabelProtected: "true"}
	capacity.Evidence(nodes, pods, labels, capacity.Policy{})
	got := []string{}
	for _, p := range pods {
		got = append(got, fmt.Sprint(p.Name, p.SpotOK, p.Models, p.Archs, p.Where, p.Protected, p.Daemon))
	}
	want := []string{"ns/a1 true [L4] [amd64] [] false", "ns/a2 true [L4] [amd64] [] false", "ns/b1 false [] [amd64] [] false", "ns/b2 false [] [amd64] [] false",
		"ns/c1 true [] [] [zone=a,b]label false", "ns/d1 false [] [amd64] []job false", "ns/e1 false [] [amd64] [] true"}
	for i := range want {
		if norm(got[i]) != norm(want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

func norm(s string) string {
	out := ""
	for _, r := range s {
		if r != ' ' {
			out += string(r)
		}
	}
	return out
}

func TestFreezeWindowsFollowTheZone(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones on this machine")
	}
	w := capacity.FreezeWindow{Days: []string{"sat"}, From: "22:00", To: "06:00", TimeZone: "Europe/Berlin"}
	got := w.Windows(time.Date(2026, 10, 25, 2, 0, 0, 0, time.UTC), berlin) // summer time ends in that night
	want := []fleet.Interval{{From: time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC), To: time.Date(2026, 10, 25, 5, 0, 0, 0, time.UTC)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
