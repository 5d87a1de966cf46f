package httpapi

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const (
	helloDeadline  = 15 * time.Second
	silenceAllowed = 10 * time.Minute // an agent says something every minute, if only a frame
	groupReports   = 64               // stored together at most
	standingEvery  = 2 * time.Minute  // what holds now is told again
	unstoredBytes  = 8 << 20          // of one stream: received and not stored yet
)

var (
	errClosing = connect.NewError(connect.CodeUnavailable, errors.New("the service restarts; connect again"))
	errSilent  = connect.NewError(connect.CodeDeadlineExceeded, errors.New("nothing was heard of the agent for too long"))
	errEnough  = connect.NewError(connect.CodeResourceExhausted, errors.New("too many agents are connected to this process"))
)

// Stream implements the service: reports up, answers, plans, config and credentials down, until either side ends it.
func (d *door) Stream(ctx context.Context, stream *connect.BidiStream[agentv1.StreamRequest, agentv1.StreamResponse]) error {
	p, err := d.authenticate(stream.RequestHeader())
	if err != nil {
		return err
	}
	if !d.enter() {
		return errEnough
	}
	defer d.leave()
	rc := control(ctx)
	_ = rc.SetReadDeadline(time.Now().Add(helloDeadline))
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	_ = rc.SetReadDeadline(time.Time{})
	src, fenced, err := d.open(ctx, p, first.GetHello())
	if err != nil {
		return err
	}
	c := &conversation{door: d, who: p, src: src, send: func(m *agentv1.StreamResponse) error {
		return within(rc, d.cfg.SendDeadline, func() error { return stream.Send(m) })
	}}
	if fenced {
		return c.send(fencedAnswer())
	}
	ctx, cancel := context.WithCancel(ctx)
	in := make(chan incoming, groupReports)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.receive(ctx, stream, in)
	}()
	defer func() {
		cancel()
		_ = rc.SetReadDeadline(time.Now()) // ends a Receive that waits
		<-done
	}()
	return c.run(ctx, in)
}

// enter counts a conversation; false: there are too many.
func (d *door) enter() bool {
	if d.conversations.Add(1) > maxConversations {
		d.conversations.Add(-1)
		return false
	}
	d.metrics.clusters.Inc()
	return true
}

func (d *door) leave() {
	d.conversations.Add(-1)
	d.metrics.clusters.Dec()
}

// conversation is one open stream or watch of an agent.
type conversation struct {
	*door
	who    auth.Principal
	src    *store.Source
	send   func(*agentv1.StreamResponse) error
	plan   string // id of the plan that was sent last
	config *agentv1.Config
}

// incoming is a message, or why there is none. An unreadable message has a reason and no report; the stream goes on after it.
type incoming struct {
	report *agentv1.Report
	bytes  int64
	err    error
	code   agentv1.RejectCode
	free   func()
}

// receive reads until the stream ends. It holds back when too much waits to be stored.
func (c *conversation) receive(ctx context.Context, stream *connect.BidiStream[agentv1.StreamRequest, agentv1.StreamResponse], in chan<- incoming) {
	room := semaphore.NewWeighted(unstoredBytes)
	for {
		m, err := stream.Receive()
		next := incoming{err: err}
		switch code := connect.CodeOf(err); {
		case err == nil:
			if next.report = m.GetReport(); next.report == nil {
				continue // a second hello, or a message of a newer agent
			}
			next.bytes = int64(proto.Size(next.report))
			weight := min(next.bytes+512, unstoredBytes)
			if room.Acquire(ctx, weight) != nil {
				return
			}
			next.free = func() { room.Release(weight) }
		case code == connect.CodeResourceExhausted: // longer than allowed; it was skipped
			next.code = agentv1.RejectCode_REJECT_CODE_TOO_LARGE
		case code == connect.CodeInvalidArgument: // no protobuf, or not compressed as it says
			next.code = agentv1.RejectCode_REJECT_CODE_MALFORMED
		}
		select {
		case in <- next:
		case <-ctx.Done():
			return
		}
		if err != nil && next.code == agentv1.RejectCode_REJECT_CODE_UNSPECIFIED {
			return
		}
	}
}

// run is the only writer of the stream.
func (c *conversation) run(ctx context.Context, in <-chan incoming) error {
	sub := c.broker.subscribe(c.who.Tenant, c.who.Cluster)
	defer c.broker.unsubscribe(sub)
	if err := c.greet(ctx); err != nil {
		return err
	}
	credentials := time.NewTicker(credentialEvery)
	defer credentials.Stop()
	standing := time.NewTicker(standingEvery)
	defer standing.Stop()
	silence := time.NewTimer(silenceAllowed)
	defer silence.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closing.Done():
			return errClosing
		case m := <-in:
			silence.Reset(silenceAllowed)
			if ended, ierr := c.take(ctx, m, in); ended || ierr != nil {
				return ierr
			}
		case e := <-sub.events:
			err = c.heard(ctx, e)
		case <-sub.resync:
			err = c.catchUp(ctx)
		case <-credentials.C:
			err = c.renew(ctx)
		case <-standing.C:
			err = c.hold(ctx)
		case <-silence.C:
			return errSilent
		}
		if err != nil {
			return err
		}
	}
}

