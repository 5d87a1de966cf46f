package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// StatementLine is one line of a statement.
type StatementLine struct {
	Kind      string  `json:"kind" enum:"workload,bare_pods,team,idle,shared,unshared,overhead,residual,commitment_unused,others" doc:"idle: what the team's workloads carry of it, or what nobody does; shared: its part of a shared cost; others: workloads beyond the longest list, summed"`
	Name      string  `json:"name"`
	Namespace string  `json:"namespace,omitempty"`
	CPU       *Money  `json:"cpu,omitempty"`
	Memory    *Money  `json:"memory,omitempty"`
	GPU       *Money  `json:"gpu,omitempty"`
	GPUHours  float64 `json:"gpu_hours,omitempty"`
	CoreHours float64 `json:"core_hours,omitempty"`
	GiBHours  float64 `json:"gib_hours,omitempty"`
	Amount    Money   `json:"amount"`
}

// StatementDocument is what a statement says. Its lines add up to the total, to the nano-unit.
type StatementDocument struct {
	Tenant        string          `json:"tenant"`
	Scope         string          `json:"scope" enum:"tenant,team"`
	Team          string          `json:"team" doc:"of scope team; empty: workloads without a team"`
	Month         string          `json:"month" example:"2026-03"`
	TimeZone      string          `json:"time_zone"`
	From          time.Time       `json:"from"`
	To            time.Time       `json:"to" doc:"exclusive"`
	AsOf          time.Time       `json:"as_of" doc:"the versions of the hours that the ledger held at this moment"`
	Total         Money           `json:"total"`
	Lines         []StatementLine `json:"lines"`
	MissingHours  int             `json:"missing_hours" doc:"hours of the month that were still provisional, and are not in it"`
	RestatedHours int             `json:"restated_hours" doc:"hours in it whose version is not their first"`
	UnpricedShare *float64        `json:"unpriced_share" doc:"node time without a price, which is in no amount"`
	IdleScope     string          `json:"idle_scope" enum:"separate,cluster,node"`
	IdleSpread    string          `json:"idle_spread" enum:"weighted,even"`
	Rules         []string        `json:"rules" doc:"shared-cost rules that applied, in their order"`
}

// Statement is a document with its standing.
type Statement struct {
	ID       string            `json:"id,omitempty" doc:"of an issued one; a draft has none"`
	Version  int               `json:"version" doc:"0: a draft"`
	Kind     string            `json:"kind" enum:"draft,showback,chargeback"`
	IssuedBy string            `json:"issued_by,omitempty"`
	Document StatementDocument `json:"document"`
	NowTotal *Money            `json:"now_total" doc:"of an issued one: what the same month comes to by the ledger and the rules of now; null of a draft"`
	Restated *Money            `json:"restated" doc:"now_total less the issued total: what a new version would correct; null of a draft"`
}

// StatementHead is a statement in a list.
type StatementHead struct {
	ID       string    `json:"id"`
	Month    string    `json:"month"`
	Scope    string    `json:"scope" enum:"tenant,team"`
	Team     string    `json:"team"`
	Version  int       `json:"version"`
	Kind     string    `json:"kind" enum:"showback,chargeback"`
	AsOf     time.Time `json:"as_of"`
	Total    Money     `json:"total"`
	IssuedBy string    `json:"issued_by"`
}

// TeamCharge is what a team would be charged.
type TeamCharge struct {
	Team   string `json:"team"`
	Direct Money  `json:"direct"`
	Idle   Money  `json:"idle"`
	Shared Money  `json:"shared"`
	Total  Money  `json:"total"`
}

// StatementMonth is a month with everybody in it.
type StatementMonth struct {
	Month        string          `json:"month"`
	From         time.Time       `json:"from"`
	To           time.Time       `json:"to"`
	AsOf         time.Time       `json:"as_of"`
	MissingHours int             `json:"missing_hours"`
	Teams        []TeamCharge    `json:"teams" doc:"largest first"`
	Rest         []StatementLine `json:"rest" doc:"what no team bears"`
	Total        Money           `json:"total" doc:"teams and rest, which is the ledger's total of the month"`
	Issued       []StatementHead `json:"issued" doc:"newest first; at most 500"`
}

// StatementQuery names a draft. Exported because huma passes over embedded types that are not.
type StatementQuery struct {
	Month string `query:"month" pattern:"^20[0-9]{2}-(0[1-9]|1[0-2])$" doc:"default: the month before the tenant's newest data"`
	Scope string `query:"scope" enum:"tenant,team" default:"team"`
	Team  string `query:"team" maxLength:"253"`
}

