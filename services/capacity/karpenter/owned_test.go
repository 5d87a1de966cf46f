package karpenter_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/services/capacity/karpenter"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"pgregory.net/rapid"
)

func poolNamed(p *karpenter.Plan, name string) *karpenter.NodePool {
	for i := range p.Pools {
		if p.Pools[i].Name == name {
			return &p.Pools[i]
		}
	}
	return nil
}

func TestAPoolOfOthersComesLastKeepsWhatItSaysAndIsGivenBackOnceItIsNotOwned(t *testing.T) {
	t.Parallel()
	in := karpenter.Input{Pods: gpuPods(1, false), Offerings: market(), Owned: []string{"theirs"}, Pools: []string{"theirs", "formerly"},
		Running: []karpenter.Machine{{Name: "n1", Pool: "theirs", Offering: 2, Pods: []int{0}}, {Name: "n2", Pool: "formerly", Offering: 4}}}
	p, err := karpenter.Compose(in, karpenter.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	theirs := poolNamed(p, "theirs")
	if theirs == nil || theirs.Nodes != nil || theirs.Requirements != nil || theirs.Consolidate != 0 || theirs.Why != "owned" {
		t.Fatalf("%+v", theirs)
	}
	for _, n := range p.Pools {
		if n.Name != "theirs" && n.Weight <= theirs.Weight {
			t.Errorf("%s comes at %d, not before the pool of others at %d", n.Name, n.Weight, theirs.Weight)
		}
	}
	if !slices.Equal(p.Retire, []string{"formerly"}) || poolNamed(p, "formerly") != nil {
		t.Errorf("retired %v", p.Retire)
	}
	p, err = karpenter.Compose(in, karpenter.Settings{Capped: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := poolNamed(p, "theirs"); *n.Nodes != 1 {
		t.Errorf("under a cap it may have %d", *n.Nodes)
	}
	in.Owned = []string{"plimsoll-x"}
	if _, err := karpenter.Compose(in, karpenter.Settings{}); err == nil {
		t.Error("a pool of ours is taken over")
	}
}

func TestNewMachinesHaveTheLabelsAndTaintsThatPodsWerePlacedBy(t *testing.T) {
	t.Parallel()
	offs := market()
	labels := make([]map[string]string, len(offs))
	for j := range offs {
		if offs[j].InstanceType == "c4" {
			labels[j] = map[string]string{"team": "search", "karpenter.k8s.aws/instance-cpu": "4", "nvidia.com/gpu.present": "false", "topology.kubernetes.io/rack": "r1"}
			offs[j].Taints = []string{"dedicated=search:NoSchedule", "node.kubernetes.io/disk-pressure=:NoSchedule"}
			offs[j].Labels = []string{"rule-1=holds"}
		}
	}
	rules := &packing.Rules{Tolerates: []string{"dedicated=search:NoSchedule", "node.kubernetes.io/disk-pressure=:NoSchedule"}, Where: []packing.Selector{{Key: "rule-1", Values: []string{"holds"}}}}
	pods := []packing.Pod{{Name: "s", CPUMilli: 3000, MemMiB: 4000, Rules: rules}}
	p, _ := compose(t, pods, offs, karpenter.Input{Labels: labels}, karpenter.Settings{TaintGPUs: true})
	first := p.Pools[0]
	if first.Name != "plimsoll-c4-od" || !maps.Equal(first.Labels, map[string]string{"team": "search"}) || !slices.Equal(first.Taints, []string{"dedicated=search:NoSchedule"}) {
		t.Fatalf("%+v", first)
	}
	w := p.Actions(nil)
	k := slices.IndexFunc(w, func(a *agentv1.CapacityAction) bool { return a.GetActionId() == "pool/plimsoll-c4-od" })
	spec := w[k].GetNodePool()
	if spec.GetLabels()["team"] != "search" || len(spec.GetTaints()) != 1 || spec.GetTaints()[0].GetKey() != "dedicated" || spec.GetTaints()[0].GetValue() != "search" || spec.GetTaints()[0].GetEffect() != "NoSchedule" {
		t.Errorf("told %v", spec)
	}
	// A pool that only keeps what runs says of it what its machines share.
	kept, err := karpenter.Compose(karpenter.Input{Pods: pods, Offerings: offs, Labels: labels, Pools: []string{"plimsoll-old"}, Running: []karpenter.Machine{{Name: "n", Pool: "plimsoll-old", Offering: 4, Pods: []int{0}}}}, karpenter.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if n := poolNamed(kept, "plimsoll-old"); n == nil || n.Labels["team"] != "search" || len(n.Taints) != 1 {
		t.Errorf("%+v", n)
	}
	if n := poolNamed(kept, "plimsoll-rest"); n == nil || n.Labels != nil || n.Taints != nil {
		t.Errorf("the pool for the rest is for any pod: %+v", n)
	}
	// A pod that does not tolerate the taint is not counted on to go there.
	bare := []packing.Pod{{Name: "b", CPUMilli: 3000, MemMiB: 4000}}
	p, err = karpenter.Compose(karpenter.Input{Pods: bare, Offerings: offs, Labels: labels, New: []packing.Node{{Offering: 4}}}, karpenter.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Bought != 1*fleet.NanosPerUnit { // g1 is what it can have
		t.Errorf("played at %s", p.Bought)
	}
	if _, err := karpenter.Compose(karpenter.Input{Offerings: offs, Labels: labels[:1]}, karpenter.Settings{}); err == nil {
		t.Error("labels of other offerings are taken")
	}
}

// wide is a market with so many types of each kind that a requirement cannot name all of them: the dearest come first by name.
func wide(n int, models ...fleet.GPUModel) (offs []packing.Offering) {
	for _, model := range models {
		gpus := int64(0)
		if model != "" {
			gpus = 1
		}
		for i := range n {
			o := offering(fmt.Sprintf("%s%04d", strings.ToLower(string(model))+"x", i), "a", fleet.PurchaseOnDemand, 10-0.01*float64(i), 4000, 16000, gpus, model)
			if i == 0 {
				o.MemMiB = 17_000
			}
			if i == 1 {
				o.CPUMilli = 4_100
			}
			offs = append(offs, o)
		}
	}
	return offs
}

func TestARequirementThatIsCutKeepsTheCheapestPerUsefulUnit(t *testing.T) {
	t.Parallel()
	p, err := karpenter.Compose(karpenter.Input{Offerings: wide(600, "")}, karpenter.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	types := poolNamed(p, "plimsoll-rest").Requirements[2].Values
	if len(types) != 400 || !slices.IsSorted(types) {
		t.Fatalf("%d types", len(types))
	}
	for _, want := range []string{"x0000", "x0001", "x0202", "x0599"} { // most memory, most CPU, and the cheapest
		if !slices.Contains(types, want) {
			t.Errorf("%s is left out", want)
		}
	}
	if slices.Contains(types, "x0100") {
		t.Error("a dear one is kept")
	}
	p, err = karpenter.Compose(karpenter.Input{Offerings: wide(300, "A10", "T4", "L4")}, karpenter.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, name := range poolNamed(p, "plimsoll-rest-gpu1").Requirements[2].Values {
		model, _, _ := strings.Cut(name, "x")
		count[model]++
	}
	if count["a10"] < 133 || count["t4"] < 133 || count["l4"] < 133 {
		t.Errorf("a pod that names its model has few types left: %v", count)
	}
}

func TestPropertyWhatIsLeftOutIsDearerThanWhatIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var offs []packing.Offering
		for i := range 430 {
			offs = append(offs, offering(fmt.Sprint("t", i), "a", fleet.PurchaseOnDemand, rapid.Float64Range(0.01, 30).Draw(t, "price"), 4000, 16000, 0, ""))
		}
		p, err := karpenter.Compose(karpenter.Input{Offerings: offs}, karpenter.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		kept := map[string]bool{}
		for _, name := range poolNamed(p, "plimsoll-rest").Requirements[2].Values {
			kept[name] = true
		}
		var dearest, left fleet.Money
		for j := range offs {
			switch price := *offs[j].Price; {
			case kept[offs[j].InstanceType]:
				dearest = max(dearest, price)
			case left == 0 || price < left:
				left = price
			}
		}
		if len(kept) != 400 || dearest > left {
			t.Fatalf("%d kept, up to %s; left out from %s", len(kept), dearest, left)
		}
	})
}

func TestWhatIsReservedAndNotUsedIsOpenForPodsThatNoPlanKnows(t *testing.T) {
	t.Parallel()
	offs := market()
	reserved := offering("c4", "a", fleet.PurchaseReserved, 0.000000001, 4000, 8000, 0, "")
	reserved.ReservationID, reserved.Stock = "cr-1,cr-2", ptr(int64(3))
	offs = append(offs, reserved)
	in := karpenter.Input{Pods: gpuPods(1, false), Offerings: offs, New: []packing.Node{{Offering: 0, Pods: []int{0}}}, Running: []karpenter.Machine{{Name: "n", Pool: "p", Offering: len(offs) - 1}}}
	s := karpenter.Settings{TaintGPUs: true, ReservationKey: "example.test/reservation"}
	p, err := karpenter.Compose(in, s)
	if err != nil {
		t.Fatal(err)
	}
	k := slices.IndexFunc(p.Pools, func(n karpenter.NodePool) bool { return n.Why == "reserved" })
	if k < 0 || *p.Pools[k].Nodes != 2 || !slices.ContainsFunc(p.Pools[k].Requirements, func(r karpenter.Requirement) bool {
		return r.Key == "example.test/reservation" && slices.Equal(r.Values, []string{"cr-1", "cr-2"})
	}) {
		t.Fatalf("%+v", p.Pools)
	}
	for _, n := range p.Pools {
		if n.Why == "rest" && n.Weight >= p.Pools[k].Weight || n.Why == "plan" && n.Weight <= p.Pools[k].Weight {
			t.Errorf("%s at %d, what is reserved at %d", n.Name, n.Weight, p.Pools[k].Weight)
		}
	}
	for name, s := range map[string]karpenter.Settings{"under a cap": {ReservationKey: "k", Capped: true}, "nobody said how": {}} {
		p, err := karpenter.Compose(in, s)
		if err != nil || slices.ContainsFunc(p.Pools, func(n karpenter.NodePool) bool { return n.Why == "reserved" }) {
			t.Errorf("%s: %+v, %v", name, p.Pools, err)
		}
	}
}
