package ledger

import (
	"math"
	"math/rand"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// office is weeks of hours that cost 10 from 08:00 to 20:00 on working days and 2 else.
func office(weeks int) []HourSpend {
	var out []HourSpend
	for i := range weeks * 168 {
		at := monday.Add(time.Duration(i) * time.Hour)
		v := fleet.Money(2)
		if d := at.Weekday(); d != time.Saturday && d != time.Sunday && at.Hour() >= 8 && at.Hour() < 20 {
			v = 10
		}
		out = append(out, HourSpend{at, v * fleet.NanosPerUnit})
	}
	return out
}

func sumOf(hours []HourSpend) (m fleet.Money) {
	for _, h := range hours {
		m = m.Add(h.Amount)
	}
	return m
}

func TestAForecastKnowsTheHoursOfTheWeek(t *testing.T) {
	t.Parallel()
	hours := office(8)
	for _, c := range []struct {
		name     string
		now, end int // hours after the first Monday
		within   float64
	}{
		{"a working day's morning to its end", 5*168 + 8, 5*168 + 24, 0.12},
		{"Friday evening over the weekend", 5*168 + 4*24 + 20, 6 * 168, 0.2},
		{"a week", 5 * 168, 6 * 168, 0.01},
		{"half an hour ahead of noon", 6*168 + 12, 6*168 + 13, 0.15},
	} {
		now, end := monday.Add(time.Duration(c.now)*time.Hour), monday.Add(time.Duration(c.end)*time.Hour)
		f := ForecastSpend(hours[:c.now], 0, now, end)
		want := sumOf(hours[c.now:c.end]).Float()
		if off := math.Abs(f.Total.Float()/want - 1); !f.Known || off > c.within {
			t.Errorf("%s: forecast %s, came %.2f, off by %.3f", c.name, f.Total, want, off)
		}
		if !f.HasBand || *f.Error > 0.3 || f.Low > f.Total || f.High < f.Total {
			t.Errorf("%s: band %s to %s, error %v from %d origins", c.name, f.Low, f.High, f.Error, f.Origins)
		}
	}
}

// The band is made of what happened, so that it holds about eight of ten ends of noise like that before.
func TestTheBandHoldsMostOfWhatComes(t *testing.T) {
	t.Parallel()
	held, total := 0, 0
	for seed := range int64(60) {
		r := rand.New(rand.NewSource(seed))
		hours := office(8)
		drift := 0.0
		for i := range hours {
			if i%24 == 0 {
				drift = 0.7*drift + 0.12*r.NormFloat64()
			}
			hours[i].Amount = fleet.Money(float64(hours[i].Amount) * math.Exp(drift+0.1*r.NormFloat64()))
		}
		now := 6 * 168
		f := ForecastSpend(hours[:now], 0, hours[now].Hour, hours[now].Hour.AddDate(0, 0, 3))
		came := sumOf(hours[now : now+72])
		total++
		if came >= f.Low && came <= f.High {
			held++
		}
	}
	t.Logf("%d of %d ends lie within the band", held, total)
	if held < total*6/10 {
		t.Errorf("only %d of %d ends lie within the band", held, total)
	}
}

func TestTooLittleToForecastIsSaid(t *testing.T) {
	t.Parallel()
	f := ForecastSpend(office(1)[:2], 7, monday.Add(2*time.Hour), monday.AddDate(0, 1, 0))
	if f.Known || f.Total != 7 || f.HasBand || f.Error != nil {
		t.Errorf("two hours gave %+v", f)
	}
	f = ForecastSpend(office(1)[:20], 7, monday.Add(20*time.Hour), monday.AddDate(0, 1, 0))
	if !f.Known || f.HasBand || f.Error != nil {
		t.Errorf("twenty hours have a band: %+v", f)
	}
}

func drawHours(t *rapid.T) ([]HourSpend, time.Time) {
	n := rapid.IntRange(0, 900).Draw(t, "hours")
	top := rapid.Int64Range(0, 1e12).Draw(t, "top")
	r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
	out := make([]HourSpend, 0, n)
	for i := range n {
		if r.Intn(20) > 0 {
			out = append(out, HourSpend{monday.Add(time.Duration(i) * time.Hour), fleet.Money(r.Int63n(top + 1))})
		}
	}
	return out, monday.Add(time.Duration(n)*time.Hour + time.Duration(rapid.IntRange(0, 59).Draw(t, "minutes"))*time.Minute)
}

func TestAForecastIsNeverUnderWhatIsSpentAndDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hours, now := drawHours(t)
		spent := fleet.Money(rapid.Int64Range(0, 1e13).Draw(t, "spent"))
		end := now.Add(time.Duration(rapid.IntRange(0, 800).Draw(t, "rest")) * time.Hour)
		f := ForecastSpend(hours, spent, now, end)
		if f.Total < spent || f.Low < spent || f.Low > f.Total || f.High < f.Total || f.UsualHour < 0 {
			t.Fatalf("spent %s: %+v", spent, f)
		}
		if f.Error != nil && (math.IsNaN(*f.Error) || *f.Error < 0) {
			t.Fatalf("error %v", *f.Error)
		}
		r := rand.New(rand.NewSource(1))
		r.Shuffle(len(hours), func(i, j int) { hours[i], hours[j] = hours[j], hours[i] })
		if g := ForecastSpend(hours, spent, now, end); g.Total != f.Total || g.Low != f.Low || g.High != f.High {
			t.Fatalf("another order gives %+v, not %+v", g, f)
		}
		later := ForecastSpend(hours, spent, now, end.Add(time.Hour))
		if later.Total < f.Total {
			t.Fatalf("an hour more costs less: %s, %s", later.Total, f.Total)
		}
	})
}

