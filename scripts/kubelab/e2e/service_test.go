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
	"os/exec"
	"strings"
	"testing"
	"time"
)

// service is an installation of the real binary on a database of its own:
// migrations, `serve` and `worker` as two processes, as in production.
type service struct {
	url    string
	env    []string
	serve  *process
	worker *process
	client *http.Client
	starts int
}

func startService(t *testing.T) *service {
	t.Helper()
	db := newDatabase(t)
	var secret [32]byte
	_, _ = rand.Read(secret[:])
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{url: "http://" + listen, client: &http.Client{Jar: jar, Timeout: 10 * time.Second}}
	s.env = []string{
		"PLIMSOLL_DATABASE_URL=" + db.serviceURL, "PLIMSOLL_LISTEN=" + listen, "PLIMSOLL_PUBLIC_URL=" + s.url,
		"PLIMSOLL_SECRET_KEY=" + base64.StdEncoding.EncodeToString(secret[:]),
	}
	migrate := start(t, "migrate", exec.Command(serviceBin, "migrate", "up"), append(s.env, "PLIMSOLL_MIGRATE_DATABASE_URL="+db.ownerURL)...)
	<-migrate.done
	if !migrate.cmd.ProcessState.Success() {
		t.Fatal(migrate.tail())
	}
	s.startServe(t)
	s.worker = start(t, "worker", exec.Command(serviceBin, "worker"), s.env...)
	return s
}

func (s *service) startServe(t *testing.T) {
	t.Helper()
	s.starts++
	s.serve = start(t, fmt.Sprintf("serve-%d", s.starts), exec.Command(serviceBin, "serve"), s.env...)
	within(t, time.Minute, "service ready", func() (bool, string) {
		if !s.serve.alive() {
			t.Fatal(s.serve.tail())
		}
		return get(s.url + "/readyz")
	})
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
