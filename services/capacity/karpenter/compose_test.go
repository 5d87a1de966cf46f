package karpenter_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"plimsoll.dev/services/capacity/karpenter"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"

	"pgregory.net/rapid"
)

func offering(name, zone string, how fleet.Purchase, price float64, cpu, mem, gpus int64, model fleet.GPUModel) packing.Offering {
	o := packing.Offering{CPUMilli: cpu, MemMiB: mem, GPUCount: gpus, GPUModel: model, Arch: "amd64", MaxPods: 110}
	o.Cloud, o.Region, o.Zone, o.InstanceType, o.Purchase = fleet.CloudAWS, "us-east-1", zone, name, how
	if price > 0 {
		m, err := fleet.MoneyFromFloat(price)
		if err != nil {
			panic(err)
		}
		o.Price = &m
	}
	return o
}

// market: two sizes with GPUs on demand and on Spot in two zones, and machines without.
func market() []packing.Offering {
	var out []packing.Offering
	for _, zone := range []string{"a", "b"} {
		spot := 1.0
		if zone == "b" {
			spot = 1.1
		}
		out = append(out,
			offering("g1", zone, fleet.PurchaseOnDemand, 1, 4000, 16000, 1, "A10"), offering("g1", zone, fleet.PurchaseSpot, 0.4*spot, 4000, 16000, 1, "A10"),
			offering("g4", zone, fleet.PurchaseOnDemand, 5, 48000, 180000, 4, "A10"), offering("g4", zone, fleet.PurchaseSpot, 2*spot, 48000, 180000, 4, "A10"),
			offering("c4", zone, fleet.PurchaseOnDemand, 0.2, 4000, 8000, 0, ""), offering("c4", zone, fleet.PurchaseSpot, 0.08*spot, 4000, 8000, 0, ""))
	}
	return out
}

func gpuPods(n int, spot bool) []packing.Pod {
	var out []packing.Pod
	for i := range n {
		out = append(out, packing.Pod{Name: fmt.Sprint("g", i), CPUMilli: 3000, MemMiB: 10000, GPUCount: 1, GPUMilli: 1000, SpotOK: spot})
	}
	return out
}

func compose(t interface{ Fatal(...any) }, pods []packing.Pod, offs []packing.Offering, in karpenter.Input, s karpenter.Settings) (*karpenter.Plan, *packing.Answer) {
	a, err := packing.Pack(pods, offs, packing.Options{NoCPUOnGPU: s.TaintGPUs})
	if err != nil {
		t.Fatal(err)
	}
	in.Pods, in.Offerings, in.New = pods, offs, a.Nodes
	p, err := karpenter.Compose(in, s)
	if err != nil {
		t.Fatal(err)
	}
	return p, a
}

func TestTwoPodsWithOneGPUGetTwoSmallMachinesNotOneLarge(t *testing.T) {
	t.Parallel()
	p, a := compose(t, gpuPods(2, false), market(), karpenter.Input{}, karpenter.Settings{TaintGPUs: true})
	if p.Bought != a.Cost || p.Rest != 0 {
		t.Fatalf("bought %s for %s, %d pods left to the rest", p.Bought, a.Cost, p.Rest)
	}
	pool := p.Pools[0]
	if pool.Name != "plimsoll-g1-od" || *pool.Nodes != 2 || pool.Weight != 99 || !pool.TaintGPUs {
		t.Fatalf("%+v, nodes %d", pool, *pool.Nodes)
	}
	if want := []string{"a", "b"}; !slices.Equal(pool.Requirements[3].Values, want) {
		t.Errorf("zones of one price on demand are %v, want %v", pool.Requirements[3].Values, want)
	}
	if last := p.Pools[len(p.Pools)-1]; last.Name != "plimsoll-rest-gpu4" || last.Weight != 1 || last.Nodes != nil {
		t.Errorf("the pool for the rest is %+v", last)
	}
}

