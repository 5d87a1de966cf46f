package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"pgregory.net/rapid"
)

// script is a source that says what the test tells it to.
type script struct {
	name string
	next Batch
	err  error
	in   Input
}

func (s *script) Name() string { return s.name }
func (s *script) Collect(_ context.Context, in Input) (Batch, error) {
	s.in = in
	return s.next, s.err
}

// sink keeps what it is given, or refuses.
type sink struct {
	reports []*agentv1.Report
	err     error
}

func (s *sink) Append(r *agentv1.Report) (uint64, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.reports = append(s.reports, r)
	return uint64(len(s.reports)), nil
}

// take returns the kinds of reports since the last call.
func (s *sink) take() string {
	var out []string
	for _, r := range s.reports {
		switch b := r.GetBody().(type) {
		case *agentv1.Report_Observation:
			out = append(out, "observation")
		case *agentv1.Report_Inventory:
			if b.Inventory.GetSnapshot() {
				out = append(out, "snapshot")
			} else {
				out = append(out, fmt.Sprintf("delta(+%d -%d)", len(b.Inventory.GetNodes())+len(b.Inventory.GetPods())+len(b.Inventory.GetWorkloads()),
					len(b.Inventory.GetGoneNodes())+len(b.Inventory.GetGonePods())+len(b.Inventory.GetGoneWorkloads())))
			}
		case *agentv1.Report_Events:
			out = append(out, "events")
		case *agentv1.Report_Frame:
			out = append(out, "frame")
		}
	}
	s.reports = nil
	return strings.Join(out, " ")
}

type loopRig struct {
	cluster, other *script
	sink           *sink
	dict           *Dictionary
	c              *Collector
}

