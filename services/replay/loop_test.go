package replay

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// start is a Monday.
var start = time.Date(2026, 7, 6, 0, 0, 0, 0, time.UTC)

// demoLoop makes the demo cluster with its policies bound.
func demoLoop(tb testing.TB, seed uint64, chat Source) *Loop {
	tb.Helper()
	demo := Demo(seed, start, chat)
	l := &Loop{Tenant: "t", Cluster: "c", Mode: fleet.ModeEnforce, Policies: map[fleet.WorkloadID]optimizer.Binding{}}
	for i := range demo.Config.Workloads {
		w := &demo.Config.Workloads[i]
		w.ID = fleet.WorkloadID(w.Key)
		p, findings := optimizer.ParsePolicy([]byte(demo.Policies[w.Key]))
		for _, f := range findings {
			tb.Errorf("policy of %s: %s: %s", w.Key, f.Field, f.Message)
		}
		l.Policies[w.ID] = optimizer.Binding{Version: 1, Policy: p}
	}
	w, err := NewWorld(demo.Config)
	if err != nil {
		tb.Fatal(err)
	}
	l.World = w
	return l
}

// run lets the loop decide every 30 s for a while and counts the decisions that were news, by outcome.
func (l *Loop) run(tb testing.TB, d time.Duration, each func(Made)) map[optimizer.Outcome]int {
	tb.Helper()
	news := map[optimizer.Outcome]int{}
	for end := l.World.Now().Add(d); l.World.Now().Before(end); {
		if err := l.World.AdvanceTo(l.World.Now().Add(30 * time.Second)); err != nil {
			tb.Fatal(err)
		}
		made, err := l.Decide()
		if err != nil {
			tb.Fatal(err)
		}
		for _, n := range made.News {
			news[n.Outcome]++
		}
		if each != nil {
			each(made)
		}
	}
	return news
}

func TestDemoReport(t *testing.T) {
	l := demoLoop(t, 7, nil)
	t0 := time.Now()
	perKey := map[string]map[string]int{}
	news := l.run(t, 14*24*time.Hour, func(m Made) {
		for _, n := range m.News {
			if perKey[n.Key] == nil {
				perKey[n.Key] = map[string]int{}
			}
			perKey[n.Key][string(n.Outcome)+":"+string(n.Binding)]++
		}
	})
	fmt.Println(time.Since(t0), news)
	rows, spent := l.World.Score()
	for _, r := range rows {
		fmt.Printf("%+v\n", r)
		fmt.Println("   ", perKey[r.Key])
	}
	fmt.Printf("%+v\n", spent)
}
