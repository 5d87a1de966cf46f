package httpapi

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

const billImportDeadline = 10 * time.Minute // from the last part to the last charge

// BillUploadStart announces a file.
type BillUploadStart struct {
	Name   string         `json:"name" maxLength:"200" doc:"of the file, to recognise it by"`
	Bytes  int64          `json:"bytes" minimum:"1" maximum:"1073741824" doc:"of the file as it is sent, zipped or not"`
	SHA256 string         `json:"sha256" pattern:"^[0-9a-f]{64}$" doc:"of the file as it is sent; the same file again goes on where it stopped"`
	Format billing.Format `json:"format,omitempty" enum:"focus,aws_cur,azure,gcp_detail" doc:"default: found out from the columns"`
	Mode   store.BillMode `json:"mode,omitempty" enum:"new,add,replace" default:"new" doc:"as of an import in one piece"`
}

// BillUpload is a file on its way.
type BillUpload struct {
	ID        string    `json:"id" format:"uuid"`
	Name      string    `json:"name"`
	Bytes     int64     `json:"bytes"`
	PartBytes int64     `json:"part_bytes" doc:"of each part but the last, which has the rest"`
	Parts     int       `json:"parts" doc:"numbered from 0"`
	Here      []int     `json:"here" doc:"parts that have arrived"`
	BillID    string    `json:"bill_id,omitempty" doc:"once it is finished"`
	ExpiresAt time.Time `json:"expires_at" doc:"what has not been finished by then is forgotten"`
}

// BillUploadPath names an upload. Exported because huma passes over embedded types that are not.
type BillUploadPath struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Server) registerBillUploads() {
	tags := []string{"bills"}
	op(s, huma.Operation{OperationID: "start-bill-upload", Method: http.MethodPost, Path: "/api/v1/bill-uploads", Summary: "Begin to import a large bill in parts",
		Description: "Of up to 1 GiB as it is sent. Parts may come in any order and again; a line that breaks loses one part. The same file, by its sha256, goes on where it stopped.", Tags: tags, Errors: []int{409, 422}}, auth.RoleFinance, s.startBillUpload)
	op(s, huma.Operation{OperationID: "get-bill-upload", Method: http.MethodGet, Path: "/api/v1/bill-uploads/{id}", Summary: "Which parts have arrived", Tags: tags, Errors: []int{404}}, auth.RoleFinance, s.getBillUpload)
	op(s, huma.Operation{OperationID: "put-bill-part", Method: http.MethodPut, Path: "/api/v1/bill-uploads/{id}/parts/{part}", Summary: "Send a part", Description: "The same part again changes nothing.", Tags: tags, DefaultStatus: http.StatusNoContent,
		Errors: []int{404, 409, 413, 422}, MaxBodyBytes: store.BillPartBytes + 1, BodyReadTimeout: billReadTimeout, SkipValidateBody: true,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}}, auth.RoleFinance, s.putBillPart)
	op(s, huma.Operation{OperationID: "finish-bill-upload", Method: http.MethodPost, Path: "/api/v1/bill-uploads/{id}/finish", Summary: "Import the bill whose parts have arrived",
		Description: "All of it or nothing. It is read part by part; finishing it again gives the same bill.", Tags: tags, Errors: []int{404, 409, 413, 422, 503}}, auth.RoleFinance, s.finishBillUpload)
	op(s, huma.Operation{OperationID: "delete-bill-upload", Method: http.MethodDelete, Path: "/api/v1/bill-uploads/{id}", Summary: "Abandon an upload", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{404}}, auth.RoleFinance, s.deleteBillUpload)
}

func showBillUpload(u store.BillUpload) BillUpload {
	return BillUpload{ID: u.ID, Name: u.Name, Bytes: u.Bytes, PartBytes: u.PartBytes, Parts: u.Parts(), Here: u.Here, BillID: u.Bill, ExpiresAt: u.ExpiresAt.UTC()}
}

