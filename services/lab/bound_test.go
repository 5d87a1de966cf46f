package lab

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// cheapest tries every schedule and returns the least it can cost to be on time.
func cheapest(t *Trace, cfg Config, most int) float64 {
	best := math.Inf(1)
	var try func(s, before int, backlog, paid float64)
	try = func(s, before int, backlog, paid float64) {
		if paid >= best {
			return
		}
		if s == t.To {
			best = paid
			return
		}
		for n := cfg.Min; n <= most; n++ {
			if backlog > float64(n)*LateSeconds+1e-9 {
				continue
			}
			end := max(0, backlog+(t.Rho[s]-float64(n))*SlotSeconds)
			if end > t.Rho[s]*LateSeconds+1e-9 {
				continue
			}
			up := 0.0
			if s > t.From {
				up = float64(max(0, n-before) * cfg.ColdSlots)
			}
			try(s+1, n, end, paid+float64(n)+up)
		}
	}
	try(t.From, 0, 0, 0)
	return best / SlotsPerHour
}

func flat(name string, rho []float64) *Trace {
	t := &Trace{Name: name, Rho: rho, Requests: make([]float64, len(rho)), Share: 0.05, To: len(rho)}
	for i := range rho {
		t.Requests[i] = 30 * rho[i]
	}
	return t
}

func TestBoundEqualsBruteForceOnItsOwnGrid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		// Demands in fifteenths of a replica put every backlog on a grid of one replica-second.
		n := rapid.IntRange(1, 7).Draw(r, "slots")
		rho := make([]float64, n)
		for i := range rho {
			rho[i] = float64(rapid.IntRange(0, 45).Draw(r, "fifteenths")) / 15
		}
		tr := flat("tiny", rho)
		cfg := Config{ColdSlots: rapid.IntRange(0, 4).Draw(r, "cold"), Min: 0, Max: 8}
		if tr.Peak() == 0 {
			return
		}
		b, err := newBounding(tr, cfg, 1.0/3) // a third: what is on time need not be a whole second
		if err != nil {
			r.Fatal(err)
		}
		for s := range n {
			// Rounding must not meet the grid from below.
			tr.Rho[s] = math.Round(tr.Rho[s]*15)/15 + 1e-12
			b.slot(s, nil)
		}
		got, want := float64(b.least())/SlotsPerHour, cheapest(tr, cfg, 3)
		if math.Abs(got-want) > 1e-9 {
			r.Fatalf("bound %v, cheapest of all schedules %v, demand %v", got*SlotsPerHour, want*SlotsPerHour, rho)
		}
	})
}

func TestBoundIsNeverAboveBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(r, "slots")
		rho := make([]float64, n)
		for i := range rho {
			rho[i] = rapid.Float64Range(0.01, 3).Draw(r, "demand")
		}
		tr := flat("tiny", rho)
		cfg := Config{ColdSlots: rapid.IntRange(0, 4).Draw(r, "cold"), Min: 0, Max: 8}
		got, err := Bound(tr, cfg)
		if err != nil {
			r.Fatal(err)
		}
		if want := cheapest(tr, cfg, 3); got > want+1e-9 {
			r.Fatalf("bound %v above the cheapest schedule %v", got, want)
		} else if want > 0 && got < 0.7*want-1.0/SlotsPerHour {
			r.Fatalf("bound %v says little: the cheapest schedule costs %v", got, want)
		}
	})
}

func TestScheduleCostsTheBoundAndItsExecutionLittleMore(t *testing.T) {
	t.Parallel()
	for _, whole := range builtin(t) {
		tr := flat(whole.Name, whole.Rho[whole.From:whole.To])
		cfg := DefaultConfig(tr)
		bound, err := Bound(tr, cfg)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Schedule(tr, cfg)
		if err != nil {
			t.Fatal(err)
		}
		paid := 0
		for i, n := range plan {
			paid += n
			if i > 0 {
				paid += max(0, n-plan[i-1]) * cfg.ColdSlots
			}
		}
		if math.Abs(float64(paid)/SlotsPerHour-bound) > 1e-9 {
			t.Errorf("%s: the schedule costs %v, the bound is %v", tr.Name, float64(paid)/SlotsPerHour, bound)
		}
		hours, played := Executed(tr, cfg, plan)
		if hours < bound || hours > 1.10*bound {
			t.Errorf("%s: executing the schedule costs %.4f of the bound; want 1 to 1.10", tr.Name, hours/bound)
		}
		score := Run(tr, cfg, &replayed{counts: played, cold: cfg.ColdSlots})
		if score.LateRatio() > 1e-6 {
			t.Errorf("%s: executing the schedule leaves %.4f of the requests late", tr.Name, score.LateRatio())
		}
		if r := score.Paid / bound; r < 1-1e-9 || r > 1.10 {
			t.Errorf("%s: in the world the schedule costs %.4f of the bound", tr.Name, r)
		}
	}
}

// replayed orders so that the schedule's counts are ready in time, and lets go when the schedule does.
type replayed struct {
	cold   int
	counts []int
}

func (p *replayed) Step(o *Observation) int {
	// Paid for from now to the moment an order becomes ready: the highest count the schedule has by then.
	want := 1
	for s := o.Slot + 1; s <= o.Slot+1+p.cold; s++ {
		want = max(want, p.counts[min(s, len(p.counts)-1)])
	}
	return want
}

func TestImpossibleTracesAreRefused(t *testing.T) {
	t.Parallel()
	ok := flat("ok", []float64{1, 2, 3})
	for name, change := range map[string]func(*Trace){
		"nothing":                 func(t *Trace) { t.Rho, t.Requests = nil, nil },
		"requests of other slots": func(t *Trace) { t.Requests = t.Requests[:1] },
		"an empty span":           func(t *Trace) { t.From = t.To },
		"a span beyond the end":   func(t *Trace) { t.To = 9 },
		"demand that is no number": func(t *Trace) {
			t.Rho = []float64{1, math.NaN(), 1}
		},
		"negative demand":        func(t *Trace) { t.Rho = []float64{1, -1, 1} },
		"requests without share": func(t *Trace) { t.Share = 0 },
	} {
		bad := *ok
		change(&bad)
		if _, err := Bound(&bad, Config{Min: 1, Max: 10}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Bound(ok, Config{Min: 1, Max: 2}); err == nil {
		t.Error("a peak above max: no error")
	}
	if _, err := Bound(flat("huge", []float64{90_000}), Config{Min: 1, Max: maxReplicas}); err == nil {
		t.Error("a bound that would need a huge table: no error")
	}
}
