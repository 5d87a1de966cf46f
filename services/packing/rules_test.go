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
			one := func(t *rapid.T) {
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
			}
			for all < 300 { // a share of fewer says nothing: one of 31 is over three in a hundred
				rapid.Check(t, one)
				if t.Failed() {
					return
				}
			}
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

func TestMIGInstancesArePackedAsWellAsByTryingEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pods, offs := drawPods(t, 6), zoned(t, drawOfferings(t, 4), 1)
		for i := range offs {
			if offs[i].GPUCount > 0 {
				offs[i].GPUModel = rapid.SampledFrom([]fleet.GPUModel{"A100-40", "H100", "T4"}).Draw(t, "model")
				offs[i].MIG = rapid.Bool().Draw(t, "mig")
				offs[i].GPUCount = rapid.Int64Range(1, 2).Draw(t, "count")
			}
		}
		for i := range pods {
			pods[i].Archs, pods[i].GPUModels = nil, nil
			if rapid.IntRange(0, 2).Draw(t, "instance") > 0 {
				pods[i].CPUMilli, pods[i].MemMiB = 500, 512
				pods[i].GPUCount, pods[i].GPUMilli = rapid.SampledFrom([]int64{1, 1, 2}).Draw(t, "instances"), 1000
				pods[i].Rules = &Rules{MIG: rapid.SampledFrom([]string{"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "3g.40gb", "4g.20gb", "7g.40gb"}).Draw(t, "profile")}
			}
		}
		best, ok := exhaustRules(pods, offs, Options{})
		a, err := Pack(pods, offs, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(pods, offs, Options{}, a); err != nil {
			t.Fatal(err)
		}
		switch {
		case !ok && len(a.Unplaced) == 0:
			t.Fatal("placed what cannot be placed")
		case ok && (len(a.Unplaced) > 0 || a.Bound > best || a.Cost != best):
			t.Fatalf("%d left out, cost %s, bound %s; all can be placed for %s", len(a.Unplaced), a.Cost, a.Bound, best)
		}
	})
}

func TestRulesThatAPersonCanCheck(t *testing.T) {
	t.Parallel()
	in := func(o Offering, zone string) Offering { o.Zone = zone; return o }
	with := func(n int, r Rules) []Pod {
		ps := pods(n, 1000, 1000)
		for i := range ps {
			ps[i].Rules = &r
		}
		return ps
	}
	web := []string{"web"}
	two := []Offering{in(machine("m", "1", 4000, 8000), "z1"), in(machine("m", "1.5", 4000, 8000), "z2")}
	tainted := machine("m", "1", 4000, 8000)
	tainted.Taints = []string{"gpu"}
	mem := gpu(machine("m", "1", 4000, 8000), "A100-40", 1)
	mem.GPUMemMiB = 40960
	domain := machine("m", "1", 1000, 8000)
	domain.DomainNodes = 2
	fam := machine("m", "1", 1000, 8000)
	fam.Family, fam.VCPU = "f", 4
	hazard := spot(machine("cheap", "1", 4000, 8000))
	hazard.HazardMilli = 600
	for _, c := range []struct {
		name     string
		pods     []Pod
		offs     []Offering
		opts     Options
		cost     string
		unplaced int
		reason   Constraint
	}{
		{name: "a spread pays for the second zone", pods: with(2, Rules{Labels: web, Spread: []Spread{{"web", TopologyZone, 1, false}}}), offs: two, cost: "2.50"},
		{name: "a soft spread does not", pods: with(2, Rules{Labels: web, Spread: []Spread{{"web", TopologyZone, 1, true}}}), offs: two, cost: "1.00"},
		{name: "unless it may cost that much", pods: with(2, Rules{Labels: web, Spread: []Spread{{"web", TopologyZone, 1, true}}}), offs: two, opts: Options{SoftMilli: 1500}, cost: "2.50"},
		{name: "a zone that ran out stops a hard spread", pods: with(4, Rules{Labels: web, Spread: []Spread{{"web", TopologyZone, 1, false}}}),
			offs: []Offering{in(machine("m", "1", 1000, 8000), "z1"), stocked(in(machine("m", "1", 1000, 8000), "z2"), 1)}, cost: "3.00", unplaced: 1, reason: ConstraintSpread},
		{name: "one per node", pods: with(3, Rules{Labels: web, AntiAffinity: []Term{{"web", TopologyNode}}}), offs: two[:1], cost: "3.00"},
		{name: "two per node", pods: with(3, Rules{Labels: web, Spread: []Spread{{"web", TopologyNode, 2, false}}}), offs: two[:1], cost: "2.00"},
		{name: "one per zone, three pods, two zones", pods: with(3, Rules{Labels: web, AntiAffinity: []Term{{"web", TopologyZone}}}), offs: two, cost: "2.50", unplaced: 1, reason: ConstraintAnti},
		{name: "affinity to nobody", pods: with(1, Rules{Affinity: []Term{{"db", TopologyZone}}}), offs: two, cost: "0.00", unplaced: 1, reason: ConstraintAffinity},
		{name: "a taint", pods: with(1, Rules{}), offs: []Offering{tainted}, cost: "0.00", unplaced: 1, reason: ConstraintTaint},
		{name: "a taint that is tolerated", pods: with(1, Rules{Tolerates: []string{"gpu"}}), offs: []Offering{tainted}, cost: "1.00"},
		{name: "a zone asked for", pods: with(1, Rules{Where: []Selector{{Key: "zone", Values: []string{"z2"}}}}), offs: two, cost: "1.50"},
		{name: "memory per GPU", pods: with(1, Rules{GPUMemMiB: 80000}), offs: []Offering{mem}, cost: "1.00"}, // a pod without GPUs
		{name: "a gang larger than its domain", pods: with(3, Rules{Gang: "g"}), offs: []Offering{domain}, cost: "0.00", unplaced: 3, reason: ConstraintGang},
		{name: "a gang that fits its domain", pods: with(2, Rules{Gang: "g"}), offs: []Offering{domain}, cost: "2.00"},
		{name: "a gang with too little stock runs nothing", pods: with(2, Rules{Gang: "g"}), offs: []Offering{stocked(machine("m", "1", 1000, 8000), 1)}, cost: "0.00", unplaced: 2, reason: ConstraintGang},
		{name: "half on one pool", pods: with(4, Rules{Workload: "w", MaxPoolMilli: 500}), offs: two, cost: "2.50"},
		{name: "a quota of vCPUs", pods: pods(3, 1000, 1000), offs: []Offering{fam}, opts: Options{Limits: []Limit{{Name: "f", Where: []Selector{{Key: "family", Values: []string{"f"}}}, Resource: ResourceVCPU, Max: 8}}}, cost: "2.00", unplaced: 1, reason: ConstraintLimit},
		{name: "a quota below one machine", pods: pods(1, 1000, 1000), offs: []Offering{fam}, opts: Options{Limits: []Limit{{Name: "f", Resource: ResourceVCPU, Max: 3}}}, cost: "0.00", unplaced: 1, reason: ConstraintLimit},
		{name: "daemons take their part", pods: pods(4, 1000, 1000), offs: two[:1], opts: Options{Daemons: []Pod{{Name: "d", CPUMilli: 100}}}, cost: "2.00"},
		{name: "an interruption is paid for twice", pods: func() []Pod { ps := pods(1, 1000, 1000); ps[0].SpotOK = true; return ps }(), offs: []Offering{hazard, machine("m", "2", 4000, 8000)}, cost: "2.00"},
		{name: "no MIG on a machine that does not cut", pods: func() []Pod {
			ps := with(1, Rules{MIG: "1g.5gb"})
			ps[0].GPUCount, ps[0].GPUMilli = 1, 1000
			return ps
		}(), offs: []Offering{mem}, cost: "0.00", unplaced: 1, reason: ConstraintMIG},
		{name: "an equivalent model", pods: func() []Pod {
			ps := pods(1, 1000, 1000)
			ps[0].GPUCount, ps[0].GPUMilli, ps[0].GPUModels = 1, 1000, []fleet.GPUModel{"H100"}
			return ps
		}(), offs: []Offering{mem}, opts: Options{Equivalent: []Equivalence{{"H100", "A100-40"}}}, cost: "1.00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, err := Pack(c.pods, c.offs, c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(c.pods, c.offs, c.opts, a); err != nil {
				t.Fatal(err)
			}
			if a.Cost.String() != c.cost || len(a.Unplaced) != c.unplaced {
				t.Errorf("cost %s, %d left out; want %s, %d", a.Cost, len(a.Unplaced), c.cost, c.unplaced)
			}
			for _, u := range a.Unplaced {
				if c.reason != "" && !slices.ContainsFunc(u.Reasons, func(r Reason) bool { return r.Constraint == c.reason }) {
					t.Errorf("left out for %+v, want %s", u.Reasons, c.reason)
				}
			}
		})
	}
}

