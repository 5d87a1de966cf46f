package uplink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"connectrpc.com/connect"
)

// ErrFenced means that a newer agent reports for the same cluster. This one must stop.
var ErrFenced = errors.New("a newer agent reports for this cluster; this one stops")

// Transport says how to talk to the service.
type Transport string

// Transports. Auto tries the stream and falls back.
const (
	TransportAuto   Transport = "auto"
	TransportStream Transport = "stream"
	TransportPush   Transport = "push"
)

// Config of an Uplink. Endpoint, Stream and Version are required; zero durations mean the defaults named here.
type Config struct {
	Endpoint    string
	Transport   Transport // default auto
	Stream      string    // "controller" or "node/<name>"
	ClusterName string    // a suggestion; the token decides
	Version     string
	// Token returns the enrolment token, or an empty string when there is none.
	Token      func() (string, error)
	MinBackoff time.Duration // default 500 ms
	MaxBackoff time.Duration // default 30 s
	// AnswerTimeout: reports that nobody answered for so long end the connection. Default 60 s.
	AnswerTimeout time.Duration
	// StreamRetry: after a fallback the stream is tried again after this long. Default 10 min.
	StreamRetry time.Duration
}

// Handler is what the uplink needs from the rest of the agent. No method may block for long.
type Handler interface {
	// Hello describes this agent; stream, epoch, version and time are filled in here.
	Hello() *agentv1.Hello
	// Plan hands a plan over, each plan id once in a process, and once more when the service was found to have forgotten.
	Plan(*agentv1.Plan)
	// Config hands over what the service asks for.
	Config(*agentv1.Config)
	// Standing hands over what holds now.
	Standing(*agentv1.Standing)
	// Series returns every series definition in use: the first frame of a new epoch announces them again.
	Series() []*agentv1.SeriesDef
}

// Uplink keeps the conversation with the service alive.
type Uplink struct {
	cfg     Config
	state   *State
	spool   *Spool
	handler Handler
	log     *slog.Logger
	clients clients
	plans   planMemory

	connected atomic.Bool
	acked     atomic.Uint64
	rejected  atomic.Uint64
	sessions  atomic.Uint64

	// mu guards what follows.
	mu       sync.Mutex
	identity Identity // no token: not enrolled
	refused  bool     // the service refused this token

	pushUntil time.Time // only Run reads and writes it
}

