package httpapi_test

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// An agent that answers KEDA is told on connecting what holds, by stream and by watch; one that does not is not.
func TestWhatHoldsIsToldToAgentsThatAnswerOthers(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	q.arrange(1)
	q.exec(`UPDATE decision SET state = 'applied', after_replicas = 2 WHERE state = 'dispatched'`)
	hello := greeting(1)
	hello.Capabilities = []string{"keda", "scale"}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	l := &line{t, q.h2.Stream(ctx)}
	l.up.RequestHeader().Set("Authorization", "Bearer "+q.token(q.cluster))
	if err := l.up.Send(&agentv1.StreamRequest{Message: &agentv1.StreamRequest_Hello{Hello: hello}}); err != nil {
		t.Fatal(err)
	}
	l.greeted()
	check := func(s *agentv1.Standing) {
		t.Helper()
		if len(s.GetTargets()) != 1 || s.GetTargets()[0].GetReplicas() != 2 || s.GetGeneration() != 1 || s.GetValidUntilMs() <= time.Now().UnixMilli() {
			t.Fatalf("the agent is told %v", s)
		}
	}
	check(l.next().GetStanding())
	req := connect.NewRequest(&agentv1.WatchRequest{Hello: hello})
	req.Header().Set("Authorization", "Bearer "+q.token(q.cluster))
	watch, err := q.h1.Watch(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close() })
	for watch.Receive() {
		if s := watch.Msg().GetMessage().GetStanding(); s != nil {
			check(s)
			return
		}
	}
	t.Fatal("nothing by watch:", watch.Err())
}
