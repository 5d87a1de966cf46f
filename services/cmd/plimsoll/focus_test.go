package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/ledger"
)

func TestFocusCheckCommand(t *testing.T) {
	t.Parallel()
	price := fleet.Money(98_320_000_000)
	hour := focus.NodeHour{Account: focus.Account{ID: "t", Name: "Harbour", Currency: "USD"}, Cluster: focus.Cluster{ID: "c", Name: "north"}, Machine: focus.Machine{UID: "g0", Name: "node-g0"},
		Hour: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Millis: time.Hour.Milliseconds(), Version: 1, AsOf: time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC), List: &price, Effective: &price,
		Lines: []focus.Line{{Kind: ledger.KindIdle, Resource: ledger.ResourceGPU, Amount: 98_319_999_999, Quantity: 8}, {Kind: ledger.KindWorkload, Resource: ledger.ResourceCPU, Amount: 1, Quantity: 1}}}
	var good bytes.Buffer
	w, err := focus.NewWriter(&good)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range hour.Rows() {
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(good.Bytes()); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"good.csv": good.Bytes(), "good.csv.gz": zipped.Bytes(), "bad.csv": bytes.Replace(good.Bytes(), []byte("USD"), []byte("usd"), 1), "none.csv": {}, "none.gz": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"a good file", []string{"check", filepath.Join(dir, "good.csv")}, 0, "EffectiveCost 98.320000000"},
		{"a good file, zipped", []string{"check", filepath.Join(dir, "good.csv.gz")}, 0, " 0 broken; 2 rows, 1 split charges"},
		{"a currency in small letters", []string{"check", filepath.Join(dir, "bad.csv")}, 1, "BillingCurrency.format (FOCUS 0.5, line 2)"},
		{"an empty file", []string{"check", filepath.Join(dir, "none.csv")}, 2, ""},
		{"no gzip", []string{"check", filepath.Join(dir, "none.gz")}, 2, ""},
		{"no file", []string{"check", filepath.Join(dir, "gone.csv")}, 2, ""},
		{"the rules", []string{"check", "-rules"}, 0, " rules\n"},
		{"help", []string{"help"}, 0, "Usage"},
		{"nothing", nil, 2, ""},
		{"no name", []string{"check"}, 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if code := run(t.Context(), append([]string{"focus"}, c.args...), &out, &errs); code != c.code || !strings.Contains(out.String(), c.out) {
				t.Errorf("exit %d, want %d\n%s%s", code, c.code, out.String(), errs.String())
			}
		})
	}
}
