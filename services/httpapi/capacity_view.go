package httpapi

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
	"plimsoll.dev/services/store"
)

// PlannedOffering is an instance type in a place, bought in one way.
type PlannedOffering struct {
	Cloud        fleet.Cloud    `json:"cloud"`
	Region       string         `json:"region"`
	Zone         string         `json:"zone"`
	InstanceType string         `json:"instance_type"`
	Purchase     fleet.Purchase `json:"purchase" enum:"on_demand,spot,reserved"`
}

// CapacityPlanSummary is a plan in a line.
type CapacityPlanSummary struct {
	ID        string           `json:"id"`
	At        time.Time        `json:"at" doc:"data time of the newest computation that said this"`
	FirstAt   time.Time        `json:"first_at" doc:"data time of the first one"`
	CheckedAt time.Time        `json:"checked_at" doc:"by our clock"`
	TookMS    int64            `json:"took_ms" doc:"loading, deciding and checking"`
	Outcome   capacity.Outcome `json:"outcome" enum:"change,nothing,held"`
	Adds      int              `json:"adds" doc:"machines"`
	Drains    int              `json:"drains"`
	Waiting   int              `json:"waiting" doc:"pods that are not ready"`
	Before    Money            `json:"before" doc:"per hour: machines with a known price"`
	After     Money            `json:"after"`
}

// CapacityPlanAnswer holds the plan, if there is one.
type CapacityPlanAnswer struct {
	Plan *CapacityPlan `json:"plan" doc:"null: none was made yet"`
}

// CapacityPlan is what a cluster's machines should become.
type CapacityPlan struct {
	CapacityPlanSummary
	DataAt        *time.Time       `json:"data_at" doc:"of the newest report; null: none"`
	Stale         bool             `json:"stale" doc:"nobody has looked for ten minutes"`
	Mode          fleet.Mode       `json:"mode" enum:"observe,recommend,approve,enforce"`
	Held          []string         `json:"held" doc:"why nothing may be changed, or why the plan stops where it does: stale, no_inventory, frozen, freeze_window, action_rate, time"`
	Add           []PlannedGroup   `json:"add"`
	Drain         []PlannedDrain   `json:"drain"`
	Bound         *Money           `json:"bound" doc:"per hour, weighed with the hazard of interruptions: nothing that holds the same pods on the offered machines weighs less; null: not proven"`
	AnewGap       float64          `json:"anew_gap" doc:"how far anew, weighed, is above bound at most; 0.004: 0.4 %"`
	Anew          *Money           `json:"anew" doc:"per hour: everything packed on new machines; null: not computed"`
	Warm          []PlannedWarm    `json:"warm" doc:"machines that are kept ready, by rule"`
	Unpriced      int              `json:"unpriced" doc:"machines whose price nobody knows; in no sum"`
	Considered    []CapacityOption `json:"considered"`
	Markets       []PlannedMarket  `json:"markets" doc:"where Spot was considered for pods that had no machine, and why it was bought where it was"`
	PolicyVersion int              `json:"policy_version" doc:"0: the defaults"`
}

// PlannedGroup is machines to add, of one offering.
type PlannedGroup struct {
	Offering     PlannedOffering      `json:"offering"`
	Count        int                  `json:"count"`
	Price        Money                `json:"price" doc:"per machine-hour"`
	GPUModel     fleet.GPUModel       `json:"gpu_model"`
	GPUCount     int64                `json:"gpu_count"`
	Why          capacity.Why         `json:"why" enum:"pending,leaving,replace,return_to_spot,insurance,warm"`
	Machines     []PlannedMachine     `json:"machines"`
	Alternatives []PlannedAlternative `json:"alternatives" doc:"what else would hold the fullest of them"`
	Ladder       []PlannedRung        `json:"ladder" doc:"what to ask for, in order, when this cannot be had"`
	ExpectedSec  int64                `json:"expected_seconds" doc:"until pods on it are ready; 0: unknown"`
	First        float64              `json:"p_first" doc:"0 to 1: the first request succeeds"`
	Ladders      float64              `json:"p_ladder" doc:"0 to 1: one of the first pass over the ladder does"`
}

// PlannedMachine is one machine of a group.
type PlannedMachine struct {
	Pods     []string `json:"pods" doc:"at most 50"`
	PodCount int      `json:"pod_count"`
	Replaces string   `json:"replaces" doc:"the node that goes once this one is ready; empty: none"`
}

