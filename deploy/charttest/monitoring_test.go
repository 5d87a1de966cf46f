package charttest

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"
)

// served are the metrics of service and agent, and the labels each may be asked for.
var served = map[string][]string{
	"plimsoll_httpapi_request_duration_seconds": {"route", "method", "status", "le"},
	"plimsoll_ingest_reports_total":             {"outcome"},
	"plimsoll_ingest_bytes_total":               {},
	"plimsoll_jobs_run_seconds":                 {"kind", "outcome", "le"},
	"plimsoll_jobs_wait_seconds":                {"kind", "le"},
	"plimsoll_plan_decide_seconds":              {"le"},
	"plimsoll_clusters_connected":               {},
	"plimsoll_uplink_connected":                 {"namespace", "pod"},
	"plimsoll_spool_dropped_total":              {"namespace", "kind"},
	"up":                                        {"job", "namespace", "container"},
}

var histogramSuffix = regexp.MustCompile(`_seconds_(bucket|count|sum)$`)

// checkQuery parses a PromQL expression and fails on a metric, or a label of
// it, that the service does not serve.
func checkQuery(t *testing.T, where, query string) {
	t.Helper()
	e, err := metricsql.Parse(strings.ReplaceAll(query, "$__rate_interval", "5m"))
	if err != nil {
		t.Errorf("%s: %v\n%s", where, err, query)
		return
	}
	metrics := 0
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		switch e := e.(type) {
		case *metricsql.MetricExpr:
			metrics++
			name, labels := metricOf(e)
			checkLabels(t, where, name, labels)
		case *metricsql.AggrFuncExpr:
			metricsql.VisitAll(e, func(inner metricsql.Expr) {
				if m, ok := inner.(*metricsql.MetricExpr); ok {
					name, _ := metricOf(m)
					checkLabels(t, where, name, e.Modifier.Args)
				}
			})
		}
	})
	if metrics == 0 {
		t.Errorf("%s: no metric in %s", where, query)
	}
}

func metricOf(e *metricsql.MetricExpr) (name string, labels []string) {
	for _, filter := range slices.Concat(e.LabelFilterss...) {
		if filter.Label == "__name__" {
			name = histogramSuffix.ReplaceAllString(filter.Value, "_seconds")
		} else {
			labels = append(labels, filter.Label)
		}
	}
	return name, labels
}

func checkLabels(t *testing.T, where, name string, labels []string) {
	t.Helper()
	allowed, ok := served[name]
	if !ok {
		t.Errorf("%s: the service serves no %q", where, name)
		return
	}
	for _, label := range labels {
		if !slices.Contains(allowed, label) {
			t.Errorf("%s: %s has no label %s", where, name, label)
		}
	}
}

func TestAlertRules(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/prometheus/plimsoll.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For string
				Labels           map[string]string
				Annotations      map[string]string
			}
		}
	}
	if err := sigsyaml.UnmarshalStrict(b, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || r.For == "" || r.Annotations["summary"] == "" || !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
				t.Errorf("alert %+v", r)
			}
			seen[r.Alert] = true
			checkQuery(t, r.Alert, r.Expr)
		}
	}
	if len(seen) == 0 {
		t.Error("no alerts")
	}
}

func TestAgentAlertRules(t *testing.T) {
	t.Parallel()
	r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "observe")+"metrics: {prometheusRule: {enabled: true}}")
	for _, u := range all[*unstructured.Unstructured](r) {
		groups, _, err := unstructured.NestedSlice(u.Object, "spec", "groups")
		if err != nil || len(groups) != 1 {
			t.Fatalf("%d groups, %v", len(groups), err)
		}
		rules, _, err := unstructured.NestedSlice(groups[0].(map[string]any), "rules")
		if err != nil || len(rules) == 0 {
			t.Fatalf("%d rules, %v", len(rules), err)
		}
		for _, rule := range rules {
			rule := rule.(map[string]any)
			checkQuery(t, fmt.Sprint(rule["alert"]), fmt.Sprint(rule["expr"]))
		}
		return
	}
	t.Error("no PrometheusRule")
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/grafana/plimsoll-service.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for i, p := range d.Panels {
		if len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %s: %+v", p.Title, p.GridPos)
		}
		for _, other := range d.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if p.ID == other.ID || a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %s and %s collide", p.Title, other.Title)
			}
		}
		for _, target := range p.Targets {
			checkQuery(t, p.Title, target.Expr)
			for name := range served {
				shown[name] = shown[name] || strings.Contains(target.Expr, name)
			}
		}
	}
	for name := range served {
		ofAgent := strings.HasPrefix(name, "plimsoll_uplink") || strings.HasPrefix(name, "plimsoll_spool")
		if name != "up" && !ofAgent && !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}
