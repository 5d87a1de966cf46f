// Package devdb finds or starts the Postgres that development and tests run on. Order: the URL it is given, binaries of the
// machine, binaries that scripts/dev fetched. It is never part of a production start and may not be imported by any room but
// cmd and tests.
package devdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config says where the server lives.
type Config struct {
	// Dir holds the data directory; it must be traversable by an unprivileged account when the caller is root.
	Dir string
	// Port to listen on at 127.0.0.1; 0 picks a free one.
	Port int
	// BinDirs are searched before the usual places.
	BinDirs []string
	// Durable keeps fsync on. Tests switch it off; a demo whose data shall survive a power cut switches it on.
	Durable bool
}

// Server is a running Postgres child process.
type Server struct {
	// URL connects as the superuser "postgres".
	URL    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// ErrNoPostgres tells a person how to get one.
var ErrNoPostgres = errors.New("no Postgres found: set DATABASE_URL, or run apt-get install postgresql, brew install postgresql@17, or docker compose up db")

// FindBin returns a directory that holds both initdb and postgres, newest major first.
func FindBin(extra ...string) (string, error) {
	candidates := slices.Clone(extra)
	if p, err := exec.LookPath("initdb"); err == nil {
		candidates = append(candidates, filepath.Dir(p))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin", "/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return majorOf(b) - majorOf(a) })
		candidates = append(candidates, found...)
	}
	for _, dir := range candidates {
		if isFile(filepath.Join(dir, "postgres")) && isFile(filepath.Join(dir, "initdb")) {
			return dir, nil
		}
	}
	return "", ErrNoPostgres
}

func isFile(p string) bool {
	st, err := os.Stat(p)
	return err == nil && !st.IsDir()
}

// majorOf reads the first number in a path: /usr/lib/postgresql/15/bin is 15.
func majorOf(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[0])
	return n
}

// Start runs a server on cfg.Dir, creating the data directory at the first start. The child dies with this process.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	bin, err := FindBin(cfg.BinDirs...)
	if err != nil {
		return nil, err
	}
	cred, err := unprivileged()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil { //nolint:gosec // the unprivileged account of the database must traverse it
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if cred != nil {
		if !Traversable(filepath.Dir(cfg.Dir)) {
			return nil, fmt.Errorf("the account that runs Postgres cannot reach %s; choose a data directory that others may pass through, such as one in /var/tmp", cfg.Dir)
		}
		if err := os.Chown(cfg.Dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return nil, fmt.Errorf("hand data directory to the database account: %w", err)
		}
	}
	data := filepath.Join(cfg.Dir, "data")
	if !isFile(filepath.Join(data, "PG_VERSION")) {
		initdb := command(ctx, cfg.Dir, cred, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust",
			"--no-sync", "-E", "UTF8", "--locale=C.UTF-8", "--data-checksums")
		if out, err := initdb.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
		}
	}
	port := cfg.Port
	if port == 0 {
		if port, err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	return run(ctx, cfg, cred, bin, data, port)
}

func run(ctx context.Context, cfg Config, cred *syscall.Credential, bin, data string, port int) (*Server, error) {
	sync := "off"
	if cfg.Durable {
		sync = "on"
	}
	// exec.Command, not CommandContext: the server must outlive the start's context and be stopped by SIGINT.
	cmd := command(context.WithoutCancel(ctx), cfg.Dir, cred, filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync="+sync, "-c", "full_page_writes="+sync,
		"-c", "shared_buffers=256MB", "-c", "max_connections=300", "-c", "jit=off", "-c", "log_min_messages=warning")
	var log tail
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := startWithParent(cmd); err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	s := &Server{
		URL:    fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port),
		cmd:    cmd,
		exited: make(chan struct{}),
	}
	go func() {
		_ = cmd.Wait()
		close(s.exited)
	}()
	deadline := time.Now().Add(60 * time.Second)
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		conn, err := pgx.Connect(attempt, s.URL)
		cancel()
		if err == nil {
			_ = conn.Close(ctx)
			return s, nil
		}
		select {
		case <-s.exited:
			return nil, fmt.Errorf("postgres ended at start: %s", log.String())
		case <-ctx.Done():
			s.Stop()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.Stop()
			return nil, fmt.Errorf("postgres did not answer within a minute: %w", err)
		}
	}
}

// Pid of the postmaster; fault tests kill it.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Exited is closed when the server process has ended for any reason.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Stop ends the server with a fast shutdown and waits. It may be called twice.
func (s *Server) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-s.exited:
		return
	case <-time.After(15 * time.Second):
		_ = s.cmd.Process.Signal(syscall.SIGQUIT)
		<-s.exited
	}
}

// Traversable says whether every directory up to the root lets others through.
func Traversable(dir string) bool {
	for {
		st, err := os.Stat(dir)
		if err != nil || st.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// unprivileged returns the account to run the server under: nil when the caller is not root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} { // initdb needs an entry in passwd
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("a Postgres will not run as root and there is no account named postgres or nobody")
}

func command(ctx context.Context, dir string, cred *syscall.Credential, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + dir, "TZ=UTC"}
	if runtime.GOOS == "darwin" {
		cmd.Env = append(cmd.Env, "LC_ALL=en_US.UTF-8")
	}
	// A process group of its own: Ctrl-C in a terminal must not stop the database before the service.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true}
	return cmd
}

func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// tail keeps the last few KiB that a process wrote.
type tail struct{ buf bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	if t.buf.Len() > 16<<10 {
		t.buf.Reset()
	}
	return t.buf.Write(p)
}

func (t *tail) String() string { return strings.TrimSpace(t.buf.String()) }
