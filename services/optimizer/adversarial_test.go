package optimizer

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

// llm is a policy with every part switched on.
func llm() Policy {
	p, _ := ParsePolicy([]byte(presetLLMQueue))
	p.Mode = fleet.ModeEnforce
	p.TargetRatio = []TargetRatio{
		{Signal: fleet.SignalGPUSM, Type: RatioUtilization, Target: 0.6},
		{Signal: fleet.SignalRequestRate, Type: RatioAverageValue, Target: 5},
		{Signal: "gateway_load", Type: RatioValue, Target: 3},
	}
	return p.WithDefaults()
}

// allSignals are those that llm looks at.
var allSignals = []fleet.SignalName{fleet.SignalGPUSM, fleet.SignalRequestRate, "gateway_load", fleet.SignalQueueLength,
	fleet.SignalRunning, fleet.SignalQueueAge, fleet.SignalTTFTP99}

func TestNoInputMakesADecisionThatHarms(t *testing.T) {
	t.Parallel()
	every := func(values ...float64) option {
		return func(s *scene) {
			for _, n := range allSignals {
				gauge(n, 5, values...)(s)
			}
		}
	}
	shifted := func(by time.Duration) option {
		return func(s *scene) {
			every(0, 0, 0)(s)
			for i := range s.state.Signals {
				for j := range s.state.Signals[i].Samples {
					s.state.Signals[i].Samples[j].At = s.now.Add(by)
				}
			}
		}
	}
	many := make([]float64, 20_000)
	for i := range many {
		many[i] = float64(i % 7)
	}
	for _, c := range []struct {
		name    string
		options []option
		hold    bool // nothing may change
	}{
		{"nothing at all", nil, true},
		{"not a number", []option{every(math.NaN())}, true},
		{"infinity", []option{every(math.Inf(1))}, true},
		{"minus infinity", []option{every(math.Inf(-1))}, true},
		{"negative", []option{every(-5)}, true},
		{"the largest float", []option{every(math.MaxFloat64)}, true},
		{"good samples, then not a number", []option{every(0, 0, 0, math.NaN())}, true},
		{"from the year one", []option{shifted(-time.Duration(math.MaxInt64))}, true},
		{"from the far future", []option{shifted(time.Duration(math.MaxInt64))}, true},
		{"an hour ahead", []option{shifted(time.Hour)}, true},
		{"zero everywhere", []option{every(0, 0, 0, 0, 0, 0, 0, 0)}, false},
		{"a lone spike to the largest value allowed", []option{every(1, 1, 1, 1, 1, 1, maxValue)}, false},
		{"the smallest float", []option{every(math.SmallestNonzeroFloat64)}, false},
		{"twenty thousand samples", []option{every(many...)}, false},
		{"samples of one moment", []option{shifted(0)}, false},
		{"absurd pod counts", []option{every(1), counted(math.MaxInt64, math.MaxInt64, math.MaxInt64)}, true},
		{"negative pod counts", []option{every(1), counted(-3, -3, -3)}, true},
		{"more ready than asked for", []option{every(1), func(s *scene) { s.state.Ready, s.state.Draining = 500, 500 }}, false},
		{"no replica is ready", []option{every(1), func(s *scene) { s.state.Ready, s.state.Starting = 0, 8 }}, false},
		{"negative replicas", []option{every(1), func(s *scene) { s.state.Replicas = -4 }}, true},
		{"replicas beyond any count", []option{every(1), func(s *scene) { s.state.Replicas = math.MaxInt32 }}, false},
		{"memory from the future", []option{every(0, 0, 0, 0, 0), withMemory(func(m *Memory) {
			m.LastUp, m.LastDown, m.QuietSince, m.LastAt = at(1e6), at(1e6), at(1e6), at(1e6)
			m.Recommendations = []Recommendation{{*at(1e6), 12}}
			m.Changes = []Change{{*at(1e6), 1, 8}}
		})}, true},
		{"memory of nonsense", []option{every(0, 0, 0), withMemory(func(m *Memory) {
			m.LastAt, m.LastFrom, m.LastTarget = &time.Time{}, -7, math.MaxInt64
			m.Recommendations = []Recommendation{{time.Time{}, math.MaxInt64}, {*at(-1), math.MinInt64}}
			m.Changes = []Change{{*at(-1), math.MinInt32, math.MaxInt32}}
		})}, false},
		{"a signal twice", []option{every(1), every(900)}, false},
		{"a hundred writers", []option{every(1), func(s *scene) {
			for range 100 {
				s.state.Writers = append(s.state.Writers, fleet.Writer{Manager: "x", At: s.now.Add(time.Hour)})
			}
		}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(8, append([]option{withPolicy(func(p *Policy) { *p = llm() })}, c.options...)...)
			d, m := s.decide(t)
			if c.hold && d.Outcome != OutcomeHold {
				t.Errorf("%s to %d by %s, want hold", d.Outcome, d.Target, d.Binding)
			}
			if d.Target != d.From && (d.Target < s.policy.Min || d.Target > s.policy.Max) {
				t.Errorf("target %d outside %d to %d", d.Target, s.policy.Min, s.policy.Max)
			}
			if _, err := json.Marshal(d); err != nil {
				t.Errorf("decision cannot be written: %v", err)
			}
			if _, err := json.Marshal(m); err != nil {
				t.Errorf("memory cannot be written: %v", err)
			}
		})
	}
}

func TestPoliciesThatCannotBeComputedWithHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Policy)
	}{
		{"max below min", func(p *Policy) { p.Min, p.Max = 5, 2 }},
		{"no max", func(p *Policy) { p.Max = 0 }},
		{"absurd max", func(p *Policy) { p.Max = math.MaxInt }},
		{"negative min", func(p *Policy) { p.Min = -1 }},
		{"unknown mode", func(p *Policy) { p.Mode = "maybe" }},
		{"target not a number", func(p *Policy) { p.TargetRatio[0].Target = math.NaN() }},
		{"target infinite", func(p *Policy) { p.TargetRatio[0].Target = math.Inf(1) }},
		{"tolerance not a number", func(p *Policy) { p.TargetRatio[0].Tolerance = math.NaN() }},
		{"unknown type", func(p *Policy) { p.TargetRatio[0].Type = "median" }},
		{"queue target zero", func(p *Policy) { p.Queue.TargetPerReplica = 0 }},
		{"latency target negative", func(p *Policy) { p.Latency.TargetSeconds = -1 }},
		{"latency thresholds crossed", func(p *Policy) { p.Latency.Low = 2 }},
		{"step of unknown type", func(p *Policy) { p.Up.Steps = []Step{{"percentage", 5, 60}} }},
		{"step without a period", func(p *Policy) { p.Down.Steps = []Step{{StepPods, 5, 0}} }},
		{"unknown select", func(p *Policy) { p.Down.Select = "average" }},
		{"seventeen rules", func(p *Policy) { p.TargetRatio = make([]TargetRatio, 17) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := llm()
			c.change(&p)
			if !HasErrors(p.Validate()) {
				t.Error("Validate lets it through")
			}
			in := newScene(8, withPolicy(func(q *Policy) { *q = p })).input()
			plan, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if d := plan.Decisions[0]; d.Target != 8 || d.Binding != ReasonInvalidPolicy {
				t.Errorf("target %d by %s, want 8 by invalid_policy", d.Target, d.Binding)
			}
		})
	}
}

// A clock that jumps back must not hold a workload for as long as it jumped.
func TestAClockThatJumpsBackIsForgivenWithinAWindow(t *testing.T) {
	t.Parallel()
	s := newScene(8, cpu(0.1), withPolicy(func(p *Policy) { p.Down.StabilisationSeconds, p.Down.CooldownSeconds = 300, 300 }), withMemory(func(m *Memory) {
		m.Recommendations = []Recommendation{{*at(7200), 8}}
		m.LastDown = at(7200)
	}))
	d, m := s.decide(t)
	if d.Target != 8 {
		t.Fatalf("target %d, want 8 held", d.Target)
	}
	for range 20 {
		s.tick(15, 8, m)
		cpu(0.1)(&s)
		d, m = s.decide(t)
	}
	if d.Target != 2 {
		t.Errorf("300 s later: target %d by %s, want 2", d.Target, d.Binding)
	}
}
