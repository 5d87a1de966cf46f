package availability

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

var places = []fleet.Offering{
	spot("us-east-1a", "p3.2xlarge"), spot("us-east-1b", "p3.2xlarge"), spot("us-east-1a", "g5.xlarge"), spot("us-west-2a", "p3.2xlarge"),
	{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "p3.2xlarge", Purchase: fleet.PurchaseOnDemand},
}

// story draws events in the order of time, many of them at the same instant.
func story(r *rapid.T) []Event {
	n := rapid.IntRange(0, 60).Draw(r, "events")
	clock, out := 0.0, []Event(nil)
	for range n {
		clock += rapid.SampledFrom([]float64{0, 0, 0.5, 3, 20, 90, 600, 5000}).Draw(r, "wait")
		e := ev(clock, rapid.SampledFrom(places).Draw(r, "place"),
			rapid.SampledFrom([]Kind{KindHad, KindRunning, KindExhausted, KindNotice, KindLost, KindPrice}).Draw(r, "kind"))
		switch e.Kind {
		case KindPrice:
			e.Ratio = rapid.Float64Range(0.05, 5).Draw(r, "ratio")
		case KindNotice, KindLost:
			e.Machines, e.Of = rapid.IntRange(0, 4).Draw(r, "machines"), rapid.IntRange(0, 8).Draw(r, "of")
		}
		out = append(out, e)
	}
	return out
}

func end(events []Event) time.Time {
	if len(events) == 0 {
		return t0
	}
	return events[len(events)-1].At
}

func must(r *rapid.T, events ...Event) *Model {
	m := New(DefaultParams())
	if err := m.Observe(events...); err != nil {
		r.Fatal(err)
	}
	return m
}

func TestProbabilitiesAreProbabilities(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		events := story(r)
		m := must(r, events...)
		now := end(events).Add(time.Duration(rapid.Float64Range(0, 1e4).Draw(r, "later") * float64(time.Minute)))
		for _, o := range places {
			s := m.Score(o, now)
			for name, p := range map[string]float64{"now": s.AvailableNow, "hour": s.AvailableNextHour, "stock-out": s.StockOut, "survives": s.SurvivesNextHour, "prior": s.PriorShare} {
				if !(p >= 0 && p <= 1) {
					r.Fatalf("%s is %v for %v", name, p, o)
				}
			}
			if s.AvailableNextHour < s.AvailableNow-1e-12 || !(s.Hazard >= 0) || math.IsInf(s.Hazard, 0) {
				r.Fatalf("hour %v, now %v, hazard %v", s.AvailableNextHour, s.AvailableNow, s.Hazard)
			}
			if s.BackoffUntil.Sub(now) > lastBackoff+lastBackoff {
				r.Fatalf("back-off of %v", s.BackoffUntil.Sub(now))
			}
		}
		w := m.ExpectedWait(places, now)
		if w.Expected < 0 || w.Expected > ladderLimit || !(w.WithinHour >= 0 && w.WithinHour <= 1) || !(w.First >= 0 && w.First <= 1) {
			r.Fatalf("wait %+v", w)
		}
	})
}

func TestOrderWithinABatchDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		events := story(r)
		if diff := cmp.Diff(must(r, events...).State(), must(r, rapid.Permutation(events).Draw(r, "order")...).State()); diff != "" {
			r.Fatalf("states differ: %s", diff)
		}
	})
}

func TestOneByOneIsAllAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		events := story(r)
		slices.SortStableFunc(events, compareEvents)
		whole, single := must(r, events...), New(DefaultParams())
		for i, e := range events {
			if err := single.Observe(e); err != nil {
				r.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(r, "restart") == 0 { // a worker may load and save the model between any two events
				back, err := Restore(DefaultParams(), single.State())
				if err != nil {
					r.Fatalf("after event %d: %v", i, err)
				}
				single = back
			}
		}
		if diff := cmp.Diff(whole.State(), single.State()); diff != "" {
			r.Fatalf("states differ: %s", diff)
		}
	})
}

func TestBadNewsNeverRaisesAndGoodNewsNeverLowers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		events := story(r)
		o := rapid.SampledFrom(places).Draw(r, "subject")
		now := end(events).Add(time.Duration(rapid.IntRange(1, 600).Draw(r, "later")) * time.Minute)
		score := func(k Kind) Score {
			return must(r, append(slices.Clone(events), Event{At: now, Offering: o, Kind: k})...).Score(o, now)
		}
		none := must(r, events...).Score(o, now)
		for _, k := range []Kind{KindExhausted, KindNotice, KindLost} {
			if s := score(k); s.AvailableNow > none.AvailableNow+1e-9 {
				r.Fatalf("%s raised available now from %v to %v", k, none.AvailableNow, s.AvailableNow)
			}
		}
		if s := score(KindHad); s.AvailableNow < none.AvailableNow-1e-9 {
			r.Fatalf("success lowered available now from %v to %v", none.AvailableNow, s.AvailableNow)
		}
		// A loss also tells that a machine lived until now, so it is held against the news that it still does.
		if lost, notice, runs := score(KindLost), score(KindNotice), score(KindRunning); lost.SurvivesNextHour > runs.SurvivesNextHour+1e-9 || notice.SurvivesNextHour != lost.SurvivesNextHour {
			r.Fatalf("survives: runs %v, lost %v, notice %v", runs.SurvivesNextHour, lost.SurvivesNextHour, notice.SurvivesNextHour)
		}
	})
}

func TestMoreHoursWithoutALossNeverRaiseTheHazard(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := must(r, ev(0, here, KindHad))
		clock, last := 0.0, math.Inf(1)
		for range rapid.IntRange(2, 20).Draw(r, "looks") {
			clock += rapid.Float64Range(1, 120).Draw(r, "wait")
			if err := m.Observe(ev(clock, here, KindRunning)); err != nil {
				r.Fatal(err)
			}
			s := m.Score(here, at(clock))
			if s.Hazard > last+1e-9 {
				r.Fatalf("hazard rose from %v to %v at %v min", last, s.Hazard, clock)
			}
			last = s.Hazard
		}
	})
}

func TestEverythingIsForgotten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		events := story(r)
		for i := range events {
			if events[i].Kind == KindPrice {
				events[i].Ratio = 0.3
			}
		}
		m, empty := must(r, events...), New(DefaultParams())
		now := end(events).AddDate(1, 0, 0)
		for _, o := range places {
			got, want := m.Score(o, now), empty.Score(o, now)
			if math.Abs(got.AvailableNow-want.AvailableNow) > 0.02 || math.Abs(got.SurvivesNextHour-want.SurvivesNextHour) > 0.02 || math.Abs(got.PriorShare-1) > 1e-3 {
				r.Fatalf("a year later %v is %v, prior %v", o, got, want)
			}
		}
	})
}