// New prepares an uplink; nothing is sent before Run.
func New(cfg Config, state *State, spool *Spool, handler Handler, log *slog.Logger) (*Uplink, error) {
	if cfg.Transport == "" {
		cfg.Transport = TransportAuto
	}
	defaults := []struct {
		d   *time.Duration
		def time.Duration
	}{{&cfg.MinBackoff, 500 * time.Millisecond}, {&cfg.MaxBackoff, 30 * time.Second}, {&cfg.AnswerTimeout, time.Minute}, {&cfg.StreamRetry, 10 * time.Minute}}
	for _, x := range defaults {
		if *x.d == 0 {
			*x.d = x.def
		}
	}
	c, err := newClients(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	u := &Uplink{cfg: cfg, state: state, spool: spool, handler: handler, log: log, clients: c}
	u.identity, _ = state.Identity()
	return u, nil
}

// Status is what health endpoints show.
type Status struct {
	Connected bool
	Enrolled  bool
	AckedSeq  uint64
	Rejected  uint64
	Sessions  uint64
}

// Status returns the present state of the connection.
func (u *Uplink) Status() Status {
	u.mu.Lock()
	known := u.identity.Token != ""
	u.mu.Unlock()
	return Status{Connected: u.connected.Load(), Enrolled: known, AckedSeq: u.acked.Load(), Rejected: u.rejected.Load(), Sessions: u.sessions.Load()}
}

// Run keeps connecting until ctx ends or the agent is fenced. Everything else is retried with a growing, jittered pause.
func (u *Uplink) Run(ctx context.Context) error {
	defer u.clients.close()
	pause := u.cfg.MinBackoff
	for ctx.Err() == nil {
		before := u.sessions.Load()
		err := u.connect(ctx)
		u.connected.Store(false)
		if errors.Is(err, ErrFenced) {
			return ErrFenced
		}
		if ctx.Err() != nil {
			break
		}
		if u.sessions.Load() > before {
			pause = u.cfg.MinBackoff
		}
		wait := pause/2 + rand.N(pause/2+1)
		u.log.Warn("connection to the service ended", "error", plain(err), "retry_ms", wait.Milliseconds())
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		pause = min(pause*2, u.cfg.MaxBackoff)
	}
	return nil
}

// connect holds one conversation from credential to its end.
func (u *Uplink) connect(ctx context.Context) error {
	id, err := u.credential(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, first, err := u.dial(ctx, id)
	if err != nil {
		if connect.CodeOf(err) == connect.CodeUnauthenticated {
			u.refuse(id)
		}
		return err
	}
	defer l.Close()
	err = newSession(u, l).run(ctx, first)
	if connect.CodeOf(err) == connect.CodeUnauthenticated {
		u.refuse(id)
	}
	return err
}

// dial opens a link and waits for the first message. In auto, what looks like a proxy that cannot stream leads to push.
func (u *Uplink) dial(ctx context.Context, id Identity) (link, *agentv1.StreamResponse, error) {
	if u.cfg.Transport == TransportPush || (u.cfg.Transport == TransportAuto && time.Now().Before(u.pushUntil)) {
		return u.greet(ctx, id, TransportPush)
	}
	l, first, err := u.greet(ctx, id, TransportStream)
	if err == nil || u.cfg.Transport == TransportStream || ctx.Err() != nil || !mayBeProxy(err) {
		return l, first, err
	}
	pl, pfirst, perr := u.greet(ctx, id, TransportPush)
	if perr != nil {
		if !mayBeProxy(perr) {
			err = perr // the service itself said no
		}
		return nil, nil, err
	}
	u.pushUntil = time.Now().Add(u.cfg.StreamRetry)
	u.log.Info("the stream does not get through; using push and watch", "reason", plain(err))
	return pl, pfirst, nil
}

func (u *Uplink) greet(ctx context.Context, id Identity, t Transport) (link, *agentv1.StreamResponse, error) {
	hello := u.handler.Hello()
	hello.Stream, hello.Epoch, hello.AgentVersion = u.cfg.Stream, u.spool.Epoch(), u.cfg.Version
	if hello.NowMs == 0 {
		hello.NowMs = unixMS(time.Now())
	}
	var l link
	var err error
	if t == TransportStream {
		l, err = dialStream(ctx, u.clients.h2, id.Token, hello)
	} else {
		l, err = dialPush(ctx, u.clients.h1, id.Token, hello)
	}
	if err != nil {
		return nil, nil, err
	}
	first, err := receiveWithin(l, helloTimeout)
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return l, first, nil
}

// receiveWithin waits for one message; the link is closed when it takes too long, which ends the wait.
func receiveWithin(l link, d time.Duration) (*agentv1.StreamResponse, error) {
	type got struct {
		m   *agentv1.StreamResponse
		err error
	}
	c := make(chan got, 1)
	go func() { m, err := l.Receive(); c <- got{m, err} }()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case g := <-c:
		return g.m, g.err
	case <-t.C:
		return nil, fmt.Errorf("no greeting from the service within %s", d)
	}
}

// mayBeProxy tells failures of the protocol from answers of the service.
func mayBeProxy(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeFailedPrecondition, connect.CodeInvalidArgument, connect.CodeResourceExhausted:
		return false
	}
	return true
}

// plain is an error for the log, without the codes of the protocol.
func plain(err error) string {
	if err == nil {
		return "the service closed the connection"
	}
	var ce *connect.Error
	if errors.As(err, &ce) {
		return ce.Code().String() + ": " + ce.Message()
	}
	return err.Error()
}

// planMemory remembers the newest plan ids, so that a plan that the service repeats on a new connection is handed over once.
type planMemory struct {
	ring [256]string
	next int
}

func (p *planMemory) firstTime(id string) bool {
	for _, x := range p.ring {
		if x == id {
			return false
		}
	}
	p.ring[p.next] = id
	p.next = (p.next + 1) % len(p.ring)
	return true
}
