package procure

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

func zone(name string, price int32, ready int) Pool {
	return Pool{Name: name, Region: "r", Purchase: fleet.PurchaseSpot, Price: price, Ready: ready}
}

var onDemand = Pool{Name: "on-demand", Purchase: fleet.PurchaseOnDemand, Price: FullPrice}

func buy(b *Policy, slot, want int, busy float64, pools ...Pool) []int {
	targets := make([]int, len(pools))
	b.Buy(slot, pools, want, busy, targets)
	return targets
}

func TestWhereReplicasAreBought(t *testing.T) {
	t.Parallel()
	refused := func(p Pool) Pool { p.Failed = 1; return p }
	noticed := func(p Pool, n int) Pool { p.Ready, p.Noticed, p.Warned = 0, n, n; return p }
	for _, c := range []struct {
		name string
		play func(b *Policy) []int
		want []int
	}{
		{"a zone in which nothing runs is asked for one; on demand stands in for the rest", func(b *Policy) []int {
			return buy(b, 1, 4, 0, onDemand, zone("a", 300_000, 0))
		}, []int{3, 1}},
		{"more follow where something runs", func(b *Policy) []int {
			return buy(b, 1, 4, 0, onDemand, zone("a", 300_000, 1))
		}, []int{0, 4}},
		{"the cheaper zone takes most, its share makes it dearer", func(b *Policy) []int {
			return buy(b, 1, 8, 0, onDemand, zone("a", 300_000, 1), zone("b", 320_000, 1))
		}, []int{0, 6, 2}},
		{"after a refusal a zone is left alone, and on demand covers it", func(b *Policy) []int {
			buy(b, 1, 2, 0, onDemand, zone("a", 300_000, 0))
			return buy(b, 3, 2, 0, onDemand, refused(zone("a", 300_000, 0)))
		}, []int{2, 0}},
		{"while on demand stands in, a zone that did not answer is asked again after twenty minutes", func(b *Policy) []int {
			od := onDemand
			od.Ready = 2
			buy(b, 1, 2, 0, od, refused(zone("a", 300_000, 0)))
			return buy(b, 1+1200/SlotSeconds, 2, 0, od, zone("a", 300_000, 0))
		}, []int{2, 1}},
		{"while nothing stands in for it, four hours pass first", func(b *Policy) []int {
			buy(b, 1, 2, 0, onDemand, refused(zone("a", 300_000, 0)), zone("b", 400_000, 1))
			return buy(b, 1+1200/SlotSeconds, 3, 0, onDemand, zone("a", 300_000, 0), zone("b", 400_000, 1))
		}, []int{1, 0, 3}},
		{"a zone that is full keeps what it has and is not asked for more", func(b *Policy) []int {
			buy(b, 1, 5, 0, onDemand, refused(zone("a", 300_000, 3)))
			return buy(b, 2, 5, 0, onDemand, zone("a", 300_000, 3))
		}, []int{2, 3}},
		{"after two hours a full zone is asked for one", func(b *Policy) []int {
			buy(b, 1, 5, 0, onDemand, refused(zone("a", 300_000, 3)))
			return buy(b, 2+2*hourSlots, 5, 0, onDemand, zone("a", 300_000, 3))
		}, []int{1, 4}},
		{"what was refused is on demand until it is there, though others are asked for it", func(b *Policy) []int {
			buy(b, 1, 9, 0, onDemand, zone("a", 300_000, 4), zone("b", 400_000, 1))
			full, asking := zone("a", 300_000, 4), zone("b", 400_000, 1)
			full.Failed = 4
			return buy(b, 3, 9, 0, onDemand, full, asking)
		}, []int{4, 4, 5}},
		{"of zones that did not answer last time one is asked at a time", func(b *Policy) []int {
			od := onDemand
			od.Ready = 9
			buy(b, 1, 9, 0, od, refused(zone("a", 300_000, 0)), refused(zone("b", 400_000, 0)))
			return buy(b, 1+1200/SlotSeconds, 9, 0, od, zone("a", 300_000, 0), zone("b", 400_000, 0))
		}, []int{9, 1, 0}},
		{"after three zones in a row have refused, five minutes pass before the next is asked", func(b *Policy) []int {
			od, late := onDemand, 1+1200/SlotSeconds
			od.Ready = 9
			a, z, c := zone("a", 300_000, 0), zone("b", 400_000, 0), zone("c", 500_000, 0)
			buy(b, 1, 9, 0, od, refused(a), a, c)
			buy(b, late-1, 9, 0, od, a, refused(z), refused(c))
			return buy(b, late, 9, 0, od, a, z, c)
		}, []int{9, 0, 0, 0}},
		{"then it is asked", func(b *Policy) []int {
			od, late := onDemand, 1+1200/SlotSeconds
			od.Ready = 9
			a, z, c := zone("a", 300_000, 0), zone("b", 400_000, 0), zone("c", 500_000, 0)
			buy(b, 1, 9, 0, od, refused(a), a, c)
			buy(b, late-1, 9, 0, od, a, refused(z), refused(c))
			return buy(b, late-1+300/SlotSeconds, 9, 0, od, a, z, c)
		}, []int{9, 1, 0, 0}},
		{"replicas under notice do not count, others are asked for in their place", func(b *Policy) []int {
			return buy(b, 1, 4, 0, onDemand, noticed(zone("a", 300_000, 2), 2), zone("b", 310_000, 2))
		}, []int{0, 0, 4}},
		{"on demand is kept until its Spot replacement is ready", func(b *Policy) []int {
			od, a := onDemand, zone("a", 300_000, 1)
			od.Ready, a.Starting = 3, 3
			return buy(b, 1, 4, 0, od, a)
		}, []int{3, 4}},
		{"Spot that is dearer than on demand is not bought", func(b *Policy) []int {
			return buy(b, 1, 3, 0, onDemand, zone("a", FullPrice+1, 0))
		}, []int{3, 0}},
		{"what must survive the loss of the largest zone is on demand", func(b *Policy) []int {
			b.cfg.Safe = 0.5
			return buy(b, 1, 8, 8, onDemand, zone("a", 300_000, 8))
		}, []int{4, 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.play(New(Default())); !slices.Equal(got, c.want) {
				t.Errorf("%v; want %v", got, c.want)
			}
		})
	}
}

