package httpapi

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

const (
	maxReconciledDays = 92
	reconcileDeadline = 2 * time.Minute
	shownGaps         = 200 // of each list; the CSV has all
)

// GapCause is why bill and ledger differ, and by how much.
type GapCause struct {
	Cause  billing.Cause `json:"cause" enum:"price,hours,time_shift,commitment,unknown_price,unseen_resource,unbilled,not_billed_yet,own_machine,tax,support,network,storage,credit,other_service"`
	Amount BillMoney     `json:"amount" doc:"what the bill has more; negative: less"`
}

// GapLine is a day of one service.
type GapLine struct {
	Day      time.Time `json:"day"`
	Provider string    `json:"provider"`
	Service  string    `json:"service"`
	Estimate BillMoney `json:"estimate"`
	Bill     BillMoney `json:"bill"`
	Gap      BillMoney `json:"gap"`
}

// GapPair is what bill and ledger say about the same machines on a day.
type GapPair struct {
	Day           time.Time      `json:"day"`
	Level         billing.Level  `json:"level" enum:"resource,group,commitment" doc:"resource: the bill names this machine; group: machines of one type and place; commitment: unused parts"`
	Provider      string         `json:"provider"`
	Service       string         `json:"service"`
	Region        string         `json:"region,omitempty"`
	InstanceType  string         `json:"instance_type,omitempty"`
	Purchase      fleet.Purchase `json:"purchase,omitempty"`
	Resource      string         `json:"resource,omitempty"`
	Machines      []string       `json:"machines" doc:"names; at most 20"`
	MachineCount  int            `json:"machine_count"`
	EstimateHours float64        `json:"estimate_hours"`
	BillHours     *float64       `json:"bill_hours" doc:"null: the bill does not say"`
	Estimate      BillMoney      `json:"estimate"`
	Bill          BillMoney      `json:"bill"`
	Gap           BillMoney      `json:"gap"`
	Causes        []GapCause     `json:"causes"`
}

// GapCharge is a charge that the ledger has nothing for.
type GapCharge struct {
	From        time.Time        `json:"from"`
	To          time.Time        `json:"to"`
	Provider    string           `json:"provider"`
	Service     string           `json:"service"`
	Category    billing.Category `json:"category" enum:"Usage,Purchase,Tax,Credit,Adjustment"`
	Resource    string           `json:"resource,omitempty"`
	Description string           `json:"description,omitempty"`
	Amount      BillMoney        `json:"amount"`
	Cause       billing.Cause    `json:"cause"`
	FirstLine   int              `json:"first_line" doc:"of the file"`
	Lines       int              `json:"lines"`
}

// GapMachine is a machine's day that the bills have nothing for.
type GapMachine struct {
	Day          time.Time      `json:"day"`
	Cluster      string         `json:"cluster"`
	Machine      string         `json:"machine"`
	Cloud        fleet.Cloud    `json:"cloud,omitempty"`
	InstanceType string         `json:"instance_type,omitempty"`
	Purchase     fleet.Purchase `json:"purchase,omitempty"`
	Amount       BillMoney      `json:"amount"`
	Cause        billing.Cause  `json:"cause"`
}

// Reconciliation holds the bills of a span against the ledger. Every sum is exact: the causes add up to the gap.
type Reconciliation struct {
	From            time.Time    `json:"from"`
	To              time.Time    `json:"to" doc:"exclusive"`
	Estimate        BillMoney    `json:"estimate" doc:"of the ledger: closed hours"`
	Bill            BillMoney    `json:"bill" doc:"effective cost; billed cost of lines that do not say it"`
	Gap             BillMoney    `json:"gap" doc:"bill less estimate"`
	Causes          []GapCause   `json:"causes" doc:"the largest first"`
	EstimateMatched *float64     `json:"estimate_matched" doc:"share of the ledger's money that the bills have something for; null: there is none"`
	BillMatched     *float64     `json:"bill_matched" doc:"share of the money for machines on the bills that the ledger has something for"`
	OpenHours       int          `json:"open_hours" doc:"hours of clusters that are not in the ledger yet"`
	NoEffective     int          `json:"lines_without_effective"`
	Lines           []GapLine    `json:"lines" doc:"by day and service"`
	Pairs           []GapPair    `json:"pairs" doc:"those with the largest gaps"`
	PairCount       int          `json:"pair_count"`
	BillOnly        []GapCharge  `json:"bill_only" doc:"the largest"`
	BillOnlyCount   int          `json:"bill_only_count"`
	LedgerOnly      []GapMachine `json:"ledger_only" doc:"the largest"`
	LedgerOnlyCount int          `json:"ledger_only_count"`
}

