// Command plimsoll is the whole service in one binary: dev (everything on one machine, with a demo cluster), serve (API, agents'
// door, dashboard), worker (jobs), migrate (schema), tenant (the first owner), openapi (the API's document). It reads the environment and wires the
// rooms; it holds no rules of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
)

const usage = `Plimsoll, a cost-aware autoscaler for GPU workloads on Kubernetes.

Usage: plimsoll COMMAND [flags]

  dev        everything on this machine, with a demo cluster
  serve      the REST API, the agents' door and the dashboard
  worker     the jobs: planning, roll-ups, costing, budgets, deliveries
  migrate    up | down | status: the database schema
  tenant     NAME E-MAIL: make a tenant and its first owner
  replay     score | compare | run: scaling policies on recorded load against a proven bound
  pack       pods on offerings at the least price, with a proven bound
  karpenter  a packing as the plan that makes Karpenter buy it
  market     import | history | show | ...: Spot prices
  secrets    reseal: seal with a new PLIMSOLL_SECRET_KEY what the old one sealed
  focus      export | check FILE: costs in FOCUS, and does a file keep the rules
  bill       check | import | list: bills of clouds
  openapi    print the OpenAPI document of the REST API
  version    print the version

plimsoll COMMAND -h tells the flags; docs/guides tells the rest.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command and returns the exit status: 0 done, 1 failed, 2 used wrongly.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"dev": devCommand, "serve": serveCommand, "worker": workerCommand, "migrate": migrateCommand, "tenant": tenantCommand, "market": marketCommand, "replay": replayCommand, "focus": focusCommand, "bill": billCommand, "pack": packCommand, "karpenter": karpenterCommand, "secrets": secretsCommand, "openapi": openapiCommand,
		"version": func(_ context.Context, args []string, out, problems io.Writer) error {
			if err := parse(flag.NewFlagSet("plimsoll version", flag.ContinueOnError), args, problems, 0); err != nil {
				return err
			}
			_, err := fmt.Fprintln(out, version())
			return err
		},
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(stdout, usage)
		return 0
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(stderr, "plimsoll: there is no command %q; plimsoll help lists them\n", args[0])
		return 2
	}
	err := command(ctx, args[1:], stdout, stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintf(stderr, "plimsoll: %v\n", err)
	var coded *fleet.Error
	if errors.As(err, &coded) && coded.Code == fleet.CodeInvalid {
		return 2
	}
	return 1
}

// errUsage: what is wrong was said already.
var errUsage = errors.New("used wrongly")

// parse reads flags and refuses left-over arguments beyond max. A wrong flag is one sentence; all flags are listed for -h only.
func parse(set *flag.FlagSet, args []string, stderr io.Writer, maxArgs int) error {
	set.SetOutput(io.Discard)
	err := set.Parse(args)
	set.SetOutput(stderr)
	if errors.Is(err, flag.ErrHelp) {
		set.Usage()
		return err
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v; -h lists the flags\n", set.Name(), err)
		return errUsage
	}
	if set.NArg() > maxArgs {
		fmt.Fprintf(stderr, "%s: what is %q?\n", set.Name(), set.Arg(maxArgs))
		return errUsage
	}
	return nil
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}

func migrateCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll migrate up|down|status", flag.ContinueOnError)
	if err := parse(set, args, stderr, 1); err != nil {
		return err
	}
	url := os.Getenv("PLIMSOLL_MIGRATE_DATABASE_URL")
	if url == "" {
		return fleet.Errorf(fleet.CodeInvalid, "set PLIMSOLL_MIGRATE_DATABASE_URL to a URL of the schema's owner")
	}
	m, err := store.NewMigrator(ctx, url)
	if err != nil {
		return err
	}
	defer m.Close()
	switch set.Arg(0) {
	case "up":
		return m.Up(ctx)
	case "down":
		name, err := m.Down(ctx)
		if err == nil && name == "" {
			name = "nothing to take back"
		}
		fmt.Fprintln(stdout, name)
		return err
	case "status":
		states, err := m.Status(ctx)
		for _, s := range states {
			state := "pending"
			if s.Applied {
				state = "applied " + s.At.UTC().Format("2006-01-02 15:04:05Z")
			}
			fmt.Fprintf(stdout, "%-32s %s\n", s.Name, state)
		}
		return err
	}
	return fleet.Errorf(fleet.CodeInvalid, "say which: plimsoll migrate up, down or status")
}

func openapiCommand(_ context.Context, args []string, stdout, stderr io.Writer) error {
	if err := parse(flag.NewFlagSet("plimsoll openapi", flag.ContinueOnError), args, stderr, 0); err != nil {
		return err
	}
	doc, err := httpapi.OpenAPI()
	if err != nil {
		return err
	}
	_, err = stdout.Write(doc)
	return err
}
