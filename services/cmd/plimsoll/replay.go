package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"text/tabwriter"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
)

const replayUsage = `plimsoll replay scores scaling policies on recorded or built-in load against a proven bound (docs/replay.md).

  score      every policy on every workload, as a table or JSON
  compare    two policies side by side: what each costs and how many requests wait
  run        one policy on one workload, hour by hour

plimsoll replay COMMAND -h tells the flags. Without --data DIR the built-in workloads are taken.
`

func replayCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"score": replayScore, "compare": replayCompare, "run": replayRun,
	}
	if len(args) > 0 {
		if c, ok := commands[args[0]]; ok {
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

// replayFlags are those of all three commands.
type replayFlags struct {
	set       *flag.FlagSet
	data      *string
	workloads *string
	span      *string
	seed      *uint64
	asJSON    *bool
	profile   *string
}

func newReplayFlags(name string) *replayFlags {
	set := flag.NewFlagSet("plimsoll replay "+name, flag.ContinueOnError)
	return &replayFlags{set: set,
		data:      set.String("data", "", "`DIR` that holds traces/servegen_*.csv.gz; default: the built-in workloads"),
		workloads: set.String("workload", "", "only these, `NAMES` with commas between"),
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
	if *f.span != "test" && *f.span != "train" {
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

// each calls fn with every trace that was asked for, in the order of the scoreboard.
func (f *replayFlags) each(ctx context.Context, fn func(t *lab.Trace) error) error {
	want := map[string]bool{}
	for _, n := range names(*f.workloads) {
		want[n] = true
	}
	chosen := func(n string) bool { return len(want) == 0 || want[n] }
	known := []string{}
	found := 0
	judge := func(t *lab.Trace) error {
		found++
		if err := ctx.Err(); err != nil {
			return err
		}
		if *f.span == "train" {
			if t.From == 0 {
				return nil // a day without history before it: nothing to train on
			}
			t = t.Span(0, t.From)
		}
		return fn(t)
	}
	if *f.data == "" {
		traces, err := lab.Builtin(*f.seed)
		if err != nil {
			return err
		}
		for _, t := range traces {
			known = append(known, t.Name)
			if chosen(t.Name) {
				if err := judge(t); err != nil {
					return err
				}
			}
		}
	} else {
		clients := map[string][]lab.Client{}
		for _, w := range lab.Workloads() {
			known = append(known, w.Name)
			if !chosen(w.Name) {
				continue
			}
			if clients[w.Source.Model] == nil {
				c, err := readClients(*f.data, w.Source.Model)
				if err != nil {
					return err
				}
				clients[w.Source.Model] = c
			}
			t, err := w.Build(clients[w.Source.Model], *f.seed)
			if err != nil {
				return err
			}
			if err := judge(t); err != nil {
				return err
			}
		}
	}
	if found == 0 || found < len(want) {
		return fleet.Errorf(fleet.CodeInvalid, "%d of the workloads %q are known; there are %s", found, *f.workloads, strings.Join(known, ", "))
	}
	return nil
}

// readClients reads what ServeGen published about one model.
func readClients(dir, model string) ([]lab.Client, error) {
	var clients []lab.Client
	err := readTrace(filepath.Join(dir, "traces", "servegen_client_rate_10min.csv.gz"), func(r io.Reader) (err error) {
		clients, err = lab.ReadRates(r, model)
		return err
	})
	if err != nil {
		return nil, err
	}
	return clients, readTrace(filepath.Join(dir, "traces", "servegen_client_tokens.csv.gz"), func(r io.Reader) error {
		return lab.ReadTokens(r, model, clients)
	})
}

// readTrace opens a file, gzipped or not, of at most maxTraceBytes of text.
func readTrace(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "open the trace: %v", err)
	}
	defer f.Close()
	r, err := plainText(f)
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "%s: %v", path, err)
	}
	bounded := &io.LimitedReader{R: r, N: maxTraceBytes + 1}
	err = read(bounded)
	if bounded.N <= 0 {
		err = fleet.Errorf(fleet.CodeTooLarge, "more than %d MiB", maxTraceBytes>>20)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// plainText unpacks gzip where the first bytes say so.
func plainText(f io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(f, 1<<16)
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		return gzip.NewReader(buffered)
	}
	return buffered, nil
}

func replayScore(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newReplayFlags("score")
	policies := f.set.String("policy", "", "only these, `NAMES` with commas between")
	if err := f.prepare(args, stderr); err != nil {
		return err
	}
	entries, err := lab.Named(names(*policies))
	if err != nil {
		return err
	}
	return f.profiled(func() error {
		board := lab.Board{}
		if err := f.each(ctx, func(t *lab.Trace) error { return board.Add(t, entries) }); err != nil {
			return err
		}
		if *f.asJSON {
			return writeJSON(stdout, board)
		}
		return board.Write(stdout)
	})
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
	if len(two) != 2 {
		fmt.Fprintln(stderr, "plimsoll replay compare: name two policies with -policy A,B")
		return errUsage
	}
	entries, err := lab.Named(two)
	if err != nil {
		return err
	}
	board := lab.Board{}
	if err := f.profiled(func() error {
		return f.each(ctx, func(t *lab.Trace) error { return board.Add(t, entries) })
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
	fmt.Fprintf(tw, "workload\t%s: cost / bound, late %%\t%s\tcost\tlate, points\n", two[0], two[1])
	for _, c := range out {
		fmt.Fprintf(tw, "%s\t%.2f / %.2f\t%.2f / %.2f\t%+.1f %%\t%+.2f\n", c.Workload, c.A.Ratio, 100*c.A.LateRate, c.B.Ratio, 100*c.B.LateRate, 100*c.CostDelta, 100*(c.B.LateRate-c.A.LateRate))
	}
	return tw.Flush()
}

func replayRun(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newReplayFlags("run")
	policy := f.set.String("policy", "", "its `NAME`")
	if err := f.prepare(args, stderr); err != nil {
		return err
	}
	if *policy == "" || len(names(*f.workloads)) != 1 {
		fmt.Fprintln(stderr, "plimsoll replay run: name one policy and one workload")
		return errUsage
	}
	entries, err := lab.Named([]string{*policy})
	if err != nil {
		return err
	}
	return f.each(ctx, func(t *lab.Trace) error {
		hours := lab.Timeline(t, lab.DefaultConfig(t), entries[0])
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
}
