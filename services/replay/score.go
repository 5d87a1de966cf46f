package replay

import "sort"

// sums are integrals over a workload's life. Exported fields are saved.
type sums struct {
	Seconds     float64
	Ready       float64 // replica-seconds ready
	Held        float64 // replica-seconds asked for
	Work        float64 // replica-seconds in use
	SM          float64 // replica-seconds x SM active
	LateSeconds float64 // seconds in which more than a hundredth of the started requests was late
	Ups, Downs  int64
	Cycles      int64 // completed up-down-up
	Phase       int   // 0 nothing yet, 1 up seen, 2 up then down seen
}

func (s *sums) add(l *workloadState) {
	s.Work += stepSeconds * l.Work * l.eff
	s.SM += stepSeconds * l.smActive() * float64(l.ready)
}

// scaled counts directions, and completed up-down-up cycles.
func (s *sums) scaled(before, after int) {
	if after > before {
		s.Ups++
		if s.Phase == 2 {
			s.Cycles++
		}
		s.Phase = 1
	} else {
		s.Downs++
		if s.Phase == 1 {
			s.Phase = 2
		}
	}
}

// Spent is what the cluster has used since its start.
type Spent struct {
	NodeHours      map[string]float64 // by pool, from launch to end
	GPUHours       float64
	GPUHeldHours   float64 // GPUs requested by a pod
	Launches       int64
	FailedLaunches int64
	Notices        int64
	Lost           int64
}

// WorkloadScore says how one workload fared since the start.
type WorkloadScore struct {
	Key             string  `json:"key"`
	Count           Count   `json:"count"`
	LateRatio       float64 `json:"late_ratio"` // of all that arrived
	TimeoutRatio    float64 `json:"timeout_ratio"`
	LateTimeRatio   float64 `json:"late_time_ratio"` // of the time, with over one in a hundred late
	MeanReady       float64 `json:"mean_ready"`
	MeanWork        float64 `json:"mean_work"` // share of ready capacity in use
	MeanSM          float64 `json:"mean_sm_active"`
	Ups, Downs      int64
	CyclesPerHour   float64 `json:"thrash_cycles_per_hour"`
	StartUpSeconds  float64 `json:"start_up_seconds"` // mean, created to ready
	ReplicaHours    float64 `json:"replica_hours"`
	RequestsPerHour float64 `json:"requests_per_hour"`
}

// Score is the scorecard of a World since its start, workloads sorted by key.
func (w *World) Score() (workloads []WorkloadScore, spent Spent) {
	for _, l := range w.loads {
		s := l.Sums
		row := WorkloadScore{
			Key: l.cfg.Key, Count: l.Count, Ups: s.Ups, Downs: s.Downs,
			LateRatio: ratio(float64(l.Count.Late), float64(l.Count.Arrived)), TimeoutRatio: ratio(float64(l.Count.TimedOut), float64(l.Count.Arrived)),
			LateTimeRatio: ratio(s.LateSeconds, s.Seconds), MeanReady: ratio(s.Ready, s.Seconds), MeanWork: ratio(s.Work, s.Ready),
			MeanSM: ratio(s.SM, s.Ready), CyclesPerHour: ratio(float64(s.Cycles)*3600, s.Seconds),
			StartUpSeconds: ratio(float64(l.StartMS)/1000, float64(l.Starts)), ReplicaHours: s.Ready / 3600,
			RequestsPerHour: ratio(float64(l.Count.Arrived)*3600, s.Seconds),
		}
		workloads = append(workloads, row)
	}
	sort.Slice(workloads, func(i, j int) bool { return workloads[i].Key < workloads[j].Key })
	spent = w.spent
	spent.NodeHours = map[string]float64{}
	for _, p := range w.pools {
		spent.NodeHours[p.cfg.Name] = p.Seconds / 3600
	}
	return workloads, spent
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// account adds one step to the integrals.
func (w *World) account() {
	for _, p := range w.pools {
		p.Seconds += stepSeconds * float64(len(p.nodes))
		for _, n := range p.nodes {
			w.spent.GPUHours += float64(len(n.GPUs)) * stepSeconds / 3600
			w.spent.GPUHeldHours += float64(len(n.GPUs)-n.freeGPUs()) * stepSeconds / 3600
		}
	}
	for _, l := range w.loads {
		s, st := &l.Sums, &l.Ring[w.now/StepMillis%window]
		s.Seconds += stepSeconds
		s.Ready += stepSeconds * float64(l.ready)
		s.Held += stepSeconds * float64(l.Desired)
		if st.Late*100 > st.Admitted+st.TimedOut {
			s.LateSeconds += stepSeconds
		}
	}
}
