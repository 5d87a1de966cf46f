package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// MaxBillBytes bounds an upload in one piece, zipped or not. Larger files are uploaded in parts.
const MaxBillBytes = 64 << 20

const billReadTimeout = 5 * time.Minute // for the body of an upload

// BillMoney is an amount of a bill: a decimal string with up to eighteen places.
type BillMoney struct {
	Amount   string `json:"amount" example:"0.000000805" doc:"decimal, exact to 1e-18"`
	Currency string `json:"currency" example:"USD" doc:"ISO 4217"`
}

// BillPeriod is what a bill holds of one billing period of an account.
type BillPeriod struct {
	Provider string    `json:"provider"`
	Account  string    `json:"account"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to" doc:"exclusive"`
	Lines    int       `json:"lines"`
	Billed   BillMoney `json:"billed"`
}

// Bill is an imported file.
type Bill struct {
	ID          string         `json:"id" format:"uuid"`
	Name        string         `json:"name"`
	Format      billing.Format `json:"format" enum:"focus,aws_cur,azure,gcp_detail"`
	ContentHash string         `json:"content_hash" doc:"SHA-256 of the content, unzipped"`
	Bytes       int64          `json:"bytes" doc:"unzipped"`
	Lines       int64          `json:"lines" doc:"rows of the file"`
	Charges     int            `json:"charges" doc:"what is kept of them: lines of one day with the same dimensions are one charge"`
	From        time.Time      `json:"from"`
	To          time.Time      `json:"to" doc:"exclusive"`
	Billed      BillMoney      `json:"billed"`
	Effective   BillMoney      `json:"effective" doc:"amortised; of the lines that say it"`
	List        BillMoney      `json:"list" doc:"of the lines that say it"`
	NoEffective int64          `json:"lines_without_effective"`
	NoList      int64          `json:"lines_without_list"`
	Rounded     int64          `json:"rounded_values" doc:"values with more than eighteen places"`
	Unread      []string       `json:"unread_columns" doc:"columns of the file that nothing here reads"`
	Periods     []BillPeriod   `json:"periods"`
	CreatedBy   string         `json:"created_by"`
	CreatedAt   time.Time      `json:"created_at"`
}

// BillImport is what an import did.
type BillImport struct {
	Bill     Bill     `json:"bill"`
	Known    bool     `json:"known" doc:"the same content was imported before; nothing changed"`
	Replaced []string `json:"replaced" doc:"names of the bills that this one stands for now"`
}

// BillPath names a bill. Exported because huma passes over embedded types that are not.
type BillPath struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Server) registerBills() {
	tags := []string{"bills"}
	file := func(what string) *huma.MediaType {
		return &huma.MediaType{Schema: &huma.Schema{Type: "string", Format: "binary", Description: what}}
	}
	op(s, huma.Operation{OperationID: "list-bills", Method: http.MethodGet, Path: "/api/v1/bills", Summary: "List imported bills", Tags: tags}, auth.RoleViewer, s.listBills)
	op(s, huma.Operation{OperationID: "import-bill", Method: http.MethodPost, Path: "/api/v1/bills", Summary: "Import a bill: all of it or nothing",
		Description: "The body is the file as it is, also gzipped: FOCUS 1.0 to 1.3 (CSV), AWS Cost and Usage Report (CSV), Azure cost details (CSV), Google detailed usage cost export (CSV, JSON lines). At most 64 MiB. " +
			"The same content again changes nothing. An error names row and column.",
		Tags: tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 413, 422, 503}, MaxBodyBytes: MaxBillBytes, BodyReadTimeout: billReadTimeout, SkipValidateBody: true,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": file("The file, zipped or not"), "text/csv": file("CSV"), "application/gzip": file("gzipped"),
			"application/x-ndjson": file("A JSON object a line")}}}, auth.RoleFinance, s.importBill)
	op(s, huma.Operation{OperationID: "get-bill", Method: http.MethodGet, Path: "/api/v1/bills/{id}", Summary: "Get a bill", Tags: tags, Errors: []int{404}}, auth.RoleViewer, s.getBill)
	op(s, huma.Operation{OperationID: "delete-bill", Method: http.MethodDelete, Path: "/api/v1/bills/{id}", Summary: "Take a bill out of all comparisons", Tags: tags, DefaultStatus: http.StatusNoContent,
		Errors: []int{404, 409}}, auth.RoleFinance, s.deleteBill)
	s.registerBillUploads()
	s.registerReconciliation()
	s.registerAllocationExport()
	s.registerRestatements()
}

