package act

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
)

// lineFile is an append-only file of checksummed lines, each an entry as JSON, on disk before append returns. A torn last line, as kill -9
// leaves it, is ignored. Whoever holds it guards it.
type lineFile[E any] struct {
	path     string
	grows    int64 // bytes it may grow by, beside twice what a rewrite left, before it is to be written anew
	f        *os.File
	size     int64
	least    int64                                    // size after the last rewrite
	unlisted bool                                     // the file took the old one's place, and the directory may not say so after a loss of power
	cut      func(step string, b []byte) (int, error) // of tests: before each step; how many bytes of b are still written, and that the step fails. nil: never
}

// step is where tests cut.
func (l *lineFile[E]) step(name string) error {
	_, err := l.write(name, nil, nil)
	return err
}

// write hands b to w, unless it is cut there.
func (l *lineFile[E]) write(name string, b []byte, w func([]byte) (int, error)) (int, error) {
	var cut error
	if l.cut != nil {
		var n int
		if n, cut = l.cut(name, b); cut != nil {
			b = b[:n]
		}
	}
	n := 0
	if len(b) > 0 {
		var err error
		if n, err = w(b); err != nil {
			return n, err
		}
	}
	return n, cut
}

// readLines hands on the entries of the file at path, if there is one. The file takes entries after its first rewrite.
func readLines[E any](path string, grows int64, fold func(E)) (*lineFile[E], error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if e, ok := decodeLine[E](line); whole && ok {
			fold(e)
		}
		b = rest
	}
	return &lineFile[E]{path: path, grows: grows}, nil
}

// append writes an entry; full says that the file is to be written anew. An entry whose append failed may be read or not after a restart.
func (l *lineFile[E]) append(e E) (full bool, err error) {
	line, err := encodeLine(e)
	if err != nil {
		return false, err
	}
	if l.unlisted {
		if err := l.list(); err != nil {
			return false, err
		}
	}
	if _, err := l.write("write", line, func(b []byte) (int, error) { return l.f.WriteAt(b, l.size) }); err != nil {
		return false, err
	}
	if err := l.step("sync"); err != nil {
		return false, err
	}
	if err := l.f.Sync(); err != nil {
		return false, err
	}
	l.size += int64(len(line))
	return l.size > l.grows+2*l.least, nil
}

// rewrite puts a file of just these entries in the place of the old one. When it fails the old file stays, or the new one is in its place: both
// say the same, and entries are taken by the one that the path names.
func (l *lineFile[E]) rewrite(entries []E) error {
	var b bytes.Buffer
	for _, e := range entries {
		line, err := encodeLine(e)
		if err != nil {
			return err
		}
		b.Write(line)
	}
	tmp, err := l.beside(b.Bytes())
	if err != nil {
		return err
	}
	if l.f != nil {
		l.f.Close()
	}
	l.f, l.size, l.least, l.unlisted = tmp, int64(b.Len()), int64(b.Len()), true
	return l.list()
}

// beside writes a new file and gives it the path.
func (l *lineFile[E]) beside(b []byte) (*os.File, error) {
	if err := l.step("create"); err != nil {
		return nil, err
	}
	tmp, err := os.OpenFile(l.path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = l.write("write anew", b, tmp.Write); err == nil {
		err = l.step("sync anew")
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err == nil {
		err = l.step("rename")
	}
	if err == nil {
		err = os.Rename(tmp.Name(), l.path)
	}
	if err != nil {
		tmp.Close()
		return nil, err
	}
	return tmp, nil
}

// list makes the directory name the file for good.
func (l *lineFile[E]) list() error {
	if err := l.step("list"); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(l.path)); err != nil {
		return err
	}
	l.unlisted = false
	return nil
}

func (l *lineFile[E]) close() error { return l.f.Close() }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeLine[E any](e E) ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(b, castagnoli), b), nil
}

func decodeLine[E any](line []byte) (e E, ok bool) {
	sum, body, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return e, false
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || uint32(want) != crc32.Checksum(body, castagnoli) {
		return e, false
	}
	return e, json.Unmarshal(body, &e) == nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
