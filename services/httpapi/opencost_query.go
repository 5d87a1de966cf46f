package httpapi

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// openCostQuery is what a request to the OpenCost-compatible endpoints asks for.
type openCostQuery struct {
	from, to    time.Time // whole hours
	step        time.Duration
	aggregate   []string // cluster, node, namespace, controllerKind, controller, label:x, type, provider
	accumulate  bool
	includeIdle bool
	shareIdle   bool
	idleByNode  bool
	share       []string // namespaces whose cost all others carry
	shareEven   bool
	filters     []openCostFilter
	warnings    []string
}

// openCostFilter keeps what has one of the values in a field, or has none of them.
type openCostFilter struct {
	field  string // cluster, node, namespace, controllerKind, controllerName, label:x
	values []string
	match  func(got, want string) bool
	not    bool
}

var durationPattern = regexp.MustCompile(`^([0-9]{1,5})(s|m|h|d|w)$`)

func openCostDuration(s string) (time.Duration, bool) {
	m := durationPattern.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, _ := strconv.Atoi(m[1]) // digits, at most five
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[m[2]]
	return time.Duration(n) * unit, n > 0
}

// openCostWindow reads a window. now is the tenant's newest data.
func openCostWindow(s string, now time.Time) (from, to time.Time, ok bool) {
	now = now.UTC()
	day := now.Truncate(24 * time.Hour)
	sunday := day.AddDate(0, 0, -int(day.Weekday()))
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	switch s {
	case "today":
		return day, now, true
	case "yesterday":
		return day.AddDate(0, 0, -1), day, true
	case "week":
		return sunday, now, true
	case "lastweek":
		return sunday.AddDate(0, 0, -7), sunday, true
	case "month":
		return month, now, true
	case "lastmonth":
		return month.AddDate(0, -1, 0), month, true
	}
	if d, ok := openCostDuration(s); ok {
		return now.Add(-d), now, true
	}
	a, b, pair := strings.Cut(s, ",")
	if !pair {
		return from, to, false
	}
	from, ok1 := openCostTime(a)
	to, ok2 := openCostTime(b)
	return from, to, ok1 && ok2
}

