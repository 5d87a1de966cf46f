package optimizer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
)

const cpuRule = "target_ratio: [{signal: cpu_ratio, target: 0.6}]\n"

func TestFindingsNameTheFieldAndTheLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		doc      string
		severity Severity
		field    string
		line     int
		message  string
	}{
		{"unknown key", "max: 5\n" + cpuRule + "maximum: 5\n", SeverityError, "maximum", 3, `no key "maximum" here`},
		{"misspelt key", "max: 5\n" + cpuRule + "quue:\n  target_per_replica: 3\n", SeverityError, "quue", 3, `did you mean "queue"`},
		{"unknown key deep inside", "max: 5\ntarget_ratio:\n  - signal: cpu_ratio\n    target: 0.6\n  - signal: kv_cache_ratio\n    goal: 0.6\n    target: 0.7\n", SeverityError, "target_ratio[1].goal", 6, `no key "goal"`},
		{"Go's spelling is no key", "Max: 5\nmax: 5\n" + cpuRule, SeverityError, "Max", 1, `did you mean "max"`},
		{"key twice", "max: 5\nmax: 6\n" + cpuRule, SeverityError, "", 2, "already set"},
		{"broken YAML", "max: [5\n", SeverityError, "", 1, "not valid YAML"},
		{"a list instead of keys", "- max\n", SeverityError, "", 0, "list of keys with values"},
		{"text for a number", "max: many\n" + cpuRule, SeverityError, "max", 1, "whole number"},
		{"text for a number deep inside", "max: 5\n" + cpuRule + "up:\n  steps:\n    - type: pods\n      value: lots\n      period_seconds: 60\n", SeverityError, "up.steps.value", 4, "whole number"},
		{"a fraction for a whole number", "max: 2.5\n" + cpuRule, SeverityError, "max", 1, "whole number"},
		{"empty", "", SeverityError, "max", 0, "needs a ceiling"},

		{"no ceiling", cpuRule, SeverityError, "max", 0, "needs a ceiling"},
		{"ceiling under floor", "min: 5\nmax: 2\n" + cpuRule, SeverityError, "max", 2, "below the floor"},
		{"negative floor", "min: -1\nmax: 2\n" + cpuRule, SeverityError, "min", 1, "negative"},
		{"floor of zero by accident", "min: 0\nmax: 2\n" + cpuRule, SeverityError, "min", 1, "scale_to_zero"},
		{"nothing would wake it", "min: 0\nmax: 2\nscale_to_zero: true\n" + cpuRule, SeverityError, "scale_to_zero", 3, "wake"},
		{"zero grows by per cent only", "max: 9\nscale_to_zero: true\nqueue: {target_per_replica: 4, include_running: true}\nup:\n  steps: [{type: percent, value: 100, period_seconds: 15}]\n", SeverityError, "up.steps", 5, "zero replicas is zero"},
		{"nothing to scale", "min: 3\nmax: 3\n" + cpuRule, SeverityWarning, "max", 2, "nothing will ever be scaled"},
		{"unknown mode", "mode: auto\nmax: 5\n" + cpuRule, SeverityError, "mode", 1, "no mode"},
		{"no rule", "max: 5\n", SeverityError, "target_ratio", 0, "at least one rule"},

		{"no room", "max: 5\ntarget_ratio:\n  - signal: cpu_ratio\n    target: 0.95\n", SeverityWarning, "target_ratio[0].target", 4, "leaves no room"},
		{"per cent instead of a ratio", "max: 5\ntarget_ratio: [{signal: cpu_ratio, target: 70}]\n", SeverityError, "target_ratio[0].target", 2, "write 0.7"},
		{"a lavish target", "max: 5\ntarget_ratio: [{signal: cpu_ratio, target: 0.1}]\n", SeverityWarning, "target_ratio[0].target", 2, "pays for"},
		{"no target", "max: 5\ntarget_ratio: [{signal: cpu_ratio}]\n", SeverityError, "target_ratio[0].target", 2, "above 0"},
		{"no signal", "max: 5\ntarget_ratio: [{target: 0.6}]\n", SeverityError, "target_ratio[0].signal", 2, "needs a signal"},
		{"unknown type", "max: 5\ntarget_ratio: [{signal: cpu_ratio, target: 0.6, type: avg}]\n", SeverityError, "target_ratio[0].type", 2, "no type"},
		{"a total as a use", "max: 5\ntarget_ratio: [{signal: request_rate, target: 0.6}]\n", SeverityError, "target_ratio[0].type", 2, "average_value"},
		{"a latency as a use", "max: 5\ntarget_ratio: [{signal: latency_p99_seconds, target: 0.6}]\n", SeverityError, "target_ratio[0].type", 2, "latency rule"},
		{"a mean divided among replicas", "max: 5\ntarget_ratio: [{signal: cpu_ratio, target: 0.6, type: average_value}]\n", SeverityError, "target_ratio[0].type", 2, "not a total"},
		{"a signal by a mapping", "max: 5\ntarget_ratio: [{signal: my_gauge, target: 3, type: value}]\n", SeverityWarning, "target_ratio[0].signal", 2, "mapping"},
		{"the same signal twice", "max: 5\ntarget_ratio: [{signal: cpu_ratio, target: 0.6}, {signal: cpu_ratio, target: 0.7}]\n", SeverityWarning, "target_ratio[1].signal", 2, "same signal"},
		{"GPU utilisation alone", "max: 5\ntarget_ratio: [{signal: gpu_util_ratio, target: 0.6}]\n", SeverityWarning, "target_ratio[0].signal", 2, "gpu_sm_active_ratio"},
		{"a tolerance over one", "max: 5\ntarget_ratio: [{signal: cpu_ratio, target: 0.6, tolerance: 1}]\n", SeverityError, "target_ratio[0].tolerance", 2, "below 1"},

		{"queue without a size", "max: 5\nqueue: {include_running: true}\n", SeverityError, "queue.target_per_replica", 2, "above 0"},
		{"waiting requests alone", "max: 5\nqueue: {target_per_replica: 8}\n", SeverityWarning, "queue.include_running", 2, "down to its floor"},
		{"latency without a target", "max: 5\n" + cpuRule + "latency: {high: 1.5}\n", SeverityError, "latency.target_seconds", 3, "above 0"},
		{"latency thresholds crossed", "max: 5\n" + cpuRule + "latency: {target_seconds: 1, high: 1.1, low: 1.3}\n", SeverityError, "latency.high", 3, "above the lower"},
		{"latency thresholds too near", "max: 5\n" + cpuRule + "latency: {target_seconds: 1, high: 1.1, low: 1}\n", SeverityWarning, "latency.low", 3, "swing"},
		{"latency of a rate", "max: 5\n" + cpuRule + "latency: {signal: request_rate, target_seconds: 1}\n", SeverityError, "latency.signal", 3, "not a latency"},
		{"latency alone", "max: 5\nlatency: {target_seconds: 1}\n", SeverityWarning, "latency", 2, "not how many"},

		{"a window too long", "max: 5\n" + cpuRule + "filter: {window_seconds: 900}\n", SeverityError, "filter.window_seconds", 3, "1 to 600"},
		{"a slow window", "max: 5\n" + cpuRule + "filter: {window_seconds: 300}\n", SeverityWarning, "filter.window_seconds", 3, "delays"},
		{"noise thrown away", "max: 5\n" + cpuRule + "filter: {outlier_mad: 2}\n", SeverityWarning, "filter.outlier_mad", 3, "ordinary noise"},
		{"a negative cooldown", "max: 5\n" + cpuRule + "up: {cooldown_seconds: -5}\n", SeverityError, "up.cooldown_seconds", 3, "-1 for none"},
		{"a window over an hour", "max: 5\n" + cpuRule + "down: {stabilisation_seconds: 3601}\n", SeverityError, "down.stabilisation_seconds", 3, "0 to 3600"},
		{"an unknown way to choose", "max: 5\n" + cpuRule + "down: {select: avg}\n", SeverityError, "down.select", 3, "max, min or disabled"},
		{"a direction switched off", "max: 5\n" + cpuRule + "down: {select: disabled}\n", SeverityWarning, "down.select", 3, "never scales down"},
		{"more than everything taken away", "max: 5\n" + cpuRule + "down:\n  steps:\n    - {type: percent, value: 150, period_seconds: 60}\n", SeverityError, "down.steps[0].value", 4, "100 %"},
		{"a period too long", "max: 5\n" + cpuRule + "down:\n  steps:\n    - type: pods\n      value: 1\n      period_seconds: 3600\n", SeverityError, "down.steps[0].period_seconds", 7, "1 to 1800"},
		{"nothing damps the way down", "max: 5\n" + cpuRule + "down: {cooldown_seconds: -1, stabilisation_seconds: -1}\nflap: {cycles_per_hour: -1}\n", SeverityWarning, "down.stabilisation_seconds", 3, "between two peaks"},
		{"quiet over the target", "max: 5\n" + cpuRule + "long_tail: {use_ratio: 0.7}\n", SeverityError, "long_tail.use_ratio", 3, "not below the target"},
		{"quiet after a minute", "max: 5\n" + cpuRule + "long_tail: {quiet_seconds: 60}\n", SeverityWarning, "long_tail.quiet_seconds", 3, "past all damping"},
		{"a short memory for signals", "max: 5\n" + cpuRule + "max_signal_age_seconds: 15\n", SeverityWarning, "max_signal_age_seconds", 3, "one late report"},
		{"a plan that never expires", "max: 5\n" + cpuRule + "plan_ttl_seconds: 86400\n", SeverityError, "plan_ttl_seconds", 3, "15 to 3600"},
		{"fighting on purpose", "mode: enforce\nmax: 5\n" + cpuRule + "own_replicas: true\n", SeverityWarning, "own_replicas", 4, "no HPA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, findings := ParsePolicy([]byte(c.doc))
			for _, f := range findings {
				if f.Field == c.field && f.Severity == c.severity && strings.Contains(f.Message, c.message) {
					if f.Line != c.line {
						t.Errorf("line %d, want %d", f.Line, c.line)
					}
					return
				}
			}
			t.Errorf("no %s on %q with %q in %+v", c.severity, c.field, c.message, findings)
		})
	}
}