func (c *conversation) greet(ctx context.Context) error {
	ack := &agentv1.StreamResponse{Message: &agentv1.StreamResponse_HelloAck{HelloAck: helloAck(c.src, time.Now())}}
	if err := c.send(ack); err != nil {
		return err
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	return c.hold(ctx)
}

// hold tells an agent that answers other autoscalers what holds now, again and again while it holds.
func (c *conversation) hold(ctx context.Context) error {
	if !c.src.Controls() {
		return nil
	}
	work, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	var s *agentv1.Standing
	err := c.deps.DB.Tenant(work, c.who.Tenant, func(tx *store.Tx) (err error) {
		s, err = store.StandingOf(work, tx, c.prices(), c.who.Cluster)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			c.deps.Log.Error("agent is not told what holds", "cluster", c.who.Cluster, "error", err)
		}
		return nil // what it was told goes out of date there, and reports go on
	}
	if s == nil {
		return nil
	}
	return c.send(&agentv1.StreamResponse{Message: &agentv1.StreamResponse_Standing{Standing: s}})
}

// take stores a message and everything that waits behind it, in one group, and answers.
func (c *conversation) take(ctx context.Context, m incoming, in <-chan incoming) (ended bool, err error) {
	for {
		var group []*agentv1.Report
		var free []func()
		for m.report != nil && len(group) < groupReports {
			group, free = append(group, m.report), append(free, m.free)
			c.metrics.bytes.Add(float64(m.bytes))
			select {
			case m = <-in:
				continue
			default:
			}
			m = incoming{}
		}
		if len(group) > 0 {
			out := c.ingest(ctx, c.src, group)
			for _, f := range free {
				f()
			}
			if ended, err := c.tell(out); ended || err != nil {
				return ended, err
			}
		}
		switch {
		case m.report != nil: // the group was full
		case m.code != agentv1.RejectCode_REJECT_CODE_UNSPECIFIED:
			return false, c.refuse(ctx, m)
		case m.err != nil:
			return true, nil //nolint:nilerr // the agent ended it, or its network did: it comes back
		default:
			return false, nil
		}
	}
}

// tell answers outcomes: one ack for all reports in a row that are durable, each reject by itself. A fenced agent is told and left.
func (c *conversation) tell(out []store.Outcome) (ended bool, err error) {
	for i, o := range out {
		durable := o.Code == agentv1.RejectCode_REJECT_CODE_UNSPECIFIED
		if durable && i+1 < len(out) && out[i+1].Code == agentv1.RejectCode_REJECT_CODE_UNSPECIFIED && out[i+1].Seq > o.Seq {
			continue
		}
		if err := c.send(answerOf(o)); err != nil {
			return false, err
		}
		if o.Code == agentv1.RejectCode_REJECT_CODE_FENCED {
			return true, nil
		}
	}
	return false, nil
}

// refuse answers a message that could not be read. Its number was in it: it is the one after the last that was.
func (c *conversation) refuse(ctx context.Context, m incoming) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callDeadline)
	defer cancel()
	detail := "the report cannot be read"
	if m.code == agentv1.RejectCode_REJECT_CODE_TOO_LARGE {
		detail = "the report is longer than the service takes"
	}
	seq := c.src.LastSeq + 1
	o, err := c.src.Refuse(ctx, seq, m.code, detail)
	if err != nil {
		o = unavailable(seq)
	}
	c.metrics.reports.WithLabelValues(o.Result).Inc()
	return c.send(answerOf(o))
}

// heard reacts to an event of the cluster.
func (c *conversation) heard(ctx context.Context, e store.Event) error {
	switch e.Kind {
	case store.EventPlan, store.EventConfig:
		return c.catchUp(ctx)
	}
	return nil
}

// catchUp sends what the agent shall know now: config when it changed, and the plan to carry out when it is another.
func (c *conversation) catchUp(ctx context.Context) error {
	if !c.src.Controls() {
		return nil
	}
	var plan *agentv1.Plan
	var config *agentv1.Config
	work, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	err := c.deps.DB.Tenant(work, c.who.Tenant, func(tx *store.Tx) (err error) {
		if config, err = store.AgentConfig(work, tx, c.who.Cluster); err != nil {
			return err
		}
		plan, err = store.PendingPlan(work, tx, c.who.Cluster)
		return err
	})
	if err != nil {
		return c.answer(ctx, "plan", err)
	}
	if !proto.Equal(config, c.config) {
		c.config = config
		if err := c.send(&agentv1.StreamResponse{Message: &agentv1.StreamResponse_Config{Config: config}}); err != nil {
			return err
		}
	}
	if plan == nil || plan.GetPlanId() == c.plan {
		return nil
	}
	c.plan = plan.GetPlanId()
	return c.send(&agentv1.StreamResponse{Message: &agentv1.StreamResponse_Plan{Plan: plan}})
}

// renew sends a fresh credential long before the old one ends, and ends the conversation of an agent that was shut out.
func (c *conversation) renew(ctx context.Context) error {
	fresh, err := c.credential(ctx, c.who)
	if err != nil {
		return c.answer(ctx, "renew", err)
	}
	return c.send(&agentv1.StreamResponse{Message: &agentv1.StreamResponse_Credential{Credential: fresh}})
}
