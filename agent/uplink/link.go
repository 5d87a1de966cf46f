package uplink

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"

	"connectrpc.com/connect"
)

// link is one conversation with the service. Both transports give the same: reports go up in order, messages come down in
// order of arrival, the first of them HelloAck.
type link interface {
	Send(ctx context.Context, reports []*agentv1.Report) error
	Receive() (*agentv1.StreamResponse, error)
	Close()
}

const (
	helloTimeout = 15 * time.Second
	// The service repeats a sign of life in a watch; a proxy that dropped the connection silently gives none.
	watchSilence = 3 * time.Minute
)

// streamLink is the bidirectional stream over HTTP/2.
type streamLink struct {
	stream *connect.BidiStreamForClient[agentv1.StreamRequest, agentv1.StreamResponse]
	cancel context.CancelFunc
}

func dialStream(ctx context.Context, c agentv1connect.AgentServiceClient, token string, hello *agentv1.Hello) (*streamLink, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &streamLink{stream: c.Stream(ctx), cancel: cancel}
	authorize(l.stream.RequestHeader(), token)
	watchdog := time.AfterFunc(helloTimeout, cancel)
	defer watchdog.Stop()
	if err := l.stream.Send(&agentv1.StreamRequest{Message: &agentv1.StreamRequest_Hello{Hello: hello}}); err != nil {
		return nil, l.fail(err)
	}
	return l, nil
}

// fail closes the link and returns the server's reason: after a failed send it is what Receive says.
func (l *streamLink) fail(err error) error {
	if errors.Is(err, io.EOF) {
		if _, rerr := l.stream.Receive(); rerr != nil {
			err = rerr
		}
	}
	l.Close()
	return err
}

// Send implements link. The context is that of the stream: it cannot be given twice.
func (l *streamLink) Send(_ context.Context, reports []*agentv1.Report) error {
	watchdog := time.AfterFunc(callTimeout, l.cancel)
	defer watchdog.Stop()
	for _, r := range reports {
		if err := l.stream.Send(&agentv1.StreamRequest{Message: &agentv1.StreamRequest_Report{Report: r}}); err != nil {
			return err
		}
	}
	return nil
}

// Receive implements link.
func (l *streamLink) Receive() (*agentv1.StreamResponse, error) { return l.stream.Receive() }

// Close implements link.
func (l *streamLink) Close() {
	l.cancel()
	_ = l.stream.CloseRequest()
	_ = l.stream.CloseResponse()
}

// pushLink is the same conversation over HTTP/1.1: unary pushes up, one long answer down.
type pushLink struct {
	client agentv1connect.AgentServiceClient
	token  string
	hello  *agentv1.Hello
	down   chan *agentv1.StreamResponse
	ended  chan struct{} // closed when the watch has ended; err is set before
	err    error
	closed chan struct{}
	once   sync.Once
	cancel context.CancelFunc
}

func dialPush(ctx context.Context, c agentv1connect.AgentServiceClient, token string, hello *agentv1.Hello) (*pushLink, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &pushLink{
		client: c, token: token, hello: hello, cancel: cancel,
		down: make(chan *agentv1.StreamResponse, 1024), ended: make(chan struct{}), closed: make(chan struct{}),
	}
	if err := l.Send(ctx, nil); err != nil {
		cancel()
		return nil, err
	}
	go l.watch(ctx)
	return l, nil
}

// Send implements link.
func (l *pushLink) Send(ctx context.Context, reports []*agentv1.Report) error {
	ctx, cancel := within(ctx)
	defer cancel()
	req := connect.NewRequest(&agentv1.PushRequest{Hello: l.hello, Reports: reports})
	authorize(req.Header(), l.token)
	res, err := l.client.Push(ctx, req)
	if err != nil {
		return err
	}
	if len(reports) == 0 && res.Msg.GetHelloAck() != nil {
		l.deliver(&agentv1.StreamResponse{Message: &agentv1.StreamResponse_HelloAck{HelloAck: res.Msg.GetHelloAck()}})
	}
	for _, a := range res.Msg.GetAnswers() {
		l.deliver(a)
	}
	return nil
}

func (l *pushLink) deliver(m *agentv1.StreamResponse) {
	select {
	case l.down <- m:
	case <-l.closed:
	}
}

func (l *pushLink) watch(ctx context.Context) {
	defer close(l.ended)
	req := connect.NewRequest(&agentv1.WatchRequest{Hello: l.hello})
	authorize(req.Header(), l.token)
	stream, err := l.client.Watch(ctx, req)
	if err != nil {
		l.err = err
		return
	}
	defer func() { _ = stream.Close() }()
	silence := time.AfterFunc(watchSilence, l.cancel)
	defer silence.Stop()
	for stream.Receive() {
		silence.Reset(watchSilence)
		if m := stream.Msg().GetMessage(); m != nil && m.GetHelloAck() == nil {
			l.deliver(m)
		}
	}
	if l.err = stream.Err(); l.err == nil {
		l.err = io.EOF
	}
}

// Receive implements link.
func (l *pushLink) Receive() (*agentv1.StreamResponse, error) {
	select {
	case m := <-l.down:
		return m, nil
	default:
	}
	select {
	case m := <-l.down:
		return m, nil
	case <-l.ended:
		return nil, l.err
	}
}

// Close implements link. It waits for the watch to end.
func (l *pushLink) Close() {
	l.once.Do(func() { l.cancel(); close(l.closed) })
	<-l.ended
}