func newLoop(t *testing.T, cfg Config) *loopRig {
	t.Helper()
	d, err := OpenDictionary(filepath.Join(t.TempDir(), "series"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	r := &loopRig{cluster: &script{name: "cluster"}, other: &script{name: "other"}, sink: &sink{}, dict: d}
	r.c = New(cfg, []Source{r.cluster, r.other}, r.sink, d, &Clock{}, slog.New(slog.DiscardHandler))
	return r
}

// at sets what the cluster says: one workload with a signal.
func (r *loopRig) at(second int64, replicas int32, rate float64) {
	r.cluster.next = Batch{
		AtMS: second * 1000, Speed: 1, Pods: []Pod{{UID: "p"}},
		Inventory: &agentv1.Inventory{Workloads: []*agentv1.Workload{{Key: "a/Deployment/x", Replicas: replicas}}},
		Workloads: []*agentv1.WorkloadObservation{{Workload: "a/Deployment/x", Replicas: replicas, Ready: replicas,
			Signals: []*agentv1.Signal{{Name: SignalRequestRate, Value: rate, AtMs: second * 1000, PodsReported: replicas}}}},
	}
}

func (r *loopRig) poll(t *testing.T, want string) {
	t.Helper()
	r.c.Poll(context.Background())
	if got := r.sink.take(); got != want {
		t.Errorf("at %d s: reports %q, want %q", r.cluster.next.AtMS/1000, got, want)
	}
}

func TestCollectorReportsWhatIsDue(t *testing.T) {
	t.Parallel()
	r := newLoop(t, Config{})
	r.at(1000, 2, 10)
	r.poll(t, "snapshot observation")
	r.at(1005, 2, 11)
	r.poll(t, "") // moved by a tenth: not yet
	r.at(1010, 2, 12)
	r.poll(t, "observation") // by a fifth since the last report
	r.at(1015, 3, 12)
	r.poll(t, "delta(+1 -0) observation") // a replica more
	r.at(1030, 3, 12)
	r.poll(t, "observation") // its time has come
	r.at(1060, 3, 12)
	r.poll(t, "observation frame")
	r.at(1300, 3, 12)
	r.poll(t, "snapshot observation frame")
	r.cluster.next.Inventory.Workloads = nil
	r.cluster.next.AtMS += 1000
	r.poll(t, "delta(+0 -1)")
	r.cluster.next.Events = []*agentv1.Event{{Kind: "oom"}}
	r.cluster.next.AtMS += 1000
	r.poll(t, "events")
}

func TestCollectorSilenceOfTheClusterIsNoObservation(t *testing.T) {
	t.Parallel()
	r := newLoop(t, Config{})
	r.at(1000, 2, 10)
	r.poll(t, "snapshot observation")
	r.cluster.err = errors.New("the API server is away")
	r.cluster.next = Batch{AtMS: 2_000_000}
	r.poll(t, "")
	if n := r.c.Counters().SourceErrors["cluster"]; n != 1 {
		t.Errorf("%d errors counted", n)
	}
	if got := r.c.Observed(); got["a/Deployment/x"] != 2 {
		t.Errorf("what was observed before is forgotten: %v", got)
	}
}

func TestCollectorSilenceOfASourceLeavesItsSignalsOut(t *testing.T) {
	t.Parallel()
	r := newLoop(t, Config{})
	r.at(1000, 2, 10)
	r.other.next = Batch{Workloads: []*agentv1.WorkloadObservation{{Workload: "a/Deployment/x", Signals: []*agentv1.Signal{{Name: SignalCPU, Value: 3}}}}}
	r.c.Poll(context.Background())
	o := r.sink.reports[1].GetObservation().GetWorkloads()[0]
	if len(o.GetSignals()) != 2 || o.GetReplicas() != 2 || len(r.other.in.Pods) != 1 {
		t.Fatalf("merged: %v", o)
	}
	r.sink.take()
	r.other.next, r.other.err = Batch{}, errors.New("away")
	r.at(1001, 2, 10)
	r.c.Poll(context.Background())
	o = r.sink.reports[0].GetObservation().GetWorkloads()[0]
	if len(o.GetSignals()) != 1 || o.GetSignals()[0].GetName() != SignalRequestRate {
		t.Fatalf("a signal of a silent source is still reported: %v", o)
	}
}

func TestCollectorMarksSourcesThatDisagree(t *testing.T) {
	t.Parallel()
	for value, conflicting := range map[float64]bool{10: false, 14: false, 30: true, 0: true} {
		r := newLoop(t, Config{})
		r.at(1000, 2, 10)
		r.other.next = Batch{Workloads: []*agentv1.WorkloadObservation{{Workload: "a/Deployment/x", Signals: []*agentv1.Signal{{Name: SignalRequestRate, Value: value}}}}}
		r.c.Poll(context.Background())
		s := r.sink.reports[1].GetObservation().GetWorkloads()[0].GetSignals()
		if len(s) != 1 || s[0].GetConflicting() != conflicting || s[0].GetValue() != 10 {
			t.Errorf("10 against %g: %v", value, s)
		}
	}
}

func TestCollectorLostReportsAreSaidAgain(t *testing.T) {
	t.Parallel()
	r := newLoop(t, Config{})
	r.at(1000, 2, 10)
	r.poll(t, "snapshot observation")
	r.c.LostInventory()
	r.at(1001, 2, 10)
	r.poll(t, "snapshot")
	frameAt := func(second int64) *agentv1.Frame {
		t.Helper()
		r.at(second, 2, 10)
		r.c.Poll(context.Background())
		for _, x := range r.sink.reports {
			if x.GetFrame() != nil {
				r.sink.reports = nil
				return x.GetFrame()
			}
		}
		t.Fatalf("no frame at %d", second)
		return nil
	}
	if n := len(frameAt(1060).GetSeries()); n != 4 {
		t.Errorf("the first frame announces %d series, want 4", n)
	}
	if n := len(frameAt(1120).GetSeries()); n != 0 {
		t.Errorf("the second frame announces %d series, want none", n)
	}
	r.c.LostFrames()
	if n := len(frameAt(1180).GetSeries()); n != 4 {
		t.Errorf("after a loss %d series are announced, want 4", n)
	}
	r.sink.err = errors.New("full")
	r.at(1240, 2, 10)
	r.c.Poll(context.Background())
	r.sink.err = nil
	if n := len(frameAt(1300).GetSeries()); n != 4 || r.c.Counters().Unsent == 0 {
		t.Errorf("after a refusal %d series are announced, want 4", n)
	}
}

func TestCollectorClockSetBack(t *testing.T) {
	t.Parallel()
	r := newLoop(t, Config{})
	r.at(5000, 2, 10)
	r.poll(t, "snapshot observation")
	r.at(1000, 2, 10)
	r.poll(t, "frame snapshot observation")
}

func TestCollectorSendsItsLastFrameWhenStopped(t *testing.T) {
	t.Parallel()
	r := newLoop(t, Config{FramesOnly: true})
	r.at(1000, 2, 10)
	r.cluster.next.Values = []Value{{KindGPU, "GPU-a", "dcgm_fi_dev_gpu_util", 50}}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := r.sink.take(); got != "frame" {
		t.Errorf("the node role sent %q, want a frame only", got)
	}
}

func TestPollPause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		sample time.Duration
		speed  float64 // 0: wall time
		want   time.Duration
	}{
		{"a third of the sample interval", 15 * time.Second, 0, 5 * time.Second},
		{"at least a second", time.Second, 0, time.Second},
		{"a replayed cluster is polled faster", 15 * time.Second, 10, 500 * time.Millisecond},
		{"within bounds", 15 * time.Second, 600, 200 * time.Millisecond},
	} {
		r := newLoop(t, Config{Sample: c.sample})
		if c.speed > 0 {
			r.c.clock.Set(1, c.speed)
		}
		if got := r.c.pause(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What a frame holds is what was sampled: every value at its tick, gaps where there was none.
func TestFrameRoundTripProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "dict")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		d, err := OpenDictionary(filepath.Join(dir, "series"))
		if err != nil {
			rt.Fatal(err)
		}
		defer d.Close()
		b := frameBuilder{dict: d}
		type cell struct {
			at  int64
			key seriesKey
		}
		want := map[cell]float64{}
		at := int64(1_700_000_000_000)
		for range rapid.IntRange(1, 8).Draw(rt, "ticks") {
			at += rapid.Int64Range(1, 20_000).Draw(rt, "step")
			var vs []Value
			for _, e := range []string{"a", "b", "c"} {
				if rapid.Bool().Draw(rt, e) {
					v := rapid.SampledFrom([]float64{0, 1, 0.25, 1e9, math.NaN(), math.Inf(1), 3.14159}).Draw(rt, "v")
					vs = append(vs, Value{KindWorkload, e, "f", v})
					if !math.IsNaN(v) && !math.IsInf(v, 0) {
						want[cell{at, seriesKey{KindWorkload, e, "f"}}] = v
					}
				}
			}
			b.add(at, vs)
		}
		frames, err := b.flush(at + 1)
		if err != nil {
			rt.Fatal(err)
		}
		defs := map[uint32]seriesKey{}
		got := 0
		for _, f := range frames {
			for _, s := range f.GetSeries() {
				defs[s.GetId()] = seriesKey{s.GetKind(), s.GetEntity(), s.GetField()}
			}
			x, err := frame.Decode(f.GetPayload(), frame.Limits{})
			if err != nil {
				rt.Fatal(err)
			}
			for s, id := range x.Series {
				for i, v := range x.Values[s] {
					if math.IsNaN(v) {
						continue
					}
					got++
					if w, ok := want[cell{x.Ticks[i], defs[id]}]; !ok || w != v {
						rt.Fatalf("%v at %d is %g, want %g", defs[id], x.Ticks[i], v, w)
					}
					if x.Ticks[i] < f.GetFromMs() || x.Ticks[i] >= f.GetToMs() {
						rt.Fatalf("tick %d outside [%d, %d)", x.Ticks[i], f.GetFromMs(), f.GetToMs())
					}
				}
			}
		}
		if got != len(want) {
			rt.Fatalf("%d values came back of %d", got, len(want))
		}
	})
}

