package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
)

const billUsage = `Usage: plimsoll bill check [-format F] [-currency C] FILE
       plimsoll bill import [-url URL] [-mode new|add|replace] [-format F] [-name NAME] FILE
       plimsoll bill list [-url URL]

check reads a bill as an import would, prints what is in it, and changes nothing. import sends it to the service, all of it or nothing; a large
file in parts, of which those that arrived are not sent again when the import is tried again.
Formats: FOCUS 1.0 to 1.3 (CSV), AWS Cost and Usage Report (CSV), Azure cost details (CSV), Google detailed usage cost export (CSV or JSON
lines); each also gzipped, and found out from its columns. URL is the service's address (default PLIMSOLL_URL, else http://localhost:8080); the
API key is read from PLIMSOLL_API_KEY and needs the role finance to import.
`

func billCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
		fmt.Fprint(stdout, billUsage)
		return nil
	}
	if len(args) > 0 {
		switch args[0] {
		case "check":
			return billCheck(args[1:], stdout, stderr)
		case "import":
			return billImport(ctx, args[1:], stdout, stderr)
		case "list":
			return billList(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprint(stderr, billUsage)
	return errUsage
}

func billCheck(args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll bill check FILE", flag.ContinueOnError)
	format := set.String("format", "", "of the file; default: found out")
	currency := set.String("currency", "", "that all charges must have")
	if err := parse(set, args, stderr, 1); err != nil {
		return err
	}
	if set.NArg() != 1 {
		fmt.Fprint(stderr, billUsage)
		return errUsage
	}
	f, err := os.Open(set.Arg(0))
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "%v", err)
	}
	defer func() { _ = f.Close() }()
	b, err := billing.Read(f, billing.Options{Format: billing.Format(*format), Currency: *currency})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "format      %s\nrows        %d in %d charges\ncharges     %s to %s\nbilled      %s %s\neffective   %s, %d rows do not say it\nlist        %s, %d rows do not say it\nrounded     %d values\n",
		b.Format, b.Lines, len(b.Rows), b.From.Format(time.RFC3339), b.To.Format(time.RFC3339), b.Billed, b.Currency, b.Effect, b.NoEffective, b.List, b.NoList, b.Rounded)
	for _, p := range b.Periods {
		fmt.Fprintf(stdout, "period      %s %s of %s account %q: %d rows, billed %s\n", p.From.Format(time.DateOnly), p.To.Format(time.DateOnly), p.Provider, p.Account, p.Lines, p.Billed)
	}
	kinds, order := map[billing.Kind]billing.Amount{}, []billing.Kind{billing.KindMachine, billing.KindUnused, billing.KindPurchase, billing.KindStorage, billing.KindNetwork, billing.KindSupport, billing.KindTax, billing.KindCredit, billing.KindOther}
	for _, r := range b.Rows {
		kinds[r.Kind] = kinds[r.Kind].Add(r.Billed)
	}
	for _, k := range order {
		if a, ok := kinds[k]; ok {
			fmt.Fprintf(stdout, "  %-9s %s\n", k, a)
		}
	}
	if len(b.Unknown) > 0 {
		fmt.Fprintf(stdout, "not read    %d of %d columns: %v\n", len(b.Unknown), b.Columns, b.Unknown)
	}
	return nil
}

func billImport(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll bill import FILE", flag.ContinueOnError)
	base := serviceURL(set)
	mode := set.String("mode", "new", "what to do when an account's billing period has a bill: new (refuse), add, replace")
	format := set.String("format", "", "of the file; default: found out")
	name := set.String("name", "", "to recognise it by; default: the file's")
	if err := parse(set, args, stderr, 1); err != nil {
		return err
	}
	if set.NArg() != 1 {
		fmt.Fprint(stderr, billUsage)
		return errUsage
	}
	f, err := os.Open(set.Arg(0))
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "%v", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("read bill: %w", err)
	case info.Size() > store.MaxBillUpload:
		return fleet.Errorf(fleet.CodeTooLarge, "%s has %d bytes, more than %d; gzip it, or import it in parts with -mode add", set.Arg(0), info.Size(), store.MaxBillUpload)
	}
	if *name == "" {
		*name = filepath.Base(set.Arg(0))
	}
	var done httpapi.BillImport
	if info.Size() > store.BillPartBytes {
		if done, err = billUpload(ctx, *base, f, httpapi.BillUploadStart{Name: *name, Bytes: info.Size(), Format: billing.Format(*format), Mode: store.BillMode(*mode)}, stdout); err != nil {
			return err
		}
	} else {
		query := url.Values{"mode": {*mode}, "name": {*name}}
		if *format != "" {
			query.Set("format", *format)
		}
		if err := callService(ctx, *base, http.MethodPost, "/api/v1/bills?"+query.Encode(), bufio.NewReader(f), info.Size(), &done); err != nil {
			return err
		}
	}
	b := done.Bill
	if done.Known {
		fmt.Fprintf(stdout, "known already as %s (%s); nothing changed\n", b.Name, b.ID)
		return nil
	}
	fmt.Fprintf(stdout, "imported %s as %s: %d rows in %d charges, billed %s %s, effective %s, %s to %s\n", b.Name, b.ID, b.Lines, b.Charges, b.Billed.Amount, b.Billed.Currency, b.Effective.Amount,
		b.From.Format(time.DateOnly), b.To.Format(time.DateOnly))
	for _, r := range done.Replaced {
		fmt.Fprintf(stdout, "in place of %s\n", r)
	}
	if len(b.Unread) > 0 {
		fmt.Fprintf(stdout, "columns not read: %v\n", b.Unread)
	}
	return nil
}

