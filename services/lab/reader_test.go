package lab

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

const azureHead = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

func TestAzureTracesAreReadOrRefusedWithTheRow(t *testing.T) {
	t.Parallel()
	good := azureHead + "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n2023-11-16 18:18:03.9799600,110,0"
	requests, err := ReadAzureLLM(strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{{0, 4808, 10}, {52_000, 3180, 8}, {60 * micro, 110, 0}}
	if fmt.Sprint(requests) != fmt.Sprint(want) {
		t.Errorf("read %v; want %v", requests, want)
	}
	if later, err := ReadAzureLLM(strings.NewReader(azureHead + "2024-05-10 00:00:00.009930+00:00,10,1\n2024-05-10 00:00:01.009930+00:00,10,1\n")); err != nil || len(later) != 2 || later[1].At != micro {
		t.Errorf("the times of the 2024 traces: %v, %v", later, err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"an empty file":       {"", "the file is empty"},
		"no request":          {azureHead, "the trace holds no request"},
		"an unknown column":   {"TIMESTAMP,ContextTokens,GeneratedTokens,Model\n2023-11-16 18:17:03.9,1,1,x\n", "row 1"},
		"columns swapped":     {"TIMESTAMP,GeneratedTokens,ContextTokens\n", `row 1: column 2 is "GeneratedTokens"; want "ContextTokens"`},
		"not sorted":          {azureHead + "2023-11-16 18:17:04.0,1,1\n2023-11-16 18:17:03.0,1,1\n", "row 3: the time runs back by 1s"},
		"negative tokens":     {azureHead + "2023-11-16 18:17:04.0,1,1\n2023-11-16 18:17:05.0,-7,1\n", `row 3: ContextTokens is "-7"`},
		"tokens that are NaN": {azureHead + "2023-11-16 18:17:04.0,1,NaN\n", `row 2: GeneratedTokens is "NaN"`},
		"endless tokens":      {azureHead + "2023-11-16 18:17:04.0,99999999999,1\n", "row 2: ContextTokens"},
		"no time":             {azureHead + "noon,1,1\n", `row 2: TIMESTAMP is "noon"`},
		"cut off in a row":    {azureHead + "2023-11-16 18:17:04.0,1,1\n2023-11-16 18:17:05.0,1", "row 3"},
		"cut off in a quote":  {azureHead + "2023-11-16 18:17:04.0,\"1", "row 2"},
		"two years long":      {azureHead + "2021-11-16 18:17:04.0,1,1\n2023-11-16 18:17:05.0,1,1\n", "row 3: the trace is longer than 60 days"},
	} {
		if _, err := ReadAzureLLM(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %q", name, err, tc.want)
		}
	}
}

func TestMooncakeTracesAreReadOrRefusedWithTheRow(t *testing.T) {
	t.Parallel()
	table := "timestamp_ms,input_length,output_length,hash_blocks\n0,6755,500,14\n3000,7319,490,15\n"
	lines := `{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2]}` + "\n" + `{"timestamp": 3000, "input_length": 7319, "output_length": 490, "hash_ids": [0]}` + "\n"
	want := fmt.Sprint([]Request{{0, 6755, 500}, {3 * micro, 7319, 490}})
	for name, text := range map[string]string{"CSV": table, "JSON lines": lines} {
		if got, err := ReadMooncake(strings.NewReader(text)); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	for name, tc := range map[string]struct{ text, want string }{
		"not sorted":             {table + "2999,1,1,1\n", "row 4: the time runs back by 1ms"},
		"negative output":        {table + "4000,1,-1,1\n", `row 4: output_length is "-1"`},
		"a line cut off":         {lines + `{"timestamp": 4000, "input_le`, "row 3: unexpected EOF"},
		"a line with a new name": {lines + `{"timestamp": 4000, "input_length": 1, "output_length": 1, "priority": 1}`, `row 3: json: unknown field "priority"`},
		"a line without output":  {lines + `{"timestamp": 4000, "input_length": 1}`, "row 3: want timestamp, input_length and output_length"},
		"a negative line":        {lines + `{"timestamp": 4000, "input_length": -1, "output_length": 1}`, "row 3: timestamp 4000, input_length -1"},
		"lines not sorted":       {lines + `{"timestamp": 1, "input_length": 1, "output_length": 1}`, "row 3: the time runs back"},
		"NaN is no JSON":         {`{"timestamp": NaN, "input_length": 1, "output_length": 1}`, "row 1"},
	} {
		if _, err := ReadMooncake(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %q", name, err, tc.want)
		}
	}
}

func TestCountsAreReadOrRefusedWithTheRow(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"seconds":        "second,requests\n0,5\n60,0\n120,7.5\n",
		"minutes":        "minute_local_utc_minus_4,requests\n1995-07-01T00:00,5\n1995-07-01T00:01,0\n1995-07-01T00:02,7.5\n",
		"date and clock": "timestamp,value\n2014-04-10 00:04:00,5\n2014-04-10 00:05:00,0\n2014-04-10 00:06:00,7.5\n",
	} {
		c, err := ReadCounts(strings.NewReader(text))
		if err != nil || c.Step != 60 || fmt.Sprint(c.Values) != "[5 0 7.5]" || len(c.Gaps) != 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	c, err := ReadCounts(strings.NewReader("t,n\n0,5\n60,6\n240,7\n"))
	if err != nil || fmt.Sprint(c.Values) != "[5 6 6 6 7]" || len(c.Gaps) != 1 || c.Gaps[0] != (Gap{Row: 4, First: 2, Steps: 2}) {
		t.Errorf("two minutes without rows: %+v, %v", c, err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"one row":               {"t,n\n0,5\n", "1 rows of counts"},
		"no header":             {"0,5\n60,5\n", "row 1: the first row is"},
		"an unknown column":     {"t,n,m\n0,5,1\n60,5,1\n", "row 1"},
		"the same time again":   {"t,n\n0,5\n60,5\n60,5\n", "row 4: the same time again: a step of no length"},
		"no length at the head": {"t,n\n0,5\n0,5\n", "row 3: the step is 0 s"},
		"time runs back":        {"t,n\n0,5\n60,5\n30,5\n", "row 4: the time runs back by 30 s"},
		"between two steps":     {"t,n\n0,5\n60,5\n130,5\n", "row 4: 70 s after the row before"},
		"a step of a second":    {"t,n\n0,5\n1,5\n", "row 3: the step is 1 s"},
		"NaN":                   {"t,n\n0,5\n60,NaN\n", `row 3: n is "NaN"`},
		"below zero":            {"t,n\n0,5\n60,-1\n", `row 3: n is "-1"`},
		"a year":                {"t,n\n0,5\n60,5\n36000000,5\n", "row 4: more than"},
		"no time":               {"t,n\nmonday,5\n60,5\n", `row 2: t is "monday"`},
	} {
		if _, err := ReadCounts(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %q", name, err, tc.want)
		}
	}
}

// Whatever comes in, a reader answers with a load that can be replayed or with an error that people can read; never with both, never with a panic.
func FuzzReaders(f *testing.F) {
	for _, s := range []string{
		azureHead + "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n",
		"timestamp_ms,input_length,output_length,hash_blocks\n0,6755,500,14\n",
		`{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2]}`,
		"t,n\n0,5\n60,6\n240,7\n", "t,n\n1995-07-01T00:00,5\n1995-07-01T00:01,0\n",
		rateHead + "m,1,0,2.5,1.5,Gamma,0.4,1\n", tokenHead + "m,1,0,2,100,50,200,900,10,5,20,90\n",
		"name: x\nsource: {kind: azure-llm, file: y}\n",
	} {
		f.Add(s)
	}
	spread := SpreadSheet{900, 600, 2000, 5000}
	w := Workload{Name: "fuzz", Source: From{Kind: SourceCounts, Request: &RequestSheet{spread, spread}, Gaps: "hold"}, Scale: Scale{Requests: 0.5}}
	f.Fuzz(func(t *testing.T, text string) {
		readable := func(what string, err error) {
			var e *fleet.Error
			if err != nil && (!errors.As(err, &e) || e.Code == fleet.CodeInternal) {
				t.Errorf("%s: %v is no error for people", what, err)
			}
		}
		replayable := func(what string, tr *Trace, err error) {
			readable(what, err)
			if err == nil {
				readable(what, tr.Check())
				if e := tr.Check(); e != nil {
					t.Errorf("%s: a trace that cannot be replayed: %v", what, e)
				}
			}
		}
		for what, read := range map[string]func() ([]Request, error){
			"azure":    func() ([]Request, error) { return ReadAzureLLM(strings.NewReader(text)) },
			"mooncake": func() ([]Request, error) { return ReadMooncake(strings.NewReader(text)) },
		} {
			requests, err := read()
			readable(what, err)
			if err == nil && requests[len(requests)-1].At < 3600*micro {
				tr, err := w.BuildRequests(requests, 1)
				replayable(what, tr, err)
			}
		}
		c, err := ReadCounts(strings.NewReader(text))
		readable("counts", err)
		if err == nil && len(c.Values)*c.Step <= 86400 {
			tr, err := w.BuildCounts(c, 1)
			replayable("counts", tr, err)
		}
		clients, err := ReadRates(strings.NewReader(text), "m")
		readable("rates", err)
		readable("tokens", ReadTokens(strings.NewReader(text), "m", clients))
		_, err = ParseWorkload([]byte(text))
		readable("workload", err)
	})
}

func countsOf(name, more string) Workload {
	w, err := ParseWorkload([]byte("name: " + name + "\nsource:\n  kind: counts\n  file: f\n  request: {input: {mean: 1000, p50: 700, p90: 2000, p99: 5000}, output: {mean: 180, p50: 120, p90: 400, p99: 900}}\n" + more))
	if err != nil {
		panic(err)
	}
	return w
}

func TestCountsBecomeAsManyRequestsWithTheirWork(t *testing.T) {
	t.Parallel()
	c := Counts{Step: 60}
	for i := range 600 {
		c.Values = append(c.Values, float64(40+i%50))
	}
	w := countsOf("counted", "")
	tr, err := w.BuildCounts(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range c.Values {
		sum := 0.0
		for _, n := range tr.Requests[4*i : 4*i+4] {
			sum += n
		}
		if sum != v {
			t.Fatalf("minute %d has %v requests; %v were counted", i, sum, v)
		}
	}
	want := 64.5 / 60 * (1000.0/5000 + 180.0/900)
	if math.Abs(tr.Mean()/want-1) > 0.03 {
		t.Errorf("%.3f replicas on average; want %.3f", tr.Mean(), want)
	}
	for _, tc := range []struct{ more, what string }{{"scale: {replicas: 3}", "replicas"}, {"scale: {requests_per_second: 10}", "rate"}, {"scale: {factor: 0.5}", "factor"}} {
		w := countsOf("scaled", tc.more)
		got, err := w.BuildCounts(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		target := map[string]float64{"replicas": 3, "rate": 10 * 0.4, "factor": want / 2}[tc.what]
		if math.Abs(got.Mean()/target-1) > 0.05 {
			t.Errorf("%s: %.3f replicas on average; want %.3f", tc.more, got.Mean(), target)
		}
	}
}

func TestALoadThatIsNotAllThereIsRefused(t *testing.T) {
	t.Parallel()
	c := Counts{Step: 60, Values: make([]float64, 180), Gaps: []Gap{{Row: 91, First: 89, Steps: 3}}}
	for i := range c.Values {
		c.Values[i] = 60
	}
	short := []Request{{0, 100, 10}, {40 * micro, 100, 10}}
	for _, tc := range []struct {
		more, want string
		requests   bool
	}{
		{more: "", want: "3 steps of 60 s are missing before row 91: what came then is not known"},
		{more: "history_hours: 5", want: "nothing is left to judge", requests: true},
		{more: "", want: "", requests: true},
	} {
		w := countsOf("part", tc.more)
		var err error
		if tc.requests {
			_, err = w.BuildRequests(short, 1)
		} else {
			_, err = w.BuildCounts(c, 1)
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: error %v; want %q", tc.more, err, tc.want)
		}
	}
	held := countsOf("held", "")
	held.Source.Gaps = "hold"
	if _, err := held.BuildCounts(c, 1); err != nil {
		t.Errorf("a gap that may be held: %v", err)
	}
	early := countsOf("early", "")
	early.Source.Hours = 1
	if _, err := early.BuildCounts(c, 1); err != nil {
		t.Errorf("a gap after the end: %v", err)
	}
	early.Source.Hours = 9
	if _, err := early.BuildCounts(c, 1); err == nil || !strings.Contains(err.Error(), "the counts end after 3h0m0s: are they truncated?") {
		t.Errorf("nine hours of three: %v", err)
	}
	if _, err := early.BuildRequests(short, 1); err == nil || !strings.Contains(err.Error(), "are they truncated?") && !strings.Contains(err.Error(), "is it truncated?") {
		t.Errorf("nine hours of a minute: %v", err)
	}
}

func TestWorkloadsAreReadOrRefusedByField(t *testing.T) {
	t.Parallel()
	for _, n := range append(builtinNames, boardNames...) {
		if w := shipped()[n]; w.Name != n || w.Note == "" {
			t.Errorf("%s is named %q, note %q", n, w.Name, w.Note)
		}
	}
	base := "name: x\nsource: {kind: azure-llm, file: f}\n"
	for name, tc := range map[string]struct{ text, want string }{
		"an unknown field":         {base + "scail: {factor: 2}\n", `unknown field "scail"`},
		"no name":                  {"source: {kind: azure-llm, file: f}\n", "name is \"\""},
		"an unknown kind":          {"name: x\nsource: {kind: csv, file: f}\n", `source.kind is "csv"`},
		"no file":                  {"name: x\nsource: {kind: mooncake}\n", "source.file is missing"},
		"counts without tokens":    {"name: x\nsource: {kind: counts, file: f}\n", "source.request is missing"},
		"tokens that fall":         {"name: x\nsource: {kind: counts, file: f, request: {input: {mean: 1, p50: 9, p90: 2, p99: 3}, output: {mean: 1, p50: 1, p90: 1, p99: 1}}}\n", "source.request.input"},
		"requests of nothing":      {"name: x\nsource: {kind: counts, file: f, request: {input: {mean: 0, p50: 0, p90: 0, p99: 0}, output: {mean: 0, p50: 0, p90: 0, p99: 0}}}\n", "requests without tokens"},
		"two scales":               {base + "scale: {factor: 2, replicas: 3}\n", "scale: want at most one"},
		"a negative scale":         {base + "scale: {factor: -2}\n", "none below zero"},
		"all of it history":        {"name: x\nsource: {kind: azure-llm, file: f, hours: 2}\nhistory_hours: 2\n", "history_hours is 2 of 2"},
		"a start between slots":    {base + "replica: {start_seconds: 100}\n", "replica.start_seconds is 100"},
		"min over max":             {base + "replica: {min: 5, max: 3}\n", "min 5 and max 3"},
		"a batch under one":        {base + "replica: {output_tokens_per_second: 1}\n", "can serve nothing"},
		"a price in words":         {base + "replica: {price_per_hour: cheap}\n", "replica.price_per_hour"},
		"everybody may be late":    {base + "slo: {late_ratio: 1}\n", "slo: late_ratio 1"},
		"clients of requests":      {base + "clients: {at_most: 3}\n", "clients can be picked of servegen only"},
		"not YAML":                 {"name: [", "workload: "},
		"shapes without clients":   {"name: x\nsource: {kind: invented, hours: 24, shapes: {requests_per_second: 1, arrival_cv: 1}}\n", "source.shapes"},
		"servegen without a model": {"name: x\nsource: {kind: servegen, file: f, hours: 24}\n", "servegen needs source.model"},
		"another word for gaps":    {"name: x\nsource: {kind: azure-llm, file: f, gaps: zero}\n", `source.gaps is "zero"`},
		"too long":                 {base + strings.Repeat("# \n", 40_000), "want at most 65536"},
	} {
		if _, err := ParseWorkload([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %q", name, err, tc.want)
		}
	}
}

func TestThinningCannotMakeALoadLarger(t *testing.T) {
	t.Parallel()
	w := shipped()["largeS"]
	if _, err := w.Build([]Client{steadyClient(2, 1, 2016)}, 1); err == nil || !strings.Contains(err.Error(), "asks for 6 requests per second, the source has 2: its clients can only be thinned") {
		t.Errorf("six of two requests per second: %v", err)
	}
}

func some(v float64) *float64 { return &v }

func TestAHistoryBecomesALoad(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	rows := []PastRow{}
	for i := range 240 {
		rows = append(rows, PastRow{At: start.Add(time.Duration(i) * time.Minute), RequestRate: some(5), Queue: some(0), Running: some(72), TokensIn: some(5000), TokensOut: some(900)})
	}
	rows[100].Queue = some(60) // twelve seconds' worth came and was not begun; it is begun in the next minute
	rows[30] = PastRow{At: rows[30].At}
	p, err := FromPast("shop", rows, time.Minute, DefaultReplica(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tr := p.Trace
	if p.Unknown != 1 || p.Longest != 1 || p.Buckets != 240 || p.Basis != BasisTokens || tr.Slots() != 960 || tr.From != 240 {
		t.Errorf("%d of %d unknown, basis %s, %d slots from %d", p.Unknown, p.Buckets, p.Basis, tr.Slots(), tr.From)
	}
	if tr.Rho[0] != 2 || tr.Rho[30*4] != 2 || math.Abs(tr.Rho[100*4]-2.4) > 1e-3 || math.Abs(tr.Rho[101*4]-1.6) > 1e-3 || tr.Requests[0] != 75 {
		t.Errorf("demand %v, held %v, with a queue %v and after it %v; requests %v", tr.Rho[0], tr.Rho[120], tr.Rho[400], tr.Rho[404], tr.Requests[0])
	}
	for i := range rows {
		rows[i].TokensIn = nil
	}
	if p, err := FromPast("shop", rows, time.Minute, DefaultReplica(), 0); err != nil || p.Basis != BasisRequests || p.Trace.Rho[0] != 2 {
		t.Errorf("from running requests: %v", err)
	}
	for name, tc := range map[string]struct {
		change func(r []PastRow) []PastRow
		bucket time.Duration
		want   string
	}{
		"nobody says anything":   {func(r []PastRow) []PastRow { return []PastRow{{At: start}, {At: start.Add(5 * time.Hour)}} }, time.Minute, "the demand is not known"},
		"an hour of it":          {func(r []PastRow) []PastRow { return r[:60] }, time.Minute, "want two hours"},
		"a third of it is there": {func(r []PastRow) []PastRow { return append(append([]PastRow{}, r[:40]...), r[220:]...) }, time.Minute, "of its 240 buckets are not known"},
		"a bucket twice":         {func(r []PastRow) []PastRow { return append(r, r[7]) }, time.Minute, "want one row per 1m0s"},
		"NaN":                    {func(r []PastRow) []PastRow { r[9].Running = some(math.NaN()); return r }, time.Minute, "row 10 at 2026-03-02T00:09:00Z: running_requests is NaN"},
		"below zero":             {func(r []PastRow) []PastRow { r[9].Queue = some(-3); return r }, time.Minute, "queue_length is -3"},
		"buckets of no length":   {func(r []PastRow) []PastRow { return r }, 0, "buckets of 0s"},
		"no rows":                {func(r []PastRow) []PastRow { return nil }, time.Minute, "nothing to replay"},
	} {
		copied := append([]PastRow(nil), rows...)
		if _, err := FromPast("shop", tc.change(copied), tc.bucket, DefaultReplica(), 0); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %q", name, err, tc.want)
		}
	}
	if _, err := FromPast("shop", rows, time.Minute, DefaultReplica(), 9*time.Hour); err == nil || !strings.Contains(err.Error(), "nothing is left to judge") {
		t.Errorf("all of it history: %v", err)
	}
}

// However rows are mixed up, a history is the same load, or an error.
func TestAHistoryDoesNotDependOnTheOrderOfItsRows(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(r *rapid.T) {
		rows := []PastRow{}
		for i := range 130 {
			row := PastRow{At: start.Add(time.Duration(i) * time.Minute)}
			if i == 0 || rapid.IntRange(0, 20).Draw(r, "silent") > 0 {
				row.Running, row.RequestRate = some(rapid.Float64Range(0, 500).Draw(r, "running")), some(rapid.Float64Range(0, 50).Draw(r, "rate"))
			}
			rows = append(rows, row)
		}
		mixed := rapid.Permutation(rows).Draw(r, "order")
		a, errA := FromPast("x", rows, time.Minute, DefaultReplica(), 0)
		b, errB := FromPast("x", mixed, time.Minute, DefaultReplica(), 0)
		if (errA == nil) != (errB == nil) {
			r.Fatalf("%v in order, %v mixed", errA, errB)
		}
		if errA == nil && fmt.Sprint(a.Trace.Rho) != fmt.Sprint(b.Trace.Rho) {
			r.Fatal("another order, another load")
		}
	})
}
