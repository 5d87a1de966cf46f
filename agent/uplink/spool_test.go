package uplink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"pgregory.net/rapid"
)

var start = time.UnixMilli(1_700_000_000_000)

func mustOpen(t testing.TB, dir string, maxBytes int64) *Spool {
	t.Helper()
	s, err := OpenSpool(dir, maxBytes, start)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func frameReport(n int) *agentv1.Report {
	return &agentv1.Report{AtMs: 7, Body: &agentv1.Report_Frame{Frame: &agentv1.Frame{FromMs: 1, ToMs: 2, Payload: make([]byte, n)}}}
}

func resultReport(id string) *agentv1.Report {
	return &agentv1.Report{AtMs: 7, Body: &agentv1.Report_Results{Results: &agentv1.ActionResults{Results: []*agentv1.ActionResult{{ActionId: id}}}}}
}

// kill lets go of the files as kill -9 would: nothing is synced or tidied.
func kill(s *Spool) {
	for _, seg := range s.segs {
		seg.f.Close()
	}
}

func name(r *agentv1.Report) string {
	switch b := r.GetBody().(type) {
	case *agentv1.Report_Observation:
		return b.Observation.GetWorkloads()[0].GetWorkload()
	case *agentv1.Report_Results:
		return b.Results.GetResults()[0].GetActionId()
	case *agentv1.Report_Frame:
		return "frame"
	}
	return "-"
}

func TestSpoolKeepsNumbersOverRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, 8<<20)
	for i := range 5 {
		if seq, err := s.Append(observation(fmt.Sprint(i))); err != nil || seq != uint64(i+1) {
			t.Fatal(seq, err)
		}
	}
	if err := s.Trim(5); err != nil {
		t.Fatal(err)
	}
	kill(s)
	s = mustOpen(t, dir, 8<<20)
	if seq, err := s.Append(observation("x")); err != nil || seq != 6 {
		t.Fatalf("after a restart the next report is %d (%v), want 6", seq, err)
	}
	if s.Epoch() != uint64(start.UnixMilli()) {
		t.Fatalf("epoch %d", s.Epoch())
	}
}

func TestSpoolCutsATornTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, 8<<20)
	for i := range 3 {
		if _, err := s.Append(observation(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	path := s.active().path
	size := s.active().size
	last := s.recs[2].size
	kill(s)
	for cut := int64(1); cut <= last; cut++ {
		if err := os.Truncate(path, size-cut); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, dir, 8<<20)
		if _, n := s.Bounds(); n != 2 {
			t.Fatalf("cut by %d bytes: last is %d, want 2", cut, n)
		}
		if got := s.Read(1, 10, 1<<20); len(got) != 2 || name(got[1]) != "1" {
			t.Fatalf("cut by %d bytes: read %v", cut, got)
		}
		kill(s)
		// put back what was there, zeros for the torn part: a hole as a crashed file system leaves it
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSpoolFullGivesUpFramesFirstAndResultsNever(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), 1<<20)
	defer s.Close()
	lost := map[Kind]int{}
	s.OnLost(func(k Kind, n int) { lost[k] += n })
	results := 0
	for i := range 600 {
		r := frameReport(8 << 10)
		if i%10 == 0 {
			r, results = resultReport(fmt.Sprint(i)), results+1
		}
		if _, err := s.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	st := s.Stats()
	if st.Bytes > 1<<20+resultReserve || st.Bytes > 1<<20 {
		t.Fatalf("the spool has %d bytes", st.Bytes)
	}
	var seen, empty int
	for i, r := range s.Read(1, 1000, 1<<30) {
		if r.GetSeq() != uint64(i+1) {
			t.Fatalf("report %d has seq %d", i+1, r.GetSeq())
		}
		switch {
		case r.GetResults() != nil:
			seen++
		case r.GetEvents() != nil:
			empty++
			if r.GetAtMs() != 7 {
				t.Fatalf("the empty report lost its time")
			}
		}
	}
	if seen != results || empty == 0 || empty != lost[KindFrame] || uint64(empty) != st.Dropped[KindFrame] || len(lost) != 1 {
		t.Fatalf("%d of %d results left, %d empty, lost %v, dropped %v", seen, results, empty, lost, st.Dropped)
	}
}

func TestSpoolRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), 64<<20)
	defer s.Close()
	if _, err := s.Append(frameReport(MaxReportBytes + 1)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if seq, err := s.Append(observation("x")); seq != 1 || err != nil {
		t.Fatalf("the refused report took a number: %d %v", seq, err)
	}
}

func TestSpoolOneAgentPerStateDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenState(dir); err == nil {
		t.Fatal("two agents share one directory")
	}
	id := s.InstallID()
	s.Close()
	if s, err = OpenState(dir); err != nil || s.InstallID() != id {
		t.Fatal("the install id changed", err)
	}
	s.Close()
}

