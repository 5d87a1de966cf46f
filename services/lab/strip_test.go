package lab

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// A strip keeps what matters of a span: the demand's peaks, the means of the counts and every late request, in equal steps.
func TestStripsKeepPeaksMeansAndLateRequests(t *testing.T) {
	t.Parallel()
	l := plainLoad(builtin(t)[2])
	two, err := Named([]string{"plimsoll-cq", "hpa-70"})
	if err != nil {
		t.Fatal(err)
	}
	whole, zoom, err := Strips(l, two)
	if err != nil {
		t.Fatal(err)
	}
	slots := l.Trace.To - l.Trace.From
	bound, err := Bound(l.Trace, l.Config)
	if err != nil {
		t.Fatal(err)
	}
	most, held, ready := 0.0, 0.0, 0.0
	for i, v := range whole.Demand {
		most = max(most, v)
		n := float64(min(whole.Bucket, slots-i*whole.Bucket))
		held += n * whole.Bound[i] / SlotsPerHour
		ready += n * whole.Lines[1].Ready[i] / SlotsPerHour
	}
	if len(whole.Demand) > stripPoints || most != l.Trace.Peak() {
		t.Errorf("%d steps with a peak of %v; want at most %d and %v", len(whole.Demand), most, stripPoints, l.Trace.Peak())
	}
	if held > bound || held < 0.8*bound {
		t.Errorf("the bound's schedule runs %v replica-hours; with its starts it costs %v", held, bound)
	}
	for k, p := range two {
		s := Run(l.Trace, l.Config, p.New(l.Trace, l.Config))
		late := 0.0
		for _, v := range whole.Lines[k].Late {
			late += v
		}
		if math.Abs(late-s.Late) > 1e-6 {
			t.Errorf("%s: %v late on the strip, %v in its score", p.Name, late, s.Late)
		}
		if k == 1 && (ready > s.Paid || ready < 0.9*s.Paid) {
			t.Errorf("%s has %v replica-hours ready and pays %v", p.Name, ready, s.Paid)
		}
	}
	if zoom.Bucket > 5 || zoom.From%SlotsPerHour != 0 || len(zoom.Demand) != len(zoom.Lines[0].Wanted) {
		t.Errorf("the closer strip: from slot %d in steps of %d, %d and %d of them", zoom.From, zoom.Bucket, len(zoom.Demand), len(zoom.Lines[0].Wanted))
	}
	if _, _, err := Strips(l, nil); err == nil {
		t.Error("no policies: no error")
	}
}

// The page has both charts of every workload, names what is drawn, loads nothing, and is the same twice to the byte; a load that nobody can serve has no bound.
func TestThePageDrawsDemandCountsAndBoundOverTime(t *testing.T) {
	t.Parallel()
	small := plainLoad(flat("small", []float64{1, 4, 4, 4, 1, 1}))
	small.Config.Max = 2
	page := func() string {
		r := Report{Ours: "plimsoll-cq", Against: "keda-inflight-85", Span: "test", Seed: 1}
		two, err := Named([]string{"plimsoll-cq", "naive"})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []Load{plainLoad(builtin(t)[0]), small} {
			if err := r.Board.AddLoad(l, two); err != nil {
				t.Fatal(err)
			}
			if err := r.Add(l); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if err := r.WriteHTML(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first := page()
	if first != page() {
		t.Error("two pages of the same scores differ")
	}
	for text, n := range map[string]int{
		"Demand, replicas wanted and ready, and the bound over time on steady": 2, "Demand, replicas wanted and ready, and the bound over time on small": 2,
		"The hardest six hours: ": 2, "plimsoll-cq, wanted": 8, "keda-inflight-85, ready": 8, "bound: a cheapest schedule": 4, "keda-inflight-85 late": 8,
	} {
		if got := strings.Count(first, text); got != n {
			t.Errorf("%q is on the page %d times; want %d", text, got, n)
		}
	}
	for _, w := range []string{"NaN", "Inf", "http://", "https://", "<script", "<link", "<img", "ZgotmplZ"} {
		if strings.Contains(first, w) {
			t.Errorf("%q is on the page", w)
		}
	}
	r := Report{Ours: "plimsoll-cq", Against: "magic"}
	if err := r.Add(small); err == nil || !strings.Contains(err.Error(), `"magic"`) {
		t.Errorf("a policy that is not there: %v", err)
	}
}
