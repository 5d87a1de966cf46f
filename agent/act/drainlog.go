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
	maxAskers       = 64        // plans that are told the end of one drain
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
	Owes       bool   `json:"owes,omitempty"` // how it ended is not in the spool yet
}

// asker is an action of a plan that asked for a drain which was under way: it is told the end too.
type asker struct {
	Drain      string `json:"drain"`
	Plan       string `json:"plan"`
	Action     string `json:"action"`
	Generation uint64 `json:"generation,omitempty"`
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
	Owes     bool   `json:"owes,omitempty"` // its outcome is not known to be in the spool; ends with what its drain owes
}

type drainEntry struct {
	Drain *Drain `json:"drain,omitempty"`
	Told  *Told  `json:"told,omitempty"`
	Asked *asker `json:"asked,omitempty"`
}

// DrainLog is what was begun, whom it was told and how it ended, on disk before anything is done, and until the spool has it.
type DrainLog struct {
	// mu guards the fields and the file.
	mu     sync.Mutex
	file   *lineFile[drainEntry]
	drains map[string]*Drain  // by id
	order  []string           // of drains, oldest first
	told   map[string]*Told   // by id
	asked  map[string][]asker // by drain
}

// OpenDrainLog reads the log at path, or starts an empty one.
func OpenDrainLog(path string) (*DrainLog, error) {
	l := &DrainLog{drains: map[string]*Drain{}, told: map[string]*Told{}, asked: map[string][]asker{}}
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

// Owing returns the drains that have ended and whose end is not in the spool yet, oldest first.
func (l *DrainLog) Owing() []Drain {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Drain
	for _, id := range l.order {
		if d := l.drains[id]; d.Ended != "" && d.Owes {
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
		d := l.drains[id]
		if d.Plan == plan && d.Action == action || slices.ContainsFunc(l.asked[id], func(a asker) bool { return a.Plan == plan && a.Action == action }) {
			return *d, true
		}
	}
	return Drain{}, false
}

// join adds an action to those that are told how a drain ends; false: it has ended, and whoever was to be told is.
func (l *DrainLog) join(a asker) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.drains[a.Drain]
	switch {
	case d == nil || d.Ended != "":
		return false, nil
	case d.Plan == a.Plan && d.Action == a.Action || slices.Contains(l.asked[a.Drain], a):
		return true, nil
	case len(l.asked[a.Drain]) >= maxAskers:
		return true, fmt.Errorf("%d plans asked for this drain", maxAskers)
	}
	return true, l.appendLocked(drainEntry{Asked: &a})
}

// askers are the actions that are told how a drain ended; the one that began it comes first.
func (l *DrainLog) askers(d Drain) []asker {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []asker
	if d.Plan != "" {
		out = append(out, asker{d.ID, d.Plan, d.Action, d.Generation})
	}
	return append(out, l.asked[d.ID]...)
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
		if d.Ended != "" && !d.Owes {
			for _, t := range l.told {
				if t.Drain == d.ID {
					t.Owes = false
				}
			}
		}
		l.forget()
	}
	if t := e.Told; t != nil && l.drains[t.Drain] != nil {
		l.told[t.ID] = t
	}
	if a := e.Asked; a != nil && l.drains[a.Drain] != nil {
		l.asked[a.Drain] = append(l.asked[a.Drain], *a)
	}
}

// forget drops the oldest ended drains beyond what is kept, with what they told. One that owes its end is kept.
func (l *DrainLog) forget() {
	for i := 0; len(l.order) > keepDrains && i < len(l.order); {
		id := l.order[i]
		if d := l.drains[id]; d.Ended == "" || d.Owes {
			i++
			continue
		}
		delete(l.drains, id)
		delete(l.asked, id)
		maps.DeleteFunc(l.told, func(_ string, t *Told) bool { return t.Drain == id })
		l.order = slices.Delete(l.order, i, i+1)
	}
}

func (l *DrainLog) append(e drainEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendLocked(e)
}

// appendLocked keeps an entry. A file that cannot be written anew is no reason to say that the entry is not kept: whoever hears that takes what
// was begun for not begun. The caller holds mu.
func (l *DrainLog) appendLocked(e drainEntry) error {
	full, err := l.file.append(e)
	if err != nil {
		return err
	}
	l.fold(e)
	if full {
		_ = l.compact() // the next entry tries again
	}
	return nil
}

// compact writes what is known into a new file that takes the old one's place.
func (l *DrainLog) compact() error {
	var entries []drainEntry
	for _, id := range l.order {
		entries = append(entries, drainEntry{Drain: l.drains[id]})
		for i := range l.asked[id] {
			entries = append(entries, drainEntry{Asked: &l.asked[id][i]})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.told)) {
		entries = append(entries, drainEntry{Told: l.told[id]})
	}
	if err := l.file.rewrite(entries); err != nil {
		return fmt.Errorf("drain log: %w", err)
	}
	return nil
}