func TestSpoolCorruptSegmentKeepsNumbers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, 1<<20) // segments of 64 KiB
	for range 20 {
		if _, err := s.Append(frameReport(16 << 10)); err != nil {
			t.Fatal(err)
		}
	}
	path := s.segs[1].path
	kill(s)
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("rot"), 100); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s = mustOpen(t, dir, 1<<20)
	defer s.Close()
	got := s.Read(1, 100, 1<<30)
	if len(got) != 20 {
		t.Fatalf("read %d reports, want 20", len(got))
	}
	for i, r := range got {
		if r.GetSeq() != uint64(i+1) {
			t.Fatalf("report %d has seq %d", i+1, r.GetSeq())
		}
	}
}

// The promise, over random lives of the agent: kill at any point with a torn tail, restart, answers lost, repeated or late,
// trims at any point. Every report that was sent keeps its number and content; the service's rule accepts each number once, in
// order, and nothing that was synced is ever missing.
func TestSpoolProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "spool")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s := mustOpen(t, dir, 1<<20)
		defer func() { s.Close() }()
		sent := map[uint64]string{} // what the service may have seen under a number
		var serviceLast uint64      // its watermark
		written := map[uint64]string{}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(rt, "n") {
					label := fmt.Sprint(rapid.IntRange(0, 1<<30).Draw(rt, "label"))
					r := resultReport(label)
					if rapid.Bool().Draw(rt, "frame") {
						r, label = frameReport(rapid.IntRange(0, 150_000).Draw(rt, "size")), "frame"
					}
					seq, err := s.Append(r)
					if err != nil {
						rt.Fatal(err)
					}
					if old, ok := sent[seq]; ok {
						rt.Fatalf("number %d is given twice: %s and %s", seq, old, label)
					}
					written[seq] = label
				}
			},
			"send": func(rt *rapid.T) {
				if err := s.Sync(); err != nil {
					rt.Fatal(err)
				}
				from := serviceLast + 1 - uint64(rapid.IntRange(0, min(3, int(serviceLast))).Draw(rt, "again"))
				for _, r := range s.Read(from, rapid.IntRange(1, 10).Draw(rt, "n"), 1<<30) {
					if old, ok := sent[r.GetSeq()]; ok && old != name(r) && name(r) != "-" && old != "-" {
						rt.Fatalf("number %d was %s and is %s", r.GetSeq(), old, name(r))
					}
					if want := written[r.GetSeq()]; name(r) != want && (want != "frame" || name(r) != "-") {
						rt.Fatalf("number %d holds %s, written was %s", r.GetSeq(), name(r), want)
					}
					sent[r.GetSeq()] = name(r)
					switch {
					case r.GetSeq() == serviceLast+1:
						serviceLast++
					case r.GetSeq() > serviceLast+1:
						rt.Fatalf("a hole: the service has %d, the spool sends %d", serviceLast, r.GetSeq())
					}
				}
			},
			"ack": func(rt *rapid.T) {
				if serviceLast > 0 {
					if err := s.Trim(uint64(rapid.IntRange(0, int(serviceLast)).Draw(rt, "seq"))); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"kill": func(rt *rapid.T) {
				_, synced := s.Bounds()
				if s.dirty { // the last append may be torn
					active := s.active()
					path, size, n := active.path, active.size, len(s.recs)
					var last record
					if n > 0 {
						last = s.recs[n-1]
					}
					kill(s)
					if n > 0 && last.seg == active && sent[synced] == "" && rapid.Bool().Draw(rt, "torn") {
						cut := rapid.Int64Range(1, last.size).Draw(rt, "cut")
						if err := os.Truncate(path, max(size-cut, 0)); err != nil {
							rt.Fatal(err)
						}
						delete(written, synced)
					}
				} else {
					kill(s)
				}
				s = mustOpen(t, dir, 1<<20)
				if _, last := s.Bounds(); last < serviceLast {
					rt.Fatalf("the service has %d, after the restart the spool ends at %d", serviceLast, last)
				}
				if err := s.Trim(serviceLast); err != nil { // HelloAck
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				if st := s.Stats(); st.Bytes > 1<<20+resultReserve {
					rt.Fatalf("the spool has %d bytes", st.Bytes)
				}
				first, last := s.Bounds()
				if first > serviceLast+1 || last < serviceLast {
					rt.Fatalf("pending is %d to %d, the service has %d", first, last, serviceLast)
				}
			},
		})
	})
}

func TestSpoolRenewNumbersFromOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, 8<<20)
	for i := range 5 {
		if _, err := s.Append(observation(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Trim(2); err != nil {
		t.Fatal(err)
	}
	old := s.Epoch()
	if err := s.Renew(start, func(*agentv1.Report) {}); err != nil {
		t.Fatal(err)
	}
	check := func(s *Spool) {
		t.Helper()
		got := s.Read(1, 10, 1<<20)
		if s.Epoch() != old+1 || len(got) != 3 || name(got[0]) != "2" || got[2].GetSeq() != 3 {
			t.Fatalf("epoch %d, reports %v", s.Epoch(), got)
		}
	}
	check(s)
	kill(s)
	s = mustOpen(t, dir, 8<<20)
	defer s.Close()
	check(s)
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Fatalf("left behind: %v", left)
	}
}
