package act

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktest "k8s.io/client-go/testing"
)

var errDead = errors.New("the agent is dead")

// killer ends an agent before one of the steps by which a drain leaves something behind: in its log, in the spool, in the cluster. From then on
// nothing of that life has an effect.
type killer struct {
	mu    sync.Mutex
	at    int    // the step that is not made; 0: none
	part  string // of a write that is still made: none, half, all but the end, whole
	power bool   // what was not on disk for good is gone as well
	n     int
	steps []string
	died  bool
	path  string
	old   []byte // the log before it was replaced
	fresh bool   // it was replaced, and the directory does not say so for good
}

// pass counts a step; the bytes of b that are written though the step fails.
func (k *killer) pass(name string, b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.died {
		return 0, errDead
	}
	k.n++
	k.steps = append(k.steps, name)
	if k.n != k.at {
		return 0, nil
	}
	k.died = true
	switch k.part {
	case "half":
		return len(b) / 2, errDead
	case "all but the end":
		return max(len(b)-1, 0), errDead
	case "whole":
		return len(b), errDead
	}
	return 0, errDead
}

func (k *killer) dead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.died
}

// watch counts the steps of a log, and what of it a loss of power leaves.
func (k *killer) watch(l *DrainLog, everyTime bool) {
	if everyTime {
		l.file.grows = -1 << 40
	}
	l.file.cut = func(name string, b []byte) (int, error) {
		if !k.dead() {
			switch name {
			case "write":
				k.fresh = false
			case "rename":
				k.old, _ = os.ReadFile(k.path)
			case "list":
				k.fresh = true
			}
		}
		return k.pass(name, b)
	}
}

// loss makes the log what a loss of power may leave of it.
func (k *killer) loss(t *testing.T, l *DrainLog) {
	t.Helper()
	var err error
	switch {
	case !k.power:
	case k.fresh:
		err = os.WriteFile(k.path, k.old, 0o600)
	default:
		err = os.Truncate(k.path, l.file.size) // it grows with what is synced
	}
	if err != nil {
		t.Fatal(err)
	}
}

// told is what the spool took, whoever lived then.
type toldOnce struct {
	mu      sync.Mutex
	events  []*agentv1.Event
	results []*agentv1.ActionResult
}

// lostWorld is a machine with a pod that wants to be told, one that does not, and an agent that is killed.
type lostWorld struct {
	*drainWorld
	k    *killer
	told toldOnce
}

func newLostWorld(t *testing.T, k *killer) *lostWorld {
	t.Helper()
	w := &lostWorld{drainWorld: newDrainWorld(t, drainPod("a", nil), drainPod("plain", nil)), k: k}
	w.stop()
	w.declare("a", "10")
	k.path = w.path
	return w
}

// live opens a life of the agent. k is nil: nobody kills it.
func (w *lostWorld) live(k *killer, everyTime bool) {
	w.opened = func(d *Drainer) {
		d.again = 5 * time.Millisecond
		d.env.Events = func(all []*agentv1.Event) error {
			if k != nil {
				if _, err := k.pass("spool events", nil); err != nil {
					return err
				}
			}
			w.told.mu.Lock()
			defer w.told.mu.Unlock()
			w.told.events = append(w.told.events, all...)
			return nil
		}
		d.env.Result = func(r *agentv1.ActionResult) error {
			if k != nil {
				if _, err := k.pass("spool result", nil); err != nil {
					return err
				}
			}
			w.told.mu.Lock()
			defer w.told.mu.Unlock()
			w.told.results = append(w.told.results, r)
			return nil
		}
		if k != nil {
			k.watch(d.log, everyTime)
		}
	}
	w.open()
}

