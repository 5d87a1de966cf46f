package capacity

import (
	"slices"
	"strconv"
	"time"

	"plimsoll.dev/services/fleet"
)

// Annotations of pods about saving their work, as the agent reads them.
const (
	NoteCheckpoint        = "plimsoll.dev/checkpoint"         // how the pod is told: an address of its own, or "annotation"
	NoteCheckpointSeconds = "plimsoll.dev/checkpoint-seconds" // how long that may take; default 30
	NoteCheckpointed      = "plimsoll.dev/checkpointed"       // RFC 3339: when the pod saved its work last
)

const (
	hookSeconds    = 30
	maxHookSeconds = 3600
)

// trainKinds are workloads whose pods lose work when they end.
var trainKinds = []string{"Job", "CronJob", "PyTorchJob", "MPIJob", "TFJob", "RayJob"}

// trains tells whether a pod loses work when it is moved: a job's, or one that says that it saves its work.
func (p *Pod) trains() bool {
	return p.HookSec > 0 || !p.SavedAt.IsZero() || slices.Contains(trainKinds, kindOf(p.Workload))
}

// Remember fills in what pods' annotations say about saving their work; notes belong to pods by index. drains says that the cluster's agent tells
// pods before they are moved: a job that can be told may be moved then.
func Remember(in *Input, notes []map[string]string, drains bool) {
	for i := range in.Pods {
		p := &in.Pods[i]
		p.HookSec, p.SavedAt = 0, time.Time{}
		if i >= len(notes) {
			continue
		}
		if how := notes[i][NoteCheckpoint]; drains && how != "" && how != "true" && how != "false" {
			p.HookSec = hookSeconds
			if s, err := strconv.ParseInt(notes[i][NoteCheckpointSeconds], 10, 64); err == nil && s > 0 {
				p.HookSec = min(s, maxHookSeconds)
			}
			if p.Protected == "job" {
				p.Protected = ""
			}
		}
		if at, err := time.Parse(time.RFC3339, notes[i][NoteCheckpointed]); err == nil && !at.After(in.Now.Add(time.Minute)) {
			p.SavedAt = at.UTC()
		}
	}
}

// lostSeconds is how much of its work a pod does again when it is moved now: what telling it takes where it is told first, else what it did since it
// saved its work last, or since it began where it never said that it did.
func (p *Pod) lostSeconds(now time.Time) int64 {
	if !p.trains() {
		return 0
	}
	if p.HookSec > 0 {
		return p.HookSec
	}
	since := p.ReadyAt
	if since.IsZero() {
		since = p.Since
	}
	if p.SavedAt.After(since) {
		since = p.SavedAt
	}
	return max(int64(now.Sub(since).Seconds()), 0)
}

// lostWork is what pods of a machine do again when they are moved, at the price of their part of it.
func (d *planner) lostWork(h *host, pods []int) fleet.Money {
	var sum fleet.Money
	full := d.whole(h)
	for _, i := range pods {
		p := &d.in.Pods[i]
		lost := p.lostSeconds(d.in.Now)
		if lost == 0 {
			continue
		}
		part := max(share(p.CPUMilli, full.cpu), share(p.MemMiB, full.mem), share(p.GPUCount*gpuNeed(p, h.shares), h.gpus*1000))
		sum = sum.Add(h.price.MulDiv(part, 1000).MulDiv(lost, 3600))
	}
	return sum
}

// share is a part in thousandths, at most all.
func share(part, whole int64) int64 {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return min(part*1000/whole, 1000)
}
