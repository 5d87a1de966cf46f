package replay

import (
	"sort"
	"time"

	"plimsoll.dev/services/fleet"
)

// World is a model cluster at a moment. It is not safe for concurrent use: whoever shares it holds a lock.
type World struct {
	cfg   Config
	now   int64 // unix milliseconds, a whole step
	pools []*poolState
	loads []*workloadState
	byKey map[string]*workloadState
	nodes []*node // living, by number
	pods  []*pod  // living, by number
	// Those that ended within the last hour stay visible to Changes.
	endedNodes []*node
	endedPods  []*pod
	ids        uint64 // what UIDs are made from: two worlds of one seed that began at different times share none
	revision   int64
	nextNode   uint64
	nextPod    uint64
	events     []Event
	nextEvent  int64 // cursor of the next event
	spent      Spent
}

// Event is something that happened in the cluster, in the words of the agent contract.
type Event struct {
	Cursor   int64     `json:"cursor"`
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"` // interruption_notice, capacity_failure, failed_scheduling, node_lost
	Object   string    `json:"object"`
	Workload string    `json:"workload,omitempty"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
}

const (
	keepEnded  = hourMillis
	keepEvents = 2_000
)

// NewWorld makes a World at cfg.Start. Its first machines and replicas are up, so that it does not begin with a cold start.
func NewWorld(cfg Config) (*World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := emptyWorld(cfg.withDefaults())
	w.ids = mix(cfg.Seed ^ uint64(w.now))
	w.furnish()
	return w, nil
}

// emptyWorld wires the fixed parts; what lives in it comes from furnish or from a saved state.
func emptyWorld(cfg Config) *World {
	w := &World{cfg: cfg, now: cfg.Start.UnixMilli(), byKey: map[string]*workloadState{}}
	for i := range cfg.Pools {
		w.pools = append(w.pools, newPoolState(&cfg.Pools[i], i))
	}
	for i := range cfg.Workloads {
		l := &workloadState{cfg: &cfg.Workloads[i], index: uint64(i)}
		l.Desired = l.cfg.Replicas
		for _, name := range l.cfg.Pools {
			for _, p := range w.pools {
				if p.cfg.Name == name {
					l.pools = append(l.pools, p)
				}
			}
		}
		w.loads = append(w.loads, l)
		w.byKey[l.cfg.Key] = l
	}
	return w
}

// furnish puts the first replicas on machines that are ready, without waiting.
func (w *World) furnish() {
	for _, p := range w.pools {
		for i := 0; i < p.cfg.MinNodes; i++ {
			w.addNode(p, p.cfg.Zones[i%len(p.cfg.Zones)])
		}
	}
	for _, l := range w.loads {
		for i := 0; i < l.Desired; i++ {
			w.addPod(l)
		}
	}
	for _, p := range w.pods {
		if n := w.findNode(p); n != nil {
			w.place(p, n)
		} else if pool := p.load.pools[0]; len(pool.nodes) < pool.cfg.MaxNodes {
			w.place(p, w.addNode(pool, pool.quietestZone(w.now, false)))
		}
	}
	for _, n := range w.nodes {
		n.Phase, n.ReadyMS = fleet.NodeReady, w.now
	}
	for _, p := range w.pods {
		if p.node != nil {
			p.Phase, p.StartedMS, p.ReadyMS = fleet.PodReady, w.now, w.now
			p.node.hold(p.load.cfg.Key)
		}
	}
}

// Now is the World's clock.
func (w *World) Now() time.Time { return time.UnixMilli(w.now).UTC() }

// AdvanceTo moves the World to the last whole step at or before t. A time in the past changes nothing.
func (w *World) AdvanceTo(t time.Time) error {
	for until := t.UnixMilli(); w.now+StepMillis <= until; {
		if err := w.Step(); err != nil {
			return err
		}
	}
	return nil
}

// Step moves the World by one step. The only error is a traffic source that says something impossible.
func (w *World) Step() error {
	w.now += StepMillis
	w.stepNodes()
	w.stepPods()
	w.schedule()
	for _, l := range w.loads {
		if err := w.serve(l); err != nil {
			return err
		}
	}
	w.account()
	if w.now%SampleMillis == 0 {
		for _, l := range w.loads {
			l.sample(w.now)
		}
	}
	if w.now%(10*60_000) == 0 {
		w.forget()
	}
	return nil
}

// Scale asks for an absolute number of replicas and says what was asked for before. It acts at once; machines and replicas follow in
// their own time. An unknown workload is not_found, a count out of bounds invalid.
func (w *World) Scale(key string, replicas int) (before, after int, err error) {
	l, ok := w.byKey[key]
	if !ok {
		return 0, 0, fleet.Errorf(fleet.CodeNotFound, "there is no workload %q", key)
	}
	if replicas < 0 || replicas > maxReplicas {
		return l.Desired, l.Desired, fleet.Errorf(fleet.CodeInvalid, "%d replicas are outside 0..%d", replicas, maxReplicas)
	}
	before, l.Desired = l.Desired, replicas
	if before != replicas {
		l.Sums.scaled(before, replicas)
		w.reconcile(l)
	}
	return before, replicas, nil
}

// Keys lists the workloads, sorted.
func (w *World) Keys() []string {
	keys := make([]string, 0, len(w.loads))
	for _, l := range w.loads {
		keys = append(keys, l.cfg.Key)
	}
	sort.Strings(keys)
	return keys
}

// Events returns what happened since a cursor, oldest first, and the cursor for the next call. Only the newest 2,000 are kept.
func (w *World) Events(since int64) (events []Event, cursor int64) {
	for _, e := range w.events {
		if e.Cursor >= since {
			events = append(events, e)
		}
	}
	return events, w.nextEvent
}

func (w *World) event(kind, object, workload, reason, message string) {
	w.events = append(w.events, Event{Cursor: w.nextEvent, At: w.Now(), Kind: kind, Object: object, Workload: workload, Reason: reason, Message: message})
	w.nextEvent++
	if len(w.events) > keepEvents+keepEvents/4 {
		w.events = append([]Event(nil), w.events[len(w.events)-keepEvents:]...)
	}
}

// forget drops what ended long ago.
func (w *World) forget() {
	nodes := w.endedNodes[:0]
	for _, n := range w.endedNodes {
		if w.now-n.EndedMS < keepEnded {
			nodes = append(nodes, n)
		}
	}
	w.endedNodes = nodes
	pods := w.endedPods[:0]
	for _, p := range w.endedPods {
		if w.now-p.EndedMS < keepEnded {
			pods = append(pods, p)
		}
	}
	w.endedPods = pods
}

// changed marks a node or pod as news for Changes.
func (w *World) changed(rev *int64) {
	w.revision++
	*rev = w.revision
}
