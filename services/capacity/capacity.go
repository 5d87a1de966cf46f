// Package capacity plans the machines of one cluster: which to rent for pods that have no room, which to let go, which to exchange for
// cheaper ones, and why each pod that waits waits. It works on what the inventory says, on offerings with effective prices and the
// chance to be had and kept, and on the caps of a policy.
//
// The doors: Decide makes a Plan from an Input; Check verifies one from the input alone; Evidence reads from labels and from where
// replicas run what a pod may run on. The room is pure: an Input keeps everything that Decide looked at, so a stored plan can be
// computed again, also one that ran out of time (Input.Steps). It never acts: a Plan is a proposal, and its node groups are values that
// an actuator turns into pools. It never plans from a stale inventory, never beyond a cap, and never moves a protected pod.
package capacity

import (
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/procure"
	"plimsoll.dev/services/packing"
)

// Bounds of one plan. More is an error, never a plan of a part.
const (
	MaxNodes      = 10_000
	MaxPods       = 50_000
	MaxCandidates = 5_000
)

// Input is everything that Decide looks at. Nodes are sorted by name, pods by name and uid, candidates as Offerings compare.
type Input struct {
	Cluster    fleet.ClusterID  `json:"cluster"`
	Now        time.Time        `json:"now"`     // the cluster's time
	DataAt     time.Time        `json:"data_at"` // of the newest report; zero: never
	Mode       fleet.Mode       `json:"mode"`
	Frozen     bool             `json:"frozen,omitempty"`  // kill switch
	Freezes    []fleet.Interval `json:"freezes,omitempty"` // windows of the policy near Now
	Policy     Policy           `json:"policy"`
	Turn       Turn             `json:"turn,omitzero"`
	SpentToday *fleet.Money     `json:"spent_today,omitempty"` // of the cluster; nil: unknown
	DayLeft    float64          `json:"day_left,omitempty"`    // hours until the day of SpentToday ends
	NodeStart  int64            `json:"node_start"`            // seconds until a machine is ready, the slow tenth; 0: unknown
	PodStart   int64            `json:"pod_start"`             // seconds from a pod's place to ready, the slow tenth; 0: unknown
	Steps      int              `json:"steps,omitempty"`       // searching ends after so many; 0: no bound
	Nodes      []Node           `json:"nodes"`
	Pods       []Pod            `json:"pods"`
	Daemons    []Daemon         `json:"daemons,omitempty"`
	Candidates []Candidate      `json:"candidates"`
	Rules      []NodeRule       `json:"rules,omitempty"`      // what pods' specs say about nodes
	Limits     []Limit          `json:"limits,omitempty"`     // PodDisruptionBudgets
	Needs      []Need           `json:"needs,omitempty"`      // what pods ask of GPUs and their driver
	Growths    []Growth         `json:"growths,omitempty"`    // of warm pools that follow demand
	KeepsRoom  bool             `json:"keeps_room,omitempty"` // the agent keeps room ready by placeholders
}

