package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/agent/uplink/uplinktest"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// The test binary is the agent when this variable is set: the tests run it as a process of its own, to kill it.
const asAgent = "PLIMSOLL_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// simCluster is a simulator's door with one workload.
type simCluster struct {
	mu       sync.Mutex
	replicas int32
	sets     []int32
	began    time.Time
	srv      *httptest.Server
}

const simStart = int64(1_700_000_000_000)

func newSimCluster(t *testing.T) *simCluster {
	s := &simCluster{replicas: 3, began: time.Now()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sim/v1/state", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := simStart + 60*time.Since(s.began).Milliseconds()
		_ = json.NewEncoder(w).Encode(map[string]any{
			"now_ms": now, "speed": 60, "cursor": 1, "events": []any{},
			"inventory":   map[string]any{"snapshot": true, "workloads": []any{map[string]any{"key": "a/Deployment/x", "replicas": s.replicas, "scalable": true}}},
			"observation": map[string]any{"workloads": []any{map[string]any{"workload": "a/Deployment/x", "replicas": s.replicas, "ready": s.replicas}}},
			"series":      []any{map[string]any{"kind": "workload", "entity": "a/Deployment/x", "field": "ready", "value": s.replicas}},
		})
	})
	mux.HandleFunc("POST /sim/v1/scale", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Replicas, From int32
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sets = append(s.sets, in.Replicas)
		before := s.replicas
		s.replicas = in.Replicas
		_ = json.NewEncoder(w).Encode(map[string]int32{"before": before, "after": in.Replicas})
	})
	s.srv = httptest.NewServer(mux)
	t.Cleanup(s.srv.Close)
	return s
}

func (s *simCluster) state() (int32, []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicas, append([]int32(nil), s.sets...)
}

// rig runs the agent as a process against a fake service and a simulated cluster.
type rig struct {
	t      *testing.T
	svc    *uplinktest.Service
	sim    *simCluster
	config string
	cmd    *exec.Cmd
	log    *bytes.Buffer
}

func newRig(t *testing.T, extra string) *rig {
	r := &rig{t: t, svc: uplinktest.New(), sim: newSimCluster(t)}
	srv := r.svc.Start(true)
	t.Cleanup(func() { r.kill(); srv.CloseClientConnections(); srv.Close() })
	dir := t.TempDir()
	r.config = filepath.Join(dir, "agent.yaml")
	text := fmt.Sprintf("endpoint: %s\ntoken: enrol-me\nstateDir: %s\nmode: enforce\nsources: {sim: {url: %q}}\n%s", srv.URL, filepath.Join(dir, "state"), r.sim.srv.URL, extra)
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) start(args ...string) {
	r.t.Helper()
	r.log = &bytes.Buffer{}
	r.cmd = exec.Command(os.Args[0], append([]string{"--config", r.config}, args...)...)
	r.cmd.Env = append(os.Environ(), asAgent+"=1")
	r.cmd.Stderr, r.cmd.Stdout = r.log, r.log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) kill() {
	if r.cmd != nil && r.cmd.ProcessState == nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	}
}

func (r *rig) wait(what string, cond func(uplinktest.State) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.svc.Wait(ctx, cond); err != nil {
		r.t.Fatalf("waiting until %s: %v\n%s", what, err, r.log)
	}
}

func kinds(s uplinktest.State) map[string]int {
	n := map[string]int{}
	for _, r := range s.Accepted {
		switch r.GetBody().(type) {
		case *agentv1.Report_Frame:
			n["frame"]++
		case *agentv1.Report_Observation:
			n["observation"]++
		case *agentv1.Report_Inventory:
			n["inventory"]++
		case *agentv1.Report_Results:
			n["results"]++
		}
	}
	return n
}

func results(s uplinktest.State) (out []*agentv1.ActionResult) {
	for _, r := range s.Accepted {
		out = append(out, r.GetResults().GetResults()...)
	}
	return out
}

func planMessage(id string, generation uint64, from, to int32) *agentv1.StreamResponse {
	return &agentv1.StreamResponse{Message: &agentv1.StreamResponse_Plan{Plan: &agentv1.Plan{PlanId: id, Generation: generation, ExpiresMs: simStart + 1<<40,
		Actions: []*agentv1.Action{{ActionId: id + "-1", Workload: "a/Deployment/x", From: from, To: to, Min: 1, Max: 10}}}}}
}

