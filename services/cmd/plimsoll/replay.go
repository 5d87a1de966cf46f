package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
)

const replayUsage = `plimsoll replay scores scaling policies on recorded or built-in load against a proven bound (docs/replay.md).

  score      every policy on every workload: table, JSON (--json) or a page with charts (--html FILE);
             --hindsight tunes every baseline on the judged span itself and checks our claim against the best of them
  compare    two policies side by side: what each costs and how many requests wait
  run        one policy on one workload, hour by hour
  chaos      faults of telemetry, machines and load, with what a policy must keep to (docs/chaos.md)
  tune       what nightly tuning would set: the cheapest of a small grid over the last weeks, one notch at most
  workloads  the workloads of the program as YAML, to start your own from
  policies   the policies and the families of baselines, with what their targets mean

plimsoll replay COMMAND -h tells the flags. Without --data DIR or --workload-file F the built-in workloads are taken.
`

// replayCommands by name. Each reads its own flags.
var replayCommands = map[string]func(context.Context, []string, io.Writer, io.Writer) error{
	"score": replayScore, "compare": replayCompare, "run": replayRun, "tune": replayTune, "chaos": replayChaos, "workloads": replayWorkloads, "policies": replayPolicies,
}

func replayCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		if c, ok := replayCommands[args[0]]; ok {
			return c(ctx, args[1:], stdout, stderr)
		}
		if args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
			fmt.Fprint(stdout, replayUsage)
			return nil
		}
	}
	fmt.Fprint(stderr, replayUsage)
	return errUsage
}

// replayFlags are those of all commands that play loads.
type replayFlags struct {
	set       *flag.FlagSet
	data      *string
	workloads *string
	files     *string
	span      *string
	seed      *uint64
	asJSON    *bool
	profile   *string
	both      bool // -span may be both
}

func newReplayFlags(name string) *replayFlags {
	set := flag.NewFlagSet("plimsoll replay "+name, flag.ContinueOnError)
	return &replayFlags{set: set,
		data:      set.String("data", "", "`DIR` that holds traces/servegen_*.csv.gz: score the workloads of docs/replay.md; with -workload-file the folder of its files"),
		workloads: set.String("workload", "", "only these of the program's workloads, `NAMES` with commas between"),
		files:     set.String("workload-file", "", "workloads of your own, YAML `FILES` with commas between (see plimsoll replay workloads)"),
		span:      set.String("span", "test", "judge the `test` part, or train: the history before it"),
		seed:      set.Uint64("seed", 1, "of the requests that are drawn"),
		asJSON:    set.Bool("json", false, "print JSON"),
		profile:   set.String("cpuprofile", "", "write a CPU profile to `FILE`"),
	}
}

// prepare reads the flags and refuses what cannot be.
func (f *replayFlags) prepare(args []string, stderr io.Writer) error {
	if err := parse(f.set, args, stderr, 0); err != nil {
		return err
	}
	if *f.span != "test" && *f.span != "train" && (*f.span != "both" || !f.both) {
		fmt.Fprintf(stderr, "%s: -span is %q; want test or train\n", f.set.Name(), *f.span)
		return errUsage
	}
	return nil
}

// profiled runs fn under the CPU profile that was asked for, if any.
func (f *replayFlags) profiled(fn func() error) error {
	if *f.profile == "" {
		return fn()
	}
	out, err := os.Create(*f.profile)
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "write the profile: %v", err)
	}
	defer out.Close()
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return fn()
}

