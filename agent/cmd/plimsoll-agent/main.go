// Command plimsoll-agent runs in a customer's cluster: it reports what the cluster does and applies the plans that come
// back, within its own limits. The role "controller" sees workloads and acts, once per cluster; "node" reads the GPUs of one
// node. The environment is read here and nowhere else.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// version is set at build time with -ldflags "-X main.version=...".
var version = "dev"

func main() {
	if err := run(os.Args[1:], os.LookupEnv); err != nil {
		fmt.Fprintln(os.Stderr, "plimsoll-agent: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string, lookup func(string) (string, bool)) error {
	flags := flag.NewFlagSet("plimsoll-agent", flag.ContinueOnError)
	path := flags.String("config", "/etc/plimsoll/agent.yaml", "configuration `file`")
	role := flags.String("role", "controller", "controller or node")
	check := flags.Bool("check", false, "check the configuration and end")
	giveBack := flags.Bool("hand-back", false, "give the cluster's own autoscalers back what they had, and end; before an uninstall")
	plan := flags.String("apply", "", "apply the plan in `FILE` (JSON), write the results and end; with the state directory of an agent that does not run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *role != "controller" && *role != "node" {
		return fmt.Errorf("role must be controller or node, not %q", *role)
	}
	cfg, err := loadConfig(*path, lookup)
	if err != nil {
		return err
	}
	node, _ := lookup("NODE_NAME")
	if *role == "node" && node == "" {
		return fmt.Errorf("the node role needs the environment variable NODE_NAME")
	}
	if *check {
		fmt.Println("the configuration is valid")
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if *giveBack {
		return handBack(ctx, cfg, log)
	}
	if *plan != "" {
		return applyFile(ctx, cfg, *plan, os.Stdout, log)
	}
	return runAgent(ctx, cfg, *role, node, buildVersion(), log)
}

// buildVersion is the version of the build, or its commit when nobody set one.
func buildVersion() string {
	if version != "dev" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "dev-" + s.Value[:12]
			}
		}
	}
	return version
}
