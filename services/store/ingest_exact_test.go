package store_test

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"plimsoll.dev/services/store"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Four connections of the same agent send the same reports at once, jump back and ahead, while database connections are killed under
// them: what was acknowledged is stored, once.
func TestAcknowledgedIsStoredOnceUnderKilledConnections(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const total, senders = 400, 4
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	owner, err := pgx.Connect(ctx, s.d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(context.Background())
	kills := 0
	killed := make(chan struct{})
	sending, done := context.WithCancel(ctx)
	go func() {
		defer close(killed)
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-sending.Done():
				return
			case <-tick.C:
			}
			tag, err := owner.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle' LIMIT 1`)
			if err == nil {
				kills += int(tag.RowsAffected())
			}
		}
	}()
	var mu sync.Mutex
	acked, answers := map[uint64]bool{}, map[string]int{}
	var wg sync.WaitGroup
	for n := range senders {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewSource(int64(n)))
			var src *store.Source
			for next := uint64(1); next <= total && ctx.Err() == nil; {
				if src == nil {
					var err error
					if src, err = s.db.OpenSource(ctx, s.tenant, s.cluster, hello(1)); err != nil {
						continue
					}
				}
				from := next
				switch rng.Intn(6) {
				case 0:
					from = max(1, next-uint64(rng.Intn(5)))
				case 1:
					from = min(total, next+uint64(rng.Intn(3)))
				}
				var run []*agentv1.Report
				for seq := from; seq <= min(total, from+uint64(rng.Intn(4))); seq++ {
					run = append(run, observation(seq, day.Add(time.Duration(seq)*time.Second)))
				}
				out, err := src.Ingest(ctx, day, run, nil)
				mu.Lock()
				for _, o := range out {
					answers[o.Result]++
					switch o.Code {
					case agentv1.RejectCode_REJECT_CODE_UNSPECIFIED:
						acked[o.Seq] = true
						next = max(next, o.Seq+1)
					case agentv1.RejectCode_REJECT_CODE_GAP:
						next = o.Expected
					default:
						t.Errorf("%+v", o)
					}
				}
				mu.Unlock()
				if err != nil {
					src = nil
				}
			}
		}()
	}
	wg.Wait()
	done()
	<-killed
	if ctx.Err() != nil {
		t.Fatal("not finished within a minute")
	}
	if len(acked) != total {
		t.Errorf("%d reports acknowledged, want %d", len(acked), total)
	}
	if rows, different := s.count(t, "SELECT count(*) FROM observation"), s.count(t, "SELECT count(DISTINCT seq) FROM observation"); rows != total || different != total {
		t.Errorf("%d rows of %d reports stored, want %d", rows, different, total)
	}
	if last := s.count(t, "SELECT last_seq FROM ingest_stream"); last != total {
		t.Errorf("the watermark is at %d", last)
	}
	if kills == 0 || answers["duplicate"] == 0 || answers["gap"] == 0 {
		t.Errorf("nothing was proven: %d kills, answers %v", kills, answers)
	}
	t.Logf("%d kills, answers %v", kills, answers)
}