// PlannedAlternative is an offering that could be had instead.
type PlannedAlternative struct {
	Offering PlannedOffering `json:"offering"`
	Price    *Money          `json:"price" doc:"per hour; null: unknown"`
	Weighed  *Money          `json:"weighed" doc:"with the hazard of interruptions: what decides"`
	WhyNot   string          `json:"why_not" doc:"dearer, churn, back_off, stock_out, spot, same_type, moves, cap, or what keeps the machine"`
}

// PlannedRung is a step of the fallback ladder.
type PlannedRung struct {
	Step         capacity.Step   `json:"step" enum:"other_zone,equivalent_type,on_demand_here,on_demand_elsewhere,smaller_type"`
	Offering     PlannedOffering `json:"offering"`
	Price        Money           `json:"price"`
	StockOut     float64         `json:"p_stock_out" doc:"0 to 1: a request now fails"`
	BackoffUntil *time.Time      `json:"backoff_until"`
}

// PlannedDrain is a machine to let go.
type PlannedDrain struct {
	Name        string       `json:"name"`
	Why         capacity.Why `json:"why" enum:"empty,consolidate,replace,return_to_spot"`
	Moves       []PodMove    `json:"moves" doc:"at most 50"`
	MoveCount   int          `json:"move_count"`
	Saving      Money        `json:"saving" doc:"per hour"`
	Churn       Money        `json:"churn" doc:"once"`
	PaysSeconds int64        `json:"pays_seconds" doc:"after which the saving has paid for the churn"`
}

// PodMove is a pod that gets another machine.
type PodMove struct {
	Pod string `json:"pod"`
	To  string `json:"to" doc:"node; empty: a new machine"`
}

// CapacityOption is a way that the cluster could go as a whole.
type CapacityOption struct {
	Name  string `json:"name" enum:"as_is,plan,anew"`
	Cost  *Money `json:"cost" doc:"per hour; null: not computed"`
	Moved int    `json:"moved" doc:"pods"`
	Left  int    `json:"left" doc:"pods without a machine"`
}

// PendingPods are the pods of a cluster that are not ready.
type PendingPods struct {
	At            *time.Time   `json:"at" doc:"data time; null: no plan was made yet"`
	Held          []string     `json:"held"`
	LongWaiting   int          `json:"long_waiting" doc:"pods without a machine for longer than the policy allows"`
	OldestSeconds int64        `json:"oldest_seconds"`
	Items         []PendingPod `json:"items" doc:"longest first, at most 2000"`
}

// PendingPod is a pod that is not ready, and why.
type PendingPod struct {
	Pod         string           `json:"pod" doc:"namespace/name"`
	Workload    string           `json:"workload"`
	Planned     bool             `json:"planned" doc:"a replica that is about to be created"`
	Since       time.Time        `json:"since"`
	Cause       capacity.Cause   `json:"cause" enum:"room,node_starting,new_node,deferred,fits_nothing,image,crash,config,loading"`
	Words       string           `json:"words" doc:"of the cluster"`
	Node        string           `json:"node" doc:"where it is or has room; empty: none"`
	Offering    *PlannedOffering `json:"offering" doc:"of the machine that is added for it; null: none"`
	ExpectedSec int64            `json:"expected_seconds" doc:"from now; 0: unknown"`
	Reasons     []PendingReason  `json:"reasons" doc:"what keeps it from offerings, of one that fits nothing"`
	Blocked     []string         `json:"blocked_by" doc:"the fewest constraints that no offering meets together"`
	CPUMilli    int64            `json:"cpu_milli"`
	MemMiB      int64            `json:"memory_mib"`
	GPUs        int64            `json:"gpus"`
	Long        bool             `json:"long" doc:"longer than the policy allows"`
}

// PendingReason tells how many offerings a constraint keeps a pod from.
type PendingReason struct {
	Constraint string `json:"constraint" doc:"as the packing names it: price, arch, spot, gpu_model, gpu_count, cpu_on_gpu, cpu, memory, max_pods, stock, where, gpu_memory, mig, limit"`
	Offerings  int    `json:"offerings" doc:"that fail it"`
	Alone      int    `json:"alone" doc:"of those, that fail nothing else"`
	Detail     string `json:"detail"`
}

// CapacityMap is what runs where.
type CapacityMap struct {
	At         *time.Time     `json:"at" doc:"data time; null: no plan was made yet"`
	Nodes      []CapacityNode `json:"nodes" doc:"by pool and name, at most 2000"`
	Total      int            `json:"total"`
	Fleet      []GPUFleet     `json:"gpu_fleet" doc:"by model"`
	SpareGPUs  int64          `json:"spare_gpus" doc:"free whole GPUs on machines that take pods"`
	Fragmented float64        `json:"fragmented" doc:"0 to 1: share of the free GPUs that the largest pod cannot use"`
}

