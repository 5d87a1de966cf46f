package lab

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Verdict is whether the claim holds over the columns of the scoreboard: workloads alone on demand, in a market, and pooled.
type Verdict struct {
	Holds   bool     `json:"holds"`
	Cheaper []string `json:"cheaper_by_ten_per_cent"` // workloads
	Dearer  []string `json:"dearer_by_over_two_per_cent"`
	Alone   []string `json:"no_baseline_as_punctual"` // these count as cheaper
}

// Judge checks the claim against the best baseline of the field on each of them.
func Judge(all []Hindsight) Verdict { return judge(all, (*Hindsight).Best) }

// JudgeHardest checks it against everything that was tuned, ways to buy under our own demand policy included: more than is claimed.
func JudgeHardest(all []Hindsight) Verdict { return judge(all, (*Hindsight).Hardest) }

func judge(all []Hindsight, opponent func(*Hindsight) (Tuned, bool)) Verdict {
	v := Verdict{Cheaper: []string{}, Dearer: []string{}, Alone: []string{}}
	for i := range all {
		best, ok := opponent(&all[i])
		switch {
		case !ok:
			v.Alone = append(v.Alone, all[i].Workload)
		case best.Delta > ClaimDearer:
			v.Dearer = append(v.Dearer, all[i].Workload)
		case best.Delta <= -ClaimCheaper:
			v.Cheaper = append(v.Cheaper, all[i].Workload)
		}
	}
	v.Holds = len(v.Dearer) == 0 && len(v.Cheaper)+len(v.Alone) >= ClaimWorkloads
	return v
}

// WriteVerdict prints ours against the best opponent column by column, and whether the claim holds over all of them.
func WriteVerdict(w io.Writer, all []Hindsight) error {
	fmt.Fprintln(w, "\nOurs against the best baseline tuned in hindsight at equal or lower lateness")
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "column\tlate %\tbest baseline\tsetting\tlate %\tours against it\tbest with our demand policy\tours against it")
	own := false
	for i := range all {
		h := &all[i]
		fmt.Fprintf(tw, "%s\t%.3f", h.Workload, 100*h.Late)
		if best, ok := h.Best(); ok {
			fmt.Fprintf(tw, "\t%s\t%s\t%.3f\t%+.1f %%", best.Family, best.Setting(), 100*best.Late, 100*best.Delta)
		} else {
			fmt.Fprint(tw, "\tnone as punctual\t\t\t")
		}
		if hardest, ok := h.Hardest(); ok && hardest.Own {
			own = true
			fmt.Fprintf(tw, "\t%s\t%+.1f %%", hardest.Family, 100*hardest.Delta)
		} else {
			fmt.Fprint(tw, "\t\t")
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	Judge(all).write(w, "the best baseline")
	if own {
		JudgeHardest(all).write(w, "everything tuned, our own demand policy under other buyers included,")
	}
	return nil
}

func (v Verdict) write(w io.Writer, what string) {
	holds := "does not hold"
	if v.Holds {
		holds = "holds"
	}
	fmt.Fprintf(w, "\nClaim: never over %.0f %% dearer than %s tuned in hindsight at equal lateness, at least %.0f %% cheaper on %d workloads: %s.\n", 100*ClaimDearer, what, 100*ClaimCheaper, ClaimWorkloads, holds)
	for _, l := range []struct {
		what string
		on   []string
	}{{"dearer by more", v.Dearer}, {"cheaper by at least that", v.Cheaper}, {"no baseline is as punctual", v.Alone}} {
		fmt.Fprintf(w, "  %s: %s\n", l.what, orNone(l.on))
	}
}

// WriteCompared prints on which workloads of a board policy b is dearer or cheaper than a by the measures of the claim, as both come, where it is no later.
func WriteCompared(w io.Writer, a, b string, board *Board) error {
	dearer, cheaper, between, later := []string{}, []string{}, []string{}, []string{}
	for _, c := range board.Columns {
		x, okA := board.Row(c.Workload, a)
		y, okB := board.Row(c.Workload, b)
		switch delta := part(y.Paid, x.Paid) - 1; {
		case !okA || !okB:
		case y.LateRate > x.LateRate+lateSlack:
			later = append(later, c.Workload)
		case delta > ClaimDearer:
			dearer = append(dearer, c.Workload)
		case delta <= -ClaimCheaper:
			cheaper = append(cheaper, c.Workload)
		default:
			between = append(between, c.Workload)
		}
	}
	_, err := fmt.Fprintf(w, "\n%s against %s as it comes, not tuned (score -hindsight tunes it): over %.0f %% dearer: %s; at least %.0f %% cheaper: %s; between: %s; later, so not compared: %s\n",
		b, a, 100*ClaimDearer, orNone(dearer), 100*ClaimCheaper, orNone(cheaper), orNone(between), orNone(later))
	return err
}