// Any order of reports over any number of epochs leaves what a simple model says.
func TestAnyOrderOfReportsLeavesWhatTheModelSays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	check := 0
	rapid.Check(t, func(rt *rapid.T) {
		if check++; check > 40 {
			return // each takes a few dozen transactions
		}
		h := hello(1)
		h.Stream = fmt.Sprintf("node/n%d", check)
		sources := map[uint64]*store.Source{}
		newest, last, stored := uint64(0), uint64(0), 0
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			epoch := rapid.Uint64Range(1, 3).Draw(rt, "epoch")
			if sources[epoch] == nil {
				h.Epoch = epoch
				src, err := s.db.OpenSource(context.Background(), s.tenant, s.cluster, h)
				if epoch < newest {
					if err == nil {
						rt.Fatalf("epoch %d opened behind %d", epoch, newest)
					}
					continue
				}
				if err != nil {
					rt.Fatal(err)
				}
				if epoch > newest {
					newest, last = epoch, 0
				}
				sources[epoch] = src
			}
			from := rapid.Uint64Range(1, 8).Draw(rt, "from")
			to := from + rapid.Uint64Range(0, 4).Draw(rt, "more")
			var run []*agentv1.Report
			var want []string
			for seq := from; seq <= to; seq++ {
				r := observation(seq, day.Add(time.Duration(stored+int(seq))*time.Second))
				malformed := rapid.IntRange(0, 4).Draw(rt, "malformed") == 0
				if malformed {
					r.GetObservation().Workloads[0].Signals[0].Value = math.NaN()
				}
				run = append(run, r)
				switch {
				case epoch < newest:
					want = append(want, "fenced")
				case seq <= last:
					want = append(want, "duplicate")
				case seq > last+1:
					want = append(want, "gap")
				case malformed:
					want = append(want, "malformed")
					last++
				default:
					want = append(want, "accepted")
					last++
					stored++
				}
			}
			out, err := sources[epoch].Ingest(context.Background(), day, run, nil)
			if err != nil {
				rt.Fatal(err)
			}
			if results(out) != fmt.Sprint(want) {
				rt.Fatalf("epoch %d, reports %d to %d: %s, want %v", epoch, from, to, results(out), want)
			}
		}
		var rows int
		err := s.db.Tenant(context.Background(), s.tenant, func(tx *store.Tx) error {
			return tx.PGX().QueryRow(context.Background(), "SELECT count(*) FROM observation WHERE stream = $1", h.Stream).Scan(&rows)
		})
		if err != nil || rows != stored {
			rt.Fatalf("%d rows, want %d (%v)", rows, stored, err)
		}
	})
}

