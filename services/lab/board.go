package lab

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"plimsoll.dev/services/fleet"
)

// Load is a workload with its requests, ready to be scored.
type Load struct {
	Trace  *Trace
	Config Config
	SLO    SLO
	Price  *fleet.Money // of a replica-hour; nil: not known
}

// Load puts a workload and its trace together.
func (w *Workload) Load(t *Trace) (Load, error) {
	price, err := w.Price()
	return Load{Trace: t, Config: w.Config(t), SLO: w.Objective(), Price: price}, err
}

// plainLoad is a trace under the defaults.
func plainLoad(t *Trace) Load {
	w := Workload{}
	return Load{Trace: t, Config: DefaultConfig(t), SLO: w.Objective()}
}

// Row is one policy on one workload.
type Row struct {
	Workload string       `json:"workload"`
	Policy   string       `json:"policy"`
	Oracle   bool         `json:"oracle,omitempty"`    // knows the future
	Ratio    float64      `json:"cost_ratio,omitzero"` // paid over the bound; left out where there is no bound
	Cost     *fleet.Money `json:"cost_nano,omitempty"` // of the judged span; left out where no price is known
	IdleCost *fleet.Money `json:"cooldown_idle_cost_nano,omitempty"`
	LateRate float64      `json:"late_ratio"`
	Timeouts float64      `json:"timeout_ratio"`
	Thrash   float64      `json:"thrash_cycles_per_hour"`
	Score
}

// Column is one workload of a board.
type Column struct {
	Workload string  `json:"workload"`
	From     int     `json:"from_slot"` // judged span
	To       int     `json:"to_slot"`
	Mean     float64 `json:"mean_replicas"`
	Peak     float64 `json:"peak_replicas"`
	Bound    float64 `json:"bound_replica_hours,omitzero"`
	Start    int     `json:"start_seconds"`
	Max      int     `json:"max_replicas"`
	SLO      SLO     `json:"slo"`
	// Problem says why the workload cannot be served on time by anybody; there is no bound then.
	Problem string `json:"problem,omitempty"`
}

// Board is a scoreboard: every policy on every workload, in the order given.
type Board struct {
	Columns []Column `json:"workloads"`
	Rows    []Row    `json:"rows"`
}

// Add scores the policies on one more trace under the defaults.
func (b *Board) Add(t *Trace, policies []Entry) error { return b.AddLoad(plainLoad(t), policies) }

// AddLoad scores the policies on one more load. A load that nobody can serve within its bounds is scored without a ratio, and says so.
func (b *Board) AddLoad(l Load, policies []Entry) error {
	c, err := l.column()
	if err != nil {
		return err
	}
	b.Columns = append(b.Columns, c)
	for _, p := range policies {
		b.Rows = append(b.Rows, l.row(p, c.Bound))
	}
	return nil
}

func (l *Load) column() (Column, error) {
	t, cfg := l.Trace, l.Config
	if err := t.Check(); err != nil {
		return Column{}, err
	}
	c := Column{Workload: t.Name, From: t.From, To: t.To, Mean: t.Mean(), Peak: t.Peak(), Start: cfg.ColdSlots * SlotSeconds, Max: cfg.Max, SLO: l.SLO}
	if need := int(math.Ceil(c.Peak)); need > cfg.Max {
		s := Run(t, cfg, fixed(cfg.Max))
		c.Problem = fmt.Sprintf("its peak needs %d replicas, at most %d are allowed: with all of them at all times %.2f %% of the requests are late", need, cfg.Max, 100*s.LateRatio())
		return c, nil
	}
	var err error
	c.Bound, err = Bound(t, cfg)
	return c, err
}