// CapacityNode is a machine with what is on it.
type CapacityNode struct {
	Name     string              `json:"name"`
	Pool     string              `json:"pool"`
	Offering PlannedOffering     `json:"offering"`
	Phase    fleet.NodePhase     `json:"phase"`
	Notice   bool                `json:"notice" doc:"the cloud takes it back soon"`
	CPUMilli int64               `json:"cpu_milli" doc:"for pods"`
	MemMiB   int64               `json:"memory_mib" doc:"for pods"`
	GPUModel fleet.GPUModel      `json:"gpu_model"`
	GPUCount int64               `json:"gpu_count"`
	Driver   string              `json:"gpu_driver" doc:"version of the NVIDIA driver; empty: not known"`
	CUDA     string              `json:"gpu_cuda" doc:"newest CUDA that the driver runs; empty: not known"`
	Compute  string              `json:"gpu_compute_capability" doc:"empty: not known"`
	CPUUsed  int64               `json:"cpu_milli_requested"`
	MemUsed  int64               `json:"memory_mib_requested"`
	GPUUsed  float64             `json:"gpus_requested"`
	Price    *Money              `json:"price" doc:"per hour; null: unknown"`
	Pods     []CapacityPods      `json:"pods" doc:"by workload, most GPUs first, at most 20"`
	PodCount int                 `json:"pod_count"`
	GPUs     []CapacityGPUGroup  `json:"gpu_groups" doc:"how its GPUs are given out; empty: whole ones"`
	State    capacity.NodeState  `json:"state" enum:"keep,stays,leaving,drain"`
	Reason   string              `json:"reason" doc:"why it stays or goes"`
	Detail   string              `json:"detail" doc:"such as the pod that protects it"`
	Best     *PlannedAlternative `json:"best" doc:"the cheapest other offering for what it holds; null: none, or not looked up"`
}

// CapacityPods are the pods of one workload on a node.
type CapacityPods struct {
	Workload string  `json:"workload" doc:"namespace/Kind/name; the pod's name where it has none"`
	Count    int     `json:"count"`
	GPUs     float64 `json:"gpus"`
	CPUMilli int64   `json:"cpu_milli"`
}

// CapacityGPUGroup is GPUs that are given out in the same way.
type CapacityGPUGroup struct {
	Mode      string        `json:"mode" doc:"whole, mig, time_slice or mps"`
	Count     int           `json:"count"`
	Replicas  int           `json:"replicas" doc:"shares of one GPU"`
	Instances []MIGInstance `json:"instances"`
}

// MIGInstance counts the instances of a profile.
type MIGInstance struct {
	Profile string `json:"profile"`
	Count   int    `json:"count"`
}

// GPUFleet sums up the GPUs of a model.
type GPUFleet struct {
	Model     fleet.GPUModel `json:"model"`
	Nodes     int            `json:"nodes"`
	GPUs      int64          `json:"gpus"`
	Requested float64        `json:"requested"`
	Spot      int64          `json:"spot" doc:"of the GPUs, on Spot"`
	MIG       int            `json:"mig" doc:"GPUs that are cut into instances"`
	Cost      *Money         `json:"cost" doc:"of their machines per hour; null: of some nobody knows"`
}

func offeringView(o fleet.Offering) PlannedOffering {
	return PlannedOffering{Cloud: o.Cloud, Region: o.Region, Zone: o.Zone, InstanceType: o.InstanceType, Purchase: o.Purchase}
}

func capacitySummary(h store.CapacityPlanHead, currency string) CapacityPlanSummary {
	return CapacityPlanSummary{ID: h.ID, At: h.At, FirstAt: h.FirstAt, CheckedAt: h.CheckedAt, TookMS: h.Took.Milliseconds(), Outcome: h.Outcome, Adds: h.Adds, Drains: h.Drains,
		Waiting: h.Waiting, Before: money(h.Before, currency), After: money(h.After, currency)}
}

func holdsOf(list []capacity.Hold) []string {
	out := []string{}
	for _, h := range list {
		out = append(out, string(h))
	}
	return out
}

const (
	capacityStaleAfter = 10 * time.Minute
	maxNamedPods       = 50
	maxMapNodes        = 2000
	maxMapPods         = 20
)