// waitFor polls what another goroutine does; the step it waits for is bounded.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(until) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// run plays one drain with an agent that dies once, and its next life. It returns the steps that the first life made.
func (w *lostWorld) run(t *testing.T, everyTime bool) []string {
	t.Helper()
	k := w.k
	w.client.PrependReactor("*", "*", func(a ktest.Action) (bool, runtime.Object, error) {
		switch {
		case a.GetVerb() == "patch", a.GetSubresource() == "eviction":
			if _, err := k.pass(a.GetVerb()+" "+a.GetResource().Resource, nil); err != nil {
				if !errors.Is(err, errDead) || !k.over() {
					return true, nil, err
				}
			}
		case k.dead() && !k.over():
			return true, nil, errDead
		}
		return false, nil, nil
	})
	w.answer = func(string, int) int {
		if k.dead() && !k.over() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	leave := Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p1", Action: "drain/node-1", Generation: 7}
	w.live(k, everyTime)
	_, _, err := w.drainer.Begin(leave)
	waitFor(t, "the end of the first life", func() bool {
		return k.dead() || err == nil && len(w.log.Open()) == 0 && len(w.log.Owing()) == 0
	})
	w.stop()
	k.loss(t, w.log)
	k.reborn()
	w.live(nil, false)
	if _, begun := w.log.Of("node-1", CausePlan); !begun {
		if err == nil {
			t.Fatal("a drain that was begun is forgotten")
		}
		w.begin(leave) // it was answered as not begun: a later plan asks again
	}
	waitFor(t, "an end that nobody owes", func() bool { return len(w.log.Open()) == 0 && len(w.log.Owing()) == 0 })
	w.stop()
	return k.steps
}

// over says that the life which was killed has ended; reborn ends it.
func (k *killer) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at < 0
}

func (k *killer) reborn() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at = -1
}

func TestHowADrainEndedIsToldWhereverTheAgentDies(t *testing.T) {
	t.Parallel()
	for _, everyTime := range []bool{false, true} { // true: the log is written anew after each entry
		all := newLostWorld(t, &killer{}).run(t, everyTime)
		if len(all) < 15 || !slices.Contains(all, "spool result") || slices.Contains(all, "rename") != everyTime {
			t.Fatalf("the steps of a drain are %v", all)
		}
		for at, name := range all {
			parts := []string{""}
			if name == "write" || name == "write anew" {
				parts = []string{"", "half", "all but the end", "whole"}
			}
			for _, part := range parts {
				for _, power := range []bool{false, true} {
					t.Run(fmt.Sprintf("written anew %v, step %d %s %s, power %v", everyTime, at+1, name, part, power), func(t *testing.T) {
						t.Parallel()
						w := newLostWorld(t, &killer{at: at + 1, part: part, power: power})
						w.run(t, everyTime)
						w.check(t)
					})
				}
			}
		}
	}
}

// check looks whether all was told, and nothing in two ways.
func (w *lostWorld) check(t *testing.T) {
	t.Helper()
	if len(w.told.results) == 0 {
		t.Fatal("how the drain ended was told to nobody")
	}
	for _, r := range w.told.results {
		if !proto.Equal(r, w.told.results[0]) {
			t.Errorf("told in two ways: %v and %v", w.told.results[0], r)
		}
	}
	if r := w.told.results[0]; r.GetOutcome() != "applied" || r.GetPlanId() != "p1" || r.GetGeneration() != 7 || len(r.GetCheckpoints()) != 1 || r.GetCheckpoints()[0].GetOutcome() != CheckpointDone {
		t.Errorf("told %v", r)
	}
	first := map[string]*agentv1.Event{}
	for _, e := range w.told.events {
		if old := first[e.GetKind()]; old == nil {
			first[e.GetKind()] = e
		} else if !proto.Equal(old, e) {
			t.Errorf("told in two ways: %v and %v", old, e)
		}
	}
	if first["drain"] == nil || first["checkpoint"] == nil || first["drain"].GetReason() != "done" {
		t.Errorf("the events are %v", w.told.events)
	}
	_, evicted := w.seen()
	slices.Sort(evicted)
	if !slices.Equal(evicted, []string{"a", "plain"}) || !w.cordoned() {
		t.Errorf("evicted %v, cordoned %v", evicted, w.cordoned())
	}
	told := len(w.told.results) + len(w.told.events)
	w.live(nil, false)
	w.stop()
	if n := len(w.told.results) + len(w.told.events); n != told {
		t.Errorf("a later life told %d things again", n-told)
	}
}

