package optimizer

import (
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

func recs(pairs ...int) func(*Memory) {
	return func(m *Memory) {
		for i := 0; i < len(pairs); i += 2 {
			m.Recommendations = append(m.Recommendations, Recommendation{At: *at(pairs[i]), Needed: pairs[i+1]})
		}
	}
}

func TestDampingHoldsBackAndSaysUntilWhen(t *testing.T) {
	t.Parallel()
	up := func(d Damping) option {
		return withPolicy(func(p *Policy) {
			if d.Steps == nil {
				d.Steps = p.Up.Steps
			}
			p.Up = d
		})
	}
	down := func(d Damping) option {
		return withPolicy(func(p *Policy) {
			if d.Steps == nil {
				d.Steps = p.Down.Steps
			}
			p.Down = d
		})
	}
	lastUp := func(ago int) option { return withMemory(func(m *Memory) { m.LastUp = at(-ago) }) }
	lastDown := func(ago int) option { return withMemory(func(m *Memory) { m.LastDown = at(-ago) }) }
	for _, c := range []struct {
		name    string
		scene   scene
		target  int
		binding ReasonCode
		until   *time.Time
	}{
		{"cooldown up holds a rise", newScene(4, up(Damping{CooldownSeconds: 180}), cpu(0.9), lastUp(60)), 4, ReasonCooldownUp, at(120)},
		{"cooldown up still lets it go down", newScene(4, up(Damping{CooldownSeconds: 180}), cpu(0.1), lastUp(60)), 1, ReasonTargetRatio, nil},
		{"cooldown up ends on the second", newScene(4, up(Damping{CooldownSeconds: 180}), cpu(0.9), lastUp(180)), 8, ReasonTargetRatio, nil},
		{"cooldown down holds a fall", newScene(4, down(Damping{CooldownSeconds: 300}), cpu(0.1), lastDown(299)), 4, ReasonCooldownDown, at(1)},
		{"cooldown down lets it go up", newScene(4, down(Damping{CooldownSeconds: 300}), cpu(0.9), lastDown(10)), 8, ReasonTargetRatio, nil},
		{"an up starts no cooldown down", newScene(4, down(Damping{CooldownSeconds: 300}), cpu(0.1), lastUp(10)), 1, ReasonTargetRatio, nil},

		{"stabilisation keeps the highest of the window", newScene(8, down(Damping{CooldownSeconds: -1, StabilisationSeconds: 300}), cpu(0.1), withMemory(recs(-290, 6, -100, 3))), 6, ReasonStabilisation, at(10)},
		{"stabilisation never raises", newScene(8, down(Damping{CooldownSeconds: -1, StabilisationSeconds: 300}), cpu(0.1), withMemory(recs(-290, 15))), 8, ReasonStabilisation, at(10)},
		{"what left the window is forgotten", newScene(8, down(Damping{CooldownSeconds: -1, StabilisationSeconds: 300}), cpu(0.1), withMemory(recs(-300, 15, -200, 2))), 2, ReasonTargetRatio, nil},
		{"nor does the flap guard's longer memory keep it", newScene(8, down(Damping{CooldownSeconds: -1, StabilisationSeconds: 300}), withPolicy(func(p *Policy) { p.Flap = Flap{} }), cpu(0.1), withMemory(recs(-300, 15, -200, 2))), 2, ReasonTargetRatio, nil},
		{"up stabilisation keeps the lowest of the window", newScene(4, up(Damping{CooldownSeconds: -1, StabilisationSeconds: 60}), cpu(0.9), withMemory(recs(-50, 5))), 5, ReasonStabilisation, nil},
		{"up stabilisation waits while the window saw less", newScene(4, up(Damping{CooldownSeconds: -1, StabilisationSeconds: 60}), cpu(0.9), withMemory(recs(-50, 2))), 4, ReasonStabilisation, nil},

		{"a step limits a rise", newScene(4, up(Damping{CooldownSeconds: -1, Steps: []Step{{StepPods, 2, 60}}}), cpu(0.9)), 6, ReasonStepUp, nil},
		{"a step limits a fall", newScene(8, down(Damping{CooldownSeconds: -1, StabilisationSeconds: -1, Steps: []Step{{StepPercent, 25, 300}}}), cpu(0.1)), 6, ReasonStepDown, nil},
		{"a step used up within its period holds", newScene(6, down(Damping{CooldownSeconds: -1, StabilisationSeconds: -1, Steps: []Step{{StepPercent, 25, 300}}}), cpu(0.1),
			withMemory(func(m *Memory) { m.Changes = []Change{{*at(-60), 8, 6}} })), 6, ReasonStepDown, nil},
		{"a direction that is disabled holds", newScene(6, down(Damping{CooldownSeconds: -1, StabilisationSeconds: -1, Select: SelectDisabled}), cpu(0.1)), 6, ReasonStepDown, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, _ := c.scene.decide(t)
			if d.Target != c.target || d.Binding != c.binding {
				t.Fatalf("target %d by %s, want %d by %s\n%+v", d.Target, d.Binding, c.target, c.binding, d.Reasons)
			}
			r, _ := reason(d, c.binding)
			if c.until != nil && (r.Until == nil || !r.Until.Equal(*c.until)) {
				t.Errorf("until %v, want %v", r.Until, c.until)
			}
		})
	}
}

