package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBillCommand(t *testing.T) {
	t.Parallel()
	const head = "BillingCurrency,BilledCost,EffectiveCost,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ServiceName,ProviderName,x_Note\n"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.csv", head+"USD,0.0000000001,0.5,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,Usage,Queue,AWS,x\n")
	bad := write("bad.csv", head+"USD,much,0.5,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,Usage,Queue,AWS,x\n")
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"a good file", []string{"check", good}, 0, "billed      0.0000000001 USD"},
		{"a good file names what it does not read", []string{"check", good}, 0, "not read    1 of 9 columns: [x_Note]"},
		{"a word for a number", []string{"check", bad}, 2, "row 2, column BilledCost"},
		{"another currency", []string{"check", "-currency", "EUR", good}, 2, "in USD, the ledger in EUR"},
		{"another format", []string{"check", "-format", "azure", good}, 2, "azure needs the column"},
		{"no such format", []string{"check", "-format", "xml", good}, 2, "no"},
		{"no file", []string{"check", filepath.Join(dir, "gone")}, 2, "gone"},
		{"nothing to import", []string{"import"}, 2, "Usage"},
		{"an unknown word", []string{"pay"}, 2, "Usage"},
		{"help", []string{"help"}, 0, "Usage"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if code := run(t.Context(), append([]string{"bill"}, c.args...), &out, &errs); code != c.code || !strings.Contains(out.String()+errs.String(), c.out) {
				t.Errorf("exit %d, want %d\n%s%s", code, c.code, out.String(), errs.String())
			}
		})
	}
}
