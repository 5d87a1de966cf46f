package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
)

func TestEveryRefusalIsAProblem(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	key := d.key(d.tenant.ID, auth.RoleAdmin)
	for name, c := range map[string]struct {
		method, path string
		body         any
		status       int
	}{
		"unknown path":        {"GET", "/api/v1/nothing", nil, 404},
		"unknown path, write": {"POST", "/nothing", "{}", 404},
		"outside the API":     {"POST", "/api", "{}", 404},
		"unknown service":     {"POST", "/plimsoll.agent.v9.AgentService/Stream", "{}", 404},
		"wrong method":        {"DELETE", "/api/v1/me", nil, 405},
		"body too large":      {"POST", "/api/v1/clusters", `{"name":"` + strings.Repeat("a", 2<<20) + `"}`, 413},
		"not JSON":            {"POST", "/api/v1/clusters", `{"name":`, 400},
		"no body":             {"POST", "/api/v1/clusters", nil, 400},
		"wrong type":          {"POST", "/api/v1/clusters", `{"name":7}`, 422},
		"unknown property":    {"POST", "/api/v1/clusters", `{"name":"a","colour":"red"}`, 422},
		"missing property":    {"POST", "/api/v1/clusters", `{}`, 422},
		"two errors at once":  {"POST", "/api/v1/api-keys", `{"name":"","role":"emperor"}`, 422},
		"bad query":           {"GET", "/api/v1/audit?limit=many", nil, 422},
		"not found":           {"GET", "/api/v1/clusters/99999999-9999-4999-8999-999999999999", nil, 404},
	} {
		got := d.with(key, c.method, c.path, c.body)
		got.problem(t)
		if got.status != c.status {
			t.Errorf("%s: status %d, want %d: %s", name, got.status, c.status, got.body)
		}
	}
}

func TestDashboardFilesAreServed(t *testing.T) {
	t.Parallel()
	script := []byte(strings.Repeat("console.log('plimsoll');\n", 200))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(script); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	d := openDoor(t, doorOptions{dashboard: fstest.MapFS{
		"index.html":            {Data: []byte("<!doctype html><title>Plimsoll</title>")},
		"favicon.svg":           {Data: []byte("<svg/>")},
		"assets/index-aa.js":    {Data: script},
		"assets/index-aa.js.gz": {Data: packed.Bytes()},
		"assets/other-bb.css":   {Data: []byte(strings.Repeat("a{color:red}", 200))},
		"assets/font-cc.woff2":  {Data: make([]byte, 4000)},
	}})
	for _, path := range []string{"/", "/workloads/42?tab=cost", "/index.html", "/api-keys", "/../../etc/passwd"} {
		got := d.call("GET", path, nil).want(t, 200)
		if !bytes.Contains(got.body, []byte("Plimsoll")) || got.header.Get("Cache-Control") != "no-cache" || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %v %s", path, got.header, got.body)
		}
		if again := d.call("GET", path, nil, "If-None-Match", got.header.Get("ETag")); again.status != 304 {
			t.Errorf("%s again: %d", path, again.status)
		}
	}
	plain := d.call("GET", "/assets/index-aa.js", nil, "Accept-Encoding", "identity").want(t, 200)
	if !bytes.Equal(plain.body, script) || !strings.Contains(plain.header.Get("Cache-Control"), "immutable") || !strings.Contains(plain.header.Get("Content-Type"), "javascript") {
		t.Errorf("script: %v", plain.header)
	}
	for path, file := range map[string]string{"/assets/index-aa.js": string(script), "/assets/other-bb.css": strings.Repeat("a{color:red}", 200)} {
		got := d.call("GET", path, nil, "Accept-Encoding", "br, gzip;q=0.5").want(t, 200)
		if got.header.Get("Content-Encoding") != "gzip" || len(got.body) >= len(file) || got.header.Get("Vary") == "" {
			t.Fatalf("%s: %v", path, got.header)
		}
		r, err := gzip.NewReader(bytes.NewReader(got.body))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r); err != nil || string(text) != file {
			t.Errorf("%s does not unpack to itself: %v", path, err)
		}
	}
	if got := d.call("GET", "/assets/font-cc.woff2", nil, "Accept-Encoding", "gzip").want(t, 200); got.header.Get("Content-Encoding") != "" {
		t.Error("a font was compressed again")
	}
	if got := d.call("GET", "/assets/index-aa.js", nil, "Accept-Encoding", "gzip;q=0").want(t, 200); got.header.Get("Content-Encoding") != "" {
		t.Error("gzip was refused and sent")
	}
	d.call("GET", "/assets/index-old.js", nil).want(t, 404)
	if got := d.call("HEAD", "/", nil); got.status != 200 || len(got.body) != 0 {
		t.Errorf("HEAD: %d %s", got.status, got.body)
	}
	d.call("GET", "/api/v1/unknown", nil).want(t, 404)
	if got := d.call("GET", "/", nil); !strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'self'") {
		t.Error("no content security policy")
	}
}

func TestMissingDashboardSaysHowToBuildIt(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	got := d.call("GET", "/", nil)
	if got.status != 503 || !bytes.Contains(got.body, []byte("npm run build")) || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		t.Errorf("%d %s", got.status, got.body)
	}
	d.call("GET", "/healthz", nil).want(t, 200)
}

// speedControl is a DemoControl.
type speedControl struct{ speed float64 }

func (s *speedControl) Speed() float64 { return s.speed }
func (s *speedControl) SetSpeed(v float64) error {
	if v > 100 {
		return fleet.Errorf(fleet.CodeInvalid, "speed %s is too fast for this trace", fmt.Sprint(v))
	}
	s.speed = v
	return nil
}

func TestDemoSpeed(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{demo: &speedControl{1}})
	key := d.key(d.tenant.ID, auth.RoleOperator)
	var got struct{ Speed float64 }
	set := func(v any) answer { return d.with(key, "PUT", "/api/v1/demo/speed", map[string]any{"speed": v}) }
	set(60).want(t, 200).into(t, &got)
	if got.Speed != 60 {
		t.Errorf("set to %v", got.Speed)
	}
	set(200).want(t, 422) // the control's own limit
	set(601).want(t, 422)
	set(0).want(t, 422)
	d.with(key, "GET", "/api/v1/demo/speed", nil).want(t, 200).into(t, &got)
	var m me
	d.with(key, "GET", "/api/v1/me", nil).want(t, 200).into(t, &m)
	if got.Speed != 60 || !m.Demo {
		t.Errorf("speed %v, demo %v", got.Speed, m.Demo)
	}
	plain := openDoor(t, doorOptions{})
	key = plain.key(plain.tenant.ID, auth.RoleOperator)
	plain.with(key, "GET", "/api/v1/demo/speed", nil).want(t, 404)
	plain.with(key, "PUT", "/api/v1/demo/speed", map[string]any{"speed": 2}).want(t, 404)
}
