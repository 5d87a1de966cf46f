package lab

import (
	"math"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// Contender is one policy of a replay on a workload's own history: a policy document, or a baseline of the scoreboard by name.
type Contender struct {
	Name     string
	Kind     string            // ContenderCurrent, ContenderProposed or ContenderBaseline
	Document *optimizer.Policy // nil: the baseline of that name
}

// Kinds of contenders.
const (
	ContenderCurrent  = "current"
	ContenderProposed = "proposed"
	ContenderBaseline = "baseline"
)

// History is a workload's own past, ready to be replayed.
type History struct {
	Past     *Past
	Start    int          // seconds until a replica serves
	Class    string       // of the workload
	Min, Max int          // for the baselines and the bound
	Price    *fleet.Money // of a replica-hour; nil: not known
	From     time.Time    // of the first bucket
}

// HistoryRow is how one contender fared. Numbers are left out where there is a problem.
type HistoryRow struct {
	Policy      string       `json:"policy"`
	Kind        string       `json:"kind"`
	Problem     string       `json:"problem,omitempty"` // why it could not be played
	Paid        float64      `json:"paid_replica_hours"`
	Ratio       float64      `json:"cost_ratio,omitzero"` // over the bound; left out where there is none
	Cost        *fleet.Money `json:"cost_nano,omitempty"`
	Late        float64      `json:"late_ratio"`
	Timeouts    float64      `json:"timeout_ratio"`
	Thrash      float64      `json:"thrash_cycles_per_hour"`
	Over        float64      `json:"over_provision_ratio"`
	Under       float64      `json:"under_provision_ratio"`
	Utilisation float64      `json:"utilisation"`
	Most        int          `json:"most_replicas"`
	// Assumed lists signals that were taken as the share of the batch in use.
	Assumed []fleet.SignalName `json:"assumed_signals,omitempty"`
}

// HistoryPoint is one step of the timeline: means over it.
type HistoryPoint struct {
	At       time.Time `json:"at"`
	Demand   float64   `json:"demand"`
	Peak     float64   `json:"demand_peak"`
	Known    float64   `json:"known_ratio"`        // share of the step of which anybody said anything
	Current  *float64  `json:"current,omitempty"`  // ready replicas of the policy in force
	Proposed *float64  `json:"proposed,omitempty"` // and of the one proposed
}

// HistoryReport is what a replay on a workload's own history found. It is bounded: at most maxContenders rows and historyPoints points.
type HistoryReport struct {
	Basis       string         `json:"basis"`
	Buckets     int            `json:"buckets"`
	Unknown     int            `json:"unknown_buckets"`
	Bucket      int            `json:"bucket_seconds"`
	LongestGap  int            `json:"longest_gap_seconds"`
	Covered     float64        `json:"covered_ratio"`
	JudgedFrom  time.Time      `json:"judged_from"` // what lies before was only learned from
	JudgedTo    time.Time      `json:"judged_to"`
	Start       int            `json:"start_seconds"`
	Batch       float64        `json:"requests_per_replica"`
	Mean        float64        `json:"mean_replicas"`
	PeakDemand  float64        `json:"peak_replicas"`
	Bound       float64        `json:"bound_replica_hours,omitzero"`
	BoundCost   *fleet.Money   `json:"bound_cost_nano,omitempty"`
	NoBound     string         `json:"no_bound,omitempty"` // why there is none
	ReplicaHour *fleet.Money   `json:"replica_hour_nano,omitempty"`
	Rows        []HistoryRow   `json:"rows"`
	Points      []HistoryPoint `json:"points"`
}

// Bounds of a report.
const (
	maxContenders = 12
	historyPoints = 240
	boundPeak     = 150 // replicas; the bound of more takes too long for a replay that somebody waits for
)

// HistoryReplay plays contenders on a history, one at a time, so that whoever asks may show progress and stop.
type HistoryReplay struct {
	history    History
	contenders []Contender
	next       int
	boundDone  bool
	report     HistoryReport
}

// NewHistoryReplay takes what is to be played. The error is a *fleet.Error.
func NewHistoryReplay(h History, batch float64, contenders []Contender) (*HistoryReplay, error) {
	t := h.Past.Trace
	if err := t.Check(); err != nil {
		return nil, err
	}
	if len(contenders) == 0 || len(contenders) > maxContenders {
		return nil, fleet.Errorf(fleet.CodeInvalid, "%d policies to replay; want 1 to %d", len(contenders), maxContenders)
	}
	h.Start = (max(h.Start, SlotSeconds) + SlotSeconds - 1) / SlotSeconds * SlotSeconds
	if h.Start > 3600 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "replicas take %d s to start; want at most an hour", h.Start)
	}
	bucket := t.Slots() * SlotSeconds / h.Past.Buckets
	r := &HistoryReplay{history: h, contenders: contenders}
	r.report = HistoryReport{Basis: h.Past.Basis, Buckets: h.Past.Buckets, Unknown: h.Past.Unknown, Bucket: bucket, LongestGap: h.Past.Longest * bucket,
		Covered: 1 - part(float64(h.Past.Unknown), float64(h.Past.Buckets)), Start: h.Start, Batch: batch, Mean: t.Mean(), PeakDemand: t.Peak(), ReplicaHour: h.Price,
		JudgedFrom: h.From.Add(time.Duration(t.From*SlotSeconds) * time.Second), JudgedTo: h.From.Add(time.Duration(t.To*SlotSeconds) * time.Second), Rows: []HistoryRow{}}
	r.points()
	return r, nil
}

