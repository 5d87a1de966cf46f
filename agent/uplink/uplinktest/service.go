// Package uplinktest is a small service for tests: it speaks the agent contract over both transports, keeps what it accepts in
// memory under the same watermark rule as the real one, and fails on demand. It may never be imported by the agent itself.
package uplinktest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"
)

// Service is the fake.
type Service struct {
	Token string        // the enrolment token that is accepted
	Life  time.Duration // of a credential
	// MaxBytes of one message; set it before Start.
	MaxBytes int

	// mu guards what follows.
	mu        sync.Mutex
	installs  map[string]bool
	jwts      map[string]time.Time
	issued    int
	epoch     uint64
	last      uint64
	accepted  []*agentv1.Report // in order, of all epochs
	dups      int
	hellos    []*agentv1.Hello
	answers   []func(*agentv1.Report) *agentv1.StreamResponse // for the next reports; nil results fall through
	loseAcks  int                                             // accept so many reports and break the connection instead of answering
	greetings []*agentv1.StreamResponse                       // sent after each HelloAck
	conns     map[chan *agentv1.StreamResponse]bool
	changed   chan struct{} // closed and replaced at each change
}

// New makes a service with nothing in it.
func New() *Service {
	return &Service{Token: "enrol-me", Life: time.Hour, MaxBytes: 8 << 20, installs: map[string]bool{}, jwts: map[string]time.Time{},
		conns: map[chan *agentv1.StreamResponse]bool{}, changed: make(chan struct{})}
}

// Start serves on loopback. With h2 false it is a proxy's world: HTTP/1.1 only.
func (s *Service) Start(h2 bool) *httptest.Server {
	path, h := agentv1connect.NewAgentServiceHandler(s, connect.WithCompression("zstd", newDecompressor, newCompressor), connect.WithReadMaxBytes(s.MaxBytes))
	mux := http.NewServeMux()
	mux.Handle(path, h)
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(h2)
	srv.Start()
	return srv
}

type decompressor struct{ *zstd.Decoder }

func (d decompressor) Close() error            { return nil }
func (d decompressor) Reset(r io.Reader) error { return d.Decoder.Reset(r) }

func newDecompressor() connect.Decompressor {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return decompressor{d}
}

func newCompressor() connect.Compressor {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return e
}

// change runs f under the lock and wakes those who wait.
func (s *Service) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Wait returns when cond holds or ctx ends; cond is called under the lock, after each change.
func (s *Service) Wait(ctx context.Context, cond func(State) bool) error {
	for {
		s.mu.Lock()
		ok, changed := cond(s.state()), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// State is what the service has.
type State struct {
	Epoch, Last uint64
	Accepted    []*agentv1.Report
	Duplicates  int
	Hellos      []*agentv1.Hello
	Issued      int // credentials
	Connected   int
}

// State returns a copy of what the service has.
func (s *Service) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

func (s *Service) state() State {
	return State{Epoch: s.epoch, Last: s.last, Accepted: append([]*agentv1.Report(nil), s.accepted...), Duplicates: s.dups,
		Hellos: append([]*agentv1.Hello(nil), s.hellos...), Issued: s.issued, Connected: len(s.conns)}
}

// Answer makes f answer the next report instead of the rule; a nil result leaves it to the rule.
func (s *Service) Answer(f func(*agentv1.Report) *agentv1.StreamResponse) {
	s.change(func() { s.answers = append(s.answers, f) })
}

// LoseAcks makes the next n reports be stored and the connection break before they are answered.
func (s *Service) LoseAcks(n int) { s.change(func() { s.loseAcks = n }) }

// Greet sends messages after each greeting from now on.
func (s *Service) Greet(ms ...*agentv1.StreamResponse) { s.change(func() { s.greetings = ms }) }

// Revoke makes every credential invalid.
func (s *Service) Revoke() { s.change(func() { s.jwts = map[string]time.Time{} }) }

// Fence makes a higher epoch known.
func (s *Service) Fence(epoch uint64) { s.change(func() { s.epoch, s.last = epoch, 0 }) }

// SetLast moves the watermark, as a restored backup would.
func (s *Service) SetLast(seq uint64) { s.change(func() { s.last = seq }) }

// Send pushes a message to every open conversation.
func (s *Service) Send(m *agentv1.StreamResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		select {
		case c <- m:
		default:
		}
	}
}

// Enrol implements the contract.
func (s *Service) Enrol(_ context.Context, r *connect.Request[agentv1.EnrolRequest]) (*connect.Response[agentv1.EnrolResponse], error) {
	if r.Msg.GetEnrolmentToken() != s.Token || r.Msg.GetInstallId() == "" {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("the enrolment token is not valid"))
	}
	token, expires := s.issue()
	s.change(func() { s.installs[r.Msg.GetInstallId()] = true })
	return connect.NewResponse(&agentv1.EnrolResponse{TenantId: "t", ClusterId: "c", AccessToken: token, ExpiresMs: expires}), nil
}

