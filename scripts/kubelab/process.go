package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// stopGrace is how long a component may take to end before it is killed.
const stopGrace = 5 * time.Second

// Children are tied by PDEATHSIG to the thread that started them, so main must
// stay on its thread for as long as they live.
func init() { runtime.LockOSThread() }

// process is one component, run by this same binary.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // why it ended; read after done
}

// startProcess runs component name with args in dir; its output goes to
// dir/log/NAME.log and its id to dir/log/NAME.pid.
func startProcess(dir, name string, args ...string) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log", name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy
	cmd := exec.Command(exe, append([]string{name}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = fmt.Errorf("%s ended: %v (see %s)", name, cmd.Wait(), log.Name())
		close(p.done)
	}()
	pid := filepath.Join(dir, "log", name+".pid")
	if err := os.WriteFile(pid, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
