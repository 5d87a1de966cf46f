package lab

import (
	"math"
	"reflect"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// builtin returns the small set, drawn once per test binary.
func builtin(t *testing.T) []*Trace {
	t.Helper()
	out, err := drawnOnce()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var drawnOnce = sync.OnceValues(func() ([]*Trace, error) { return Builtin(1) })

// scored is every policy of the scoreboard on the small set, played once per test binary.
func scored(t *testing.T) *Board {
	t.Helper()
	out, err := scoredOnce()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var scoredOnce = sync.OnceValues(func() (*Board, error) {
	b := &Board{}
	traces, err := drawnOnce()
	for i := 0; err == nil && i < len(traces); i++ {
		err = b.Add(traces[i], Policies())
	}
	return b, err
})

// script is a policy that asks for given counts, the last one for ever.
type script []int

func (p script) Step(o *Observation) int { return p[min(o.Slot, len(p)-1)] }

func TestReplicasServeAfterTheirStartAndArePaidFromTheOrder(t *testing.T) {
	t.Parallel()
	tr := flat("steady", make([]float64, 12))
	w := NewWorld(tr, Config{ColdSlots: 3, Min: 1, Max: 10}, 2)
	asked := script{2, 5, 5, 4, 4, 4, 4, 1, 1, 3, 3, 3}
	var ready, starting []int
	for !w.Over() {
		o := w.Advance()
		ready, starting = append(ready, o.Ready), append(starting, o.Starting)
		w.Order(asked.Step(&o))
	}
	// Slot 1 ends with an order of three; one of them is taken back before it starts to serve; slot 7 lets three go at once.
	wantReady := []int{2, 2, 2, 2, 2, 4, 4, 4, 1, 1, 1, 1}
	wantStarting := []int{0, 0, 3, 3, 2, 0, 0, 0, 0, 0, 2, 2}
	for i := range ready {
		if ready[i] != wantReady[i] || starting[i] != wantStarting[i] {
			t.Fatalf("slot %d: %d ready, %d starting; want %d, %d", i, ready[i], starting[i], wantReady[i], wantStarting[i])
		}
	}
	if got := w.Score().Paid * SlotsPerHour; got != 2+2+5+5+4+4+4+4+1+1+3+3 {
		t.Errorf("paid %v replica-slots", got)
	}
}

func TestLatenessByHand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		rho         []float64
		ready       int
		late, over  float64 // shares of all requests
		lastBacklog float64
	}{
		{"exactly full is never late", []float64{2, 2, 2}, 2, 0, 0, 0},
		// One slot at 3 on 2 replicas: 15 replica-seconds behind at its end, that is 7.5 s. Those who come after 10 s wait over 5 s; then the
		// queue drains with nobody behind.
		{"half over for a slot: the last third waits", []float64{3, 0, 0, 0, 0}, 2, 1.0 / 3, 0, 0},
		// Twice the capacity: the wait grows by a second per second; at 5 s it is over the limit, for ten of fifteen seconds, and at the
		// end everybody waits 15 s.
		{"twice the capacity", []float64{2, 0, 0, 0}, 1, 2.0 / 3, 0, 0},
		// Ten slots at twice the capacity: the wait is t seconds at t, so 145 of 150 s are late; over a minute from 60 s on.
		{"twice the capacity for long", []float64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1, 145.0 / 150, 90.0 / 150, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tr := flat("hand", tc.rho)
			w := NewWorld(tr, Config{ColdSlots: 3, Min: 1, Max: 10}, tc.ready)
			for !w.Over() {
				w.Advance()
				w.Order(tc.ready)
			}
			s := w.Score()
			if math.Abs(s.LateRatio()-tc.late) > 1e-9 || math.Abs(s.TimeoutRatio()-tc.over) > 1e-9 || math.Abs(w.backlog-tc.lastBacklog) > 1e-9 {
				t.Errorf("late %v, over a minute %v, backlog %v; want %v, %v, %v", s.LateRatio(), s.TimeoutRatio(), w.backlog, tc.late, tc.over, tc.lastBacklog)
			}
		})
	}
}

func TestWorkIsNeitherLostNorInvented(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(r, "slots")
		rho := make([]float64, n)
		for i := range rho {
			rho[i] = rapid.Float64Range(0, 6).Draw(r, "demand")
		}
		tr := flat("any", rho)
		if tr.Peak() == 0 {
			return
		}
		w := NewWorld(tr, Config{ColdSlots: 2, Min: 1, Max: 9}, 1)
		done, demand := 0.0, 0.0
		for !w.Over() {
			o := w.Advance()
			done += o.Busy * SlotSeconds
			demand += rho[o.Slot] * SlotSeconds
			if o.Busy > float64(o.Ready)+1e-9 {
				r.Fatalf("slot %d: %v of %d replicas busy", o.Slot, o.Busy, o.Ready)
			}
			if math.Abs(demand-done-w.backlog) > 1e-6 {
				r.Fatalf("slot %d: demand %v, done %v, backlog %v", o.Slot, demand, done, w.backlog)
			}
			if o.Queue < 0 || w.backlog < 1e-9 && o.Queue > 1e-6 || o.Queue < 1e-9 && w.backlog > 1e-6 { // what lies between is rounding
				r.Fatalf("slot %d: %v wait with a backlog of %v", o.Slot, o.Queue, w.backlog)
			}
			w.Order(rapid.IntRange(0, 12).Draw(r, "asked"))
		}
		if s := w.Score(); s.Late > s.Requests+1e-6 || s.TimedOut > s.Late+1e-6 {
			r.Fatalf("%v requests, %v late, %v over a minute", s.Requests, s.Late, s.TimedOut)
		}
	})
}

func TestBoundOracleAndPolicies(t *testing.T) {
	t.Parallel()
	for _, tr := range builtin(t) {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			board := scored(t)
			oracle, _ := board.Row(tr.Name, "oracle")
			if oracle.Ratio < 1 || oracle.LateRate > 1e-6 {
				t.Errorf("the oracle costs %.3f of the bound with %v late", oracle.Ratio, oracle.Late)
			}
			for _, r := range board.Rows {
				if r.Workload != tr.Name {
					continue
				}
				if r.LateRate == 0 && r.Ratio < 1-1e-9 {
					t.Errorf("%s serves everybody on time for %.4f of the bound", r.Policy, r.Ratio)
				}
				if r.LateRate <= 1e-4 && r.Ratio < oracle.Ratio { // who lets requests wait may be cheaper
					t.Errorf("%s costs %.4f of the bound, less than the oracle's %.4f", r.Policy, r.Ratio, oracle.Ratio)
				}
			}
		})
	}
}

func TestScoresAreTheSameTwice(t *testing.T) {
	t.Parallel()
	a := builtin(t)[2]
	again, err := Builtin(1)
	if err != nil {
		t.Fatal(err)
	}
	b := again[2]
	one, two := Board{}, Board{}
	for _, x := range []struct {
		b *Board
		t *Trace
	}{{&one, a}, {&two, b}} {
		if err := x.b.Add(x.t, Policies()); err != nil {
			t.Fatal(err)
		}
	}
	if len(one.Rows) != len(two.Rows) {
		t.Fatal("other rows")
	}
	for i := range one.Rows {
		if !reflect.DeepEqual(one.Rows[i], two.Rows[i]) {
			t.Errorf("%v and then %v", one.Rows[i], two.Rows[i])
		}
	}
}
