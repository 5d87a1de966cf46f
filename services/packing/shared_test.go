package packing

import (
	"compress/gzip"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// readFile reads a file of the public instances, which are optional: PLIMSOLL_PACKING_DATA names their directory.
func readFile[T any](t *testing.T, dir, name string, read func(io.Reader) ([]T, error)) []T {
	t.Helper()
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		path += ".gz"
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	out, err := read(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPublicInstancesAreNeverWorseThanTheBestKnownByAHundredth(t *testing.T) {
	dir := os.Getenv("PLIMSOLL_PACKING_DATA")
	if dir == "" {
		t.Skip("PLIMSOLL_PACKING_DATA is not set; it names a directory with pods_*.csv, catalog_*.csv and best_known.csv")
	}
	known := readFile(t, dir, "best_known.csv", func(r io.Reader) ([][]string, error) { return csv.NewReader(r).ReadAll() })
	for _, k := range known[1:] {
		t.Run(k[0]+" on "+k[1], func(t *testing.T) {
			pods, offs := readFile(t, dir, k[0], ReadPods), readFile(t, dir, k[1], ReadOfferings)
			best, err := strconv.ParseFloat(k[3], 64)
			if err != nil {
				t.Fatal(err)
			}
			for _, opts := range []Options{{}, {NoCPUOnGPU: true}} {
				a, err := Pack(pods, offs, opts)
				if err != nil {
					t.Fatal(err)
				}
				if err := Check(pods, offs, opts, a); err != nil {
					t.Fatal(err)
				}
				t.Logf("ban %v: cost %s, bound %s, gap %.4f, best known %.4f, %+v", opts.NoCPUOnGPU, a.Cost, a.Bound, a.Gap(), best, a.Stats)
				if len(pods) >= 2000 && a.Gap() > 0.02 {
					t.Errorf("ban %v: %.4f above the bound", opts.NoCPUOnGPU, a.Gap())
				}
				if !opts.NoCPUOnGPU && (a.Cost.Float() > 1.01*best || a.Bound.Float() > best) {
					t.Errorf("cost %s, bound %s; best known %f", a.Cost, a.Bound, best)
				}
			}
		})
	}
}
