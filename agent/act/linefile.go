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
	path  string
	grows int64 // bytes it may grow by, beside twice what a rewrite left, before it is to be written anew
	f     *os.File
	size  int64
	least int64 // size after the last rewrite
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

// append writes an entry; full says that the file is to be written anew.
func (l *lineFile[E]) append(e E) (full bool, err error) {
	line, err := encodeLine(e)
	if err != nil {
		return false, err
	}
	if _, err := l.f.WriteAt(line, l.size); err != nil {
		return false, err
	}
	if err := l.f.Sync(); err != nil {
		return false, err
	}
	l.size += int64(len(line))
	return l.size > l.grows+2*l.least, nil
}

// rewrite puts a file of just these entries in the place of the old one.
func (l *lineFile[E]) rewrite(entries []E) error {
	var b bytes.Buffer
	for _, e := range entries {
		line, err := encodeLine(e)
		if err != nil {
			return err
		}
		b.Write(line)
	}
	tmp, err := os.OpenFile(l.path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = tmp.Write(b.Bytes())
	if err == nil {
		err = tmp.Sync()
	}
	if err == nil {
		err = os.Rename(tmp.Name(), l.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(l.path))
	}
	if err != nil {
		tmp.Close()
		return err
	}
	if l.f != nil {
		l.f.Close()
	}
	l.f, l.size, l.least = tmp, int64(b.Len()), int64(b.Len())
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
