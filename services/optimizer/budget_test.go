package optimizer

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

const budgetID = fleet.BudgetID("00000000-0000-4000-8000-0000000000b1")

// crowd is one workload per class, each at 4 replicas of 1.00 an hour, with the CPU use given: 0.5 needs 4, 1.0 needs 8.
func crowd(use float64, classes ...string) Input {
	in := newScene(4).input()
	in.Snapshot.Workloads = nil
	price := fleet.Money(fleet.NanosPerUnit)
	for _, class := range classes {
		s := newScene(4, cpu(use))
		id := fleet.WorkloadID("w-" + class)
		s.state.Workload = fleet.Workload{ID: id, Key: "ns/Deployment/" + class, Kind: "Deployment", Class: class}
		s.state.ReplicaHour = &price
		in.Snapshot.Workloads = append(in.Snapshot.Workloads, s.state)
		in.Policies[id] = Binding{Version: 1, Policy: s.policy}
		in.Memory[id] = s.memory
	}
	return in
}

func withBudget(in Input, b Budget) Input {
	b.ID, b.EndsAt = budgetID, noon.Add(24*time.Hour)
	for _, w := range in.Snapshot.Workloads {
		b.Workloads = append(b.Workloads, w.Workload.ID)
	}
	in.Budgets = []Budget{b}
	return in
}

func units(n int64) fleet.Money { return fleet.Money(n * fleet.NanosPerUnit) }

func TestABudgetIsSharedByClassAndSaysSo(t *testing.T) {
	t.Parallel()
	breaker := units(30)
	tripped, until := noon.Add(-time.Minute), noon.Add(time.Minute)
	over := noon.Add(-time.Second)
	for _, c := range []struct {
		name    string
		in      Input
		budget  Budget
		targets map[string]int
		reasons map[string]ReasonCode
		trips   int
	}{
		{"what is left goes to standard before economy before batch", crowd(1, "standard", "economy", ClassBatch), Budget{Enforced: true, Remaining: units(100), AllowedHour: units(18)},
			map[string]int{"standard": 8, "economy": 6, ClassBatch: 4}, map[string]ReasonCode{"economy": ReasonBudget, ClassBatch: ReasonBudget}, 0},
		{"gold is raised past the budget, and nobody else is", crowd(1, "gold", "standard"), Budget{Enforced: true, Remaining: units(100), AllowedHour: units(9)},
			map[string]int{"gold": 8, "standard": 4}, map[string]ReasonCode{"gold": ReasonTargetRatio, "standard": ReasonBudget}, 0},
		{"what is spent elsewhere counts", crowd(1, "standard"), Budget{Enforced: true, Remaining: units(100), AllowedHour: units(20), ElsewhereHour: units(15)},
			map[string]int{"standard": 5}, map[string]ReasonCode{"standard": ReasonBudget}, 0},
		{"a spent budget takes from batch first", crowd(0.5, "gold", "standard", "economy", ClassBatch), Budget{Enforced: true, Remaining: 0, AllowedHour: units(16)},
			map[string]int{"gold": 4, "standard": 1, "economy": 1, ClassBatch: 1}, map[string]ReasonCode{ClassBatch: ReasonBudgetOver, "economy": ReasonBudgetOver, "standard": ReasonBudgetOver}, 0},
		{"an advisory budget changes nothing", crowd(1, "standard"), Budget{Remaining: 0, AllowedHour: 0},
			map[string]int{"standard": 8}, nil, 0},
		{"the breaker trips within the same plan, for gold too", crowd(1, "gold", "standard"), Budget{AllowedHour: units(99), ElsewhereHour: units(14), BreakerHour: &breaker, UsualHour: units(10)},
			map[string]int{"gold": 4, "standard": 4}, map[string]ReasonCode{"gold": ReasonSpendBreaker, "standard": ReasonSpendBreaker}, 1},
		{"under the breaker's rate nothing is held", crowd(1, "standard"), Budget{AllowedHour: units(99), ElsewhereHour: units(21), BreakerHour: &breaker},
			map[string]int{"standard": 8}, nil, 0},
		{"an open breaker holds", crowd(1, "standard"), Budget{BreakerHour: &breaker, TrippedAt: &tripped, Until: &until},
			map[string]int{"standard": 4}, map[string]ReasonCode{"standard": ReasonSpendBreaker}, 0},
		{"a breaker whose time is over lets go", crowd(1, "standard"), Budget{BreakerHour: &breaker, TrippedAt: &tripped, Until: &over},
			map[string]int{"standard": 8}, nil, 0},
		{"without an end it waits for a person", crowd(1, "standard"), Budget{BreakerHour: &breaker, TrippedAt: &tripped},
			map[string]int{"standard": 4}, map[string]ReasonCode{"standard": ReasonSpendBreaker}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := withBudget(c.in, c.budget)
			plan, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range Check(plan, in) {
				t.Errorf("Check: %s: %s", v.Code, v.Message)
			}
			if len(plan.Trips) != c.trips {
				t.Errorf("%d breakers tripped, want %d", len(plan.Trips), c.trips)
			}
			for _, d := range plan.Decisions {
				class := string(d.Workload[2:])
				if d.Target != c.targets[class] {
					t.Errorf("%s has %d replicas, want %d: %+v", class, d.Target, c.targets[class], d.Reasons)
				}
				if want := c.reasons[class]; want != "" && d.Binding != want {
					t.Errorf("%s is bound by %s, want %s", class, d.Binding, want)
				}
			}
		})
	}
}

