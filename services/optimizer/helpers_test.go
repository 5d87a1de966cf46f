package optimizer

import (
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

const (
	chatID  = fleet.WorkloadID("00000000-0000-4000-8000-000000000001")
	chatKey = "shop/Deployment/chat"
)

// scene is one workload at a moment, built up by options.
type scene struct {
	now     time.Time
	mode    fleet.Mode
	frozen  bool
	state   fleet.WorkloadState
	policy  Policy
	memory  Memory
	version int
	// forecast for an SLO rule; nil: there is none
	forecast *Forecast
	hints    []Hint
}

type option func(*scene)

// newScene is a workload of replicas ready replicas under a CPU policy of 1 to 20 with target 0.5 and no damping, in enforce.
func newScene(replicas int, opts ...option) scene {
	s := scene{
		now: noon, mode: fleet.ModeEnforce, version: 3,
		state: fleet.WorkloadState{
			Workload: fleet.Workload{ID: chatID, Key: chatKey, Namespace: "shop", Kind: "Deployment", Name: "chat"},
			Replicas: replicas, Ready: replicas,
		},
		policy: undamped(Policy{Max: 20, TargetRatio: []TargetRatio{{Signal: fleet.SignalCPURatio, Type: RatioUtilization, Target: 0.5}}}),
		memory: Memory{LastAt: at(-15), LastFrom: replicas, LastTarget: replicas, LastOutcome: OutcomeHold},
	}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// undamped switches off everything that holds a need back.
func undamped(p Policy) Policy {
	p.Mode = fleet.ModeEnforce
	all := []Step{{Type: StepPercent, Value: 10000, PeriodSeconds: 15}, {Type: StepPods, Value: 1000, PeriodSeconds: 15}}
	p.Up = Damping{CooldownSeconds: -1, StabilisationSeconds: -1, Steps: all}
	p.Down = Damping{CooldownSeconds: -1, StabilisationSeconds: -1, Steps: []Step{{Type: StepPercent, Value: 100, PeriodSeconds: 15}}}
	p.Filter = Filter{WindowSeconds: -1, OutlierMAD: -1}
	p.Flap = Flap{CyclesPerHour: -1}
	return p
}

// at is a time, in seconds after noon.
func at(secondsAfter int) *time.Time {
	t := noon.Add(seconds(secondsAfter))
	return &t
}

// gauge is a signal with the given values every 15 s, the last one age seconds before now.
func gauge(name fleet.SignalName, age int, values ...float64) option {
	return func(s *scene) {
		sig := fleet.Signal{Name: name}
		for i, v := range values {
			sig.Samples = append(sig.Samples, fleet.Sample{At: s.now.Add(-seconds(age + 15*(len(values)-1-i))), Value: v, PodsReported: s.state.Ready})
		}
		s.state.Signals = append(s.state.Signals, sig)
	}
}

// cpu is a fresh CPU use.
func cpu(values ...float64) option { return gauge(fleet.SignalCPURatio, 5, values...) }

// counted sets the pods behind the newest sample of every signal.
func counted(reported, missing, unready int) option {
	return func(s *scene) {
		for i := range s.state.Signals {
			last := &s.state.Signals[i].Samples[len(s.state.Signals[i].Samples)-1]
			last.PodsReported, last.PodsMissing, last.PodsUnready = reported, missing, unready
		}
	}
}

func conflicting(s *scene) { s.state.Signals[len(s.state.Signals)-1].Conflicting = true }

func withPolicy(change func(*Policy)) option { return func(s *scene) { change(&s.policy) } }

func withMemory(change func(*Memory)) option { return func(s *scene) { change(&s.memory) } }

func withWriter(manager string, ago int) option {
	return func(s *scene) {
		s.state.Writers = append(s.state.Writers, fleet.Writer{Manager: manager, Field: "spec.replicas", At: s.now.Add(-seconds(ago))})
	}
}

func (s scene) input() Input {
	var forecasts map[fleet.WorkloadID]Forecast
	if s.forecast != nil {
		forecasts = map[fleet.WorkloadID]Forecast{chatID: *s.forecast}
	}
	return Input{
		Forecasts: forecasts,
		Snapshot: fleet.Snapshot{
			Tenant: "t", Cluster: "c", Now: s.now, Mode: s.mode, Frozen: s.frozen, Generation: 41, Parent: "p",
			Workloads: []fleet.WorkloadState{s.state}, LastSeen: s.now,
		},
		Policies: map[fleet.WorkloadID]Binding{chatID: {Version: s.version, Policy: s.policy, Hints: s.hints}},
		Memory:   map[fleet.WorkloadID]Memory{chatID: s.memory},
	}
}

// decide decides the scene, checks the plan, and returns the decision with the memory that follows.
func (s scene) decide(t testing.TB) (Decision, Memory) {
	t.Helper()
	in := s.input()
	plan, err := Decide(in)
	if err != nil {
		t.Fatalf("Decide: %v", err)
	}
	for _, v := range Check(plan, in) {
		t.Errorf("Check: %s: %s", v.Code, v.Message)
	}
	if len(plan.Decisions) != 1 {
		t.Fatalf("%d decisions, want 1", len(plan.Decisions))
	}
	return plan.Decisions[0], plan.Memory[chatID]
}

// tick moves to the next moment: time passes, the count is what was decided (or stays), the memory is kept.
func (s *scene) tick(after int, replicas int, m Memory) {
	s.now = s.now.Add(seconds(after))
	s.state.Replicas, s.state.Ready, s.memory = replicas, replicas, m
	s.state.Signals = nil
}

// reason returns the first reason with the code.
func reason(d Decision, code ReasonCode) (Reason, bool) {
	for _, r := range d.Reasons {
		if r.Code == code {
			return r, true
		}
	}
	return Reason{}, false
}