func TestAnEvenRateGoesOn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, rest := rapid.IntRange(3, 1000).Draw(t, "hours"), rapid.IntRange(0, 700).Draw(t, "rest")
		v := fleet.Money(rapid.Int64Range(1, 1e12).Draw(t, "rate"))
		var hours []HourSpend
		for i := range n {
			hours = append(hours, HourSpend{monday.Add(time.Duration(i) * time.Hour), v})
		}
		now := monday.Add(time.Duration(n) * time.Hour)
		f := ForecastSpend(hours, 0, now, now.Add(time.Duration(rest)*time.Hour))
		want := v * fleet.Money(rest)
		if off := magnitude(f.Total - want); off > want/100_000+1 {
			t.Fatalf("%d hours of %s are forecast as %s", rest, v, f.Total)
		}
	})
}

func TestAPaceThatIsKeptLeavesTheBudgetWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		left := fleet.Money(rapid.Int64Range(-1e12, 1e15).Draw(t, "left"))
		hours := rapid.IntRange(1, 700).Draw(t, "hours")
		now := monday
		p := Pace(left, 0, Forecast{}, now, now.Add(time.Duration(hours)*time.Hour))
		if left <= 0 && p != 0 {
			t.Fatalf("nothing is left and the pace is %s", p)
		}
		if left > 0 && p.MulDiv(int64(hours), 1) > left+fleet.Money(hours) {
			t.Fatalf("%d hours at %s cost more than %s", hours, p, left)
		}
	})
	// A busy hour may cost more than the even rate where the forecast says that quiet ones follow.
	f := Forecast{Known: true, Total: 100, UsualHour: 10}
	if p := Pace(50, 0, f, monday, monday.Add(20*time.Hour)); p != 5 {
		t.Errorf("half of the forecast is left: an hour that costs 10 may cost %d, want 5", p)
	}
}

func TestAnomaliesGoBothWaysAndSurviveABadDayBefore(t *testing.T) {
	t.Parallel()
	var days []Spend
	for i := range 40 {
		v := fleet.Money(100)
		if d := monday.AddDate(0, 0, i).Weekday(); d == time.Saturday || d == time.Sunday {
			v = 40
		}
		if i == 33 {
			v = 900
		}
		days = append(days, Spend{monday.AddDate(0, 0, i), (v + fleet.Money(i%3)) * fleet.NanosPerUnit})
	}
	for _, c := range []struct {
		name   string
		day    int
		amount fleet.Money
		want   Direction
	}{
		{"a Saturday like a working day", 40, 101, DirectionUp},
		{"a usual Saturday", 40, 41, ""},
		{"nothing ran on Monday", 42, 0, DirectionDown},
		{"twice the usual Monday", 42, 210, DirectionUp},
		{"a usual Monday", 42, 100, ""},
	} {
		e, ok := Expect(days, monday.AddDate(0, 0, c.day))
		if !ok {
			t.Fatal("no expectation of forty days")
		}
		got, _ := e.Judge(c.amount*fleet.NanosPerUnit, fleet.NanosPerUnit)
		if got != c.want {
			t.Errorf("%s: %q, want %q (%s, %s to %s)", c.name, got, c.want, e.Expected, e.Low, e.High)
		}
	}
	if _, ok := Expect(days[:7], monday.AddDate(0, 0, 7)); ok {
		t.Error("seven days are taken for a rule")
	}
}

func TestDaysThatAreAlikeAreNoAnomaly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(8, 60).Draw(t, "days")
		v := fleet.Money(rapid.Int64Range(0, 1e15).Draw(t, "amount"))
		var days []Spend
		for i := range n {
			days = append(days, Spend{monday.AddDate(0, 0, i), v})
		}
		day := monday.AddDate(0, 0, n)
		e, ok := Expect(days, day)
		if !ok {
			if v != 0 {
				t.Fatalf("no expectation of %d days", n)
			}
			return
		}
		if d, odd := e.Judge(v, 0); odd {
			t.Fatalf("the same again is %s: %+v", d, e)
		}
		if e.Low > e.Expected || e.High < e.Expected || e.Low < 0 {
			t.Fatalf("%+v", e)
		}
	})
}
