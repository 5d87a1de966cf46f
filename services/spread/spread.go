// Package spread splits the replicas of one service over the clusters that it runs in, at the least price and within the service's rules, and says how
// far each cluster may be moved towards its part now. It works on what each cluster's replicas cost and what its own signals ask for.
//
// The doors: Decide makes a Plan from an Input; Check verifies one from the input alone; Lift bounds one workload's policy by its part. The room is pure,
// and it never acts: a part is a pair of bounds for the policy that decides on that cluster's workload, whose own guards come after them. It never goes
// above a maximum, never takes a replica from a cluster that says nothing, and takes none away before what stands in for it is ready.
package spread

import (
	"time"

	"plimsoll.dev/services/fleet"
)

// Bounds of one service. More is an error, never a plan of a part.
const (
	MaxSites  = 32
	MaxDemand = 20_000 // replicas
	maxSteps  = 512    // of one site
)

// Traffic says how load gets to replicas, and so what a cluster's signals measure.
type Traffic string

// The ways. Unknown ones are an error.
const (
	// TrafficLocal: load stays where it is until somebody moves it. Needs add up; no cluster goes under its own need.
	TrafficLocal Traffic = "local"
	// TrafficBalanced: a balancer sends load to wherever replicas are ready. Needs add up.
	TrafficBalanced Traffic = "balanced"
	// TrafficShared: all clusters take from one queue, and each sees the whole of it. The largest need is the demand.
	TrafficShared Traffic = "shared"
)

// Rules of a service. Zero values are the defaults of WithDefaults.
type Rules struct {
	Traffic       Traffic       `json:"traffic,omitempty"`        // default local
	HeadroomMilli int64         `json:"headroom_milli,omitempty"` // thousandths of the demand that are left when any one cluster is lost; 0: no such rule
	Clouds        []fleet.Cloud `json:"clouds,omitempty"`         // empty: all
	Regions       []string      `json:"regions,omitempty"`        // empty: all
	MoveCost      *fleet.Money  `json:"move_cost,omitempty"`      // of one replica that moves to another cluster. Default 0.05
	HorizonHours  int64         `json:"horizon_hours,omitempty"`  // within which a move must pay. Default 6
	GainMilli     int64         `json:"gain_milli,omitempty"`     // thousandths of the cost that a move must save. Default 50
	DwellSec      int64         `json:"dwell_sec,omitempty"`      // between two moves that only price asks for. Default 1800
	WindowSec     int64         `json:"window_sec,omitempty"`     // the demand is the highest of so many seconds. Default 300
	StepMilli     int64         `json:"step_milli,omitempty"`     // thousandths of a cluster's replicas that one step takes away, one at least. Default 250
	PatienceSec   int64         `json:"patience_sec,omitempty"`   // how long replicas wait for load that does not come before the move is given up. Default 1800
}

// restSeconds is how long nothing is moved for price after a move was given up.
const restSeconds = 4 * 3600

// WithDefaults fills in what is zero.
func (r Rules) WithDefaults() Rules {
	for _, d := range []struct {
		v   *int64
		def int64
	}{{&r.HorizonHours, 6}, {&r.GainMilli, 50}, {&r.DwellSec, 1800}, {&r.WindowSec, 300}, {&r.StepMilli, 250}, {&r.PatienceSec, 1800}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if r.Traffic == "" {
		r.Traffic = TrafficLocal
	}
	if r.MoveCost == nil {
		m := fleet.Money(50_000_000)
		r.MoveCost = &m
	}
	return r
}

// Validate refuses what has no meaning.
func (r Rules) Validate() error {
	bad := func(field, text string) error {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: text, Field: "body.rules." + field}
	}
	switch r.Traffic {
	case "", TrafficLocal, TrafficBalanced, TrafficShared:
	default:
		return bad("traffic", "traffic is local, balanced or shared")
	}
	for _, n := range []struct {
		field  string
		v, max int64
	}{{"headroom_milli", r.HeadroomMilli, 1000}, {"horizon_hours", r.HorizonHours, 24 * 30}, {"gain_milli", r.GainMilli, 1000}, {"dwell_sec", r.DwellSec, 7 * 86_400},
		{"window_sec", r.WindowSec, 3600}, {"step_milli", r.StepMilli, 1000}, {"patience_sec", r.PatienceSec, 86_400}} {
		if n.v < 0 || n.v > n.max {
			return bad(n.field, n.field+" is out of range")
		}
	}
	if m := r.MoveCost; m != nil && (*m <= 0 || *m > maxPrice) {
		return bad("move_cost", "moving a replica is never free: move_cost is more than 0 and at most 1,000,000")
	}
	if len(r.Clouds) > 10 || len(r.Regions) > 100 {
		return bad("regions", "at most 10 clouds and 100 regions")
	}
	return nil
}

const maxPrice = 1_000_000 * fleet.NanosPerUnit

