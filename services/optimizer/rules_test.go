package optimizer

import (
	"testing"

	"plimsoll.dev/services/fleet"
)

func TestQueueRule(t *testing.T) {
	t.Parallel()
	rule := func(q QueueRule) option {
		return withPolicy(func(p *Policy) { p.TargetRatio, p.Queue = nil, &q })
	}
	running := func(v float64) option { return gauge(fleet.SignalRunning, 5, v) }
	oldest := func(age int, v float64) option { return gauge(fleet.SignalQueueAge, age, v) }
	for _, c := range []struct {
		name    string
		scene   scene
		target  int
		binding ReasonCode
	}{
		{"waiting work over what a replica holds, rounded up", newScene(4, rule(QueueRule{TargetPerReplica: 8}), queue(5, 41)), 6, ReasonQueue},
		{"running work counts when asked for", newScene(4, rule(QueueRule{TargetPerReplica: 8, IncludeRunning: true}), queue(5, 1), running(48)), 7, ReasonQueue},
		{"running work does not count otherwise", newScene(4, rule(QueueRule{TargetPerReplica: 8}), queue(5, 1), running(48)), 1, ReasonQueue},
		{"running work that is not seen forbids going down", newScene(4, rule(QueueRule{TargetPerReplica: 8, IncludeRunning: true}), queue(5, 1)), 4, ReasonPartialSignal},
		{"running work that is not seen does not forbid going up", newScene(4, rule(QueueRule{TargetPerReplica: 8, IncludeRunning: true}), queue(5, 41)), 6, ReasonQueue},
		{"a request that waits too long asks for one more", newScene(4, rule(QueueRule{TargetPerReplica: 8, MaxAgeSeconds: 10}), queue(5, 9), oldest(5, 11)), 5, ReasonQueue},
		{"one that waits within the limit asks for nothing", newScene(4, rule(QueueRule{TargetPerReplica: 8, MaxAgeSeconds: 10}), queue(5, 25), oldest(5, 10)), 4, ReasonSteady},
		{"an age that is not seen forbids going down", newScene(4, rule(QueueRule{TargetPerReplica: 8, MaxAgeSeconds: 10}), queue(5, 9)), 4, ReasonPartialSignal},
		{"a pod that gave no value counts as full", newScene(4, rule(QueueRule{TargetPerReplica: 8}), queue(5, 16), counted(3, 1, 0)), 3, ReasonQueue},
		{"pods that gave no value cannot scale up", newScene(4, rule(QueueRule{TargetPerReplica: 8}), queue(5, 24), counted(1, 3, 0)), 4, ReasonSteady},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, _ := c.scene.decide(t)
			if d.Target != c.target || d.Binding != c.binding {
				t.Errorf("target %d by %s, want %d by %s\n%+v", d.Target, d.Binding, c.target, c.binding, d.Reasons)
			}
		})
	}
}

