package focus

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	parquetformat "github.com/parquet-go/parquet-go/format"

	"plimsoll.dev/services/fleet"
)

// ColumnKind says how a column of a Parquet file holds its values.
type ColumnKind int

// Kinds of columns.
const (
	ColumnText    ColumnKind = iota // UTF-8
	ColumnDecimal                   // DECIMAL(38, Places): exact
	ColumnTime                      // TIMESTAMP, UTC, milliseconds
	ColumnObject                    // JSON
)

// ParquetColumn is a column of a Parquet file. Every value may be null.
type ParquetColumn struct {
	Name   string
	Kind   ColumnKind
	Places int // of ColumnDecimal
}

// rowsPerGroup bounds what a writer holds: some 100 MiB of our export.
const rowsPerGroup = 50_000

// ParquetWriter writes rows of text as Parquet, columns in the order of their names, compressed with zstd. Its values are those of a CSV:
// empty is null.
type ParquetWriter struct {
	out     *parquet.GenericWriter[any]
	columns []ParquetColumn // in the file's order
	from    []int           // place in the caller's row
	row     parquet.Row
}

// NewParquetWriter makes a writer for rows with these columns.
func NewParquetWriter(w io.Writer, name string, columns []ParquetColumn) *ParquetWriter {
	p := &ParquetWriter{columns: slices.Clone(columns)}
	slices.SortFunc(p.columns, func(a, b ParquetColumn) int { return cmp.Compare(a.Name, b.Name) })
	group := parquet.Group{}
	for _, c := range p.columns {
		group[c.Name] = parquet.Optional(c.node())
		p.from = append(p.from, slices.IndexFunc(columns, func(x ParquetColumn) bool { return x.Name == c.Name }))
	}
	p.row = make(parquet.Row, len(p.columns))
	p.out = parquet.NewGenericWriter[any](w, parquet.NewSchema(name, group), parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowsPerGroup), parquet.CreatedBy("plimsoll", "1", ""))
	return p
}

func (c ParquetColumn) node() parquet.Node {
	switch c.Kind {
	case ColumnDecimal:
		return parquet.Decimal(c.Places, 38, parquet.FixedLenByteArrayType(decimalBytes))
	case ColumnTime:
		return parquet.Timestamp(parquet.Millisecond)
	case ColumnObject:
		return parquet.JSON()
	default:
		return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	}
}

// Write adds a row: a value per column, in the order that NewParquetWriter was given. A value that the column cannot hold exactly is an error
// that names it.
func (p *ParquetWriter) Write(values []string) error {
	for i, c := range p.columns {
		text := values[p.from[i]]
		if text == "" {
			p.row[i] = parquet.NullValue().Level(0, 0, i)
			continue
		}
		v, err := c.value(text)
		if err != nil {
			return err
		}
		p.row[i] = v.Level(0, 1, i)
	}
	_, err := p.out.WriteRows([]parquet.Row{p.row})
	return err
}

func (c ParquetColumn) value(text string) (parquet.Value, error) {
	switch c.Kind {
	case ColumnDecimal:
		n, ok := scaled(text, c.Places)
		if !ok {
			return parquet.Value{}, fleet.Errorf(fleet.CodeInvalid, "%s: %s is no decimal of 38 digits with %d places", c.Name, quoted(text), c.Places)
		}
		return parquet.FixedLenByteArrayValue(n), nil
	case ColumnTime:
		t, err := parseTime(text)
		if err != nil {
			return parquet.Value{}, fleet.Errorf(fleet.CodeInvalid, "%s: %s is no time", c.Name, quoted(text))
		}
		return parquet.Int64Value(t.UnixMilli()), nil
	default:
		return parquet.ByteArrayValue([]byte(text)), nil
	}
}

// Close writes what is left and the footer. Without it the file is none.
func (p *ParquetWriter) Close() error { return p.out.Close() }

// decimalBytes hold 38 digits in two's complement, the highest byte first.
const decimalBytes = 16

// scaled reads a plain decimal as so many parts of ten to the places.
func scaled(text string, places int) ([]byte, bool) {
	negative := strings.HasPrefix(text, "-")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	if len(fraction) > places {
		if strings.Trim(fraction[places:], "0") != "" {
			return nil, false
		}
		fraction = fraction[:places]
	}
	text = whole + fraction + strings.Repeat("0", places-len(fraction))
	if whole == "" || len(text) > 38 || !digits(text, 38) {
		return nil, false
	}
	b := make([]byte, decimalBytes)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if negative {
			n = -n
		}
		binary.BigEndian.PutUint64(b, uint64(n>>63))
		binary.BigEndian.PutUint64(b[8:], uint64(n)) //nolint:gosec // two's complement
		return b, true
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, false
	}
	if negative {
		n.Sub(new(big.Int).Lsh(big.NewInt(1), 8*decimalBytes), n)
	}
	return n.FillBytes(b), true
}

