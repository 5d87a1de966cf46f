package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/store"
)

const (
	exportsAtOnce  = 2 // of one process: each holds a connection to the database
	exportDeadline = 10 * time.Minute
	exportStall    = 30 * time.Second // for the client to take what was written
	exportChunk    = 64 << 10
	parquetType    = "application/vnd.apache.parquet"
)

// FocusQuery selects what is exported. Exported because huma passes over embedded types that are not.
type FocusQuery struct {
	From    time.Time       `query:"from" required:"true" doc:"a whole hour, UTC"`
	To      time.Time       `query:"to" required:"true" doc:"exclusive; a whole hour, UTC"`
	Cluster fleet.ClusterID `query:"cluster" format:"uuid" doc:"default: all clusters, and what is unused of commitments"`
	Format  string          `query:"format" enum:"csv,parquet" default:"csv"`
}

func (s *Server) registerFocus() {
	op(s, huma.Operation{OperationID: "export-focus", Method: http.MethodGet, Path: "/api/v1/exports/focus", Summary: "Costs as FOCUS 1.2 with the split columns of 1.3",
		Description: "One row per machine, hour and who bears it, from the closed hours of the ledger. EffectiveCost adds up to the ledger to the last nano-unit. Headers say what the export holds: " +
			"Plimsoll-Ledger-Total, Plimsoll-Closed-Hours, Plimsoll-Open-Hours (not exported yet) and Plimsoll-Unpriced-Node-Seconds (without a price, so without a row).",
		Tags: []string{"cost"}, Responses: map[string]*huma.Response{"200": {Description: "The export", Content: map[string]*huma.MediaType{"text/csv": {Schema: &huma.Schema{Type: "string"}},
			parquetType: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}}},
		auth.RoleViewer, s.exportFocus)
}

func (s *Server) exportFocus(_ context.Context, p auth.Principal, in *FocusQuery) (*huma.StreamResponse, error) {
	from, to := in.From.UTC(), in.To.UTC()
	switch {
	case !from.Equal(from.Truncate(time.Hour)) || !to.Equal(to.Truncate(time.Hour)):
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "from and to must be whole hours: a charge is for an hour", Field: "query.from"}
	case !from.Before(to):
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "from must lie before to", Field: "query.from"}
	case to.Sub(from) > maxCostDays:
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "the span is too long: at most 400 days", Field: "query.from"}
	}
	export := store.FocusExport{From: from, To: to, Cluster: in.Cluster, Currency: s.prices().Currency()}
	return &huma.StreamResponse{Body: func(ctx huma.Context) { s.streamFocus(ctx, p, export, in.Format) }}, nil
}

// streamFocus writes the export as it is read. Before its first byte an error is a problem; after it, the connection breaks off, so that
// nobody takes a part for the whole.
func (s *Server) streamFocus(hctx huma.Context, p auth.Principal, export store.FocusExport, format string) {
	r, w := humachi.Unwrap(hctx)
	select {
	case s.exports <- struct{}{}:
		defer func() { <-s.exports }()
	default:
		w.Header().Set("Retry-After", "30")
		writeProblem(w, r, fleet.Errorf(fleet.CodeUnavailable, "other exports are running; try again in half a minute"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), exportDeadline)
	defer cancel()
	out := &stallGuard{w: w, control: http.NewResponseController(w)}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.Snapshot(ctx, tx); err != nil {
			return err
		}
		coverage, err := export.Coverage(ctx, tx)
		if err != nil {
			return err
		}
		h := w.Header()
		h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
		if format == "parquet" {
			h.Set("Content-Type", parquetType)
		}
		h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="focus-%s-%s.%s"`, export.From.Format("20060102T15"), export.To.Format("20060102T15"), format))
		h.Set("Plimsoll-Ledger-Total", coverage.Total.String())
		h.Set("Plimsoll-Closed-Hours", strconv.Itoa(coverage.ClosedHours))
		h.Set("Plimsoll-Open-Hours", strconv.Itoa(coverage.OpenHours))
		h.Set("Plimsoll-Unpriced-Node-Seconds", strconv.FormatInt(coverage.UnpricedNodeSeconds, 10))
		buffer := bufio.NewWriterSize(out, exportChunk)
		file, err := focus.NewFileWriter(buffer, format)
		if err != nil {
			return err
		}
		export.Node = func(n focus.NodeHour) error {
			rows := n.Rows()
			for i := range rows {
				if err := file.Write(&rows[i]); err != nil {
					return err
				}
			}
			return nil
		}
		export.Unused = func(u focus.Unused) error {
			row := u.Row()
			return file.Write(&row)
		}
		export.Purchase = func(u focus.Purchase) error {
			row := u.Row()
			return file.Write(&row)
		}
		if err := export.Walk(ctx, tx); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
		return buffer.Flush()
	})
	switch {
	case err == nil:
		_ = out.control.SetWriteDeadline(time.Time{})
	case !out.begun:
		w.Header().Del("Content-Disposition")
		if code, _, _ := explain(err); code == fleet.CodeInternal {
			s.deps.Log.Error("export failed", "tenant", p.Tenant, "error", err)
		}
		writeProblem(w, r, err)
	default:
		s.deps.Log.Warn("export broke off", "tenant", p.Tenant, "error", err)
		panic(http.ErrAbortHandler)
	}
}

// stallGuard gives a client a while to take each chunk: it holds a transaction open.
type stallGuard struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

// Write implements io.Writer.
func (g *stallGuard) Write(b []byte) (int, error) {
	g.begun = true
	_ = g.control.SetWriteDeadline(time.Now().Add(exportStall))
	return g.w.Write(b)
}