func TestLatencyRule(t *testing.T) {
	t.Parallel()
	rule := withPolicy(func(p *Policy) { p.TargetRatio, p.Latency = nil, &LatencyRule{TargetSeconds: 2} })
	p99 := func(v float64) option { return gauge(fleet.SignalLatencyP99, 5, v) }
	// Eight samples: four in the last window, four in the one before.
	rate := func(before, after float64) option {
		return gauge(fleet.SignalRequestRate, 5, before, before, before, before, after, after, after, after)
	}
	starting := func(s *scene) { s.state.Starting = 1 }
	for _, c := range []struct {
		name    string
		scene   scene
		target  int
		binding ReasonCode
	}{
		{"slow and rising takes a step up", newScene(8, rule, p99(2.5), rate(100, 110)), 10, ReasonLatencyHigh},
		{"a step is at least one replica", newScene(2, rule, p99(2.5), rate(100, 110)), 3, ReasonLatencyHigh},
		{"slow and steady without a queue has another cause", newScene(8, rule, p99(2.5), rate(100, 101)), 8, ReasonSteady},
		{"slow and steady with a queue is saturation", newScene(8, rule, p99(2.5), rate(100, 101), queue(5, 4)), 10, ReasonLatencyHigh},
		{"slow with a queue although the rate is not seen", newScene(8, rule, p99(2.5), queue(5, 4)), 10, ReasonLatencyHigh},
		{"slow while the last step still starts waits for it", newScene(8, rule, p99(2.5), rate(100, 110), starting), 8, ReasonSteady},
		{"on the threshold nothing happens", newScene(8, rule, p99(2.4), rate(100, 110)), 8, ReasonSteady},
		{"between the thresholds nothing happens", newScene(8, rule, p99(1.5), rate(100, 80)), 8, ReasonSteady},
		{"fast and steady takes a step down", newScene(8, rule, p99(0.9), rate(100, 103)), 6, ReasonLatencyLow},
		{"fast while the rate falls waits", newScene(8, rule, p99(0.9), rate(100, 60)), 8, ReasonSteady},
		{"fast while the rate is not seen waits", newScene(8, rule, p99(0.9)), 8, ReasonSteady},
		{"an idle workload is fast and steady", newScene(8, rule, p99(0), rate(0, 0)), 6, ReasonLatencyLow},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, _ := c.scene.decide(t)
			if d.Target != c.target || d.Binding != c.binding {
				t.Errorf("target %d by %s, want %d by %s\n%+v", d.Target, d.Binding, c.target, c.binding, d.Reasons)
			}
		})
	}
}

func TestNewsIsWhatDiffersOrRunsOut(t *testing.T) {
	t.Parallel()
	s := newScene(4, cpu(0.9), withMemory(func(m *Memory) { *m = Memory{} }))
	d, m := s.decide(t)
	if !News(Memory{}, d) {
		t.Error("the first decision is news")
	}
	again := func(after, replicas int, use float64) (Decision, Memory, bool) {
		prev := m
		s.tick(after, replicas, prev)
		cpu(use)(&s)
		d, next := s.decide(t)
		return d, next, News(prev, d)
	}
	var news bool
	if _, m, news = again(15, 4, 0.9); news {
		t.Error("the same action again is no news")
	}
	if _, m, news = again(90, 4, 0.9); news {
		t.Error("the action has not run out yet")
	}
	if _, m, news = again(15, 4, 0.9); !news {
		t.Error("an action still wanted after 120 s is news: what was sent has run out")
	}
	if _, m, news = again(15, 4, 0.9); news {
		t.Error("it has just been sent again")
	}
	if d, m, news = again(15, 4, 0.95); d.Target == m.LastTarget && news {
		t.Error("a like target is no news")
	}
	if d, m, news = again(15, 8, 0.5); !news || d.Outcome != OutcomeHold {
		t.Errorf("%s: a hold after an action is news", d.Outcome)
	}
	if _, m, news = again(15, 8, 0.49); news {
		t.Error("a hold for the same reason is no news")
	}
	if _, m, news = again(1500, 8, 0.5); news {
		t.Error("a hold never runs out")
	}
	if d, _, news = again(15, 8, 0.1); !news {
		t.Errorf("%s to %d: another target is news", d.Outcome, d.Target)
	}
}

func TestGoingBackAndForthBetweenToleranceAndSteadyIsNoNews(t *testing.T) {
	t.Parallel()
	m := Memory{LastAt: at(-15), LastOutcome: OutcomeHold, LastBinding: ReasonWithinTolerance, LastTarget: 2, LastFrom: 2, LastPolicy: 3, LastMode: fleet.ModeEnforce}
	s := newScene(2, cpu(0.4), withMemory(func(x *Memory) { *x = m }))
	d, _ := s.decide(t)
	if d.Binding != ReasonSteady || News(m, d) {
		t.Errorf("by %s, news %v, want steady and none", d.Binding, News(m, d))
	}
}
