package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// Names that OpenCost gives to what belongs to nobody, and ours for what it does not know.
const (
	openCostIdle        = "__idle__"
	openCostUnallocated = "__unallocated__"
	openCostResidual    = "__residual__"
	openCostUnused      = "__unused_commitment__"
)

const openCostDeadline = 30 * time.Second

// mountOpenCost answers as OpenCost and Kubecost do, so that boards and scripts made for them keep working. The endpoints are not in our
// API's document: their shape is that of others.
func (s *Server) mountOpenCost(r chi.Router) {
	for _, prefix := range []string{"/opencost", "/opencost/model"} {
		r.Get(prefix+"/allocation", s.openCost(s.openCostAllocation))
		r.Get(prefix+"/allocation/compute", s.openCost(s.openCostAllocation))
		r.Get(prefix+"/assets", s.openCost(s.openCostAssets))
	}
}

// openCostAnswer is the envelope of every answer.
type openCostAnswer struct {
	Code    int    `json:"code"`
	Status  string `json:"status,omitempty"`
	Data    any    `json:"data"`
	Message string `json:"message,omitempty"`
	Warning string `json:"warning,omitempty"`
}

func (s *Server) openCost(answer func(context.Context, *store.Tx, *http.Request) (data any, warnings []string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		reply := func(status int, a openCostAnswer) {
			a.Code = status
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(a)
		}
		p := who(r.Context())
		switch {
		case p.Tenant == "":
			reply(http.StatusUnauthorized, openCostAnswer{Message: "send an API key: Authorization: Bearer KEY"})
			return
		case !p.Role.Allows(auth.RoleViewer):
			reply(http.StatusForbidden, openCostAnswer{Message: "this needs the role viewer"})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), openCostDeadline)
		defer cancel()
		a := openCostAnswer{Status: "success"}
		err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
			var warnings []string
			a.Data, warnings, err = answer(ctx, tx, r)
			a.Warning = strings.Join(warnings, "; ")
			return err
		})
		if err != nil {
			code, message, _ := explain(err)
			status := statusOf(code)
			switch code {
			case fleet.CodeInvalid:
				status = http.StatusBadRequest // as OpenCost answers
			case fleet.CodeInternal:
				s.deps.Log.Error("opencost query failed", "path", r.URL.Path, "tenant", p.Tenant, "error", err)
			}
			reply(status, openCostAnswer{Message: message})
			return
		}
		reply(http.StatusOK, a)
	}
}

// load reads what a query needs. The sets are counted back from the window's end.
func (q *openCostQuery) load(ctx context.Context, tx *store.Tx, nodes bool, now time.Time) (rows []store.OpenCostRow, names store.OpenCostNames, err error) {
	sq := store.OpenCostQuery{From: q.from, To: q.to, Step: q.step, Nodes: nodes}
	if q.accumulate {
		q.step, sq.Step = q.to.Sub(q.from), q.to.Sub(q.from)
	}
	const day = 24 * time.Hour
	end := q.to.Truncate(day)
	if end.Before(q.to) {
		end = end.Add(day)
	}
	whole := q.step >= q.to.Sub(q.from)
	if !nodes && q.from.Equal(q.from.Truncate(day)) && (q.to.Equal(end) && q.step%day == 0 || whole && (q.to.Equal(end) || !q.to.Before(now))) {
		sq.Days, sq.To = true, end
		if whole {
			sq.Step = end.Sub(q.from)
		}
	}
	if rows, err = store.OpenCostRows(ctx, tx, sq); err != nil {
		return nil, names, err
	}
	names, err = store.LoadOpenCostNames(ctx, tx, nodes, q.from, q.to)
	return rows, names, err
}

// set is the time of a set, the newest being 0.
func (q *openCostQuery) set(i int) (from, to time.Time) {
	to = q.to.Add(-time.Duration(i) * q.step)
	from = to.Add(-q.step)
	if from.Before(q.from) {
		from = q.from
	}
	return from, to
}

func (q *openCostQuery) sets() int { return int((q.to.Sub(q.from) + q.step - 1) / q.step) }

func (s *Server) openCostAllocation(ctx context.Context, tx *store.Tx, r *http.Request) (any, []string, error) {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	q, err := readOpenCostQuery(r.URL.Query(), now, false)
	if err != nil {
		return nil, nil, err
	}
	byNode := q.idleByNode || slices.Contains(q.aggregate, "node") || slices.ContainsFunc(q.filters, func(f openCostFilter) bool { return f.field == "node" })
	rows, names, err := q.load(ctx, tx, byNode, now)
	if err != nil {
		return nil, nil, err
	}
	if byNode {
		q.warnings = append(q.warnings, "by node: closed hours only, without efficiency")
	}
	sets := make([][]openCostLine, q.sets())
	for _, r := range rows {
		if r.Set >= 0 && r.Set < len(sets) {
			sets[r.Set] = append(sets[r.Set], openCostLine{OpenCostRow: r})
		}
	}
	data := make([]map[string]*openCostItem, 0, len(sets))
	for i, lines := range slices.Backward(sets) {
		from, to := q.set(i)
		data = append(data, q.allocations(lines, names, from, to))
	}
	return data, q.warnings, nil
}

// openCostLine is a cost with the names that it is grouped and filtered by.
type openCostLine struct {
	store.OpenCostRow
	cluster, node, namespace, kind, controller string
	labels                                     map[string]string
}

