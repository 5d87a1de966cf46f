package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const (
	// drainValid is how long an agent may begin a drain that it was told.
	drainValid = 5 * time.Minute
	// drainKept is how long a machine stays drained and is not ended before it takes pods again.
	drainKept = 30 * time.Minute
	// drainLost is how long after a drain was begun the agent must have told its end, which is due after a quarter of an hour: an agent that lost its disk never will.
	drainLost = 30 * time.Minute
	// drainAgain is how long a machine whose drain was given up is left.
	drainAgain = 30 * time.Minute
)

// shrinking is a machine of a group that may be let go.
type shrinking struct {
	group   *store.CloudGroup
	machine store.GroupMachine
	id      string // by the cloud's name
}

// shrink lets machines of groups go: those that the plan drains are drained by the agent, those that are drained and empty are ended by name, and those that were
// drained and are not to be ended after all take pods again. Nothing begins beside growth or another action, in a freeze, or on a plan that is not of now.
func (w *CloudGroups) shrink(ctx context.Context, tenant fleet.TenantID, work *store.GroupWork, busy map[string]bool, grows bool) error {
	if !mayAct(work) || len(work.Groups) == 0 { // also where no group may shrink any more: what was drained takes pods again
		return nil
	}
	var machines []store.GroupMachine
	var told time.Time
	if err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		machines, told, err = store.GroupMachines(ctx, tx, work.Groups[0].Cluster)
		return err
	}); err != nil {
		return err
	}
	if told.IsZero() {
		return nil
	}
	var failed error
	if shrinkNow(work) {
		for _, s := range drained(work, machines, told) {
			if g := s[0].group; !busy[g.ID] {
				started, err := w.end(ctx, tenant, s, work)
				failed = errors.Join(failed, err)
				if started {
					busy[g.ID] = true
				}
			}
		}
	}
	var actions []*agentv1.CapacityAction
	if !grows && len(busy) == 0 && shrinkNow(work) {
		list, err := w.toDrain(ctx, tenant, work, machines)
		failed = errors.Join(failed, err)
		actions = drainActions(list, false)
	}
	actions = append(actions, drainActions(toRelease(work, machines, told), true)...)
	return errors.Join(failed, w.orderDrains(ctx, tenant, work, actions))
}

// shrinkNow says whether the newest plan is of now and holds nothing back: a freeze window holds ends as it holds everything.
func shrinkNow(work *store.GroupWork) bool {
	p := work.Plan
	return p != nil && p.Outcome != capacity.OutcomeHeld && work.Now.Sub(work.Head.CheckedAt) <= groupPlanAge &&
		!slices.ContainsFunc(p.Held, func(h capacity.Hold) bool { return h != capacity.HoldActions && h != capacity.HoldTime })
}

// of finds the group that a machine is of; false: none.
func of(work *store.GroupWork, m store.GroupMachine) (shrinking, bool) {
	for i := range work.Groups {
		g := &work.Groups[i]
		if id, ok := cloud.MachineIn(g.Cloud, g.Ref, m.Provider); ok && g.Brings(m.Offering) {
			return shrinking{g, m, id}, true
		}
	}
	return shrinking{}, false
}

// wants says whether the plan adds machines that the group would bring.
func wants(work *store.GroupWork, g *store.CloudGroup) bool {
	return work.Plan != nil && slices.ContainsFunc(work.Plan.Add, func(a capacity.Group) bool { return g.Brings(a.Offering) })
}

// drained are the machines to be ended, by group, in the order of their names: drained by us, still cordoned and without pods in a report that is newer than the
// end of the drain.
func drained(work *store.GroupWork, machines []store.GroupMachine, told time.Time) (out [][]shrinking) {
	by := map[string][]shrinking{}
	for _, m := range machines {
		if m.Drain != "done" || m.Release || m.Failed || !m.Cordoned || m.Pods > 0 || m.DrainAt == nil || !told.After(*m.DrainAt) || told.Sub(*m.DrainAt) > drainKept {
			continue
		}
		s, ok := of(work, m)
		if ok && s.group.Enabled && s.group.Shrink && !s.group.Contended() && !wants(work, s.group) {
			by[s.group.ID] = append(by[s.group.ID], s)
		}
	}
	for i := range work.Groups {
		g := &work.Groups[i]
		if n := min(len(by[g.ID]), g.Step, g.Hourly-work.Gone[g.ID], cloud.MaxTerminated); n > 0 {
			out = append(out, by[g.ID][:n])
		}
	}
	return out
}

// end writes down which machines of one group go, and asks the cloud. false: nothing was asked.
func (w *CloudGroups) end(ctx context.Context, tenant fleet.TenantID, list []shrinking, work *store.GroupWork) (bool, error) {
	g := list[0].group
	api, err := w.groups(ctx, tenant, g.Account)
	if err != nil {
		return false, err
	}
	if free, err := w.free(ctx, tenant, api, g, true); err != nil || !free {
		return false, err
	}
	there, err := api.Machines(ctx, g.Ref)
	if err != nil {
		return false, fmt.Errorf("list machines of %s: %w", g.Ref, err)
	}
	now, err := api.Describe(ctx, g.Ref)
	if err != nil {
		return false, fmt.Errorf("read group %s: %w", g.Ref, err)
	}
	a := store.GroupAction{ID: uuid.Must(uuid.NewV7()).String(), Group: g.ID, Cluster: g.Cluster, Plan: &work.Head.ID, Before: now.Desired, ReadyBefore: now.Ready, Version: now.Version}
	for _, s := range list {
		if k := slices.IndexFunc(there, func(m cloud.GroupMachine) bool { return m.ID == s.id }); k >= 0 && !there[k].Going && !there[k].Kept && len(a.Machines) < spare(g, now) {
			a.Machines, a.Nodes = append(a.Machines, s.id), append(a.Nodes, s.machine.Name)
		}
	}
	if a.Desired = now.Desired - len(a.Machines); len(a.Machines) == 0 || now.Weighted || now.Coming > 0 {
		return false, nil
	}
	made := false
	if err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		made, err = store.OpenGroupAction(ctx, tx, a)
		return err
	}); err != nil || !made {
		return made, err
	}
	w.Log.InfoContext(ctx, "machines of a group are ended", "tenant", tenant, "cluster", g.Cluster, "group", g.Ref, "nodes", a.Nodes, "action", a.ID)
	return true, w.ask(ctx, tenant, api, g, a)
}

