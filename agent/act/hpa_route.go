package act

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// Board is where counts are put for KEDA to fetch. It is serve.Board.
type Board interface {
	Publish(workload string, replicas int32) error
	Asked(workload string) bool // lately, by KEDA
}

// Route sends each workload to whoever writes its replicas already, so that no two of them fight: KEDA fetches the count of what it
// owns, an HPA gets new bounds, and the rest is scaled directly.
type Route struct {
	scales Actuator
	hpa    *HPA  // nil: the cluster has none
	move   bool  // bounds of HPAs are moved; false: their workloads are scaled directly
	board  Board // nil: KEDA is not served
}

// NewRoute makes the actuator.
func NewRoute(scales Actuator, hpa *HPA, moveBounds bool, board Board) *Route {
	return &Route{scales: scales, hpa: hpa, move: moveBounds, board: board}
}

// Read implements Actuator.
func (r *Route) Read(ctx context.Context, workload string) (Scale, error) {
	to, err := r.pick(ctx, workload)
	if err != nil {
		return Scale{}, err
	}
	return to.Read(ctx, workload)
}

// Set implements Actuator.
func (r *Route) Set(ctx context.Context, workload string, from Scale, to int32) (Scale, error) {
	by, err := r.pick(ctx, workload)
	if err != nil {
		return Scale{}, err
	}
	after, err := by.Set(ctx, workload, from, to)
	if _, fetched := by.(served); err == nil && !fetched && r.board != nil {
		_ = r.board.Publish(workload, to) // for a ScaledObject that is made later; nobody waits for it
	}
	return after, err
}

func (r *Route) pick(ctx context.Context, workload string) (Actuator, error) {
	if r.hpa == nil {
		return r.scales, nil
	}
	owner, err := r.hpa.find(ctx, workload)
	switch {
	case err != nil:
		return nil, err
	case owner == nil:
		return r.scales, nil
	case !OfKEDA(owner):
		if r.move {
			return r.hpa, nil
		}
		return r.scales, nil
	case r.board == nil:
		return nil, fmt.Errorf("%s: KEDA writes its replicas, and this agent does not serve KEDA: %w", workload, ErrForbidden)
	case !r.board.Asked(workload):
		return nil, fmt.Errorf("%s: KEDA writes its replicas and did not ask for them here: %w", workload, ErrForbidden)
	}
	return served{scales: r.scales, board: r.board}, nil
}

// OfKEDA says whether KEDA made an HPA, for a ScaledObject.
func OfKEDA(o *autoscalingv2.HorizontalPodAutoscaler) bool {
	for _, ref := range o.OwnerReferences {
		if ref.Kind == "ScaledObject" {
			return true
		}
	}
	return false
}

// served puts counts where KEDA fetches them. It writes nothing to the cluster.
type served struct {
	scales Actuator // reads only
	board  Board
}

// Read implements Actuator.
func (s served) Read(ctx context.Context, workload string) (Scale, error) {
	return s.scales.Read(ctx, workload)
}

// Set implements Actuator.
func (s served) Set(ctx context.Context, workload string, from Scale, to int32) (Scale, error) {
	now, err := s.scales.Read(ctx, workload)
	switch {
	case err != nil:
		return Scale{}, err
	case now != from:
		return Scale{}, fmt.Errorf("%s: %w", workload, ErrConflict)
	}
	if err := s.board.Publish(workload, to); err != nil {
		return Scale{}, err
	}
	return Scale{Replicas: to, Version: now.Version}, nil
}