func TestContradictionsAreToldPlainly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		rules Rules
		want  string
	}{
		{name: "affinity to a label that no pod has", rules: Rules{Affinity: []Term{{"db", TopologyZone}}}, want: "a: affinity to db, but no pod has this label"},
		{name: "together and apart", rules: Rules{Labels: []string{"w"}, Affinity: []Term{{"w", TopologyZone}}, AntiAffinity: []Term{{"w", TopologyZone}}}, want: "a: affinity and anti-affinity to w exclude each other"},
		{name: "together and spread", rules: Rules{Labels: []string{"w"}, Affinity: []Term{{"w", TopologyZone}}, Spread: []Spread{{"w", TopologyZone, 1, false}}}, want: "a: affinity wants all of w in one zone, the spread allows 1 more there than elsewhere"},
		{name: "no contradiction", rules: Rules{Labels: []string{"w"}, Affinity: []Term{{"w", TopologyZone}}, AntiAffinity: []Term{{"w", TopologyNode}}}},
	} {
		ps := pods(3, 1, 1)
		for i := range ps {
			ps[i].Rules = &c.rules
		}
		got := Contradictions(ps)
		if c.want == "" && len(got) > 0 || c.want != "" && !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	ps := pods(1, 1000, 1000)
	ps[0].GPUCount, ps[0].GPUMilli, ps[0].GPUModels = 1, 1000, []fleet.GPUModel{"H100"}
	ps[0].Rules = &Rules{Where: []Selector{{Key: "zone", Values: []string{"z1"}}}}
	there, elsewhere := gpu(machine("t", "1", 4000, 8000), "T4", 1), gpu(machine("h", "1", 4000, 8000), "H100", 1)
	there.Zone, elsewhere.Zone = "z1", "z2"
	a, err := Pack(ps, []Offering{there, elsewhere}, Options{})
	if err != nil || len(a.Unplaced) != 1 || !slices.Equal(a.Unplaced[0].Blocked, []Constraint{ConstraintModel, ConstraintWhere}) {
		t.Errorf("%+v, %v", a, err)
	}
}
