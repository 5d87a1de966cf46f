package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// Allocation is what one group cost.
type Allocation struct {
	Key        string   `json:"key" doc:"team, namespace, workload id, cluster id, label value, ...; empty: without one, or not a workload"`
	Name       string   `json:"name" doc:"for people: the workload's key, the cluster's name, else the key"`
	Kind       string   `json:"kind" enum:"workload,idle,overhead,residual,commitment_unused,all" doc:"all: a grouping that does not tell kinds apart"`
	Amount     Money    `json:"amount"`
	CPU        Money    `json:"cpu"`
	Memory     Money    `json:"memory"`
	GPU        Money    `json:"gpu"`
	Share      float64  `json:"share" doc:"of the total"`
	Previous   Money    `json:"previous" doc:"amount of the span of the same length before; of as much of it as has passed of a span that still runs"`
	CoreHours  float64  `json:"core_hours"`
	GiBHours   float64  `json:"gib_hours"`
	GPUHours   float64  `json:"gpu_hours"`
	Efficiency *float64 `json:"efficiency" doc:"cost of what was used over cost of what was held; null when no use is known"`
	Unpriced   bool     `json:"unpriced" doc:"some of it ran on machines without a known price, and is not in the amount"`
}

// Allocations is the answer to "who cost what".
type Allocations struct {
	From          time.Time    `json:"from"`
	To            time.Time    `json:"to" doc:"exclusive"`
	Aggregate     string       `json:"aggregate"`
	Idle          string       `json:"idle"`
	Basis         string       `json:"basis"`
	Unviewed      Money        `json:"basis_unknown" doc:"part of the total that was costed before other views than effective were kept, and stands as that"`
	Total         Money        `json:"total"`
	PreviousTotal Money        `json:"previous_total"`
	UnpricedShare *float64     `json:"unpriced_share" doc:"node time without a price over all; null without nodes"`
	LastClosed    *time.Time   `json:"last_closed" doc:"start of the newest hour in the ledger"`
	OpenHours     int          `json:"open_hours" doc:"hours of the span that are provisional"`
	Items         []Allocation `json:"items" doc:"dearest first; what is beyond the limit is summed as key \"other\""`
	AsOf          *time.Time   `json:"as_of" doc:"the moment, by the service's clock, whose versions of the hours are shown: the newest closing in the span unless as_of was asked for; null without closed hours"`
	RestatedHours int          `json:"restated_hours" doc:"closed hours of the span whose newest version is not the first"`
}

// CostSeries is the cost of one group over time.
type CostSeries struct {
	Key    string      `json:"key"`
	Name   string      `json:"name"`
	Kind   string      `json:"kind" enum:"workload,idle,overhead,residual,commitment_unused,all"`
	Points []CostPoint `json:"points" doc:"one per step, without gaps"`
}

// CostPoint is one step of a series.
type CostPoint struct {
	At     time.Time `json:"at"`
	Amount Money     `json:"amount"`
}

// CostTimeseries is costs over time.
type CostTimeseries struct {
	From   time.Time    `json:"from"`
	To     time.Time    `json:"to" doc:"exclusive"`
	Step   string       `json:"step"`
	Series []CostSeries `json:"series" doc:"dearest first; what is beyond the limit is summed as key \"other\""`
}

// CostSummary is how the month stands.
type CostSummary struct {
	DataNow       time.Time  `json:"data_now"`
	Month         string     `json:"month" example:"2026-03"`
	MonthToDate   Money      `json:"month_to_date"`
	Forecast      *Money     `json:"forecast" doc:"at the month's end, if the mean rate of the last seven days holds; null before an hour of data"`
	PreviousMonth Money      `json:"previous_month"`
	Today         Money      `json:"today"`
	Yesterday     Money      `json:"yesterday"`
	IdleShare     float64    `json:"idle_share" doc:"idle over all, of this month"`
	UnpricedShare *float64   `json:"unpriced_share" doc:"node time of this month without a price; null without nodes"`
	LastClosed    *time.Time `json:"last_closed" doc:"start of the newest hour in the ledger"`
	OpenHours     int        `json:"open_hours"`
	Catalogue     string     `json:"catalogue" doc:"date of the price catalogue"`
}

// CostFilter narrows what is summed. Exported because huma passes over embedded types that are not.
type CostFilter struct {
	Cluster   fleet.ClusterID  `query:"cluster" format:"uuid"`
	Namespace string           `query:"namespace" maxLength:"253" doc:"idle belongs to no namespace or team"`
	Team      string           `query:"team" maxLength:"253"`
	Workload  fleet.WorkloadID `query:"workload" format:"uuid"`
}

