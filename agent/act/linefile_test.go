package act

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestAFileThatCannotBeWrittenAnewLosesNoEntry(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"create", "write anew", "sync anew", "rename", "list"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "lines")
			l, err := readLines(path, 0, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			kept := []string{"a"}
			if err := l.rewrite(kept); err != nil {
				t.Fatal(err)
			}
			broken := errors.New("the disk does not answer")
			l.cut = func(name string, _ []byte) (int, error) {
				if name == step {
					return 0, broken
				}
				return 0, nil
			}
			if err := l.rewrite(kept); !errors.Is(err, broken) {
				t.Errorf("a rewrite that fails says %v", err)
			}
			for _, e := range []string{"b", "c"} { // some are kept, some are refused; none is taken and lost
				if _, err := l.append(e); err == nil {
					kept = append(kept, e)
				} else if step != "list" {
					t.Errorf("%s is refused: %v", e, err)
				}
				l.cut = nil
			}
			if err := l.close(); err != nil {
				t.Fatal(err)
			}
			var read []string
			if _, err = readLines(path, 0, func(e string) { read = append(read, e) }); err != nil {
				t.Fatal(err)
			}
			if len(read) != len(kept) || len(read) < 2 {
				t.Errorf("read %v, kept %v", read, kept)
			}
		})
	}
}
