package ledger_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
)

var hour = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func usd(s string) fleet.Money {
	m, err := fleet.ParseMoney(s)
	if err != nil {
		panic(err)
	}
	return m
}

func price(s string) *fleet.Money { m := usd(s); return &m }

// plain weighs a core, a GiB and a GPU as the OpenCost example prices them: 30, 10, 30.
var plain = market.Weights{CPUHour: usd("30"), GiBHour: usd("10"), GPUHour: map[fleet.GPUModel]fleet.Money{"X": usd("30")}}

func always() fleet.Interval { return fleet.Interval{From: hour.Add(-24 * time.Hour)} }

// node has one core, one GiB and one GPU and costs 35 an hour: 15 for the core, 5 for the memory, 15 for the GPU.
func node(name string) ledger.Node {
	return ledger.Node{UID: "uid-" + name, Name: name, Purchase: fleet.PurchaseOnDemand, CPUMilli: 1000, MemMiB: 1024, GPUModel: "X", GPUCount: 1,
		Life: always(), ReadyAt: hour.Add(-23 * time.Hour), Price: price("35"), Weights: plain}
}

func pod(name, on string, gpuMilli int64) ledger.Pod {
	return ledger.Pod{UID: name, Node: on, Owner: ledger.Owner{Workload: fleet.WorkloadID("w-" + name), Namespace: "chat", Team: "red"}, GPUMilli: gpuMilli, Held: always()}
}

func closed(nodes []ledger.Node, pods ...ledger.Pod) ledger.Statement {
	return ledger.Close(ledger.Hour{From: hour, To: hour.Add(time.Hour), Nodes: nodes, Pods: pods})
}

// amount sums the lines that match; an empty string matches all.
func amount(s ledger.Statement, kind ledger.Kind, resource ledger.Resource, workload string) fleet.Money {
	var sum fleet.Money
	for _, l := range s.Lines {
		if (kind == "" || l.Kind == kind) && (resource == "" || l.Resource == resource) && (workload == "" || string(l.Owner.Workload) == "w-"+workload) {
			sum += l.Amount
		}
	}
	return sum
}

func wantMoney(t *testing.T, what string, got fleet.Money, want string) {
	t.Helper()
	if got != usd(want) {
		t.Errorf("%s = %s, want %s", what, got, want)
	}
}

func TestNodeOf35SplitsInto15And15And5(t *testing.T) {
	t.Parallel()
	s := closed([]ledger.Node{node("a")})
	wantMoney(t, "cpu", amount(s, ledger.KindIdle, ledger.ResourceCPU, ""), "15")
	wantMoney(t, "memory", amount(s, ledger.KindIdle, ledger.ResourceMemory, ""), "5")
	wantMoney(t, "gpu", amount(s, ledger.KindIdle, ledger.ResourceGPU, ""), "15")
	wantMoney(t, "node", s.NodeCost, "35")
}

