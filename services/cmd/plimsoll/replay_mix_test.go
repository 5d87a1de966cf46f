package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/services/lab"
)

func quietTrace(name string, days int) *lab.Trace {
	n := days * lab.SlotsPerDay
	t := &lab.Trace{Name: name, Rho: make([]float64, n), Requests: make([]float64, n), Share: 0.05, From: n / 2, To: n}
	for s := range n {
		t.Rho[s], t.Requests[s] = 2.5+float64(s%7)/7, 60
	}
	return t
}

func TestMarketSectionsComeForTheLoadsTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	m := newMixing("", 1)
	m.keep(quietTrace("somebody's own", 2))
	if err := m.score(context.Background()); err != nil || m.Mixed != nil || m.Pools != nil {
		t.Fatalf("a load that no section is made of: %v, %v, %v", m.Mixed, m.Pools, err)
	}
	for _, name := range pooledLoads[1] {
		m.keep(quietTrace(name, 2))
	}
	if err := m.score(context.Background()); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := m.write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mixed: daily, 6 Spot pools, 3 windows", "spothedge+2", lab.PlimsollMix, "pool + mix: steady + daily + bursty", lab.PooledMix, "siloed hpa-70, on demand"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, r := range m.Mixed[0].Rows {
		if r.Ratio < 1 && r.LateRate == 0 {
			t.Errorf("%s serves everybody on time for %.3f of the bound", r.Policy, r.Ratio)
		}
	}
}

func TestMissingMarketDataIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := newMixing(dir, 1)
	m.keep(quietTrace("tenA", 2))
	if err := m.score(context.Background()); err != nil || !strings.Contains(m.LeftOut, "skypilot_spot_traces_rle.csv.gz") {
		t.Errorf("no probes: %v, %q", err, m.LeftOut)
	}
	for _, path := range (&marketFiles{dir: dir}).paths() {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("kind,zone\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.score(context.Background()); err == nil || !strings.Contains(err.Error(), "row 1") {
		t.Errorf("other columns: %v", err)
	}
}
