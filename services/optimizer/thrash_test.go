package optimizer

import (
	"math"
	"math/rand"
	"testing"
)

// drive runs a policy in a closed loop against a course of load (in replicas that would be full) for hours, with replicas
// ready one tick after they were asked for, and returns the completed up-down-up cycles per hour and the share of ticks in
// which the load was over what the replicas can do.
func drive(t *testing.T, p Policy, hours int, load func(tick int, r *rand.Rand) float64) (cycles, late float64) {
	t.Helper()
	r := rand.New(rand.NewSource(7))
	s := newScene(8, withPolicy(func(q *Policy) { *q = p }))
	s.memory = Memory{}
	m, n, before := Memory{}, 8, 0
	var dirs []int
	var history []float64
	ticks := hours * 240
	for i := range ticks {
		s.tick(15, n, m)
		demand := load(i, r)
		use := math.Min(1, demand/float64(n))
		if demand > float64(n) {
			late++
		}
		history = append(history, use)
		cpu(history[max(0, len(history)-20):]...)(&s)
		plan, err := Decide(s.input())
		if err != nil {
			t.Fatal(err)
		}
		d := plan.Decisions[0]
		m, n = plan.Memory[chatID], d.Target
		dir := map[Outcome]int{OutcomeUp: 1, OutcomeDown: -1}[d.Outcome]
		if dir != 0 && dir != before {
			dirs, before = append(dirs, dir), dir
		}
	}
	for i := 2; i < len(dirs); i++ {
		if dirs[i] > 0 {
			cycles++
		}
	}
	return cycles / float64(hours), late / float64(ticks)
}

func TestDampingKeepsAnOscillatingLoadFromThrashingWhereAPlainHPADoesNot(t *testing.T) {
	t.Parallel()
	parse := func(doc string) Policy {
		p, f := ParsePolicy([]byte(doc))
		if HasErrors(f) {
			t.Fatal(f)
		}
		p.Mode, p.Max = "enforce", 40
		return p
	}
	hpa := parse(presetHPACPU)
	ours := parse("max: 40\nmin: 1\ntarget_ratio: [{signal: cpu_ratio, target: 0.7}]\n")
	for _, c := range []struct {
		name  string
		bound float64 // cycles per hour
		load  func(int, *rand.Rand) float64
	}{
		{"a sine of twelve minutes", 0.5, func(i int, _ *rand.Rand) float64 { return 7 + 3*math.Sin(2*math.Pi*float64(i)/48) }},
		{"steps every eight minutes", 0.5, func(i int, _ *rand.Rand) float64 { return 4 + 5*float64(i/32%2) }},
		{"noise", 0.5, func(_ int, r *rand.Rand) float64 { return 6 + 1.5*r.NormFloat64() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, plainLate := drive(t, hpa, 24, c.load)
			got, late := drive(t, ours, 24, c.load)
			t.Logf("cycles per hour: HPA %.2f, ours %.2f; over capacity: HPA %.2f %%, ours %.2f %%", plain, got, 100*plainLate, 100*late)
			if got > c.bound || got >= plain {
				t.Errorf("%.2f cycles per hour, want at most %.2f and fewer than the HPA's %.2f", got, c.bound, plain)
			}
		})
	}
}
