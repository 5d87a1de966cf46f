package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"
)

const (
	callDeadline     = 30 * time.Second // of one piece of work with the database
	maxConversations = 8192             // streams and watches of one process
	credentialEvery  = auth.TokenTTL / 3
)

// door is the agents' service.
type door struct {
	*Server
	pushers *pushers
}

func (s *Server) mountAgentDoor() {
	d := &door{Server: s, pushers: newPushers()}
	path, handler := agentv1connect.NewAgentServiceHandler(d,
		connect.WithCompression("zstd", newZstdReader, newZstdWriter),
		connect.WithReadMaxBytes(s.cfg.MaxReportBytes), connect.WithCompressMinBytes(1024))
	s.router.Mount(path, s.guardCalls(withControl(handler)))
}

type zstdReader struct{ *zstd.Decoder }

func (z zstdReader) Close() error            { return nil } // the decoder is used again
func (z zstdReader) Reset(r io.Reader) error { return z.Decoder.Reset(r) }

// maxWindow is the largest window that encoders use unless they are told to.
const maxWindow = 8 << 20

// newZstdReader: how much comes out is bounded by connect's read limit, how much is held meanwhile by the window.
func newZstdReader() connect.Decompressor {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(4*maxWindow))
	if err != nil {
		panic("httpapi: zstd options: " + err.Error())
	}
	return zstdReader{d}
}

func newZstdWriter() connect.Compressor {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<18))
	if err != nil {
		panic("httpapi: zstd options: " + err.Error())
	}
	return e
}

type controlKey struct{}

// withControl lets streams set deadlines of their own: the server has none, since a stream lasts for days.
func withControl(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), controlKey{}, http.NewResponseController(w))))
	})
}

// within sends with a deadline of its own. The deadline is taken back afterwards: over HTTP/2 it would end the stream even while
// nothing is sent.
func within(rc *http.ResponseController, limit time.Duration, send func() error) error {
	if err := rc.SetWriteDeadline(time.Now().Add(limit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	if err := rc.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func control(ctx context.Context) *http.ResponseController {
	c, _ := ctx.Value(controlKey{}).(*http.ResponseController)
	return c
}

// authenticate reads the agent's token.
func (d *door) authenticate(h http.Header) (auth.Principal, error) {
	token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return auth.Principal{}, connect.NewError(connect.CodeUnauthenticated, errors.New("send the agent's token"))
	}
	p, err := d.deps.Keys.Verify(token, time.Now())
	if err != nil {
		return auth.Principal{}, d.answer(context.Background(), "verify", err)
	}
	return p, nil
}

// answer maps an error for agents, once. Internals are logged, never shown.
func (d *door) answer(ctx context.Context, operation string, err error) error {
	var c *connect.Error
	if errors.As(err, &c) {
		return err
	}
	code, message, _ := explain(err)
	if code == fleet.CodeInternal && ctx.Err() == nil {
		d.deps.Log.Error("agent request failed", "operation", operation, "error", err)
	}
	return connect.NewError(connectCode(code), errors.New(message))
}

func connectCode(code fleet.Code) connect.Code {
	switch code {
	case fleet.CodeInvalid:
		return connect.CodeInvalidArgument
	case fleet.CodeNotFound, fleet.CodeForbidden: // a cluster that is not this tenant's does not exist for it
		return connect.CodePermissionDenied
	case fleet.CodeConflict:
		return connect.CodeFailedPrecondition
	case fleet.CodeUnauthorized:
		return connect.CodeUnauthenticated
	case fleet.CodeTooLarge, fleet.CodeRateLimited:
		return connect.CodeResourceExhausted
	case fleet.CodeUnavailable:
		return connect.CodeUnavailable
	default:
		return connect.CodeInternal
	}
}

// Enrol implements the service.
func (d *door) Enrol(ctx context.Context, req *connect.Request[agentv1.EnrolRequest]) (*connect.Response[agentv1.EnrolResponse], error) {
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	shown, err := auth.ParseEnrolmentToken(req.Msg.GetEnrolmentToken())
	if err != nil {
		return nil, d.answer(ctx, "enrol", err)
	}
	out := &agentv1.EnrolResponse{TenantId: string(shown.Tenant)}
	err = d.deps.DB.Tenant(ctx, shown.Tenant, func(tx *store.Tx) error {
		cluster, err := store.RedeemEnrolment(ctx, tx, shown.ID, shown.Matches, req.Msg.GetInstallId())
		if err != nil {
			return err
		}
		token, expires, err := d.deps.Keys.Issue(shown.Tenant, cluster, tx.Now)
		out.ClusterId, out.AccessToken, out.ExpiresMs = string(cluster), token, expires.UnixMilli()
		return err
	})
	if err != nil {
		return nil, d.answer(ctx, "enrol", err)
	}
	d.deps.Log.Info("agent enrolled", "tenant", out.GetTenantId(), "cluster", out.GetClusterId(), "version", clip(req.Msg.GetAgentVersion()))
	return connect.NewResponse(out), nil
}

// clip bounds what an unknown caller may put into a line of the log.
func clip(s string) string { return s[:min(len(s), 64)] }

// Refresh implements the service.
func (d *door) Refresh(ctx context.Context, req *connect.Request[agentv1.RefreshRequest]) (*connect.Response[agentv1.RefreshResponse], error) {
	p, err := d.authenticate(req.Header())
	if err != nil {
		return nil, err
	}
	c, err := d.credential(ctx, p)
	if err != nil {
		return nil, d.answer(ctx, "refresh", err)
	}
	return connect.NewResponse(&agentv1.RefreshResponse{AccessToken: c.GetAccessToken(), ExpiresMs: c.GetExpiresMs()}), nil
}

// credential makes a fresh token for an agent whose enrolment still stands.
func (d *door) credential(ctx context.Context, p auth.Principal) (*agentv1.Credential, error) {
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	c := &agentv1.Credential{}
	err := d.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		allowed, err := store.AgentAllowed(ctx, tx, p.Cluster)
		if err != nil {
			return err
		}
		if !allowed {
			return fleet.Errorf(fleet.CodeUnauthorized, "the enrolment of this agent was ended")
		}
		token, expires, err := d.deps.Keys.Issue(p.Tenant, p.Cluster, tx.Now)
		c.AccessToken, c.ExpiresMs = token, expires.UnixMilli()
		return err
	})
	return c, err
}

