package act

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// A provisioner that looks while pools open finds what is reserved first and what takes everything last: with the order turned round, pods would go to
// machines that are bought although some are paid for, or to a pool for the rest although one of their own is coming.
func TestPoolsOpenFromWhatIsReservedToWhatTakesTheRest(t *testing.T) {
	t.Parallel()
	w := &karpenterWorld{objects: map[string]*unstructured.Unstructured{}, holders: map[string]map[string]string{}, machines: map[string]int{}}
	var mu sync.Mutex
	writes := map[string][]int{} // by pool, the places of its writes among all
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/nodepools/") {
			mu.Lock()
			name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			writes[name] = append(writes[name], n)
			n++
			mu.Unlock()
		}
		w.ServeHTTP(rw, r)
	}))
	t.Cleanup(srv.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: srv.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	a := newKarpenterActor(t, NewKarpenter(client, nil), t.TempDir())
	way := func(values ...string) []*agentv1.NodeRequirement {
		return []*agentv1.NodeRequirement{{Key: "karpenter.sh/capacity-type", Operator: "In", Values: values}}
	}
	var all []*agentv1.CapacityAction
	for i := range 6 {
		rest, own, reserved := pool(fmt.Sprintf("plimsoll-rest-%d", i), int32(1+i)), pool(fmt.Sprintf("plimsoll-own-%d", i), int32(40+i)), pool(fmt.Sprintf("plimsoll-rsv-%d", i), int32(20+i))
		rest.NodePool.Limits, rest.NodePool.Requirements = nil, way("spot", "reserved")
		own.NodePool.Limits, own.NodePool.Requirements = map[string]string{"nodes": "3"}, way("spot")
		reserved.NodePool.Limits, reserved.NodePool.Requirements = map[string]string{"nodes": "2"}, way("reserved")
		all = append(all, rest, own, reserved)
	}
	for _, r := range a.apply(t, all...) {
		if r.GetOutcome() != "applied" {
			t.Fatalf("%s: %s %s", r.GetActionId(), r.GetOutcome(), r.GetError())
		}
	}
	opened := func(kind string) (first, last int) {
		var at []int
		for name, places := range writes {
			if strings.HasPrefix(name, "plimsoll-"+kind) {
				at = append(at, slices.Max(places))
			}
		}
		if len(at) != 6 {
			t.Fatalf("%d pools of %s were written: %v", len(at), kind, writes)
		}
		return slices.Min(at), slices.Max(at)
	}
	_, reserved := opened("rsv")
	own, lastOwn := opened("own")
	rest, _ := opened("rest")
	if reserved > own || lastOwn > rest {
		t.Errorf("the last reserved opened at %d, own pools from %d to %d, the first for the rest at %d", reserved, own, lastOwn, rest)
	}
}

// slowKarpenter is a karpenterWorld whose Karpenter takes a pool that was opened only at so many looks at all pools; negative: never. It keeps
// in which order pools were opened, and calls each before.
type slowKarpenter struct {
	world  *karpenterWorld
	mu     sync.Mutex
	looks  int
	taken  map[string]int // looks until it is taken, by pool
	opened []string
	early  []string // that were opened before all opened before them of another kind were taken
	each   func(pool string)
}

func kindOf(pool string) string { return pool[:strings.LastIndex(pool, "-")] }

func (s *slowKarpenter) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	_, name, one := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/karpenter.sh/v1/"), "/")
	ready := func(pool string, is string) {
		s.world.mu.Lock()
		defer s.world.mu.Unlock()
		u := s.world.objects["nodepools/"+pool].DeepCopy()
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": is, "observedGeneration": u.GetGeneration()}}}
		s.world.objects["nodepools/"+pool] = u
	}
	switch {
	case r.Method == http.MethodPatch:
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		in := &unstructured.Unstructured{}
		_ = json.Unmarshal(b, &in.Object)
		nodes, limited, _ := unstructured.NestedString(in.Object, "spec", "limits", "nodes")
		if limited && nodes == "0" { // made, and closed
			break
		}
		s.mu.Lock()
		s.opened = append(s.opened, name)
		for pool := range s.taken {
			if kindOf(pool) != kindOf(name) {
				s.early = append(s.early, name+" before "+pool)
			}
		}
		s.taken[name] = s.looks
		s.mu.Unlock()
		if s.each != nil {
			s.each(name)
		}
		s.world.ServeHTTP(rw, r)
		ready(name, "Unknown")
		return
	case r.Method == http.MethodGet && !one:
		s.mu.Lock()
		for pool, left := range s.taken {
			if left == 1 {
				delete(s.taken, pool)
				ready(pool, "True")
			} else {
				s.taken[pool] = left - 1
			}
		}
		s.mu.Unlock()
	}
	s.world.ServeHTTP(rw, r)
}

