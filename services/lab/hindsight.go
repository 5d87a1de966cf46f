package lab

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Tuned is the cheapest target of a baseline's family that is at least as punctual as ours, found with knowledge of the judged span.
type Tuned struct {
	Family string `json:"family"`
	Means  string `json:"target_means"`
	// Own says that our own demand policy is in it: an opponent put together for the sake of the comparison, not a baseline of the field.
	Own bool `json:"our_demand,omitzero"`
	// Target of the family; left out when none of them is punctual enough. Services that are alone have one each: Parts.
	Target int         `json:"target,omitzero"`
	Parts  []TunedPart `json:"parts,omitempty"`
	Ratio  float64     `json:"cost_ratio,omitzero"`
	Paid   float64     `json:"paid_replica_hours,omitzero"`
	Late   float64     `json:"late_ratio,omitempty"`
	Delta  float64     `json:"ours_over_it"` // what ours costs more, as a share of it; negative: ours is cheaper
	Tried  int         `json:"tried"`
}

// TunedPart is what one of several services runs.
type TunedPart struct {
	Service string `json:"service"`
	Family  string `json:"family"`
	Target  int    `json:"target"`
}

// Found says that some target is punctual enough.
func (t *Tuned) Found() bool { return t.Target != 0 || len(t.Parts) > 0 }

// Setting is the target as text, or the targets of services alone.
func (t *Tuned) Setting() string {
	if len(t.Parts) == 0 {
		return strconv.Itoa(t.Target)
	}
	out := []string{}
	for _, p := range t.Parts {
		out = append(out, fmt.Sprintf("%s %s %d", p.Service, p.Family, p.Target))
	}
	return strings.Join(out, ", ")
}

// Hindsight is ours against every family tuned on the very span that is judged, on one workload.
type Hindsight struct {
	Workload string  `json:"workload"`
	Policy   string  `json:"policy"` // ours
	Paid     float64 `json:"paid_replica_hours"`
	Ratio    float64 `json:"cost_ratio,omitzero"`
	Late     float64 `json:"late_ratio"`
	Tuned    []Tuned `json:"tuned"` // cheapest first; those that are never punctual enough last
}

// Best is the cheapest tuned baseline of the field; false when none is as punctual.
func (h *Hindsight) Best() (Tuned, bool) { return h.cheapest(false) }

// Hardest is the cheapest of all that was tuned, ways to buy under our own demand policy included; false when none is as punctual.
func (h *Hindsight) Hardest() (Tuned, bool) { return h.cheapest(true) }

func (h *Hindsight) cheapest(own bool) (Tuned, bool) {
	for i := range h.Tuned {
		if t := &h.Tuned[i]; t.Found() && (own || !t.Own) {
			return *t, true
		}
	}
	return Tuned{}, false
}

// The claim that hindsight checks.
const (
	ClaimDearer    = 0.02 // never more than this dearer than the best baseline tuned in hindsight at equal lateness
	ClaimCheaper   = 0.10 // at least this much cheaper
	ClaimWorkloads = 2    // on so many workloads
)

// TuneInHindsight finds for every family the cheapest target that leaves no more requests late than ours: first over the family's targets,
// then in steps of one between the neighbours of the best of them. Without the bound of the load, ratios are left out. It takes minutes: stop is
// asked between families, and ends it with what is there.
func TuneInHindsight(l Load, ours Entry, bound float64, families []Family, stop func() bool) Hindsight {
	mine := l.row(ours, bound)
	h := Hindsight{Workload: l.Trace.Name, Policy: ours.Name, Paid: mine.Paid, Ratio: mine.Ratio, Late: mine.LateRate}
	for i := range families {
		if stop() {
			break
		}
		h.Tuned = append(h.Tuned, tuneFamily(l, &families[i], mine, bound))
	}
	sortTuned(h.Tuned)
	return h
}

// lateSlack lets rounding pass for equal lateness.
const lateSlack = 1e-9

