package optimizer

import (
	"sort"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Bounds of an input. A snapshot beyond them is refused as a whole, since half a plan is worse than none.
const (
	maxWorkloads = 100_000
	maxReplicas  = 100_000 // of one workload; also the largest need that a rule can ask for
)

// conflictWindow is how long another controller's write keeps Plimsoll from deciding.
const conflictWindow = 10 * time.Minute

// Decide makes the plan for a snapshot: one decision for each workload with a policy, sorted by workload key, each with
// the reasons that led to it and the memory to keep for the next. It reads nothing but its input and changes nothing in
// it. The error is a *fleet.Error: the snapshot itself cannot be decided upon (no time, unknown mode, a workload twice).
// A workload that cannot be decided upon is held, with a reason.
func Decide(in Input) (Plan, error) {
	s := in.Snapshot
	order, err := workloadOrder(s)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{
		Cluster: s.Cluster, At: s.Now, Generation: s.Generation + 1, Parent: s.Parent, Mode: s.Mode,
		Memory: make(map[fleet.WorkloadID]Memory, len(in.Policies)),
	}
	plan.Decisions = make([]Decision, 0, min(len(in.Policies), len(order)))
	ttl := 0
	g := new(deciding)
	for _, i := range order {
		w := &s.Workloads[i]
		b, ok := in.Policies[w.Workload.ID]
		if !ok {
			continue
		}
		p := b.Policy.WithDefaults()
		d, m := g.decide(&s, w, &p, &b, in.Memory[w.Workload.ID], in.forecast(w.Workload.ID), nil)
		plan.Decisions = append(plan.Decisions, d)
		plan.Memory[w.Workload.ID] = m
		if p.PlanTTLSeconds > 0 && (ttl == 0 || p.PlanTTLSeconds < ttl) {
			ttl = p.PlanTTLSeconds
		}
	}
	if ttl == 0 {
		ttl = defaultPlanTTL
	}
	plan.ExpiresAt = s.Now.Add(seconds(ttl))
	if len(in.Budgets) > 0 {
		plan.afford(&in, g)
	}
	return plan, nil
}

// afford decides again on the workloads that budgets leave less than their signals ask for.
func (plan *Plan) afford(in *Input, g *deciding) {
	s := &in.Snapshot
	states := make(map[fleet.WorkloadID]*fleet.WorkloadState, len(s.Workloads))
	for i := range s.Workloads {
		states[s.Workloads[i].Workload.ID] = &s.Workloads[i]
	}
	var limits map[fleet.WorkloadID]spendLimit
	limits, plan.Trips = limitSpend(in, states, plan.Decisions)
	for i := range plan.Decisions {
		id := plan.Decisions[i].Workload
		l, ok := limits[id]
		if !ok {
			continue
		}
		b := in.Policies[id]
		p := b.Policy.WithDefaults()
		plan.Decisions[i], plan.Memory[id] = g.decide(s, states[id], &p, &b, in.Memory[id], in.forecast(id), &l)
	}
}

// forecast of a workload; nil when there is none.
func (in *Input) forecast(id fleet.WorkloadID) *Forecast {
	if f, ok := in.Forecasts[id]; ok {
		return &f
	}
	return nil
}

// workloadOrder returns the indexes of the workloads by key and refuses a snapshot that names a workload twice.
func workloadOrder(s fleet.Snapshot) ([]int, error) {
	switch {
	case s.Now.IsZero():
		return nil, fleet.Errorf(fleet.CodeInvalid, "snapshot has no time")
	case s.Mode.Rank() < 0:
		return nil, fleet.Errorf(fleet.CodeInvalid, "snapshot has the unknown mode %q", s.Mode)
	case s.Generation < 0:
		return nil, fleet.Errorf(fleet.CodeInvalid, "snapshot has the negative generation %d", s.Generation)
	case len(s.Workloads) > maxWorkloads:
		return nil, fleet.Errorf(fleet.CodeTooLarge, "snapshot has %d workloads, at most %d can be planned at once", len(s.Workloads), maxWorkloads)
	}
	order := make([]int, len(s.Workloads))
	seen := make(map[fleet.WorkloadID]struct{}, len(s.Workloads))
	for i := range s.Workloads {
		order[i] = i
		id := s.Workloads[i].Workload.ID
		if _, twice := seen[id]; twice {
			return nil, fleet.Errorf(fleet.CodeInvalid, "snapshot names the workload %s twice", id)
		}
		seen[id] = struct{}{}
	}
	less := func(a, b int) bool {
		wa, wb := &s.Workloads[order[a]].Workload, &s.Workloads[order[b]].Workload
		if wa.Key != wb.Key {
			return wa.Key < wb.Key
		}
		return wa.ID < wb.ID
	}
	if !sort.SliceIsSorted(order, less) {
		sort.Slice(order, less)
	}
	return order, nil
}

// foreignWriter returns the newest controller other than Plimsoll that wrote the replica count within the conflict
// window. A write without a time counts: unknown is not long ago.
func foreignWriter(writers []fleet.Writer, now time.Time) (fleet.Writer, bool) {
	var found fleet.Writer
	ok := false
	for _, w := range writers {
		if strings.HasPrefix(strings.ToLower(w.Manager), "plimsoll") || (w.Field != "" && w.Field != "spec.replicas") {
			continue
		}
		if !w.At.IsZero() && now.Sub(w.At) > conflictWindow {
			continue
		}
		if !ok || w.At.After(found.At) {
			found, ok = w, true
		}
	}
	return found, ok
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
