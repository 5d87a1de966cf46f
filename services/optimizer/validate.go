package optimizer

import (
	"fmt"
	"math"
	"strings"

	"plimsoll.dev/services/fleet"
)

// signalKind says how the values of a signal are to be read.
type signalKind int

const (
	kindCustom signalKind = iota // not one of ours: a gauge by a mapping
	kindRatio                    // 0..1, mean over pods
	kindTotal                    // sum over the workload
	kindSeconds
	kindShare // part of the requests, 0..1
)

func kindOf(n fleet.SignalName) signalKind {
	switch n {
	case fleet.SignalKVCache, fleet.SignalGPUSM, fleet.SignalGPUUtil, fleet.SignalCPURatio:
		return kindRatio
	case fleet.SignalRequestRate, fleet.SignalQueueLength, fleet.SignalRunning, fleet.SignalGPUMemory, fleet.SignalCPU,
		fleet.SignalMemory, fleet.SignalTokensIn, fleet.SignalTokensOut:
		return kindTotal
	case fleet.SignalQueueAge, fleet.SignalLatencyP50, fleet.SignalLatencyP99, fleet.SignalTTFTP99:
		return kindSeconds
	case fleet.SignalErrorRatio, fleet.SignalLateRatio:
		return kindShare
	}
	return kindCustom
}

// validator collects findings.
type validator struct{ out []Finding }

func (v *validator) wrong(field, format string, args ...any) {
	v.out = append(v.out, Finding{Field: field, Severity: SeverityError, Message: fmt.Sprintf(format, args...)})
}

func (v *validator) doubt(field, format string, args ...any) {
	v.out = append(v.out, Finding{Field: field, Severity: SeverityWarning, Message: fmt.Sprintf(format, args...)})
}

// between finds a whole number outside its range; off allows -1.
func (v *validator) between(field string, n, low, high int, off bool, unit string) {
	if n >= low && n <= high || off && n == -1 {
		return
	}
	also := ""
	if off {
		also = ", or -1 for none"
	}
	v.wrong(field, "This must be %d to %d%s%s, it is %d.", low, high, unit, also, n)
}

// Validate returns everything that is wrong (errors) or doubtful (warnings) in a policy that has its defaults, field by
// field and then across fields. Without an error, Decide can compute with it.
func (p Policy) Validate() []Finding {
	v := &validator{}
	v.bounds(&p)
	v.ratios(&p)
	v.queue(&p)
	v.latency(&p)
	v.slo(&p)
	v.filter(&p)
	v.damping("up", p.Up, &p)
	v.damping("down", p.Down, &p)
	v.flap(&p)
	v.longTail(&p)
	v.times(&p)
	v.whole(&p)
	return v.out
}

func (v *validator) bounds(p *Policy) {
	if p.Mode.Rank() < 0 {
		v.wrong("mode", "%q is no mode; choose observe, recommend, approve or enforce.", p.Mode)
	}
	if p.Min < 0 {
		v.wrong("min", "The floor cannot be negative.")
	}
	switch {
	case p.Max == 0:
		v.wrong("max", "A policy needs a ceiling: set max to the most replicas that you would pay for.")
	case p.Max < 1 || p.Max > maxReplicas:
		v.wrong("max", "The ceiling must be 1 to %d, it is %d.", maxReplicas, p.Max)
	case p.Max < p.Min:
		v.wrong("max", "The ceiling (%d) is below the floor (%d).", p.Max, p.Min)
	case p.Max == p.Min:
		v.doubt("max", "Floor and ceiling are both %d, so that nothing will ever be scaled.", p.Max)
	}
}

func (v *validator) ratios(p *Policy) {
	seen := map[string]bool{}
	for i := range p.TargetRatio {
		r := &p.TargetRatio[i]
		at := fmt.Sprintf("target_ratio[%d]", i)
		kind := kindOf(r.Signal)
		if r.Signal == "" {
			v.wrong(at+".signal", "A rule needs a signal.")
		} else if kind == kindCustom {
			v.doubt(at+".signal", "%q is none of the built-in signals; it must come from a mapping in the agent, else this rule never has a value.", r.Signal)
		}
		if key := string(r.Signal) + " " + r.Type; seen[key] {
			v.doubt(at+".signal", "Another rule looks at the same signal in the same way; only the one with the lower target can ever win.")
		} else {
			seen[key] = true
		}
		v.target(at, r, kind)
		switch {
		case !finite(r.Tolerance) || r.Tolerance >= 1 || (r.Tolerance < 0 && r.Tolerance != -1):
			v.wrong(at+".tolerance", "The tolerance must be above 0 and below 1, or -1 for none.")
		case r.Tolerance > 0.3:
			v.doubt(at+".tolerance", "With a tolerance of %g the load may be %.0f %% over the target before anything happens.", r.Tolerance, r.Tolerance*100)
		}
	}
}

