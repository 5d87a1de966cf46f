package uplink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"plimsoll.dev/agent/uplink/uplinktest"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Pooled connections of the HTTP transports close on their own time.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"))
}

// handler records what the uplink hands over.
type handler struct {
	mu      sync.Mutex
	plans   []string
	configs []*agentv1.Config
	// standings that were handed over
	standings []*agentv1.Standing
	got       chan struct{}
}

func newHandler() *handler               { return &handler{got: make(chan struct{}, 100)} }
func (h *handler) Hello() *agentv1.Hello { return &agentv1.Hello{} }
func (h *handler) Series() []*agentv1.SeriesDef {
	return []*agentv1.SeriesDef{{Id: 1, Kind: "workload", Entity: "a/Deployment/b", Field: "ready"}}
}

func (h *handler) Plan(p *agentv1.Plan) {
	h.mu.Lock()
	h.plans = append(h.plans, p.GetPlanId())
	h.mu.Unlock()
	h.got <- struct{}{}
}

func (h *handler) Standing(st *agentv1.Standing) {
	h.mu.Lock()
	h.standings = append(h.standings, st)
	h.mu.Unlock()
	h.got <- struct{}{}
}

func (h *handler) Config(c *agentv1.Config) {
	h.mu.Lock()
	h.configs = append(h.configs, c)
	h.mu.Unlock()
	h.got <- struct{}{}
}

// rig is an uplink against a fake service.
type rig struct {
	t       *testing.T
	svc     *uplinktest.Service
	srv     *httptest.Server
	h2      bool
	dir     string
	cfg     Config
	h       *handler
	state   *State
	spool   *Spool
	up      *Uplink
	cancel  context.CancelFunc
	stopped chan error
}

func newRig(t *testing.T, transport Transport, h2 bool) *rig {
	r := &rig{t: t, svc: uplinktest.New(), dir: t.TempDir(), h: newHandler()}
	r.h2 = h2
	token := "enrol-me"
	r.cfg = Config{Transport: transport, Stream: "controller", Version: "test", Token: func() (string, error) { return token, nil },
		MinBackoff: 5 * time.Millisecond, MaxBackoff: 50 * time.Millisecond}
	t.Cleanup(func() {
		r.stop()
		if r.srv != nil {
			r.srv.CloseClientConnections()
			r.srv.Close()
		}
	})
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.state, err = OpenState(r.dir); err != nil {
		r.t.Fatal(err)
	}
	if r.spool, err = OpenSpool(r.state.Path("spool"), 8<<20, time.Now()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) start() {
	r.t.Helper()
	if r.spool == nil {
		r.open()
	}
	if r.srv == nil {
		r.srv = r.svc.Start(r.h2)
		r.cfg.Endpoint = r.srv.URL
	}
	var err error
	if r.up, err = New(r.cfg, r.state, r.spool, r.h, slog.New(slog.DiscardHandler)); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.stopped = cancel, make(chan error, 1)
	go func() { r.stopped <- r.up.Run(ctx) }()
}

func (r *rig) stop() error {
	if r.spool == nil {
		return nil
	}
	var err error
	if r.cancel != nil {
		r.cancel()
		err = <-r.stopped
	}
	r.spool.Close()
	r.state.Close()
	r.spool, r.state, r.cancel = nil, nil, nil
	return err
}

func (r *rig) append(n int) {
	r.t.Helper()
	for i := range n {
		if _, err := r.spool.Append(observation(fmt.Sprintf("n%d", i))); err != nil {
			r.t.Fatal(err)
		}
	}
}

func observation(name string) *agentv1.Report {
	return &agentv1.Report{AtMs: 1, Body: &agentv1.Report_Observation{Observation: &agentv1.Observation{Workloads: []*agentv1.WorkloadObservation{{Workload: name}}}}}
}

func (r *rig) wait(what string, cond func(uplinktest.State) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.svc.Wait(ctx, cond); err != nil {
		r.t.Fatalf("waiting until %s: %v; the service has %+v", what, err, r.svc.State())
	}
}

// checkOnce holds the promise: numbers 1..n of the epoch, each once, in order.
func checkOnce(t *testing.T, st uplinktest.State, n int) {
	t.Helper()
	if len(st.Accepted) != n {
		t.Fatalf("accepted %d reports, want %d", len(st.Accepted), n)
	}
	for i, r := range st.Accepted {
		if r.GetSeq() != uint64(i+1) {
			t.Fatalf("report %d has seq %d", i+1, r.GetSeq())
		}
	}
}

// transports is the conformance suite's list: everything below holds for both.
var transports = []struct {
	name string
	t    Transport
	h2   bool
}{
	{"stream", TransportStream, true},
	{"push", TransportPush, false},
	{"auto over a proxy that speaks HTTP/1.1", TransportAuto, false},
	{"auto over HTTP/2", TransportAuto, true},
}

func TestTransports(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			for name, f := range map[string]func(*testing.T, *rig){
				"reports arrive once and in order, and the spool forgets them":     arrivesOnce,
				"an ack that was lost leads to a duplicate, not to a loss":         lostAck,
				"a gap is filled from what the service expects":                    gapFilled,
				"a malformed report is given up and the stream stays up":           malformed,
				"an unavailable service is asked again later":                      unavailable,
				"a report the service finds too large is left out":                 tooLarge,
				"a restart goes on with the same epoch":                            restart,
				"a newer epoch stops the agent":                                    fenced,
				"a plan is handed over once though it is sent again":               planOnce,
				"a revoked credential leads to a new enrolment":                    revoked,
				"the credential is renewed before it ends":                         renewed,
				"a service restored from a backup gets what is still here":         serviceRestored,
				"a service that has forgotten what was answered is answered again": serviceForgot,
				"an agent restored from a backup begins a new epoch":               agentRestored,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					f(t, newRig(t, tr.t, tr.h2))
				})
			}
		})
	}
}