func (l *Load) row(p Entry, bound float64) Row {
	s := Run(l.Trace, l.Config, p.New(l.Trace, l.Config))
	r := Row{Workload: l.Trace.Name, Policy: p.Name, Oracle: p.Oracle, Ratio: part(s.Paid, bound), LateRate: s.LateRatio(), Timeouts: s.TimeoutRatio(), Thrash: s.Thrash(), Score: s}
	if l.Price != nil {
		cost := l.Price.MulDiv(s.paidSlots, SlotsPerHour)
		r.Cost = &cost
		if s.HeldIdle != nil {
			idle := l.Price.MulDiv(int64(math.Round(*s.HeldIdle*SlotsPerHour)), SlotsPerHour)
			r.IdleCost = &idle
		}
	}
	return r
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

// Policies of the board, in its order.
func (b *Board) Policies() []string {
	out := []string{}
	seen := map[string]bool{}
	for _, r := range b.Rows {
		if !seen[r.Policy] {
			seen[r.Policy] = true
			out = append(out, r.Policy)
		}
	}
	return out
}

// Measure is one line of the scorecard: its title and how a row is printed; unknown is "-".
type Measure struct {
	Title string
	Cell  func(r Row) string
}

func optional[T any](v *T, print func(T) string) string {
	if v == nil {
		return "-"
	}
	return print(*v)
}

// Measures of the scorecard, in its order.
func (b *Board) Measures() []Measure {
	out := []Measure{
		{"cost / bound, late %", func(r Row) string {
			if r.Ratio == 0 {
				return fmt.Sprintf("- / %.2f", 100*r.LateRate)
			}
			return fmt.Sprintf("%.2f / %.2f", r.Ratio, 100*r.LateRate)
		}},
		{"waited over a minute %", func(r Row) string { return fmt.Sprintf("%.3f", 100*r.Timeouts) }},
		{"paid, replica-hours", func(r Row) string { return fmt.Sprintf("%.1f", r.Paid) }},
	}
	for _, r := range b.Rows {
		if r.Cost != nil {
			money := func(m fleet.Money) string { return fmt.Sprintf("%.2f", m.Float()) }
			out = append(out, Measure{"cost, USD", func(r Row) string { return optional(r.Cost, money) }},
				Measure{"kept by cooldowns, USD", func(r Row) string { return optional(r.IdleCost, money) }})
			break
		}
	}
	return append(out,
		Measure{"time to first token, s: p50 / p95 / p99", func(r Row) string {
			return optional(r.TTFT, func(p Percentiles) string { return fmt.Sprintf("%.2f / %.2f / %.2f", p.P50, p.P95, p.P99) })
		}},
		Measure{"over / under-provision", func(r Row) string { return fmt.Sprintf("%.2f / %.4f", r.Over, r.Under) }},
		Measure{"utilisation", func(r Row) string { return fmt.Sprintf("%.2f", r.Use) }},
		Measure{"thrash, cycles/h", func(r Row) string { return fmt.Sprintf("%.2f", r.Thrash) }},
		Measure{"scale latency, s: decide + start, p95", func(r Row) string {
			return fmt.Sprintf("%.0f + %.0f, %.0f", r.Scale.Decide, r.Scale.Start, r.Scale.P95)
		}},
		Measure{"launches, failed", func(r Row) string { return fmt.Sprintf("%d, %d", r.Launches, r.Failed) }},
		Measure{"kept by cooldowns, replica-hours", func(r Row) string {
			return optional(r.HeldIdle, func(v float64) string { return fmt.Sprintf("%.1f", v) })
		}})
}

// Write prints the board: cost over bound and lateness first, the rest below.
func (b *Board) Write(w io.Writer) error {
	if err := b.block(w, "workload", []boardLine{
		{"", func(c Column) string { return c.Workload }},
		{"mean / peak replicas", func(c Column) string { return fmt.Sprintf("%.1f / %.0f", c.Mean, c.Peak) }},
		{"bound, replica-hours", func(c Column) string {
			if c.Problem != "" {
				return "impossible"
			}
			return fmt.Sprintf("%.1f", c.Bound)
		}},
	}); err != nil {
		return err
	}
	for _, m := range b.Measures() {
		lines := []boardLine{{"", func(c Column) string { return c.Workload }}}
		for _, p := range b.Policies() {
			lines = append(lines, boardLine{p, func(c Column) string {
				if r, ok := b.Row(c.Workload, p); ok {
					return m.Cell(r)
				}
				return "-"
			}})
		}
		fmt.Fprintln(w)
		if err := b.block(w, m.Title, lines); err != nil {
			return err
		}
	}
	for _, c := range b.Columns {
		if c.Problem != "" {
			fmt.Fprintf(w, "\n%s is impossible: %s.\n", c.Workload, c.Problem)
		}
	}
	return nil
}

type boardLine struct {
	title string
	cell  func(c Column) string
}

// block prints lines in columns of their own width; the first is the head and takes the title.
func (b *Board) block(w io.Writer, title string, lines []boardLine) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i, l := range lines {
		if i > 0 {
			title = l.title
		}
		fmt.Fprint(tw, title)
		for _, c := range b.Columns {
			fmt.Fprintf(tw, "\t%s", l.cell(c))
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