// Steps that Step takes in all.
func (r *HistoryReplay) Steps() int { return len(r.contenders) + 1 }

// Step plays the bound or one contender, and says whether anything is left and what comes next.
func (r *HistoryReplay) Step() (more bool) {
	if !r.boundDone {
		r.bound()
		r.boundDone = true
		return len(r.contenders) > 0
	}
	if r.next < len(r.contenders) {
		r.report.Rows = append(r.report.Rows, r.play(&r.contenders[r.next]))
		r.next++
	}
	return r.next < len(r.contenders)
}

// Report so far.
func (r *HistoryReplay) Report() HistoryReport { return r.report }

func (r *HistoryReplay) bound() {
	t, h, out := r.history.Past.Trace, &r.history, &r.report
	need := int(math.Ceil(t.Peak()))
	switch {
	case need > h.Max:
		out.NoBound = "peak_above_max"
		return
	case need > boundPeak:
		out.NoBound = "peak_too_large"
		return
	}
	b, err := Bound(t, Config{ColdSlots: h.Start / SlotSeconds, Min: h.Min, Max: h.Max})
	if err != nil {
		out.NoBound = err.Error()
		return
	}
	out.Bound = b
	out.BoundCost = h.cost(b)
}

func (h *History) cost(hours float64) *fleet.Money {
	if h.Price == nil {
		return nil
	}
	m := h.Price.MulDiv(int64(math.Round(hours*SlotsPerHour)), SlotsPerHour)
	return &m
}

func (r *HistoryReplay) play(c *Contender) HistoryRow {
	t, h := r.history.Past.Trace, &r.history
	row := HistoryRow{Policy: c.Name, Kind: c.Kind}
	cfg := Config{ColdSlots: h.Start / SlotSeconds, Min: h.Min, Max: h.Max}
	p, problem := r.policy(c, &cfg)
	if problem != nil {
		row.Problem = problem.Error()
		return row
	}
	planner, _ := p.(*Planner)
	s := r.run(t, cfg, p, c.Kind)
	if planner != nil {
		row.Assumed = planner.Assumed()
		if err := planner.Err(); err != nil {
			row.Problem = err.Error()
			return row
		}
	}
	row.Paid, row.Ratio, row.Cost = s.Paid, part(s.Paid, r.report.Bound), h.cost(s.Paid)
	row.Late, row.Timeouts, row.Thrash = s.LateRatio(), s.TimeoutRatio(), s.Thrash()
	row.Over, row.Under, row.Utilisation, row.Most = s.Over, s.Under, s.Use, s.Most
	return row
}

func (r *HistoryReplay) policy(c *Contender, cfg *Config) (Policy, error) {
	if c.Document == nil {
		e, err := Named([]string{c.Name})
		if err != nil {
			return nil, err
		}
		return e[0].New(r.history.Past.Trace, *cfg), nil
	}
	doc := c.Document.WithDefaults()
	cfg.Min, cfg.Max = max(doc.Min, 1), max(doc.Max, doc.Min, 1) // the lab's world has no scale to zero
	p, err := NewPlanner(doc, r.history.Class)
	if err != nil {
		return nil, err
	}
	p.Measured = func(int) int { return r.history.Start }
	return p, nil
}

// run is Run, with the ready replicas of the current and the proposed policy noted in the points.
func (r *HistoryReplay) run(t *Trace, cfg Config, p Policy, kind string) Score {
	w := newRun(t, cfg)
	step := r.pointSlots()
	sum := 0.0
	for !w.Over() {
		o := w.Advance()
		want := p.Step(&o)
		w.score.holding(p, want, cfg, o.Slot >= t.From && o.Slot < t.To)
		w.Order(want)
		if o.Slot < t.From {
			continue
		}
		sum += float64(o.Ready)
		if n := o.Slot - t.From + 1; n%step == 0 || o.Slot == t.To-1 {
			mean := sum / float64((n-1)%step+1)
			point := &r.report.Points[(n-1)/step]
			switch kind {
			case ContenderCurrent:
				point.Current = &mean
			case ContenderProposed:
				point.Proposed = &mean
			}
			sum = 0
		}
	}
	return w.Score()
}

// pointSlots is how many slots a point of the timeline stands for.
func (r *HistoryReplay) pointSlots() int {
	t := r.history.Past.Trace
	n := (t.To - t.From + historyPoints - 1) / historyPoints
	return max((n+3)/4*4, 4) // whole minutes
}

func (r *HistoryReplay) points() {
	t, step := r.history.Past.Trace, r.pointSlots()
	per := r.report.Bucket / SlotSeconds
	for from := t.From; from < t.To; from += step {
		to := min(from+step, t.To)
		p := HistoryPoint{At: r.history.From.Add(time.Duration(from*SlotSeconds) * time.Second)}
		known := 0
		for s := from; s < to; s++ {
			p.Demand += t.Rho[s] / float64(to-from)
			p.Peak = math.Max(p.Peak, t.Rho[s])
			if r.history.Past.Known == nil || r.history.Past.Known[s/per] {
				known++
			}
		}
		p.Known = float64(known) / float64(to-from)
		r.report.Points = append(r.report.Points, p)
	}
}
