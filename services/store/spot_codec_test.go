package store

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/market"
)

func TestSpotChunksComeBackExactly(t *testing.T) {
	t.Parallel()
	month := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		price := func(name string) market.Listed {
			if rapid.IntRange(0, 9).Draw(t, name+" gone") == 0 {
				return 0
			}
			unit := rapid.SampledFrom([]int64{1, 1000, 100_000, 1_000_000_000}).Draw(t, name+" unit")
			return market.Listed(unit * rapid.Int64Range(1, 90_000).Draw(t, name))
		}
		in := make([]market.SpotChange, 0, n)
		at, list := month.Unix()-1, price("list")
		for range n {
			at += rapid.Int64Range(1, 5000).Draw(t, "seconds")
			if rapid.IntRange(0, 20).Draw(t, "new list") == 0 {
				list = price("list")
			}
			in = append(in, market.SpotChange{At: at, Spot: price("spot"), OnDemand: list})
		}
		body, err := packSpot(month, in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := unpackSpot(month, body, nil)
		if err != nil || !slices.Equal(in, out) {
			t.Fatalf("%v\n%v\n%v", err, in, out)
		}
	})
}

func TestSpotChunksOfAnythingElseAreRefused(t *testing.T) {
	t.Parallel()
	month := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	at := month.Unix()
	for name, changes := range map[string][]market.SpotChange{
		"nothing":             {},
		"two of one second":   {{At: at, Spot: 1}, {At: at, Spot: 2}},
		"time runs back":      {{At: at + 9, Spot: 1}, {At: at + 3, Spot: 2}},
		"of the month before": {{At: at - 5, Spot: 1}},
	} {
		if _, err := packSpot(month, changes); err == nil {
			t.Errorf("%s was packed", name)
		}
	}
	good, err := packSpot(month, []market.SpotChange{{At: at, Spot: 5, OnDemand: 9}, {At: at + 60, Spot: 6, OnDemand: 9}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range good { // cut anywhere
		if _, err := unpackSpot(month, good[:i], nil); err == nil {
			t.Errorf("%d of %d bytes were unpacked", i, len(good))
		}
	}
	if _, err := unpackSpot(month, append(slices.Clone(good), 0), nil); err == nil {
		t.Error("a byte too many was unpacked")
	}
	// A million changes in a few bytes: refused before memory is taken.
	if _, err := unpackSpot(month, []byte{spotPlain, 0xc0, 0x84, 0x3d, 0, 1, 1}, nil); err == nil {
		t.Error("a count without changes was unpacked")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := slices.Clone(good)
		for range 1 + r.IntN(3) {
			b[r.IntN(len(b))] = byte(r.IntN(256))
		}
		out, err := unpackSpot(month, b, nil) // any answer but a panic or nonsense
		for _, c := range out {
			if err == nil && (c.Spot < 0 || c.OnDemand < 0) {
				t.Fatalf("%x became %+v", b, out)
			}
		}
	}
}

func BenchmarkSpotChunk(b *testing.B) {
	month := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	r := rand.New(rand.NewPCG(1, 2))
	var in []market.SpotChange
	for at, price := month.Unix(), int64(4000); at < month.Unix()+28*86400; at += 25000 + r.Int64N(600) {
		price += r.Int64N(41) - 20
		in = append(in, market.SpotChange{At: at, Spot: market.Listed(price * 100_000), OnDemand: 1_006_000_000})
	}
	body, err := packSpot(month, in)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("pack", func(b *testing.B) {
		for b.Loop() {
			if _, err := packSpot(month, in); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(body))/float64(len(in)), "bytes/change")
	})
	b.Run("unpack", func(b *testing.B) {
		var out []market.SpotChange
		for b.Loop() {
			if out, err = unpackSpot(month, body, out[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
