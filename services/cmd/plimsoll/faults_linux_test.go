package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"
)

// TestFaults is ./scripts/faults: agents report as fast as they get answers while service, agents and database are killed with SIGKILL
// in turn. In the end every acknowledged report is stored, and none twice. Everything runs on the loopback and ends by itself.
//
//	PLIMSOLL_BIN=path of plimsoll   PLIMSOLL_FAULT_SECONDS=45
func TestFaults(t *testing.T) {
	binary := os.Getenv("PLIMSOLL_BIN")
	if binary == "" {
		t.Skip("a fault test: run ./scripts/faults")
	}
	seconds, err := strconv.Atoi(or(os.Getenv("PLIMSOLL_FAULT_SECONDS"), "45"))
	if err != nil || seconds < 5 || seconds > 600 {
		t.Fatal("PLIMSOLL_FAULT_SECONDS: between 5 and 600")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds+120)*time.Second)
	defer cancel()
	yard := openYard(t, ctx, binary)
	defer yard.close()
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	kills := map[string]int{}
	for turn := 0; time.Now().Before(end); turn++ {
		if err := pause(ctx, 1500*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		switch turn % 3 {
		case 0:
			kills["service"]++
			yard.service.kill(t)
			yard.startService(t)
		case 1:
			kills["agent"]++
			a := yard.agents[turn/3%len(yard.agents)]
			a.process.kill(t)
			a.start(t)
		case 2:
			kills["database"]++
			yard.killDatabase(t, ctx)
		}
	}
	acked := uint64(0)
	for _, a := range yard.agents {
		acked += a.finish(t)
	}
	yard.judge(t, ctx, acked, kills)
}

// yard is a service, its database and its agents, each a process of its own.
type yard struct {
	dir      string
	binary   string
	database *devdb.Server
	port     int
	env      []string
	address  string
	service  *process
	agents   []*faultAgent
}

