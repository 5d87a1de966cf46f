package httpapi

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const (
	maxPushReports = 1024
	pusherLife     = 5 * time.Minute // a stream that pushed nothing for so long is read from the database again
	maxPushers     = 4096
)

// pushers remember the streams that come by push, so that a call does not read the series of its epoch again.
type pushers struct {
	mu  sync.Mutex
	all map[pusherKey]*pusher // guarded by mu
}

type pusherKey struct {
	tenant  fleet.TenantID
	cluster fleet.ClusterID
	stream  string
	epoch   uint64
}

type pusher struct {
	mu     sync.Mutex    // one call of a stream at a time
	src    *store.Source // guarded by mu; nil: not opened
	usedAt time.Time     // guarded by pushers.mu
}

func newPushers() *pushers { return &pushers{all: map[pusherKey]*pusher{}} }

// get returns the stream's entry and drops those that were not used for long.
func (p *pushers) get(key pusherKey, now time.Time) *pusher {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= maxPushers/2 {
		for k, old := range p.all {
			if now.Sub(old.usedAt) > pusherLife || len(p.all) >= maxPushers {
				delete(p.all, k)
			}
		}
	}
	e := p.all[key]
	if e == nil || now.Sub(e.usedAt) > pusherLife {
		e = &pusher{}
		p.all[key] = e
	}
	e.usedAt = now
	return e
}

// Push implements the service: the upward half of a stream, call by call. A call without reports is a hello.
func (d *door) Push(ctx context.Context, req *connect.Request[agentv1.PushRequest]) (*connect.Response[agentv1.PushResponse], error) {
	p, err := d.authenticate(req.Header())
	if err != nil {
		return nil, err
	}
	if n := len(req.Msg.GetReports()); n > maxPushReports {
		return nil, d.answer(ctx, "push", fleet.Errorf(fleet.CodeTooLarge, "%d reports in one call, at most %d are taken", n, maxPushReports))
	}
	hello := req.Msg.GetHello()
	e := d.pushers.get(pusherKey{p.Tenant, p.Cluster, hello.GetStream(), hello.GetEpoch()}, time.Now())
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.src == nil || len(req.Msg.GetReports()) == 0 {
		src, fenced, err := d.open(ctx, p, hello)
		if err != nil {
			return nil, err
		}
		if fenced {
			return connect.NewResponse(&agentv1.PushResponse{Answers: []*agentv1.StreamResponse{fencedAnswer()}}), nil
		}
		e.src = src
	}
	out := &agentv1.PushResponse{HelloAck: helloAck(e.src, time.Now())}
	reports := req.Msg.GetReports()
	for len(reports) > 0 {
		n := min(len(reports), groupReports)
		for _, o := range d.ingest(ctx, e.src, reports[:n]) {
			out.Answers = append(out.Answers, answerOf(o))
			if o.Code == agentv1.RejectCode_REJECT_CODE_FENCED {
				e.src = nil
				return connect.NewResponse(out), nil
			}
		}
		reports = reports[n:]
	}
	return connect.NewResponse(out), nil
}

// Watch implements the service: the downward half of a stream.
func (d *door) Watch(ctx context.Context, req *connect.Request[agentv1.WatchRequest], stream *connect.ServerStream[agentv1.WatchResponse]) error {
	p, err := d.authenticate(req.Header())
	if err != nil {
		return err
	}
	if !d.enter() {
		return errEnough
	}
	defer d.leave()
	src, fenced, err := d.open(ctx, p, req.Msg.GetHello())
	if err != nil {
		return err
	}
	rc := control(ctx)
	c := &conversation{door: d, who: p, src: src, send: func(m *agentv1.StreamResponse) error {
		return within(rc, d.cfg.SendDeadline, func() error { return stream.Send(&agentv1.WatchResponse{Message: m}) })
	}}
	if fenced {
		return c.send(fencedAnswer())
	}
	return c.watch(ctx)
}

// watch is run without the upward half. The greeting is repeated as a sign of life, so that proxies do not end a silent answer.
func (c *conversation) watch(ctx context.Context) error {
	sub := c.broker.subscribe(c.who.Tenant, c.who.Cluster)
	defer c.broker.unsubscribe(sub)
	if err := c.greet(ctx); err != nil {
		return err
	}
	credentials := time.NewTicker(credentialEvery)
	defer credentials.Stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	standing := time.NewTicker(standingEvery)
	defer standing.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closing.Done():
			return errClosing
		case e := <-sub.events:
			err = c.heard(ctx, e)
		case <-sub.resync:
			err = c.catchUp(ctx)
		case <-credentials.C:
			err = c.renew(ctx)
		case <-standing.C:
			err = c.hold(ctx)
		case <-beat.C:
			err = c.send(nil)
		}
		if err != nil {
			return err
		}
	}
}
