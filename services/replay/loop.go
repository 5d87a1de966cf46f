package replay

import (
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// Loop lets optimizer.Decide run a World: the same code that decides in production, from the World's signals, at the caller's pace.
type Loop struct {
	World    *World
	Tenant   fleet.TenantID
	Cluster  fleet.ClusterID
	Mode     fleet.Mode
	IDs      map[string]fleet.WorkloadID // by key; a workload without one keeps the id of its config
	Policies map[fleet.WorkloadID]optimizer.Binding
	Memory   map[fleet.WorkloadID]optimizer.Memory
	// Learners of the workloads with an SLO rule; made as they are needed.
	Learners   map[fleet.WorkloadID]*optimizer.Learner
	Generation int64        // of the newest plan that told anything new
	Parent     fleet.PlanID // its id; set by whoever stores plans
	// ReplicaHour prices one replica of a workload; nil: unknown.
	ReplicaHour func(fleet.WorkloadState) *fleet.Money
	// Budgets that are enforced or have a breaker; nil: none. What trips stays so for BreakerHold, or for good when that is zero.
	Budgets     []optimizer.Budget
	BreakerHold time.Duration
	// Window is how far back a decision sees; default five minutes. Whoever stores the inputs pays for its length.
	Window time.Duration
}

// Made is one decision round: what was seen, what was planned, and the decisions in it that tell anything new.
type Made struct {
	Input optimizer.Input
	Plan  optimizer.Plan
	News  []optimizer.Decision
}

// Decide makes one plan at the World's present and carries out what may be carried out without a person: decisions in enforce mode.
// Proposals wait for an approval that does not come here, so in history such a workload stays as it is.
func (l *Loop) Decide() (Made, error) {
	in := optimizer.Input{Snapshot: l.snapshot(), Policies: l.Policies, Memory: l.Memory, Budgets: l.Budgets}
	in = l.learn(in)
	plan, err := optimizer.Decide(in)
	if err != nil {
		return Made{}, fmt.Errorf("decide: %w", err)
	}
	if bad := optimizer.Check(plan, in); len(bad) > 0 {
		return Made{}, fmt.Errorf("plan at %s fails its check: %v", plan.At.Format(time.RFC3339), bad[0])
	}
	made := Made{Input: in, Plan: plan}
	for _, d := range plan.Decisions {
		if optimizer.News(in.Memory[d.Workload], d) {
			made.News = append(made.News, d)
		}
		if d.Mode != fleet.ModeEnforce || d.Target == d.From {
			continue
		}
		if _, _, err := l.World.Scale(d.Key, d.Target); err != nil {
			return Made{}, fmt.Errorf("carry out: %w", err)
		}
	}
	l.Memory = plan.Memory
	l.trip(plan.Trips)
	if len(made.News) > 0 {
		l.Generation = plan.Generation
	}
	return made, nil
}

// trip notes the breakers that a plan tripped. The budgets of the input stay as they were seen.
func (l *Loop) trip(trips []optimizer.Trip) {
	if len(trips) == 0 {
		return
	}
	l.Budgets = slices.Clone(l.Budgets)
	for _, t := range trips {
		for i := range l.Budgets {
			if b := &l.Budgets[i]; b.ID == t.Budget {
				at := t.At
				b.TrippedAt, b.Until = &at, nil
				if l.BreakerHold > 0 {
					until := at.Add(l.BreakerHold)
					b.Until = &until
				}
			}
		}
	}
}

// learn adds forecasts to the input.
func (l *Loop) learn(in optimizer.Input) optimizer.Input {
	in, made := optimizer.LearnAll(in, func(id fleet.WorkloadID, s *optimizer.SLO, class string) *optimizer.Learner {
		if known, ok := l.Learners[id]; ok {
			return known
		}
		return optimizer.NewLearner(nil, optimizer.BeganNew, s, class, 0)
	})
	if made != nil {
		l.Learners = made
	}
	return in
}

// snapshot is the World as the optimizer sees it.
func (l *Loop) snapshot() fleet.Snapshot {
	now := l.World.Now()
	window := l.Window
	if window == 0 {
		window = 5 * time.Minute
	}
	states := l.World.States(window)
	if len(l.IDs) > 0 { // nobody decides for a workload that has no id, which is one without a policy
		states = slices.DeleteFunc(states, func(st fleet.WorkloadState) bool {
			_, named := l.IDs[st.Workload.Key]
			return !named && st.Workload.ID == ""
		})
	}
	for i := range states {
		st := &states[i]
		st.Workload.Cluster = l.Cluster
		if id, ok := l.IDs[st.Workload.Key]; ok {
			st.Workload.ID = id
		}
		if l.ReplicaHour != nil {
			st.ReplicaHour = l.ReplicaHour(*st)
		}
	}
	return fleet.Snapshot{
		Tenant: l.Tenant, Cluster: l.Cluster, Now: now, Mode: l.Mode, Generation: l.Generation, Parent: l.Parent, Workloads: states, LastSeen: now,
	}
}