func TestAPlanThatAsksForADrainUnderWayIsToldItsEnd(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil))
	w.blocked["a"] = true
	begin := func(plan string, generation uint64) bool {
		_, again, err := w.drainer.Begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: plan, Action: "drain/node-1", Generation: generation})
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	if begin("p1", 1) || !begin("p2", 2) || !begin("p2", 2) {
		t.Error("a drain is begun twice, or a first one not")
	}
	w.stop() // who asked outlives the agent
	w.open()
	if x, ok := w.log.Begun("p2", "drain/node-1"); !ok || x.Plan != "p1" {
		t.Errorf("the second plan began %+v", x)
	}
	w.mu.Lock()
	w.blocked["a"] = false
	w.mu.Unlock()
	one, two := <-w.results, <-w.results
	if one.GetPlanId() != "p1" || one.GetGeneration() != 1 || two.GetPlanId() != "p2" || two.GetGeneration() != 2 || one.GetOutcome() != "applied" || two.GetOutcome() != "applied" {
		t.Errorf("told %v and %v", one, two)
	}
	w.stop()
	if len(w.results) != 0 {
		t.Errorf("told again: %v", <-w.results)
	}
}

func TestAnEndIsToldOnceTheSpoolHasRoomAgain(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil))
	w.stop()
	full := make(chan struct{}, 1000)
	room := make(chan struct{})
	w.opened = func(d *Drainer) {
		d.again = time.Millisecond
		d.env.Result = func(r *agentv1.ActionResult) error {
			select {
			case <-room:
				w.results <- r
				return nil
			default:
				full <- struct{}{}
				return errors.New("the spool is full")
			}
		}
	}
	w.open()
	w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p1", Action: "drain/node-1"})
	<-full
	<-full
	close(room)
	if r := <-w.results; r.GetOutcome() != "applied" {
		t.Errorf("told %v", r)
	}
}

func TestAMachineThatTakesPodsAgainIsNotEmptiedByTheNextLife(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil))
	w.blocked["a"] = true
	w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p1", Action: "drain/node-1"})
	waitFor(t, "the cordon", func() bool { x, ok := w.log.Of("node-1", CausePlan); return ok && x.Cordoned })
	w.stop()
	n, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Spec.Unschedulable, n.Annotations = false, nil
	if _, err := w.client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.blocked["a"] = false
	w.mu.Unlock()
	w.open()
	if r := <-w.results; r.GetOutcome() != "failed" {
		t.Errorf("told %v", r)
	}
	if _, evicted := w.seen(); len(evicted) != 0 || w.cordoned() {
		t.Errorf("evicted %v, cordoned %v", evicted, w.cordoned())
	}
}

func TestADrainThatWasDoneWhileTheAgentWasAwayIsDone(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil))
	w.blocked["a"] = true
	w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p1", Action: "drain/node-1"})
	waitFor(t, "the cordon", func() bool { x, ok := w.log.Of("node-1", CausePlan); return ok && x.Cordoned })
	w.stop()
	log, err := OpenDrainLog(w.path)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := log.Of("node-1", CausePlan)
	x.DeadlineMS = time.Now().UnixMilli() - 1000 // it was away for long
	if err := log.Put(x); err != nil {
		t.Fatal(err)
	}
	log.Close()
	if err := w.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "train", "a"); err != nil {
		t.Fatal(err)
	}
	w.open()
	if r := <-w.results; r.GetOutcome() != "applied" || !w.cordoned() {
		t.Errorf("told %v, cordoned %v", r, w.cordoned())
	}
}

func TestADrainThatAFormerLifeBeganIsNoEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]int32{}, Config{Mode: "enforce"})
	w := newDrainWorld(t, drainPod("a", nil))
	w.blocked["a"] = true
	b.actor.UseDrainer(w.drainer)
	plan := &agentv1.Plan{PlanId: "p1", Generation: 1, ExpiresMs: b.now + 60_000, Capacity: []*agentv1.CapacityAction{drainAction("node-1")}}
	first := b.actor.Apply(t.Context(), plan)[0]
	if first.GetOutcome() != "applied" || first.GetAfterSpec() == "" {
		t.Fatalf("begun: %v", first)
	}
	// The answer did not come into the spool, nor into the journal: the agent died in between.
	open := b.journal.Unreported()
	if len(open) != 1 {
		t.Fatalf("%d plans are open", len(open))
	}
	r := b.actor.settle(t.Context(), open[0], open[0].Actions[0])
	if r.GetOutcome() != "applied" || r.GetAfterSpec() != first.GetAfterSpec() {
		t.Errorf("after the restart %v, before it %v", r, first)
	}
}
