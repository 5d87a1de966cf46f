package replay

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

// served is the throughput of the workload over an hour after ten minutes of warm-up.
func served(t *testing.T, c Config) float64 {
	t.Helper()
	w := newWorld(t, c)
	advance(t, w, 10*time.Minute)
	before := w.byKey[llm].Count.Served
	advance(t, w, time.Hour)
	return float64(w.byKey[llm].Count.Served-before) / 3600
}

func TestSaturatedReplicaYieldsItsProfile(t *testing.T) {
	t.Parallel()
	one := func(c *Config) { c.Workloads[0].Replicas = 1 }
	for name, tc := range map[string]struct {
		load Load
		want float64 // requests per second
	}{
		"decoding only: 900 output tokens/s":           {Load{Rate: 50, TokensIn: 0.001, TokensOut: 300}, 3},
		"mostly prompts: 5,000 prompt tokens/s":        {Load{Rate: 50, TokensIn: 10_000, TokensOut: 18}, 1 / (2 + 0.02)},
		"both share the GPU: their times add up":       {Load{Rate: 50, TokensIn: 900, TokensOut: 210}, 1 / (0.18 + 210.0/900)},
		"under capacity everything is served, at once": {Load{Rate: 1.2, TokensIn: 900, TokensOut: 210}, 1.2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := served(t, small(tc.load, one)); math.Abs(got/tc.want-1) > 0.06 {
				t.Errorf("served %.3f requests per second, want %.3f within 6 %%", got, tc.want)
			}
		})
	}
}

func TestShortServiceKeepsUp(t *testing.T) {
	t.Parallel()
	c := small(Load{Rate: 700}, func(c *Config) {
		c.Workloads[0].Service = Service{Slots: 16, Seconds: 0.04, LateSeconds: 0.5, TimeoutSeconds: 10, CPUSeconds: 0.002}
	})
	if got := served(t, c); math.Abs(got/700-1) > 0.01 { // two replicas of 400/s
		t.Errorf("served %.1f/s of 700/s", got)
	}
	c.Workloads[0].Traffic = steady{Rate: 1200}
	if got := served(t, c); math.Abs(got/800-1) > 0.02 {
		t.Errorf("served %.1f/s, the capacity is 800/s", got)
	}
}

func TestOverloadWaitsIsLateAndGivesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{Rate: 12, TokensIn: 900, TokensOut: 210}, nil)) // capacity is 4.8/s
	advance(t, w, 10*time.Minute)
	checkBooks(t, w)
	c := w.byKey[llm].Count
	if c.TimedOut == 0 || c.Late < c.TimedOut || c.Waiting < 300 {
		t.Errorf("an overloaded service has timeouts, late requests and a queue: %+v", c)
	}
	if age := last(t, w, llm, fleet.SignalQueueAge); age < 50 || age > 70 {
		t.Errorf("the oldest waits %.0f s; the timeout is 60 s", age)
	}
	if p99 := last(t, w, llm, fleet.SignalTTFTP99); p99 < 40 {
		t.Errorf("time to first token %.1f s with a minute of queue", p99)
	}
	if e := last(t, w, llm, fleet.SignalErrorRatio); e < 0.4 || e > 0.7 {
		t.Errorf("error ratio %.2f, about 0.6 of the requests cannot be served", e)
	}
}

func TestSignalsRiseWithLoad(t *testing.T) {
	t.Parallel()
	names := []fleet.SignalName{fleet.SignalRequestRate, fleet.SignalRunning, fleet.SignalGPUSM, fleet.SignalKVCache, fleet.SignalLatencyP99, fleet.SignalTTFTP99,
		fleet.SignalCPU, fleet.SignalTokensIn, fleet.SignalTokensOut, fleet.SignalGPUMemory}
	var before map[fleet.SignalName]float64
	for _, rate := range []float64{0.6, 2, 3.6, 4.6} {
		w := newWorld(t, small(Load{Rate: rate, TokensIn: 900, TokensOut: 210}, func(c *Config) { c.Workloads[0].Service.GPUBusyMiB = 5000 }))
		advance(t, w, 20*time.Minute)
		now := map[fleet.SignalName]float64{}
		for _, n := range names {
			now[n] = last(t, w, llm, n)
			if before != nil && now[n] <= before[n] {
				t.Errorf("%s was %.3f and is %.3f at %.1f requests/s", n, before[n], now[n], rate)
			}
		}
		before = now
	}
	for _, n := range []fleet.SignalName{fleet.SignalGPUSM, fleet.SignalKVCache} {
		if before[n] < 0.6 || before[n] > 1 {
			t.Errorf("%s is %.2f near saturation", n, before[n])
		}
	}
}

func TestSilenceOfUnreadyReplicasIsNotZero(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{Rate: 1, TokensIn: 900, TokensOut: 210}, func(c *Config) { c.Workloads[0].Replicas = 0 }))
	if _, _, err := w.Scale(llm, 1); err != nil {
		t.Fatal(err)
	}
	advance(t, w, time.Minute)
	st := state(w, llm)
	if st.Ready != 0 || st.Starting != 1 {
		t.Fatalf("ready %d, starting %d", st.Ready, st.Starting)
	}
	for _, name := range []fleet.SignalName{fleet.SignalGPUSM, fleet.SignalCPU, fleet.SignalCPURatio, fleet.SignalLatencyP99} {
		if _, ok := st.Signal(name).Last(); ok {
			t.Errorf("%s of no ready replica has a value", name)
		}
	}
	q, ok := st.Signal(fleet.SignalQueueLength).Last()
	if !ok || q.Value < 30 || q.PodsUnready != 1 {
		t.Errorf("the queue in front is %+v", q)
	}
}

func TestStatesDoNotChangeOnceHandedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{Rate: 2, TokensIn: 900, TokensOut: 210}, nil))
	advance(t, w, time.Hour)
	got := w.States(15 * time.Minute)
	var copied []fleet.Sample
	for _, s := range got[0].Signals {
		copied = append(copied, s.Samples...)
	}
	advance(t, w, 3*time.Hour)
	var now []fleet.Sample
	for _, s := range got[0].Signals {
		now = append(now, s.Samples...)
	}
	if !reflect.DeepEqual(copied, now) {
		t.Error("samples changed after they were handed out")
	}
	if n := len(got[0].Signal(fleet.SignalRunning).Samples); n != 60 {
		t.Errorf("%d samples in fifteen minutes", n)
	}
	if n := len(w.States(time.Minute)[0].Signal(fleet.SignalRunning).Samples); n != 4 {
		t.Errorf("%d samples in a minute", n)
	}
}

func TestNoValueIsEverAbsurd(t *testing.T) {
	t.Parallel()
	l := demoLoop(t, 1, nil)
	check := func(what string, v float64) {
		if !(v >= 0) || math.IsInf(v, 0) {
			t.Fatalf("%v: %s is %v", l.World.Now(), what, v)
		}
		if strings.HasSuffix(what, "_ratio") && v > 1.2 {
			t.Fatalf("%v: %s is %v", l.World.Now(), what, v)
		}
	}
	l.run(t, 72*time.Hour, func(m Made) {
		for _, st := range m.Input.Snapshot.Workloads {
			for _, sig := range st.Signals {
				if s, ok := sig.Last(); ok {
					check(st.Workload.Key+" "+string(sig.Name), s.Value)
				}
			}
		}
		if l.World.Now().Minute()%10 == 0 {
			for _, s := range l.World.Series() {
				check(s.Entity+" "+s.Field, s.Value)
			}
		}
	})
}