func (s *Server) capacityPlanOf(h store.CapacityPlanHead, p *capacity.Plan, now time.Time) CapacityPlan {
	currency := s.prices().Currency()
	out := CapacityPlan{CapacityPlanSummary: capacitySummary(h, currency), Stale: now.Sub(h.CheckedAt) > capacityStaleAfter, Mode: p.Mode, Held: holdsOf(p.Held),
		Add: []PlannedGroup{}, Drain: []PlannedDrain{}, Bound: moneyOrNil(p.Bound, currency), AnewGap: float64(p.AnewGap) / 10_000, Anew: moneyOrNil(p.Anew, currency), Unpriced: p.Unpriced, Warm: warmViews(p.Warm, currency), Considered: []CapacityOption{}, Markets: marketViews(p.Markets, currency)}
	if !p.DataAt.IsZero() {
		out.DataAt = &p.DataAt
	}
	for _, g := range p.Add {
		out.Add = append(out.Add, plannedGroup(g, currency))
	}
	for _, d := range p.Drain {
		v := PlannedDrain{Name: d.Name, Why: d.Why, Moves: []PodMove{}, MoveCount: len(d.Moves), Saving: money(d.Saving, currency), Churn: money(d.Churn, currency), PaysSeconds: d.Pays}
		for _, m := range d.Moves[:min(len(d.Moves), maxNamedPods)] {
			v.Moves = append(v.Moves, PodMove(m))
		}
		out.Drain = append(out.Drain, v)
	}
	for _, o := range p.Considered {
		out.Considered = append(out.Considered, CapacityOption{Name: o.Name, Cost: moneyOrNil(o.Cost, currency), Moved: o.Moved, Left: o.Left})
	}
	return out
}

func plannedGroup(g capacity.Group, currency string) PlannedGroup {
	v := PlannedGroup{Offering: offeringView(g.Offering), Count: g.Count, Price: money(g.Price, currency), GPUModel: g.GPUModel, GPUCount: g.GPUCount, Why: g.Why, Machines: []PlannedMachine{},
		Alternatives: []PlannedAlternative{}, Ladder: []PlannedRung{}, ExpectedSec: g.Expected.Seconds, First: float64(g.Expected.FirstMilli) / 1000, Ladders: float64(g.Expected.LadderMill) / 1000}
	for _, m := range g.Machines {
		v.Machines = append(v.Machines, PlannedMachine{Pods: m.Pods[:min(len(m.Pods), maxNamedPods)], PodCount: len(m.Pods), Replaces: m.Replaces})
	}
	for _, a := range g.Alternative {
		v.Alternatives = append(v.Alternatives, alternativeView(a, currency))
	}
	for _, r := range g.Ladder {
		rung := PlannedRung{Step: r.Step, Offering: offeringView(r.Offering), Price: money(r.Price, currency), StockOut: float64(r.StockOutMilli) / 1000}
		if !r.BackoffUntil.IsZero() {
			rung.BackoffUntil = &r.BackoffUntil
		}
		v.Ladder = append(v.Ladder, rung)
	}
	return v
}

func alternativeView(a capacity.Alternative, currency string) PlannedAlternative {
	return PlannedAlternative{Offering: offeringView(a.Offering), Price: moneyOrNil(a.Price, currency), Weighed: moneyOrNil(a.Weighed, currency), WhyNot: a.WhyNot}
}

func pendingPodOf(w capacity.Waiting, p *capacity.Plan) PendingPod {
	v := PendingPod{Pod: w.Pod, Workload: w.Workload, Planned: w.Planned, Since: w.Since, Cause: w.Cause, Words: w.Words, Node: w.Node, ExpectedSec: w.Seconds,
		Reasons: reasonViews(w.Reasons), Blocked: []string{}, CPUMilli: w.CPUMilli, MemMiB: w.MemMiB, GPUs: w.GPUs, Long: w.Long}
	for _, b := range w.Blocked {
		v.Blocked = append(v.Blocked, string(b))
	}
	if w.Group != nil && *w.Group < len(p.Add) {
		o := offeringView(p.Add[*w.Group].Offering)
		v.Offering = &o
	}
	return v
}

func reasonViews(list []packing.Reason) []PendingReason {
	out := []PendingReason{}
	for _, r := range list {
		out = append(out, PendingReason{Constraint: string(r.Constraint), Offerings: r.Offerings, Alone: r.Alone, Detail: r.Detail})
	}
	return out
}

