package lab

import "math"

// autopilot is the horizontal autoscaling of Google's Autopilot (Rzadca et al., "Autopilot: workload autoscaling at Google", EuroSys
// 2020, section 3.3), with the settings that the paper names as defaults or as the most common: use is averaged over five minutes, the statistic is
// the maximum or a percentile of these means over a horizon, and the replicas are that over the target utilisation. Then its smoothing:
// scale-down is deferred to the highest recommendation of a time, small changes are left alone, and growth is limited while many tasks
// start. The paper's horizon of 72 hours is for batch averages of CPU; it is the default here too.
type autopilot struct {
	target   float64 // utilisation
	mean     window
	horizon  highest
	deferred highest
	need     int
}

const (
	autopilotMean    = 300 / SlotSeconds
	autopilotHorizon = 72 * SlotsPerHour
	autopilotDefer   = 48 * SlotsPerHour // two days: the most common setting of the paper's jobs
	autopilotSmall   = 0.1               // changes under this are left alone
)

func newAutopilot(target float64) Policy {
	return &autopilot{target: target, mean: newWindow(autopilotMean), horizon: highest{slots: autopilotHorizon}, deferred: highest{slots: autopilotDefer}}
}

// Step decides every five minutes.
func (a *autopilot) Step(o *Observation) int {
	have := o.Replicas()
	use := a.mean.add(o.Busy)
	if (o.Slot+1)%autopilotMean != 0 {
		return have
	}
	statistic := a.horizon.add(o.Slot, use)
	want := math.Ceil(statistic/a.target - 1e-9)
	a.need = int(math.Ceil(use/a.target - 1e-9))
	want = a.deferred.add(o.Slot, want)
	if math.Abs(want-float64(have)) < autopilotSmall*float64(have) {
		return have
	}
	return int(want)
}

// Needed is the last five minutes' use over the target.
func (a *autopilot) Needed() int { return a.need }

// movingWindow is Autopilot's recommender by exponentially decaying samples (same paper, section 3.2.2), which the vertical autoscaler of
// Kubernetes took over, asked for the whole job's use: every five minutes the peak of the window goes into a histogram in which a
// sample counts half after 48 hours; the recommendation is a percentile of it, weighted by load (a bin counts by its use, so that the quantile is
// one of work served and not of time), plus a safety margin, and never below the use of the last five minutes.
type movingWindow struct {
	percentile float64
	weight     [movingBins]float64
	now        float64 // what a sample counts; grows instead of letting the old ones fade
	peak       float64
	recent     highest
}

const (
	movingBins   = 400
	movingHalf   = 48 * SlotsPerHour
	movingMargin = 1.15
	movingLowest = 0.01 // replicas of the first bin; each further one is 5 % wider
	movingRatio  = 1.05
)

func newMovingWindow(percentile float64) Policy {
	return &movingWindow{percentile: percentile, now: 1, recent: highest{slots: 300 / SlotSeconds}}
}

// Step notes the use and decides every five minutes.
func (m *movingWindow) Step(o *Observation) int {
	m.peak = math.Max(m.peak, o.Busy)
	recent := m.recent.add(o.Slot, o.Busy)
	if (o.Slot+1)%autopilotMean != 0 {
		return o.Replicas()
	}
	m.weight[movingBin(m.peak)] += m.now * m.peak
	m.now *= math.Exp2(float64(autopilotMean) / movingHalf)
	if m.now > 1e12 {
		for i := range m.weight {
			m.weight[i] /= m.now
		}
		m.now = 1
	}
	m.peak = 0
	return int(math.Ceil(math.Max(m.quantile()*movingMargin, recent) - 1e-9))
}

func movingBin(v float64) int {
	if v <= movingLowest {
		return 0
	}
	return min(1+int(math.Log(v/movingLowest)/math.Log(movingRatio)), movingBins-1)
}

func (m *movingWindow) quantile() float64 {
	sum := 0.0
	for _, w := range m.weight {
		sum += w
	}
	left := sum * m.percentile
	for i, w := range m.weight {
		if left -= w; left <= 0 && w > 0 {
			return movingLowest * math.Pow(movingRatio, float64(i))
		}
	}
	return 0
}
