package billing_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/services/billing"
)

// The FinOps Foundation's sample of 1,000 rows imports, and its sums are the file's to the last place.
func TestFocusSampleImportsToTheLastUnit(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "shared", "data", "samples", "focus_1.0_sample_1000.csv.gz")
	zipped, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the sample file of the FinOps Foundation is not beside the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := billing.Read(bytes.NewReader(zipped), billing.Options{Currency: "USD"})
	if err != nil {
		t.Fatal(err)
	}
	in, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(plain)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	sum := func(column string) *big.Rat {
		total := new(big.Rat)
		for i, n := range rows[0] {
			if n != column {
				continue
			}
			for _, row := range rows[1:] {
				if row[i] != "NULL" && row[i] != "" {
					v, ok := new(big.Rat).SetString(row[i])
					if !ok {
						t.Fatalf("%s %q", column, row[i])
					}
					total.Add(total, v)
				}
			}
		}
		return total
	}
	for column, got := range map[string]billing.Amount{"BilledCost": f.Billed, "EffectiveCost": f.Effect, "ListCost": f.List} {
		v, ok := new(big.Rat).SetString(got.String())
		if want := sum(column); !ok || v.Cmp(want) != 0 {
			t.Errorf("%s %s, the file has %s", column, got, want.FloatString(18))
		}
	}
	var billed billing.Amount
	lines := 0
	for _, r := range f.Rows {
		billed, lines = billed.Add(r.Billed), lines+r.Lines
	}
	if billed != f.Billed || lines != 1000 || f.Lines != 1000 || f.Rounded != 0 || f.Format != billing.FormatFOCUS {
		t.Errorf("rows hold %s and %d lines, the file %s and %d", billed, lines, f.Billed, f.Lines)
	}
	if strings.Join(f.Unknown, " ") == "" || len(f.Periods) != 4 {
		t.Errorf("columns not read: %v; periods %+v", f.Unknown, f.Periods)
	}
	again, err := billing.Read(bytes.NewReader(plain), billing.Options{})
	if err != nil || again.Hash != f.Hash {
		t.Errorf("the same file unzipped has another hash: %v", err)
	}
	t.Logf("billed %s, effective %s, list %s in %d rows from %d lines; not read: %v", f.Billed, f.Effect, f.List, len(f.Rows), f.Lines, f.Unknown)
}
