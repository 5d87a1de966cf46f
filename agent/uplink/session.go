package uplink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

const (
	windowReports = 64          // sent and not answered
	batchBytes    = 1 << 20     // sent at once, unless one report alone is larger: well under what the service takes in one message
	comeBackAfter = time.Second // least pause after REJECT_CODE_UNAVAILABLE, at most twice that
	refreshRetry  = 30 * time.Second
)

// session is one conversation: what was sent, what was answered.
type session struct {
	u     *Uplink
	link  link
	next  uint64 // to send
	acked uint64 // answered

	rewound    uint64    // seq of the last rewind; the answers to what was sent before it are old news
	holdUntil  time.Time // the service asked for a pause
	lastAnswer time.Time

	refreshAt  time.Time      // not before
	background sync.WaitGroup // the refresh in progress
}

func newSession(u *Uplink, l link) *session { return &session{u: u, link: l} }

// errDisagree means that this side and the service do not share the past: a new epoch begins.
var errDisagree = errors.New("the service and this agent disagree about what was sent; a new epoch begins")

func (s *session) run(ctx context.Context, first *agentv1.StreamResponse) error {
	err := s.converse(ctx, first)
	if errors.Is(err, errDisagree) {
		defs := s.u.handler.Series()
		rerr := s.u.spool.Renew(time.Now(), func(r *agentv1.Report) {
			if f := r.GetFrame(); f != nil && defs != nil {
				f.Series, defs = defs, nil
			}
		})
		if rerr != nil {
			return rerr
		}
		s.u.plans = planMemory{} // answers may be among what the service has forgotten: a plan that it repeats is answered again
	}
	return err
}

