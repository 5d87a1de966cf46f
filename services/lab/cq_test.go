package lab

import (
	"math"
	"testing"

	"plimsoll.dev/services/optimizer/quantile"
)

// What the policy reaches on the built-in set with its one default; each limit leaves a few per cent.
func TestCQReachesItsGoals(t *testing.T) {
	t.Parallel()
	goals := map[string]float64{"steady": 1.30, "daily": 1.35, "bursty": 1.45, "on-off": 1.90}
	for _, tr := range builtin(t) {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			board := Board{}
			policies, err := Named([]string{"hpa-70", "plimsoll-cq"})
			if err != nil {
				t.Fatal(err)
			}
			if err := board.Add(tr, policies); err != nil {
				t.Fatal(err)
			}
			ours, _ := board.Row(tr.Name, "plimsoll-cq")
			hpa, _ := board.Row(tr.Name, "hpa-70")
			t.Logf("%s: %.3f of the bound, %.3f %% late; HPA %.3f, %.3f %%", tr.Name, ours.Ratio, 100*ours.LateRate, hpa.Ratio, 100*hpa.LateRate)
			if ours.Ratio > goals[tr.Name] || ours.Ratio < 1 {
				t.Errorf("costs %.3f of the bound; want at most %.2f", ours.Ratio, goals[tr.Name])
			}
			if limit := max(0.01, hpa.LateRate); ours.LateRate > limit {
				t.Errorf("%.4f of the requests late; want at most %.4f", ours.LateRate, limit)
			}
		})
	}
}

// A shadow must fare as if it had been in charge, or choosing by shadows means nothing.
func TestAShadowInChargeCostsWhatItSaid(t *testing.T) {
	t.Parallel()
	for _, tr := range builtin(t) {
		tr := tr.Span(0, tr.Slots())
		cfg := DefaultConfig(tr)
		for _, i := range []int{40, 100, 200} {
			c := NewCQ(quantile.Params{HalfLifeDays: math.Inf(1)}, cfg.ColdSlots)
			s := Run(tr, cfg, &pinned{c, i})
			shadow := c.Shadow(i)
			if d := math.Abs(shadow.Paid/SlotsPerHour - s.Paid); d > 0.005*s.Paid {
				t.Errorf("%s, shadow %d: said %.2f replica-hours, cost %.2f", tr.Name, i, shadow.Paid/SlotsPerHour, s.Paid)
			}
			if d := math.Abs(shadow.Late/shadow.Requests - s.LateRatio()); d > 0.0005+0.2*s.LateRatio() {
				t.Errorf("%s, shadow %d: said %.5f late, %.5f were", tr.Name, i, shadow.Late/shadow.Requests, s.LateRatio())
			}
		}
	}
}

type pinned struct {
	c CQ
	i int
}

func (p *pinned) Step(o *Observation) int {
	p.c.Step(o)
	return p.c.Shadow(p.i).Want
}

func TestCQKeepsItsHeadOnOddLoad(t *testing.T) {
	t.Parallel()
	day := SlotsPerDay
	shape := func(f func(i int) float64) *Trace {
		rho := make([]float64, 2*day)
		for i := range rho {
			rho[i] = f(i)
		}
		return flat("odd", rho)
	}
	tests := []struct {
		name  string
		trace *Trace
		most  int // replicas ever
		least int // replicas on the last day
	}{
		{"nothing at all but a crumb", shape(func(int) float64 { return 0.001 }), 3, 1},
		{"one spike of one slot", shape(func(i int) float64 {
			if i == day {
				return 50
			}
			return 2
		}), 140, 2},
		{"a step up", shape(func(i int) float64 { return 2 + 18*float64(i/day) }), 120, 20},
		{"a step down to nothing", shape(func(i int) float64 { return 20 * float64(1-i/day) }), 110, 1},
		{"a sine of an hour", shape(func(i int) float64 { return 10 + 8*math.Sin(2*math.Pi*float64(i)/SlotsPerHour) }), 80, 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{ColdSlots: 12, Min: 1, Max: 1000}
			c := NewCQ(quantile.Params{}, cfg.ColdSlots)
			w := NewWorld(tc.trace, cfg, 3)
			for !w.Over() {
				o := w.Advance()
				want := c.Step(&o)
				if want < 1 || want > tc.most {
					t.Fatalf("slot %d: asked for %d replicas; want 1 to %d", o.Slot, want, tc.most)
				}
				if o.Slot > 2*day-10 && want < tc.least {
					t.Fatalf("slot %d: asked for %d replicas; want at least %d", o.Slot, want, tc.least)
				}
				w.Order(want)
			}
		})
	}
}

func BenchmarkCQWeek(b *testing.B) {
	traces, err := Builtin(1)
	if err != nil {
		b.Fatal(err)
	}
	t := traces[1]
	cfg := DefaultConfig(t)
	for b.Loop() {
		Run(t, cfg, NewCQ(quantile.Params{}, cfg.ColdSlots))
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)*SlotsPerWeek/float64(t.Slots()), "ms/service-week")
}

// What the policy says a HorizontalPodAutoscaler would have cost in its place is what one costs.
func TestTheAutoscalerBesideThePolicyIsTheRealOne(t *testing.T) {
	t.Parallel()
	for _, tr := range builtin(t) {
		tr := tr.Span(0, tr.Slots())
		cfg := DefaultConfig(tr)
		c := NewCQ(quantile.Params{HalfLifeDays: math.Inf(1)}, cfg.ColdSlots)
		Run(tr, cfg, c)
		said, real := c.Plain(), Run(tr, cfg, newHPA(0.7, 0))
		if d := math.Abs(said.Paid/SlotsPerHour - real.Paid); d > 0.02*real.Paid {
			t.Errorf("%s: said %.2f replica-hours, cost %.2f", tr.Name, said.Paid/SlotsPerHour, real.Paid)
		}
		if d := math.Abs(said.Late/said.Requests - real.LateRatio()); d > 0.0005+0.2*real.LateRatio() {
			t.Errorf("%s: said %.5f late, %.5f were", tr.Name, said.Late/said.Requests, real.LateRatio())
		}
	}
}
