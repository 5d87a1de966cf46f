package optimizer

import "plimsoll.dev/services/fleet"

// Types of a target-ratio rule.
const (
	RatioUtilization  = "utilization"
	RatioValue        = "value"
	RatioAverageValue = "average_value"
)

// Types of a step, and ways to choose among several.
const (
	StepPercent    = "percent"
	StepPods       = "pods"
	SelectMax      = "max"
	SelectMin      = "min"
	SelectDisabled = "disabled"
)

// Defaults of a policy; docs/guides/policies.md says where each comes from.
const (
	defaultMin            = 1
	defaultTolerance      = 0.1
	defaultHigh           = 1.2
	defaultLow            = 0.5
	defaultStepRatio      = 0.25
	defaultWindow         = 60
	defaultOutlierMAD     = 6
	defaultUpCooldown     = 180
	defaultDownCooldown   = 300
	defaultDownStabilise  = 300
	defaultCyclesPerHour  = 2
	defaultWidenFactor    = 2
	defaultQuiet          = 1800
	defaultUseRatio       = 0.2
	defaultMaxSignalAge   = 45
	defaultPlanTTL        = 120
	defaultApprovalTTL    = 900
	defaultRatioType      = RatioUtilization
	defaultLatencySignal  = fleet.SignalLatencyP99
	defaultSelect         = SelectMax
	defaultMode           = fleet.ModeRecommend
	hourSeconds           = 3600
	maxStepPeriodSeconds  = 1800
	maxFilterWindow       = 600
	maxStabilisation      = hourSeconds
	maxRules              = 16
	maxSteps              = 8
	maxPolicyBytes        = 64 << 10
	maxSignalAgeCeiling   = 600
	maxApprovalTTLSeconds = 24 * hourSeconds
)

// Default steps. They are shared by all policies and never written to.
var (
	defaultUpSteps = []Step{
		{Type: StepPercent, Value: 100, PeriodSeconds: 15},
		{Type: StepPods, Value: 4, PeriodSeconds: 15},
	}
	defaultDownSteps = []Step{{Type: StepPercent, Value: 50, PeriodSeconds: 60}}
)

// WithDefaults returns the policy with every zero field filled in. It does not judge what it finds (see Validate) and
// leaves p untouched. Applying it twice equals applying it once.
func (p Policy) WithDefaults() Policy {
	orString(&p.Mode, defaultMode)
	if p.Min == 0 && !p.ScaleToZero {
		p.Min = defaultMin
	}
	p.TargetRatio = ratiosWithDefaults(p.TargetRatio)
	if p.Latency != nil {
		l := *p.Latency
		orString(&l.Signal, defaultLatencySignal)
		orFloat(&l.High, defaultHigh)
		orFloat(&l.Low, defaultLow)
		orFloat(&l.StepRatio, defaultStepRatio)
		p.Latency = &l
	}
	if p.SLO != nil {
		p.SLO = p.SLO.withDefaults()
		p.sloDamping()
	}
	orInt(&p.Filter.WindowSeconds, defaultWindow)
	orFloat(&p.Filter.OutlierMAD, defaultOutlierMAD)
	p.Up = dampingWithDefaults(p.Up, defaultUpCooldown, 0, defaultUpSteps)
	p.Down = dampingWithDefaults(p.Down, defaultDownCooldown, defaultDownStabilise, defaultDownSteps)
	orInt(&p.Flap.CyclesPerHour, defaultCyclesPerHour)
	orInt(&p.Flap.WidenFactor, defaultWidenFactor)
	if p.LongTail != nil {
		l := *p.LongTail
		orInt(&l.QuietSeconds, defaultQuiet)
		orFloat(&l.UseRatio, defaultUseRatio)
		p.LongTail = &l
	}
	orInt(&p.MaxSignalAgeSeconds, defaultMaxSignalAge)
	orInt(&p.PlanTTLSeconds, defaultPlanTTL)
	orInt(&p.ApprovalTTLSeconds, defaultApprovalTTL)
	return p
}

// ratiosWithDefaults copies the rules only when one of them lacks something.
func ratiosWithDefaults(rules []TargetRatio) []TargetRatio {
	copied := false
	for i := range rules {
		if rules[i].Type != "" && rules[i].Tolerance != 0 {
			continue
		}
		if !copied {
			rules, copied = append([]TargetRatio(nil), rules...), true
		}
		orString(&rules[i].Type, defaultRatioType)
		orFloat(&rules[i].Tolerance, defaultTolerance)
	}
	return rules
}

func dampingWithDefaults(d Damping, cooldown, stabilisation int, steps []Step) Damping {
	orInt(&d.CooldownSeconds, cooldown)
	orInt(&d.StabilisationSeconds, stabilisation)
	if len(d.Steps) == 0 {
		d.Steps = steps
	}
	orString(&d.Select, defaultSelect)
	return d
}

func orString[T ~string](v *T, def T) {
	if *v == "" {
		*v = def
	}
}

func orInt(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

func orFloat(v *float64, def float64) {
	if *v == 0 {
		*v = def
	}
}
