// Package ledger says who bears the cost of a machine's hour: it splits a node's price over CPU, memory and GPU, charges every
// holder max(request, usage), keeps what nobody held as idle, and turns the result into transfers, budget states and forecasts.
// It is pure, and nothing it returns may add up to more or less than the price it was given, to the last nano-unit.
package ledger

import (
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// Resource of a node that costs something.
type Resource string

// Resources; quantities are core-hours, GiB-hours and GPU-hours.
const (
	ResourceCPU    Resource = "cpu"
	ResourceMemory Resource = "memory"
	ResourceGPU    Resource = "gpu"
	// ResourceCommitment is what an unused commitment is; its quantity is hours.
	ResourceCommitment Resource = "commitment"
)

// Kind says why somebody bears a cost.
type Kind string

// Kinds of cost. Residual is what contradicting inputs leave over, and may be negative: more was held than was there.
const (
	KindWorkload Kind = "workload" // held by a workload, or by a bare pod of a namespace
	KindIdle     Kind = "idle"     // bought and held by nobody
	KindOverhead Kind = "overhead" // bought, but the machine was not ready yet
	KindResidual Kind = "residual"
	KindUnused   Kind = "commitment_unused" // reserved or committed, and used by no machine; Node of its lines is the commitment's id
)

// Owner bears a cost. Workload is empty for bare pods; all fields are empty for idle, overhead and residual. What is unused of a commitment
// may have a team.
type Owner struct {
	Workload  fleet.WorkloadID
	Namespace string
	Team      string
}

// Node is a machine as far as the hour concerns it.
type Node struct {
	UID      string
	Name     string
	Purchase fleet.Purchase
	CPUMilli int64
	MemMiB   int64
	GPUModel fleet.GPUModel
	GPUCount int
	GPUs     []GPUGroup     // how its GPUs are given out; empty: GPUCount whole ones
	Life     fleet.Interval // To zero: still there
	MinBill  time.Duration  // what the provider bills at least, however short the life
	ReadyAt  time.Time      // zero: not ready in this hour
	Price    *fleet.Money   // effective, per hour; nil: unknown
	// List is the price on demand as listed, Contracted the one before commitments, both per hour; nil: unknown.
	List, Contracted *fleet.Money
	Weights          market.Weights
}

// LeastBilled is what a machine is billed at least, however short its life, as the providers' price pages say: a minute at AWS (Linux) and Google.
func LeastBilled(cloud fleet.Cloud) time.Duration {
	switch cloud {
	case fleet.CloudAWS, fleet.CloudGCP:
		return time.Minute
	}
	return 0
}

// Billed is the life that is paid for: at least MinBill. To stays zero for a machine that is still there.
func (n *Node) Billed() fleet.Interval {
	life := n.Life
	if least := life.From.Add(n.MinBill); !life.To.IsZero() && life.To.Before(least) && !life.To.Before(life.From) {
		life.To = least
	}
	return life
}

// Pod holds a part of a node. Requests count for as long as it is held, also while it pulls or crashes.
type Pod struct {
	UID      string
	Node     string // name
	Owner    Owner
	CPUMilli int64
	MemMiB   int64
	GPUMilli int64
	GPUs     []GPUShare     // what it holds of the node's GPUs; empty: GPUMilli thousandths of one
	Held     fleet.Interval // To zero: still there
	Broken   []Trouble      // when it could not run
	Ready    bool           // it only keeps room ready, and gives way to every other pod
}

// Usage of all pods of a workload together, means over the hour; nil is unknown.
type Usage struct {
	CPUCores *float64
	MemMiB   *float64
	GPUSM    *float64 // 0..1 of the GPUs that are held
	GPUMiB   *float64 // memory of GPUs in use
}

// Hour is everything that the costing of one hour of one cluster looks at.
type Hour struct {
	From  time.Time // a full hour, UTC
	To    time.Time // at most one hour later; earlier for an hour that still runs
	Nodes []Node
	Pods  []Pod
	Usage map[fleet.WorkloadID]Usage
}

// Row is what an owner bears of one resource.
type Row struct {
	Kind     Kind
	Resource Resource
	Purchase fleet.Purchase
	Owner    Owner
	Amount   fleet.Money // of the priced part; negative only for residual
	Quantity float64     // held
	Unpriced float64     // part of Quantity that has no price
	Measured float64     // part of Quantity whose use is known
	Used     float64     // what was used of Measured
}

// CostLine is a Row of one node.
type CostLine struct {
	Node string // uid
	Row
	Views
}

// Conflict is a contradiction between inputs, for people to look into.
type Conflict struct {
	Code     string // over_allocated, no_such_node, two_nodes, same_node_name, bad_usage
	Object   string // node uid, pod uid, or workload id
	Resource Resource
	Quantity float64 // resource-hours too many; pod-hours outside any node's life, or on two nodes; hours in which two nodes had one name
}

// Statement is the cost of an hour. The amounts of Lines add up to NodeCost exactly.
type Statement struct {
	Lines               []CostLine // by node, kind, resource, owner
	Causes              []Cause    // what parts of the lines were for; by name, node, kind, resource, owner
	NodeCost            fleet.Money
	NodeSeconds         int64
	UnpricedNodeSeconds int64
	Conflicts           []Conflict
}

// Rows sums the lines over nodes: one row per kind, resource, purchase and owner, sorted.
func (s Statement) Rows() []Row {
	type key struct {
		kind     Kind
		resource Resource
		purchase fleet.Purchase
		owner    Owner
	}
	at := map[key]int{}
	var rows []Row
	for _, l := range s.Lines {
		k := key{l.Kind, l.Resource, l.Purchase, l.Owner}
		i, ok := at[k]
		if !ok {
			at[k] = len(rows)
			rows = append(rows, l.Row)
			continue
		}
		rows[i].add(l.Row)
	}
	slices.SortFunc(rows, compareRow)
	return rows
}

// add sums o, a row of the same kind, resource, purchase and owner.
func (r *Row) add(o Row) {
	r.Amount = r.Amount.Add(o.Amount)
	r.Quantity += o.Quantity
	r.Unpriced += o.Unpriced
	r.Measured += o.Measured
	r.Used += o.Used
}
