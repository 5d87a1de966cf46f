package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"
)

// pusher sends reports through the same door as every agent, on a stream of its own.
type pusher struct {
	client agentv1connect.AgentServiceClient
	token  func(context.Context) (string, error)
	hello  *agentv1.Hello
	seq    uint64
	buffer []*agentv1.Report
	bytes  int
	sent   int // reports the service took
}

const (
	historyStream = "history"
	pushReports   = 40      // reports in one call at most
	pushBytes     = 1 << 20 // and payload, roughly
	pushTimeout   = 30 * time.Second
	pushTries     = 6
)

func newPusher(hc *http.Client, url string, token func(context.Context) (string, error), epoch uint64, speed float64) *pusher {
	return &pusher{
		client: agentv1connect.NewAgentServiceClient(hc, url, connect.WithSendGzip(), connect.WithReadMaxBytes(4<<20)),
		token:  token,
		hello: &agentv1.Hello{
			Stream: historyStream, Epoch: epoch, AgentVersion: "history", KubernetesVersion: "v1.34.0", Capabilities: []string{"scale", "sim"},
			SimulatedClock: true, ClockSpeed: speed,
		},
	}
}

// add queues a report made at a time and sends the queue when it is full.
func (p *pusher) add(ctx context.Context, at time.Time, set func(*agentv1.Report), size int) error {
	p.seq++
	r := &agentv1.Report{Seq: p.seq, AtMs: at.UnixMilli()}
	set(r)
	p.buffer = append(p.buffer, r)
	p.bytes += size
	if len(p.buffer) < pushReports && p.bytes < pushBytes { // a report comes whole: it alone is under the door's limit of 4 MiB
		return nil
	}
	return p.flush(ctx)
}

func (p *pusher) inventory(ctx context.Context, inv *agentv1.Inventory) error {
	return p.add(ctx, time.UnixMilli(inv.GetAtMs()), func(r *agentv1.Report) { r.Body = &agentv1.Report_Inventory{Inventory: inv} },
		proto.Size(inv))
}

func (p *pusher) frame(ctx context.Context, f *agentv1.Frame) error {
	if f == nil {
		return nil
	}
	return p.add(ctx, time.UnixMilli(f.GetToMs()), func(r *agentv1.Report) { r.Body = &agentv1.Report_Frame{Frame: f} },
		len(f.GetPayload())+100*len(f.GetSeries()))
}

func (p *pusher) observation(ctx context.Context, o *agentv1.Observation) error {
	return p.add(ctx, time.UnixMilli(o.GetAtMs()), func(r *agentv1.Report) { r.Body = &agentv1.Report_Observation{Observation: o} }, proto.Size(o))
}

func (p *pusher) events(ctx context.Context, at time.Time, events []*agentv1.Event) error {
	if len(events) == 0 {
		return nil
	}
	return p.add(ctx, at, func(r *agentv1.Report) { r.Body = &agentv1.Report_Events{Events: &agentv1.Events{Events: events}} }, 200*len(events))
}

// errRejected is a report the service will never take.
var errRejected = errors.New("the service refused the history")

// flush sends what is queued, trying again while the service is away, and forgets what it took.
func (p *pusher) flush(ctx context.Context) error {
	for try := 0; len(p.buffer) > 0; try++ {
		done, err := p.push(ctx)
		switch {
		case errors.Is(err, errRejected) || ctx.Err() != nil:
			return err
		case err != nil && try >= pushTries:
			return fmt.Errorf("push history: %w", err)
		case err != nil:
			if err := pause(ctx, 200*time.Millisecond<<try); err != nil {
				return err
			}
		case done > 0:
			try = -1
		}
	}
	return nil
}

// push makes one call and drops the acknowledged reports from the queue.
func (p *pusher) push(ctx context.Context) (done int, err error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	token, err := p.token(ctx)
	if err != nil {
		return 0, err
	}
	last := p.buffer[len(p.buffer)-1]
	p.hello.NowMs = last.GetAtMs()
	req := connect.NewRequest(&agentv1.PushRequest{Hello: p.hello, Reports: p.buffer})
	req.Header().Set("Authorization", "Bearer "+token)
	res, err := p.client.Push(ctx, req)
	if err != nil {
		switch connect.CodeOf(err) {
		case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeResourceExhausted, connect.CodeUnauthenticated, connect.CodeAborted:
			return 0, err
		}
		return 0, fmt.Errorf("%w: %w", errRejected, err)
	}
	acked := res.Msg.GetHelloAck().GetLastSeq()
	for _, a := range res.Msg.GetAnswers() {
		if ack := a.GetAck(); ack != nil {
			acked = max(acked, ack.GetSeq())
		}
		rej := a.GetReject()
		if rej == nil || rej.GetSeq() <= acked {
			continue
		}
		switch rej.GetCode() {
		case agentv1.RejectCode_REJECT_CODE_UNAVAILABLE, agentv1.RejectCode_REJECT_CODE_GAP:
			err = fmt.Errorf("report %d: %s", rej.GetSeq(), rej.GetDetail())
		default:
			return 0, fmt.Errorf("%w: report %d: %s: %s", errRejected, rej.GetSeq(), rej.GetCode(), rej.GetDetail())
		}
	}
	for len(p.buffer) > 0 && p.buffer[0].GetSeq() <= acked {
		p.buffer = p.buffer[1:]
		done++
	}
	if len(p.buffer) == 0 {
		p.buffer, p.bytes = nil, 0
	}
	p.sent += done
	if done == 0 && err == nil {
		err = errors.New("the service acknowledged nothing")
	}
	if done > 0 {
		err = nil
	}
	return done, err
}

// pause waits, or returns when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