// Policy holds the caps and the taste of a cluster. Zero values mean no cap, and the defaults of WithDefaults.
type Policy struct {
	MaxNodes      int64          `json:"max_nodes,omitempty"`
	MaxGPUs       int64          `json:"max_gpus,omitempty"`
	HourlyMax     *fleet.Money   `json:"hourly_max,omitempty"` // machines together
	DailyMax      *fleet.Money   `json:"daily_max,omitempty"`
	Rules         *NodeRules     `json:"node_rules,omitempty"` // what machines must be; nil: nothing
	NoSpot        bool           `json:"no_spot,omitempty"`
	SpotUnlabeled bool           `json:"spot_unlabeled,omitempty"` // pods that say nothing about Spot, and of which none runs there, may
	CPUOnGPU      bool           `json:"cpu_on_gpu,omitempty"`     // pods without GPUs may use machines with GPUs
	InstanceTypes []string       `json:"instance_types,omitempty"` // empty: all
	Zones         []string       `json:"zones,omitempty"`          // empty: where the cluster has machines
	Equivalent    []Equivalence  `json:"equivalent,omitempty"`
	MaxActions    int            `json:"max_actions,omitempty"`     // machines added or drained by one plan. Default 20
	HorizonHours  int64          `json:"horizon_hours,omitempty"`   // within which a change must pay. Default 6
	MoveCost      *fleet.Money   `json:"move_cost,omitempty"`       // of one pod that moves, beside double running. Default 0.02
	MinAgeSec     int64          `json:"min_age_sec,omitempty"`     // a younger machine is left alone. Default 600
	RampSec       int64          `json:"ramp_sec,omitempty"`        // a pod that is ready for less is left alone. Default 300
	MaxMovedMilli int64          `json:"max_moved_milli,omitempty"` // of a workload's replicas, one at least. Default 250
	InsureMilli   int64          `json:"insure_milli,omitempty"`    // thousandths of the machines in use that shall survive the loss of the largest Spot pool, by machines on demand beside it. Default 0: none
	MaxStockOut   int64          `json:"max_stock_out,omitempty"`   // thousandths: an offering that is likelier to be out is not bought. Default 900
	StaleSec      int64          `json:"stale_sec,omitempty"`       // an older inventory leads to no action. Default 300
	WaitingSec    int64          `json:"waiting_sec,omitempty"`     // a pod that waits longer is alerted about. Default 300
	Freeze        []FreezeWindow `json:"freeze,omitempty"`
	GPUDriver     string         `json:"gpu_driver,omitempty"` // of the image that new machines with GPUs boot; empty: unknown, unless machines of the type run
	GPUCUDA       string         `json:"gpu_cuda,omitempty"`   // newest CUDA of that driver; empty: by NVIDIA's table
	Warm          []WarmRule     `json:"warm,omitempty"`       // machines that are kept ready
	Pools         *PoolRules     `json:"node_pools,omitempty"` // what NodePools that are made from plans put on their machines; nil: nothing
	GPUNeeds      []GPUNeed      `json:"gpu_needs,omitempty"`  // of workloads that say nothing themselves; the first that matches holds
}

// Equivalence says that pods which run on model For also run on model Use within their SLO.
type Equivalence struct {
	For fleet.GPUModel `json:"for"`
	Use fleet.GPUModel `json:"use"`
}

// FreezeWindow comes back every week: nothing is changed in it.
type FreezeWindow struct {
	Days     []string `json:"days,omitempty"` // mon to sun; empty: every day
	From     string   `json:"from"`           // 15:04, local
	To       string   `json:"to"`             // not after From: of the next day
	TimeZone string   `json:"time_zone"`      // IANA
}

// WithDefaults fills in what is zero.
func (p Policy) WithDefaults() Policy {
	for _, d := range []struct {
		v   *int64
		def int64
	}{{&p.HorizonHours, 6}, {&p.MinAgeSec, 600}, {&p.RampSec, 300}, {&p.MaxMovedMilli, 250}, {&p.MaxStockOut, 900}, {&p.StaleSec, 300}, {&p.WaitingSec, 300}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if p.MaxActions == 0 {
		p.MaxActions = 20
	}
	if p.MoveCost == nil {
		m := fleet.Money(20_000_000)
		p.MoveCost = &m
	}
	return p
}

// Validate refuses what has no meaning.
func (p Policy) Validate() error {
	bad := func(field, text string) error {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: text, Field: "body." + field}
	}
	for _, n := range []struct {
		field  string
		v, max int64
	}{{"max_nodes", p.MaxNodes, MaxNodes}, {"max_gpus", p.MaxGPUs, 1_000_000}, {"max_actions", int64(p.MaxActions), 1000}, {"horizon_hours", p.HorizonHours, 24 * 30},
		{"min_age_sec", p.MinAgeSec, 86_400}, {"ramp_sec", p.RampSec, 86_400}, {"max_moved_milli", p.MaxMovedMilli, 1000}, {"max_stock_out", p.MaxStockOut, 1000}, {"insure_milli", p.InsureMilli, 1000},
		{"stale_sec", p.StaleSec, 86_400}, {"waiting_sec", p.WaitingSec, 86_400}} {
		if n.v < 0 || n.v > n.max {
			return bad(n.field, n.field+" is out of range")
		}
	}
	for field, m := range map[string]*fleet.Money{"hourly_max": p.HourlyMax, "daily_max": p.DailyMax, "move_cost": p.MoveCost} {
		if m != nil && (*m < 0 || *m > 1_000_000*fleet.NanosPerUnit) {
			return bad(field, field+" must be from 0 to 1,000,000")
		}
	}
	if err := p.Rules.validate(bad); err != nil {
		return err
	}
	if err := p.Pools.validate(bad); err != nil {
		return err
	}
	if p.MoveCost != nil && *p.MoveCost == 0 {
		return bad("move_cost", "moving a pod is never free: move_cost must be more than 0")
	}
	if len(p.InstanceTypes) > 500 || len(p.Zones) > 50 || len(p.Equivalent) > 100 || len(p.Freeze) > 50 {
		return bad("", "a list of the policy is too long")
	}
	if err := p.validateFit(bad); err != nil {
		return err
	}
	if err := p.validateWarm(bad); err != nil {
		return err
	}
	return p.validateFreeze(bad)
}

