package packing

import (
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
)

// RuleText is Rules as people write them, in files and tables.
type RuleText struct {
	Workload     string   `json:"workload"`
	Class        string   `json:"class"`
	Labels       []string `json:"labels"`
	Tolerates    []string `json:"tolerates"`
	Where        []string `json:"where"` // key=a,b or key!=a,b
	GPUMemMiB    int64    `json:"gpu_mem_mib"`
	MIG          string   `json:"mig_profile"`
	Affinity     []string `json:"affinity"` // label@zone or label@node
	AntiAffinity []string `json:"anti_affinity"`
	Spread       []string `json:"spread"` // label@zone:1, label@zone:1:soft
	Gang         string   `json:"gang"`
	MaxPoolMilli int64    `json:"max_pool_milli"`
}

// Rules reads the text; nil where it asks for nothing.
func (t *RuleText) Rules() (*Rules, error) {
	r := &Rules{Workload: t.Workload, Class: Class(t.Class), Labels: t.Labels, Tolerates: t.Tolerates, GPUMemMiB: t.GPUMemMiB, MIG: t.MIG, Gang: t.Gang, MaxPoolMilli: t.MaxPoolMilli}
	var err error
	if r.Where, err = ParseSelectors(t.Where); err != nil {
		return nil, err
	}
	if r.Affinity, err = parseTerms(t.Affinity); err != nil {
		return nil, err
	}
	if r.AntiAffinity, err = parseTerms(t.AntiAffinity); err != nil {
		return nil, err
	}
	for _, s := range t.Spread {
		spread, err := parseSpread(s)
		if err != nil {
			return nil, err
		}
		r.Spread = append(r.Spread, spread)
	}
	if r.empty() {
		return nil, nil //nolint:nilnil // no rules are nil rules
	}
	return r, r.validate()
}

func (r *Rules) empty() bool {
	return r.Workload == "" && r.Class == "" && len(r.Labels)+len(r.Tolerates)+len(r.Where)+len(r.Affinity)+len(r.AntiAffinity)+len(r.Spread) == 0 &&
		r.GPUMemMiB == 0 && r.MIG == "" && r.Gang == "" && r.MaxPoolMilli == 0
}

// ParseSelectors reads selectors: key=a,b (one of them) or key!=a,b (none of them).
func ParseSelectors(in []string) ([]Selector, error) {
	var out []Selector
	for _, s := range in {
		key, values, ok := strings.Cut(s, "=")
		sel := Selector{Key: strings.TrimSpace(strings.TrimSuffix(key, "!")), Not: strings.HasSuffix(key, "!")}
		for _, v := range strings.Split(values, ",") {
			sel.Values = append(sel.Values, strings.TrimSpace(v))
		}
		if !ok || sel.Key == "" {
			return nil, fleet.Errorf(fleet.CodeInvalid, "selector %q: want key=value,value or key!=value", s)
		}
		out = append(out, sel)
	}
	return out, nil
}

func parseTerms(in []string) ([]Term, error) {
	var out []Term
	for _, s := range in {
		label, topology, ok := cutLast(s, "@")
		if !ok {
			return nil, fleet.Errorf(fleet.CodeInvalid, "term %q: want label@zone or label@node", s)
		}
		out = append(out, Term{label, Topology(topology)})
	}
	return out, nil
}

func parseSpread(s string) (Spread, error) {
	label, rest, ok := cutLast(s, "@")
	parts := strings.Split(rest, ":")
	out := Spread{Label: label, Topology: Topology(parts[0]), MaxSkew: 1}
	bad := fleet.Errorf(fleet.CodeInvalid, "spread %q: want label@zone:1 or label@zone:1:soft", s)
	if !ok || len(parts) > 3 {
		return out, bad
	}
	if len(parts) > 1 {
		n, err := strconv.ParseInt(parts[1], 10, 32)
		if err != nil {
			return out, bad
		}
		out.MaxSkew = n
	}
	if len(parts) > 2 {
		if parts[2] != "soft" {
			return out, bad
		}
		out.Soft = true
	}
	return out, nil
}

// ruleColumns are the optional columns of a table of pods that make up rules.
var ruleColumns = []string{"workload", "class", "labels", "tolerates", "where", "gpu_mem_mib", "mig_profile", "affinity", "anti_affinity", "spread", "gang", "max_pool_milli"}

// ruleReader reads rules of pods; equal text gives the same value.
type ruleReader struct {
	known map[string]*Rules
	none  bool // the table has no such column
}

func (q *ruleReader) read(f *fields) *Rules {
	if q.known == nil {
		q.known, q.none = map[string]*Rules{}, true
		for _, c := range ruleColumns {
			if _, ok := f.at[c]; ok {
				q.none = false
			}
		}
	}
	if q.none {
		return nil
	}
	var key strings.Builder
	any := false
	for _, c := range ruleColumns {
		t := f.text(c)
		any = any || t != ""
		key.WriteString(t)
		key.WriteByte(0)
	}
	if !any {
		return nil
	}
	if r, ok := q.known[key.String()]; ok {
		return r
	}
	t := RuleText{Workload: f.text("workload"), Class: f.text("class"), Labels: f.list("labels"), Tolerates: f.list("tolerates"), Where: f.list("where"),
		GPUMemMiB: f.whole("gpu_mem_mib"), MIG: f.text("mig_profile"), Affinity: f.list("affinity"), AntiAffinity: f.list("anti_affinity"),
		Spread: f.list("spread"), Gang: f.text("gang"), MaxPoolMilli: f.whole("max_pool_milli")}
	r, err := t.Rules()
	f.fail(err)
	q.known[key.String()] = r
	return r
}
