package act

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

const (
	keepDrains      = 256       // newest ended ones that are remembered
	drainsCompactAt = 256 << 10 // bytes
)

// Drain is one machine's leave as the log knows it.
type Drain struct {
	ID         string `json:"id"`
	Node       string `json:"node"`
	UID        string `json:"uid"`   // of the node
	Cause      string `json:"cause"` // see Leave
	Evict      bool   `json:"evict"` // false: its pods are only told
	StartMS    int64  `json:"start_ms"`
	DeadlineMS int64  `json:"deadline_ms"`
	Plan       string `json:"plan,omitempty"`
	Action     string `json:"action,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	Cordoned   bool   `json:"cordoned,omitempty"` // by us
	Ended      string `json:"ended,omitempty"`    // done, late, refused, given_up; empty: under way
	Detail     string `json:"detail,omitempty"`
	EndMS      int64  `json:"end_ms,omitempty"`
}

// Told is a pod's checkpoint as the log knows it.
type Told struct {
	Drain    string `json:"drain"`
	ID       string `json:"id"`
	PodUID   string `json:"pod_uid"`
	Pod      string `json:"pod"` // namespace/name
	Workload string `json:"workload,omitempty"`
	AtMS     int64  `json:"at_ms"`
	Outcome  string `json:"outcome,omitempty"` // empty: asked and not answered
	TookMS   int64  `json:"took_ms,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Tries    int32  `json:"tries,omitempty"`
}

type drainEntry struct {
	Drain *Drain `json:"drain,omitempty"`
	Told  *Told  `json:"told,omitempty"`
}

// DrainLog is what was begun, whom it was told and how it ended, on disk before anything is done. A torn last line is ignored.
type DrainLog struct {
	path string

	// mu guards the fields and the file.
	mu     sync.Mutex
	f      *os.File
	size   int64
	least  int64             // size after the last rewrite
	drains map[string]*Drain // by id
	order  []string          // of drains, oldest first
	told   map[string]*Told  // by id
}

// OpenDrainLog reads the log at path, or starts an empty one.
func OpenDrainLog(path string) (*DrainLog, error) {
	l := &DrainLog{path: path, drains: map[string]*Drain{}, told: map[string]*Told{}}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("drain log: %w", err)
	}
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if e, ok := decodeDrain(line); whole && ok {
			l.fold(e)
		}
		b = rest
	}
	return l, l.compact()
}

// Close closes the file.
func (l *DrainLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}

// Open returns the drains that have not ended, oldest first.
func (l *DrainLog) Open() []Drain {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Drain
	for _, id := range l.order {
		if d := l.drains[id]; d.Ended == "" {
			out = append(out, *d)
		}
	}
	return out
}

// Of returns the newest drain of a node's uid and cause.
func (l *DrainLog) Of(uid, cause string) (Drain, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range slices.Backward(l.order) {
		if d := l.drains[id]; d.UID == uid && (cause == "" || d.Cause == cause) {
			return *d, true
		}
	}
	return Drain{}, false
}

// Begun says whether an action of a plan began a drain.
func (l *DrainLog) Begun(plan, action string) (Drain, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range slices.Backward(l.order) {
		if d := l.drains[id]; d.Plan == plan && d.Action == action {
			return *d, true
		}
	}
	return Drain{}, false
}

// Told returns what a pod was told under an id.
func (l *DrainLog) Told(id string) (Told, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.told[id]; t != nil {
		return *t, true
	}
	return Told{}, false
}

// ToldOf returns all that a drain told pods, by pod.
func (l *DrainLog) ToldOf(drain string) []Told {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Told
	for _, id := range slices.Sorted(maps.Keys(l.told)) {
		if l.told[id].Drain == drain {
			out = append(out, *l.told[id])
		}
	}
	slices.SortStableFunc(out, func(a, b Told) int { return bytes.Compare([]byte(a.Pod), []byte(b.Pod)) })
	return out
}

// Put keeps a drain as it stands.
func (l *DrainLog) Put(d Drain) error { return l.append(drainEntry{Drain: &d}) }

// Tell keeps what a pod was told, and how it answered.
func (l *DrainLog) Tell(t Told) error { return l.append(drainEntry{Told: &t}) }

func (l *DrainLog) fold(e drainEntry) {
	if d := e.Drain; d != nil {
		if l.drains[d.ID] == nil {
			l.order = append(l.order, d.ID)
		}
		l.drains[d.ID] = d
		l.forget()
	}
	if t := e.Told; t != nil && l.drains[t.Drain] != nil {
		l.told[t.ID] = t
	}
}

// forget drops the oldest ended drains beyond what is kept, with what they told.
func (l *DrainLog) forget() {
	for i := 0; len(l.order) > keepDrains && i < len(l.order); {
		id := l.order[i]
		if l.drains[id].Ended == "" {
			i++
			continue
		}
		delete(l.drains, id)
		maps.DeleteFunc(l.told, func(_ string, t *Told) bool { return t.Drain == id })
		l.order = slices.Delete(l.order, i, i+1)
	}
}

func (l *DrainLog) append(e drainEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, err := encodeDrain(e)
	if err != nil {
		return err
	}
	if _, err := l.f.WriteAt(line, l.size); err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		return err
	}
	l.size += int64(len(line))
	l.fold(e)
	if l.size > drainsCompactAt+2*l.least {
		return l.compact()
	}
	return nil
}

// compact writes what is known into a new file that takes the old one's place.
func (l *DrainLog) compact() error {
	var b bytes.Buffer
	for _, id := range l.order {
		line, err := encodeDrain(drainEntry{Drain: l.drains[id]})
		if err != nil {
			return fmt.Errorf("drain log: %w", err)
		}
		b.Write(line)
	}
	for _, id := range slices.Sorted(maps.Keys(l.told)) {
		line, err := encodeDrain(drainEntry{Told: l.told[id]})
		if err != nil {
			return fmt.Errorf("drain log: %w", err)
		}
		b.Write(line)
	}
	tmp, err := os.OpenFile(l.path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("drain log: %w", err)
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
		return fmt.Errorf("drain log: %w", err)
	}
	if l.f != nil {
		l.f.Close()
	}
	l.f, l.size, l.least = tmp, int64(b.Len()), int64(b.Len())
	return nil
}

func encodeDrain(e drainEntry) ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(b, castagnoli), b), nil
}

func decodeDrain(line []byte) (drainEntry, bool) {
	var e drainEntry
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
