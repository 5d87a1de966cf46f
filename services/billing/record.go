package billing

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Bounds of a file.
const (
	MaxBytes   = int64(4) << 30 // unzipped
	maxLines   = 20_000_000
	maxColumns = 1200 // a legacy report with many tags
	maxField   = 256 << 10
	maxLine    = 4 << 20 // of JSON
	maxRows    = 400_000 // distinct ones
)

// record is one row of a file under the names that its format uses.
type record struct {
	line    int
	place   map[string]int // name to field; nil for JSON
	fields  []string
	object  map[string]any // of JSON
	used    map[string]bool
	rounded *int
}

// get is the value of the first of the columns that the file has; null is empty.
func (r *record) get(names ...string) string {
	for _, n := range names {
		v, ok := "", false
		if r.place == nil {
			v, ok = lookUp(r.object, n)
			if top, _, _ := strings.Cut(n, "."); ok {
				r.used[top] = true
			}
		} else if i, found := r.place[n]; found {
			v, ok = r.fields[i], true
			r.used[n] = true
		}
		if ok {
			if v == "NULL" || v == "null" {
				v = ""
			}
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// has says whether the row has one of the columns at all.
func (r *record) has(name string) bool {
	if r.place == nil {
		_, ok := lookUp(r.object, name)
		return ok
	}
	_, ok := r.place[name]
	return ok
}

func lookUp(o map[string]any, path string) (string, bool) {
	for {
		head, rest, more := strings.Cut(path, ".")
		v, ok := o[head]
		if !ok || v == nil {
			return "", ok && !more
		}
		if !more {
			return scalar(v), true
		}
		if o, ok = v.(map[string]any); !ok {
			return "", false
		}
		path = rest
	}
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	case nil:
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// fail is an error that names row and column.
func (r *record) fail(column, format string, args ...any) error {
	return &fleet.Error{Code: fleet.CodeInvalid, Field: column, Message: fmt.Sprintf("row %d, column %s: %s", r.line, column, fmt.Sprintf(format, args...))}
}

// amount is the value of the first column that the file has and that is not null; nil: there is none.
func (r *record) amount(names ...string) (*Amount, error) {
	for _, n := range names {
		v := r.get(n)
		if v == "" {
			continue
		}
		a, rounded, err := ParseAmount(v)
		if err != nil {
			return nil, r.fail(n, "%v", err)
		}
		if rounded {
			*r.rounded++
		}
		return &a, nil
	}
	return nil, nil
}

// money is an amount that must be there.
func (r *record) money(names ...string) (Amount, error) {
	a, err := r.amount(names...)
	if err != nil {
		return Amount{}, err
	}
	if a == nil {
		return Amount{}, r.fail(r.one(names), "the amount is missing")
	}
	return *a, nil
}

// one is the column of these that the row has, to name it in an error.
func (r *record) one(names []string) string {
	for _, n := range names {
		if r.has(n) {
			return n
		}
	}
	return names[0]
}

// timeFormats are how exporters write times; those without a zone are UTC.
var timeFormats = []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05", "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05.999999 MST",
	"2006-01-02 15:04:05-07:00", "2006-01-02", "01/02/2006", "1/2/2006", "20060102"}

func (r *record) time(names ...string) (time.Time, error) {
	column, v := r.one(names), ""
	for _, n := range names {
		if v = r.get(n); v != "" {
			column = n
			break
		}
	}
	if v == "" {
		return time.Time{}, r.fail(column, "the time is missing")
	}
	for _, f := range timeFormats {
		if t, err := time.Parse(f, v); err == nil {
			if _, offset := t.Zone(); offset == 0 && strings.Contains(f, "MST") && !strings.HasSuffix(v, "UTC") && !strings.HasSuffix(v, "Z") && !strings.HasSuffix(v, "GMT") {
				return time.Time{}, r.fail(column, "%q names a time zone that is not UTC", clip(v))
			}
			if y := t.Year(); y < 2000 || y > 2200 {
				return time.Time{}, r.fail(column, "%q is not a time of a bill", clip(v))
			}
			return t.UTC(), nil
		}
	}
	return time.Time{}, r.fail(column, "%q is not a time", clip(v))
}

// source gives one record after the other, io.EOF at the end. The record is good until the next.
type source interface {
	next() (*record, error)
	columns() []string // of the header; for JSON those seen so far
}

// csvSource reads CSV. Its columns are named by rename, which makes one name of the spellings that exporters use.
type csvSource struct {
	csv   *csv.Reader
	names []string
	rec   record
}

func newCSV(in io.Reader) (*csvSource, error) {
	s := &csvSource{csv: csv.NewReader(in)}
	s.csv.ReuseRecord = true
	head, err := s.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fleet.Errorf(fleet.CodeInvalid, "the file is empty")
	case err != nil:
		return nil, malformed(err)
	case len(head) > maxColumns:
		return nil, fleet.Errorf(fleet.CodeTooLarge, "the file has %d columns, more than %d", len(head), maxColumns)
	}
	for i, n := range head {
		if i == 0 {
			n = strings.TrimPrefix(n, "\ufeff")
		}
		n = strings.TrimSpace(n)
		if n != "" && slices.Contains(s.names, n) {
			return nil, &fleet.Error{Code: fleet.CodeInvalid, Field: n, Message: fmt.Sprintf("row 1, column %s: the name stands twice in the header", n)}
		}
		s.names = append(s.names, strings.Clone(n))
	}
	return s, nil
}

func (s *csvSource) columns() []string { return s.names }

func (s *csvSource) next() (*record, error) {
	fields, err := s.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, malformed(err)
	}
	s.rec.line, _ = s.csv.FieldPos(0)
	for i, f := range fields {
		if len(f) > maxField {
			return nil, fleet.Errorf(fleet.CodeTooLarge, "row %d, column %s: the value is longer than %d bytes", s.rec.line, s.names[i], maxField)
		}
	}
	s.rec.fields = fields
	return &s.rec, nil
}

// malformed says where a file is no CSV.
func malformed(err error) error {
	var coded *fleet.Error
	if errors.As(err, &coded) {
		return err
	}
	var at *csv.ParseError
	if errors.As(err, &at) {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: fmt.Sprintf("row %d, column %d: not CSV: %v", at.Line, at.Column, at.Err), Err: err}
	}
	return &fleet.Error{Code: fleet.CodeInvalid, Message: "the file cannot be read: " + err.Error(), Err: err}
}

