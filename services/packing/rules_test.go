package packing

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

// exhaustRules is the least weighed cost of placing all pods under all rules and limits, by trying every partition; false if there is none.
func exhaustRules(pods []Pod, offs []Offering, opts Options) (fleet.Money, bool) {
	offs = net(offs, &opts)
	p := &problem{pods: pods, given: offs, opts: opts}
	p.caps()
	fits := map[[2]int]*Node{}
	for j := range offs {
		for set := 1; set < 1<<len(pods); set++ {
			n := &Node{Offering: j}
			for i := range pods {
				if set>>i&1 == 1 {
					n.Pods = append(n.Pods, i)
				}
			}
			if p.checkNode(n) == nil {
				fits[[2]int{j, set}] = n
			}
		}
	}
	best, found := fleet.Money(0), false
	left := make([]int64, len(p.limits))
	for q := range left {
		left[q] = p.limits[q].max
	}
	var nodes []Node
	var try func(rest int, cost fleet.Money)
	try = func(rest int, cost fleet.Money) {
		if found && cost >= best {
			return
		}
		if rest == 0 {
			if len(newCensus(p, nodes).breaches()) == 0 {
				best, found = cost, true
			}
			return
		}
		low := rest & -rest
		for more := rest &^ low; ; more = (more - 1) & (rest &^ low) {
			for j := range offs {
				n := fits[[2]int{j, low | more}]
				if n == nil {
					continue
				}
				ok := true
				for _, u := range p.takes[j] {
					left[u.limit] -= u.n
					ok = ok && left[u.limit] >= 0
				}
				if ok {
					nodes = append(nodes, *n)
					try(rest&^(low|more), cost+offs[j].weighed())
					nodes = nodes[:len(nodes)-1]
				}
				for _, u := range p.takes[j] {
					left[u.limit] += u.n
				}
			}
			if more == 0 {
				break
			}
		}
	}
	try(1<<len(pods)-1, 0)
	return best, found
}

// zoned gives offerings zones, so that every type is in a few of them at prices of their own.
func zoned(t *rapid.T, offs []Offering, zones int) []Offering {
	for i := range offs {
		offs[i].Zone = fmt.Sprintf("z%d", rapid.IntRange(1, zones).Draw(t, "zone"))
		offs[i].Arch = "amd64"
		offs[i].Purchase = fleet.PurchaseOnDemand
	}
	return offs
}

// drawKind gives all pods rules of one kind; the pods are of at most two workloads.
func drawKind(t *rapid.T, kind string, pods []Pod) {
	loads := []*Rules{{Workload: "a", Labels: []string{"a"}}, {Workload: "b", Labels: []string{"b"}}}
	topology := TopologyZone
	if rapid.Bool().Draw(t, "by node") {
		topology = TopologyNode
	}
	other := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "other")
	switch kind {
	case "spread":
		for _, r := range loads[:rapid.IntRange(1, 2).Draw(t, "spreads")] {
			r.Spread = []Spread{{Label: r.Labels[0], Topology: topology, MaxSkew: rapid.Int64Range(1, 2).Draw(t, "skew")}}
		}
	case "affinity":
		loads[0].Affinity = []Term{{other, topology}}
	case "anti-affinity":
		loads[0].AntiAffinity = []Term{{other, topology}}
	case "gang":
		loads[0].Gang = "g"
	case "pool share":
		loads[0].MaxPoolMilli = rapid.SampledFrom([]int64{300, 500, 700}).Draw(t, "share")
	case "mixed":
		loads[0].Spread = []Spread{{Label: "a", Topology: TopologyZone, MaxSkew: 1}}
		loads[0].AntiAffinity = []Term{{"b", TopologyNode}}
		loads[1].Affinity = []Term{{"a", topology}}
	}
	shapes := rapid.IntRange(1, 2).Draw(t, "shapes")
	for i := range pods {
		k := rapid.IntRange(0, 1).Draw(t, "load")
		if rapid.IntRange(0, 1).Draw(t, "same") == 0 { // replicas are alike
			name := pods[i].Name
			pods[i] = pods[(i+k)%min(shapes, i+1)]
			pods[i].Name = name
		}
		pods[i].Rules = loads[k]
		pods[i].Archs = nil
	}
}

var kinds = []string{"spread", "affinity", "anti-affinity", "gang", "pool share", "mixed"}