func (s *Server) listBills(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []Bill `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Bill `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.Bills(ctx, tx)
		out.Body.Items = make([]Bill, 0, len(all))
		for _, b := range all {
			out.Body.Items = append(out.Body.Items, showBill(b))
		}
		return err
	})
	return out, err
}

func (s *Server) getBill(ctx context.Context, p auth.Principal, in *BillPath) (*struct{ Body Bill }, error) {
	out := &struct{ Body Bill }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		b, err := store.LoadBill(ctx, tx, in.ID)
		out.Body = showBill(b)
		return err
	})
	return out, err
}

func (s *Server) deleteBill(ctx context.Context, p auth.Principal, in *BillPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		b, err := store.LoadBill(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if err := store.DeleteBill(ctx, tx, in.ID, p.Actor()); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "bill.delete", "bill/"+in.ID, map[string]string{"name": b.Name})
	})
}

func (s *Server) importBill(ctx context.Context, p auth.Principal, in *struct {
	Name    string         `query:"name" maxLength:"200" doc:"of the file, to recognise it by"`
	Format  billing.Format `query:"format" enum:"focus,aws_cur,azure,gcp_detail" doc:"default: found out from the columns"`
	Mode    store.BillMode `query:"mode" enum:"new,add,replace" default:"new" doc:"what to do when an account's billing period has a bill already: refuse, keep both as parts of one, or let this one stand for it"`
	RawBody []byte
}) (*struct{ Body BillImport }, error) {
	body, err := s.takeBill(ctx, p, bytes.NewReader(in.RawBody), in.Name, in.Format, in.Mode, func(*store.Tx, string) error { return nil })
	if err != nil {
		return nil, err
	}
	return &struct{ Body BillImport }{body}, nil
}

// takeExport takes one of the places for work that holds a connection and much memory; its owner gives it back.
func (s *Server) takeExport() error {
	select {
	case s.exports <- struct{}{}:
		return nil
	default:
		return fleet.Errorf(fleet.CodeUnavailable, "other exports, imports or comparisons are running; try again in half a minute")
	}
}

// inFile puts the field of an error into its text only: it is a column of a file, not a field of the request.
func inFile(err error) error {
	if code, message, field := explain(err); field != "" {
		return &fleet.Error{Code: code, Message: message, Field: "body", Err: err}
	}
	return err
}

func billMoney(a billing.Amount, currency string) BillMoney { return BillMoney{a.String(), currency} }

func showBill(b store.Bill) Bill {
	v := Bill{ID: b.ID, Name: b.Name, Format: b.Format, ContentHash: b.Hash, Bytes: b.Bytes, Lines: b.Lines, Charges: b.Charges, From: b.From.UTC(), To: b.To.UTC(), Billed: billMoney(b.Billed, b.Currency),
		Effective: billMoney(b.Effective, b.Currency), List: billMoney(b.List, b.Currency), NoEffective: b.NoEffective, NoList: b.NoList, Rounded: b.Rounded, Unread: b.Unread, CreatedBy: b.CreatedBy,
		CreatedAt: b.CreatedAt.UTC(), Periods: make([]BillPeriod, 0, len(b.Periods))}
	for _, p := range b.Periods {
		v.Periods = append(v.Periods, BillPeriod{Provider: p.Provider, Account: p.Account, From: p.From, To: p.To, Lines: p.Lines, Billed: billMoney(p.Billed, b.Currency)})
	}
	return v
}

// daySpan checks a span of whole days.
func daySpan(from, to time.Time) (time.Time, time.Time, error) {
	from, to = from.UTC(), to.UTC()
	switch {
	case !from.Equal(from.Truncate(24*time.Hour)) || !to.Equal(to.Truncate(24*time.Hour)):
		return from, to, &fleet.Error{Code: fleet.CodeInvalid, Message: "from and to must be whole days of UTC: bills are compared by day", Field: "query.from"}
	case !from.Before(to):
		return from, to, &fleet.Error{Code: fleet.CodeInvalid, Message: "from must lie before to", Field: "query.from"}
	case to.Sub(from) > maxReconciledDays*24*time.Hour:
		return from, to, &fleet.Error{Code: fleet.CodeInvalid, Message: fmt.Sprintf("the span is too long: at most %d days", maxReconciledDays), Field: "query.from"}
	}
	return from, to, nil
}
