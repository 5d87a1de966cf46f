package main

import (
	"bytes"
	"encoding/json"
	"fmt"
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
		{[]string{"compare", "--workload", "steady", "--policy", "hpa-70,plimsoll-cq"}, []string{"cost / bound, late %", "hpa-70", "late, points", "steady ", "plimsoll-cq against hpa-70 as it comes"}},
		{[]string{"run", "--workload", "steady", "--policy", "plimsoll-cq"}, []string{"ready, mean", "\n    47  "}},
		{[]string{"score", "--workload", "steady", "--policy", "naive", "--span", "train"}, []string{"naive "}},
		{[]string{"help"}, []string{"score", "compare", "run", "tune", "workloads", "policies"}},
		{[]string{"tune", "--workload", "steady", "--min-days", "2"}, []string{"late-90", "replica-hours", "next: "}},
		{[]string{"tune", "--workload", "steady"}, []string{"next: late-90 (too_little_history)"}},
		{[]string{"tune", "--workload", "steady", "--family", "hpa", "--min-days", "2", "--days", "2"}, []string{"hpa-70", "current", "next: hpa-75 (moved)"}},
		{[]string{"workloads"}, []string{"tenA", "servegen m-large", "on-off"}},
		{[]string{"workloads", "--workload", "daily"}, []string{"name: daily", "kind: invented"}},
		{[]string{"policies"}, []string{"plimsoll-cq", "llmd-wva-model", "utilisation, % (70)"}},
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
		{[]string{"tunes"}, "plimsoll replay scores"},
		{[]string{"tune", "--family", "magic"}, `there is no family "magic"`},
		{[]string{"tune", "--workload", "steady", "--min-days", "2", "--current", "late-61"}, `the current setting "late-61" is not on the grid`},
		{[]string{"tune", "--days", "90"}, "want 1 to 21 days"},
		{[]string{"workloads", "--workload", "magic"}, `there is no workload "magic"`},
		{[]string{"score", "--policy", "hpa-70", "--ours", "magic"}, `there is no policy "magic"`},
		{[]string{"score", "--hindsight", "--family", "hpa,magic"}, `there is no family "magic"`},
		{[]string{"compare", "--policy", "naive,naive"}, "name two policies"},
		{[]string{"score", "--workload-file", filepath.Join(empty, "none.yaml")}, "read the workload"},
		{[]string{"score", "--workload-file", filepath.Join(empty, "none.yaml"), "--workload", "daily"}, "want one of them"},
		{[]string{"score", "--policy", "magic"}, `there is no policy "magic"`},
		{[]string{"score", "--policy", "hpa-0"}, `there is no policy "hpa-0"`},
		{[]string{"score", "--workload", "daily,nightly"}, "steady, daily, bursty, on-off"},
		{[]string{"score", "--span", "all"}, "want test or train"},
		{[]string{"score", "--span", "both"}, "want -hindsight with it"},
		{[]string{"tune", "--span", "both"}, "want test or train"},
		{[]string{"score", "--policy", "hpa-70", "--against", "magic"}, `there is no policy "magic"`},
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

// written puts files into a new folder and says where.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const countsWorkload = `name: shop
source:
  kind: counts
  file: shop.csv
  request: {input: {mean: 900, p50: 600, p90: 2000, p99: 5000}, output: {mean: 170, p50: 120, p90: 380, p99: 900}}
scale: {replicas: 5}
replica: {start_seconds: 60, price_per_hour: "2.50"}
`

func TestReplayScoresALoadOfOnesOwn(t *testing.T) {
	t.Parallel()
	counts := strings.Builder{}
	counts.WriteString("minute,requests\n")
	for m := range 240 {
		fmt.Fprintf(&counts, "%d,%d\n", m*60, 100+m%60)
	}
	azure := "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0000000,2000,100\n2023-11-16 18:00:30.5000000,1000,300\n2023-11-16 18:09:00.0000000,10,10\n"
	dir := written(t, map[string]string{
		"shop.csv": counts.String(), "shop.yaml": countsWorkload,
		"small.yaml": strings.Replace(countsWorkload, "start_seconds: 60", "start_seconds: 60, max: 3", 1) + "slo: {late_ratio: 0.02}\n",
		"azure.csv":  azure, "azure.yaml": "name: code\nsource: {kind: azure-llm, file: azure.csv}\nscale: {factor: 40}\n",
		"bad.csv": strings.Replace(counts.String(), "\n180,103\n", "\n180,NaN\n", 1), "bad.yaml": strings.Replace(countsWorkload, "shop.csv", "bad.csv", 1),
	})
	page := filepath.Join(dir, "page.html")
	code, out, errText := replayed(t, "score", "--workload-file", filepath.Join(dir, "shop.yaml")+","+filepath.Join(dir, "azure.yaml"), "--policy", "hpa-70,oracle,plimsoll-cq", "--html", page)
	if code != 0 {
		t.Fatalf("status %d: %s", code, errText)
	}
	for _, w := range []string{"shop", "code", "cost, USD", "time to first token"} {
		if !strings.Contains(out, w) {
			t.Errorf("%q is not in\n%s", w, out)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"<svg", "shop", "plimsoll-cq", "prefers-color-scheme: dark"} {
		if !strings.Contains(string(html), w) {
			t.Errorf("%q is not on the page", w)
		}
	}
	for _, w := range []string{"http://", "https://", "<script", "<link", "<img"} {
		if strings.Contains(string(html), w) {
			t.Errorf("the page is not self-contained: it has %q", w)
		}
	}
	// Three replicas cannot serve a mean of five: that is said, and there is no bound to compare with.
	code, out, errText = replayed(t, "score", "--workload-file", filepath.Join(dir, "small.yaml"), "--policy", "hpa-70")
	if code != 0 || !strings.Contains(out, "shop is impossible: its peak needs") || !strings.Contains(out, "at most 3 are allowed") || !strings.Contains(out, "- / ") {
		t.Errorf("status %d, %s\n%s", code, errText, out)
	}
	code, _, errText = replayed(t, "score", "--workload-file", filepath.Join(dir, "bad.yaml"))
	if code != 2 || !strings.Contains(errText, `bad.csv: row 5: requests is "NaN"`) {
		t.Errorf("status %d and %q; want the row of the NaN", code, errText)
	}
}

func TestReplayChecksTheClaimInHindsight(t *testing.T) {
	t.Parallel()
	counts := strings.Builder{}
	counts.WriteString("minute,requests\n")
	for m := range 120 {
		fmt.Fprintf(&counts, "%d,%d\n", m*60, 100+m%40)
	}
	dir := written(t, map[string]string{"shop.csv": counts.String(), "shop.yaml": countsWorkload})
	args := []string{"score", "--workload-file", filepath.Join(dir, "shop.yaml"), "--policy", "hpa-70", "--hindsight", "--family", "hpa,hpa+inflight,hpa-queue,aws-tracking"}
	code, out, errText := replayed(t, args...)
	if code != 0 {
		t.Fatalf("status %d: %s", code, errText)
	}
	for _, w := range []string{"each baseline at its cheapest target", "ours against it", "Claim: never over 2 %", "hpa+inflight"} {
		if !strings.Contains(out, w) {
			t.Errorf("%q is not in\n%s", w, out)
		}
	}
	code, out, _ = replayed(t, append(args, "--json")...)
	board := scored{}
	if err := json.Unmarshal([]byte(out), &board); err != nil || code != 0 || len(board.Hindsight) != 1 || board.Verdict == nil || len(board.Hindsight[0].Tuned) != 4 {
		t.Errorf("status %d, %v: %d workloads in hindsight", code, err, len(board.Hindsight))
	}
	for _, b := range board.Hindsight[0].Tuned {
		if b.Target != 0 && b.Late > board.Hindsight[0].Late+1e-9 {
			t.Errorf("%s at %d is later than ours", b.Family, b.Target)
		}
	}
}

// Hindsight on training and on the test, side by side: the same two weeks that each span says alone.
func TestReplaySetsTrainingAndTestSideBySide(t *testing.T) {
	t.Parallel()
	args := []string{"score", "--workload", "steady", "--policy", "plimsoll-cq", "--hindsight", "--family", "hpa"}
	alone := map[string]scored{}
	for _, span := range []string{"train", "test", "both"} {
		code, out, errText := replayed(t, append(args, "--json", "--span", span)...)
		board := scored{}
		if err := json.Unmarshal([]byte(out), &board); err != nil || code != 0 {
			t.Fatalf("%s: status %d, %v: %s", span, code, err, errText)
		}
		alone[span] = board
	}
	both := alone["both"]
	if len(both.SideBySide) != 1 || len(both.Train) != 1 {
		t.Fatalf("%d rows of %d; want one", len(both.SideBySide), len(both.Train))
	}
	row := both.SideBySide[0]
	if row.Train.Ratio != alone["train"].Hindsight[0].Ratio || row.Test.Ratio != alone["test"].Hindsight[0].Ratio || row.BestDelta == nil {
		t.Errorf("%+v; alone %v and %v", row, alone["train"].Hindsight[0].Ratio, alone["test"].Hindsight[0].Ratio)
	}
	code, out, errText := replayed(t, append(args, "--span", "both")...)
	for _, w := range []string{"Training and test side by side", "within 5 % in cost / bound:", "within 5 % in ours / best:", "Claim: never over 2 %"} {
		if code != 0 || !strings.Contains(out, w) {
			t.Errorf("status %d, %s: %q is not in\n%s", code, errText, w, out)
		}
	}
}
