package replay

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

const azureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

func TestRequestTraceIsBinned(t *testing.T) {
	t.Parallel()
	text := azureHeader + "2023-11-16 18:15:46.6805900,300,40\n2023-11-16 18:15:47.0000000,100,20\n2023-11-16 18:16:05.5000000,50,10\n"
	for name, doc := range map[string][]byte{"plain": []byte(text), "gzip": packed(t, text), "with CRLF": []byte(strings.ReplaceAll(text, "\n", "\r\n"))} {
		tr, err := ReadTrace(bytes.NewReader(doc), "x.csv", "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tr.Rows != 3 || tr.Seconds() != 20 || math.Abs(tr.MeanRate()-0.15) > 1e-12 {
			t.Errorf("%s: %d rows, %v s, %v/s", name, tr.Rows, tr.Seconds(), tr.MeanRate())
		}
		if l := tr.At(0); l != (Load{Rate: 0.4, TokensIn: 200, TokensOut: 30}) {
			t.Errorf("%s: first bin %+v", name, l)
		}
		if l := tr.At(5000); l != (Load{Rate: 0, TokensIn: 200, TokensOut: 30}) {
			t.Errorf("%s: empty bin %+v", name, l)
		}
		if l := tr.At(15_000); l != (Load{Rate: 0.2, TokensIn: 50, TokensOut: 10}) {
			t.Errorf("%s: last bin %+v", name, l)
		}
		if tr.At(20_000) != tr.At(0) || tr.At(1_000_000_000_000) != tr.At(0) {
			t.Errorf("%s: it does not repeat", name)
		}
	}
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRateTraceRunsFromStepToStep(t *testing.T) {
	t.Parallel()
	text := "model,offset_seconds,requests_per_second,active_clients\nb,0,1,9\na,0,10,3\na,600,20,3\nb,600,1,9\na,1200,0,3\n"
	tr, err := ReadTrace(strings.NewReader(text), "x.csv", "")
	if err != nil {
		t.Fatal(err)
	}
	if tr.Name != "a" || tr.Rows != 3 || tr.Seconds() != 1800 || tr.Requests != 18_000 {
		t.Errorf("the longest series: %q, %d rows, %v s, %v requests", tr.Name, tr.Rows, tr.Seconds(), tr.Requests)
	}
	for ms, want := range map[int64]float64{0: 10, 300_000: 15, 600_000: 20, 900_000: 10, 1_200_000: 0, 1_500_000: 5, 1_800_000: 10} {
		if got := tr.At(ms).Rate; math.Abs(got-want) > 1e-9 {
			t.Errorf("at %d s: %.3f, want %.3f", ms/1000, got, want)
		}
	}
	if got := tr.ScaledTo(5).At(600_000).Rate; math.Abs(got-5) > 1e-9 {
		t.Errorf("scaled to a peak of 5 it is %.3f there", got)
	}
	if b, err := ReadTrace(strings.NewReader(text), "x.csv", "b"); err != nil || b.At(0).Rate != 1 {
		t.Errorf("series b: %v", err)
	}
	own, err := ReadTrace(strings.NewReader("offset_seconds,requests_per_second,tokens_in,tokens_out\n0,1,700,90\n60,2,800,70\n"), "x.csv", "")
	if err != nil {
		t.Fatal(err)
	}
	if l := own.At(60_000); l != (Load{Rate: 2, TokensIn: 800, TokensOut: 70}) {
		t.Errorf("own format: %+v", l)
	}
}

func TestBadTracesSayWhereAndWhy(t *testing.T) {
	t.Parallel()
	rates := "model,offset_seconds,requests_per_second,active_clients\n"
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                   {"", "the file is empty"},
		"only a header":             {azureHeader, "no request"},
		"only a header of rates":    {rates, "no rate"},
		"unknown columns":           {"time,tokens\n1,2\n", `row 1: unknown columns "time,tokens"`},
		"a column too many":         {"TIMESTAMP,ContextTokens,GeneratedTokens,User\n", "unknown columns"},
		"a row with too few fields": {azureHeader + "2023-11-16 18:15:46.68,1\n", "row 2: wrong number of fields"},
		"a time that is none":       {azureHeader + "2023-11-16 18:15:46.68,1,1\nyesterday,1,1\n", `row 3: TIMESTAMP "yesterday"`},
		"time goes back":            {azureHeader + "2023-11-16 18:15:46.68,1,1\n2023-11-16 18:15:40.00,1,1\n", "row 3: TIMESTAMP"},
		"negative tokens":           {azureHeader + "2023-11-16 18:15:46.68,-1,1\n", "row 2: ContextTokens \"-1\" is negative"},
		"NaN tokens":                {azureHeader + "2023-11-16 18:15:46.68,1,NaN\n", "row 2: GeneratedTokens \"NaN\" is not finite"},
		"infinite tokens":           {azureHeader + "2023-11-16 18:15:46.68,+Inf,1\n", "is not finite"},
		"tokens in words":           {azureHeader + "2023-11-16 18:15:46.68,many,1\n", "is not a number"},
		"far too long":              {azureHeader + "2023-11-16 18:15:46.68,1,1\n2024-11-16 18:15:46.68,1,1\n", "row 3: the trace is longer"},
		"NaN rate":                  {rates + "a,0,NaN,1\n", "row 2: requests_per_second \"NaN\" is not finite"},
		"negative rate":             {rates + "a,0,1,1\na,600,-2,1\n", "row 3: requests_per_second \"-2\" is negative"},
		"negative offset":           {rates + "a,-600,1,1\n", "row 2: offset_seconds"},
		"offsets go back":           {rates + "a,600,1,1\na,0,1,1\n", "row 3: offset_seconds 0 does not grow"},
		"the same offset twice":     {rates + "a,0,1,1\na,0,1,1\n", "does not grow"},
		"a hole":                    {rates + "a,0,1,1\na,600,1,1\na,1800,1,1\n", "row 4: offset_seconds 1800 is 1200 s after"},
		"steps of a second":         {rates + "a,0,1,1\na,1,1,1\n", "between 5 s and a day"},
		"a series of one row":       {rates + "a,0,1,1\n", "two or more"},
		"clients in words":          {rates + "a,0,1,x\n", "active_clients"},
		"an open quote":             {azureHeader + "\"2023-11-16,1,1\n", "row 2"},
		"gzip that breaks off":      {string(packed(t, azureHeader+strings.Repeat("2023-11-16 18:15:46.68,1,1\n", 5000))[:60]), "unexpected EOF"},
		"gzip that is none":         {"\x1f\x8bhello", "unpack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadTrace(strings.NewReader(tc.text), "my.csv", "")
			if codeOf(err) != fleet.CodeInvalid || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "trace my.csv: ") {
				t.Errorf("got %v (%s), want %q", err, codeOf(err), tc.want)
			}
		})
	}
	if _, err := ReadTrace(strings.NewReader(rates+"a,0,1,1\na,600,1,1\n"), "my.csv", "z"); codeOf(err) != fleet.CodeNotFound || !strings.Contains(err.Error(), "there are a") {
		t.Errorf("unknown series: %v", err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(azureHeader + "2023-11-16 18:15:46.68,1,1\n"))
	f.Add([]byte("model,offset_seconds,requests_per_second\na,0,1\na,600,2\n"))
	f.Add([]byte("offset_seconds,requests_per_second,tokens_in,tokens_out\n0,1,700,90\n60,2,800,70\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		tr, err := ReadTrace(bytes.NewReader(doc), "f", "")
		if err != nil {
			return
		}
		for ms := int64(0); ms < 3_600_000; ms += 61_000 {
			if l := tr.At(ms); !positive(l.Rate, l.TokensIn, l.TokensOut) {
				t.Fatalf("at %d: %+v", ms, l)
			}
		}
	})
}

