package optimizer

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// sloScene is a workload of replicas under an SLO with fresh signals and a forecast of the last slot.
func sloScene(replicas int, o quantile.Outlook, opts ...option) scene {
	s := newScene(replicas, append([]option{gauge(fleet.SignalRunning, 5, 16, 16), gauge(fleet.SignalQueueLength, 5, 0, 0), gauge(fleet.SignalRequestRate, 5, 4, 4)}, opts...)...)
	s.policy = Policy{Mode: fleet.ModeEnforce, Max: 20, SLO: &SLO{RequestsPerReplica: 8}}
	o.Chief.Quantile, o.Chief.Hold = 0.94, 40
	o.Learned = 40 + 10*int(min(o.Hours, 100))
	s.forecast = &Forecast{At: s.now.Add(-10 * time.Second), Began: BeganNew, Aim: 0.018, Outlook: o}
	return s
}

func TestTheSLORule(t *testing.T) {
	t.Parallel()
	calm := quantile.Outlook{Hours: 30, Demand: 4, Median: 4, Level: 4, Upper: 5.5, Need: 6, Want: 6}
	with := func(change func(*quantile.Outlook)) quantile.Outlook {
		o := calm
		change(&o)
		return o
	}
	old := func(s *scene) { s.forecast.At = s.now.Add(-time.Minute) }
	tests := []struct {
		name    string
		from    int
		outlook quantile.Outlook
		change  func(*scene)
		target  int
		binding ReasonCode
		has     ReasonCode
	}{
		{"it grows to the forecast at once", 4, calm, nil, 6, ReasonForecast, ReasonForecast},
		{"it shrinks to it, step by step", 12, calm, nil, 6, ReasonForecast, ReasonForecast},
		{"a halving is the most in a minute", 16, calm, nil, 8, ReasonStepDown, ReasonForecast},
		{"the hold is above the need", 12, with(func(o *quantile.Outlook) { o.Want = 9 }), nil, 9, ReasonForecastHold, ReasonForecast},
		{"what is there is right", 6, calm, nil, 6, ReasonSteady, ReasonForecast},
		{"late work is worked off", 6, with(func(o *quantile.Outlook) { o.CatchUp, o.Backlog = 11, 400 }), nil, 11, ReasonBacklog, ReasonForecast},
		{"the ceiling caps it", 18, with(func(o *quantile.Outlook) { o.Want, o.Need = 30, 30 }), nil, 20, ReasonMax, ReasonForecast},
		{"the first hour does not shrink", 12, with(func(o *quantile.Outlook) { o.Hours = 0 }), nil, 12, ReasonLearning, ReasonForecast},
		{"the first hour grows", 4, with(func(o *quantile.Outlook) { o.Hours = 0 }), nil, 6, ReasonForecast, ReasonForecast},
		{"learning again says so", 12, with(func(o *quantile.Outlook) { o.Hours = 0 }), func(s *scene) { s.forecast.Began = BeganDamaged }, 12, ReasonRelearning, ReasonForecast},
		{"an old forecast does not shrink", 12, calm, old, 12, ReasonNoForecast, ReasonNoForecast},
		{"without a forecast it grows by rule of thumb", 2, calm, func(s *scene) { s.forecast = nil }, 5, ReasonNoForecast, ReasonNoForecast},
		{"without a forecast it does not shrink", 9, calm, func(s *scene) { s.forecast = nil }, 9, ReasonNoForecast, ReasonNoForecast},
		{"the first minutes go by rule of thumb", 12, calm, func(s *scene) { s.forecast.Outlook.Learned = 39 }, 12, ReasonNoForecast, ReasonNoForecast},
		{"and say when it is not for the first time", 12, calm, func(s *scene) { s.forecast.Outlook.Learned, s.forecast.Began = 9, BeganClock }, 12, ReasonNoForecast, ReasonRelearning},
		{"a forecast from the future is none", 12, calm, func(s *scene) { s.forecast.At = s.now.Add(time.Hour) }, 12, ReasonNoForecast, ReasonNoForecast},
		{"a forecast of nonsense is none", 12, with(func(o *quantile.Outlook) { o.Want = -5 }), nil, 12, ReasonNoForecast, ReasonNoForecast},
		{"a stale signal does not shrink", 12, calm, func(s *scene) { s.state.Signals = s.state.Signals[:2] }, 12, ReasonPartialSignal, ReasonForecast},
		{"silent pods do not shrink", 12, calm, counted(10, 2, 0), 12, ReasonUnreadyPods, ReasonForecast},
		{"a collapse is not believed at once", 10, with(func(o *quantile.Outlook) { o.Demand, o.Want, o.Need = 0.5, 1, 1 }), nil, 7, ReasonCollapse, ReasonForecast},
		{"nobody scales a frozen cluster", 12, calm, func(s *scene) { s.frozen = true }, 12, ReasonFrozen, ReasonForecast},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := sloScene(tc.from, tc.outlook)
			if tc.change != nil {
				tc.change(&s)
			}
			d, _ := s.decide(t)
			if d.Target != tc.target || d.Binding != tc.binding {
				t.Errorf("%d by %s; want %d by %s\n%+v", d.Target, d.Binding, tc.target, tc.binding, d.Reasons)
			}
			if _, ok := reason(d, tc.has); !ok {
				t.Errorf("there is no reason %s", tc.has)
			}
		})
	}
}

