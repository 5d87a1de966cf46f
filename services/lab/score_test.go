package lab

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// played runs a script over a demand and returns the score with the waits of all requests.
func played(t *Trace, cfg Config, initial int, asked script) (Score, *following) {
	w := NewWorld(t, cfg, initial)
	for !w.Over() {
		o := w.Advance()
		w.Order(asked.Step(&o))
	}
	return w.Score(), w.score.follow
}

func TestWaitsByHand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		rho           []float64
		ready         int
		p50, p95, p99 float64
	}{
		{"exactly full: nobody waits", []float64{2, 2, 2}, 2, 0, 0, 0},
		// Twice the capacity for a slot of 15 s: the wait grows evenly from 0 to 15 s.
		{"twice the capacity for a slot", []float64{2, 0, 0, 0}, 1, 7.5, 14.25, 14.85},
		// Ten slots of it: from 0 to 150 s.
		{"twice the capacity for long", []float64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1, 75, 142.5, 148.5},
		// The load ends before the queue does: who still waits counts with what they waited so far; here 15 to 0 s for the second half.
		{"the trace ends on a queue", []float64{2}, 1, 3.75, 7.125, 7.425},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, _ := played(flat("hand", tc.rho), Config{ColdSlots: 3, Min: 1, Max: 10}, tc.ready, script{tc.ready})
			for _, c := range []struct{ got, want float64 }{{s.Wait.P50, tc.p50}, {s.Wait.P95, tc.p95}, {s.Wait.P99, tc.p99}} {
				if math.Abs(c.got-c.want) > 0.03*c.want+0.01 {
					t.Errorf("waits %+v; want %v, %v, %v", s.Wait, tc.p50, tc.p95, tc.p99)
					break
				}
			}
		})
	}
}

// The waits that are followed request by request say the same as the shares that are computed slot by slot.
func TestWaitsAgreeWithTheLateShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(r, "slots")
		rho := make([]float64, n, n+2*ring)
		for i := range rho {
			rho[i] = rapid.Float64Range(0, 6).Draw(r, "demand")
		}
		rho = append(rho, make([]float64, 2*ring)...) // long enough for all to be served and judged
		asked := script{}
		for range rho {
			asked = append(asked, rapid.IntRange(1, 9).Draw(r, "asked"))
		}
		tr := flat("any", rho)
		for i := range tr.Requests {
			tr.Requests[i] = math.Ceil(tr.Requests[i])
		}
		s, f := played(tr, Config{ColdSlots: 2, Min: 1, Max: 9}, 1, asked)
		total, late := f.waits.of.total(), 0.0
		for _, p := range f.waits.pending {
			total += p.requests
		}
		for i, w := range f.waits.of.bin {
			if durationEdges[i] > LateSeconds {
				late += w
			}
		}
		if math.Abs(total-s.Requests) > 1e-6*(1+s.Requests) {
			r.Fatalf("%v requests came, the waits of %v are known", s.Requests, total)
		}
		// The limit lies inside a bin that is 5 % wide; a queue may stand at its edge.
		in := f.waits.of.bin[durationBin(LateSeconds)]
		if late < s.Late-1e-6 || late-in > s.Late+1e-6 {
			if len(f.waits.pending) == 0 {
				r.Fatalf("%v late by the slot, %v by the request (%v at the limit)", s.Late, late, in)
			}
		}
	})
}

func TestDurationsKeepTheirWeightAndTheirOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		d := durations{}
		total := 0.0
		for range rapid.IntRange(1, 20).Draw(r, "parts") {
			w := rapid.Float64Range(0, 100).Draw(r, "weight")
			d.add(rapid.Float64Range(0, 5000).Draw(r, "from"), rapid.Float64Range(0, 5000).Draw(r, "to"), w)
			total += w
		}
		more := d.after([]float64{0.1, 0.5, 2})
		for _, x := range []*durations{&d, more} {
			if math.Abs(x.total()-total) > 1e-6*(1+total) {
				r.Fatalf("weight %v became %v", total, x.total())
			}
		}
		a, b := d.percentiles(), more.percentiles()
		if a.P50 > a.P95 || a.P95 > a.P99 || b.P50 < a.P50*0.94 || b.P99 < a.P99*0.94 {
			r.Fatalf("percentiles %+v, with more behind them %+v", a, b)
		}
	})
}

func TestScaleLatencyHasItsParts(t *testing.T) {
	t.Parallel()
	// Demand goes over one replica in slot 2; the order of three comes at the end of slot 3 and serves three slots later, in slot 7.
	tr := flat("step", []float64{0.5, 0.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 0.5})
	s, _ := played(tr, Config{ColdSlots: 3, Min: 1, Max: 10}, 1, script{1, 1, 1, 3})
	want := ScaleLatency{Crossings: 1, Decide: 2 * SlotSeconds, Start: 3 * SlotSeconds, Mean: 5 * SlotSeconds, P95: 5 * SlotSeconds}
	if s.Scale != want {
		t.Errorf("%+v; want %+v", s.Scale, want)
	}
	if s.Launches != 2 || s.Failed != 0 {
		t.Errorf("%d launches, %d failed; want 2 and 0", s.Launches, s.Failed)
	}
}

// holder keeps five and needs one.
type holder struct{}

func (holder) Step(*Observation) int { return 5 }
func (holder) Needed() int           { return 1 }

func TestWhatOnlyAHoldKeepsIsCounted(t *testing.T) {
	t.Parallel()
	tr := flat("flat", []float64{1, 1, 1, 1})
	s := Run(tr, Config{ColdSlots: 1, Min: 2, Max: 4}, holder{})
	if s.HeldIdle == nil || *s.HeldIdle*SlotsPerHour != 4*(4-2) {
		t.Errorf("held idle %v; want 8 replica-slots: five are held to four, one is needed but two are the least", s.HeldIdle)
	}
	if s := Run(tr, Config{ColdSlots: 1, Min: 2, Max: 4}, naive{}); s.HeldIdle != nil {
		t.Errorf("a policy that does not tell its need: %v; want unknown", *s.HeldIdle)
	}
}
