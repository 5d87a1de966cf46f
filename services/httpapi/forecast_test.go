package httpapi_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/optimizer/quantile"
	"plimsoll.dev/services/store"
)

const sloDocument = "mode: enforce\nmin: 1\nmax: 20\nslo: {class: gold, requests_per_replica: 10}\n"

func TestAForecastShowsItsBandAndWhatAnAutoscalerWouldHaveCost(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	llm, plain := y.workload("chat", "llm", "red"), y.workload("chat", "api", "red")
	y.policy(llm, sloDocument)
	y.policy(plain, yardPolicy)
	get := func(id fleet.WorkloadID, query string) httpapi.WorkloadForecast {
		var f httpapi.WorkloadForecast
		y.with(y.viewer, "GET", "/api/v1/workloads/"+string(id)+"/forecast"+query, nil).want(t, 200).into(t, &f)
		return f
	}
	if f := get(plain, ""); f.Status != "none" || len(f.Band) != 0 {
		t.Errorf("without an slo rule: %+v", f)
	}
	if f := get(llm, ""); f.Status != "waiting" || f.Objective != 0.01 || f.Now != nil {
		t.Errorf("before anything was learned: %+v", f)
	}

	learner := quantile.New(quantile.Params{Late: 0.009})
	learner.Begin(y.now.Unix()/15 - 2*5760)
	for i := range 2 * 5760 {
		learner.Step(quantile.Gauges{Busy: 6 + 3*math.Sin(2*math.Pi*float64(i)/5760) + float64(i%7)/10, Rate: 20})
	}
	keep := func(state []byte) {
		y.tx(func(ctx context.Context, tx *store.Tx) error {
			return store.SaveLearned(ctx, tx, []store.Learned{{Workload: llm, Began: optimizer.BeganNew, BeganAt: y.now.Add(-48 * time.Hour), Slot: learner.Next(), State: state}})
		})
	}
	keep(learner.Encode())
	f := get(llm, "")
	if f.Status != "ready" || f.At == nil || !f.At.Equal(y.now) || f.LeadSeconds != 195 || f.Hours != 48 || f.Began != "new" || math.Abs(f.Aim-0.009) > 1e-12 {
		t.Errorf("forecast %+v", f)
	}
	if f.Now == nil || f.Now.Upper < f.Now.Middle || f.Now.Need < int(f.Now.Middle) || f.InCharge == nil || f.InCharge.Expected > f.Aim {
		t.Errorf("now %+v, in charge %+v", f.Now, f.InCharge)
	}
	if f.Own == nil || f.HPA == nil || !(f.Own.MeanReplicas < f.HPA.MeanReplicas) || f.HPA.MeanReplicas > 12 {
		t.Errorf("own %+v, autoscaler %+v; want the own to be cheaper on a calm day", f.Own, f.HPA)
	}
	if n := len(f.Band); n < 280 || n > 290 {
		t.Fatalf("%d points in a day", n)
	}
	last, over := f.Band[len(f.Band)-1], 0
	if last.Demand != nil || last.Upper == nil || !last.At.After(*f.At) {
		t.Errorf("the last point does not lie ahead: %+v", last)
	}
	for _, p := range f.Band[:len(f.Band)-1] {
		if p.Demand == nil || p.Upper == nil || p.Middle == nil || *p.Upper < *p.Middle {
			t.Fatalf("point %+v", p)
		}
		if *p.Demand > *p.Upper {
			over++
		}
	}
	if over > len(f.Band)/4 {
		t.Errorf("the demand was over the band at %d of %d points", over, len(f.Band))
	}
	if hour := get(llm, "?to="+y.now.Add(-time.Hour).Format(time.RFC3339)+"&from="+y.now.Add(-2*time.Hour).Format(time.RFC3339)); len(hour.Band) != 12 {
		t.Errorf("%d points in an hour", len(hour.Band))
	}
	y.with(y.viewer, "GET", "/api/v1/workloads/"+string(llm)+"/forecast?from=2027-05-21T00:00:00Z&to=2027-05-20T00:00:00Z", nil).want(t, 422)
	y.with(y.stranger, "GET", "/api/v1/workloads/"+string(llm)+"/forecast", nil).want(t, 404)

	keep([]byte(strings.Repeat("x", 400)))
	if f := get(llm, ""); f.Status != "waiting" || f.Now != nil {
		t.Errorf("with a damaged memory: %+v", f)
	}
}
