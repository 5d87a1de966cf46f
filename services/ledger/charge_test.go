package ledger

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

func TestWhoIsChargedWhat(t *testing.T) {
	t.Parallel()
	row := func(kind Kind, team, namespace string, amount fleet.Money) Row {
		return Row{Kind: kind, Resource: ResourceGPU, Amount: amount * unit, Owner: Owner{Team: team, Namespace: namespace}}
	}
	scope := [][]Row{{row(KindWorkload, "red", "chat", 60), row(KindWorkload, "blue", "web", 20), row(KindWorkload, "ops", "monitoring", 20), row(KindIdle, "", "", 10), row(KindResidual, "", "", -1)}}
	weighted := SpreadWeighted
	monitoring := SharedRule{ID: "m", Pick: "namespace", Value: "monitoring", Spread: SpreadEven}
	for name, tc := range map[string]struct {
		idle  *Spread
		rules []SharedRule
		want  string
	}{
		"direct costs only":               {nil, nil, "blue 20+0[] ops 20+0[] red 60+0[] idle 10 residual -1"},
		"idle by weight":                  {&weighted, nil, "blue 20+2[] ops 20+2[] red 60+6[] idle 0 residual -1"},
		"monitoring evenly":               {nil, []SharedRule{monitoring}, "blue 20+0[10] red 60+0[10] idle 10 residual -1"},
		"monitoring with the idle it has": {&weighted, []SharedRule{monitoring}, "blue 20+2[11] red 60+6[11] idle 0 residual -1"},
		"three parts to one":              {nil, []SharedRule{{ID: "m", Pick: "team", Value: "ops", Spread: SpreadFixed, Parts: map[string]int64{"red": 1, "blue": 3, "gone": 9}}}, "blue 20+0[15] red 60+0[5] idle 10 residual -1"},
		"in proportion":                   {nil, []SharedRule{{ID: "m", Pick: "team", Value: "ops", Spread: SpreadWeighted}}, "blue 20+0[5] red 60+0[15] idle 10 residual -1"},
		"nobody to carry it":              {nil, []SharedRule{{ID: "m", Pick: "team", Value: "ops", Spread: SpreadFixed, Parts: map[string]int64{"gone": 1}}}, "blue 20+0[0] red 60+0[0] idle 10 residual -1 unshared 20"},
	} {
		got := ""
		c := ChargeTeams(scope, tc.idle, tc.rules)
		for _, t := range c.Teams {
			var shared []fleet.Money
			for _, s := range t.Shared {
				shared = append(shared, s/unit)
			}
			got += fmt.Sprintf("%s %d+%d%d ", t.Team, t.Direct/unit, t.Idle/unit, shared)
		}
		got += fmt.Sprintf("idle %d residual %d", c.Rest[KindIdle]/unit, c.Rest[KindResidual]/unit)
		if len(c.Unshared) == 1 && c.Unshared[0] != 0 {
			got += fmt.Sprintf(" unshared %d", c.Unshared[0]/unit)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestChargesAddUpToTheLedger(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"", "a", "b", "c", "d"})
	rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Row {
		r := Row{Kind: rapid.SampledFrom([]Kind{KindWorkload, KindWorkload, KindIdle, KindOverhead, KindResidual, KindUnused}).Draw(t, "kind"), Resource: rapid.SampledFrom([]Resource{ResourceCPU, ResourceGPU, ResourceMemory}).Draw(t, "resource"),
			Amount: fleet.Money(rapid.Int64Range(0, 1e15).Draw(t, "amount"))}
		if r.Kind == KindWorkload {
			r.Owner = Owner{Team: word.Draw(t, "team"), Namespace: word.Draw(t, "namespace")}
		}
		if r.Kind == KindResidual {
			r.Amount = -r.Amount
		}
		return r
	}), 0, 20)
	rapid.Check(t, func(t *rapid.T) {
		scopes := rapid.SliceOfN(rows, 0, 4).Draw(t, "scopes")
		var idle *Spread
		if rapid.Bool().Draw(t, "shared") {
			s := rapid.SampledFrom([]Spread{SpreadWeighted, SpreadEven}).Draw(t, "spread")
			idle = &s
		}
		var rules []SharedRule
		for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
			rules = append(rules, SharedRule{ID: fmt.Sprint(i), Pick: rapid.SampledFrom([]string{"namespace", "team"}).Draw(t, "pick"), Value: word.Draw(t, "value"),
				Spread: rapid.SampledFrom([]Spread{SpreadWeighted, SpreadEven, SpreadFixed}).Draw(t, "how"), Parts: rapid.MapOf(word, rapid.Int64Range(0, 100)).Draw(t, "parts")})
		}
		var want, got fleet.Money
		for _, s := range scopes {
			for _, r := range s {
				want += r.Amount
			}
		}
		c := ChargeTeams(scopes, idle, rules)
		for _, team := range c.Teams {
			got += team.Total
			if team.Direct < 0 || team.Idle < 0 {
				t.Fatalf("%+v", team)
			}
		}
		for _, r := range c.Rest {
			got += r
		}
		for _, u := range c.Unshared {
			got += u
		}
		if got != want {
			t.Fatalf("charges add up to %d, the ledger to %d", got, want)
		}
		if d := cmp.Diff(c, ChargeTeams(scopes, idle, rules)); d != "" {
			t.Fatal(d)
		}
	})
}
