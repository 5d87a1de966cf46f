// Package e2e runs the real service and the real agent against a real control
// plane: scale up, hold, scale down, a fight with another autoscaler, a killed
// agent, a service that is away. Run it by scripts/e2e-kube, which builds the
// three binaries.
package e2e

import (
	"fmt"
	"os"
	"testing"
)

var (
	kubelabBin = os.Getenv("KUBELAB")
	serviceBin = os.Getenv("PLIMSOLL")
	agentBin   = os.Getenv("PLIMSOLL_AGENT")
	logDir     = os.Getenv("E2E_LOGS") // logs of all processes; kept after a failure
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"KUBELAB": kubelabBin, "PLIMSOLL": serviceBin, "PLIMSOLL_AGENT": agentBin, "E2E_LOGS": logDir} {
		if value == "" {
			fmt.Fprintf(os.Stderr, "%s is not set: run scripts/e2e-kube\n", name)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}
