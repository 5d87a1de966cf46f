package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/agent/act"
	"plimsoll.dev/agent/collect"
	"plimsoll.dev/agent/uplink"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// reporter is an agent with nothing but a spool and a journal.
func reporter(t *testing.T, spoolBytes int64) (*agent, *act.Journal) {
	t.Helper()
	dir := t.TempDir()
	spool, err := uplink.OpenSpool(filepath.Join(dir, "spool"), spoolBytes, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = spool.Close() })
	journal, err := act.OpenJournal(filepath.Join(dir, "act.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	log := slog.New(slog.DiscardHandler)
	a := &agent{spool: spool, clock: &collect.Clock{}, log: log}
	a.actor = act.New(act.Config{Mode: "enforce"}, journal, nil, act.Env{NowMS: a.clock.NowMS}, log)
	return a, journal
}

// spooled are the results that wait for the service, and in how many reports.
func spooled(a *agent) (ids map[string]bool, reports int) {
	ids = map[string]bool{}
	first, _ := a.spool.Bounds()
	for _, r := range a.spool.Read(first, 1<<20, 1<<40) {
		if n := len(r.GetResults().GetResults()); n > 1000 {
			panic("more than the service takes")
		}
		for _, x := range r.GetResults().GetResults() {
			ids[x.GetPlanId()+" "+x.GetActionId()] = true
		}
		reports++
	}
	return ids, reports
}

func made(plan string, n, bytes int) []*agentv1.ActionResult {
	var out []*agentv1.ActionResult
	for i := range n {
		out = append(out, &agentv1.ActionResult{PlanId: plan, ActionId: fmt.Sprint("pool/", i), Outcome: "applied", AfterSpec: strings.Repeat("x", bytes)})
	}
	return out
}

func TestResultsThatAreTooManyForOneReportAreAllTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ n, bytes, reports int }{
		"one":                          {1, 10, 1},
		"more than the service takes":  {4096, 10, 9},
		"larger than a report may be":  {100, 100_000, 10},
		"one that is too large itself": {1, 5 << 20, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _ := reporter(t, 64<<20)
			if err := a.report(made("p", c.n, c.bytes)); err != nil {
				t.Fatal(err)
			}
			if ids, reports := spooled(a); len(ids) != c.n || reports != c.reports {
				t.Errorf("%d results in %d reports, want %d in %d", len(ids), reports, c.n, c.reports)
			}
		})
	}
}

func TestResultsWaitForRoomInTheSpool(t *testing.T) {
	t.Parallel()
	a, journal := reporter(t, 1<<16)
	if err := journal.Begin(&agentv1.Plan{PlanId: "late", Generation: 3}, 1); err != nil {
		t.Fatal(err)
	}
	for i := 0; a.tellResults(made(fmt.Sprint("fill", i), 1, 1<<20)) == nil; i++ { // an agent that cannot reach its service for long
		if i > 100 {
			t.Fatal("the spool takes everything")
		}
	}
	owed := a.answer(nil, made("late", 1, 1<<20))
	owed = a.answer(owed, made("later", 1, 1<<20))
	if len(owed) != 2 || len(journal.Unreported()) != 1 {
		t.Fatalf("%d owed, %d not reported", len(owed), len(journal.Unreported()))
	}
	_, last := a.spool.Bounds()
	if err := a.spool.Trim(last); err != nil { // the service is back
		t.Fatal(err)
	}
	owed = a.answer(owed, nil)
	if ids, _ := spooled(a); len(owed) != 0 || !ids["late pool/0"] || !ids["later pool/0"] || len(journal.Unreported()) != 0 {
		t.Errorf("%d owed, told %v, %d not reported", len(owed), ids, len(journal.Unreported()))
	}
}

// The end of a drain says nothing about the other answers to its plan, which may not be in the spool yet.
func TestTheEndOfADrainDoesNotSettleItsPlan(t *testing.T) {
	t.Parallel()
	a, journal := reporter(t, 1<<20)
	if err := journal.Begin(&agentv1.Plan{PlanId: "p", Generation: 1}, 1); err != nil {
		t.Fatal(err)
	}
	if err := a.tellResults(made("p", 1, 10)); err != nil {
		t.Fatal(err)
	}
	if len(journal.Unreported()) != 1 {
		t.Error("a plan counts as reported with the end of its drain")
	}
}

func TestWhatIsNoTextIsToldAsText(t *testing.T) {
	t.Parallel()
	a, _ := reporter(t, 1<<20)
	r := made("p", 2, 10)
	r[0].Error, r[0].Writers = "a\x00b\xff", []string{"k\xffubectl"}
	r[0].Checkpoints = []*agentv1.Checkpoint{{Detail: "\x00"}}
	if owed := a.answer(nil, r); len(owed) != 0 {
		t.Fatalf("%d owed", len(owed))
	}
	if err := a.tellEvents([]*agentv1.Event{{Kind: "drain", Message: "\xff\x00", Checkpoint: &agentv1.Checkpoint{Detail: "\xff"}}}); err != nil {
		t.Fatal(err)
	}
	first, _ := a.spool.Bounds()
	all := a.spool.Read(first, 10, 1<<20)
	if got := all[0].GetResults().GetResults()[0]; len(all) != 2 || got.GetError() != "ab\uFFFD" || got.GetWriters()[0] != "k\uFFFDubectl" || got.GetCheckpoints()[0].GetDetail() != "" {
		t.Errorf("told %v", all)
	}
}

func TestWhatAServicesAgentOwedIsLeftForItWhenAFileIsApplied(t *testing.T) {
	t.Parallel()
	for _, enrolled := range []bool{false, true} {
		state, err := uplink.OpenState(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if enrolled {
			if err := state.SaveIdentity(uplink.Identity{Token: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		owed := [][]*agentv1.ActionResult{made("p1", 2, 10), made("p2", 1, 10)}
		if err := leaveOwed(state, 1<<20, owed, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		spool, err := uplink.OpenSpool(state.Path("spool"), 1<<20, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if enrolled {
			want = 3
		}
		if ids, _ := spooled(&agent{spool: spool}); len(ids) != want {
			t.Errorf("enrolled %v: the spool has %v", enrolled, ids)
		}
		_ = spool.Close()
		_ = state.Close()
	}
}
