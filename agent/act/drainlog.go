package act

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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

// DrainLog is what was begun, whom it was told and how it ended, on disk before anything is done.
type DrainLog struct {
	// mu guards the fields and the file.
	mu     sync.Mutex
	file   *lineFile[drainEntry]
	drains map[string]*Drain // by id
	order  []string          // of drains, oldest first
	told   map[string]*Told  // by id
}

// OpenDrainLog reads the log at path, or starts an empty one.
func OpenDrainLog(path string) (*DrainLog, error) {
	l := &DrainLog{drains: map[string]*Drain{}, told: map[string]*Told{}}
	var err error
	if l.file, err = readLines(path, drainsCompactAt, l.fold); err != nil {
		return nil, fmt.Errorf("drain log: %w", err)
	}
	return l, l.compact()
}

// Close closes the file.
func (l *DrainLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.close()
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
	slices.SortStableFunc(out, func(a, b Told) int { return cmp.Compare(a.Pod, b.Pod) })
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
	full, err := l.file.append(e)
	if err != nil {
		return err
	}
	l.fold(e)
	if full {
		return l.compact()
	}
	return nil
}

// compact writes what is known into a new file that takes the old one's place.
func (l *DrainLog) compact() error {
	var entries []drainEntry
	for _, id := range l.order {
		entries = append(entries, drainEntry{Drain: l.drains[id]})
	}
	for _, id := range slices.Sorted(maps.Keys(l.told)) {
		entries = append(entries, drainEntry{Told: l.told[id]})
	}
	if err := l.file.rewrite(entries); err != nil {
		return fmt.Errorf("drain log: %w", err)
	}
	return nil
}
