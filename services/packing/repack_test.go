package packing

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

// change takes away every nth pod and adds as many others of the same shapes; it returns the pods and the machines without what is gone.
func change(pods []Pod, nodes []Node, nth, at int) ([]Pod, []Node) {
	keep := make([]int, len(pods))
	var out []Pod
	for i := range pods {
		keep[i] = -1
		if i%nth != at {
			keep[i] = len(out)
			out = append(out, pods[i])
		}
	}
	running := make([]Node, len(nodes))
	for n := range nodes {
		running[n].Offering = nodes[n].Offering
		for _, i := range nodes[n].Pods {
			if keep[i] >= 0 {
				running[n].Pods = append(running[n].Pods, keep[i])
			}
		}
	}
	for i := at; i < len(pods); i += nth {
		p := pods[(i*7+3)%len(pods)]
		p.Name = fmt.Sprintf("new%d", i)
		out = append(out, p)
	}
	return out, running
}

func TestAPlanMovesOnlyWhatItMustAndSaysSo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pods, offs := drawPods(t, 40), drawOfferings(t, 12)
		opts := Options{ShareGPUs: rapid.Bool().Draw(t, "share"), NoCPUOnGPU: rapid.Bool().Draw(t, "ban"), Effort: 1}
		before, err := Pack(pods, offs, opts)
		if err != nil {
			t.Fatal(err)
		}
		pods, running := change(pods, before.Nodes, rapid.IntRange(2, 9).Draw(t, "nth"), rapid.IntRange(0, 1).Draw(t, "at"))
		moving := fleet.Money(rapid.Int64Range(0, 500_000_000).Draw(t, "moving"))
		plan, err := Repack(pods, offs, running, moving, before.Proof, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(pods, offs, opts, &plan.Answer); err != nil {
			t.Fatal(err)
		}
		home, moved := map[int]int{}, map[int]bool{}
		for n := range running {
			for _, i := range running[n].Pods {
				home[i] = n
			}
		}
		for _, i := range plan.Moved {
			moved[i] = true
		}
		staying := fleet.Money(0)
		for k, n := range plan.Nodes {
			for _, i := range n.Pods {
				if was, ok := home[i]; ok && (was != plan.From[k]) != moved[i] {
					t.Fatalf("pod %d was on %d, is on %d, moved %v", i, was, plan.From[k], moved[i])
				}
			}
			if plan.From[k] >= 0 && n.Offering != running[plan.From[k]].Offering {
				t.Fatal("a running machine became another")
			}
		}
		for n := range running {
			if len(running[n].Pods) > 0 {
				staying = staying.Add(*offs[running[n].Offering].Price)
			}
		}
		fresh := fleet.Money(0)
		for k := range plan.Nodes {
			if plan.From[k] < 0 {
				fresh = fresh.Add(*offs[plan.Nodes[k].Offering].Price)
			}
		}
		if moving >= 300*10_000_000 && len(plan.Moved) > 0 {
			t.Fatal("moved pods although no machine costs what moving costs")
		}
		again, _ := Repack(pods, offs, running, moving, before.Proof, opts)
		if d := cmp.Diff(plan, again, cmp.AllowUnexported(Proof{}), cmp.Comparer(func(a, b *Proof) bool { return a == b })); d != "" {
			t.Fatalf("the same input gave another plan: %s", d)
		}
		anew, err := Pack(pods, offs, opts)
		if err != nil {
			t.Fatal(err)
		}
		if len(anew.Unplaced) == 0 && len(plan.Unplaced) == 0 && plan.Bound > anew.Cost {
			t.Fatalf("the old proof gives %s, but %s can be reached", plan.Bound, anew.Cost)
		}
	})
}

