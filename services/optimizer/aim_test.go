package optimizer

import (
	"strings"
	"testing"
)

func TestAnAimIsWrittenIntoThePolicyAsItStands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after string }{
		"in a block": {"max: 9 # ours\nslo:\n  # what a replica holds\n  requests_per_replica: 8\n  class: gold\n", "max: 9 # ours\nslo:\n  # what a replica holds\n  aim_share: 0.6\n  requests_per_replica: 8\n  class: gold\n"},
		"in a line":  {"max: 9\nslo: { requests_per_replica: 8 } # short\n", "max: 9\nslo: {aim_share: 0.6, requests_per_replica: 8 } # short\n"},
		"anew":       {"max: 9\nslo:\n  aim_share: 0.45 # tuned\n  requests_per_replica: 8\n", "max: 9\nslo:\n  aim_share: 0.6 # tuned\n  requests_per_replica: 8\n"},
	} {
		got, err := AimDocument(c.before, 0.6)
		if err != nil || got != c.after {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	for name, document := range map[string]string{
		"without the rule":  "max: 9\ntarget_ratio: [{signal: cpu_ratio, target: 0.5}]\n",
		"with errors":       "max: 0\nslo: {requests_per_replica: 8}\n",
		"as JSON in a line": `{"max": 9, "slo": {"requests_per_replica": 8}}`,
	} {
		if got, err := AimDocument(document, 0.6); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	if _, findings := ParsePolicy([]byte("max: 9\nslo: {requests_per_replica: 8, aim_share: 0.99, tuning: maybe}\n")); !HasErrors(findings) {
		t.Error("an aim over the objective is taken")
	} else if text := findings[0].Field + findings[1].Field; !strings.Contains(text, "aim_share") || !strings.Contains(text, "tuning") {
		t.Error(findings)
	}
}
