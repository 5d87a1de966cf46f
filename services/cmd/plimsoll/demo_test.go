package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/replay"
	"plimsoll.dev/services/store"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"
)

// fakeService takes pushes as the service does: in order, each once.
type fakeService struct {
	agentv1connect.UnimplementedAgentServiceHandler
	mu      sync.Mutex
	epoch   uint64
	last    uint64
	reports []*agentv1.Report
	calls   int
	fail    func(call int) error // of the next calls; nil: none
	reject  agentv1.RejectCode   // for every report, when set
	tokens  map[string]int
}

func (f *fakeService) Push(_ context.Context, req *connect.Request[agentv1.PushRequest]) (*connect.Response[agentv1.PushResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.tokens == nil {
		f.tokens = map[string]int{}
	}
	f.tokens[req.Header().Get("Authorization")]++
	if e := req.Msg.GetHello().GetEpoch(); e > f.epoch {
		f.epoch, f.last = e, 0
	}
	res := &agentv1.PushResponse{HelloAck: &agentv1.HelloAck{LastSeq: f.last}}
	for _, r := range req.Msg.GetReports() {
		a := &agentv1.StreamResponse{}
		switch {
		case f.reject != 0:
			a.Message = &agentv1.StreamResponse_Reject{Reject: &agentv1.Reject{Seq: r.GetSeq(), Code: f.reject, Detail: "no"}}
		case r.GetSeq() == f.last+1:
			f.last = r.GetSeq()
			f.reports = append(f.reports, r)
			fallthrough
		case r.GetSeq() <= f.last:
			a.Message = &agentv1.StreamResponse_Ack{Ack: &agentv1.Ack{Seq: r.GetSeq()}}
		default:
			a.Message = &agentv1.StreamResponse_Reject{Reject: &agentv1.Reject{Seq: r.GetSeq(), Code: agentv1.RejectCode_REJECT_CODE_GAP, ExpectedSeq: f.last + 1}}
		}
		res.Answers = append(res.Answers, a)
	}
	if f.fail != nil {
		if err := f.fail(f.calls); err != nil {
			return nil, err // stored, but the answer gets lost
		}
	}
	return connect.NewResponse(res), nil
}

// fakeStore is the database of a demo in memory.
type fakeStore struct {
	mu       sync.Mutex
	service  *fakeService
	policies map[string]string
	plans    []replayedPlan
	memory   map[fleet.WorkloadID]optimizer.Memory
	learned  []store.Learned
	dataAt   time.Time
	nextErr  error
}

func (s *fakeStore) DataAt(context.Context) (time.Time, error) { return s.dataAt, nil }

func (s *fakeStore) Bind(_ context.Context, documents map[string]string) error {
	s.policies = documents
	return nil
}

func (s *fakeStore) Load(context.Context) (*store.PlanInput, error) {
	in := &store.PlanInput{Hosts: map[fleet.WorkloadID]store.Host{}}
	in.Input.Snapshot.Mode, in.Input.Policies = fleet.ModeEnforce, map[fleet.WorkloadID]optimizer.Binding{}
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	for _, w := range s.service.reports[0].GetInventory().GetWorkloads() { // ids as the service gave them on the first inventory
		id := fleet.WorkloadID("id of " + w.GetKey())
		in.Input.Snapshot.Workloads = append(in.Input.Snapshot.Workloads, fleet.WorkloadState{Workload: fleet.Workload{ID: id, Key: w.GetKey()}})
		p, findings := optimizer.ParsePolicy([]byte(s.policies[w.GetKey()]))
		if len(findings) > 0 {
			return nil, fmt.Errorf("policy of %s: %v", w.GetKey(), findings)
		}
		in.Input.Policies[id] = optimizer.Binding{Version: 1, Policy: p}
	}
	in.Input.Memory = s.memory
	return in, nil
}

func (s *fakeStore) SaveHistory(_ context.Context, made []replayedPlan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans = append(s.plans, made...)
	return s.nextErr
}

func (s *fakeStore) SaveMemory(_ context.Context, memory map[fleet.WorkloadID]optimizer.Memory, learned []store.Learned) error {
	s.memory, s.learned = memory, learned
	return nil
}

// wall is a clock that the test moves.
type wall struct {
	mu sync.Mutex
	at time.Time
}

func (w *wall) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *wall) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

// rig is a demo against fakes.
type rig struct {
	cfg     demoConfig
	service *fakeService
	store   *fakeStore
	wall    *wall
}