func (s *Server) startBillUpload(ctx context.Context, p auth.Principal, in *struct{ Body BillUploadStart }) (*struct{ Body BillUpload }, error) {
	out := &struct{ Body BillUpload }{}
	mode := in.Body.Mode
	if mode == "" {
		mode = store.BillNew
	}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		u, err := store.StartBillUpload(ctx, tx, store.BillUpload{Key: in.Body.SHA256, Name: strings.TrimSpace(in.Body.Name), Format: in.Body.Format, Mode: mode, Bytes: in.Body.Bytes, CreatedBy: p.Actor()})
		if err != nil {
			return err
		}
		out.Body = showBillUpload(u)
		return nil
	})
	return out, err
}

func (s *Server) getBillUpload(ctx context.Context, p auth.Principal, in *BillUploadPath) (*struct{ Body BillUpload }, error) {
	out := &struct{ Body BillUpload }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		u, err := store.LoadBillUpload(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		out.Body = showBillUpload(u)
		return nil
	})
	return out, err
}

func (s *Server) putBillPart(ctx context.Context, p auth.Principal, in *struct {
	BillUploadPath
	Part    int `path:"part" minimum:"0" maximum:"127"`
	RawBody []byte
}) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		return store.SaveBillPart(ctx, tx, in.ID, in.Part, in.RawBody)
	})
}

func (s *Server) finishBillUpload(ctx context.Context, p auth.Principal, in *BillUploadPath) (*struct{ Body BillImport }, error) {
	ctx, cancel := context.WithTimeout(ctx, billImportDeadline)
	defer cancel()
	var u store.BillUpload
	out := &struct{ Body BillImport }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		if u, err = store.LoadBillUpload(ctx, tx, in.ID); err != nil || u.Bill == "" {
			return err
		}
		b, err := store.LoadBill(ctx, tx, u.Bill)
		out.Body = BillImport{Bill: showBill(b), Known: true, Replaced: []string{}}
		return err
	})
	switch {
	case err != nil || u.Bill != "":
		return out, err
	case len(u.Here) < u.Parts():
		return nil, fleet.Errorf(fleet.CodeConflict, "%d of %d parts have arrived", len(u.Here), u.Parts())
	}
	out.Body, err = s.takeBill(ctx, p, store.BillUploadReader(ctx, s.deps.DB, p.Tenant, u), u.Name, u.Format, u.Mode, func(tx *store.Tx, bill string) error {
		return store.FinishBillUpload(ctx, tx, u.ID, bill)
	})
	return out, err
}

// takeBill reads a bill and keeps it, all or nothing. also runs in the same transaction.
func (s *Server) takeBill(ctx context.Context, p auth.Principal, in io.Reader, name string, format billing.Format, mode store.BillMode, also func(tx *store.Tx, bill string) error) (out BillImport, err error) {
	if err := s.takeExport(); err != nil {
		return out, err
	}
	defer func() { <-s.exports }()
	f, err := billing.Read(in, billing.Options{Format: format, Currency: s.prices().Currency()})
	if err != nil {
		return out, inFile(err)
	}
	if name = strings.TrimSpace(name); name == "" {
		name = string(f.Format) + " " + f.From.Format("2006-01")
	}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		b, known, replaced, err := store.SaveBill(ctx, tx, name, f, mode, p.Actor())
		if err != nil {
			return err
		}
		out = BillImport{Bill: showBill(b), Known: known, Replaced: []string{}}
		for _, r := range replaced {
			out.Replaced = append(out.Replaced, r.Name)
		}
		if err := also(tx, b.ID); err != nil || known {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "bill.import", "bill/"+b.ID, map[string]string{"name": name, "format": string(f.Format), "lines": strconv.Itoa(f.Lines), "billed": f.Billed.String(), "mode": string(mode)})
	})
	return out, err
}

func (s *Server) deleteBillUpload(ctx context.Context, p auth.Principal, in *BillUploadPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error { return store.DeleteBillUpload(ctx, tx, in.ID) })
}