// unscaled is the text of what scaled made.
func unscaled(b []byte, places int) string {
	n := new(big.Int).SetBytes(b)
	sign := ""
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))), n)
		sign = "-"
	}
	text := n.String()
	if places == 0 {
		return sign + text
	}
	if len(text) <= places {
		text = strings.Repeat("0", places+1-len(text)) + text
	}
	return sign + text[:len(text)-places] + "." + text[len(text)-places:]
}

// parquetColumns of our export. Quantities have twelve places, all other numbers nine.
func parquetColumns() []ParquetColumn {
	out := make([]ParquetColumn, len(exported))
	for i, c := range exported {
		out[i] = ParquetColumn{Name: c.String()}
		switch columns[c].kind {
		case kindDecimal:
			out[i].Kind, out[i].Places = ColumnDecimal, 9
			switch c {
			case PricingQuantity, ConsumedQuantity, CommitmentDiscountQuantity, XOriginPricingQuantity:
				out[i].Places = 12
			case XHourVersion:
				out[i].Places = 0
			}
		case kindTime:
			out[i].Kind = ColumnTime
		case kindObject:
			out[i].Kind = ColumnObject
		}
	}
	return out
}

// RowWriter writes charges. Close ends the file.
type RowWriter interface {
	Write(*Row) error
	Close() error
}

// Close implements RowWriter.
func (w *Writer) Close() error { return w.Flush() }

// NewFileWriter writes charges to w as "csv" or "parquet".
func NewFileWriter(w io.Writer, format string) (RowWriter, error) {
	switch format {
	case "csv":
		return NewWriter(w)
	case "parquet":
		return &parquetRows{NewParquetWriter(w, "focus", parquetColumns()), make([]string, len(exported))}, nil
	}
	return nil, fleet.Errorf(fleet.CodeInvalid, "%q is neither csv nor parquet", format)
}

type parquetRows struct {
	*ParquetWriter
	fields []string
}

// Write implements RowWriter.
func (w *parquetRows) Write(r *Row) error {
	for i, c := range exported {
		w.fields[i] = r[c]
	}
	return w.ParquetWriter.Write(w.fields)
}

// ReadParquet hands on the rows of a Parquet file of ours, or of another exporter with flat columns, as the texts that its CSV would have.
func ReadParquet(in io.ReaderAt, size int64, head func(names []string) error, row func(values []string) error) error {
	f, err := parquet.OpenFile(in, size, parquet.SkipBloomFilters(true))
	if err != nil {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: "no Parquet file: " + err.Error(), Err: err}
	}
	fields := f.Schema().Fields()
	if len(fields) > maxColumns {
		return fleet.Errorf(fleet.CodeTooLarge, "the file has %d columns, more than %d", len(fields), maxColumns)
	}
	names := make([]string, len(fields))
	for i, field := range fields {
		if !field.Leaf() || field.Repeated() {
			return fleet.Errorf(fleet.CodeInvalid, "the column %s is a list or a map; only flat columns are read", field.Name())
		}
		names[i] = field.Name()
	}
	if err := head(names); err != nil {
		return err
	}
	reader := parquet.NewReader(f)
	defer func() { _ = reader.Close() }()
	values, block := make([]string, len(fields)), make([]parquet.Row, 64)
	for {
		n, err := reader.ReadRows(block)
		for _, r := range block[:n] {
			clear(values)
			for _, v := range r {
				if at := v.Column(); !v.IsNull() {
					values[at] = textOf(v, fields[at])
				}
			}
			if err := row(values); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "the Parquet file is damaged: " + err.Error(), Err: err}
		case n == 0:
			return nil
		}
	}
}

// textOf is a value as our CSV writes it.
func textOf(v parquet.Value, field parquet.Field) string {
	if logical := field.Type().LogicalType(); logical != nil {
		switch kind := logical.Value.(type) {
		case *parquetformat.DecimalType:
			switch {
			case v.Kind() == parquet.FixedLenByteArray || v.Kind() == parquet.ByteArray:
				return unscaled(v.ByteArray(), int(kind.Scale))
			case v.Kind() == parquet.Int64 && kind.Scale > 0:
				return decimal(v.Int64(), int(kind.Scale))
			}
		case *parquetformat.TimestampType:
			unit := time.Millisecond
			if kind.Unit.Value != nil {
				unit = kind.Unit.Value.Duration()
			}
			perSecond := int64(time.Second / unit)
			return time.Unix(v.Int64()/perSecond, v.Int64()%perSecond*int64(unit)).UTC().Format(timeFormat)
		}
	}
	switch v.Kind() {
	case parquet.ByteArray:
		return string(v.ByteArray())
	case parquet.Int64:
		return strconv.FormatInt(v.Int64(), 10)
	case parquet.Double:
		return strconv.FormatFloat(v.Double(), 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