func arrivesOnce(t *testing.T, r *rig) {
	r.open()
	r.append(200)
	r.start()
	r.wait("200 reports are there", func(s uplinktest.State) bool { return s.Last == 200 })
	r.append(1)
	r.wait("the next one is there", func(s uplinktest.State) bool { return s.Last == 201 })
	checkOnce(t, r.svc.State(), 201)
	for deadline := time.Now().Add(10 * time.Second); r.spool.Stats().Pending > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d reports are still kept", r.spool.Stats().Pending)
		}
		<-time.After(time.Millisecond) // the ack travels; there is no signal for it
	}
}

func lostAck(t *testing.T, r *rig) {
	r.open()
	r.append(10)
	r.svc.LoseAcks(3)
	r.start()
	r.wait("all are there", func(s uplinktest.State) bool { return s.Last == 10 && len(s.Hellos) >= 4 })
	checkOnce(t, r.svc.State(), 10)
}

func gapFilled(t *testing.T, r *rig) {
	r.open()
	r.append(5)
	r.svc.Answer(func(x *agentv1.Report) *agentv1.StreamResponse {
		return &agentv1.StreamResponse{Message: &agentv1.StreamResponse_Reject{Reject: &agentv1.Reject{Seq: x.GetSeq(), Code: agentv1.RejectCode_REJECT_CODE_GAP, ExpectedSeq: 1}}}
	})
	r.start()
	r.wait("all are there", func(s uplinktest.State) bool { return s.Last == 5 })
	checkOnce(t, r.svc.State(), 5)
}