func TestReservationsComeFirst(t *testing.T) {
	t.Parallel()
	offs := market()
	reserved := offering("g1", "a", fleet.PurchaseReserved, 0.01, 4000, 16000, 1, "A10")
	reserved.ReservationID, reserved.Stock = "cr-1", ptr(int64(2))
	offs = append(offs, reserved)
	p, _ := compose(t, gpuPods(5, true), offs, karpenter.Input{}, karpenter.Settings{TaintGPUs: true, ReservationKey: "example.test/reservation"})
	first := p.Pools[0]
	if *first.Nodes != 2 || !slices.ContainsFunc(first.Requirements, func(r karpenter.Requirement) bool {
		return r.Key == "example.test/reservation" && slices.Equal(r.Values, []string{"cr-1"})
	}) {
		t.Fatalf("%+v", first)
	}
	if p.Bought != p.Packed {
		t.Errorf("bought %s for %s", p.Bought, p.Packed)
	}
}

func TestPoolsWithMachinesStayAndEmptyOnesAreRetired(t *testing.T) {
	t.Parallel()
	offs := market()
	in := karpenter.Input{Pods: gpuPods(1, false), Offerings: offs, Pools: []string{"plimsoll-old", "plimsoll-g4-od", "plimsoll-g1-od"},
		Running: []karpenter.Machine{{Name: "n1", Pool: "plimsoll-g4-od", Offering: 2, Pods: []int{0}}, {Name: "n2", Pool: "theirs", Offering: 4}}}
	p, err := karpenter.Compose(in, karpenter.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Retire, []string{"plimsoll-g1-od", "plimsoll-old"}) {
		t.Errorf("retired %v", p.Retire)
	}
	k := slices.IndexFunc(p.Pools, func(n karpenter.NodePool) bool { return n.Name == "plimsoll-g4-od" })
	if k < 0 || *p.Pools[k].Nodes != 1 || p.Pools[k].Why != "running" || p.Pools[k].Consolidate != 0 {
		t.Errorf("%+v", p.Pools)
	}
	if slices.ContainsFunc(p.Pools, func(n karpenter.NodePool) bool { return n.Name == "theirs" }) {
		t.Error("a pool of somebody else was written")
	}
}

func TestOverlaysTellOnlyWhatKarpenterPricesOtherwise(t *testing.T) {
	t.Parallel()
	offs := market()
	listed := make([]*fleet.Money, len(offs))
	for j := range offs {
		listed[j] = offs[j].Price
	}
	listed[0] = nil
	cheap := fleet.Money(1)
	offs[1].Price = &cheap // a commitment has paid for it
	p, _ := compose(t, gpuPods(1, true), offs, karpenter.Input{Listed: listed}, karpenter.Settings{})
	if len(p.Overlays) != 2 {
		t.Fatalf("%+v", p.Overlays)
	}
	for _, o := range p.Overlays {
		if o.Requirements[0].Values[0] != "g1" {
			t.Errorf("%+v", o)
		}
	}
}

func TestBadInputIsAnError(t *testing.T) {
	t.Parallel()
	offs := market()
	for name, in := range map[string]karpenter.Input{
		"offering out of range":      {Offerings: offs, New: []packing.Node{{Offering: 99}}},
		"a pod on two machines":      {Offerings: offs, Pods: gpuPods(1, true), Running: []karpenter.Machine{{Pool: "p", Pods: []int{0}}, {Pool: "p", Pods: []int{0}}}},
		"a machine without a pool":   {Offerings: offs, Running: []karpenter.Machine{{}}},
		"prices for other offerings": {Offerings: offs, Listed: make([]*fleet.Money, 1)},
		"bought without a price":     {Offerings: []packing.Offering{offering("x", "a", fleet.PurchaseSpot, 0, 1, 1, 0, "")}, New: []packing.Node{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := karpenter.Compose(in, karpenter.Settings{}); err == nil {
				t.Error("taken")
			}
		})
	}
}

func TestPlansAreRepeatableInBoundsAndNeverDearerThanWithoutTheSearch(t *testing.T) {
	t.Parallel()
	offs := market()
	rapid.Check(t, func(t *rapid.T) {
		var pods []packing.Pod
		for i := range rapid.IntRange(1, 25).Draw(t, "pods") {
			q := packing.Pod{Name: fmt.Sprint(i), CPUMilli: rapid.Int64Range(100, 9000).Draw(t, "cpu"), MemMiB: rapid.Int64Range(100, 9000).Draw(t, "mem"), SpotOK: rapid.Bool().Draw(t, "spot")}
			if q.GPUCount = rapid.Int64Range(0, 4).Draw(t, "gpus"); q.GPUCount > 0 {
				q.GPUMilli = 1000
			}
			pods = append(pods, q)
		}
		s := karpenter.Settings{TaintGPUs: rapid.Bool().Draw(t, "taint"), Rounds: 60}
		in := karpenter.Input{}
		p, a := compose(t, pods, offs, in, s)
		again, _ := compose(t, pods, offs, in, s)
		if !reflect.DeepEqual(p, again) {
			t.Fatal("two plans of the same input differ")
		}
		if p.Bought > p.Plain {
			t.Fatalf("bought %s, without the search %s", p.Bought, p.Plain)
		}
		if len(a.Unplaced) == 0 && p.Bought < a.Bound {
			t.Fatalf("bought %s under the bound %s", p.Bought, a.Bound)
		}
		seen := map[string]bool{}
		for _, n := range p.Pools {
			if seen[n.Name] || n.Weight < 1 || n.Weight > 100 || len(n.Name) > 63 {
				t.Fatalf("%+v", n)
			}
			seen[n.Name] = true
		}
	})
}

