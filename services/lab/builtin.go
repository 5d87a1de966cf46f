package lab

import (
	"math"
	"math/rand/v2"
)

// Shapes is what clients look like that a seed makes up: they stand for the shapes that matter where no data are at hand.
type Shapes struct {
	Clients int     `json:"clients"`
	Rate    float64 `json:"requests_per_second"`         // of a client, mean
	CV      float64 `json:"arrival_cv"`                  // of the times between its arrivals; 1 is a Poisson stream
	Daily   float64 `json:"day_depth,omitempty"`         // of its day, 0 to 1
	Jump    float64 `json:"jump_chance,omitempty"`       // per ten minutes, that its level changes
	On      float64 `json:"present_share,omitempty"`     // of the time; default 1: always
	Input   float64 `json:"mean_input_tokens,omitempty"` // default 900
	Output  float64 `json:"mean_output_tokens,omitempty"`
}

func (s *Shapes) check(w *Workload) error {
	share := func(v float64) bool { return v >= 0 && v <= 1 }
	if s.Clients < 1 || s.Clients > maxClients || !(s.Rate > 0 && s.Rate <= 1e4) || !(s.CV > 0 && s.CV <= 20) || !share(s.Daily) || !share(s.Jump) || !share(s.On) ||
		!(s.Input >= 0 && s.Input <= 1e6) || !(s.Output >= 0 && s.Output <= 1e6) {
		return w.refuse("source.shapes: %+v; want clients, requests_per_second and arrival_cv above zero, shares from 0 to 1, tokens up to a million", *s)
	}
	return nil
}

// Invent makes up the workload's clients from a seed.
func (w *Workload) Invent(seed uint64) []Client {
	s := *w.Source.Shapes
	for _, d := range []struct {
		of  *float64
		def float64
	}{{&s.On, 1}, {&s.Input, 900}, {&s.Output, 170}} {
		if *d.of == 0 {
			*d.of = d.def
		}
	}
	r := rand.New(rand.NewPCG(seed, w.Seed+1))
	out := make([]Client, 0, s.Clients)
	for id := range s.Clients {
		c := Client{ID: id, Tokens: []TokenWindow{{Rate: 1, Input: invented(r, s.Input), Output: invented(r, s.Output)}}}
		phase, level, on := 0.6*r.NormFloat64(), math.Exp(0.5*r.NormFloat64()), true
		for at := 0; at < w.seconds(); at += rateWindow {
			if r.Float64() < s.Jump {
				level = math.Exp(0.5 * r.NormFloat64())
			}
			if s.On < 1 && r.Float64() < 0.08 {
				on = r.Float64() < s.On
			}
			day := 1 - s.Daily*math.Cos(2*math.Pi*float64(at)/86400+phase)
			if on {
				c.Rates = append(c.Rates, RateWindow{Offset: at, Rate: s.Rate * level * day, CV: s.CV})
			}
		}
		out = append(out, c)
	}
	return out
}

func invented(r *rand.Rand, mean float64) Spread {
	m := mean * math.Exp(0.4*r.NormFloat64())
	return Spread{Mean: m, P50: 0.7 * m, P90: 2.2 * m, P99: 5 * m}
}

// Builtin draws the small set of loads that need no data: four days each, two of them history.
func Builtin(seed uint64) ([]*Trace, error) {
	out := []*Trace{}
	for _, w := range BuiltinWorkloads() {
		t, err := w.Build(w.Invent(seed), seed)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}