func TestFourQuarterPodsAreOneGPU(t *testing.T) {
	t.Parallel()
	s := closed([]ledger.Node{node("a")}, pod("p1", "a", 250), pod("p2", "a", 250), pod("p3", "a", 250), pod("p4", "a", 250))
	wantMoney(t, "four quarters", amount(s, ledger.KindWorkload, ledger.ResourceGPU, ""), "15")
	wantMoney(t, "one quarter", amount(s, ledger.KindWorkload, ledger.ResourceGPU, "p3"), "3.75")
	wantMoney(t, "idle gpu", amount(s, ledger.KindIdle, ledger.ResourceGPU, ""), "0")
	if len(s.Conflicts) != 0 {
		t.Errorf("conflicts: %+v", s.Conflicts)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	f := func(v float64) *float64 { return &v }
	booting := node("a")
	booting.Life.From, booting.ReadyAt = hour, hour.Add(15*time.Minute)
	replaced := node("a")
	replaced.UID, replaced.Life = "uid-a2", fleet.Interval{From: hour.Add(30 * time.Minute)}
	ended := node("a")
	ended.Life.To = hour.Add(30 * time.Minute)
	unknown := node("a")
	unknown.Price = nil
	bare := pod("p1", "a", 500)
	bare.Owner.Workload = ""
	half := pod("p1", "a", 1000)
	half.Held = fleet.Interval{From: hour.Add(30 * time.Minute), To: hour.Add(3 * time.Hour)}
	twin := node("a")
	twin.UID, twin.Life.From = "uid-twin", hour.Add(30*time.Minute)
	late := node("a")
	late.Life.From = hour.Add(30 * time.Second)
	late.ReadyAt = late.Life.From
	brief := node("a")
	brief.Life, brief.ReadyAt, brief.MinBill = fleet.Interval{From: hour, To: hour.Add(10 * time.Second)}, time.Time{}, time.Minute
	cpu := pod("p1", "a", 0)
	cpu.CPUMilli = 200
	for _, c := range []struct {
		name      string
		nodes     []ledger.Node
		pods      []ledger.Pod
		usage     map[fleet.WorkloadID]ledger.Usage
		want      map[string]string // kind/resource -> amount; what is not named is zero
		conflicts []string
	}{
		{"half an hour of a whole GPU is half of it", []ledger.Node{node("a")}, []ledger.Pod{half}, nil,
			map[string]string{"workload/gpu": "7.5", "idle/gpu": "7.5", "idle/cpu": "15", "idle/memory": "5"}, nil},
		{"a bare pod pays as its namespace", []ledger.Node{node("a")}, []ledger.Pod{bare}, nil,
			map[string]string{"workload/gpu": "7.5", "idle/gpu": "7.5", "idle/cpu": "15", "idle/memory": "5"}, nil},
		{"use above the request is what counts", []ledger.Node{node("a")}, []ledger.Pod{cpu}, map[fleet.WorkloadID]ledger.Usage{"w-p1": {CPUCores: f(0.8)}},
			map[string]string{"workload/cpu": "12", "idle/cpu": "3", "idle/memory": "5", "idle/gpu": "15"}, nil},
		{"use below the request is not", []ledger.Node{node("a")}, []ledger.Pod{cpu}, map[fleet.WorkloadID]ledger.Usage{"w-p1": {CPUCores: f(0.1)}},
			map[string]string{"workload/cpu": "3", "idle/cpu": "12", "idle/memory": "5", "idle/gpu": "15"}, nil},
		{"a use that is no number is not known", []ledger.Node{node("a")}, []ledger.Pod{cpu}, map[fleet.WorkloadID]ledger.Usage{"w-p1": {CPUCores: f(math.NaN())}},
			map[string]string{"workload/cpu": "3", "idle/cpu": "12", "idle/memory": "5", "idle/gpu": "15"}, []string{"bad_usage"}},
		{"a negative use is not known", []ledger.Node{node("a")}, []ledger.Pod{cpu}, map[fleet.WorkloadID]ledger.Usage{"w-p1": {CPUCores: f(-2), MemMiB: f(512)}},
			map[string]string{"workload/cpu": "3", "workload/memory": "2.5", "idle/cpu": "12", "idle/memory": "2.5", "idle/gpu": "15"}, []string{"bad_usage"}},
		{"a node without telemetry is charged by what was asked of it", []ledger.Node{node("a")}, []ledger.Pod{pod("p1", "a", 1000)}, nil,
			map[string]string{"workload/gpu": "15", "idle/cpu": "15", "idle/memory": "5"}, nil},
		{"a pod that two nodes hold pays for both, and somebody is told", []ledger.Node{node("a"), node("b")}, []ledger.Pod{pod("p1", "a", 1000), pod("p1", "b", 1000)}, nil,
			map[string]string{"workload/gpu": "30", "idle/cpu": "30", "idle/memory": "10"}, []string{"two_nodes"}},
		{"two nodes of one name do not both charge a pod: the younger has the name", []ledger.Node{node("a"), twin}, []ledger.Pod{pod("p1", "a", 1000)}, nil,
			map[string]string{"workload/gpu": "15", "idle/gpu": "7.5", "idle/cpu": "22.5", "idle/memory": "7.5"}, []string{"same_node_name"}},
		{"a pod whose clock is half a minute ahead of its node's is no contradiction", []ledger.Node{late}, []ledger.Pod{pod("p1", "a", 1000)}, nil,
			map[string]string{"workload/gpu": "14.875", "idle/cpu": "14.875", "idle/memory": "4.958333333"}, nil},
		{"a machine that lived ten seconds is billed for its minute", []ledger.Node{brief}, nil, nil,
			map[string]string{"overhead/cpu": "0.25", "overhead/memory": "0.083333333", "overhead/gpu": "0.25"}, nil},
		{"booting is overhead, not idle", []ledger.Node{booting}, nil, nil,
			map[string]string{"overhead/cpu": "3.75", "overhead/memory": "1.25", "overhead/gpu": "3.75", "idle/cpu": "11.25", "idle/memory": "3.75", "idle/gpu": "11.25"}, nil},
		{"three halves of a GPU are all charged, and the contradiction is a row", []ledger.Node{node("a")},
			[]ledger.Pod{pod("p1", "a", 500), pod("p2", "a", 500), pod("p3", "a", 500)}, nil,
			map[string]string{"workload/gpu": "22.5", "residual/gpu": "-7.5", "idle/cpu": "15", "idle/memory": "5"}, []string{"over_allocated"}},
		{"a pod on a node that nobody knows is a conflict and costs nothing", []ledger.Node{node("a")}, []ledger.Pod{pod("p1", "ghost", 1000)}, nil,
			map[string]string{"idle/gpu": "15", "idle/cpu": "15", "idle/memory": "5"}, []string{"no_such_node"}},
		{"a pod that outlives its node by name moves to the node of the same name", []ledger.Node{ended, replaced}, []ledger.Pod{pod("p1", "a", 1000)}, nil,
			map[string]string{"workload/gpu": "15", "idle/cpu": "15", "idle/memory": "5"}, nil},
		{"a node without a price keeps quantities and has no amounts", []ledger.Node{unknown}, []ledger.Pod{pod("p1", "a", 1000)}, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := ledger.Close(ledger.Hour{From: hour, To: hour.Add(time.Hour), Nodes: c.nodes, Pods: c.pods, Usage: c.usage})
			got, want := map[string]fleet.Money{}, map[string]fleet.Money{}
			var sum fleet.Money
			for _, l := range s.Lines {
				if l.Amount != 0 {
					got[string(l.Kind)+"/"+string(l.Resource)] += l.Amount
				}
				sum += l.Amount
			}
			for k, v := range c.want {
				want[k] = usd(v)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("amounts (-want +got):\n%s", d)
			}
			if sum != s.NodeCost {
				t.Errorf("lines add up to %s, nodes cost %s", sum, s.NodeCost)
			}
			var codes []string
			for _, k := range s.Conflicts {
				codes = append(codes, k.Code)
			}
			if d := cmp.Diff(c.conflicts, codes); d != "" {
				t.Errorf("conflicts (-want +got):\n%s", d)
			}
		})
	}
}

