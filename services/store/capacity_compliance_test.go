package store_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func TestKubeletsAndDriversThatAgentsTellAreHeldAgainstTheServerAndKept(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := hello(1)
	h.KubernetesVersion = "v1.34.2"
	src := s.open(t, h)
	node := func(uid, kubelet, driver string) *agentv1.Node {
		return &agentv1.Node{Uid: uid, Name: uid, Cloud: "aws", Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g6.xlarge", Purchase: "on_demand", Phase: "ready", CpuMilli: 4000, MemMib: 16_384,
			GpuModel: "L4", GpuCount: 1, KubeletVersion: kubelet, GpuDriver: driver}
	}
	take := func(seq uint64, want string, nodes ...*agentv1.Node) {
		t.Helper()
		if out := ingest(t, src, inventoryReport(seq, day.Add(time.Duration(seq)*time.Minute), &agentv1.Inventory{Snapshot: true, Nodes: nodes})); out[0].Result != want {
			t.Fatalf("%+v", out[0])
		}
	}
	seen := func() (out []string) {
		s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
			c, err := store.NodeCompliance(ctx, tx, s.cluster)
			if c.Server != "v1.34.2" {
				t.Errorf("server %q", c.Server)
			}
			for _, n := range c.Nodes {
				text := n.Name
				for _, f := range n.Findings {
					text += " " + f.Code + " " + f.Got
				}
				out = append(out, strings.Join(append([]string{text}, n.Unchecked...), " ?"))
			}
			return err
		})
		return out
	}
	take(1, "accepted", node("a", "v1.34.1", "550.54.14"), node("b", "v1.30.4", ""), node("c", "v1.35.0", ""), node("d", "", ""))
	want := []string{"a", "b kubelet_old v1.30.4", "c kubelet_new v1.35.0", "d ?kubelet"}
	if got := seen(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	take(2, "accepted", node("a", "", ""), node("b", "v1.34.0", ""), node("c", "v1.35.0", ""), node("d", "", "")) // what an older agent does not tell stays
	if got := seen(); !slices.Equal(got, []string{"a", "b", "c kubelet_new v1.35.0", "d ?kubelet"}) {
		t.Errorf("%v", got)
	}
	s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
		var driver string
		err := tx.PGX().QueryRow(ctx, `SELECT gpu_driver FROM node WHERE tenant_id = $1 AND uid = 'a'`, tx.Tenant).Scan(&driver)
		if driver != "550.54.14" {
			t.Errorf("driver %q", driver)
		}
		return err
	})
	if out := ingest(t, src, inventoryReport(3, day.Add(3*time.Minute), &agentv1.Inventory{Snapshot: true, Nodes: []*agentv1.Node{node("a", strings.Repeat("v", 5000), "")}})); out[0].Result == "accepted" {
		t.Error("a version of 5,000 letters is taken")
	}
}
