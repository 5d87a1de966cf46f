// Package serve answers the autoscalers that a cluster runs already: Cluster Autoscaler asks which node group to grow, KEDA how many
// replicas a workload shall have. What it says comes from the service and from plans that the agent accepted; it decides nothing,
// never answers with something out of date, and never keeps an autoscaler waiting. It knows neither the cluster's API nor the uplink.
package serve

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Bounds of what is kept.
const (
	maxTargets   = 20_000
	maxOfferings = 100_000
	maxValid     = time.Hour        // of a Standing, whatever it says
	publishedFor = 10 * time.Minute // a plan's target holds for this long without being told again
	askedFor     = 10 * time.Minute // KEDA asks every 30 s unless told otherwise
	maxAsked     = 20_000
)

// Errors of Target. A caller tells them to whoever asked; no number goes with them.
var (
	ErrUnknown = errors.New("no plan names this workload yet")
	ErrStale   = errors.New("the service was not heard of for too long: the target is out of date")
)

// Gate says whether answers may be given now: not in observe and recommend mode. why is one plain sentence.
type Gate func() (ok bool, why string)

// Env is what a Board knows of the world.
type Env struct {
	NowMS    func() int64            // the cluster's clock
	Observed func() map[string]int32 // replicas asked for, of every workload that is seen
	Frozen   func() bool             // true: targets stay as they are
}

// Board is what holds now: the replica count of workloads, and what offerings cost. Safe for concurrent use.
//
// A count gets onto the board in two ways only. A plan that the agent accepted puts it there (Publish), after the agent's own limits
// were checked. A Standing confirms a count that is there already, or the count that the cluster has anyway; it changes none.
type Board struct {
	env Env

	// mu guards what follows.
	mu         sync.Mutex
	generation uint64
	targets    map[string]target
	offerings  *offerings
	asked      map[string]int64 // workload: when KEDA asked last
	ignored    uint64           // targets of a Standing that neither the board nor the cluster had
	changed    chan struct{}    // closed and replaced on each change of a target
}

type target struct {
	replicas int32
	untilMS  int64
}

// NewBoard makes an empty board.
func NewBoard(env Env) *Board {
	return &Board{env: env, targets: map[string]target{}, asked: map[string]int64{}, changed: make(chan struct{})}
}

// Publish puts the count of an accepted plan onto the board.
func (b *Board) Publish(workload string, replicas int32) error {
	now := b.env.NowMS()
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.targets[workload]; !known && len(b.targets) >= maxTargets {
		return fmt.Errorf("more than %d workloads are served", maxTargets)
	}
	b.set(workload, replicas, now+publishedFor.Milliseconds())
	return nil
}

// Restore puts counts onto the board that were set in a former life of the agent, where none is yet.
func (b *Board) Restore(set map[string]int32) {
	now := b.env.NowMS()
	b.mu.Lock()
	defer b.mu.Unlock()
	for w, n := range set {
		if _, known := b.targets[w]; !known && len(b.targets) < maxTargets {
			b.set(w, n, now+publishedFor.Milliseconds())
		}
	}
}

// Put takes what the service says holds now. One of an older plan than was seen before, or that is over, changes nothing.
func (b *Board) Put(s *agentv1.Standing) error {
	now := b.env.NowMS()
	until := min(s.GetValidUntilMs(), now+maxValid.Milliseconds())
	switch {
	case len(s.GetTargets()) > maxTargets || len(s.GetOfferings()) > maxOfferings:
		return fmt.Errorf("%d targets and %d offerings are more than are kept", len(s.GetTargets()), len(s.GetOfferings()))
	case until <= now:
		return errors.New("it came after its time")
	}
	offers := indexOfferings(s.GetOfferings(), until)
	observed, frozen := b.env.Observed(), b.env.Frozen()
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.GetGeneration() < b.generation {
		return fmt.Errorf("it is of plan %d; plan %d was seen before", s.GetGeneration(), b.generation)
	}
	b.generation, b.offerings = s.GetGeneration(), offers
	next := make(map[string]target, len(s.GetTargets()))
	maps.Copy(next, b.targets)
	for w, t := range next { // what ended long ago is forgotten
		if t.untilMS < now-maxValid.Milliseconds() {
			delete(next, w)
		}
	}
	b.targets = next
	for _, t := range s.GetTargets() {
		b.confirm(t, until, observed, frozen)
	}
	return nil
}

