package act

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

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