func TestDictionaryKeepsNumbersOverKills(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "series")
	open := func() *Dictionary {
		t.Helper()
		d, err := OpenDictionary(path)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	ids, err := d.number([]seriesKey{{"gpu", "a", "f"}, {"gpu", "b", "f"}})
	if err != nil || fmt.Sprint(ids) != "[1 2]" {
		t.Fatal(ids, err)
	}
	d.Close()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"k":"gpu","e":"torn`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	d = open()
	ids, err = d.number([]seriesKey{{"gpu", "c", "f"}, {"gpu", "b", "f"}, {"gpu", "", "f"}})
	if err != nil || fmt.Sprint(ids) != "[3 2 0]" {
		t.Fatal(ids, err)
	}
	d.Close()
	d = open()
	defer d.Close()
	if ids, _ := d.number([]seriesKey{{"gpu", "a", "f"}, {"gpu", "c", "f"}}); fmt.Sprint(ids) != "[1 3]" {
		t.Fatal(ids)
	}
	if defs := d.announce([]uint32{1, 3, 1}); len(defs) != 2 || len(d.Announced()) != 2 {
		t.Fatal(defs)
	}
}

func TestInventoryDeltasAreBounded(t *testing.T) {
	t.Parallel()
	var s inventoryState
	if got := s.reports(&agentv1.Inventory{}, 1000, 60_000); len(got) != 1 || !got[0].GetSnapshot() {
		t.Fatal("the first report is a snapshot", got)
	}
	inv := &agentv1.Inventory{}
	for i := range 2*inventoryPart + 5 {
		inv.Pods = append(inv.Pods, &agentv1.Pod{Uid: fmt.Sprint(i)})
	}
	parts := s.reports(inv, 2000, 60_000)
	n := 0
	for _, p := range parts {
		n += len(p.GetPods())
		if p.GetSnapshot() || len(p.GetPods()) > inventoryPart {
			t.Fatalf("a part has %d pods", len(p.GetPods()))
		}
	}
	if n != len(inv.GetPods()) || len(parts) != 3 {
		t.Fatalf("%d pods in %d parts", n, len(parts))
	}
	if got := s.reports(inv, 3000, 60_000); len(got) != 0 {
		t.Fatal("nothing changed, and that is reported")
	}
	if got := s.reports(inv, 70_000, 60_000); len(got) != 1 || !got[0].GetSnapshot() {
		t.Fatal("a snapshot was due")
	}
}

func TestSimSource(t *testing.T) {
	t.Parallel()
	s := NewSim("http://unused")
	b, err := s.parse([]byte(`{"now_ms":1700000000000,"speed":60,"inventory":{"snapshot":true,"workloads":[{"key":"a/Deployment/x","replicas":3,"unknown":1}]},
		"observation":{"atMs":"1700000000000","workloads":[{"workload":"a/Deployment/x","replicas":3}]},
		"series":[{"kind":"workload","entity":"a/Deployment/x","field":"ready","value":3}],"events":[{"kind":"oom"}],"cursor":42}`))
	if err != nil {
		t.Fatal(err)
	}
	if b.AtMS != 1700000000000 || b.Speed != 60 || len(b.Inventory.GetWorkloads()) != 1 || len(b.Workloads) != 1 || len(b.Values) != 1 || len(b.Events) != 1 || s.cursor != "42" {
		t.Errorf("%+v cursor %s", b, s.cursor)
	}
	for _, bad := range []string{``, `{}`, `{"now_ms":1,"inventory":[]}`, `{"now_ms":1,"observation":{"workloads":7}}`, `{"now_ms":1,"events":["x"]}`} {
		if _, err := s.parse([]byte(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