// target checks the target of a ratio rule against its type and signal.
func (v *validator) target(at string, r *TargetRatio, kind signalKind) {
	if !positive(r.Target) {
		v.wrong(at+".target", "The target must be a number above 0.")
		return
	}
	switch r.Type {
	case RatioUtilization:
		switch {
		case kind == kindTotal:
			v.wrong(at+".type", "%s is a total over the workload; compare it per replica with type average_value.", r.Signal)
		case kind == kindSeconds || kind == kindShare:
			v.wrong(at+".type", "%s is not a use of capacity; use the latency rule, or type value.", r.Signal)
		case r.Target > 2:
			v.wrong(at+".target", "A use is a ratio: write 0.7 for 70 %%, not %g.", r.Target)
		case r.Target > 0.9:
			v.doubt(at+".target", "A target of %.0f %% leaves no room for the time in which new replicas start; 60 to 80 %% is usual.", r.Target*100)
		case r.Target < 0.3:
			v.doubt(at+".target", "A target of %.0f %% pays for more than three times the capacity in use.", r.Target*100)
		}
	case RatioValue:
		if kind == kindTotal {
			v.doubt(at+".type", "%s is a total: with type value it is compared with the target as a whole, whatever the number of replicas; average_value is usually meant.", r.Signal)
		}
	case RatioAverageValue:
		if kind != kindTotal && kind != kindCustom {
			v.wrong(at+".type", "%s is not a total over the workload, so it cannot be divided among replicas; use utilization or value.", r.Signal)
		}
	default:
		v.wrong(at+".type", "%q is no type; choose utilization, value or average_value.", r.Type)
	}
}

func (v *validator) queue(p *Policy) {
	q := p.Queue
	if q == nil {
		return
	}
	if !positive(q.TargetPerReplica) {
		v.wrong("queue.target_per_replica", "The requests that one replica shall hold must be a number above 0.")
	}
	if !finite(q.MaxAgeSeconds) || q.MaxAgeSeconds < 0 || q.MaxAgeSeconds > 86400 {
		v.wrong("queue.max_age_seconds", "The age must be 0 (not used) to 86400 seconds.")
	}
	if !q.IncludeRunning && p.rules() == 1 {
		v.doubt("queue.include_running", "Waiting requests alone size a workload that is busy but not behind down to its floor; include running requests or add a second rule.")
	}
}

func (v *validator) latency(p *Policy) {
	l := p.Latency
	if l == nil {
		return
	}
	if k := kindOf(l.Signal); k != kindSeconds && k != kindCustom {
		v.wrong("latency.signal", "%s is not a latency.", l.Signal)
	}
	if !positive(l.TargetSeconds) {
		v.wrong("latency.target_seconds", "The latency to hold must be a number of seconds above 0.")
	}
	switch {
	case !positive(l.High) || !finite(l.Low) || l.Low < 0 || l.Low >= l.High:
		v.wrong("latency.high", "The upper threshold (%g x target) must be above the lower one (%g x target).", l.High, l.Low)
	case l.High < 1:
		v.doubt("latency.high", "At %g x target replicas are added while the latency is still within its target.", l.High)
	case l.Low > 0.8*l.High:
		v.doubt("latency.low", "The thresholds lie so near to each other that the workload may swing between them.")
	}
	if !positive(l.StepRatio) || l.StepRatio > 1 {
		v.wrong("latency.step_ratio", "The step must be above 0 and at most 1 (all replicas once more).")
	}
	if p.rules() == 1 {
		v.doubt("latency", "A latency says that there are too few replicas, not how many are needed; add a rule that sizes.")
	}
}

func (v *validator) filter(p *Policy) {
	v.between("filter.window_seconds", p.Filter.WindowSeconds, 1, maxFilterWindow, true, " seconds")
	m := p.Filter.OutlierMAD
	switch {
	case !finite(m) || m > 100 || (m <= 0 && m != -1):
		v.wrong("filter.outlier_mad", "The outlier limit must be above 0 and at most 100 deviations, or -1 for none.")
	case m > 0 && m < 3:
		v.doubt("filter.outlier_mad", "Under 3 deviations ordinary noise is thrown away as well.")
	}
	if w := p.Filter.WindowSeconds; w > 120 {
		v.doubt("filter.window_seconds", "A window of %d s delays every reaction by about half of that; 60 to 120 s is usual.", w)
	}
}

