package packing

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPodsAreSeatedUnderEveryRuleNearlyAsWellAsByTryingEverything(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			all, same, short, cost, least := 0, 0, 0, 0.0, 0.0
			rapid.Check(t, func(t *rapid.T) {
				pods, offs := drawPods(t, 5), zoned(t, drawOfferings(t, 4), 3)
				drawKind(t, kind, pods)
				for i := range offs {
					offs[i].DomainNodes = rapid.Int64Range(0, 2).Draw(t, "domain")
				}
				opts := Options{seat: true}
				best, ok := exhaustRules(pods, offs, opts)
				a, err := Pack(pods, offs, opts)
				if err != nil {
					t.Fatal(err)
				}
				if err := Check(pods, offs, opts, a); err != nil {
					t.Fatal(err)
				}
				if !ok {
					if len(a.Unplaced) == 0 {
						t.Fatal("placed what cannot be placed")
					}
					return
				}
				all++
				if len(a.Unplaced) > 0 {
					short++
					t.Logf("left out %+v, all can be placed for %s", a.Unplaced, best)
					return
				}
				if a.Bound > best {
					t.Fatalf("the bound %s is above the optimum %s", a.Bound, best)
				}
				cost, least = cost+a.Weighed.Float(), least+best.Float()
				if a.Weighed == best {
					same++
				}
			})
			t.Logf("of %d, %d at the optimum, %d with pods left out, %.4f times the optima together", all, same, short, cost/least)
			if same*100 < all*85-200 || short*100 > all*15+200 || cost > least*1.05 {
				t.Error("too far from the optima")
			}
		})
	}
}

func TestSeatedPodsKeepEveryRuleRepeatablyAndWhenStopped(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				pods, offs := drawPods(t, 60), zoned(t, drawOfferings(t, 12), 4)
				drawKind(t, kind, pods)
				n := rapid.IntRange(0, 200).Draw(t, "stop after")
				left := n
				opts := Options{Effort: 1, seat: true, Stop: func() bool { left--; return left < 0 }}
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
