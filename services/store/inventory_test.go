package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func inventoryReport(seq uint64, at time.Time, inv *agentv1.Inventory) *agentv1.Report {
	inv.AtMs = at.UnixMilli()
	return &agentv1.Report{Seq: seq, AtMs: at.UnixMilli(), Body: &agentv1.Report_Inventory{Inventory: inv}}
}

func workloadOf(namespace, name string, replicas int32, labels map[string]string) *agentv1.Workload {
	return &agentv1.Workload{Key: namespace + "/Deployment/" + name, Namespace: namespace, Kind: "Deployment", Name: name, Replicas: replicas,
		Labels: labels, Scalable: true, HasRequests: true, HasReadinessProbe: true}
}

// lives lists "name phase start-end" of a table, in minutes since the day began.
func (s site) lives(t *testing.T, query string) (out []string) {
	t.Helper()
	s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.PGX().Query(ctx, query, day)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				return err
			}
			out = append(out, line)
		}
		return rows.Err()
	})
	return out
}

const (
	nodeLives = `SELECT name || ' ' || phase || ' ' || extract(epoch FROM started_at - $1)::int / 60 || '-' || coalesce((extract(epoch FROM ended_at - $1)::int / 60)::text, '') FROM node ORDER BY name, started_at`
	podLives  = `SELECT name || ' ' || phase || ' ' || node || ' ' || coalesce((extract(epoch FROM ended_at - $1)::int / 60)::text, '') FROM pod ORDER BY name, uid`
	workLives = `SELECT key || ' ' || team || ' ' || class || ' ' || replicas || ' ' || array_to_string(preflight, '+') || CASE WHEN gone_at IS NULL THEN '' ELSE ' gone ' || extract(epoch FROM gone_at - $1)::int / 60 END FROM workload ORDER BY key`
)

func TestInventoryFollowsTheCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	ms := func(minute int) int64 { return day.Add(time.Duration(minute) * time.Minute).UnixMilli() }
	at := func(minute int) time.Time { return day.Add(time.Duration(minute) * time.Minute) }
	n1 := &agentv1.Node{Uid: "u1", Name: "n1", Purchase: "SPOT", Phase: "ready", StartedMs: ms(1), GpuCount: 8, Labels: map[string]string{"zone": "a"}}
	n2 := &agentv1.Node{Uid: "u2", Name: "n2", Phase: "booting"}
	chat := workloadOf("serving", "chat", 3, map[string]string{"team": "search", "plimsoll.dev/class": "gold"})
	api := workloadOf("web", "api", 1, map[string]string{"team": "old", "plimsoll.dev/team": "web"})
	api.HasReadinessProbe, api.HasRequests = false, false
	steps := []struct {
		name               string
		minute             int
		inv                *agentv1.Inventory
		nodes, pods, works []string
	}{
		{"a snapshot", 5, &agentv1.Inventory{Snapshot: true, Nodes: []*agentv1.Node{n1, n2, n1}, Workloads: []*agentv1.Workload{chat, api},
			Pods: []*agentv1.Pod{{Uid: "p1", Name: "chat-1", Namespace: "serving", Workload: chat.Key, Node: "n1", Phase: "ready", CreatedMs: ms(2)}}},
			[]string{"n1 ready 1-", "n2 booting 5-"}, []string{"chat-1 ready n1 "},
			[]string{"serving/Deployment/chat search gold 3 ", "web/Deployment/api web standard 1 no_readiness_probe+no_requests"}},
		{"a delta names only what changed", 6, &agentv1.Inventory{Nodes: []*agentv1.Node{{Uid: "u2", Name: "n2", Phase: "ready", StartedMs: ms(4)}},
			Pods: []*agentv1.Pod{{Uid: "p2", Name: "chat-2", Namespace: "serving", Workload: chat.Key, Phase: "pending"}}},
			[]string{"n1 ready 1-", "n2 ready 4-"}, []string{"chat-1 ready n1 ", "chat-2 pending  "}, nil},
		{"gone", 8, &agentv1.Inventory{GoneNodes: []string{"u1", "never-there"}, GonePods: []string{"p1"}, GoneWorkloads: []string{api.Key}},
			[]string{"n1 terminated 1-8", "n2 ready 4-"}, []string{"chat-1 ended n1 8", "chat-2 pending  "},
			[]string{"serving/Deployment/chat search gold 3 ", "web/Deployment/api web standard 0 no_readiness_probe+no_requests gone 8"}},
		{"an end the agent knows better", 9, &agentv1.Inventory{Nodes: []*agentv1.Node{{Uid: "u2", Name: "n2", Phase: "terminated", StartedMs: ms(4), EndedMs: ms(7)}}},
			[]string{"n1 terminated 1-8", "n2 terminated 4-7"}, nil, nil},
		{"the same name on a new machine, and back again", 10, &agentv1.Inventory{Snapshot: true, Nodes: []*agentv1.Node{{Uid: "u3", Name: "n1", Phase: "ready", StartedMs: ms(9)}},
			Workloads: []*agentv1.Workload{api}},
			[]string{"n1 terminated 1-8", "n1 ready 9-", "n2 terminated 4-7"}, []string{"chat-1 ended n1 8", "chat-2 ended  10"},
			[]string{"serving/Deployment/chat search gold 0  gone 10", "web/Deployment/api web standard 1 no_readiness_probe+no_requests"}},
		{"an empty snapshot ends everything", 11, &agentv1.Inventory{Snapshot: true}, []string{"n1 terminated 1-8", "n1 terminated 9-11", "n2 terminated 4-7"}, nil, nil},
	}
	for i, step := range steps {
		if out := ingest(t, src, inventoryReport(uint64(i+1), at(step.minute), step.inv)); out[0].Result != "accepted" {
			t.Fatalf("%s: %+v", step.name, out[0])
		}
		for query, want := range map[string][]string{nodeLives: step.nodes, podLives: step.pods, workLives: step.works} {
			if diff := cmp.Diff(want, s.lives(t, query)); want != nil && diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
	}
	if n := s.count(t, "SELECT count(*) FROM node WHERE purchase = 'spot' AND gpu_count = 8 AND labels->>'zone' = 'a'"); n != 1 {
		t.Error("the node's properties were lost")
	}
	if id := s.count(t, "SELECT count(*) FROM workload WHERE id = $1", string(store.WorkloadIDOf(s.cluster, chat.Key))); id != 1 {
		t.Error("the workload's id does not follow from cluster and key")
	}
}

