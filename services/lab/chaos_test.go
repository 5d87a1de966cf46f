package lab

import (
	"bytes"
	"testing"
)

// Every policy keeps every scenario's criteria: no scale-down without signals, never above the ceiling, few cycles, and every stored decision
// computes again bit for bit.
func TestEveryPolicyGetsThroughEveryScenario(t *testing.T) {
	t.Parallel()
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for _, p := range ChaosPolicies() {
				r, err := RunChaos(s, p)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: late %.4f, late-equivalent %.0f s, most %d, recomputed %d, paid %.0f", p.Name, r.Late, r.LateFor, r.Most, r.Decisions, r.Paid)
				for _, c := range r.Checks {
					if !c.Pass {
						t.Errorf("%s: %s is %.4g, bound %.4g", p.Name, c.Name, c.Value, c.Bound)
					} else {
						t.Logf("%s: %s is %.4g, bound %.4g", p.Name, c.Name, c.Value, c.Bound)
					}
				}
				if p.document != nil && !s.market && r.Decisions == 0 {
					t.Errorf("%s: nothing was computed again", p.Name)
				}
			}
		})
	}
}

func TestChaosIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	s, err := FindScenarios([]string{"metrics-late", "noise"})
	if err != nil {
		t.Fatal(err)
	}
	play := func() string {
		var out bytes.Buffer
		for _, one := range s {
			r, err := RunChaos(one, ChaosPolicies()[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := WriteChaos(&out, []ChaosResult{r}); err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	if a, b := play(), play(); a != b {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
	if _, err := FindScenarios([]string{"no-such"}); err == nil {
		t.Error("an unknown scenario is found")
	}
}