func TestASoundPolicyHasNoFindings(t *testing.T) {
	t.Parallel()
	p, findings := ParsePolicy([]byte("max: 5\n" + cpuRule))
	if len(findings) != 0 {
		t.Fatalf("findings %+v", findings)
	}
	want := Policy{
		Mode: fleet.ModeRecommend, Min: 1, Max: 5,
		TargetRatio: []TargetRatio{{Signal: fleet.SignalCPURatio, Type: RatioUtilization, Target: 0.6, Tolerance: 0.1}},
		Filter:      Filter{WindowSeconds: 60, OutlierMAD: 6},
		Up:          Damping{CooldownSeconds: 180, Steps: []Step{{StepPercent, 100, 15}, {StepPods, 4, 15}}, Select: SelectMax},
		Down:        Damping{CooldownSeconds: 300, StabilisationSeconds: 300, Steps: []Step{{StepPercent, 50, 60}}, Select: SelectMax},
		Flap:        Flap{CyclesPerHour: 2, WidenFactor: 2}, MaxSignalAgeSeconds: 45, PlanTTLSeconds: 120, ApprovalTTLSeconds: 900,
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

func TestPresetsAreSoundAndReadBackTheSame(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, preset := range Presets() {
		if names[preset.Name] || preset.About == "" {
			t.Errorf("%s: twice, or says nothing of itself", preset.Name)
		}
		names[preset.Name] = true
		p, findings := ParsePolicy([]byte(preset.YAML))
		if len(findings) != 0 {
			t.Errorf("%s: %+v", preset.Name, findings)
		}
		if !p.computable() {
			t.Errorf("%s: cannot be computed with", preset.Name)
		}
		back, findings := ParsePolicy([]byte(p.YAML()))
		if len(findings) != 0 {
			t.Errorf("%s written out: %+v\n%s", preset.Name, findings, p.YAML())
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("%s: %s", preset.Name, diff)
		}
	}
	for _, want := range []string{"static", "hpa-cpu", "llm-queue", "gpu-sm", "batch"} {
		if !names[want] {
			t.Errorf("no preset %s", want)
		}
	}
}

func TestDefaultsFilledInTwiceAreThoseFilledInOnce(t *testing.T) {
	t.Parallel()
	rules := []TargetRatio{{Signal: fleet.SignalCPURatio, Target: 0.6}}
	p := Policy{Max: 3, TargetRatio: rules, Latency: &LatencyRule{TargetSeconds: 1}, LongTail: &LongTail{}}
	once := p.WithDefaults()
	if diff := cmp.Diff(once, once.WithDefaults()); diff != "" {
		t.Error(diff)
	}
	if rules[0].Type != "" || p.Latency.High != 0 || p.LongTail.QuietSeconds != 0 {
		t.Error("WithDefaults wrote into its receiver")
	}
}

func TestALargeOrDeepDocumentIsRefused(t *testing.T) {
	t.Parallel()
	if _, f := ParsePolicy(make([]byte, maxPolicyBytes+1)); !HasErrors(f) {
		t.Error("a document over the limit is read")
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
		"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n"
	if _, f := ParsePolicy([]byte(bomb)); !HasErrors(f) {
		t.Error("a document that unfolds without end is read")
	}
	if _, f := ParsePolicy([]byte(strings.Repeat("[", 20_000))); !HasErrors(f) {
		t.Error("a document nested without end is read")
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, p := range Presets() {
		f.Add([]byte(p.YAML))
	}
	f.Add([]byte("max: 5\ntarget_ratio:\n- signal: x\n  target: .nan\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, findings := ParsePolicy(doc)
		if HasErrors(findings) {
			return
		}
		if !p.computable() {
			t.Fatalf("no error found, yet it cannot be computed with: %s", p.YAML())
		}
		if _, again := ParsePolicy([]byte(p.YAML())); HasErrors(again) {
			t.Fatalf("written out it has errors: %+v\n%s", again, p.YAML())
		}
	})
}
