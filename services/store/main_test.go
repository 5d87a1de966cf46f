package store_test

import (
	"context"
	"os"
	"testing"

	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/store"
)

func TestMain(m *testing.M) {
	code := m.Run()
	devdb.Cleanup()
	os.Exit(code)
}

// open returns a store on a database of the test's own, as the service role.
func open(t *testing.T) (*store.DB, devdb.Database) {
	t.Helper()
	d := devdb.ForTest(t, store.MigrateUp)
	db, err := store.Open(context.Background(), d.ServiceURL, store.Options{MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db, d
}
