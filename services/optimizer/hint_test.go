package optimizer

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

func TestHints(t *testing.T) {
	t.Parallel()
	calm := quantile.Outlook{Hours: 30, Demand: 4, Median: 4, Level: 4, Upper: 5.5, Need: 6, Want: 6, LeadSlots: 12}
	h := func(kind HintKind, amount float64, from, to int) Hint {
		return Hint{ID: string(kind), Kind: kind, Amount: amount, From: noon.Add(seconds(from)), To: noon.Add(seconds(to))}
	}
	tests := []struct {
		name    string
		hints   []Hint
		change  func(*scene)
		target  int
		binding ReasonCode
		has     ReasonCode
	}{
		{"replicas that are expected are there", []Hint{h(HintReplicas, 12, -60, 60)}, nil, 12, ReasonHint, ReasonForecast},
		{"one that ends now is over", []Hint{h(HintReplicas, 12, -60, 0)}, nil, 6, ReasonForecast, ReasonForecast},
		{"it takes effect one start before its time", []Hint{h(HintReplicas, 12, 180, 600)}, nil, 12, ReasonHint, ReasonForecast},
		{"and not before that", []Hint{h(HintReplicas, 12, 181, 600)}, nil, 6, ReasonForecast, ReasonForecast},
		{"it never lowers a need", []Hint{h(HintReplicas, 3, -60, 60)}, nil, 6, ReasonForecast, ReasonHint},
		{"twice the demand, staffed with care", []Hint{h(HintFactor, 2, -60, 60)}, nil, 14, ReasonHint, ReasonForecast}, // (1.25 x 8 + 2.33 x 1) / 0.9 = 13.7
		{"ten requests per second at one replica each", []Hint{h(HintRate, 10, -60, 60)}, nil, 17, ReasonHint, ReasonForecast},
		{"the largest of several wins", []Hint{h(HintReplicas, 9, -60, 60), h(HintFactor, 2, -30, 60), h(HintReplicas, 7, -60, 60)}, nil, 14, ReasonHint, ReasonForecast},
		{"never above the maximum", []Hint{h(HintReplicas, 500, -60, 60)}, func(s *scene) { s.state.Replicas, s.state.Ready, s.memory.LastFrom = 12, 12, 12 }, 20, ReasonMax, ReasonHint},
		{"steps hold as ever", []Hint{h(HintReplicas, 20, -60, 60)}, func(s *scene) { s.state.Replicas, s.state.Ready, s.memory.LastFrom = 6, 6, 6 }, 12, ReasonStepUp, ReasonHint},
		{"a frozen cluster stays", []Hint{h(HintReplicas, 12, -60, 60)}, func(s *scene) { s.frozen = true }, 10, ReasonFrozen, ReasonHint},
		{"the demand that it began at is kept, whatever comes", []Hint{h(HintFactor, 2, -600, 60)}, func(s *scene) {
			two := 2.0
			s.memory.Hints = []HintBase{{ID: "factor", Demand: &two}}
		}, 8, ReasonHint, ReasonForecast}, // (1.25 x 4 + 2.33 x 0.71) / 0.9 = 7.4
		{"without a forecast a factor says nothing", []Hint{h(HintFactor, 9, -60, 60)}, func(s *scene) { s.forecast = nil }, 10, ReasonNoForecast, ReasonHintUnused},
		{"without a forecast replicas hold", []Hint{h(HintReplicas, 12, -60, 60)}, func(s *scene) { s.forecast = nil }, 12, ReasonHint, ReasonNoForecast},
		{"without a request a rate says nothing", []Hint{h(HintRate, 9, -60, 60)}, func(s *scene) { s.state.Signals = s.state.Signals[:2] }, 10, ReasonPartialSignal, ReasonHintUnused},
		{"a kind of tomorrow is passed over", []Hint{h("joy", 9, -60, 60)}, nil, 6, ReasonForecast, ReasonHintUnused},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := sloScene(10, calm)
			s.hints = tc.hints
			if tc.change != nil {
				tc.change(&s)
			}
			d, m := s.decide(t)
			if d.Target != tc.target || d.Binding != tc.binding {
				t.Errorf("%d by %s; want %d by %s\n%+v", d.Target, d.Binding, tc.target, tc.binding, d.Reasons)
			}
			if _, ok := reason(d, tc.has); !ok {
				t.Errorf("there is no reason %s: %+v", tc.has, d.Reasons)
			}
			if len(m.Hints) > len(tc.hints) {
				t.Errorf("%d are remembered", len(m.Hints))
			}
		})
	}
}

