package backtest

import (
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
)

var head = strings.Join(header, ",") + "\n"

// generated is a trace of a seed: zones that differ, states that last the longer the longer they have, and hours that are bad for a
// whole region.
func generated(seed uint64, days int) string {
	r := rand.New(rand.NewPCG(seed, 7))
	const gap = 300
	looks := days * 86400 / gap
	bad := map[string][]bool{}
	for _, region := range []string{"us-east-1", "us-west-2"} {
		b := make([]bool, looks)
		for i := 0; i < looks; {
			calm, storm := int(r.ExpFloat64()*30*3600/gap), int(r.ExpFloat64()*2*3600/gap)
			for j := i + calm; j < min(i+calm+storm, looks); j++ {
				b[j] = true
			}
			i += calm + storm + 1
		}
		bad[region] = b
	}
	var out strings.Builder
	out.WriteString(head)
	for z, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c", "us-west-2a", "us-west-2b"} {
		region := zone[:len(zone)-1]
		there, age, from, value := true, 0.0, 0, 1
		for k := range looks {
			rate := 0.15 * float64(1+z) / math.Sqrt(age+0.1) // per hour
			if !there {
				rate = 0.5 / math.Sqrt(age+0.1)
			}
			if storm := bad[region][k]; storm && there {
				rate *= 8
			} else if storm {
				rate /= 4
			}
			age += gap / 3600.0
			now := value
			if r.Float64() < 1-math.Exp(-rate*gap/3600.0) {
				there, age = !there, 0
				now = 1 - value
			}
			if now != value {
				if k > from {
					fmt.Fprintf(&out, "availability,1-node,aws,2024-01-01,%s,v100_1,%d,%d,%d,%d\n", zone, gap, from*gap, (k-from)*gap, value)
				}
				from, value = k, now
			}
		}
		fmt.Fprintf(&out, "availability,1-node,aws,2024-01-01,%s,v100_1,%d,%d,%d,%d\n", zone, gap, from*gap, (looks-from)*gap, value)
	}
	return out.String()
}