func (v *validator) slo(p *Policy) {
	s := p.SLO
	if s == nil {
		return
	}
	switch s.Class {
	case "", ClassGold, ClassStandard, ClassEconomy:
	default:
		v.wrong("slo.class", "%q is no class; choose gold, standard or economy.", s.Class)
	}
	switch {
	case !finite(s.LateShare) || s.LateShare < 0 || s.LateShare >= 0.5:
		v.wrong("slo.late_share", "The share of late requests must be above 0 and below 0.5; write 0.01 for 1 %%.")
	case s.LateShare > 0 && s.LateShare < 0.001:
		v.doubt("slo.late_share", "Under 0.001 the shadows cannot tell good from bad within days; promise it only after three weeks of history.")
	}
	if !finite(s.AimShare) || s.AimShare != 0 && (s.AimShare < MinAimShare || s.AimShare > MaxAimShare) {
		v.wrong("slo.aim_share", "The part of the objective that is aimed at must be from %g to %g; write 0.9 for 90 %%.", MinAimShare, MaxAimShare)
	}
	switch s.Tuning {
	case "", TuningOff, TuningPropose, TuningApply:
	default:
		v.wrong("slo.tuning", "%q says nothing; choose off, propose or apply.", s.Tuning)
	}
	if !positive(s.LateSeconds) || s.LateSeconds > hourSeconds {
		v.wrong("slo.late_seconds", "The wait after which a request is late must be above 0 and at most %d seconds.", hourSeconds)
	}
	v.between("slo.start_seconds", s.StartSeconds, 0, maxStartSeconds, false, " seconds")
	if !positive(s.RequestsPerReplica) {
		v.wrong("slo.requests_per_replica", "Say how many requests one replica serves at once within its latency: a number above 0.")
	}
	if p.ScaleToZero {
		v.wrong("slo", "An SLO needs a replica that serves: it cannot be kept with scale_to_zero.")
	}
	if p.Down.StabilisationSeconds > 0 || p.Down.CooldownSeconds > 0 {
		v.doubt("down", "The rule holds by itself for as long as pays; stabilisation and cooldown on top cost without making it safer.")
	}
	if p.Up.CooldownSeconds > 0 {
		v.doubt("up.cooldown_seconds", "For %d s after a scale-up the forecast cannot be followed.", p.Up.CooldownSeconds)
	}
}

func (v *validator) damping(at string, d Damping, p *Policy) {
	v.between(at+".cooldown_seconds", d.CooldownSeconds, 1, 86400, true, " seconds")
	v.between(at+".stabilisation_seconds", d.StabilisationSeconds, 0, maxStabilisation, true, " seconds")
	switch d.Select {
	case SelectMax, SelectMin:
	case SelectDisabled:
		v.doubt(at+".select", "With select disabled the workload never scales %s, except to come inside min and max.", at)
	default:
		v.wrong(at+".select", "%q is no way to choose; choose max, min or disabled.", d.Select)
	}
	if len(d.Steps) > maxSteps {
		v.wrong(at+".steps", "At most %d steps are read, there are %d.", maxSteps, len(d.Steps))
		return
	}
	percentOnly := len(d.Steps) > 0
	for i, s := range d.Steps {
		field := fmt.Sprintf("%s.steps[%d]", at, i)
		percentOnly = percentOnly && s.Type == StepPercent
		switch {
		case s.Type != StepPercent && s.Type != StepPods:
			v.wrong(field+".type", "%q is no step; choose percent or pods.", s.Type)
		case s.Value < 1 || s.Value > maxReplicas:
			v.wrong(field+".value", "A step must be 1 to %d; to stop a direction use select: disabled.", maxReplicas)
		case s.Type == StepPercent && at == "down" && s.Value > 100:
			v.wrong(field+".value", "No more than 100 %% can be taken away.")
		}
		v.between(field+".period_seconds", s.PeriodSeconds, 1, maxStepPeriodSeconds, false, " seconds")
	}
	if at == "up" && percentOnly && p.ScaleToZero && p.Min == 0 && d.Select != SelectDisabled {
		v.wrong("up.steps", "Per cent of zero replicas is zero: with scale_to_zero there must be a step in pods.")
	}
	if at == "up" && d.CooldownSeconds > 900 {
		v.doubt("up.cooldown_seconds", "For %d s after a scale-up a further rise of the load is not answered.", d.CooldownSeconds)
	}
	if at == "up" && d.StabilisationSeconds > 300 {
		v.doubt("up.stabilisation_seconds", "The load must stay high for %d s before anything is added.", d.StabilisationSeconds)
	}
}

