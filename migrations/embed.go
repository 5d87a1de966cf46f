// Package migrations holds the database schema as goose SQL files, in the order of their numbers. It holds nothing else, so
// that everything which needs the schema can have it.
package migrations

import "embed"

// FS has the *.sql files at its root.
//
//go:embed *.sql
var FS embed.FS
