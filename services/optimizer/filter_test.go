package optimizer

import (
	"math"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

func series(values ...float64) []fleet.Sample {
	out := make([]fleet.Sample, len(values))
	for i, v := range values {
		out[i] = fleet.Sample{At: noon.Add(-seconds(15 * (len(values) - 1 - i))), Value: v}
	}
	return out
}

func TestFilterCleansASignal(t *testing.T) {
	t.Parallel()
	std := Filter{WindowSeconds: 60, OutlierMAD: 6}
	for _, c := range []struct {
		name    string
		filter  Filter
		values  []float64
		queued  bool
		want    float64
		outlier int
	}{
		{"one sample is taken as it is", std, []float64{7}, false, 7, 0},
		{"a flat line stays flat", std, []float64{5, 5, 5, 5, 5, 5}, false, 5, 0},
		{"half the newest, half the mean of the window", std, []float64{90, 10, 14, 12, 20}, false, 17, 0},
		{"samples before the window do not count", std, []float64{99, 99, 10, 10, 10, 10}, false, 10, 0},
		{"a lone spike does not raise the level", std, []float64{5, 5, 5, 5, 5, 50}, false, 5, 1},
		{"a lone spike counts while work is waiting", std, []float64{5, 5, 5, 5, 5, 50}, true, 50, 0},
		{"a second high sample is a new level", std, []float64{5, 5, 5, 5, 50, 50}, false, 50, 0},
		{"a lone drop does not lower the level", std, []float64{50, 50, 50, 50, 50, 1}, false, 50, -1},
		{"a lone drop does not lower the level while work is waiting either", std, []float64{50, 50, 50, 50, 50, 1}, true, 50, -1},
		{"a second low sample is a new level", std, []float64{50, 50, 50, 50, 1, 1}, false, 13.25, 0},
		{"a spike that has passed is forgotten", std, []float64{5, 5, 5, 50, 5, 5}, false, 5, 0},
		{"too few samples know no outlier", std, []float64{5, 5, 50}, false, 35, 0},
		{"noise is no outlier", std, []float64{5, 6, 4, 7, 5, 8}, false, 7, 0},
		{"without a window the newest counts", Filter{WindowSeconds: -1, OutlierMAD: -1}, []float64{5, 5, 5, 5, 5, 50}, false, 50, 0},
		{"without a window an outlier is still rejected", Filter{WindowSeconds: -1, OutlierMAD: 6}, []float64{5, 5, 5, 5, 5, 50}, false, 5, 1},
		{"with the outlier limit off a spike is only smoothed", Filter{WindowSeconds: 60, OutlierMAD: -1}, []float64{5, 5, 5, 5, 5, 50}, false, 33.125, 0},
		{"a first request after silence waits for the second sample", std, []float64{0, 0, 0, 0, 0, 9}, false, 0, 1},
		{"nonsense between good samples is skipped", std, []float64{5, math.NaN(), -3, math.Inf(1), 5}, false, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := read(fleet.Signal{Samples: series(c.values...)}, noon, time.Minute, c.filter, false, c.queued)
			if math.Abs(r.level-c.want) > 1e-9 || r.outlier != c.outlier {
				t.Errorf("level %v outlier %d, want %v %d", r.level, r.outlier, c.want, c.outlier)
			}
		})
	}
}

func TestAMeanOverPodsIsWeighedByThem(t *testing.T) {
	t.Parallel()
	// 4 pods at 0.8 became 8 at 0.4: the load did not change, so the level is what 8 pods see.
	samples := series(0.8, 0.8, 0.8, 0.4)
	for i := range samples {
		samples[i].PodsReported = 4
	}
	samples[3].PodsReported = 8
	f := Filter{WindowSeconds: 60, OutlierMAD: -1}
	if r := read(fleet.Signal{Samples: samples}, noon, time.Minute, f, true, false); math.Abs(r.level-0.4) > 1e-9 {
		t.Errorf("level %v, want 0.4", r.level)
	}
}

func TestTruthOfASignal(t *testing.T) {
	t.Parallel()
	moved := func(by int, s []fleet.Sample) []fleet.Sample {
		for i := range s {
			s[i].At = s[i].At.Add(seconds(by))
		}
		return s
	}
	silent := series(0)
	silent[0].PodsUnready = 2
	speaking := series(3)
	speaking[0].PodsUnready = 2
	for _, c := range []struct {
		name   string
		signal fleet.Signal
		want   fleet.Truth
	}{
		{"recent", fleet.Signal{Samples: series(1, 2)}, fleet.TruthFresh},
		{"none", fleet.Signal{}, fleet.TruthMissing},
		{"old", fleet.Signal{Samples: moved(-46, series(1))}, fleet.TruthStale},
		{"a little ahead of the clock", fleet.Signal{Samples: moved(40, series(1))}, fleet.TruthFresh},
		{"far ahead of the clock", fleet.Signal{Samples: moved(46, series(1))}, fleet.TruthStale},
		{"not a number", fleet.Signal{Samples: series(1, math.NaN())}, fleet.TruthMissing},
		{"infinite", fleet.Signal{Samples: series(1, math.Inf(1))}, fleet.TruthMissing},
		{"negative", fleet.Signal{Samples: series(1, -1)}, fleet.TruthMissing},
		{"absurdly large", fleet.Signal{Samples: series(1, 1e200)}, fleet.TruthMissing},
		{"zero, since nobody who could speak is ready", fleet.Signal{Samples: silent}, fleet.TruthMissing},
		{"a gateway speaks while no pod is ready", fleet.Signal{Samples: speaking}, fleet.TruthFresh},
		{"sources disagree", fleet.Signal{Samples: series(1), Conflicting: true}, fleet.TruthConflicting},
		{"out of order, the newest is recent", fleet.Signal{Samples: append(series(1), moved(-300, series(2))...)}, fleet.TruthFresh},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if r := read(c.signal, noon, 45*time.Second, Filter{WindowSeconds: 60, OutlierMAD: 6}, false, false); r.truth != c.want {
				t.Errorf("%s, want %s", r.truth, c.want)
			}
		})
	}
}

func TestAnOutlierOnItsOwnMovesNothing(t *testing.T) {
	t.Parallel()
	filtered := withPolicy(func(p *Policy) { p.Filter = Filter{} })
	for _, c := range []struct {
		name   string
		scene  scene
		target int
	}{
		{"one dead sample does not scale down", newScene(4, filtered, cpu(0.5, 0.5, 0.5, 0.5, 0.5, 0.01)), 4},
		{"one spike does not scale up", newScene(4, filtered, cpu(0.5, 0.5, 0.5, 0.5, 0.5, 1)), 4},
		{"a spike with a second sample does", newScene(4, filtered, cpu(0.2, 0.2, 0.2, 0.2, 1, 1)), 8},
		{"a spike with a queue does", newScene(4, filtered, cpu(0.2, 0.2, 0.2, 0.2, 0.2, 1), queue(5, 3)), 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if d, _ := c.scene.decide(t); d.Target != c.target {
				t.Errorf("target %d, want %d\n%+v", d.Target, c.target, d.Reasons)
			}
		})
	}
}