// CostScope is a CostFilter over a span of time. Exported because huma passes over embedded types that are not.
type CostScope struct {
	CostFilter
	From      time.Time `query:"from" doc:"default: 30 days before to; whole UTC days unless step is hour"`
	To        time.Time `query:"to" doc:"default: the tenant's newest data"`
	Aggregate string    `query:"aggregate" default:"team" maxLength:"80" pattern:"^(team|namespace|workload|cluster|kind|purchase|resource|label:.+)$" doc:"team, namespace, workload, cluster, kind, purchase, resource or label:KEY"`
	AsOf      time.Time `query:"as_of" doc:"what the ledger said at this moment, by the service's clock: closed hours only, without use. Default: the newest versions"`
	Idle      string    `query:"idle" enum:"separate,shared,even,machine" default:"separate" doc:"shared: idle and overhead are carried by the workloads of their cluster, per resource and in proportion to their cost; even: each workload that pays for a resource carries the same part of it; machine: by the workloads of the machine that was idle; what nobody can carry stays"`
	Basis     string    `query:"basis" enum:"effective,contracted,list" default:"effective" doc:"effective: what is borne, after commitments; contracted: at the tenant's own or the Spot price, before commitments; list: at the list price on demand. The others not with as_of, and not with idle by machine"`
}

func (s *Server) registerCost() {
	tags := []string{"cost"}
	op(s, huma.Operation{OperationID: "get-cost-allocations", Method: http.MethodGet, Path: "/api/v1/cost/allocations", Summary: "Who cost what", Tags: tags},
		auth.RoleViewer, s.getAllocations)
	op(s, huma.Operation{OperationID: "get-cost-timeseries", Method: http.MethodGet, Path: "/api/v1/cost/timeseries", Summary: "Costs over time", Tags: tags},
		auth.RoleViewer, s.getCostTimeseries)
	s.registerCostCauses()
	op(s, huma.Operation{OperationID: "get-cost-summary", Method: http.MethodGet, Path: "/api/v1/cost/summary", Summary: "How the month stands", Tags: tags},
		auth.RoleViewer, s.getCostSummary)
}

// Longest spans that a view reads.
const (
	maxCostDays  = 400 * 24 * time.Hour
	maxCostHours = 31 * 24 * time.Hour
)

// query turns the input into what the store understands, with whole steps.
func (in CostScope) query(ctx context.Context, tx *store.Tx, step time.Duration) (store.CostQuery, error) {
	q := store.CostQuery{From: in.From.UTC(), To: in.To.UTC(), Hourly: step == time.Hour, Aggregate: in.Aggregate, Cluster: in.Cluster,
		Namespace: in.Namespace, Team: in.Team, Workload: in.Workload, AsOf: in.AsOf.UTC(), Buckets: true}
	if in.To.IsZero() {
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return q, err
		}
		q.To = now.UTC()
	}
	if in.From.IsZero() {
		q.From = q.To.AddDate(0, 0, -30)
	}
	q.From = q.From.Truncate(step)
	if end := q.To.Truncate(step); end.Before(q.To) {
		q.To = end.Add(step)
	}
	limit := maxCostDays
	if q.Hourly {
		limit = maxCostHours
	}
	switch {
	case !q.From.Before(q.To):
		return q, &fleet.Error{Code: fleet.CodeInvalid, Message: "from must lie before to", Field: "query.from"}
	case q.To.Sub(q.From) > limit:
		return q, &fleet.Error{Code: fleet.CodeInvalid, Message: "the span is too long for this step", Field: "query.from"}
	}
	switch {
	case in.Idle == "machine" && in.Basis != "effective":
		return q, &fleet.Error{Code: fleet.CodeInvalid, Message: "idle by machine is kept of effective costs only", Field: "query.idle"}
	case in.Idle == "machine":
		q.View = store.ViewCarried
	case in.Basis != "effective":
		q.View = store.CostView(in.Basis)
	}
	if q.View != store.ViewEffective && !q.AsOf.IsZero() {
		return q, &fleet.Error{Code: fleet.CodeInvalid, Message: "earlier versions of the ledger have effective costs only, and idle by cluster", Field: "query.as_of"}
	}
	q.Everybody = (in.Idle == "shared" || in.Idle == "even") && q.ByOwner()
	return q, nil
}

// spanBefore is the query of the span of the same length before. Where the newest day of the span still runs, it ends as far before its own
// end: as much time is compared with as has passed.
func spanBefore(ctx context.Context, tx *store.Tx, q store.CostQuery) (store.CostQuery, error) {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return q, err
	}
	length := q.To.Sub(q.From)
	passed := now.UTC().Add(time.Hour - 1).Truncate(time.Hour)
	to := q.To
	q.From, q.To = q.From.Add(-length), q.From
	if passed.Before(to) && passed.Add(-length).After(q.From) {
		q.To, q.Hourly, q.Buckets = passed.Add(-length), true, false
	}
	return q, nil
}