// confirm holds on to a count for longer. While frozen the count on the board stays, whatever the service says of it.
func (b *Board) confirm(t *agentv1.Target, until int64, observed map[string]int32, frozen bool) {
	w, n := t.GetWorkload(), t.GetReplicas()
	have, known := b.targets[w]
	seen, there := observed[w]
	switch {
	case w == "" || n < 0:
		b.ignored++
	case known && (have.replicas == n || frozen):
		b.set(w, have.replicas, max(until, have.untilMS))
	case there && seen == n && len(b.targets) < maxTargets:
		b.set(w, n, until)
	default:
		b.ignored++
	}
}

// set needs mu.
func (b *Board) set(workload string, replicas int32, untilMS int64) {
	was, known := b.targets[workload]
	b.targets[workload] = target{replicas: replicas, untilMS: untilMS}
	if !known || was.replicas != replicas || was.untilMS < b.env.NowMS() {
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// Target is the count that holds now for a workload, ErrUnknown or ErrStale. The channel is closed when any target changes.
func (b *Board) Target(workload string) (int32, <-chan struct{}, error) {
	now := b.env.NowMS()
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.targets[workload]
	switch {
	case !ok:
		return 0, b.changed, ErrUnknown
	case t.untilMS <= now:
		return 0, b.changed, ErrStale
	}
	return t.replicas, b.changed, nil
}

// Ask notes that KEDA wants to know about a workload.
func (b *Board) Ask(workload string) {
	now := b.env.NowMS()
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.asked[workload]; !known && len(b.asked) >= maxAsked {
		maps.DeleteFunc(b.asked, func(_ string, at int64) bool { return at < now-askedFor.Milliseconds() })
		if len(b.asked) >= maxAsked {
			return
		}
	}
	b.asked[workload] = now
}

// Asked says whether KEDA asked about a workload lately.
func (b *Board) Asked(workload string) bool {
	now := b.env.NowMS()
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.asked[workload]
	return ok && at >= now-askedFor.Milliseconds()
}

// Counts of a Board, for metrics.
type Counts struct {
	Targets, Offerings, Asked int
	Ignored                   uint64 // confirmations of counts that nobody set here
}

// Counts returns them.
func (b *Board) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Counts{Targets: len(b.targets), Offerings: b.offerings.len(), Asked: len(b.asked), Ignored: b.ignored}
}

// prices is the offerings that hold now; nil: none do.
func (b *Board) prices() *offerings {
	now := b.env.NowMS()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.offerings == nil || b.offerings.untilMS <= now {
		return nil
	}
	return b.offerings
}

// place names what a machine is bought as. An empty zone stands for every zone of the region.
type place struct{ region, zone, instanceType, purchase string }

// offer is what is known of a place: nano-dollars an hour, chances 0..1.
type offer struct {
	hourNano       int64
	hazard         float64
	stockOut       float64
	stockedOutTill int64
}

type offerings struct {
	untilMS int64
	by      map[place]offer
}

func (o *offerings) len() int {
	if o == nil {
		return 0
	}
	return len(o.by)
}

// find looks for the zone first, then for the whole region.
func (o *offerings) find(p place) (offer, bool) {
	if x, ok := o.by[p]; ok {
		return x, true
	}
	p.zone = ""
	x, ok := o.by[p]
	return x, ok
}

// indexOfferings leaves out what cannot be ranked: no price, or a chance that is none. Of two rows of one place, the dearer counts.
func indexOfferings(in []*agentv1.OfferingPrice, untilMS int64) *offerings {
	out := &offerings{untilMS: untilMS, by: make(map[place]offer, len(in))}
	for _, p := range in {
		x := offer{hourNano: p.GetHourNano(), hazard: p.GetHazardPerHour(), stockOut: p.GetStockOut(), stockedOutTill: p.GetStockedOutUntilMs()}
		if x.hourNano <= 0 || !chance(x.hazard) || !chance(x.stockOut) || p.GetInstanceType() == "" {
			continue
		}
		at := place{p.GetRegion(), p.GetZone(), p.GetInstanceType(), p.GetPurchase()}
		if have, twice := out.by[at]; !twice || x.hourNano > have.hourNano {
			out.by[at] = x
		}
	}
	return out
}

func chance(x float64) bool { return !math.IsNaN(x) && x >= 0 && x <= 1 }