func TestPlansThatAPersonCanCheck(t *testing.T) {
	t.Parallel()
	small, large := machine("small", "1", 4000, 8000), machine("large", "3", 16000, 32000)
	offs := []Offering{small, large}
	for _, c := range []struct {
		name    string
		pods    []Pod
		running []Node
		moving  string
		nodes   []Node
		from    []int
		moved   []int
	}{
		{name: "nothing changed, nothing moves", pods: pods(2, 4000, 100), running: []Node{{0, []int{0}}, {0, []int{1}}}, moving: "0.1",
			nodes: []Node{{0, []int{0}}, {0, []int{1}}}, from: []int{0, 1}},
		{name: "a new pod takes spare room", pods: pods(2, 2000, 100), running: []Node{{0, []int{0}}}, moving: "0.1",
			nodes: []Node{{0, []int{0, 1}}}, from: []int{0}},
		{name: "a new pod without room gets a new machine", pods: pods(2, 3000, 100), running: []Node{{0, []int{0}}}, moving: "0.1",
			nodes: []Node{{0, []int{0}}, {0, []int{1}}}, from: []int{0, -1}},
		{name: "an empty machine ends", pods: pods(1, 3000, 100), running: []Node{{0, []int{0}}, {1, nil}}, moving: "0.1",
			nodes: []Node{{0, []int{0}}}, from: []int{0}},
		{name: "two halves become one when that saves more than moving", pods: pods(2, 1000, 100), running: []Node{{0, []int{0}}, {0, []int{1}}}, moving: "0.1",
			nodes: []Node{{0, []int{0, 1}}}, from: []int{1}, moved: []int{0}},
		{name: "and stay two when it does not", pods: pods(2, 1000, 100), running: []Node{{0, []int{0}}, {0, []int{1}}}, moving: "1",
			nodes: []Node{{0, []int{0}}, {0, []int{1}}}, from: []int{0, 1}},
		{name: "a large machine for one small pod becomes a small one", pods: pods(1, 3000, 100), running: []Node{{1, []int{0}}}, moving: "0.5",
			nodes: []Node{{0, []int{0}}}, from: []int{-1}, moved: []int{0}},
		{name: "unless moving costs more", pods: pods(1, 3000, 100), running: []Node{{1, []int{0}}}, moving: "2.5",
			nodes: []Node{{1, []int{0}}}, from: []int{0}},
		{name: "a pod that outgrew its machine moves", pods: append(pods(1, 3000, 100), pods(1, 2000, 100)...), running: []Node{{0, []int{0, 1}}}, moving: "9",
			nodes: []Node{{0, []int{0}}, {0, []int{1}}}, from: []int{0, -1}, moved: []int{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan, err := Repack(c.pods, offs, c.running, *money(c.moving), nil, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(c.pods, offs, Options{}, &plan.Answer); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.nodes, plan.Nodes); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.from, plan.From); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.moved, plan.Moved); d != "" {
				t.Error(d)
			}
			if plan.Bound != 0 {
				t.Errorf("a bound of %s without a proof", plan.Bound)
			}
		})
	}
}

func TestAHundredthOfThePodsChangesAndThePlanStaysNearTheBound(t *testing.T) {
	t.Parallel()
	ps, offs := sample(5, 1500, 80, 120)
	before, err := Pack(ps, offs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ps, running := change(ps, before.Nodes, 100, 0)
	plan, err := Repack(ps, offs, running, *money("0.05"), before.Proof, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(ps, offs, Options{}, &plan.Answer); err != nil {
		t.Fatal(err)
	}
	t.Logf("cost %s, was %s, bound %s, %d moved of %d", plan.Cost, plan.Before, plan.Bound, len(plan.Moved), len(ps))
	if plan.Gap() > before.Gap()+0.02 || len(plan.Moved) > len(ps)/20 {
		t.Errorf("gap %.4f, was %.4f; %d pods moved", plan.Gap(), before.Gap(), len(plan.Moved))
	}
	other := append([]Offering(nil), offs...)
	other[0].Price = money("0.01")
	if plan, err = Repack(ps, other, running, *money("0.05"), before.Proof, Options{}); err != nil || plan.Bound != 0 {
		t.Errorf("a proof for other prices was taken: bound %s, %v", plan.Bound, err)
	}
}

func TestPlansFromRunningMachinesKeepAllRulesForWhatIsNewOrMoves(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				pods, offs := drawPods(t, 30), zoned(t, drawOfferings(t, 10), 3)
				drawKind(t, kind, pods)
				opts := Options{Effort: 1}
				if rapid.Bool().Draw(t, "limit") {
					opts.Limits = []Limit{{Name: "nodes", Resource: ResourceNodes, Max: rapid.Int64Range(1, 15).Draw(t, "nodes")}}
				}
				before, err := Pack(pods, offs, opts)
				if err != nil {
					t.Fatal(err)
				}
				pods, running := change(pods, before.Nodes, rapid.IntRange(2, 9).Draw(t, "nth"), rapid.IntRange(0, 1).Draw(t, "at"))
				plan, err := Repack(pods, offs, running, fleet.Money(rapid.Int64Range(0, 500_000_000).Draw(t, "moving")), before.Proof, opts)
				if err != nil {
					t.Fatal(err)
				}
				if err := Check(pods, offs, opts, &plan.Answer); err != nil {
					t.Fatal(err)
				}
				stands := map[int]bool{}
				for _, i := range plan.Standing {
					stands[i] = true
				}
				for n := range plan.Nodes {
					for _, i := range plan.Nodes[n].Pods {
						was := -1
						for k := range running {
							for _, o := range running[k].Pods {
								if o == i {
									was = k
								}
							}
						}
						if len(plan.Standing) > 0 && stands[i] != (was >= 0 && plan.From[n] == was) {
							t.Fatalf("pod %d: stands %v, ran on %d, is on %d", i, stands[i], was, plan.From[n])
						}
					}
				}
			})
		})
	}
}