// Other rules know only replicas; a quiet night does not take them away.
func TestHintsWithoutAnObjective(t *testing.T) {
	t.Parallel()
	s := newScene(4, cpu(0.01, 0.01), withPolicy(func(p *Policy) { p.LongTail = &LongTail{} }), withMemory(func(m *Memory) { m.QuietSince = at(-7200) }))
	s.hints = []Hint{{ID: "a", Kind: HintReplicas, Amount: 3, From: noon, To: noon.Add(time.Hour)}, {ID: "b", Kind: HintFactor, Amount: 9, From: noon, To: noon.Add(time.Hour)}}
	d, _ := s.decide(t)
	if d.Target != 3 || d.Binding != ReasonHint {
		t.Errorf("%d by %s: %+v", d.Target, d.Binding, d.Reasons)
	}
	if _, ok := reason(d, ReasonHintUnused); !ok {
		t.Error("a factor was used without a forecast")
	}
}

// Whatever is expected: bounds hold, nothing breaks the check, and the stored input gives the same decision.
func TestNoHintLeadsAstray(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		o := quantile.Outlook{Hours: 30, Demand: rapid.Float64().Draw(rt, "demand"), Median: rapid.Float64().Draw(rt, "median"), Upper: 5, Need: 6, Want: 6, LeadSlots: rapid.IntRange(-5, 100_000).Draw(rt, "lead")}
		s := sloScene(rapid.IntRange(0, 25).Draw(rt, "from"), o)
		for i := range rapid.IntRange(0, 80).Draw(rt, "hints") {
			from := noon.Add(seconds(rapid.IntRange(-5000, 5000).Draw(rt, "begins")))
			s.hints = append(s.hints, Hint{ID: string(rune('a' + i)), Kind: rapid.SampledFrom([]HintKind{HintFactor, HintRate, HintReplicas, ""}).Draw(rt, "kind"),
				Amount: rapid.Float64().Draw(rt, "amount"), From: from, To: from.Add(seconds(rapid.IntRange(-10, 5000).Draw(rt, "span")))})
		}
		in := s.input()
		plan, err := Decide(in)
		if err != nil {
			rt.Fatal(err)
		}
		if bad := Check(plan, in); len(bad) > 0 {
			rt.Fatalf("%+v", bad)
		}
		text, err := json.Marshal(in)
		if err != nil {
			rt.Fatal(err)
		}
		var again Input
		if err := json.Unmarshal(text, &again); err != nil {
			rt.Fatal(err)
		}
		second, err := Decide(again)
		if err != nil || second.Decisions[0].Target != plan.Decisions[0].Target {
			rt.Fatalf("%v, %+v", err, second.Decisions)
		}
	})
}

func TestBadHintsAreRefused(t *testing.T) {
	t.Parallel()
	good := Hint{Kind: HintFactor, Amount: 2, From: noon, To: noon.Add(time.Hour)}
	if err := good.Validate(noon); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Hint){
		"kind":   func(h *Hint) { h.Kind = "load" },
		"amount": func(h *Hint) { h.Amount = math.NaN() },
		"zero":   func(h *Hint) { h.Amount = 0 },
		"factor": func(h *Hint) { h.Amount = 101 },
		"halves": func(h *Hint) { h.Kind, h.Amount = HintReplicas, 1.5 },
		"order":  func(h *Hint) { h.To = h.From },
		"past":   func(h *Hint) { h.From, h.To = noon.Add(-2*time.Hour), noon.Add(-time.Hour) },
		"long":   func(h *Hint) { h.To = h.From.Add(MaxHintSpan + time.Second) },
		"far":    func(h *Hint) { h.From = noon.Add(MaxHintAhead + time.Hour); h.To = h.From.Add(time.Hour) },
	} {
		h := good
		change(&h)
		var coded *fleet.Error
		if err := h.Validate(noon); !errors.As(err, &coded) || coded.Code != fleet.CodeInvalid || coded.Field == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