// ReconcileQuery selects a span. Exported because huma passes over embedded types that are not.
type ReconcileQuery struct {
	From time.Time `query:"from" required:"true" doc:"a whole day, UTC"`
	To   time.Time `query:"to" required:"true" doc:"exclusive; a whole day, UTC"`
}

func (s *Server) registerReconciliation() {
	tags := []string{"bills"}
	op(s, huma.Operation{OperationID: "reconcile", Method: http.MethodGet, Path: "/api/v1/reconciliation", Summary: "Bills against the ledger: the gap, with causes",
		Description: "A charge for longer than a day stands on its first. At most 92 days.", Tags: tags, Errors: []int{413, 422, 503}}, auth.RoleViewer, s.getReconciliation)
	op(s, huma.Operation{OperationID: "export-reconciliation", Method: http.MethodGet, Path: "/api/v1/exports/reconciliation", Summary: "The whole comparison as CSV: a row per pair, charge and machine", Tags: tags,
		Errors: []int{413, 422, 503}, Responses: map[string]*huma.Response{"200": {Description: "The comparison", Content: map[string]*huma.MediaType{"text/csv": {Schema: &huma.Schema{Type: "string"}}}}}},
		auth.RoleViewer, s.exportReconciliation)
}

// reconcile makes the comparison from one snapshot of the database.
func (s *Server) reconcile(ctx context.Context, p auth.Principal, from, to time.Time) (r billing.Reconciliation, open int, err error) {
	if err := s.takeExport(); err != nil {
		return r, 0, err
	}
	defer func() { <-s.exports }()
	ctx, cancel := context.WithTimeout(ctx, reconcileDeadline)
	defer cancel()
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.Snapshot(ctx, tx); err != nil {
			return err
		}
		rows, err := store.BillRows(ctx, tx, from, to)
		if err != nil {
			return err
		}
		estimates, err := store.LoadBillEstimates(ctx, tx, from, to, false)
		if err != nil {
			return err
		}
		r, open = billing.Reconcile(rows, estimates.Machines, estimates.Unused), estimates.Open
		return nil
	})
	return r, open, err
}

func (s *Server) getReconciliation(ctx context.Context, p auth.Principal, in *ReconcileQuery) (*struct{ Body Reconciliation }, error) {
	from, to, err := daySpan(in.From, in.To)
	if err != nil {
		return nil, err
	}
	r, open, err := s.reconcile(ctx, p, from, to)
	if err != nil {
		return nil, err
	}
	show := gapView{currency: s.prices().Currency()}
	out := &struct{ Body Reconciliation }{Reconciliation{From: from, To: to, Estimate: show.money(r.Estimate), Bill: show.money(r.Bill), Gap: show.money(r.Gap()), Causes: show.causes(r.Causes),
		EstimateMatched: r.EstimateMatched, BillMatched: r.BillMatched, OpenHours: open, NoEffective: r.NoEffective, PairCount: len(r.Pairs), BillOnlyCount: len(r.BillOnly), LedgerOnlyCount: len(r.LedgerOnly),
		Lines: make([]GapLine, 0, len(r.Lines)), Pairs: []GapPair{}, BillOnly: []GapCharge{}, LedgerOnly: []GapMachine{}}}
	for _, l := range r.Lines {
		out.Body.Lines = append(out.Body.Lines, GapLine{l.Day, l.Provider, l.Service, show.money(l.Estimate), show.money(l.Bill), show.money(l.Bill.Sub(l.Estimate))})
	}
	slices.SortStableFunc(r.Pairs, func(a, b billing.Pair) int { return b.Gap().Abs().Cmp(a.Gap().Abs()) })
	for _, pair := range r.Pairs[:min(len(r.Pairs), shownGaps)] {
		out.Body.Pairs = append(out.Body.Pairs, show.pair(pair))
	}
	for _, b := range r.BillOnly[:min(len(r.BillOnly), shownGaps)] {
		out.Body.BillOnly = append(out.Body.BillOnly, GapCharge{b.Row.From, b.Row.To, b.Row.Provider, b.Row.Service, b.Row.Category, cmp.Or(b.Row.Resource, b.Row.ResourceName), b.Row.Description, show.money(b.Amount), b.Cause,
			b.Row.FirstLine, b.Row.Lines})
	}
	for _, l := range r.LedgerOnly[:min(len(r.LedgerOnly), shownGaps)] {
		e := l.Estimate
		out.Body.LedgerOnly = append(out.Body.LedgerOnly, GapMachine{e.Day, e.Cluster, e.Name, e.Cloud, e.InstanceType, e.Purchase, show.money(billing.AmountOf(e.Cost)), l.Cause})
	}
	return out, nil
}