func (s *Server) registerStatements() {
	tags := []string{"statements"}
	op(s, huma.Operation{OperationID: "list-statements", Method: http.MethodGet, Path: "/api/v1/statements", Summary: "A month's charges by team, and the statements issued for it", Tags: tags}, auth.RoleViewer, s.listStatements)
	op(s, huma.Operation{OperationID: "draft-statement", Method: http.MethodGet, Path: "/api/v1/statements/draft", Summary: "A statement as it would be issued now", Tags: tags}, auth.RoleViewer, s.draftStatement)
	op(s, huma.Operation{OperationID: "issue-statement", Method: http.MethodPost, Path: "/api/v1/statements", Summary: "Issue a statement", Tags: tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 422},
		Description: "Keeps the document as it is, forever. Issuing it again makes the next version; the earlier ones stay readable."}, auth.RoleFinance, s.issueStatement)
	op(s, huma.Operation{OperationID: "get-statement", Method: http.MethodGet, Path: "/api/v1/statements/{id}", Summary: "An issued statement, and whether the ledger was restated since", Tags: tags, Errors: []int{404}}, auth.RoleViewer, s.getStatement)
	files := map[string]*huma.Response{"200": {Description: "The file", Content: map[string]*huma.MediaType{"text/html": {}, "application/pdf": {}, "text/csv": {}}}}
	op(s, huma.Operation{OperationID: "download-statement-draft", Method: http.MethodGet, Path: "/api/v1/statements/draft/file", Summary: "A draft as HTML, PDF or CSV", Tags: tags, Responses: files}, auth.RoleViewer, s.downloadDraft)
	op(s, huma.Operation{OperationID: "download-statement", Method: http.MethodGet, Path: "/api/v1/statements/{id}/file", Summary: "An issued statement as HTML, PDF or CSV", Tags: tags, Errors: []int{404}, Responses: files}, auth.RoleViewer, s.downloadStatement)
}

// books of a month: everything that its statements are made from.
type monthBooks struct {
	tenant   store.Tenant
	counting store.Counting
	first    time.Time // the month's first day, as a date
	span     fleet.Interval
	asOf     time.Time
	rows     []store.OwnerCost
	rules    []store.SharedCostRule
	charges  ledger.Charges
	coverage store.CostCoverage
	names    map[string]string
	currency string
}

func (s *Server) openMonth(ctx context.Context, tx *store.Tx, month string) (*monthBooks, error) {
	b := &monthBooks{asOf: tx.Now, currency: s.prices().Currency()}
	if err := store.Consistent(ctx, tx); err != nil {
		return nil, err
	}
	var err error
	if b.tenant, err = store.LoadTenant(ctx, tx); err != nil {
		return nil, err
	}
	if b.counting, err = store.LoadCounting(ctx, tx); err != nil {
		return nil, err
	}
	calendar, err := b.counting.Calendar()
	if err != nil {
		return nil, err
	}
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return nil, err
	}
	inMonth, shift := now, -1
	if month != "" {
		if inMonth, err = time.ParseInLocation("2006-01-02", month+"-15", calendar.Zone); err != nil {
			return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "a month is written as 2026-03", Field: "query.month"}
		}
		shift = 0
	}
	start, err := calendar.Start(ledger.PeriodMonth, inMonth, shift)
	if err != nil {
		return nil, err
	}
	local := start.In(calendar.Zone)
	b.first = time.Date(local.Year(), local.Month(), 1, 0, 0, 0, 0, time.UTC)
	if b.span, err = calendar.Span(ledger.PeriodMonth, inMonth, shift); err != nil {
		return nil, err
	}
	return b, b.load(ctx, tx)
}

func (b *monthBooks) load(ctx context.Context, tx *store.Tx) (err error) {
	if b.rows, err = store.OwnerCosts(ctx, tx, store.CostQuery{From: b.span.From, To: b.span.To, AsOf: b.asOf}); err != nil {
		return err
	}
	if b.rules, err = store.SharedCostRules(ctx, tx); err != nil {
		return err
	}
	if b.coverage, err = store.Coverage(ctx, tx, "", b.span.From, b.span.To); err != nil {
		return err
	}
	scopes, err := b.scopes(ctx, tx)
	if err != nil {
		return err
	}
	var idle *ledger.Spread
	if b.counting.IdleScope != "separate" {
		idle = &b.counting.IdleSpread
	}
	rules := make([]ledger.SharedRule, len(b.rules))
	for i, r := range b.rules {
		rules[i] = r.SharedRule
	}
	b.charges = ledger.ChargeTeams(scopes, idle, rules)
	var ids []string
	for _, r := range b.rows {
		if r.Owner.Workload != "" {
			ids = append(ids, string(r.Owner.Workload))
		}
	}
	slices.Sort(ids)
	b.names, err = store.WorkloadKeys(ctx, tx, slices.Compact(ids))
	return err
}