// threeKinds are pools of each phase, in no order.
func threeKinds(each int) (all []*agentv1.CapacityAction) {
	for i := range each {
		rest, own, reserved := pool(fmt.Sprintf("plimsoll-rest-%d", i), int32(1+i)), pool(fmt.Sprintf("plimsoll-own-%d", i), int32(40+i)), pool(fmt.Sprintf("plimsoll-rsv-%d", i), int32(20+i))
		rest.NodePool.Limits = nil
		reserved.NodePool.Requirements = []*agentv1.NodeRequirement{{Key: "karpenter.sh/capacity-type", Operator: "In", Values: []string{"reserved"}}}
		all = append(all, rest, own, reserved)
	}
	return all
}

func newSlowKarpenter(t *testing.T, looks int) (*karpenterActor, *slowKarpenter) {
	t.Helper()
	s := &slowKarpenter{looks: looks, taken: map[string]int{}, world: &karpenterWorld{objects: map[string]*unstructured.Unstructured{}, holders: map[string]map[string]string{}, machines: map[string]int{}}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: srv.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	k := NewKarpenter(client, nil)
	if looks < 0 {
		k.settle = 3 * readyLook
	} else {
		k.settle = time.Minute // a slow machine is no reason to go on
	}
	return newKarpenterActor(t, k, t.TempDir()), s
}

// While Karpenter has not taken a pool that was opened it goes on to the next by weight: what is reserved would stay unused, and what the plan has a machine for would
// be bought from a pool for the rest.
func TestPoolsForTheRestOpenOnceKarpenterHasTakenTheOthers(t *testing.T) {
	t.Parallel()
	a, s := newSlowKarpenter(t, 3)
	for _, r := range a.apply(t, threeKinds(4)...) {
		want(t, r, "applied", "")
	}
	if len(s.opened) != 12 || s.early != nil {
		t.Errorf("opened %v; %v", s.opened, s.early)
	}
}

func TestAPlanGoesOnThoughKarpenterTakesNoPool(t *testing.T) {
	t.Parallel()
	a, s := newSlowKarpenter(t, -1)
	for _, r := range a.apply(t, threeKinds(2)...) {
		want(t, r, "applied", "")
	}
	if len(s.opened) != 6 || len(s.early) == 0 {
		t.Errorf("opened %v; %v", s.opened, s.early)
	}
}

// Writing the journal takes as long as a change: between the first and the last of a phase only changes are made, all of them noted before.
func TestAllOfAPhaseIsInTheJournalBeforeItsFirstPoolOpens(t *testing.T) {
	t.Parallel()
	a, s := newSlowKarpenter(t, 1)
	var mu sync.Mutex
	var wrong []string
	s.each = func(pool string) {
		for _, p := range a.journal.Unreported() {
			for _, x := range p.Actions {
				if kindOf(x.ID) != "pool/"+kindOf(pool) {
					continue
				}
				if _, done := p.Results[x.ID]; !x.Begun || done {
					mu.Lock()
					wrong = append(wrong, fmt.Sprintf("%s while %s opens: begun %t, done %t", x.ID, pool, x.Begun, done))
					mu.Unlock()
				}
			}
		}
	}
	for _, r := range a.apply(t, threeKinds(5)...) {
		want(t, r, "applied", "")
	}
	for _, p := range a.journal.Unreported() {
		for _, x := range p.Actions {
			if p.Results[x.ID].GetOutcome() != "applied" {
				t.Errorf("%s is not in the journal as carried out", x.ID)
			}
		}
	}
	if wrong != nil {
		t.Error(strings.Join(wrong, "; "))
	}
}
