package frame_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"plimsoll.dev/services/wire/frame"
)

var nan = math.NaN()

func TestFramesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]frame.Frame{
		"one value":  {Ticks: []int64{1}, Series: []uint32{1}, Values: [][]float64{{0}}},
		"a constant": {Ticks: []int64{0, 15000, 30000}, Series: []uint32{7}, Values: [][]float64{{40960, 40960, 40960}}},
		"decimals":   {Ticks: []int64{5, 6, 7}, Series: []uint32{0}, Values: [][]float64{{0.1, 0.25, 3}}},
		"the second needs more places than the first": {Ticks: []int64{5, 6, 7}, Series: []uint32{0}, Values: [][]float64{{1, 0.5, 0.123456789}}},
		"full doubles":         {Ticks: []int64{5, 6, 7}, Series: []uint32{0}, Values: [][]float64{{math.Pi, math.E, math.Sqrt2}}},
		"nothing but gaps":     {Ticks: []int64{5, 6}, Series: []uint32{3, 4}, Values: [][]float64{{nan, nan}, {1, 2}}},
		"gaps among doubles":   {Ticks: []int64{5, 6, 7}, Series: []uint32{3, 9}, Values: [][]float64{{nan, math.Pi, nan}, {math.E, nan, 0}}},
		"a constant with gaps": {Ticks: []int64{5, 6, 7}, Series: []uint32{3}, Values: [][]float64{{nan, 2.5, 2.5}}},
		"negative zero, extremes": {Ticks: []int64{-5, 0, math.MaxInt64}, Series: []uint32{0, math.MaxUint32},
			Values: [][]float64{{math.Copysign(0, -1), math.MaxFloat64, 5e-324}, {-1, -1 << 53, 1 << 53}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roundTrip(t, f)
		})
	}
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func roundTrip(t fataler, f frame.Frame) {
	t.Helper()
	payload, err := frame.Encode(f, frame.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := frame.Encode(f, frame.Limits{})
	if err != nil || !bytes.Equal(payload, again) {
		t.Fatalf("the same frame gave other bytes (%v)", err)
	}
	got, err := frame.Decode(payload, frame.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, got, cmpopts.EquateNaNs()); diff != "" {
		t.Fatalf("came back different (-want +got):\n%s", diff)
	}
	for s := range f.Values {
		for i, v := range f.Values[s] {
			if v == v && math.Float64bits(v) != math.Float64bits(got.Values[s][i]) {
				t.Fatalf("series %d tick %d: %x became %x", s, i, math.Float64bits(v), math.Float64bits(got.Values[s][i]))
			}
		}
	}
}

func generate(t *rapid.T) frame.Frame {
	ticks := rapid.SliceOfNDistinct(rapid.Int64Range(-1<<40, 1<<42), 1, 40, rapid.ID).Draw(t, "ticks")
	series := rapid.SliceOfNDistinct(rapid.Uint32(), 1, 30, rapid.ID).Draw(t, "series")
	f := frame.Frame{Ticks: sorted(ticks), Series: sorted(series)}
	value := rapid.OneOf(
		rapid.Just(nan), rapid.Just(1.0),
		rapid.Float64Range(-1e300, 1e300),
		rapid.Map(rapid.IntRange(-100000, 100000), func(n int) float64 { return float64(n) / 1000 }),
		rapid.Map(rapid.Int64(), func(n int64) float64 { return float64(n) }),
	)
	for range f.Series {
		f.Values = append(f.Values, rapid.SliceOfN(value, len(ticks), len(ticks)).Draw(t, "column"))
	}
	return f
}

func sorted[T int64 | uint32](v []T) []T {
	for i := range v {
		for j := i; j > 0 && v[j] < v[j-1]; j-- {
			v[j], v[j-1] = v[j-1], v[j]
		}
	}
	return v
}

func TestAnyFrameComesBackAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, generate(t)) })
}

