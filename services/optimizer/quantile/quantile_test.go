package quantile_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/optimizer/quantile"
)

// small has few shadows, so that a property can be tried on long runs.
func small() quantile.Params {
	return quantile.Params{ColdSlots: 4, Quantiles: []float64{0.8, 0.95, 0.99}, Holds: []int{4, 40}}
}

// wave is a service under a daily wave with noise and steps; it is in its replicas or in a queue.
type wave struct {
	t     *rapid.T
	slot  int
	level float64
}

func (w *wave) next() quantile.Gauges {
	w.slot++
	if w.slot%40 == 1 {
		w.level = rapid.Float64Range(0, 30).Draw(w.t, "level")
	}
	busy := max(0, w.level+3*math.Sin(float64(w.slot)/200)+math.Mod(float64(w.slot)*0.618, 1))
	queue := 0.0
	if w.slot%97 > 90 {
		queue = 20 * busy
	}
	return quantile.Gauges{Busy: busy, Queue: queue, Rate: 3 * busy}
}

func TestAKeptPolicyGoesOnExactlyAsItWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := small()
		a, b := quantile.New(p), quantile.New(p)
		begin := rapid.Int64Range(0, 200_000_000).Draw(t, "begin")
		a.Begin(begin)
		b.Begin(begin)
		w := &wave{t: t}
		for range rapid.IntRange(1, 6).Draw(t, "saves") {
			if gap := rapid.Int64Range(-3, 500).Draw(t, "gap"); gap > 0 {
				a.Skip(gap)
				b.Skip(gap)
			}
			for range rapid.IntRange(0, 700).Draw(t, "slots") {
				g := w.next()
				if x, y := a.Step(g), b.Step(g); x != y {
					t.Fatalf("slot %d: %d replicas, and %d after it was kept", w.slot, x, y)
				}
			}
			if x, y := a.Outlook(), b.Outlook(); !sameOutlook(x, y) {
				t.Fatalf("outlook %+v, and %+v after it was kept", x, y)
			}
			kept := b.Encode()
			var err error
			if b, err = quantile.Decode(kept, p); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(kept, b.Encode()) {
				t.Fatal("it is kept in other bytes after reading it back")
			}
		}
		if !bytes.Equal(a.Encode(), b.Encode()) {
			t.Fatal("the two differ at the end")
		}
	})
}

func sameOutlook(a, b quantile.Outlook) bool {
	ra, rb := a.Runner, b.Runner
	a.Runner, b.Runner = nil, nil
	return a == b && (ra == nil) == (rb == nil) && (ra == nil || *ra == *rb)
}

func TestAWrongKeptPolicyIsRefused(t *testing.T) {
	t.Parallel()
	c := quantile.New(small())
	for i := range 1000 {
		c.Step(quantile.Gauges{Busy: float64(i % 17), Rate: 5})
	}
	good := c.Encode()
	with := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	other := small()
	other.ColdSlots = 5
	tests := []struct {
		name string
		kept []byte
		par  quantile.Params
		want error
	}{
		{"nothing", nil, small(), quantile.ErrCorrupt},
		{"cut short", good[:len(good)-1], small(), quantile.ErrCorrupt},
		{"longer than it was", append(bytes.Clone(good), 0), small(), quantile.ErrCorrupt},
		{"one bit flipped", with(len(good)/2, good[len(good)/2]^4), small(), quantile.ErrCorrupt},
		{"far too long", make([]byte, quantile.MaxEncoded+1), small(), quantile.ErrCorrupt},
		{"of a newer version", quantile.Resum(with(1, 99)), small(), quantile.ErrVersion},
		{"sound sum, content cut short", quantile.Resum(bytes.Clone(good[:len(good)-9])), small(), quantile.ErrCorrupt},
		{"for another start", good, other, quantile.ErrShape},
		{"for other shadows", good, quantile.Params{ColdSlots: 4}, quantile.ErrShape},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := quantile.Decode(tc.kept, tc.par); !errors.Is(err, tc.want) {
				t.Errorf("%v; want %v", err, tc.want)
			}
		})
	}
}

func TestAnyBytesAreReadOrRefused(t *testing.T) {
	t.Parallel()
	c := quantile.New(small())
	for i := range 300 {
		c.Step(quantile.Gauges{Busy: float64(i % 17), Rate: 5})
	}
	good := c.Encode()
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Clone(good)
		for range rapid.IntRange(1, 8).Draw(t, "bytes") {
			b[rapid.IntRange(2, len(b)-5).Draw(t, "at")] = rapid.Byte().Draw(t, "to")
		}
		p, err := quantile.Decode(quantile.Resum(b), small())
		if err != nil {
			return
		}
		for range 50 { // what is let in must not break
			if n := p.Step(quantile.Gauges{Busy: 3, Rate: 4}); n < 1 || n > 100_000 {
				t.Fatalf("%d replicas", n)
			}
		}
	})
}

func TestTheSizeOfWhatIsKept(t *testing.T) {
	t.Parallel()
	c := quantile.New(quantile.Params{})
	c.Begin(119_000_000)
	state := uint64(1)
	for i := range 3 * 5760 {
		state = state*6364136223846793005 + 1442695040888963407
		noise := float64(state>>40) / (1 << 24)
		c.Step(quantile.Gauges{Busy: 10 + 5*math.Sin(float64(i)/900) + 3*noise, Rate: 20})
	}
	n := len(c.Encode())
	t.Logf("%d bytes after three days", n)
	if n > 80_000 {
		t.Errorf("%d bytes; want at most 80,000", n)
	}
}

func TestAGapTeachesNothing(t *testing.T) {
	t.Parallel()
	c := quantile.New(quantile.Params{})
	for range 500 {
		c.Step(quantile.Gauges{Busy: 10, Rate: 10})
	}
	before := c.Outlook()
	c.Skip(240)
	if got := c.Step(quantile.Gauges{Busy: 10, Rate: 10}); got > before.Want+1 {
		t.Errorf("%d replicas after an hour of silence; want about the %d before it", got, before.Want)
	}
	after := c.Outlook()
	if after.Slot != before.Slot+241 || after.Demand != 10 {
		t.Errorf("at slot %d with a demand of %v; want slot %d and 10", after.Slot, after.Demand, before.Slot+241)
	}
	c.Skip(1 << 40) // bounded work, whatever the clock says
	if n := len(c.Encode()); n > quantile.MaxEncoded {
		t.Errorf("%d bytes after a gap", n)
	}
}

func BenchmarkStep(b *testing.B) {
	c := quantile.New(quantile.Params{})
	for i := range b.N {
		c.Step(quantile.Gauges{Busy: 10 + float64(i%13), Rate: 20})
	}
}

func BenchmarkKeep(b *testing.B) {
	c := quantile.New(quantile.Params{})
	for i := range 20_000 {
		c.Step(quantile.Gauges{Busy: 10 + float64(i%13), Rate: 20})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := quantile.Decode(c.Encode(), quantile.Params{}); err != nil {
			b.Fatal(err)
		}
	}
}