// scopes are the rows by whom carries whose idle: clusters, or machines.
func (b *monthBooks) scopes(ctx context.Context, tx *store.Tx) ([][]ledger.Row, error) {
	at := map[string]int{}
	var scopes [][]ledger.Row
	add := func(key string, r ledger.Row) {
		i, ok := at[key]
		if !ok {
			i = len(scopes)
			at[key] = i
			scopes = append(scopes, nil)
		}
		scopes[i] = append(scopes[i], r)
	}
	if b.counting.IdleScope != "node" {
		for _, r := range b.rows {
			add(string(r.Cluster), r.Row)
		}
		return scopes, nil
	}
	rows, err := store.OpenCostRows(ctx, tx, store.OpenCostQuery{From: b.span.From, To: b.span.To, Step: b.span.To.Sub(b.span.From), Nodes: true})
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		add(string(r.Cluster)+"/"+r.Node, r.Row)
	}
	return scopes, nil
}

func (b *monthBooks) money(m fleet.Money) Money { return money(m, b.currency) }

func (b *monthBooks) month() string { return b.first.Format("2006-01") }

// document of a team, or of the whole tenant. Its lines add up to what was charged, or it is an error: nobody gets a statement that does not.
func (b *monthBooks) document(scope, team string) (StatementDocument, fleet.Money, error) {
	d := StatementDocument{Tenant: b.tenant.Name, Scope: scope, Team: team, Month: b.month(), TimeZone: b.counting.Zone, From: b.span.From, To: b.span.To, AsOf: b.asOf, MissingHours: b.coverage.OpenHours,
		RestatedHours: b.coverage.Restated, UnpricedShare: b.coverage.Unpriced(), IdleScope: b.counting.IdleScope, IdleSpread: string(b.counting.IdleSpread), Rules: []string{}, Lines: []StatementLine{}}
	for _, r := range b.rules {
		d.Rules = append(d.Rules, fmt.Sprintf("%s: %s %s, %s", r.Name, r.Pick, r.Value, r.Spread))
	}
	var want, sum fleet.Money
	if scope == "tenant" {
		d.Team = ""
		for _, r := range b.rows {
			want = want.Add(r.Amount)
		}
		for _, c := range b.byTotal() {
			d.Lines = append(d.Lines, StatementLine{Kind: "team", Name: c.Team, Amount: b.money(c.Total)})
			sum = sum.Add(c.Total)
		}
		rest, amount := b.rest()
		d.Lines, sum = append(d.Lines, rest...), sum.Add(amount)
	} else {
		at := slices.IndexFunc(b.charges.Teams, func(c ledger.Charge) bool { return c.Team == team })
		if at < 0 {
			return d, 0, fleet.Errorf(fleet.CodeNotFound, "this team has no costs in %s", b.month())
		}
		c := b.charges.Teams[at]
		want = c.Total
		d.Lines, sum = b.direct(team)
		if c.Idle != 0 {
			d.Lines, sum = append(d.Lines, StatementLine{Kind: "idle", Amount: b.money(c.Idle)}), sum.Add(c.Idle)
		}
		for i, part := range c.Shared {
			if part != 0 {
				d.Lines, sum = append(d.Lines, StatementLine{Kind: "shared", Name: b.rules[i].Name, Amount: b.money(part)}), sum.Add(part)
			}
		}
	}
	if sum != want {
		return d, 0, fmt.Errorf("statement of %q adds up to %s, its charge is %s", team, sum, want)
	}
	d.Total = b.money(want)
	return d, want, nil
}

func (b *monthBooks) byTotal() []ledger.Charge {
	teams := slices.Clone(b.charges.Teams)
	slices.SortFunc(teams, func(a, c ledger.Charge) int {
		return cmp.Or(cmp.Compare(c.Total, a.Total), cmp.Compare(a.Team, c.Team))
	})
	return teams
}