func (l *openCostLine) name(n store.OpenCostNames) {
	l.cluster = cmp.Or(n.Clusters[l.Cluster], string(l.Cluster))
	if l.Cluster == store.NoCluster {
		l.cluster = ""
	}
	l.node = cmp.Or(n.Nodes[l.Node].Name, l.Node)
	if l.Kind != ledger.KindWorkload {
		return
	}
	l.namespace = l.Owner.Namespace
	if w, ok := n.Workloads[l.Owner.Workload]; ok {
		l.kind, l.controller, l.labels = strings.ToLower(w.Kind), w.Name, w.Labels
	}
}

func (l *openCostLine) field(f string) string {
	switch f {
	case "cluster":
		return l.cluster
	case "node":
		return l.node
	case "namespace":
		return l.namespace
	case "controllerKind":
		return l.kind
	case "controllerName":
		return l.controller
	case "controller":
		if l.controller != "" && l.kind != "" {
			return l.kind + ":" + l.controller
		}
		return l.controller
	default:
		key := strings.TrimPrefix(f, "label:")
		if v, ok := l.labels[key]; ok {
			return v
		}
		return l.labelByPromName(key)
	}
}

// labelByPromName finds a label by the name that Prometheus gives it: app.kubernetes.io/name is app_kubernetes_io_name there.
func (l *openCostLine) labelByPromName(key string) string {
	for _, k := range slices.Sorted(maps.Keys(l.labels)) {
		if promName(k) == key {
			return l.labels[k]
		}
	}
	return ""
}

func promName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// keeps says whether the line passes all filters.
func (q *openCostQuery) keeps(l *openCostLine) bool {
	for _, f := range q.filters {
		got := l.field(f.field)
		hit := slices.ContainsFunc(f.values, func(want string) bool {
			if f.field == "controllerKind" {
				want = strings.ToLower(want)
			}
			return f.match(got, want) || f.field == "cluster" && f.match(string(l.Cluster), want)
		})
		if hit == f.not || f.not && l.Kind != ledger.KindWorkload && f.field != "cluster" && f.field != "node" {
			return false
		}
	}
	return true
}

// key names the group of a line.
func (q *openCostQuery) key(l *openCostLine) string {
	switch l.Kind {
	case ledger.KindResidual:
		return openCostResidual
	case ledger.KindUnused:
		return openCostUnused
	case ledger.KindWorkload:
	default:
		switch {
		case q.idleByNode:
			return l.node + "/" + openCostIdle
		case len(q.aggregate) == 0:
			return l.cluster + "/" + openCostIdle
		}
		return openCostIdle
	}
	fields := q.aggregate
	if len(fields) == 0 {
		fields = []string{"cluster", "namespace", "controllerKind", "controllerName"}
	}
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = cmp.Or(l.field(f), openCostUnallocated)
	}
	return strings.Join(parts, "/")
}

// allocations groups the lines of a set: idle is shared first, over everybody, then filters apply, then shared namespaces are spread over
// what is left.
func (q *openCostQuery) allocations(lines []openCostLine, names store.OpenCostNames, from, to time.Time) map[string]*openCostItem {
	if q.shareIdle {
		lines = q.spreadIdle(lines)
	}
	groups := map[string]*openCostGroup{}
	var shared fleet.Money
	for i := range lines {
		l := &lines[i]
		l.name(names)
		if !q.keeps(l) {
			continue
		}
		if l.Kind == ledger.KindWorkload && slices.Contains(q.share, l.namespace) {
			shared = shared.Add(l.Amount)
			continue
		}
		idle := l.Kind == ledger.KindIdle || l.Kind == ledger.KindOverhead
		if l.Kind != ledger.KindWorkload && !q.includeIdle && (!q.shareIdle || !idle || l.Amount == 0) { // idle that nobody can carry stays
			continue
		}
		key := q.key(l)
		g := groups[key]
		if g == nil {
			g = &openCostGroup{}
			groups[key] = g
		}
		g.add(l)
	}
	q.spreadShared(groups, shared)
	items := make(map[string]*openCostItem, len(groups))
	for key, g := range groups {
		items[key] = g.item(key, from, to)
	}
	return items
}

// spreadIdle lets the workloads of each cluster, or of each machine, carry what nobody held there.
func (q *openCostQuery) spreadIdle(lines []openCostLine) []openCostLine {
	type scope struct {
		cluster fleet.ClusterID
		node    string
	}
	scopes := map[scope][]ledger.Row{}
	var order []scope
	for _, l := range lines {
		k := scope{cluster: l.Cluster}
		if q.idleByNode {
			k.node = l.Node
		}
		if scopes[k] == nil {
			order = append(order, k)
		}
		row := l.Row
		row.Owner.Team = l.Node // told apart by machine instead of team
		scopes[k] = append(scopes[k], row)
	}
	out := make([]openCostLine, 0, len(lines))
	for _, k := range order {
		for _, r := range ledger.ShareIdle(scopes[k]) {
			out = append(out, openCostLine{OpenCostRow: store.OpenCostRow{Cluster: k.cluster, Node: cmp.Or(r.Owner.Team, k.node), Row: r}})
		}
	}
	return out
}

// spreadShared divides the cost of shared namespaces over all groups that are workloads. Without any it stands as a group of its own.
func (q *openCostQuery) spreadShared(groups map[string]*openCostGroup, shared fleet.Money) {
	if shared == 0 {
		return
	}
	var keys []string
	var weights []int64
	for key, g := range groups {
		if g.workload && g.total() > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		weight := int64(groups[key].total())
		if q.shareEven {
			weight = 1
		}
		weights = append(weights, weight)
	}
	parts, rest := shared.Split(weights)
	for i, key := range keys {
		groups[key].shared = parts[i]
	}
	if rest != 0 {
		groups["__shared__"] = &openCostGroup{shared: rest}
	}
}
