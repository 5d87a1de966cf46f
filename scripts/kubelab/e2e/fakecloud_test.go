package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakecloud is the product's own fake of the clouds, as a process that the service's adapter calls instead of Amazon.
type fakecloud struct {
	dir     string
	control string
	env     []string // of a service that calls it
}

// toldGroup is a group as only the cloud knows it.
type toldGroup struct {
	Ended    []string // by name, in order
	Machines []string
	Resized  int // how often its size was changed
	Desired  int
}

func startFakecloud(t *testing.T, groups ...map[string]any) *fakecloud {
	t.Helper()
	f := &fakecloud{dir: filepath.Join(logsOf(t), "fakecloud")}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(f.dir, "fakecloud")
	build := exec.Command("go", "test", "-c", "-o", bin, "./cloud/fakecloud")
	build.Dir = "../../../services"
	build.Env = append(os.Environ(), "GOWORK=") // the repository's own workspace
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the fake: %v: %s", err, out)
	}
	world, err := json.Marshal(map[string]any{"Groups": groups})
	if err == nil {
		err = os.WriteFile(filepath.Join(f.dir, "world.json"), world, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "fakecloud", exec.Command(bin, "-test.run=^TestServe$", "-test.timeout=15m"), "FAKECLOUD_DIR="+f.dir)
	within(t, 20*time.Second, "the fake cloud answers", func() (bool, string) {
		if !p.alive() {
			t.Fatal(p.tail())
		}
		b, err := os.ReadFile(filepath.Join(f.dir, "control"))
		f.control = string(b)
		return err == nil && strings.HasPrefix(f.control, "http://"), fmt.Sprint(err)
	})
	url, err := os.ReadFile(filepath.Join(f.dir, "url"))
	if err != nil {
		t.Fatal(err)
	}
	f.env = []string{"AWS_ENDPOINT_URL=" + string(url), "AWS_CA_BUNDLE=" + filepath.Join(f.dir, "ca.pem"), "AWS_ACCESS_KEY_ID=AKIABASE", "AWS_SECRET_ACCESS_KEY=of-nobody", "AWS_EC2_METADATA_DISABLED=true"}
	return f
}

func (f *fakecloud) group(t *testing.T, name string) (g toldGroup) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get(f.control + "/groups/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&g); err != nil {
		t.Fatal(err)
	}
	return g
}
