package capacity

import (
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// Outcome of a plan.
type Outcome string

// The outcomes.
const (
	OutcomeChange  Outcome = "change"  // machines to add or to drain
	OutcomeNothing Outcome = "nothing" // what is there is right
	OutcomeHeld    Outcome = "held"    // nothing may be changed: see Held
)

// Hold says why nothing may be changed, or why a plan stops where it does.
type Hold string

// The holds.
const (
	HoldStale   Hold = "stale"        // the inventory is too old
	HoldEmpty   Hold = "no_inventory" // the cluster has reported no machine and no pod
	HoldFrozen  Hold = "frozen"       // kill switch
	HoldWindow  Hold = "freeze_window"
	HoldActions Hold = "action_rate" // more is worth doing than one plan may do
	HoldTime    Hold = "time"        // the search was ended early
)

// Plan is what the cluster's machines should become. It is absolute where it names machines and pods; applying it twice adds nothing,
// since the second time the machines are there.
type Plan struct {
	At          time.Time    `json:"at"`
	DataAt      time.Time    `json:"data_at,omitzero"`
	Mode        fleet.Mode   `json:"mode"`
	Outcome     Outcome      `json:"outcome"`
	Held        []Hold       `json:"held,omitempty"`
	Add         []Group      `json:"add"`
	Drain       []Drain      `json:"drain"`
	Nodes       []NodeNote   `json:"nodes"`
	Waiting     []Waiting    `json:"waiting"`
	Warm        []WarmNote   `json:"warm,omitempty"`    // machines that are kept ready, by rule
	Markets     []Market     `json:"markets,omitempty"` // where Spot was considered, and why it was bought where it was
	Before      fleet.Money  `json:"before"`            // per hour: machines with a known price
	After       fleet.Money  `json:"after"`
	Unpriced    int          `json:"unpriced"`           // machines whose price nobody knows; in neither sum
	Bound       *fleet.Money `json:"bound,omitempty"`    // per hour, weighed with hazards: nothing that holds the same pods on the offered machines weighs less; nil: not proven
	AnewGap     int64        `json:"anew_gap,omitempty"` // ten-thousandths that Anew, weighed, is above Bound
	Anew        *fleet.Money `json:"anew,omitempty"`     // per hour: everything packed on new machines, whatever it takes
	Considered  []Option     `json:"considered"`
	SpareGPUs   int64        `json:"spare_gpus"`    // free whole GPUs on machines that take pods
	Fragmented  int64        `json:"fragmented"`    // free GPUs on machines that are too full for the largest pod that waits or runs, in thousandths of the free ones
	Steps       int          `json:"steps"`         // after which the search was ended; 0: it came to its end
	LongWaiting int          `json:"long_waiting"`  // pods without a place for longer than the policy allows
	OldestWait  int64        `json:"oldest_wait_s"` // seconds that the longest of them waits
}

// Group is machines to add, of one offering.
type Group struct {
	Offering    fleet.Offering  `json:"offering"`
	Candidate   int             `json:"candidate"` // index into the input's candidates
	Count       int             `json:"count"`
	Price       fleet.Money     `json:"price"` // per machine-hour
	Weighed     fleet.Money     `json:"weighed"`
	GPUModel    fleet.GPUModel  `json:"gpu_model,omitempty"`
	GPUCount    int64           `json:"gpu_count,omitempty"`
	Why         Why             `json:"why"`
	Machines    []Machine       `json:"machines"`
	Alternative []Alternative   `json:"alternatives"` // what else would hold the fullest of them, cheapest first
	Ladder      []Rung          `json:"ladder"`       // what to ask for, in order, when this cannot be had
	Expected    ExpectedArrival `json:"expected"`
}

// Machine is one machine of a group.
type Machine struct {
	Pods     []string `json:"pods"`               // names
	Replaces string   `json:"replaces,omitempty"` // name of the node that goes once this one is ready
}

// Why a machine is added or drained.
type Why string

// The reasons.
const (
	WhyPending     Why = "pending"        // pods have no room
	WhyLeaving     Why = "leaving"        // pods of a machine that is drained, or that the cloud takes back
	WhyReplace     Why = "replace"        // cheaper for the same pods
	WhyReturn      Why = "return_to_spot" // the same, from on demand to Spot
	WhyEmpty       Why = "empty"          // nothing runs on it
	WhyConsolidate Why = "consolidate"    // its pods fit elsewhere
	WhyInsurance   Why = "insurance"      // for what would be lost with the largest Spot pool
)

// Alternative is an offering that could have been bought instead.
type Alternative struct {
	Offering fleet.Offering `json:"offering"`
	Price    *fleet.Money   `json:"price,omitempty"`
	Weighed  *fleet.Money   `json:"weighed,omitempty"` // with the hazard of interruptions; what decides
	WhyNot   string         `json:"why_not"`           // dearer, back_off, stock_out, spot, gpu_model, size, arch, where, unknown_price, cap
}

// Step of the fallback ladder, in the order in which they are tried.
type Step string

// The steps.
const (
	StepZone       Step = "other_zone"
	StepEquivalent Step = "equivalent_type"
	StepOnDemand   Step = "on_demand_here"
	StepElsewhere  Step = "on_demand_elsewhere"
	StepSmaller    Step = "smaller_type"
)

// Rung of the ladder.
type Rung struct {
	Step          Step           `json:"step"`
	Offering      fleet.Offering `json:"offering"`
	Price         fleet.Money    `json:"price"`
	StockOutMilli int64          `json:"stock_out"`
	BackoffUntil  time.Time      `json:"backoff_until,omitzero"`
}

// ExpectedArrival is how long it takes until pods on a new machine are ready.
type ExpectedArrival struct {
	Seconds    int64 `json:"seconds"`     // mean wait on the ladder, start of the machine, start of the pod; 0: unknown
	FirstMilli int64 `json:"first"`       // chance that the first request succeeds
	LadderMill int64 `json:"with_ladder"` // chance that one of the first pass over the ladder does
}

// Drain is a machine to let go.
type Drain struct {
	UID    string      `json:"uid"`
	Name   string      `json:"name"`
	Why    Why         `json:"why"`
	Moves  []Move      `json:"moves"`
	Saving fleet.Money `json:"saving"` // per hour
	Churn  fleet.Money `json:"churn"`  // once: pods that move, and both machines running for a while
	Pays   int64       `json:"pays_s"` // seconds after which the saving has paid for the churn
}

// Move is a pod that gets another machine.
type Move struct {
	Pod string `json:"pod"`
	To  string `json:"to,omitempty"` // node; empty: a new machine
}

// NodeState is what becomes of a machine.
type NodeState string

// The states.
const (
	NodeKeep    NodeState = "keep"
	NodeStays   NodeState = "stays"   // whatever it costs: see Reason
	NodeLeaving NodeState = "leaving" // already drained or taken back by others
	NodeDrained NodeState = "drain"
)

// NodeNote tells of each machine what becomes of it and why.
type NodeNote struct {
	Name   string       `json:"name"`
	State  NodeState    `json:"state"`
	Reason string       `json:"reason,omitempty"` // of stays and keep: mig, protected, pdb, rules, pods, young, starting, unpriced, reserved, committed, not_ready, full, no_gain
	Detail string       `json:"detail,omitempty"` // such as the pod that protects it
	Best   *Alternative `json:"best,omitempty"`   // the cheapest other offering for what it holds
}

// Cause of a pod's waiting.
type Cause string

// The causes.
const (
	CauseRoom     Cause = "room"          // a machine that runs has room: the scheduler's turn
	CauseStarting Cause = "node_starting" // its machine starts
	CauseNew      Cause = "new_node"      // the plan adds a machine for it
	CauseDeferred Cause = "deferred"      // a machine would be added, but the plan is held or full
	CauseNothing  Cause = "fits_nothing"  // no offering holds it
	CauseImage    Cause = "image"         // its image cannot be pulled
	CauseCrash    Cause = "crash"         // it starts and ends again
	CauseConfig   Cause = "config"        // a volume, secret or configuration is missing
	CauseLoading  Cause = "loading"       // it starts on its machine
)

// Waiting is a pod that is not ready, and why.
type Waiting struct {
	Pod      string               `json:"pod"`
	Workload string               `json:"workload,omitempty"`
	Planned  bool                 `json:"planned,omitempty"`
	Since    time.Time            `json:"since"`
	Cause    Cause                `json:"cause"`
	Words    string               `json:"words,omitempty"` // of the cluster
	Node     string               `json:"node,omitempty"`
	Group    *int                 `json:"group,omitempty"`   // index into Add
	Seconds  int64                `json:"seconds,omitempty"` // expected from now; 0: unknown
	Reasons  []packing.Reason     `json:"reasons,omitempty"`
	Blocked  []packing.Constraint `json:"blocked,omitempty"`
	CPUMilli int64                `json:"cpu"`
	MemMiB   int64                `json:"mem"`
	GPUs     int64                `json:"gpus"`
	Long     bool                 `json:"long,omitempty"` // longer than the policy allows
}

// Option is a way that the cluster could go as a whole.
type Option struct {
	Name  string       `json:"name"`           // as_is, plan, no_spot, anew
	Cost  *fleet.Money `json:"cost,omitempty"` // per hour; nil: not computed
	Moved int          `json:"moved"`          // pods
	Left  int          `json:"left"`           // pods without a machine
}

// Changes tells whether the plan adds or drains anything.
func (p *Plan) Changes() bool { return len(p.Add) > 0 || len(p.Drain) > 0 }