func malformed(t *testing.T, r *rig) {
	r.open()
	r.append(5)
	r.svc.Answer(func(*agentv1.Report) *agentv1.StreamResponse { return nil })
	r.svc.Answer(func(x *agentv1.Report) *agentv1.StreamResponse {
		return r.svc.Reject(x.GetSeq(), agentv1.RejectCode_REJECT_CODE_MALFORMED)
	})
	lost := make(chan Kind, 10)
	r.spool.OnLost(func(k Kind, _ int) { lost <- k })
	r.start()
	r.wait("the rest is there", func(s uplinktest.State) bool { return s.Last == 5 })
	st := r.svc.State()
	if len(st.Accepted) != 4 || len(st.Hellos) != 1 {
		t.Fatalf("accepted %d in %d conversations, want 4 in one", len(st.Accepted), len(st.Hellos))
	}
	wantLost(t, lost, KindObservation)
	if n := r.up.Status().Rejected; n != 1 {
		t.Fatalf("rejected %d", n)
	}
}

func unavailable(t *testing.T, r *rig) {
	r.open()
	r.append(3)
	r.svc.Answer(func(x *agentv1.Report) *agentv1.StreamResponse {
		return r.svc.Reject(x.GetSeq(), agentv1.RejectCode_REJECT_CODE_UNAVAILABLE)
	})
	r.start()
	r.wait("all are there", func(s uplinktest.State) bool { return s.Last == 3 })
	checkOnce(t, r.svc.State(), 3)
}

func tooLarge(t *testing.T, r *rig) {
	r.svc.MaxBytes = 2 << 20
	r.open()
	lost := make(chan Kind, 10)
	r.spool.OnLost(func(k Kind, _ int) { lost <- k })
	r.append(1)
	if _, err := r.spool.Append(&agentv1.Report{AtMs: 5, Body: &agentv1.Report_Frame{Frame: &agentv1.Frame{Payload: noise(3 << 20)}}}); err != nil {
		t.Fatal(err)
	}
	r.append(1)
	r.start()
	r.wait("what follows is there", func(s uplinktest.State) bool { return s.Last == 3 })
	wantLost(t, lost, KindFrame)
}

