package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// ReadTrace reads a trace from CSV, plain or gzip, told apart by its first bytes; the format is told by its header:
//
//	TIMESTAMP,ContextTokens,GeneratedTokens                          one row per request (Azure LLM inference trace 2023)
//	model,offset_seconds,requests_per_second[,active_clients]        rates per model in equal steps (ServeGen)
//	offset_seconds,requests_per_second[,tokens_in,tokens_out]        rates in equal steps (our own)
//
// name picks the series of a file that holds several; empty takes the longest, then the first by name. A bad row is an error with its
// number (the header is row 1) and the reason: an unknown column, a figure that is not one, negative or infinite, a time that goes
// back, a hole in equal steps. A file without a row is an error too. fileName is for messages only.
func ReadTrace(r io.Reader, fileName, name string) (*Trace, error) {
	t, err := readTrace(r, name)
	if err != nil {
		var e *fleet.Error
		if errors.As(err, &e) {
			return nil, fleet.Errorf(e.Code, "trace %s: %s", fileName, e.Message)
		}
		return nil, fleet.Errorf(fleet.CodeInvalid, "trace %s: %v", fileName, err)
	}
	return t, nil
}

func readTrace(r io.Reader, name string) (*Trace, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	head, err := buffered.Peek(2)
	if err != nil && len(head) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the file is empty")
	}
	plain := io.Reader(buffered)
	if bytes.Equal(head, []byte{0x1f, 0x8b}) {
		packed, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		plain = packed
	}
	rows := csvRows{limit: &io.LimitedReader{R: plain, N: maxTraceBytes}}
	rows.csv = csv.NewReader(rows.limit)
	rows.csv.ReuseRecord = true
	header, err := rows.next()
	if err != nil {
		return nil, err
	}
	if header == nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the file is empty")
	}
	columns := append([]string(nil), header...)
	for i := range columns {
		columns[i] = strings.TrimSpace(strings.TrimPrefix(columns[i], "\ufeff"))
	}
	switch {
	case isHeader(columns, "TIMESTAMP", "ContextTokens", "GeneratedTokens"):
		return readRequests(&rows)
	case isHeader(columns, "model", "offset_seconds", "requests_per_second"), isHeader(columns, "model", "offset_seconds", "requests_per_second", "active_clients"):
		return readRates(&rows, "servegen", name, 1)
	case isHeader(columns, "offset_seconds", "requests_per_second"), isHeader(columns, "offset_seconds", "requests_per_second", "tokens_in", "tokens_out"):
		return readRates(&rows, "plimsoll", name, 0)
	}
	return nil, fleet.Errorf(fleet.CodeInvalid, "row 1: unknown columns %q", strings.Join(columns, ","))
}

func isHeader(columns []string, want ...string) bool {
	if len(columns) != len(want) {
		return false
	}
	for i := range want {
		if columns[i] != want[i] {
			return false
		}
	}
	return true
}

// csvRows counts rows and bounds them.
type csvRows struct {
	csv   *csv.Reader
	limit *io.LimitedReader
	row   int
}

// next returns the next row, or nil at the end.
func (r *csvRows) next() ([]string, error) {
	rec, err := r.csv.Read()
	switch {
	case r.limit.N <= 0:
		return nil, fleet.Errorf(fleet.CodeTooLarge, "more than %d MiB of text", maxTraceBytes>>20)
	case errors.Is(err, io.EOF):
		return nil, nil
	}
	r.row++
	if err != nil {
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			return nil, r.bad("%v", bad.Err)
		}
		return nil, r.bad("%v", err)
	}
	if r.row > maxTraceRows {
		return nil, fleet.Errorf(fleet.CodeTooLarge, "more than %d rows", maxTraceRows)
	}
	return rec, nil
}

func (r *csvRows) bad(format string, args ...any) error {
	return fleet.Errorf(fleet.CodeInvalid, "row %d: %s", r.row, fmt.Sprintf(format, args...))
}

// figure reads a finite number that is not negative.
func (r *csvRows) figure(column, text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case err != nil:
		return 0, r.bad("%s %q is not a number", column, text)
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, r.bad("%s %q is not finite", column, text)
	case v < 0:
		return 0, r.bad("%s %q is negative", column, text)
	}
	return v, nil
}

