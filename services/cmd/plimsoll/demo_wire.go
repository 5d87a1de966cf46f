package main

import (
	"math"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/replay"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// millis writes a time for the wire; the zero time is 0.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// wireInventory is what changed in the World after a revision, as the agent would say it. Workloads are always all there.
func wireInventory(w *replay.World, after int64, snapshot bool) (*agentv1.Inventory, int64) {
	changes := w.Changes(after)
	inv := &agentv1.Inventory{Snapshot: snapshot, AtMs: w.Now().UnixMilli()}
	for _, n := range changes.Nodes {
		inv.Nodes = append(inv.Nodes, &agentv1.Node{
			Uid: n.UID, Name: n.Name, Pool: n.Pool, Cloud: string(n.Offering.Cloud), Region: n.Offering.Region, Zone: n.Offering.Zone,
			InstanceType: n.Offering.InstanceType, Purchase: string(n.Offering.Purchase), Phase: string(n.Phase), CpuMilli: n.CPUMilli, MemMib: n.MemMiB,
			GpuModel: string(n.GPUModel), GpuCount: int32(n.GPUCount), GpuMemoryMib: n.GPUMemoryMiB, //nolint:gosec // at most 64 GPUs
			StartedMs: millis(n.StartedAt), ReadyMs: millis(n.ReadyAt), EndedMs: millis(n.EndedAt), Labels: n.Labels,
		})
	}
	for _, p := range changes.Pods {
		inv.Pods = append(inv.Pods, &agentv1.Pod{
			Uid: p.UID, Name: p.Name, Namespace: p.Namespace, Workload: p.Workload, Node: p.Node, Phase: string(p.Phase), Reason: p.Reason,
			CpuMilli: p.CPUMilli, MemMib: p.MemMiB, GpuMilli: p.GPUMilli, CreatedMs: millis(p.CreatedAt), StartedMs: millis(p.StartedAt),
			ReadyMs: millis(p.ReadyAt), EndedMs: millis(p.EndedAt), Labels: p.Labels,
		})
	}
	list, replicas := w.Workloads()
	for i, l := range list {
		inv.Workloads = append(inv.Workloads, &agentv1.Workload{
			Key: l.Key, Namespace: l.Namespace, Kind: l.Kind, Name: l.Name, Replicas: int32(replicas[i]), Labels: l.Labels, //nolint:gosec // bounded by the World
			CpuMilli: l.CPUMilli, MemMib: l.MemMiB, GpuMilli: l.GPUMilli, Scalable: true, HasReadinessProbe: true, HasRequests: true, Class: l.Class,
		})
	}
	return inv, changes.Revision
}

// wireObservation is one tick of every workload: the samples that are as new as at, or within one sampling interval before it.
func wireObservation(states []fleet.WorkloadState, at time.Time, speed float64) *agentv1.Observation {
	o := &agentv1.Observation{AtMs: at.UnixMilli(), ClockSpeed: speed}
	for _, st := range states {
		wo := &agentv1.WorkloadObservation{
			Workload: st.Workload.Key, Replicas: int32(st.Replicas), Ready: int32(st.Ready), Starting: int32(st.Starting), Draining: int32(st.Draining), //nolint:gosec // bounded by the World
		}
		for _, s := range st.Signals {
			sample, ok := s.Last()
			if !ok || at.Sub(sample.At) >= replay.SampleMillis*time.Millisecond {
				continue
			}
			wo.Signals = append(wo.Signals, &agentv1.Signal{
				Name: string(s.Name), Value: sample.Value, AtMs: sample.At.UnixMilli(), PodsReported: int32(sample.PodsReported), //nolint:gosec // bounded by the World
				PodsUnready: int32(sample.PodsUnready), PodsMissing: int32(sample.PodsMissing), //nolint:gosec // bounded by the World
			})
		}
		o.Workloads = append(o.Workloads, wo)
	}
	return o
}

func wireEvent(e replay.Event) *agentv1.Event {
	return &agentv1.Event{AtMs: e.At.UnixMilli(), Kind: e.Kind, Object: e.Object, Workload: e.Workload, Reason: e.Reason, Message: e.Message}
}

// frameBuilder gathers instant values into frames and announces series once.
type frameBuilder struct {
	ids   map[replay.Series]uint32 // keyed with Value 0
	fresh []*agentv1.SeriesDef     // announced with the next frame
	ticks []int64
	cols  map[uint32][]float64 // by series id, NaN where nothing was said
}

func newFrameBuilder() *frameBuilder {
	return &frameBuilder{ids: map[replay.Series]uint32{}, cols: map[uint32][]float64{}}
}

// add notes the values of one tick.
func (b *frameBuilder) add(at time.Time, series []replay.Series) {
	t := len(b.ticks)
	b.ticks = append(b.ticks, at.UnixMilli())
	for _, s := range series {
		v := s.Value
		s.Value = 0
		id, known := b.ids[s]
		if !known {
			id = uint32(len(b.ids) + 1) //nolint:gosec // a demo has thousands of series
			b.ids[s] = id
			b.fresh = append(b.fresh, &agentv1.SeriesDef{Id: id, Kind: s.Kind, Entity: s.Entity, Field: s.Field})
		}
		col := b.cols[id]
		for len(col) < t {
			col = append(col, math.NaN())
		}
		b.cols[id] = append(col, v)
	}
}

// flush packs what was gathered into a frame that ends at to; nil when there is nothing.
func (b *frameBuilder) flush(to time.Time) (*agentv1.Frame, error) {
	if len(b.ticks) == 0 {
		return nil, nil
	}
	f := frame.Frame{Ticks: b.ticks}
	for id := uint32(1); int(id) <= len(b.ids); id++ {
		col, ok := b.cols[id]
		if !ok {
			continue
		}
		for len(col) < len(b.ticks) {
			col = append(col, math.NaN())
		}
		f.Series, f.Values = append(f.Series, id), append(f.Values, col)
	}
	payload, err := frame.Encode(f, frame.Limits{})
	if err != nil {
		return nil, err
	}
	out := &agentv1.Frame{FromMs: b.ticks[0], ToMs: to.UnixMilli(), Series: b.fresh, Payload: payload}
	b.fresh, b.ticks, b.cols = nil, nil, map[uint32][]float64{}
	return out, nil
}
