package optimizer

// computable says that the rules can be computed with at all. It is the short form of Validate for the hot path: whatever
// it lets through yields a finite count.
func (p *Policy) computable() bool {
	if p.Min < 0 || p.Max < 1 || p.Max < p.Min || p.Max > maxReplicas || p.rules() == 0 || p.rules() > maxRules ||
		p.PlanTTLSeconds < 0 || p.ApprovalTTLSeconds < 0 || p.MaxSignalAgeSeconds < 0 || p.Filter.WindowSeconds > maxFilterWindow {
		return false
	}
	for i := range p.TargetRatio {
		r := &p.TargetRatio[i]
		known := r.Type == RatioUtilization || r.Type == RatioValue || r.Type == RatioAverageValue
		if !known || r.Signal == "" || !positive(r.Target) || !finite(r.Tolerance) {
			return false
		}
	}
	if q := p.Queue; q != nil && (!positive(q.TargetPerReplica) || !finite(q.MaxAgeSeconds)) {
		return false
	}
	if l := p.Latency; l != nil && (l.Signal == "" || !positive(l.TargetSeconds) || !positive(l.High) || !finite(l.Low) || l.Low < 0 || l.Low >= l.High || !positive(l.StepRatio) || l.StepRatio > 1) {
		return false
	}
	if s := p.SLO; s != nil && !s.computable() {
		return false
	}
	return stepsComputable(p.Up) && stepsComputable(p.Down)
}

func (s *SLO) computable() bool {
	return positive(s.RequestsPerReplica) && finite(s.AimShare) && s.AimShare >= 0 && s.AimShare < 1 && finite(s.LateShare) && s.LateShare >= 0 && s.LateShare < 1 && positive(s.LateSeconds) &&
		s.StartSeconds >= 0 && s.StartSeconds <= maxStartSeconds
}

func stepsComputable(d Damping) bool {
	if len(d.Steps) > maxSteps || d.StabilisationSeconds > maxStabilisation || (d.Select != SelectMax && d.Select != SelectMin && d.Select != SelectDisabled) {
		return false
	}
	for _, s := range d.Steps {
		if (s.Type != StepPods && s.Type != StepPercent) || s.Value < 1 || s.Value > maxReplicas || s.PeriodSeconds < 1 || s.PeriodSeconds > maxStepPeriodSeconds {
			return false
		}
	}
	return true
}

// rules counts the rules of the policy.
func (p *Policy) rules() int {
	n := len(p.TargetRatio)
	if p.Queue != nil {
		n++
	}
	if p.Latency != nil {
		n++
	}
	if p.SLO != nil {
		n++
	}
	return n
}

// positive says that a target can be divided by.
func positive(v float64) bool { return v >= minTarget && v <= maxValue }