func ptr[T any](x T) *T { return &x }

// A machine that the pool for the rest bought counts against the stock of its offering too.
func TestStockThatIsGoneIsNotPlannedWithWhateverPoolItsMachinesAreIn(t *testing.T) {
	t.Parallel()
	offs := market()
	for j := range offs {
		if offs[j].Purchase == fleet.PurchaseSpot {
			offs[j].Stock = ptr(int64(0))
		}
	}
	offs[1].Stock = ptr(int64(1))
	pods := gpuPods(3, true)
	p, err := karpenter.Compose(karpenter.Input{Pods: pods, Offerings: offs, Running: []karpenter.Machine{{Name: "n", Pool: "plimsoll-rest-gpu1", Offering: 1, Pods: []int{0}}},
		New: []packing.Node{{Offering: 0}, {Offering: 0}}}, karpenter.Settings{TaintGPUs: true})
	if err != nil {
		t.Fatal(err)
	}
	if p.Bought != 2*fleet.NanosPerUnit {
		t.Errorf("two pods are bought for %s, on demand they cost 2", p.Bought)
	}
	for _, n := range p.Pools {
		if n.Why == "plan" && n.Requirements[0].Values[0] == "spot" {
			t.Errorf("%+v", n)
		}
	}
}

func TestZonesOfSpotAreOnePoolUnlessSharesAreLimited(t *testing.T) {
	t.Parallel()
	for byZone, want := range map[bool][]string{false: {"a", "b"}, true: {"a"}} {
		p, _ := compose(t, gpuPods(2, true), market(), karpenter.Input{}, karpenter.Settings{TaintGPUs: true, SpotByZone: byZone})
		if got := p.Pools[0].Requirements[3].Values; !slices.Equal(got, want) || *p.Pools[0].Nodes != 2 {
			t.Errorf("by zone %v: zones %v, want %v", byZone, got, want)
		}
	}
}

// What the plan ends still counts against the limits of its pool, and its pods have room elsewhere.
func TestPodsOfMachinesThatEndGetRoom(t *testing.T) {
	t.Parallel()
	offs := market()
	p, err := karpenter.Compose(karpenter.Input{Pods: gpuPods(1, true), Offerings: offs, New: []packing.Node{{Offering: 1, Pods: []int{0}}},
		Running: []karpenter.Machine{{Name: "n", Pool: "plimsoll-g1-od", Offering: 0, Pods: []int{0}, Ends: true}}, Open: []string{"plimsoll-g1-od"}}, karpenter.Settings{TaintGPUs: true})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]karpenter.NodePool{}
	for _, n := range p.Pools {
		byName[n.Name] = n
	}
	if n := byName["plimsoll-g1-spot"]; n.Nodes == nil || *n.Nodes != 1 {
		t.Errorf("no room for the pod: %+v", p.Pools)
	}
	if n := byName["plimsoll-g1-od"]; *n.Nodes != 1 || n.Consolidate != 1 {
		t.Errorf("%+v", n)
	}
}

func TestMachinesAreExchangedOnlyWhereItSavesMoreThanTheMove(t *testing.T) {
	t.Parallel()
	for moving, want := range map[fleet.Money]int{fleet.NanosPerUnit / 10: 1, fleet.NanosPerUnit: 0} {
		in := karpenter.Input{Pods: gpuPods(2, true), Offerings: market(), Running: []karpenter.Machine{
			{Name: "dear", Pool: "plimsoll-g1-od", Offering: 0, Pods: []int{0}}, {Name: "cheap", Pool: "plimsoll-g1-spot", Offering: 1, Pods: []int{1}}}}
		if got := in.Exchange(moving, karpenter.Settings{TaintGPUs: true}); got != want || len(in.New) != want || in.Running[0].Ends != (want == 1) || in.Running[1].Ends {
			t.Errorf("at %s a move %d exchanged, want %d: %+v", moving, got, want, in.Running)
		}
	}
}

