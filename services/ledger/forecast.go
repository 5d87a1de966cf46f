package ledger

import (
	"math"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// HourSpend is what one hour (UTC) cost.
type HourSpend struct {
	Hour   time.Time
	Amount fleet.Money
}

// Forecast of what a period costs by its end.
type Forecast struct {
	Known bool        // false: there is less than three hours to learn from; all figures are then what is spent
	Total fleet.Money // spent and what is still to come
	// Low and High hold eight of ten ends of the back-test; equal to Total while HasBand is false.
	Low, High fleet.Money
	HasBand   bool
	// Error is the mean absolute error of the back-test over the mean of what came, 0..; nil: there was too little to test on.
	Error *float64
	// Origins is from how many earlier moments the back-test forecast, HorizonHours how far.
	Origins      int
	HorizonHours int
	// UsualHour is what an hour like the present one costs.
	UsualHour fleet.Money
}

const (
	levelHours    = 7 * 24 // of which the level is taken: every hour of the week once
	learnHours    = 6 * levelHours
	weightOne     = 1_000_000 // of an hour that costs the mean
	weightLeast   = 1_000
	leastHours    = 3
	mostOrigins   = 28
	testHours     = 7 * 24 // the longest horizon that is tested
	leastOrigins  = 3
	seasonalHours = 48 // less tells nothing about the hours of a day
)

// ForecastSpend extends hours (in any order, those missing cost nothing; the present one counts as spent only) to the period's end: the
// level of the last week, shaped by what each hour of the week costs against the mean. spent is what the period has cost up to now. The
// band comes from doing the same from earlier moments and looking at what came.
func ForecastSpend(hours []HourSpend, spent fleet.Money, now, end time.Time) Forecast {
	s := newSpendSeries(hours, now)
	f := Forecast{Total: spent, Low: spent, High: spent}
	if len(s.amounts) < leastHours {
		return f
	}
	f.Known = true
	rest := max(end.Sub(now), 0)
	ahead, usual := s.ahead(len(s.amounts), s.partial, rest)
	f.UsualHour = usual
	f.Total = f.Total.Add(ahead)
	f.Low, f.High = f.Total, f.Total
	ratios, wrong, came := s.errors(rest)
	if len(ratios) < leastOrigins || came <= 0 {
		return f
	}
	e := wrong / came
	f.Error, f.HasBand, f.Origins, f.HorizonHours = &e, true, len(ratios), int(min(rest, testHours*time.Hour)/time.Hour)
	f.Low = spent.Add(scaled(ahead, 1+min(0, quantileOf(ratios, 0.1))))
	f.High = spent.Add(scaled(ahead, 1+max(0, quantileOf(ratios, 0.9))))
	return f
}

// spendSeries is hours without gaps, the last the one before the present hour.
type spendSeries struct {
	first   time.Time
	amounts []fleet.Money
	partial time.Duration // of the present hour that is over
}

func newSpendSeries(hours []HourSpend, now time.Time) spendSeries {
	now = now.UTC()
	present := now.Truncate(time.Hour)
	s := spendSeries{first: present, partial: now.Sub(present)}
	oldest := present.Add(-learnHours * time.Hour)
	for _, h := range hours {
		if at := h.Hour.UTC().Truncate(time.Hour); at.Before(s.first) && !at.Before(oldest) && h.Amount != 0 {
			s.first = at
		}
	}
	s.amounts = make([]fleet.Money, int(present.Sub(s.first)/time.Hour))
	for _, h := range hours {
		if i := int(h.Hour.UTC().Truncate(time.Hour).Sub(s.first) / time.Hour); !h.Hour.Before(s.first) && i < len(s.amounts) {
			s.amounts[i] = s.amounts[i].Add(h.Amount)
		}
	}
	return s
}

// hourOfWeek of the series' i-th hour: 0 is Monday 00:00 UTC.
func (s *spendSeries) hourOfWeek(i int) int {
	at := s.first.Add(time.Duration(i) * time.Hour)
	return (int(at.Weekday())+6)%7*24 + at.Hour()
}

// weights of the hours of a week, learned from the first n hours; weightOne is the mean. Few weeks say little about an hour of the week:
// it is drawn to the hour of the day, and that to the mean.
func (s *spendSeries) weights(n int) (w [levelHours]int64) {
	var sum, day [levelHours]float64
	var count, days [levelHours]float64
	total := 0.0
	from := max(0, n-learnHours)
	for i := from; i < n; i++ {
		h, v := s.hourOfWeek(i), float64(s.amounts[i])
		sum[h], count[h] = sum[h]+v, count[h]+1
		day[h%24], days[h%24] = day[h%24]+v, days[h%24]+1
		total += v
	}
	mean := total / float64(max(n-from, 1))
	for h := range w {
		w[h] = weightOne
		if n-from < seasonalHours || mean <= 0 {
			continue
		}
		ofDay := (day[h%24]/mean + 1) / (days[h%24] + 1)
		r := (sum[h]/mean + ofDay/2) / (count[h] + 0.5)
		w[h] = int64(math.Round(min(max(r*weightOne, weightLeast), 1000*weightOne)))
	}
	return w
}

// ahead is what comes in the time after the first n hours and a part of the next one, and what that next hour costs as a whole.
func (s *spendSeries) ahead(n int, partial, rest time.Duration) (sum, usual fleet.Money) {
	w := s.weights(n)
	var recent fleet.Money
	var weight int64
	for i := max(0, n-levelHours); i < n; i++ {
		recent = recent.Add(s.amounts[i])
		weight += w[s.hourOfWeek(i)]
	}
	if recent <= 0 || weight == 0 {
		return 0, 0
	}
	var coming int64 // weight x minutes
	left := int64(rest / time.Minute)
	for i, minutes := n, int64((time.Hour-partial)/time.Minute); left > 0; i, minutes = i+1, 60 {
		part := min(minutes, left)
		coming += w[s.hourOfWeek(i)] * part
		left -= part
	}
	return scaledBy(recent, coming, weight*60), scaledBy(recent, w[s.hourOfWeek(n)], weight)
}

// errors of earlier forecasts over the same horizon, at most a week, as share of what was forecast, rising.
func (s *spendSeries) errors(rest time.Duration) (ratios []float64, wrong, came float64) {
	horizon := int(min(rest, testHours*time.Hour) / time.Hour)
	if horizon < 1 {
		return nil, 0, 0
	}
	for k := range mostOrigins {
		n := len(s.amounts) - horizon - 24*k
		if n < seasonalHours {
			break
		}
		guess, _ := s.ahead(n, 0, time.Duration(horizon)*time.Hour)
		actual := 0.0
		for _, a := range s.amounts[n : n+horizon] {
			actual += a.Float()
		}
		wrong, came = wrong+math.Abs(actual-guess.Float()), came+actual
		if guess > 0 {
			ratios = append(ratios, actual/guess.Float()-1)
		}
	}
	slices.Sort(ratios)
	return ratios, wrong, came
}

// quantileOf sorted values, outward: with few values the extremes.
func quantileOf(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	if q < 0.5 {
		return sorted[int(math.Floor(at))]
	}
	return sorted[int(math.Ceil(at))]
}

// scaled multiplies money that is an estimate by a factor from 0 to 1000.
func scaled(m fleet.Money, factor float64) fleet.Money {
	return scaledBy(m, int64(math.Round(min(max(factor, 0), 1000)*weightOne)), weightOne)
}

// scaledBy is m x num / den, at most what money can hold.
func scaledBy(m fleet.Money, num, den int64) fleet.Money {
	if float64(m)*float64(num)/float64(den) > math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return m.MulDiv(num, den)
}

// Pace is what may be spent per hour from now on so that what is left of a budget lasts to the period's end: the even rate, or that of an
// hour like this one when the rest of the period as it is forecast is stretched to fit what is left, whichever is more. Nothing is left: zero.
func Pace(left fleet.Money, spent fleet.Money, f Forecast, now, end time.Time) fleet.Money {
	seconds := int64(end.Sub(now) / time.Second)
	if left <= 0 || seconds <= 0 {
		return 0
	}
	even := scaledBy(left, 3600, max(seconds, 3600))
	ahead := f.Total - spent
	if !f.Known || ahead <= 0 {
		return even
	}
	return max(even, scaled(f.UsualHour, left.Float()/ahead.Float()))
}
