package collect

import (
	"slices"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
)

const inventoryPart = 2000 // objects in one delta report

// inventoryState is what the service was told last.
type inventoryState struct {
	nodes     map[string]*agentv1.Node
	pods      map[string]*agentv1.Pod
	workloads map[string]*agentv1.Workload
	writers   []*agentv1.Writer
	limits    *agentv1.Inventory // only its disruption limits
	sentMS    int64              // of the last snapshot; 0: none yet
}

// reset makes the next report a snapshot.
func (s *inventoryState) reset() { s.sentMS = 0 }

// reports returns what must be said about the inventory now: a snapshot when one is due, else what changed, in parts.
func (s *inventoryState) reports(now *agentv1.Inventory, atMS int64, resyncMS int64) []*agentv1.Inventory {
	nodes, pods, workloads := byKey(now.GetNodes(), (*agentv1.Node).GetUid), byKey(now.GetPods(), (*agentv1.Pod).GetUid), byKey(now.GetWorkloads(), (*agentv1.Workload).GetKey)
	limits := &agentv1.Inventory{LimitsTold: now.GetLimitsTold(), DisruptionLimits: now.GetDisruptionLimits()}
	defer func() {
		s.nodes, s.pods, s.workloads, s.writers, s.limits = nodes, pods, workloads, now.GetWriters(), limits
	}()
	if s.sentMS == 0 || atMS-s.sentMS >= resyncMS || atMS < s.sentMS {
		s.sentMS = atMS
		full := proto.Clone(now).(*agentv1.Inventory)
		full.Snapshot, full.AtMs = true, atMS
		return []*agentv1.Inventory{full}
	}
	d := &agentv1.Inventory{AtMs: atMS}
	d.Nodes, d.GoneNodes = changed(s.nodes, nodes)
	d.Pods, d.GonePods = changed(s.pods, pods)
	d.Workloads, d.GoneWorkloads = changed(s.workloads, workloads)
	if !sameWriters(s.writers, now.GetWriters()) {
		d.Writers = now.GetWriters()
	}
	if limits.GetLimitsTold() && !proto.Equal(s.limits, limits) {
		d.LimitsTold, d.DisruptionLimits = true, limits.GetDisruptionLimits()
	}
	return split(d, now.GetPlacements())
}

// split cuts a delta into reports of bounded size; nothing to say gives no report.
func split(d *agentv1.Inventory, placements []*agentv1.Placement) []*agentv1.Inventory {
	var out []*agentv1.Inventory
	if len(d.Nodes)+len(d.Workloads)+len(d.Writers)+len(d.GoneNodes)+len(d.GonePods)+len(d.GoneWorkloads) > 0 || len(d.Pods) > 0 || d.LimitsTold {
		first := proto.Clone(d).(*agentv1.Inventory)
		first.Pods = d.Pods[:min(len(d.Pods), inventoryPart)]
		first.Placements = placementsOf(first.Pods, placements)
		out = append(out, first)
		for rest := d.Pods[len(first.Pods):]; len(rest) > 0; {
			n := min(len(rest), inventoryPart)
			out = append(out, &agentv1.Inventory{AtMs: d.AtMs, Pods: rest[:n], Placements: placementsOf(rest[:n], placements)})
			rest = rest[n:]
		}
	}
	return out
}

func byKey[T any](xs []T, key func(T) string) map[string]T {
	m := make(map[string]T, len(xs))
	for _, x := range xs {
		m[key(x)] = x
	}
	return m
}

// changed returns what is new or different, and the keys of what is gone, both in order of key.
func changed[T proto.Message](before, now map[string]T) (fresh []T, gone []string) {
	for _, k := range sortedKeys(now) {
		if old, ok := before[k]; !ok || !proto.Equal(old, now[k]) {
			fresh = append(fresh, now[k])
		}
	}
	for _, k := range sortedKeys(before) {
		if _, ok := now[k]; !ok {
			gone = append(gone, k)
		}
	}
	return fresh, gone
}

func sameWriters(a, b []*agentv1.Writer) bool {
	return slices.EqualFunc(a, b, func(x, y *agentv1.Writer) bool { return proto.Equal(x, y) })
}

// slim drops labels of pods from an inventory that is too large to send.
func slim(inv *agentv1.Inventory) {
	for _, p := range inv.GetPods() {
		p.Labels = nil
	}
}
