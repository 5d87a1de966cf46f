package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"path/filepath"
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
