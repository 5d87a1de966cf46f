package packing

import (
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

var budgetClasses = []Class{ClassGold, ClassStandard, ClassEconomy, ClassBatch}

// keptOf counts the placed pods of each class, the most precious first.
func keptOf(pods []Pod, a *Answer) [4]int {
	var out [4]int
	for n := range a.Nodes {
		for _, i := range a.Nodes[n].Pods {
			for k, c := range budgetClasses {
				if pods[i].Rules.class() == c {
					out[k]++
				}
			}
		}
	}
	return out
}

// mostKept is the best that any choice of pods within the budget keeps, by class.
func mostKept(pods []Pod, offs []Offering, budget fleet.Money) [4]int {
	var best [4]int
	for set := range 1 << len(pods) {
		var some []Pod
		for i := range pods {
			if set>>i&1 == 1 {
				some = append(some, pods[i])
			}
		}
		cost, ok := fleet.Money(0), true
		if len(some) > 0 {
			cost, ok = exhaustRules(some, offs, Options{})
		}
		if !ok || cost > budget {
			continue
		}
		var kept [4]int
		for i := range some {
			for k, c := range budgetClasses {
				if some[i].Rules.class() == c {
					kept[k]++
				}
			}
		}
		for k := range kept {
			if kept[k] != best[k] {
				if kept[k] > best[k] {
					best = kept
				}
				break
			}
		}
	}
	return best
}

func TestABudgetLeavesOutBatchBeforeEconomyBeforeStandardAndNeverGold(t *testing.T) {
	t.Parallel()
	all, same := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pods, offs := drawPods(t, 4), zoned(t, drawOfferings(t, 3), 1)
		for i := range pods {
			pods[i].Archs = nil
			pods[i].Rules = &Rules{Class: rapid.SampledFrom(budgetClasses).Draw(t, "class")}
		}
		budget := fleet.Money(rapid.Int64Range(0, 400).Draw(t, "budget")) * 10_000_000
		opts := Options{Budget: &budget}
		a, err := Pack(pods, offs, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(pods, offs, opts, a); err != nil {
			t.Fatal(err)
		}
		if a.Over > 0 && keptOf(pods, a)[0] != placed(a) {
			t.Fatalf("over the budget by %s with pods that are not gold", a.Over)
		}
		worst := map[Class]bool{}
		for _, u := range a.Unplaced {
			for _, r := range u.Reasons {
				if r.Constraint == ConstraintBudget {
					worst[Class(r.Detail)] = true
				}
			}
		}
		kept := keptOf(pods, a)
		if worst[ClassGold] || (worst[ClassStandard] && kept[2]+kept[3] > 0) || (worst[ClassEconomy] && kept[3] > 0) {
			t.Fatalf("left out %v, kept %v", worst, kept)
		}
		if a.Over == 0 {
			all++
			if most := mostKept(pods, offs, budget); kept == most {
				same++
			} else {
				t.Logf("kept %v, could keep %v", kept, most)
			}
		}
	})
	if same*100 < all*90 {
		t.Errorf("only %d of %d plans keep as many pods as can be", same, all)
	}
}

func TestABudgetThatGoldAloneBreaksIsTold(t *testing.T) {
	t.Parallel()
	ps := pods(2, 4000, 1000)
	ps[0].Rules, ps[1].Rules = &Rules{Class: ClassGold}, &Rules{Class: ClassBatch}
	a, err := Pack(ps, []Offering{machine("m", "3", 4000, 8000)}, Options{Budget: money("2")})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(ps, []Offering{machine("m", "3", 4000, 8000)}, Options{Budget: money("2")}, a); err != nil {
		t.Fatal(err)
	}
	if a.Cost.String() != "3.00" || a.Over.String() != "1.00" || len(a.Unplaced) != 1 || a.Unplaced[0].Pod != 1 || a.Unplaced[0].Reasons[0].Constraint != ConstraintBudget {
		t.Errorf("%+v", a)
	}
}