type gapView struct{ currency string }

func (v gapView) money(a billing.Amount) BillMoney { return billMoney(a, v.currency) }

// causes shows the largest first.
func (v gapView) causes(parts []billing.Part) []GapCause {
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b billing.Part) int { return b.Amount.Abs().Cmp(a.Amount.Abs()) })
	out := make([]GapCause, 0, len(parts))
	for _, p := range parts {
		out = append(out, GapCause{p.Cause, v.money(p.Amount)})
	}
	return out
}

func (v gapView) pair(p billing.Pair) GapPair {
	out := GapPair{Day: p.Day, Level: p.Level, Provider: p.Provider, Service: p.Service, Region: p.Region, InstanceType: p.InstanceType, Purchase: p.Purchase, Resource: p.Resource, Machines: []string{},
		MachineCount: len(p.Nodes), EstimateHours: p.EstimateHours.Float(), Estimate: v.money(p.Estimate), Bill: v.money(p.Bill), Gap: v.money(p.Gap()), Causes: v.causes(p.Parts)}
	if p.HoursKnown {
		out.BillHours = ptr(p.BillHours.Float())
	}
	for _, n := range p.Nodes[:min(len(p.Nodes), 20)] {
		out.Machines = append(out.Machines, n.Name)
	}
	return out
}

var reconciliationHead = []string{"day", "what", "cloud_or_provider", "service", "region", "instance_type", "purchase", "resource", "machines", "estimate_hours", "bill_hours", "estimate", "bill", "gap", "causes", "file_line", "description"}

func (s *Server) exportReconciliation(ctx context.Context, p auth.Principal, in *ReconcileQuery) (*huma.StreamResponse, error) {
	from, to, err := daySpan(in.From, in.To)
	if err != nil {
		return nil, err
	}
	r, _, err := s.reconcile(ctx, p, from, to)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", "text/csv; charset=utf-8; header=present")
		c.SetHeader("Content-Disposition", fmt.Sprintf(`attachment; filename="reconciliation-%s-%s.csv"`, from.Format("20060102"), to.Format("20060102")))
		w := csv.NewWriter(c.BodyWriter())
		_ = w.Write(reconciliationHead)
		for _, row := range reconciliationRows(r) {
			for i := range row {
				row[i] = plainCell(row[i])
			}
			if w.Write(row) != nil {
				return
			}
		}
		w.Flush()
	}}, nil
}

// reconciliationRows are all pairs, charges and machines; their gaps add up to the whole.
func reconciliationRows(r billing.Reconciliation) [][]string {
	rows := make([][]string, 0, len(r.Pairs)+len(r.BillOnly)+len(r.LedgerOnly))
	for _, p := range r.Pairs {
		causes := make([]string, len(p.Parts))
		for i, c := range p.Parts {
			causes[i] = string(c.Cause) + " " + c.Amount.String()
		}
		names := make([]string, len(p.Nodes))
		for i, n := range p.Nodes {
			names[i] = n.Name
		}
		hours := ""
		if p.HoursKnown {
			hours = p.BillHours.String()
		}
		rows = append(rows, []string{p.Day.Format(time.DateOnly), string(p.Level), p.Provider, p.Service, p.Region, p.InstanceType, string(p.Purchase), p.Resource, strings.Join(names, " "), p.EstimateHours.String(), hours,
			p.Estimate.String(), p.Bill.String(), p.Gap().String(), strings.Join(causes, "; "), "", ""})
	}
	for _, b := range r.BillOnly {
		rows = append(rows, []string{b.Row.From.Format(time.DateOnly), "bill_only", b.Row.Provider, b.Row.Service, b.Row.Region, b.Row.InstanceType, string(b.Row.Purchase), b.Row.Resource, "", "", "", "0.00", b.Amount.String(),
			b.Amount.String(), string(b.Cause) + " " + b.Amount.String(), fmt.Sprint(b.Row.FirstLine), b.Row.Description})
	}
	for _, l := range r.LedgerOnly {
		e, cost := l.Estimate, billing.AmountOf(l.Estimate.Cost)
		rows = append(rows, []string{e.Day.Format(time.DateOnly), "ledger_only", billing.ProviderName(e.Cloud), billing.ServiceName(e.Cloud), e.Region, e.InstanceType, string(e.Purchase), "", e.Name, "", "", cost.String(), "0.00",
			cost.Neg().String(), string(l.Cause) + " " + cost.Neg().String(), "", ""})
	}
	return rows
}

// plainCell keeps a spreadsheet from taking text of a bill for a formula. Numbers keep their sign.
func plainCell(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := billing.ParseSum(s); err == nil {
		return s
	}
	return "'" + s
}