func TestALargeInventoryIsStored(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	inv := &agentv1.Inventory{Snapshot: true}
	for i := range 700 { // two full statements and a rest of every size
		uid := string(rune('a'+i%26)) + time.Duration(i).String()
		inv.Nodes = append(inv.Nodes, &agentv1.Node{Uid: uid, Name: uid, Phase: "ready"})
		inv.Pods = append(inv.Pods, &agentv1.Pod{Uid: uid, Name: uid, Namespace: "a", Node: uid, Phase: "ready"})
	}
	for seq := range uint64(2) { // the second changes nothing
		if out := ingest(t, src, inventoryReport(seq+1, day, inv)); out[0].Result != "accepted" {
			t.Fatal(out)
		}
		if n := s.count(t, "SELECT (SELECT count(*) FROM node) + (SELECT count(*) FROM pod)"); n != 1400 {
			t.Errorf("%d rows, want 1400", n)
		}
	}
}

func TestPruningKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	seq := uint64(0)
	add := func(from time.Time) {
		seq++
		ingest(t, src, frameReport(t, seq, from, seq == 1, "a/Deployment/b", []string{"replicas"}, [][]float64{{1, 1, 1, 1}}))
	}
	for h := range 24 {
		add(day.Add(time.Duration(h) * time.Hour))
		seq++
		ingest(t, src, observation(seq, day.Add(time.Duration(h)*time.Hour)))
	}
	prune := func() (gone int64) {
		s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) (err error) {
			gone, _, err = store.PruneCluster(ctx, tx, s.cluster)
			return err
		})
		return gone
	}
	if prune(); s.count(t, "SELECT count(*) FROM telemetry_frame") != 24 {
		t.Error("frames went before they were compacted")
	}
	if n := s.count(t, "SELECT count(*) FROM observation"); n != 1 { // data time is 23:01
		t.Errorf("%d observations of the last hour, want 1", n)
	}
	for h := 0; h < 24; h += 2 {
		s.compact(t, day.Add(time.Duration(h)*time.Hour))
	}
	prune()
	if n := s.count(t, "SELECT count(*) FROM telemetry_frame"); n != 6 {
		t.Errorf("%d frames of the last six hours, want 6", n)
	}
	if gone := prune(); gone != 0 {
		t.Errorf("a second run took %d rows more", gone)
	}
	// A new epoch: the names of the old one go with its last frame.
	src = s.open(t, hello(2))
	seq = 0
	add(day.Add(60 * time.Hour))
	for h := 18; h < 24; h += 2 {
		s.compact(t, day.Add(time.Duration(h)*time.Hour))
	}
	prune()
	prune()
	if n := s.count(t, "SELECT count(*) FROM ingest_series WHERE epoch = 1"); n != 0 {
		t.Errorf("%d names of an epoch without frames", n)
	}
	if n := s.count(t, "SELECT count(*) FROM rollup_1m WHERE at < $1", day.Add(12*time.Hour)); n != 0 {
		t.Errorf("%d minutes older than two days", n)
	}
	if n := s.count(t, "SELECT count(*) FROM rollup_1h"); n < 24 {
		t.Errorf("only %d hours are left", n)
	}
}