// Whatever happened: no count is negative, Spot alone is never more than wanted, and what is wanted is held somewhere.
func TestWhatIsWantedIsHeldSomewhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		b := New(Default())
		b.cfg.Safe = rapid.Float64Range(0, 1).Draw(r, "safe")
		n := rapid.IntRange(1, 5).Draw(r, "zones")
		for slot := range rapid.IntRange(1, 40).Draw(r, "slots") {
			pools := []Pool{onDemand}
			count := func(what string) int { return rapid.IntRange(0, 5).Draw(r, what) }
			pools[0].Ready = count("on demand")
			for range n {
				p := zone("z", int32(rapid.IntRange(0, 3*FullPrice).Draw(r, "price")), count("ready"))
				p.Starting, p.Asking, p.Got, p.Failed, p.Warned, p.Lost = count("starting"), count("asking"), count("got"), count("failed"), count("warned"), count("lost")
				pools = append(pools, p)
			}
			want := rapid.IntRange(0, 30).Draw(r, "want")
			targets := buy(b, slot*rapid.IntRange(1, 1000).Draw(r, "pace"), want, float64(count("busy")), pools...)
			spot := 0
			for i, v := range targets {
				if v < 0 {
					r.Fatalf("%v", targets)
				}
				if i > 0 {
					spot += v
				}
			}
			if spot > want || spot+targets[0] < want {
				r.Fatalf("%v hold %d on Spot; want %d", targets, spot, want)
			}
		}
	})
}