// spread is how idle is divided when it is shared.
func (in CostScope) spread() ledger.Spread {
	if in.Idle == "even" {
		return ledger.SpreadEven
	}
	return ledger.SpreadWeighted
}

// costs loads rows and shares idle if that is asked for. unviewed is what of them is not known in the view that was asked for.
func costs(ctx context.Context, tx *store.Tx, q store.CostQuery, how ledger.Spread) (rows []store.CostRow, unviewed fleet.Money, err error) {
	if rows, err = store.Costs(ctx, tx, q); err != nil {
		return nil, 0, err
	}
	for _, r := range rows {
		unviewed = unviewed.Add(r.Unviewed)
	}
	if q.Everybody {
		rows = shareIdle(rows, how)
	}
	return rows, unviewed, nil
}

// shareIdle lets the workloads of each cluster and step carry what nobody held there, then leaves out those outside the filter.
func shareIdle(rows []store.CostRow, how ledger.Spread) []store.CostRow {
	type scope struct {
		at      time.Time
		cluster fleet.ClusterID
	}
	const outside = "outside"
	scopes := map[scope][]ledger.Row{}
	var order []scope
	for _, r := range rows {
		k := scope{r.At, r.Cluster}
		if scopes[k] == nil {
			order = append(order, k)
		}
		if r.Kind == ledger.KindWorkload {
			r.Owner.Workload = fleet.WorkloadID(r.Key)
		}
		if r.Outside {
			r.Owner.Namespace = outside
		}
		scopes[k] = append(scopes[k], r.Row)
	}
	shared := make([]store.CostRow, 0, len(rows))
	for _, k := range order {
		for _, r := range ledger.ShareIdleBy(scopes[k], how) {
			if r.Owner.Namespace != outside {
				shared = append(shared, store.CostRow{At: k.at, Cluster: k.cluster, Key: string(r.Owner.Workload), Row: r})
			}
		}
	}
	return shared
}

// costGroup is a group with its rows summed per resource.
type costGroup struct {
	kind, key string
	amount    fleet.Money
	rows      map[ledger.Resource]*ledger.Row
	byStep    map[time.Time]fleet.Money
	rest      bool // the sum of what is beyond the limit
}

func (g *costGroup) add(r store.CostRow) {
	sum := g.rows[r.Resource]
	if sum == nil {
		sum = &ledger.Row{Kind: r.Kind, Resource: r.Resource}
		g.rows[r.Resource] = sum
	}
	g.amount = g.amount.Add(r.Amount)
	g.byStep[r.At] = g.byStep[r.At].Add(r.Amount)
	sum.Amount = sum.Amount.Add(r.Amount)
	sum.Quantity += r.Quantity
	sum.Unpriced += r.Unpriced
	sum.Measured += r.Measured
	sum.Used += r.Used
}

// group sums rows per kind and key, dearest first. Beyond limit, workloads are summed as "other".
func group(rows []store.CostRow, byOwner bool, limit int) (groups []*costGroup, total fleet.Money) {
	type id struct{ kind, key string }
	all := map[id]*costGroup{}
	for _, r := range rows {
		k := id{"all", r.Key}
		if byOwner {
			k.kind = string(r.Kind)
		}
		g := all[k]
		if g == nil {
			g = &costGroup{kind: k.kind, key: k.key, rows: map[ledger.Resource]*ledger.Row{}, byStep: map[time.Time]fleet.Money{}}
			all[k] = g
			groups = append(groups, g)
		}
		g.add(r)
		total = total.Add(r.Amount)
	}
	slices.SortFunc(groups, func(a, b *costGroup) int {
		return cmp.Or(cmp.Compare(b.amount, a.amount), cmp.Compare(a.kind, b.kind), cmp.Compare(a.key, b.key))
	})
	return fold(groups, limit), total
}

// fold keeps the first limit groups of workloads and all others, and sums the rest.
func fold(groups []*costGroup, limit int) []*costGroup {
	var other *costGroup
	kept := groups[:0]
	n := 0
	for _, g := range groups {
		if g.kind != string(ledger.KindWorkload) || n < limit {
			if g.kind == string(ledger.KindWorkload) {
				n++
			}
			kept = append(kept, g)
			continue
		}
		if other == nil {
			other = &costGroup{kind: g.kind, key: "other", rest: true, rows: map[ledger.Resource]*ledger.Row{}, byStep: map[time.Time]fleet.Money{}}
		}
		for _, r := range g.rows {
			other.add(store.CostRow{Row: *r})
		}
		for at, amount := range g.byStep {
			other.byStep[at] = other.byStep[at].Add(amount)
		}
	}
	if other != nil {
		kept = append(kept, other)
	}
	return kept
}