func newRig(t *testing.T, history time.Duration) *rig {
	t.Helper()
	service := &fakeService{}
	mux := http.NewServeMux()
	mux.Handle(agentv1connect.NewAgentServiceHandler(service))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	clock := &wall{at: time.Date(2026, 7, 15, 14, 3, 7, 0, time.UTC)}
	s := &fakeStore{service: service}
	return &rig{service: service, store: s, wall: clock, cfg: demoConfig{
		Tenant: "t", Cluster: "c", Prices: market.Catalogue(), ServiceURL: server.URL, HTTP: server.Client(), History: history,
		Token:     func(context.Context) (string, error) { return "secret", nil },
		StateFile: filepath.Join(t.TempDir(), "deep", "world.json"), store: s, now: clock.now,
	}}
}

func (r *rig) start(t *testing.T) *demo {
	t.Helper()
	d, err := startDemo(context.Background(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// told sums up what the service was told.
type told struct {
	nodes, pods  map[string]int64 // uid to end, 0 = lives
	ticks        int
	values       int
	observations []*agentv1.Observation
	events       map[string]int
	last         int64
}

func (f *fakeService) told(t *testing.T) told {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	out := told{nodes: map[string]int64{}, pods: map[string]int64{}, events: map[string]int{}}
	announced := map[uint32]*agentv1.SeriesDef{}
	for _, r := range f.reports {
		for _, n := range r.GetInventory().GetNodes() {
			out.nodes[n.GetUid()] = n.GetEndedMs()
		}
		for _, p := range r.GetInventory().GetPods() {
			out.pods[p.GetUid()] = p.GetEndedMs()
		}
		for _, e := range r.GetEvents().GetEvents() {
			out.events[e.GetKind()]++
		}
		if o := r.GetObservation(); o != nil {
			out.observations = append(out.observations, o)
		}
		fr := r.GetFrame()
		if fr == nil {
			continue
		}
		for _, d := range fr.GetSeries() {
			if announced[d.GetId()] != nil {
				t.Errorf("series %d is announced twice", d.GetId())
			}
			announced[d.GetId()] = d
		}
		got, err := frame.Decode(fr.GetPayload(), frame.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range got.Series {
			if announced[id] == nil {
				t.Fatalf("series %d was never announced", id)
			}
		}
		for _, tick := range got.Ticks {
			if tick <= out.last || tick < fr.GetFromMs() || tick >= fr.GetToMs() {
				t.Fatalf("tick %d after %d in a frame of %d to %d", tick, out.last, fr.GetFromMs(), fr.GetToMs())
			}
			out.last = tick
		}
		if block := (2 * time.Hour).Milliseconds(); fr.GetFromMs()/block != (fr.GetToMs()-1)/block {
			t.Errorf("a frame from %d to %d crosses a block", fr.GetFromMs(), fr.GetToMs())
		}
		out.ticks += len(got.Ticks)
		out.values += got.Samples()
	}
	return out
}

func TestHistoryIsCompleteAtTheFirstStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4*24*time.Hour)
	// Answers get lost now and then: what is pushed again must not count twice.
	r.service.fail = func(call int) error {
		if call%7 == 3 {
			return connect.NewError(connect.CodeUnavailable, errors.New("away"))
		}
		return nil
	}
	var shares []float64
	r.cfg.Progress = func(s float64) { shares = append(shares, s) }
	d := r.start(t)
	now := r.wall.now()
	got := r.service.told(t)
	// Two days in steps of five minutes, two in minutes, from the full hour before.
	if want := 2*24*12 + 2*24*60 + 12; got.ticks < want-15 || got.ticks > want+15 {
		t.Errorf("%d ticks, want about %d", got.ticks, want)
	}
	if got.values < 100*got.ticks {
		t.Errorf("%d values in %d ticks", got.values, got.ticks)
	}
	if late := now.UnixMilli() - got.last; late < 0 || late > 15_000 {
		t.Errorf("the newest tick is %d ms old", late)
	}
	if len(got.observations) != 60 || now.UnixMilli()-got.observations[59].GetAtMs() > 15_000 {
		t.Errorf("%d observations", len(got.observations))
	}
	for _, o := range got.observations {
		if len(o.GetWorkloads()) != 6 || len(o.GetWorkloads()[0].GetSignals()) < 10 {
			t.Fatalf("an observation of %d workloads", len(o.GetWorkloads()))
		}
	}
	// What the service was told about machines and pods is what there is.
	w := d.world.Changes(0)
	for _, n := range w.Nodes {
		if end, ok := got.nodes[n.UID]; !ok || (end == 0) != n.EndedAt.IsZero() {
			t.Errorf("node %s: told %v, end %d", n.Name, ok, end)
		}
		delete(got.nodes, n.UID)
	}
	for uid, end := range got.nodes {
		if end == 0 {
			t.Errorf("node %s is gone, but nobody said so", uid)
		}
	}
	for _, p := range w.Pods {
		delete(got.pods, p.UID)
	}
	for uid, end := range got.pods {
		if end == 0 {
			t.Errorf("pod %s is gone, but nobody said so", uid)
		}
	}
	if got.events["interruption_notice"] == 0 || got.events["node_lost"] == 0 {
		t.Errorf("four days of events: %v", got.events)
	}
	if len(shares) < 10 || shares[len(shares)-1] > 1 {
		t.Errorf("progress %v", shares)
	}
	for token := range r.service.tokens {
		if token != "Bearer secret" {
			t.Errorf("a call with %q", token)
		}
	}
}

func TestHistoryKeepsThePlansWorthReading(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2*24*time.Hour)
	r.start(t)
	applied, proposed, held := 0, 0, map[optimizer.ReasonCode]int{}
	var before time.Time
	for _, p := range r.store.plans {
		if !p.plan.At.After(before) {
			t.Fatalf("plans are out of order at %v", p.plan.At)
		}
		before = p.plan.At
		for _, d := range p.news {
			switch {
			case d.Outcome == optimizer.OutcomeHold:
				held[d.Binding]++
			case d.Mode == fleet.ModeEnforce:
				applied++
			default:
				proposed++
			}
			if len(d.Reasons) == 0 || !strings.HasPrefix(string(d.Workload), "id of ") {
				t.Fatalf("decision %+v", d)
			}
		}
	}
	t.Logf("two days: %d plans, %d carried out, %d proposed, held %v", len(r.store.plans), applied, proposed, held)
	if applied < 100 || proposed < 10 || proposed > applied || len(held) < 2 {
		t.Errorf("%d carried out, %d proposed, held %v", applied, proposed, held)
	}
	if held[optimizer.ReasonSteady]+held[optimizer.ReasonWithinTolerance] > 0 {
		t.Errorf("it keeps what says nothing: %v", held)
	}
	if len(r.store.learned) != 2 {
		t.Errorf("the planner inherits what was learned of %d workloads, want the two with an objective", len(r.store.learned))
	}
	if len(r.store.memory) != 6 {
		t.Errorf("the planner inherits the memory of %d workloads", len(r.store.memory))
	}
}

func TestRestartGoesOnWhereTheDataEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3*time.Hour)
	d := r.start(t)
	r.wall.add(10 * time.Minute)
	if err := d.advance(); err != nil {
		t.Fatal(err)
	}
	chat := chatCount(d.world)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	r.store.dataAt = d.world.Now()
	before := len(r.service.told(t).observations)
	seen := r.service.last

	r.wall.add(50 * time.Minute) // away for a while
	again := r.start(t)
	if chatCount(again.world) <= chat {
		t.Error("the world began anew")
	}
	if gap := r.wall.now().Sub(again.world.Now()); gap < 0 || gap > 15*time.Second {
		t.Errorf("the world is %v behind", gap)
	}
	got := r.service.told2(t, seen)
	if got.ticks < 49 || got.ticks > 52 {
		t.Errorf("%d ticks for the fifty minutes that were missed", got.ticks)
	}
	if n := len(got.observations); n != 60 || before == 0 {
		t.Errorf("%d observations", n)
	}
}

