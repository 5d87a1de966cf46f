package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	variableName = regexp.MustCompile(`^PLIMSOLL_[A-Z0-9_]+$`)
	variableRow  = regexp.MustCompile("(?m)^\\| `(PLIMSOLL_[A-Z0-9_]+)` \\|")
	variableWord = regexp.MustCompile(`PLIMSOLL_[A-Z0-9_]+`)
)

// TestOperateListsEveryVariable: the guide has a row for each variable that the program reads and for no other, and the chart
// sets none that nobody reads.
func TestOperateListsEveryVariable(t *testing.T) {
	t.Parallel()
	read := variablesRead(t)
	if len(read) < 20 || !read["PLIMSOLL_SMTP_PASSWORD"] || !read["PLIMSOLL_TRUSTED_PROXIES"] {
		t.Fatalf("found only %v", slices.Sorted(maps.Keys(read)))
	}
	guide, err := os.ReadFile("../../../docs/guides/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range variableRow.FindAllStringSubmatch(string(guide), -1) {
		if listed[m[1]] {
			t.Errorf("the guide lists %s twice", m[1])
		}
		listed[m[1]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if !listed[name] {
			t.Errorf("the program reads %s, and docs/guides/operate.md has no row for it", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !read[name] {
			t.Errorf("docs/guides/operate.md lists %s, which nothing reads", name)
		}
	}
	set := 0
	templates, err := filepath.Glob("../../../deploy/helm/plimsoll/templates/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range templates {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variableWord.FindAllString(string(text), -1) {
			set++
			if !read[name] {
				t.Errorf("%s sets %s, which nothing reads", filepath.Base(path), name)
			}
		}
	}
	if set < 10 {
		t.Errorf("the chart sets %d variables only", set)
	}
}

// variablesRead finds the names of variables in the program: the floor plan lets only cmd read the environment, and each name
// is a string of its own there, whichever function it is given to.
func variablesRead(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, arg := range call.Args {
				lit, ok := arg.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					continue
				}
				if name, err := strconv.Unquote(lit.Value); err == nil && variableName.MatchString(name) {
					names[name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestMailServerOfTheEnvironment: what the chart sets is what the service reads; a wrong value stops the start, and no error
// quotes the password.
func TestMailServerOfTheEnvironment(t *testing.T) {
	const password = "kept-to-itself"
	for name, c := range map[string]struct {
		env  map[string]string // after PLIMSOLL_SMTP_
		none bool              // no mail server
		want string            // in the error; empty: accepted
	}{
		"nothing is no mail server":              {none: true},
		"a sender without a host is none either": {env: map[string]string{"FROM": "alerts@example.com"}, none: true},
		"a host and a sender are enough":         {env: map[string]string{"HOST": "smtp.example.com", "FROM": "Plimsoll <alerts@example.com>"}},
		"as the chart writes it":                 {env: map[string]string{"HOST": "smtp.example.com", "PORT": "2465", "TLS": "tls", "FROM": "alerts@example.com", "USER": "alerts", "PASSWORD": password}},
		"an empty TLS is the default":            {env: map[string]string{"HOST": "smtp.example.com", "TLS": "", "FROM": "alerts@example.com", "USER": "alerts", "PASSWORD": password}},
		"no sender":                              {env: map[string]string{"HOST": "smtp.example.com", "PASSWORD": password}, want: "sender"},
		"a port in words":                        {env: map[string]string{"HOST": "smtp.example.com", "FROM": "alerts@example.com", "PORT": "smtp"}, want: "PLIMSOLL_SMTP_PORT"},
		"a port past the last":                   {env: map[string]string{"HOST": "smtp.example.com", "FROM": "alerts@example.com", "PORT": "65536"}, want: "port"},
		"another word for TLS":                   {env: map[string]string{"HOST": "smtp.example.com", "FROM": "alerts@example.com", "TLS": "ssl"}, want: "starttls, tls, none"},
		"a password over no TLS":                 {env: map[string]string{"HOST": "smtp.example.com", "FROM": "alerts@example.com", "TLS": "none", "USER": "alerts", "PASSWORD": password}, want: "without TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, suffix := range []string{"HOST", "PORT", "TLS", "USER", "PASSWORD", "FROM"} {
				t.Setenv("PLIMSOLL_SMTP_"+suffix, c.env[suffix])
			}
			mailer, err := readMailer()
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "" && (mailer == nil) != c.none:
				t.Errorf("mail server %v", mailer != nil)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), password)):
				t.Errorf("%v, want an error with %q", err, c.want)
			}
		})
	}
}