func TestFirstDecisionEverDoesNotShrinkAWorkload(t *testing.T) {
	t.Parallel()
	s := newScene(8, cpu(0.1), withPolicy(func(p *Policy) { p.Down.StabilisationSeconds = 300 }), withMemory(func(m *Memory) { *m = Memory{} }))
	d, m := s.decide(t)
	if d.Target != 8 || d.Binding != ReasonStabilisation {
		t.Errorf("target %d by %s, want 8 held by stabilisation", d.Target, d.Binding)
	}
	s.tick(300, 8, m)
	cpu(0.1)(&s)
	if d, _ = s.decide(t); d.Target != 2 {
		t.Errorf("300 s later: target %d by %s, want 2", d.Target, d.Binding)
	}
}

func TestAfterAnOutageTheWindowStartsAnew(t *testing.T) {
	t.Parallel()
	s := newScene(8, withPolicy(func(p *Policy) { p.Down.StabilisationSeconds = 300 }), withMemory(recs(-3000, 2)))
	_, m := s.decide(t) // no signal
	s.tick(15, 8, m)
	cpu(0.1)(&s)
	d, _ := s.decide(t)
	if d.Target != 8 || d.Binding != ReasonStabilisation {
		t.Errorf("first sample after the outage: target %d by %s, want 8 held by stabilisation", d.Target, d.Binding)
	}
}

func TestAfterAPartialLossTheWindowHoldsWhatWasThere(t *testing.T) {
	t.Parallel()
	s := newScene(8, withPolicy(twoRules), withPolicy(func(p *Policy) { p.Down.StabilisationSeconds = 300 }), withMemory(recs(-3000, 2)), cpu(0.1))
	_, m := s.decide(t) // no queue
	s.tick(15, 8, m)
	cpu(0.1)(&s)
	queue(5, 0)(&s)
	d, _ := s.decide(t)
	if d.Target != 8 || d.Binding != ReasonStabilisation {
		t.Errorf("first whole view after the loss: target %d by %s, want 8 held by stabilisation", d.Target, d.Binding)
	}
}

func TestCooldownCountsFromTheChangeThatWasSeen(t *testing.T) {
	t.Parallel()
	s := newScene(4, withPolicy(func(p *Policy) { p.Up.CooldownSeconds = 180 }), cpu(0.9))
	d, m := s.decide(t)
	if d.Target != 8 || m.LastUp != nil {
		t.Fatalf("target %d, last up %v, want 8 and none", d.Target, m.LastUp)
	}
	// Nobody carried it out: it is still wanted, no cooldown runs.
	s.tick(15, 4, m)
	cpu(0.9)(&s)
	if d, m = s.decide(t); d.Target != 8 {
		t.Fatalf("not applied yet: target %d by %s, want 8", d.Target, d.Binding)
	}
	// It is applied: the cooldown counts from the decision before.
	s.tick(15, 8, m)
	cpu(0.9)(&s)
	d, m = s.decide(t)
	if d.Target != 8 || d.Binding != ReasonCooldownUp || m.LastUp == nil || !m.LastUp.Equal(*at(15)) {
		t.Fatalf("applied: target %d by %s, last up %v, want 8 by cooldown_up from 15 s", d.Target, d.Binding, m.LastUp)
	}
	// A person's change is seen as well, from the moment it is seen.
	s.tick(15, 3, m)
	cpu(0.5)(&s)
	if _, m = s.decide(t); m.LastDown == nil || !m.LastDown.Equal(*at(45)) || len(m.Changes) != 2 {
		t.Errorf("by hand: last down %v, changes %v", m.LastDown, m.Changes)
	}
}

