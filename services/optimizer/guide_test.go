package optimizer

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The guide must name every field and every reason, and its examples must be sound.
func TestTheGuideIsTrue(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/guides/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(raw)
	fields(reflect.TypeOf(Policy{}), func(name string) {
		if !strings.Contains(guide, name+"`") {
			t.Errorf("field %s is not in the guide", name)
		}
	})
	for _, code := range reasonCodes(t) {
		if !strings.Contains(guide, "`"+code+"`") {
			t.Errorf("reason %s is not in the guide", code)
		}
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(guide, -1)
	if len(examples) < 5 {
		t.Fatalf("%d examples, want at least 5", len(examples))
	}
	for _, e := range examples {
		if _, findings := ParsePolicy([]byte(e[1])); HasErrors(findings) {
			t.Errorf("example has errors: %+v\n%s", findings, e[1])
		}
	}
	for _, p := range Presets() {
		if !strings.Contains(guide, "`"+p.Name+"`") {
			t.Errorf("preset %s is not in the guide", p.Name)
		}
	}
}

// fields walks the keys of a policy.
func fields(t reflect.Type, visit func(string)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if fields(t.Field(i).Type, visit); name != "filter" && name != "flap" {
			visit(name)
		}
	}
}

// reasonCodes reads the closed set from its source.
func reasonCodes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "plan.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == 1 && strings.HasPrefix(v.Names[0].Name, "Reason") && len(v.Values) == 1 {
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				code, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, code)
			}
		}
		return true
	})
	if len(out) < 20 {
		t.Fatalf("%d reason codes found", len(out))
	}
	return out
}