// open accepts a hello. fenced says that a newer agent owns the stream.
func (d *door) open(ctx context.Context, p auth.Principal, hello *agentv1.Hello) (src *store.Source, fenced bool, err error) {
	if hello == nil {
		return nil, false, connect.NewError(connect.CodeInvalidArgument, errors.New("the first message must be hello"))
	}
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	src, err = d.deps.DB.OpenSource(ctx, p.Tenant, p.Cluster, hello)
	if err == nil {
		return src, false, nil
	}
	if code, _, _ := explain(err); code == fleet.CodeConflict {
		return nil, true, nil
	}
	return nil, false, d.answer(ctx, "hello", err)
}

// ingest stores reports and answers each. A report without an answer could not be stored now: unavailable.
func (d *door) ingest(ctx context.Context, src *store.Source, reports []*agentv1.Report) []store.Outcome {
	// A commit is not broken off because the agent went away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callDeadline)
	defer cancel()
	out, err := src.Ingest(ctx, time.Now(), reports, d.deps.Queue)
	if err != nil {
		d.deps.Log.Warn("reports were not stored", "cluster", src.Cluster, "stream", src.Stream, "error", err)
		for _, r := range reports[len(out):] {
			out = append(out, unavailable(r.GetSeq()))
		}
	}
	for _, o := range out {
		d.metrics.reports.WithLabelValues(o.Result).Inc()
	}
	return out
}

func unavailable(seq uint64) store.Outcome {
	return store.Outcome{Seq: seq, Code: agentv1.RejectCode_REJECT_CODE_UNAVAILABLE, Result: "unavailable", Detail: "the service cannot store it now; send it again"}
}

// answerOf is the message for one outcome.
func answerOf(o store.Outcome) *agentv1.StreamResponse {
	if o.Code == agentv1.RejectCode_REJECT_CODE_UNSPECIFIED {
		return &agentv1.StreamResponse{Message: &agentv1.StreamResponse_Ack{Ack: &agentv1.Ack{Seq: o.Seq}}}
	}
	return &agentv1.StreamResponse{Message: &agentv1.StreamResponse_Reject{Reject: &agentv1.Reject{
		Seq: o.Seq, Code: o.Code, ExpectedSeq: o.Expected, Detail: o.Detail,
	}}}
}

func fencedAnswer() *agentv1.StreamResponse {
	return answerOf(store.Outcome{Code: agentv1.RejectCode_REJECT_CODE_FENCED, Detail: "a newer agent owns this stream"})
}

func helloAck(src *store.Source, now time.Time) *agentv1.HelloAck {
	return &agentv1.HelloAck{LastSeq: src.LastSeq, ServerNowMs: now.UnixMilli()}
}