func (p Policy) validateFreeze(bad func(field, text string) error) error {
	for _, w := range p.Freeze {
		for _, s := range []string{w.From, w.To} {
			if _, err := time.Parse("15:04", s); err != nil {
				return bad("freeze", "a freeze window begins and ends at a time such as 22:00")
			}
		}
		if w.TimeZone == "" {
			return bad("freeze", "a freeze window needs a time zone such as Europe/Berlin")
		}
		for _, d := range w.Days {
			if weekday(d) < 0 {
				return bad("freeze", "days are mon, tue, wed, thu, fri, sat and sun")
			}
		}
	}
	return nil
}

func weekday(s string) int {
	for i, d := range []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} {
		if s == d {
			return i
		}
	}
	return -1
}

// Windows are the freeze windows that touch the day before now, now's and the next, in a location.
func (w FreezeWindow) Windows(now time.Time, in *time.Location) []fleet.Interval {
	from, err := time.Parse("15:04", w.From)
	if err != nil {
		return nil
	}
	to, err := time.Parse("15:04", w.To)
	if err != nil {
		return nil
	}
	var out []fleet.Interval
	local := now.In(in)
	for d := -1; d <= 1; d++ {
		day := time.Date(local.Year(), local.Month(), local.Day()+d, 0, 0, 0, 0, in)
		on := len(w.Days) == 0
		for _, name := range w.Days {
			on = on || weekday(name) == int(day.Weekday())
		}
		if !on {
			continue
		}
		next := 0
		if !to.After(from) {
			next = 1
		}
		out = append(out, fleet.Interval{
			From: time.Date(day.Year(), day.Month(), day.Day(), from.Hour(), from.Minute(), 0, 0, in).UTC(),
			To:   time.Date(day.Year(), day.Month(), day.Day()+next, to.Hour(), to.Minute(), 0, 0, in).UTC(),
		})
	}
	return out
}

// Node is a machine of the cluster. Sizes are what pods may use, daemons included.
type Node struct {
	UID         string            `json:"uid"`
	Name        string            `json:"name"`
	Pool        string            `json:"pool,omitempty"`
	Offering    fleet.Offering    `json:"offering"`
	Phase       fleet.NodePhase   `json:"phase"`
	CPUMilli    int64             `json:"cpu"`
	MemMiB      int64             `json:"mem"`
	MaxPods     int64             `json:"max_pods"`
	GPUModel    fleet.GPUModel    `json:"gpu_model,omitempty"`
	GPUCount    int64             `json:"gpus,omitempty"`
	GPUMemMiB   int64             `json:"gpu_mem,omitempty"`
	SharesGPUs  bool              `json:"shares,omitempty"`
	Arch        string            `json:"arch,omitempty"`
	Price       *fleet.Money      `json:"price,omitempty"` // per hour, commitments counted; nil: unknown
	Saves       *fleet.Money      `json:"saves,omitempty"` // per hour, what letting it go saves: 0 where a commitment pays for it anyway
	HazardMilli int64             `json:"hazard,omitempty"`
	Notice      bool              `json:"notice,omitempty"` // the cloud takes it back soon
	Fixed       string            `json:"fixed,omitempty"`  // why it stays whatever it costs: mig, protected; empty: it may go
	StartedAt   time.Time         `json:"started_at"`
	Labels      map[string]string `json:"labels,omitempty"` // those that rules speak of
	Taints      []string          `json:"taints,omitempty"` // key=value:effect, sorted
	Facts       Facts             `json:"facts,omitzero"`   // of its GPUs
}

