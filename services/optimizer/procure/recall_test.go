package procure

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What is made anew from news alone is what a policy knows that saw every slot, so that who plans now and then chooses as who plans always.
func TestNewsTellWhatEverySlotTold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(r, "zones")
		every := New(Default())
		news := make([][]News, n)
		held := make([]int, n)
		slots := rapid.IntRange(1, 3000).Draw(r, "slots")
		var pools []Pool
		for slot := 1; slot <= slots; slot++ {
			pools = []Pool{onDemand}
			pools[0].Ready = 1
			for z := range n {
				p := zone("z", 300_000, 0)
				if rapid.IntRange(0, 200).Draw(r, "quiet") == 0 {
					count := func(what string) int { return max(0, rapid.IntRange(-2, 3).Draw(r, what)) }
					p.Got, p.Failed, p.Warned, p.Lost = count("got"), count("failed"), count("warned"), count("lost")
					held[z] = max(0, held[z]+p.Got-p.Warned-p.Lost)
					news[z] = append(news[z], News{Slot: slot, Got: p.Got, Failed: p.Failed, Warned: p.Warned, Lost: p.Lost, Held: held[z]})
				}
				p.Ready = held[z]
				pools = append(pools, p)
			}
			every.slot = slot
			every.learn(pools)
		}
		beliefs := []Belief{{}}
		for z := range n {
			beliefs = append(beliefs, Believe(Default(), news[z], slots, held[z]))
		}
		anew := Recall(Default(), slots, beliefs)
		for i := range anew.pools {
			a, b := anew.pools[i], every.pools[i]
			if math.Abs(a.hazard-b.hazard) > 1e-9 {
				r.Fatalf("pool %d: hazard %v, %v by news", i, b.hazard, a.hazard)
			}
			if a.hazard = b.hazard; a != b {
				r.Fatalf("pool %d: %+v, %+v by news", i, b, a)
			}
		}
		for i := range pools {
			pools[i].Got, pools[i].Failed, pools[i].Warned, pools[i].Lost = 0, 0, 0, 0
		}
		want := rapid.IntRange(0, 20).Draw(r, "want")
		one, two := make([]int, n+1), make([]int, n+1)
		every.Choose(pools, want, 0, one)
		anew.Choose(pools, want, 0, two)
		if !slices.Equal(one, two) {
			r.Fatalf("%v, %v by news", one, two)
		}
	})
}

func TestWhatAPoolMayBeAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		news       []News
		now, held  int
		free, most int // with nothing standing in for it
	}{
		{"nothing is known and nothing runs: one", nil, 1000, 0, 0, 1},
		{"something runs: no limit", nil, 1000, 2, 0, math.MaxInt},
		{"a refusal where nothing runs: four hours", []News{{Slot: 1000, Failed: 1}}, 1001, 0, 1000 + 4*hourSlots, 1},
		{"a refusal where something runs: what it has", []News{{Slot: 1000, Failed: 1, Held: 3}}, 1001, 3, 0, 3},
		{"two hours later one more", []News{{Slot: 1000, Failed: 1, Held: 3}}, 1001 + 2*hourSlots, 3, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := Recall(Default(), c.now, []Belief{Believe(Default(), c.news, c.now, c.held)})
			if free, most := b.Free(0, 0), b.Most(0, c.held); free != c.free || most != c.most {
				t.Errorf("from slot %d at most %d; want %d and %d", free, most, c.free, c.most)
			}
		})
	}
}
