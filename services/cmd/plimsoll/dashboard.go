package main

import "embed"

// dashboard holds the built web files that scripts/lib.sh copies here; only .gitignore is committed.
//
//go:embed all:dashboard
var dashboard embed.FS