func TestQuantiseStaysWithinItsRatio(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ratio := rapid.SampledFrom([]float64{1e-4, 1e-3, 1e-2}).Draw(t, "ratio")
		before := rapid.SliceOfN(rapid.OneOf(rapid.Just(nan), rapid.Float64Range(-1e6, 1e6), rapid.Float64Range(0, 1e-3)), 1, 50).Draw(t, "values")
		after := append([]float64(nil), before...)
		frame.Quantise(after, ratio)
		largest := 0.0
		for _, v := range before {
			if a := math.Abs(v); a > largest {
				largest = a
			}
		}
		for i := range before {
			if math.IsNaN(before[i]) != math.IsNaN(after[i]) || math.Abs(before[i]-after[i]) > ratio*largest*(1+1e-9) {
				t.Fatalf("%v became %v with ratio %v and largest %v", before[i], after[i], ratio, largest)
			}
		}
	})
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	small := frame.Limits{MaxTicks: 2, MaxSeries: 2, MaxBytes: 48}
	for name, c := range map[string]struct {
		f    frame.Frame
		want error
	}{
		"no ticks":              {frame.Frame{Series: []uint32{1}, Values: [][]float64{{}}}, frame.ErrMalformed},
		"no series":             {frame.Frame{Ticks: []int64{1}}, frame.ErrMalformed},
		"a column missing":      {frame.Frame{Ticks: []int64{1}, Series: []uint32{1, 2}, Values: [][]float64{{1}}}, frame.ErrMalformed},
		"a short column":        {frame.Frame{Ticks: []int64{1, 2}, Series: []uint32{1}, Values: [][]float64{{1}}}, frame.ErrMalformed},
		"a tick twice":          {frame.Frame{Ticks: []int64{1, 1}, Series: []uint32{1}, Values: [][]float64{{1, 2}}}, frame.ErrMalformed},
		"ids out of order":      {frame.Frame{Ticks: []int64{1}, Series: []uint32{2, 1}, Values: [][]float64{{1}, {2}}}, frame.ErrMalformed},
		"an infinity":           {frame.Frame{Ticks: []int64{1}, Series: []uint32{2}, Values: [][]float64{{math.Inf(-1)}}}, frame.ErrMalformed},
		"too many ticks":        {frame.Frame{Ticks: []int64{1, 2, 3}, Series: []uint32{1}, Values: [][]float64{{1, 2, 3}}}, frame.ErrTooLarge},
		"too many series":       {frame.Frame{Ticks: []int64{1}, Series: []uint32{1, 2, 3}, Values: [][]float64{{1}, {2}, {3}}}, frame.ErrTooLarge},
		"too many cells in all": {frame.Frame{Ticks: []int64{1, 2}, Series: []uint32{1, 2}, Values: [][]float64{{1, 2}, {2, 3}}}, frame.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := frame.Encode(c.f, small); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// pack builds a payload by hand.
func pack(ticks, series, size uint64, body []byte) []byte {
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	b := []byte{'P', 'F', 1}
	b = binary.AppendUvarint(b, ticks)
	b = binary.AppendUvarint(b, series)
	b = binary.AppendUvarint(b, size)
	return z.EncodeAll(body, b)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	body := func(b ...byte) []byte { return pack(2, 1, uint64(len(b)), b) }
	for name, c := range map[string]struct {
		payload []byte
		want    error
	}{
		"nothing":                      {nil, frame.ErrMalformed},
		"another magic":                {[]byte("PGFRAME"), frame.ErrMalformed},
		"a later version":              {[]byte{'P', 'F', 2, 1, 1, 1}, frame.ErrMalformed},
		"a head without end":           {[]byte{'P', 'F', 1, 0x80}, frame.ErrMalformed},
		"no zstd":                      {[]byte{'P', 'F', 1, 1, 1, 4, 1, 2, 3, 4}, frame.ErrMalformed},
		"zero series":                  {pack(1, 0, 1, []byte{0}), frame.ErrMalformed},
		"billions of ticks":            {pack(1<<60, 1, 1, []byte{0}), frame.ErrTooLarge},
		"counts whose product wraps":   {pack(1<<32, 1<<32, 1, []byte{0}), frame.ErrTooLarge},
		"a body longer than it can be": {pack(1, 1, 1<<40, []byte{0}), frame.ErrMalformed},
		"a bomb behind a small size":   {pack(2, 1, 6, make([]byte, 1<<20)), frame.ErrMalformed},
		"a body shorter than it says":  {pack(2, 1, 9, []byte{2, 2, 1, 0}), frame.ErrMalformed},
		"a tick that stands still":     {body(2, 0, 1, 0, 2, 2), frame.ErrMalformed},
		"an unknown coding":            {body(2, 2, 1, 0x10, 2, 2), frame.ErrMalformed},
		"values cut off":               {body(2, 2, 1, 0, 2), frame.ErrMalformed},
		"bytes left over":              {body(2, 2, 1, 0, 2, 2, 2), frame.ErrMalformed},
		"a NaN among floats":           {body(append([]byte{2, 2, 1, 0x20}, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0, 0x7f, 0)...), frame.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := frame.Decode(c.payload, frame.Limits{}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if f, err := frame.Decode(body(2, 2, 1, 0, 2, 2), frame.Limits{}); err != nil || f.Values[0][1] != 2 {
		t.Errorf("the hand-made frame itself does not decode: %v %v", f, err)
	}
}

// Whatever bytes arrive: no panic, memory within the limits, and what is accepted can be packed again to the same values.
func FuzzDecode(f *testing.F) {
	for _, seed := range []frame.Frame{realistic(3, 4), realistic(1, 60),
		{Ticks: []int64{1, 2}, Series: []uint32{1}, Values: [][]float64{{nan, math.Pi}}}} {
		payload, err := frame.Encode(seed, frame.Limits{})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
		raw, err := frame.Decode(payload, frame.Limits{})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(pack(uint64(len(raw.Ticks)), uint64(len(raw.Series)), 5, []byte{1, 2, 3, 4, 5}))
	}
	limits := frame.Limits{MaxTicks: 256, MaxSeries: 256, MaxBytes: 64 << 10}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := frame.Decode(payload, limits)
		if err != nil {
			if !errors.Is(err, frame.ErrMalformed) && !errors.Is(err, frame.ErrTooLarge) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again, err := frame.Encode(got, limits)
		if err != nil {
			t.Fatalf("accepted, but cannot be packed: %v", err)
		}
		back, err := frame.Decode(again, limits)
		if err != nil || !cmp.Equal(got, back, cmpopts.EquateNaNs()) {
			t.Fatalf("packed again it is another frame: %v", err)
		}
	})
}

// A decoder that is used again gives the same as a fresh one.
func TestADecoderCanBeUsedAgain(t *testing.T) {
	t.Parallel()
	d := frame.NewDecoder()
	for _, gpus := range []int{5, 1, 9, 2} {
		want := realistic(gpus, 4*gpus)
		payload, err := frame.Encode(want, frame.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Decode(payload[:len(payload)-3], frame.Limits{}); err == nil {
			t.Fatal("a cut frame was accepted")
		}
		got, err := d.Decode(payload, frame.Limits{})
		if err != nil || !cmp.Equal(want, got, cmpopts.EquateNaNs()) {
			t.Fatalf("%d GPUs came back different: %v", gpus, err)
		}
	}
}

// realistic makes a frame as a DCGM exporter would fill it: fourteen fields per GPU, the decimals that they have there.
func realistic(gpus, ticks int) frame.Frame {
	rng := rand.New(rand.NewSource(int64(gpus)*1000 + int64(ticks)))
	f := frame.Frame{}
	for i := range ticks {
		f.Ticks = append(f.Ticks, 1_795_000_000_000+15_000*int64(i))
	}
	fields := []func(prev float64) float64{
		func(p float64) float64 { return step(rng, p, 100, 3, 0) },       // utilisation, whole percent
		func(p float64) float64 { return step(rng, p, 1, 0.03, 6) },      // sm_active
		func(p float64) float64 { return step(rng, p, 1, 0.03, 6) },      // sm_occupancy
		func(p float64) float64 { return step(rng, p, 1, 0.02, 6) },      // tensor_active
		func(p float64) float64 { return step(rng, p, 1, 0.02, 6) },      // dram_active
		func(p float64) float64 { return step(rng, p, 700, 12, 3) },      // power, W
		func(p float64) float64 { return step(rng, p, 90, 0.6, 0) },      // temperature
		func(p float64) float64 { return step(rng, p, 90, 0.4, 0) },      // memory temperature
		func(p float64) float64 { return step(rng, p, 1980, 15, 0) },     // SM clock
		func(float64) float64 { return 2619 },                            // memory clock
		func(p float64) float64 { return step(rng, p, 81559, 40, 0) },    // memory used, MiB
		func(float64) float64 { return 0 },                               // XID
		func(p float64) float64 { return p + float64(rng.Intn(90_000)) }, // energy counter, mJ
		func(p float64) float64 { return step(rng, p, 3e9, 1e7, 0) },     // NVLink bytes per second
	}
	for g := range gpus {
		for k, next := range fields {
			v := rng.Float64()
			if k == 10 {
				v = 70000
			}
			col := make([]float64, ticks)
			for i := range col {
				v = next(v)
				col[i] = v
			}
			if g%37 == 5 && k == 1 {
				col[rng.Intn(ticks)] = nan
			}
			f.Series, f.Values = append(f.Series, uint32(len(f.Series)+1)), append(f.Values, col)
		}
	}
	return f
}

func step(rng *rand.Rand, p, top, sigma float64, places int) float64 {
	p10 := math.Pow(10, float64(places))
	v := math.Max(0, math.Min(top, p+rng.NormFloat64()*sigma))
	return math.Round(v*p10) / p10
}

func benchmark(b *testing.B, run func(b *testing.B, f frame.Frame, payload []byte)) {
	for name, f := range map[string]frame.Frame{"500gpu-4ticks": realistic(500, 4), "500gpu-60ticks": realistic(500, 60), "30gpu-20ticks": realistic(30, 20)} {
		payload, err := frame.Encode(f, frame.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			samples := float64(f.Samples())
			run(b, f, payload)
			b.ReportMetric(samples*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msamples/s")
			b.ReportMetric(float64(len(payload))/samples, "bytes/sample")
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	benchmark(b, func(b *testing.B, f frame.Frame, _ []byte) {
		for b.Loop() {
			if _, err := frame.Encode(f, frame.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	d := frame.NewDecoder()
	benchmark(b, func(b *testing.B, _ frame.Frame, payload []byte) {
		for b.Loop() {
			if _, err := d.Decode(payload, frame.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncodeQuantised(b *testing.B) {
	benchmark(b, func(b *testing.B, f frame.Frame, _ []byte) {
		for _, col := range f.Values {
			frame.Quantise(col, 1e-3)
		}
		var payload []byte
		for b.Loop() {
			var err error
			if payload, err = frame.Encode(f, frame.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(payload))/float64(f.Samples()), "quantised-bytes/sample")
	})
}
