package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/availability/backtest"
	"plimsoll.dev/services/fleet"
)

// maxTraceBytes bounds a trace after decompression.
const maxTraceBytes = 256 << 20

// fittedOn is where availability.DefaultParams come from: the first half of the longest campaign of the public trace.
var fittedOn = fleet.Interval{From: time.Date(2023, 2, 15, 0, 0, 0, 0, time.UTC), To: time.Date(2023, 3, 9, 17, 55, 0, 0, time.UTC)}

// marketBacktest scores the availability model on a trace.
func marketBacktest(_ context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll market backtest", flag.ContinueOnError)
	path := set.String("availability", "", "`FILE` of looks at Spot capacity, run-length encoded CSV, also gzipped; see docs/availability.md")
	fit := set.Bool("fit", false, "choose the parameters on the first half of the first campaign; else those of the service, fitted on 2023-02-15 to 2023-03-09")
	every := set.Duration("every", 0, "let the model look at an offering no more often than this (default: every look of the trace)")
	ideas := set.Bool("ideas", false, "compare the model with simpler and other ones")
	asJSON := set.Bool("json", false, "print JSON")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	switch {
	case *path == "":
		fmt.Fprintln(stderr, "plimsoll market backtest: name a trace with -availability FILE")
		return errUsage
	case *every < 0 || *every > 24*time.Hour:
		fmt.Fprintln(stderr, "plimsoll market backtest: -every must be from 0 to 24h")
		return errUsage
	}
	trace, err := openLooks(*path)
	if err != nil {
		return err
	}
	for _, b := range trace.Bad[:min(len(trace.Bad), 20)] {
		fmt.Fprintf(stderr, "row %d left out: %s\n", b.Row, b.Reason)
	}
	if trace.BadCount > 20 {
		fmt.Fprintf(stderr, "%d rows left out in all\n", trace.BadCount)
	}
	opt := backtest.Options{Params: availability.DefaultParams(), Fit: fittedOn, Every: *every}
	if !trace.Covers(opt.Fit) { // another trace: its own beginning serves the fitted baselines
		opt.Fit = trace.FirstHalf()
	}
	if *fit {
		opt.Fit = trace.FirstHalf()
		if opt.Params, err = backtest.Fit(trace, opt.Fit, opt.Params); err != nil {
			return err
		}
	}
	if *ideas {
		return compareIdeas(trace, opt, *asJSON, stdout)
	}
	report, err := backtest.Run(trace, opt)
	if err != nil {
		return err
	}
	if *asJSON {
		return writeJSON(stdout, report)
	}
	return printBacktest(stdout, report)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func openLooks(path string) (*backtest.Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "open the trace: %v", err)
	}
	defer f.Close()
	buffered := bufio.NewReaderSize(f, 1<<16)
	var r io.Reader = buffered
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fleet.Errorf(fleet.CodeInvalid, "%s: %v", path, err)
		}
		r = z
	}
	bounded := &io.LimitedReader{R: r, N: maxTraceBytes + 1}
	trace, err := backtest.ReadTrace(bounded)
	if err == nil && bounded.N <= 0 {
		err = fleet.Errorf(fleet.CodeTooLarge, "more than %d MiB", maxTraceBytes>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return trace, nil
}

func printBacktest(w io.Writer, r backtest.Report) error {
	fmt.Fprintf(w, "%d rows, %d left out. Not scored, since fitted baselines (and parameters, unless another trace is given) come from there: %s to %s.\n", r.Rows, r.BadCount, r.FitFrom, r.FitTo)
	fmt.Fprintf(w, "Parameters: %+v\n\nBrier scores, lower is better, all campaigns outside that span:\n\n", r.Params)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	head := func(first string) {
		fmt.Fprintf(tw, "%s\tn\tobserved\t", first)
		for _, f := range backtest.Forecasters() {
			fmt.Fprintf(tw, "%s\t", f)
		}
		fmt.Fprintln(tw, "calibration error\t")
	}
	line := func(name string, x backtest.Result) {
		fmt.Fprintf(tw, "%s\t%d\t%.3f\t", name, x.N, x.Observed)
		for _, s := range x.Scores {
			fmt.Fprintf(tw, "%.4f\t", s.Score)
		}
		fmt.Fprintf(tw, "%.3f\t\n", x.Calibration)
	}
	head("question")
	for _, x := range r.All {
		line(string(x.Target), x)
	}
	_ = tw.Flush()
	fmt.Fprint(w, "\nLog scores (nats, lower is better):\n\n")
	fmt.Fprint(tw, "question\tn\t")
	for _, f := range backtest.Forecasters() {
		fmt.Fprintf(tw, "%s\t", f)
	}
	fmt.Fprintln(tw)
	for _, x := range r.All {
		fmt.Fprintf(tw, "%s\t%d\t", x.Target, x.N)
		for _, s := range x.Scores {
			fmt.Fprintf(tw, "%.4f\t", s.Log)
		}
		fmt.Fprintln(tw)
	}
	_ = tw.Flush()
	for _, x := range r.All {
		if x.Target == backtest.TargetAttempt {
			continue
		}
		fmt.Fprintf(w, "\nReliability of %q: the model said, and what came true\n\n", x.Target)
		fmt.Fprintln(tw, "said\tn\tmean\tobserved\t")
		for _, b := range x.Reliability {
			fmt.Fprintf(tw, "%.1f to %.1f\t%d\t%.3f\t%.3f\t\n", b.From, b.To, b.N, b.Mean, b.Observed)
		}
		_ = tw.Flush()
	}
	for _, target := range []backtest.Target{backtest.TargetAvailable, backtest.TargetSurvives} {
		fmt.Fprintf(w, "\n%q by campaign\n\n", target)
		head("campaign")
		for _, c := range r.Campaigns {
			for _, x := range c.Results {
				if x.Target == target {
					line(c.Name, x)
				}
			}
		}
		_ = tw.Flush()
	}
	verdict := "The model beats all of them on \"available\" and \"survives\"."
	if !r.Beats {
		verdict = "The model does NOT beat all of them on \"available\" and \"survives\"."
	}
	_, err := fmt.Fprintln(w, "\n"+verdict)
	return err
}

// idea is a variant of the model with its figures.
type idea struct {
	Name    string            `json:"name"`
	Results []backtest.Result `json:"results"`
}

func compareIdeas(trace *backtest.Trace, opt backtest.Options, asJSON bool, w io.Writer) error {
	base := opt.Params
	alone := base
	alone.RegionLoss, alone.RegionReturn, alone.Zone = 0, 0, 0
	plain := alone
	plain.LossFade, plain.ReturnFade = 0, 0
	quick := plain
	quick.PoolHalfLife, quick.ParentHalfLife = 6, 6
	unshared := base
	unshared.Strength = 0.25
	var out []idea
	for _, v := range []struct {
		name   string
		params availability.Params
	}{
		{"two states without memory", plain}, {"the same, half-life 6 h", quick}, {"rates fade with age", alone},
		{"and move with the region's mood: the model", base}, {"the model, hardly shrunk to wider levels", unshared},
	} {
		opt.Params = v.params
		r, err := backtest.Run(trace, opt)
		if err != nil {
			return err
		}
		out = append(out, idea{v.name, r.All})
	}
	if asJSON {
		return writeJSON(w, out)
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "idea\t")
	for _, x := range out[0].Results {
		fmt.Fprintf(tw, "%s\tcal.\t", x.Target)
	}
	fmt.Fprintln(tw)
	for _, i := range out {
		fmt.Fprintf(tw, "%s\t", i.Name)
		for _, x := range i.Results {
			fmt.Fprintf(tw, "%.4f\t%.3f\t", x.Of(backtest.ByModel), x.Calibration)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