// SiteRules bound one cluster's part.
type SiteRules struct {
	Min           int          `json:"min,omitempty"`
	Max           int          `json:"max,omitempty"` // 0: none
	MinShareMilli int64        `json:"min_share_milli,omitempty"`
	MaxShareMilli int64        `json:"max_share_milli,omitempty"` // 0: none
	EgressGBHour  float64      `json:"egress_gb_hour,omitempty"`  // data that one replica sends out of the place in an hour
	EgressPrice   *fleet.Money `json:"egress_price,omitempty"`    // per GB
	Penalty       *fleet.Money `json:"penalty,omitempty"`         // per replica-hour: what being served from there is worth less, such as latency
}

// Validate refuses what has no meaning.
func (r SiteRules) Validate() error {
	bad := func(field, text string) error {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: text, Field: "body.sites." + field}
	}
	switch {
	case r.Min < 0 || r.Min > MaxDemand:
		return bad("min", "min is out of range")
	case r.Max < 0 || r.Max > MaxDemand || r.Max > 0 && r.Max < r.Min:
		return bad("max", "max is out of range, or below min")
	case r.MinShareMilli < 0 || r.MinShareMilli > 1000:
		return bad("min_share", "min_share is from 0 to 1")
	case r.MaxShareMilli < 0 || r.MaxShareMilli > 1000 || r.MaxShareMilli > 0 && r.MaxShareMilli < r.MinShareMilli:
		return bad("max_share", "max_share is from 0 to 1, and not below min_share")
	case !(r.EgressGBHour >= 0 && r.EgressGBHour <= 1e6):
		return bad("egress_gb_hour", "egress_gb_hour is out of range")
	case r.EgressPrice != nil && (*r.EgressPrice < 0 || *r.EgressPrice > 1000*fleet.NanosPerUnit):
		return bad("egress_price", "egress_price is out of range")
	case r.Penalty != nil && (*r.Penalty < 0 || *r.Penalty > 1000*fleet.NanosPerUnit):
		return bad("penalty", "penalty is out of range")
	}
	return nil
}

// Extra is what a replica costs per hour beside its machine: data that leaves the place, and the penalty.
func (r SiteRules) Extra() fleet.Money {
	var m fleet.Money
	if r.EgressPrice != nil {
		m = m.Add(r.EgressPrice.MulDiv(int64(r.EgressGBHour*1000+0.5), 1000))
	}
	if r.Penalty != nil {
		m = m.Add(*r.Penalty)
	}
	return m
}

// Held says why a site keeps what it has.
type Held string

// The reasons.
const (
	HeldSilent   Held = "silent"   // its agent says nothing: what runs there is not known, so nothing there counts and nothing is changed
	HeldFrozen   Held = "frozen"   // kill switch or freeze window
	HeldMode     Held = "mode"     // cluster, agent or policy does not enforce
	HeldPolicy   Held = "policy"   // no policy, or one that cannot be used
	HeldConflict Held = "conflict" // another controller writes the replicas
	HeldZero     Held = "zero"     // scaled to zero by hand
	HeldSignals  Held = "signals"  // nothing fresh to decide from
	HeldPrice    Held = "price"    // what a replica costs there is not known
	HeldGone     Held = "gone"     // the workload is not there any more
)

// StepKind tells where replicas of a step are.
type StepKind string

// The kinds.
const (
	StepRuns  StepKind = "runs"  // replicas that run
	StepSpare StepKind = "spare" // room on machines that run
	StepNew   StepKind = "new"   // on machines to be bought
)

// Step is a number of replicas that cost the same at a site. Prices are per replica-hour.
type Step struct {
	Count    int            `json:"count"` // 0: as many as its bounds allow; only of the last
	Price    fleet.Money    `json:"price"`
	Weighed  fleet.Money    `json:"weighed"` // with the risk of losing it and of not getting it
	Kind     StepKind       `json:"kind"`
	Offering fleet.Offering `json:"offering"`
}

// Site is a service's workload in one cluster.
type Site struct {
	Workload fleet.WorkloadID `json:"workload"`
	Cluster  fleet.ClusterID  `json:"cluster"`
	Name     string           `json:"name"` // of the cluster
	Key      string           `json:"key"`  // of the workload
	Cloud    fleet.Cloud      `json:"cloud,omitempty"`
	Region   string           `json:"region,omitempty"`
	Replicas int              `json:"replicas"`
	Ready    int              `json:"ready"`
	Need     *int             `json:"need,omitempty"` // what its signals ask for; nil: not known
	Min      int              `json:"min"`            // of its policy
	Max      int              `json:"max"`
	Held     Held             `json:"held,omitempty"`
	Rules    SiteRules        `json:"rules"`
	Steps    []Step           `json:"steps"`           // cheapest weighed first
	Reach    *int             `json:"reach,omitempty"` // replicas that stock, quota and caps allow; nil: no limit known
	PricedAt time.Time        `json:"priced_at,omitzero"`
}

