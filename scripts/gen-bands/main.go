// Command gen-bands writes the table of Spot interruption bands that ships inside the services binary, from the published facts of the
// AWS Spot Instance Advisor (as collected by github.com/alexei-led/spotinfo, Apache-2.0):
//
//	GOWORK=off go run . -facts <folder>/aws_spot_advisor_linux.csv.gz -out ../../services/availability/bands.tsv
//
// Only aggregates go in: per instance type, how many regions put it into each of the five bands on the newest day of the file. The
// same facts give the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strconv"
)

const maxRows = 1 << 20

func main() {
	log.SetFlags(0)
	facts := flag.String("facts", "", "aws_spot_advisor_linux.csv.gz")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if *facts == "" || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*facts, *out); err != nil {
		log.Fatal("gen-bands: ", err)
	}
}

func run(facts, out string) error {
	f, err := os.Open(facts)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", facts, err)
	}
	text, err := table(z)
	if err != nil {
		return fmt.Errorf("read %s: %w", facts, err)
	}
	return os.WriteFile(out, text, 0o644)
}

// table counts regions per type and band on the newest day.
func table(r io.Reader) ([]byte, error) {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = 6
	if _, err := rows.Read(); err != nil {
		return nil, err
	}
	byDay := map[string]map[string]*[5]int{}
	for n := 0; ; n++ {
		row, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		band, err := strconv.Atoi(row[3])
		if err != nil || band < 0 || band > 4 || n > maxRows {
			return nil, fmt.Errorf("row %d: band %q", n+2, row[3])
		}
		if byDay[row[0]] == nil {
			byDay[row[0]] = map[string]*[5]int{}
		}
		c := byDay[row[0]][row[2]]
		if c == nil {
			c = new([5]int)
			byDay[row[0]][row[2]] = c
		}
		c[band]++
	}
	if len(byDay) == 0 {
		return nil, fmt.Errorf("no rows")
	}
	day := slices.Max(slices.Collect(maps.Keys(byDay)))
	var b bytes.Buffer
	fmt.Fprintln(&b, "# Written by scripts/gen-bands. AWS Spot Instance Advisor, Linux, as collected by github.com/alexei-led/spotinfo (Apache-2.0).")
	fmt.Fprintln(&b, "# Type, then the number of regions where it is in each band of monthly interruptions: <5 %, 5-10, 10-15, 15-20, >20 %.")
	fmt.Fprintln(&b, "date", day)
	for _, name := range slices.Sorted(maps.Keys(byDay[day])) {
		c := byDay[day][name]
		fmt.Fprintf(&b, "%s\t%d\t%d\t%d\t%d\t%d\n", name, c[0], c[1], c[2], c[3], c[4])
	}
	return b.Bytes(), nil
}