// rest is what no team bears.
func (b *monthBooks) rest() (lines []StatementLine, sum fleet.Money) {
	for i, amount := range b.charges.Unshared {
		if amount != 0 {
			lines, sum = append(lines, StatementLine{Kind: "unshared", Name: b.rules[i].Name, Amount: b.money(amount)}), sum.Add(amount)
		}
	}
	for _, kind := range []ledger.Kind{ledger.KindIdle, ledger.KindOverhead, ledger.KindUnused, ledger.KindResidual} {
		if amount := b.charges.Rest[kind]; amount != 0 {
			lines, sum = append(lines, StatementLine{Kind: string(kind), Amount: b.money(amount)}), sum.Add(amount)
		}
	}
	return lines, sum
}

// maxStatementLines of workloads; the rest is summed.
const maxStatementLines = 2000

// direct are a team's own workloads that no rule shares, dearest first.
func (b *monthBooks) direct(team string) ([]StatementLine, fleet.Money) {
	type key struct{ workload, namespace string }
	groups := map[key]*costGroup{}
	var order []*costGroup
	spaces := map[*costGroup]string{}
	var sum fleet.Money
	for _, r := range b.rows {
		if r.Kind != ledger.KindWorkload || r.Owner.Team != team || slices.ContainsFunc(b.rules, func(s store.SharedCostRule) bool { return s.Picks(r.Owner) }) {
			continue
		}
		k := key{string(r.Owner.Workload), r.Owner.Namespace}
		g := groups[k]
		if g == nil {
			g = &costGroup{kind: string(ledger.KindWorkload), key: k.workload, rows: map[ledger.Resource]*ledger.Row{}, byStep: map[time.Time]fleet.Money{}}
			groups[k], spaces[g] = g, k.namespace
			order = append(order, g)
		}
		g.add(store.CostRow{Row: r.Row})
		sum = sum.Add(r.Amount)
	}
	slices.SortFunc(order, func(x, y *costGroup) int {
		return cmp.Or(cmp.Compare(y.amount, x.amount), cmp.Compare(x.key, y.key), cmp.Compare(spaces[x], spaces[y]))
	})
	lines := make([]StatementLine, 0, min(len(order), maxStatementLines+1))
	var others fleet.Money
	for i, g := range order {
		if i >= maxStatementLines {
			others = others.Add(g.amount)
			continue
		}
		lines = append(lines, b.workloadLine(g, spaces[g]))
	}
	if len(order) > maxStatementLines {
		lines = append(lines, StatementLine{Kind: "others", Name: fmt.Sprint(len(order) - maxStatementLines), Amount: b.money(others)})
	}
	return lines, sum
}

func (b *monthBooks) workloadLine(g *costGroup, namespace string) StatementLine {
	l := StatementLine{Kind: "workload", Name: nameOf(b.names, g.key), Namespace: namespace, Amount: b.money(g.amount)}
	if g.key == "" {
		l.Kind, l.Name = "bare_pods", namespace
	}
	for resource, to := range map[ledger.Resource]struct {
		amount **Money
		hours  *float64
	}{ledger.ResourceCPU: {&l.CPU, &l.CoreHours}, ledger.ResourceMemory: {&l.Memory, &l.GiBHours}, ledger.ResourceGPU: {&l.GPU, &l.GPUHours}} {
		if r := g.rows[resource]; r != nil {
			m := b.money(r.Amount)
			*to.amount, *to.hours = &m, r.Quantity
		}
	}
	return l
}

func (s *Server) listStatements(ctx context.Context, p auth.Principal, in *struct {
	Month string `query:"month" pattern:"^20[0-9]{2}-(0[1-9]|1[0-2])$" doc:"default: the month before the tenant's newest data"`
}) (*struct{ Body StatementMonth }, error) {
	out := &struct{ Body StatementMonth }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		b, err := s.openMonth(ctx, tx, in.Month)
		if err != nil {
			return err
		}
		issued, err := store.IssuedStatements(ctx, tx, b.first, 500)
		if err != nil {
			return err
		}
		v := StatementMonth{Month: b.month(), From: b.span.From, To: b.span.To, AsOf: b.asOf, MissingHours: b.coverage.OpenHours, Teams: []TeamCharge{}, Issued: []StatementHead{}}
		rest, total := b.rest()
		v.Rest = append([]StatementLine{}, rest...)
		for _, c := range b.byTotal() {
			var shared fleet.Money
			for _, part := range c.Shared {
				shared = shared.Add(part)
			}
			total = total.Add(c.Total)
			v.Teams = append(v.Teams, TeamCharge{Team: c.Team, Direct: b.money(c.Direct), Idle: b.money(c.Idle), Shared: b.money(shared), Total: b.money(c.Total)})
		}
		v.Total = b.money(total)
		for _, i := range issued {
			v.Issued = append(v.Issued, StatementHead{ID: i.ID, Month: i.Month.Format("2006-01"), Scope: i.Scope, Team: i.Team, Version: i.Version, Kind: i.Kind, AsOf: i.AsOf, Total: b.money(i.Total), IssuedBy: i.IssuedBy})
		}
		out.Body = v
		return nil
	})
	return out, err
}

