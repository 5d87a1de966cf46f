package packing

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The public instances are optional: PLIMSOLL_PACKING_DATA names their directory.
func readFile[T any](t testing.TB, name string, read func(io.Reader) ([]T, error)) []T {
	t.Helper()
	dir := os.Getenv("PLIMSOLL_PACKING_DATA")
	if dir == "" {
		t.Skip("PLIMSOLL_PACKING_DATA is not set; it names a directory of packing instances")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
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

// TestTry follows one instance: PF and CF name its files.
func cpuMS() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

func TestTry(t *testing.T) {
	pf, cf := os.Getenv("PF"), os.Getenv("CF")
	if pf == "" {
		t.Skip()
	}
	pods, offs := readFile(t, pf, ReadPods), readFile(t, cf, ReadOfferings)
	start := time.Now()
	base := cpuMS()
	opts := Options{ShareGPUs: os.Getenv("SHARE") != "", NoCPUOnGPU: os.Getenv("BAN") != ""}
	opts.trace = func(what string, s *solver) {
		t.Logf("%8.0fms %-10s lp %.3f proof %.3f best %.3f (%.4f) rounds %d cols %d moves %d", cpuMS()-base, what, s.lp, s.proofValue(), s.cost, s.cost/max(1e-9, s.proofValue()), s.stats.Rounds, s.stats.Columns, s.stats.Moves)
	}
	a, err := Pack(pods, offs, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cost %s bound %s gap %.4f unplaced %d nodes %d stats %+v in %v", a.Cost, a.Bound, a.Gap(), len(a.Unplaced), len(a.Nodes), a.Stats, time.Since(start))
	if err := Check(pods, offs, opts, a); err != nil {
		t.Error(err)
	}
}