func (s *session) converse(ctx context.Context, first *agentv1.StreamResponse) error {
	ctx, cancel := context.WithCancel(ctx)
	down, failed := make(chan *agentv1.StreamResponse, 1024), make(chan error, 1)
	done := make(chan struct{})
	defer func() { cancel(); s.link.Close(); <-done; s.background.Wait() }()
	go func() {
		defer close(done)
		for {
			m, err := s.link.Receive()
			if err != nil {
				failed <- err
				return
			}
			select {
			case down <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := s.handle(first); err != nil {
		return err
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := s.send(ctx); err != nil {
			return s.reason(err, failed)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case m := <-down:
			if err := s.handle(m); err != nil {
				return err
			}
		case <-s.u.spool.Wake():
		case <-tick.C:
			if err := s.housekeep(ctx); err != nil {
				return err
			}
		}
	}
}

// reason prefers what the service said over a write that only says that the stream is closed.
func (s *session) reason(err error, failed <-chan error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case ferr := <-failed:
		return ferr
	case <-t.C:
		return err
	}
}

// send passes on what is pending, as far as the window allows. Everything is on disk before it leaves.
func (s *session) send(ctx context.Context) error {
	if s.next == 0 || time.Now().Before(s.holdUntil) {
		return nil
	}
	if flying := s.next - 1 - s.acked; flying < windowReports {
		_, last := s.u.spool.Bounds()
		if s.next > last {
			return nil
		}
		if err := s.u.spool.Sync(); err != nil {
			return err
		}
		reports := s.u.spool.Read(s.next, windowReports/2, batchBytes)
		if len(reports) == 0 || reports[0].GetSeq() != s.next {
			return errDisagree
		}
		if s.next-1 == s.acked {
			s.lastAnswer = time.Now()
		}
		s.next += uint64(len(reports))
		err := s.link.Send(ctx, reports)
		if connect.CodeOf(err) == connect.CodeResourceExhausted && len(reports) == 1 && proto.Size(reports[0]) > batchBytes {
			// A push of one large report was refused as a whole: its number goes on without it.
			s.u.rejected.Add(1)
			s.u.spool.Bury(reports[0].GetSeq())
			s.next = reports[0].GetSeq()
			return nil
		}
		return err
	}
	return nil
}

func (s *session) housekeep(ctx context.Context) error {
	if s.next > s.acked+1 && time.Since(s.lastAnswer) > s.u.cfg.AnswerTimeout {
		return fmt.Errorf("no answer to reports for %s", s.u.cfg.AnswerTimeout)
	}
	s.u.mu.Lock()
	id := s.u.identity
	s.u.mu.Unlock()
	now := time.Now()
	switch {
	case unixMS(now) >= id.ExpiresMS:
		return errors.New("the credential expired")
	case unixMS(now) < id.renewAt() || now.Before(s.refreshAt):
		return nil
	}
	s.refreshAt = now.Add(refreshRetry)
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		if _, err := s.u.refresh(ctx, id); err != nil && ctx.Err() == nil {
			s.u.log.Warn("refresh of the credential failed", "error", plain(err))
		}
	}()
	return nil
}

func (s *session) handle(m *agentv1.StreamResponse) error {
	switch x := m.GetMessage().(type) {
	case *agentv1.StreamResponse_HelloAck:
		return s.greeted(x.HelloAck)
	case *agentv1.StreamResponse_Ack:
		return s.answered(x.Ack.GetSeq(), s.u.spool.Trim)
	case *agentv1.StreamResponse_Reject:
		return s.rejected(x.Reject)
	case *agentv1.StreamResponse_Plan:
		if x.Plan.GetPlanId() != "" && s.u.plans.firstTime(x.Plan.GetPlanId()) {
			s.u.handler.Plan(x.Plan)
		}
	case *agentv1.StreamResponse_Config:
		s.u.handler.Config(x.Config)
	case *agentv1.StreamResponse_Standing:
		s.u.handler.Standing(x.Standing)
	case *agentv1.StreamResponse_Credential:
		if _, err := s.u.renewed(x.Credential.GetAccessToken(), x.Credential.GetExpiresMs()); err != nil {
			return err
		}
	}
	return nil // an unknown message is ignored
}

func (s *session) greeted(h *agentv1.HelloAck) error {
	first, last := s.u.spool.Bounds()
	if h.GetLastSeq() > last || h.GetLastSeq()+1 < first {
		return errDisagree
	}
	if err := s.u.spool.Trim(h.GetLastSeq()); err != nil {
		return err
	}
	s.acked, s.next = h.GetLastSeq(), h.GetLastSeq()+1
	s.u.acked.Store(s.acked)
	s.u.sessions.Add(1)
	s.u.connected.Store(true)
	s.u.log.Info("connected", "epoch", s.u.spool.Epoch(), "last_seq", h.GetLastSeq(), "pending", last-h.GetLastSeq())
	return nil
}

func (s *session) answered(seq uint64, forget func(uint64) error) error {
	s.lastAnswer = time.Now()
	if seq <= s.acked || s.next == 0 {
		return nil // a duplicate of an answer
	}
	if _, last := s.u.spool.Bounds(); seq > last {
		return errDisagree
	}
	s.acked, s.next = seq, max(s.next, seq+1)
	s.u.acked.Store(seq)
	return forget(seq)
}

func (s *session) rejected(r *agentv1.Reject) error {
	s.u.log.Warn("report rejected", "seq", r.GetSeq(), "code", r.GetCode().String(), "detail", r.GetDetail())
	switch r.GetCode() {
	case agentv1.RejectCode_REJECT_CODE_FENCED:
		return ErrFenced
	case agentv1.RejectCode_REJECT_CODE_MALFORMED, agentv1.RejectCode_REJECT_CODE_TOO_LARGE:
		s.u.rejected.Add(1)
		return s.answered(r.GetSeq(), s.u.spool.Reject)
	case agentv1.RejectCode_REJECT_CODE_GAP:
		return s.gap(r.GetExpectedSeq())
	default: // unavailable, and codes of the future: later
		s.lastAnswer = time.Now()
		s.holdUntil = time.Now().Add(comeBackAfter + rand.N(comeBackAfter))
		if r.GetSeq() > s.acked {
			s.next, s.rewound = min(s.next, r.GetSeq()), r.GetSeq()
		}
		return nil
	}
}

// gap sends again from what the service expects. Each report sent behind the gap gets the same answer: only the first counts.
func (s *session) gap(expected uint64) error {
	s.lastAnswer = time.Now()
	first, last := s.u.spool.Bounds()
	switch {
	case expected > last+1, expected < first && expected <= s.acked:
		return errDisagree
	case expected == s.rewound, expected > s.next:
		return nil
	case expected > s.acked+1:
		if err := s.answered(expected-1, s.u.spool.Trim); err != nil {
			return err
		}
	}
	s.next, s.rewound = expected, expected
	return nil
}
