package replay

import (
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

func TestALargeDemoIsAClusterThatRuns(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	const want = 300
	d, err := DemoOf(7, start, nil, want)
	if err != nil {
		t.Fatal(err)
	}
	teams := map[string]bool{}
	for _, w := range d.Config.Workloads {
		teams[w.Team] = true
	}
	if len(d.Config.Workloads) != want || len(teams) < 30 || len(d.Policies) < want/4 {
		t.Errorf("%d workloads of %d teams, %d policies", len(d.Config.Workloads), len(teams), len(d.Policies))
	}
	for key, document := range d.Policies {
		if _, findings := optimizer.ParsePolicy([]byte(document)); len(findings) > 0 {
			t.Errorf("policy of %s: %v", key, findings)
		}
	}
	w, err := NewWorld(d.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AdvanceTo(start.Add(20 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, p := range w.Changes(0).Pods {
		if p.Phase == fleet.PodPending {
			t.Errorf("%s waits for a machine", p.Name)
		}
	}
	served, busy := 0, 0
	for _, l := range w.loads {
		if l.Count.Served > 0 {
			served++
		}
		if l.Count.TimedOut > l.Count.Arrived/10 {
			busy++
		}
	}
	if served < want*7/10 || busy > want/20 {
		t.Errorf("%d of %d serve anything, %d turn away more than a tenth", served, want, busy)
	}
}

func TestALargeDemoIsBounded(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	if _, err := DemoOf(7, start, nil, MaxDemoWorkloads+1); err == nil {
		t.Error("more workloads than a demo may have")
	}
	d, err := DemoOf(7, start, nil, MaxDemoWorkloads)
	if err == nil {
		err = d.Config.Validate()
	}
	if err != nil {
		t.Error(err)
	}
	if d, err = DemoOf(7, start, nil, 0); err != nil || len(d.Config.Workloads) != DemoWorkloads {
		t.Errorf("a small demo has %d workloads: %v", len(d.Config.Workloads), err)
	}
}
