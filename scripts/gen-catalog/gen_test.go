package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Machines that are priced by a rule give the rule back, though a tenth of them are priced by a mood.
func TestFitFindsTheRule(t *testing.T) {
	var types []*machine
	for i := range 200 {
		cores, gib, gpus := int64(2<<(i%6)), int64(4<<(i%8)), int64(i%3)
		m := &machine{cloud: "x", cpuMilli: cores * 1000, memMiB: gib * 1024}
		dollars := 0.03*float64(cores) + 0.005*float64(gib)
		if gpus > 0 {
			m.gpu, m.gpus = "G", gpus
			dollars += 2 * float64(gpus)
		}
		if i%10 == 0 {
			dollars *= 3
		}
		m.prices = []price{{region: "r", onDemand: int64(dollars * nanos)}}
		types = append(types, m)
	}
	want := map[string]float64{"cpu": 0.03, "gib": 0.005, "G": 2}
	for _, w := range fit("x", types) {
		if got := float64(w.perHour) / nanos; math.Abs(got-want[w.what]) > 0.02*want[w.what] {
			t.Errorf("%s = %v, want %v", w.what, got, want[w.what])
		}
	}
}

func TestNoCoefficientIsNegative(t *testing.T) {
	// The more memory, the cheaper: least squares alone would give memory a negative price.
	var types []*machine
	for i := int64(1); i <= 20; i++ {
		types = append(types, &machine{cloud: "x", cpuMilli: 8000, memMiB: i * 4096, prices: []price{{region: "r", onDemand: (100 - i) * nanos}}})
	}
	for _, w := range fit("x", types) {
		if w.perHour < 0 {
			t.Errorf("%s = %d", w.what, w.perHour)
		}
	}
}

func TestUnknownIsNotZero(t *testing.T) {
	for n, want := range map[int64]string{0: "-", 1: "0.000000001", nanos: "1", 1_006_000_000: "1.006", 100 * nanos: "100"} {
		if got := nano(n); got != want {
			t.Errorf("nano(%d) = %q, want %q", n, got, want)
		}
	}
}

// The catalogue in the binary is what these facts and this program make.
func TestTheCatalogueIsReproduced(t *testing.T) {
	facts := os.Getenv("PLIMSOLL_CATALOG_FACTS")
	if facts == "" {
		t.Skip("set PLIMSOLL_CATALOG_FACTS to the folder with catalog/ and availability/ to compare")
	}
	fresh := filepath.Join(t.TempDir(), "catalogue.tsv.gz")
	if err := run(facts, fresh); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(unpack(t, fresh), unpack(t, filepath.Join("..", "..", "services", "market", "catalog", "catalogue.tsv.gz"))) {
		t.Error("the catalogue in the repository is not what the facts give: run gen-catalog")
	}
}

func unpack(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// regionsOf makes prices of a type, on demand and Spot, in regions a, b, c, ...
func regionsOf(prices ...[2]int64) []price {
	out := make([]price, len(prices))
	for i, p := range prices {
		out[i] = price{region: string(rune('a' + i)), onDemand: p[0], spot: p[1]}
	}
	return out
}

func TestGuardQuarantinesWhatNobodyShouldBelieve(t *testing.T) {
	for name, c := range map[string]struct {
		prices []price
		want   []doubt
	}{
		"prices that agree stay":               {regionsOf([2]int64{100, 50}, [2]int64{110, 40}, [2]int64{90, 20}, [2]int64{130, 60}, [2]int64{100, 55}), nil},
		"four are too few to judge each other": {regionsOf([2]int64{100, 50}, [2]int64{110, 40}, [2]int64{90, 50}, [2]int64{90, 9}), nil},
		"one far below the others": {
			regionsOf([2]int64{100, 50}, [2]int64{100, 50}, [2]int64{100, 50}, [2]int64{100, 10}, [2]int64{100, 50}), []doubt{{"d", "spot", 10, 50, "off_peers"}}},
		"dearer than its peers, but below on demand, tempts nobody": {
			regionsOf([2]int64{100, 9}, [2]int64{100, 9}, [2]int64{100, 9}, [2]int64{100, 45}, [2]int64{100, 9}), nil},
		"another region is judged, and judges none": {
			regionsOf([2]int64{100, 50}, [2]int64{100, 50}, [2]int64{100, 50}, [2]int64{100, 50}, [2]int64{100, 50}, [2]int64{100, 10}, [2]int64{100, 10}, [2]int64{100, 10}, [2]int64{100, 10}, [2]int64{100, 10}, [2]int64{100, 10}, [2]int64{100, 10}),
			[]doubt{{"f", "spot", 10, 50, "off_peers"}, {"g", "spot", 10, 50, "off_peers"}, {"h", "spot", 10, 50, "off_peers"}, {"i", "spot", 10, 50, "off_peers"}, {"j", "spot", 10, 50, "off_peers"}, {"k", "spot", 10, 50, "off_peers"}, {"l", "spot", 10, 50, "off_peers"}}},
		"Spot above on demand":    {regionsOf([2]int64{100, 101}), []doubt{{"a", "spot", 101, 100, "above_on_demand"}}},
		"Spot for nearly nothing": {regionsOf([2]int64{100, 4}), []doubt{{"a", "spot", 4, 100, "off_on_demand"}}},
		"a list price ten times too high takes its Spot price out of the comparison": {
			regionsOf([2]int64{100, 50}, [2]int64{100, 50}, [2]int64{1000, 50}, [2]int64{100, 50}, [2]int64{100, 50}), []doubt{{"c", "on_demand", 1000, 100, "off_peers"}}},
		"a list price ten times too low": {
			regionsOf([2]int64{100, 0}, [2]int64{100, 0}, [2]int64{10, 0}, [2]int64{100, 0}, [2]int64{100, 0}), []doubt{{"c", "on_demand", 10, 100, "off_peers"}}},
		"what is unknown is not doubted": {regionsOf([2]int64{0, 5}, [2]int64{100, 0}, [2]int64{0, 0}), nil},
	} {
		got := judge(c.prices, words("a b c d e"))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		for _, d := range got {
			for _, p := range c.prices {
				if p.region == d.region && (d.kind == "spot" && p.spot != 0 || d.kind == "on_demand" && p.onDemand != 0) {
					t.Errorf("%s: the price is still there", name)
				}
			}
		}
	}
}

func TestPodsFollowTheLadderOrTheirOwnWord(t *testing.T) {
	for name, want := range map[string]int64{"m5.large": 29, "c7i.metal-48xl": 737, "c6in.32xlarge": 394, "p5.48xlarge": 100, "g6e.48xlarge": 492, "i3en.3xlarge": 58} {
		if got := podsOf(name); got == nil || *got != want {
			t.Errorf("%s: %v, want %d", name, got, want)
		}
	}
	for _, name := range []string{"p6-b200.48xlarge", "m5.colossal", "zz9.large"} {
		if got := podsOf(name); got != nil {
			t.Errorf("%s: %d pods, and nobody told", name, *got)
		}
	}
}
