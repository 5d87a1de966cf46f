package jobs

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/store"
)

// short is a ward where one of three machines came, and the size was given back to what came.
func short(t *testing.T) *ward {
	t.Helper()
	w := openWard(t, 1)
	w.plan(3)
	w.look()
	w.look()
	w.age(4 * time.Minute)
	w.expect("given up", "partial 2-5 ended; 2 changes, size 3")
	return w
}

func (w *ward) undo() {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		list, err := store.GroupActions(ctx, tx, w.cluster, false, 1)
		if err != nil {
			return err
		}
		return store.UndoGroupAction(ctx, tx, w.cluster, list[0].ID, uuid.Must(uuid.NewV7()).String())
	})
}

func TestAnActionThatCameAboutInPartIsUndone(t *testing.T) {
	t.Parallel()
	w := short(t)
	w.undo()
	w.expect("what we gave back ourselves is nobody else's change", "pending 5-2; 3 changes, size 2")
	w.expect("and ended", "joined 5-2 ended; 3 changes, size 2")

	w = short(t)
	w.cloud.Meddle("gpu", 4)
	w.undo()
	if got := w.look(); !strings.HasPrefix(got, "replaced 5-2 ended") || !strings.HasSuffix(got, "size 4") {
		t.Errorf("somebody else's size: %q", got)
	}
}