// told2 is told for the epoch that began after the first; the fake keeps all reports.
func (f *fakeService) told2(t *testing.T, first uint64) told {
	t.Helper()
	rest := &fakeService{reports: f.reports[first:]}
	return rest.told(t)
}

func chatCount(w *replay.World) int64 {
	rows, _ := w.Score()
	return rows[0].Count.Arrived
}

func TestRestartWithoutTheSavedWorldMakesAnother(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"gone":    os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, time.Hour)
			d := r.start(t)
			old := d.world.Changes(0).Nodes[0].UID
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			r.store.dataAt = d.world.Now()
			if err := spoil(r.cfg.StateFile); err != nil {
				t.Fatal(err)
			}
			r.wall.add(time.Hour)
			again := r.start(t)
			if gap := r.wall.now().Sub(again.world.Now()); gap > 15*time.Second {
				t.Errorf("the world is %v behind", gap)
			}
			for _, n := range again.world.Changes(0).Nodes {
				if n.UID == old {
					t.Error("another world uses the ids of the first")
				}
			}
		})
	}
}

func TestHistoryStopsWhenTheServiceRefusesIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Hour)
	r.service.reject = agentv1.RejectCode_REJECT_CODE_MALFORMED
	if _, err := startDemo(context.Background(), r.cfg); !errors.Is(err, errRejected) {
		t.Errorf("got %v", err)
	}
	r = newRig(t, 48*time.Hour)
	r.store.nextErr = errors.New("disk full")
	if _, err := startDemo(context.Background(), r.cfg); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
	r = newRig(t, 48*time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	r.cfg.Progress = func(float64) { cancel() }
	if _, err := startDemo(ctx, r.cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("Ctrl-C during the history: %v", err)
	}
}

