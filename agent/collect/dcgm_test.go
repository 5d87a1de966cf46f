//go:build dcgm

package collect

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildStub compiles the stand-in for libdcgm.so against the headers of the binding, and returns its directory.
func buildStub(t *testing.T) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not there: the stand-in for libdcgm.so cannot be built")
	}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-dcgm").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	headers := filepath.Join(string(bytes.TrimSpace(module)), "pkg", "dcgm")
	out, err := exec.Command(gcc, "-shared", "-fPIC", "-w", "-I", headers, "-o", filepath.Join(dir, "libdcgm.so"), "testdata/dcgmstub/libdcgm_stub.c").CombinedOutput()
	if err != nil {
		t.Fatalf("build the stand-in: %v\n%s", err, out)
	}
	return dir
}

// The loader reads LD_LIBRARY_PATH when a process starts, so the tests that need the library run in a child of this one.
func TestDCGM(t *testing.T) {
	if os.Getenv("DCGM_STUB_FILE") == "" {
		dir := buildStub(t)
		cmd := exec.Command(os.Args[0], "-test.run=^TestDCGM$", "-test.v")
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "DCGM_STUB_FILE="+filepath.Join(dir, "scenario"))
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil || !strings.Contains(string(out), "PASS: TestDCGM/") {
			t.Fatal("the child failed:", err)
		}
		return
	}
	t.Run("scenarios", dcgmScenarios)
}

func scenario(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(os.Getenv("DCGM_STUB_FILE"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const twoGPUs = `gpu 0 GPU-aaaa 700 81559 NVIDIA H100 80GB HBM3
gpu 1 GPU-bbbb 700 81559 NVIDIA H100 80GB HBM3
mig 7 1 3 9 3
`

func dcgmScenarios(t *testing.T) {
	scenario(t, "fail dcgmInit -1\n")
	if _, _, err := NewDCGM(DCGMConfig{}); err == nil {
		t.Fatal("DCGM cannot start, and that is no error")
	}
	scenario(t, twoGPUs+"fail dcgmWatchFields -1\n")
	if _, _, err := NewDCGM(DCGMConfig{}); err == nil {
		t.Fatal("fields cannot be watched, and that is no error")
	}
	for _, address := range []string{"", "127.0.0.1:5555"} {
		t.Run("address "+address, func(t *testing.T) { dcgmReads(t, address) })
	}
}

func dcgmReads(t *testing.T, address string) {
	scenario(t, twoGPUs+`f 1 0 203 i 87
f 1 0 155 d 512.25
f 1 0 252 i 70123
f 1 0 1002 d 0.83
f 1 0 1004 e -14
f 1 1 203 i 9223372036854775794
f 1 1 150 i 41
f 4 7 1002 d 0.41
`)
	src, stop, err := NewDCGM(DCGMConfig{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	read := func() string {
		t.Helper()
		b, err := src.Collect(context.Background(), Input{})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range b.Values {
			out = append(out, fmt.Sprintf("%s %s=%g", v.Entity, v.Field, v.Value))
		}
		return strings.Join(out, "; ")
	}
	want := "GPU-aaaa dcgm_fi_dev_fb_used=70123; GPU-aaaa dcgm_fi_dev_gpu_util=87; GPU-aaaa dcgm_fi_dev_power_usage=512.25; GPU-aaaa dcgm_fi_prof_sm_active=0.83; " +
		"GPU-bbbb dcgm_fi_dev_gpu_temp=41; GPU-bbbb/gi/3 dcgm_fi_prof_sm_active=0.41"
	if got := read(); got != want {
		t.Errorf("placeholders and failed fields must be left out\ngot  %s\nwant %s", got, want)
	}
	scenario(t, twoGPUs+"f 1 0 203 i 12\n")
	if got := read(); got != "GPU-aaaa dcgm_fi_dev_gpu_util=12" {
		t.Errorf("values that changed: %s", got)
	}
	scenario(t, twoGPUs+"fail dcgmUpdateAllFields -33\n")
	if _, err := src.Collect(context.Background(), Input{}); err == nil {
		t.Error("DCGM fails, and that is no error")
	}
}
