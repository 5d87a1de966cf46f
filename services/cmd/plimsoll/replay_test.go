package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/services/lab"
)

func replayed(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), append([]string{"replay"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestReplayScoresTheBuiltInLoadsTheSameTwice(t *testing.T) {
	t.Parallel()
	args := []string{"score", "--policy", "hpa-70,knative-kpa,plimsoll-cq,oracle", "--workload", "daily,bursty", "--json"}
	code, first, errText := replayed(t, args...)
	if code != 0 {
		t.Fatalf("status %d: %s", code, errText)
	}
	if _, second, _ := replayed(t, args...); second != first {
		t.Error("two runs print different bytes")
	}
	var board lab.Board
	if err := json.Unmarshal([]byte(first), &board); err != nil {
		t.Fatal(err)
	}
	if len(board.Columns) != 2 || len(board.Rows) != 8 {
		t.Fatalf("%d workloads and %d rows; want 2 and 8", len(board.Columns), len(board.Rows))
	}
	for _, r := range board.Rows {
		if r.Ratio < 1 {
			t.Errorf("%s on %s costs %.3f of the bound", r.Policy, r.Workload, r.Ratio)
		}
	}
}

func TestReplayPrintsTables(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"score", "--workload", "steady", "--policy", "naive,hpa-85"}, []string{"cost / bound, late %", "naive ", "hpa-85 ", "thrash, cycles/h"}},
		{[]string{"compare", "--workload", "steady", "--policy", "hpa-70,plimsoll-cq"}, []string{"hpa-70: cost / bound, late %", "steady "}},
		{[]string{"run", "--workload", "steady", "--policy", "plimsoll-cq"}, []string{"ready, mean", "\n    47  "}},
		{[]string{"score", "--workload", "steady", "--policy", "naive", "--span", "train"}, []string{"naive "}},
		{[]string{"help"}, []string{"score", "compare", "run"}},
	} {
		code, out, errText := replayed(t, tc.args...)
		if code != 0 {
			t.Errorf("%v: status %d: %s", tc.args, code, errText)
		}
		for _, w := range tc.want {
			if !strings.Contains(out, w) {
				t.Errorf("%v: %q is not in\n%s", tc.args, w, out)
			}
		}
	}
}

func TestReplaySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	broken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(broken, "traces"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "model,client,offset_seconds,requests_per_second,arrival_cv,pattern,param1,param2\nm-large,1,0,-4,1,Gamma,1,1\n"
	if err := os.WriteFile(filepath.Join(broken, "traces", "servegen_client_rate_10min.csv.gz"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "plimsoll replay scores"},
		{[]string{"tune"}, "plimsoll replay scores"},
		{[]string{"score", "--policy", "magic"}, `there is no policy "magic"`},
		{[]string{"score", "--policy", "hpa-0"}, `there is no policy "hpa-0"`},
		{[]string{"score", "--workload", "daily,nightly"}, "steady, daily, bursty, on-off"},
		{[]string{"score", "--span", "all"}, "want test or train"},
		{[]string{"score", "--data", empty}, "open the trace"},
		{[]string{"score", "--data", broken}, `row 2: requests_per_second is "-4"`},
		{[]string{"compare", "--policy", "naive"}, "two policies"},
		{[]string{"run"}, "name one policy and one workload"},
	} {
		code, _, errText := replayed(t, tc.args...)
		if code != 2 || !strings.Contains(errText, tc.want) {
			t.Errorf("%v: status %d and %q; want 2 and %q", tc.args, code, errText, tc.want)
		}
	}
}

// The goals of the specification on the real data, where they are at hand.
func TestReplayReachesItsGoalsOnRecordedLoad(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("PLIMSOLL_REPLAY_DATA")
	if dir == "" {
		t.Skip("set PLIMSOLL_REPLAY_DATA to the folder that holds traces/servegen_*.csv.gz to check the scoreboard of docs/replay.md (25 s of CPU)")
	}
	code, out, errText := replayed(t, "score", "--data", dir, "--policy", "plimsoll-cq,oracle", "--json")
	if code != 0 {
		t.Fatalf("status %d: %s", code, errText)
	}
	var board lab.Board
	if err := json.Unmarshal([]byte(out), &board); err != nil {
		t.Fatal(err)
	}
	for workload, goal := range map[string]float64{"tenA": 1.30, "largeS": 1.45, "midM": 1.55, "r1": 1.60, "tenJumpy": 1.65} {
		r, ok := board.Row(workload, "plimsoll-cq")
		if !ok || r.Ratio > goal || r.LateRate > 0.01 {
			t.Errorf("%s: %.3f of the bound, %.4f late; want at most %.2f and 0.01", workload, r.Ratio, r.LateRate, goal)
		}
	}
}