func openCostTime(s string) (time.Time, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 && n < 1<<36 {
		return time.Unix(n, 0).UTC(), true
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err == nil
}

// openCostLimits bound a query.
const (
	openCostMaxDays = 400 * 24 * time.Hour
	openCostMaxSets = 1000
)

var openCostFields = []string{"cluster", "node", "namespace", "controllerKind", "controller"}

// readOpenCostQuery reads the parameters; pods falls back to their controllers.
func readOpenCostQuery(v url.Values, now time.Time, assets bool) (q openCostQuery, err error) {
	bad := func(format string, args ...any) (openCostQuery, error) {
		return q, fleet.Errorf(fleet.CodeInvalid, format, args...)
	}
	if v.Get("window") == "" {
		return bad("missing required parameter: window")
	}
	from, to, ok := openCostWindow(v.Get("window"), now)
	if !ok {
		return bad("illegal window: %.80s", v.Get("window"))
	}
	q.from, q.to = from.Truncate(time.Hour), to.Truncate(time.Hour)
	if q.to.Before(to) {
		q.to = q.to.Add(time.Hour)
	}
	switch {
	case !q.from.Before(q.to):
		return bad("illegal window: it ends before it starts")
	case q.to.Sub(q.from) > openCostMaxDays:
		return bad("illegal window: longer than 400 days")
	case !q.from.Equal(from) || !q.to.Equal(to):
		q.warnings = append(q.warnings, "costs are kept by the hour; the window is rounded out to whole hours")
	}
	q.step = q.to.Sub(q.from)
	if s := v.Get("step"); s != "" {
		if q.step, ok = openCostDuration(s); !ok {
			return bad("illegal step: %.80s", s)
		}
		if whole := (q.step + time.Hour - 1).Truncate(time.Hour); whole != q.step {
			q.step = whole
			q.warnings = append(q.warnings, "costs are kept by the hour; the step is rounded up to whole hours")
		}
		if q.to.Sub(q.from)/q.step >= openCostMaxSets {
			return bad("illegal step: more than %d sets", openCostMaxSets)
		}
	}
	for name, to := range map[string]*bool{"accumulate": &q.accumulate, "includeIdle": &q.includeIdle, "idleByNode": &q.idleByNode} {
		if s := v.Get(name); s != "" {
			if *to, err = strconv.ParseBool(s); err != nil {
				return bad("illegal %s: %.80s; true or false", name, s)
			}
		}
	}
	if s := v.Get("idle"); s != "" && !q.includeIdle {
		q.includeIdle, _ = strconv.ParseBool(s)
	}
	switch s := v.Get("shareIdle"); s {
	case "", "false", "0":
	case "true", "1", "weighted":
		q.shareIdle = true
	default:
		return bad("illegal shareIdle: %.80s; true, false or weighted", s)
	}
	switch s := v.Get("shareSplit"); s {
	case "", "weighted":
	case "even":
		q.shareEven = true
	default:
		return bad("illegal shareSplit: %.80s; weighted or even", s)
	}
	q.share = list(v.Get("shareNamespaces"))
	if s := v.Get("shareLabels") + v.Get("shareCost"); s != "" {
		return bad("shareLabels and shareCost are not supported")
	}
	if q.aggregate, err = openCostAggregate(v.Get("aggregate"), assets, &q.warnings); err != nil {
		return q, err
	}
	q.filters, err = readOpenCostFilters(v)
	return q, err
}

func openCostAggregate(s string, assets bool, warnings *[]string) (fields []string, err error) {
	for _, f := range list(s) {
		switch {
		case assets && slices.Contains([]string{"cluster", "type", "provider", "node"}, f):
		case !assets && (slices.Contains(openCostFields, f) || strings.HasPrefix(f, "label:") && len(f) > len("label:")):
		case !assets && (f == "pod" || f == "container" || f == "deployment" || f == "statefulset" || f == "daemonset" || f == "job"):
			*warnings = append(*warnings, f+": costs are kept by controller; the answer is by controller")
			f = "controller"
		default:
			return nil, fleet.Errorf(fleet.CodeInvalid, "illegal aggregate: %.80s", f)
		}
		if len(fields) == 8 {
			return nil, fleet.Errorf(fleet.CodeInvalid, "illegal aggregate: more than eight fields")
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func list(s string) (items []string) {
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" && len(items) < 200 {
			items = append(items, item)
		}
	}
	return items
}

// readOpenCostFilters reads the older parameters and the newer filter language, of which `field:"a","b"` joined by + is supported.
func readOpenCostFilters(v url.Values) (filters []openCostFilter, err error) {
	for param, field := range map[string]string{"filterClusters": "cluster", "filterNodes": "node", "filterNamespaces": "namespace", "filterControllerKinds": "controllerKind",
		"filterControllers": "controllerName"} {
		if values := list(v.Get(param)); values != nil {
			filters = append(filters, openCostFilter{field: field, values: values, match: wildcard})
		}
	}
	byLabel := map[string][]string{}
	for _, item := range list(v.Get("filterLabels")) {
		key, value, ok := strings.Cut(item, ":")
		if !ok {
			return nil, fleet.Errorf(fleet.CodeInvalid, "illegal filterLabels: %.80s; label:value", item)
		}
		byLabel[key] = append(byLabel[key], value)
	}
	for key, values := range byLabel {
		filters = append(filters, openCostFilter{field: "label:" + key, values: values, match: wildcard})
	}
	for _, unsupported := range []string{"filterPods", "filterAnnotations", "filterServices", "filterDepartments", "filterProducts", "filterOwners", "filterTeams", "filterEnvironments"} {
		if v.Get(unsupported) != "" {
			return nil, fleet.Errorf(fleet.CodeInvalid, "%s is not supported", unsupported)
		}
	}
	more, err := parseFilter(v.Get("filter"))
	return append(filters, more...), err
}

func wildcard(got, want string) bool {
	if prefix, ok := strings.CutSuffix(want, "*"); ok {
		return strings.HasPrefix(got, prefix)
	}
	return got == want
}

var filterHead = regexp.MustCompile(`^\s*([a-zA-Z]+)(?:\[([^\]"]{1,253})\])?\s*(!?)(<~:|~>:|~:|:)\s*`)

var filterValue = regexp.MustCompile(`^"([^"\\]{0,253})"\s*`)

// parseFilter reads field:"a","b"+label[app]!:"c".
func parseFilter(s string) (filters []openCostFilter, err error) {
	if len(s) > 4096 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "illegal filter: too long")
	}
	bad := func(rest string) ([]openCostFilter, error) {
		return nil, fleet.Errorf(fleet.CodeInvalid, `illegal filter at %.40q; field:"a","b" with + between, fields cluster, node, namespace, controllerKind, controllerName, label[x]`, rest)
	}
	for rest := s; strings.TrimSpace(rest) != ""; {
		m := filterHead.FindStringSubmatch(rest)
		if m == nil {
			return bad(rest)
		}
		f := openCostFilter{field: m[1], not: m[3] != ""}
		switch {
		case f.field == "label" && m[2] != "":
			f.field = "label:" + m[2]
		case m[2] != "" || !slices.Contains([]string{"cluster", "node", "namespace", "controllerKind", "controllerName"}, f.field):
			return bad(rest)
		}
		f.match = map[string]func(string, string) bool{":": func(a, b string) bool { return a == b }, "~:": strings.Contains, "<~:": strings.HasPrefix, "~>:": strings.HasSuffix}[m[4]]
		rest = rest[len(m[0]):]
		for {
			value := filterValue.FindStringSubmatch(rest)
			if value == nil {
				return bad(rest)
			}
			f.values, rest = append(f.values, value[1]), rest[len(value[0]):]
			if !strings.HasPrefix(rest, ",") {
				break
			}
			rest = strings.TrimSpace(rest[1:])
		}
		filters = append(filters, f)
		if rest == "" {
			break
		}
		if rest[0] != '+' || strings.TrimSpace(rest[1:]) == "" {
			return bad(rest)
		}
		rest = rest[1:]
	}
	return filters, nil
}
