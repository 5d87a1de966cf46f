package replay

import (
	"math"
	"testing"
	"time"
)

func at2(day, hour int) int64 {
	return start.Add(time.Duration(24*day+hour) * time.Hour).UnixMilli()
}

func mean(s Source, from, to int64) float64 {
	sum, n := 0.0, 0
	for ms := from; ms < to; ms += StepMillis {
		sum += s.At(ms).Rate
		n++
	}
	return sum / float64(n)
}

func TestCycleHasDaysAndWeeks(t *testing.T) {
	t.Parallel()
	c := Cycle{Seed: 1, Stream: 1, Low: 2, High: 10, PeakHour: 14, Weekend: 0.5}
	for what, tc := range map[string]struct {
		ms   int64
		want float64
	}{
		"at the peak of a Monday":        {at2(0, 14), 10},
		"at the quietest of a Monday":    {at2(0, 2), 2},
		"halfway":                        {at2(0, 8), 6},
		"at the peak of a Saturday":      {at2(5, 14), 5},
		"at the quietest of a Sunday":    {at2(6, 2), 1},
		"at the peak of the next Monday": {at2(7, 14), 10},
	} {
		if got := c.At(tc.ms).Rate; math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %.3f, want %.3f", what, got, tc.want)
		}
	}
}

func TestNoiseKeepsTheMeanAndBurstsAddTheirShare(t *testing.T) {
	t.Parallel()
	from, to := start.UnixMilli(), start.AddDate(0, 0, 42).UnixMilli()
	flat := Cycle{Seed: 1, Stream: 1, Low: 10, High: 10, Noise: 0.2}
	if got := mean(flat, from, to); math.Abs(got-10) > 0.3 {
		t.Errorf("noise moved the mean from 10 to %.2f", got)
	}
	bursts := Cycle{Seed: 1, Stream: 2, Low: 10, High: 10, BurstsPerDay: 6, BurstHeight: 2, BurstSeconds: 600}
	// Six a day of 600 s, twice the load on top: 10 x (1 + 6 x 600 x 2 / 86400), a little more for the tails.
	if got, want := mean(bursts, from, to), 10*(1+6*660*2/86400.0); math.Abs(got-want) > 0.6 {
		t.Errorf("bursts made the mean %.2f, expected about %.2f", got, want)
	}
	peak := 0.0
	for ms := from; ms < to; ms += 60_000 {
		l := bursts.At(ms)
		if l.Rate < 10-1e-9 || math.IsNaN(l.Rate) {
			t.Fatalf("rate %v", l.Rate)
		}
		peak = math.Max(peak, l.Rate)
	}
	if peak < 40 {
		t.Errorf("the largest burst of six weeks reached %.1f only", peak)
	}
}

func TestStreamsOfOneSeedDiffer(t *testing.T) {
	t.Parallel()
	a, b := Cycle{Seed: 1, Stream: 1, Low: 10, High: 10, Noise: 0.2}, Cycle{Seed: 1, Stream: 2, Low: 10, High: 10, Noise: 0.2}
	same := 0
	for h := range 100 {
		if a.At(at2(0, h)).Rate == b.At(at2(0, h)).Rate {
			same++
		}
	}
	if same > 0 {
		t.Errorf("two streams agree %d times in a hundred hours", same)
	}
}

func TestCronHandsInItsWork(t *testing.T) {
	t.Parallel()
	c := Cron{Seed: 1, Stream: 1, EverySeconds: 4 * 3600, OffsetSeconds: 600, Count: 1000, OverSeconds: 120}
	if r := c.At(at2(0, 0) + 599_000).Rate; r != 0 {
		t.Errorf("%.2f before its time", r)
	}
	if r := c.At(at2(0, 0) + 660_000).Rate; r <= 0 {
		t.Error("nothing while it is due")
	}
	if r := c.At(at2(0, 0) + 721_000).Rate; r != 0 {
		t.Errorf("%.2f after its time", r)
	}
	perDay := mean(c, at2(0, 0), at2(60, 0)) * 86400
	if math.Abs(perDay-6000) > 400 {
		t.Errorf("%.0f a day, want about 6,000", perDay)
	}
	c.SkipWeekends = true
	if m := mean(c, at2(5, 0), at2(7, 0)); m != 0 {
		t.Errorf("%.2f at the weekend", m)
	}
}

func TestSumWeighsTokensByRate(t *testing.T) {
	t.Parallel()
	l := Sum{steady{Rate: 3, TokensIn: 100, TokensOut: 10}, steady{Rate: 1, TokensIn: 500, TokensOut: 50}, steady{}}.At(0)
	if l != (Load{Rate: 4, TokensIn: 200, TokensOut: 20}) {
		t.Errorf("got %+v", l)
	}
	if l := (Sum{steady{TokensIn: 5}}).At(0); l != (Load{}) {
		t.Errorf("no traffic has no tokens: %+v", l)
	}
}

func TestDrawsAreFair(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for _, mean := range []float64{0.05, 0.7, 4, 25, 60, 3000} {
		sum, squares := 0.0, 0.0
		for i := range uint64(n) {
			k := float64(poisson(mean, draw(9, forArrivals, 3, i)))
			sum += k
			squares += k * k
		}
		m := sum / n
		v := squares/n - m*m
		if math.Abs(m-mean) > 5*math.Sqrt(mean/n) || math.Abs(v/mean-1) > 0.06 {
			t.Errorf("Poisson of mean %v: mean %.3f, variance %.3f", mean, m, v)
		}
	}
	if poisson(-1, 5) != 0 || poisson(math.NaN(), 5) != 0 {
		t.Error("no arrivals without a rate")
	}
	seen := map[uint64]bool{}
	for a := range uint64(20) {
		for b := range uint64(20) {
			for c := range uint64(20) {
				seen[draw(1, a, b, c)] = true
			}
		}
	}
	if len(seen) != 8000 {
		t.Errorf("%d different draws of 8,000", len(seen))
	}
}