func names(list string) []string {
	out := []string{}
	for _, n := range strings.Split(list, ",") {
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// scored is what score prints as JSON.
type scored struct {
	lab.Board
	mixing
	Hindsight []lab.Hindsight `json:"hindsight,omitempty"`
	Verdict   *lab.Verdict    `json:"verdict,omitempty"`
	// Train is what hindsight found on the week before, and SideBySide sets the two against each other, where both were asked for.
	Train      []lab.Hindsight  `json:"hindsight_train,omitempty"`
	SideBySide []lab.SideBySide `json:"side_by_side,omitempty"`
}

// tuned is everything that hindsight found.
func (s *scored) tuned() []lab.Hindsight { return slices.Concat(s.Hindsight, s.Tuned, s.TunedPools) }

// scoring is what score was asked for.
type scoring struct {
	*replayFlags
	entries   []lab.Entry
	ours      lab.Entry
	families  []lab.Family
	hindsight bool
	markets   bool
	report    *lab.Report // nil: no page
}

func replayScore(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newReplayFlags("score")
	f.both = true
	policies := f.set.String("policy", "", "only these, `NAMES` with commas between (see plimsoll replay policies)")
	hindsight := f.set.Bool("hindsight", false, "tune every family of baselines on the judged span itself, at equal or better lateness than ours; with -span both on each of them, side by side")
	only := f.set.String("family", "", "of -hindsight: only these families of every service alone on demand, `NAMES` with commas between")
	ours := f.set.String("ours", "plimsoll-cq", "the `NAME` of the policy that -hindsight and -html set against the others")
	against := f.set.String("against", "hpa-70", "the `NAME` of the policy that -html draws beside it over time")
	markets := f.set.Bool("markets", true, "also buy in markets: the sections mixed and pool + mix (left out with -policy)")
	html := f.set.String("html", "", "write the scorecard as one self-contained page to `FILE`")
	if err := f.prepare(args, stderr); err != nil {
		return err
	}
	if *f.span == "both" && !*hindsight {
		fmt.Fprintln(stderr, "plimsoll replay score: -span both sets hindsight on training and test side by side; want -hindsight with it")
		return errUsage
	}
	asked := scoring{replayFlags: f, hindsight: *hindsight, markets: *markets && *policies == ""}
	var err error
	if asked.entries, err = lab.Named(names(*policies)); err != nil {
		return err
	}
	two, err := lab.Named([]string{*ours, *against})
	if err != nil {
		return err
	}
	asked.ours = two[0]
	if asked.families, err = chosenFamilies(names(*only)); err != nil {
		return err
	}
	report := lab.Report{Ours: *ours, Against: *against, Span: *f.span, Seed: *f.seed}
	out := scored{}
	err = f.profiled(func() error {
		if *f.span == "both" {
			train, err := asked.play(ctx, "train")
			if err != nil {
				return err
			}
			out.Train, report.Span = train.tuned(), "test"
		}
		if *html != "" {
			asked.report = &report
		}
		judged, err := asked.play(ctx, report.Span)
		judged.Train = out.Train
		out = judged
		return err
	})
	if err != nil {
		return err
	}
	if *hindsight {
		v := lab.Judge(out.tuned())
		out.Verdict = &v
	}
	if *f.span == "both" {
		out.SideBySide = lab.PutSideBySide(out.Train, out.tuned())
	}
	if *html != "" {
		report.Board, report.Hindsight, report.Mixed, report.Pools, report.Tuned = out.Board, out.Hindsight, out.Mixed, out.Pools, slices.Concat(out.Tuned, out.TunedPools)
		if err := writePage(*html, &report); err != nil {
			return err
		}
	}
	if *f.asJSON {
		return writeJSON(stdout, out)
	}
	return out.print(stdout)
}

// play scores one span.
func (q *scoring) play(ctx context.Context, span string) (scored, error) {
	out := scored{mixing: *newMixing(*q.data, *q.seed)}
	out.hindsight = q.hindsight
	err := q.eachOf(ctx, span, func(l lab.Load) error {
		if err := out.AddLoad(l, q.entries); err != nil {
			return err
		}
		out.keep(l.Trace)
		if q.hindsight {
			c := out.Columns[len(out.Columns)-1]
			out.Hindsight = append(out.Hindsight, lab.TuneInHindsight(l, q.ours, c.Bound, q.families, func() bool { return ctx.Err() != nil }))
		}
		if q.report != nil {
			if err := q.report.Add(l); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil || !q.markets {
		return out, err
	}
	return out, out.score(ctx)
}

// print writes the board, and what hindsight found.
func (s *scored) print(w io.Writer) error {
	if err := s.Write(w); err != nil {
		return err
	}
	if err := s.write(w); err != nil || s.Verdict == nil {
		return err
	}
	if err := lab.WriteHindsight(w, s.Hindsight, s.Tuned, s.TunedPools); err != nil || s.SideBySide == nil {
		return err
	}
	return lab.WriteSideBySide(w, s.SideBySide)
}

// chosenFamilies are those named, or all.
func chosenFamilies(wanted []string) ([]lab.Family, error) {
	all := lab.Families()
	if len(wanted) == 0 {
		return all, nil
	}
	out := []lab.Family{}
	for _, n := range wanted {
		i := slices.IndexFunc(all, func(f lab.Family) bool { return f.Name == n })
		if i < 0 {
			return nil, fleet.Errorf(fleet.CodeInvalid, "there is no family %q; plimsoll replay policies lists them", n)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// writePage writes the report whole or not at all.
func writePage(path string, r *lab.Report) error {
	page := bytes.Buffer{}
	if err := r.WriteHTML(&page); err != nil {
		return err
	}
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil { //nolint:gosec // a report to be shown around
		return fleet.Errorf(fleet.CodeInvalid, "write the report: %v", err)
	}
	return nil
}

// comparison is one workload of two policies.
type comparison struct {
	Workload string  `json:"workload"`
	A        lab.Row `json:"a"`
	B        lab.Row `json:"b"`
	// CostDelta is what B costs more than A, as a share of A.
	CostDelta float64 `json:"cost_delta"`
}

func replayCompare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newReplayFlags("compare")
	policies := f.set.String("policy", "", "two `NAMES` with a comma between")
	if err := f.prepare(args, stderr); err != nil {
		return err
	}
	two := names(*policies)
	if len(two) != 2 || two[0] == two[1] {
		fmt.Fprintln(stderr, "plimsoll replay compare: name two policies with -policy A,B")
		return errUsage
	}
	entries, err := lab.Named(two)
	if err != nil {
		return err
	}
	board := lab.Board{}
	if err := f.profiled(func() error {
		return f.each(ctx, func(l lab.Load) error { return board.AddLoad(l, entries) })
	}); err != nil {
		return err
	}
	out := []comparison{}
	for _, c := range board.Columns {
		a, _ := board.Row(c.Workload, two[0])
		b, _ := board.Row(c.Workload, two[1])
		out = append(out, comparison{c.Workload, a, b, b.Paid/a.Paid - 1})
	}
	if *f.asJSON {
		return writeJSON(stdout, out)
	}
	tw := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', 0)
	for i, m := range board.Measures() {
		if i > 0 {
			fmt.Fprintln(tw, "\t\t\t\t")
		}
		fmt.Fprintf(tw, "%s\t%s\t%s", m.Title, two[0], two[1])
		if i == 0 {
			fmt.Fprint(tw, "\tcost\tlate, points")
		} else {
			fmt.Fprint(tw, "\t\t")
		}
		fmt.Fprintln(tw)
		for _, c := range out {
			fmt.Fprintf(tw, "%s\t%s\t%s", c.Workload, m.Cell(c.A), m.Cell(c.B))
			if i == 0 {
				fmt.Fprintf(tw, "\t%+.1f %%\t%+.2f", 100*c.CostDelta, 100*(c.B.LateRate-c.A.LateRate))
			} else {
				fmt.Fprint(tw, "\t\t")
			}
			fmt.Fprintln(tw)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if err := lab.WriteCompared(stdout, two[0], two[1], &board); err != nil {
		return err
	}
	return tellProblems(stdout, board)
}

func tellProblems(w io.Writer, b lab.Board) error {
	for _, c := range b.Columns {
		if c.Problem != "" {
			if _, err := fmt.Fprintf(w, "\n%s is impossible: %s.\n", c.Workload, c.Problem); err != nil {
				return err
			}
		}
	}
	return nil
}

func replayRun(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newReplayFlags("run")
	policy := f.set.String("policy", "", "its `NAME`")
	if err := f.prepare(args, stderr); err != nil {
		return err
	}
	if *policy == "" || len(names(*f.workloads))+len(names(*f.files)) != 1 {
		fmt.Fprintln(stderr, "plimsoll replay run: name one policy and one workload")
		return errUsage
	}
	entries, err := lab.Named([]string{*policy})
	if err != nil {
		return err
	}
	return f.profiled(func() error {
		return f.each(ctx, func(l lab.Load) error {
			hours := lab.Timeline(l.Trace, l.Config, entries[0])
			if *f.asJSON {
				return writeJSON(stdout, hours)
			}
			tw := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintln(tw, "hour\tdemand\tpeak\tready, mean\tmost\torders\tlate %\t")
			for _, h := range hours {
				fmt.Fprintf(tw, "%d\t%.2f\t%.1f\t%.2f\t%d\t%d\t%.2f\t\n", h.Hour, h.Demand, h.Peak, h.Ready, h.Most, h.Orders, 100*h.LateRatio)
			}
			return tw.Flush()
		})
	})
}

// replayWorkloads prints the program's workloads, or those named, as YAML.
func replayWorkloads(_ context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll replay workloads", flag.ContinueOnError)
	only := set.String("workload", "", "only these, `NAMES` with commas between")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	wanted := names(*only)
	if len(wanted) == 0 {
		tw := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "workload\tsource\thours\tof them history\thow it is built")
		for _, w := range append(lab.BuiltinWorkloads(), lab.Workloads()...) {
			fmt.Fprintf(tw, "%s\t%s\t%g\t%g\t%s\n", w.Name, strings.TrimSpace(w.Source.Kind+" "+w.Source.Model), w.Source.Hours, w.History, w.Note)
		}
		return tw.Flush()
	}
	for i, n := range wanted {
		text, err := lab.WorkloadText(n)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(stdout, "---")
		}
		if _, err := stdout.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// replayPolicies lists what can be named.
func replayPolicies(_ context.Context, args []string, stdout, stderr io.Writer) error {
	if err := parse(flag.NewFlagSet("plimsoll replay policies", flag.ContinueOnError), args, stderr, 0); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "On the scoreboard:")
	for _, p := range lab.Policies() {
		fmt.Fprintf(stdout, "  %s\n", p.Name)
	}
	fmt.Fprintln(stdout, "\nWith a target of your own, NAME-TARGET:")
	tw := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', 0)
	for _, f := range lab.Families() {
		fmt.Fprintf(tw, "  %s\t%s (%d)\n", f.Name, f.Means, f.Default)
	}
	fmt.Fprintln(tw, "  plimsoll-cq\tobjective, late requests in 0.01 % (100)")
	return tw.Flush()
}
