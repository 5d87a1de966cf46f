package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	sigsyaml "sigs.k8s.io/yaml"
)

// agent is an installation of the real binary: its configuration, its rights
// and its state directory, which outlive the process.
type agent struct {
	dir        string
	kubeconfig string
	metrics    string   // host:port
	running    *process // the newest; ends with the test that installed it
	starts     int
	bin        string // the binary that the next start runs
}

// installAgent writes the chart's configuration with the paths of a pod
// replaced by those of this machine, and the enrolment token.
func installAgent(t *testing.T, c *cluster, config, token string) *agent {
	t.Helper()
	a := &agent{
		dir:        t.TempDir(),
		bin:        agentBin,
		kubeconfig: c.kubeconfigFor(t, agentNamespace, "plimsoll-agent"),
		metrics:    fmt.Sprintf("127.0.0.1:%d", freePort(t)),
	}
	if err := os.Mkdir(filepath.Join(a.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if a.running != nil {
			a.running.stop()
		}
	})
	a.write(t, "token", []byte(token))
	a.write(t, "state/install_id", []byte("0123456789abcdef0123456789abcdef")) // mounted by the chart
	a.configure(t, config, func(m map[string]any) {
		m["tokenFile"] = filepath.Join(a.dir, "token")
		m["stateDir"] = filepath.Join(a.dir, "state")
		m["metricsAddress"] = a.metrics
		m["sources"].(map[string]any)["kubernetes"].(map[string]any)["kubeconfig"] = a.kubeconfig
	})
	return a
}

// edit changes the configuration; the agent reads it at its next start.
func (a *agent) edit(t *testing.T, change func(map[string]any)) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(a.dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	a.configure(t, string(config), change)
}

// configure writes the changed configuration; the result is JSON, which is YAML.
func (a *agent) configure(t *testing.T, config string, change func(map[string]any)) {
	t.Helper()
	asJSON, err := sigsyaml.YAMLToJSON([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(asJSON))
	d.UseNumber() // 268435456 must not become 2.68435456e+08
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	change(m)
	out, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, "agent.yaml", out)
}

func (a *agent) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// loseDisk ends the agent and leaves what a new pod would find: the files that
// the chart mounts.
func (a *agent) loseDisk(t *testing.T) {
	t.Helper()
	a.running.kill()
	state, err := os.ReadDir(filepath.Join(a.dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range state {
		if f.Name() != "install_id" {
			if err := os.RemoveAll(filepath.Join(a.dir, "state", f.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// launch runs the agent without waiting for it.
func (a *agent) launch(t *testing.T) *process {
	t.Helper()
	a.starts++
	return launch(t, fmt.Sprintf("agent-%d", a.starts),
		exec.Command(a.bin, "--config", filepath.Join(a.dir, "agent.yaml"), "--role", "controller"),
		"POD_NAME=plimsoll-agent-0")
}

// start runs the agent and waits until it says that it is ready.
func (a *agent) start(t *testing.T) {
	t.Helper()
	a.running = a.launch(t)
	within(t, time.Minute, "agent ready", func() (bool, string) {
		if !a.running.alive() {
			t.Fatal(a.running.tail())
		}
		return get("http://" + a.metrics + "/readyz")
	})
}

func get(url string) (bool, string) {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return false, err.Error()
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK, resp.Status
}