func (s *Server) getAllocations(ctx context.Context, p auth.Principal, in *struct {
	CostScope
	Limit int `query:"limit" minimum:"1" maximum:"5000" default:"500"`
}) (*struct{ Body Allocations }, error) {
	out := &struct{ Body Allocations }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		q, err := in.query(ctx, tx, 24*time.Hour)
		if err != nil {
			return err
		}
		q.Buckets = q.Everybody // a whole span in one bucket, but idle is shared day by day, as the chart shares it
		rows, unviewed, err := costs(ctx, tx, q, in.spread())
		if err != nil {
			return err
		}
		before, err := spanBefore(ctx, tx, q)
		if err != nil {
			return err
		}
		previous, _, err := costs(ctx, tx, before, in.spread())
		if err != nil {
			return err
		}
		coverage, err := store.Coverage(ctx, tx, q.Cluster, q.From, q.To)
		if err != nil {
			return err
		}
		groups, total := group(rows, q.ByOwner(), in.Limit)
		names, err := costNames(ctx, tx, q.Aggregate, groups)
		if err != nil {
			return err
		}
		out.Body = Allocations{From: q.From, To: q.To, Aggregate: q.Aggregate, Idle: in.Idle, Basis: in.Basis, Total: s.money(total), Unviewed: s.money(unviewed),
			UnpricedShare: coverage.Unpriced(), LastClosed: coverage.LastClosed, OpenHours: coverage.OpenHours, AsOf: coverage.AsOf, RestatedHours: coverage.Restated}
		if !in.AsOf.IsZero() {
			asOf := in.AsOf.UTC()
			out.Body.AsOf = &asOf
		}
		out.Body.Items, out.Body.PreviousTotal = s.showAllocations(groups, total, previous, q.ByOwner(), names)
		return nil
	})
	return out, err
}

func (s *Server) money(m fleet.Money) Money { return money(m, s.prices().Currency()) }

func (s *Server) showAllocations(groups []*costGroup, total fleet.Money, previous []store.CostRow, byOwner bool, names map[string]string) ([]Allocation, Money) {
	was, wasTotal := map[string]fleet.Money{}, fleet.Money(0)
	for _, r := range previous {
		kind := "all"
		if byOwner {
			kind = string(r.Kind)
		}
		was[kind+" "+r.Key] += r.Amount
		wasTotal += r.Amount
	}
	items := make([]Allocation, 0, len(groups))
	rest := wasTotal
	for _, g := range groups {
		a := Allocation{Key: g.key, Name: nameOf(names, g.key), Kind: g.kind, Amount: s.money(g.amount)}
		if total != 0 {
			a.Share = g.amount.Float() / total.Float()
		}
		var rows []ledger.Row
		amounts, quantities := map[ledger.Resource]fleet.Money{}, map[ledger.Resource]float64{}
		for _, resource := range []ledger.Resource{ledger.ResourceCPU, ledger.ResourceMemory, ledger.ResourceGPU} {
			if r := g.rows[resource]; r != nil {
				rows = append(rows, *r)
				amounts[resource], quantities[resource] = r.Amount, r.Quantity
				a.Unpriced = a.Unpriced || r.Unpriced != 0
			}
		}
		a.CPU, a.Memory, a.GPU = s.money(amounts[ledger.ResourceCPU]), s.money(amounts[ledger.ResourceMemory]), s.money(amounts[ledger.ResourceGPU])
		a.CoreHours, a.GiBHours, a.GPUHours = quantities[ledger.ResourceCPU], quantities[ledger.ResourceMemory], quantities[ledger.ResourceGPU]
		if ratio, known := ledger.Efficiency(rows); known {
			a.Efficiency = &ratio
		}
		before := was[g.kind+" "+g.key]
		if g.rest {
			before = rest // the last: what no group before it had, groups that are gone included
		}
		rest -= before
		a.Previous = s.money(before)
		items = append(items, a)
	}
	return items, s.money(wasTotal)
}

// costNames finds what people call the groups.
func costNames(ctx context.Context, tx *store.Tx, aggregate string, groups []*costGroup) (map[string]string, error) {
	var ids []string
	for _, g := range groups {
		if g.key != "" && !g.rest && !strings.HasPrefix(g.key, "namespace/") {
			ids = append(ids, g.key)
		}
	}
	switch aggregate {
	case "workload":
		return store.WorkloadKeys(ctx, tx, ids)
	case "cluster":
		return store.ClusterNames(ctx, tx, ids)
	}
	return nil, nil
}

func nameOf(names map[string]string, key string) string {
	if n, ok := names[key]; ok {
		return n
	}
	return key
}
