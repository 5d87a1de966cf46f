// Package agent_test holds the floor plan of the agent: which room may import which, where the environment is read, and that
// every room says what it is for.
package agent_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	ours   = "plimsoll.dev/"
	module = "plimsoll.dev/agent/"
	wire   = "plimsoll.dev/services/wire/"
)

// rooms names every directory with Go files and the rooms of the agent that it may import. An unlisted one fails.
var rooms = map[string]struct {
	why     string
	imports []string
}{
	".":                 {why: "this test"},
	"collect":           {why: "sources know neither plans nor the service"},
	"act":               {why: "plans are checked against the cluster, whoever sent them"},
	"uplink":            {why: "carries reports and plans without reading them"},
	"uplink/uplinktest": {why: "a service for tests"},
	"serve": {why: "answers other autoscalers from what it was told; it knows neither the cluster's API nor the service",
		imports: []string{"serve/contract/expander", "serve/contract/externalscaler"}},
	"serve/contract/expander":       {why: "generated: what Cluster Autoscaler asks"},
	"serve/contract/externalscaler": {why: "generated: what KEDA asks"},
	"cmd/plimsoll-agent": {why: "wires everything; its tests are clients of what it serves",
		imports: []string{"collect", "act", "uplink", "serve", "serve/contract/expander", "serve/contract/externalscaler"}},
	"cmd/plimsoll-swarm": {why: "the agents' half of a benchmark", imports: []string{"uplink"}},
}

func TestFloorPlan(t *testing.T) {
	t.Parallel()
	docs, seen := map[string]int{}, map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if _, ok := rooms[dir]; !ok {
			t.Errorf("%s: the room %q is not in the floor plan", path, dir)
			return nil
		}
		seen[dir] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if file.Doc != nil {
			docs[dir]++
		}
		checkFile(t, path, dir, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range rooms {
		if !seen[dir] || docs[dir] != 1 {
			t.Errorf("%s: seen %v, %d package comments, want exactly one", dir, seen[dir], docs[dir])
		}
	}
}

func checkFile(t *testing.T, path, dir string, file *ast.File) {
	t.Helper()
	test := strings.HasSuffix(path, "_test.go")
	osName := ""
	for _, imp := range file.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		switch room, inside := strings.CutPrefix(p, module); {
		case inside && !slices.Contains(rooms[dir].imports, room) && (!test || room != "uplink/uplinktest"):
			t.Errorf("%s imports the room %s: %s", path, room, rooms[dir].why)
		case !inside && strings.HasPrefix(p, ours) && !strings.HasPrefix(p, wire):
			t.Errorf("%s imports %s: of our other modules the agent knows the wire only", path, p)
		case p == "os":
			osName = "os"
			if imp.Name != nil {
				osName = imp.Name.Name
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || osName == "" || test || strings.HasPrefix(dir, "cmd/") {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == osName && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "Exit"}, sel.Sel.Name) {
			t.Errorf("%s uses os.%s: the environment is read, and the process ended, in cmd only", path, sel.Sel.Name)
		}
		return true
	})
}