// Pod is a replica, or one that a workload's plan is about to add. Sizes are requests.
type Pod struct {
	UID       string           `json:"uid,omitempty"`
	Name      string           `json:"name"` // namespace/name
	Workload  string           `json:"workload,omitempty"`
	Node      string           `json:"node,omitempty"`
	Phase     fleet.PodPhase   `json:"phase"`
	Reason    string           `json:"reason,omitempty"`
	CPUMilli  int64            `json:"cpu,omitempty"`
	MemMiB    int64            `json:"mem,omitempty"`
	GPUCount  int64            `json:"gpus,omitempty"`
	GPUMilli  int64            `json:"gpu_milli,omitempty"` // of each GPU
	MIG       string           `json:"mig,omitempty"`
	Models    []fleet.GPUModel `json:"models,omitempty"` // empty: any
	Archs     []string         `json:"archs,omitempty"`  // empty: amd64
	Where     []string         `json:"where,omitempty"`  // selectors as packing writes them
	SpotOK    bool             `json:"spot_ok,omitempty"`
	Class     packing.Class    `json:"class,omitempty"`
	Protected string           `json:"protected,omitempty"` // why it is not moved: label, bare, job, gold_single, pdb, rules; empty: it may be
	Daemon    bool             `json:"daemon,omitempty"`
	Planned   bool             `json:"planned,omitempty"` // not created yet
	Since     time.Time        `json:"since"`
	ReadyAt   time.Time        `json:"ready_at,omitzero"`
	Rule      int              `json:"rule,omitempty"`      // of Input.Rules, from 1; 0: none
	Limit     int              `json:"limit,omitempty"`     // of Input.Limits, from 1; 0: none
	Tolerates []string         `json:"tolerates,omitempty"` // taints of the cluster's machines; "*": all
	Groups    []string         `json:"groups,omitempty"`    // that terms of pods name and it belongs to
	Affinity  []string         `json:"affinity,omitempty"`  // group@node or group@zone
	Anti      []string         `json:"anti,omitempty"`
	Spread    []string         `json:"spread,omitempty"`  // group@zone:skew, with :soft where it does not bind
	Needs     []string         `json:"needs,omitempty"`   // what it is about and its place in Input.Needs, from 1: driver/1
	HookSec   int64            `json:"hook_s,omitempty"`  // it is told before it is moved, and saves its work within so many seconds; 0: it is not
	SavedAt   time.Time        `json:"saved_at,omitzero"` // when it saved its work last; zero: it does not say
	Untold    bool             `json:"untold,omitempty"`  // its spec asks for more than was told: it is neither placed nor moved
}

// Daemon runs on every machine.
type Daemon struct {
	Name     string `json:"name"`
	CPUMilli int64  `json:"cpu"`
	MemMiB   int64  `json:"mem"`
}

// Candidate is a machine that can be rented. Sizes are what pods may use, daemons included.
type Candidate struct {
	Offering      fleet.Offering    `json:"offering"`
	Price         *fleet.Money      `json:"price"` // of one more, commitments counted; nil: unknown, not bought
	CPUMilli      int64             `json:"cpu"`
	MemMiB        int64             `json:"mem"`
	MaxPods       int64             `json:"max_pods"`
	VCPU          int64             `json:"vcpu,omitempty"`
	GPUModel      fleet.GPUModel    `json:"gpu_model,omitempty"`
	GPUCount      int64             `json:"gpus,omitempty"`
	GPUMemMiB     int64             `json:"gpu_mem,omitempty"`
	SharesGPUs    bool              `json:"shares,omitempty"`
	MIG           bool              `json:"mig,omitempty"`
	Arch          string            `json:"arch"`
	HazardMilli   int64             `json:"hazard,omitempty"`    // interruptions expected per machine-hour
	StockOutMilli int64             `json:"stock_out,omitempty"` // chance that a request now fails
	Belief        *procure.Belief   `json:"belief,omitempty"`    // of Spot: what room procure knows of the pool; nil: it has no say
	Ask           *int64            `json:"ask,omitempty"`       // of Spot: machines that may be asked for now; nil: no limit
	BackoffUntil  time.Time         `json:"backoff_until,omitzero"`
	Stock         *int64            `json:"stock,omitempty"`       // machines to be had; nil: no limit known
	Reservation   string            `json:"reservation,omitempty"` // the cloud's names of those that its machines would be in, with commas
	Labels        map[string]string `json:"labels,omitempty"`      // of rules, that all running machines of its type have
	Taints        []string          `json:"taints,omitempty"`
	Facts         Facts             `json:"facts,omitzero"` // of its GPUs
}