// What cannot be stored is refused with a sentence, consumed, and changes nothing else.
func TestBadReportsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	h := hello(1)
	h.SimulatedClock = false
	src := s.open(t, h)
	pack := func(ticks []int64, series ...uint32) []byte {
		f := frame.Frame{Ticks: ticks, Series: series}
		for range series {
			f.Values = append(f.Values, make([]float64, len(ticks)))
		}
		payload, err := frame.Encode(f, frame.Limits{MaxTicks: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	ms := now.UnixMilli()
	framed := func(f *agentv1.Frame) *agentv1.Report {
		if f.GetFromMs() == 0 {
			f.FromMs, f.ToMs = ms, ms+60_000
		}
		return &agentv1.Report{AtMs: ms, Body: &agentv1.Report_Frame{Frame: f}}
	}
	observed := func(change func(*agentv1.Observation)) *agentv1.Report {
		r := observation(0, now)
		change(r.GetObservation())
		return r
	}
	inventory := func(inv *agentv1.Inventory) *agentv1.Report {
		inv.AtMs = ms
		return &agentv1.Report{AtMs: ms, Body: &agentv1.Report_Inventory{Inventory: inv}}
	}
	def := func(id uint32, entity string) *agentv1.SeriesDef {
		return &agentv1.SeriesDef{Id: id, Kind: "gpu", Entity: entity, Field: "power"}
	}
	for i, c := range []struct {
		name, want, detail string
		report             *agentv1.Report
	}{
		{"no time", "malformed", "a time in the year 1970", &agentv1.Report{}},
		{"the future", "malformed", "ahead of the service's clock", observation(0, now.Add(11*time.Minute))},
		{"ten minutes of skew", "accepted", "", observation(0, now.Add(9*time.Minute))},
		{"long ago", "malformed", "more than 30 days ago", observation(0, now.AddDate(0, 0, -31))},
		{"a body of a newer agent", "accepted", "", &agentv1.Report{AtMs: ms}},
		{"an empty frame", "malformed", "the frame is empty", framed(&agentv1.Frame{})},
		{"a frame of noise", "malformed", "malformed frame", framed(&agentv1.Frame{Payload: []byte("0123456789abcdef")})},
		{"a frame that was cut", "malformed", "malformed frame", framed(&agentv1.Frame{Payload: pack([]int64{ms, ms + 1}, 1, 2)[:12]})},
		{"a frame of no time", "malformed", "a frame spans", framed(&agentv1.Frame{FromMs: ms, ToMs: ms, Payload: pack([]int64{ms}, 1)})},
		{"a frame of a day", "malformed", "a frame spans", framed(&agentv1.Frame{FromMs: ms - 86_400_000, ToMs: ms, Payload: pack([]int64{ms}, 1)})},
		{"a tick after the frame", "malformed", "a tick lies outside", framed(&agentv1.Frame{Payload: pack([]int64{ms, ms + 60_000}, 1), Series: []*agentv1.SeriesDef{def(1, "a")}})},
		{"a series nobody announced", "malformed", "series 5 was never announced", framed(&agentv1.Frame{Payload: pack([]int64{ms}, 5)})},
		{"series zero", "malformed", "has no proper kind", framed(&agentv1.Frame{Payload: pack([]int64{ms}, 1), Series: []*agentv1.SeriesDef{def(0, "a")}})},
		{"a series without entity", "malformed", "has no proper kind", framed(&agentv1.Frame{Payload: pack([]int64{ms}, 1), Series: []*agentv1.SeriesDef{def(1, "")}})},
		{"announced twice at once", "malformed", "announced twice", framed(&agentv1.Frame{Payload: pack([]int64{ms}, 1), Series: []*agentv1.SeriesDef{def(1, "a"), def(1, "b")}})},
		{"a proper frame", "accepted", "", framed(&agentv1.Frame{Payload: pack([]int64{ms}, 1), Series: []*agentv1.SeriesDef{def(1, "a")}})},
		{"announced again", "accepted", "", framed(&agentv1.Frame{Payload: pack([]int64{ms}, 1), Series: []*agentv1.SeriesDef{def(1, "a")}})},
		{"announced as something else", "malformed", "announced as something else", framed(&agentv1.Frame{Payload: pack([]int64{ms}, 1), Series: []*agentv1.SeriesDef{def(1, "b")}})},
		{"too many ticks", "too_large", "frame too large", framed(&agentv1.Frame{Payload: pack(manyTicks(ms, 7201), 1)})},
		{"not a number", "malformed", "is not a number", observed(func(o *agentv1.Observation) { o.Workloads[0].Signals[0].Value = math.Inf(1) })},
		{"less than no replicas", "malformed", "negative number of replicas", observed(func(o *agentv1.Observation) { o.Workloads[0].Ready = -1 })},
		{"not a key", "malformed", "not a workload's key", observed(func(o *agentv1.Observation) { o.Workloads[0].Workload = "chat" })},
		{"too many signals", "too_large", "signals of one workload", observed(func(o *agentv1.Observation) { o.Workloads[0].Signals = make([]*agentv1.Signal, 65) })},
		{"a clock that runs backwards", "malformed", "clock speed", observed(func(o *agentv1.Observation) { o.ClockSpeed = -1 })},
		{"a node without uid", "malformed", "no uid", inventory(&agentv1.Inventory{Nodes: []*agentv1.Node{{Name: "n"}}})},
		{"a pod of negative size", "malformed", "negative size", inventory(&agentv1.Inventory{Pods: []*agentv1.Pod{{Uid: "u", Name: "n", Namespace: "s", GpuMilli: -1}}})},
		{"a node from the future", "malformed", "cannot be right", inventory(&agentv1.Inventory{Nodes: []*agentv1.Node{{Uid: "u", Name: "n", StartedMs: ms + 3_600_000}}})},
		{"a key of another workload", "malformed", "is not that of", inventory(&agentv1.Inventory{Workloads: []*agentv1.Workload{{Key: "a/b/c", Namespace: "a", Kind: "b", Name: "d"}}})},
		{"a label with a zero byte", "malformed", "a label", inventory(&agentv1.Inventory{Nodes: []*agentv1.Node{{Uid: "u", Name: "n", Labels: map[string]string{"a": "b\x00"}}}})},
		{"sizes beyond the database's", "accepted", "", inventory(&agentv1.Inventory{Nodes: []*agentv1.Node{{Uid: "big", Name: "n", MemMib: math.MaxInt64}}})},
		{"an event without kind", "malformed", "no kind", &agentv1.Report{AtMs: ms, Body: &agentv1.Report_Events{Events: &agentv1.Events{Events: []*agentv1.Event{{AtMs: ms}}}}}},
		{"too many events", "too_large", "events", &agentv1.Report{AtMs: ms, Body: &agentv1.Report_Events{Events: &agentv1.Events{Events: make([]*agentv1.Event, 1001)}}}},
		{"a result of nobody's action", "accepted", "", &agentv1.Report{AtMs: ms, Body: &agentv1.Report_Results{Results: &agentv1.ActionResults{Results: []*agentv1.ActionResult{{ActionId: "x", Outcome: "applied"}}}}}},
	} {
		c.report.Seq = uint64(i + 1)
		out, err := src.Ingest(context.Background(), now, []*agentv1.Report{c.report}, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if out[0].Result != c.want || !strings.Contains(out[0].Detail, c.detail) {
			t.Errorf("%s: %s %q, want %s %q", c.name, out[0].Result, out[0].Detail, c.want, c.detail)
		}
		if !out[0].Consumed() || src.LastSeq != uint64(i+1) {
			t.Fatalf("%s: the stream stands at %d", c.name, src.LastSeq)
		}
	}
	if n := s.count(t, "SELECT count(*) FROM telemetry_frame"); n != 2 {
		t.Errorf("%d frames stored, want 2", n)
	}
	if n := s.count(t, "SELECT count(*) FROM observation"); n != 1 {
		t.Errorf("%d observations stored, want 1", n)
	}
	if skew := s.count(t, "SELECT count(*) FROM cluster WHERE data_at = $1", now.Add(9*time.Minute)); skew != 1 {
		t.Error("the data time is not that of the newest report")
	}
}

func manyTicks(from int64, n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = from + int64(i)
	}
	return out
}

// Frames come in while their block is compacted again and again: in the end the chunk has every value.
func TestCompactionMissesNothingThatArrivesMeanwhile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	ingest(t, src, observation(1, day.Add(3*time.Hour))) // the block is over: every pass tries to close it
	arrived, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(arrived)
		for m := range 120 {
			if m == 40 || m == 80 { // a pass ends between reports, however busy the machine is
				<-passed
			}
			values := [][]float64{{float64(m), 1, 2, 3}}
			out, err := src.Ingest(context.Background(), day, []*agentv1.Report{
				frameReport(t, uint64(m+2), day.Add(time.Duration(m)*time.Minute), m == 0, "a/Deployment/b", []string{"request_rate"}, values)}, nil)
			if err != nil || out[0].Result != "accepted" {
				t.Errorf("%v %v", out, err)
				return
			}
		}
	}()
	passes := 0
	for open := true; open; passes++ {
		select {
		case <-arrived:
			open = false // one more pass for what came last
		default:
		}
		s.compact(t, day)
		select {
		case passed <- struct{}{}:
		default:
		}
	}
	if n := s.count(t, "SELECT samples FROM telemetry_chunk"); n != 480 {
		t.Errorf("the chunk has %d values after %d passes, want 480", n, passes)
	}
	if n := s.count(t, "SELECT sum(samples)::int FROM rollup_1d"); n != 480 {
		t.Errorf("the day has %d values", n)
	}
	if n := s.count(t, "SELECT count(*) FROM rollup_dirty"); n != 0 {
		t.Errorf("%d blocks are dirty", n)
	}
	if passes < 3 {
		t.Errorf("only %d passes: nothing was proven", passes)
	}
}

// Whatever the checks let through and the database does not take costs its own report only, not those that came with it.
func TestWhatTheDatabaseRefusesIsRefusedAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	owner, err := pgx.Connect(context.Background(), s.d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(context.Background())
	if _, err := owner.Exec(context.Background(), "ALTER TABLE observation ADD CONSTRAINT unlucky CHECK (seq <> 2)"); err != nil {
		t.Fatal(err)
	}
	src := s.open(t, hello(1))
	out := ingest(t, src, observation(1, day), observation(2, day), observation(3, day.Add(time.Second)))
	if got := results(out); got != "[accepted malformed accepted]" {
		t.Errorf("%s", got)
	}
	if n := s.count(t, "SELECT count(*) FROM observation"); n != 2 || src.LastSeq != 3 {
		t.Errorf("%d stored, the stream stands at %d", n, src.LastSeq)
	}
}
