// Package services_test holds the floor plan as a test: which room may import which, what the pure rooms may never call, and that
// every room says what it is for. docs/architecture.md draws the same picture for people.
package services_test

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

const module = "plimsoll.dev/services/"

// A room may import the rooms below it that are named here, and of other people's modules those named here. An unlisted room
// fails the test: add it with a reason, or do without it.
type room struct {
	why     string
	rooms   []string
	modules []string // prefixes outside the standard library and outside our own modules
	pure    bool     // values in, values out: no clock, context, log, environment, network, files, goroutines
}

var plan = map[string]room{
	"fleet":                 {why: "nouns: everybody may know them, they know nobody", pure: true},
	"market":                {why: "prices are a function of catalogue and time", rooms: []string{"fleet"}, pure: true},
	"commitment":            {why: "what is paid already must compute again from purchases and inventory", rooms: []string{"fleet", "market"}, pure: true},
	"availability":          {why: "a probability must compute again from the events it was learned from", rooms: []string{"fleet"}, pure: true},
	"availability/backtest": {why: "scores are a function of the trace", rooms: []string{"fleet", "availability"}, pure: true},
	"optimizer/quantile":    {why: "a policy that production and the lab share knows nothing but numbers", pure: true},
	"optimizer/procure":     {why: "where to buy is decided by the same code in production and in the lab, which knows nothing but numbers", rooms: []string{"fleet"}, pure: true},
	"optimizer":             {why: "decisions must compute again from what they saw", rooms: []string{"fleet", "market", "optimizer/quantile"}, modules: []string{"sigs.k8s.io/yaml"}, pure: true},
	"ledger":                {why: "a bill must compute again from what it was made of", rooms: []string{"fleet", "market"}, modules: []string{"github.com/google/uuid"}, pure: true},
	"focus":                 {why: "an export must compute again from the ledger's lines, and a check from the file", rooms: []string{"fleet", "ledger"}, modules: []string{"github.com/parquet-go/parquet-go"}, pure: true},
	"billing":               {why: "a bill must read the same twice, and a comparison compute again from bill and ledger", rooms: []string{"fleet"}, pure: true},
	"replay":                {why: "a world is a function of its seed", rooms: []string{"fleet", "market", "optimizer", "optimizer/quantile", "ledger"}, pure: true},
	"packing":               {why: "machines chosen must be chosen again from the same pods and prices", rooms: []string{"fleet"}, pure: true},
	"capacity":              {why: "a proposal must compute again from what it saw", rooms: []string{"fleet", "optimizer/procure", "packing"}, pure: true},
	"spread":                {why: "a split over clusters must compute again from what it saw", rooms: []string{"fleet"}, pure: true},
	"capacity/karpenter":    {why: "what Karpenter is told must be told again from the same packing", rooms: []string{"fleet", "packing", "wire/plimsoll/agent/v1"}, modules: []string{"pgregory.net/rapid"}, pure: true},
	"lab":                   {why: "a score is a function of load, seed and policy", rooms: []string{"fleet", "optimizer", "optimizer/procure", "optimizer/quantile"}, modules: []string{"sigs.k8s.io/yaml"}, pure: true},
	"store": {why: "the one that knows SQL; it keeps plans, cost rows and price history, so it knows their types",
		rooms:   []string{"fleet", "capacity", "spread", "packing", "market", "commitment", "availability", "optimizer", "optimizer/quantile", "ledger", "focus", "billing", "wire/plimsoll/agent/v1", "wire/frame"},
		modules: []string{"github.com/jackc/pgx/v5", "github.com/google/uuid", "github.com/klauspost/compress", "github.com/pressly/goose/v3", "github.com/riverqueue/river", "google.golang.org/protobuf"}},
	"auth":   {why: "who and what they may; no HTTP, no SQL", rooms: []string{"fleet"}, modules: []string{"github.com/golang-jwt/jwt/v5", "golang.org/x/crypto", "golang.org/x/sync", "github.com/google/uuid"}},
	"notify": {why: "tells the world; knows no tenant's data", rooms: []string{"fleet"}},
	"cloud":  {why: "the shapes that adapters of clouds return; knows none of them", rooms: []string{"fleet"}},
	"cloud/aws": {why: "returns numbers and names, not behaviour; knows no other adapter", rooms: []string{"fleet", "cloud"},
		modules: []string{"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"}},
	"cloud/azure": {why: "returns numbers and names, not behaviour; knows no other adapter", rooms: []string{"fleet", "cloud"},
		modules: []string{"github.com/Azure/azure-sdk-for-go/sdk/azcore", "github.com/Azure/azure-sdk-for-go/sdk/azidentity"}},
	"cloud/gcp":       {why: "returns numbers and names, not behaviour; knows no other adapter", rooms: []string{"fleet", "cloud"}, modules: []string{"golang.org/x/oauth2"}},
	"cloud/fakecloud": {why: "a test server; no room may import it, only tests do"},
	"httpapi": {why: "the door for people and agents; never imports jobs", rooms: []string{"fleet", "capacity", "spread", "packing", "cloud", "market", "commitment", "availability", "optimizer", "optimizer/quantile", "ledger", "focus", "billing", "lab", "store", "auth", "notify", "wire/plimsoll/agent/v1", "wire/plimsoll/agent/v1/agentv1connect", "wire/frame"},
		modules: []string{"connectrpc.com/connect", "github.com/danielgtaylor/huma/v2", "github.com/go-chi/chi/v5", "github.com/go-chi/httprate", "github.com/alexedwards/scs/v2", "github.com/prometheus/client_golang", "github.com/klauspost/compress", "github.com/google/uuid", "google.golang.org/protobuf", "golang.org/x/sync"}},
	"jobs": {why: "the door of the clock; never imports httpapi", rooms: []string{"fleet", "capacity", "spread", "capacity/karpenter", "cloud", "market", "commitment", "availability", "optimizer", "optimizer/quantile", "ledger", "store", "auth", "notify", "replay", "lab", "wire/frame", "wire/plimsoll/agent/v1"},
		modules: []string{"github.com/riverqueue/river", "github.com/jackc/pgx/v5", "github.com/prometheus/client_golang", "github.com/google/uuid"}},
	"devdb":                                 {why: "a Postgres for development and tests; cmd and tests only", modules: []string{"github.com/jackc/pgx/v5"}},
	"cmd/plimsoll":                          {why: "wires everything", rooms: []string{"*"}, modules: []string{"*"}},
	"wire/frame":                            {why: "the codec both ends share", modules: []string{"github.com/klauspost/compress"}},
	"wire/plimsoll/agent/v1":                {why: "generated", modules: []string{"google.golang.org/protobuf"}},
	"wire/plimsoll/agent/v1/agentv1connect": {why: "generated", rooms: []string{"wire/plimsoll/agent/v1"}, modules: []string{"connectrpc.com/connect"}},
}