// spare is how many machines a group has above the bounds of its policy and of its owner.
func spare(g *store.CloudGroup, now cloud.Group) int { return max(now.Desired-max(g.Min, now.Min), 0) }

// toDrain are the machines of groups that the plan drains and that may be ended afterwards: the group's own scaling would bring none of them back, and its bounds
// allow it.
func (w *CloudGroups) toDrain(ctx context.Context, tenant fleet.TenantID, work *store.GroupWork, machines []store.GroupMachine) (out []shrinking, err error) {
	if work.Last != nil && !work.Head.CheckedAt.After(*work.Last) { // it has not seen what was done since
		return nil, nil
	}
	by := map[string][]shrinking{}
	going := map[string]int{}
	for _, m := range machines {
		s, ok := of(work, m)
		if !ok || !s.group.Enabled || !s.group.Shrink || s.group.Contended() || wants(work, s.group) {
			continue
		}
		switch {
		case m.Drain == "done" && m.Cordoned && !m.Release, m.Drain == "begun" && !m.Release, m.Drain == "asked":
			going[s.group.ID]++
		case m.Cordoned, m.Drain != "" && m.DrainAt != nil && work.Head.At.Sub(*m.DrainAt) < drainAgain:
		case slices.ContainsFunc(work.Plan.Drain, func(d capacity.Drain) bool { return d.UID == m.UID && (len(d.Moves) == 0 || roomNow(d)) }):
			by[s.group.ID] = append(by[s.group.ID], s)
		}
	}
	for i := range work.Groups {
		g := &work.Groups[i]
		n := min(len(by[g.ID]), g.Step-going[g.ID], g.Hourly-work.Gone[g.ID]-going[g.ID])
		if n <= 0 {
			continue
		}
		api, gerr := w.groups(ctx, tenant, g.Account)
		var now cloud.Group
		free := false
		if gerr == nil {
			free, gerr = w.free(ctx, tenant, api, g, true)
		}
		if gerr == nil && free {
			now, gerr = api.Describe(ctx, g.Ref)
		}
		if gerr != nil {
			err = errors.Join(err, gerr)
			continue
		}
		if n = min(n, spare(g, now)-going[g.ID]); free && !now.Weighted && n > 0 {
			out = append(out, by[g.ID][:n]...)
		}
	}
	return out, err
}

// toRelease are the machines that were drained for a group and are not ended: nobody wants that any more, the cloud refused, or it takes too long.
func toRelease(work *store.GroupWork, machines []store.GroupMachine, told time.Time) (out []shrinking) {
	for _, m := range machines {
		lost := m.Drain == "begun" && !m.Release && m.DrainAt != nil && told.Sub(*m.DrainAt) > drainLost
		if !m.Cordoned || m.DrainAt == nil || m.Release != (m.Drain == "refused" || m.Drain == "") || !m.Release && m.Drain != "done" && !lost {
			continue
		}
		s, ok := of(work, m)
		if ok && (m.Release || lost || !s.group.Enabled || !s.group.Shrink || s.group.Contended() || m.Failed || wants(work, s.group) || told.Sub(*m.DrainAt) > drainKept) {
			out = append(out, s)
		}
	}
	return out
}

func drainActions(list []shrinking, absent bool) (out []*agentv1.CapacityAction) {
	why := "shrink"
	if absent {
		why = "not_ended"
	}
	for _, s := range list {
		out = append(out, &agentv1.CapacityAction{ActionId: "drain/" + s.machine.UID, Absent: absent, Reasons: []string{why}, NodeDrain: &agentv1.NodeDrain{Node: s.machine.Name, Uid: s.machine.UID}})
	}
	return out
}

// orderDrains writes an order for the agent down, where it may have one.
func (w *CloudGroups) orderDrains(ctx context.Context, tenant fleet.TenantID, work *store.GroupWork, actions []*agentv1.CapacityAction) error {
	if len(actions) == 0 {
		return nil
	}
	cluster := work.Groups[0].Cluster
	o := store.KarpenterOrder{Cluster: cluster, Kind: "drain", CreatedBy: "planner"}
	if work.Head.ID != "" {
		o.Plan = &work.Head.ID
	}
	return w.DB.Tenant(ctx, tenant, func(tx *store.Tx) error {
		why, now, err := store.DrainStop(ctx, tx, cluster, true)
		if err != nil || why != "" {
			return err
		}
		o.At, o.ExpiresAt = now, now.Add(drainValid)
		made, _, err := store.OpenKarpenterOrder(ctx, tx, o, actions)
		if made {
			w.Log.InfoContext(ctx, "machines of groups are drained, or take pods again", "tenant", tenant, "cluster", cluster, "actions", len(actions))
		}
		return err
	})
}
