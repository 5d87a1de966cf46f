package replay

import (
	"reflect"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// start is a Monday.
var start = time.Date(2026, 7, 6, 0, 0, 0, 0, time.UTC)

// demoLoop makes the demo cluster with its policies bound.
func demoLoop(tb testing.TB, seed uint64, chat Source) *Loop {
	tb.Helper()
	demo := Demo(seed, start, chat)
	l := &Loop{Tenant: "t", Cluster: "c", Mode: fleet.ModeEnforce, Policies: map[fleet.WorkloadID]optimizer.Binding{}}
	for i := range demo.Config.Workloads {
		w := &demo.Config.Workloads[i]
		w.ID = fleet.WorkloadID(w.Key)
		p, findings := optimizer.ParsePolicy([]byte(demo.Policies[w.Key]))
		for _, f := range findings {
			tb.Errorf("policy of %s: %s: %s", w.Key, f.Field, f.Message)
		}
		l.Policies[w.ID] = optimizer.Binding{Version: 1, Policy: p}
	}
	w, err := NewWorld(demo.Config)
	if err != nil {
		tb.Fatal(err)
	}
	l.World = w
	return l
}

// run lets the loop decide every 30 s for a while and counts the decisions that were news, by outcome.
func (l *Loop) run(tb testing.TB, d time.Duration, each func(Made)) map[optimizer.Outcome]int {
	tb.Helper()
	news := map[optimizer.Outcome]int{}
	for end := l.World.Now().Add(d); l.World.Now().Before(end); {
		if err := l.World.AdvanceTo(l.World.Now().Add(30 * time.Second)); err != nil {
			tb.Fatal(err)
		}
		made, err := l.Decide()
		if err != nil {
			tb.Fatal(err)
		}
		for _, n := range made.News {
			news[n.Outcome]++
		}
		if each != nil {
			each(made)
		}
	}
	return news
}

// TestDemoIsAHealthyCluster plays the fourteen days that a first start shows, and holds what a platform engineer would expect to see:
// objectives met, machines neither idle nor overrun, workloads that move but do not flap, bad luck now and then. It also holds the
// budget: the whole of it under eight CPU-seconds.
func TestDemoIsAHealthyCluster(t *testing.T) { //nolint:paralleltest // it measures the process's CPU time
	l := demoLoop(t, 7, nil)
	began := cpuSeconds()
	news := map[string]map[optimizer.ReasonCode]int{}
	total := l.run(t, 14*24*time.Hour, func(m Made) {
		for _, d := range m.News {
			if news[d.Key] == nil {
				news[d.Key] = map[optimizer.ReasonCode]int{}
			}
			news[d.Key][d.Binding]++
		}
	})
	took := cpuSeconds() - began
	if took > 8 && !raceEnabled && testing.CoverMode() == "" {
		t.Errorf("fourteen days took %.1f CPU-seconds, the budget is 8", took)
	}
	checkBooks(t, l.World)
	rows, spent := l.World.Score()
	byKey := map[string]WorkloadScore{}
	for _, r := range rows {
		byKey[r.Key] = r
		t.Logf("%-30s ready %5.2f  work %.2f  SM %.2f  late %.3f%%  timeouts %.3f%%  up/down %d/%d  thrash %.2f/h  start %3.0f s", r.Key, r.MeanReady,
			r.MeanWork, r.MeanSM, 100*r.LateRatio, 100*r.TimeoutRatio, r.Ups, r.Downs, r.CyclesPerHour, r.StartUpSeconds)
	}
	t.Logf("CPU %.1f s, news %v, spent %+v", took, total, spent)

	chat, image, api, eval := byKey["chat/Deployment/chat-llm"], byKey["media/Deployment/image-gen"], byKey["platform/Deployment/public-api"], byKey["platform/Deployment/eval-worker"]
	within := func(what string, v, low, high float64) {
		if !(v >= low && v <= high) {
			t.Errorf("%s is %.4f, expected %.4f to %.4f", what, v, low, high)
		}
	}
	within("late share of the gold chat model", chat.LateRatio, 0, 0.005)
	within("timeouts of the gold chat model", chat.TimeoutRatio, 0, 0.0005)
	within("late share of the image model", image.LateRatio, 0.0001, 0.03)
	within("replicas of the image model", image.MeanReady, 4, 5.5)
	within("replicas of the chat model", chat.MeanReady, 5, 6.2)
	within("late share of the API", api.LateRatio, 0, 0.001)
	within("SM active of the chat model", chat.MeanSM, 0.5, 0.75)
	within("SM active of the image model", image.MeanSM, 0.35, 0.75)
	within("thrash of the chat model", chat.CyclesPerHour, 0, 0.5)
	within("thrash of the image model", image.CyclesPerHour, 0, 0.8)
	within("thrash of the API", api.CyclesPerHour, 0, 0.3)
	within("scale-ups of the chat model per day", float64(chat.Ups)/14, 5, 30)
	within("replicas of the batch worker", eval.MeanReady, 1, 3)
	within("cold start of a chat replica", chat.StartUpSeconds, 120, 400)
	within("interruptions per day", float64(spent.Notices)/14, 0.5, 10)
	within("share of the GPUs that a pod holds", spent.GPUHeldHours/spent.GPUHours, 0.8, 1)
	within("failed launches", float64(spent.FailedLaunches), 1, 200)
	for _, key := range []string{"media/Deployment/embedder", "platform/StatefulSet/finetune"} {
		if r := byKey[key]; r.Ups+r.Downs > 0 {
			t.Errorf("%s was scaled although nobody approved it", key)
		}
		if total := news[key]; len(total) == 0 {
			t.Errorf("nothing is proposed for %s", key)
		}
	}
	for key, reason := range map[string]optimizer.ReasonCode{
		"media/Deployment/image-gen": optimizer.ReasonMax, "chat/Deployment/chat-llm": optimizer.ReasonMin, "platform/Deployment/eval-worker": optimizer.ReasonCooldownDown,
	} {
		if news[key][reason] == 0 {
			t.Errorf("%s is never bound by %s", key, reason)
		}
	}
}

func TestNothingIsScaledWithoutTheClusterAllowingIt(t *testing.T) {
	t.Parallel()
	l := demoLoop(t, 7, nil)
	l.Mode = fleet.ModeRecommend
	_, before := l.World.Workloads()
	l.run(t, 24*time.Hour, nil)
	_, after := l.World.Workloads()
	for i := range before {
		if before[i] != after[i] {
			t.Errorf("workload %d went from %d to %d replicas in recommend mode", i, before[i], after[i])
		}
	}
}

func TestEveryStoredDecisionComputesAgain(t *testing.T) {
	t.Parallel()
	l := demoLoop(t, 7, nil)
	l.run(t, 3*time.Hour, func(m Made) {
		again, err := optimizer.Decide(m.Input)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again, m.Plan) {
			t.Fatalf("the plan of %v computes to another one", m.Plan.At)
		}
	})
}

func BenchmarkDemoDay(b *testing.B) {
	began := cpuSeconds()
	for b.Loop() {
		l := demoLoop(b, 7, nil)
		l.run(b, 24*time.Hour, nil)
	}
	b.ReportMetric(float64(b.N)/(cpuSeconds()-began), "days/CPU-s")
}

func BenchmarkWorldDay(b *testing.B) {
	began := cpuSeconds()
	for b.Loop() {
		w := newWorld(b, Demo(7, start, nil).Config)
		advance(b, w, 24*time.Hour)
	}
	b.ReportMetric(float64(b.N)/(cpuSeconds()-began), "days/CPU-s")
}