func openYard(t *testing.T, ctx context.Context, binary string) *yard {
	t.Helper()
	root := ""
	if os.Geteuid() == 0 {
		root = "/var/tmp" // the database's account must reach it
	}
	dir, err := os.MkdirTemp(root, "plimsoll-faults-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	y := &yard{dir: dir, binary: binary, port: freePort(t), address: "127.0.0.1:" + strconv.Itoa(freePort(t))}
	y.startDatabase(t, ctx)
	if err := store.MigrateUp(ctx, y.database.URL); err != nil {
		t.Fatal(err)
	}
	owner := y.owner(t, ctx)
	defer owner.Close(ctx)
	if _, err := owner.Exec(ctx, "CREATE ROLE faults LOGIN PASSWORD 'faults' IN ROLE plimsoll_service"); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(y.database.URL, "postgres@", "faults:faults@", 1)
	secret := make([]byte, auth.SealKeySize)
	_, _ = rand.Read(secret)
	y.env = append(os.Environ(), "PLIMSOLL_DATABASE_URL="+url, "PLIMSOLL_LISTEN="+y.address, "PLIMSOLL_LOG_LEVEL=error",
		"PLIMSOLL_SECRET_KEY="+base64.StdEncoding.EncodeToString(secret))
	y.enrol(t, ctx, url, secret)
	y.startService(t)
	for _, a := range y.agents {
		a.start(t)
	}
	return y
}

// enrol makes three clusters with an agent each.
func (y *yard) enrol(t *testing.T, ctx context.Context, url string, secret []byte) {
	t.Helper()
	db, err := store.Open(ctx, url, store.Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sealer, err := auth.NewSealer(secret)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.NewKeyring(ctx, httpapi.SigningKeys(db), sealer)
	if err != nil {
		t.Fatal(err)
	}
	tenant, _, err := db.CreateTenant(ctx, store.NewTenant{Name: "Yard", Owner: store.NewUser{Email: "owner@yard.test", DisplayName: "Owner", PasswordHash: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		a := &faultAgent{state: filepath.Join(y.dir, fmt.Sprintf("agent-%d", n))}
		err := db.Tenant(ctx, tenant.ID, func(tx *store.Tx) (err error) {
			a.cluster, err = store.CreateCluster(ctx, tx, fmt.Sprintf("berth-%d", n), fleet.ModeRecommend)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		token, _, err := keys.Issue(tenant.ID, a.cluster, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		a.env = append(os.Environ(), "PLIMSOLL_FAULT_AGENT="+a.state, "PLIMSOLL_FAULT_SERVICE=http://"+y.address, "PLIMSOLL_FAULT_TOKEN="+token)
		y.agents = append(y.agents, a)
	}
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

func (y *yard) owner(t *testing.T, ctx context.Context) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, y.database.URL)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// startDatabase tries for a while: the processes of a killed server need a moment to notice.
func (y *yard) startDatabase(t *testing.T, ctx context.Context) {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); ; {
		server, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(y.dir, "pg"), Port: y.port, Durable: true})
		if err == nil {
			y.database = server
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func (y *yard) killDatabase(t *testing.T, ctx context.Context) {
	t.Helper()
	if err := syscall.Kill(y.database.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-y.database.Exited()
	y.startDatabase(t, ctx)
}

func (y *yard) startService(t *testing.T) {
	t.Helper()
	y.service = startProcess(t, y.env, y.binary, "serve")
}

func (y *yard) close() {
	for _, a := range y.agents {
		a.process.end()
	}
	y.service.end()
	y.database.Stop()
	_ = os.RemoveAll(y.dir)
}

// judge compares what agents were told with what is in the database.
func (y *yard) judge(t *testing.T, ctx context.Context, acked uint64, kills map[string]int) {
	t.Helper()
	owner := y.owner(t, ctx)
	defer owner.Close(ctx)
	var stored, lost, twice int64
	for _, a := range y.agents {
		err := owner.QueryRow(ctx, `
WITH rows AS (SELECT seq FROM cluster_event WHERE cluster_id = $1 UNION ALL SELECT seq FROM observation WHERE cluster_id = $1
  UNION ALL SELECT seq FROM telemetry_frame WHERE cluster_id = $1), counts AS (SELECT seq, count(*) AS n FROM rows GROUP BY seq)
SELECT (SELECT count(*) FROM counts), (SELECT count(*) FROM generate_series(1, $2) s WHERE NOT EXISTS (SELECT FROM counts c WHERE c.seq = s)),
  (SELECT count(*) FROM counts WHERE n > 1)`, string(a.cluster), int64(a.acked)).Scan(addTo(&stored), addTo(&lost), addTo(&twice))
		if err != nil {
			t.Fatal(err)
		}
	}
	forgotten := 0
	for _, a := range y.agents {
		forgotten += a.forgotten
	}
	fmt.Printf("killed with SIGKILL: service %d times, an agent %d times, database %d times\n", kills["service"], kills["agent"], kills["database"])
	fmt.Printf("acknowledged %d, stored %d, lost %d, twice %d, acknowledged and then unknown to the service %d\n", acked, stored, lost, twice, forgotten)
	if lost != 0 || twice != 0 || forgotten != 0 || stored < int64(acked) {
		t.Error("reports were lost or stored twice")
	}
	if acked < 500 || kills["service"] == 0 || kills["agent"] == 0 || kills["database"] == 0 {
		t.Errorf("too little happened to prove anything")
	}
}

// adder sums what is scanned into it.
type adder struct{ sum *int64 }

// Scan implements sql.Scanner.
func (a adder) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a count is %T", v)
	}
	*a.sum += n
	return nil
}

func addTo(sum *int64) adder { return adder{sum} }

// process is a child that can be killed and that dies with this test.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

func startProcess(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...)}
	p.cmd.Env, p.cmd.Stderr = env, os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it dies with the thread that TestFaults holds
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("it was dead before it was killed: %v", err)
	}
	_ = p.cmd.Wait()
}

func (p *process) end() {
	if p == nil || p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// faultAgent is an agent in a process of its own: this test's binary again.
type faultAgent struct {
	cluster   fleet.ClusterID
	state     string
	env       []string
	process   *process
	acked     uint64
	forgotten int
}

func (a *faultAgent) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a.process = startProcess(t, a.env, self, "-test.run", "^TestFaultAgent$")
}

// finish lets the agent get its last answers, and reads what it was told in all its lives.
func (a *faultAgent) finish(t *testing.T) uint64 {
	t.Helper()
	_ = a.process.stdin.Close()
	line, err := a.process.out.ReadString('\n')
	if err != nil {
		t.Fatalf("an agent did not finish: %v", err)
	}
	var told struct {
		Acked     uint64
		Forgotten int
	}
	if err := json.Unmarshal([]byte(line), &told); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	_ = a.process.cmd.Wait()
	a.acked, a.forgotten = told.Acked, told.Forgotten
	return told.Acked
}

// TestFaultAgent is the process of an agent in TestFaults. It reports until its standard input is closed. What it reports follows from
// the sequence number alone, so that a new life sends what the last one would have; what it was told, it keeps on disk.
func TestFaultAgent(t *testing.T) {
	state := os.Getenv("PLIMSOLL_FAULT_AGENT")
	if state == "" {
		t.Skip("a part of TestFaults")
	}
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: 2 * time.Second}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	told, err := os.OpenFile(state, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	p := &reporter{told: told, token: os.Getenv("PLIMSOLL_FAULT_TOKEN"),
		client: agentv1connect.NewAgentServiceClient(&http.Client{Transport: transport}, os.Getenv("PLIMSOLL_FAULT_SERVICE"))}
	if err := p.recall(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	var last time.Time // after it nothing more is waited for
	for {
		err := p.converse(t.Context(), over)
		if err == nil {
			break
		}
		select {
		case <-over:
			if last.IsZero() {
				last = time.Now().Add(30 * time.Second)
			} else if time.Now().After(last) {
				slog.Error("no answer to the last reports", "error", err)
				os.Exit(1)
			}
		default:
		}
		if err := pause(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	line, _ := json.Marshal(map[string]any{"Acked": p.acked, "Forgotten": p.forgotten})
	fmt.Println(string(line))
	os.Exit(0) //nolint:gocritic // before the test runner prints; what was told is written already
}

type reporter struct {
	client    agentv1connect.AgentServiceClient
	token     string
	told      *os.File
	acked     uint64
	forgotten int
}

// recall reads what earlier lives were told: one number a line, the last may be cut; "lost" counts what the service had forgotten.
func (p *reporter) recall() error {
	lines := bufio.NewScanner(p.told)
	for lines.Scan() {
		if lines.Text() == "lost" {
			p.forgotten++
		} else if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
			p.acked = max(p.acked, n)
		}
	}
	return lines.Err()
}

func (p *reporter) note(text string) error {
	_, err := p.told.WriteString(text + "\n") // survives SIGKILL in the page cache
	return err
}

const faultWindow = 32

// converse holds one stream; nil when over is closed and everything that was sent is answered.
func (p *reporter) converse(ctx context.Context, over <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := p.client.Stream(ctx)
	stream.RequestHeader().Set("Authorization", "Bearer "+p.token)
	hello := &agentv1.Hello{Stream: "controller", Epoch: 1, SimulatedClock: true, ClockSpeed: 1}
	if err := stream.Send(&agentv1.StreamRequest{Message: &agentv1.StreamRequest_Hello{Hello: hello}}); err != nil {
		return err
	}
	watchdog := time.AfterFunc(10*time.Second, cancel)
	defer watchdog.Stop()
	sent := uint64(0)
	for greeted := false; ; {
		m, err := stream.Receive()
		if err != nil {
			return err
		}
		watchdog.Reset(10 * time.Second)
		switch x := m.GetMessage().(type) {
		case *agentv1.StreamResponse_HelloAck:
			if x.HelloAck.GetLastSeq() < p.acked {
				p.forgotten++
				if err := p.note("lost"); err != nil {
					return err
				}
			}
			greeted, sent = true, x.HelloAck.GetLastSeq()
			err = p.answered(sent)
		case *agentv1.StreamResponse_Ack:
			err = p.answered(x.Ack.GetSeq())
		case *agentv1.StreamResponse_Reject:
			return fmt.Errorf("report %d: %s", x.Reject.GetSeq(), x.Reject.GetDetail())
		}
		if err != nil {
			return err
		}
		if !greeted {
			continue
		}
		select {
		case <-over:
			if p.acked == sent {
				return nil
			}
			continue
		default:
		}
		for ; sent < p.acked+faultWindow; sent++ {
			if err := stream.Send(&agentv1.StreamRequest{Message: &agentv1.StreamRequest_Report{Report: faultReport(sent + 1)}}); err != nil {
				if errors.Is(err, io.EOF) {
					break // Receive tells why
				}
				return err
			}
		}
	}
}

func (p *reporter) answered(seq uint64) error {
	if seq <= p.acked {
		return nil
	}
	p.acked = seq
	return p.note(strconv.FormatUint(seq, 10))
}

var faultDay = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// faultReport is report number seq: an event, an observation or a frame.
func faultReport(seq uint64) *agentv1.Report {
	at := faultDay.Add(time.Duration(seq) * time.Second).UnixMilli()
	r := &agentv1.Report{Seq: seq, AtMs: at}
	switch seq % 3 {
	case 0:
		r.Body = &agentv1.Report_Events{Events: &agentv1.Events{Events: []*agentv1.Event{{AtMs: at, Kind: "oom", Message: strconv.FormatUint(seq, 10)}}}}
	case 1:
		r.Body = &agentv1.Report_Observation{Observation: &agentv1.Observation{AtMs: at, Workloads: []*agentv1.WorkloadObservation{{Workload: "a/Deployment/b", Replicas: 1}}}}
	default:
		payload, err := frame.Encode(frame.Frame{Ticks: []int64{at}, Series: []uint32{1}, Values: [][]float64{{float64(seq)}}}, frame.Limits{})
		if err != nil {
			panic(err) // the frame is a constant but for its numbers
		}
		r.Body = &agentv1.Report_Frame{Frame: &agentv1.Frame{FromMs: at, ToMs: at + 1000, Payload: payload,
			Series: []*agentv1.SeriesDef{{Id: 1, Kind: "workload", Entity: "a/Deployment/b", Field: "replicas"}}}}
	}
	return r
}