func (v *validator) flap(p *Policy) {
	v.between("flap.cycles_per_hour", p.Flap.CyclesPerHour, 1, 60, true, " cycles")
	v.between("flap.widen_factor", p.Flap.WidenFactor, 1, 10, false, "")
	if p.SLO == nil && p.Down.StabilisationSeconds < 60 && p.Down.CooldownSeconds < 60 && p.Flap.CyclesPerHour == -1 {
		v.doubt("down.stabilisation_seconds", "Neither stabilisation, cooldown nor the flap guard keeps the workload from going down between two peaks.")
	}
}

func (v *validator) longTail(p *Policy) {
	l := p.LongTail
	if l == nil {
		return
	}
	v.between("long_tail.quiet_seconds", l.QuietSeconds, 60, 86400, false, " seconds")
	if !finite(l.UseRatio) || l.UseRatio <= 0 || l.UseRatio >= 1 {
		v.wrong("long_tail.use_ratio", "The use below which a workload is quiet must be above 0 and below 1.")
	}
	if l.QuietSeconds >= 60 && l.QuietSeconds < 300 {
		v.doubt("long_tail.quiet_seconds", "After only %d quiet seconds the workload goes to its floor past all damping.", l.QuietSeconds)
	}
	for i, r := range p.TargetRatio {
		if r.Type == RatioUtilization && positive(r.Target) && l.UseRatio >= r.Target {
			v.wrong("long_tail.use_ratio", "Quiet (%g) is not below the target of target_ratio[%d] (%g): a workload at its target would be sent to its floor.", l.UseRatio, i, r.Target)
		}
	}
}

func (v *validator) times(p *Policy) {
	v.between("max_signal_age_seconds", p.MaxSignalAgeSeconds, 5, maxSignalAgeCeiling, false, " seconds")
	v.between("plan_ttl_seconds", p.PlanTTLSeconds, 15, hourSeconds, false, " seconds")
	v.between("approval_ttl_seconds", p.ApprovalTTLSeconds, 30, maxApprovalTTLSeconds, false, " seconds")
	if a := p.MaxSignalAgeSeconds; a >= 5 && a < 30 {
		v.doubt("max_signal_age_seconds", "The agent reports every 15 s: under 30 s one late report stops every scale-down.")
	}
	if a := p.MaxSignalAgeSeconds; a > 120 && a <= maxSignalAgeCeiling {
		v.doubt("max_signal_age_seconds", "A signal that is %d s old still counts as the present.", a)
	}
}

// whole checks what only the rules together can tell.
func (v *validator) whole(p *Policy) {
	switch n := p.rules(); {
	case n == 0:
		v.wrong("target_ratio", "A policy needs at least one rule: slo, target_ratio, queue or latency.")
		return
	case n > maxRules:
		v.wrong("target_ratio", "At most %d rules are read, there are %d.", maxRules, n)
	}
	if p.ScaleToZero && p.Min == 0 && !p.wakes() {
		v.wrong("scale_to_zero", "Nothing would wake the workload: at zero replicas only a queue rule or an average_value rule has a signal.")
	}
	if p.ScaleToZero && p.Min > 0 {
		v.doubt("scale_to_zero", "It has no effect while min is %d.", p.Min)
	}
	if only := p.only(); only == fleet.SignalGPUUtil {
		v.doubt("target_ratio[0].signal", "gpu_util_ratio counts any moment in which a kernel runs, so that it is near 1 at any load of inference and drives the workload to its ceiling; use gpu_sm_active_ratio, or better a queue rule.")
	}
	if p.Mode == fleet.ModeEnforce && p.OwnReplicas {
		v.doubt("own_replicas", "Plimsoll will keep writing replicas against any other controller that does; be sure that no HPA targets this workload.")
	}
}

// wakes says that a rule can ask for replicas while there are none.
func (p *Policy) wakes() bool {
	if p.Queue != nil {
		return true
	}
	for _, r := range p.TargetRatio {
		if r.Type == RatioAverageValue {
			return true
		}
	}
	return false
}

// only is the one signal that all rules look at, if there is just one.
func (p *Policy) only() fleet.SignalName {
	var names []string
	for _, n := range ruleSignals(p) {
		if !strings.Contains(strings.Join(names, " "), string(n)) {
			names = append(names, string(n))
		}
	}
	if len(names) != 1 {
		return ""
	}
	return fleet.SignalName(names[0])
}

// finite says that a float is a number.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
