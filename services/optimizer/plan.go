// Package optimizer turns a Snapshot into a Plan: how many replicas each workload shall have, and why. It is pure: the same
// Input gives the same Plan, byte for byte. It may never read a clock, a database or the network, and it never acts.
package optimizer

import (
	"time"

	"plimsoll.dev/services/fleet"
)

// Input is everything a decision sees. Bindings are keyed by workload id; a workload without one is left alone.
type Input struct {
	Snapshot fleet.Snapshot
	Policies map[fleet.WorkloadID]Binding
	Memory   map[fleet.WorkloadID]Memory
	// Forecasts of the workloads whose policy has an SLO rule, as they were learned up to now.
	Forecasts map[fleet.WorkloadID]Forecast `json:",omitempty"`
	// Budgets that are enforced or have a breaker.
	Budgets []Budget `json:",omitempty"`
}

// Binding is a policy version in force for a workload.
type Binding struct {
	Version int
	Policy  Policy
	// Share: the workload is one cluster's part of a service, and Policy's bounds are narrowed to it. nil: it is not.
	Share *Share `json:",omitempty"`
	// Hints of load that people expect, which may matter now.
	Hints []Hint `json:",omitempty"`
}

// Share names the service that bounds a workload, and the bounds of the policy itself: budgets and a count that somebody set to zero go by those.
type Share struct {
	Service string `json:"service"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
}

// Outcome is what a decision does to the replica count.
type Outcome string

// Outcomes. Holding is a decision too.
const (
	OutcomeUp   Outcome = "scale_up"
	OutcomeDown Outcome = "scale_down"
	OutcomeHold Outcome = "hold"
)

// Plan is immutable: absolute replica counts, one Decision per workload with a policy, sorted by workload key.
type Plan struct {
	Cluster    fleet.ClusterID
	At         time.Time
	Generation int64 // parent's + 1
	Parent     fleet.PlanID
	ExpiresAt  time.Time
	Mode       fleet.Mode
	Decisions  []Decision
	// Memory to keep for the next decision, for each workload decided upon.
	Memory map[fleet.WorkloadID]Memory
	// Trips are the breakers that this plan trips, by budget.
	Trips []Trip `json:",omitempty"`
}

// Decision says what one workload shall have, with everything needed to explain it.
type Decision struct {
	At       time.Time        `json:"at"` // of the snapshot
	Workload fleet.WorkloadID `json:"workload"`
	Key      string           `json:"key"`
	Outcome  Outcome          `json:"outcome"`
	From     int              `json:"from"` // replicas asked for when the snapshot was taken
	Ready    int              `json:"ready"`
	Needed   int              `json:"needed"` // what the signals alone ask for; equals From when no signal can be used
	Target   int              `json:"target"` // after damping, bounds and guards
	Min      int              `json:"min"`    // of the policy
	Max      int              `json:"max"`    // of the policy, or the part of its service if that is less
	Mode     fleet.Mode       `json:"mode"`   // the stricter of cluster and policy
	Binding  ReasonCode       `json:"binding"`
	Reasons  []Reason         `json:"reasons"` // at least one; in the order in which they were applied
	Inputs   []SignalInput    `json:"inputs"`
	// Alternatives that were looked at, best first, with what they would cost and risk.
	Alternatives []Alternative `json:"alternatives"`
	// CostDelta per hour of Target against From; nil when the price of a replica is unknown.
	CostDelta *fleet.Money `json:"cost_delta_nano"`
	Policy    int          `json:"policy_version"`
	// ExpiresAt is when nobody may carry it out any more: a proposal after the approval time, an action after the plan's.
	ExpiresAt time.Time `json:"expires_at"`
}

// SignalInput is a signal as the decision saw it.
type SignalInput struct {
	Name       fleet.SignalName `json:"name"`
	Raw        *float64         `json:"raw"`      // newest sample; nil when missing
	Filtered   *float64         `json:"filtered"` // after window, outlier rejection and peak suppression
	AgeSeconds float64          `json:"age_seconds"`
	Truth      fleet.Truth      `json:"truth"`
	Samples    int              `json:"samples"`
	Outlier    bool             `json:"outlier,omitempty"` // the newest sample stands alone and was not believed
	Target     float64          `json:"target"`
	Needed     *int             `json:"needed"` // replicas this signal asks for; nil when it cannot be used
}

// Alternative is a replica count that was not chosen.
type Alternative struct {
	Replicas int          `json:"replicas"`
	CostHour *fleet.Money `json:"cost_hour_nano"`
	Load     *float64     `json:"load_ratio"` // expected use of capacity by the binding signal; over 1 = late requests
	Rejected ReasonCode   `json:"rejected"`   // why not
}

// ReasonCode is a closed set; the words are made by the UI from code and numbers.
type ReasonCode string

// Reason is one step of the way from the signals to the target.
type Reason struct {
	Code    ReasonCode         `json:"code"`
	Signal  fleet.SignalName   `json:"signal,omitempty"`
	From    int                `json:"from"` // count before this step
	To      int                `json:"to"`   // count after it
	Numbers map[string]float64 `json:"numbers,omitempty"`
	// Until is when a hold ends, if it ends by itself.
	Until *time.Time `json:"until,omitempty"`
	// Binding marks the one reason of a decision that settled its target.
	Binding bool `json:"binding,omitempty"`
	// Budget that spoke, for the reasons of money.
	Budget fleet.BudgetID `json:"budget,omitempty"`
}

// Reason codes.
const (
	ReasonTargetRatio     ReasonCode = "target_ratio"     // needed = ceil(current x value / target)
	ReasonWithinTolerance ReasonCode = "within_tolerance" // |ratio - 1| <= tolerance
	ReasonQueue           ReasonCode = "queue"            // needed from waiting work per replica
	ReasonLatencyHigh     ReasonCode = "latency_high"     // p99 over target x k with rising rate
	ReasonLatencyLow      ReasonCode = "latency_low"      // p99 under target x m with steady flow
	ReasonForecast        ReasonCode = "forecast"         // an SLO rule: the quantile of the demand when an order of now is ready
	ReasonForecastHold    ReasonCode = "forecast_hold"    // the highest such need of the hold that pays
	ReasonBacklog         ReasonCode = "backlog"          // what waits is late already and is worked off
	ReasonNoForecast      ReasonCode = "no_forecast"      // nothing fresh was learned: no scale-down
	ReasonLearning        ReasonCode = "learning"         // the first hour of learning: no scale-down
	ReasonRelearning      ReasonCode = "relearning"       // the same, after what was known could not be used
	ReasonCollapse        ReasonCode = "collapse"         // the demand fell to almost nothing at once: given back slowly
	ReasonHint            ReasonCode = "hint"             // somebody expects so much load
	ReasonHintUnused      ReasonCode = "hint_unused"      // somebody expects load, and nothing is known to compute replicas from
	ReasonLargestNeed     ReasonCode = "largest_need"     // several signals: the largest wins
	ReasonSteady          ReasonCode = "steady"           // need equals what is there
	ReasonNoSignal        ReasonCode = "no_signal"        // nothing fresh to decide from: hold
	ReasonPartialSignal   ReasonCode = "partial_signal"   // some signals are not fresh: no scale-down
	ReasonUnreadyPods     ReasonCode = "unready_pods"     // silence of unready pods is not zero demand
	ReasonCooldownUp      ReasonCode = "cooldown_up"
	ReasonCooldownDown    ReasonCode = "cooldown_down"
	ReasonStabilisation   ReasonCode = "stabilisation" // the highest (lowest) recommendation of the window holds
	ReasonStepUp          ReasonCode = "step_up"
	ReasonStepDown        ReasonCode = "step_down"
	ReasonFlapping        ReasonCode = "flapping"  // hysteresis widened after up-down-up cycles
	ReasonLongTail        ReasonCode = "long_tail" // queue empty and use low for long: to the floor
	ReasonMin             ReasonCode = "min_replicas"
	ReasonMax             ReasonCode = "max_replicas" // capped: the need is larger
	ReasonServiceMin      ReasonCode = "service_min"  // raised to its part of a service that runs in several clusters
	ReasonServiceMax      ReasonCode = "service_max"  // held to it: the rest is ready in other clusters
	ReasonFrozen          ReasonCode = "frozen"
	ReasonConflict        ReasonCode = "conflict" // another controller writes the same field: yield
	ReasonNotScalable     ReasonCode = "not_scalable"
	ReasonZeroReplicas    ReasonCode = "zero_replicas"    // scaled to zero by hand: left alone unless min says otherwise
	ReasonInvalidPolicy   ReasonCode = "invalid_policy"   // the policy cannot be computed with: hold
	ReasonCheaper         ReasonCode = "smaller_is_late"  // alternatives only: fewer replicas would be late
	ReasonDearer          ReasonCode = "larger_is_dearer" // alternatives only: more replicas buy nothing
)
