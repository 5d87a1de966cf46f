package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// A large bill that broke off is sent from where it stopped, and finished.
func TestALargeBillGoesOnWhereItStopped(t *testing.T) {
	var sent []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, fmt.Sprintf("%s %s %d", r.Method, r.URL.Path, len(body)))
		switch {
		case r.URL.Path == "/api/v1/bill-uploads":
			if !bytes.Contains(body, []byte(`"bytes":16777217`)) || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("begun with %s", body)
			}
			sent = sent[:0]
			fmt.Fprint(w, `{"id": "u1", "part_bytes": 8388608, "parts": 3, "here": [1]}`)
		case r.Method == http.MethodPut:
			w.WriteHeader(http.StatusNoContent)
		default:
			fmt.Fprint(w, `{"bill": {"id": "b1", "name": "large.csv", "lines": 7}, "known": false, "replaced": []}`)
		}
	}))
	t.Cleanup(service.Close)
	t.Setenv("PLIMSOLL_API_KEY", "k")
	path := filepath.Join(t.TempDir(), "large.csv")
	if err := os.WriteFile(path, make([]byte, 16<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"bill", "import", "-url", service.URL, path}, &out, &errs); code != 0 || !strings.Contains(out.String(), "1 of 3 parts are there") || !strings.Contains(out.String(), "as b1: 7 rows") {
		t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
	}
	if got, want := strings.Join(sent, ", "), "PUT /api/v1/bill-uploads/u1/parts/0 8388608, PUT /api/v1/bill-uploads/u1/parts/2 1, POST /api/v1/bill-uploads/u1/finish 0"; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}
