package focus_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
)

// What is written as Parquet reads back as the CSV of the same rows, value for value.
func TestParquetReadsBackAsTheCSV(t *testing.T) {
	t.Parallel()
	var asCSV, asParquet bytes.Buffer
	writers := map[string]*bytes.Buffer{"csv": &asCSV, "parquet": &asParquet}
	rows := 0
	for format, out := range writers {
		w, err := focus.NewFileWriter(out, format)
		if err != nil {
			t.Fatal(err)
		}
		all, _ := month()
		rows = min(len(all), 4000)
		for i := range rows {
			if err := w.Write(&all[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	in, err := focus.NewReader(&asCSV)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	read := 0
	err = focus.ReadParquet(bytes.NewReader(asParquet.Bytes()), int64(asParquet.Len()), func(n []string) error {
		names = append(names, n...)
		if len(n) != len(in.Columns()) {
			t.Errorf("%d columns, the CSV has %d", len(n), len(in.Columns()))
		}
		return nil
	}, func(values []string) error {
		want, err := in.Read()
		if err != nil {
			return err
		}
		read++
		for i, n := range names {
			if w := value(want, n); values[i] != w {
				t.Fatalf("row %d, %s: %q, the CSV has %q", read, n, values[i], w)
			}
		}
		return nil
	})
	if err != nil || read != rows || rows < 300 {
		t.Fatalf("%d of %d rows: %v", read, rows, err)
	}
	if _, err := in.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("the CSV has more rows: %v", err)
	}
	t.Logf("%d rows in %d bytes of Parquet", rows, asParquet.Len())
}

func value(r focus.Row, name string) string {
	for c := range r {
		if focus.Col(c).String() == name {
			return r[c]
		}
	}
	return ""
}

func TestParquetRefusesWhatItCannotHoldExactly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  focus.ColumnKind
		value string
		ok    bool
	}{
		{focus.ColumnDecimal, "999999999.999999999", true},
		{focus.ColumnDecimal, "-999999999.999999999", true},
		{focus.ColumnDecimal, "0.5000000000000", true},
		{focus.ColumnDecimal, "0.0000000001", false},
		{focus.ColumnDecimal, "99999999999999999999999999999.999999999", true},
		{focus.ColumnDecimal, "100000000000000000000000000000", false},
		{focus.ColumnDecimal, "-", false},
		{focus.ColumnDecimal, "1e3", false},
		{focus.ColumnTime, "2026-03-01T00:00:00Z", true},
		{focus.ColumnTime, "yesterday", false},
		{focus.ColumnText, "any thing", true},
	} {
		w := focus.NewParquetWriter(io.Discard, "t", []focus.ParquetColumn{{Name: "value", Kind: c.kind, Places: 9}})
		err := w.Write([]string{c.value})
		var coded *fleet.Error
		if c.ok != (err == nil) || !c.ok && (!errors.As(err, &coded) || !strings.Contains(coded.Message, "value")) {
			t.Errorf("%q: %v", c.value, err)
		}
	}
	damaged := bytes.NewReader([]byte("PAR1 not really PAR1"))
	if err := focus.ReadParquet(damaged, damaged.Size(), func([]string) error { return nil }, func([]string) error { return nil }); err == nil {
		t.Error("a damaged file is read")
	}
}
