package lab

import (
	"fmt"
	"io"
	"text/tabwriter"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// Notch is one setting of a small grid, from careful to thrifty.
type Notch struct {
	Name string
	New  func(t *Trace, cfg Config) Policy
}

// Tried is what a notch would have cost over the days that were replayed.
type Tried struct {
	Name    string  `json:"name"`
	Paid    float64 `json:"paid_replica_hours"`
	Late    float64 `json:"late_ratio"`
	Timeout float64 `json:"timeout_ratio"`
	OnTime  bool    `json:"on_time"` // late at most half of what the objective allows
}

// Tuning is the outcome of a nightly tuning.
type Tuning struct {
	Workload string  `json:"workload"`
	Days     float64 `json:"days"` // of history that were judged
	Limit    float64 `json:"late_limit"`
	Tried    []Tried `json:"tried"`
	Current  string  `json:"current"`
	Best     string  `json:"best,omitempty"` // cheapest that is on time; left out when none is
	Next     string  `json:"next"`           // at most one notch from the current
	Reason   string  `json:"reason"`
}

// Why the next setting is what it is.
const (
	TuneKept      = "kept"               // the current setting is the cheapest on time
	TuneMoved     = "moved"              // one notch towards the cheapest on time
	TuneCareful   = "none_on_time"       // no notch is on time: one notch more careful
	TuneShort     = "too_little_history" // fewer days than a tuning may rest on
	TuneNoService = "nothing_was_served" // no request in those days
	tuneMostDays  = 21                   // beyond them the load is another one
	tuneHalf      = 0.5                  // of the objective: tuned figures are optimistic
	minTuneDays   = 14                   // of history before anything moves
	tuneNotches   = 32                   // in a grid
	slotsOfDays   = float64(SlotsPerDay) // to divide by
	warmUpSlots   = 2 * SlotsPerDay      // played before the judged days, where there are more
)

// QuantileNotches is the grid of our own policy: how much lateness it aims at, from careful to thrifty, for an objective.
func QuantileNotches(slo float64) []Notch {
	out := []Notch{}
	for _, share := range []float64{0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9} {
		late := share * slo
		out = append(out, Notch{fmt.Sprintf("late-%.0f", 100*share), func(_ *Trace, cfg Config) Policy { return NewCQ(quantile.Params{Late: late}, cfg.ColdSlots) }})
	}
	return out
}

// FamilyNotches is the grid of a baseline: its targets from low to high, which is from careful to thrifty for all that divide by it.
func FamilyNotches(f Family) []Notch {
	out := []Notch{}
	for _, target := range f.Targets {
		e := f.Entry(target)
		out = append(out, Notch{e.Name, e.New})
	}
	return out
}

// Tune replays the last days of a load under every notch, judges all but the first two days, in which policies learn, and moves the current
// setting by one notch at most, towards the cheapest that leaves at most half as many requests late as the objective allows. With less than
// minDays of history (0: 14) nothing moves. Days is how many of the last days are taken, 0: 21.
func Tune(l Load, grid []Notch, current string, days, minDays int) (Tuning, error) {
	at := -1
	for i, n := range grid {
		if n.Name == current {
			at = i
		}
	}
	switch {
	case len(grid) == 0 || len(grid) > tuneNotches:
		return Tuning{}, fleet.Errorf(fleet.CodeInvalid, "a grid of %d notches; want 1 to %d", len(grid), tuneNotches)
	case at < 0:
		return Tuning{}, fleet.Errorf(fleet.CodeInvalid, "the current setting %q is not on the grid", current)
	case days < 0 || days > tuneMostDays:
		return Tuning{}, fleet.Errorf(fleet.CodeInvalid, "%d days; want 1 to %d", days, tuneMostDays)
	}
	if days == 0 {
		days = tuneMostDays
	}
	if minDays == 0 {
		minDays = minTuneDays
	}
	t := lastDays(l.Trace, days)
	out := Tuning{Workload: l.Trace.Name, Limit: tuneHalf * l.SLO.Late, Current: current, Next: current, Days: float64(t.To-t.From) / slotsOfDays, Tried: []Tried{}}
	if t.Slots() < minDays*SlotsPerDay {
		out.Reason = TuneShort
		return out, nil
	}
	best := -1
	for i, n := range grid {
		s := Run(t, l.Config, n.New(t, l.Config))
		if s.Requests == 0 {
			out.Reason = TuneNoService
			return out, nil
		}
		r := Tried{Name: n.Name, Paid: s.Paid, Late: s.LateRatio(), Timeout: s.TimeoutRatio()}
		r.OnTime = r.Late <= out.Limit
		out.Tried = append(out.Tried, r)
		if r.OnTime && (best < 0 || r.Paid < out.Tried[best].Paid) {
			best = i
		}
	}
	to := at
	switch {
	case best < 0:
		out.Reason, to = TuneCareful, max(at-1, 0)
	case best == at:
		out.Reason, out.Best = TuneKept, grid[best].Name
	case best < at:
		out.Reason, out.Best, to = TuneMoved, grid[best].Name, at-1
	default:
		out.Reason, out.Best, to = TuneMoved, grid[best].Name, at+1
	}
	out.Next = grid[to].Name
	return out, nil
}

// lastDays is the end of a trace as a trace of its own, with the first two days of it for learning where there are more than four.
func lastDays(t *Trace, days int) *Trace {
	from := max(0, t.To-days*SlotsPerDay)
	c := *t
	c.Rho, c.Requests = t.Rho[from:t.To], t.Requests[from:t.To]
	c.From, c.To = 0, len(c.Rho)
	if c.To >= 2*warmUpSlots {
		c.From = warmUpSlots
	}
	return &c
}

// Write prints the tuning.
func (u *Tuning) Write(w io.Writer) error {
	fmt.Fprintf(w, "%s: %.1f days judged, at most %.3f %% late\n", u.Workload, u.Days, 100*u.Limit)
	if len(u.Tried) > 0 {
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "setting\treplica-hours\tlate %\twaited over a minute %\ton time\t")
		for _, r := range u.Tried {
			mark := ""
			switch r.Name {
			case u.Current:
				mark = "current"
			case u.Best:
				mark = "cheapest on time"
			}
			fmt.Fprintf(tw, "%s\t%.1f\t%.3f\t%.3f\t%t\t%s\n", r.Name, r.Paid, 100*r.Late, 100*r.Timeout, r.OnTime, mark)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "next: %s (%s)\n", u.Next, u.Reason)
	return err
}
