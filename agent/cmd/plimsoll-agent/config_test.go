package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const fullConfig = `
endpoint: https://plimsoll.example.com
tokenFile: /var/run/secrets/plimsoll/token
stateDir: /var/lib/plimsoll
clusterName: prod-eu-1
mode: enforce
metricsAddress: ":9401"
namespaces: {include: [], exclude: [kube-system]}
intervals: {sampleSeconds: 15, frameSeconds: 60, inventoryResyncSeconds: 300}
spool: {maxBytes: 268435456}
limits: {maxReplicas: 1000, maxReplicasPerWorkload: 100, maxActionsPerMinute: 30, freeze: false}
uplink: {transport: push}
sources:
  kubernetes: {enabled: true, metricsAPI: true}
  podMetrics:
    - {selector: app.kubernetes.io/name=vllm, port: 8000, path: /metrics, preset: vllm, mapping: {queue_age_seconds: my_age}}
    - {annotation: plimsoll.dev/scrape-port, mapping: {queue_length: backlog}}
  dcgmExporter: [{url: "http://${NODE_IP}:9400/metrics"}]
  dcgm: {mode: hostengine, address: "${NODE_IP}:5555"}
autoscalers:
  address: ":9402"
  expander: true
  keda: true
  tls: {certFile: /etc/plimsoll-tls/tls.crt, keyFile: /etc/plimsoll-tls/tls.key, clientCAFile: ""}
  hpa: {mode: bounds, headroomPercent: 0}
`

func load(t *testing.T, text string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return loadConfig(path, func(name string) (string, bool) { return "10.0.0.7", name == "NODE_IP" })
}

func TestConfigAsTheChartWritesIt(t *testing.T) {
	t.Parallel()
	c, err := load(t, fullConfig)
	if err != nil {
		t.Fatal(err)
	}
	if c.Sources.DCGMExporter[0].URL != "http://10.0.0.7:9400/metrics" || c.Sources.DCGM.Address != "10.0.0.7:5555" || c.Sources.PodMetrics[1].Path != "/metrics" {
		t.Errorf("%+v", c.Sources)
	}
	if *c.Autoscalers.HPA.HeadroomPercent != 0 {
		t.Errorf("a headroom of zero became %d", *c.Autoscalers.HPA.HeadroomPercent)
	}
	targets, err := scrapeTargets(c.Sources.PodMetrics)
	if err != nil || len(targets[0].Rules) != 10 || len(targets[1].Rules) != 1 {
		t.Errorf("targets %+v, %v", targets, err)
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	c, err := load(t, "endpoint: http://localhost:1\nstateDir: x\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Mode != "observe" || c.Intervals != (Intervals{15, 60, 300}) || c.Spool.MaxBytes != 256<<20 || c.Uplink.Transport != "auto" || c.Sources.DCGM.Mode != "off" {
		t.Errorf("%+v", c)
	}
}

func TestConfigFaultsArePlainSentences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, replace, with, want string }{
		{"an unknown key", "clusterName:", "clustername2:", "unknown field \"clustername2\""},
		{"a key twice", "mode: enforce", "mode: enforce\nmode: observe", "already set"},
		{"no address of the service", "https://plimsoll.example.com", "plimsoll", "endpoint must be the http or https address"},
		{"no state directory", "stateDir: /var/lib/plimsoll", "", "stateDir is missing"},
		{"an unknown mode", "mode: enforce", "mode: yolo", "mode must be observe"},
		{"an interval out of bounds", "sampleSeconds: 15", "sampleSeconds: 500", "intervals.sampleSeconds must be 1 to 300, not 500"},
		{"a spool that is too small", "268435456", "100", "spool.maxBytes must be at least 1048576"},
		{"a negative limit", "maxReplicas: 1000", "maxReplicas: -1", "limits must not be negative"},
		{"an unknown transport", "transport: push", "transport: pigeon", "uplink.transport must be"},
		{"two clusters", "  dcgm:", "  sim: {url: \"http://localhost:1\"}\n  dcgm:", "enable one of them"},
		{"a selector that is none", "app.kubernetes.io/name=vllm", "'a=b=c'", "is not a label selector"},
		{"a preset nobody knows", "preset: vllm", "preset: other", "preset must be vllm"},
		{"a signal that cannot be named so", "queue_length: backlog", "Queue-Length: backlog", "cannot name a signal"},
		{"neither preset nor mapping", "annotation: plimsoll.dev/scrape-port, mapping: {queue_length: backlog}", "annotation: x", "give a preset or a mapping"},
		{"a host engine without address", ", address: \"${NODE_IP}:5555\"", "", "sources.dcgm.address is missing"},
		{"a variable that is not set", "${NODE_IP}:9400", "${NOWHERE}:9400", "the environment variable NOWHERE is not set"},
		{"half a certificate", "keyFile: /etc/plimsoll-tls/tls.key, ", "", "autoscalers.tls needs both certFile and keyFile"},
		{"a certificate at a relative path", "/etc/plimsoll-tls/tls.crt", "tls.crt", "must be an absolute path"},
		{"an address without a port", "address: \":9402\"", "address: here", "autoscalers.address must be host:port"},
		{"an unknown way with HPAs", "mode: bounds", "mode: fight", "autoscalers.hpa.mode must be replicas or bounds"},
		{"a headroom out of bounds", "headroomPercent: 0", "headroomPercent: 5000", "autoscalers.hpa.headroomPercent must be 0 to 1000, not 5000"},
		{"no YAML at all", "endpoint:", "endpoint: [", "configuration:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(fullConfig, c.replace) {
				t.Fatalf("the test replaces %q, which is not there", c.replace)
			}
			_, err := load(t, strings.Replace(fullConfig, c.replace, c.with, 1))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