var update = flag.Bool("update", false, "write the sample trace anew")

// The sample is made, not recorded: a working day of our own generator in steps of ten minutes. go test ./replay -run Sample -update writes it.
func TestShippedSampleIsWhatTheGeneratorMakes(t *testing.T) {
	t.Parallel()
	day := Cycle{Seed: 42, Stream: 1, Low: 1, High: 9, PeakHour: 15, Sharpness: 1.3, Noise: 0.1, BurstsPerDay: 5, BurstHeight: 0.5, BurstSeconds: 1200,
		TokensIn: 1100, TokensOut: 180, TokenDrift: 0.1}
	var b strings.Builder
	b.WriteString("offset_seconds,requests_per_second,tokens_in,tokens_out\n")
	for s := int64(0); s < 86_400; s += 600 {
		l := day.At(start.UnixMilli() + 1000*s)
		fmt.Fprintf(&b, "%d,%.3f,%.0f,%.0f\n", s, l.Rate, l.TokensIn, l.TokensOut)
	}
	path := filepath.Join("testdata", "sample_rates.csv")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s is not what the generator makes; run with -update", path)
	}
}

// The sample that is shipped drives the chat model of the demo.
func TestShippedSampleDrivesTheDemo(t *testing.T) {
	t.Parallel()
	driveDemo(t, filepath.Join("testdata", "sample_rates.csv"), "plimsoll", 24*time.Hour)
}

// Public traces are not part of the repository; they are read where they lie beside it.
func TestPublicTracesDriveTheDemo(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("PLIMSOLL_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data", "traces")
	}
	for name, format := range map[string]string{"azure_llm_2023_conv.csv.gz": "azure_llm", "azure_llm_2023_code.csv.gz": "azure_llm", "servegen_rate_10min.csv.gz": "servegen"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, name)
			if _, err := os.Stat(path); err != nil {
				t.Skipf("the public trace %s is not here; set PLIMSOLL_TRACES to its folder", name)
			}
			driveDemo(t, path, format, 24*time.Hour)
		})
	}
}

func driveDemo(t *testing.T, path, format string, d time.Duration) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tr, err := ReadTrace(f, filepath.Base(path), "")
	if err != nil {
		t.Fatal(err)
	}
	if tr.Format != format {
		t.Errorf("format %s", tr.Format)
	}
	l := demoLoop(t, 7, tr.ScaledTo(16))
	l.run(t, d, nil)
	rows, _ := l.World.Score()
	chat := rows[0]
	t.Logf("%s %s: %d rows, %.1f h, scaled mean %.2f/s; chat: %d requests, late %.2f %%, SM %.2f, ready %.1f, up %d down %d", tr.Format, tr.Name, tr.Rows,
		tr.Seconds()/3600, tr.ScaledTo(16).MeanRate(), chat.Count.Arrived, 100*chat.LateRatio, chat.MeanSM, chat.MeanReady, chat.Ups, chat.Downs)
	if chat.Count.Served < 1000 || chat.LateRatio > 0.05 || chat.Ups == 0 {
		t.Errorf("the chat model did not do well: %+v", chat)
	}
}
