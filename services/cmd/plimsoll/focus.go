package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
)

// errFocus: the report has said which rules are broken.
var errFocus = errors.New("the file breaks rules of FOCUS")

const focusUsage = `Usage: plimsoll focus check [-rules] FILE
       plimsoll focus export [-url URL] [-from TIME] [-to TIME] [-format csv|parquet] FILE

export writes what the ledger holds of whole hours (default: the thirty days before today) to FILE and checks it. URL is the service's address
(default PLIMSOLL_URL, else http://localhost:8080); the API key is read from PLIMSOLL_API_KEY.
check holds a FOCUS file (CSV, also .gz, or Parquet; - is standard input) against the rules of FOCUS 1.2 and of the split columns of 1.3, prints every
rule that it breaks, and fails when there is one. -rules lists the rules instead.
`

func focusCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "export" {
		return focusExport(ctx, args[1:], stdout, stderr)
	}
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
	if f, ok := in.(*os.File); ok && strings.HasSuffix(path, ".parquet") {
		rows, err := rowsOfParquet(f)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		in = rows
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
	fmt.Fprintf(stdout, "%d rules checked, %d broken; %d rows, %d split charges\nBilledCost %s, ListCost %s, EffectiveCost %s\ncommitments: purchases billed %s, used and unused %s\n",
		r.Rules, len(r.Findings), r.Rows, r.Origins, r.Billed, r.Listed, r.Effect, r.Purchased, r.Committed)
	if !r.OK() {
		return errFocus
	}
	return nil
}

// rowsOfParquet reads a Parquet file as its CSV. Close it to end the reading early.
func rowsOfParquet(f *os.File) (io.ReadCloser, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	in, out := io.Pipe()
	w := csv.NewWriter(out)
	go func() {
		err := focus.ReadParquet(f, info.Size(), w.Write, w.Write)
		if w.Flush(); err == nil {
			err = w.Error()
		}
		_ = out.CloseWithError(err)
	}()
	return in, nil
}

// focusExport fetches the export into a file and checks it: a file that broke off, or breaks a rule, does not stay unseen.
func focusExport(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll focus export FILE", flag.ContinueOnError)
	base := serviceURL(set)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	from := set.String("from", today.AddDate(0, 0, -30).Format(time.RFC3339), "a whole hour, UTC")
	to := set.String("to", today.Format(time.RFC3339), "exclusive; a whole hour, UTC")
	format := set.String("format", "", "csv or parquet; default: by the name of FILE, else csv")
	if err := parse(set, args, stderr, 1); err != nil {
		return err
	}
	if set.NArg() != 1 {
		fmt.Fprint(stderr, focusUsage)
		return errUsage
	}
	path := set.Arg(0)
	if *format == "" {
		if *format = "csv"; strings.HasSuffix(path, ".parquet") {
			*format = "parquet"
		}
	}
	if *format == "parquet" != strings.HasSuffix(path, ".parquet") {
		return fleet.Errorf(fleet.CodeInvalid, "a Parquet file is to be named .parquet, and no other is")
	}
	f, err := os.Create(path)
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "%v", err)
	}
	err = callService(ctx, *base, http.MethodGet, "/api/v1/exports/focus?"+url.Values{"from": {*from}, "to": {*to}, "format": {*format}}.Encode(), nil, 0, io.Writer(f))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path)
		return err
	}
	return checkFocus(path, stdout)
}
