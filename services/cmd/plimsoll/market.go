package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// marketCommands are what `plimsoll market` can do, in the order of its help. One file each.
var marketCommands = []struct {
	name, help string
	run        func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}{
	{"import", "FILE...: put files of Spot prices into the history", marketImport},
	{"history", "what a pool cost over time", marketHistory},
	{"show", "what is kept, and the cheapest Spot machines", marketShow},
	{"backtest", "score the availability model on a trace; needs no database", marketBacktest},
	{"refresh", "read the cloud accounts of a tenant, or Azure's public prices, now", marketRefresh},
	{"sources", "how fresh each list of prices is", marketSources},
	{"quarantine", "prices that were not believed: list, accept, dismiss", marketQuarantine},
}

func marketCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		for _, c := range marketCommands {
			if c.name == args[0] {
				return c.run(ctx, args[1:], stdout, stderr)
			}
		}
	}
	help := len(args) == 1 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help")
	out := stderr
	if help {
		out = stdout
	}
	fmt.Fprint(out, "Usage: plimsoll market COMMAND [flags]\n\n")
	for _, c := range marketCommands {
		fmt.Fprintf(out, "  %-11s %s\n", c.name, c.help)
	}
	fmt.Fprint(out, "\nAll of them need PLIMSOLL_DATABASE_URL. docs/guides/market.md tells the rest.\n")
	if help {
		return nil
	}
	return errUsage
}

// openMarket connects to the database; the market's commands need nothing else of the configuration.
func openMarket(ctx context.Context) (*store.DB, error) {
	url := os.Getenv("PLIMSOLL_DATABASE_URL")
	if url == "" {
		return nil, fleet.Errorf(fleet.CodeInvalid, "set PLIMSOLL_DATABASE_URL to a URL of a role in plimsoll_service")
	}
	return store.Open(ctx, url, store.Options{MaxConns: 2})
}
