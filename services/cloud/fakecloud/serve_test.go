package fakecloud

import (
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestServe is the fake as a process of its own, for tests of the whole product: FAKECLOUD_DIR is a directory with world.json. It writes ca.pem,
// url and, last, control there: two addresses, of the clouds and of what only the test may ask. It ends with SIGTERM, or after ten minutes.
func TestServe(t *testing.T) {
	dir := os.Getenv("FAKECLOUD_DIR")
	if dir == "" {
		t.Skip("FAKECLOUD_DIR is not set: the fake serves tests of the whole product only where they ask for it")
	}
	b, err := os.ReadFile(filepath.Join(dir, "world.json"))
	if err != nil {
		t.Fatal(err)
	}
	var world World
	if err := json.Unmarshal(b, &world); err != nil {
		t.Fatal(err)
	}
	s := New(world)
	defer s.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /groups/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		times, desired := s.Resizes(name)
		_ = json.NewEncoder(w).Encode(map[string]any{"ended": s.Ended(name), "machines": s.Machines(name), "resized": times, "desired": desired})
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	control := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	defer control.Close()
	go func() { _ = control.Serve(l) }()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for _, f := range []struct {
		name string
		text []byte
	}{{"ca.pem", ca}, {"url", []byte(s.URL)}, {"control", []byte("http://" + l.Addr().String())}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	select {
	case <-end:
	case <-time.After(10 * time.Minute):
	}
}
