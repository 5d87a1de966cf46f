//go:build !dcgm

package collect

import (
	"os/exec"
	"strings"
	"testing"
)

func TestWithoutDCGMTheReasonIsSaid(t *testing.T) {
	t.Parallel()
	if _, _, err := NewDCGM(DCGMConfig{}); err == nil || !strings.Contains(err.Error(), "build tag dcgm") {
		t.Fatalf("got %v", err)
	}
}

// The code behind the build tag must not rot: it is built and tested against the stand-in library here too.
func TestDCGMBuildTag(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: the cgo build takes a while")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not there: the build with the tag dcgm is not tested")
	}
	cmd := exec.Command("go", "test", "-tags", "dcgm", "-run", "^TestDCGM$", "-count=1", "-v", "-ldflags", "-extldflags=-Wl,-z,lazy", ".")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestDCGM ") {
		t.Fatalf("go test -tags dcgm: %v\n%s", err, out)
	}
}
