package optimizer

import (
	"time"

	"plimsoll.dev/services/fleet"
)

// Policy says how one workload is scaled. It is written as YAML (docs/guides/policies.md), versioned, linted before it is saved.
// Durations are whole seconds. Zero values mean the default named in each comment; WithDefaults fills them in. -1 switches
// a part off where its comment says so.
type Policy struct {
	Mode fleet.Mode `json:"mode"` // default recommend
	Min  int        `json:"min"`  // default 1; 0 only together with ScaleToZero
	Max  int        `json:"max"`  // required, >= Min
	// ScaleToZero lets Min be 0. It takes a rule on queue_length or an average_value, or nothing would wake the workload.
	ScaleToZero bool `json:"scale_to_zero,omitempty"`
	// Signals: at least one rule; the largest need wins.
	TargetRatio []TargetRatio `json:"target_ratio,omitempty"`
	Queue       *QueueRule    `json:"queue,omitempty"`
	Latency     *LatencyRule  `json:"latency,omitempty"`
	// SLO sizes by an objective; with it, cooldowns and stabilisation are off unless they are given.
	SLO      *SLO      `json:"slo,omitempty"`
	Filter   Filter    `json:"filter"`
	Up       Damping   `json:"up"`   // defaults: cooldown 180 s, stabilisation 0
	Down     Damping   `json:"down"` // defaults: cooldown 300 s, stabilisation 300 s
	Flap     Flap      `json:"flap"`
	LongTail *LongTail `json:"long_tail,omitempty"`
	// MaxSignalAgeSeconds: a signal older than this is stale. Default 45.
	MaxSignalAgeSeconds int `json:"max_signal_age_seconds"`
	// PlanTTLSeconds: the agent refuses the plan after this. Default 120.
	PlanTTLSeconds int `json:"plan_ttl_seconds"`
	// ApprovalTTLSeconds: a proposal that nobody approved expires. Default 900.
	ApprovalTTLSeconds int `json:"approval_ttl_seconds"`
	// OwnReplicas: keep deciding although another controller writes replicas. Default false: yield and say so.
	OwnReplicas bool `json:"own_replicas"`
}

// TargetRatio is the Kubernetes HPA rule.
type TargetRatio struct {
	Signal fleet.SignalName `json:"signal"`
	// Type: "utilization" and "value" compare a mean per replica (or a plain value) with Target and scale by ratio;
	// "average_value" divides a total by Target (HPA's AverageValue on external and object metrics).
	Type      string  `json:"type"`
	Target    float64 `json:"target"`
	Tolerance float64 `json:"tolerance"` // default 0.1; -1: none
}

// QueueRule sizes by waiting and running work.
type QueueRule struct {
	TargetPerReplica float64 `json:"target_per_replica"` // requests (waiting + running) one replica shall hold
	IncludeRunning   bool    `json:"include_running"`    // default false: waiting only
	MaxAgeSeconds    float64 `json:"max_age_seconds"`    // over this age of the oldest request one step more is asked; 0: not used
}

// LatencyRule scales up when p99 > Target x High and the rate rises, down when p99 < Target x Low and the rate is steady.
type LatencyRule struct {
	Signal        fleet.SignalName `json:"signal"` // default latency_p99_seconds
	TargetSeconds float64          `json:"target_seconds"`
	High          float64          `json:"high"`       // default 1.2
	Low           float64          `json:"low"`        // default 0.5
	StepRatio     float64          `json:"step_ratio"` // default 0.25 of the replicas, at least 1
}

// Filter cleans a signal before any threshold.
type Filter struct {
	WindowSeconds int     `json:"window_seconds"` // default 60, 0..600; -1 takes the newest sample as it is
	OutlierMAD    float64 `json:"outlier_mad"`    // default 6 median absolute deviations; -1 off
}

// Damping holds back one direction. Behaviours of the HPA: every step policy gives a limit per period; select says which counts.
type Damping struct {
	CooldownSeconds      int    `json:"cooldown_seconds"`      // -1: none
	StabilisationSeconds int    `json:"stabilisation_seconds"` // -1: none
	Steps                []Step `json:"steps,omitempty"`       // default up: 100 % or 4 per 15 s, the larger; down: 50 % per 60 s
	Select               string `json:"select"`                // max (default), min, disabled
}

// Step allows a change of at most Value within the last PeriodSeconds.
type Step struct {
	Type          string `json:"type"` // percent or pods
	Value         int    `json:"value"`
	PeriodSeconds int    `json:"period_seconds"` // 1..1800
}

// Flap widens the down-stabilisation when the count oscillates: from CyclesPerHour completed up-down-up cycles within an
// hour on, and again with every further cycle; it narrows by one factor for every six hours without a cycle.
type Flap struct {
	CyclesPerHour int `json:"cycles_per_hour"` // default 2; -1 off
	WidenFactor   int `json:"widen_factor"`    // default 2; the window is never over an hour
}

// LongTail sends an idle workload to its floor.
type LongTail struct {
	QuietSeconds int     `json:"quiet_seconds"` // default 1800 of queue 0 and use under UseRatio
	UseRatio     float64 `json:"use_ratio"`     // default 0.2
}

// Memory is what a policy remembers of a workload between decisions. It is data: the same Memory gives the same next
// decision. It has to be kept after every decision, not only after news, since the recommendations are noted in it.
// Changes are noted when they are seen in the replica count, not when they are decided: a proposal that nobody carries
// out starts no cooldown, and a count that a person sets by hand does.
type Memory struct {
	Recommendations []Recommendation `json:"recommendations,omitempty"` // oldest first; only those that can still matter
	Changes         []Change         `json:"changes,omitempty"`         // of the last hour, oldest first
	QuietSince      *time.Time       `json:"quiet_since,omitempty"`
	LastUp          *time.Time       `json:"last_up,omitempty"`
	LastDown        *time.Time       `json:"last_down,omitempty"`
	// FlapLevel is by how many factors the down window is widened, FlapAt when that last changed.
	FlapLevel int        `json:"flap_level,omitempty"`
	FlapAt    *time.Time `json:"flap_at,omitempty"`
	// Collapse of the demand that an SLO rule saw and has not given back yet.
	Collapse *Collapse `json:"collapse,omitempty"`
	// Hints that are in effect.
	Hints []HintBase `json:"hints,omitempty"`
	// Last is the previous decision in short, to tell news from repetition.
	LastOutcome Outcome    `json:"last_outcome,omitempty"`
	LastBinding ReasonCode `json:"last_binding,omitempty"`
	LastTarget  int        `json:"last_target"`
	LastFrom    int        `json:"last_from"`
	LastPolicy  int        `json:"last_policy,omitempty"`
	LastMode    fleet.Mode `json:"last_mode,omitempty"`
	LastAt      *time.Time `json:"last_at,omitempty"` // of the previous decision; nil: there was none
	// LastExpires is when the last decision that was news runs out; an action that is still wanted then is news again.
	LastNews    *time.Time `json:"last_news,omitempty"` // when the last decision that was news was made
	LastExpires *time.Time `json:"last_expires,omitempty"`
}

// Recommendation is what the signals asked for at a time.
type Recommendation struct {
	At     time.Time `json:"at"`
	Needed int       `json:"needed"`
}

// Change is a change of the replica count, whoever made it.
type Change struct {
	At   time.Time `json:"at"`
	From int       `json:"from"`
	To   int       `json:"to"`
}
