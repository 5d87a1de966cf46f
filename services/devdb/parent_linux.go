package devdb

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startWithParent makes the kernel end the child when this process dies, kill -9 included. Pdeathsig follows the thread that
// forked, so that thread is kept for the life of the process.
func startWithParent(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- cmd.Start()
		select {} // holds the thread; ends with the process
	}()
	return <-result
}
