package httpapi

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// allocationColumns of the export: a row per day, cluster, kind, group and resource.
var allocationColumns = []focus.ParquetColumn{{Name: "day", Kind: focus.ColumnTime}, {Name: "cluster"}, {Name: "kind"}, {Name: "group"}, {Name: "name"}, {Name: "resource"},
	{Name: "amount", Kind: focus.ColumnDecimal, Places: 9}, {Name: "currency"}, {Name: "quantity", Kind: focus.ColumnDecimal, Places: 9}, {Name: "unit"}}

// maxAllocationRows bounds an export, which is made whole before its first byte is sent.
const maxAllocationRows = 500_000

func (s *Server) registerAllocationExport() {
	op(s, huma.Operation{OperationID: "export-allocations", Method: http.MethodGet, Path: "/api/v1/exports/allocations", Summary: "Who cost what by day, as CSV or Parquet",
		Description: "A row per day, cluster, kind, group and resource, idle apart; the amounts add up to the total of the same view.", Tags: []string{"cost"}, Errors: []int{413, 422, 503},
		Responses: map[string]*huma.Response{"200": {Description: "The export", Content: map[string]*huma.MediaType{"text/csv": {Schema: &huma.Schema{Type: "string"}},
			parquetType: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}}}, auth.RoleViewer, s.exportAllocations)
}

func (s *Server) exportAllocations(ctx context.Context, p auth.Principal, in *struct {
	CostScope
	Format string `query:"format" enum:"csv,parquet" default:"csv"`
}) (*huma.StreamResponse, error) {
	if in.Idle != "separate" {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "the export has idle apart; share it where it is read", Field: "query.idle"}
	}
	if err := s.takeExport(); err != nil {
		return nil, err
	}
	defer func() { <-s.exports }()
	var rows [][]string
	var q store.CostQuery
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		if err := store.Snapshot(ctx, tx); err != nil {
			return err
		}
		if q, err = in.query(ctx, tx, 24*time.Hour); err != nil {
			return err
		}
		rows, err = s.allocationRows(ctx, tx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	media := "text/csv; charset=utf-8; header=present"
	if in.Format == "parquet" {
		media = parquetType
		w := focus.NewParquetWriter(&file, "allocations", allocationColumns)
		for _, r := range rows {
			if err := w.Write(r); err != nil {
				return nil, err
			}
		}
		err = w.Close()
	} else {
		w := csv.NewWriter(&file)
		head := make([]string, len(allocationColumns))
		for i, c := range allocationColumns {
			head[i] = c.Name
		}
		_ = w.Write(head)
		for _, r := range rows {
			for i := range r {
				r[i] = plainCell(r[i])
			}
			_ = w.Write(r)
		}
		w.Flush()
		err = w.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("write allocations: %w", err)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", media)
		c.SetHeader("Content-Disposition", fmt.Sprintf(`attachment; filename="allocations-%s-%s.%s"`, q.From.Format("20060102"), q.To.Format("20060102"), in.Format))
		_, _ = c.BodyWriter().Write(file.Bytes())
	}}, nil
}

// allocationRows are the sums of the query with names for their ids.
func (s *Server) allocationRows(ctx context.Context, tx *store.Tx, q store.CostQuery) ([][]string, error) {
	costs, err := store.Costs(ctx, tx, q)
	switch {
	case err != nil:
		return nil, err
	case len(costs) > maxAllocationRows:
		return nil, fleet.Errorf(fleet.CodeTooLarge, "the span holds more than %d rows; ask for less", maxAllocationRows)
	}
	var names map[string]string
	if q.Aggregate == "workload" || q.Aggregate == "cluster" {
		seen := map[string]bool{}
		var ids []string
		for _, c := range costs {
			if c.Key != "" && !seen[c.Key] && len(c.Key) == 36 {
				seen[c.Key] = true
				ids = append(ids, c.Key)
			}
		}
		if q.Aggregate == "workload" {
			names, err = store.WorkloadKeys(ctx, tx, ids)
		} else {
			names, err = store.ClusterNames(ctx, tx, ids)
		}
		if err != nil {
			return nil, err
		}
	}
	rows := make([][]string, 0, len(costs))
	for _, c := range costs {
		unit := map[ledger.Resource]string{ledger.ResourceCPU: "Core-Hours", ledger.ResourceMemory: "GiB-Hours", ledger.ResourceGPU: "GPU-Hours", ledger.ResourceCommitment: "Hours"}[c.Resource]
		rows = append(rows, []string{c.At.UTC().Format(time.RFC3339), string(c.Cluster), string(c.Kind), c.Key, names[c.Key], string(c.Resource), c.Amount.String(), s.prices().Currency(),
			strconv.FormatFloat(c.Quantity, 'f', 9, 64), unit})
	}
	return rows, nil
}
