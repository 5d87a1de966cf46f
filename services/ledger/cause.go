package ledger

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// CauseName says what a part of a cost was for, beyond who bears it.
type CauseName string

// Causes. Those of workloads are parts of what the workload holds, those of idle are parts of the idle.
const (
	// CauseBroken was held while the pod could not run, for the Reason that the cluster gave.
	CauseBroken CauseName = "broken"
	// CauseWarmIdle was held with a model in memory and without work for the GPU.
	CauseWarmIdle CauseName = "warm_idle"
	// CauseWarmPool was held by a placeholder so that pods to come find room.
	CauseWarmPool CauseName = "warm_pool"
	// CauseMIGFragment is what no MIG instance has, though one could still be made.
	CauseMIGFragment CauseName = "mig_fragment"
	// CauseMIGUnusable is compute or memory that the layout leaves without its counterpart. Its Resource says which; it has quantities,
	// in GPUs' worth times hours, and no amount, because the instances beside it carry the price of the whole GPU.
	CauseMIGUnusable CauseName = "mig_unusable"
)

// Resources that only causes tell apart.
const (
	ResourceGPUCompute Resource = "gpu_compute"
	ResourceGPUMemory  Resource = "gpu_memory"
)

// Cause is a part of a node's lines, and says why that part was paid.
type Cause struct {
	Name   CauseName
	Reason string // of broken time, in the cluster's words
	Node   string // uid
	Row           // Kind, Resource, Purchase, Owner, Amount and Quantity
}

// Trouble is a time in which a pod that holds resources could not run.
type Trouble struct {
	fleet.Interval // To zero: still
	Reason         string
}

// residentMiB is how much memory per GPU tells a loaded model from a bare context, which takes some hundred MiB.
const residentMiB = 1024

// troubles adds up the time of a placement in which its pod was broken, by reason. Overlapping times count once, for the reason that
// began first.
func troubles(all []Trouble, held fleet.Interval, add func(reason string, ms int64)) {
	if len(all) == 0 {
		return
	}
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b Trouble) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Reason, b.Reason)) })
	until := time.Time{}
	for _, t := range sorted {
		i := overlap(t.Interval, held)
		i.From = maxTime(i.From, until)
		if ms := millis(i); ms > 0 {
			add(t.Reason, ms)
			until = i.To
		}
	}
}

func compareCause(a, b Cause) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node), compareRow(a.Row, b.Row), cmp.Compare(a.Reason, b.Reason))
}

// CauseRows sums the causes over nodes, sorted.
func (s Statement) CauseRows() []Cause {
	all := slices.Clone(s.Causes)
	for i := range all {
		all[i].Node = ""
	}
	slices.SortStableFunc(all, compareCause)
	merged := all[:0]
	for _, c := range all {
		if n := len(merged); n > 0 && compareCause(merged[n-1], c) == 0 {
			m := &merged[n-1]
			m.Amount, m.Quantity, m.Unpriced = m.Amount.Add(c.Amount), m.Quantity+c.Quantity, m.Unpriced+c.Unpriced
			continue
		}
		merged = append(merged, c)
	}
	return merged
}
