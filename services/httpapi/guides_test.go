package httpapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/services/auth"
)

// examples are the commands of a guide, in order: indented lines that begin with curl or hand what curl says to a variable, with their continuations.
func examples(t *testing.T, guide string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/guides/" + guide)
	if err != nil {
		t.Fatal(err)
	}
	var script []string
	inside := false
	for _, line := range strings.Split(string(text), "\n") {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case !indented:
			inside = false
		case strings.HasPrefix(code, "curl ") || strings.HasPrefix(code, "ID=$(curl "):
			inside = true
		}
		if inside {
			script = append(script, code)
		}
	}
	return strings.Join(script, "\n")
}

// The examples of the guides for finance do what they say, with a shell, curl and jq, against a service with closed hours.
func TestExamplesOfTheGuidesRun(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the examples need %s, which is not here", tool)
		}
	}
	for guide, want := range map[string]struct {
		commands int
		says     []string
		writes   string
	}{
		"statements.md":     {7, []string{`"fiscal_month":4`, `"value":"monitoring"`, `"correction": "0.00"`}, "statement.pdf"},
		"savings.md":        {2, []string{`"paid": `, `"churn_unknown"`}, ""},
		"unit-economics.md": {3, []string{`"name": "chat/Deployment/llm"`, `"per_million_in": "0.625`}, "units.csv"},
	} {
		t.Run(guide, func(t *testing.T) {
			t.Parallel()
			a := openLedger(t)
			a.standard("2026-02-10T10:00:00Z", 1, 1)
			a.exec(`INSERT INTO rollup_1h (tenant_id, cluster_id, workload_id, at, samples, ready, request_rate, late_ratio, tokens_in_per_second, tokens_out_per_second) VALUES ($1, $2, $3, '2026-02-10T10:00Z', 240, 2, 10, 0.25, 1000, 250)`,
				a.tenant.ID, a.cluster, a.chat)
			script := examples(t, guide)
			if n := strings.Count(script, "curl "); n != want.commands {
				t.Fatalf("the guide has %d commands, want %d", n, want.commands)
			}
			shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
			shell.Dir = t.TempDir()
			shell.Env = append(os.Environ(), "URL="+a.url, "KEY="+a.finance, "ADMIN_KEY="+a.key(a.tenant.ID, auth.RoleAdmin), "no_proxy=*")
			out, err := shell.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, script, out)
			}
			for _, says := range want.says {
				if !strings.Contains(string(out), says) {
					t.Errorf("the output has no %s:\n%s", says, out)
				}
			}
			if want.writes != "" {
				if file, err := os.ReadFile(filepath.Join(shell.Dir, want.writes)); err != nil || len(file) < 20 {
					t.Errorf("%s: %d bytes, %v", want.writes, len(file), err)
				}
			}
		})
	}
}