// readRequests bins requests into steps of the World.
func readRequests(rows *csvRows) (*Trace, error) {
	t := &Trace{Format: "azure_llm", binMS: StepMillis, scale: 1}
	var first, last time.Time
	for {
		rec, err := rows.next()
		if err != nil {
			return nil, err
		}
		if rec == nil {
			break
		}
		at, err := time.Parse("2006-01-02 15:04:05.9999999", strings.TrimSpace(rec[0]))
		if err != nil {
			return nil, rows.bad("TIMESTAMP %q is not a time like 2023-11-16 18:15:46.6805900", rec[0])
		}
		if t.Rows == 0 {
			first, last = at, at
		}
		if at.Before(last) {
			return nil, rows.bad("TIMESTAMP %q goes back", rec[0])
		}
		last = at
		in, err := rows.figure("ContextTokens", rec[1])
		if err != nil {
			return nil, err
		}
		out, err := rows.figure("GeneratedTokens", rec[2])
		if err != nil {
			return nil, err
		}
		i := int(at.Sub(first).Milliseconds() / StepMillis)
		if i >= maxTraceBins {
			return nil, rows.bad("the trace is longer than %d steps of 5 s", maxTraceBins)
		}
		for len(t.bins) <= i {
			t.bins = append(t.bins, traceBin{})
		}
		t.bins[i].rate++
		t.bins[i].tokensIn += in
		t.bins[i].tokensOut += out
		t.Rows++
	}
	if t.Rows == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the file has no request")
	}
	t.Requests = float64(t.Rows)
	for i := range t.bins {
		if b := &t.bins[i]; b.rate > 0 {
			b.tokensIn, b.tokensOut = b.tokensIn/b.rate, b.tokensOut/b.rate
			b.rate /= stepSeconds
		}
	}
	t.fillTokens(0, 0)
	return t, nil
}

// Tokens of a request in a trace that says nothing of them: the means of the demo's own chat traffic.
const (
	defaultTokensIn  = 900
	defaultTokensOut = 210
)

// readRates reads rates in equal steps; with = 1 the first column names the series.
func readRates(rows *csvRows, format, name string, with int) (*Trace, error) {
	series := map[string]*rateSeries{}
	var order []string
	for {
		rec, err := rows.next()
		if err != nil {
			return nil, err
		}
		if rec == nil {
			break
		}
		key := ""
		if with == 1 {
			key = strings.TrimSpace(rec[0])
		}
		s := series[key]
		if s == nil {
			if len(series) >= 1000 {
				return nil, rows.bad("more than 1,000 series")
			}
			s = &rateSeries{}
			series[key] = s
			order = append(order, key)
		}
		if err := s.add(rows, rec[with:]); err != nil {
			return nil, err
		}
	}
	if len(series) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the file has no rate")
	}
	sort.SliceStable(order, func(i, j int) bool {
		a, b := series[order[i]], series[order[j]]
		if len(a.bins) != len(b.bins) {
			return len(a.bins) > len(b.bins)
		}
		return order[i] < order[j]
	})
	if name == "" {
		name = order[0]
	}
	s := series[name]
	if s == nil {
		sort.Strings(order)
		return nil, fleet.Errorf(fleet.CodeNotFound, "there is no series %q; there are %s", name, strings.Join(order, ", "))
	}
	if len(s.bins) < 2 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "series %q has %d rows; two or more are needed to know the step", name, len(s.bins))
	}
	t := &Trace{Format: format, Name: name, Rows: len(s.bins), binMS: s.stepMS, smooth: true, scale: 1, bins: s.bins}
	for _, b := range s.bins {
		t.Requests += b.rate * float64(s.stepMS) / 1000
	}
	t.fillTokens(defaultTokensIn, defaultTokensOut)
	return t, nil
}

type rateSeries struct {
	bins   []traceBin
	last   float64
	stepMS int64
}

// add appends one row: offset_seconds, requests_per_second, and what stands after them.
func (s *rateSeries) add(rows *csvRows, rec []string) error {
	offset, err := rows.figure("offset_seconds", rec[0])
	if err != nil {
		return err
	}
	rate, err := rows.figure("requests_per_second", rec[1])
	if err != nil {
		return err
	}
	bin := traceBin{rate: rate}
	switch len(rec) {
	case 3:
		_, err = rows.figure("active_clients", rec[2])
	case 4:
		if bin.tokensIn, err = rows.figure("tokens_in", rec[2]); err == nil {
			bin.tokensOut, err = rows.figure("tokens_out", rec[3])
		}
	}
	if err != nil {
		return err
	}
	step := int64(math.Round(1000 * (offset - s.last)))
	switch {
	case len(s.bins) == 0:
	case step <= 0:
		return rows.bad("offset_seconds %s does not grow", rec[0])
	case len(s.bins) == 1:
		if step < StepMillis || step > dayMillis {
			return rows.bad("a step of %v s; between 5 s and a day is expected", offset-s.last)
		}
		s.stepMS = step
	case step != s.stepMS:
		return rows.bad("offset_seconds %s is %v s after the row before; steps of %v s are expected", rec[0], offset-s.last, float64(s.stepMS)/1000)
	}
	s.last = offset
	s.bins = append(s.bins, bin)
	return nil
}
