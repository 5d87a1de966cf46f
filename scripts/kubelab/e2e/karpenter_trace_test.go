package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// trace keeps beside the logs when each pool was changed and when Karpenter
// had taken the change, and when each machine was asked for. Karpenter's own
// log has its rounds.
func (l *karpenterLab) trace(t *testing.T) {
	t.Helper()
	f, err := os.Create(filepath.Join(l.dir, "trace.csv"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	follow := func(what schema.GroupVersionResource, line func(*unstructured.Unstructured) string) {
		w, err := l.objects.Resource(what).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer w.Stop()
			for e := range w.ResultChan() {
				if u, ok := e.Object.(*unstructured.Unstructured); ok {
					mu.Lock()
					fmt.Fprintf(f, "%s,%s,%s,%s,%s\n", time.Now().UTC().Format("15:04:05.000"), e.Type, u.GetKind(), u.GetName(), line(u))
					mu.Unlock()
				}
			}
		})
	}
	follow(nodePools, func(u *unstructured.Unstructured) string {
		nodes, limited, _ := unstructured.NestedString(u.Object, "spec", "limits", "nodes")
		if !limited {
			nodes = "any"
		}
		weight, _, _ := unstructured.NestedInt64(u.Object, "spec", "weight")
		return fmt.Sprintf("generation %d,weight %d,nodes %s,%s", u.GetGeneration(), weight, nodes, conditionsOf(u))
	})
	follow(nodeClaims, func(u *unstructured.Unstructured) string {
		return u.GetLabels()["karpenter.sh/nodepool"] + "," + u.GetLabels()["node.kubernetes.io/instance-type"] + "," + u.GetLabels()["karpenter.sh/capacity-type"]
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		_ = f.Close()
	})
}

// conditionsOf are the conditions of an object in short, each with the
// generation that it is of.
func conditionsOf(u *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var out []string
	for _, c := range all {
		if m, ok := c.(map[string]any); ok {
			out = append(out, fmt.Sprintf("%v=%v@%v", m["type"], m["status"], m["observedGeneration"]))
		}
	}
	return strings.Join(out, " ")
}
