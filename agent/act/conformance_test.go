package act

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/scale/fake"
	kubetesting "k8s.io/client-go/testing"
)

// world is a cluster as the conformance test sees it from outside.
type world interface {
	put(workload string, replicas int32) // as another writer would
	get(workload string) int32
	forbid(bool)
	writes() int
}

const (
	chat = "llm/Deployment/chat"
	gone = "llm/Deployment/gone"
)

// testActuator is what every Actuator must do.
func testActuator(t *testing.T, make func(*testing.T) (Actuator, world)) {
	ctx := context.Background()
	start := func(t *testing.T) (Actuator, world) {
		a, w := make(t)
		w.put(chat, 3)
		return a, w
	}
	t.Run("reads the count that is asked for", func(t *testing.T) {
		a, _ := start(t)
		if s, err := a.Read(ctx, chat); err != nil || s.Replicas != 3 {
			t.Fatal(s, err)
		}
	})
	t.Run("sets an absolute count, and setting it again changes nothing", func(t *testing.T) {
		a, w := start(t)
		for range 2 {
			from, err := a.Read(ctx, chat)
			if err != nil {
				t.Fatal(err)
			}
			after, err := a.Set(ctx, chat, from, 5)
			if err != nil || after.Replicas != 5 || w.get(chat) != 5 {
				t.Fatal(after, err, w.get(chat))
			}
		}
	})
	t.Run("scales to zero", func(t *testing.T) {
		a, w := start(t)
		from, _ := a.Read(ctx, chat)
		if _, err := a.Set(ctx, chat, from, 0); err != nil || w.get(chat) != 0 {
			t.Fatal(err, w.get(chat))
		}
	})
	t.Run("a change by somebody else in between is a conflict, and nothing is overwritten", func(t *testing.T) {
		a, w := start(t)
		from, _ := a.Read(ctx, chat)
		w.put(chat, 9)
		if _, err := a.Set(ctx, chat, from, 5); !errors.Is(err, ErrConflict) || w.get(chat) != 9 {
			t.Fatal(err, w.get(chat))
		}
	})
	t.Run("an unknown workload is not found", func(t *testing.T) {
		a, w := start(t)
		for _, key := range []string{gone, "", "llm/Deployment", "llm/Gizmo/chat", "//"} {
			if _, err := a.Read(ctx, key); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %v", key, err)
			}
		}
		if w.writes() != 0 {
			t.Fatal("something was written")
		}
	})
	t.Run("what the cluster forbids is forbidden", func(t *testing.T) {
		a, w := start(t)
		from, _ := a.Read(ctx, chat)
		w.forbid(true)
		if _, err := a.Set(ctx, chat, from, 5); !errors.Is(err, ErrForbidden) || w.get(chat) != 3 {
			t.Fatal(err, w.get(chat))
		}
	})
	t.Run("a context that ended ends the call", func(t *testing.T) {
		a, w := start(t)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := a.Set(ended, chat, Scale{Replicas: 3}, 5); err == nil || w.get(chat) != 3 {
			t.Fatal(err, w.get(chat))
		}
	})
}

func TestSimActuator(t *testing.T)  { testActuator(t, newSimWorld) }
func TestKubeActuator(t *testing.T) { testActuator(t, newKubeWorld) }

// counts is the state behind both fakes.
type counts struct {
	mu        sync.Mutex
	replicas  map[string]int32
	version   int
	forbidden bool
	n         int
}

func (c *counts) put(w string, n int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replicas[w] = n
	c.version++
}

func (c *counts) get(w string) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas[w]
}

func (c *counts) forbid(f bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forbidden = f
}

func (c *counts) writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// newSimWorld is the simulator's door.
func newSimWorld(t *testing.T) (Actuator, world) {
	c := &counts{replicas: map[string]int32{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sim/v1/state", func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		var ws []map[string]any
		for k, n := range c.replicas {
			ws = append(ws, map[string]any{"key": k, "replicas": n})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"now_ms": 1, "inventory": map[string]any{"workloads": ws}})
	})
	mux.HandleFunc("POST /sim/v1/scale", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Workload       string
			Replicas, From int32
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		c.mu.Lock()
		defer c.mu.Unlock()
		before, ok := c.replicas[in.Workload]
		switch {
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		case c.forbidden:
			w.WriteHeader(http.StatusUnprocessableEntity)
		case before != in.From:
			w.WriteHeader(http.StatusConflict)
		default:
			c.replicas[in.Workload], c.n = in.Replicas, c.n+1
			_ = json.NewEncoder(w).Encode(map[string]int32{"before": before, "after": in.Replicas})
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return NewSim(srv.URL), c
}

// newKubeWorld is the scale client with the API server's rule for resource versions.
func newKubeWorld(t *testing.T) (Actuator, world) {
	c := &counts{replicas: map[string]int32{}}
	client := &fake.FakeScaleClient{}
	key := func(ns, resource, name string) string {
		return ns + "/" + map[string]string{"deployments": "Deployment", "statefulsets": "StatefulSet"}[resource] + "/" + name
	}
	object := func(ns, name, k string) *autoscalingv1.Scale {
		return &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, ResourceVersion: strconv.Itoa(c.version)}, Spec: autoscalingv1.ScaleSpec{Replicas: c.replicas[k]}}
	}
	client.AddReactor("get", "*", func(a kubetesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		g := a.(kubetesting.GetAction)
		k := key(a.GetNamespace(), a.GetResource().Resource, g.GetName())
		if _, ok := c.replicas[k]; !ok {
			return true, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), g.GetName())
		}
		return true, object(a.GetNamespace(), g.GetName(), k), nil
	})
	client.AddReactor("update", "*", func(a kubetesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		s := a.(kubetesting.UpdateAction).GetObject().(*autoscalingv1.Scale)
		k := key(a.GetNamespace(), a.GetResource().Resource, s.Name)
		switch {
		case c.forbidden:
			return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), s.Name, errors.New("rbac"))
		case s.ResourceVersion != strconv.Itoa(c.version):
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), s.Name, errors.New("old version"))
		}
		if c.replicas[k] != s.Spec.Replicas {
			c.version++
		}
		c.replicas[k], c.n = s.Spec.Replicas, c.n+1
		return true, object(a.GetNamespace(), s.Name, k), nil
	})
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	return newKube(client, mapper), c
}
