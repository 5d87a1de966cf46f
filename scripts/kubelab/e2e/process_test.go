package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a child whose output goes to a file, and which dies with the test.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	log  string
}

// start runs a program until the test ends.
func start(t *testing.T, name string, cmd *exec.Cmd, env ...string) *process {
	t.Helper()
	p := launch(t, name, cmd, env...)
	t.Cleanup(p.stop)
	return p
}

// launch runs a program with env added to a minimal environment: a setting of
// the developer's shell must not reach what is tested. The caller stops it.
func launch(t *testing.T, name string, cmd *exec.Cmd, env ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, done: make(chan struct{}), log: filepath.Join(logsOf(t), name+".log")}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setpgid = syscall.SIGTERM, true
	if err := startOnThread(cmd); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() { _ = cmd.Wait(); close(p.done) }()
	return p
}

// logsOf is the directory of a whole test, steps included.
func logsOf(t *testing.T) string {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	dir := filepath.Join(logDir, test)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stop asks the process to end, and kills it after ten seconds.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// tail is the end of the log, for a failure's message.
func (p *process) tail() string {
	b, _ := os.ReadFile(p.log)
	if len(b) > 3000 {
		b = b[len(b)-3000:]
	}
	return fmt.Sprintf("%s log:\n%s", p.name, b)
}

// PDEATHSIG is tied to the thread that started the child, so every child is
// started by one goroutine that keeps its thread.
var starts = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for f := range starts {
			f()
		}
	}()
}

func startOnThread(cmd *exec.Cmd) error {
	result := make(chan error)
	starts <- func() { result <- cmd.Start() }
	return <-result
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// freePorts returns the first of n ports in a row that are free now.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for base := 21000; base < 30000; base += n {
		free := true
		for i := range n {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+i))
			if err != nil {
				free = false
				break
			}
			_ = l.Close()
		}
		if free {
			return base
		}
	}
	t.Fatalf("no %d free ports in a row", n)
	return 0
}

// within polls until ok or the time is up, and then fails with what it last saw.
func within(t *testing.T, d time.Duration, what string, ok func() (bool, string)) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		done, seen := ok()
		took := time.Since(begin)
		if done {
			t.Logf("%6.1fs %s: %s", took.Seconds(), what, seen)
			return took
		}
		if took > d {
			t.Fatalf("not within %s: %s; last seen: %s", d, what, seen)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// never polls for the whole time and fails as soon as bad is seen.
func never(t *testing.T, d time.Duration, what string, bad func() (bool, string)) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < d; time.Sleep(200 * time.Millisecond) {
		if is, seen := bad(); is {
			t.Fatalf("%s after %.1fs: %s", what, time.Since(begin).Seconds(), seen)
		}
	}
	t.Logf("%6.1fs never: %s", d.Seconds(), what)
}