func mustRead(t *testing.T, text string) *Trace {
	t.Helper()
	trace, err := ReadTrace(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func mustRun(t *testing.T, trace *Trace, o Options) Report {
	t.Helper()
	r, err := Run(trace, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheModelBeatsWhatCostsNothingOnAGeneratedTrace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		trace := mustRead(t, generated(seed, 30))
		r := mustRun(t, trace, Options{Params: availability.DefaultParams(), Fit: trace.FirstHalf()})
		if !r.Beats {
			t.Errorf("seed %d: %+v", seed, r.All)
		}
		for _, x := range r.All {
			if x.Target == TargetSurvives && x.Calibration > 0.06 {
				t.Errorf("seed %d: calibration error of %s is %.3f: %+v", seed, x.Target, x.Calibration, x.Reliability)
			}
		}
	}
}

func TestTheModelLearnsMoreThanTheMemorylessOne(t *testing.T) {
	t.Parallel()
	trace := mustRead(t, generated(11, 30))
	plain := availability.DefaultParams()
	plain.LossFade, plain.ReturnFade, plain.RegionLoss, plain.RegionReturn = 0, 0, 0, 0
	score := func(p availability.Params) float64 {
		for _, x := range mustRun(t, trace, Options{Params: p, Fit: trace.FirstHalf()}).All {
			if x.Target == TargetSurvives {
				return x.Of(ByModel)
			}
		}
		return math.NaN()
	}
	if full, memoryless := score(availability.DefaultParams()), score(plain); full >= memoryless {
		t.Errorf("Brier score of the model %.4f, without memory %.4f", full, memoryless)
	}
}

func TestNoForecastKnowsTheFuture(t *testing.T) {
	t.Parallel()
	full := mustRead(t, generated(5, 8))
	cutAt := full.campaigns[0].start.AddDate(0, 0, 4)
	o := Options{Params: availability.DefaultParams()}
	short, long := run(full.until(cutAt), o), run(full, o)
	if len(short) < 500 || len(long) <= len(short) {
		t.Fatalf("%d and %d samples", len(short), len(long))
	}
	// What was asked before the cut has the same answers, whatever came after.
	i := 0
	for _, s := range long {
		if i < len(short) && s == short[i] {
			i++
		}
	}
	if i != len(short) {
		t.Errorf("sample %d of %d changed with the future: %+v", i, len(short), short[i])
	}
}

func TestASteadyOfferingIsForetold(t *testing.T) {
	t.Parallel()
	row := func(zone string, value int) string {
		return fmt.Sprintf("availability,1-node,aws,2024-01-01,%s,v100_1,300,0,%d,%d\n", zone, 20*86400, value)
	}
	r := mustRun(t, mustRead(t, head+row("us-east-1a", 1)+row("us-east-1b", 0)), Options{Params: availability.DefaultParams()})
	for _, x := range r.All {
		if x.Of(ByModel) > 0.01 {
			t.Errorf("%s: Brier score %.4f", x.Target, x.Of(ByModel))
		}
	}
}

func TestFleets(t *testing.T) {
	t.Parallel()
	row := func(from, hours, value int) string {
		return fmt.Sprintf("preemption,4-node,aws,2024-01-01,us-east-1a,v100_1,60,%d,%d,%d\n", from*3600, hours*3600, value)
	}
	trace := mustRead(t, head+row(0, 10, 4)+row(10, 10, 3)+row(20, 10, 4)+row(30, 5, 0)+row(35, 10, 4))
	s := trace.campaigns[0].series[0]
	for _, c := range []struct {
		minute int
		there  bool
	}{{0, true}, {599, true}, {600, false}, {1199, false}, {1200, true}, {1800, false}, {2100, true}} {
		if got := s.there(c.minute); got != c.there {
			t.Errorf("minute %d: there %v, want %v", c.minute, got, c.there)
		}
	}
	if _, least, ok := s.ahead(599); !ok || least != 3 {
		t.Errorf("of four machines %v stay over the loss of one", least)
	}
	for _, x := range run(trace, Options{Params: availability.DefaultParams()}) {
		if x.target == TargetSurvives && (x.truth < 0 || x.truth > 1) {
			t.Fatalf("truth %v", x.truth)
		}
	}
}

func TestBadRowsAreNamedAndLeftOut(t *testing.T) {
	t.Parallel()
	good := "availability,1-node,aws,2024-01-01,us-east-1a,v100_1,300,0,86400,1\n"
	for _, c := range []struct{ name, row, reason string }{
		{"kind", "maybe,1-node,aws,2024-01-01,us-east-1a,v100_1,300,86400,300,1", `unknown kind "maybe"`},
		{"day", "availability,1-node,aws,today,us-east-1a,v100_1,300,86400,300,1", "is not a day"},
		{"number", "availability,1-node,aws,2024-01-01,us-east-1a,v100_1,300,86400,soon,1", `duration_seconds "soon" is not a count`},
		{"negative", "availability,1-node,aws,2024-01-01,us-east-1a,v100_1,300,86400,300,-1", "is not a count"},
		{"no gap", "availability,1-node,aws,2024-01-01,us-east-1a,v100_1,0,86400,300,1", "gap_seconds"},
		{"off the grid", "availability,1-node,aws,2024-01-01,us-east-1a,v100_1,300,86401,300,1", "multiples"},
		{"overlap", "availability,1-node,aws,2024-01-01,us-east-1a,v100_1,300,300,300,1", "overlaps"},
		{"short", "availability,1-node", "2 fields, want 10"},
		{"no zone", "availability,1-node,aws,2024-01-01,,v100_1,300,0,300,1", "empty"},
		{"quotes", `availability,"1-node`, "quote"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			trace := mustRead(t, head+good+c.row+"\n")
			if trace.BadCount != 1 || trace.Bad[0].Row != 3 || !strings.Contains(trace.Bad[0].Reason, c.reason) {
				t.Errorf("bad rows %+v, want row 3 for %q", trace.Bad, c.reason)
			}
			clean := mustRead(t, head+good)
			if diff := cmp.Diff(mustRun(t, clean, Options{Params: availability.DefaultParams()}).All, mustRun(t, trace, Options{Params: availability.DefaultParams()}).All); diff != "" {
				t.Errorf("the bad row changed the figures: %s", diff)
			}
		})
	}
	for name, text := range map[string]string{"empty": "", "another table": "a,b,c\n1,2,3\n", "header only": head,
		"too many looks": head + "availability,1-node,aws,2024-01-01,us-east-1a,v100_1,1,0,2000000000,1\n"} {
		if _, err := ReadTrace(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestGapsAreNotGuessed(t *testing.T) {
	t.Parallel()
	trace := mustRead(t, head+"availability,1-node,aws,2024-01-01,us-east-1a,v100_1,300,0,7200,1\navailability,1-node,aws,2024-01-01,us-east-1a,v100_1,300,10800,7200,1\n")
	s := trace.campaigns[0].series[0]
	if _, _, ok := s.ahead(20); ok {
		t.Error("an hour with a hole in it was scored")
	}
	if _, _, ok := s.ahead(36); !ok {
		t.Error("an hour after the hole was not scored")
	}
}

func TestOnPublicTraces(t *testing.T) {
	t.Parallel()
	const path = "../../../../shared/data/availability/skypilot_spot_traces_rle.csv.gz"
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("the public traces are not here (%v); the generated ones are", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := ReadTrace(z)
	if err != nil {
		t.Fatal(err)
	}
	fit := fleet.Interval{From: time.Date(2023, 2, 15, 0, 0, 0, 0, time.UTC), To: time.Date(2023, 3, 9, 17, 55, 0, 0, time.UTC)}
	r := mustRun(t, trace, Options{Params: availability.DefaultParams(), Fit: fit})
	if !r.Beats || r.BadCount != 0 {
		t.Errorf("beats %v, bad rows %d, figures %+v", r.Beats, r.BadCount, r.All)
	}
	for _, x := range r.All { // the figures of docs/availability.md
		best := math.Inf(1)
		for _, s := range x.Scores {
			t.Logf("%-9s n %d, %-18s Brier %.4f, log %.4f", x.Target, x.N, s.Forecaster, s.Score, s.Log)
			if s.Forecaster == ByEWMA || s.Forecaster == BySlowEWMA {
				best = min(best, s.Log)
			}
		}
		if x.Target != TargetAttempt && x.Scores[0].Log >= best { // of the next look a plain hazard says as much
			t.Errorf("%s: the model's log score is %.4f, that of a plain hazard %.4f", x.Target, x.Scores[0].Log, best)
		}
	}
}

func TestAPlainHazardForgetsAndIsNeverCertain(t *testing.T) {
	t.Parallel()
	e := newEWMA(6)
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 48 { // there, gone and there again by the hour
		at = at.Add(30 * time.Minute)
		e.look(at, e.at.IsZero() || !e.there)
	}
	restless := e.survives(1)
	for range 96 {
		at = at.Add(30 * time.Minute)
		e.look(at, true)
	}
	if calm := e.survives(1); restless > 0.4 || calm < 0.8 || calm >= 1 {
		t.Errorf("survives %.3f after a restless day, %.3f after two calm ones", restless, calm)
	}
}
