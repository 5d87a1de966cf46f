package packing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

// fewestNew tries every way to use drained GPUs and new ones, GPU after GPU, with every set of instances that a GPU can hold.
func fewestNew(g *geometry, want migCount, drained []migCount) (int, int) {
	var sets []migCount
	var walk func(i int, c migCount)
	walk = func(i int, c migCount) {
		if i == len(g.profiles) {
			sets = append(sets, c)
			return
		}
		for n := int32(0); n < 8; n++ {
			if c[i] = n; g.layout(c) == nil {
				return
			}
			walk(i+1, c)
		}
	}
	walk(0, migCount{})
	type state struct {
		want migCount
		at   int
	}
	memo := map[state][2]int{}
	var best func(want migCount, at int) [2]int
	best = func(want migCount, at int) [2]int {
		if at >= len(drained) && want.sum() == 0 {
			return [2]int{}
		}
		k := state{want, at}
		if v, ok := memo[k]; ok {
			return v
		}
		out := [2]int{1 << 20, 0}
		if at < len(drained) {
			out = best(want.less(drained[at]), at+1) // kept
			for _, s := range sets {
				if s.fits(want) {
					v := best(want.less(s), at+1)
					if v[1]++; v[0] < out[0] || (v[0] == out[0] && v[1] < out[1]) {
						out = v
					}
				}
			}
		} else {
			for _, s := range sets {
				if s.sum() > 0 && s.fits(want) {
					v := best(want.less(s), at)
					if v[0]++; v[0] < out[0] {
						out = v
					}
				}
			}
		}
		memo[k] = out
		return out
	}
	v := best(want, 0)
	return v[0], v[1]
}

func TestMIGPlansNeedAsFewGPUsAndChangesAsTryingEverything(t *testing.T) {
	t.Parallel()
	models := []fleet.GPUModel{"A100-40", "H100", "H200", "A30"}
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.SampledFrom(models).Draw(t, "model")
		g := geometries[model]
		var want migCount
		demand := map[string]int64{}
		for i := range g.profiles {
			want[i] = rapid.Int32Range(0, 3).Draw(t, "demand")
			demand[g.profiles[i].name] = int64(want[i])
		}
		var gpus []MIGGPU
		var drained []migCount
		left := want
		for range rapid.IntRange(0, 3).Draw(t, "gpus") {
			c := rapid.SampledFrom(g.patterns()).Draw(t, "layout")
			gpu := MIGGPU{Drained: rapid.Bool().Draw(t, "drained")}
			for _, part := range g.layout(c) {
				gpu.Instances = append(gpu.Instances, MIGInstance{Profile: part.profile.name, Start: int(part.start), Busy: !gpu.Drained})
			}
			gpus = append(gpus, gpu)
			if gpu.Drained {
				drained = append(drained, c)
			} else {
				left = left.less(c)
			}
		}
		plan, err := PlanMIG(model, demand, gpus, 1000)
		if err != nil {
			t.Fatal(err)
		}
		fresh, changed := fewestNew(g, left, drained)
		if plan.New != fresh || plan.Changed != changed || plan.Bound > fresh {
			t.Fatalf("%d new, %d changed, bound %d; could be %d and %d", plan.New, plan.Changed, plan.Bound, fresh, changed)
		}
		checkMIG(t, model, demand, gpus, plan)
	})
}

// checkMIG: every layout is possible, GPUs that are not drained stay, and the demand is met.
func checkMIG(t interface{ Fatalf(string, ...any) }, model fleet.GPUModel, demand map[string]int64, gpus []MIGGPU, plan *MIGPlan) {
	have := map[string]int64{}
	for i, l := range plan.Layouts {
		if _, err := MIGFragmentation(model, MIGGPU{Instances: l.Instances}); err != nil {
			t.Fatalf("layout %d: %v", i, err)
		}
		if l.GPU >= 0 && !gpus[l.GPU].Drained && (l.Changed || cmp.Diff(l.Instances, gpus[l.GPU].Instances) != "") {
			t.Fatalf("GPU %d is not drained, but changed", l.GPU)
		}
		for _, part := range l.Instances {
			have[part.Profile]++
		}
	}
	for name, n := range demand {
		if have[name]+plan.Missing[name] < n {
			t.Fatalf("%d of %d instances of %s", have[name], n, name)
		}
	}
}

