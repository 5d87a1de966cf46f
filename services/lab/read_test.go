package lab

import (
	"math"
	"strings"
	"testing"
)

const (
	rateHead  = "model,client,offset_seconds,requests_per_second,arrival_cv,pattern,param1,param2\n"
	tokenHead = "model,client,offset_seconds,client_rps_in_that_10min_window,input_mean,input_p50,input_p90,input_p99,output_mean,output_p50,output_p90,output_p99\n"
)

func TestRatesAreReadOrRefusedWithTheRow(t *testing.T) {
	t.Parallel()
	good := "m,1,0,2.5,1.5,Gamma,0.4,1\nother,1,0,9,1,Gamma,1,1\nm,1,600,0,,,,\nm,1,1200,3,,Weibull,1,1\nm,0,0,1,1,Gamma,1,1\n"
	clients, err := ReadRates(strings.NewReader(rateHead+good), "m")
	if err != nil {
		t.Fatal(err)
	}
	if len(clients) != 2 || clients[0].ID != 0 || clients[1].ID != 1 || len(clients[1].Rates) != 2 || clients[1].Rates[0] != (RateWindow{0, 2.5, 1.5}) || clients[1].Rates[1].CV != 1 {
		t.Errorf("read %+v", clients)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"an empty file":         {"", "empty"},
		"another header":        {strings.Replace(rateHead, "arrival_cv", "cv", 1), `row 1: column 5 is "cv"; want "arrival_cv"`},
		"a column too few":      {rateHead + "m,1,0,1,1,Gamma,1\n", "row 2"},
		"a rate that is none":   {rateHead + "m,1,0,1,1,Gamma,1,1\nm,1,600,NaN,1,Gamma,1,1\n", `row 3: requests_per_second is "NaN"`},
		"a negative rate":       {rateHead + "m,1,0,-1,1,Gamma,1,1\n", `row 2: requests_per_second is "-1"`},
		"time runs back":        {rateHead + "m,1,600,1,1,Gamma,1,1\nm,1,0,1,1,Gamma,1,1\n", "row 3: offset 0 of client 1 after 600"},
		"between two windows":   {rateHead + "m,1,601,1,1,Gamma,1,1\n", "row 2: offset_seconds is 601; want a multiple of 600"},
		"an unknown pattern":    {rateHead + "m,1,0,1,1,Pareto,1,1\n", `row 2: arrival pattern "Pareto"`},
		"a client that is none": {rateHead + "m,x,0,1,1,Gamma,1,1\n", `row 2: client is "x"`},
		"cut off in a quote":    {rateHead + "m,\"1,0,1,1,Gamma,1,1\n", "row 2"},
	} {
		if _, err := ReadRates(strings.NewReader(tc.text), "m"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %q", name, err, tc.want)
		}
	}
}

func TestTokensAreReadOrRefusedWithTheRow(t *testing.T) {
	t.Parallel()
	clients := []Client{{ID: 1}}
	good := "m,1,0,2,100,50,200,900,10,5,20,90\nm,1,21600,0,,,,,,,,\nm,7,0,2,1,1,1,1,1,1,1,1\n"
	if err := ReadTokens(strings.NewReader(tokenHead+good), "m", clients); err != nil {
		t.Fatal(err)
	}
	if len(clients[0].Tokens) != 1 || clients[0].Tokens[0].Output.P99 != 90 {
		t.Errorf("read %+v", clients)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"negative tokens":     {"m,1,0,2,-100,50,200,900,10,5,20,90\n", `row 2: input_mean is "-100"`},
		"quantiles that fall": {"m,1,0,2,100,50,20,900,10,5,20,90\n", "row 2: input_p50 to input_p99 fall: 50, 20, 900"},
		"half a row of gaps":  {"m,1,0,2,100,50,200,900,,,,\n", `row 2: output_mean is ""`},
	} {
		if err := ReadTokens(strings.NewReader(tokenHead+tc.text), "m", []Client{{ID: 1}}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %q", name, err, tc.want)
		}
	}
}

func steadyClient(rate, cv float64, windows int) Client {
	c := Client{Tokens: []TokenWindow{{Rate: 1, Input: Spread{1000, 700, 2000, 5000}, Output: Spread{180, 120, 400, 900}}}}
	for i := range windows {
		c.Rates = append(c.Rates, RateWindow{Offset: i * rateWindow, Rate: rate, CV: cv})
	}
	return c
}

func TestDrawnLoadHasTheRateAndTheWorkOfItsSource(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		cv     float64
		keep   float64
		within float64
	}{
		{"evenly", 0.5, 1, 0.01}, {"at random", 1, 1, 0.01}, {"in bursts", 3, 1, 0.05}, {"thinned", 1, 0.1, 0.03}, {"bursts, thinned", 3, 0.1, 0.06},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := Source{Name: tc.name, Clients: []Client{steadyClient(20, tc.cv, 288)}, Keep: tc.keep, Seconds: 2 * 86400, Seed: 3, Replica: DefaultReplica()}
			tr, err := Draw(s)
			if err != nil {
				t.Fatal(err)
			}
			requests := 0.0
			for _, n := range tr.Requests {
				requests += n
			}
			rate, wantRate := requests/float64(s.Seconds), 20*tc.keep
			work, wantWork := tr.Mean(), wantRate*(1000.0/5000+180.0/900)
			if math.Abs(rate/wantRate-1) > tc.within || math.Abs(work/wantWork-1) > tc.within+0.01 {
				t.Errorf("%.3f requests per second and %.3f replicas; want %.3f and %.3f", rate, work, wantRate, wantWork)
			}
		})
	}
}

// Bursts spread the counts of a slot: index of dispersion near the square of the coefficient of variation, one for a Poisson stream.
func TestDrawnLoadIsAsBurstyAsItsSource(t *testing.T) {
	t.Parallel()
	for _, cv := range []float64{0.5, 1, 2, 4} {
		tr, err := Draw(Source{Name: "b", Clients: []Client{steadyClient(20, cv, 288)}, Keep: 1, Seconds: 2 * 86400, Seed: 5, Replica: DefaultReplica()})
		if err != nil {
			t.Fatal(err)
		}
		mean, square := 0.0, 0.0
		for _, n := range tr.Requests {
			mean += n / float64(tr.Slots())
			square += n * n / float64(tr.Slots())
		}
		if got := (square - mean*mean) / mean; math.Abs(got/(cv*cv)-1) > 0.25 {
			t.Errorf("coefficient of variation %v: counts have a dispersion of %.2f; want about %.2f", cv, got, cv*cv)
		}
	}
}

func TestWorkloadsWithoutDataAreRefused(t *testing.T) {
	t.Parallel()
	for _, w := range Workloads() {
		if _, err := w.Build(nil, 1); err == nil {
			t.Errorf("%s without clients: no error", w.Name)
		}
		if _, err := w.Build([]Client{{Rates: []RateWindow{{0, 1, 1}}}}, 1); err == nil {
			t.Errorf("%s without tokens: no error", w.Name)
		}
	}
}