func wantLost(t *testing.T, lost <-chan Kind, want Kind) {
	t.Helper()
	select {
	case k := <-lost:
		if k != want {
			t.Fatalf("lost kind %d, want %d", k, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was told of the loss")
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func restart(t *testing.T, r *rig) {
	r.open()
	r.append(3)
	r.start()
	r.wait("the first are there", func(s uplinktest.State) bool { return s.Last == 3 })
	r.stop()
	r.open()
	r.append(3)
	r.start()
	r.wait("the others too", func(s uplinktest.State) bool { return s.Last == 6 })
	st := r.svc.State()
	checkOnce(t, st, 6)
	for _, h := range st.Hellos {
		if h.GetEpoch() != st.Epoch {
			t.Fatalf("epoch changed from %d to %d", h.GetEpoch(), st.Epoch)
		}
	}
	if st.Issued != 1 {
		t.Fatalf("%d credentials were issued; the stored one should have been used", st.Issued)
	}
}

func fenced(t *testing.T, r *rig) {
	r.open()
	r.append(1)
	r.start()
	r.wait("the first is there", func(s uplinktest.State) bool { return s.Last == 1 })
	r.svc.Fence(1 << 62)
	r.append(1)
	select {
	case err := <-r.stopped:
		if !errors.Is(err, ErrFenced) {
			t.Fatalf("the uplink stopped with %v", err)
		}
		r.stopped <- err
	case <-time.After(20 * time.Second):
		t.Fatal("the uplink goes on")
	}
	if n := len(r.svc.State().Accepted); n != 1 {
		t.Fatalf("%d reports were accepted", n)
	}
}

func plan(id string) *agentv1.StreamResponse {
	return &agentv1.StreamResponse{Message: &agentv1.StreamResponse_Plan{Plan: &agentv1.Plan{PlanId: id}}}
}

func planOnce(t *testing.T, r *rig) {
	r.svc.Greet(plan("p1"), &agentv1.StreamResponse{Message: &agentv1.StreamResponse_Config{Config: &agentv1.Config{Mode: "enforce"}}},
		&agentv1.StreamResponse{Message: &agentv1.StreamResponse_Standing{Standing: &agentv1.Standing{Generation: 7}}})
	r.open()
	r.svc.LoseAcks(1)
	r.append(1)
	r.start()
	r.wait("it connected twice", func(s uplinktest.State) bool { return len(s.Hellos) >= 2 && s.Connected == 1 })
	r.svc.Send(plan("p1"))
	r.svc.Send(plan("p2"))
	for seen := 0; seen < 2; {
		select {
		case <-r.h.got:
			r.h.mu.Lock()
			seen = len(r.h.plans)
			r.h.mu.Unlock()
		case <-time.After(20 * time.Second):
			t.Fatal("no plan came")
		}
	}
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if fmt.Sprint(r.h.plans) != "[p1 p2]" || len(r.h.configs) == 0 {
		t.Fatalf("plans %v, %d configs", r.h.plans, len(r.h.configs))
	}
}

func revoked(t *testing.T, r *rig) {
	r.open()
	r.append(1)
	r.start()
	r.wait("the first is there", func(s uplinktest.State) bool { return s.Last == 1 })
	r.stop()
	r.svc.Revoke()
	r.open()
	r.append(1)
	r.start()
	r.wait("the second is there", func(s uplinktest.State) bool { return s.Last == 2 && s.Issued == 2 })
}

func renewed(t *testing.T, r *rig) {
	r.svc.Life = 1500 * time.Millisecond
	r.start()
	r.wait("three credentials were issued and it is connected", func(s uplinktest.State) bool { return s.Issued >= 3 && s.Connected > 0 })
	r.append(1)
	r.wait("reports still arrive", func(s uplinktest.State) bool { return s.Last == 1 })
}

func serviceRestored(t *testing.T, r *rig) {
	r.open()
	r.append(20)
	r.start()
	r.wait("all are there", func(s uplinktest.State) bool { return s.Last == 20 })
	r.stop()
	r.svc.SetLast(4)
	r.open()
	r.append(2)
	r.start()
	r.wait("what was lost and what is new is there", func(s uplinktest.State) bool { return s.Last == 22 })
}

func serviceForgot(t *testing.T, r *rig) {
	plan := &agentv1.StreamResponse{Message: &agentv1.StreamResponse_Plan{Plan: &agentv1.Plan{PlanId: "p1"}}}
	r.svc.Greet(plan)
	r.open()
	r.append(20)
	r.start()
	<-r.h.got
	r.wait("all are there", func(s uplinktest.State) bool { return s.Last == 20 })
	for first := uint64(0); first <= 20; first, _ = r.spool.Bounds() { // until nothing of it is left here
		time.Sleep(time.Millisecond)
	}
	r.svc.SetLast(4)
	r.srv.CloseClientConnections()
	select {
	case <-r.h.got:
	case <-time.After(20 * time.Second):
		t.Fatal("the plan that the service repeats is not answered again")
	}
	if !slices.Equal(r.h.plans, []string{"p1", "p1"}) {
		t.Errorf("handed over %v", r.h.plans)
	}
}

func agentRestored(t *testing.T, r *rig) {
	r.open()
	r.append(3)
	r.start()
	r.wait("all are there", func(s uplinktest.State) bool { return s.Last == 3 })
	r.stop()
	before := r.svc.State().Epoch
	r.svc.SetLast(50)
	r.open()
	if _, err := r.spool.Append(&agentv1.Report{AtMs: 1, Body: &agentv1.Report_Frame{Frame: &agentv1.Frame{Payload: []byte("x")}}}); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.wait("a new epoch carries the new one", func(s uplinktest.State) bool {
		return s.Epoch > before && len(s.Accepted) > 0 && s.Accepted[len(s.Accepted)-1].GetFrame() != nil
	})
	st := r.svc.State()
	if f := st.Accepted[len(st.Accepted)-1].GetFrame(); len(f.GetSeries()) != 1 {
		t.Fatalf("the first frame of the new epoch announces %d series, want all 1", len(f.GetSeries()))
	}
}
