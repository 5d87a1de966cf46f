package serve

import (
	"context"
	"errors"
	"strings"
	"time"

	"plimsoll.dev/agent/serve/contract/externalscaler"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// MetricName is what KEDA's HPA shows, with KEDA's prefix.
	MetricName = "plimsoll-replicas"
	// WorkloadKey of a trigger's metadata names the workload, "Deployment/chat"; absent: the Deployment of the ScaledObject's name.
	WorkloadKey = "workload"

	maxName    = 253
	maxStreams = 5000
	recheck    = 15 * time.Second // a target may go out of date without a change
)

// scalerServer answers KEDA. The metric is the wanted count itself, and its target is one: the HPA's ceil(value / target) is the count.
type scalerServer struct {
	externalscaler.UnimplementedExternalScalerServer
	board   *Board
	gate    Gate
	limit   int64         // largest count that is said; 0: none
	streams chan struct{} // bounds them
}

// target is the count for what KEDA asks about. An error carries no number: KEDA's own fallback applies then.
func (s *scalerServer) target(ref *externalscaler.ScaledObjectRef) (int32, <-chan struct{}, error) {
	workload, err := workloadOf(ref)
	if err != nil {
		return 0, nil, err
	}
	s.board.Ask(workload)
	n, changed, err := s.board.Target(workload)
	switch {
	case errors.Is(err, ErrUnknown):
		return 0, changed, status.Errorf(codes.NotFound, "%s: %v", workload, err)
	case err != nil:
		return 0, changed, status.Errorf(codes.Unavailable, "%s: %v", workload, err)
	}
	if ok, why := s.gate(); !ok {
		return 0, changed, status.Error(codes.FailedPrecondition, why)
	}
	if s.limit > 0 && int64(n) > s.limit {
		return 0, changed, status.Errorf(codes.FailedPrecondition, "%s: %d replicas are over this agent's limit of %d for one workload", workload, n, s.limit)
	}
	return n, changed, nil
}

// workloadOf is the key of the workload. It is always one of the ScaledObject's own namespace.
func workloadOf(ref *externalscaler.ScaledObjectRef) (string, error) {
	ns, name := ref.GetNamespace(), ref.GetName()
	if ns == "" || len(ns) > maxName || strings.Contains(ns, "/") {
		return "", status.Error(codes.InvalidArgument, "the ScaledObject has no namespace")
	}
	kind, name := "Deployment", name
	if w, ok := ref.GetScalerMetadata()[WorkloadKey]; ok {
		if kind, name, ok = strings.Cut(w, "/"); !ok {
			return "", status.Errorf(codes.InvalidArgument, "metadata %s must be Kind/name, as in Deployment/chat", WorkloadKey)
		}
	}
	if kind == "" || name == "" || strings.Contains(name, "/") || len(kind) > maxName || len(name) > maxName {
		return "", status.Errorf(codes.InvalidArgument, "metadata %s must be Kind/name, as in Deployment/chat", WorkloadKey)
	}
	return ns + "/" + kind + "/" + name, nil
}

// IsActive implements the contract: active means that at least one replica is wanted.
func (s *scalerServer) IsActive(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	n, _, err := s.target(ref)
	if err != nil {
		return nil, err
	}
	return &externalscaler.IsActiveResponse{Result: n > 0}, nil
}

// StreamIsActive implements the contract: it says what holds at once, and again on each change. While nothing is known it says nothing,
// which leaves the workload as it is.
func (s *scalerServer) StreamIsActive(ref *externalscaler.ScaledObjectRef, stream grpc.ServerStreamingServer[externalscaler.IsActiveResponse]) error {
	if _, err := workloadOf(ref); err != nil {
		return err
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return status.Errorf(codes.ResourceExhausted, "%d streams are open", maxStreams)
	}
	ctx := stream.Context()
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	var said int32 = -1
	for {
		n, changed, err := s.target(ref)
		switch {
		case err != nil:
			said = -1
		case n != said:
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: n > 0}); err != nil {
				return err
			}
			said = n
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-changed:
		case <-tick.C:
		}
	}
}

// GetMetricSpec implements the contract. It needs no target to be known: an HPA can be made before there is one.
func (s *scalerServer) GetMetricSpec(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	workload, err := workloadOf(ref)
	if err != nil {
		return nil, err
	}
	s.board.Ask(workload)
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{{MetricName: MetricName, TargetSize: 1, TargetSizeFloat: 1}}}, nil
}

// GetMetrics implements the contract.
func (s *scalerServer) GetMetrics(_ context.Context, req *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	if m := req.GetMetricName(); m != "" && m != MetricName {
		return nil, status.Errorf(codes.InvalidArgument, "there is no metric %.64q", m)
	}
	n, _, err := s.target(req.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{{MetricName: MetricName, MetricValue: int64(n), MetricValueFloat: float64(n)}}}, nil
}