// capacityMap joins the inventory of a plan with what the plan says of each machine.
func (s *Server) capacityMap(out *CapacityMap, in capacity.Input, plan *capacity.Plan, groups map[string][]store.NodeGPUs) {
	currency := s.prices().Currency()
	notes := map[string]capacity.NodeNote{}
	for _, n := range plan.Nodes {
		notes[n.Name] = n
	}
	on := map[string][]int{}
	for i := range in.Pods {
		if n := in.Pods[i].Node; n != "" {
			on[n] = append(on[n], i)
		}
	}
	fleets := map[fleet.GPUModel]*gpuSum{}
	for i := range in.Nodes {
		v := s.capacityNode(&in, i, on[in.Nodes[i].Name], notes[in.Nodes[i].Name], groups[in.Nodes[i].Name])
		addFleet(fleets, &v, in.Nodes[i].Price)
		out.Nodes = append(out.Nodes, v)
	}
	slices.SortFunc(out.Nodes, func(a, b CapacityNode) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name)) })
	out.Total = len(out.Nodes)
	out.Nodes = out.Nodes[:min(len(out.Nodes), maxMapNodes)]
	for _, f := range fleets {
		if f.known {
			f.view.Cost = moneyOrNil(&f.cost, currency)
		}
		out.Fleet = append(out.Fleet, f.view)
	}
	slices.SortFunc(out.Fleet, func(a, b GPUFleet) int { return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(a.Model, b.Model)) })
	out.SpareGPUs, out.Fragmented = plan.SpareGPUs, float64(plan.Fragmented)/1000
}

type gpuSum struct {
	view  GPUFleet
	cost  fleet.Money
	known bool
}

func addFleet(fleets map[fleet.GPUModel]*gpuSum, v *CapacityNode, price *fleet.Money) {
	if v.GPUCount == 0 {
		return
	}
	f := fleets[v.GPUModel]
	if f == nil {
		f = &gpuSum{view: GPUFleet{Model: v.GPUModel}, known: true}
		fleets[v.GPUModel] = f
	}
	f.view.Nodes++
	f.view.GPUs += v.GPUCount
	f.view.Requested += v.GPUUsed
	if v.Offering.Purchase == fleet.PurchaseSpot {
		f.view.Spot += v.GPUCount
	}
	for _, g := range v.GPUs {
		if g.Mode == "mig" {
			f.view.MIG += g.Count
		}
	}
	if price == nil {
		f.known = false
		return
	}
	f.cost = f.cost.Add(*price)
}

func (s *Server) capacityNode(in *capacity.Input, i int, pods []int, note capacity.NodeNote, groups []store.NodeGPUs) CapacityNode {
	n := &in.Nodes[i]
	currency := s.prices().Currency()
	v := CapacityNode{Name: n.Name, Pool: n.Pool, Offering: offeringView(n.Offering), Phase: n.Phase, Notice: n.Notice, CPUMilli: n.CPUMilli, MemMiB: n.MemMiB, GPUModel: n.GPUModel, GPUCount: n.GPUCount,
		Driver: n.Facts.Driver, CUDA: n.Facts.CUDA, Compute: n.Facts.Compute, Price: moneyOrNil(n.Price, currency), Pods: []CapacityPods{}, PodCount: len(pods), GPUs: []CapacityGPUGroup{}, State: note.State, Reason: note.Reason, Detail: note.Detail}
	if v.State == "" {
		v.State = capacity.NodeStays
	}
	if note.Best != nil {
		best := alternativeView(*note.Best, currency)
		v.Best = &best
	}
	by := map[string]*CapacityPods{}
	for _, i := range pods {
		p := &in.Pods[i]
		name := p.Workload
		if name == "" {
			name = p.Name
		}
		if by[name] == nil {
			by[name] = &CapacityPods{Workload: name}
		}
		gpus := float64(p.GPUCount*p.GPUMilli) / 1000
		by[name].Count++
		by[name].GPUs += gpus
		by[name].CPUMilli += p.CPUMilli
		v.CPUUsed, v.MemUsed = v.CPUUsed+p.CPUMilli, v.MemUsed+p.MemMiB
		if p.MIG == "" {
			v.GPUUsed += gpus
		}
	}
	for _, p := range by {
		v.Pods = append(v.Pods, *p)
	}
	slices.SortFunc(v.Pods, func(a, b CapacityPods) int {
		return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(b.CPUMilli, a.CPUMilli), cmp.Compare(a.Workload, b.Workload))
	})
	v.Pods = v.Pods[:min(len(v.Pods), maxMapPods)]
	for _, g := range groups {
		view := CapacityGPUGroup{Mode: g.Mode, Count: g.Count, Replicas: g.Replicas, Instances: []MIGInstance{}}
		for _, m := range g.Instances {
			view.Instances = append(view.Instances, MIGInstance(m))
		}
		v.GPUs = append(v.GPUs, view)
	}
	return v
}

// audit is the policy as the audit log keeps it.
func (d *CapacityPolicyDoc) audit() map[string]string {
	text, err := json.Marshal(d)
	if err != nil {
		return nil
	}
	return map[string]string{"policy": string(text)}
}