func TestUnknownPriceIsReportedAndKeepsQuantities(t *testing.T) {
	t.Parallel()
	n := node("a")
	n.Price = nil
	s := closed([]ledger.Node{n, node("b")}, pod("p1", "a", 1000))
	if s.NodeSeconds != 7200 || s.UnpricedNodeSeconds != 3600 {
		t.Errorf("node seconds %d, without a price %d", s.NodeSeconds, s.UnpricedNodeSeconds)
	}
	for _, r := range s.Rows() {
		if r.Kind == ledger.KindWorkload && (r.Quantity != 1 || r.Unpriced != 1 || r.Amount != 0) {
			t.Errorf("workload row %+v", r)
		}
		if r.Kind == ledger.KindIdle && r.Resource == ledger.ResourceCPU && (r.Quantity != 2 || r.Unpriced != 1 || r.Amount != usd("15")) {
			t.Errorf("idle row %+v", r)
		}
	}
}

func TestTheRunningHourCostsWhatHasPassed(t *testing.T) {
	t.Parallel()
	s := ledger.Close(ledger.Hour{From: hour, To: hour.Add(6 * time.Minute), Nodes: []ledger.Node{node("a")}, Pods: []ledger.Pod{pod("p1", "a", 1000)}})
	wantMoney(t, "six minutes", s.NodeCost, "3.5")
	wantMoney(t, "its GPU", amount(s, ledger.KindWorkload, ledger.ResourceGPU, ""), "1.5")
}

