package lab

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/optimizer/quantile"
)

// The course of every chaos run: a day of ordinary load that may be learned from, then three hours with the fault in them, then two of quiet.
const (
	chaosLearn  = 24 * SlotsPerHour
	chaosFault  = 25 * SlotsPerHour // when it begins
	chaosSlots  = 30 * SlotsPerHour
	chaosMax    = 400 // replicas, unless a scenario says otherwise
	chaosBatch  = 16  // requests that a replica serves at once
	chaosLength = 10  // seconds of a request
	chaosMean   = 8   // replicas in use, on average
)

// minutes of a run, in slots.
func minutes(n int) int { return n * 60 / SlotSeconds }

// Scenario is one bounded run in which something goes wrong, with what a policy must keep to.
type Scenario struct {
	Name  string       `json:"name"`
	About string       `json:"about"`
	fault func() fault // anew for every run: faults may remember
	// market: the run is a play of buyers in a market, not of counts (chaos_market.go).
	market bool
	// pass are the criteria beside those that hold in every scenario.
	pass []criterion
}

// criterion is one thing that is held against a bound.
type criterion struct {
	name  string
	only  string // for this kind of policy, or the one of this name; empty: for all
	most  float64
	least float64 // used where most is 0 and least is not
	value func(r *chaosRun) float64
}

// kinds of policy that criteria tell apart.
const (
	kindForecast = "forecast" // sizes by an objective
	kindRule     = "rule"     // classic rules
)

// ChaosCheck is one criterion of a run.
type ChaosCheck struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Bound float64 `json:"bound"`
	Least bool    `json:"at_least,omitempty"` // the value must not be under the bound; otherwise not over it
	Pass  bool    `json:"pass"`
}

// ChaosResult is how one policy got through one scenario.
type ChaosResult struct {
	Scenario  string       `json:"scenario"`
	Policy    string       `json:"policy"`
	Pass      bool         `json:"pass"`
	Checks    []ChaosCheck `json:"checks"`
	Late      float64      `json:"late_ratio"`
	LateFor   float64      `json:"late_equivalent_seconds"` // of arrivals at the highest rate of the fault
	Most      int          `json:"most_replicas"`
	Decisions int          `json:"decisions_recomputed"`
	Paid      float64      `json:"paid_replica_hours"`
}

// ChaosPolicy is a policy that goes through the scenarios.
type ChaosPolicy struct {
	Name  string
	About string
	kind  string
	// document is a production policy; nil: made by lab.
	document *optimizer.Policy
	lab      func(cfg Config) CQ
}

// ChaosPolicies are those that every scenario is played with: the SLO rule and two classic rules as production decides by them, and the lab's
// own play of the SLO policy.
func ChaosPolicies() []ChaosPolicy {
	return []ChaosPolicy{
		{Name: "slo", About: "the slo rule, class standard, as production decides", kind: kindForecast,
			document: &optimizer.Policy{Min: 1, SLO: &optimizer.SLO{Class: optimizer.ClassStandard, RequestsPerReplica: chaosBatch}}},
		{Name: "queue", About: "requests waiting and running per replica, with the default damping", kind: kindRule,
			document: &optimizer.Policy{Min: 1, Queue: &optimizer.QueueRule{TargetPerReplica: 0.7 * chaosBatch, IncludeRunning: true}}},
		{Name: "ratio", About: "SM activity at 70 %, with the default damping", kind: kindRule,
			document: &optimizer.Policy{Min: 1, TargetRatio: []optimizer.TargetRatio{{Signal: fleet.SignalGPUSM, Type: optimizer.RatioUtilization, Target: 0.7}}}},
		{Name: "plimsoll-cq", About: "the lab's play of the slo rule, without production's guards", kind: kindForecast,
			lab: func(cfg Config) CQ { return NewCQ(quantile.Params{Late: 0.018}, cfg.ColdSlots) }},
	}
}

// fault is what goes wrong. All parts are optional.
type fault struct {
	load    func(slot int, rho float64) float64
	max     int
	deliver func(slot int, signal fleet.SignalName, s fleet.Sample) []fleet.Sample
	prepare func(slot int, s *fleet.Snapshot)
	silent  func(slot int) bool // the agent says nothing: nobody decides
	dark    func(slot int) bool // signals are gone or not whole: nobody may go down
	lose    func(slot, ready int) int
	stock   func(slot int) bool // whether a machine can be had
	cold    func(slot int) int  // slots until a replica serves; 0: as ever
	start   func(slot int) int  // seconds, as they were measured; nil: not known
	judge   int                 // slots from the fault on that are judged; 0: all
}