// The loop once around, then kill -9 at any moment: what the service acknowledged is there once, in order; the plan that is
// sent again after each restart acts once.
func TestAgentLoopSurvivesKills(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.svc.Greet(planMessage("p1", 1, 3, 5))
	r.start()
	r.wait("frames, observations, inventory and the plan's result are there", func(s uplinktest.State) bool {
		n := kinds(s)
		return n["frame"] > 0 && n["observation"] > 1 && n["inventory"] > 0 && n["results"] == 1
	})
	if n, sets := r.sim.state(); n != 5 || fmt.Sprint(sets) != "[5]" {
		t.Fatalf("replicas %d after %v", n, sets)
	}
	for i := range 5 {
		if i%2 == 0 {
			r.svc.LoseAcks(1)
		}
		r.kill()
		seen := r.svc.State().Last
		r.start()
		r.wait("it goes on", func(s uplinktest.State) bool { return s.Last >= seen+2 })
	}
	st := r.svc.State()
	for i, x := range st.Accepted {
		if x.GetSeq() != uint64(i+1) {
			t.Fatalf("accepted report %d has seq %d", i+1, x.GetSeq())
		}
	}
	for _, h := range st.Hellos {
		if h.GetEpoch() != st.Epoch || h.GetStream() != "controller" {
			t.Fatalf("hello %v", h)
		}
	}
	if last := st.Hellos[len(st.Hellos)-1]; last.GetAppliedGeneration() != 1 || !last.GetSimulatedClock() || last.GetLimits().GetMode() != "enforce" {
		t.Fatalf("the last hello: %v", last)
	}
	if _, sets := r.sim.state(); fmt.Sprint(sets) != "[5]" {
		t.Fatalf("the plan acted again: %v", sets)
	}
	applied := 0
	for _, x := range results(st) {
		switch x.GetOutcome() {
		case "applied":
			applied++
		case "already":
		default:
			t.Errorf("result %v", x)
		}
	}
	if applied != 1 {
		t.Errorf("applied is said %d times", applied)
	}
	if st.Issued != 1 {
		t.Errorf("%d credentials were issued, the stored one should do", st.Issued)
	}
}

func TestAgentStopsCleanlyOnSIGTERM(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	r := newRig(t, "metricsAddress: "+address+"\n")
	r.start()
	r.wait("something is there", func(s uplinktest.State) bool { return s.Last > 0 })
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/metrics": "plimsoll_uplink_connected 1"} {
		res, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s %s", path, res.Status, b[:min(len(b), 300)])
		}
	}
	other := exec.Command(os.Args[0], "--config", r.config)
	other.Env = append(os.Environ(), asAgent+"=1")
	if out, err := other.CombinedOutput(); err == nil || !strings.Contains(string(out), "another agent is using the state directory") {
		t.Errorf("a second agent on the same directory: %v\n%s", err, out)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	for _, line := range strings.Split(strings.TrimSpace(r.log.String()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is no JSON: %s", line)
		}
	}
}

func TestAgentFencedEndsWithAPlainMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.start()
	r.wait("something is there", func(s uplinktest.State) bool { return s.Last > 0 })
	r.svc.Fence(1 << 62)
	err := r.cmd.Wait()
	if err == nil || !strings.Contains(r.log.String(), "plimsoll-agent: a newer agent reports for this cluster; this one stops") {
		t.Fatalf("ended with %v\n%s", err, r.log)
	}
}

func TestAgentKeepsWorkingWhileTheServiceIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.start()
	r.wait("something is there", func(s uplinktest.State) bool { return s.Last > 0 })
	r.kill()
	text, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	away := strings.Replace(string(text), "endpoint: http://127.0.0.1:", "endpoint: http://127.0.0.1:1 # ", 1)
	if err := os.WriteFile(r.config, []byte(away), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	spool := func() (n int64) {
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(r.config), "state", "spool", "*", "*.seg"))
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				n += info.Size()
			}
		}
		return n
	}
	first := spool()
	for deadline := time.Now().Add(20 * time.Second); spool() < first+200; <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is kept while the service is away\n%s", r.log)
		}
	}
	r.kill()
	if err := os.WriteFile(r.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	seen := r.svc.State().Last
	r.start()
	r.wait("what was kept arrives", func(s uplinktest.State) bool { return s.Last >= seen+3 })
}

func TestRunRefusesNonsense(t *testing.T) {
	t.Parallel()
	none := func(string) (string, bool) { return "", false }
	for want, args := range map[string][]string{
		"role must be controller or node": {"--role", "captain"},
		"configuration:":                  {"--config", filepath.Join(t.TempDir(), "none")},
		"flag provided but not defined":   {"--nonsense"},
	} {
		if err := run(args, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte("endpoint: http://localhost:1\nstateDir: "+t.TempDir()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"--config", path, "--role", "node"}, none); err == nil || !strings.Contains(err.Error(), "NODE_NAME") {
		t.Errorf("node without a name: %v", err)
	}
	if err := run([]string{"--config", path}, none); err == nil || !strings.Contains(err.Error(), "no cluster to read") {
		t.Errorf("no source: %v", err)
	}
	if err := run([]string{"--config", path, "--check"}, none); err != nil {
		t.Errorf("check: %v", err)
	}
}
