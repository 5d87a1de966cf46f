package spread_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/spread"
)

// world is clusters with a service in each: load that goes where it goes, policies that ask for what it takes, and replicas that take a while to start.
type world struct {
	in      spread.Input
	load    []float64 // in replicas, by site; of a queue the whole at each
	follows float64   // share of the load that goes, within a step, to where replicas are ready
	starts  [][]int   // steps until ready, of each site's replicas that are not
	start   int
	moved   int // times that targets changed without a change of load
	last    []int
}

func newWorld(traffic spread.Traffic, start int, follows float64, sites ...spread.Site) *world {
	w := &world{in: service(fleet.ModeEnforce, spread.Rules{Traffic: traffic}, sites...), start: start, follows: follows, starts: make([][]int, len(sites))}
	for _, s := range w.in.Sites {
		w.load = append(w.load, float64(*s.Need))
	}
	return w
}

// step plans, lets each cluster's policy scale within its bounds, and lets half a minute pass. It fails where ready replicas fall below the load because of the plan.
func (w *world) step(t rapid.TB) *spread.Plan {
	t.Helper()
	for i := range w.in.Sites {
		w.in.Sites[i].Need = num(int(math.Ceil(w.load[i] - 1e-9)))
	}
	total, ready, before := 0.0, 0, 0
	for i, l := range w.load {
		total += l
		before += w.in.Sites[i].Ready
	}
	p := decide(t, w.in)
	bounds := p.Bounds(&w.in)
	for i := range w.in.Sites {
		s := &w.in.Sites[i]
		low, high := s.Min, s.Max
		if b, ok := bounds[s.Workload]; ok {
			low, high = b.Lift(s.Min, s.Max, *s.Need)
		}
		want := min(max(*s.Need, low), high)
		for ; s.Replicas < want; s.Replicas++ {
			w.starts[i] = append(w.starts[i], w.start)
		}
		for ; s.Replicas > want; s.Replicas-- { // those that run go first, to be unkind
			if s.Ready > 0 {
				s.Ready--
			} else {
				w.starts[i] = w.starts[i][:len(w.starts[i])-1]
			}
		}
		var still []int
		for _, n := range w.starts[i] {
			if n <= 1 {
				s.Ready++
			} else {
				still = append(still, n-1)
			}
		}
		w.starts[i] = still
		s.Steps[0].Count = max(s.Replicas, 1)
		ready += s.Ready
	}
	if w.in.Rules.Traffic == spread.TrafficBalanced && ready < min(before, int(math.Ceil(total-1e-9))) {
		t.Fatalf("%d ready for a load of %.1f, %d before: %+v", ready, total, before, p.Parts)
	}
	if ready > 0 && w.in.Rules.Traffic != spread.TrafficShared {
		for i := range w.load {
			share := total * float64(w.in.Sites[i].Ready) / float64(ready)
			w.load[i] += w.follows * (share - w.load[i])
		}
	}
	if got := targets(p); !slices.Equal(got, w.last) {
		w.moved, w.last = w.moved+1, got
	}
	w.in.Memory, w.in.Now = p.Memory, w.in.Now.Add(30*time.Second)
	return p
}

func (w *world) replicas() (out []int) {
	for i := range w.in.Sites {
		out = append(out, w.in.Sites[i].Replicas)
	}
	return out
}

func TestAServiceSettlesWhereItIsCheapest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		traffic spread.Traffic
		follows float64
		want    []int
	}{
		{"behind a balancer", spread.TrafficBalanced, 0.8, []int{1, 11}},
		{"behind a slow balancer", spread.TrafficBalanced, 0.1, []int{1, 11}},
		{"load that stays", spread.TrafficLocal, 0, []int{8, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(c.traffic, 6, c.follows, site("a", 8, 8, dollar), site("b", 4, 4, dollar/3))
			for range 400 {
				w.step(t)
			}
			settled := w.moved
			got := w.replicas()
			for i, n := range c.want {
				if got[i] < n || got[i] > n+1 { // needs are rounded up in each cluster
					t.Errorf("%v, want %v", got, c.want)
				}
			}
			for range 100 {
				w.step(t)
			}
			if c.traffic == spread.TrafficBalanced && w.moved != settled {
				t.Errorf("the target changed %d times more", w.moved-settled)
			}
		})
	}
}

// One queue: each cluster alone would size itself for all of it.
func TestOneQueueIsServedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(spread.TrafficShared, 4, 0, site("a", 6, 10, dollar), site("b", 4, 10, dollar))
	for range 60 {
		w.step(t)
	}
	if got := w.replicas(); got[0]+got[1] != 10 {
		t.Errorf("%v for a queue of ten", got)
	}
	w.load = []float64{20, 20} // a surge: no cluster waits for the next plan, and afterwards ten each is too many
	for range 60 {
		w.step(t)
	}
	if got := w.replicas(); got[0]+got[1] != 20 {
		t.Errorf("%v for a queue of twenty", got)
	}
}

// Whatever load does between clusters, and however slowly replicas start: a plan never takes ready replicas below the load.
func TestLoadThatWandersIsAlwaysServed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(t, "clusters")
		var sites []spread.Site
		for i := range n {
			have := rapid.IntRange(1, 12).Draw(t, "replicas")
			sites = append(sites, site(string(rune('a'+i)), have, have, fleet.Money(rapid.IntRange(1, 8).Draw(t, "price"))*dollar/4))
		}
		w := newWorld(spread.TrafficBalanced, rapid.IntRange(1, 12).Draw(t, "start"), rapid.Float64Range(0.05, 1).Draw(t, "follows"), sites...)
		for range 120 {
			if rapid.IntRange(0, 9).Draw(t, "falls") == 0 { // the load falls; rising load is the policies' business
				for i := range w.load {
					w.load[i] *= 0.9
				}
			}
			if rapid.IntRange(0, 19).Draw(t, "price changes") == 0 {
				s := &w.in.Sites[rapid.IntRange(0, n-1).Draw(t, "where")]
				price := fleet.Money(rapid.IntRange(1, 8).Draw(t, "price")) * dollar / 4
				for k := range s.Steps {
					s.Steps[k].Price, s.Steps[k].Weighed = price, price
				}
			}
			w.step(t)
		}
	})
}

// A surge is served by the clusters where it arrives, at once, and settles where it is cheapest.
func TestASurgeIsServedAtOnce(t *testing.T) {
	t.Parallel()
	for _, traffic := range []spread.Traffic{spread.TrafficLocal, spread.TrafficBalanced} {
		w := newWorld(traffic, 3, 0.5, site("a", 6, 6, dollar), site("b", 6, 6, dollar/3))
		for range 60 {
			w.step(t)
		}
		for i := range w.load {
			w.load[i] *= 3
		}
		for range 5 {
			w.step(t)
		}
		if ready := w.in.Sites[0].Ready + w.in.Sites[1].Ready; ready < 36 {
			t.Errorf("%s: %d of 36 are ready after two minutes and a half", traffic, ready)
		}
	}
}
