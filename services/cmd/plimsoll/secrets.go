package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/jobs"
	"plimsoll.dev/services/store"
)

// secretsCommand seals anew, with PLIMSOLL_SECRET_KEY, what PLIMSOLL_SECRET_KEYS_OLD open, and says what is left.
func secretsCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll secrets reseal", flag.ContinueOnError)
	if err := parse(set, args, stderr, 1); err != nil {
		return err
	}
	if set.Arg(0) != "reseal" {
		return fleet.Errorf(fleet.CodeInvalid, "say what: plimsoll secrets reseal")
	}
	cfg, err := configFromEnv()
	if err != nil {
		return err
	}
	sealer, err := auth.NewSealer(cfg.secretKey, cfg.oldKeys...)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, cfg.databaseURL, store.Options{MaxConns: 4})
	if err != nil {
		return err
	}
	defer db.Close()
	return reseal(ctx, &jobs.Reseal{DB: db, Secrets: sealer, Log: cfg.log}, stdout)
}

func reseal(ctx context.Context, worker *jobs.Reseal, stdout io.Writer) error {
	done, err := worker.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d sealed values: %d sealed anew now, %d with the key in force already, %d that no given key opens\n",
		done.All, done.Resealed, done.All-done.Resealed-done.Locked, done.Locked)
	if done.Locked > 0 {
		return fleet.Errorf(fleet.CodeConflict, "%d values need a key that is neither in PLIMSOLL_SECRET_KEY nor in PLIMSOLL_SECRET_KEYS_OLD; keep the old keys", done.Locked)
	}
	fmt.Fprintln(stdout, "PLIMSOLL_SECRET_KEYS_OLD is needed no more")
	return nil
}