func TestSmallInstancesUnderEveryRuleAreSolvedAsWellAsByTryingEverything(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			all, same := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				pods, offs := drawPods(t, 5), zoned(t, drawOfferings(t, 4), 3)
				drawKind(t, kind, pods)
				for i := range offs {
					offs[i].DomainNodes = rapid.Int64Range(0, 2).Draw(t, "domain")
				}
				best, ok := exhaustRules(pods, offs, Options{})
				a, err := Pack(pods, offs, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := Check(pods, offs, Options{}, a); err != nil {
					t.Fatal(err)
				}
				if !ok {
					if len(a.Unplaced) == 0 {
						t.Fatal("placed what cannot be placed")
					}
					return
				}
				if len(a.Unplaced) > 0 {
					t.Fatalf("left out %+v, all can be placed for %s", a.Unplaced, best)
				}
				if a.Bound > best {
					t.Fatalf("the bound %s is above the optimum %s", a.Bound, best)
				}
				all++
				if a.Weighed == best {
					same++
				} else {
					t.Logf("costs %s, could cost %s", a.Weighed, best)
				}
			})
			t.Logf("%d of %d at the optimum", same, all)
			if same*100 < all*97 {
				t.Errorf("only %d of %d at the optimum", same, all)
			}
		})
	}
}

func TestAnswersUnderRulesAreFeasibleRepeatableAndStoppable(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				pods, offs := drawPods(t, 40), zoned(t, drawOfferings(t, 12), 4)
				drawKind(t, kind, pods)
				n := rapid.IntRange(0, 200).Draw(t, "stop after")
				left := n
				opts := Options{Effort: 1, Stop: func() bool { left--; return left < 0 }}
				a, err := Pack(pods, offs, opts)
				if err != nil {
					t.Fatal(err)
				}
				if err := Check(pods, offs, opts, a); err != nil {
					t.Fatal(err)
				}
				left = n
				again, _ := Pack(pods, offs, opts)
				if again.Cost != a.Cost || again.Bound != a.Bound || !slices.EqualFunc(a.Nodes, again.Nodes, func(x, y Node) bool { return x.Offering == y.Offering && slices.Equal(x.Pods, y.Pods) }) {
					t.Fatal("the same input gave another answer")
				}
			})
		})
	}
}

func TestLimitsDaemonsAndHazardsAgainstTryingEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pods, offs := drawPods(t, 5), zoned(t, drawOfferings(t, 4), 2)
		for i := range offs {
			offs[i].Family, offs[i].VCPU = rapid.SampledFrom([]string{"f", "g"}).Draw(t, "family"), (offs[i].CPUMilli+999)/1000
			offs[i].HazardMilli = rapid.SampledFrom([]int64{0, 0, 100, 400}).Draw(t, "hazard")
		}
		opts := Options{Limits: []Limit{
			{Name: "family f", Where: []Selector{{Key: "family", Values: []string{"f"}}}, Resource: rapid.SampledFrom([]Resource{ResourceNodes, ResourceVCPU, ResourceGPU, ResourceCost}).Draw(t, "resource")},
			{Name: "all", Resource: ResourceNodes, Max: rapid.Int64Range(0, 4).Draw(t, "nodes")},
		}}
		opts.Limits[0].Max = rapid.Int64Range(0, 20).Draw(t, "max")
		if opts.Limits[0].Resource == ResourceCost {
			opts.Limits[0].Max *= 100_000_000
		}
		if rapid.Bool().Draw(t, "daemon") {
			opts.Daemons = []Pod{{Name: "d", CPUMilli: 500, MemMiB: 512}}
		}
		for i := range pods {
			pods[i].Archs = nil
		}
		best, ok := exhaustRules(pods, offs, opts)
		a, err := Pack(pods, offs, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(pods, offs, opts, a); err != nil {
			t.Fatal(err)
		}
		switch {
		case !ok && len(a.Unplaced) == 0:
			t.Fatal("placed what cannot be placed")
		case ok && len(a.Unplaced) > 0:
			t.Fatalf("left out %d pods that can be placed for %s", len(a.Unplaced), best)
		case ok && a.Bound > best:
			t.Fatalf("the bound %s is above the optimum %s", a.Bound, best)
		case ok && a.Weighed.Float() > best.Float()*1.1+1e-9:
			t.Fatalf("costs %s, could cost %s", a.Weighed, best)
		}
	})
}
