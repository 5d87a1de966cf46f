package focus

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
)

// Writer writes charges as CSV.
type Writer struct {
	csv    *csv.Writer
	fields []string
}

// NewWriter writes the header to w.
func NewWriter(w io.Writer) (*Writer, error) {
	out := &Writer{csv: csv.NewWriter(w), fields: make([]string, len(exported))}
	for i, c := range exported {
		out.fields[i] = c.String()
	}
	return out, out.csv.Write(out.fields)
}

// Write adds a charge.
func (w *Writer) Write(r *Row) error {
	for i, c := range exported {
		w.fields[i] = r[c]
	}
	return w.csv.Write(w.fields)
}

// Flush hands everything that was written on.
func (w *Writer) Flush() error {
	w.csv.Flush()
	return w.csv.Error()
}

// Bounds of a file that is read.
const (
	maxColumns = 400
	maxField   = 64 << 10
)

// Reader reads charges from CSV, also from other people's files: columns in any order, absent ones null, NULL for null.
type Reader struct {
	csv    *csv.Reader
	names  []string // of the file
	place  []Col    // per field of the file; -1: not one we know
	custom []int    // fields of columns that we do not know
	line   int
	fields []string
}

// aliases are names that other exporters give to columns.
var aliases = map[string]string{"Id": "x_ServiceId"}

// NewReader reads the header. Its errors name the column.
func NewReader(r io.Reader) (*Reader, error) {
	in := &Reader{csv: csv.NewReader(r)}
	in.csv.ReuseRecord = true
	in.csv.LazyQuotes = false
	head, err := in.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "the file is empty"}
	case err != nil:
		return nil, malformed(err)
	case len(head) > maxColumns:
		return nil, fleet.Errorf(fleet.CodeTooLarge, "the file has %d columns, more than %d", len(head), maxColumns)
	}
	for i, name := range head {
		name = strings.TrimPrefix(name, "\ufeff")
		if a, ok := aliases[name]; ok {
			name = a
		}
		if slices.Contains(in.names, name) {
			return nil, fleet.Errorf(fleet.CodeInvalid, "column %q stands twice in the header", name)
		}
		in.names = append(in.names, strings.Clone(name))
		c, ok := byName[name]
		if !ok {
			c = -1
			in.custom = append(in.custom, i)
		}
		in.place = append(in.place, c)
	}
	in.line = 1
	return in, nil
}

// Columns are the names of the file's columns.
func (in *Reader) Columns() []string { return in.names }

// Line is the number of the line that Read returned last begins at.
func (in *Reader) Line() int { return in.line }

// Read returns the next charge, io.EOF at the end. Errors name the row.
func (in *Reader) Read() (r Row, err error) {
	in.fields, err = in.csv.Read()
	if errors.Is(err, io.EOF) {
		return r, io.EOF
	}
	if err != nil {
		return r, malformed(err)
	}
	in.line, _ = in.csv.FieldPos(0)
	for i, c := range in.place {
		v := in.fields[i]
		if len(v) > maxField {
			return r, fleet.Errorf(fleet.CodeTooLarge, "line %d: the value of %s is longer than %d bytes", in.line, in.names[i], maxField)
		}
		if c >= 0 && v != "NULL" {
			r[c] = v
		}
	}
	return r, nil
}

// Custom is the value of a column of the row read last that is not one of ours.
func (in *Reader) Custom(name string) (value string, ok bool) {
	for _, i := range in.custom {
		if in.names[i] == name && in.fields != nil {
			return in.fields[i], true
		}
	}
	return "", false
}

func malformed(err error) error {
	return &fleet.Error{Code: fleet.CodeInvalid, Message: "not CSV: " + err.Error(), Err: err}
}