func billList(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll bill list", flag.ContinueOnError)
	base := serviceURL(set)
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	var all struct {
		Items []httpapi.Bill `json:"items"`
	}
	if err := callService(ctx, *base, http.MethodGet, "/api/v1/bills", nil, 0, &all); err != nil {
		return err
	}
	for _, b := range all.Items {
		fmt.Fprintf(stdout, "%s  %-10s  %s to %s  %14s %s  %s\n", b.ID, b.Format, b.From.Format(time.DateOnly), b.To.Format(time.DateOnly), b.Billed.Amount, b.Billed.Currency, b.Name)
	}
	return nil
}

// serviceURL is where the service listens, by flag or environment.
func serviceURL(set *flag.FlagSet) *string {
	address := os.Getenv("PLIMSOLL_URL")
	if address == "" {
		address = "http://localhost:8080"
	}
	return set.String("url", address, "address of the service")
}

const (
	callDeadline   = 12 * time.Minute
	maxServiceJSON = 64 << 20
)

// callService asks the REST API with the key of the environment. out gets JSON, or is an io.Writer that gets the body as it is.
func callService(ctx context.Context, base, method, path string, body io.Reader, size int64, out any) error {
	key := os.Getenv("PLIMSOLL_API_KEY")
	if key == "" {
		return fleet.Errorf(fleet.CodeInvalid, "set PLIMSOLL_API_KEY to an API key of the service")
	}
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, base+path, body)
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "%q is no address", base)
	}
	r.ContentLength = size
	r.Header.Set("Authorization", "Bearer "+key)
	if body != nil {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if _, ok := body.(*bytes.Reader); ok { // what is not a file
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fleet.Errorf(fleet.CodeUnavailable, "the service does not answer: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusBadRequest {
		var problem struct{ Title, Detail string }
		_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&problem)
		return &fleet.Error{Code: codeOfStatus(resp.StatusCode), Message: fmt.Sprintf("%s: %s", resp.Status, problem.Detail)}
	}
	if out == nil {
		return nil
	}
	if w, ok := out.(io.Writer); ok {
		if _, err := io.Copy(w, resp.Body); err != nil {
			return fmt.Errorf("the answer broke off: %w", err)
		}
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxServiceJSON)).Decode(out); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

func codeOfStatus(status int) fleet.Code {
	switch status {
	case http.StatusConflict:
		return fleet.CodeConflict
	case http.StatusUnauthorized, http.StatusForbidden:
		return fleet.CodeForbidden
	case http.StatusRequestEntityTooLarge:
		return fleet.CodeTooLarge
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return fleet.CodeInvalid
	}
	return fleet.CodeUnavailable
}

// billUpload sends a file in parts. What arrived of it in an earlier try is not sent again.
func billUpload(ctx context.Context, base string, f io.ReaderAt, start httpapi.BillUploadStart, stdout io.Writer) (done httpapi.BillImport, err error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(f, 0, start.Bytes)); err != nil {
		return done, fmt.Errorf("read bill: %w", err)
	}
	start.SHA256 = hex.EncodeToString(hash.Sum(nil))
	body, err := json.Marshal(start)
	if err != nil {
		return done, fmt.Errorf("encode upload: %w", err)
	}
	var u httpapi.BillUpload
	if err := callService(ctx, base, http.MethodPost, "/api/v1/bill-uploads", bytes.NewReader(body), int64(len(body)), &u); err != nil {
		return done, err
	}
	if n := len(u.Here); n > 0 && u.BillID == "" {
		fmt.Fprintf(stdout, "goes on: %d of %d parts are there\n", n, u.Parts)
	}
	for n := range u.Parts {
		if u.BillID != "" || slices.Contains(u.Here, n) {
			continue
		}
		size := min(u.PartBytes, start.Bytes-int64(n)*u.PartBytes)
		part := bufio.NewReader(io.NewSectionReader(f, int64(n)*u.PartBytes, size))
		if err := callService(ctx, base, http.MethodPut, fmt.Sprintf("/api/v1/bill-uploads/%s/parts/%d", u.ID, n), part, size, nil); err != nil {
			return done, fmt.Errorf("part %d of %d: %w; import the same file again to go on from there", n, u.Parts, err)
		}
	}
	return done, callService(ctx, base, http.MethodPost, "/api/v1/bill-uploads/"+u.ID+"/finish", nil, 0, &done)
}
