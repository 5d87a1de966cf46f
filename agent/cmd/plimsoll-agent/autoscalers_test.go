package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"plimsoll.dev/agent/serve/contract/expander"
	"plimsoll.dev/agent/serve/contract/externalscaler"
	"plimsoll.dev/agent/uplink/uplinktest"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// freeAddress is one of the loopback that nobody listens on. It
// lies below the ports that the system gives out by itself: until the agent listens on it, no other socket of this test takes it.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 24_000+rand.IntN(8_000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// The way of a plan to KEDA: it is applied, fetched as a metric, confirmed after a kill, and never said without either.
func TestAutoscalersAreAnsweredFromAcceptedPlans(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	r := newRig(t, "autoscalers: {address: \""+address+"\", keda: true, expander: true}\n")
	r.start()
	r.wait("the cluster was read", func(s uplinktest.State) bool { return kinds(s)["inventory"] > 0 })
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	scaler := externalscaler.NewExternalScalerClient(conn)
	ref := &externalscaler.ScaledObjectRef{Namespace: "a", Name: "x"}
	number := func() (float64, codes.Code) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		got, err := scaler.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: ref}, grpc.WaitForReady(true))
		if err != nil {
			return 0, status.Code(err)
		}
		return got.GetMetricValues()[0].GetMetricValueFloat(), codes.OK
	}
	if n, code := number(); code != codes.NotFound {
		t.Fatalf("before any plan: %v, %s", n, code)
	}
	r.svc.Send(planMessage("p1", 1, 3, 5))
	r.wait("the plan's result is there", func(s uplinktest.State) bool { return len(results(s)) == 1 })
	if n, code := number(); n != 5 || code != codes.OK {
		t.Fatalf("after the plan: %v, %s", n, code)
	}
	r.kill()
	r.start()
	seen := r.svc.State().Last
	r.wait("it goes on", func(s uplinktest.State) bool { return s.Last > seen+1 })
	if n, code := number(); code != codes.NotFound {
		t.Fatalf("after a kill, before the service spoke: %v, %s", n, code)
	}
	hold := &agentv1.Standing{Generation: 1, ValidUntilMs: simStart + 1<<40, Targets: []*agentv1.Target{{Workload: "a/Deployment/x", Replicas: 5}},
		Offerings: []*agentv1.OfferingPrice{{InstanceType: "m", Purchase: "on_demand", HourNano: 5}}}
	r.svc.Send(&agentv1.StreamResponse{Message: &agentv1.StreamResponse_Standing{Standing: hold}})
	for deadline := time.Now().Add(20 * time.Second); ; {
		n, code := number()
		if n == 5 && code == codes.OK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the service confirmed it: %v, %s\n%s", n, code, r.log)
		}
		<-time.After(20 * time.Millisecond) // the message travels; there is no signal for it
	}
	best, err := expander.NewExpanderClient(conn).BestOptions(t.Context(), &expander.BestOptionsRequest{Options: []*expander.Option{{NodeGroupId: "a"}, {NodeGroupId: "b"}}})
	if err != nil || len(best.GetOptions()) != 2 {
		t.Fatalf("options without a node: %v, %v", best, err)
	}
}
