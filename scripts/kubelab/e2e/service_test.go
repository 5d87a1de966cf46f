package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// service is an installation of the real binary on a database of its own:
// `serve` and `worker` as two processes, as in production.
type service struct {
	url     string
	env     []string
	work    []string // the worker's
	serve   *process
	worker  *process
	client  *http.Client
	starts  int
	works   int
	cluster string
	owner   string // database URL of the schema's owner
}

func startService(t *testing.T) *service {
	t.Helper()
	ownerURL, serviceURL := newDatabase(t)
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails (crypto/rand)
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{url: "http://" + listen, owner: ownerURL, client: &http.Client{Jar: jar, Timeout: 10 * time.Second}}
	common := []string{
		"PLIMSOLL_DATABASE_URL=" + serviceURL, "PLIMSOLL_PUBLIC_URL=" + s.url,
		"PLIMSOLL_SECRET_KEY=" + base64.StdEncoding.EncodeToString(secret[:]),
	}
	s.env = append(slices.Clone(common), "PLIMSOLL_LISTEN="+listen)
	run(t, "migrate", []string{"PLIMSOLL_MIGRATE_DATABASE_URL=" + ownerURL}, "migrate", "up")
	made := run(t, "tenant", common, "tenant", "Lab", "owner@lab.test")
	_, password, ok := strings.Cut(made, "password  ")
	if !ok {
		t.Fatalf("no password in %q", made)
	}
	s.work = append(slices.Clone(common), fmt.Sprintf("PLIMSOLL_LISTEN=127.0.0.1:%d", freePort(t)))
	t.Cleanup(func() { s.serve.stop() })
	s.startServe(t)
	t.Cleanup(func() { s.worker.stop() })
	s.startWorker(t)
	s.call(t, http.MethodPost, "/auth/login", map[string]any{"email": "owner@lab.test", "password": strings.TrimSpace(password)}, nil)
	return s
}

// run runs a command of the service to its end and returns what it printed.
func run(t *testing.T, name string, env []string, args ...string) string {
	t.Helper()
	p := start(t, name, exec.Command(serviceBin, args...), env...)
	<-p.done
	if !p.cmd.ProcessState.Success() {
		t.Fatal(p.tail())
	}
	out, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func (s *service) startServe(t *testing.T) {
	t.Helper()
	s.starts++
	s.serve = launch(t, fmt.Sprintf("serve-%d", s.starts), exec.Command(serviceBin, "serve"), s.env...)
	within(t, time.Minute, "service ready", func() (bool, string) {
		if !s.serve.alive() {
			t.Fatal(s.serve.tail())
		}
		return get(s.url + "/readyz")
	})
}

func (s *service) startWorker(t *testing.T) {
	t.Helper()
	s.works++
	s.worker = launch(t, fmt.Sprintf("worker-%d", s.works), exec.Command(serviceBin, "worker"), s.work...)
}

// call sends a request to the REST API, and fails unless it is answered 2xx.
func (s *service) call(t *testing.T, method, path string, in, out any) {
	t.Helper()
	if err := s.try(method, path, in, out); err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, s.serve.tail())
	}
}

func (s *service) try(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, s.url+"/api/v1"+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(answer)))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// enrolmentToken makes a cluster that may be acted on, and a token for its agent.
func (s *service) enrolmentToken(t *testing.T) string {
	t.Helper()
	var cluster struct{ ID string }
	s.call(t, http.MethodPost, "/clusters", map[string]any{"name": "lab", "mode": "enforce"}, &cluster)
	s.cluster = cluster.ID
	var token struct{ Token string }
	s.call(t, http.MethodPost, "/clusters/"+s.cluster+"/enrolment-tokens", nil, &token)
	return token.Token
}

// observed is a workload as the API shows it.
type observed struct {
	ID       string
	Key      string
	Replicas int
	Ready    int
	Signals  map[string]struct {
		Value float64
		Truth string
	}
	Writers []struct{ Manager, Object string }
}

// workload waits until the service has seen the workload under test, with its load.
func (s *service) workload(t *testing.T) (w observed) {
	t.Helper()
	within(t, time.Minute, "workload and its load reported", func() (bool, string) {
		var list struct{ Items []observed }
		if err := s.try(http.MethodGet, "/workloads?namespace="+namespace, nil, &list); err != nil {
			return false, err.Error()
		}
		for _, w = range list.Items {
			if w.Key == key {
				return w.Signals["queue_length"].Truth == "fresh", fmt.Sprintf("%+v", w)
			}
		}
		return false, fmt.Sprintf("%d workloads", len(list.Items))
	})
	return w
}

// writer says whether the workload is shown with another controller that writes its replicas.
func (s *service) writer(w observed, object string) (bool, string) {
	var now observed
	if err := s.try(http.MethodGet, "/workloads/"+w.ID, nil, &now); err != nil {
		return false, err.Error()
	}
	for _, writer := range now.Writers {
		if writer.Object == object {
			return true, writer.Manager
		}
	}
	return false, fmt.Sprintf("%+v", now)
}

func (s *service) setPolicy(t *testing.T, w observed, document string) {
	t.Helper()
	s.call(t, http.MethodPut, "/workloads/"+w.ID+"/policy", map[string]any{"document": document, "replay_override": "a cluster made a minute ago has no history"}, nil)
}

// decision is one of the service's, with the agent's answer.
type decision struct {
	ID, At, Outcome, Binding, State string
	Target                          int
	ResultCode                      *string `json:"result_code"`
	AfterReplicas                   *int    `json:"after_replicas"`
}

// decisions lists the newest first.
func (s *service) decisions() ([]decision, error) {
	var list struct{ Items []decision }
	err := s.try(http.MethodGet, "/decisions?limit=200&cluster="+s.cluster, nil, &list)
	return list.Items, err
}

// applied waits until the newest decision of an outcome has been carried out
// with this target, and returns it with its explanation.
func (s *service) applied(t *testing.T, outcome string, target int) {
	t.Helper()
	within(t, 20*time.Second, fmt.Sprintf("%s to %d recorded as applied", outcome, target), func() (bool, string) {
		all, err := s.decisions()
		if err != nil {
			return false, err.Error()
		}
		for _, d := range all {
			if d.Outcome != outcome {
				continue
			}
			var explained struct {
				Detail struct {
					Reasons []struct{ Code string }
					Inputs  []struct{ Name string }
				}
			}
			if err := s.try(http.MethodGet, "/decisions/"+d.ID, nil, &explained); err != nil {
				return false, err.Error()
			}
			return d.State == "applied" && d.Target == target && d.AfterReplicas != nil && *d.AfterReplicas == target &&
				len(explained.Detail.Reasons) > 0 && len(explained.Detail.Inputs) > 0, fmt.Sprintf("%+v %+v", d, explained.Detail)
		}
		return false, fmt.Sprintf("%d decisions, none of them %s", len(all), outcome)
	})
}

// held says whether the newest decision is to hold, for this reason.
func (s *service) held(reason string) (bool, string) {
	all, err := s.decisions()
	if err != nil || len(all) == 0 {
		return false, fmt.Sprintf("%d decisions, %v", len(all), err)
	}
	return all[0].Outcome == "hold" && all[0].Binding == reason, fmt.Sprintf("%+v", all[0])
}