// The OpenCost documentation's two nodes: one with 4 used and 2 idle, one with 1 used and 5 idle.
func TestIdleSharing(t *testing.T) {
	t.Parallel()
	row := func(kind ledger.Kind, workload, amount string) ledger.Row {
		return ledger.Row{Kind: kind, Resource: ledger.ResourceCPU, Purchase: fleet.PurchaseOnDemand, Owner: ledger.Owner{Workload: fleet.WorkloadID(workload)}, Amount: usd(amount)}
	}
	one := []ledger.Row{row(ledger.KindWorkload, "a", "4"), row(ledger.KindIdle, "", "2")}
	two := []ledger.Row{row(ledger.KindWorkload, "b", "1"), row(ledger.KindIdle, "", "5")}
	for _, c := range []struct {
		name string
		got  []ledger.Row
		a, b string
	}{
		{"by node each carries its own node's idle", ledger.Merge(append(ledger.ShareIdle(one), ledger.ShareIdle(two)...)), "6", "6"},
		{"by node evenly, with one workload on each, is the same", ledger.Merge(append(ledger.ShareIdleBy(one, ledger.SpreadEven), ledger.ShareIdleBy(two, ledger.SpreadEven)...)), "6", "6"},
		{"by cluster evenly each carries half of seven", ledger.ShareIdleBy(append(append([]ledger.Row{}, one...), two...), ledger.SpreadEven), "7.5", "4.5"},
		{"by cluster the larger carries more", ledger.ShareIdle(append(append([]ledger.Row{}, one...), two...)), "9.6", "2.4"},
	} {
		if len(c.got) != 2 || c.got[0].Amount != usd(c.a) || c.got[1].Amount != usd(c.b) {
			t.Errorf("%s: %+v, want %s and %s", c.name, c.got, c.a, c.b)
		}
	}
	gpu := row(ledger.KindIdle, "", "80")
	gpu.Resource, gpu.Quantity = ledger.ResourceGPU, 8
	got := ledger.ShareIdle(append([]ledger.Row{gpu}, one...))
	if last := got[0]; last.Kind != ledger.KindIdle || last.Amount != usd("80") || last.Quantity != 8 {
		t.Errorf("eight idle GPUs that no GPU pod can carry became %+v", got)
	}
}

// OpenCost's own picture: workloads 1 to 4 on a node with 2 idle, workload 5 on a node with 5 idle.
func TestIdleSharingOfFiveWorkloads(t *testing.T) {
	t.Parallel()
	row := func(kind ledger.Kind, workload, amount string) ledger.Row {
		return ledger.Row{Kind: kind, Resource: ledger.ResourceCPU, Purchase: fleet.PurchaseOnDemand, Owner: ledger.Owner{Workload: fleet.WorkloadID(workload)}, Amount: usd(amount)}
	}
	one := []ledger.Row{row(ledger.KindWorkload, "w1", "1"), row(ledger.KindWorkload, "w2", "1"), row(ledger.KindWorkload, "w3", "1"), row(ledger.KindWorkload, "w4", "1"), row(ledger.KindIdle, "", "2")}
	two := []ledger.Row{row(ledger.KindWorkload, "w5", "1"), row(ledger.KindIdle, "", "5")}
	for _, c := range []struct {
		name        string
		got         []ledger.Row
		first, last string
	}{
		{"by node", ledger.Merge(append(ledger.ShareIdle(one), ledger.ShareIdle(two)...)), "1.5", "6"},
		{"by cluster", ledger.ShareIdle(append(append([]ledger.Row{}, one...), two...)), "2.4", "2.4"},
	} {
		if len(c.got) != 5 || c.got[0].Amount != usd(c.first) || c.got[4].Amount != usd(c.last) {
			t.Errorf("%s: %+v, want %s for the first and %s for the fifth", c.name, c.got, c.first, c.last)
		}
	}
}

