package jobs

import (
	"os"
	"testing"

	"plimsoll.dev/services/devdb"
)

func TestMain(m *testing.M) {
	code := m.Run()
	devdb.Cleanup()
	os.Exit(code)
}
