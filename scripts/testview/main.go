// Command testview shows what matters of `go test -json`: failures with their output, one line per package, and at the end the
// totals of all runners. It exits with 1 when anything failed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
)

type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

func main() {
	total := flag.String("total", "", "print the totals of this file of events instead of reading events")
	vitest := flag.String("vitest", "", "with -total: a JSON report of vitest to count in, if it exists")
	flag.Parse()
	var err error
	failed := false
	if *total != "" {
		failed, err = totals(os.Stdout, *total, *vitest)
	} else {
		failed, err = view(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testview:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// view prints packages as they end and the output of tests that fail.
func view(in io.Reader, out io.Writer) (failed bool, err error) {
	output := map[string][]string{}
	err = each(in, func(e event) {
		key := e.Package + "\x00" + e.Test
		switch e.Action {
		case "output", "build-output":
			if len(output[key]) < 400 {
				output[key] = append(output[key], e.Output)
			}
		case "fail", "build-fail":
			failed = true
			for _, line := range output[key] {
				fmt.Fprint(out, line)
			}
			fmt.Fprintf(out, "FAIL %s %s (%.1f s)\n", e.Package, e.Test, e.Elapsed)
		case "pass":
			if e.Test == "" {
				fmt.Fprintf(out, "ok   %s (%.1f s)\n", e.Package, e.Elapsed)
			}
			delete(output, key)
		case "skip":
			if e.Test != "" {
				for _, line := range output[key] {
					fmt.Fprint(out, line)
				}
			}
		}
	})
	return failed, err
}

// totals counts top-level tests and sub-tests alike, as go test -v would show them.
func totals(out io.Writer, path, vitest string) (failed bool, err error) {
	f, err := os.Open(path) //nolint:gosec // the caller's own log
	if err != nil {
		return false, err
	}
	defer f.Close()
	var passed, bad, skipped int
	err = each(f, func(e event) {
		switch {
		case e.Action == "build-fail", e.Action == "fail" && e.Test == "":
			failed = true
		case e.Test == "":
		case e.Action == "pass":
			passed++
		case e.Action == "fail":
			bad++
		case e.Action == "skip":
			skipped++
		}
	})
	if err != nil {
		return false, err
	}
	if report, err := os.ReadFile(vitest); err == nil { //nolint:gosec // the caller's own report
		var r struct{ NumPassedTests, NumFailedTests, NumPendingTests int }
		if err := json.Unmarshal(report, &r); err != nil {
			return false, fmt.Errorf("read %s: %w", vitest, err)
		}
		passed, bad, skipped = passed+r.NumPassedTests, bad+r.NumFailedTests, skipped+r.NumPendingTests
	}
	if failed && bad == 0 {
		bad = 1 // a package that did not build or start has no test to count
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, bad, skipped)
	return bad > 0, nil
}

func each(in io.Reader, fn func(event)) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Action != "" {
			fn(e)
		}
	}
	return lines.Err()
}
