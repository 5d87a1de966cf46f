package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
)

// errFocus: the report has said which rules are broken.
var errFocus = errors.New("the file breaks rules of FOCUS")

const focusUsage = `Usage: plimsoll focus check [-rules] FILE

check holds a FOCUS file (CSV, also .gz; - is standard input) against the rules of FOCUS 1.2 and of the split columns of 1.3, prints every
rule that it breaks, and fails when there is one. -rules lists the rules instead.
`

func focusCommand(_ context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] != "check" {
		if len(args) == 1 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
			fmt.Fprint(stdout, focusUsage)
			return nil
		}
		fmt.Fprint(stderr, focusUsage)
		return errUsage
	}
	set := flag.NewFlagSet("plimsoll focus check", flag.ContinueOnError)
	list := set.Bool("rules", false, "list the rules")
	if err := parse(set, args[1:], stderr, 1); err != nil {
		return err
	}
	if *list {
		for _, r := range focus.Rules() {
			fmt.Fprintf(stdout, "%-52s %-10s %s\n", r.ID, r.Source, r.Text)
		}
		fmt.Fprintf(stdout, "%d rules\n", len(focus.Rules()))
		return nil
	}
	if set.NArg() != 1 {
		fmt.Fprint(stderr, focusUsage)
		return errUsage
	}
	return checkFocus(set.Arg(0), stdout)
}

func checkFocus(path string, stdout io.Writer) error {
	var in io.Reader = os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return fleet.Errorf(fleet.CodeInvalid, "%v", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	in = bufio.NewReaderSize(in, 1<<20)
	if strings.HasSuffix(path, ".gz") {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return fleet.Errorf(fleet.CodeInvalid, "%s is no gzip file", path)
		}
		in = unzipped
	}
	r, err := focus.Check(in)
	if err != nil {
		return err
	}
	for _, f := range r.Findings {
		where := "header"
		if f.Line > 0 {
			where = fmt.Sprintf("line %d", f.Line)
		}
		fmt.Fprintf(stdout, "%s (%s, %s): %s\n  %d times, first: %s\n", f.Rule.ID, f.Rule.Source, where, f.Rule.Text, f.Count, f.Detail)
	}
	fmt.Fprintf(stdout, "%d rules checked, %d broken; %d rows, %d split charges\nBilledCost %s, ListCost %s, EffectiveCost %s\n",
		r.Rules, len(r.Findings), r.Rows, r.Origins, r.Billed, r.Listed, r.Effect)
	if !r.OK() {
		return errFocus
	}
	return nil
}