// Input is everything that Decide looks at. Sites are sorted by name and workload.
type Input struct {
	Service string     `json:"service"`
	Now     time.Time  `json:"now"`
	Mode    fleet.Mode `json:"mode"` // recommend or enforce
	Rules   Rules      `json:"rules"`
	Sites   []Site     `json:"sites"`
	Memory  Memory     `json:"memory"`
}

// Memory is what a service remembers between plans. It is data: the same Memory gives the same next plan.
type Memory struct {
	Demands    []Demand                 `json:"demands,omitempty"` // of the window, oldest first
	Targets    map[fleet.WorkloadID]int `json:"targets,omitempty"` // that are carried out
	Shift      map[fleet.WorkloadID]int `json:"shift,omitempty"`   // what is left of a move of local load: above zero where it is to go to
	MovedAt    *time.Time               `json:"moved_at,omitempty"`
	WaitsSince *time.Time               `json:"waits_since,omitempty"` // for load that does not come
	RestUntil  *time.Time               `json:"rest_until,omitempty"`
}

// Demand is what the signals of all clusters asked for at a time.
type Demand struct {
	At    time.Time `json:"at"`
	Count int       `json:"count"`
}

// Outcome of a plan.
type Outcome string

// The outcomes.
const (
	OutcomeKeep Outcome = "keep" // nothing moves
	OutcomeMove Outcome = "move" // replicas go to other clusters
	OutcomeSize Outcome = "size" // more or fewer replicas, none moves
	OutcomeHeld Outcome = "held" // no cluster can be changed
)

// Plan is a split.
type Plan struct {
	At       time.Time    `json:"at"`
	Outcome  Outcome      `json:"outcome"`
	Mode     fleet.Mode   `json:"mode"`
	Asked    int          `json:"asked"`           // what the signals ask for now
	Demand   int          `json:"demand"`          // the highest of the window
	Target   int          `json:"target"`          // replicas of all parts, held ones counted as they are
	Missing  int          `json:"missing"`         // of the demand, that no cluster may have: capped
	Survives int          `json:"survives"`        // replicas left when the cluster with the most is lost
	Relaxed  []string     `json:"relaxed"`         // rules that could not be kept: headroom, shares
	Stays    string       `json:"stays,omitempty"` // why a cheaper split is not taken: churn, gain, dwell, rest
	Before   fleet.Money  `json:"before"`          // per hour, of the replicas there are, where the cluster is not held
	After    fleet.Money  `json:"after"`           // of the target
	Moves    int          `json:"moves"`           // replicas that begin in another cluster
	Parts    []Part       `json:"parts"`           // as the sites are sorted
	Options  []Option     `json:"options"`
	Memory   Memory       `json:"memory"`
	Saving   *fleet.Money `json:"saving,omitempty"` // per hour, against keeping the split at the same demand
}

// Part is one cluster's.
type Part struct {
	Workload fleet.WorkloadID `json:"workload"`
	Cluster  fleet.ClusterID  `json:"cluster"`
	Held     Held             `json:"held,omitempty"`
	From     int              `json:"from"`
	Ready    int              `json:"ready"`
	Need     *int             `json:"need,omitempty"`
	Target   int              `json:"target"`
	Floor    *int             `json:"floor,omitempty"` // bounds for its policy now; nil: none
	Cap      *int             `json:"cap,omitempty"`
	Bound    string           `json:"bound"`          // what settled the target: price, or the rule in the way of a cheaper split; of a held one the reason
	Wait     string           `json:"wait,omitempty"` // why more is not taken away yet: ready, load, step
	Last     *Marginal        `json:"last,omitempty"` // of the last replica of the target
	Next     *Marginal        `json:"next,omitempty"` // of one more
	Weight   int64            `json:"weight"`         // thousandths of the load that the replicas ready now can take
}

// Marginal is what one replica costs at a site, per hour.
type Marginal struct {
	Price    fleet.Money    `json:"price"`
	Weighed  fleet.Money    `json:"weighed"`
	Extra    fleet.Money    `json:"extra"` // egress and penalty
	Kind     StepKind       `json:"kind"`
	Offering fleet.Offering `json:"offering"`
}

// Option is a split that was looked at.
type Option struct {
	Name     string       `json:"name"`             // plan, keep, best, even, no_headroom, single
	Site     string       `json:"site,omitempty"`   // of single
	Counts   []int        `json:"counts,omitempty"` // as the sites are sorted; empty: there is none
	Cost     *fleet.Money `json:"cost,omitempty"`   // per hour
	Weighed  *fleet.Money `json:"weighed,omitempty"`
	Delta    *fleet.Money `json:"delta,omitempty"` // of its cost against the plan's
	WhyNot   string       `json:"why_not,omitempty"`
	Replicas int          `json:"replicas"`
}
