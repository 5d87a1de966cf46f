package ledger

import (
	"math"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// Direction of an anomaly. A cost that falls away is one too: work that did not run, or data that did not come.
type Direction string

// Directions of an anomaly.
const (
	DirectionUp   Direction = "up"
	DirectionDown Direction = "down"
)

// Expectation of what a day costs, and how far from it the day was.
type Expectation struct {
	Expected  fleet.Money
	Low, High fleet.Money // what would not have been remarkable
	// Spread is the robust standard deviation of the days it was learned from, at least three hundredths of Expected.
	Spread fleet.Money
	// Days is how many days it was learned from.
	Days int
}

const (
	anomalyDays  = 42 // six weeks
	anomalyLeast = 8  // fewer days say nothing about a usual one
	anomalySigma = 3.5
	anomalyShare = 0.1 // of Expected: less is nobody's business
)

// Expect says what a day should cost by the 42 days before it: the median level, times what its day of the week costs against the median
// once there are three of them. Medians, so that a bad day before does not hide the next. days may be in any order; a day that is missing
// between the first and the last counts as zero. ok is false with fewer than eight days.
func Expect(days []Spend, day time.Time) (e Expectation, ok bool) {
	day = day.UTC().Truncate(24 * time.Hour)
	history := beforeDay(days, day)
	if len(history) < anomalyLeast {
		return e, false
	}
	weekday := func(i int) int { return int(day.AddDate(0, 0, i-len(history)).Weekday()) }
	var of [7][]float64
	for i, v := range history {
		of[weekday(i)] = append(of[weekday(i)], v)
	}
	all := median(history)
	factor := [7]float64{}
	for w := range factor {
		factor[w] = 1
		if len(of[w]) >= 3 && all > 0 {
			factor[w] = max(median(of[w])/all, 0.01)
		}
	}
	levels := make([]float64, len(history))
	for i, v := range history {
		levels[i] = v / factor[weekday(i)]
	}
	level := median(levels)
	off := make([]float64, len(history))
	for i, v := range history {
		off[i] = math.Abs(v - level*factor[weekday(i)])
	}
	expected := level * factor[weekday(len(history))]
	spread := max(1.4826*median(off), 0.03*math.Abs(expected))
	reach := max(anomalySigma*spread, anomalyShare*math.Abs(expected))
	amounts := [4]float64{expected, max(expected-reach, 0), expected + reach, spread}
	var money [4]fleet.Money
	for i, v := range amounts {
		m, err := fleet.MoneyFromFloat(v / fleet.NanosPerUnit)
		if err != nil {
			return e, false
		}
		money[i] = m
	}
	return Expectation{Expected: money[0], Low: money[1], High: money[2], Spread: money[3], Days: len(history)}, true
}

// Judge says whether a day's cost is an anomaly: outside what would not be remarkable, and at least least away from what was expected.
func (e Expectation) Judge(actual, least fleet.Money) (Direction, bool) {
	switch {
	case actual > e.High && actual-e.Expected >= least:
		return DirectionUp, true
	case actual < e.Low && e.Expected-actual >= least:
		return DirectionDown, true
	}
	return "", false
}

// Score is how many spreads a day's cost is from what was expected; negative: under it. Zero where every day cost nothing.
func (e Expectation) Score(actual fleet.Money) float64 {
	if e.Spread <= 0 {
		return 0
	}
	return (actual - e.Expected).Float() / e.Spread.Float()
}

// beforeDay is what each of the days before cost, oldest first, from the first that cost anything.
func beforeDay(days []Spend, day time.Time) []float64 {
	first := day
	oldest := day.AddDate(0, 0, -anomalyDays)
	for _, d := range days {
		if at := d.Day.UTC().Truncate(24 * time.Hour); at.Before(first) && !at.Before(oldest) && d.Amount != 0 {
			first = at
		}
	}
	out := make([]float64, int(day.Sub(first)/(24*time.Hour)))
	for _, d := range days {
		if at := d.Day.UTC().Truncate(24 * time.Hour); !at.Before(first) && at.Before(day) {
			out[int(at.Sub(first)/(24*time.Hour))] += float64(d.Amount)
		}
	}
	return out
}

// median of at least one value; the values stay as they are.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}
