package fleet

import "time"

// GPUModel is a product name in the catalogue's spelling: "A100-80GB", "H100", "L4".
type GPUModel string

// InstanceType is what one machine of a type has. Zero GPUs means a CPU machine; GPUModel is then empty.
type InstanceType struct {
	Cloud        Cloud
	Name         string
	Arch         string // amd64 or arm64
	CPUMilli     int64  // 1000 = one vCPU
	MemMiB       int64
	GPUModel     GPUModel
	GPUCount     int
	GPUMemoryMiB int64 // of one GPU
}

// Offering is an instance type in a place, bought in one way.
type Offering struct {
	Cloud        Cloud
	Region       string
	Zone         string // empty: any zone of the region
	InstanceType string
	Purchase     Purchase
}

// Price is what one machine-hour of an offering costs. A nil field is unknown, which is never the same as zero.
type Price struct {
	Offering   Offering
	List       *Money // per machine-hour
	Contracted *Money
	Effective  *Money
	Currency   string // ISO 4217
	Source     string // where the figure came from
	Valid      Interval
}

// NodePhase is where a node is in its life.
type NodePhase string

// Node phases. All but terminated are billed.
const (
	NodeBooting    NodePhase = "booting"
	NodeReady      NodePhase = "ready"
	NodeDraining   NodePhase = "draining"
	NodeNotReady   NodePhase = "not_ready"
	NodeTerminated NodePhase = "terminated"
)

// Node is a machine of a cluster.
type Node struct {
	UID          string
	Name         string
	Pool         string
	Offering     Offering
	Phase        NodePhase
	CPUMilli     int64 // capacity
	MemMiB       int64
	GPUModel     GPUModel
	GPUCount     int
	GPUMemoryMiB int64
	StartedAt    time.Time
	ReadyAt      time.Time // zero: not yet
	EndedAt      time.Time // zero: still there
	Labels       map[string]string
}

// PodPhase is where a pod is in its life.
type PodPhase string

// Pod phases; pulling and loading are told apart because a cold start has a price.
const (
	PodPending     PodPhase = "pending"
	PodPulling     PodPhase = "pulling"
	PodLoading     PodPhase = "loading"
	PodReady       PodPhase = "ready"
	PodTerminating PodPhase = "terminating"
	PodEnded       PodPhase = "ended"
	PodFailed      PodPhase = "failed"
)

// Pod is one replica with what it requests.
type Pod struct {
	UID       string
	Name      string
	Namespace string
	Workload  string // key, see Workload.Key; empty for a bare pod
	Node      string // node name; empty while pending
	Phase     PodPhase
	Reason    string // why it is not ready, in the cluster's words
	CPUMilli  int64
	MemMiB    int64
	GPUMilli  int64 // 1000 = one GPU
	CreatedAt time.Time
	StartedAt time.Time
	ReadyAt   time.Time
	EndedAt   time.Time
	Labels    map[string]string
}