func TestFlappingWidensTheWindow(t *testing.T) {
	t.Parallel()
	flap := withPolicy(func(p *Policy) { p.Down.StabilisationSeconds, p.Flap = 300, Flap{} })
	level := func(n int) option { return withMemory(func(m *Memory) { m.FlapLevel, m.FlapAt = n, at(-60) }) }
	for _, c := range []struct {
		name    string
		scene   scene
		target  int
		binding ReasonCode
		window  float64
	}{
		{"no flaps, the plain window rules", newScene(8, flap, cpu(0.1), withMemory(recs(-700, 8))), 2, ReasonTargetRatio, 0},
		{"one level doubles the window: 600 s do not hold what is 700 s old", newScene(8, flap, level(1), cpu(0.1), withMemory(recs(-700, 8))), 2, ReasonTargetRatio, 0},
		{"one level holds what is 500 s old", newScene(8, flap, level(1), cpu(0.1), withMemory(recs(-500, 8))), 8, ReasonFlapping, 600},
		{"two levels double it again", newScene(8, flap, level(2), cpu(0.1), withMemory(recs(-700, 8))), 8, ReasonFlapping, 1200},
		{"many levels make it an hour, not more", newScene(8, flap, level(8), cpu(0.1), withMemory(recs(-3599, 8))), 8, ReasonFlapping, 3600},
		{"within the plain window it is plain stabilisation", newScene(8, flap, level(2), cpu(0.1), withMemory(recs(-100, 8))), 8, ReasonStabilisation, 1200},
		{"six hours of calm narrow it by one", newScene(8, flap, level(2), cpu(0.1), withMemory(recs(-700, 8)), withMemory(func(m *Memory) { m.FlapAt = at(-6 * 3600) })), 2, ReasonTargetRatio, 0},
		{"switched off it forgets", newScene(8, flap, level(2), cpu(0.1), withMemory(recs(-700, 8)), withPolicy(func(p *Policy) { p.Flap.CyclesPerHour = -1 })), 2, ReasonTargetRatio, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, _ := c.scene.decide(t)
			r, _ := reason(d, c.binding)
			if d.Target != c.target || d.Binding != c.binding || (c.window != 0 && r.Numbers["window_seconds"] != c.window) {
				t.Errorf("target %d by %s over %v s, want %d by %s over %v", d.Target, d.Binding, r.Numbers["window_seconds"], c.target, c.binding, c.window)
			}
		})
	}
}

func TestCyclesRaiseTheFlapLevel(t *testing.T) {
	t.Parallel()
	ups := func(pairs ...int) Memory { // counts at times, each a change from the one before
		m := Memory{}
		for i := 2; i < len(pairs); i += 2 {
			m.Changes = append(m.Changes, Change{*at(pairs[i]), pairs[i-1], pairs[i+1]})
		}
		m.LastAt, m.LastFrom = at(-15), pairs[len(pairs)-1]
		return m
	}
	for _, c := range []struct {
		name   string
		memory Memory
		level  int // before
		want   int
	}{
		{"the first cycle is none too many", ups(-3000, 4, -2900, 8, -2000, 4), 0, 0},
		{"the second within the hour is", ups(-3000, 4, -2900, 8, -2000, 4, -1000, 8, -500, 4), 0, 1},
		{"steps in one direction are no cycle", ups(-3000, 2, -2900, 8, -2000, 6, -1900, 5, -1000, 6, -900, 7, -500, 4), 0, 1},
		{"while it is widened every cycle counts", ups(-3000, 4, -2900, 8, -2000, 4), 1, 2},
		{"a cycle over an hour ago is forgotten", ups(-9000, 4, -8900, 8, -8000, 4, -1000, 8, -500, 4), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(9, cpu(0.5), withPolicy(func(p *Policy) { p.Flap = Flap{} }), withMemory(func(m *Memory) {
				*m = c.memory
				if c.level > 0 {
					m.FlapLevel, m.FlapAt = c.level, at(-60)
				}
			}))
			if _, m := s.decide(t); m.FlapLevel != c.want || (c.want > c.level && !m.FlapAt.Equal(noon)) {
				t.Errorf("level %d since %v, want %d", m.FlapLevel, m.FlapAt, c.want)
			}
		})
	}
}