func TestACollapseIsGivenBackSlowly(t *testing.T) {
	t.Parallel()
	low := quantile.Outlook{Hours: 30, Demand: 0.5, Median: 4, Level: 0.5, Upper: 1, Need: 1, Want: 1}
	s := sloScene(10, low)
	counts := []int{}
	for minute := 0; minute <= 75; minute += 5 {
		d, m := s.decide(t)
		counts = append(counts, d.Target)
		next := sloScene(d.Target, low)
		next.now, next.memory = s.now.Add(5*time.Minute), m
		next.forecast.At = next.now
		for i := range next.state.Signals {
			for j := range next.state.Signals[i].Samples {
				next.state.Signals[i].Samples[j].At = next.now
			}
		}
		s = next
	}
	// 0.7 of ten for half an hour, then 5.25, 3.9, 3, 2.2, 1.7 every ten minutes, rounded up.
	want := []int{7, 7, 7, 7, 7, 7, 6, 6, 4, 4, 3, 3, 3, 3, 2, 2}
	if d := cmp.Diff(want, counts); d != "" {
		t.Error(d)
	}
	back := sloScene(7, quantile.Outlook{Hours: 30, Demand: 3, Median: 2, Need: 5, Want: 5})
	back.memory.Collapse = &Collapse{At: noon.Add(-time.Minute), Replicas: 10, Median: 4}
	if d, m := back.decide(t); d.Target != 5 || m.Collapse != nil {
		t.Errorf("the demand came back: %d replicas, %v; want 5 and nothing to give back", d.Target, m.Collapse)
	}
}

// Whatever a forecast says, nothing goes down in the dark, bounds hold, and the stored input gives the same decision.
func TestNoForecastLeadsAstray(t *testing.T) {
	t.Parallel()
	count := func(t *rapid.T, name string) int { return rapid.IntRange(-3, 200_000).Draw(t, name) }
	rapid.Check(t, func(rt *rapid.T) {
		number := rapid.Float64()
		o := quantile.Outlook{Hours: number.Draw(rt, "hours"), Demand: number.Draw(rt, "demand"), Median: number.Draw(rt, "median"), Level: number.Draw(rt, "level"),
			Upper: number.Draw(rt, "upper"), Backlog: number.Draw(rt, "backlog"), Need: count(rt, "need"), Want: count(rt, "want"), CatchUp: count(rt, "catch")}
		s := sloScene(rapid.IntRange(0, 25).Draw(rt, "from"), o)
		age := rapid.IntRange(-200, 200).Draw(rt, "age")
		s.forecast.At = s.now.Add(-seconds(age))
		lost := rapid.IntRange(0, 3).Draw(rt, "signals lost")
		s.state.Signals = s.state.Signals[:3-lost]
		in := s.input()
		plan, err := Decide(in)
		if err != nil {
			rt.Fatal(err)
		}
		for _, v := range Check(plan, in) {
			rt.Errorf("%s: %s", v.Code, v.Message)
		}
		d := plan.Decisions[0]
		if d.Target < d.From && d.Target != 20 && (lost > 0 || age > 45 || age < -45) {
			rt.Errorf("%d to %d with %d signals lost and a forecast %d s old", d.From, d.Target, lost, age)
		}
		kept, err := json.Marshal(in)
		if err != nil {
			rt.Fatal(err)
		}
		var again Input
		if err := json.Unmarshal(kept, &again); err != nil {
			rt.Fatal(err)
		}
		second, err := Decide(again)
		if err != nil {
			rt.Fatal(err)
		}
		a, _ := json.Marshal(plan.Decisions)
		b, _ := json.Marshal(second.Decisions)
		if string(a) != string(b) {
			rt.Errorf("decided again it is\n%s\nnot\n%s", b, a)
		}
	})
}

// live is a workload that is sampled every five seconds and decided upon every fifteen.
type live struct {
	signals [3]fleet.Signal
	state   fleet.WorkloadState
}

func newLive() *live {
	l := &live{state: fleet.WorkloadState{Workload: fleet.Workload{ID: chatID, Key: chatKey, Kind: "Deployment"}}}
	for i, n := range []fleet.SignalName{fleet.SignalRunning, fleet.SignalQueueLength, fleet.SignalRequestRate} {
		l.signals[i].Name = n
	}
	return l
}