func TestMIGPlansOfManyInstancesStayNearTheirBound(t *testing.T) {
	t.Parallel()
	demand := map[string]int64{"1g.10gb": 700, "1g.20gb": 120, "2g.20gb": 260, "3g.40gb": 190, "4g.40gb": 80, "7g.80gb": 25}
	plan, err := PlanMIG("H100", demand, nil, 5000)
	if err != nil {
		t.Fatal(err)
	}
	checkMIG(t, "H100", demand, nil, plan)
	t.Logf("%d GPUs, at least %d", plan.New, plan.Bound)
	if float64(plan.New) > 1.05*float64(plan.Bound) {
		t.Errorf("%d GPUs, at least %d", plan.New, plan.Bound)
	}
}

func TestMIGAnswersThatAPersonCanCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		demand       map[string]int64
		gpus         []MIGGPU
		most         int
		fresh, drain int
		missing      int64
	}{
		{name: "nothing asked", most: 9},
		{name: "4g and 3g share a GPU", demand: map[string]int64{"4g.20gb": 1, "3g.20gb": 1}, most: 9, fresh: 1},
		{name: "two 4g do not", demand: map[string]int64{"4g.20gb": 2}, most: 9, fresh: 2},
		{name: "two 3g leave memory for nothing else", demand: map[string]int64{"3g.20gb": 2, "1g.5gb": 1}, most: 9, fresh: 2},
		{name: "three 2g and a 1g fill one", demand: map[string]int64{"2g.10gb": 3, "1g.5gb": 1}, most: 9, fresh: 1},
		{name: "what runs counts", demand: map[string]int64{"3g.20gb": 1}, gpus: []MIGGPU{{Instances: []MIGInstance{{Profile: "3g.20gb", Start: 4, Busy: true}}}}, most: 9},
		{name: "a GPU that is not drained is not cut anew", demand: map[string]int64{"7g.40gb": 1}, gpus: []MIGGPU{{}}, most: 9, fresh: 1},
		{name: "a drained one is", demand: map[string]int64{"7g.40gb": 1}, gpus: []MIGGPU{{Drained: true, Instances: []MIGInstance{{Profile: "3g.20gb", Start: 4}}}}, most: 9, drain: 1},
		{name: "no more GPUs than allowed", demand: map[string]int64{"7g.40gb": 3}, most: 2, fresh: 2, missing: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan, err := PlanMIG("A100-40", c.demand, c.gpus, c.most)
			if err != nil {
				t.Fatal(err)
			}
			if plan.New != c.fresh || plan.Changed != c.drain || plan.Missing["7g.40gb"] != c.missing {
				t.Errorf("%d new, %d cut anew, missing %v; want %d, %d, %d", plan.New, plan.Changed, plan.Missing, c.fresh, c.drain, c.missing)
			}
			checkMIG(t, "A100-40", c.demand, c.gpus, plan)
		})
	}
}

func TestMIGRefusesLayoutsThatNoGPUHas(t *testing.T) {
	t.Parallel()
	for name, gpu := range map[string]MIGGPU{
		"an unknown profile":      {Instances: []MIGInstance{{Profile: "5g.30gb"}}},
		"a start that is not one": {Instances: []MIGInstance{{Profile: "2g.10gb", Start: 1}}},
		"an overlap":              {Instances: []MIGInstance{{Profile: "3g.20gb"}, {Profile: "1g.5gb", Start: 3}}},
		"drained yet busy":        {Drained: true, Instances: []MIGInstance{{Profile: "1g.5gb", Busy: true}}},
	} {
		if _, err := PlanMIG("A100-40", nil, []MIGGPU{gpu}, 1); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := PlanMIG("T4", nil, nil, 1); err == nil {
		t.Error("a model without MIG was taken")
	}
	f, err := MIGFragmentation("A100-40", MIGGPU{Instances: []MIGInstance{{Profile: "1g.5gb", Start: 0, Busy: true}, {Profile: "1g.5gb", Start: 4, Busy: true}}})
	if err != nil || f != 667 {
		t.Errorf("fragmentation %d, %v: six slices are free, the largest instance takes two, so 667", f, err)
	}
}
