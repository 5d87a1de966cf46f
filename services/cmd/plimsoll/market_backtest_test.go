package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/services/availability/backtest"
)

// looksFile is a trace of two zones that come and go in a rhythm, with one bad row.
func looksFile(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("kind,nodes,cloud,campaign_start,zone,device,gap_seconds,offset_seconds,duration_seconds,value\n")
	for i, zone := range []string{"us-east-1a", "us-east-1b"} {
		for k := range 60 {
			fmt.Fprintf(&b, "availability,1-node,aws,2024-01-01,%s,v100_1,300,%d,14400,%d\n", zone, k*14400, (k/(i+1))%2)
		}
	}
	b.WriteString("availability,1-node,aws,2024-01-01,us-east-1a,v100_1,300,-5,300,1\n")
	path := filepath.Join(t.TempDir(), "looks.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBacktestCommand(t *testing.T) {
	t.Parallel()
	path := looksFile(t)
	for _, c := range []struct {
		name, args string
		code       int
		out, err   string
	}{
		{"table", "-availability " + path, 0, "Reliability of \"survives\"", "row 122 left out: offset_seconds"},
		{"ideas", "-ideas -availability " + path, 0, "two states without memory", ""},
		{"seldom looks", "-every 30m -availability " + path, 0, "2024-01-01 availability 1-node aws v100_1", ""},
		{"no file", "-availability " + path + ".nowhere", 2, "", "open the trace"},
		{"no flag", "", 2, "", "name a trace"},
		{"another file", "-availability market.go", 2, "", "not a table of availability"},
		{"absurd", "-every 48h -availability " + path, 2, "", "-every"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := run(context.Background(), append([]string{"market", "backtest"}, strings.Fields(c.args)...), &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.err) {
				t.Errorf("exit %d, want %d\n%s\n%s", code, c.code, out.String(), errs.String())
			}
		})
	}
}

func TestBacktestPrintsJSON(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"market", "backtest", "-json", "-fit", "-availability", looksFile(t)}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var r backtest.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.BadCount != 1 || len(r.All) != 4 || r.FitTo != "2024-01-06T00:00:00Z" || len(r.All[0].Reliability) == 0 {
		t.Errorf("%+v", r)
	}
}
