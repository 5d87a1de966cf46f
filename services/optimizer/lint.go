package optimizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Severity says whether a finding forbids saving the policy.
type Severity string

// Severities of findings.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Finding is one thing to know about a policy, in a sentence that a person can act on.
type Finding struct {
	Field    string   `json:"field"` // dotted, "queue.target_per_replica"; empty for the document
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Line     int      `json:"line,omitempty"` // 1-based, 0 when it is not known
}

// HasErrors says whether findings forbid saving the policy.
func HasErrors(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == SeverityError })
}

// ParsePolicy reads a policy document strictly and returns it with its defaults filled in and everything found in it,
// errors first. Unknown keys, keys given twice, wrong types and a document over 64 KiB are errors. A policy with an error
// must not be saved; what is returned with it is only good for looking at.
func ParsePolicy(doc []byte) (Policy, []Finding) {
	if len(doc) > maxPolicyBytes {
		return Policy{}, []Finding{{Severity: SeverityError, Message: fmt.Sprintf("The document has %d bytes, at most %d are read.", len(doc), maxPolicyBytes)}}
	}
	var p Policy
	raw, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return p, []Finding{yamlFinding(err)}
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return p, []Finding{{Severity: SeverityError, Message: "The document cannot be read: " + err.Error() + "."}}
	}
	root, ok := tree.(map[string]any)
	if !ok && tree != nil {
		return p, []Finding{{Severity: SeverityError, Message: "A policy is a list of keys with values, this is something else."}}
	}
	var out []Finding
	unknownKeys(root, reflect.TypeOf(p), "", &out)
	if err := json.Unmarshal(raw, &p); err != nil {
		p, out = Policy{}, append(out, typeFinding(err))
		return p, placed(out, doc)
	}
	if v, given := root["min"]; given && v == 0.0 && !p.ScaleToZero {
		out = append(out, Finding{Field: "min", Severity: SeverityError, Message: "A floor of 0 also needs scale_to_zero: true, so that nobody scales to zero by a typing error."})
	}
	p = p.WithDefaults()
	return p, placed(append(out, p.Validate()...), doc)
}

// YAML writes the policy as a document that ParsePolicy reads back to the same policy.
func (p Policy) YAML() string {
	b, err := yaml.Marshal(p)
	if err != nil { // only a number that JSON lacks, which Validate refuses
		return ""
	}
	return string(b)
}

// placed adds line numbers and puts errors first, each severity in document order of discovery.
func placed(findings []Finding, doc []byte) []Finding {
	if len(findings) == 0 {
		return nil
	}
	lines := keyLines(doc)
	for i := range findings {
		f := &findings[i]
		for field := f.Field; field != "" && f.Line == 0; {
			f.Line = lines[field]
			cut := strings.LastIndexAny(field, ".[")
			field = field[:max(cut, 0)]
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return severityRank(a.Severity) - severityRank(b.Severity)
	})
	return findings
}

func severityRank(s Severity) int {
	if s == SeverityError {
		return 0
	}
	return 1
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// yamlFinding turns an error of the YAML reader into a finding.
func yamlFinding(err error) Finding {
	text := err.Error()
	f := Finding{Severity: SeverityError}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		f.Line, _ = strconv.Atoi(m[1])
	}
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:"} {
		text = strings.TrimPrefix(text, prefix)
	}
	f.Message = "The document is not valid YAML: " + strings.Join(strings.Fields(text), " ") + "."
	return f
}

// typeFinding turns an error about a value's type into a finding.
func typeFinding(err error) Finding {
	var t *json.UnmarshalTypeError
	if !errors.As(err, &t) {
		return Finding{Severity: SeverityError, Message: "The document cannot be read: " + err.Error() + "."}
	}
	kind := map[reflect.Kind]string{reflect.Int: "a whole number", reflect.Float64: "a number", reflect.String: "text",
		reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "a block of keys"}[t.Type.Kind()]
	if kind == "" {
		kind = "a block of keys"
	}
	return Finding{Field: t.Field, Severity: SeverityError, Message: fmt.Sprintf("This must be %s, it is a %s.", kind, t.Value)}
}

// unknownKeys names every key that the type does not have, with its dotted path.
func unknownKeys(node any, t reflect.Type, path string, out *[]Finding) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := node.(type) {
	case []any:
		if t.Kind() == reflect.Slice {
			for i, e := range v {
				unknownKeys(e, t.Elem(), fmt.Sprintf("%s[%d]", path, i), out)
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return
		}
		known := make(map[string]reflect.Type, t.NumField())
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			known[name] = t.Field(i).Type
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			at := k
			if path != "" {
				at = path + "." + k
			}
			if ft, ok := known[k]; ok {
				unknownKeys(v[k], ft, at, out)
				continue
			}
			*out = append(*out, Finding{Field: at, Severity: SeverityError, Message: fmt.Sprintf("There is no key %q here%s.", k, nearest(k, known))})
		}
	}
}

// nearest suggests the known key that is most like a misspelt one.
func nearest(key string, known map[string]reflect.Type) string {
	best, distance := "", 4
	for k := range known {
		if d := editDistance(strings.ToLower(key), k); d < distance || (d == distance && best != "" && k < best) {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q", best)
}

// editDistance counts the letters to insert, drop or change.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

var keyLine = regexp.MustCompile(`^(\s*(?:-\s+)*)([A-Za-z0-9_]+)\s*:`)

// keyLines finds the line of every key of a block-style document by its dotted path. It is for showing only: what it does
// not find has no line.
func keyLines(doc []byte) map[string]int {
	type level struct {
		indent int
		path   string
		index  int // of the list item below it; -1: none yet
	}
	out := map[string]int{}
	stack := []level{{indent: -1, index: -1}}
	for n, line := range strings.Split(string(doc), "\n") {
		m := keyLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		dash := strings.IndexByte(m[1], '-')
		indent := len(m[1])
		outer := indent
		if dash >= 0 {
			outer = dash
		}
		for len(stack) > 1 && (stack[len(stack)-1].indent > outer || (stack[len(stack)-1].indent == outer && dash < 0)) {
			stack = stack[:len(stack)-1]
		}
		parent := &stack[len(stack)-1]
		if dash >= 0 {
			parent.index++
		}
		path := parent.path
		if parent.index >= 0 {
			path = fmt.Sprintf("%s[%d]", path, parent.index)
		}
		if path != "" {
			path += "."
		}
		path += m[2]
		if _, twice := out[path]; !twice {
			out[path] = n + 1
		}
		stack = append(stack, level{indent: indent, path: path, index: -1})
	}
	return out
}