func TestLongTailGoesToTheFloorPastAllDamping(t *testing.T) {
	t.Parallel()
	policy := withPolicy(func(p *Policy) {
		p.Min = 1
		p.Down = Damping{CooldownSeconds: 300, StabilisationSeconds: 3600, Steps: []Step{{StepPods, 1, 600}}}
		p.LongTail = &LongTail{}
	})
	quiet := func(ago int) option {
		return withMemory(func(m *Memory) { m.QuietSince, m.LastDown = at(-ago), at(-10) })
	}
	for _, c := range []struct {
		name    string
		scene   scene
		target  int
		quiet   bool
		binding ReasonCode
	}{
		{"half an hour of quiet", newScene(5, policy, cpu(0.1), queue(5, 0), quiet(1800)), 1, true, ReasonLongTail},
		{"a second less", newScene(5, policy, cpu(0.1), queue(5, 0), quiet(1799)), 5, true, ReasonCooldownDown},
		{"a request waits", newScene(5, policy, cpu(0.1), queue(5, 1), quiet(1800)), 5, false, ReasonCooldownDown},
		{"the use is not low", newScene(5, policy, cpu(0.2), queue(5, 0), quiet(1800)), 5, false, ReasonCooldownDown},
		{"the newest sample alone is busy", newScene(5, policy, withPolicy(func(p *Policy) { p.Filter = Filter{} }), cpu(0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.9), queue(5, 0), quiet(1800)), 5, false, ReasonCooldownDown},
		{"the queue is not seen", newScene(5, policy, cpu(0.1), queue(60, 0), quiet(1800)), 5, false, ReasonCooldownDown},
		{"the use is not seen", newScene(5, policy, gauge(fleet.SignalCPURatio, 60, 0.1), queue(5, 0), quiet(1800)), 5, false, ReasonNoSignal},
		{"no queue is measured, the use is enough", newScene(5, policy, cpu(0.1), quiet(1800)), 1, true, ReasonLongTail},
		{"the floor is zero and something still runs", newScene(5, policy, withPolicy(func(p *Policy) { p.Min, p.ScaleToZero = 0, true }), cpu(0.01), queue(5, 0), quiet(1800)), 1, true, ReasonLongTail},
		{"the floor is zero and nothing runs", newScene(5, policy, withPolicy(func(p *Policy) { p.Min, p.ScaleToZero = 0, true }), cpu(0), queue(5, 0), quiet(1800)), 0, true, ReasonLongTail},
		{"another rule asks for more", newScene(5, policy, withPolicy(func(p *Policy) {
			p.TargetRatio = append(p.TargetRatio, TargetRatio{Signal: fleet.SignalRequestRate, Type: RatioAverageValue, Target: 10})
		}), cpu(0.1), gauge(fleet.SignalRequestRate, 5, 80), queue(5, 0), quiet(1800)), 8, true, ReasonTargetRatio},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, m := c.scene.decide(t)
			if d.Target != c.target || d.Binding != c.binding || (m.QuietSince != nil) != c.quiet {
				t.Errorf("target %d by %s, quiet %v, want %d by %s, %v\n%+v", d.Target, d.Binding, m.QuietSince, c.target, c.binding, c.quiet, d.Reasons)
			}
		})
	}
}

// What is forgotten must not matter: the windows over the kept recommendations answer as over all of them.
func TestForgottenRecommendationsDoNotMatter(t *testing.T) {
	t.Parallel()
	all := []int{5, 9, 9, 3, 7, 2, 8, 8, 4, 6, 1, 5}
	for end := 1; end <= len(all); end++ {
		var full []Recommendation
		for i, n := range all[:end] {
			full = append(full, Recommendation{At: *at(-15 * (end - 1 - i)), Needed: n})
		}
		kept := matter(append([]Recommendation(nil), full...), true)
		for window := 0; window <= 15*end; window += 15 {
			for _, highest := range []bool{true, false} {
				in := newScene(1).input()
				a := deciding{snap: &in.Snapshot, memory: Memory{Recommendations: full}}
				b := deciding{snap: &in.Snapshot, memory: Memory{Recommendations: kept}}
				want, _ := a.extreme(window, highest)
				if got, _ := b.extreme(window, highest); got != want {
					t.Fatalf("window %d over %v: %d, over %v: %d", window, full, want, kept, got)
				}
			}
		}
	}
}