func tuneFamily(l Load, f *Family, mine Row, bound float64) Tuned {
	out := Tuned{Family: f.Name, Means: f.Means}
	_ = search(f.Targets, loadSteps, func(target int) (bool, error) { // nothing in it fails
		out.Tried++
		s, ok := l.runWhile(f.New(target, l.Trace, l.Config), func(s *Score) bool {
			return s.Late <= (mine.LateRate+lateSlack)*mine.Requests && (out.Target == 0 || s.Paid < out.Paid*SlotsPerHour)
		})
		if ok {
			out.Target, out.Ratio, out.Paid, out.Late = target, part(s.Paid, bound), s.Paid, s.LateRatio()
		}
		return ok, nil
	})
	if out.Target != 0 {
		out.Delta = mine.Paid/out.Paid - 1
	}
	return out
}

// Into how many steps the space between the neighbours of the best target is cut, alone on demand and in markets.
const (
	loadSteps   = 10
	marketSteps = 4
)

// search tries targets, the last and mostly thriftiest first since who is late is found out early, and then those between the neighbours of the best: try says
// whether a target is better than all before it.
func search(targets []int, steps int, try func(target int) (bool, error)) error {
	best := -1
	for i, target := range slices.Backward(targets) {
		ok, err := try(target)
		if err != nil {
			return err
		}
		if ok {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	low, high := targets[max(best-1, 0)], targets[min(best+1, len(targets)-1)]
	step := max(1, (high-low)/steps)
	for target := low + step; target < high; target += step {
		if !slices.Contains(targets, target) {
			if _, err := try(target); err != nil {
				return err
			}
		}
	}
	return nil
}

// runWhile plays a policy for as long as a condition holds that can only turn false once: late requests and pay never get fewer. It says
// whether the condition held to the end.
func (l *Load) runWhile(p Policy, holds func(s *Score) bool) (Score, bool) {
	w := newRun(l.Trace, l.Config)
	for !w.Over() {
		o := w.Advance()
		w.Order(p.Step(&o))
		if o.Slot%SlotsPerHour == 0 && !holds(&w.score) {
			return Score{}, false
		}
	}
	return w.Score(), holds(&w.score)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "nowhere"
	}
	out := names[0]
	for _, n := range names[1:] {
		out += ", " + n
	}
	return out
}

// WriteHindsight prints the tables of every service alone on demand, of one in markets, and of several pooled, and whether the claim holds over all of them.
func WriteHindsight(w io.Writer, plain, mixed, pooled []Hindsight) error {
	if err := writeTuned(w, plain, "bound", "baseline", "each baseline"); err != nil {
		return err
	}
	if err := writeTuned(w, mixed, "priced bound", "bought and counted", "each way to buy"); err != nil {
		return err
	}
	if err := writePooled(w, pooled); err != nil {
		return err
	}
	return WriteVerdict(w, slices.Concat(plain, mixed, pooled))
}

// writeTuned prints a table per workload: what the rows are (head), what each of them is in a sentence, and which bound costs are told by.
func writeTuned(w io.Writer, all []Hindsight, bound, head, each string) error {
	for i := range all {
		h := &all[i]
		fmt.Fprintf(w, "\n%s: %s costs %.3f of the %s with %.3f %% late; %s at its cheapest target that is as punctual\n", h.Workload, h.Policy, h.Ratio, bound, 100*h.Late, each)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, head+"\ttarget\tcost / bound\tlate %\tours against it\ttried")
		for _, t := range h.Tuned {
			if !t.Found() {
				fmt.Fprintf(tw, "%s\tnone as punctual\t\t\t\t%d\n", t.Family, t.Tried)
				continue
			}
			fmt.Fprintf(tw, "%s\t%s\t%.3f\t%.3f\t%+.1f %%\t%d\n", t.Family, t.Setting(), t.Ratio, 100*t.Late, 100*t.Delta, t.Tried)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	return nil
}