// Calls that only some places may make, with the reason. "pkg.Name" of the imported path, whatever it is renamed to.
var guarded = []struct {
	call  string
	rooms []string // files or rooms (path prefixes below services/) that may
	why   string
}{
	{"time.Now", []string{"cmd/", "store/db.go", "devdb/", "httpapi/", "jobs/", "notify/", "auth/keyring.go"}, "now comes from Snapshot.Now or tx.Now; doors take it to measure durations and connection health"},
	{"os.Getenv", []string{"cmd/", "devdb/"}, "configuration is read in cmd only"},
	{"os.LookupEnv", []string{"cmd/"}, "configuration is read in cmd only"},
	{"os.Exit", []string{"cmd/"}, "only main ends the process"},
	{"plimsoll.dev/services/optimizer.Decide", []string{"jobs/", "replay/", "lab/", "optimizer/", "httpapi/decisions.go"}, "decisions are made by jobs, replay and lab; the API may only compute a stored one again"},
}

// What a pure room may not import at all.
var impure = []string{"context", "log", "log/slog", "os", "net", "net/http", "database/sql", "os/exec", "os/signal", "io/fs", "path/filepath", "math/rand", "crypto/rand", "sync/atomic", "testing"}

func TestFloorPlan(t *testing.T) {
	t.Parallel()
	docs := map[string]int{}
	seen := map[string]bool{}
	walk(t, ".", func(path string, file *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(path))
		r, ok := plan[dir]
		if !ok {
			t.Errorf("%s: the room %q is not in the floor plan", path, dir)
			return
		}
		seen[dir] = true
		if file.Doc != nil {
			docs[dir]++
		}
		for _, imp := range file.Imports {
			checkImport(t, path, r, unquote(imp.Path.Value))
		}
		checkCalls(t, path, file)
	})
	for dir := range plan {
		if !seen[dir] {
			t.Errorf("the floor plan lists %q, which does not exist", dir)
		}
		if docs[dir] != 1 && !strings.HasPrefix(dir, "wire/plimsoll") {
			t.Errorf("%s: %d package comments, want exactly one", dir, docs[dir])
		}
	}
}