func (l *live) sample(at time.Time, running, waiting, rate float64, pods int) {
	for i, v := range []float64{running, waiting, rate} {
		s := &l.signals[i]
		s.Samples = append(s.Samples, fleet.Sample{At: at, Value: v, PodsReported: pods})
		for len(s.Samples) > 0 && at.Sub(s.Samples[0].At) > 15*time.Minute {
			s.Samples = s.Samples[1:]
		}
	}
	l.state.Signals = l.signals[:]
}

func TestLearningFromSamples(t *testing.T) {
	t.Parallel()
	rule := (&SLO{RequestsPerReplica: 8}).withDefaults()
	tests := []struct {
		name   string
		skip   func(i int) bool // samples lost
		demand float64
		fresh  bool
	}{
		{"every sample is there", func(int) bool { return false }, 2, true},
		{"a sample in a minute is enough", func(i int) bool { return i%8 != 0 }, 2, true},
		{"half an hour is missing", func(i int) bool { return i > 400 && i < 760 }, 2, true},
		{"silent at the end", func(i int) bool { return i > 900 }, 2, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, w := NewLearner(nil, BeganNew, rule, "", 0), newLive()
			var f *Forecast
			now := noon
			for i := range 1000 {
				now = noon.Add(seconds(5 * i))
				if !tc.skip(i) {
					w.sample(now, 16, 0, 4, 3)
				}
				if i%3 == 0 {
					f = l.Learn(&w.state, rule, 45*time.Second, now)
				}
			}
			if f == nil || f.Outlook.Demand != tc.demand {
				t.Fatalf("forecast %+v; want a demand of %v", f, tc.demand)
			}
			if got := f.usable(now, 45*time.Second); got != tc.fresh {
				t.Errorf("usable is %v, its age %v", got, now.Sub(f.At))
			}
		})
	}
}

// Who keeps every five minutes, loses everything in between and learns it again from the snapshot, decides the same.
func TestWhatWasNotKeptIsLearnedAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rule := (&SLO{RequestsPerReplica: 8}).withDefaults()
		steady, w := NewLearner(nil, BeganNew, rule, "", 0), newLive()
		var kept []byte
		for i := range rapid.IntRange(60, 160).Draw(rt, "rounds") {
			now := noon.Add(seconds(15 * i))
			w.sample(now, float64(20+i%13), float64(i%29/25*30), 5, 4)
			a := steady.Learn(&w.state, rule, 45*time.Second, now)
			forgetful := NewLearner(kept, BeganNew, rule, "", 0)
			b := forgetful.Learn(&w.state, rule, 45*time.Second, now)
			if d := cmp.Diff(a, b); d != "" {
				rt.Fatalf("round %d: %s", i, d)
			}
			if forgetful.Due() {
				kept = forgetful.Policy.Encode()
			}
		}
	})
}

func TestALearnerNeverFails(t *testing.T) {
	t.Parallel()
	rule := (&SLO{RequestsPerReplica: 8}).withDefaults()
	good := quantile.New(rule.params("", 180))
	good.Begin(noon.Unix()/15 - 500)
	for range 100 {
		good.Step(quantile.Gauges{Busy: 2, Rate: 3})
	}
	ahead := quantile.New(rule.params("", 180))
	ahead.Begin(noon.Unix()/15 + 1000)
	ahead.Step(quantile.Gauges{Busy: 2, Rate: 3})
	tests := []struct {
		name            string
		kept            []byte
		start, measured int
		lead            int // seconds looked ahead
		began           Beginning
	}{
		{"nothing was kept", nil, 180, 0, 195, BeganNew},
		{"it was kept well", good.Encode(), 180, 0, 195, BeganNew},
		{"it is damaged", append(good.Encode(), 7), 180, 0, 195, BeganDamaged},
		{"the start-up time changed", good.Encode(), 400, 0, 420, BeganShape},
		{"the clock went back", ahead.Encode(), 180, 0, 195, BeganClock},
		{"nothing was kept, and starts are known", nil, 0, 240, 255, BeganNew},
		{"nothing is known at all", nil, 0, 0, 195, BeganNew},
		{"starts are about as they were", good.Encode(), 0, 240, 195, BeganNew},
		{"no start was seen lately", good.Encode(), 0, 0, 195, BeganNew},
		{"starts take twice as long now", good.Encode(), 0, 360, 375, BeganShape},
		{"the policy knows better than the measurement", good.Encode(), 180, 900, 195, BeganNew},
		{"starts take longer than is looked ahead", nil, 0, 90_000, 3615, BeganNew},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rule := *rule
			rule.StartSeconds = tc.start
			l, w := NewLearner(tc.kept, BeganNew, &rule, "", tc.measured), newLive()
			w.sample(noon.Add(-20*time.Second), 16, 0, 4, 3)
			f := l.Learn(&w.state, &rule, 45*time.Second, noon)
			if f == nil || !f.At.Equal(noon) || f.Began != tc.began || f.Outlook.LeadSlots*quantile.SlotSeconds != tc.lead {
				t.Errorf("forecast %+v; want a fresh one that began %s and looks %d s ahead", f, tc.began, tc.lead)
			}
		})
	}
}
