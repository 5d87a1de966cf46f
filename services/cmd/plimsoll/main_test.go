package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

// Wrong use is one plain sentence and status 2; help is no failure.
func TestCommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing":                       {nil, 2, "Usage: plimsoll COMMAND"},
		"help":                          {[]string{"help"}, 0, "Usage: plimsoll COMMAND"},
		"an unknown command":            {[]string{"fly"}, 2, `there is no command "fly"`},
		"an unknown flag":               {[]string{"dev", "-fly"}, 2, "flag provided but not defined"},
		"version takes nothing":         {[]string{"version", "now"}, 2, `plimsoll version: what is "now"?`},
		"an argument too many":          {[]string{"serve", "now"}, 2, `what is "now"?`},
		"serve without a database":      {[]string{"serve"}, 2, "set PLIMSOLL_DATABASE_URL"},
		"migrate without an owner":      {[]string{"migrate", "up"}, 2, "set PLIMSOLL_MIGRATE_DATABASE_URL"},
		"dev with an impossible speed":  {[]string{"dev", "-speed", "0.5"}, 2, "-speed must be 1 to 600"},
		"dev with an impossible past":   {[]string{"dev", "-days", "99"}, 2, "-days must be 0 to 30"},
		"dev with a trace that is away": {[]string{"dev", "-trace", "no/such.csv"}, 2, "trace: open no/such.csv"},
		"a tenant without an owner":     {[]string{"tenant", "ACME"}, 2, "name the tenant and the e-mail address"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []string{"PLIMSOLL_DATABASE_URL", "PLIMSOLL_MIGRATE_DATABASE_URL"} {
				t.Setenv(v, "")
			}
			var out, problems bytes.Buffer
			code := run(context.Background(), c.args, &out, &problems)
			if code != c.code || !strings.Contains(out.String()+problems.String(), c.says) {
				t.Errorf("status %d, said %q; want %d and %q", code, out.String()+problems.String(), c.code, c.says)
			}
		})
	}
}

// A slip in a flag is answered by one line, not by the list of all flags, which -h gives.
func TestAWrongFlagIsOneSentence(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"dev", "serve", "worker", "migrate", "tenant", "pack", "karpenter", "openapi", "version"} {
		var out, problems bytes.Buffer
		code := run(context.Background(), []string{command, "-fly"}, &out, &problems)
		if said := problems.String(); code != 2 || strings.Count(said, "\n") != 1 || !strings.Contains(said, "-fly; -h lists the flags") {
			t.Errorf("%s: status %d, said %q", command, code, said)
		}
	}
	var out, problems bytes.Buffer
	if code := run(context.Background(), []string{"dev", "-h"}, &out, &problems); code != 0 || !strings.Contains(problems.String(), "-agent") {
		t.Errorf("help: status %d, said %q", code, problems.String())
	}
}

func TestOpenAPIIsTheCommittedOne(t *testing.T) {
	t.Parallel()
	var out, problems bytes.Buffer
	if code := run(context.Background(), []string{"openapi"}, &out, &problems); code != 0 {
		t.Fatal(problems.String())
	}
	committed, err := os.ReadFile("../../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), committed) {
		t.Error("docs/openapi.yaml differs from the running service: run ./scripts/gen and commit")
	}
}