func TestStartRefusesBadWishes(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Hour)
	r.cfg.Speed = 601
	if _, err := startDemo(context.Background(), r.cfg); err == nil || !strings.Contains(err.Error(), "601") {
		t.Errorf("speed: %v", err)
	}
	r = newRig(t, time.Hour)
	r.cfg.TraceFile = filepath.Join(t.TempDir(), "none.csv")
	if _, err := startDemo(context.Background(), r.cfg); err == nil || !strings.Contains(err.Error(), "trace") {
		t.Errorf("trace: %v", err)
	}
	r = newRig(t, time.Hour)
	r.cfg.Listen = "0.0.0.0:0"
	if _, err := startDemo(context.Background(), r.cfg); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("listen: %v", err)
	}
}

func TestTraceNamesASeries(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rates.csv")
	doc := "model,offset_seconds,requests_per_second\na,0,1\na,600,1\na,1200,1\nb,0,0\nb,600,5\n"
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{path: 16, path + "#b": 0} {
		s, err := openTrace(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := s.At(0).Rate; got != want {
			t.Errorf("%s: %v at its start, want %v", name, got, want)
		}
	}
	if _, err := openTrace(path + "#z"); err == nil || !strings.Contains(err.Error(), "there are a, b") {
		t.Errorf("unknown series: %v", err)
	}
}

// call makes a request to the door.
func call(t *testing.T, d *demo, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, d.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(out)
}

func TestDoorShowsAndScalesTheWorld(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Hour)
	d := r.start(t)
	r.wall.add(20 * time.Second)
	status, body := call(t, d, "GET", "/sim/v1/state", "")
	var st simState
	if err := json.Unmarshal([]byte(body), &st); err != nil || status != 200 {
		t.Fatalf("%d: %v", status, err)
	}
	var inv agentv1.Inventory
	var obs agentv1.Observation
	if err := errors.Join(protojson.Unmarshal(st.Inventory, &inv), protojson.Unmarshal(st.Observation, &obs)); err != nil {
		t.Fatal(err)
	}
	if !inv.GetSnapshot() || len(inv.GetWorkloads()) != 6 || len(inv.GetNodes()) < 5 || len(inv.GetPods()) < 15 || len(obs.GetWorkloads()) != 6 || len(st.Series) < 100 {
		t.Errorf("workloads %d, nodes %d, pods %d, observed %d, series %d", len(inv.GetWorkloads()), len(inv.GetNodes()), len(inv.GetPods()), len(obs.GetWorkloads()), len(st.Series))
	}
	if behind := r.wall.now().UnixMilli() - st.NowMS; behind < 0 || behind > 5000 || st.NowMS-obs.GetAtMs() >= 15_000 {
		t.Errorf("the state is %d ms old, the observation %d ms older", behind, st.NowMS-obs.GetAtMs())
	}
	if len(st.Events) != 0 {
		t.Error("a first call gets history again")
	}
	const scale = "/sim/v1/scale"
	for body, want := range map[string]int{
		`{"workload":"chat/Deployment/ghost","replicas":3}`:                404,
		`{"workload":"chat/Deployment/chat-llm","replicas":-1}`:            422,
		`{"workload":"chat/Deployment/chat-llm","replicas":99999}`:         422,
		`{"workload":"chat/Deployment/chat-llm"}`:                          422,
		`{"workload":"chat/Deployment/chat-llm","replicas":19,"from":999}`: 409,
		`{"workload":"chat/Deployment/chat-llm","replicas":7,"now":true}`:  422,
		`hello`: 422,
	} {
		if status, answer := call(t, d, "POST", scale, body); status != want || !strings.Contains(answer, `"error"`) {
			t.Errorf("%s: %d %s, want %d", body, status, answer, want)
		}
	}
	_, first := call(t, d, "POST", scale, `{"workload":"chat/Deployment/chat-llm","replicas":17}`)
	_, second := call(t, d, "POST", scale, `{"workload":"chat/Deployment/chat-llm","replicas":17,"from":3}`)
	if !strings.HasSuffix(strings.TrimSpace(first), `"before":`+before(first)+`}`) || strings.TrimSpace(second) != `{"after":17,"before":17}` {
		t.Errorf("scaled: %s, and again: %s", first, second)
	}
	if status, _ := call(t, d, "GET", "/sim/v1/state?since=x", ""); status != 422 {
		t.Errorf("a bad cursor: %d", status)
	}
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, d.URL()+scale, bytes.NewBufferString(`{}`))
	req.Header.Set("Content-Type", "text/plain")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a form of a foreign page: %d", res.StatusCode)
	}
}