func TestASpentBudgetNeverShrinksInTheDark(t *testing.T) {
	t.Parallel()
	in := withBudget(crowd(0.5, ClassBatch), Budget{Enforced: true})
	in.Snapshot.Workloads[0].Signals[0].Samples[0].At = noon.Add(-10 * time.Minute)
	plan, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := plan.Decisions[0]; d.Target != 4 {
		t.Errorf("shrunk to %d although its signal is stale", d.Target)
	}
}

func TestARaiseWithoutAPriceWaitsOnceNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allowed int64
		want    int
	}{{1, 8}, {0, 4}} {
		in := withBudget(crowd(1, "standard"), Budget{Enforced: true, Remaining: units(1), AllowedHour: units(c.allowed)})
		in.Snapshot.Workloads[0].ReplicaHour = nil
		plan, err := Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		if d := plan.Decisions[0]; d.Target != c.want || (c.want == 4 && d.Binding != ReasonBudgetUnknown) {
			t.Errorf("with %d left an hour it has %d replicas by %s, want %d", c.allowed, d.Target, d.Binding, c.want)
		}
	}
}

// drawBudgets adds budgets over random parts of the input, of any standing.
func drawBudgets(t *rapid.T, in *Input) {
	for i := range in.Snapshot.Workloads {
		in.Snapshot.Workloads[i].Workload.Class = rapid.SampledFrom([]string{"", ClassGold, ClassStandard, ClassEconomy, ClassBatch}).Draw(t, "class")
	}
	money := func(label string) fleet.Money { return fleet.Money(rapid.Int64Range(-1e11, 2e12).Draw(t, label)) }
	for i := range rapid.IntRange(1, 3).Draw(t, "budgets") {
		b := Budget{ID: fleet.BudgetID(rune('x' + i)), Enforced: rapid.Bool().Draw(t, "enforced"), Remaining: money("remaining"), AllowedHour: money("allowed"),
			ElsewhereHour: money("elsewhere"), EndsAt: noon.Add(time.Hour)}
		for _, w := range in.Snapshot.Workloads {
			if rapid.Bool().Draw(t, "counts") {
				b.Workloads = append(b.Workloads, w.Workload.ID)
			}
		}
		if rapid.Bool().Draw(t, "breaker") {
			m := money("breaker")
			b.BreakerHour = &m
			if rapid.Bool().Draw(t, "tripped") {
				b.TrippedAt, b.Until = at(-60), at(rapid.IntRange(-30, 30).Draw(t, "until"))
			}
		}
		in.Budgets = append(in.Budgets, b)
	}
}

func TestNoRaiseGoesPastABudgetOrThroughABreaker(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		free := mustDecide(t, in)
		drawBudgets(t, &in)
		plan := mustDecide(t, in)
		for _, v := range Check(plan, in) {
			t.Errorf("%s: %s", v.Code, v.Message)
		}
		for i, d := range plan.Decisions {
			if without := free.Decisions[i]; d.Target > without.Target {
				t.Errorf("%s has %d replicas with budgets and %d without", d.Key, d.Target, without.Target)
			}
			if d.Target < d.From && d.Target < d.Min {
				t.Errorf("%s was shrunk to %d, under its floor of %d", d.Key, d.Target, d.Min)
			}
			if in.Snapshot.Workloads[i].Workload.Class == ClassGold && d.Target < min(d.From, free.Decisions[i].Target) {
				t.Errorf("gold was shrunk to %d for money", d.Target)
			}
			if d.Target != free.Decisions[i].Target && d.Reasons[len(d.Reasons)-1].Budget == "" {
				t.Errorf("%s changed without a word about money: %+v", d.Key, d.Reasons)
			}
		}
	})
}

func TestABudgetsDecisionComputesAgainFromThePartThatIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		drawBudgets(t, &in)
		plan := mustDecide(t, in)
		news := plan.Decisions[:rapid.IntRange(1, len(plan.Decisions)).Draw(t, "news")]
		keep, budgets := in.Needs(news)
		part := Input{Snapshot: in.Snapshot, Policies: map[fleet.WorkloadID]Binding{}, Memory: map[fleet.WorkloadID]Memory{}, Budgets: budgets}
		part.Snapshot.Workloads = nil
		for _, w := range in.Snapshot.Workloads {
			if id := w.Workload.ID; keep[id] {
				part.Snapshot.Workloads = append(part.Snapshot.Workloads, w)
				part.Policies[id], part.Memory[id] = in.Policies[id], in.Memory[id]
			}
		}
		raw, err := json.Marshal(part.Budgets)
		if err != nil {
			t.Fatal(err)
		}
		part.Budgets = nil
		if err := json.Unmarshal(raw, &part.Budgets); err != nil {
			t.Fatal(err)
		}
		again := map[fleet.WorkloadID]Decision{}
		for _, d := range mustDecide(t, part).Decisions {
			again[d.Workload] = d
		}
		for _, d := range news {
			if !reflect.DeepEqual(again[d.Workload], d) {
				t.Errorf("computes to another decision:\n%+v\n%+v", d, again[d.Workload])
			}
		}
	})
}