func (s *Server) draft(ctx context.Context, p auth.Principal, in StatementQuery) (v Statement, err error) {
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		b, err := s.openMonth(ctx, tx, in.Month)
		if err != nil {
			return err
		}
		v.Kind = "draft"
		v.Document, _, err = b.document(in.Scope, in.Team)
		return err
	})
	return v, err
}

func (s *Server) draftStatement(ctx context.Context, p auth.Principal, in *StatementQuery) (*struct{ Body Statement }, error) {
	v, err := s.draft(ctx, p, *in)
	return &struct{ Body Statement }{v}, err
}

func (s *Server) issueStatement(ctx context.Context, p auth.Principal, in *struct {
	Body struct {
		Month string `json:"month" pattern:"^20[0-9]{2}-(0[1-9]|1[0-2])$"`
		Scope string `json:"scope" enum:"tenant,team"`
		Team  string `json:"team,omitempty" maxLength:"253"`
		Kind  string `json:"kind" enum:"showback,chargeback"`
	}
}) (*struct{ Body Statement }, error) {
	out := &struct{ Body Statement }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		b, err := s.openMonth(ctx, tx, in.Body.Month)
		if err != nil {
			return err
		}
		d, total, err := b.document(in.Body.Scope, in.Body.Team)
		if err != nil {
			return err
		}
		now, err := store.DataNow(ctx, tx)
		switch {
		case err != nil:
			return err
		case in.Body.Kind == "chargeback" && (now.Before(b.span.To) || b.coverage.OpenHours > 0):
			return fleet.Errorf(fleet.CodeConflict, "a chargeback waits until every hour of the month is closed; issue a showback meanwhile")
		}
		raw, err := json.Marshal(d)
		if err != nil {
			return fmt.Errorf("write statement: %w", err)
		}
		issued, err := store.IssueStatement(ctx, tx, store.IssuedStatement{Month: b.first, Scope: d.Scope, Team: d.Team, Kind: in.Body.Kind, From: b.span.From, To: b.span.To, AsOf: b.asOf, Total: total, Document: raw, IssuedBy: p.Actor()})
		if err != nil {
			return err
		}
		zero, same := b.money(0), b.money(total)
		out.Body = Statement{ID: issued.ID, Version: issued.Version, Kind: issued.Kind, IssuedBy: issued.IssuedBy, Document: d, NowTotal: &same, Restated: &zero}
		return store.Audit(ctx, tx, p.Actor(), "statement.issue", "statement/"+issued.ID, map[string]string{"month": d.Month, "team": d.Team, "kind": issued.Kind, "total": total.String(), "version": fmt.Sprint(issued.Version)})
	})
	return out, err
}

// issued loads an issued statement and holds it against the ledger of now.
func (s *Server) issued(ctx context.Context, p auth.Principal, id string) (v Statement, err error) {
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.Consistent(ctx, tx); err != nil {
			return err
		}
		i, err := store.StatementByID(ctx, tx, id)
		if err != nil {
			return err
		}
		v = Statement{ID: i.ID, Version: i.Version, Kind: i.Kind, IssuedBy: i.IssuedBy}
		if err := json.Unmarshal(i.Document, &v.Document); err != nil {
			return fmt.Errorf("read statement: %w", err)
		}
		b := &monthBooks{asOf: tx.Now, currency: s.prices().Currency(), first: i.Month, span: fleet.Interval{From: i.From, To: i.To}}
		if b.counting, err = store.LoadCounting(ctx, tx); err != nil {
			return err
		}
		if err := b.load(ctx, tx); err != nil {
			return err
		}
		_, total, err := b.document(i.Scope, i.Team)
		if code, _, _ := explain(err); err != nil && code != fleet.CodeNotFound { // a team that has nothing any more owes nothing
			return err
		}
		now, change := b.money(total), b.money(total-i.Total)
		v.NowTotal, v.Restated = &now, &change
		return nil
	})
	return v, err
}

func (s *Server) getStatement(ctx context.Context, p auth.Principal, in *struct {
	ID string `path:"id" format:"uuid"`
}) (*struct{ Body Statement }, error) {
	v, err := s.issued(ctx, p, in.ID)
	return &struct{ Body Statement }{v}, err
}
