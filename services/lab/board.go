package lab

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Row is one policy on one workload.
type Row struct {
	Workload string  `json:"workload"`
	Policy   string  `json:"policy"`
	Ratio    float64 `json:"cost_ratio"` // paid over the bound
	LateRate float64 `json:"late_ratio"`
	Timeouts float64 `json:"timeout_ratio"`
	Thrash   float64 `json:"thrash_cycles_per_hour"`
	Score
}

// Column is one workload of a board.
type Column struct {
	Workload string  `json:"workload"`
	From     int     `json:"from_slot"` // judged span
	To       int     `json:"to_slot"`
	Mean     float64 `json:"mean_replicas"`
	Peak     float64 `json:"peak_replicas"`
	Bound    float64 `json:"bound_replica_hours"`
}

// Board is a scoreboard: every policy on every workload, in the order given.
type Board struct {
	Columns []Column `json:"workloads"`
	Rows    []Row    `json:"rows"`
}

// Add scores the policies on one more workload.
func (b *Board) Add(t *Trace, policies []Entry) error {
	cfg := DefaultConfig(t)
	bound, err := Bound(t, cfg)
	if err != nil {
		return err
	}
	b.Columns = append(b.Columns, Column{Workload: t.Name, From: t.From, To: t.To, Mean: t.Mean(), Peak: t.Peak(), Bound: bound})
	for _, p := range policies {
		s := Run(t, cfg, p.New(t, cfg))
		b.Rows = append(b.Rows, Row{Workload: t.Name, Policy: p.Name, Ratio: part(s.Paid, bound),
			LateRate: s.LateRatio(), Timeouts: s.TimeoutRatio(), Thrash: s.Thrash(), Score: s})
	}
	return nil
}

// Row of a policy on a workload.
func (b *Board) Row(workload, policy string) (Row, bool) {
	for _, r := range b.Rows {
		if r.Workload == workload && r.Policy == policy {
			return r, true
		}
	}
	return Row{}, false
}

// Write prints the board: cost over bound and lateness in one table, the rest below.
func (b *Board) Write(w io.Writer) error {
	policies := []string{}
	seen := map[string]bool{}
	for _, r := range b.Rows {
		if !seen[r.Policy] {
			seen[r.Policy] = true
			policies = append(policies, r.Policy)
		}
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprint(tw, "workload")
	for _, c := range b.Columns {
		fmt.Fprintf(tw, "\t%s", c.Workload)
	}
	fmt.Fprint(tw, "\nmean / peak replicas")
	for _, c := range b.Columns {
		fmt.Fprintf(tw, "\t%.1f / %.0f", c.Mean, c.Peak)
	}
	fmt.Fprint(tw, "\nbound, replica-hours")
	for _, c := range b.Columns {
		fmt.Fprintf(tw, "\t%.1f", c.Bound)
	}
	fmt.Fprintln(tw)
	b.block(tw, policies, "cost / bound, late %", func(r Row) string { return fmt.Sprintf("%.2f / %.2f", r.Ratio, 100*r.LateRate) })
	b.block(tw, policies, "waited over a minute %", func(r Row) string { return fmt.Sprintf("%.3f", 100*r.Timeouts) })
	b.block(tw, policies, "over / under-provision", func(r Row) string { return fmt.Sprintf("%.2f / %.4f", r.Over, r.Under) })
	b.block(tw, policies, "utilisation", func(r Row) string { return fmt.Sprintf("%.2f", r.Use) })
	b.block(tw, policies, "thrash, cycles/h", func(r Row) string { return fmt.Sprintf("%.2f", r.Thrash) })
	return tw.Flush()
}

func (b *Board) block(w io.Writer, policies []string, title string, cell func(Row) string) {
	fmt.Fprintf(w, "%s\n%s%s\n", strings.Repeat("\t", len(b.Columns)), title, strings.Repeat("\t", len(b.Columns)))
	for _, p := range policies {
		fmt.Fprintf(w, "%s", p)
		for _, c := range b.Columns {
			r, ok := b.Row(c.Workload, p)
			if !ok {
				fmt.Fprint(w, "\t-")
				continue
			}
			fmt.Fprintf(w, "\t%s", cell(r))
		}
		fmt.Fprintln(w)
	}
}
