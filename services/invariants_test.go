package services_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	invariantLine = regexp.MustCompile(`^(\d+)\. \*\*.+\*\*`)
	proofOf       = regexp.MustCompile("`([a-z][a-z0-9/_-]*): (Test[A-Za-z0-9]+)`")
)

// docs/invariants.md promises that each line is proven by the tests it names.
func TestInvariantsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	proofs := map[int]int{}
	last := 0
	known := map[string]map[string]bool{}
	for n, line := range strings.Split(string(text), "\n") {
		if m := invariantLine.FindStringSubmatch(line); m != nil {
			number, err := strconv.Atoi(m[1])
			if err != nil || number != last+1 {
				t.Errorf("line %d: number %s comes after %d", n+1, m[1], last)
			}
			last = number
		}
		if !strings.Contains(line, "Proof: ") {
			continue
		}
		for _, m := range proofOf.FindAllStringSubmatch(line, -1) {
			dir, name := m[1], m[2]
			if known[dir] == nil {
				known[dir] = testsIn(t, filepath.Join("..", filepath.FromSlash(dir)))
			}
			if !known[dir][name] {
				t.Errorf("line %d: %s has no test %s", n+1, dir, name)
			}
			proofs[last]++
		}
		if loose := strings.Count(line, "`") - 2*len(proofOf.FindAllString(line, -1)); loose != 0 {
			t.Errorf("line %d: a proof is not written as `package directory: TestName`", n+1)
		}
	}
	if last < 40 {
		t.Fatalf("found %d invariants only", last)
	}
	for number := 1; number <= last; number++ {
		if proofs[number] == 0 {
			t.Errorf("invariant %d names no proof", number)
		}
	}
}

// testsIn lists the tests of a package directory, whatever their build tags.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}