// A shared namespace of 9 beside owners of 20 and 10.
func TestSharedWorkloads(t *testing.T) {
	t.Parallel()
	row := func(workload, namespace, amount string) ledger.Row {
		return ledger.Row{Kind: ledger.KindWorkload, Resource: ledger.ResourceCPU, Owner: ledger.Owner{Workload: fleet.WorkloadID(workload), Namespace: namespace}, Amount: usd(amount)}
	}
	rows := []ledger.Row{row("a", "x", "20"), row("b", "x", "10"), row("dns", "kube-system", "9"), {Kind: ledger.KindIdle, Resource: ledger.ResourceCPU, Amount: usd("5")}}
	system := func(r ledger.Row) bool { return r.Owner.Namespace == "kube-system" }
	owner := func(i int) ledger.Owner { return rows[i].Owner }
	for _, c := range []struct {
		name   string
		got    []ledger.Row
		a, b   string
		shared bool
	}{
		{"in proportion", ledger.ShareWorkloads(rows, system, ledger.SpreadWeighted, nil), "26", "13", true},
		{"evenly", ledger.ShareWorkloads(rows, system, ledger.SpreadEven, nil), "24.5", "14.5", true},
		{"by a metric", ledger.ShareWorkloads(rows, system, ledger.SpreadEven, map[ledger.Owner]int64{owner(0): 1, owner(1): 8}), "21", "18", true},
		{"by a metric that nobody has", ledger.ShareWorkloads(rows, system, ledger.SpreadEven, map[ledger.Owner]int64{}), "20", "10", false},
		{"all of them with nobody left", ledger.ShareWorkloads(rows, func(ledger.Row) bool { return true }, ledger.SpreadEven, nil), "20", "10", false},
	} {
		var sum, a, b fleet.Money
		left := false
		for _, r := range c.got {
			sum += r.Amount
			switch {
			case r.Owner == owner(0):
				a += r.Amount
			case r.Owner == owner(1):
				b += r.Amount
			case system(r):
				left = true
			}
		}
		if sum != usd("44") || a != usd(c.a) || b != usd(c.b) || left == c.shared {
			t.Errorf("%s: %s and %s of %s, the namespace is left: %v", c.name, a, b, sum, left)
		}
	}
}

func TestAMonthlyFeeIsProratedAsOpenCostDoes(t *testing.T) {
	t.Parallel()
	if got := ledger.Prorate(usd("30.42"), 24*time.Hour.Milliseconds()); fmt.Sprintf("%.2f", got.Float()) != "1.00" {
		t.Errorf("30.42 a month are %s a day", got)
	}
	wantMoney(t, "a whole month", ledger.Prorate(usd("73"), 730*time.Hour.Milliseconds()), "73")
}

// Two cores and one GB requested, half of each used, at 10 a core and 1 a GB: 26 %.
func TestEfficiency(t *testing.T) {
	t.Parallel()
	rows := []ledger.Row{
		{Kind: ledger.KindWorkload, Resource: ledger.ResourceCPU, Amount: usd("20"), Quantity: 2, Measured: 2, Used: 0.5},
		{Kind: ledger.KindWorkload, Resource: ledger.ResourceMemory, Amount: usd("1"), Quantity: 1, Measured: 1, Used: 0.5},
		{Kind: ledger.KindIdle, Resource: ledger.ResourceCPU, Amount: usd("99"), Quantity: 9},
	}
	if got, ok := ledger.Efficiency(rows); !ok || math.Round(got*100) != 26 {
		t.Errorf("efficiency = %v, %v, want 26 %%", got, ok)
	}
	if _, ok := ledger.Efficiency([]ledger.Row{{Kind: ledger.KindWorkload, Amount: usd("20"), Quantity: 2}}); ok {
		t.Error("efficiency is known although no use is")
	}
}

