package main

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
)

const nanos = 1_000_000_000

// machine is an instance type with its prices per region.
type machine struct {
	cloud, name, arch string
	cpuMilli, memMiB  int64
	gpu               string
	gpus              int64
	traits
	prices  []price
	offered []string // regions that sell it, at a price that these facts do not have
	doubts  []doubt
	added   bool
}

// price in nano-dollars an hour; 0 is unknown.
type price struct {
	region         string
	onDemand, spot int64
}

type book struct{ types []*machine }

func (b *book) add(m *machine) {
	if !m.added {
		m.added = true
		b.types = append(b.types, m)
	}
}

// tidy drops types without any price and sorts the rest. A region without one is offered: its price is unknown, not its machine.
func (b *book) tidy() {
	kept := b.types[:0]
	for _, m := range b.types {
		prices := m.prices[:0]
		for _, p := range m.prices {
			if p.onDemand > 0 || p.spot > 0 {
				prices = append(prices, p)
			} else {
				m.offered = append(m.offered, p.region)
			}
		}
		m.prices = prices
		m.offered = slices.DeleteFunc(m.offered, func(r string) bool { return slices.ContainsFunc(prices, func(p price) bool { return p.region == r }) })
		slices.Sort(m.offered)
		m.offered = slices.Compact(m.offered)
		sort.Slice(m.prices, func(i, j int) bool { return m.prices[i].region < m.prices[j].region })
		if len(m.prices) > 0 {
			kept = append(kept, m)
		}
	}
	b.types = kept
	sort.Slice(b.types, func(i, j int) bool {
		if b.types[i].cloud != b.types[j].cloud {
			return b.types[i].cloud < b.types[j].cloud
		}
		return b.types[i].name < b.types[j].name
	})
}

func (b *book) write(w io.Writer, weights []weight) {
	fmt.Fprintln(w, "plimsoll-catalogue\t2\tUSD")
	for _, s := range sources {
		fmt.Fprintln(w, strings.Join([]string{"S", s.cloud, s.kind, s.name, s.date, s.licence, s.origin}, "\t"))
	}
	index := map[string]int{}
	for _, cloud := range []string{"aws", "azure", "gcp"} {
		for _, r := range regions[cloud] {
			index[cloud+"/"+r] = len(index)
			fmt.Fprintf(w, "R\t%s\t%s\n", cloud, r)
		}
	}
	for _, c := range weights {
		fmt.Fprintf(w, "W\t%s\t%s\t%s\n", c.cloud, c.what, nano(c.perHour))
	}
	for _, model := range slices.Sorted(maps.Keys(mig)) {
		fmt.Fprintf(w, "M\t%s\t%s\n", model, or(mig[model], "none"))
	}
	for _, m := range b.types {
		fmt.Fprintf(w, "T\t%s\t%s\t%s\t%d\t%d", m.cloud, m.name, m.arch, m.cpuMilli, m.memMiB)
		if m.gpus > 0 {
			fmt.Fprintf(w, "\t%s\t%d\t%d", m.gpu, m.gpus, gpuMemory[m.gpu])
		}
		fmt.Fprintf(w, "\nN\t%s\n", m.fields())
		for _, p := range m.prices {
			fmt.Fprintf(w, "P\t%d\t%s\t%s\n", index[m.cloud+"/"+p.region], nano(p.onDemand), nano(p.spot))
		}
		if len(m.offered) > 0 {
			var numbers []string
			for _, r := range m.offered {
				numbers = append(numbers, strconv.Itoa(index[m.cloud+"/"+r]))
			}
			fmt.Fprintf(w, "O\t%s\n", strings.Join(numbers, ","))
		}
		for _, d := range m.doubts {
			fmt.Fprintf(w, "Q\t%d\t%s\t%s\t%s\t%s\n", index[m.cloud+"/"+d.region], d.kind, nano(d.was), nano(d.expected), d.reason)
		}
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// nano prints nano-dollars as a decimal, and the unknown as "-".
func nano(n int64) string {
	if n == 0 {
		return "-"
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%09d", n/nanos, n%nanos), "0"), ".")
}

// row is one row of a table, read by column name; the first bad number is kept in bad.
type row struct {
	columns map[string]int
	fields  []string
	bad     *error
}

func (r row) at(column string) string {
	i, ok := r.columns[column]
	if !ok {
		*r.bad = fmt.Errorf("no column %s", column)
		return ""
	}
	return r.fields[i]
}

func (r row) float(column string) float64 {
	s := r.at(column)
	if s == "" {
		return 0
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 1e9 {
		*r.bad = fmt.Errorf("column %s: %q is not a number in range", column, s)
	}
	return f
}

func (r row) integer(column string) int64 { return int64(math.Round(r.float(column))) }
func (r row) nano(column string) int64    { return int64(math.Round(r.float(column) * nanos)) }

func eachRow(path string, do func(row) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	table := csv.NewReader(z)
	head, err := table.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var bad error
	columns := map[string]int{}
	for i, c := range head {
		columns[c] = i
	}
	for line := 2; ; line++ {
		fields, err := table.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(row{columns, fields, &bad})
		}
		if err == nil {
			err = bad
		}
		if err != nil {
			return fmt.Errorf("%s line %d: %w", path, line, err)
		}
	}
}