// jsonSource reads one JSON object a line.
type jsonSource struct {
	in    *bufio.Reader
	rec   record
	names []string
	seen  map[string]bool
}

func newJSON(in *bufio.Reader) *jsonSource {
	return &jsonSource{in: in, rec: record{}, seen: map[string]bool{}}
}

func (s *jsonSource) columns() []string { return s.names }

func (s *jsonSource) next() (*record, error) {
	for {
		line, err := s.readLine()
		if err != nil {
			return nil, err
		}
		s.rec.line++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		s.rec.object = nil
		if err := d.Decode(&s.rec.object); err != nil || s.rec.object == nil {
			return nil, fleet.Errorf(fleet.CodeInvalid, "row %d: not a JSON object", s.rec.line)
		}
		if d.More() {
			return nil, fleet.Errorf(fleet.CodeInvalid, "row %d: more than one JSON object on a line", s.rec.line)
		}
		for n := range s.rec.object {
			if !s.seen[n] {
				if len(s.seen) >= maxColumns {
					return nil, fleet.Errorf(fleet.CodeTooLarge, "row %d: the file has more than %d fields", s.rec.line, maxColumns)
				}
				s.seen[n] = true
				s.names = append(s.names, n)
			}
		}
		return &s.rec, nil
	}
}

func (s *jsonSource) readLine() (line []byte, err error) {
	for {
		part, err := s.in.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, fleet.Errorf(fleet.CodeTooLarge, "row %d: longer than %d bytes", s.rec.line+1, maxLine)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0, err == nil:
			return line, nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		}
		return nil, malformed(err)
	}
}