func TestTransfersPostOnce(t *testing.T) {
	t.Parallel()
	s := closed([]ledger.Node{node("a")}, pod("p1", "a", 500), pod("p2", "a", 500), pod("p3", "a", 500))
	first, again := ledger.Transfers("c", hour, 1, s), ledger.Transfers("c", hour, 1, s)
	if d := cmp.Diff(first, again); d != "" {
		t.Errorf("the same statement makes other transfers:\n%s", d)
	}
	ids, accounts := map[string]bool{}, map[string]fleet.Money{}
	for _, x := range append(first, ledger.Transfers("c", hour, 2, s)...) {
		if ids[x.ID] {
			t.Errorf("id of %s is there twice", x.Debit)
		}
		if ids[x.ID] = true; x.Amount <= 0 {
			t.Errorf("transfer of %s", x.Amount)
		}
	}
	for _, x := range first {
		accounts[x.Debit] += x.Amount
		accounts[x.Credit] -= x.Amount
	}
	wantMoney(t, "the machines' account", accounts["nodes/on_demand"], "-35")
	wantMoney(t, "the residual account", accounts["residual"], "-7.5")
	wantMoney(t, "a workload's account", accounts["workload/w-p1"], "7.5")
}

func TestLook(t *testing.T) {
	t.Parallel()
	day := func(d int, s string) ledger.Spend {
		return ledger.Spend{Day: time.Date(2026, 3, d, 0, 0, 0, 0, time.UTC), Amount: usd(s)}
	}
	var steady []ledger.Spend
	for d := 1; d <= 10; d++ {
		steady = append(steady, day(d, "24"))
	}
	feb := ledger.Spend{Day: time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC), Amount: usd("24")}
	for _, c := range []struct {
		name             string
		days             []ledger.Spend
		now              time.Time
		toDate, forecast string
		known            bool
	}{
		{"ten steady days draw a line to the end", steady, time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC), "240", "744", true},
		{"at noon half a day is half a day", []ledger.Spend{day(1, "12")}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "12", "744", true},
		{"the month before lends its rate, not its cost", []ledger.Spend{feb, day(1, "12")}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "12", "744", true},
		{"without any cost nothing is known", nil, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "0", "0", false},
		{"minutes are too little for a rate", []ledger.Spend{day(1, "1")}, time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC), "1", "1", false},
	} {
		o := ledger.Look(c.days, c.now)
		if o.ToDate != usd(c.toDate) || o.Known != c.known || c.forecast != "" && o.Forecast != usd(c.forecast) {
			t.Errorf("%s: %s to date, forecast %s, known %v", c.name, o.ToDate, o.Forecast, o.Known)
		}
	}
}

func TestCrossed(t *testing.T) {
	t.Parallel()
	o := ledger.Outlook{ToDate: usd("85"), Forecast: usd("140"), Known: true}
	got := fmt.Sprint(ledger.Crossed(usd("100"), []int{100, 50, 80, 150, 80}, o))
	if want := "[{actual 50 85.00} {actual 80 85.00} {forecast 100 140.00}]"; got != want {
		t.Errorf("crossed %s, want %s", got, want)
	}
	o.Known = false
	if got := ledger.Crossed(usd("100"), []int{100}, o); len(got) != 0 {
		t.Errorf("a forecast that is not known crossed %v", got)
	}
	if got := ledger.Crossed(usd("85"), []int{100}, o); len(got) != 1 {
		t.Errorf("reaching the limit exactly crossed %v", got)
	}
}