// Refresh implements the contract.
func (s *Service) Refresh(_ context.Context, r *connect.Request[agentv1.RefreshRequest]) (*connect.Response[agentv1.RefreshResponse], error) {
	if err := s.authorized(r.Header()); err != nil {
		return nil, err
	}
	token, expires := s.issue()
	return connect.NewResponse(&agentv1.RefreshResponse{AccessToken: token, ExpiresMs: expires}), nil
}

func (s *Service) issue() (string, int64) {
	expires := time.Now().Add(s.Life)
	var token string
	s.change(func() {
		s.issued++
		token = "jwt-" + time.Now().Format("150405.000000000") + string(rune('a'+s.issued%26))
		s.jwts[token] = expires
	})
	return token, expires.UnixMilli()
}

func (s *Service) authorized(h http.Header) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	const prefix = "Bearer "
	a := h.Get("Authorization")
	if len(a) > len(prefix) {
		if until, ok := s.jwts[a[len(prefix):]]; ok && time.Now().Before(until) {
			return nil
		}
	}
	return connect.NewError(connect.CodeUnauthenticated, errors.New("the credential is not valid"))
}

// greet takes a hello; it returns the first message and whether the conversation may go on.
func (s *Service) greet(h *agentv1.Hello) (*agentv1.StreamResponse, bool) {
	var out *agentv1.StreamResponse
	ok := true
	s.change(func() {
		s.hellos = append(s.hellos, h)
		if h.GetEpoch() < s.epoch {
			out, ok = reject(0, agentv1.RejectCode_REJECT_CODE_FENCED, 0), false
			return
		}
		if h.GetEpoch() > s.epoch {
			s.epoch, s.last = h.GetEpoch(), 0
		}
		out = &agentv1.StreamResponse{Message: &agentv1.StreamResponse_HelloAck{HelloAck: &agentv1.HelloAck{LastSeq: s.last, ServerNowMs: time.Now().UnixMilli()}}}
	})
	return out, ok
}

func reject(seq uint64, code agentv1.RejectCode, expected uint64) *agentv1.StreamResponse {
	return &agentv1.StreamResponse{Message: &agentv1.StreamResponse_Reject{Reject: &agentv1.Reject{Seq: seq, Code: code, ExpectedSeq: expected}}}
}

// Reject builds an answer for Answer. Malformed and too large count as consumed.
func (s *Service) Reject(seq uint64, code agentv1.RejectCode) *agentv1.StreamResponse {
	if code == agentv1.RejectCode_REJECT_CODE_MALFORMED || code == agentv1.RejectCode_REJECT_CODE_TOO_LARGE {
		s.last = seq // called under the lock
	}
	return reject(seq, code, 0)
}

var errLost = errors.New("connection lost")

