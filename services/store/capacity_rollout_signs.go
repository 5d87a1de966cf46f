package store

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// What makes a look at a cluster count.
const (
	newestPlanAge   = 10 * time.Minute // of the newest plan, by our clock
	longestSigns    = 24 * time.Hour
	leastSigns      = 30 * time.Minute // of a cluster that the policy is not in force on
	leastRequests   = 10 * time.Minute // that ratios of requests are taken over, also where a step has just begun: roll-ups come later than reports
	leastRequestMin = 5                // minutes in which requests were told of
	fastClock       = 10               // a clock that runs faster is given as much longer spans
)

// CapacitySight is one look at a cluster for a rollout.
func CapacitySight(ctx context.Context, tx *Tx, r *CapacityRollout, i int) (capacity.Sight, error) {
	p := &r.Parts[i]
	s := capacity.Sight{Cluster: p.Cluster}
	own, err := CapacityPolicyOf(ctx, tx, p.Cluster)
	if err != nil {
		return s, err
	}
	s.Version, s.Default = own.Version, own.Default
	var mode fleet.Mode
	var limits AgentLimits
	var dataAt *time.Time
	var speed float64
	if err := tx.pgx.QueryRow(ctx, `SELECT mode, frozen, agent_limits, data_at, clock_speed FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, p.Cluster).
		Scan(&mode, &s.Stands, &limits, &dataAt, &speed); err != nil {
		return s, notFound(err, "cluster")
	}
	s.Stands = s.Stands || limits.Frozen || limits.allow(mode) != fleet.ModeEnforce
	if dataAt == nil {
		return s, nil
	}
	s.DataAt = dataAt.UTC()
	head, plan, err := CapacityPlan(ctx, tx, p.Cluster, "")
	if IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	in, err := CapacityPlanInput(ctx, tx, p.Cluster, "")
	if err != nil {
		return s, err
	}
	reach, _ := r.Reach()
	inForce := i < reach
	s.Planned = inForce && in.Turn.Rollout == r.ID && in.Turn.Step == r.Step && in.Turn.Version == own.Version && in.Turn.Default == own.Default
	told := tx.Now.Sub(head.CheckedAt) <= newestPlanAge && plan.Outcome != "" && in.Turn.Version == own.Version && in.Turn.Default == own.Default
	for _, h := range plan.Held {
		switch h {
		case capacity.HoldStale, capacity.HoldEmpty:
			told = false
		case capacity.HoldFrozen, capacity.HoldWindow:
			s.Stands = true
		}
	}
	slow := func(d time.Duration) time.Duration { return time.Duration(float64(d) * max(speed/fastClock, 1)) }
	from := s.DataAt.Add(-max(min(time.Duration(r.StageSec)*time.Second, longestSigns), slow(leastSigns)))
	if inForce && !p.StageAt.IsZero() && p.StageAt.After(s.DataAt.Add(-longestSigns)) {
		from = p.StageAt
	}
	requests := from
	if least := s.DataAt.Add(-slow(leastRequests)); least.Before(from) {
		requests = least
	}
	if s.Signs, err = capacitySigns(ctx, tx, p.Cluster, from, requests, s.DataAt); err != nil {
		return s, err
	}
	s.Signs.Told, s.Signs.LongWaiting, s.Signs.Unpriced = told, int64(plan.LongWaiting), int64(plan.Unpriced)
	cost := plan.Before
	s.Signs.Cost = &cost
	for j := range in.Pods {
		if q := &in.Pods[j]; !q.Planned && q.Node != "" {
			s.Signs.CPUMilli += q.CPUMilli
			s.Signs.GPUMilli += q.GPUCount * max(q.GPUMilli, 0)
		}
	}
	return s, nil
}

// capacitySigns measures what a cluster went through in (from, to] of its time; requests over a span of their own that ends there too.
func capacitySigns(ctx context.Context, tx *Tx, cluster fleet.ClusterID, from, requests, to time.Time) (s capacity.Signs, err error) {
	var samples, minutes int
	var ready, late, errs *float64
	err = tx.pgx.QueryRow(ctx, `
SELECT
  (SELECT count(*) FROM disruption_limit WHERE tenant_id = $1 AND cluster_id = $2 AND healthy < wanted),
  p.n, p.ready,
  (SELECT count(*) FROM node WHERE tenant_id = $1 AND cluster_id = $2 AND started_at > $3 AND started_at <= $4),
  (SELECT count(*) FROM cluster_event WHERE tenant_id = $1 AND cluster_id = $2 AND kind = 'capacity_failure' AND at > $3 AND at <= $4)
    + (SELECT count(DISTINCT split_part(source, '/', 3)) FROM availability_event WHERE tenant_id = $1 AND cluster_id = $2 AND kind = 'exhausted' AND source LIKE 'group/%' AND at > $3 AND at <= $4)
    + (SELECT count(*) FROM karpenter_action a JOIN karpenter_order o ON o.tenant_id = a.tenant_id AND o.id = a.order_id
       WHERE o.tenant_id = $1 AND o.cluster_id = $2 AND o.at > $3 AND o.at <= $4 AND a.outcome = 'failed'),
  (SELECT count(DISTINCT object) FROM cluster_event WHERE tenant_id = $1 AND cluster_id = $2 AND kind IN ('interruption_notice', 'node_lost') AND at > $3 AND at <= $4),
  (SELECT coalesce(sum(extract(epoch FROM least(coalesce(ended_at, $4), $4) - greatest(started_at, $3)) / 3600), 0)::float8 FROM node
    WHERE tenant_id = $1 AND cluster_id = $2 AND started_at < $4 AND (ended_at IS NULL OR ended_at > $3)),
  q.minutes, q.late, q.failed
FROM (SELECT count(*)::int AS n, percentile_cont(0.9) WITHIN GROUP (ORDER BY extract(epoch FROM ready_at - created_at)::float8) AS ready
    FROM (SELECT ready_at, created_at FROM pod WHERE tenant_id = $1 AND cluster_id = $2 AND created_at > $3 AND created_at <= $4 AND ready_at > created_at LIMIT 20000) t) p,
  (SELECT count(DISTINCT at) FILTER (WHERE late_ratio IS NOT NULL OR error_ratio IS NOT NULL)::int AS minutes,
    (sum(late_ratio * w) FILTER (WHERE late_ratio IS NOT NULL) / nullif(sum(w) FILTER (WHERE late_ratio IS NOT NULL), 0))::float8 AS late,
    (sum(error_ratio * w) FILTER (WHERE error_ratio IS NOT NULL) / nullif(sum(w) FILTER (WHERE error_ratio IS NOT NULL), 0))::float8 AS failed
    FROM (SELECT at, late_ratio, error_ratio, greatest(coalesce(request_rate, 1), 1e-6) AS w FROM rollup_1m m
      WHERE m.tenant_id = $1 AND m.workload_id IN (SELECT id FROM workload WHERE tenant_id = $1 AND cluster_id = $2) AND m.at > $5 AND m.at <= $4) t) q`,
		tx.Tenant, cluster, from, to, requests).Scan(&s.Breached, &samples, &ready, &s.Started, &s.Failed, &s.Interruptions, &s.NodeHours, &minutes, &late, &errs)
	if err != nil {
		return s, fmt.Errorf("measure what a rollout is watched by: %w", err)
	}
	if samples >= capacity.SignSamples {
		s.ReadySec = ready
	}
	if minutes >= leastRequestMin {
		s.Late, s.Errors = late, errs
	}
	return s, nil
}
