package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"plimsoll.dev/services/fleet"
)

// lockDir makes sure that one `plimsoll dev` at a time uses a data directory. The kernel gives the lock back however the process ends.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fleet.Errorf(fleet.CodeConflict, "another plimsoll dev runs on %s; stop it first, or choose another directory with -data", dir)
	}
	return func() { f.Close() }, nil
}