func checkImport(t *testing.T, path string, r room, imp string) {
	t.Helper()
	switch {
	case strings.HasPrefix(imp, module):
		name := strings.TrimPrefix(imp, module)
		if !slices.Contains(r.rooms, name) && !slices.Contains(r.rooms, "*") {
			t.Errorf("%s imports the room %s, which the floor plan does not allow (%s)", path, name, r.why)
		}
	case imp == "plimsoll.dev/migrations":
		if !strings.HasPrefix(path, "store/") {
			t.Errorf("%s imports the migrations; only store does", path)
		}
	case strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
		if !slices.ContainsFunc(r.modules, func(m string) bool { return m == "*" || strings.HasPrefix(imp, m) }) {
			t.Errorf("%s imports %s, which this room has no reason for yet (%s)", path, imp, r.why)
		}
	case r.pure && slices.Contains(impure, imp):
		t.Errorf("%s imports %s, but the room is pure: %s", path, imp, r.why)
	}
}

// checkCalls finds guarded calls through whatever name the file gave the package.
func checkCalls(t *testing.T, path string, file *ast.File) {
	t.Helper()
	names := map[string]string{} // name in this file -> import path
	for _, imp := range file.Imports {
		p := unquote(imp.Path.Value)
		name := p[strings.LastIndex(p, "/")+1:]
		if imp.Name != nil {
			name = imp.Name.Name
		}
		names[name] = p
		if name == "." {
			t.Errorf("%s: a dot import hides where names come from", path)
		}
	}
	pure := plan[filepath.ToSlash(filepath.Dir(path))].pure
	ast.Inspect(file, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok && pure && !strings.HasPrefix(path, "replay/") {
			t.Errorf("%s: a goroutine in a pure room (offset %d)", path, g.Pos())
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok || names[id.Name] == "" {
			return true
		}
		call := names[id.Name] + "." + sel.Sel.Name
		for _, g := range guarded {
			if g.call == call && !slices.ContainsFunc(g.rooms, func(p string) bool { return strings.HasPrefix(filepath.ToSlash(path), p) }) {
				t.Errorf("%s uses %s: %s", path, call, g.why)
			}
		}
		return true
	})
}

// The agent runs in other people's clusters: of our modules it may know the wire only, and of the service's libraries none.
func TestAgentKnowsTheWireOnly(t *testing.T) {
	t.Parallel()
	files := 0
	walk(t, "../agent", func(path string, file *ast.File) {
		files++
		for _, imp := range file.Imports {
			p := unquote(imp.Path.Value)
			ours := strings.HasPrefix(p, "plimsoll.dev/") && !strings.HasPrefix(p, "plimsoll.dev/agent/") && !strings.HasPrefix(p, "plimsoll.dev/services/wire/")
			if ours || strings.HasPrefix(p, "github.com/jackc/") || strings.HasPrefix(p, "github.com/riverqueue/") {
				t.Errorf("%s imports %s", path, p)
			}
		}
	})
	if files < 10 {
		t.Fatalf("looked at %d files only", files)
	}
}

// walk parses every Go file that is not a test, generated tags included.
func walk(t *testing.T, root string, fn func(path string, file *ast.File)) {
	t.Helper()
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		fn(path, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func unquote(s string) string {
	v, err := strconv.Unquote(s)
	if err != nil {
		return s
	}
	return v
}
