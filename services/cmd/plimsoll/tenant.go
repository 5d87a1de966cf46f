package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"flag"
	"fmt"
	"io"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// tenantCommand makes a tenant with its first owner: the one thing that cannot be done through the API.
func tenantCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll tenant NAME E-MAIL", flag.ContinueOnError)
	currency := set.String("currency", "USD", "ISO 4217 currency of all amounts")
	zone := set.String("time-zone", "UTC", "IANA time zone of days and months")
	if err := parse(set, args, stderr, 2); err != nil {
		return err
	}
	if set.NArg() != 2 {
		return fleet.Errorf(fleet.CodeInvalid, "name the tenant and the e-mail address of its owner: plimsoll tenant NAME E-MAIL")
	}
	cfg, err := configFromEnv()
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, cfg.databaseURL, store.Options{MaxConns: 2})
	if err != nil {
		return err
	}
	defer db.Close()
	random := make([]byte, 15)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	password := base64.RawURLEncoding.EncodeToString(random)
	hash, err := auth.NewHasher(1).Hash(ctx, password)
	if err != nil {
		return err
	}
	t, user, err := db.CreateTenant(ctx, store.NewTenant{Name: set.Arg(0), Currency: *currency, TimeZone: *zone,
		Owner: store.NewUser{Email: set.Arg(1), DisplayName: set.Arg(1), PasswordHash: hash}})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "tenant    %s\ne-mail    %s\n", t.ID, user.Email)
	if user.PasswordHash == hash {
		fmt.Fprintf(stdout, "password  %s\n", password)
	} else {
		fmt.Fprintln(stdout, "password  the one this person has already")
	}
	return nil
}