// Where a type of Spot has run out, a claim becomes another one of its size, without a plan; never one that is larger, cheaper to begin with, dearer than on
// demand, or of another model where pods share the machine.
func TestATypeOfSpotHasOthersOfItsSizeBehindIt(t *testing.T) {
	t.Parallel()
	offs := append(market(),
		offering("h1", "a", fleet.PurchaseSpot, 0.6, 4000, 16000, 1, "L4"), offering("h1", "a", fleet.PurchaseOnDemand, 1.2, 4000, 16000, 1, "L4"),
		offering("large", "a", fleet.PurchaseSpot, 0.5, 8000, 32000, 1, "A10"), offering("dear", "a", fleet.PurchaseSpot, 1.1, 4000, 16000, 1, "A10"),
		offering("h4", "a", fleet.PurchaseSpot, 2.5, 48000, 180000, 4, "L4"))
	p, _ := compose(t, gpuPods(2, true), offs, karpenter.Input{}, karpenter.Settings{TaintGPUs: true})
	if got := p.Pools[0]; got.Name != "plimsoll-g1-spot" || !slices.Equal(got.Requirements[2].Values, []string{"g1", "h1"}) {
		t.Errorf("%+v", got)
	}
	pods := gpuPods(3, true)
	pods[0].GPUModels = []fleet.GPUModel{"L4"}
	p, a := compose(t, pods, offs, karpenter.Input{}, karpenter.Settings{TaintGPUs: true})
	if p.Bought != a.Cost {
		t.Errorf("bought for %s, packed for %s", p.Bought, a.Cost)
	}
	four := []packing.Pod{{Name: "f", CPUMilli: 40000, MemMiB: 100000, GPUCount: 4, GPUMilli: 1000, SpotOK: true}}
	p, _ = compose(t, four, offs, karpenter.Input{}, karpenter.Settings{TaintGPUs: true})
	if got := p.Pools[0]; !slices.Equal(got.Requirements[2].Values, []string{"g4"}) {
		t.Errorf("%+v", got)
	}
}

// A pool of ours that no plan names stays for what runs in it, and takes nothing more.
func TestAPoolWithoutAUseIsClosed(t *testing.T) {
	t.Parallel()
	p, err := karpenter.Compose(karpenter.Input{Pods: gpuPods(1, false), Offerings: market(), Pools: []string{"plimsoll-old", "plimsoll-gone"},
		Running: []karpenter.Machine{{Name: "n", Pool: "plimsoll-old", Offering: 0, Pods: []int{0}}}}, karpenter.Settings{TaintGPUs: true})
	if err != nil {
		t.Fatal(err)
	}
	k := slices.IndexFunc(p.Pools, func(n karpenter.NodePool) bool { return n.Name == "plimsoll-old" })
	if k < 0 || *p.Pools[k].Nodes != 1 || !slices.Equal(p.Pools[k].Requirements[2].Values, []string{"g1"}) || !p.Pools[k].TaintGPUs {
		t.Errorf("%+v", p.Pools)
	}
	if !slices.Equal(p.Retire, []string{"plimsoll-gone"}) {
		t.Errorf("retired %v", p.Retire)
	}
}

// What no plan knows goes to machines with as many GPUs as it asks for, Spot before on demand.
func TestTheRestIsApartByGPUs(t *testing.T) {
	t.Parallel()
	p, _ := compose(t, nil, market(), karpenter.Input{}, karpenter.Settings{TaintGPUs: true})
	var got []string
	for i, n := range p.Pools {
		if i > 0 && n.Weight >= p.Pools[i-1].Weight || n.Nodes != nil {
			t.Errorf("%+v", n)
		}
		got = append(got, n.Name)
	}
	if want := []string{"plimsoll-rest-spot", "plimsoll-rest", "plimsoll-rest-gpu1-spot", "plimsoll-rest-gpu1", "plimsoll-rest-gpu4-spot", "plimsoll-rest-gpu4"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