func within(slot, from, length int) bool { return slot >= from && slot < from+length }

// chaosTrace is the ordinary load: a day with a depth of a half, and a ripple that repeats every hour or so.
func chaosTrace(f *fault) *Trace {
	t := &Trace{Name: "chaos", Rho: make([]float64, chaosSlots), Requests: make([]float64, chaosSlots), Share: 1.0 / chaosBatch, From: chaosFault, To: chaosSlots}
	if f.judge > 0 {
		t.To = min(chaosFault+f.judge, chaosSlots)
	}
	for i := range t.Rho {
		rho := chaosOrdinary(i)
		if f.load != nil {
			rho = f.load(i, rho)
		}
		t.Rho[i] = rho
		t.Requests[i] = rho * chaosBatch / chaosLength * SlotSeconds
	}
	return t
}

func chaosOrdinary(slot int) float64 {
	day := 1 - 0.5*math.Cos(2*math.Pi*float64(slot)/SlotsPerDay)
	return chaosMean * day * (1 + 0.05*math.Sin(float64(slot)*0.11) + 0.05*math.Sin(float64(slot)*0.37))
}

// RunChaos plays one policy through one scenario. The error is about the run itself; a policy that fails its criteria is in the result.
func RunChaos(s Scenario, p ChaosPolicy) (ChaosResult, error) {
	if s.market {
		return runChaosMarket(s, p)
	}
	f := s.fault()
	r, err := playChaos(&f, p)
	if err != nil {
		return ChaosResult{}, err
	}
	out := r.result(s.Name, p.Name)
	for _, c := range append(always(p), s.pass...) {
		if c.only == "" || c.only == p.kind || c.only == p.Name {
			out.add(c, r)
		}
	}
	return out, nil
}

// always are the criteria of every scenario.
func always(p ChaosPolicy) []criterion {
	out := []criterion{
		{name: "orders above the ceiling", value: func(r *chaosRun) float64 { return float64(r.above) }},
		{name: "scale-downs while signals are gone", value: func(r *chaosRun) float64 { return float64(r.darkDowns) }},
	}
	if p.document != nil {
		out = append(out, criterion{name: "decisions that do not compute again", value: func(r *chaosRun) float64 { return float64(r.differing) }},
			criterion{name: "decisions that break their check", value: func(r *chaosRun) float64 { return float64(r.unsound) }})
	}
	return out
}

func (o *ChaosResult) add(c criterion, r *chaosRun) {
	k := ChaosCheck{Name: c.name, Value: c.value(r), Bound: c.most}
	if c.least != 0 {
		k.Least, k.Bound = true, c.least
		k.Pass = k.Value >= k.Bound
	} else {
		k.Pass = k.Value <= k.Bound
	}
	o.Pass = o.Pass && k.Pass
	o.Checks = append(o.Checks, k)
}

// WriteChaos prints results as a table, and every criterion that was not kept.
func WriteChaos(w io.Writer, results []ChaosResult) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "scenario\tpolicy\tresult\tlate %\tlate-equivalent s\tmost replicas\trecomputed")
	for _, r := range results {
		word := "pass"
		if !r.Pass {
			word = "FAIL"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.2f\t%.0f\t%d\t%d\n", r.Scenario, r.Policy, word, 100*r.Late, r.LateFor, r.Most, r.Decisions)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		for _, c := range r.Checks {
			if !c.Pass {
				word := "at most"
				if c.Least {
					word = "at least"
				}
				fmt.Fprintf(w, "\n%s, %s: %s is %.4g, want %s %.4g\n", r.Scenario, r.Policy, c.Name, c.Value, word, c.Bound)
			}
		}
	}
	return nil
}

// FindScenarios picks scenarios by name; none named means all. An unknown name is a *fleet.Error that lists them.
func FindScenarios(names []string) ([]Scenario, error) {
	all := Scenarios()
	if len(names) == 0 {
		return all, nil
	}
	out := []Scenario{}
	for _, n := range names {
		found := false
		for _, s := range all {
			if s.Name == n {
				out, found = append(out, s), true
			}
		}
		if !found {
			list := ""
			for _, s := range all {
				list += " " + s.Name
			}
			return nil, fleet.Errorf(fleet.CodeInvalid, "there is no scenario %q; there are%s", n, list)
		}
	}
	return out, nil
}
