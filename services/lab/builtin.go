package lab

import (
	"math"
	"math/rand/v2"
)

// Builtin makes the small set of loads that need no data: four days each, two of them history, drawn by the same code from clients that a
// seed invents. They stand for the shapes that matter: steady, daily, bursty, and on and off.
func Builtin(seed uint64) ([]*Trace, error) {
	shapes := []struct {
		name    string
		clients int
		rate    float64 // requests per second of a client, mean
		cv      float64 // of the times between its arrivals
		daily   float64 // depth of its day, 0 to 1
		jump    float64 // chance per window that its level changes
		on      float64 // share of the time it is there
	}{
		{"steady", 12, 1.5, 1, 0, 0, 1},
		{"daily", 10, 1.6, 1.2, 0.7, 0.01, 1},
		{"bursty", 6, 1.5, 3, 0.4, 0.05, 1},
		{"on-off", 5, 3, 1.5, 0.2, 0.02, 0.25},
	}
	const days = 4
	out := make([]*Trace, 0, len(shapes))
	for i, s := range shapes {
		r := rand.New(rand.NewPCG(seed, uint64(i+1)))
		src := Source{Name: s.name, Keep: 1, Seconds: days * 86400, Seed: seed + uint64(i), Replica: DefaultReplica()}
		for id := range s.clients {
			c := Client{ID: id, Tokens: []TokenWindow{{Rate: 1, Input: invented(r, 900), Output: invented(r, 170)}}}
			phase, level, on := 0.6*r.NormFloat64(), math.Exp(0.5*r.NormFloat64()), true
			for at := 0; at < src.Seconds; at += rateWindow {
				if r.Float64() < s.jump {
					level = math.Exp(0.5 * r.NormFloat64())
				}
				if s.on < 1 && r.Float64() < 0.08 {
					on = r.Float64() < s.on
				}
				day := 1 - s.daily*math.Cos(2*math.Pi*float64(at)/86400+phase)
				if on {
					c.Rates = append(c.Rates, RateWindow{Offset: at, Rate: s.rate * level * day, CV: s.cv})
				}
			}
			src.Clients = append(src.Clients, c)
		}
		t, err := Draw(src)
		if err != nil {
			return nil, err
		}
		t.From = days / 2 * SlotsPerDay
		out = append(out, t)
	}
	return out, nil
}

func invented(r *rand.Rand, mean float64) Spread {
	m := mean * math.Exp(0.4*r.NormFloat64())
	return Spread{Mean: m, P50: 0.7 * m, P90: 2.2 * m, P99: 5 * m}
}