func before(answer string) string {
	var v struct{ Before int }
	_ = json.Unmarshal([]byte(answer), &v)
	return fmt.Sprint(v.Before)
}

func TestSpeedMovesTheWorldAndNothingJumps(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Hour)
	d := r.start(t)
	for _, body := range []string{`{"speed":0}`, `{"speed":601}`, `{"speed":"fast"}`, `{}`} {
		if status, _ := call(t, d, "PUT", "/sim/v1/speed", body); status != 422 {
			t.Errorf("%s: %d", body, status)
		}
	}
	t0 := stateNow(t, d)
	if status, answer := call(t, d, "PUT", "/sim/v1/speed", `{"speed":60}`); status != 200 || strings.TrimSpace(answer) != `{"speed":60}` {
		t.Errorf("%d %s", status, answer)
	}
	if jump := stateNow(t, d) - t0; jump != 0 {
		t.Errorf("the time jumped by %d ms", jump)
	}
	r.wall.add(10 * time.Second)
	if moved := stateNow(t, d) - t0; moved < 595_000 || moved > 605_000 {
		t.Errorf("ten seconds at speed 60 moved the world by %d ms", moved)
	}
	if status, answer := call(t, d, "GET", "/sim/v1/speed", ""); status != 200 || strings.TrimSpace(answer) != `{"speed":60}` {
		t.Errorf("%d %s", status, answer)
	}
}

func stateNow(t *testing.T, d *demo) int64 {
	t.Helper()
	_, body := call(t, d, "GET", "/sim/v1/state", "")
	var st simState
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Fatal(err)
	}
	return st.NowMS
}

func TestEventsComeOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Hour)
	d := r.start(t)
	_, body := call(t, d, "GET", "/sim/v1/state", "")
	var st simState
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Fatal(err)
	}
	cursor := st.Cursor
	seen := 0
	for range 6 {
		r.wall.add(24 * time.Hour)
		_, body = call(t, d, "GET", fmt.Sprintf("/sim/v1/state?since=%d", cursor), "")
		st = simState{}
		if err := json.Unmarshal([]byte(body), &st); err != nil {
			t.Fatal(err)
		}
		for _, raw := range st.Events {
			var e agentv1.Event
			if err := protojson.Unmarshal(raw, &e); err != nil || e.GetKind() == "" {
				t.Errorf("event %s: %v", raw, err)
			}
			seen++
		}
		if st.Cursor < cursor {
			t.Errorf("the cursor goes back from %d to %d", cursor, st.Cursor)
		}
		if got := int64(len(st.Events)); got != st.Cursor-cursor {
			t.Errorf("%d events between the cursors %d and %d", got, cursor, st.Cursor)
		}
		cursor = st.Cursor
	}
	if seen == 0 {
		t.Error("six days without an event")
	}
}

func TestCloseLeavesNothingRunning(t *testing.T) { //nolint:paralleltest // it counts goroutines
	r := newRig(t, time.Hour)
	r.cfg.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	before := goleak.IgnoreCurrent()
	d, err := startDemo(context.Background(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
	doc, err := os.ReadFile(r.cfg.StateFile)
	if err != nil || len(doc) == 0 {
		t.Errorf("the world was not saved: %v", err)
	}
}