// take stores one report by the watermark rule.
func (s *Service) take(epoch uint64, r *agentv1.Report) (out *agentv1.StreamResponse, err error) {
	s.change(func() {
		if r.GetSeq() == 0 {
			out = s.Reject(s.last+1, agentv1.RejectCode_REJECT_CODE_TOO_LARGE)
			return
		}
		if epoch < s.epoch {
			out = reject(r.GetSeq(), agentv1.RejectCode_REJECT_CODE_FENCED, 0)
			return
		}
		if r.GetSeq() == s.last+1 && len(s.answers) > 0 {
			f := s.answers[0]
			s.answers = s.answers[1:]
			if out = f(r); out != nil {
				return
			}
		}
		switch {
		case r.GetSeq() <= s.last:
			s.dups++
		case r.GetSeq() > s.last+1:
			out = reject(r.GetSeq(), agentv1.RejectCode_REJECT_CODE_GAP, s.last+1)
			return
		default:
			s.last = r.GetSeq()
			s.accepted = append(s.accepted, r)
			if s.loseAcks > 0 {
				s.loseAcks--
				err = errLost
			}
		}
		out = &agentv1.StreamResponse{Message: &agentv1.StreamResponse_Ack{Ack: &agentv1.Ack{Seq: r.GetSeq()}}}
	})
	return out, err
}

// join registers a conversation and returns what to send it first.
func (s *Service) join() (chan *agentv1.StreamResponse, func()) {
	c := make(chan *agentv1.StreamResponse, 64)
	s.change(func() {
		s.conns[c] = true
		for _, m := range s.greetings {
			c <- m
		}
	})
	return c, func() { s.change(func() { delete(s.conns, c) }) }
}

// Stream implements the contract.
func (s *Service) Stream(ctx context.Context, st *connect.BidiStream[agentv1.StreamRequest, agentv1.StreamResponse]) error {
	if err := s.authorized(st.RequestHeader()); err != nil {
		return err
	}
	m, err := st.Receive()
	if err != nil {
		return err
	}
	hello := m.GetHello()
	first, ok := s.greet(hello)
	if err := st.Send(first); err != nil || !ok {
		return err
	}
	down, leave := s.join()
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up := make(chan *agentv1.Report)
	go func() {
		defer close(up)
		for {
			m, err := st.Receive()
			if connect.CodeOf(err) == connect.CodeResourceExhausted {
				m = &agentv1.StreamRequest{Message: &agentv1.StreamRequest_Report{Report: &agentv1.Report{}}} // too large: seq 0
			} else if err != nil {
				return
			}
			select {
			case up <- m.GetReport():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-down:
			if err := st.Send(m); err != nil {
				return err
			}
		case r, ok := <-up:
			if !ok {
				return nil
			}
			answer, err := s.take(hello.GetEpoch(), r)
			if err != nil {
				return connect.NewError(connect.CodeUnavailable, err)
			}
			if err := st.Send(answer); err != nil {
				return err
			}
		}
	}
}

// Push implements the contract.
func (s *Service) Push(_ context.Context, r *connect.Request[agentv1.PushRequest]) (*connect.Response[agentv1.PushResponse], error) {
	if err := s.authorized(r.Header()); err != nil {
		return nil, err
	}
	out := &agentv1.PushResponse{}
	if len(r.Msg.GetReports()) == 0 {
		first, _ := s.greet(r.Msg.GetHello())
		if out.HelloAck = first.GetHelloAck(); out.HelloAck == nil {
			out.Answers = append(out.Answers, first)
		}
	}
	for _, rep := range r.Msg.GetReports() {
		answer, err := s.take(r.Msg.GetHello().GetEpoch(), rep)
		if err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, err)
		}
		out.Answers = append(out.Answers, answer)
	}
	return connect.NewResponse(out), nil
}

// Watch implements the contract.
func (s *Service) Watch(ctx context.Context, r *connect.Request[agentv1.WatchRequest], st *connect.ServerStream[agentv1.WatchResponse]) error {
	if err := s.authorized(r.Header()); err != nil {
		return err
	}
	down, leave := s.join()
	defer leave()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-down:
			if err := st.Send(&agentv1.WatchResponse{Message: m}); err != nil {
				return err
			}
		}
	}
}
